/* surfaces.c: surfaces, what is reported of them, and extensions that are hidden. */
#include <stdlib.h>
#include <string.h>

#include "wrappers.h"

#define SURFACE(name, info_type)                                                                                       \
    VkResult layer_Create##name(VkInstance instance, const info_type *info, const VkAllocationCallbacks *allocator,    \
                                VkSurfaceKHR *out)                                                                     \
    {                                                                                                                  \
        struct context *context = vks_context(instance);                                                               \
        FAULT(Create##name, context);                                                                                  \
        VkResult result = context->Create##name(instance, info, allocator, out);                                       \
        if (result == VK_SUCCESS)                                                                                      \
            vks_created(TYPE_SURFACE, HANDLE(*out), 0, context);                                                       \
        return TELL(result);                                                                                           \
    }

SURFACE(HeadlessSurfaceEXT, VkHeadlessSurfaceCreateInfoEXT)
SURFACE(XcbSurfaceKHR, void)
SURFACE(XlibSurfaceKHR, void)
SURFACE(WaylandSurfaceKHR, void)

static void check_swapchain(struct object *object, void *argument)
{
    const struct surface *surface = argument;
    if (((struct swapchain *)object)->surface.serial == surface->object.serial)
        vks_violation(&surface->object, NO_EXCUSE, "a surface is destroyed before its swapchain %#llx",
                      (unsigned long long)object->handle);
}

void layer_DestroySurfaceKHR(VkInstance instance, VkSurfaceKHR surface, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(instance);
    vks_fault(ENTRY_DestroySurfaceKHR, context, &(VkResult){VK_SUCCESS});
    pthread_mutex_lock(&vks_lock);
    struct surface *known = vks_find(TYPE_SURFACE, HANDLE(surface));
    if (known != NULL)
        vks_each(TYPE_SWAPCHAIN, check_swapchain, known);
    pthread_mutex_unlock(&vks_lock);
    vks_destroyed(TYPE_SURFACE, HANDLE(surface));
    context->DestroySurfaceKHR(instance, surface, allocator);
}

/* A surface that was lost for good answers so to every question. */
static bool is_lost(VkSurfaceKHR handle)
{
    pthread_mutex_lock(&vks_lock);
    const struct surface *surface = vks_find(TYPE_SURFACE, HANDLE(handle));
    const bool lost = surface != NULL && surface->forced != VK_SUCCESS;
    pthread_mutex_unlock(&vks_lock);
    return lost;
}

static void force(VkSurfaceCapabilitiesKHR *capabilities)
{
    pthread_mutex_lock(&vks_lock);
    const struct forced *forced = &vks_forced;
    if (forced->has_current)
        capabilities->currentExtent = forced->current;
    if (forced->has_min)
        capabilities->minImageExtent = forced->min;
    if (forced->has_max)
        capabilities->maxImageExtent = forced->max;
    if (forced->min_images != 0)
        capabilities->minImageCount = forced->min_images;
    if (forced->max_images != 0)
        capabilities->maxImageCount = forced->max_images == UINT32_MAX ? 0 : forced->max_images;
    pthread_mutex_unlock(&vks_lock);
}

VkResult layer_GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice physical, VkSurfaceKHR surface,
                                                       VkSurfaceCapabilitiesKHR *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfaceCapabilitiesKHR, context);
    if (is_lost(surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkResult result = context->GetPhysicalDeviceSurfaceCapabilitiesKHR(physical, surface, out);
    if (result == VK_SUCCESS)
        force(out);
    return TELL(result);
}

VkResult layer_GetPhysicalDeviceSurfaceCapabilities2KHR(VkPhysicalDevice physical,
                                                        const VkPhysicalDeviceSurfaceInfo2KHR *info,
                                                        VkSurfaceCapabilities2KHR *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfaceCapabilities2KHR, context);
    if (is_lost(info->surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkResult result = context->GetPhysicalDeviceSurfaceCapabilities2KHR(physical, info, out);
    if (result == VK_SUCCESS)
        force(&out->surfaceCapabilities);
    return TELL(result);
}

VkResult layer_GetPhysicalDeviceSurfaceSupportKHR(VkPhysicalDevice physical, uint32_t family, VkSurfaceKHR surface,
                                                  VkBool32 *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfaceSupportKHR, context);
    if (is_lost(surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkResult result = context->GetPhysicalDeviceSurfaceSupportKHR(physical, family, surface, out);
    return TELL(result);
}

VkResult layer_GetPhysicalDeviceSurfaceFormatsKHR(VkPhysicalDevice physical, VkSurfaceKHR surface, uint32_t *count,
                                                  VkSurfaceFormatKHR *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfaceFormatsKHR, context);
    if (is_lost(surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkResult result = context->GetPhysicalDeviceSurfaceFormatsKHR(physical, surface, count, out);
    return TELL(result);
}

VkResult layer_GetPhysicalDeviceSurfaceFormats2KHR(VkPhysicalDevice physical,
                                                   const VkPhysicalDeviceSurfaceInfo2KHR *info, uint32_t *count,
                                                   VkSurfaceFormat2KHR *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfaceFormats2KHR, context);
    if (is_lost(info->surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkResult result = context->GetPhysicalDeviceSurfaceFormats2KHR(physical, info, count, out);
    return TELL(result);
}

static bool is_wanted(VkPresentModeKHR mode)
{
    for (uint32_t i = 0; i < vks_forced.mode_count; i++) {
        if (vks_forced.modes[i] == mode)
            return true;
    }
    return !vks_forced.has_modes;
}

/* Writes what fits of a filtered list as Vulkan's enumerations do; `size` is that of one element. */
static VkResult give(const void *list, uint32_t total, size_t size, uint32_t *count, void *out)
{
    const uint32_t given = out == NULL || *count > total ? total : *count;
    if (out != NULL)
        memcpy(out, list, given * size);
    *count = given;
    return given < total ? VK_INCOMPLETE : VK_SUCCESS;
}

VkResult layer_GetPhysicalDeviceSurfacePresentModesKHR(VkPhysicalDevice physical, VkSurfaceKHR surface, uint32_t *count,
                                                       VkPresentModeKHR *out)
{
    struct context *context = vks_context(physical);
    FAULT(GetPhysicalDeviceSurfacePresentModesKHR, context);
    if (is_lost(surface))
        return VK_ERROR_SURFACE_LOST_KHR;
    VkPresentModeKHR modes[32];
    uint32_t total = 32, kept = 0;
    VkResult result = context->GetPhysicalDeviceSurfacePresentModesKHR(physical, surface, &total, modes);
    if (result < 0)
        return result;
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < total; i++) {
        if (is_wanted(modes[i]))
            modes[kept++] = modes[i];
    }
    pthread_mutex_unlock(&vks_lock);
    result = give(modes, kept, sizeof *modes, count, out);
    return TELL(result);
}

/* ---- extensions ------------------------------------------------------------------------------------------------ */

static uint32_t without_hidden(VkExtensionProperties *list, uint32_t total)
{
    uint32_t kept = 0;
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < total; i++) {
        if (!vks_hidden(list[i].extensionName))
            list[kept++] = list[i];
    }
    pthread_mutex_unlock(&vks_lock);
    return kept;
}

VkResult layer_EnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *layer, uint32_t *count,
                                                  VkExtensionProperties *out)
{
    struct context *context = vks_context(physical);
    FAULT(EnumerateDeviceExtensionProperties, context);
    if (layer != NULL && strcmp(layer, LAYER_NAME) == 0)
        return give(NULL, 0, 0, count, NULL);
    uint32_t total = 0;
    VkResult result = context->EnumerateDeviceExtensionProperties(physical, layer, &total, NULL);
    VkExtensionProperties *list = calloc(total + 1, sizeof *list);
    if (result < 0 || list == NULL) {
        free(list);
        return result < 0 ? result : VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = context->EnumerateDeviceExtensionProperties(physical, layer, &total, list);
    if (result >= 0)
        result = give(list, without_hidden(list, total), sizeof *list, count, out);
    free(list);
    return TELL(result);
}

/* An implicit layer's own: the loader calls it before there is an instance. */
VKS_FAULTS_API VkResult vks_faults_instance_extensions(const struct extensions_chain *chain, const char *layer,
                                                       uint32_t *count, VkExtensionProperties *out);
VkResult vks_faults_instance_extensions(const struct extensions_chain *chain, const char *layer, uint32_t *count,
                                        VkExtensionProperties *out)
{
    if (vks_control_from_environment() != 0)
        return VK_ERROR_INITIALIZATION_FAILED;
    uint32_t total = 0;
    VkResult result = chain->next(chain->next_chain, layer, &total, NULL);
    VkExtensionProperties *list = calloc(total + 1, sizeof *list);
    if (result < 0 || list == NULL) {
        free(list);
        return result < 0 ? result : VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    result = chain->next(chain->next_chain, layer, &total, list);
    if (result >= 0)
        result = give(list, without_hidden(list, total), sizeof *list, count, out);
    free(list);
    return result;
}
