/* views.c: the engine's objects that refer to shared images: views, framebuffers, render passes, descriptor sets. */
#include <stdlib.h>

#include "layer/layer.h"

static bool shares(const layer_device *device)
{
    return __builtin_expect(atomic_load_explicit(&device->n_images, memory_order_acquire) != 0, 0);
}

/* ---- views and framebuffers ---- */

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateImageView(VkDevice handle, const VkImageViewCreateInfo *info,
                                                     const VkAllocationCallbacks *allocator, VkImageView *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateImageView(handle, info, allocator, out);
    if (result != VK_SUCCESS || !shares(device))
        return result;
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, info->image);
    bool is_known = !shared || layer_add(device, LAYER_VIEW, LAYER_KEY(*out), 0, shared);
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    device->DestroyImageView(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyImageView(VkDevice handle, VkImageView view,
                                                  const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    if (shares(device)) {
        pthread_mutex_lock(&device->lock);
        layer_forget(device, LAYER_VIEW, LAYER_KEY(view));
        pthread_mutex_unlock(&device->lock);
    }
    device->DestroyImageView(handle, view, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateFramebuffer(VkDevice handle, const VkFramebufferCreateInfo *info,
                                                       const VkAllocationCallbacks *allocator, VkFramebuffer *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateFramebuffer(handle, info, allocator, out);
    bool is_known = true;
    if (result != VK_SUCCESS || !shares(device) || info->flags & VK_FRAMEBUFFER_CREATE_IMAGELESS_BIT)
        return result;
    pthread_mutex_lock(&device->lock);
    layer_forget(device, LAYER_FRAMEBUFFER, LAYER_KEY(*out));
    for (uint32_t i = 0; i < info->attachmentCount; i++) {
        layer_image *shared = layer_viewed(device, info->pAttachments[i]);
        is_known &= !shared || layer_add(device, LAYER_FRAMEBUFFER, LAYER_KEY(*out), i, shared);
    }
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    layer_DestroyFramebuffer(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyFramebuffer(VkDevice handle, VkFramebuffer framebuffer,
                                                    const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    if (shares(device)) {
        pthread_mutex_lock(&device->lock);
        layer_forget(device, LAYER_FRAMEBUFFER, LAYER_KEY(framebuffer));
        pthread_mutex_unlock(&device->lock);
    }
    device->DestroyFramebuffer(handle, framebuffer, allocator);
}

/* ---- render passes: the layouts that they begin and end with, of all, because an engine makes them early ---- */

static bool note_pass(layer_device *device, VkRenderPass pass, uint32_t i, VkImageLayout first, VkImageLayout last)
{
    if (first == VK_IMAGE_LAYOUT_GENERAL && last == VK_IMAGE_LAYOUT_GENERAL)
        return true;
    layer_node *node = layer_add_pass(device, LAYER_KEY(pass), i);
    if (node) {
        node->first = first;
        node->last = last;
    }
    return node != NULL;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRenderPass(VkDevice handle, const VkRenderPassCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkRenderPass *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateRenderPass(handle, info, allocator, out);
    bool is_known = true;
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < info->attachmentCount; i++)
        is_known &= note_pass(device, *out, i, info->pAttachments[i].initialLayout, info->pAttachments[i].finalLayout);
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    layer_DestroyRenderPass(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRenderPass2(VkDevice handle, const VkRenderPassCreateInfo2 *info,
                                                       const VkAllocationCallbacks *allocator, VkRenderPass *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateRenderPass2(handle, info, allocator, out);
    bool is_known = true;
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < info->attachmentCount; i++)
        is_known &= note_pass(device, *out, i, info->pAttachments[i].initialLayout, info->pAttachments[i].finalLayout);
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return result;
    layer_DestroyRenderPass(handle, *out, allocator);
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyRenderPass(VkDevice handle, VkRenderPass pass,
                                                   const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    pthread_mutex_lock(&device->lock);
    layer_forget(device, LAYER_RENDER_PASS, LAYER_KEY(pass));
    pthread_mutex_unlock(&device->lock);
    device->DestroyRenderPass(handle, pass, allocator);
}

/* ---- descriptor sets ---- */

/* A new set has the handle of an earlier one, at times. */
VKAPI_ATTR VkResult VKAPI_CALL layer_AllocateDescriptorSets(VkDevice handle, const VkDescriptorSetAllocateInfo *info,
                                                            VkDescriptorSet *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->AllocateDescriptorSets(handle, info, out);
    if (result != VK_SUCCESS || !atomic_load_explicit(&device->n_sets, memory_order_acquire))
        return result;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; i < info->descriptorSetCount; i++)
        layer_forget(device, LAYER_SET, LAYER_KEY(out[i]));
    pthread_mutex_unlock(&device->lock);
    return result;
}

static bool has_images(const VkWriteDescriptorSet *write)
{
    return write->descriptorType == VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER ||
           write->descriptorType == VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE ||
           write->descriptorType == VK_DESCRIPTOR_TYPE_STORAGE_IMAGE ||
           write->descriptorType == VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT;
}

static size_t count_images(uint32_t n, const VkWriteDescriptorSet *writes)
{
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += has_images(&writes[i]) ? writes[i].descriptorCount : 0;
    return count;
}

/* Copies the writes, with GENERAL for each shared image; `to`: the command buffer of a push, or 0 to
 * note the sets. Returns the copy, which the caller frees; NULL: no memory. */
static VkWriteDescriptorSet *general_writes(layer_device *device, uint32_t n, const VkWriteDescriptorSet *writes,
                                            uint64_t to)
{
    VkWriteDescriptorSet *copy = malloc(n * sizeof *copy + count_images(n, writes) * sizeof(VkDescriptorImageInfo));
    VkDescriptorImageInfo *infos = (VkDescriptorImageInfo *)(copy + n);
    bool is_known = copy != NULL;
    pthread_mutex_lock(&device->lock);
    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = writes[i];
        if (!has_images(&writes[i]))
            continue;
        copy[i].pImageInfo = infos;
        for (uint32_t k = 0; k < writes[i].descriptorCount; k++, infos++) {
            *infos = writes[i].pImageInfo[k];
            layer_image *shared = layer_viewed(device, infos->imageView);
            uint64_t at = (uint64_t)writes[i].dstBinding << 32 | (writes[i].dstArrayElement + k);
            if (!to)
                layer_forget_one(device, LAYER_SET, LAYER_KEY(writes[i].dstSet), at);
            if (!shared)
                continue;
            infos->imageLayout = VK_IMAGE_LAYOUT_GENERAL;
            is_known &= to ? layer_add(device, LAYER_COMMANDS, to, 0, shared)
                           : layer_add(device, LAYER_SET, LAYER_KEY(writes[i].dstSet), at, shared);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (is_known)
        return copy;
    free(copy);
    return NULL;
}

/* Without memory the engine's layouts are passed on: the call has no result to report it. */
VKAPI_ATTR void VKAPI_CALL layer_UpdateDescriptorSets(VkDevice handle, uint32_t n, const VkWriteDescriptorSet *writes,
                                                      uint32_t n_copies, const VkCopyDescriptorSet *copies)
{
    layer_device *device = layer_device_of(handle);
    VkWriteDescriptorSet *general = shares(device) && n ? general_writes(device, n, writes, 0) : NULL;
    device->UpdateDescriptorSets(handle, n, general ? general : writes, n_copies, copies);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdPushDescriptorSetKHR(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                         VkPipelineLayout layout, uint32_t set, uint32_t n,
                                                         const VkWriteDescriptorSet *writes)
{
    layer_device *device = layer_device_of(commands);
    VkWriteDescriptorSet *general = shares(device) && n ? general_writes(device, n, writes, LAYER_KEY(commands)) : NULL;
    device->CmdPushDescriptorSetKHR(commands, point, layout, set, n, general ? general : writes);
    free(general);
}

VKAPI_ATTR void VKAPI_CALL layer_CmdBindDescriptorSets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                       VkPipelineLayout layout, uint32_t first, uint32_t n,
                                                       const VkDescriptorSet *sets, uint32_t n_offsets,
                                                       const uint32_t *offsets)
{
    layer_device *device = layer_device_of(commands);
    if (__builtin_expect(atomic_load_explicit(&device->n_sets, memory_order_acquire) != 0, 0)) {
        pthread_mutex_lock(&device->lock);
        for (uint32_t i = 0; i < n; i++)
            for (const layer_node *each = NULL; (each = layer_find(device, LAYER_SET, LAYER_KEY(sets[i]), each));)
                layer_add(device, LAYER_COMMANDS, LAYER_KEY(commands), 0, each->image);
        pthread_mutex_unlock(&device->lock);
    }
    device->CmdBindDescriptorSets(commands, point, layout, first, n, sets, n_offsets, offsets);
}
