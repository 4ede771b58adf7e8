/* vulkan_needs.c: what a command needs of a recorder: a pipeline, a descriptor set, features of images. */
#include "record/vulkan_needs.h"

#include "raster/format.h"
#include "raster/planar.h"

struct vks_blit_rect vks_straightened(struct vks_blit_rect to, struct vks_blit_rect *from)
{
    struct vks_blit_rect f = *from, t = to; /* mirrored twice is not mirrored */
    if (to.x1 < to.x0) {
        t.x0 = to.x1, t.x1 = to.x0;
        from->x0 = f.x1, from->x1 = f.x0;
    }
    if (to.y1 < to.y0) {
        t.y0 = to.y1, t.y1 = to.y0;
        from->y0 = f.y1, from->y1 = f.y0;
    }
    return t;
}

/* Planes are copied by whole pixels of chroma. */
static bool is_whole(const vks_drawable_info *image, struct vks_blit_rect rect)
{
    const struct vks_planar_format *planar = vks_planar_format(image->format);
    return !planar || (rect.x0 % (1 << planar->x_shift) == 0 && rect.y0 % (1 << planar->y_shift) == 0);
}

vks_blit_way vks_blit_way_of(const vks_recording *recording, const vks_command *c)
{
    const vks_drawable_info *source = vks_image_of(recording, c->source), *target = vks_image_of(recording, c->target);
    struct vks_blit_rect from = c->blit.from, to = vks_straightened(c->blit.to, &from);
    bool is_one_kind = source->format == target->format && source->color.matrix == target->color.matrix &&
                       source->color.range == target->color.range && source->color.siting == target->color.siting;
    if (is_one_kind && is_whole(source, from) && from.x1 - from.x0 == to.x1 - to.x0 &&
        from.y1 - from.y0 == to.y1 - to.y0)
        return VKS_AS_COPY;
    return (source->usage & VKS_USE_SAMPLE) && (target->usage & VKS_USE_RENDER) ? VKS_BY_DRAWING : VKS_BY_DRIVER;
}

static bool has_halves(uint32_t format)
{
    return format == VKS_FORMAT_R16_FLOAT || format == VKS_FORMAT_RG16_FLOAT || format == VKS_FORMAT_RGBA16_FLOAT;
}

static bool is_planar(const vks_drawable_info *image) { return image && vks_planar_format(image->format) != NULL; }

/* The pipeline of a command with planes. */
static bool pipeline_of_planes(const vks_recording *recording, const vks_command *c, uint32_t plane, uint32_t *number,
                               uint32_t *format)
{
    const vks_drawable_info *target = vks_image_of(recording, c->target);
    bool encodes = vks_format_is_srgb(target->format);
    if (c->kind == VKS_COMMAND_BLIT && vks_blit_way_of(recording, c) != VKS_BY_DRAWING)
        return false;
    if (is_planar(target)) {
        *number = VKS_PIPELINE_TO_PLANES + c->linear;
        *format = vks_plane_format(target->format, plane);
        return *format != VKS_FORMAT_NONE;
    }
    *format = target->format;
    if (c->kind == VKS_COMMAND_COMPOSITE) {
        *number = VKS_PIPELINE_COMPOSITE_PLANES + encodes;
    } else if (c->kind == VKS_COMMAND_BLIT) {
        *number = VKS_PIPELINE_BLIT_PLANES + c->linear;
        *format = encodes ? VKS_FORMAT_RGBA8_UNORM : target->format; /* codes stay what they are */
    } else {
        uint32_t depth = vks_depth_of(c);
        bool is_deep = depth != VKS_NO_USE && vks_image_of(recording, depth)->format == VKS_FORMAT_D32_FLOAT;
        *number = VKS_PIPELINE_TEXTURED_PLANES + (depth != VKS_NO_USE) + is_deep;
    }
    return plane == 0;
}

bool vks_pipeline_of(const vks_recording *recording, const vks_command *c, uint32_t plane, uint32_t *number,
                     uint32_t *format)
{
    const vks_drawable_info *target = vks_image_of(recording, c->target);
    const vks_drawable_info *source = c->source == VKS_NO_USE ? NULL : vks_image_of(recording, c->source);
    bool draws = c->kind == VKS_COMMAND_DRAW || c->kind == VKS_COMMAND_COMPOSITE || c->kind == VKS_COMMAND_BLIT;
    if (draws && (is_planar(source) || is_planar(target)))
        return pipeline_of_planes(recording, c, plane, number, format);
    if (plane)
        return false;
    *format = target->format;
    if (c->kind == VKS_COMMAND_DRAW) {
        *number = source ? VKS_PIPELINE_TEXTURED : VKS_PIPELINE_COLOURED;
        if (vks_depth_of(c) != VKS_NO_USE)
            *number = VKS_PIPELINE_DEPTH + (source ? 1 : 0) +
                      (vks_image_of(recording, c->draw.depth)->format == VKS_FORMAT_D32_FLOAT ? 2 : 0);
        return true;
    }
    if (c->kind == VKS_COMMAND_COMPOSITE) {
        bool decodes = vks_format_is_srgb(source->format) && !(c->composite.how & VKS_COMPOSITE_CODES);
        *number = VKS_PIPELINE_COMPOSITE + decodes + (c->composite.how & VKS_COMPOSITE_STRAIGHT ? 2 : 0);
        return true;
    }
    if (c->kind != VKS_COMMAND_BLIT || vks_blit_way_of(recording, c) != VKS_BY_DRAWING)
        return false;
    bool same = source->format == target->format && !c->linear; /* codes stay what they are */
    bool decodes = vks_format_is_srgb(source->format) && !same, encodes = vks_format_is_srgb(target->format) && !same;
    *number = VKS_PIPELINE_BLIT + c->linear + 2 * decodes + 4 * encodes + 8 * has_halves(target->format);
    if (vks_format_is_srgb(target->format))
        *format = VKS_FORMAT_RGBA8_UNORM;
    return true;
}

static vks_status lacks(vks_record_problem *problem, const vks_recording *recording, uint32_t use, vks_feature feature)
{
    if (vks_image_of(recording, use)->features & feature)
        return VKS_OK;
    problem->kind = VKS_PROBLEM_FEATURE;
    problem->use = use;
    problem->feature = feature;
    return vks_fail(VKS_UNSUPPORTED, feature, "the driver cannot do that with images of this format");
}

static vks_status check_blit_of_planes(const vks_recording *recording, const vks_command *c, vks_blit_way way,
                                       vks_record_problem *problem)
{
    bool reads = is_planar(vks_image_of(recording, c->source)), writes = is_planar(vks_image_of(recording, c->target));
    if (!reads && !writes)
        return VKS_OK;
    problem->kind = VKS_PROBLEM_NONE;
    if (way == VKS_BY_DRIVER)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "a blit of planes is drawn: make the source with usage \"sample\" and the target with "
                        "\"render\"");
    return reads && writes
               ? vks_fail(VKS_UNSUPPORTED, 0,
                          "a blit from planes to other planes is not there: blit() to a surface of R, G and "
                          "B, and that to the target")
               : VKS_OK;
}

static vks_status check_features(const vks_recording *recording, const vks_command *c, vks_record_problem *problem)
{
    vks_status status = VKS_OK;
    if (c->kind == VKS_COMMAND_DRAW || c->kind == VKS_COMMAND_COMPOSITE)
        status = lacks(problem, recording, c->target, VKS_CAN_BLEND);
    bool reads_planes = c->source != VKS_NO_USE && is_planar(vks_image_of(recording, c->source));
    if (!status && c->kind == VKS_COMMAND_DRAW && c->source != VKS_NO_USE && c->linear && !reads_planes)
        status = lacks(problem, recording, c->source, VKS_CAN_FILTER);
    vks_blit_way way = c->kind == VKS_COMMAND_BLIT ? vks_blit_way_of(recording, c) : VKS_AS_COPY;
    if (!status && (c->kind == VKS_COMMAND_COMPOSITE || way == VKS_BY_DRAWING))
        status = lacks(problem, recording, c->source, VKS_HAS_RAW_VIEW);
    if (!status && way == VKS_BY_DRAWING && vks_format_is_srgb(vks_image_of(recording, c->target)->format))
        status = lacks(problem, recording, c->target, VKS_HAS_RAW_VIEW);
    if (!status && c->kind == VKS_COMMAND_BLIT && way != VKS_AS_COPY)
        status = check_blit_of_planes(recording, c, way, problem);
    if (status || way != VKS_BY_DRIVER)
        return status;
    problem->is_blit = true;
    status = lacks(problem, recording, c->source, VKS_CAN_BLIT_FROM);
    if (!status && c->linear)
        status = lacks(problem, recording, c->source, VKS_CAN_FILTER);
    return status ? status : lacks(problem, recording, c->target, VKS_CAN_BLIT_TO);
}

vks_status vks_vulkan_check(const vks_recorder *r, const vks_recording *recording, vks_record_problem *problem)
{
    for (size_t i = 0; i < recording->n_uses; i++)
        if (atomic_load(&recording->drawables[i]->closed)) {
            *problem = (vks_record_problem){.kind = VKS_PROBLEM_CLOSED, .use = i};
            return vks_fail(VKS_CLOSED, 0, "a surface that the list uses is closed");
        }
    for (size_t i = 0; i < recording->length; i++) {
        const vks_command *c = &recording->commands[i];
        vks_status status = check_features(recording, c, problem);
        if (status)
            return status;
        for (uint32_t plane = 0; vks_pipeline_of(recording, c, plane, &problem->pipeline, &problem->format); plane++) {
            if (r->pipelines[problem->pipeline][problem->format])
                continue;
            problem->kind = VKS_PROBLEM_PIPELINE;
            return vks_fail(VKS_BAD_CALL, 0, "pipeline %u for format %u is not registered", problem->pipeline,
                            problem->format);
        }
    }
    return VKS_OK;
}

bool vks_set_of(const vks_recording *recording, const vks_command *c, unsigned *set)
{
    uint32_t number, format;
    if (c->source == VKS_NO_USE || !vks_pipeline_of(recording, c, 0, &number, &format))
        return false;
    *set = c->kind != VKS_COMMAND_DRAW || is_planar(vks_image_of(recording, c->source)) ? VKS_SET_RAW
           : c->linear                                                                  ? VKS_SET_LINEAR
                                                                                        : VKS_SET_NEAREST;
    return true;
}

vks_status vks_vulkan_each_set(vks_recorder *r, const vks_recording *recording,
                               vks_status (*need)(vks_recorder *recorder, vks_drawable *drawable, unsigned set))
{
    vks_status status = VKS_OK;
    unsigned set;
    for (size_t i = 0; i < recording->length && !status; i++)
        if (vks_set_of(recording, &recording->commands[i], &set))
            status = need(r, recording->drawables[recording->commands[i].source], set);
    return status;
}

/* Queues that only copy take offsets in buffers that are multiples of 4 alone, where an image is the
 * other side (VUID-vkCmdCopyBufferToImage-commandBuffer-07737). */
static bool is_copy(const vks_command *c)
{
    return c->kind == VKS_COMMAND_COPY || (c->kind == VKS_COMMAND_COPY_BYTES &&
                                           (c->bytes.size || !((c->bytes.source_offset | c->bytes.target_offset) % 4)));
}

/* Queues that only copy take no depth (VUID-vkCmdCopyImage-commandBuffer-10217). */
bool vks_vulkan_only_copies(const vks_recording *recording)
{
    for (size_t i = 0; i < recording->n_uses; i++)
        if (recording->drawables[i]->info.is_presentable || vks_format_is_depth(recording->drawables[i]->info.format))
            return false;
    for (size_t i = 0; i < recording->length; i++)
        if (!is_copy(&recording->commands[i]))
            return false;
    return true;
}
