// Y'CbCr in planes to R'G'B' (native/raster/ycbcr.h): chroma is interpolated linearly to the luma's texels (Vulkan 16.3.8).
// The includer has `source`, the luma, at binding 0, and `push.planes`.

layout(set = 0, binding = 2) uniform sampler2D chroma; // Cb and Cr, or Cb alone
layout(set = 0, binding = 3) uniform sampler2D chroma_red;

float code_of(float stored)
{
    return push.planes.shape.w > 8 ? floor(roundEven(stored * 65535.0) / 64.0) : roundEven(stored * 255.0);
}

vec2 chroma_of(ivec2 at)
{
    at = clamp(at, ivec2(0), textureSize(chroma, 0) - 1);
    vec2 stored = texelFetch(chroma, at, 0).rg;
    if (push.planes.shape.z == 0)
        stored.g = texelFetch(chroma_red, at, 0).r;
    return vec2(code_of(stored.r), code_of(stored.g));
}

void find_tap(int at, int shift, bool is_cosited, out int near, out int far, out float weight)
{
    bool is_odd = (at & 1) == 1;
    near = at >> shift;
    far = is_odd ? near + 1 : near - 1;
    weight = shift == 0 || (is_cosited && !is_odd) ? 0.0 : is_cosited ? 0.5 : 0.25;
}

vec4 planes_texel(ivec2 at)
{
    at = clamp(at, ivec2(0), textureSize(source, 0) - 1);
    ivec2 near, far;
    vec2 weight;
    find_tap(at.x, push.planes.shape.x, push.planes.red.w > 0.0, near.x, far.x, weight.x);
    find_tap(at.y, push.planes.shape.y, push.planes.bias.w > 0.0, near.y, far.y, weight.y);
    vec2 above = mix(chroma_of(near), chroma_of(ivec2(far.x, near.y)), weight.x);
    vec2 below = mix(chroma_of(ivec2(near.x, far.y)), chroma_of(far), weight.x);
    vec2 codes = mix(above, below, weight.y);
    float luma = code_of(texelFetch(source, at, 0).r);
    vec3 rgb = luma * push.planes.blue.w + codes.x * push.planes.blue.rgb + codes.y * push.planes.red.rgb;
    return vec4(clamp(rgb + push.planes.bias.rgb, 0.0, 1.0), 1.0);
}
