// vkCmdBlitImage by exact integers: target pixel x reads u = (x + 1/2 - target0) * source_size / target_size + source0. Drivers'
// own blits interpolate u, and take the neighbour where u lies on an edge between two texels; and they convert formats each
// in its own way. Here both are the CPU rasterizer's, to the bit where the filter is nearest.
//
// The includer has the rectangles in its push constants, and texel(), a texel of the source, clamped to its edge.

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

// As the rasterizer mixes, operation by operation.
vec4 lerp(vec4 from, vec4 to, float weight)
{
    precise vec4 mixed = from + (to - from) * weight;
    return mixed;
}

// The value for a pixel of the target.
vec4 blitted(ivec2 pixel, bool is_linear)
{
    // u = source0 + (2 * (x - target0) + 1) * source_size / (2 * target_size): at most 65535 * 32768, which fits.
    ivec2 dividend = (2 * (pixel - push.target0) + 1) * push.source_size;
    ivec2 divisor = 2 * push.target_size;
    if (is_linear)
        dividend -= push.target_size; // texel centres are at one half
    ivec2 remainder;
    ivec2 at = push.source0 + ivec2(floor_divide(dividend.x, divisor.x, remainder.x),
                                    floor_divide(dividend.y, divisor.y, remainder.y));
    vec4 value = texel(at);
    if (is_linear) {
        vec2 weight = vec2(remainder) / vec2(divisor);
        vec4 above = lerp(value, texel(at + ivec2(1, 0)), weight.x);
        vec4 below = lerp(texel(at + ivec2(0, 1)), texel(at + ivec2(1, 1)), weight.x);
        value = lerp(above, below, weight.y);
    }
    return value;
}
