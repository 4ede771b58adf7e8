/* swapchain.c: the loop of a program in C that acquires an image, clears it and presents it.
 *
 * Frames in flight are bounded by a fence each. An acquire's semaphore belongs to the frame in flight, a present's to
 * the image (a frame's fence says nothing about its present); with VK_EXT_swapchain_maintenance1 the present has a
 * fence, which is waited for before its semaphore is used again.
 */
#include "clock.h"
#include "swapchain.h"

static VkResult submit(chain *chain, uint32_t image)
{
    gpu *gpu = chain->gpu;
    VkSemaphoreSubmitInfo wait = semaphore_info(chain->flights[chain->flight].acquired, 0, chain_stage(chain));
    VkSemaphoreSubmitInfo signal =
        semaphore_info(chain->images[image].rendered, 0, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
    uint32_t n_semaphores = chain->kind != RING;
    return submit_one(gpu->QueueSubmit2, gpu->queue, chain->images[image].commands, n_semaphores, &wait, n_semaphores,
                      &signal, chain->flights[chain->flight].done);
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
    return result == VK_TIMEOUT ? TIMED_OUT : result;
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
        return TIMED_OUT;
    TRY(result);
    if (!chain->has_present_fences)
        return VK_SUCCESS;
    TRY(wait(gpu, chain->images[*image].presented));
    return gpu->ResetFences(gpu->device, 1, &chain->images[*image].presented);
}

VkResult chain_frame(chain *chain)
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

/* n frames. Seconds, or the VkResult of a failed call. */
double time_frames(chain *chain, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++) {
        VkResult result = chain_frame(chain);
        if (result < 0)
            return result;
    }
    return seconds() - start;
}

/* ---- for a caller that drives the swapchain from another language -------------------------------------------------
 */

typedef struct chain_handles {
    uint64_t device, queue, swapchain;
    uint32_t n_images, n_flights, width, height;
    uint64_t commands[IMAGES], rendered[IMAGES], presented[IMAGES];
    uint64_t acquired[FLIGHTS], done[FLIGHTS];
} chain_handles;

void chain_tell(const chain *chain, chain_handles *out)
{
    *out = (chain_handles){
        .device = (uint64_t)(uintptr_t)chain->gpu->device,
        .queue = (uint64_t)(uintptr_t)chain->gpu->queue,
        .swapchain = chain->swapchain,
        .n_images = chain->n_images,
        .n_flights = chain->n_flights,
        .width = chain->extent.width,
        .height = chain->extent.height,
    };
    for (uint32_t i = 0; i < chain->n_images; i++) {
        out->commands[i] = (uint64_t)(uintptr_t)chain->images[i].commands;
        out->rendered[i] = chain->images[i].rendered;
        out->presented[i] = chain->images[i].presented;
    }
    for (uint32_t f = 0; f < chain->n_flights; f++) {
        out->acquired[f] = chain->flights[f].acquired;
        out->done[f] = chain->flights[f].done;
    }
}
