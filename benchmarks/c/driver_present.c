/* driver_present.c: the presentation of the driver that does nothing (driver.c): images come round in turn, and every
 * fence is signalled.
 */
#include <string.h>

#include "vulkan.h"

#define IMAGES 3u /* of every swapchain */

static uint64_t handles; /* the last that was given */
static uint32_t turn;

static VkResult make(uint64_t *out)
{
    *out = ++handles;
    return VK_SUCCESS;
}

static VkResult CreateSwapchainKHR(VkDevice device, const VkSwapchainCreateInfoKHR *info, const void *allocator,
                                   VkSwapchainKHR *out)
{
    (void)device, (void)info, (void)allocator;
    turn = 0;
    return make(out);
}

static VkResult GetSwapchainImagesKHR(VkDevice device, VkSwapchainKHR swapchain, uint32_t *n, VkImage *images)
{
    (void)device, (void)swapchain;
    for (uint32_t i = 0; images && i < IMAGES; i++)
        make(&images[i]);
    *n = IMAGES;
    return VK_SUCCESS;
}

static VkResult AcquireNextImageKHR(VkDevice device, VkSwapchainKHR swapchain, uint64_t timeout, VkSemaphore semaphore,
                                    VkFence fence, uint32_t *index)
{
    (void)device, (void)swapchain, (void)timeout, (void)semaphore, (void)fence;
    *index = turn;
    turn = turn + 1 == IMAGES ? 0 : turn + 1;
    return VK_SUCCESS;
}

static VkResult QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR *info)
{
    (void)queue;
    for (uint32_t i = 0; info->pResults && i < info->swapchainCount; i++)
        info->pResults[i] = VK_SUCCESS;
    return VK_SUCCESS;
}

static VkResult GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice physical, VkSurfaceKHR surface,
                                                        VkSurfaceCapabilitiesKHR *out)
{
    (void)physical, (void)surface;
    *out = (VkSurfaceCapabilitiesKHR){.minImageCount = 1,
                                      .maxImageCount = IMAGES,
                                      .currentExtent = {UINT32_MAX, UINT32_MAX},
                                      .minImageExtent = {1, 1},
                                      .maxImageExtent = {16384, 16384},
                                      .maxImageArrayLayers = 1,
                                      .supportedTransforms = 1,
                                      .currentTransform = 1,
                                      .supportedCompositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                      .supportedUsageFlags = ~UINT32_C(0)};
    return VK_SUCCESS;
}

/* A fence, an image, memory, ...: every handle is one of 64 bits, and what is wanted of it says nothing. */
static VkResult create(VkDevice device, const void *info, const void *allocator, uint64_t *out)
{
    (void)device, (void)info, (void)allocator;
    return make(out);
}

static VkResult AllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    (void)device;
    for (uint32_t i = 0; i < info->commandBufferCount; i++)
        out[i] = (VkCommandBuffer)(uintptr_t)++handles;
    return VK_SUCCESS;
}

/* For what destroys or records something, or says only that it went well; it looks at no argument. */
static VkResult nothing(void) { return VK_SUCCESS; }

void *driver_present_proc_addr(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"vkCreateSwapchainKHR", CreateSwapchainKHR},
        {"vkGetSwapchainImagesKHR", GetSwapchainImagesKHR},
        {"vkAcquireNextImageKHR", AcquireNextImageKHR},
        {"vkQueuePresentKHR", QueuePresentKHR},
        {"vkGetPhysicalDeviceSurfaceCapabilitiesKHR", GetPhysicalDeviceSurfaceCapabilitiesKHR},
        {"vkCreateFence", create},
        {"vkCreateImage", create},
        {"vkAllocateMemory", create},
        {"vkCreateImageView", create},
        {"vkCreateCommandPool", create},
        {"vkAllocateCommandBuffers", AllocateCommandBuffers},
    };
    static const char *const others[] = {
        "vkGetFenceStatus",      "vkWaitForFences",       "vkResetFences",
        "vkDestroySwapchainKHR", "vkDestroyFence",        "vkDestroyImage",
        "vkFreeMemory",          "vkBindImageMemory",     "vkDestroyImageView",
        "vkDestroyCommandPool",  "vkFreeCommandBuffers",  "vkBeginCommandBuffer",
        "vkEndCommandBuffer",    "vkCmdPipelineBarrier2", "vkCmdClearColorImage",
        "vkCmdBeginRendering",   "vkCmdEndRendering",     "vkDeviceWaitIdle",
        "vkDestroyDevice",       "vkGetDeviceQueue",      "vkGetImageMemoryRequirements",
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(name, functions[i].name))
            return functions[i].function;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i]))
            return nothing;
    return NULL;
}
