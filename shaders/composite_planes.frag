// composite.frag with a source in planes, which is opaque.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "planes.glsl"
#include "srgb.glsl"

layout(constant_id = 0) const bool DECODES = false; // the target blends in linear light

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    ivec2 at;
    float opacity;
    layout(offset = 64) Planes planes;
} push;

#include "planes_texel.glsl"

layout(location = 0) out vec4 colour;

void main()
{
    vec4 value = planes_texel(ivec2(gl_FragCoord.xy) - push.at);
    if (DECODES)
        value.rgb = vec3(srgb_to_linear(value.r), srgb_to_linear(value.g), srgb_to_linear(value.b));
    colour = value * push.opacity;
}
