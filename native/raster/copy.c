#include <string.h>

#include "raster/convert.h"
#include "raster/image.h"

struct copy {
    const uint8_t *from;
    uint8_t *to;
    size_t from_stride, to_stride, row_bytes;
};

static void copy_band(void *context, uint32_t first, uint32_t end)
{
    const struct copy *copy = context;
    const uint8_t *from = copy->from + first * copy->from_stride;
    uint8_t *to = copy->to + first * copy->to_stride;
    if (copy->from_stride == copy->row_bytes && copy->to_stride == copy->row_bytes) {
        memcpy(to, from, (end - first) * copy->row_bytes);
        return;
    }
    for (uint32_t y = first; y < end; y++, from += copy->from_stride, to += copy->to_stride)
        memcpy(to, from, copy->row_bytes);
}

// Cuts [at, at + length) to [0, limit) and moves `other`, the same interval's start elsewhere, along.
static void cut(int64_t *at, int64_t *other, int64_t *length, int64_t limit)
{
    if (*at < 0) {
        *other -= *at;
        *length += *at;
        *at = 0;
    }
    if (*length > limit - *at)
        *length = limit - *at;
}

int vks_raster_copy(const struct vks_image *source, int32_t source_x, int32_t source_y, int32_t width, int32_t height,
                    const struct vks_image *target, int32_t x, int32_t y, struct vks_pool *pool)
{
    int status = vks_image_check(source);
    if (status == VKS_RASTER_OK)
        status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (source->format != target->format)
        return VKS_RASTER_FORMAT_MISMATCH;
    if (vks_images_overlap(source, target))
        return VKS_RASTER_OVERLAP;
    if (vks_planar_format(source->format) != NULL)
        return vks_planar_copy(source, source_x, source_y, width, height, target, x, y, pool);
    int64_t sx = source_x, sy = source_y, tx = x, ty = y, w = width, h = height;
    cut(&sx, &tx, &w, source->width);
    cut(&tx, &sx, &w, target->width);
    cut(&sy, &ty, &h, source->height);
    cut(&ty, &sy, &h, target->height);
    if (w <= 0 || h <= 0)
        return VKS_RASTER_OK;
    struct copy copy = {
        .from = vks_pixel_at(source, (uint32_t)sx, (uint32_t)sy),
        .to = vks_pixel_at(target, (uint32_t)tx, (uint32_t)ty),
        .from_stride = source->stride,
        .to_stride = target->stride,
        .row_bytes = (size_t)w * vks_format_bytes(source->format),
    };
    vks_run_rows(pool, (uint32_t)h, copy.row_bytes * (size_t)h, copy_band, &copy);
    return VKS_RASTER_OK;
}
