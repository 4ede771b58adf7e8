/* resize.c: how a program in C usually follows a resize: it waits until the device is idle, destroys the swapchain,
 * makes a new one with views and commands for its images, and draws the first frame. And the same program keeping the
 * old ones for a while, as code without present fences must: measures the cost of their memory.
 */
#include "clock.h"
#include "swapchain.h"

#define ATTEMPTS 100 /* while a window goes on changing */
#define MOST_KEPT 8u

typedef struct kept {
    VkSwapchainKHR swapchain;
    VkImageView views[IMAGES];
} kept;

static VkResult resize(chain *chain, uint32_t width, uint32_t height)
{
    VkResult result = VK_SUCCESS;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        TRY(chain->gpu->DeviceWaitIdle(chain->gpu->device));
        chain_tear_down(chain);
        TRY(chain_build(chain, width, height));
        result = chain_frame(chain);
        if (result != VK_ERROR_OUT_OF_DATE_KHR)
            break;
    }
    return result;
}

static void put_by(const chain *chain, kept *out)
{
    *out = (kept){.swapchain = chain->swapchain};
    for (uint32_t i = 0; i < chain->n_images; i++)
        out->views[i] = chain->images[i].view;
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

static VkResult resize_keeping(chain *chain, const uint32_t *size, kept *old, uint32_t *n_old, uint32_t most)
{
    chain->gpu->DeviceWaitIdle(chain->gpu->device);
    if (*n_old >= most || *n_old == MOST_KEPT) {
        destroy_all(chain->gpu, old, *n_old);
        *n_old = 0;
    }
    put_by(chain, &old[(*n_old)++]);
    TRY(chain_build(chain, size[0], size[1]));
    return chain_frame(chain);
}

/* n resizes and first frames; `sizes` holds n_sizes pairs of width and height, taken in turn. With `most`, not on a
 * ring: the old ones are destroyed when there are so many of them, all at once. Seconds, or the VkResult of a failed
 * call. */
double time_resizes(chain *chain, const uint32_t *sizes, uint32_t n_sizes, long n, uint32_t most)
{
    kept old[MOST_KEPT];
    uint32_t n_old = 0;
    VkResult result = VK_SUCCESS;
    double start = seconds();
    for (long i = 0; i < n && result >= 0; i++) {
        const uint32_t *size = sizes + (uint64_t)i % n_sizes * 2;
        result = most ? resize_keeping(chain, size, old, &n_old, most) : resize(chain, size[0], size[1]);
    }
    if (most)
        chain->gpu->DeviceWaitIdle(chain->gpu->device);
    if (n_old && old[n_old - 1].swapchain == chain->swapchain)
        n_old--; /* none came in its place */
    destroy_all(chain->gpu, old, n_old);
    return result < 0 ? result : seconds() - start;
}
