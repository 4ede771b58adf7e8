#include "raster/format.h"
#include "raster/image.h"
#include "raster/over.h"
#include "raster/vec4.h"

struct composite {
    const struct vks_image *source, *target;
    struct vks_area area;        // of the target
    uint32_t source_x, source_y; // of the area's first pixel
    float opacity;
    vks_over_row over_row;
};

static void band_8888(void *context, uint32_t first, uint32_t end)
{
    const struct composite *c = context;
    uint32_t opacity = (uint32_t)(c->opacity * 65535.0f + 0.5f);
    for (uint32_t y = first; y < end; y++)
        c->over_row(vks_pixel_at(c->target, c->area.x, c->area.y + y),
                    vks_pixel_at(c->source, c->source_x, c->source_y + y), c->area.width, opacity);
}

static void band_any(void *context, uint32_t first, uint32_t end)
{
    const struct composite *c = context;
    vks_rgba colour[VKS_CHUNK];
    for (uint32_t y = first; y < end; y++) {
        for (uint32_t x = 0; x < c->area.width; x += VKS_CHUNK) {
            uint32_t n = c->area.width - x < VKS_CHUNK ? c->area.width - x : VKS_CHUNK;
            uint8_t *target = vks_pixel_at(c->target, c->area.x + x, c->area.y + y);
            vks_load_pixels(c->source->format, vks_pixel_at(c->source, c->source_x + x, c->source_y + y), colour, n);
            for (uint32_t i = 0; i < n; i++)
                vks_f4_store(colour[i], vks_f4_load(colour[i]) * vks_f4_all(c->opacity));
            vks_blend_pixels(c->target->format, (const vks_rgba *)colour, target, n);
        }
    }
}

bool vks_opacity_is_valid(float opacity)
{
    return opacity >= 0.0f && opacity <= 1.0f; // false for NaN
}

int vks_raster_composite(const struct vks_image *source, const struct vks_image *target, int32_t x, int32_t y,
                         float opacity, struct vks_pool *pool)
{
    int status = vks_image_check(source);
    if (status == VKS_RASTER_OK)
        status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_opacity_is_valid(opacity))
        return VKS_RASTER_BAD_ARGUMENT;
    if (vks_images_overlap(source, target))
        return VKS_RASTER_OVERLAP;
    struct composite c = {.source = source, .target = target, .opacity = opacity};
    if (opacity == 0.0f || !vks_clip_area(target, x, y, (int32_t)source->width, (int32_t)source->height, &c.area))
        return VKS_RASTER_OK;
    c.source_x = (uint32_t)((int64_t)c.area.x - x);
    c.source_y = (uint32_t)((int64_t)c.area.y - y);
    size_t bytes = (size_t)c.area.width * c.area.height * vks_format_bytes(target->format) * 2;
    if (vks_format_is_8888(source->format) && vks_format_is_8888(target->format)) {
        c.over_row = vks_over_kernel(vks_cpu_isa())->row[source->format != target->format][opacity < 1.0f];
        vks_run_rows(pool, c.area.height, bytes, band_8888, &c);
    } else {
        vks_run_rows(pool, c.area.height, bytes * 4, band_any, &c); // slower by more than that
    }
    return VKS_RASTER_OK;
}
