/* vulkan.h: Vulkan's own header, with no prototypes, and with all non-dispatchable handles as 64-bit integers, because
 * the benchmarks pass handles as Python's integers. Compile with -I native/third_party. */
#ifndef BENCHMARKS_VULKAN_H
#define BENCHMARKS_VULKAN_H

#define VK_NO_PROTOTYPES
#define VK_USE_64_BIT_PTR_DEFINES 0
#include <vulkan/vulkan_core.h>

static inline VkSemaphoreSubmitInfo semaphore_info(VkSemaphore semaphore, uint64_t value, VkFlags64 stage)
{
    return (VkSemaphoreSubmitInfo){
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, .semaphore = semaphore, .value = value, .stageMask = stage};
}

/* One command buffer. */
static inline VkResult submit_one(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, uint32_t n_waits,
                                  const VkSemaphoreSubmitInfo *waits, uint32_t n_signals,
                                  const VkSemaphoreSubmitInfo *signals, VkFence fence)
{
    VkCommandBufferSubmitInfo commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, NULL, buffer, 0};
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .waitSemaphoreInfoCount = n_waits,
                          .pWaitSemaphoreInfos = waits,
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &commands,
                          .signalSemaphoreInfoCount = n_signals,
                          .pSignalSemaphoreInfos = signals};
    return submit(queue, 1, &info, fence);
}

#endif
