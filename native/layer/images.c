/* images.c: images of surfaces that an engine's vkCreateImage returned, from the offer to the last destructor.
 *
 * The engine and the vks_device destroy such an image each for itself, in any order; the driver's
 * image and its memory end with the second of the two. The engine's memory for it is not used: the
 * layer states the smallest requirements, so that little is wasted. Below a validation layer it states
 * the true ones, because that layer would see the image overlap with its neighbours in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "layer/layer.h"

static _Thread_local struct {
    vks_layer_offer from;
    layer_device *device; /* NULL: there is no offer, or it was taken */
    bool is_taken;
} offered;

layer_image *layer_image_of(const layer_device *device, VkImage image)
{
    layer_image *each = device->images;
    while (each && each->from.image != image)
        each = each->next;
    return each;
}

layer_image *layer_viewed(const layer_device *device, VkImageView view)
{
    const layer_node *node = layer_find(device, LAYER_VIEW, LAYER_KEY(view), NULL);
    return node ? node->image : NULL;
}

/* ---- offers ---- */

bool vks_layer_make_offer(const vks_layer_offer *offer)
{
    layer_device *device = offer && offer->device ? layer_device_of(offer->device) : NULL;
    offered.device = NULL;
    offered.is_taken = false;
    if (!device || !offer->image || !offer->surface || !offer->calls.surface_sync || !offer->calls.surface_ref ||
        !offer->calls.surface_unref)
        return false;
    offered.from = *offer;
    offered.device = device;
    return true;
}

bool vks_layer_is_taken(void) { return offered.is_taken; }

bool vks_layer_end_offer(void)
{
    bool was_taken = offered.is_taken;
    layer_device *device = was_taken ? layer_device_of(offered.from.device) : NULL;
    offered.device = NULL;
    offered.is_taken = false;
    if (!device)
        return was_taken;
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, offered.from.image);
    if (shared)
        shared->is_muted = false;
    pthread_mutex_unlock(&device->lock);
    return was_taken;
}

static bool fits(const VkImageCreateInfo *info, const vks_layer_offer *from)
{
    return info->imageType == VK_IMAGE_TYPE_2D && info->extent.width == from->width &&
           info->extent.height == from->height && info->extent.depth == 1 && info->format == from->format &&
           info->mipLevels == 1 && info->arrayLayers == 1 && info->samples == VK_SAMPLE_COUNT_1_BIT &&
           !(info->usage & ~from->usage);
}

static bool take_offer(layer_device *device)
{
    const vks_layer_offer *from = &offered.from;
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, from->image);
    if (!shared && (shared = calloc(1, sizeof *shared))) {
        shared->device = device;
        shared->from = *from;
        from->calls.surface_ref(from->surface); /* counts only, takes no lock */
        shared->next = device->images;
        device->images = shared;
        atomic_fetch_add(&device->n_images, 1);
    }
    if (shared) {
        shared->textures++;
        shared->is_muted = true;
        shared->muted_by = pthread_self();
    }
    pthread_mutex_unlock(&device->lock);
    offered.device = NULL;
    offered.is_taken = shared != NULL;
    return shared;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateImage(VkDevice handle, const VkImageCreateInfo *info,
                                                 const VkAllocationCallbacks *allocator, VkImage *out)
{
    layer_device *device = layer_device_of(handle);
    layer_thread_device = device;
    if (__builtin_expect(offered.device != device, 1) || !fits(info, &offered.from))
        return device->CreateImage(handle, info, allocator, out);
    *out = offered.from.image;
    return take_offer(device) ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- the end ---- */

static void unlink_image(layer_device *device, layer_image *shared)
{
    layer_image **link = &device->images;
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    layer_forget_image(device, shared);
    if (atomic_fetch_sub(&device->n_images, 1) == 1)
        layer_forget_kind(device, LAYER_BOUND); /* from here on a new recording does not forget them */
}

/* The image is no texture any more, and no other thread has it. */
static void end(layer_image *shared)
{
    layer_device *device = shared->device;
    if (shared->image_ended)
        device->DestroyImage(device->handle, shared->from.image, NULL);
    if (shared->memory_ended)
        device->FreeMemory(device->handle, shared->from.memory, NULL);
    shared->from.calls.surface_unref(shared->from.surface);
    free(shared);
}

/* The engine's destructor. */
VKAPI_ATTR void VKAPI_CALL layer_DestroyImage(VkDevice handle, VkImage image, const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    layer_image *shared = NULL;
    bool is_last = false;
    if (layer_shares(device)) {
        pthread_mutex_lock(&device->lock);
        if ((shared = layer_image_of(device, image)) && (is_last = --shared->textures == 0))
            unlink_image(device, shared);
        pthread_mutex_unlock(&device->lock);
    }
    if (!shared)
        device->DestroyImage(handle, image, allocator);
    else if (is_last)
        end(shared);
}

void layer_end_images(layer_device *device)
{
    pthread_mutex_lock(&device->lock);
    layer_image *all = device->images;
    device->images = NULL;
    atomic_store(&device->n_images, 0);
    layer_forget_image(device, NULL);
    pthread_mutex_unlock(&device->lock);
    while (all) {
        layer_image *shared = all;
        all = shared->next;
        end(shared);
    }
}

/* ---- vkshare's functions, which go past the loader ---- */
static VKAPI_ATTR void VKAPI_CALL guest_DestroyImage(VkDevice handle, VkImage image,
                                                     const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    pthread_mutex_lock(&device->lock);
    layer_image *shared = layer_image_of(device, image);
    if (shared)
        shared->image_ended = true;
    pthread_mutex_unlock(&device->lock);
    if (!shared)
        device->DestroyImage(handle, image, allocator);
}

static VKAPI_ATTR void VKAPI_CALL guest_FreeMemory(VkDevice handle, VkDeviceMemory memory,
                                                   const VkAllocationCallbacks *allocator)
{
    layer_device *device = layer_device_of(handle);
    pthread_mutex_lock(&device->lock);
    layer_image *shared = device->images;
    while (shared && (shared->from.memory != memory || !memory))
        shared = shared->next;
    if (shared)
        shared->memory_ended = true;
    pthread_mutex_unlock(&device->lock);
    if (!shared)
        device->FreeMemory(handle, memory, allocator);
}

/* The loader writes its key into the command buffers that it hands out. These do not come from it. */
static VKAPI_ATTR VkResult VKAPI_CALL guest_AllocateCommandBuffers(VkDevice handle,
                                                                   const VkCommandBufferAllocateInfo *info,
                                                                   VkCommandBuffer *out)
{
    layer_device *device = layer_device_of(handle);
    VkResult result = device->AllocateCommandBuffers(handle, info, out);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->commandBufferCount; i++)
        *(void **)out[i] = device->key;
    return result;
}

PFN_vkVoidFunction layer_guest_function(const char *name)
{
    return !strcmp(name, "vkDestroyImage")             ? (PFN_vkVoidFunction)guest_DestroyImage
           : !strcmp(name, "vkFreeMemory")             ? (PFN_vkVoidFunction)guest_FreeMemory
           : !strcmp(name, "vkAllocateCommandBuffers") ? (PFN_vkVoidFunction)guest_AllocateCommandBuffers
                                                       : NULL;
}

/* ---- memory ---- */

static bool is_shared_image(layer_device *device, VkImage image)
{
    if (!layer_shares(device))
        return false;
    pthread_mutex_lock(&device->lock);
    bool found = layer_image_of(device, image) != NULL;
    pthread_mutex_unlock(&device->lock);
    return found;
}

static void reduce(const layer_device *device, VkMemoryRequirements *requirements)
{
    if (!device->instance->is_validated)
        requirements->size = requirements->alignment;
}

VKAPI_ATTR void VKAPI_CALL layer_GetImageMemoryRequirements(VkDevice handle, VkImage image, VkMemoryRequirements *out)
{
    layer_device *device = layer_device_of(handle);
    device->GetImageMemoryRequirements(handle, image, out);
    if (is_shared_image(device, image))
        reduce(device, out);
}

VKAPI_ATTR void VKAPI_CALL layer_GetImageMemoryRequirements2(VkDevice handle,
                                                             const VkImageMemoryRequirementsInfo2 *info,
                                                             VkMemoryRequirements2 *out)
{
    layer_device *device = layer_device_of(handle);
    device->GetImageMemoryRequirements2(handle, info, out);
    if (!is_shared_image(device, info->image))
        return;
    reduce(device, &out->memoryRequirements);
    for (VkBaseOutStructure *each = out->pNext; each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS) {
            VkMemoryDedicatedRequirements *dedicated = (VkMemoryDedicatedRequirements *)each;
            dedicated->prefersDedicatedAllocation = dedicated->requiresDedicatedAllocation = VK_FALSE;
        }
}

/* A shared image is bound already. */
VKAPI_ATTR VkResult VKAPI_CALL layer_BindImageMemory(VkDevice handle, VkImage image, VkDeviceMemory memory,
                                                     VkDeviceSize offset)
{
    layer_device *device = layer_device_of(handle);
    return is_shared_image(device, image) ? VK_SUCCESS : device->BindImageMemory(handle, image, memory, offset);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_BindImageMemory2(VkDevice handle, uint32_t n, const VkBindImageMemoryInfo *binds)
{
    layer_device *device = layer_device_of(handle);
    uint32_t kept = 0;
    if (!layer_shares(device))
        return device->BindImageMemory2(handle, n, binds);
    VkBindImageMemoryInfo *others = calloc(n ? n : 1, sizeof *others);
    if (!others)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (!is_shared_image(device, binds[i].image))
            others[kept++] = binds[i];
    VkResult result = kept ? device->BindImageMemory2(handle, kept, others) : VK_SUCCESS;
    free(others);
    return result;
}
