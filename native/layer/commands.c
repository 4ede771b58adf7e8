/* commands.c: commands that name images: GENERAL takes the place of the engine's layouts of shared images, and the
 * command buffer is noted as one that uses them.
 *
 * The layouts of render passes are fixed when these are made, for any image. So a barrier before the
 * pass brings a shared attachment into the pass's layout, and one behind it brings it back.
 */
#include <stdlib.h>

#include "layer/layer.h"

/* Caller holds device->lock. */
static bool note_use(layer_device *device, VkCommandBuffer commands, layer_image *shared)
{
    return shared && layer_add(device, LAYER_COMMANDS, LAYER_KEY(commands), 0, shared);
}

/* The layout that the driver is given for that image. */
static VkImageLayout layout_of(layer_device *device, VkCommandBuffer commands, VkImage image, VkImageLayout layout)
{
    if (!layer_shares(device))
        return layout;
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, image);
    note_use(device, commands, shared);
    pthread_mutex_unlock(&device->lock);
    return shared ? VK_IMAGE_LAYOUT_GENERAL : layout;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_BeginCommandBuffer(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info)
{
    layer_device *device = layer_device_of(commands);
    if (layer_shares(device)) { /* a buffer that is recorded anew, or has the handle of an earlier one */
        pthread_mutex_lock(&device->lock);
        layer_forget(device, LAYER_COMMANDS, LAYER_KEY(commands));
        layer_forget(device, LAYER_PASS, LAYER_KEY(commands));
        layer_forget(device, LAYER_BOUND, LAYER_KEY(commands));
        pthread_mutex_unlock(&device->lock);
    }
    return device->BeginCommandBuffer(commands, info);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdExecuteCommands(VkCommandBuffer commands, uint32_t n, const VkCommandBuffer *others)
{
    layer_device *device = layer_device_of(commands);
    if (layer_shares(device)) {
        pthread_mutex_lock(&device->lock);
        for (uint32_t i = 0; i < n; i++) {
            for (const layer_node *each = NULL;
                 (each = layer_find(device, LAYER_COMMANDS, LAYER_KEY(others[i]), each));)
                note_use(device, commands, each->image);
            for (const layer_node *each = NULL; (each = layer_find(device, LAYER_BOUND, LAYER_KEY(others[i]), each));)
                layer_add(device, LAYER_BOUND, LAYER_KEY(commands), each->sub, NULL);
        }
        pthread_mutex_unlock(&device->lock);
    }
    device->CmdExecuteCommands(commands, n, others);
}

/* ---- barriers ---- */

/* Copies barriers of either type, changed where the image is shared. NULL: none is shared, or there is no
 * memory. The caller frees the copy. */
#define GENERAL_BARRIERS(type)                                                                                         \
    static type *general_##type(layer_device *device, VkCommandBuffer commands, uint32_t n, const type *barriers)      \
    {                                                                                                                  \
        type *copy = NULL;                                                                                             \
        if (!n || !layer_shares(device))                                                                               \
            return NULL;                                                                                               \
        pthread_mutex_lock(&device->lock);                                                                             \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            if (!note_use(device, commands, layer_image_of(device, barriers[i].image)))                                \
                continue;                                                                                              \
            if (!copy && (copy = malloc(n * sizeof *copy)))                                                            \
                for (uint32_t k = 0; k < n; k++)                                                                       \
                    copy[k] = barriers[k];                                                                             \
            if (copy)                                                                                                  \
                copy[i].oldLayout = copy[i].newLayout = VK_IMAGE_LAYOUT_GENERAL;                                       \
        }                                                                                                              \
        pthread_mutex_unlock(&device->lock);                                                                           \
        return copy;                                                                                                   \
    }
GENERAL_BARRIERS(VkImageMemoryBarrier)
GENERAL_BARRIERS(VkImageMemoryBarrier2)

VKAPI_ATTR void VKAPI_CALL layer_CmdPipelineBarrier(VkCommandBuffer commands, VkPipelineStageFlags before,
                                                    VkPipelineStageFlags after, VkDependencyFlags flags,
                                                    uint32_t n_memory, const VkMemoryBarrier *memory,
                                                    uint32_t n_buffers, const VkBufferMemoryBarrier *buffers,
                                                    uint32_t n, const VkImageMemoryBarrier *images)
{
    layer_device *device = layer_device_of(commands);
    VkImageMemoryBarrier *general = general_VkImageMemoryBarrier(device, commands, n, images);
    device->CmdPipelineBarrier(commands, before, after, flags, n_memory, memory, n_buffers, buffers, n,
                               general ? general : images);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdWaitEvents(VkCommandBuffer commands, uint32_t n_events, const VkEvent *events,
                                               VkPipelineStageFlags before, VkPipelineStageFlags after,
                                               uint32_t n_memory, const VkMemoryBarrier *memory, uint32_t n_buffers,
                                               const VkBufferMemoryBarrier *buffers, uint32_t n,
                                               const VkImageMemoryBarrier *images)
{
    layer_device *device = layer_device_of(commands);
    VkImageMemoryBarrier *general = general_VkImageMemoryBarrier(device, commands, n, images);
    device->CmdWaitEvents(commands, n_events, events, before, after, n_memory, memory, n_buffers, buffers, n,
                          general ? general : images);
    free(general);
}

static VkDependencyInfo general_dependency(layer_device *device, VkCommandBuffer commands, const VkDependencyInfo *info,
                                           VkImageMemoryBarrier2 **to_free)
{
    VkDependencyInfo changed = *info;
    *to_free =
        general_VkImageMemoryBarrier2(device, commands, info->imageMemoryBarrierCount, info->pImageMemoryBarriers);
    if (*to_free)
        changed.pImageMemoryBarriers = *to_free;
    return changed;
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPipelineBarrier2(VkCommandBuffer commands, const VkDependencyInfo *info)
{
    layer_device *device = layer_device_of(commands);
    VkImageMemoryBarrier2 *barriers;
    VkDependencyInfo general = general_dependency(device, commands, info, &barriers);
    device->CmdPipelineBarrier2(commands, &general);
    free(barriers);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdSetEvent2(VkCommandBuffer commands, VkEvent event, const VkDependencyInfo *info)
{
    layer_device *device = layer_device_of(commands);
    VkImageMemoryBarrier2 *barriers;
    VkDependencyInfo general = general_dependency(device, commands, info, &barriers);
    device->CmdSetEvent2(commands, event, &general);
    free(barriers);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdWaitEvents2(VkCommandBuffer commands, uint32_t n, const VkEvent *events,
                                                const VkDependencyInfo *infos)
{
    layer_device *device = layer_device_of(commands);
    VkDependencyInfo *general = layer_shares(device) ? malloc(n * sizeof *general) : NULL;
    VkImageMemoryBarrier2 **barriers = general ? calloc(n, sizeof(VkImageMemoryBarrier2 *)) : NULL;
    for (uint32_t i = 0; barriers && i < n; i++)
        general[i] = general_dependency(device, commands, &infos[i], &barriers[i]);
    device->CmdWaitEvents2(commands, n, events, barriers ? general : infos);
    for (uint32_t i = 0; barriers && i < n; i++)
        free(barriers[i]);
    free(barriers);
    free(general);
}

/* ---- render passes ---- */

static void move(layer_device *device, VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to)
{
    VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
        .oldLayout = from,
        .newLayout = to,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    device->CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                               NULL, 0, NULL, 1, &barrier);
}

static void begin_attachment(layer_device *device, VkCommandBuffer commands, VkRenderPass pass, uint64_t i,
                             layer_image *shared)
{
    note_use(device, commands, shared);
    for (const layer_node *each = NULL; (each = layer_find(device, LAYER_RENDER_PASS, LAYER_KEY(pass), each));) {
        if (each->sub != i)
            continue;
        /* UNDEFINED is the pass's own discard of what it does not load. */
        if (each->first != VK_IMAGE_LAYOUT_GENERAL && each->first != VK_IMAGE_LAYOUT_UNDEFINED)
            move(device, commands, shared->from.image, VK_IMAGE_LAYOUT_GENERAL, each->first);
        if (each->last != VK_IMAGE_LAYOUT_GENERAL)
            layer_add(device, LAYER_PASS, LAYER_KEY(commands), each->last, shared);
    }
}

static void begin_pass(layer_device *device, VkCommandBuffer commands, const VkRenderPassBeginInfo *info)
{
    const VkRenderPassAttachmentBeginInfo *given = info->pNext; /* of an imageless framebuffer */
    if (!layer_shares(device))
        return;
    while (given && given->sType != VK_STRUCTURE_TYPE_RENDER_PASS_ATTACHMENT_BEGIN_INFO)
        given = given->pNext;
    pthread_mutex_lock(&device->lock);
    for (const layer_node *each = NULL;
         (each = layer_find(device, LAYER_FRAMEBUFFER, LAYER_KEY(info->framebuffer), each));)
        begin_attachment(device, commands, info->renderPass, each->sub, each->image);
    for (uint32_t i = 0; given && i < given->attachmentCount; i++) {
        layer_image *shared = layer_viewed(device, given->pAttachments[i]);
        if (shared)
            begin_attachment(device, commands, info->renderPass, i, shared);
    }
    pthread_mutex_unlock(&device->lock);
}

static void end_pass(layer_device *device, VkCommandBuffer commands)
{
    if (!layer_shares(device))
        return;
    pthread_mutex_lock(&device->lock);
    for (const layer_node *each = NULL; (each = layer_find(device, LAYER_PASS, LAYER_KEY(commands), each));)
        move(device, commands, each->image->from.image, (VkImageLayout)each->sub, VK_IMAGE_LAYOUT_GENERAL);
    layer_forget(device, LAYER_PASS, LAYER_KEY(commands));
    pthread_mutex_unlock(&device->lock);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBeginRenderPass(VkCommandBuffer commands, const VkRenderPassBeginInfo *info,
                                                    VkSubpassContents contents)
{
    layer_device *device = layer_device_of(commands);
    begin_pass(device, commands, info);
    device->CmdBeginRenderPass(commands, info, contents);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBeginRenderPass2(VkCommandBuffer commands, const VkRenderPassBeginInfo *info,
                                                     const VkSubpassBeginInfo *subpass)
{
    layer_device *device = layer_device_of(commands);
    begin_pass(device, commands, info);
    device->CmdBeginRenderPass2(commands, info, subpass);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdEndRenderPass(VkCommandBuffer commands)
{
    layer_device *device = layer_device_of(commands);
    device->CmdEndRenderPass(commands);
    end_pass(device, commands);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdEndRenderPass2(VkCommandBuffer commands, const VkSubpassEndInfo *info)
{
    layer_device *device = layer_device_of(commands);
    device->CmdEndRenderPass2(commands, info);
    end_pass(device, commands);
}

/* A shared image is the image of a colour attachment, or what it is resolved into. */
VKAPI_ATTR void VKAPI_CALL layer_CmdBeginRendering(VkCommandBuffer commands, const VkRenderingInfo *info)
{
    layer_device *device = layer_device_of(commands);
    uint32_t n = layer_shares(device) ? info->colorAttachmentCount : 0;
    VkRenderingInfo changed = *info;
    VkRenderingAttachmentInfo *copy = n ? malloc(n * sizeof *copy) : NULL;
    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = info->pColorAttachments[i];
        pthread_mutex_lock(&device->lock);
        if (copy[i].imageView && note_use(device, commands, layer_viewed(device, copy[i].imageView)))
            copy[i].imageLayout = VK_IMAGE_LAYOUT_GENERAL;
        if (copy[i].resolveMode && note_use(device, commands, layer_viewed(device, copy[i].resolveImageView)))
            copy[i].resolveImageLayout = VK_IMAGE_LAYOUT_GENERAL;
        pthread_mutex_unlock(&device->lock);
    }
    if (copy)
        changed.pColorAttachments = copy;
    device->CmdBeginRendering(commands, &changed);
    free(copy);
}

/* ---- copies and clears ---- */

VKAPI_ATTR void VKAPI_CALL layer_CmdClearColorImage(VkCommandBuffer commands, VkImage image, VkImageLayout layout,
                                                    const VkClearColorValue *colour, uint32_t n,
                                                    const VkImageSubresourceRange *ranges)
{
    layer_device *device = layer_device_of(commands);
    device->CmdClearColorImage(commands, image, layout_of(device, commands, image, layout), colour, n, ranges);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdCopyImage(VkCommandBuffer commands, VkImage from, VkImageLayout from_layout,
                                              VkImage to, VkImageLayout to_layout, uint32_t n,
                                              const VkImageCopy *regions)
{
    layer_device *device = layer_device_of(commands);
    device->CmdCopyImage(commands, from, layout_of(device, commands, from, from_layout), to,
                         layout_of(device, commands, to, to_layout), n, regions);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBlitImage(VkCommandBuffer commands, VkImage from, VkImageLayout from_layout,
                                              VkImage to, VkImageLayout to_layout, uint32_t n,
                                              const VkImageBlit *regions, VkFilter filter)
{
    layer_device *device = layer_device_of(commands);
    device->CmdBlitImage(commands, from, layout_of(device, commands, from, from_layout), to,
                         layout_of(device, commands, to, to_layout), n, regions, filter);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdResolveImage(VkCommandBuffer commands, VkImage from, VkImageLayout from_layout,
                                                 VkImage to, VkImageLayout to_layout, uint32_t n,
                                                 const VkImageResolve *regions)
{
    layer_device *device = layer_device_of(commands);
    device->CmdResolveImage(commands, from, layout_of(device, commands, from, from_layout), to,
                            layout_of(device, commands, to, to_layout), n, regions);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdCopyBufferToImage(VkCommandBuffer commands, VkBuffer from, VkImage to,
                                                      VkImageLayout layout, uint32_t n,
                                                      const VkBufferImageCopy *regions)
{
    layer_device *device = layer_device_of(commands);
    device->CmdCopyBufferToImage(commands, from, to, layout_of(device, commands, to, layout), n, regions);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdCopyImageToBuffer(VkCommandBuffer commands, VkImage from, VkImageLayout layout,
                                                      VkBuffer to, uint32_t n, const VkBufferImageCopy *regions)
{
    layer_device *device = layer_device_of(commands);
    device->CmdCopyImageToBuffer(commands, from, layout_of(device, commands, from, layout), to, n, regions);
}

#define BETWEEN_IMAGES(name, type)                                                                                     \
    VKAPI_ATTR void VKAPI_CALL layer_##name(VkCommandBuffer commands, const type *info)                                \
    {                                                                                                                  \
        layer_device *device = layer_device_of(commands);                                                              \
        type general = *info;                                                                                          \
        general.srcImageLayout = layout_of(device, commands, info->srcImage, info->srcImageLayout);                    \
        general.dstImageLayout = layout_of(device, commands, info->dstImage, info->dstImageLayout);                    \
        device->name(commands, &general);                                                                              \
    }
BETWEEN_IMAGES(CmdCopyImage2, VkCopyImageInfo2)
BETWEEN_IMAGES(CmdBlitImage2, VkBlitImageInfo2)
BETWEEN_IMAGES(CmdResolveImage2, VkResolveImageInfo2)

VKAPI_ATTR void VKAPI_CALL layer_CmdCopyBufferToImage2(VkCommandBuffer commands, const VkCopyBufferToImageInfo2 *info)
{
    layer_device *device = layer_device_of(commands);
    VkCopyBufferToImageInfo2 general = *info;
    general.dstImageLayout = layout_of(device, commands, info->dstImage, info->dstImageLayout);
    device->CmdCopyBufferToImage2(commands, &general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdCopyImageToBuffer2(VkCommandBuffer commands, const VkCopyImageToBufferInfo2 *info)
{
    layer_device *device = layer_device_of(commands);
    VkCopyImageToBufferInfo2 general = *info;
    general.srcImageLayout = layout_of(device, commands, info->srcImage, info->srcImageLayout);
    device->CmdCopyImageToBuffer2(commands, &general);
}
