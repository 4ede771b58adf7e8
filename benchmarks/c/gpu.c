/* gpu.c: the device of a program in C that presents. */
#include <stdlib.h>

#include "swapchain.h"

/* Wraps a device that the caller owns, with a queue of its own. `instance` is NULL for driver.c's. NULL: the
 * driver lacks functions. */
gpu *gpu_over(PFN_vkGetInstanceProcAddr of_instance, VkInstance instance, VkPhysicalDevice physical,
              PFN_vkGetDeviceProcAddr of_device, VkDevice device, VkQueue queue, uint32_t family)
{
    gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return NULL;
    gpu->instance = instance;
    gpu->physical = physical;
    gpu->device = device;
    gpu->queue = queue;
    gpu->family = family;
#define LOAD(name) gpu->name = instance ? (PFN_vk##name)of_instance(instance, "vk" #name) : NULL;
    INSTANCE_FUNCTIONS(LOAD) /* of an extension that is not enabled: NULL, and not called */
#undef LOAD
#define LOAD(name)                                                                                                     \
    if (!(gpu->name = (PFN_vk##name)of_device(device, "vk" #name))) {                                                  \
        free(gpu);                                                                                                     \
        return NULL;                                                                                                   \
    }
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return gpu;
}

void gpu_close(gpu *gpu) { free(gpu); }
