// A blit: blit.glsl has the places, and here are the formats.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "srgb.glsl"

layout(constant_id = 0) const bool IS_LINEAR = false;    // the filter
layout(constant_id = 1) const bool DECODES = false;      // the source holds sRGB codes, seen through a UNORM view
layout(constant_id = 2) const bool ENCODES = false;      // the target wants them
layout(constant_id = 3) const bool WRITES_HALVES = false; // drivers round towards zero, the rasterizer to nearest even

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    ivec2 source0;
    ivec2 source_size; // negative: mirrored
    ivec2 target0;
    ivec2 target_size; // positive
    vec4 source_levels; // the largest code of each component; 0 for floats
    vec4 target_levels;
} push;

layout(location = 0) out vec4 colour;

// A texel of the source, clamped to its edge, converted from its code by division: drivers multiply by a reciprocal.
vec4 texel(ivec2 at)
{
    vec4 value = texelFetch(source, clamp(at, ivec2(0), textureSize(source, 0) - 1), 0);
    if (push.source_levels.x > 0.0)
        value = roundEven(value * push.source_levels) / push.source_levels;
    if (DECODES)
        value.rgb = vec3(srgb_to_linear(value.r), srgb_to_linear(value.g), srgb_to_linear(value.b));
    return value;
}

#include "blit.glsl"

// Rounds to what a half can hold, to nearest even.
float nearest_half(float value)
{
    uint bits = floatBitsToUint(value);
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) // infinity, NaN
        return value;
    if (magnitude >= 0x477ff000u) { // 65520: halfway from the largest half to the next step
        magnitude = 0x7f800000u;
    } else if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24, which is 0.5's last place
        precise float shifted = uintBitsToFloat(magnitude) + 0.5;
        precise float small = shifted - 0.5;
        magnitude = floatBitsToUint(small);
    } else {
        magnitude = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & ~0x1fffu;
    }
    return uintBitsToFloat(bits & 0x80000000u | magnitude);
}

// The float that the target's format holds exactly, so that no driver has to round.
vec4 storable(vec4 value)
{
    if (WRITES_HALVES)
        return vec4(nearest_half(value.r), nearest_half(value.g), nearest_half(value.b), nearest_half(value.a));
    if (push.target_levels.x == 0.0)
        return value;
    value = mix(vec4(0.0), min(value, vec4(1.0)), greaterThan(value, vec4(0.0))); // NaN to 0
    vec4 rounded = roundEven(value * push.target_levels) / push.target_levels;
    if (ENCODES)
        rounded.rgb = vec3(linear_to_srgb(value.r), linear_to_srgb(value.g), linear_to_srgb(value.b));
    return rounded;
}

void main()
{
    colour = storable(blitted(ivec2(gl_FragCoord.xy), IS_LINEAR));
}
