// Source-over: the blend unit, which takes premultiplied colours, adds target * (1 - alpha).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "srgb.glsl"

layout(constant_id = 0) const bool DECODES = false; // the source holds sRGB codes, seen through a UNORM view

layout(constant_id = 1) const bool STRAIGHT = false; // the source's colours are not multiplied by its alpha yet

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    ivec2 at;      // the source's top left, in target pixels
    float opacity; // 0..1
} push;

layout(location = 0) out vec4 colour;

void main()
{
    vec4 value = texelFetch(source, ivec2(gl_FragCoord.xy) - push.at, 0);
    if (DECODES)
        value.rgb = vec3(srgb_to_linear(value.r), srgb_to_linear(value.g), srgb_to_linear(value.b));
    if (STRAIGHT)
        value.rgb *= value.a;
    colour = value * push.opacity;
}
