#include "raster/format.h"
#include "raster/rows.h"
#include "raster/vec4.h"

static void band_8888(const struct vks_rows *rows, uint32_t first, uint32_t end)
{
    uint32_t opacity = (uint32_t)(rows->composite.opacity * 65535.0f + 0.5f);
    uint32_t x = rows->composite.source_x, source_y = rows->composite.source_y;
    for (uint32_t y = first; y < end; y++)
        rows->composite.over_row(vks_pixel_at(rows->target, rows->area.x, rows->area.y + y),
                                 vks_pixel_at(rows->source, x, source_y + y), rows->area.width, opacity);
}

static void load_planar(const struct vks_rows *rows, uint32_t x, uint32_t y, uint32_t n, vks_rgba *out)
{
    uint8_t codes[4 * VKS_CHUNK];
    if (rows->target->format != VKS_FORMAT_RGBA8_UNORM_SRGB) {
        vks_ycbcr_read(&rows->composite.planar, x, y, n, out);
        return;
    }
    vks_ycbcr_read_8888(&rows->composite.planar, x, y, n, false, codes); // linear light is blended
    vks_load_pixels(VKS_FORMAT_RGBA8_UNORM_SRGB, codes, out, n);
}

static void band_any(const struct vks_rows *rows, uint32_t first, uint32_t end)
{
    const struct vks_image *source = rows->source, *target = rows->target;
    const struct vks_area *area = &rows->area;
    bool is_straight = rows->composite.alpha == VKS_STRAIGHT;
    vks_rgba colour[VKS_CHUNK];
    for (uint32_t y = first; y < end; y++) {
        for (uint32_t x = 0; x < area->width; x += VKS_CHUNK) {
            uint32_t n = area->width - x < VKS_CHUNK ? area->width - x : VKS_CHUNK;
            uint32_t column = rows->composite.source_x + x, row = rows->composite.source_y + y;
            if (rows->composite.planar.format != NULL)
                load_planar(rows, column, row, n, colour);
            else
                vks_load_pixels(rows->composite.format, vks_pixel_at(source, column, row), colour, n);
            for (uint32_t i = 0; i < n; i++) {
                float weight = rows->composite.opacity * (is_straight ? colour[i][3] : 1.0f);
                float alpha = colour[i][3] * rows->composite.opacity;
                vks_f4_store(colour[i], vks_f4_load(colour[i]) * vks_f4_all(weight));
                colour[i][3] = alpha;
            }
            vks_blend_pixels(target->format, (const vks_rgba *)colour, vks_pixel_at(target, area->x + x, area->y + y),
                             n);
        }
    }
}

// A planar source, whose pixels are opaque.
static void band_planar(const struct vks_rows *rows, uint32_t first, uint32_t end)
{
    const struct vks_image *target = rows->target;
    const struct vks_area *area = &rows->area;
    bool is_bgra = target->format == VKS_FORMAT_BGRA8_UNORM, is_plain = rows->composite.opacity == 1.0f;
    uint32_t opacity = (uint32_t)(rows->composite.opacity * 65535.0f + 0.5f), x = rows->composite.source_x;
    uint8_t pixels[4 * 4 * VKS_CHUNK];
    for (uint32_t y = first; y < end; y++) {
        uint32_t row = rows->composite.source_y + y;
        if (is_plain) {
            vks_ycbcr_read_8888(&rows->composite.planar, x, row, area->width, is_bgra,
                                vks_pixel_at(target, area->x, area->y + y));
            continue;
        }
        for (uint32_t done = 0, n; done < area->width; done += n) {
            n = area->width - done < 4 * VKS_CHUNK ? area->width - done : 4 * VKS_CHUNK;
            vks_ycbcr_read_8888(&rows->composite.planar, x + done, row, n, is_bgra, pixels);
            rows->composite.over_row(vks_pixel_at(target, area->x + done, area->y + y), pixels, n, opacity);
        }
    }
}

bool vks_opacity_is_valid(float opacity)
{
    return opacity >= 0.0f && opacity <= 1.0f; // false for NaN
}

bool vks_alpha_is_valid(enum vks_alpha alpha) { return alpha == VKS_PREMULTIPLIED || alpha == VKS_STRAIGHT; }

static int check(const struct vks_image *source, const struct vks_image *target, float opacity, enum vks_alpha alpha)
{
    int status = vks_image_check(source);
    if (status == VKS_RASTER_OK)
        status = vks_image_check(target);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_format_has_colours(source->format) || !vks_format_is_drawable(target->format))
        return VKS_RASTER_BAD_FORMAT;
    if (!vks_opacity_is_valid(opacity) || !vks_alpha_is_valid(alpha))
        return VKS_RASTER_BAD_ARGUMENT;
    return vks_images_overlap(source, target) ? VKS_RASTER_OVERLAP : VKS_RASTER_OK;
}

int vks_composite_rows(const struct vks_image *source, const struct vks_image *target, int32_t x, int32_t y,
                       float opacity, enum vks_alpha alpha, uint32_t format, struct vks_rows *out)
{
    *out = (struct vks_rows){.target = target, .source = source};
    int status = check(source, target, opacity, alpha);
    if (status != VKS_RASTER_OK || opacity == 0.0f ||
        !vks_clip_area(target, x, y, (int32_t)source->width, (int32_t)source->height, &out->area))
        return status;
    out->composite.source_x = (uint32_t)((int64_t)out->area.x - x);
    out->composite.source_y = (uint32_t)((int64_t)out->area.y - y);
    out->composite.opacity = opacity;
    out->composite.alpha = alpha;
    out->composite.format = format;
    out->bytes = (size_t)out->area.width * out->area.height * vks_format_bytes(target->format) * 2;
    if (vks_planar_format(source->format) != NULL) {
        status = vks_ycbcr_begin(source, &out->composite.planar);
        if (status != VKS_RASTER_OK)
            return status;
        format = VKS_FORMAT_RGBA8_UNORM;
        out->composite.format = target->format; // as it is read
    }
    if (out->composite.planar.format != NULL && vks_format_is_8888(target->format)) {
        out->composite.over_row = vks_over_kernel(vks_cpu_isa())->row[0][0][opacity < 1.0f];
        out->draw = band_planar;
    } else if (vks_format_is_8888(format) && vks_format_is_8888(target->format)) {
        bool swaps = format != target->format;
        out->composite.over_row = vks_over_kernel(vks_cpu_isa())->row[alpha == VKS_STRAIGHT][swaps][opacity < 1.0f];
        out->draw = band_8888;
    } else {
        out->bytes *= 4; // slower by more than that
        out->draw = band_any;
    }
    return VKS_RASTER_OK;
}

int vks_raster_composite(const struct vks_image *source, const struct vks_image *target, int32_t x, int32_t y,
                         float opacity, enum vks_alpha alpha, struct vks_pool *pool)
{
    struct vks_rows rows;
    int status = vks_composite_rows(source, target, x, y, opacity, alpha, source->format, &rows);
    if (status == VKS_RASTER_OK)
        vks_draw_rows(&rows, 1, pool);
    return status;
}
