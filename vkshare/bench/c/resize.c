/* resize.c: how a program in C usually follows a resize: it waits until the device is idle, destroys the swapchain,
 * makes a new one with views and commands for its images, and draws the first frame.
 */
#include "clock.h"
#include "swapchain.h"

#define ATTEMPTS 100 /* while a window goes on changing */

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

/* n resizes and first frames; `sizes` holds n_sizes pairs of width and height, taken in turn. Seconds, or the VkResult
 * of a failed call. */
double time_resizes(chain *chain, const uint32_t *sizes, uint32_t n_sizes, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++) {
        const uint32_t *size = sizes + (uint64_t)i % n_sizes * 2;
        VkResult result = resize(chain, size[0], size[1]);
        if (result < 0)
            return result;
    }
    return seconds() - start;
}
