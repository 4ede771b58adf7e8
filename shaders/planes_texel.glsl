// Y'CbCr in planes to R'G'B' (native/raster/ycbcr.h): chroma is interpolated linearly to the luma's texels (Vulkan 16.3.8).
// The includer has `source`, the luma, at binding 0, and `push.planes`.

layout(set = 0, binding = 2) uniform sampler2D chroma; // Cb and Cr, or Cb alone
layout(set = 0, binding = 3) uniform sampler2D chroma_red;

// The lower bits of a word do not count.
vec2 high_codes(vec2 stored)
{
    return floor(roundEven(stored * 65535.0) / 64.0);
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
    far = clamp(far, ivec2(0), textureSize(chroma, 0) - 1);
    ivec2 right = ivec2(far.x, near.y), under = ivec2(near.x, far.y);
    vec2 a = texelFetch(chroma, near, 0).rg, b = texelFetch(chroma, right, 0).rg;
    vec2 c = texelFetch(chroma, under, 0).rg, d = texelFetch(chroma, far, 0).rg;
    if (push.planes.shape.z == 0) {
        a.g = texelFetch(chroma_red, near, 0).r;
        b.g = texelFetch(chroma_red, right, 0).r;
        c.g = texelFetch(chroma_red, under, 0).r;
        d.g = texelFetch(chroma_red, far, 0).r;
    }
    float luma = texelFetch(source, at, 0).r, most = 255.0;
    if (push.planes.shape.w > 8) {
        luma = high_codes(vec2(luma)).x;
        a = high_codes(a);
        b = high_codes(b);
        c = high_codes(c);
        d = high_codes(d);
        most = 1.0;
    }
    vec2 codes = mix(mix(a, b, weight.x), mix(c, d, weight.x), weight.y);
    vec3 rgb = luma * push.planes.blue.w + codes.x * push.planes.blue.rgb + codes.y * push.planes.red.rgb;
    return vec4(clamp(rgb * most + push.planes.bias.rgb, 0.0, 1.0), 1.0);
}
