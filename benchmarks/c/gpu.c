/* gpu.c: the device of a program in C. */
#include <stdlib.h>

#include "interface.h"

/* Wraps a device that the caller owns, with a queue of its own. NULL: the driver lacks functions. */
gpu *gpu_over(PFN_vkGetDeviceProcAddr get, VkDevice device, VkQueue queue, uint32_t family, VkPhysicalDevice physical,
              PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR capabilities)
{
    gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return NULL;
    int lacks = 0;
    *gpu = (struct gpu){device, queue, family, physical, capabilities};
#define LOAD(name) gpu->name = (PFN_vk##name)get(device, "vk" #name);
    SWAPCHAIN_FUNCTIONS(LOAD)
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
#define LACKS(name) lacks |= !gpu->name;
    DEVICE_FUNCTIONS(LACKS)
#undef LACKS
    if (!lacks)
        return gpu;
    free(gpu);
    return NULL;
}

void gpu_close(gpu *gpu) { free(gpu); }
