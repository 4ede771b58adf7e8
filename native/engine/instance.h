/* instance.h: a VkInstance with its functions, and what is read of a VkPhysicalDevice. Internal. */
#ifndef VKS_INSTANCE_H
#define VKS_INSTANCE_H

#include "backend/vulkan_queue.h"
#include "vkshare_vulkan.h"

/* clang-format off */
#define VKS_INSTANCE_FUNCTIONS(X)                                                                                      \
    X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceMemoryProperties)                   \
    X(GetPhysicalDeviceQueueFamilyProperties) X(GetPhysicalDeviceFeatures2) X(EnumerateDeviceExtensionProperties)      \
    X(GetPhysicalDeviceImageFormatProperties2) X(GetPhysicalDeviceExternalSemaphoreProperties)                         \
    X(GetPhysicalDeviceExternalBufferProperties) \
    X(CreateDevice) X(GetDeviceProcAddr)
/* clang-format on */

typedef struct vks_instance {
    PFN_vkGetInstanceProcAddr get;
    VkInstance handle;
    bool has_surfaces; /* VK_KHR_surface is enabled; only known of the process's own instance */
#define DECLARE(name) PFN_vk##name name;
    VKS_INSTANCE_FUNCTIONS(DECLARE)
#undef DECLARE
} vks_instance;

typedef struct vks_physical {
    VkPhysicalDevice handle;
    vks_adapter adapter;
    uint32_t rank; /* higher is better */
    /* Extensions, the linear one with its feature. */
    bool has_semaphore_fd, has_host_memory, has_linear_rendering, has_swapchain;
    uint64_t max_timeline_difference;
    VkDeviceSize host_alignment; /* of imported host pointers, bytes */
    VkPhysicalDeviceMemoryProperties memory;
    /* The first family that draws, and the first that copies any rectangle and does nothing else;
     * VK_QUEUE_FAMILY_IGNORED: there is none, or the driver was not tried with one. */
    uint32_t graphics_family, transfer_family;
    /* A barrier that is the first or the last command of a command buffer waits for nothing
     * (docs/spec/drivers.md). */
    bool skips_outer_barriers;
} vks_physical;

/* Loads the functions of an instance. `get` NULL: from libvulkan.so.1. VKS_UNSUPPORTED. */
vks_status vks_instance_load(PFN_vkGetInstanceProcAddr get, VkInstance handle, vks_instance *out);
/* This process's own instance, which is never destroyed, because drivers keep threads below it. */
vks_status vks_instance_own(vks_instance *out);
/* Reads the properties. VKS_UNSUPPORTED: the device lacks something; the text names it. */
vks_status vks_physical_read(const vks_instance *instance, VkPhysicalDevice handle, vks_physical *out);
/* The index-th adapter of the process's own instance with these UUIDs (NULL: any), the best
 * first. */
vks_status vks_physical_find(const vks_instance *instance, const vks_open_info *info, vks_physical *out);
/* A memory type among `allowed` with all flags of the first of `wanted` (0 ends it) that any
 * has. */
uint32_t vks_physical_memory_type(const vks_physical *physical, uint32_t allowed, const VkMemoryPropertyFlags *wanted);
static inline bool vks_physical_is_mappable(const vks_physical *physical, uint32_t type)
{
    const VkMemoryPropertyFlags flags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    return (physical->memory.memoryTypes[type].propertyFlags & flags) == flags;
}

#endif
