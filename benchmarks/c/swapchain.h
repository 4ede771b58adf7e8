/* swapchain.h: a device and a swapchain as a program in C has them, for gpu.c, chain.c, swapchain.c and resize.c.
 *
 * For one thread. Functions that can fail return a VkResult; negative values are failures.
 */
#ifndef SWAPCHAIN_H
#define SWAPCHAIN_H

#include "vulkan.h"

#define IMAGES 16u                     /* of a swapchain, at most */
#define FLIGHTS 4u                     /* frames in flight, at most */
#define PATIENCE UINT64_C(10000000000) /* nanoseconds: no wait is for ever */

#define TIMED_OUT (-2147483647) /* no VkResult */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        VkResult tried = (call);                                                                                       \
        if (tried < 0)                                                                                                 \
            return tried;                                                                                              \
    } while (0)

/* clang-format off */
#define INSTANCE_FUNCTIONS(X)                                                                                          \
    X(CreateHeadlessSurfaceEXT) X(DestroySurfaceKHR) X(GetPhysicalDeviceSurfaceSupportKHR)                             \
    X(GetPhysicalDeviceSurfaceCapabilitiesKHR)

#define DEVICE_FUNCTIONS(X)                                                                                            \
    X(DeviceWaitIdle) X(CreateSwapchainKHR) X(DestroySwapchainKHR) X(GetSwapchainImagesKHR) X(AcquireNextImageKHR)     \
    X(QueuePresentKHR) X(QueueSubmit2) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(AllocateMemory)  \
    X(FreeMemory) X(BindImageMemory) X(CreateImageView) X(DestroyImageView) X(CreateSemaphore) X(DestroySemaphore)     \
    X(CreateFence) X(DestroyFence) X(WaitForFences) X(ResetFences) X(CreateCommandPool) X(DestroyCommandPool)          \
    X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier2) X(CmdBeginRendering)    \
    X(CmdEndRendering) X(CmdClearColorImage)
/* clang-format on */

/* A device with one queue; the caller's. */
typedef struct gpu {
    VkInstance instance; /* NULL: there are no surfaces */
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
#define DECLARE(name) PFN_vk##name name;
    INSTANCE_FUNCTIONS(DECLARE)
    DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
} gpu;

typedef enum chain_kind {
    WINDOW,   /* a surface of the caller's */
    HEADLESS, /* a surface of VK_EXT_headless_surface, made here */
    RING      /* no swapchain: images in turn, and nothing is presented */
} chain_kind;

/* A swapchain and what its frames need. */
typedef struct chain {
    gpu *gpu;
    chain_kind kind;
    VkSurfaceKHR surface;
    uint32_t wanted_images;
    uint32_t format; /* VkFormat */
    int has_present_fences;
    int clears_by_rendering; /* with a load operation, else with vkCmdClearColorImage: drivers differ by far */
    VkExtent2D extent;
    VkSwapchainKHR swapchain;
    VkCommandPool pool;
    uint32_t n_images, n_flights;
    struct {
        VkImage image;
        VkDeviceMemory memory; /* of a ring */
        VkImageView view;
        VkCommandBuffer commands; /* they clear it; made once, recorded for each new image */
        VkSemaphore rendered; /* the present waits for it. Its own for each image: the next acquire of the image says
                                 that the wait is over */
        VkFence presented;    /* VK_EXT_swapchain_maintenance1: so does this */
    } images[IMAGES];
    struct {
        VkSemaphore acquired;
        VkFence done;
    } flights[FLIGHTS];
    uint32_t flight; /* the next frame's */
    uint32_t turn;   /* a ring's next image */
} chain;

/* The swapchain of that size (a window's own size, where it has one), its images, views and commands. */
VkResult chain_build(chain *chain, uint32_t width, uint32_t height);
/* Nothing runs on them any more. */
void chain_tear_down(chain *chain);
/* Where the images are written: what waits for the acquire. */
uint64_t chain_stage(const chain *chain);
/* Acquires, submits, presents. */
VkResult chain_frame(chain *chain);

#endif
