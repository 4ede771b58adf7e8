#include "raster/convert.h"

#include <stdlib.h>

static bool is_planar(const struct vks_image *image) { return vks_planar_format(image->format) != NULL; }

// Whether the numbers begin at pixels of chroma, or lie at the image's end.
static bool is_whole(const struct vks_planar_format *planar, int64_t x, int64_t y)
{
    return x % (1 << planar->x_shift) == 0 && y % (1 << planar->y_shift) == 0;
}

// ---- copies and fills -----------------------------------------------------------------------------------------------

static bool same_colours(const struct vks_color *a, const struct vks_color *b)
{
    return a->matrix == b->matrix && a->range == b->range && a->siting == b->siting;
}

int vks_planar_copy(const struct vks_image *source, int32_t source_x, int32_t source_y, int32_t width, int32_t height,
                    const struct vks_image *target, int32_t x, int32_t y, struct vks_pool *pool)
{
    const struct vks_planar_format *planar = vks_planar_format(source->format);
    if (!same_colours(&source->color, &target->color))
        return VKS_RASTER_FORMAT_MISMATCH;
    bool is_aligned = is_whole(planar, source_x, source_y) && is_whole(planar, x, y);
    if (!is_aligned || !is_whole(planar, width == INT32_MAX ? 0 : width, height == INT32_MAX ? 0 : height))
        return VKS_RASTER_BAD_ARGUMENT;
    int status = VKS_RASTER_OK;
    for (uint32_t plane = 0; plane < planar->planes && status == VKS_RASTER_OK; plane++) {
        struct vks_image from = vks_plane_of(source, plane), to = vks_plane_of(target, plane);
        int across = plane ? planar->x_shift : 0, down = plane ? planar->y_shift : 0;
        status = vks_raster_copy(&from, source_x >> across, source_y >> down, width >> across, height >> down, &to,
                                 x >> across, y >> down, pool);
    }
    return status;
}

int vks_planar_fill(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                    const float rgba[4], struct vks_pool *pool)
{
    struct vks_ycbcr writer;
    struct vks_area area;
    int status = vks_ycbcr_begin(target, &writer);
    if (status != VKS_RASTER_OK)
        return status;
    if (!vks_clip_area(target, x, y, width, height, &area))
        return VKS_RASTER_OK;
    if (!is_whole(writer.format, area.x, area.y) || !is_whole(writer.format, area.width, area.height))
        return VKS_RASTER_BAD_ARGUMENT;
    // One pixel of chroma is converted as any other, and its codes are those of all.
    float pixels[4][4];
    for (int i = 0; i < 4; i++)
        memcpy(pixels[i], rgba, sizeof pixels[i]);
    struct vks_image one = {pixels,
                            sizeof pixels,
                            1u << writer.format->x_shift,
                            1u << writer.format->y_shift,
                            2 * sizeof *pixels,
                            VKS_FORMAT_RGBA32_FLOAT,
                            {0}};
    vks_ycbcr_write(&writer, area.x, area.y, &one, 0, 1);
    for (uint32_t i = 0; i < writer.format->planes && status == VKS_RASTER_OK; i++) {
        int across = i ? writer.format->x_shift : 0, down = i ? writer.format->y_shift : 0;
        float colour[4];
        struct vks_area part = {area.x >> across, area.y >> down, area.width >> across, area.height >> down};
        vks_unpack_colour(writer.plane[i].format, vks_pixel_at(&writer.plane[i], part.x, part.y), colour);
        status = vks_raster_fill_rect(&writer.plane[i], (int32_t)part.x, (int32_t)part.y, (int32_t)part.width,
                                      (int32_t)part.height, colour, pool);
    }
    return status;
}

// ---- colours --------------------------------------------------------------------------------------------------------

struct reading {
    struct vks_ycbcr source;
    struct vks_area area;
    const struct vks_image *target; // the area begins at x, y
    uint32_t x, y;
};

static void read_band(void *context, uint32_t first, uint32_t end)
{
    const struct reading *r = context;
    const struct vks_image *target = r->target;
    bool is_8888 = vks_format_is_8888(target->format) || target->format == VKS_FORMAT_RGBA8_UNORM_SRGB;
    vks_rgba colour[VKS_CHUNK];
    for (uint32_t y = first; y < end; y++) {
        if (is_8888) {
            vks_ycbcr_read_8888(&r->source, r->area.x, r->area.y + y, r->area.width,
                                target->format == VKS_FORMAT_BGRA8_UNORM, vks_pixel_at(target, r->x, r->y + y));
            continue;
        }
        for (uint32_t x = 0; x < r->area.width; x += VKS_CHUNK) {
            uint32_t n = r->area.width - x < VKS_CHUNK ? r->area.width - x : VKS_CHUNK;
            vks_ycbcr_read(&r->source, r->area.x + x, r->area.y + y, n, colour);
            vks_store_pixels(target->format, (const vks_rgba *)colour, vks_pixel_at(target, r->x + x, r->y + y), n);
        }
    }
}

// Codes go as they are, also to an image of -srgb, which says that they are encoded.
static int read_area(const struct vks_image *source, const struct vks_area *area, const struct vks_image *target,
                     uint32_t x, uint32_t y, struct vks_pool *pool)
{
    struct reading reading = {.area = *area, .target = target, .x = x, .y = y};
    int status = vks_ycbcr_begin(source, &reading.source);
    if (status == VKS_RASTER_OK)
        vks_run_rows(pool, area->height, (size_t)area->width * area->height * 8, read_band, &reading);
    return status;
}

static int allocate(uint32_t width, uint32_t height, uint32_t format, struct vks_image *out)
{
    size_t stride = width * vks_format_bytes(format);
    *out = (struct vks_image){malloc(stride * height), stride * height, width, height, stride, format, {0}};
    return out->pixels ? VKS_RASTER_OK : VKS_RASTER_NO_MEMORY;
}

int vks_planar_colours(const struct vks_image *source, const struct vks_area *area, bool is_srgb, struct vks_pool *pool,
                       struct vks_image *out)
{
    bool is_deep = vks_planar_format(source->format)->bits > 8 && !is_srgb;
    uint32_t shallow = is_srgb ? VKS_FORMAT_RGBA8_UNORM_SRGB : VKS_FORMAT_RGBA8_UNORM;
    int status = allocate(area->width, area->height, is_deep ? VKS_FORMAT_RGBA16_UNORM : shallow, out);
    if (status == VKS_RASTER_OK && (status = read_area(source, area, out, 0, 0, pool)) != VKS_RASTER_OK) {
        free(out->pixels);
        out->pixels = NULL;
    }
    return status;
}

// ---- blits ----------------------------------------------------------------------------------------------------------

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

static void shift(struct vks_blit_rect *rect, int64_t x, int64_t y)
{
    rect->x0 -= (int32_t)x, rect->x1 -= (int32_t)x;
    rect->y0 -= (int32_t)y, rect->y1 -= (int32_t)y;
}

// The area that a blit reads of the source: the rectangle, and a pixel around it, for filters.
static struct vks_area read_by(const struct vks_image *source, struct vks_blit_rect from)
{
    struct vks_area area;
    int32_t x = least(from.x0, from.x1), y = least(from.y0, from.y1);
    int32_t width = from.x1 > from.x0 ? from.x1 - from.x0 : from.x0 - from.x1;
    int32_t height = from.y1 > from.y0 ? from.y1 - from.y0 : from.y0 - from.y1;
    if (!vks_clip_area(source, x - 1, y - 1, width + 2, height + 2, &area))
        area = (struct vks_area){0, 0, source->width, source->height}; // its edges are read
    return area;
}

static bool is_plain(struct vks_blit_rect from, struct vks_blit_rect to)
{
    return from.x1 > from.x0 && from.y1 > from.y0 && from.x1 - from.x0 == to.x1 - to.x0 &&
           from.y1 - from.y0 == to.y1 - to.y0;
}

static bool is_inside(const struct vks_image *image, struct vks_blit_rect r)
{
    return r.x0 >= 0 && r.y0 >= 0 && r.x1 <= (int64_t)image->width && r.y1 <= (int64_t)image->height;
}

static int blit_from(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                     struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool)
{
    struct vks_area area;
    if (is_plain(from, to) && is_inside(source, from)) {
        if (!vks_clip_area(target, to.x0, to.y0, to.x1 - to.x0, to.y1 - to.y0, &area))
            return VKS_RASTER_OK;
        struct vks_area read = {(uint32_t)(from.x0 + ((int64_t)area.x - to.x0)),
                                (uint32_t)(from.y0 + ((int64_t)area.y - to.y0)), area.width, area.height};
        return read_area(source, &read, target, area.x, area.y, pool);
    }
    area = read_by(source, from);
    struct vks_image colours, encoded = *target;
    int status = vks_planar_colours(source, &area, false, pool, &colours);
    if (status != VKS_RASTER_OK)
        return status;
    if (target->format == VKS_FORMAT_RGBA8_UNORM_SRGB)
        encoded.format = VKS_FORMAT_RGBA8_UNORM; // the codes are encoded already
    shift(&from, area.x, area.y);
    status = vks_raster_blit(&colours, from, &encoded, to, filter, pool);
    free(colours.pixels);
    return status;
}

struct writing {
    struct vks_ycbcr target;
    struct vks_image colours;
    uint32_t x, y;
};

static void write_band(void *context, uint32_t first, uint32_t end)
{
    const struct writing *w = context;
    vks_ycbcr_write(&w->target, w->x, w->y, &w->colours, first, end);
}

static int blit_to(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                   struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool)
{
    struct writing writing;
    struct vks_area area;
    int status = vks_ycbcr_begin(target, &writing.target);
    if (status != VKS_RASTER_OK)
        return status;
    int32_t width = to.x1 > to.x0 ? to.x1 - to.x0 : to.x0 - to.x1;
    int32_t height = to.y1 > to.y0 ? to.y1 - to.y0 : to.y0 - to.y1;
    if (!vks_clip_area(target, least(to.x0, to.x1), least(to.y0, to.y1), width, height, &area))
        return VKS_RASTER_OK;
    const struct vks_planar_format *planar = writing.target.format;
    if (!is_whole(planar, area.x, area.y) || !is_whole(planar, area.width, area.height))
        return VKS_RASTER_BAD_ARGUMENT;
    status = allocate(area.width, area.height, VKS_FORMAT_RGBA16_UNORM, &writing.colours);
    if (status != VKS_RASTER_OK)
        return status;
    struct vks_image codes = *source;
    if (source->format == VKS_FORMAT_RGBA8_UNORM_SRGB)
        codes.format = VKS_FORMAT_RGBA8_UNORM; // as they are encoded
    shift(&to, area.x, area.y);
    status = vks_raster_blit(&codes, from, &writing.colours, to, filter, pool);
    writing.x = area.x, writing.y = area.y;
    if (status == VKS_RASTER_OK)
        vks_run_rows(pool, area.height >> planar->y_shift, (size_t)area.width * area.height * 16, write_band, &writing);
    free(writing.colours.pixels);
    return status;
}

int vks_planar_blit(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                    struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool)
{
    return is_planar(target) ? blit_to(source, from, target, to, filter, pool)
                             : blit_from(source, from, target, to, filter, pool);
}
