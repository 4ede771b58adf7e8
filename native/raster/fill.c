// clear and fill_rect: one pixel is packed, one row is doubled up from it, the other rows are copies of that row, which
// stays in the first-level cache: memset's speed for any pixel size.
#include <string.h>

#include "raster/format.h"
#include "raster/image.h"

struct fill {
    const struct vks_image *target;
    struct vks_area area;
    uint8_t pixel[16];
    size_t pixel_bytes, row_bytes;
};

static void fill_row(const struct fill *fill, uint8_t *row)
{
    memcpy(row, fill->pixel, fill->pixel_bytes);
    for (size_t done = fill->pixel_bytes; done < fill->row_bytes;) {
        size_t more = done < fill->row_bytes - done ? done : fill->row_bytes - done;
        memcpy(row + done, row, more);
        done += more;
    }
}

static void fill_band(void *context, uint32_t first, uint32_t end)
{
    const struct fill *fill = context;
    size_t stride = fill->target->stride;
    uint8_t *row = vks_pixel_at(fill->target, fill->area.x, fill->area.y + first);
    fill_row(fill, row);
    for (uint32_t y = first + 1; y < end; y++)
        memcpy(row + (y - first) * stride, row, fill->row_bytes);
}

int vks_raster_fill_rect(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                         const float rgba[4], struct vks_pool *pool)
{
    int status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (rgba == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    struct fill fill = {.target = target};
    if (!vks_clip_area(target, x, y, width, height, &fill.area))
        return VKS_RASTER_OK;
    vks_pack_colour(target->format, rgba, fill.pixel);
    fill.pixel_bytes = vks_format_bytes(target->format);
    fill.row_bytes = fill.area.width * fill.pixel_bytes;
    vks_run_rows(pool, fill.area.height, fill.row_bytes * fill.area.height, fill_band, &fill);
    return VKS_RASTER_OK;
}

int vks_raster_clear(const struct vks_image *target, const float rgba[4], struct vks_pool *pool)
{
    return vks_raster_fill_rect(target, 0, 0, INT32_MAX, INT32_MAX, rgba, pool);
}
