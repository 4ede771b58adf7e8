/* vulkan_draw.h: what record.c calls beyond vulkan_present.h, so that a C compiler alone can build it.
 *
 * Names, layouts and values are those of vulkan_core.h; a test of vkshare compares the two.
 */
#ifndef VULKAN_DRAW_H
#define VULKAN_DRAW_H

#include "vulkan_present.h"

typedef uint64_t VkBuffer;
typedef uint64_t VkPipeline;

enum {
    VK_STRUCTURE_TYPE_MEMORY_BARRIER_2 = 1000314000,
    VK_IMAGE_LAYOUT_GENERAL = 1,
    VK_PIPELINE_BIND_POINT_GRAPHICS = 0,
};
#define VK_PIPELINE_STAGE_2_HOST_BIT UINT64_C(0x4000)
#define VK_ACCESS_2_HOST_READ_BIT UINT64_C(0x2000)
#define VK_ACCESS_2_HOST_WRITE_BIT UINT64_C(0x4000)
#define VK_ACCESS_2_MEMORY_READ_BIT UINT64_C(0x8000)
#define VK_ACCESS_2_MEMORY_WRITE_BIT UINT64_C(0x10000)

typedef struct VkMemoryBarrier2 {
    uint32_t sType;
    const void *pNext;
    VkFlags64 srcStageMask;
    VkFlags64 srcAccessMask;
    VkFlags64 dstStageMask;
    VkFlags64 dstAccessMask;
} VkMemoryBarrier2;

typedef struct VkViewport {
    float x;
    float y;
    float width;
    float height;
    float minDepth;
    float maxDepth;
} VkViewport;

typedef void (*PFN_vkCmdSetViewport)(VkCommandBuffer, uint32_t, uint32_t, const VkViewport *);
typedef void (*PFN_vkCmdSetScissor)(VkCommandBuffer, uint32_t, uint32_t, const VkRect2D *);
typedef void (*PFN_vkCmdBindPipeline)(VkCommandBuffer, uint32_t, VkPipeline);
typedef void (*PFN_vkCmdBindVertexBuffers)(VkCommandBuffer, uint32_t, uint32_t, const VkBuffer *, const VkDeviceSize *);
typedef void (*PFN_vkCmdDraw)(VkCommandBuffer, uint32_t, uint32_t, uint32_t, uint32_t);

#endif
