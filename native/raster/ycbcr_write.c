// R'G'B' to Y'CbCr: luma of each pixel, and chroma of means of pixels. Colours are linear in their codes, so the mean
// of the colours has the mean's chroma.
#include "raster/vec4.h"
#include "raster/ycbcr.h"

#define CHUNK 64u // pixels of luma

struct writer {
    const struct vks_ycbcr *target;
    const struct vks_image *colours;
    uint32_t x, y; // of the colours in the target
};

static uint32_t code_of(float value, int bits)
{
    float most = (float)((1 << bits) - 1);
    return vks_to_unorm(value / most, most);
}

static void put(const struct vks_ycbcr *target, uint8_t *row, size_t i, float value)
{
    uint32_t code = code_of(value, target->format->bits);
    if (target->format->bits == 8) {
        row[i] = (uint8_t)code;
        return;
    }
    uint16_t word = (uint16_t)(code << target->format->unused);
    memcpy(row + 2 * i, &word, sizeof word);
}

// Columns from..from+n-1 of the colours, of which those outside repeat the edge, clamped.
static void load(const struct writer *w, int64_t from, int64_t row, uint32_t n, vks_rgba *out)
{
    const struct vks_image *image = w->colours;
    row = row < 0 ? 0 : row < image->height ? row : image->height - 1;
    uint32_t before = from < 0,
             format = image->format == VKS_FORMAT_RGBA8_UNORM_SRGB ? VKS_FORMAT_RGBA8_UNORM : image->format;
    uint32_t inside =
        image->width - (uint32_t)(from + before) < n - before ? image->width - (uint32_t)(from + before) : n - before;
    vks_load_pixels(format, vks_pixel_at(image, (uint32_t)(from + before), (uint32_t)row), out + before, inside);
    if (before)
        memcpy(out[0], out[1], sizeof *out);
    for (uint32_t i = before + inside; i < n; i++)
        memcpy(out[i], out[i - 1], sizeof *out);
    for (uint32_t i = 0; i < n; i++)
        vks_f4_store(out[i], vks_f4_clamp(vks_f4_load(out[i]), 0.0f, 1.0f));
}

static float luma_of(const struct vks_ycbcr_back *back, const float *rgb)
{
    return rgb[0] * back->weight[0] + rgb[1] * back->weight[1] + rgb[2] * back->weight[2];
}

static void write_luma(const struct writer *w, uint32_t row)
{
    const struct vks_ycbcr_back *back = &w->target->back;
    const struct vks_image *plane = &w->target->plane[0];
    vks_rgba colour[CHUNK];
    for (uint32_t x = 0; x < w->colours->width; x += CHUNK) {
        uint32_t n = w->colours->width - x < CHUNK ? w->colours->width - x : CHUNK;
        uint8_t *out = vks_pixel_at(plane, w->x + x, w->y + row);
        load(w, x, row, n, colour);
        for (uint32_t i = 0; i < n; i++)
            put(w->target, out, i, back->luma_zero + back->luma_span * luma_of(back, colour[i]));
    }
}

// Means of rows: of the row, of two, or of three, of which the middle one counts twice.
static void load_mean_rows(const struct writer *w, int64_t from, uint32_t row, uint32_t n, vks_rgba *out)
{
    vks_rgba other[CHUNK + 2];
    if (w->target->format->y_shift == 0) {
        load(w, from, row, n, out);
        return;
    }
    bool is_cosited = w->target->siting == VKS_SITING_TOP_LEFT;
    load(w, from, 2 * (int64_t)row, n, out);
    for (int step = is_cosited ? -1 : 1; step <= 1; step += 2) {
        load(w, from, 2 * (int64_t)row + step, n, other);
        for (uint32_t i = 0; i < n; i++)
            vks_f4_store(out[i], vks_f4_load(out[i]) + vks_f4_load(other[i]) * vks_f4_all(is_cosited ? 0.5f : 1.0f));
    }
    for (uint32_t i = 0; i < n; i++)
        vks_f4_store(out[i], vks_f4_load(out[i]) * vks_f4_all(0.5f));
}

static vks_f4 mean_columns(const vks_rgba *at, bool is_cosited)
{
    vks_f4 here = vks_f4_load(at[0]), next = vks_f4_load(at[1]);
    if (!is_cosited)
        return (here + next) * vks_f4_all(0.5f);
    return here * vks_f4_all(0.5f) + (vks_f4_load(at[-1]) + next) * vks_f4_all(0.25f);
}

static void write_chroma(const struct writer *w, uint32_t row)
{
    const struct vks_ycbcr *target = w->target;
    const struct vks_ycbcr_back *back = &target->back;
    uint32_t x_shift = target->format->x_shift, width = w->colours->width >> x_shift;
    uint32_t left = w->x >> x_shift, top = w->y >> target->format->y_shift;
    bool is_pair = target->format->planes == 2, is_cosited = target->siting != VKS_SITING_CENTER;
    vks_rgba colour[CHUNK + 2];
    for (uint32_t x = 0, most = CHUNK >> x_shift; x < width; x += most) {
        uint32_t n = width - x < most ? width - x : most;
        load_mean_rows(w, (int64_t)(x << x_shift) - 1, row, (n << x_shift) + 1, colour);
        uint8_t *cb = vks_pixel_at(&target->plane[1], left + x, top + row);
        uint8_t *cr = is_pair ? cb : vks_pixel_at(&target->plane[2], left + x, top + row);
        for (uint32_t i = 0; i < n; i++) {
            float mean[4];
            const vks_rgba *at = (const vks_rgba *)&colour[1 + (i << x_shift)];
            vks_f4_store(mean, x_shift ? mean_columns(at, is_cosited) : vks_f4_load(at[0]));
            float luma = luma_of(back, mean);
            put(target, cb, is_pair ? 2 * i : i, back->chroma_zero + back->chroma_span * ((mean[2] - luma) * back->cb));
            put(target, cr, is_pair ? 2 * i + 1 : i,
                back->chroma_zero + back->chroma_span * ((mean[0] - luma) * back->cr));
        }
    }
}

void vks_ycbcr_write(const struct vks_ycbcr *target, uint32_t x, uint32_t y, const struct vks_image *colours,
                     uint32_t first, uint32_t end)
{
    struct writer w = {target, colours, x, y};
    uint32_t y_shift = target->format->y_shift;
    for (uint32_t row = first; row < end; row++) {
        for (uint32_t i = 0; i < 1u << y_shift; i++)
            write_luma(&w, (row << y_shift) + i);
        write_chroma(&w, row);
    }
}
