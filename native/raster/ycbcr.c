#include "raster/ycbcr.h"

#include "raster/vec4.h"
#include "raster/ycbcr_kernel.h"

#define CHUNK 256u // pixels of luma: what is between the steps stays in the first-level cache
#define FIXED 19   // bits of the sums' fractions: ycbcr_vector.h shifts by as many

// ---- what the codes mean --------------------------------------------------------------------------------------------

// The weights of R and B in luma, for each of H.273's matrices.
static bool weights_of(uint8_t matrix, double *red, double *blue)
{
    switch (matrix) {
    case VKS_MATRIX_BT709:
        *red = 0.2126, *blue = 0.0722;
        return true;
    case VKS_MATRIX_BT601:
        *red = 0.299, *blue = 0.114;
        return true;
    case VKS_MATRIX_BT2020:
        *red = 0.2627, *blue = 0.0593;
        return true;
    default:
        return false;
    }
}

// Codes of a component: the one that is 0, and as many as are from there to 1.
struct levels {
    double zero, span;
};

static void find_levels(int bits, uint8_t range, struct levels *luma, struct levels *chroma)
{
    double step = (double)(1 << (bits - 8)), most = (double)((1 << bits) - 1);
    *luma = range == VKS_RANGE_FULL ? (struct levels){0, most} : (struct levels){16 * step, 219 * step};
    *chroma = (struct levels){128 * step, range == VKS_RANGE_FULL ? most : 224 * step};
}

static int32_t rounded(double v) { return (int32_t)(v < 0 ? v - 0.5 : v + 0.5); }

static int32_t pair(int32_t low, int32_t high)
{
    return (int32_t)((uint32_t)low & 0xffff) | (int32_t)((uint32_t)high << 16);
}

static void find_factors(struct vks_ycbcr *out, double red, double blue, struct levels luma, struct levels chroma)
{
    double unit = out->format->bits > 8 ? 16 : 64; // of a code
    double green = 1 - red - blue;
    double cb[3] = {0, -2 * blue * (1 - blue) / green, 2 * (1 - blue)};
    double cr[3] = {2 * (1 - red), -2 * red * (1 - red) / green, 0};
    double scale = 255.0 * (1 << FIXED);
    out->codes.luma = rounded(scale / (luma.span * unit));
    out->floats.luma = (float)(1 / (luma.span * unit));
    out->back = (struct vks_ycbcr_back){
        .weight = {(float)red, (float)green, (float)blue},
        .cb = (float)(1 / (2 * (1 - blue))),
        .cr = (float)(1 / (2 * (1 - red))),
        .luma_zero = (float)luma.zero,
        .luma_span = (float)luma.span,
        .chroma_zero = (float)chroma.zero,
        .chroma_span = (float)chroma.span,
    };
    for (int i = 0; i < 3; i++) {
        double of_cb = cb[i] / (chroma.span * unit), of_cr = cr[i] / (chroma.span * unit);
        int32_t codes[2] = {rounded(scale * of_cb), rounded(scale * of_cr)};
        out->codes.chroma[i] = pair(codes[0], codes[1]);
        out->codes.bias[i] = (1 << (FIXED - 1)) - (int32_t)(luma.zero * unit) * out->codes.luma -
                             (int32_t)(chroma.zero * unit) * (codes[0] + codes[1]);
        out->floats.cb[i] = (float)of_cb;
        out->floats.cr[i] = (float)of_cr;
        out->floats.bias[i] = (float)(-luma.zero / luma.span - chroma.zero / chroma.span * (cb[i] + cr[i]));
    }
}

int vks_ycbcr_factors(uint32_t format, const struct vks_color *color, struct vks_ycbcr *out)
{
    double red, blue;
    struct levels luma, chroma;
    *out = (struct vks_ycbcr){.format = vks_planar_format(format), .siting = color->siting};
    if (out->format == NULL)
        return VKS_RASTER_BAD_FORMAT;
    if (!weights_of(color->matrix, &red, &blue) || color->range > VKS_RANGE_FULL || color->siting > VKS_SITING_TOP_LEFT)
        return VKS_RASTER_BAD_ARGUMENT;
    find_levels(out->format->bits, color->range, &luma, &chroma);
    find_factors(out, red, blue, luma, chroma);
    return VKS_RASTER_OK;
}

int vks_ycbcr_begin(const struct vks_image *image, struct vks_ycbcr *out)
{
    int status = vks_ycbcr_factors(image->format, &image->color, out);
    for (uint32_t i = 0; status == VKS_RASTER_OK && i < out->format->planes; i++)
        out->plane[i] = vks_plane_of(image, i);
    return status;
}

// ---- the portable kernel --------------------------------------------------------------------------------------------

static void rows_of_bytes(const uint8_t *near, const uint8_t *far, const int weight[2], size_t n, int16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int16_t)(near[i] * weight[0] + far[i] * weight[1]);
}

static inline int word_at(const uint8_t *p, size_t i)
{
    uint16_t word;
    memcpy(&word, p + 2 * i, sizeof word);
    return word >> 6;
}

static void rows_of_words(const uint8_t *near, const uint8_t *far, const int weight[2], size_t n, int16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int16_t)(word_at(near, i) * weight[0] + word_at(far, i) * weight[1]);
}

static inline int32_t low_of(int32_t v) { return (int16_t)v; }
static inline int32_t high_of(int32_t v) { return v >> 16; }

static inline int32_t blend(int32_t a, int32_t b, int32_t of_a, int32_t of_b)
{
    return pair(low_of(a) * of_a + low_of(b) * of_b, high_of(a) * of_a + high_of(b) * of_b);
}

static void midpoint(const int32_t *chroma, size_t n, int32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = blend(chroma[i], chroma[(ptrdiff_t)i - 1], 3, 1);
        out[2 * i + 1] = blend(chroma[i], chroma[i + 1], 3, 1);
    }
}

static void cosited(const int32_t *chroma, size_t n, int32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = blend(chroma[i], 0, 4, 0);
        out[2 * i + 1] = blend(chroma[i], chroma[i + 1], 2, 2);
    }
}

static void same(const int32_t *chroma, size_t n, int32_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = blend(chroma[i], 0, 4, 0);
}

static inline uint8_t code_of(int32_t sum)
{
    sum >>= FIXED;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static inline void put(const struct vks_ycbcr_codes *codes, int32_t luma, int32_t chroma, uint8_t *out)
{
    for (int i = 0; i < 3; i++)
        out[i] = code_of(luma * codes->luma + low_of(chroma) * low_of(codes->chroma[i]) +
                         high_of(chroma) * high_of(codes->chroma[i]) + codes->bias[i]);
    out[3] = 255;
}

static void colours_of_bytes(const struct vks_ycbcr_codes *codes, const uint8_t *luma, const int32_t *chroma, size_t n,
                             uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        put(codes, luma[i] << 6, chroma[i], out + 4 * i);
}

static void colours_of_words(const struct vks_ycbcr_codes *codes, const uint8_t *luma, const int32_t *chroma, size_t n,
                             uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        put(codes, word_at(luma, i) << 4, chroma[i], out + 4 * i);
}

const struct vks_ycbcr_kernel vks_ycbcr_portable = {
    .rows = {rows_of_bytes, rows_of_words},
    .midpoint = midpoint,
    .cosited = cosited,
    .same = same,
    .colours = {colours_of_bytes, colours_of_words},
};

const struct vks_ycbcr_kernel *vks_ycbcr_kernel(enum vks_isa isa)
{
#if defined(__x86_64__)
    switch (isa) {
    case VKS_ISA_AVX512:
        return &vks_ycbcr_avx512;
    case VKS_ISA_AVX2:
        return &vks_ycbcr_avx2;
    case VKS_ISA_SSE2:
        return &vks_ycbcr_sse2;
    case VKS_ISA_PORTABLE:
        break;
    }
#endif
    (void)isa;
    return &vks_ycbcr_portable;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// One axis of chroma at a pixel of luma: the two pixels that it lies between, and their weights, of 4.
struct tap {
    uint32_t near, far;
    int weight[2];
};

static struct tap tap_of(uint32_t at, uint32_t shift, bool is_cosited, uint32_t limit)
{
    uint32_t near = at >> shift, far = near;
    if (shift == 0 || (is_cosited && at % 2 == 0))
        return (struct tap){near, near, {4, 0}};
    if (at % 2)
        far = near + 1 < limit ? near + 1 : near;
    else
        far = near > 0 ? near - 1 : near;
    return is_cosited ? (struct tap){near, far, {2, 2}} : (struct tap){near, far, {3, 1}};
}

static void make_pairs(const int16_t *cb, const int16_t *cr, size_t n, int32_t *out)
{
    size_t i = 0;
#if defined(__SSE2__)
    for (; i + 8 <= n; i += 8) {
        __m128i b = _mm_loadu_si128((const void *)(cb + i)), r = _mm_loadu_si128((const void *)(cr + i));
        _mm_storeu_si128((void *)(out + i), _mm_unpacklo_epi16(b, r));
        _mm_storeu_si128((void *)(out + i + 4), _mm_unpackhi_epi16(b, r));
    }
#endif
    for (; i < n; i++)
        out[i] = pair(cb[i], cr[i]);
}

// Pairs of pixels x..x+n-1 of a row of chroma, between two rows of it.
static void read_between(const struct vks_ycbcr *s, const struct vks_ycbcr_kernel *kernel, const struct tap *rows,
                         uint32_t x, uint32_t n, int32_t *out)
{
    bool is_wide = s->format->bits > 8;
    vks_chroma_rows between = kernel->rows[is_wide];
    int scale = is_wide ? 1 : 4, weight[2] = {rows->weight[0] * scale, rows->weight[1] * scale};
    if (s->format->planes == 2) {
        between(vks_pixel_at(&s->plane[1], x, rows->near), vks_pixel_at(&s->plane[1], x, rows->far), weight, 2 * n,
                (int16_t *)out);
        return;
    }
    int16_t component[2][CHUNK + 2];
    for (int i = 0; i < 2; i++)
        between(vks_pixel_at(&s->plane[1 + i], x, rows->near), vks_pixel_at(&s->plane[1 + i], x, rows->far), weight, n,
                component[i]);
    make_pairs(component[0], component[1], n, out);
}

// Chroma at pixels x..x+n-1 of the luma's row y: n is at most CHUNK, and x the first pixel of one of chroma. `out` has
// room for one more.
static void read_chroma(const struct vks_ycbcr *s, const struct vks_ycbcr_kernel *kernel, uint32_t x, uint32_t y,
                        uint32_t n, int32_t *out)
{
    int32_t buffer[CHUNK + 2], *chroma = buffer + 1;
    bool is_cosited = s->siting != VKS_SITING_CENTER;
    uint32_t width = s->plane[1].width, x_shift = s->format->x_shift;
    struct tap rows = tap_of(y, s->format->y_shift, s->siting == VKS_SITING_TOP_LEFT, s->plane[1].height);
    uint32_t first = x >> x_shift, count = (n + x_shift) >> x_shift;
    uint32_t before = first > 0, after = first + count < width;
    read_between(s, kernel, &rows, first - before, before + count + after, chroma - before);
    if (!before)
        chroma[-1] = chroma[0];
    if (!after)
        chroma[count] = chroma[count - 1];
    (x_shift == 0 ? kernel->same : is_cosited ? kernel->cosited : kernel->midpoint)(chroma, count, out);
}

static struct vks_ycbcr_codes swapped(const struct vks_ycbcr_codes *codes)
{
    struct vks_ycbcr_codes out = *codes;
    out.chroma[0] = codes->chroma[2], out.chroma[2] = codes->chroma[0];
    out.bias[0] = codes->bias[2], out.bias[2] = codes->bias[0];
    return out;
}

void vks_ycbcr_read_8888(const struct vks_ycbcr *source, uint32_t x, uint32_t y, uint32_t n, bool bgra, uint8_t *out)
{
    const struct vks_ycbcr_kernel *kernel = vks_ycbcr_kernel(vks_cpu_isa());
    vks_ycbcr_colours colours = kernel->colours[source->format->bits > 8];
    struct vks_ycbcr_codes codes = bgra ? swapped(&source->codes) : source->codes;
    int32_t chroma[CHUNK + 2];
    for (uint32_t skipped = x & source->format->x_shift, part; n > 0; n -= part, x += part, out += 4 * (size_t)part) {
        part = n < CHUNK - skipped ? n : CHUNK - skipped;
        read_chroma(source, kernel, x - skipped, y, part + skipped, chroma);
        colours(&codes, vks_pixel_at(&source->plane[0], x, y), chroma + skipped, part, out);
        skipped = 0;
    }
}

void vks_ycbcr_read(const struct vks_ycbcr *source, uint32_t x, uint32_t y, uint32_t n, vks_rgba *out)
{
    const struct vks_ycbcr_kernel *kernel = vks_ycbcr_kernel(vks_cpu_isa());
    const struct vks_ycbcr_floats *f = &source->floats;
    vks_f4 of_luma = {f->luma, f->luma, f->luma, 0}, bias = {f->bias[0], f->bias[1], f->bias[2], 1};
    vks_f4 of_cb = {f->cb[0], f->cb[1], f->cb[2], 0}, of_cr = {f->cr[0], f->cr[1], f->cr[2], 0};
    int32_t chroma[CHUNK + 2];
    for (uint32_t skipped = x & source->format->x_shift, part; n > 0; n -= part, x += part, out += part) {
        part = n < CHUNK - skipped ? n : CHUNK - skipped;
        read_chroma(source, kernel, x - skipped, y, part + skipped, chroma);
        const uint8_t *luma = vks_pixel_at(&source->plane[0], x, y);
        for (uint32_t i = 0; i < part; i++) {
            float at = (float)(source->format->bits > 8 ? word_at(luma, i) << 4 : luma[i] << 6);
            float cb = (float)low_of(chroma[skipped + i]), cr = (float)high_of(chroma[skipped + i]);
            vks_f4 sum = vks_f4_all(at) * of_luma + vks_f4_all(cb) * of_cb + vks_f4_all(cr) * of_cr + bias;
            vks_f4_store(out[i], vks_f4_clamp(sum, 0.0f, 1.0f));
        }
        skipped = 0;
    }
}
