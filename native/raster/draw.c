// Triangles are taken in batches: set up into blocks, then drawn. Both steps split over the pool, the first by block
// and the second by bands of rows; each band goes through all triangles in order, which keeps the painter's order.
#include <stdatomic.h>
#include <stdlib.h>

#include "raster/convert.h"
#include "raster/depth.h"
#include "raster/format.h"
#include "raster/image.h"
#include "raster/shade.h"

#define BLOCK_TRIANGLES 128u // of the layout; a block that clipping overfills grows
#define BLOCKS_PER_THREAD 8u
#define BANDS_PER_THREAD 4u
#define SMALLEST_BAND 16
#define WORTH_A_THREAD 32768u // pixels of bounding boxes

struct block {
    struct vks_triangle *triangle;
    struct row_range {
        int32_t first, end;
    } *rows; // y0 and y1 of the triangles, close together
    uint32_t count, capacity;
    uint64_t pixels; // of the bounding boxes
};

struct batch {
    const struct vks_draw *draw;
    const struct vks_depth *depth; // or NULL
    const struct vks_setup *setup;
    vks_shade_rows shade;
    struct block *blocks;
    uint32_t block_count;
    uint32_t first, end; // triangles of the layout
    atomic_bool no_memory;
    int32_t top, bottom; // rows that the batch touches
    uint32_t bands;
};

static bool reserve(struct block *block, uint32_t wanted)
{
    if (wanted <= block->capacity)
        return true;
    uint32_t capacity = wanted + wanted / 2;
    struct vks_triangle *triangle = realloc(block->triangle, capacity * sizeof *triangle);
    if (triangle == NULL)
        return false;
    block->triangle = triangle;
    struct row_range *rows = realloc(block->rows, capacity * sizeof *rows);
    if (rows == NULL)
        return false;
    block->rows = rows;
    block->capacity = capacity;
    return true;
}

static void prepare_block(void *context, uint32_t index)
{
    struct batch *batch = context;
    struct block *block = &batch->blocks[index];
    uint32_t first = batch->first + index * BLOCK_TRIANGLES;
    uint32_t end = batch->end - first < BLOCK_TRIANGLES ? batch->end : first + BLOCK_TRIANGLES;
    block->count = 0;
    block->pixels = 0;
    for (uint32_t i = first; i < end; i++) {
        if (!reserve(block, block->count + VKS_MOST_CLIPPED)) {
            atomic_store(&batch->no_memory, true);
            return;
        }
        uint32_t made = vks_triangle_prepare(batch->setup, i, &block->triangle[block->count]);
        for (; made > 0; made--, block->count++) {
            const struct vks_triangle *t = &block->triangle[block->count];
            block->rows[block->count] = (struct row_range){t->y0, t->y1};
            block->pixels += (uint64_t)(t->x1 - t->x0) * (uint64_t)(t->y1 - t->y0);
        }
    }
}

// Rows whose spans are known and that wait to be shaded while the memory under them is fetched: small triangles all
// over a large target would else wait for it row by row.
struct pending {
    const struct vks_triangle *triangle; // NULL: none
    int32_t y, rows;
    struct vks_span spans[VKS_SPAN_ROWS];
};

static void prefetch(const struct vks_image *target, const struct pending *p)
{
    size_t bytes = vks_format_bytes(target->format);
    const uint8_t *row = (const uint8_t *)target->pixels + (size_t)p->y * target->stride;
    for (int32_t i = 0; i < p->rows; i++, row += target->stride) {
        const uint8_t *first = row + (size_t)p->spans[i].x * bytes;
        __builtin_prefetch(first, 1);
        __builtin_prefetch(first + (size_t)p->spans[i].count * bytes, 1);
    }
}

static void shade(const struct batch *batch, const struct pending *p)
{
    if (p->triangle == NULL)
        return;
    if (batch->depth == NULL) {
        batch->shade(batch->draw, p->triangle, p->y, p->rows, p->spans);
        return;
    }
    struct vks_span runs[VKS_MOST_RUNS];
    for (int32_t i = 0; i < p->rows; i++)
        for (struct vks_span left = p->spans[i]; left.count > 0;) {
            uint32_t count = vks_depth_runs(batch->depth, p->triangle, p->y + i, &left, runs);
            for (uint32_t run = 0; run < count; run++)
                batch->shade(batch->draw, p->triangle, p->y + i, 1, &runs[run]);
        }
}

// Rows first..end-1 of a triangle. `waiting` holds two, of which *now is the one to be shaded next.
static void draw_rows(const struct batch *batch, const struct vks_triangle *t, int32_t first, int32_t end,
                      struct pending waiting[2], int *now)
{
    for (int32_t y = first; y < end; y += VKS_SPAN_ROWS) {
        struct pending *next = &waiting[!*now];
        next->triangle = t;
        next->y = y;
        next->rows = end - y < VKS_SPAN_ROWS ? end - y : VKS_SPAN_ROWS;
        vks_triangle_spans(t, y, next->rows, next->spans);
        prefetch(batch->draw->target, next);
        shade(batch, &waiting[*now]);
        *now = !*now;
    }
}

static void draw_band(void *context, uint32_t index)
{
    const struct batch *batch = context;
    int64_t height = batch->bottom - batch->top;
    int32_t first = batch->top + (int32_t)(height * index / batch->bands);
    int32_t end = batch->top + (int32_t)(height * (index + 1) / batch->bands);
    struct pending waiting[2];
    int now = 0;
    waiting[0].triangle = waiting[1].triangle = NULL;
    for (uint32_t b = 0; b < batch->block_count; b++) {
        const struct block *block = &batch->blocks[b];
        for (uint32_t i = 0; i < block->count; i++) {
            struct row_range r = block->rows[i];
            r.first = r.first > first ? r.first : first;
            r.end = r.end < end ? r.end : end;
            if (r.first < r.end)
                draw_rows(batch, &block->triangle[i], r.first, r.end, waiting, &now);
        }
    }
    shade(batch, &waiting[now]);
}

// Finds the rows and the work of the prepared blocks, and cuts the rows into bands.
static void plan_bands(struct batch *batch, uint32_t threads)
{
    uint64_t pixels = 0;
    batch->top = INT32_MAX;
    batch->bottom = 0;
    for (uint32_t b = 0; b < batch->block_count; b++) {
        const struct block *block = &batch->blocks[b];
        pixels += block->pixels;
        for (uint32_t i = 0; i < block->count; i++) {
            batch->top = block->rows[i].first < batch->top ? block->rows[i].first : batch->top;
            batch->bottom = block->rows[i].end > batch->bottom ? block->rows[i].end : batch->bottom;
        }
    }
    uint32_t fit = batch->bottom > batch->top ? (uint32_t)(batch->bottom - batch->top) / SMALLEST_BAND : 0;
    uint32_t bands = threads == 1 || pixels < WORTH_A_THREAD ? 1 : threads * BANDS_PER_THREAD;
    bands = bands < fit ? bands : fit;
    batch->bands = bands > 0 ? bands : 1;
}

static int draw_all(struct batch *batch, uint32_t triangles, uint32_t most_blocks, struct vks_pool *pool)
{
    for (uint32_t first = 0; first < triangles; first = batch->end) {
        uint32_t left = triangles - first;
        batch->first = first;
        batch->end = left / BLOCK_TRIANGLES < most_blocks ? triangles : first + most_blocks * BLOCK_TRIANGLES;
        batch->block_count = (batch->end - first + BLOCK_TRIANGLES - 1) / BLOCK_TRIANGLES;
        vks_pool_run(pool, batch->block_count, prepare_block, batch);
        if (atomic_load(&batch->no_memory))
            return VKS_RASTER_NO_MEMORY;
        plan_bands(batch, vks_pool_threads(pool));
        if (batch->top < batch->bottom)
            vks_pool_run(pool, batch->bands, draw_band, batch);
    }
    return VKS_RASTER_OK;
}

static bool has_field(const struct vks_vertex_layout *layout, int32_t offset, uint32_t floats)
{
    return offset >= 0 && (uint32_t)offset <= layout->stride && layout->stride - (uint32_t)offset >= floats;
}

bool vks_draw_is_valid(const struct vks_vertex_layout *layout, uint32_t count, bool textured, enum vks_filter filter,
                       uint32_t subpixel_bits)
{
    if (layout == NULL || (layout->data == NULL && count > 0) || !has_field(layout, layout->position, 4))
        return false;
    if (layout->colour != -1 && !has_field(layout, layout->colour, 4))
        return false;
    if (layout->uv != -1 ? !has_field(layout, layout->uv, 2) : textured)
        return false;
    return subpixel_bits >= 4 && subpixel_bits <= 8 && (filter == VKS_FILTER_NEAREST || filter == VKS_FILTER_LINEAR);
}

static int check_depth(const struct vks_image *target, const struct vks_image *texture, const struct vks_depth *depth)
{
    int status = vks_image_check(depth->image);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_format_is_depth(depth->image->format))
        return VKS_RASTER_BAD_FORMAT;
    if (depth->image->width != target->width || depth->image->height != target->height)
        return VKS_RASTER_IMAGE_MISMATCH;
    if (!vks_depth_test_is_valid(depth->test))
        return VKS_RASTER_BAD_ARGUMENT;
    bool overlaps =
        vks_images_overlap(depth->image, target) || (texture != NULL && vks_images_overlap(depth->image, texture));
    return overlaps ? VKS_RASTER_OVERLAP : VKS_RASTER_OK;
}

static int check_images(const struct vks_image *target, const struct vks_image *texture, const struct vks_depth *depth)
{
    int status = vks_image_check(target);
    if (status == VKS_RASTER_OK && texture != NULL)
        status = vks_image_check(texture);
    if (status == VKS_RASTER_OK &&
        (!vks_format_is_drawable(target->format) || (texture != NULL && !vks_format_has_colours(texture->format))))
        status = VKS_RASTER_BAD_FORMAT;
    if (status == VKS_RASTER_OK && texture != NULL && vks_images_overlap(texture, target))
        status = VKS_RASTER_OVERLAP;
    return status == VKS_RASTER_OK && depth != NULL ? check_depth(target, texture, depth) : status;
}

static int draw_with_colours(const struct vks_image *target, const struct vks_vertex_layout *layout, uint32_t count,
                             const struct vks_image *texture, enum vks_filter filter, uint32_t subpixel_bits,
                             const struct vks_depth *depth, struct vks_pool *pool)
{
    struct vks_area all = {0, 0, texture->width, texture->height};
    struct vks_image colours;
    bool is_srgb = target->format == VKS_FORMAT_RGBA8_UNORM_SRGB;
    int status = vks_planar_colours(texture, &all, is_srgb, pool, &colours);
    if (status != VKS_RASTER_OK)
        return status;
    status = vks_raster_draw_triangles(target, layout, count, &colours, filter, subpixel_bits, depth, pool);
    free(colours.pixels);
    return status;
}

int vks_raster_draw_triangles(const struct vks_image *target, const struct vks_vertex_layout *layout, uint32_t count,
                              const struct vks_image *texture, enum vks_filter filter, uint32_t subpixel_bits,
                              const struct vks_depth *depth, struct vks_pool *pool)
{
    int status = check_images(target, texture, depth);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_draw_is_valid(layout, count, texture != NULL, filter, subpixel_bits))
        return VKS_RASTER_BAD_ARGUMENT;
    if (count < 3)
        return VKS_RASTER_OK;
    if (texture != NULL && vks_planar_format(texture->format) != NULL)
        return draw_with_colours(target, layout, count, texture, filter, subpixel_bits, depth, pool);
    struct vks_draw draw = vks_make_draw(target, texture, filter);
    struct vks_setup setup = vks_make_setup(layout, target, subpixel_bits, texture != NULL, depth != NULL);
    uint32_t threads = vks_pool_threads(pool);
    uint32_t blocks = threads == 1 ? 1 : threads * BLOCKS_PER_THREAD;
    struct batch batch = {.draw = &draw, .depth = depth, .setup = &setup, .shade = vks_shade_kernel(vks_cpu_isa())};
    batch.blocks = calloc(blocks, sizeof *batch.blocks);
    if (batch.blocks == NULL)
        return VKS_RASTER_NO_MEMORY;
    status = draw_all(&batch, count / 3, blocks, pool);
    for (uint32_t b = 0; b < blocks; b++) {
        free(batch.blocks[b].triangle);
        free(batch.blocks[b].rows);
    }
    free(batch.blocks);
    return status;
}
