// vkCmdBlitImage (Vulkan 20.5). Coordinates are exact fractions, so that no rounding decides which pixel is nearest.
//
// The target is walked in blocks: the taps of a block's columns are computed once, and the source rows that linear
// filtering has decoded serve the next target row too.
#include <string.h>

#include "raster/convert.h"
#include "raster/format.h"
#include "raster/image.h"
#include "raster/vec4.h"

#define BLOCK 64u                  // pixels
#define BLOCK_ROWS 32u             // few enough pages for the processor to know them all
#define COORDINATE_LIMIT (1 << 29) // (2 * x + 1) * width stays inside 63 bits

// One axis of the mapping: u = (2 * (x - to) + 1) * length / (2 * to_length) + from, to_length > 0.
struct axis {
    int64_t to, to_length, from, length, limit; // limit: the source image's extent
};

// The one or two source pixels that a target pixel reads; fraction is the second's weight.
struct tap {
    uint32_t first, second;
    float fraction;
};

struct blit {
    const struct vks_image *source, *target;
    struct vks_area area; // of the target
    struct axis x, y;
    enum vks_filter filter;
    bool raw; // nearest, and the pixel's bytes are copied, with R and B exchanged if `swap`
    bool swap;
};

static uint32_t clamp_index(int64_t i, int64_t limit) { return (uint32_t)(i < 0 ? 0 : i < limit ? i : limit - 1); }

// A quotient, rounded down, and the remainder.
struct fraction {
    int64_t whole, rest;
};

static struct fraction divide_floor(int64_t dividend, int64_t positive)
{
    struct fraction f = {dividend / positive, dividend % positive};
    if (f.rest < 0) {
        f.whole -= 1;
        f.rest += positive;
    }
    return f;
}

// Taps of the target pixels target, target + 1, … Stepping from one to the next needs no division.
static void find_taps(const struct axis *axis, int64_t target, uint32_t n, enum vks_filter filter, struct tap *out)
{
    int64_t dividend = (2 * (target - axis->to) + 1) * axis->length, divisor = 2 * axis->to_length;
    if (filter == VKS_FILTER_LINEAR)
        dividend -= axis->to_length; // pixel centres are at one half
    struct fraction at = divide_floor(dividend, divisor), step = divide_floor(2 * axis->length, divisor);
    for (uint32_t i = 0; i < n; i++) {
        out[i].first = clamp_index(axis->from + at.whole, axis->limit);
        out[i].second = clamp_index(axis->from + at.whole + 1, axis->limit);
        out[i].fraction = filter == VKS_FILTER_LINEAR ? (float)((double)at.rest / (double)divisor) : 0.0f;
        at.whole += step.whole;
        at.rest += step.rest;
        if (at.rest >= divisor) {
            at.rest -= divisor;
            at.whole += 1;
        }
    }
}

static inline uint32_t swapped_red_blue(uint32_t v) { return (v & 0xff00ff00u) | (v >> 16 & 255) | (v & 255) << 16; }

// out[i] = the pixel at column[i] of a source row.
static void gather(const uint8_t *row, size_t bytes, const uint32_t *column, uint32_t n, uint8_t *out)
{
    switch (bytes) { // a constant size turns memcpy into a load and a store
    case 1:
        for (uint32_t i = 0; i < n; i++)
            out[i] = row[column[i]];
        break;
    case 2:
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + 2 * i, row + 2 * (size_t)column[i], 2);
        break;
    case 4:
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + 4 * i, row + 4 * (size_t)column[i], 4);
        break;
    case 8:
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + 8 * i, row + 8 * (size_t)column[i], 8);
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + 16 * i, row + 16 * (size_t)column[i], 16);
        break;
    }
}

static void swap_pixels(uint8_t *pixels, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, pixels + 4 * i, sizeof v);
        v = swapped_red_blue(v);
        memcpy(pixels + 4 * i, &v, sizeof v);
    }
}

// Both take rows first..end-1, at most BLOCK_ROWS, of columns x..x+n-1, at most BLOCK.
static void nearest_block(const struct blit *b, uint32_t x, uint32_t n, uint32_t first, uint32_t end)
{
    uint32_t column[BLOCK];
    uint8_t raw[BLOCK * 16];
    vks_rgba colour[BLOCK];
    size_t source_bytes = vks_format_bytes(b->source->format);
    struct tap across[BLOCK], down[BLOCK_ROWS];
    bool consecutive = true;
    find_taps(&b->x, x, n, VKS_FILTER_NEAREST, across);
    find_taps(&b->y, first, end - first, VKS_FILTER_NEAREST, down);
    for (uint32_t i = 0; i < n; i++) {
        column[i] = across[i].first;
        consecutive = consecutive && column[i] == column[0] + i;
    }
    for (uint32_t y = first; y < end; y++) {
        const uint8_t *row = vks_pixel_at(b->source, 0, down[y - first].first);
        uint8_t *out = vks_pixel_at(b->target, x, y);
        if (!b->raw) {
            if (!consecutive)
                gather(row, source_bytes, column, n, raw);
            vks_load_pixels(b->source->format, consecutive ? row + column[0] * source_bytes : raw, colour, n);
            vks_store_pixels(b->target->format, (const vks_rgba *)colour, out, n);
            continue;
        }
        if (consecutive)
            memcpy(out, row + column[0] * source_bytes, n * source_bytes);
        else
            gather(row, source_bytes, column, n, out);
        if (b->swap)
            swap_pixels(out, n);
    }
}

// A source row's pixels under a block's taps: 2 * i the first, 2 * i + 1 the second.
struct line {
    vks_rgba pixel[2 * BLOCK];
    int64_t row; // -1: nothing yet
};

static void decode_line(const struct blit *b, const uint32_t *column, uint32_t n, uint32_t row, struct line *line)
{
    uint8_t raw[2 * BLOCK * 16];
    gather(vks_pixel_at(b->source, 0, row), vks_format_bytes(b->source->format), column, 2 * n, raw);
    vks_load_pixels(b->source->format, raw, line->pixel, 2 * n);
    line->row = row;
}

static inline vks_f4 mix(const float *a, const float *b, float weight)
{
    vks_f4 from = vks_f4_load(a);
    return from + (vks_f4_load(b) - from) * vks_f4_all(weight);
}

static void mix_lines(const struct line *top, const struct line *bottom, const float *fx, float fy, uint32_t n,
                      vks_rgba *out)
{
    for (uint32_t i = 0; i < n; i++) {
        vks_f4 t = mix(top->pixel[2 * i], top->pixel[2 * i + 1], fx[i]);
        vks_f4 b = mix(bottom->pixel[2 * i], bottom->pixel[2 * i + 1], fx[i]);
        vks_f4_store(out[i], t + (b - t) * vks_f4_all(fy));
    }
}

static void linear_block(const struct blit *b, uint32_t x, uint32_t n, uint32_t first, uint32_t end)
{
    uint32_t column[2 * BLOCK];
    float fx[BLOCK];
    vks_rgba colour[BLOCK];
    struct tap across[BLOCK], down[BLOCK_ROWS];
    struct line lines[2];
    lines[0].row = lines[1].row = -1;
    find_taps(&b->x, x, n, VKS_FILTER_LINEAR, across);
    find_taps(&b->y, first, end - first, VKS_FILTER_LINEAR, down);
    for (uint32_t i = 0; i < n; i++) {
        column[2 * i] = across[i].first;
        column[2 * i + 1] = across[i].second;
        fx[i] = across[i].fraction;
    }
    for (uint32_t y = first; y < end; y++) {
        struct tap tap = down[y - first];
        struct line *top = &lines[lines[1].row == tap.first]; // where that row is, if it is
        if (top->row != tap.first)
            decode_line(b, column, n, tap.first, top);
        struct line *bottom = tap.second == tap.first ? top : &lines[top == &lines[0]];
        if (bottom->row != tap.second)
            decode_line(b, column, n, tap.second, bottom);
        mix_lines(top, bottom, fx, tap.fraction, n, colour);
        vks_store_pixels(b->target->format, (const vks_rgba *)colour, vks_pixel_at(b->target, x, y), n);
    }
}

static void blit_band(void *context, uint32_t first, uint32_t end)
{
    const struct blit *b = context;
    for (uint32_t y = first; y < end; y += BLOCK_ROWS) {
        uint32_t block_end = b->area.y + (end - y < BLOCK_ROWS ? end : y + BLOCK_ROWS);
        for (uint32_t x = 0; x < b->area.width; x += BLOCK) {
            uint32_t n = b->area.width - x < BLOCK ? b->area.width - x : BLOCK;
            if (b->filter == VKS_FILTER_LINEAR)
                linear_block(b, b->area.x + x, n, b->area.y + y, block_end);
            else
                nearest_block(b, b->area.x + x, n, b->area.y + y, block_end);
        }
    }
}

// Makes the target's interval run upwards; the source's then runs as it must.
static struct axis make_axis(int64_t to0, int64_t to1, int64_t from0, int64_t from1, uint32_t limit)
{
    if (to1 < to0) {
        int64_t t = to0;
        to0 = to1;
        to1 = t;
        t = from0;
        from0 = from1;
        from1 = t;
    }
    return (struct axis){to0, to1 - to0, from0, from1 - from0, limit};
}

static bool in_range(struct vks_blit_rect r)
{
    const int32_t v[4] = {r.x0, r.y0, r.x1, r.y1};
    for (int i = 0; i < 4; i++)
        if (v[i] < -COORDINATE_LIMIT || v[i] > COORDINATE_LIMIT)
            return false;
    return true;
}

bool vks_blit_is_valid(struct vks_blit_rect from, struct vks_blit_rect to, enum vks_filter filter)
{
    return (filter == VKS_FILTER_NEAREST || filter == VKS_FILTER_LINEAR) && in_range(from) && in_range(to);
}

int vks_raster_blit(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                    struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool)
{
    int status = vks_image_check(source);
    if (status == VKS_RASTER_OK)
        status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_format_has_colours(source->format) || !vks_format_has_colours(target->format))
        return VKS_RASTER_BAD_FORMAT;
    if (!vks_blit_is_valid(from, to, filter))
        return VKS_RASTER_BAD_ARGUMENT;
    if (vks_images_overlap(source, target))
        return VKS_RASTER_OVERLAP;
    if (vks_planar_format(source->format) != NULL || vks_planar_format(target->format) != NULL)
        return vks_planar_blit(source, from, target, to, filter, pool);
    struct blit b = {
        .source = source,
        .target = target,
        .x = make_axis(to.x0, to.x1, from.x0, from.x1, source->width),
        .y = make_axis(to.y0, to.y1, from.y0, from.y1, source->height),
        .filter = filter,
        .swap = source->format != target->format,
    };
    b.raw = !b.swap || (vks_format_is_8888(source->format) && vks_format_is_8888(target->format));
    bool visible = vks_clip_area(target, (int32_t)b.x.to, (int32_t)b.y.to, (int32_t)b.x.to_length,
                                 (int32_t)b.y.to_length, &b.area);
    if (!visible || b.x.length == 0 || b.y.length == 0)
        return VKS_RASTER_OK;
    size_t bytes = (size_t)b.area.width * b.area.height * vks_format_bytes(target->format);
    vks_run_rows(pool, b.area.height, filter == VKS_FILTER_LINEAR ? bytes * 8 : bytes * 2, blit_band, &b);
    return VKS_RASTER_OK;
}
