/* driver.c: a driver that does nothing, to see what calling one costs.
 *
 * Submitting moves the counters and no more, so that what is left is the caller's own time. With
 * driver_lag(1) a counter moves by one each time that it is read, up to what was signalled: work
 * that is always under way. One thread at a time may call. Images of swapchains come round in
 * turn, and every fence is signalled.
 */
#include <string.h>

#include "interface.h"

#define SEMAPHORES UINT64_C(4096) /* a power of two. A benchmark makes a handful; past it creation fails */

static struct {
    uint64_t value, signalled;
} counters[SEMAPHORES];
static uint64_t made;
static int lagging;

void driver_lag(int on)
{
    lagging = on;
    for (uint64_t i = 0; i < SEMAPHORES && !on; i++) /* all work is done at once */
        counters[i].value = counters[i].signalled;
}

static void raise_counter(VkSemaphore semaphore, uint64_t value)
{
    semaphore &= SEMAPHORES - 1; /* a caller's mistake must not write elsewhere */
    counters[semaphore].signalled = value;
    if (!lagging)
        counters[semaphore].value = value;
}

static VkResult QueueSubmit2(VkQueue queue, uint32_t n, const VkSubmitInfo2 *infos, VkFence fence)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < infos[i].signalSemaphoreInfoCount; s++)
            raise_counter(infos[i].pSignalSemaphoreInfos[s].semaphore, infos[i].pSignalSemaphoreInfos[s].value);
    return VK_SUCCESS;
}

static VkResult CreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info, const void *allocator,
                                VkSemaphore *out)
{
    if (made + 1 == SEMAPHORES)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *out = ++made;
    const VkSemaphoreTypeCreateInfo *type = info->pNext; /* NULL: a binary one, whose counter is never read */
    counters[made].value = counters[made].signalled = type ? type->initialValue : 0;
    return VK_SUCCESS;
}

static VkResult GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    if (lagging && counters[semaphore].value < counters[semaphore].signalled)
        counters[semaphore].value++;
    *value = counters[semaphore].value;
    return VK_SUCCESS;
}

static VkResult WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    return counters[info->pSemaphores[0]].value >= info->pValues[0] ? VK_SUCCESS : VK_TIMEOUT;
}

static VkResult SignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
    counters[info->semaphore].value = counters[info->semaphore].signalled = info->value;
    return VK_SUCCESS;
}

/* ---- presentation ---------------------------------------------------------------------------------------------- */

#define N_IMAGES 3u /* of every swapchain */

static uint64_t handles; /* the last that was given */
static uint32_t turn;

static VkResult GetSwapchainImagesKHR(VkDevice device, VkSwapchainKHR swapchain, uint32_t *n, VkImage *images)
{
    for (uint32_t i = 0; images && i < N_IMAGES; i++)
        images[i] = ++handles;
    *n = N_IMAGES;
    return VK_SUCCESS;
}

static VkResult AcquireNextImageKHR(VkDevice device, VkSwapchainKHR swapchain, uint64_t timeout, VkSemaphore semaphore,
                                    VkFence fence, uint32_t *index)
{
    *index = turn;
    turn = turn + 1 == N_IMAGES ? 0 : turn + 1;
    return VK_SUCCESS;
}

static VkResult GetPhysicalDeviceSurfaceCapabilitiesKHR(VkPhysicalDevice physical, VkSurfaceKHR surface,
                                                        VkSurfaceCapabilitiesKHR *out)
{
    *out = (VkSurfaceCapabilitiesKHR){.minImageCount = 1,
                                      .maxImageCount = N_IMAGES,
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
    *out = ++handles;
    return VK_SUCCESS;
}

static VkResult AllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    for (uint32_t i = 0; i < info->commandBufferCount; i++)
        out[i] = (VkCommandBuffer)(uintptr_t)++handles;
    return VK_SUCCESS;
}

/* For what destroys or records something, or says only that it went well; it looks at no argument. */
static VkResult nothing(void) { return VK_SUCCESS; }

/* clang-format off */
#define NAMED(name) {"vk" #name, name}
#define CREATED(name) {"vk" #name, create}
#define NOTHING(name) {"vk" #name, nothing}
static const struct {
    const char *name;
    void *function;
} functions[] = {
    NAMED(QueueSubmit2), NAMED(CreateSemaphore), NAMED(GetSemaphoreCounterValue), NAMED(WaitSemaphores),
    NAMED(SignalSemaphore), NAMED(GetSwapchainImagesKHR), NAMED(AcquireNextImageKHR),
    NAMED(GetPhysicalDeviceSurfaceCapabilitiesKHR), NAMED(AllocateCommandBuffers),
    CREATED(CreateFence), CREATED(CreateImage), CREATED(AllocateMemory), CREATED(CreateImageView),
    CREATED(CreateCommandPool), CREATED(CreateSwapchainKHR),
    NOTHING(QueuePresentKHR), NOTHING(DestroySemaphore), NOTHING(GetFenceStatus), NOTHING(WaitForFences),
    NOTHING(ResetFences), NOTHING(DestroySwapchainKHR), NOTHING(DestroyFence), NOTHING(DestroyImage),
    NOTHING(FreeMemory), NOTHING(BindImageMemory), NOTHING(DestroyImageView), NOTHING(DestroyCommandPool),
    NOTHING(FreeCommandBuffers), NOTHING(BeginCommandBuffer), NOTHING(EndCommandBuffer), NOTHING(CmdPipelineBarrier2),
    NOTHING(CmdClearColorImage), NOTHING(CmdBeginRendering), NOTHING(CmdEndRendering), NOTHING(DeviceWaitIdle),
    NOTHING(GetImageMemoryRequirements), NOTHING(CmdSetViewport), NOTHING(CmdSetScissor), NOTHING(CmdBindPipeline),
    NOTHING(CmdBindVertexBuffers), NOTHING(CmdDraw),
};
/* clang-format on */

/* PFN_vkGetDeviceProcAddr of the driver. */
PFN_vkVoidFunction driver_get_proc_addr(VkDevice device, const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(name, functions[i].name))
            return (PFN_vkVoidFunction)functions[i].function;
    return NULL;
}

/* A new one, as a caller in C would make it. */
VkSemaphore driver_semaphore(void)
{
    VkSemaphore semaphore = 0;
    VkSemaphoreTypeCreateInfo type = {.initialValue = 0};
    CreateSemaphore(NULL, &(VkSemaphoreCreateInfo){.pNext = &type}, NULL, &semaphore);
    return semaphore;
}
