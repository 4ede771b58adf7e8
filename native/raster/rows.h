// Operations that draw each row of their target by itself: several of them may go down the target together.
#pragma once

#include "raster/image.h"
#include "raster/over.h"
#include "raster/ycbcr.h"

// One such operation on one target, initialised by a function below and not changed afterwards.
struct vks_rows {
    // Draws rows first..end-1 of `area`. NULL: nothing of it lies in the target.
    void (*draw)(const struct vks_rows *rows, uint32_t first, uint32_t end);
    struct vks_area area; // of the target
    size_t bytes;         // its memory traffic, approximately
    const struct vks_image *target, *source;
    union {
        struct {
            size_t pixel_bytes;
            uint8_t pixel[16];
        } fill;
        struct {
            uint32_t source_x, source_y; // of the area's first pixel
            float opacity;
            enum vks_alpha alpha;
            uint32_t format; // of the source, as it is read
            vks_over_row over_row;
            struct vks_ycbcr planar; // of a planar source
        } composite;
    };
};

// The arguments, and the conditions on them, are those of vks_raster_fill_rect() and vks_raster_composite(). The images
// are the caller's, for as long as `out` is used. `format`: how the source is read, usually its own.
int vks_fill_rows(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                  const float rgba[4], struct vks_rows *out);
int vks_composite_rows(const struct vks_image *source, const struct vks_image *target, int32_t x, int32_t y,
                       float opacity, enum vks_alpha alpha, uint32_t format, struct vks_rows *out);

// Draws them in order. All have one target, and none reads memory that another one writes.
void vks_draw_rows(const struct vks_rows *rows, uint32_t count, struct vks_pool *pool);
