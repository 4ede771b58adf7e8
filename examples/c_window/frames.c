/* A C program that draws the frames of a window at a display's ticks, on a VkDevice of the library's and with command
 * buffers and submissions of its own.
 *
 *     ./frames 60      sixty frames
 *
 * docs/c-api.md shows how to build it.
 *
 * The window is a headless VkSurfaceKHR, so that it runs without a display server: a program with a window makes its
 * VkSurfaceKHR by vkCreateXcbSurfaceKHR or glfwCreateWindowSurface() on the same instance, and nothing else differs. */
#define VK_NO_PROTOTYPES
#include <stdio.h>
#include <stdlib.h>

#include "vkshare_present.h"
#include "vkshare_vulkan.h"

#define SECOND UINT64_C(1000000000)

static void check(vks_status status, const char *what)
{
    if (status != VKS_OK) {
        fprintf(stderr, "%s: status %d, %s\n", what, (int)status, vks_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

static void vk(VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        fprintf(stderr, "%s: VkResult %d\n", what, result);
        exit(EXIT_FAILURE);
    }
}

/* Calls again while signals or other threads interrupt the call. */
#define PATIENTLY(status, call)                                                                                        \
    do                                                                                                                 \
        status = (call);                                                                                               \
    while (status == VKS_INTERRUPTED)

/* ---- the engine's part ---- */

static vks_vulkan_device gpu;
static VkCommandPool pool;
static VkCommandBuffer buffers[VKS_SWAPCHAIN_IMAGES]; /* one an image: it is free when its image is acquired again */

#define LOAD(name) ((PFN_##name)gpu.get_instance_proc_addr(gpu.instance, #name))

static VkSurfaceKHR create_window(void)
{
    PFN_vkCreateHeadlessSurfaceEXT create = LOAD(vkCreateHeadlessSurfaceEXT);
    VkHeadlessSurfaceCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_HEADLESS_SURFACE_CREATE_INFO_EXT};
    VkSurfaceKHR window = VK_NULL_HANDLE;
    if (!create) {
        fprintf(stderr, "this driver has no VK_EXT_headless_surface\n");
        exit(77);
    }
    vk(create(gpu.instance, &info, NULL, &window), "vkCreateHeadlessSurfaceEXT");
    return window;
}

static void create_buffers(void)
{
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = gpu.queue_family};
    vk(LOAD(vkCreateCommandPool)(gpu.device, &info, NULL, &pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = VKS_SWAPCHAIN_IMAGES};
    vk(LOAD(vkAllocateCommandBuffers)(gpu.device, &allocation, buffers), "vkAllocateCommandBuffers");
}

static void transition(VkCommandBuffer commands, VkImage image, VkImageLayout from, VkImageLayout to)
{
    VkImageMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                     .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                     .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                     .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                     .dstAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                                     .oldLayout = from,
                                     .newLayout = to,
                                     .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                     .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                     .image = image,
                                     .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    VkDependencyInfo dependency = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &barrier};
    LOAD(vkCmdPipelineBarrier2)(commands, &dependency);
}

/* Clears the image to a colour, by a submission of the engine's own. */
static void draw(VkImage image, uint32_t index, float red, uint64_t acquired, uint64_t rendered)
{
    VkCommandBuffer commands = buffers[index];
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkClearColorValue colour = {.float32 = {red, 0, 0, 1}};
    VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vk(LOAD(vkBeginCommandBuffer)(commands, &begin), "vkBeginCommandBuffer");
    transition(commands, image, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL);
    LOAD(vkCmdClearColorImage)(commands, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &colour, 1, &whole);
    transition(commands, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_IMAGE_LAYOUT_PRESENT_SRC_KHR);
    vk(LOAD(vkEndCommandBuffer)(commands), "vkEndCommandBuffer");
    VkSemaphoreSubmitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                  .semaphore = (VkSemaphore)(uintptr_t)acquired,
                                  .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    VkSemaphoreSubmitInfo signal = wait;
    signal.semaphore = (VkSemaphore)(uintptr_t)rendered;
    VkCommandBufferSubmitInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO,
                                        .commandBuffer = commands};
    VkSubmitInfo2 info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
                          .waitSemaphoreInfoCount = 1,
                          .pWaitSemaphoreInfos = &wait,
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &buffer,
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &signal};
    vk(LOAD(vkQueueSubmit2)(gpu.queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit2");
}

/* ---- frames ---- */

static void draw_frame(vks_swapchain *swapchain, float red)
{
    vks_frame frame;
    vks_frame_image image;
    vks_status status;
    uint64_t acquired, rendered, deadline = vks_now() + 10 * SECOND;
    PATIENTLY(status, vks_swapchain_acquire(swapchain, deadline, &frame));
    check(status, "acquire");
    PATIENTLY(status, vks_swapchain_image(swapchain, frame.index, frame.generation, &image));
    check(status, "image");
    PATIENTLY(status, vks_swapchain_take_semaphores(swapchain, &frame, &acquired, &rendered));
    check(status, "semaphores");
    draw((VkImage)(uintptr_t)image.image, frame.index, red, acquired, rendered);
    PATIENTLY(status, vks_swapchain_present(swapchain, &frame, deadline));
    check(status, "present");
}

static void draw_frames(vks_swapchain *swapchain, unsigned frames)
{
    vks_display *display;
    vks_dispatcher *dispatcher;
    vks_observer *observer;
    check(vks_display_create((vks_interval){SECOND, 60}, true, &display), "display"); /* 60 Hz by a timer */
    check(vks_dispatcher_create(display, &dispatcher), "dispatcher");
    check(vks_observer_create(dispatcher, NULL, &observer), "observer");
    check(vks_observer_attend(observer), "attend");
    for (unsigned i = 0; i < frames; i++) {
        vks_tick tick;
        uint64_t missed;
        vks_status status;
        PATIENTLY(status, vks_observer_wait(observer, vks_now() + 10 * SECOND, &tick, &missed));
        check(status, "tick");
        if (i == frames / 2) {
            check(vks_swapchain_resize(swapchain, 96, 64), "resize");
            check(vks_swapchain_set_mode(swapchain, VK_PRESENT_MODE_FIFO_KHR), "mode");
        }
        draw_frame(swapchain, (float)(i + 1) / (float)frames);
    }
    vks_observer_destroy(observer);
    vks_dispatcher_close(dispatcher);
    vks_dispatcher_unref(dispatcher);
    vks_display_shutdown(display);
    vks_display_unref(display);
}

int main(int count, char **words)
{
    unsigned frames = count > 1 ? (unsigned)strtoul(words[1], NULL, 0) : 60;
    vks_device *device;
    vks_swapchain *swapchain;
    vks_swapchain_statistics statistics;
    vks_open_info open = {.name = "frames"};
    check(vks_device_open_vulkan(&open, &device), "device");
    check(vks_device_get_vulkan(device, &gpu), "handles");
    VkSurfaceKHR window = create_window();
    vks_window_info info = {.surface = (uintptr_t)window,
                            .width = 64,
                            .height = 48,
                            .present_mode = VK_PRESENT_MODE_FIFO_KHR,
                            .sizes_itself = true};
    check(vks_swapchain_open(device, &info, &swapchain), "swapchain");
    create_buffers();

    draw_frames(swapchain, frames);
    vks_swapchain_get_statistics(swapchain, &statistics);
    printf("%u frames of %ux%u, %u images\n", (unsigned)statistics.frames, statistics.width, statistics.height,
           statistics.image_count);

    vks_swapchain_close(swapchain); /* waits for the presents */
    vks_swapchain_unref(swapchain);
    LOAD(vkDestroyCommandPool)(gpu.device, pool, NULL);
    LOAD(vkDestroySurfaceKHR)(gpu.instance, window, NULL);
    vks_device_shutdown(device);
    vks_device_unref(device);
    return EXIT_SUCCESS;
}
