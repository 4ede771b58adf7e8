// vkCmdBlitImage by exact integers: target pixel x reads u = (x + 1/2 - target0) * source_size / target_size + source0. Drivers'
// own blits interpolate u, and take the neighbour where u lies on an edge between two texels; and they convert formats each
// in its own way. Here both are the CPU rasterizer's, to the bit where the filter is nearest.
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

// Quotient and remainder of a division that rounds down; divisor > 0.
int floor_divide(int dividend, int divisor, out int remainder)
{
    int quotient = dividend / divisor;
    remainder = dividend - quotient * divisor;
    if (remainder < 0) {
        remainder += divisor;
        quotient -= 1;
    }
    return quotient;
}

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

// As the rasterizer mixes, operation by operation.
vec4 lerp(vec4 from, vec4 to, float weight)
{
    precise vec4 mixed = from + (to - from) * weight;
    return mixed;
}

void main()
{
    // u = source0 + (2 * (x - target0) + 1) * source_size / (2 * target_size): at most 65535 * 32768, which fits.
    ivec2 dividend = (2 * (ivec2(gl_FragCoord.xy) - push.target0) + 1) * push.source_size;
    ivec2 divisor = 2 * push.target_size;
    if (IS_LINEAR)
        dividend -= push.target_size; // texel centres are at one half
    ivec2 remainder;
    ivec2 at = push.source0 + ivec2(floor_divide(dividend.x, divisor.x, remainder.x),
                                    floor_divide(dividend.y, divisor.y, remainder.y));
    vec4 value = texel(at);
    if (IS_LINEAR) {
        vec2 weight = vec2(remainder) / vec2(divisor);
        vec4 above = lerp(value, texel(at + ivec2(1, 0)), weight.x);
        vec4 below = lerp(texel(at + ivec2(0, 1)), texel(at + ivec2(1, 1)), weight.x);
        value = lerp(above, below, weight.y);
    }
    colour = storable(value);
}
