// clear and fill_rect: one pixel is packed, one row is doubled up from it, the other rows are copies of that row, which
// stays in the first-level cache: memset's speed for any pixel size.
#include <string.h>

#include "raster/convert.h"
#include "raster/format.h"
#include "raster/rows.h"

static void fill_row(const struct vks_rows *rows, uint8_t *row, size_t row_bytes)
{
    memcpy(row, rows->fill.pixel, rows->fill.pixel_bytes);
    for (size_t done = rows->fill.pixel_bytes; done < row_bytes;) {
        size_t more = done < row_bytes - done ? done : row_bytes - done;
        memcpy(row + done, row, more);
        done += more;
    }
}

static void fill_band(const struct vks_rows *rows, uint32_t first, uint32_t end)
{
    size_t stride = rows->target->stride, row_bytes = rows->area.width * rows->fill.pixel_bytes;
    uint8_t *row = vks_pixel_at(rows->target, rows->area.x, rows->area.y + first);
    fill_row(rows, row, row_bytes);
    for (uint32_t y = first + 1; y < end; y++)
        memcpy(row + (y - first) * stride, row, row_bytes);
}

int vks_fill_rows(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                  const float rgba[4], struct vks_rows *out)
{
    *out = (struct vks_rows){.target = target};
    int status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (rgba == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    if (vks_planar_format(target->format) != NULL)
        return VKS_RASTER_BAD_FORMAT;
    if (!vks_clip_area(target, x, y, width, height, &out->area))
        return VKS_RASTER_OK;
    vks_pack_colour(target->format, rgba, out->fill.pixel);
    out->fill.pixel_bytes = vks_format_bytes(target->format);
    out->bytes = (size_t)out->area.width * out->area.height * out->fill.pixel_bytes;
    out->draw = fill_band;
    return VKS_RASTER_OK;
}

int vks_raster_fill_rect(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                         const float rgba[4], struct vks_pool *pool)
{
    if (vks_image_check(target) == VKS_RASTER_OK && vks_planar_format(target->format) != NULL)
        return rgba == NULL ? VKS_RASTER_BAD_ARGUMENT : vks_planar_fill(target, x, y, width, height, rgba, pool);
    struct vks_rows rows;
    int status = vks_fill_rows(target, x, y, width, height, rgba, &rows);
    if (status == VKS_RASTER_OK)
        vks_draw_rows(&rows, 1, pool);
    return status;
}

int vks_raster_clear(const struct vks_image *target, const float rgba[4], struct vks_pool *pool)
{
    return vks_raster_fill_rect(target, 0, 0, INT32_MAX, INT32_MAX, rgba, pool);
}
