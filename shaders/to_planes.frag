// A blit of colours to a plane: luma of a pixel, or chroma of the mean of those that it is for (native/raster/ycbcr.h).
#version 450
#extension GL_GOOGLE_include_directive : require

layout(constant_id = 0) const bool IS_LINEAR = false;

layout(set = 0, binding = 0) uniform sampler2D source;

layout(push_constant) uniform Push {
    ivec2 source0;
    ivec2 source_size;
    ivec2 target0; // in pixels of luma
    ivec2 target_size;
    layout(offset = 64) vec4 weight; // of R, G and B in luma
    vec4 levels;                     // luma: the code of 0, and codes from there to 1; chroma likewise
    vec4 chroma;                     // factors of B - Y' and R - Y'; 1 where it lies in the first column, the first row
    ivec4 shape;                     // log2 of columns and rows; 0: luma, 1: pairs, 2: Cb, 3: Cr; bits
} push;

layout(location = 0) out vec4 colour;

vec4 texel(ivec2 at)
{
    return texelFetch(source, clamp(at, ivec2(0), textureSize(source, 0) - 1), 0);
}

#include "blit.glsl"

vec3 colour_at(ivec2 pixel)
{
    ivec2 last = push.target0 + push.target_size - 1;
    return clamp(blitted(clamp(pixel, push.target0, last), IS_LINEAR).rgb, 0.0, 1.0);
}

// The mean along a row: of one pixel, of two, or of three, of which the middle one counts twice.
vec3 mean_at(ivec2 pixel)
{
    vec3 here = colour_at(pixel);
    if (push.shape.x == 0)
        return here;
    vec3 next = colour_at(pixel + ivec2(1, 0));
    if (push.chroma.z == 0.0)
        return (here + next) * 0.5;
    return here * 0.5 + (colour_at(pixel - ivec2(1, 0)) + next) * 0.25;
}

// The float of a code, in the upper bits of a word where it has more than 8.
float stored(float code)
{
    float most = float((1 << push.shape.w) - 1);
    code = roundEven(clamp(code, 0.0, most));
    return push.shape.w > 8 ? code * 64.0 / 65535.0 : code / 255.0;
}

void main()
{
    ivec2 pixel = ivec2(gl_FragCoord.xy);
    if (push.shape.z == 0) {
        colour = vec4(stored(push.levels.x + push.levels.y * dot(colour_at(pixel), push.weight.rgb)));
        return;
    }
    pixel <<= push.shape.xy;
    vec3 mean = mean_at(pixel);
    if (push.shape.y == 1) {
        vec3 below = mean_at(pixel + ivec2(0, 1));
        if (push.chroma.w == 0.0)
            mean = (mean + below) * 0.5;
        else
            mean = mean * 0.5 + (mean_at(pixel - ivec2(0, 1)) + below) * 0.25;
    }
    float luma = dot(mean, push.weight.rgb);
    vec2 codes = push.levels.z + push.levels.w * (mean.br - luma) * push.chroma.xy;
    vec2 both = vec2(stored(codes.x), stored(codes.y));
    colour = vec4(push.shape.z == 3 ? both.yx : both, 0.0, 1.0);
}
