/* vulkan.h: Vulkan's own header, with no prototypes, and with all non-dispatchable handles as
 * 64-bit integers, because the benchmarks pass handles as Python's integers. Compile with -I
 * native/third_party. */
#pragma once

#define VK_NO_PROTOTYPES
#define VK_USE_64_BIT_PTR_DEFINES 0
#include <vulkan/vulkan_core.h>

#define PATIENCE UINT64_C(10000000000) /* nanoseconds: no wait is for ever */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        VkResult tried = (call);                                                                                       \
        if (tried < 0)                                                                                                 \
            return tried;                                                                                              \
    } while (0)

/* clang-format off */
#define SWAPCHAIN_FUNCTIONS(X)                                                                                         \
    X(CreateSwapchainKHR) X(DestroySwapchainKHR) X(GetSwapchainImagesKHR) X(AcquireNextImageKHR) X(QueuePresentKHR)

#define DEVICE_FUNCTIONS(X)                                                                                            \
    X(DeviceWaitIdle) X(QueueSubmit2) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(AllocateMemory)   \
    X(FreeMemory) X(BindImageMemory) X(CreateImageView) X(DestroyImageView) X(CreateSemaphore) X(DestroySemaphore)     \
    X(GetSemaphoreCounterValue) X(WaitSemaphores) X(CreateFence) X(DestroyFence) X(WaitForFences) X(ResetFences)       \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer)     \
    X(CmdPipelineBarrier2) X(CmdBeginRendering) X(CmdEndRendering) X(CmdClearColorImage) X(CmdSetViewport)             \
    X(CmdSetScissor) X(CmdBindPipeline) X(CmdBindVertexBuffers) X(CmdDraw)
/* clang-format on */

/* A device with one queue; the caller's. Functions of an extension that is not enabled are NULL. */
typedef struct gpu {
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkPhysicalDevice physical;
    PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR GetPhysicalDeviceSurfaceCapabilitiesKHR;
#define DECLARE(name) PFN_vk##name name;
    SWAPCHAIN_FUNCTIONS(DECLARE)
    DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
} gpu;

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

/* The commands may be pending several times at once. */
static inline VkResult begin(const gpu *gpu, VkCommandBuffer commands)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    return gpu->BeginCommandBuffer(commands, &info);
}

/* Clears the view with a load operation; what is drawn until CmdEndRendering comes after. */
static inline void begin_cleared(const gpu *gpu, VkCommandBuffer commands, VkImageView view, VkImageLayout layout,
                                 VkExtent2D extent, VkClearColorValue colour)
{
    VkRenderingAttachmentInfo attachment = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                            .imageView = view,
                                            .imageLayout = layout,
                                            .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                            .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                            .clearValue = {.color = colour}};
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                            .renderArea = {.extent = extent},
                            .layerCount = 1,
                            .colorAttachmentCount = 1,
                            .pColorAttachments = &attachment};
    gpu->CmdBeginRendering(commands, &info);
}
