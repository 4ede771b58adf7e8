/* present.c: presents a frame. */
#include "swapchain_state.h"

static VkResult queue_present(vks_swapchain *s, vks_generation *generation, uint32_t index, VkFence fence,
                              uint32_t *used_mode)
{
    const vks_presentable *frame = &generation->images[index].frame;
    VkSwapchainKHR handle = (VkSwapchainKHR)(uintptr_t)generation->handle;
    VkSemaphore semaphores[VKS_FRAME_SEMAPHORES];
    for (uint32_t i = 0; i < frame->n_rendered; i++)
        semaphores[i] = (VkSemaphore)(uintptr_t)frame->rendered[i];
    VkPresentModeKHR mode = (VkPresentModeKHR)atomic_load_explicit(&s->mode, memory_order_relaxed);
    VkSwapchainPresentModeInfoEXT mode_info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_MODE_INFO_EXT, .swapchainCount = 1, .pPresentModes = &mode};
    VkSwapchainPresentFenceInfoEXT fence_info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT, .swapchainCount = 1, .pFences = &fence};
    VkPresentInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                             .waitSemaphoreCount = frame->n_rendered,
                             .pWaitSemaphores = semaphores,
                             .swapchainCount = 1,
                             .pSwapchains = &handle,
                             .pImageIndices = &index};
    if (fence)
        info.pNext = &fence_info;
    if (generation->mode != mode && vks_generation_can_change_mode(s, generation, mode)) { /* A13 */
        mode_info.pNext = info.pNext;
        info.pNext = &mode_info;
        *used_mode = mode;
    }
    vks_vulkan_lock_queue(s->device, true);
    VkResult code = s->vk.QueuePresentKHR(s->vk_queue, &info);
    vks_vulkan_lock_queue(s->device, false);
    return code;
}

/* A15: these codes execute the present's waits and signal its fence, whether or not the image is
 * shown. */
static bool was_carried_out(VkResult code)
{
    return code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR || code == VK_ERROR_OUT_OF_DATE_KHR ||
           code == VK_ERROR_SURFACE_LOST_KHR || code == VK_ERROR_FULL_SCREEN_EXCLUSIVE_MODE_LOST_EXT;
}

#define TRACKED_SEMAPHORES 3u /* besides the present's: the acquire's, and two of an engine */

/* vks_tracker_reserve() came before the present, so that no call fails for want of memory. */
static vks_status track_present(vks_swapchain *s, vks_generation *generation, uint32_t index, uint64_t fence,
                                uint64_t serial)
{
    vks_present_image *image = &generation->images[index];
    vks_presentable *frame = &image->frame;
    vks_status status = vks_tracker_waited(s->tracker, index, frame->waited);
    if (!status && image->acquire_semaphore)
        status = vks_tracker_semaphore(s->tracker, image->acquire_semaphore, frame->waited, false);
    if (!status)
        status = vks_tracker_presented(s->tracker, index, frame->rendered, frame->n_rendered, fence, vks_now());
    vks_release_engine_semaphores(s, image, serial);
    image->acquire_semaphore = 0;
    frame->n_rendered = 0;
    generation->was_presented = true;
    generation->shown = index;
    vks_pacing_presented(s, serial);
    return status;
}

/* Ends a frame whose present was executed. */
static vks_status end_frame(vks_swapchain *s, vks_generation *generation, uint32_t index, VkResult code, uint64_t fence,
                            uint64_t serial)
{
    vks_status status = track_present(s, generation, index, fence, serial);
    vks_image_presented(s, &generation->images[index]);
    if (code != VK_SUCCESS) {
        s->is_stale |= code != VK_SUBOPTIMAL_KHR || !generation->stays_suboptimal;
        generation->is_suboptimal |= code == VK_SUBOPTIMAL_KHR;
        generation->is_out_of_date |= code == VK_ERROR_OUT_OF_DATE_KHR;
        s->counts.lost_frames += code != VK_SUBOPTIMAL_KHR;
    }
    return code == VK_ERROR_SURFACE_LOST_KHR ? vks_driver_result(s, code, "vkQueuePresentKHR") : status;
}

/* The present was not executed: the caller keeps the frame (A15). */
static vks_status keep_frame(vks_swapchain *s, vks_present_image *image, VkResult code, uint64_t fence)
{
    if (fence)
        vks_put_fence(s, fence);
    if (image->surface)
        vks_surface_set_accessible(image->surface, true);
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_lose(s->device);
    return vks_driver_result(s, code, "vkQueuePresentKHR");
}

/* Caller holds device->lock, which is released while the driver presents, because that may take as
 * long as the rendering. */
static vks_status present_by_driver(vks_swapchain *s, vks_generation *generation, uint32_t index, uint64_t deadline)
{
    vks_device *device = s->device;
    vks_present_image *image = &generation->images[index];
    uint64_t serial = 0, fence = 0;
    vks_status status = vks_device_begin_present(device, deadline);
    if (status)
        return status;
    if (!(status = vks_device_check(device)))
        status = vks_tracker_reserve(s->tracker, TRACKED_SEMAPHORES);
    if (!status)
        status = vks_close_frame(s, image, &serial);
    if (!status && s->vulkan.policy == VKS_PRESENTS_BY_FENCES)
        status = vks_take_fence(s, &fence);
    if (!status) {
        if (image->surface) /* refuse submissions from here on */
            vks_surface_set_accessible(image->surface, false);
        pthread_mutex_unlock(&device->lock);
        uint32_t mode = generation->mode;
        VkResult code = queue_present(s, generation, index, (VkFence)(uintptr_t)fence, &mode);
        pthread_mutex_lock(&device->lock);
        if (was_carried_out(code))
            generation->mode = mode;
        status = was_carried_out(code) ? end_frame(s, generation, index, code, fence, serial)
                                       : keep_frame(s, image, code, fence);
    }
    vks_collect_locked(s);
    vks_device_end_present(device);
    return status;
}

/* Enters the swapchain once all work of the frame is submitted, which must precede the present. The
 * wait is without the lock. */
static vks_status enter_without_held(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    vks_present_image *image;
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    if ((status = vks_image_find(s, frame, &image)))
        return vks_swapchain_leave(s, status);
    vks_surface *surface = image->surface;
    if (!surface || !surface->held)
        return VKS_OK;
    vks_surface_ref(surface);
    vks_swapchain_leave(s, VKS_OK);
    status = vks_surface_wait_held(surface, deadline);
    vks_surface_unref(surface);
    if (status == VKS_TIMEOUT)
        return vks_fail(VKS_TIMEOUT, 0, "work of the frame is held: it waits for a fence value that is not queued");
    return status ? status : vks_swapchain_enter(s, deadline);
}

static vks_status present(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    vks_present_image *image;
    vks_status status = enter_without_held(s, frame, deadline);
    if (status)
        return status;
    pthread_mutex_lock(&s->device->lock);
    status = vks_image_find(s, frame, &image); /* another thread may have dropped it */
    if (!status && s->info.vulkan)
        status = present_by_driver(s, s->current, frame->index, deadline);
    else if (!status)
        vks_offscreen_present(s, frame->index);
    bool to_destroy = s->to_destroy != NULL;
    pthread_mutex_unlock(&s->device->lock);
    if (to_destroy)
        vks_destroy_retired(s);
    return vks_swapchain_leave(s, status);
}

vks_status vks_swapchain_present(vks_swapchain *swapchain, const vks_frame *frame, uint64_t deadline)
{
    VKS_NEEDS(swapchain, frame);
    uint64_t began = vks_trace_begin();
    vks_status status = present(swapchain, frame, deadline);
    vks_frames_changed(swapchain, VKS_FRAMES_FEWER);
    VKS_TRACE(began, vks_traced_frame(VKS_TRACE_PRESENT, swapchain, frame, began, status));
    return status;
}
