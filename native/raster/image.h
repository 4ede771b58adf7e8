// Shared by the operations: addresses, clipping, and the distribution of rows over the pool's threads.
#pragma once

#include <stdbool.h>

#include "raster/raster.h"

static inline uint8_t *vks_pixel_at(const struct vks_image *image, uint32_t x, uint32_t y)
{
    return (uint8_t *)image->pixels + (size_t)y * image->stride + x * vks_format_bytes(image->format);
}

// A rectangle inside an image.
struct vks_area {
    uint32_t x, y, width, height;
};

// The part of the rectangle that lies in the image. False if it is empty. No int32 rectangle overflows.
bool vks_clip_area(const struct vks_image *image, int32_t x, int32_t y, int32_t width, int32_t height,
                   struct vks_area *out);

// Whether the two touch a byte in common.
bool vks_images_overlap(const struct vks_image *a, const struct vks_image *b);

// Calls work(context, first, end) for bands that cover rows 0..rows-1, on the pool's threads when `bytes`, the
// memory traffic of the whole operation, is worth waking them.
void vks_run_rows(struct vks_pool *pool, uint32_t rows, size_t bytes,
                  void (*work)(void *context, uint32_t first, uint32_t end), void *context);

// Checks of an operation's arguments other than images; a program checks when it records.
bool vks_opacity_is_valid(float opacity);
bool vks_alpha_is_valid(enum vks_alpha alpha);
bool vks_blit_is_valid(struct vks_blit_rect from, struct vks_blit_rect to, enum vks_filter filter);
bool vks_draw_is_valid(const struct vks_vertex_layout *layout, uint32_t count, bool textured, enum vks_filter filter,
                       uint32_t subpixel_bits);
