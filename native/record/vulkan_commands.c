/* vulkan_commands.c: the commands of a recording as Vulkan calls.
 *
 * Draws on one target in a row share a rendering scope: rasterization order keeps their order
 * (Vulkan 1.3, 24.2), and nothing in the scope reads what it writes. All other commands come after
 * a barrier over everything (vkshare/backends/vulkan/barriers.py says why that one). The first
 * barrier also orders the list behind earlier submissions, so one list can be submitted again and
 * again.
 */
#include <string.h>

#include "raster/format.h"
#include "record/vulkan_planes.h"

#define EVERYTHING (VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT)

static const VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

static VkImageSubresourceLayers layer_of(uint32_t format)
{
    VkImageAspectFlags aspect = vks_format_is_depth(format) ? VK_IMAGE_ASPECT_DEPTH_BIT : VK_IMAGE_ASPECT_COLOR_BIT;
    return (VkImageSubresourceLayers){aspect, 0, 0, 1};
}

/* ---- writing ---- */

/* The state of a command buffer while it is written. */
typedef struct writer {
    const vks_recorder *r;
    const vks_recording *recording;
    VkCommandBuffer commands;
    VkBuffer vertices;
    uint32_t target; /* use of the open rendering scope; VKS_NO_USE: none is open */
    uint32_t plane;  /* of the target */
    uint32_t depth;  /* its depth; VKS_NO_USE: it has none */
    bool is_raw;     /* the scope writes the codes of a -srgb image as they are */
    bool is_ordered; /* nothing was written since a barrier over everything */
    bool has_vertices;
    VkPipeline pipeline;  /* bound */
    uint32_t depth_state; /* of the dynamic state, see set_depth_state(); UINT32_MAX: unknown */
    uint64_t set;         /* bound */
    VkRect2D scissor;
    VkExtent2D viewport;
} writer;

static void put_barrier(const writer *w, const VkMemoryBarrier2 *memory, VkImageLayout from, VkImageLayout to)
{
    VkImageMemoryBarrier2 changes[8];
    uint32_t n = 0;
    VkDependencyInfo info = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
                             .memoryBarrierCount = memory != NULL,
                             .pMemoryBarriers = memory,
                             .pImageMemoryBarriers = changes};
    for (size_t i = 0; i < w->recording->n_uses && from != to; i++) {
        if (!w->recording->drawables[i]->info.is_presentable)
            continue;
        changes[n++] = (VkImageMemoryBarrier2){
            .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
            .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
            .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
            .dstAccessMask = EVERYTHING,
            .oldLayout = from,
            .newLayout = to,
            .image = vks_handle_of(w->recording, (uint32_t)i),
            .subresourceRange = whole,
        };
        if (n == sizeof changes / sizeof *changes) {
            info.imageMemoryBarrierCount = n;
            w->r->CmdPipelineBarrier2(w->commands, &info);
            info.memoryBarrierCount = n = 0;
        }
    }
    info.imageMemoryBarrierCount = n;
    if (n || info.memoryBarrierCount)
        w->r->CmdPipelineBarrier2(w->commands, &info);
}

/* All commands after this see all that the commands before it wrote, and what the host wrote before
 * the submit. */
static const VkMemoryBarrier2 to_commands = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                             .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                             .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                             .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                             .dstAccessMask = EVERYTHING};
static const VkMemoryBarrier2 to_host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                                         .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                         .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                         .dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT,
                                         .dstAccessMask = VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT};

static void order(writer *w)
{
    if (!w->is_ordered)
        put_barrier(w, &to_commands, VK_IMAGE_LAYOUT_GENERAL, VK_IMAGE_LAYOUT_GENERAL);
    w->is_ordered = false;
}

static void end_rendering(writer *w)
{
    if (w->target != VKS_NO_USE)
        w->r->CmdEndRendering(w->commands);
    w->target = VKS_NO_USE;
}

static void begin_rendering(writer *w, uint32_t target, uint32_t plane, uint32_t depth, bool raw, const float *clear)
{
    const vks_drawable_info *image = vks_image_of(w->recording, target);
    VkRenderingAttachmentInfo attachment = {
        .sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
        .imageView =
            plane ? vks_plane_view(image, plane) : (VkImageView)(uintptr_t)(raw ? image->raw_view : image->view),
        .imageLayout = VK_IMAGE_LAYOUT_GENERAL,
        .loadOp = clear ? VK_ATTACHMENT_LOAD_OP_CLEAR : VK_ATTACHMENT_LOAD_OP_LOAD,
        .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
    };
    if (clear)
        memcpy(attachment.clearValue.color.float32, clear, 4 * sizeof *clear);
    VkRenderingAttachmentInfo depth_attachment = {
        .sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
        .imageView =
            depth == VKS_NO_USE ? VK_NULL_HANDLE : (VkImageView)(uintptr_t)vks_image_of(w->recording, depth)->view,
        .imageLayout = VK_IMAGE_LAYOUT_GENERAL,
        .loadOp = VK_ATTACHMENT_LOAD_OP_LOAD,
        .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
    };
    VkExtent2D size = vks_plane_extent(image, plane);
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                            .renderArea.extent = size,
                            .layerCount = 1,
                            .colorAttachmentCount = 1,
                            .pColorAttachments = &attachment,
                            .pDepthAttachment = depth == VKS_NO_USE ? NULL : &depth_attachment};
    w->r->CmdBeginRendering(w->commands, &info);
    if (size.width != w->viewport.width || size.height != w->viewport.height) {
        VkViewport viewport = {.width = (float)size.width, .height = (float)size.height, .maxDepth = 1};
        w->r->CmdSetViewport(w->commands, 0, 1, &viewport);
        w->viewport = size;
    }
    w->target = target;
    w->plane = plane;
    w->depth = depth;
    w->is_raw = raw;
}

/* A rendering scope on that plane of the target with that depth: the open one, or a new one behind a
 * barrier. `raw`: -srgb codes are written as they are. */
static void render_to_plane(writer *w, uint32_t target, uint32_t plane, uint32_t depth, bool raw)
{
    raw = raw && vks_format_is_srgb(vks_image_of(w->recording, target)->format);
    if (w->target == target && w->plane == plane && w->depth == depth && w->is_raw == raw)
        return;
    end_rendering(w);
    order(w);
    begin_rendering(w, target, plane, depth, raw, NULL);
}

static void render_to(writer *w, uint32_t target, uint32_t depth, bool raw)
{
    render_to_plane(w, target, 0, depth, raw);
}

static void bind(writer *w, const vks_command *c)
{
    uint32_t number = 0, format = 0;
    unsigned which;
    vks_pipeline_of(w->recording, c, w->plane, &number, &format);
    VkPipeline pipeline = w->r->pipelines[number][format];
    if (pipeline != w->pipeline) {
        w->r->CmdBindPipeline(w->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
        w->depth_state = UINT32_MAX; /* a pipeline without the dynamic state makes it undefined */
    }
    w->pipeline = pipeline;
    if (!vks_set_of(w->recording, c, &which))
        return;
    uint64_t set = w->recording->drawables[c->source]->sets[which];
    VkDescriptorSet bound = (VkDescriptorSet)(uintptr_t)set;
    if (set != w->set) /* all pipelines have one layout, so a set stays bound */
        w->r->CmdBindDescriptorSets(w->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, w->r->layout, 0, 1, &bound, 0, NULL);
    w->set = set;
}

static void set_scissor(writer *w, int32_t x, int32_t y, int32_t width, int32_t height)
{
    VkRect2D rect = {{x, y}, {(uint32_t)width, (uint32_t)height}};
    if (memcmp(&rect, &w->scissor, sizeof rect))
        w->r->CmdSetScissor(w->commands, 0, 1, &rect);
    w->scissor = rect;
}

/* Runs the fragment shader on each pixel of the rectangle in the open scope. */
static void draw_screen(writer *w, const vks_command *c, int32_t x, int32_t y, int32_t width, int32_t height,
                        const void *push, uint32_t size)
{
    bind(w, c);
    set_scissor(w, x, y, width, height);
    w->r->CmdPushConstants(w->commands, w->r->layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, size, push);
    w->r->CmdDraw(w->commands, 3, 1, 0, 0);
}

/* ---- the commands ---- */

/* The colour that the format can hold nearest to `colour`: drivers clear to the very bytes that the
 * rasteriser writes. A driver's own conversion may round the other way at a tie. The bits of an
 * integer are those of VkClearColorValue.uint32, because it is a union. */
static void storable(const float colour[4], uint32_t format, float out[4])
{
    uint8_t pixel[16];
    vks_pack_colour(format, colour, pixel);
    vks_unpack_colour(format, pixel, out);
}

static void write_clear_of_depth(writer *w, const vks_command *c, const VkClearColorValue *value)
{
    static const VkImageSubresourceRange all = {VK_IMAGE_ASPECT_DEPTH_BIT, 0, 1, 0, 1};
    end_rendering(w);
    order(w);
    w->r->CmdClearDepthStencilImage(w->commands, vks_handle_of(w->recording, c->target), VK_IMAGE_LAYOUT_GENERAL,
                                    &(VkClearDepthStencilValue){.depth = value->float32[0]}, 1, &all);
}

static bool is_drawn_into(const vks_recording *recording, size_t i, uint32_t target)
{
    if (i >= recording->length || recording->commands[i].target != target)
        return false;
    vks_command_kind kind = recording->commands[i].kind;
    return kind != VKS_COMMAND_CLEAR && kind != VKS_COMMAND_COPY && kind != VKS_COMMAND_COPY_BYTES;
}

/* As the start of the draws that follow; where none do, alone, which is cheaper than a rendering
 * scope. */
static void write_clear(writer *w, size_t i)
{
    const vks_command *c = &w->recording->commands[i];
    const vks_drawable_info *target = vks_image_of(w->recording, c->target);
    VkClearColorValue value = {{0}};
    if (vks_planes_of(target) == 1)
        storable(c->fill.colour, target->format, value.float32);
    if (vks_format_is_depth(target->format)) {
        write_clear_of_depth(w, c, &value);
        return;
    }
    end_rendering(w);
    order(w);
    if (vks_planes_of(target) > 1)
        vks_planes_clear(w->r, w->commands, target, c->fill.colour);
    else if ((target->usage & VKS_USE_RENDER) && is_drawn_into(w->recording, i + 1, c->target))
        begin_rendering(w, c->target, 0, vks_depth_of(&c[1]), false, value.float32);
    else
        w->r->CmdClearColorImage(w->commands, vks_handle_of(w->recording, c->target), VK_IMAGE_LAYOUT_GENERAL, &value,
                                 1, &whole);
}

static void write_fill(writer *w, const vks_command *c)
{
    const vks_drawable_info *target = vks_image_of(w->recording, c->target);
    uint32_t planes = vks_planes_of(target);
    for (uint32_t plane = 0; plane < planes; plane++) {
        VkClearAttachment attachment = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT};
        float *colour = attachment.clearValue.color.float32;
        if (planes > 1)
            vks_plane_colour(target, plane, c->fill.colour, colour);
        else
            storable(c->fill.colour, target->format, colour);
        vks_rect part = vks_plane_rect(target, plane, c->fill.rect);
        VkClearRect rect = {{{part.x, part.y}, {(uint32_t)part.width, (uint32_t)part.height}}, 0, 1};
        render_to_plane(w, c->target, plane, VKS_NO_USE, false);
        w->r->CmdClearAttachments(w->commands, 1, &attachment, 1, &rect);
    }
}

static void write_copy(writer *w, const vks_command *c, vks_rect from, int32_t x, int32_t y)
{
    const vks_drawable_info *source = vks_image_of(w->recording, c->source),
                            *target = vks_image_of(w->recording, c->target);
    VkImageSubresourceLayers layer = layer_of(target->format);
    end_rendering(w);
    order(w);
    for (uint32_t plane = 0; plane < vks_planes_of(target); plane++) {
        vks_rect part = vks_plane_rect(source, plane, from), to = vks_plane_rect(target, plane, (vks_rect){x, y, 0, 0});
        VkImageCopy region = {
            layer, {part.x, part.y, 0}, layer, {to.x, to.y, 0}, {(uint32_t)part.width, (uint32_t)part.height, 1}};
        w->r->CmdCopyImage(w->commands, vks_plane_image(source, plane), VK_IMAGE_LAYOUT_GENERAL,
                           vks_plane_image(target, plane), VK_IMAGE_LAYOUT_GENERAL, 1, &region);
    }
}

static VkBuffer buffer_of(const vks_recording *recording, uint32_t use)
{
    return (VkBuffer)(uintptr_t)vks_image_of(recording, use)->buffer;
}

static void write_copy_bytes(writer *w, const vks_command *c)
{
    const vks_bytes_copy *copy = &c->bytes;
    const vks_rect *rect = &copy->rect;
    bool reads = vks_drawable_is_buffer(w->recording->drawables[c->source]);
    bool writes = vks_drawable_is_buffer(w->recording->drawables[c->target]);
    end_rendering(w);
    order(w);
    if (reads && writes) {
        VkBufferCopy bytes = {copy->source_offset, copy->target_offset, copy->size};
        w->r->CmdCopyBuffer(w->commands, buffer_of(w->recording, c->source), buffer_of(w->recording, c->target), 1,
                            &bytes);
        return;
    }
    const vks_drawable_info *picture = vks_image_of(w->recording, reads ? c->target : c->source);
    size_t pixel = vks_format_bytes(picture->format);
    VkBufferImageCopy rows = {.bufferOffset = reads ? copy->source_offset : copy->target_offset,
                              .bufferRowLength = (uint32_t)(copy->stride / pixel),
                              .imageSubresource = layer_of(picture->format),
                              .imageOffset = {rect->x, rect->y, 0},
                              .imageExtent = {(uint32_t)rect->width, (uint32_t)rect->height, 1}};
    if (reads)
        w->r->CmdCopyBufferToImage(w->commands, buffer_of(w->recording, c->source),
                                   vks_handle_of(w->recording, c->target), VK_IMAGE_LAYOUT_GENERAL, 1, &rows);
    else
        w->r->CmdCopyImageToBuffer(w->commands, vks_handle_of(w->recording, c->source), VK_IMAGE_LAYOUT_GENERAL,
                                   buffer_of(w->recording, c->target), 1, &rows);
}

static void write_blit_by_driver(writer *w, const vks_command *c)
{
    const struct vks_blit_rect *from = &c->blit.from, *to = &c->blit.to;
    VkImageSubresourceLayers layer = layer_of(vks_image_of(w->recording, c->target)->format);
    VkImageBlit region = {
        layer, {{from->x0, from->y0, 0}, {from->x1, from->y1, 1}}, layer, {{to->x0, to->y0, 0}, {to->x1, to->y1, 1}}};
    end_rendering(w);
    order(w);
    w->r->CmdBlitImage(w->commands, vks_handle_of(w->recording, c->source), VK_IMAGE_LAYOUT_GENERAL,
                       vks_handle_of(w->recording, c->target), VK_IMAGE_LAYOUT_GENERAL, 1, &region,
                       c->linear ? VK_FILTER_LINEAR : VK_FILTER_NEAREST);
}

/* The largest code of each component; zeros for float formats. */
static void levels_of(uint32_t format, float out[4])
{
    float level = 255;
    if (vks_format_is_float(format))
        level = 0;
    else if (format == VKS_FORMAT_RGB10A2_UNORM)
        level = 1023;
    else if (format == VKS_FORMAT_R16_UNORM || format == VKS_FORMAT_RG16_UNORM || format == VKS_FORMAT_RGBA16_UNORM)
        level = 65535;
    for (int i = 0; i < 4; i++)
        out[i] = level;
    if (format == VKS_FORMAT_RGB10A2_UNORM)
        out[3] = 3;
}

static void write_blit(writer *w, const vks_command *c)
{
    struct vks_blit_rect from = c->blit.from, to = vks_straightened(c->blit.to, &from);
    int32_t width = to.x1 - to.x0, height = to.y1 - to.y0;
    vks_blit_way way = vks_blit_way_of(w->recording, c);
    if (way == VKS_BY_DRIVER) {
        write_blit_by_driver(w, c);
        return;
    }
    if (way == VKS_AS_COPY) {
        write_copy(w, c, (vks_rect){from.x0, from.y0, width, height}, to.x0, to.y0);
        return;
    }
    struct {
        int32_t from[4], to[4]; /* x, y, width, height */
        float levels[2][4];
        vks_planes_push planes;
    } push = {.from = {from.x0, from.y0, from.x1 - from.x0, from.y1 - from.y0}, .to = {to.x0, to.y0, width, height}};
    _Static_assert(sizeof push <= VKS_PUSH_SIZE, "the pipeline layout has room for it");
    const vks_drawable_info *source = vks_image_of(w->recording, c->source),
                            *target = vks_image_of(w->recording, c->target);
    uint32_t planes = vks_planes_of(target), size = planes > 1 || vks_planes_of(source) > 1 ? sizeof push : 64;
    levels_of(source->format, push.levels[0]);
    levels_of(target->format, push.levels[1]);
    if (vks_planes_of(source) > 1)
        push.planes = vks_planes_reading(source);
    for (uint32_t plane = 0; plane < planes; plane++) {
        vks_rect part = vks_plane_rect(target, plane, (vks_rect){to.x0, to.y0, width, height});
        if (planes > 1)
            push.planes = vks_planes_writing(target, plane);
        render_to_plane(w, c->target, plane, VKS_NO_USE, true);
        draw_screen(w, c, part.x, part.y, part.width, part.height, &push, size);
    }
}

static void write_composite(writer *w, const vks_command *c)
{
    const vks_drawable_info *source = vks_image_of(w->recording, c->source),
                            *target = vks_image_of(w->recording, c->target);
    int64_t x = c->composite.x, y = c->composite.y, right = x + source->width, bottom = y + source->height;
    int32_t left = x > 0 ? (int32_t)x : 0, top = y > 0 ? (int32_t)y : 0;
    right = right < target->width ? right : target->width;
    bottom = bottom < target->height ? bottom : target->height;
    struct {
        int32_t x, y;
        float opacity;
        int32_t unused[13];
        vks_planes_push planes;
    } push = {.x = c->composite.x, .y = c->composite.y, .opacity = c->composite.opacity};
    bool has_planes = vks_planes_of(source) > 1;
    if (has_planes)
        push.planes = vks_planes_reading(source);
    render_to(w, c->target, VKS_NO_USE, false);
    draw_screen(w, c, left, top, (int32_t)right - left, (int32_t)bottom - top, &push, has_planes ? sizeof push : 12);
}

/* The dynamic state of pipelines with depth. enum vks_depth_test has VkCompareOp's numbers. */
static void set_depth_state(writer *w, const vks_command *c)
{
    uint32_t state = c->draw.depth_test | (uint32_t)c->draw.writes_depth << 3;
    if (w->depth_state == state)
        return;
    w->r->CmdSetDepthTestEnable(w->commands, VK_TRUE);
    w->r->CmdSetDepthWriteEnable(w->commands, c->draw.writes_depth);
    w->r->CmdSetDepthCompareOp(w->commands, (VkCompareOp)c->draw.depth_test);
    w->depth_state = state;
}

static void push_texture_of_planes(writer *w, const vks_command *c)
{
    struct {
        int32_t is_linear, decodes, unused[14];
        vks_planes_push planes;
    } push = {.is_linear = c->linear,
              .decodes = vks_format_is_srgb(vks_image_of(w->recording, c->target)->format),
              .planes = vks_planes_reading(vks_image_of(w->recording, c->source))};
    w->r->CmdPushConstants(w->commands, w->r->layout, VK_SHADER_STAGE_FRAGMENT_BIT, 0, sizeof push, &push);
}

static void write_draw(writer *w, const vks_command *c)
{
    const vks_drawable_info *target = vks_image_of(w->recording, c->target);
    render_to(w, c->target, c->draw.depth, false);
    bind(w, c);
    if (c->draw.depth != VKS_NO_USE)
        set_depth_state(w, c);
    if (c->source != VKS_NO_USE && vks_planes_of(vks_image_of(w->recording, c->source)) > 1)
        push_texture_of_planes(w, c);
    set_scissor(w, 0, 0, (int32_t)target->width, (int32_t)target->height);
    if (!w->has_vertices)
        w->r->CmdBindVertexBuffers(w->commands, 0, 1, &w->vertices, &(VkDeviceSize){0});
    w->has_vertices = true;
    w->r->CmdDraw(w->commands, c->draw.count, 1, c->draw.first, 0);
}

static void write_command(writer *w, size_t i)
{
    const vks_command *c = &w->recording->commands[i];
    switch (c->kind) {
    case VKS_COMMAND_CLEAR:
        write_clear(w, i);
        break;
    case VKS_COMMAND_FILL:
        write_fill(w, c);
        break;
    case VKS_COMMAND_COPY:
        write_copy(w, c, c->copy.from, c->copy.x, c->copy.y);
        break;
    case VKS_COMMAND_COPY_BYTES:
        write_copy_bytes(w, c);
        break;
    case VKS_COMMAND_BLIT:
        write_blit(w, c);
        break;
    case VKS_COMMAND_COMPOSITE:
        write_composite(w, c);
        break;
    case VKS_COMMAND_DRAW:
        write_draw(w, c);
        break;
    }
}

void vks_vulkan_write(const vks_recorder *r, const vks_recording *recording, VkCommandBuffer commands,
                      VkBuffer vertices)
{
    writer w = {.r = r,
                .recording = recording,
                .commands = commands,
                .vertices = vertices,
                .target = VKS_NO_USE,
                .depth = VKS_NO_USE};
    bool is_shown = false, is_mappable = false;
    for (size_t i = 0; i < recording->n_uses; i++) {
        is_shown |= recording->drawables[i]->info.is_presentable;
        is_mappable |= recording->uses[i].writes && recording->drawables[i]->info.is_mappable;
    }
    if (is_shown)
        put_barrier(&w, &to_commands, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, VK_IMAGE_LAYOUT_GENERAL);
    w.is_ordered = is_shown;
    for (size_t i = 0; i < recording->length; i++)
        write_command(&w, i);
    end_rendering(&w);
    put_barrier(&w, is_mappable ? &to_host : NULL, VK_IMAGE_LAYOUT_GENERAL,
                is_shown ? VK_IMAGE_LAYOUT_PRESENT_SRC_KHR : VK_IMAGE_LAYOUT_GENERAL);
}
