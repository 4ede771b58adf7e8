/* views.c: the engine's objects that refer to shared images: views, framebuffers, render passes. */
#include <stdlib.h>

#include "layer/layer.h"

/* ---- views and framebuffers ---- */

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateImageView(VkDevice handle, const VkImageViewCreateInfo *info,
                                                     const VkAllocationCallbacks *allocator, VkImageView *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->CreateImageView(handle, info, allocator, out);
    if (result != VK_SUCCESS || !layer_shares(device))
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
    if (layer_shares(device)) {
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
    if (result != VK_SUCCESS || !layer_shares(device) || info->flags & VK_FRAMEBUFFER_CREATE_IMAGELESS_BIT)
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
    if (layer_shares(device)) {
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
