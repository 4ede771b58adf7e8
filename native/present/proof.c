/* proof.c: waits for the events that prove presents complete. Caller holds swapchain->lock. */
#include <unistd.h>

#include "swapchain_state.h"

#define SLICE_NS UINT64_C(20000000)

vks_status vks_proof_wait_fence(vks_swapchain *s, uint64_t fence, uint64_t deadline)
{
    VkFence handle = (VkFence)(uintptr_t)fence;
    VkResult code = s->vk.WaitForFences(s->vk_device, 1, &handle, VK_TRUE, vks_slice(deadline, SLICE_NS));
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_mark_lost(s->device);
    return code == VK_TIMEOUT ? VKS_TIMEOUT : vks_driver_result(s, code, "vkWaitForFences");
}

/* Acquires an image of the current generation, which is about to be replaced, with a fence in place
 * of a semaphore. s->proof_fence is 0 after it if the driver has no image now. */
static vks_status begin_proof(vks_swapchain *s, uint64_t deadline)
{
    uint64_t fence;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_take_fence(s, &fence);
    pthread_mutex_unlock(&s->device->lock);
    if (status)
        return status;
    VkResult code = s->vk.AcquireNextImageKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)s->current->handle,
                                              vks_slice(deadline, SLICE_NS), VK_NULL_HANDLE, (VkFence)(uintptr_t)fence,
                                              &s->proof_image);
    if (code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR) {
        s->proof_fence = fence;
        return VKS_OK;
    }
    pthread_mutex_lock(&s->device->lock);
    vks_put_fence(s, fence); /* the driver did not use it */
    pthread_mutex_unlock(&s->device->lock);
    if (code == VK_TIMEOUT || code == VK_NOT_READY)
        usleep(VKS_POLL_INTERVAL_US); /* some drivers return at once */
    else if (code == VK_ERROR_OUT_OF_DATE_KHR)
        s->current->is_out_of_date = true;
    else
        return vks_driver_result(s, code, "vkAcquireNextImageKHR");
    return VKS_OK;
}

/* When the fence is signalled, the presentation engine no longer uses the image's previous present.
 * The image becomes VKS_IMAGE_RETURNED: if the replacement fails, it is the next frame. Before that
 * it cannot be a frame, because nothing would order the drawing behind the engine's use. VKS_OK:
 * check again. */
static vks_status end_proof(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = vks_proof_wait_fence(s, s->proof_fence, deadline);
    if (status)
        return status == VKS_TIMEOUT ? VKS_OK : status;
    pthread_mutex_lock(&s->device->lock);
    vks_image_receive(s, &s->current->images[s->proof_image], 0);
    vks_reset_fence(s, s->proof_fence);
    s->proof_fence = 0;
    status = vks_tracker_waited(s->tracker, s->proof_image, 0);
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

static vks_status acquire_for_proof(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = s->proof_fence ? VKS_OK : begin_proof(s, deadline);
    return status || !s->proof_fence ? status : end_proof(s, deadline);
}

void vks_proof_poll(vks_swapchain *s)
{
    if (s->proof_fence)
        end_proof(s, 0);
}

void vks_proof_give_up(vks_swapchain *s)
{
    if (!s->proof_fence)
        return;
    bool is_signalled = !vks_proof_wait_fence(s, s->proof_fence, 0);
    pthread_mutex_lock(&s->device->lock);
    (is_signalled ? vks_reset_fence : vks_discard_fence)(s, s->proof_fence);
    pthread_mutex_unlock(&s->device->lock);
    s->proof_fence = 0;
}

/* Proves with images that were acquired again already: if nothing has waited for that acquire, a
 * batch does. *any: there was one, and the wait target may have changed. */
static vks_status prove_by_acquired(vks_swapchain *s, uint64_t deadline, bool *any)
{
    vks_generation *generation = s->current;
    *any = false;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_device_begin_present(s->device, deadline); /* get the queue */
    bool has_queue = !status;
    for (uint32_t i = 0; !status && i < generation->n; i++) {
        vks_present_image *image = &generation->images[i];
        if (image->state == VKS_IMAGE_NOT_ACQUIRED || !image->frame.acquired)
            continue;
        *any = true;
        if (!(status = vks_submit_frame(s, image, 0)))
            status = vks_tracker_waited(s->tracker, i, image->frame.waited);
    }
    if (has_queue)
        vks_device_end_present(s->device);
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

static vks_status wait_for_image(vks_swapchain *s, uint64_t deadline)
{
    bool any = false;
    vks_status status = s->n_returned || s->counts.acquired ? prove_by_acquired(s, deadline, &any) : VKS_OK;
    return status || any ? status : acquire_for_proof(s, deadline);
}

vks_status vks_proof_wait(vks_swapchain *s, vks_wanted wanted, uint64_t deadline)
{
    vks_status status;
    switch (wanted.kind) {
    case VKS_WANTS_SERIAL:
        status = vks_device_wait_serial(s->device, wanted.value, deadline);
        return status == VKS_INTERRUPTED ? VKS_OK : status;
    case VKS_WANTS_FENCE:
        status = vks_proof_wait_fence(s, wanted.value, deadline);
        return status == VKS_TIMEOUT ? VKS_OK : status;
    case VKS_WANTS_IMAGE:
        return s->current ? wait_for_image(s, deadline) : VKS_TIMEOUT;
    default:
        return VKS_TIMEOUT;
    }
}

vks_tracker_statistics vks_proof_counts(vks_swapchain *s)
{
    vks_tracker_statistics now;
    pthread_mutex_lock(&s->device->lock);
    vks_tracker_get_statistics(s->tracker, &now);
    pthread_mutex_unlock(&s->device->lock);
    return now;
}

vks_wanted vks_proof_next(vks_swapchain *s, bool everything)
{
    pthread_mutex_lock(&s->device->lock);
    vks_wanted wanted = vks_tracker_wanted(s->tracker);
    if (everything && (wanted.kind == VKS_WANTS_NOTHING || wanted.kind == VKS_WANTS_PRESENT))
        wanted = vks_tracker_unproven(s->tracker);
    pthread_mutex_unlock(&s->device->lock);
    return wanted;
}
