/* vulkan_subset.h: the few declarations of Vulkan 1.3 that the benchmarks call, so that a C compiler alone can build
 * them.
 *
 * Names, layouts and values are those of vulkan_core.h; a test of vkshare compares the two.
 */
#ifndef VULKAN_SUBSET_H
#define VULKAN_SUBSET_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t VkResult;
typedef uint32_t VkFlags;
typedef uint64_t VkFlags64;
typedef struct VkDevice_T *VkDevice;
typedef struct VkQueue_T *VkQueue;
typedef struct VkCommandBuffer_T *VkCommandBuffer;
typedef uint64_t VkSemaphore; /* a non-dispatchable handle: 64 bits, passed like an integer on 64-bit ABIs */
typedef uint64_t VkFence;

enum {
    VK_SUCCESS = 0,
    VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO = 1000207004,
    VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO = 1000207005,
    VK_STRUCTURE_TYPE_SUBMIT_INFO_2 = 1000314004,
    VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO = 1000314005,
    VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO = 1000314006,
};
#define VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT UINT64_C(0x10000)

typedef struct VkSemaphoreTypeCreateInfo {
    uint32_t sType;
    const void *pNext;
    uint32_t semaphoreType;
    uint64_t initialValue;
} VkSemaphoreTypeCreateInfo;

typedef struct VkSemaphoreCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
} VkSemaphoreCreateInfo;

typedef struct VkSemaphoreWaitInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t semaphoreCount;
    const VkSemaphore *pSemaphores;
    const uint64_t *pValues;
} VkSemaphoreWaitInfo;

typedef struct VkSemaphoreSignalInfo {
    uint32_t sType;
    const void *pNext;
    VkSemaphore semaphore;
    uint64_t value;
} VkSemaphoreSignalInfo;

typedef struct VkSemaphoreSubmitInfo {
    uint32_t sType;
    const void *pNext;
    VkSemaphore semaphore;
    uint64_t value;
    VkFlags64 stageMask;
    uint32_t deviceIndex;
} VkSemaphoreSubmitInfo;

typedef struct VkCommandBufferSubmitInfo {
    uint32_t sType;
    const void *pNext;
    VkCommandBuffer commandBuffer;
    uint32_t deviceMask;
} VkCommandBufferSubmitInfo;

typedef struct VkSubmitInfo2 {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t waitSemaphoreInfoCount;
    const VkSemaphoreSubmitInfo *pWaitSemaphoreInfos;
    uint32_t commandBufferInfoCount;
    const VkCommandBufferSubmitInfo *pCommandBufferInfos;
    uint32_t signalSemaphoreInfoCount;
    const VkSemaphoreSubmitInfo *pSignalSemaphoreInfos;
} VkSubmitInfo2;

typedef VkResult (*PFN_vkQueueSubmit2)(VkQueue, uint32_t, const VkSubmitInfo2 *, VkFence);
typedef VkResult (*PFN_vkGetSemaphoreCounterValue)(VkDevice, VkSemaphore, uint64_t *);
typedef VkResult (*PFN_vkSignalSemaphore)(VkDevice, const VkSemaphoreSignalInfo *);
typedef VkResult (*PFN_vkWaitSemaphores)(VkDevice, const VkSemaphoreWaitInfo *, uint64_t);

#endif
