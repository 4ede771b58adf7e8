/* side.c: one of the two images of a mirror, as the CPU sees it: by itself, or by way of a linear image. */
#include "mirror/mirror.h"

#include <string.h>

#include "surface/surface.h"

#define WORK_NS UINT64_C(10000000000) /* work that has not run by then hangs */
#define EVERYTHING VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
#define ANY_ACCESS (VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT)

static const vks_surface_body *body_of(const vks_surface *surface)
{
    return &((const vks_surface_image *)surface->image)->body;
}

static vks_surface *visible(const vks_mirror_side *side) { return side->stage ? side->stage : side->surface; }

static bool is_visible(const vks_surface *surface)
{
    return ((const vks_surface_image *)surface->image)->pixels != NULL;
}

static vks_status open_stage(vks_mirror_side *side)
{
    const vks_surface_body *body = body_of(side->surface);
    vks_image_info info = {.width = body->width,
                           .height = body->height,
                           .format = body->format,
                           .tiling = VKS_LINEAR,
                           .usage = VKS_USAGE_COPY,
                           .color = body->color};
    vks_status status = vks_surface_create_image(side->surface->device, &info, &side->stage);
    if (status) {
        side->stage = NULL;
        return status;
    }
    if (!is_visible(side->stage))
        return vks_fail(VKS_UNSUPPORTED, (int)body->format, "the CPU sees no rows of %s on %s",
                        vks_format_name(body->format),
                        ((vks_surface_image *)side->stage->image)->engine->physical.adapter.name);
    return vks_surface_acquire(side->stage, 0, 0);
}

vks_status vks_mirror_side_open(vks_mirror_side *side, vks_surface *surface)
{
    side->surface = surface;
    return is_visible(surface) ? VKS_OK : open_stage(side);
}

/* ---- the copy between the image and the stage ---- */

/* Caller holds engine->lock. */
static vks_status begin(vks_engine *engine, VkCommandBuffer *commands)
{
    if (*commands)
        engine->FreeCommandBuffers(engine->handle, engine->pools[VKS_GRAPHICS], 1, commands);
    *commands = VK_NULL_HANDLE;
    return vks_engine_begin_commands(engine, VKS_GRAPHICS, commands);
}

static void put_barrier(const vks_surface_image *image, VkCommandBuffer commands, bool to_host)
{
    const vks_image_state state = {VK_IMAGE_LAYOUT_GENERAL, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, ANY_ACCESS};
    vks_image_barrier(image, commands, state, state, to_host);
}

static void put_copies(const vks_surface_image *from, const vks_surface_image *to, VkCommandBuffer commands,
                       const vks_box *box)
{
    VkImage sources[VKS_MOST_PLANES], targets[VKS_MOST_PLANES];
    const struct vks_planar_format *planar = vks_planar_format(from->body.format);
    vks_image_handles(to, targets);
    for (uint32_t i = 0, n = vks_image_handles(from, sources); i < n; i++) {
        uint32_t x = i && planar ? planar->x_shift : 0, y = i && planar ? planar->y_shift : 0;
        VkOffset3D at = {(int32_t)(box->x >> x), (int32_t)(box->y >> y), 0};
        VkImageCopy copy = {.srcSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                            .srcOffset = at,
                            .dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                            .dstOffset = at,
                            .extent = {box->width >> x, box->height >> y, 1}};
        from->engine->CmdCopyImage(commands, sources[i], VK_IMAGE_LAYOUT_GENERAL, targets[i], VK_IMAGE_LAYOUT_GENERAL,
                                   1, &copy);
    }
}

static vks_status record(vks_mirror_side *side, vks_surface *from, vks_surface *to, const vks_box *box)
{
    const vks_surface_image *source = from->image, *target = to->image;
    vks_engine *engine = source->engine;
    pthread_mutex_lock(&engine->lock);
    vks_status status = engine->handle ? begin(engine, &side->commands) : VKS_CLOSED;
    if (!status) {
        put_barrier(source, side->commands, false);
        put_copies(source, target, side->commands, box);
        put_barrier(target, side->commands, to == side->stage);
        status = vks_vulkan_result(engine->EndCommandBuffer(side->commands), "vkEndCommandBuffer");
    }
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static vks_status submit(vks_mirror_side *side, vks_surface *from, vks_surface *to, const vks_box *box,
                         uint64_t deadline)
{
    vks_device *device = side->surface->device;
    const vks_use uses[] = {{from, false}, {to, true}};
    vks_commands *commands;
    vks_submit_info info = {.commands = &commands, .n_commands = 1};
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    vks_status status = record(side, from, to, box);
    vks_device_leave(device);
    if (status ||
        (status = vks_commands_create_vulkan(device, (uintptr_t)side->commands, uses, 2, NULL, NULL, &commands)))
        return status;
    status = vks_submit(device, &info, deadline, &side->last);
    side->is_running = !status;
    vks_commands_unref(commands);
    return status;
}

static void drop_submission(vks_mirror_side *side)
{
    if (side->last.op)
        vks_work_unref(side->last.op);
    side->last = (vks_submission){0};
    side->is_running = false;
}

vks_status vks_mirror_mend(vks_surface *surface)
{
    vks_status status;
    while ((status = vks_surface_recover(surface, vks_now() + WORK_NS)) == VKS_INTERRUPTED)
        ;
    return status;
}

/* A copy that never ran has spoilt the stage. */
static vks_status mend_stage(vks_mirror_side *side, vks_status status)
{
    if (status == VKS_ABANDONED && side->stage)
        vks_mirror_mend(side->stage);
    return status;
}

/* The stage and the commands serve one copy at a time. */
static vks_status wait_for_copy(vks_mirror_side *side, uint64_t deadline)
{
    if (!side->is_running)
        return VKS_OK;
    vks_status status = vks_submission_wait(side->surface->device, &side->last, deadline);
    if (status != VKS_TIMEOUT && status != VKS_INTERRUPTED)
        drop_submission(side);
    return mend_stage(side, status);
}

/* ---- what mirrors call ---- */

vks_status vks_mirror_side_fetch(vks_mirror_side *side, const vks_box *box, uint64_t deadline)
{
    vks_status status = vks_surface_cpu_access(side->surface, deadline);
    if (status || !side->stage || (status = wait_for_copy(side, deadline)))
        return status;
    return mend_stage(side, submit(side, side->surface, side->stage, box, deadline));
}

vks_status vks_mirror_side_wait(vks_mirror_side *side, uint64_t deadline)
{
    vks_status status = wait_for_copy(side, deadline);
    return status ? status : vks_surface_cpu_access(visible(side), deadline);
}

vks_status vks_mirror_side_store(vks_mirror_side *side, const vks_box *box, uint64_t deadline)
{
    return side->stage ? mend_stage(side, submit(side, side->stage, side->surface, box, deadline)) : VKS_OK;
}

/* Returns the bytes. */
static uint64_t copy_plane(const vks_plane *from, const vks_plane *to, const vks_box *box)
{
    size_t pixel = vks_format_bytes(from->format), row = box->width * pixel, left = box->x * pixel;
    for (uint32_t line = box->y; line < box->y + box->height; line++)
        memcpy((char *)to->pixels + line * to->stride + left, (const char *)from->pixels + line * from->stride + left,
               row);
    return (uint64_t)row * box->height;
}

static vks_status copy_planes(const vks_mirror_side *from, const vks_mirror_side *to, const vks_box *box,
                              uint64_t *nbytes)
{
    uint32_t format = body_of(from->surface)->format;
    const struct vks_planar_format *planar = vks_planar_format(format);
    vks_plane source, target;
    for (uint32_t i = 0; i < vks_format_planes(format); i++) {
        vks_status status = vks_surface_get_plane(visible(from), i, &source);
        if (status || (status = vks_surface_get_plane(visible(to), i, &target)))
            return status;
        uint32_t x = i && planar ? planar->x_shift : 0, y = i && planar ? planar->y_shift : 0;
        vks_box part = {box->x >> x, box->y >> y, box->width >> x, box->height >> y};
        *nbytes += copy_plane(&source, &target, &part);
    }
    return VKS_OK;
}

vks_status vks_mirror_copy(const vks_mirror_side *from, const vks_mirror_side *to, const vks_box *box, uint64_t *nbytes)
{
    vks_status status = VKS_CLOSED;
    if (!vks_device_enter(from->surface->device)) /* a shutdown, which unmaps the pixels, waits */
        return status;
    if (vks_device_enter(to->surface->device)) {
        status = copy_planes(from, to, box, nbytes);
        vks_device_leave(to->surface->device);
    }
    vks_device_leave(from->surface->device);
    return status;
}

void vks_mirror_side_close(vks_mirror_side *side)
{
    if (side->surface)
        vks_surface_close(side->surface);
    if (side->stage)
        vks_surface_close(side->stage);
}

static void free_commands(vks_mirror_side *side)
{
    vks_engine *engine = ((vks_surface_image *)side->surface->image)->engine;
    if (!side->commands || !vks_device_enter(side->surface->device)) /* the pool has ended with its device */
        return;
    pthread_mutex_lock(&engine->lock);
    if (engine->handle)
        engine->FreeCommandBuffers(engine->handle, engine->pools[VKS_GRAPHICS], 1, &side->commands);
    pthread_mutex_unlock(&engine->lock);
    vks_device_leave(side->surface->device);
}

void vks_mirror_side_free(vks_mirror_side *side)
{
    if (!side->surface)
        return;
    if (side->surface->device->process == vks_process)
        free_commands(side);
    drop_submission(side);
    if (side->stage)
        vks_surface_unref(side->stage);
    vks_surface_unref(side->surface);
}
