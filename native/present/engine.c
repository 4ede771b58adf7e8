/* engine.c: the semaphores of a frame that a rendering engine draws by submissions of its own. */
#include <string.h>

#include "swapchain_state.h"

/* An engine may fail before its submission without a report. So it gets semaphores of its own that
 * no batch of the core waits for: a batch here waits for the acquire, and the present waits for a
 * batch behind the engine's (vks_close_frame). Caller has the queue. */
static vks_status give_to_engine(vks_swapchain *s, vks_present_image *image)
{
    uint64_t given[2] = {0};
    vks_status status = vks_device_check(s->device);
    for (int i = 0; i < 2 && !status; i++)
        status = vks_take_semaphore(s, &given[i]);
    if (!status)
        status = vks_submit_frame(s, image, given[0]);
    if (status) {
        vks_put_semaphore(s, given[0]);
        vks_put_semaphore(s, given[1]);
        return status;
    }
    vks_release_engine_semaphores(s, image, s->device->submitted); /* semaphores of a dropped frame */
    memcpy(image->engine, given, sizeof given);
    image->by_engine = true;
    return VKS_OK;
}

vks_status vks_swapchain_take_semaphores(vks_swapchain *swapchain, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered)
{
    VKS_NEEDS(swapchain, frame, acquired, rendered);
    vks_present_image *image = NULL;
    *acquired = *rendered = 0;
    if (!swapchain->info.vulkan)
        return vks_fail(VKS_UNSUPPORTED, 0, "an offscreen swapchain has no semaphores to wait for");
    vks_status status = vks_swapchain_enter(swapchain, VKS_FOREVER);
    if (status)
        return status;
    pthread_mutex_lock(&swapchain->device->lock);
    status = vks_image_find(swapchain, frame, &image);
    if (!status && !image->by_engine && image->frame.n_rendered > image->n_read)
        status = vks_fail(VKS_BAD_CALL, 0, "device.submit() has drawn into the frame: take its semaphores before that");
    if (!status && !image->by_engine && !(status = vks_device_begin_present(swapchain->device, VKS_FOREVER))) {
        status = give_to_engine(swapchain, image);
        vks_device_end_present(swapchain->device);
    }
    if (!status) {
        *acquired = image->engine[0];
        *rendered = image->engine[1];
    }
    pthread_mutex_unlock(&swapchain->device->lock);
    return vks_swapchain_leave(swapchain, status);
}
