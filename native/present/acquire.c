/* acquire.c: the next frame: an image that was returned, or the driver's next one. */
#include "swapchain_state.h"

/* A thread that waits for an image releases the lock now and then, so that other threads can
 * present. */
#define SLICE_NS UINT64_C(4000000)

/* Returns whether a headless target keeps the shown image for capture(). It does unless there is no
 * other image to draw. */
static bool must_keep_shown(const vks_swapchain *s, uint32_t index)
{
    const vks_generation *generation = s->current;
    return s->info.vulkan && s->vulkan.sizes_itself && index == generation->shown &&
           s->counts.acquired + 1 < generation->n;
}

static bool take_returned(vks_swapchain *s, vks_frame *out)
{
    vks_proof_poll(s);
    if (!s->n_returned)
        return false;
    for (uint32_t i = 0; i < s->current->n; i++)
        if (s->current->images[i].state == VKS_IMAGE_RETURNED && !must_keep_shown(s, i)) {
            vks_image_take(s, i, VKS_IMAGE_ACQUIRED, out);
            return true;
        }
    return false;
}

/* Returns how many images can be acquired at a time. The shown offscreen image is not one, unless
 * it is the only one. */
static uint32_t most_acquired(const vks_swapchain *s)
{
    const vks_generation *generation = s->current;
    return generation->n - (!s->info.vulkan && generation->n > 1 && generation->shown < generation->n);
}

/* A9: a suboptimal image is used for a frame. */
vks_status vks_acquire_next(vks_swapchain *s, uint64_t timeout, uint32_t *index, bool *is_suboptimal)
{
    uint64_t semaphore;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_take_semaphore(s, &semaphore);
    pthread_mutex_unlock(&s->device->lock);
    if (status)
        return status;
    VkResult code = s->vk.AcquireNextImageKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)s->current->handle, timeout,
                                              (VkSemaphore)(uintptr_t)semaphore, VK_NULL_HANDLE, index);
    *is_suboptimal = code == VK_SUBOPTIMAL_KHR;
    pthread_mutex_lock(&s->device->lock);
    if (code == VK_SUCCESS || *is_suboptimal)
        vks_image_receive(s, &s->current->images[*index], semaphore);
    else
        vks_put_semaphore(s, semaphore);
    pthread_mutex_unlock(&s->device->lock);
    switch (code) {
    case VK_SUBOPTIMAL_KHR:
        return VKS_OK;
    case VK_TIMEOUT:
    case VK_NOT_READY:
        return VKS_TIMEOUT;
    case VK_ERROR_OUT_OF_DATE_KHR:
        return VKS_STALE;
    default:
        return vks_driver_result(s, code, "vkAcquireNextImageKHR");
    }
}

static vks_status acquire_from_driver(vks_swapchain *s, uint64_t timeout, vks_frame *out)
{
    uint32_t index = 0;
    bool is_suboptimal;
    vks_status status = vks_acquire_next(s, timeout, &index, &is_suboptimal);
    if (!status && !is_suboptimal && must_keep_shown(s, index))
        status = vks_acquire_next(s, timeout, &index, &is_suboptimal); /* it is another image */
    if (!status)
        vks_image_take(s, index, VKS_IMAGE_ACQUIRED, out);
    return status;
}

/* Returns whether the driver has no image left and a capture() has one, which it returns soon. */
static bool waits_for_capture(const vks_swapchain *s)
{
    bool is_any_captured = false;
    for (uint32_t i = 0; i < s->current->n; i++) {
        const vks_present_image *image = &s->current->images[i];
        if (image->state == VKS_IMAGE_NOT_ACQUIRED)
            return false;
        is_any_captured |= image->state == VKS_IMAGE_CAPTURED;
    }
    return is_any_captured;
}

static vks_status acquire_once(vks_swapchain *s, uint64_t timeout, vks_frame *out)
{
    if (!s->info.vulkan)
        return vks_offscreen_acquire(s, out);
    return waits_for_capture(s) ? VKS_TIMEOUT : acquire_from_driver(s, timeout, out);
}

static vks_status acquire_image(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    if (s->counts.acquired >= most_acquired(s) && deadline == VKS_FOREVER)
        return vks_fail(VKS_BAD_CALL, 0,
                        "all %u images are acquired: present or close a frame first, or give a timeout",
                        most_acquired(s));
    uint64_t slice = vks_slice(deadline, SLICE_NS);
    vks_status status = acquire_once(s, slice, out);
    if (status != VKS_TIMEOUT || !slice)
        return status;
    return vks_now() >= deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
}

/* A6: no further generation can be retired, and the current one still gives images, of an old size.
 */
static bool can_use_outdated(const vks_swapchain *s, vks_status status, uint64_t deadline)
{
    return status == VKS_TIMEOUT && s->info.vulkan && s->current && !s->current->is_out_of_date && s->proof_until &&
           s->proof_until <= vks_now() && deadline > vks_now();
}

static vks_status acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    int attempts = s->has_tried ? 1 : 2; /* A9 */
    s->has_tried = false;
    while (attempts-- > 0) {
        vks_status status = s->info.vulkan ? VKS_OK : vks_offscreen_check(s, out);
        if (!status && s->info.vulkan && !vks_swapchain_is_current(s))
            status = vks_swapchain_configure(s, deadline);
        if (status && !can_use_outdated(s, status, deadline))
            return status;
        if (take_returned(s, out))
            return VKS_OK;
        if ((status = acquire_image(s, deadline, out)) != VKS_STALE)
            return status;
        s->is_stale = s->current->is_out_of_date = true;
    }
    return vks_fail(VKS_VULKAN_ERROR, VK_ERROR_OUT_OF_DATE_KHR, "vkAcquireNextImageKHR, on a new swapchain");
}

static vks_status wait_and_acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_status status = vks_swapchain_check(s);
    if (status || (status = vks_pacing_wait(s, deadline))) /* without the lock, so that other threads can present */
        return status;
    if ((status = vks_swapchain_enter(s, deadline)))
        return status;
    if (!(status = vks_swapchain_leave(s, acquire(s, deadline, out))))
        vks_pacing_acquired(s);
    if (status == VKS_INTERRUPTED) /* some drivers return at once */
        vks_pacing_poll(deadline);
    return status;
}

vks_status vks_swapchain_acquire(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out)
{
    VKS_NEEDS(swapchain, out);
    uint64_t began = vks_trace_begin();
    vks_status status = wait_and_acquire(swapchain, deadline, out);
    if (status != VKS_FORKED)
        vks_frames_changed(swapchain, VKS_FRAMES_FEWER);
    VKS_TRACE(began, vks_traced_frame(VKS_TRACE_FRAME, swapchain, out, began, status));
    return status;
}

/* An image of the current generation, without a wait: frames that are out stay valid. */
static vks_status acquire_current(vks_swapchain *s, vks_frame *out)
{
    if (s->info.vulkan ? !vks_swapchain_is_current(s) : vks_offscreen_check(s, out))
        return VKS_TIMEOUT;
    if (take_returned(s, out))
        return VKS_OK;
    vks_status status = acquire_image(s, 0, out);
    if (status != VKS_STALE)
        return status;
    s->is_stale = s->current->is_out_of_date = s->has_tried = true;
    return VKS_TIMEOUT;
}

static vks_status try_acquire(vks_swapchain *s, vks_frame *out)
{
    vks_status status = vks_swapchain_check(s);
    if (status || (status = vks_pacing_wait(s, 0)) || (status = vks_swapchain_try_enter(s)))
        return status;
    if (!(status = acquire_current(s, out)))
        vks_pacing_acquired(s);
    return vks_swapchain_leave(s, status);
}

vks_status vks_swapchain_try_acquire(vks_swapchain *s, vks_frame *out)
{
    uint64_t began = vks_trace_begin();
    vks_status status = try_acquire(s, out);
    if (!status) /* else vks_swapchain_acquire() follows */
        vks_frames_changed(s, VKS_FRAMES_FEWER);
    VKS_TRACE(began, vks_traced_frame(VKS_TRACE_FRAME, s, out, began, status));
    return status;
}

/* ---- for frame_thread.c ---- */

/* Returns whether the next image is the shown one of a headless target, which capture() could not
 * read any more once it was acquired. Its driver gives it at any time. */
static bool is_shown_next(const vks_swapchain *s)
{
    const vks_generation *generation = s->current;
    return s->vulkan.sizes_itself && generation && vks_swapchain_is_current(s) && generation->shown < generation->n &&
           !must_keep_shown(s, generation->shown) && !vks_image_has_caller(&generation->images[generation->shown]);
}

/* As vks_swapchain_drop() of the frame that was just acquired. */
static void put_back(vks_swapchain *s, uint32_t index)
{
    vks_present_image *image = &s->current->images[index];
    pthread_mutex_lock(&s->device->lock);
    if (image->surface)
        vks_surface_set_accessible(image->surface, false);
    vks_image_put_back(s, image);
    pthread_mutex_unlock(&s->device->lock);
}

static vks_status look_at_driver(vks_swapchain *s, uint64_t deadline)
{
    vks_frame frame;
    if (is_shown_next(s))
        return VKS_OK;
    if (s->counts.acquired && !vks_swapchain_is_current(s))
        return VKS_OK; /* the next acquire makes a generation: here the frames that are out would become invalid */
    vks_status status = s->counts.acquired ? acquire_current(s, &frame) : acquire(s, deadline, &frame);
    if (!status)
        put_back(s, frame.index);
    return status == VKS_INTERRUPTED ? VKS_TIMEOUT : status;
}

vks_status vks_acquire_look(vks_swapchain *s, uint64_t deadline)
{
    vks_frame frame;
    if (s->info.vulkan)
        return look_at_driver(s, deadline);
    vks_status status = vks_offscreen_check(s, &frame);
    return !status && vks_offscreen_find(s) == UINT32_MAX ? VKS_TIMEOUT : status;
}
