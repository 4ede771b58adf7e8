// A blit of a source in planes to colours: blit.glsl has the places.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "planes.glsl"

layout(constant_id = 0) const bool IS_LINEAR = false;

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    ivec2 source0;
    ivec2 source_size;
    ivec2 target0;
    ivec2 target_size;
    layout(offset = 64) Planes planes;
} push;

#include "planes_texel.glsl"

layout(location = 0) out vec4 colour;

vec4 texel(ivec2 at)
{
    return planes_texel(at);
}

#include "blit.glsl"

void main()
{
    colour = blitted(ivec2(gl_FragCoord.xy), IS_LINEAR);
}
