/* gpu.c: the device of a program in C that presents. */
#include <stdlib.h>

#include "swapchain.h"

static VkResult load_device(gpu *gpu)
{
#define LOAD(name)                                                                                                     \
    if (!(gpu->name = (PFN_vk##name)gpu->GetDeviceProcAddr(gpu->device, "vk" #name)))                                  \
        return VK_ERROR_FEATURE_NOT_PRESENT;
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return VK_SUCCESS;
}

static VkResult make_instance(gpu *gpu, PFN_vkGetInstanceProcAddr get, const char *const *extensions, uint32_t n)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application,
                                 .enabledExtensionCount = n,
                                 .ppEnabledExtensionNames = extensions};
    TRY(create(&info, NULL, &gpu->instance));
#define LOAD(name) gpu->name = (PFN_vk##name)get(gpu->instance, "vk" #name);
    INSTANCE_FUNCTIONS(LOAD) /* of an extension that is not enabled: NULL, and not called */
#undef LOAD
    return VK_SUCCESS;
}

static VkResult make_device(gpu *gpu, uint32_t index, const char *const *extensions, uint32_t n, int has_present_fences)
{
    VkPhysicalDevice devices[16];
    uint32_t count = 16;
    TRY(gpu->EnumeratePhysicalDevices(gpu->instance, &count, devices));
    if (index >= count)
        return VK_ERROR_FEATURE_NOT_PRESENT;
    gpu->physical = devices[index];
    VkPhysicalDeviceSwapchainMaintenance1FeaturesEXT fences = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SWAPCHAIN_MAINTENANCE_1_FEATURES_EXT, NULL, 1};
    VkPhysicalDeviceDynamicRenderingFeatures rendering = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES,
                                                          has_present_fences ? &fences : NULL, 1};
    VkPhysicalDeviceSynchronization2Features features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES,
                                                         &rendering, 1};
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = gpu->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = (const float[]){1}};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = n,
                               .ppEnabledExtensionNames = extensions};
    TRY(gpu->CreateDevice(gpu->physical, &info, NULL, &gpu->device));
    TRY(load_device(gpu));
    gpu->GetDeviceQueue(gpu->device, gpu->family, 0, &gpu->queue);
    return VK_SUCCESS;
}

void gpu_close(gpu *gpu)
{
    if (gpu && gpu->instance) {
        if (gpu->device)
            gpu->DestroyDevice(gpu->device, NULL);
        gpu->DestroyInstance(gpu->instance, NULL);
    }
    free(gpu);
}

/* An instance and a device of their own. NULL: `result` says why. */
gpu *gpu_open(PFN_vkGetInstanceProcAddr get, uint32_t index, uint32_t family, const char *const *instance_extensions,
              uint32_t n_instance, const char *const *device_extensions, uint32_t n_device, int has_present_fences,
              VkResult *result)
{
    gpu *made = calloc(1, sizeof *made);
    *result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (!made)
        return NULL;
    made->family = family;
    *result = make_instance(made, get, instance_extensions, n_instance);
    if (*result >= 0)
        *result = make_device(made, index, device_extensions, n_device, has_present_fences);
    if (*result >= 0)
        return made;
    gpu_close(made);
    return NULL;
}

/* Wraps a device that the caller owns: driver.c's. */
gpu *gpu_over(PFN_vkGetDeviceProcAddr get, VkDevice device, VkQueue queue)
{
    gpu *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->device = device;
    made->queue = queue;
    made->GetDeviceProcAddr = get;
    if (load_device(made) == VK_SUCCESS)
        return made;
    free(made);
    return NULL;
}

uint64_t gpu_instance(const gpu *gpu) { return (uint64_t)(uintptr_t)gpu->instance; }
