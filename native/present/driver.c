/* driver.c: the Vulkan functions that a swapchain calls, their results, and the names of its
 * objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "swapchain_state.h"

/* Returns the name of a function that the device lacks, or NULL. */
static const char *load(vks_swapchain *s)
{
    vks_vulkan_handles handles = vks_vulkan_get_handles(s->device);
    s->vk_device = (VkDevice)(uintptr_t)handles.device;
    s->vk_queue = (VkQueue)(uintptr_t)handles.queue;
    PFN_vkGetDeviceProcAddr get;
    memcpy(&get, &handles.get_device_proc_addr, sizeof get);
    memcpy(&s->vk.GetCapabilities, &s->vulkan.get_capabilities, sizeof s->vk.GetCapabilities);
    if (!s->vk.GetCapabilities)
        return "vkGetPhysicalDeviceSurfaceCapabilitiesKHR";
#define LOAD(name)                                                                                                     \
    if (!(s->vk.name = (PFN_vk##name)get(s->vk_device, "vk" #name)))                                                   \
        return "vk" #name;
    VKS_PRESENT_FUNCTIONS(LOAD)
#undef LOAD
    if (s->vulkan.can_name)
        s->vk.SetName = (PFN_vkSetDebugUtilsObjectNameEXT)get(s->vk_device, "vkSetDebugUtilsObjectNameEXT");
    return NULL;
}

vks_status vks_driver_open(vks_swapchain *s)
{
    const char *missing = s->device->timeline ? load(s) : "vkCreateSwapchainKHR";
    if (missing)
        return vks_fail(VKS_UNSUPPORTED, 0, "the device has no %s: it was made without VK_KHR_swapchain", missing);
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = s->vulkan.queue_family};
    return vks_driver_result(s, s->vk.CreateCommandPool(s->vk_device, &info, NULL, &s->commands),
                             "vkCreateCommandPool");
}

void vks_driver_close(vks_swapchain *s)
{
    free(s->spare_commands.handles);
    s->spare_commands = (vks_handle_pool){0};
    s->vk.DestroyCommandPool(s->vk_device, s->commands, NULL);
}

vks_status vks_driver_result(vks_swapchain *s, VkResult code, const char *call)
{
    switch (code) {
    case VK_SUCCESS:
        return VKS_OK;
    case VK_ERROR_DEVICE_LOST:
        return vks_fail(VKS_DEVICE_LOST, code, "%s", call);
    case VK_ERROR_SURFACE_LOST_KHR:
        atomic_store(&s->is_lost, true);
        return vks_fail(VKS_SURFACE_LOST, code, "%s", call);
    default:
        return vks_fail(VKS_VULKAN_ERROR, code, "%s", call);
    }
}

void vks_driver_name(vks_swapchain *s, VkObjectType type, uint64_t handle, const char *what, uint64_t number)
{
    if (!s->vk.SetName)
        return;
    char name[64];
    snprintf(name, sizeof name, "vkshare %s %llu", what, (unsigned long long)number);
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = name};
    s->vk.SetName(s->vk_device, &info);
}
