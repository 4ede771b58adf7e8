/* commands.c: the commands of a recording. A command is checked here, once; what turns recordings
 * into work relies on it. */
#include <math.h>
#include <string.h>

#include "raster/format.h"
#include "raster/planar.h"
#include "record/recording.h"

/* ---- checks ---- */

static vks_status check_pair(const char *name, vks_operand source, vks_operand target)
{
    return source.surface == target.surface
               ? vks_fail(VKS_BAD_VALUE, 0, "%s and target are the same surface; go through a third one", name)
               : VKS_OK;
}

static vks_status check_inside(const char *name, int64_t x0, int64_t y0, int64_t x1, int64_t y1, const char *what,
                               vks_operand operand)
{
    const vks_drawable_info *image = &operand.drawable->info;
    int64_t left = x0 < x1 ? x0 : x1, right = x0 < x1 ? x1 : x0, top = y0 < y1 ? y0 : y1, bottom = y0 < y1 ? y1 : y0;
    if (left >= 0 && top >= 0 && right <= image->width && bottom <= image->height)
        return VKS_OK;
    return vks_fail(VKS_BAD_VALUE, 0, "%s covers x %lld to %lld, y %lld to %lld, which is not inside the %s of %ux%u",
                    name, (long long)left, (long long)right, (long long)top, (long long)bottom, what, image->width,
                    image->height);
}

static vks_status check_size(const char *name, vks_rect rect)
{
    return rect.width < 0 || rect.height < 0
               ? vks_fail(VKS_BAD_VALUE, 0, "%s is (%d, %d, %d, %d); width and height must not be negative", name,
                          rect.x, rect.y, rect.width, rect.height)
               : VKS_OK;
}

static vks_status check_no_depth(const char *name, vks_operand operand)
{
    uint32_t format = operand.drawable->info.format;
    return vks_format_is_depth(format)
               ? vks_fail(VKS_UNSUPPORTED, (int)format,
                          "%s has format %s, and depth is not filled, scaled, converted, sampled or blended; clear(), "
                          "copy() and draw_triangles(depth=) take it",
                          name, vks_format_name(format))
               : VKS_OK;
}

/* Vulkan has no filters and no blending for integers, and blits do not convert them
 * (VUID-vkCmdBlitImage-srcImage-00230). */
static vks_status check_colours(const char *name, vks_operand operand)
{
    uint32_t format = operand.drawable->info.format;
    vks_status status = check_no_depth(name, operand);
    if (status)
        return status;
    return vks_format_is_integer(format)
               ? vks_fail(VKS_UNSUPPORTED, (int)format,
                          "%s has format %s, and integers are not scaled, converted, sampled or blended; clear(), "
                          "fill_rect() and copy() take them",
                          name, vks_format_name(format))
               : VKS_OK;
}

/* Planes are converted where they are read, and written by clears, fills, copies and blits alone. */
static vks_status check_drawable(const char *name, vks_operand operand)
{
    uint32_t format = operand.drawable->info.format;
    vks_status status = check_colours(name, operand);
    return status || !vks_planar_format(format)
               ? status
               : vks_fail(VKS_UNSUPPORTED, (int)format,
                          "%s has format %s, and nothing is blended into planes; draw into another surface, and blit() "
                          "that",
                          name, vks_format_name(format));
}

/* Vulkan copies planes by whole pixels of chroma (VUID-vkCmdCopyImage-None-01549). */
static vks_status check_whole(const char *name, vks_operand operand, int32_t x, int32_t y, int32_t width,
                              int32_t height)
{
    const vks_drawable_info *image = &operand.drawable->info;
    const struct vks_planar_format *planar = vks_planar_format(image->format);
    int32_t across = planar ? (1 << planar->x_shift) - 1 : 0, down = planar ? (1 << planar->y_shift) - 1 : 0;
    return !((x | width) & across) && !((y | height) & down)
               ? VKS_OK
               : vks_fail(VKS_BAD_VALUE, 0,
                          "%s is (%d, %d, %d, %d); in %s, allowed are multiples of %d across and %d down, the size of "
                          "chroma",
                          name, x, y, width, height, vks_format_name(image->format), across + 1, down + 1);
}

static bool have_one_color(vks_operand source, vks_operand target)
{
    const vks_color *a = &source.drawable->info.color, *b = &target.drawable->info.color;
    return a->matrix == b->matrix && a->range == b->range && a->siting == b->siting;
}

static void set_colour(vks_command *command, vks_operand target, const double colour[4])
{
    for (int i = 0; i < 4; i++)
        command->fill.colour[i] = (float)colour[i];
    if (!vks_format_is_integer(target.drawable->info.format))
        return;
    double red = colour[0] > 0 ? colour[0] : 0; /* NaN too */
    uint32_t code = red < UINT32_MAX ? (uint32_t)rint(red) : UINT32_MAX;
    memcpy(&command->fill.colour[0], &code, sizeof code);
}

vks_status vks_recording_clear(vks_recording *recording, vks_operand target, const double colour[4])
{
    vks_command command = {.kind = VKS_COMMAND_CLEAR};
    if (vks_format_is_depth(target.drawable->info.format) && !(colour[0] >= 0 && colour[0] <= 1)) /* NaN too */
        return vks_fail(VKS_BAD_VALUE, 0, "the depth is %g; allowed is 0 to 1", colour[0]);
    set_colour(&command, target, colour);
    return vks_recording_add(recording, command, target, vks_no_operand, vks_no_operand);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

vks_status vks_recording_fill_rect(vks_recording *recording, vks_operand target, vks_rect rect, const double colour[4])
{
    vks_status status = check_no_depth("target", target);
    if (status || (status = check_size("rect", rect)))
        return status;
    const vks_drawable_info *image = &target.drawable->info;
    int64_t left = most(rect.x, 0), right = least((int64_t)rect.x + rect.width, image->width);
    int64_t top = most(rect.y, 0), bottom = least((int64_t)rect.y + rect.height, image->height);
    if (left >= right || top >= bottom)
        return VKS_OK;
    if ((status = check_whole("rect", target, (int32_t)left, (int32_t)top, (int32_t)(right - left),
                              (int32_t)(bottom - top))))
        return status;
    vks_command command = {.kind = VKS_COMMAND_FILL};
    command.fill.rect = (vks_rect){(int32_t)left, (int32_t)top, (int32_t)(right - left), (int32_t)(bottom - top)};
    set_colour(&command, target, colour);
    return vks_recording_add(recording, command, target, vks_no_operand, vks_no_operand);
}

vks_status vks_recording_copy(vks_recording *recording, vks_operand source, vks_operand target, vks_rect from,
                              int32_t x, int32_t y)
{
    vks_status status = check_pair("source", source, target);
    if (!status && source.drawable->info.format != target.drawable->info.format)
        status = vks_fail(VKS_BAD_VALUE, 0, "source has format %s, target %s; use blit()",
                          vks_format_name(source.drawable->info.format), vks_format_name(target.drawable->info.format));
    if (!status)
        status = check_size("source_rect", from);
    if (!status)
        status = check_inside("source_rect", from.x, from.y, (int64_t)from.x + from.width,
                              (int64_t)from.y + from.height, "source", source);
    if (!status)
        status = check_inside("at", x, y, (int64_t)x + from.width, (int64_t)y + from.height, "target", target);
    if (!status && !have_one_color(source, target))
        status = vks_fail(VKS_BAD_VALUE, 0, "source and target have other matrices, ranges or sitings; use blit()");
    if (!status && !(status = check_whole("source_rect", source, from.x, from.y, from.width, from.height)))
        status = check_whole("at", target, x, y, from.width, from.height);
    if (status || !from.width || !from.height)
        return status;
    vks_command command = {.kind = VKS_COMMAND_COPY};
    command.copy.from = from;
    command.copy.x = x;
    command.copy.y = y;
    return vks_recording_add(recording, command, target, source, vks_no_operand);
}

static struct vks_blit_rect corners(vks_rect rect)
{
    return (struct vks_blit_rect){rect.x, rect.y, rect.x + rect.width, rect.y + rect.height}; /* inside an image */
}

vks_status vks_recording_blit(vks_recording *recording, vks_operand source, vks_operand target, vks_rect from,
                              vks_rect to, bool linear)
{
    vks_status status = check_pair("source", source, target);
    if (!status && !(status = check_colours("source", source)))
        status = check_colours("target", target);
    if (!status)
        status = check_inside("source_rect", from.x, from.y, (int64_t)from.x + from.width,
                              (int64_t)from.y + from.height, "source", source);
    if (!status)
        status = check_inside("target_rect", to.x, to.y, (int64_t)to.x + to.width, (int64_t)to.y + to.height, "target",
                              target);
    if (!status)
        status = check_whole("target_rect", target, to.x, to.y, to.width, to.height);
    if (status || !from.width || !from.height || !to.width || !to.height)
        return status;
    bool scales = from.width != to.width || from.height != to.height; /* else no pixel lies between texels */
    vks_command command = {.kind = VKS_COMMAND_BLIT, .linear = linear && scales};
    command.blit.from = corners(from);
    command.blit.to = corners(to);
    return vks_recording_add(recording, command, target, source, vks_no_operand);
}

vks_status vks_recording_composite(vks_recording *recording, vks_operand source, vks_operand target, int32_t x,
                                   int32_t y, float opacity, uint32_t how)
{
    vks_status status = check_pair("source", source, target);
    if (!status && !(status = check_colours("source", source)))
        status = check_drawable("target", target);
    if (!status && !(opacity >= 0 && opacity <= 1)) /* NaN too */
        status = vks_fail(VKS_BAD_VALUE, 0, "opacity is %g; allowed is 0 to 1", (double)opacity);
    if (status)
        return status;
    const vks_drawable_info *over = &source.drawable->info, *under = &target.drawable->info;
    if (x >= (int64_t)under->width || (int64_t)x + over->width <= 0 || y >= (int64_t)under->height ||
        (int64_t)y + over->height <= 0 || opacity == 0)
        return VKS_OK;
    vks_command command = {.kind = VKS_COMMAND_COMPOSITE, .composite = {x, y, opacity, how}};
    return vks_recording_add(recording, command, target, source, vks_no_operand);
}

/* ---- triangles ---- */

typedef struct layout {
    uint32_t floats, position; /* floats of a row, and those of its position */
    bool has_colour, has_uv;
} layout;

static const layout plain[] = {{6, 2, true, false}, {8, 4, true, false}, {10, 4, true, true}};
static const layout textured[] = {{4, 2, false, true}, {6, 4, false, true}, {10, 4, true, true}};

static const layout *layout_of(uint32_t floats, bool has_texture)
{
    const layout *layouts = has_texture ? textured : plain;
    for (size_t i = 0; i < 3; i++)
        if (layouts[i].floats == floats)
            return &layouts[i];
    return NULL;
}

/* Without a branch for each value: NaN and infinities have all bits of the exponent. */
static bool are_finite(const float *values, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        found |= (bits & UINT32_C(0x7f800000)) == UINT32_C(0x7f800000);
    }
    return !found;
}

static void expand(const float *in, size_t count, const layout *as, float *out)
{
    for (size_t i = 0; i < count; i++, in += as->floats, out += VKS_VERTEX_FLOATS) {
        const float *next = in + as->position;
        out[0] = in[0];
        out[1] = in[1];
        out[2] = as->position == 4 ? in[2] : 0;
        out[3] = as->position == 4 ? in[3] : 1;
        for (int c = 0; c < 4; c++)
            out[4 + c] = as->has_colour ? next[c] : 1;
        next += as->has_colour ? 4 : 0;
        out[8] = as->has_uv ? next[0] : 0;
        out[9] = as->has_uv ? next[1] : 0;
    }
}

/* Names a value that is not finite. */
static vks_status refuse_values(const float *vertices, size_t count, uint32_t floats)
{
    size_t i = 0;
    while (i + 1 < count * floats && isfinite(vertices[i]))
        i++;
    return vks_fail(VKS_BAD_VALUE, 0, "vertices: value %zu of vertex %zu is %g; allowed are finite 32-bit floats",
                    i % floats, i / floats, (double)vertices[i]);
}

static vks_status check_depth(vks_operand target, const vks_depth_operand *depth)
{
    const vks_drawable_info *image = &depth->image.drawable->info, *colours = &target.drawable->info;
    if (!vks_format_is_depth(image->format))
        return vks_fail(VKS_BAD_VALUE, (int)image->format, "depth has format %s; allowed are d16unorm and d32float",
                        vks_format_name(image->format));
    if (image->width != colours->width || image->height != colours->height)
        return vks_fail(VKS_BAD_VALUE, 0, "depth is %ux%u and target %ux%u; they must have one size", image->width,
                        image->height, colours->width, colours->height);
    return depth->test <= VKS_DEPTH_ALWAYS
               ? VKS_OK
               : vks_fail(VKS_BAD_VALUE, 0, "depth_test is %u; allowed are 0 to %u", depth->test, VKS_DEPTH_ALWAYS);
}

vks_status vks_recording_draw_triangles(vks_recording *recording, vks_operand target, const float *vertices,
                                        size_t count, uint32_t floats, vks_operand texture, bool linear,
                                        const vks_depth_operand *depth)
{
    const layout *as = layout_of(floats, texture.surface != NULL);
    vks_status status = texture.surface ? check_pair("texture", texture, target) : VKS_OK;
    if (!status && texture.surface)
        status = check_colours("texture", texture);
    if (!status)
        status = check_drawable("target", target);
    if (!status && depth)
        status = check_depth(target, depth);
    if (!status && (!as || count % 3))
        status =
            vks_fail(VKS_BAD_VALUE, 0, "vertices has shape (%zu, %u); allowed are rows of %s floats, a multiple of 3",
                     count, floats, texture.surface ? "4, 6 or 10" : "6, 8 or 10");
    if (status || !count)
        return status;
    float *rows = vks_recording_vertices(recording, count);
    if (!rows)
        return vks_recording_no_memory();
    expand(vertices, count, as, rows);
    if (!are_finite(rows, count * VKS_VERTEX_FLOATS)) /* of the copy: another thread may write to `vertices` */
        return refuse_values(vertices, count, floats);
    vks_command command = {.kind = VKS_COMMAND_DRAW, .linear = linear};
    command.draw.first = (uint32_t)recording->n_vertices;
    command.draw.count = (uint32_t)count;
    command.draw.depth_test = depth ? depth->test : 0;
    command.draw.writes_depth = depth && depth->writes;
    status = vks_recording_add(recording, command, target, texture, depth ? depth->image : vks_no_operand);
    recording->n_vertices += status ? 0 : count;
    return status;
}
