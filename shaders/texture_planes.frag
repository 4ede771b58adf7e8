// texture.frag with a texture in planes: what is filtered are its colours.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "planes.glsl"
#include "srgb.glsl"

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    int is_linear; // the filter
    int decodes;   // the target blends in linear light
    layout(offset = 64) Planes planes;
} push;

#include "planes_texel.glsl"

layout(location = 0) in vec4 vertex_colour;
layout(location = 1) in vec2 uv;

layout(location = 0) out vec4 colour;

vec4 texel(ivec2 at)
{
    vec4 value = planes_texel(at);
    if (push.decodes != 0)
        value.rgb = vec3(srgb_to_linear(value.r), srgb_to_linear(value.g), srgb_to_linear(value.b));
    return value;
}

void main()
{
    vec2 at = uv * vec2(textureSize(source, 0));
    if (push.is_linear == 0) {
        colour = texel(ivec2(floor(at))) * vertex_colour;
        return;
    }
    at -= 0.5;
    ivec2 first = ivec2(floor(at));
    vec2 weight = at - vec2(first);
    vec4 above = mix(texel(first), texel(first + ivec2(1, 0)), weight.x);
    vec4 below = mix(texel(first + ivec2(0, 1)), texel(first + ivec2(1, 1)), weight.x);
    colour = mix(above, below, weight.y) * vertex_colour;
}
