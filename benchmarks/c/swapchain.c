/* swapchain.c: a swapchain as a program in C has it: a command buffer for each image that clears
 * it, recorded once, the loop that acquires, submits and presents, and the way to follow a resize.
 * For one thread.
 *
 * Frames in flight are bounded by a fence each. An acquire's semaphore belongs to the frame in
 * flight, a present's to the image (a frame's fence says nothing about its present); with
 * VK_EXT_swapchain_maintenance1 the present has a fence, which is waited for before its
 * semaphore is used again.
 */
#include <stdbool.h>

#include "clock.h"
#include "interface.h"

/* ---- images and commands --------------------------------------------------------------------------------------- */

static VkResult build_swapchain(chain *chain, VkExtent2D size)
{
    gpu *gpu = chain->gpu;
    VkSurfaceCapabilitiesKHR able;
    TRY(gpu->GetPhysicalDeviceSurfaceCapabilitiesKHR(gpu->physical, chain->surface, &able));
    bool is_free = chain->kind == HEADLESS || able.currentExtent.width == UINT32_MAX; /* SwiftShader's is never free */
    chain->extent = is_free ? size : able.currentExtent;
    VkSwapchainCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
                                     .surface = chain->surface,
                                     .minImageCount = chain->wanted_images,
                                     .imageFormat = chain->format,
                                     .imageExtent = chain->extent,
                                     .imageArrayLayers = 1,
                                     .imageUsage =
                                         VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                                     .preTransform = able.currentTransform,
                                     .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                     .presentMode = VK_PRESENT_MODE_FIFO_KHR,
                                     .clipped = 1,
                                     .oldSwapchain = chain->swapchain};
    TRY(gpu->CreateSwapchainKHR(gpu->device, &info, NULL, &chain->swapchain));
    VkImage images[IMAGES];
    chain->n_images = IMAGES;
    TRY(gpu->GetSwapchainImagesKHR(gpu->device, chain->swapchain, &chain->n_images, images));
    for (uint32_t i = 0; i < chain->n_images; i++)
        chain->images[i].image = images[i];
    return VK_SUCCESS;
}

static VkResult build_ring(chain *chain, VkExtent2D size)
{
    gpu *gpu = chain->gpu;
    chain->extent = size;
    chain->n_images = chain->wanted_images;
    for (chain_image *each = chain->images; each < chain->images + chain->n_images; each++) {
        VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                  .imageType = VK_IMAGE_TYPE_2D,
                                  .format = chain->format,
                                  .extent = {size.width, size.height, 1},
                                  .mipLevels = 1,
                                  .arrayLayers = 1,
                                  .samples = VK_SAMPLE_COUNT_1_BIT,
                                  .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT};
        TRY(gpu->CreateImage(gpu->device, &info, NULL, &each->image));
        VkMemoryRequirements needs;
        gpu->GetImageMemoryRequirements(gpu->device, each->image, &needs);
        uint32_t type = 0; /* the first that is allowed: drivers put the fastest first */
        while (!(needs.memoryTypeBits >> type & 1u))
            type++;
        VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, needs.size, type};
        TRY(gpu->AllocateMemory(gpu->device, &memory, NULL, &each->memory));
        TRY(gpu->BindImageMemory(gpu->device, each->image, each->memory, 0));
    }
    return VK_SUCCESS;
}

static const VkImageSubresourceRange WHOLE = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

static VkResult make_view(chain *chain, chain_image *image)
{
    VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = image->image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = chain->format,
                                  .subresourceRange = WHOLE};
    return chain->gpu->CreateImageView(chain->gpu->device, &info, NULL, &image->view);
}

/* Where the image is written, how, and in which layout. The acquire is waited for there. */
static VkImageMemoryBarrier2 writing(const chain *chain)
{
    if (chain->clears_by_rendering)
        return (VkImageMemoryBarrier2){.srcStageMask = VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT,
                                       .srcAccessMask = VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT,
                                       .oldLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    return (VkImageMemoryBarrier2){.srcStageMask = VK_PIPELINE_STAGE_2_CLEAR_BIT,
                                   .srcAccessMask = VK_ACCESS_2_TRANSFER_WRITE_BIT,
                                   .oldLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL};
}

static void barrier(gpu *gpu, chain_image *image, VkImageMemoryBarrier2 how)
{
    how.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2;
    how.srcQueueFamilyIndex = how.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    how.image = image->image;
    how.subresourceRange = WHOLE;
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &how};
    gpu->CmdPipelineBarrier2(image->commands, &info);
}

static VkResult record(chain *chain, chain_image *image)
{
    gpu *gpu = chain->gpu;
    VkImageMemoryBarrier2 written = writing(chain);
    written.newLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR;
    VkClearColorValue red = {.float32 = {1, 0, 0, 1}};
    TRY(begin(gpu, image->commands));
    barrier(gpu, image,
            (VkImageMemoryBarrier2){.srcStageMask = written.srcStageMask,
                                    .dstStageMask = written.srcStageMask,
                                    .dstAccessMask = written.srcAccessMask,
                                    .newLayout = written.oldLayout});
    if (chain->clears_by_rendering) {
        begin_cleared(gpu, image->commands, image->view, written.oldLayout, chain->extent, red);
        gpu->CmdEndRendering(image->commands);
    } else
        gpu->CmdClearColorImage(image->commands, image->image, written.oldLayout, &red, 1, &WHOLE);
    if (chain->kind != RING)
        barrier(gpu, image, written);
    return gpu->EndCommandBuffer(image->commands);
}

static VkResult build(chain *chain, VkExtent2D size)
{
    TRY(chain->kind == RING ? build_ring(chain, size) : build_swapchain(chain, size));
    for (chain_image *each = chain->images; each < chain->images + chain->n_images; each++) {
        TRY(make_view(chain, each));
        TRY(record(chain, each));
    }
    return VK_SUCCESS;
}

/* Nothing runs on them any more. */
static void tear_down(chain *chain)
{
    gpu *gpu = chain->gpu;
    for (chain_image *each = chain->images; each < chain->images + chain->n_images; each++) {
        gpu->DestroyImageView(gpu->device, each->view, NULL);
        if (chain->kind == RING) {
            gpu->DestroyImage(gpu->device, each->image, NULL);
            gpu->FreeMemory(gpu->device, each->memory, NULL);
        }
        each->view = each->image = each->memory = 0;
    }
    if (chain->swapchain)
        gpu->DestroySwapchainKHR(gpu->device, chain->swapchain, NULL);
    chain->swapchain = 0;
    chain->n_images = 0;
}

/* Until nothing runs: what one turn leaves must not be paid for by the next. */
int chain_wait(chain *chain) { return chain->gpu->DeviceWaitIdle(chain->gpu->device); }

/* Records the commands anew, with the other way to clear. */
int chain_clear_by_rendering(chain *chain, int by_rendering)
{
    TRY(chain_wait(chain));
    chain->clears_by_rendering = by_rendering;
    for (uint32_t i = 0; i < chain->n_images; i++)
        TRY(record(chain, &chain->images[i]));
    return VK_SUCCESS;
}

/* ---- a swapchain ----------------------------------------------------------------------------------------------- */

static VkResult make_pair(gpu *gpu, VkSemaphore *semaphore, VkFence *fence)
{
    VkSemaphoreCreateInfo plain = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkFenceCreateInfo signalled = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, VK_FENCE_CREATE_SIGNALED_BIT};
    TRY(gpu->CreateSemaphore(gpu->device, &plain, NULL, semaphore));
    return gpu->CreateFence(gpu->device, &signalled, NULL, fence);
}

static void free_pair(gpu *gpu, VkSemaphore semaphore, VkFence fence)
{
    gpu->DestroySemaphore(gpu->device, semaphore, NULL);
    gpu->DestroyFence(gpu->device, fence, NULL);
}

/* Makes everything. After a failure too, close frees what was made. */
int chain_open(chain *chain)
{
    gpu *gpu = chain->gpu;
    if (chain->kind != RING && !gpu->CreateSwapchainKHR)
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL,
                                    VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, gpu->family};
    TRY(gpu->CreateCommandPool(gpu->device, &pool, NULL, &chain->pool));
    VkCommandBufferAllocateInfo one = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, chain->pool, 0, 1};
    for (chain_image *each = chain->images; each < chain->images + IMAGES; each++) {
        TRY(gpu->AllocateCommandBuffers(gpu->device, &one, &each->commands));
        TRY(make_pair(gpu, &each->rendered, &each->presented));
    }
    for (uint32_t f = 0; f < chain->n_flights; f++)
        TRY(make_pair(gpu, &chain->flights[f].acquired, &chain->flights[f].done));
    return build(chain, chain->extent);
}

/* Waits until nothing runs, and frees what was made. */
void chain_close(chain *chain)
{
    gpu *gpu = chain->gpu;
    gpu->DeviceWaitIdle(gpu->device);
    tear_down(chain);
    for (uint32_t i = 0; i < IMAGES; i++)
        free_pair(gpu, chain->images[i].rendered, chain->images[i].presented);
    for (uint32_t f = 0; f < FLIGHTS; f++)
        free_pair(gpu, chain->flights[f].acquired, chain->flights[f].done);
    gpu->DestroyCommandPool(gpu->device, chain->pool, NULL);
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static VkResult submit(chain *chain, uint32_t image)
{
    gpu *gpu = chain->gpu;
    chain_flight *flight = &chain->flights[chain->flight];
    VkSemaphoreSubmitInfo wait = semaphore_info(flight->acquired, 0, writing(chain).srcStageMask);
    VkSemaphoreSubmitInfo signal =
        semaphore_info(chain->images[image].rendered, 0, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
    uint32_t n_semaphores = chain->kind != RING;
    return submit_one(gpu->QueueSubmit2, gpu->queue, chain->images[image].commands, n_semaphores, &wait, n_semaphores,
                      &signal, flight->done);
}

static VkResult present(chain *chain, uint32_t image)
{
    VkSwapchainPresentFenceInfoEXT fence = {VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT, NULL, 1,
                                            &chain->images[image].presented};
    VkPresentInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                             .pNext = chain->has_present_fences ? &fence : NULL,
                             .waitSemaphoreCount = 1,
                             .pWaitSemaphores = &chain->images[image].rendered,
                             .swapchainCount = 1,
                             .pSwapchains = &chain->swapchain,
                             .pImageIndices = &image};
    return chain->gpu->QueuePresentKHR(chain->gpu->queue, &info);
}

static VkResult wait(gpu *gpu, VkFence fence)
{
    VkResult result = gpu->WaitForFences(gpu->device, 1, &fence, 1, PATIENCE);
    return result == VK_TIMEOUT ? (VkResult)TIMED_OUT : result;
}

static VkResult acquire(chain *chain, uint32_t *image)
{
    gpu *gpu = chain->gpu;
    if (chain->kind == RING) {
        *image = chain->turn;
        chain->turn = (chain->turn + 1) % chain->n_images;
        return VK_SUCCESS;
    }
    VkResult result = gpu->AcquireNextImageKHR(gpu->device, chain->swapchain, PATIENCE,
                                               chain->flights[chain->flight].acquired, 0, image);
    if (result == VK_TIMEOUT || result == VK_NOT_READY)
        return (VkResult)TIMED_OUT;
    TRY(result);
    if (!chain->has_present_fences)
        return VK_SUCCESS;
    TRY(wait(gpu, chain->images[*image].presented));
    return gpu->ResetFences(gpu->device, 1, &chain->images[*image].presented);
}

static VkResult frame(chain *chain)
{
    gpu *gpu = chain->gpu;
    VkFence done = chain->flights[chain->flight].done;
    uint32_t image;
    TRY(wait(gpu, done));
    TRY(acquire(chain, &image));
    TRY(gpu->ResetFences(gpu->device, 1, &done)); /* only now: nothing would signal it if there was no image */
    TRY(submit(chain, image));
    chain->flight = (chain->flight + 1) % chain->n_flights;
    return chain->kind == RING ? VK_SUCCESS : present(chain, image);
}

/* Acquires, clears and presents n times. */
double time_frames(chain *chain, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++)
        TRY(frame(chain));
    return seconds() - start;
}

/* ---- resizes: a program in C usually waits until the device is idle, destroys the swapchain, makes a new one with
 * views and commands for its images, and draws the first frame. The same program may keep the old ones for a while, as
 * code without present fences must: that measures the cost of their memory. */

#define ATTEMPTS 100 /* while a window goes on changing */
#define MOST_KEPT 8u

typedef struct kept {
    VkSwapchainKHR swapchain;
    VkImageView views[IMAGES];
} kept;

static VkResult resize(chain *chain, VkExtent2D size)
{
    VkResult result = VK_SUCCESS;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        TRY(chain_wait(chain));
        tear_down(chain);
        TRY(build(chain, size));
        result = frame(chain);
        if (result != VK_ERROR_OUT_OF_DATE_KHR)
            break;
    }
    return result;
}

/* Nothing runs on them any more. */
static void destroy_all(gpu *gpu, const kept *old, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < IMAGES; i++)
            gpu->DestroyImageView(gpu->device, old[k].views[i], NULL);
        gpu->DestroySwapchainKHR(gpu->device, old[k].swapchain, NULL);
    }
}

static VkResult resize_keeping(chain *chain, VkExtent2D size, kept *old, uint32_t *n_old, uint32_t most)
{
    chain_wait(chain);
    if (*n_old >= most || *n_old == MOST_KEPT) {
        destroy_all(chain->gpu, old, *n_old);
        *n_old = 0;
    }
    kept *last = &old[(*n_old)++];
    *last = (kept){.swapchain = chain->swapchain};
    for (uint32_t i = 0; i < chain->n_images; i++)
        last->views[i] = chain->images[i].view;
    TRY(build(chain, size));
    return frame(chain);
}

/* n resizes and first frames; the sizes are taken in turn. With `most`, not on a ring: the old
 * ones are destroyed when there are so many of them, all at once. */
double time_resizes(chain *chain, const VkExtent2D *sizes, uint32_t n_sizes, long n, uint32_t most)
{
    kept old[MOST_KEPT];
    uint32_t n_old = 0;
    VkResult result = VK_SUCCESS;
    double start = seconds();
    for (long i = 0; i < n && result >= 0; i++) {
        VkExtent2D size = sizes[(uint64_t)i % n_sizes];
        result = most ? resize_keeping(chain, size, old, &n_old, most) : resize(chain, size);
    }
    if (most)
        chain_wait(chain);
    if (n_old && old[n_old - 1].swapchain == chain->swapchain)
        n_old--; /* none came in its place */
    destroy_all(chain->gpu, old, n_old);
    return result < 0 ? result : seconds() - start;
}
