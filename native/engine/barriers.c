/* barriers.c: barriers of an image or a buffer, the commands that transfer its ownership, and its first use.
 *
 * Between two turns an image is in layout GENERAL and belongs to VK_QUEUE_FAMILY_EXTERNAL (Vulkan
 * 1.3, 7.7.4). The library's own batches transfer it, so an engine's barriers are about the layout.
 */
#include "engine/engine.h"

#include "raster/format.h"

#define EVERYTHING VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT
#define ANY_ACCESS (VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT)

static VkImageSubresourceRange whole(const vks_surface_image *image)
{
    bool is_depth = vks_format_is_depth(image->body.format);
    return (VkImageSubresourceRange){is_depth ? VK_IMAGE_ASPECT_DEPTH_BIT : VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
}

/* One for each VkImage; returns their number. */
static uint32_t set_barriers(const vks_surface_image *image, vks_image_state from, vks_image_state to,
                             VkImageMemoryBarrier2 out[VKS_MOST_PLANES])
{
    VkImage handles[VKS_MOST_PLANES];
    uint32_t n = vks_image_handles(image, handles);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (VkImageMemoryBarrier2){.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                         .srcStageMask = from.stages,
                                         .srcAccessMask = from.access,
                                         .dstStageMask = to.stages,
                                         .dstAccessMask = to.access,
                                         .oldLayout = from.layout,
                                         .newLayout = to.layout,
                                         .srcQueueFamilyIndex = from.family,
                                         .dstQueueFamilyIndex = to.family,
                                         .image = handles[i],
                                         .subresourceRange = whole(image)};
    return n;
}

void vks_image_barrier(const vks_surface_image *image, VkCommandBuffer commands, vks_image_state from,
                       vks_image_state to, bool to_host)
{
    VkMemoryBarrier2 host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                             .srcStageMask = EVERYTHING,
                             .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                             .dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT,
                             .dstAccessMask = VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT};
    VkBufferMemoryBarrier2 of_buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER_2,
                                        .srcStageMask = from.stages,
                                        .srcAccessMask = from.access,
                                        .dstStageMask = to.stages,
                                        .dstAccessMask = to.access,
                                        .srcQueueFamilyIndex = from.family,
                                        .dstQueueFamilyIndex = to.family,
                                        .buffer = image->buffer,
                                        .size = VK_WHOLE_SIZE};
    bool is_buffer = vks_image_is_buffer(image);
    VkImageMemoryBarrier2 of_images[VKS_MOST_PLANES];
    VkDependencyInfo info = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
                             .memoryBarrierCount = to_host,
                             .pMemoryBarriers = &host,
                             .bufferMemoryBarrierCount = is_buffer,
                             .pBufferMemoryBarriers = &of_buffer,
                             .imageMemoryBarrierCount = is_buffer ? 0 : set_barriers(image, from, to, of_images),
                             .pImageMemoryBarriers = of_images};
    image->engine->CmdPipelineBarrier2(commands, &info);
}

/* ---- ownership ---- */

/* An engine's image whose memory is unknown never leaves the queue. */
static bool stays_here(const vks_surface_image *image) { return image->is_adopted && !image->memory; }

/* The queue family that barriers name: none where several share the image. An engine's is its
 * queue's. */
static uint32_t owner(const vks_surface_image *image)
{
    const vks_engine *engine = image->engine;
    if (image->is_adopted)
        return stays_here(image) ? VK_QUEUE_FAMILY_IGNORED : engine->families[VKS_GRAPHICS];
    return engine->physical.transfer_family == VK_QUEUE_FAMILY_IGNORED ? engine->families[VKS_GRAPHICS]
                                                                       : VK_QUEUE_FAMILY_IGNORED;
}

static uint32_t others(const vks_surface_image *image)
{
    return stays_here(image) ? VK_QUEUE_FAMILY_IGNORED : VK_QUEUE_FAMILY_EXTERNAL;
}

/* A command that does nothing, so that a barrier beside it is neither the first nor the last one. */
static void put_nothing(const vks_surface_image *image, VkCommandBuffer commands)
{
    if (image->engine->physical.skips_outer_barriers)
        image->engine->CmdSetDeviceMask(commands, 1);
}

static void acquire(const vks_surface_image *image, VkCommandBuffer commands)
{
    put_nothing(image, commands);
    vks_image_barrier(image, commands,
                      (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, others(image), EVERYTHING,
                                        stays_here(image) ? VK_ACCESS_2_MEMORY_WRITE_BIT : 0},
                      (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, owner(image), EVERYTHING, ANY_ACCESS}, false);
    put_nothing(image, commands);
}

/* The CPU may be the next that reads. */
static void release(const vks_surface_image *image, VkCommandBuffer commands)
{
    vks_image_barrier(
        image, commands,
        (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, owner(image), EVERYTHING, VK_ACCESS_2_MEMORY_WRITE_BIT},
        (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, others(image), EVERYTHING, stays_here(image) ? ANY_ACCESS : 0},
        image->is_mappable);
}

static void leave_old_layout(const vks_surface_image *image, VkCommandBuffer commands)
{
    vks_image_barrier(
        image, commands,
        (vks_image_state){image->old_layout, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, VK_ACCESS_2_MEMORY_WRITE_BIT},
        (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, ANY_ACCESS}, false);
}

static void nothing(const vks_surface_image *image, VkCommandBuffer commands) { (void)image, (void)commands; }

static void zero_and_release(const vks_surface_image *image, VkCommandBuffer commands)
{
    static const VkClearColorValue zero;
    static const VkClearDepthStencilValue near;
    VkImageSubresourceRange all = whole(image);
    VkImage handles[VKS_MOST_PLANES];
    if (vks_image_is_buffer(image)) {
        image->engine->CmdFillBuffer(commands, image->buffer, 0, VK_WHOLE_SIZE, 0);
        release(image, commands);
        return;
    }
    vks_image_barrier(
        image, commands, (vks_image_state){VK_IMAGE_LAYOUT_UNDEFINED, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, 0},
        (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, ANY_ACCESS}, false);
    if (vks_format_is_depth(image->body.format))
        image->engine->CmdClearDepthStencilImage(commands, image->handle, VK_IMAGE_LAYOUT_GENERAL, &near, 1, &all);
    else
        for (uint32_t i = 0, n = vks_image_handles(image, handles); i < n; i++)
            image->engine->CmdClearColorImage(commands, handles[i], VK_IMAGE_LAYOUT_GENERAL, &zero, 1, &all);
    release(image, commands);
}

/* ---- command buffers ---- */

vks_status vks_engine_begin_commands(vks_engine *engine, uint32_t family, VkCommandBuffer *out)
{
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = engine->pools[family],
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBufferBeginInfo use = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    vks_status status =
        vks_vulkan_result(engine->AllocateCommandBuffers(engine->handle, &info, out), "vkAllocateCommandBuffers");
    if (status)
        *out = VK_NULL_HANDLE;
    return status ? status : vks_vulkan_result(engine->BeginCommandBuffer(*out, &use), "vkBeginCommandBuffer");
}

/* Caller holds engine->lock. */
static vks_status record(const vks_surface_image *image, uint32_t family,
                         void (*write)(const vks_surface_image *image, VkCommandBuffer commands), VkCommandBuffer *out)
{
    vks_engine *engine = image->engine;
    vks_status status = vks_engine_begin_commands(engine, family, out);
    if (status)
        return status;
    write(image, *out);
    return vks_vulkan_result(engine->EndCommandBuffer(*out), "vkEndCommandBuffer");
}

vks_status vks_image_record_ownership(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    vks_status status = VKS_OK;
    pthread_mutex_lock(&engine->lock);
    uint32_t n_families = image->is_adopted ? 1 : engine->n_families;
    if (image->is_adopted)
        status = record(image, VKS_GRAPHICS, leave_old_layout, &image->initial);
    for (uint32_t family = 0; family < n_families && !status; family++)
        if (!(status = record(image, family, acquire, &image->commands[family][0])))
            status = record(image, family, release, &image->commands[family][1]);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

/* Submits a command buffer that touches no surface, and waits until it has run. */
static vks_status run(vks_device *device, VkCommandBuffer buffer)
{
    vks_commands *commands;
    vks_submission submission = {0};
    vks_submit_info info = {.commands = &commands, .n_commands = 1};
    vks_status status = vks_commands_create_vulkan(device, (uintptr_t)buffer, NULL, 0, NULL, NULL, &commands);
    if (status)
        return status;
    while ((status = vks_submit(device, &info, VKS_FOREVER, &submission)) == VKS_INTERRUPTED)
        ;
    vks_commands_unref(commands);
    if (status)
        return status;
    while ((status = vks_submission_wait(device, &submission, VKS_FOREVER)) == VKS_INTERRUPTED)
        ;
    if (submission.op)
        vks_work_unref(submission.op);
    return status;
}

static vks_status run_once(vks_surface_image *image,
                           void (*write)(const vks_surface_image *image, VkCommandBuffer commands))
{
    vks_engine *engine = image->engine;
    VkCommandBuffer commands;
    pthread_mutex_lock(&engine->lock);
    vks_status status = record(image, VKS_GRAPHICS, write, &commands);
    pthread_mutex_unlock(&engine->lock);
    if (!status)
        status = run(engine->device, commands);
    pthread_mutex_lock(&engine->lock);
    if (commands && engine->handle)
        engine->FreeCommandBuffers(engine->handle, engine->pools[VKS_GRAPHICS], 1, &commands);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

vks_status vks_image_start(vks_surface_image *image) { return run_once(image, zero_and_release); }

vks_status vks_image_wait_for_queue(vks_surface_image *image) { return run_once(image, nothing); }

/* ---- an engine's turn ---- */

vks_status vks_surface_cmd_acquire(vks_surface *surface, VkCommandBuffer commands, VkImageLayout layout,
                                   VkPipelineStageFlags2 stages, VkAccessFlags2 access)
{
    VKS_NEEDS(surface, commands);
    vks_surface_image *image;
    vks_status status = vks_surface_vulkan_image(surface, &image);
    if (status)
        return status;
    vks_image_barrier(
        image, commands,
        (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, VK_ACCESS_2_MEMORY_WRITE_BIT},
        (vks_image_state){layout, VK_QUEUE_FAMILY_IGNORED, stages, access}, false);
    return VKS_OK;
}

vks_status vks_surface_cmd_release(vks_surface *surface, VkCommandBuffer commands, VkImageLayout layout,
                                   VkPipelineStageFlags2 stages, VkAccessFlags2 access)
{
    VKS_NEEDS(surface, commands);
    vks_surface_image *image;
    vks_status status = vks_surface_vulkan_image(surface, &image);
    if (status)
        return status;
    vks_image_barrier(image, commands, (vks_image_state){layout, VK_QUEUE_FAMILY_IGNORED, stages, access},
                      (vks_image_state){VK_IMAGE_LAYOUT_GENERAL, VK_QUEUE_FAMILY_IGNORED, EVERYTHING, ANY_ACCESS},
                      image->is_mappable);
    return VKS_OK;
}
