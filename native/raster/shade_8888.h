// Rows of a target of 8-bit components, with no texture or one like it: everything stays in registers.
// Included by shade_kernel.h alone.

// Bit positions of red and blue in a pixel.
struct order {
    uint32_t red, blue;
};

static inline struct order order_of(const struct vks_image *image)
{
    bool bgra = image->format == VKS_FORMAT_BGRA8_UNORM;
    return (struct order){bgra ? 16 : 0, bgra ? 0 : 16};
}

static inline F component(U pixels, uint32_t shift) { return to_float((I)(pixels >> shift & 255u)); }

struct pixels {
    F c[4]; // red, green, blue, alpha in 0..255
};

static inline struct pixels split(U p, struct order order)
{
    F alpha = to_float((I)(p >> 24));
    return (struct pixels){{component(p, order.red), component(p, 8), component(p, order.blue), alpha}};
}

static inline void mix(struct pixels *to, const struct pixels *from, F weight)
{
    EACH_COMPONENT(c)
    to->c[c] += (from->c[c] - to->c[c]) * weight;
}

// Copies of fields that the compiler would otherwise read again after each store to the target.
struct sampler {
    const uint8_t *pixels;
    int32_t pitch; // pixels from row to row
    float width, height;
    struct order order;
};

static inline struct sampler sampler_of(const struct vks_image *texture)
{
    return (struct sampler){texture->pixels, (int32_t)(texture->stride / 4), (float)texture->width,
                            (float)texture->height, order_of(texture)};
}

static inline struct pixels texels(const struct sampler *s, I x, I y)
{
    return split(GATHER(s->pixels, y * s->pitch + x), s->order);
}

static inline void modulate(const struct sampler *s, F u, F v, bool linear, F colour[4])
{
    struct taps x = find_taps(u, s->width, linear), y = find_taps(v, s->height, linear);
    struct pixels texel = texels(s, x.first, y.first);
    if (linear) {
        struct pixels right = texels(s, x.second, y.first);
        struct pixels below = texels(s, x.first, y.second);
        struct pixels corner = texels(s, x.second, y.second);
        mix(&texel, &right, x.weight);
        mix(&below, &corner, x.weight);
        mix(&texel, &below, y.weight);
    }
    EACH_COMPONENT(c)
    colour[c] *= texel.c[c] * splat(1.0f / 255.0f);
}

// round(s * 255 + d * keep) in the low byte: adding 2^23 leaves the integer in the mantissa.
static inline U blend_component(F s, F d, F keep)
{
    F sum = MIN(s * splat(255.0f) + d * keep, splat(255.0f)) + splat(8388608.0f);
    return (U)sum & 255u;
}

static inline void blend(struct order order, const F source[4], uint8_t *p, uint32_t n)
{
    F s[4];
    EACH_COMPONENT(c)
    s[c] = MAX(source[c], splat(0.0f)); // above 1, the sum is above 255 anyhow
    F keep = splat(1.0f) - MIN(s[3], splat(1.0f));
    struct pixels d = split((U)LOAD(p, n), order);
    U out = blend_component(s[0], d.c[0], keep) << order.red | blend_component(s[1], d.c[1], keep) << 8 |
            blend_component(s[2], d.c[2], keep) << order.blue | blend_component(s[3], d.c[3], keep) << 24;
    STORE(p, out, n);
}

// The arguments for drawing rows of spans.
struct rows {
    const struct vks_draw *draw;
    const struct vks_triangle *triangle;
    int32_t y, count;
    const struct vks_span *spans;
};

enum texturing { NO_TEXTURE, NEAREST, LINEAR };

static inline __attribute__((always_inline)) void varying_rows(const struct rows *rows, bool perspective,
                                                               enum texturing texturing)
{
    const struct vks_image *target = rows->draw->target;
    const struct vks_triangle *t = rows->triangle;
    struct order order = order_of(target);
    struct sampler sampler = texturing == NO_TEXTURE ? (struct sampler){0} : sampler_of(rows->draw->texture);
    size_t stride = target->stride;
    uint8_t *row = (uint8_t *)target->pixels + (size_t)rows->y * stride;
    for (int32_t r = 0; r < rows->count; r++, row += stride) {
        struct vks_span span = rows->spans[r];
        uint8_t *p = row + 4 * (size_t)span.x;
        struct ramps ramps = ramps_at(t, span.x, rows->y + r);
        F index = lane_numbers();
        for (; span.count > 0; span.count -= LANES, p += 4 * LANES, index += splat(LANES)) {
            F w = unprojection(&ramps, perspective, index), colour[4];
            vertex_colour(t, &ramps, perspective, w, index, colour);
            if (texturing != NO_TEXTURE)
                modulate(&sampler, interpolate(&ramps, VKS_U, perspective, w, index),
                         interpolate(&ramps, VKS_V, perspective, w, index), texturing == LINEAR, colour);
            blend(order, colour, p, span.count < LANES ? (uint32_t)span.count : LANES);
        }
    }
}

static void plain_rows(const struct rows *rows)
{
    if (rows->triangle->perspective)
        varying_rows(rows, true, NO_TEXTURE);
    else
        varying_rows(rows, false, NO_TEXTURE);
}

static void nearest_rows(const struct rows *rows)
{
    if (rows->triangle->perspective)
        varying_rows(rows, true, NEAREST);
    else
        varying_rows(rows, false, NEAREST);
}

static void linear_rows(const struct rows *rows)
{
    if (rows->triangle->perspective)
        varying_rows(rows, true, LINEAR);
    else
        varying_rows(rows, false, LINEAR);
}

// d = s + d * (1 - s.a) in 16 bits a component, as over.h does with an opacity.
static inline U blend_flat(H d, H even_source, H odd_source, H keep)
{
    H even = d & 255, odd = d >> 8;
    even = ADD_SATURATED(even_source, MULTIPLY_HIGH(even | even << 8, keep));
    odd = ADD_SATURATED(odd_source, MULTIPLY_HIGH(odd | odd << 8, keep));
    even = (even - (even >> 8) + 128) >> 8;
    odd = (odd - (odd >> 8) + 128) & 0xff00;
    return (U)(even | odd);
}

// One colour and no texture.
static void flat_rows(const struct rows *rows)
{
    const struct vks_image *target = rows->draw->target;
    struct order order = order_of(target);
    uint32_t s[4];
    for (int c = 0; c < 4; c++)
        s[c] = vks_to_unorm(rows->triangle->colour[c], 65535.0f);
    uint32_t low = order.red == 0 ? s[VKS_RED] : s[VKS_BLUE], high = order.red == 0 ? s[VKS_BLUE] : s[VKS_RED];
    H even = (H)((U){0} + (low | high << 16)), odd = (H)((U){0} + (s[VKS_GREEN] | s[VKS_ALPHA] << 16));
    H keep = (H){0} + (uint16_t)(65535 - s[VKS_ALPHA]);
    size_t stride = target->stride;
    uint8_t *row = (uint8_t *)target->pixels + (size_t)rows->y * stride;
    for (int32_t r = 0; r < rows->count; r++, row += stride) {
        uint8_t *p = row + 4 * (size_t)rows->spans[r].x;
        uint32_t n = (uint32_t)rows->spans[r].count;
        for (; n > LANES; n -= LANES, p += 4 * LANES)
            STORE(p, blend_flat((H)LOAD(p, LANES), even, odd, keep), LANES);
        STORE(p, blend_flat((H)LOAD(p, n), even, odd, keep), n);
    }
}

static void rows_8888(const struct rows *rows)
{
    if (rows->draw->texture != NULL && rows->draw->filter == VKS_FILTER_LINEAR)
        linear_rows(rows);
    else if (rows->draw->texture != NULL)
        nearest_rows(rows);
    else if (rows->triangle->flat)
        flat_rows(rows);
    else
        plain_rows(rows);
}
