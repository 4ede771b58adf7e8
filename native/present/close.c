/* close.c: ends all presents of a swapchain: close, and retarget to another VkSurfaceKHR. Signals
 * may interrupt both; the next call resumes. */
#include <string.h>

#include "swapchain_state.h"

static vks_status drain(vks_swapchain *s)
{
    vks_status status = vks_device_drain(s->device, s->device->submitted, s->finishing.since + VKS_LONGEST_PRESENT_NS);
    return status == VKS_TIMEOUT
               ? vks_fail(VKS_TIMEOUT, 0,
                          "what was submitted to the device has not run for 10 s: the driver hangs, or waits for a "
                          "semaphore that nothing signals; close() again")
               : status;
}

#define RESUME_LIMIT_NS UINT64_C(1000000000)

/* An interrupted retarget may never be resumed. Its deadlines do not apply to a close after later
 * presents. */
static void begin_or_resume(vks_swapchain *s)
{
    vks_finishing *f = &s->finishing;
    uint64_t now = vks_now();
    bool is_given_up = s->pacing.frames != f->frames && now - f->last >= RESUME_LIMIT_NS;
    if (!f->since || is_given_up)
        *f = (vks_finishing){
            .since = now, .frames = s->pacing.frames, .left = UINT64_MAX, .give_up_at = now + s->info.proof_deadline};
    f->last = now;
}

/* A window keeps the image that it shows, so its present gets no proof without another present.
 * Closing therefore waits for it only as long as a display may take. */
#define LAST_PROOF_NS UINT64_C(100000000)

/* On a lost device only waits for fences end (see vks_device_drain); a wait for an acquire may not.
 */
static bool can_complete(const vks_swapchain *s, vks_wanted wanted)
{
    if (wanted.kind == VKS_WANTS_NOTHING || wanted.kind == VKS_WANTS_PRESENT)
        return false;
    return wanted.kind == VKS_WANTS_FENCE || !s->device->lost;
}

vks_status vks_finish_presents(vks_swapchain *s)
{
    bool by_fences = s->vulkan.policy == VKS_PRESENTS_BY_FENCES;
    vks_finishing *f = &s->finishing;
    uint64_t deadline = f->since + s->info.proof_deadline;
    uint64_t began = vks_now();
    vks_status status = VKS_OK;
    while (!status && vks_now() < f->give_up_at && (by_fences || !s->is_lost)) {
        vks_collect(s);
        vks_wanted wanted = vks_proof_next(s, true);
        if (!can_complete(s, wanted))
            break;
        uint64_t now_left = vks_proof_counts(s).presents;
        if (now_left < f->left && !by_fences)
            f->give_up_at = vks_now() + LAST_PROOF_NS < deadline ? vks_now() + LAST_PROOF_NS : deadline;
        f->left = now_left;
        status = vks_proof_wait(s, wanted, f->give_up_at);
        if (!status && vks_interrupt_interval() && vks_now() - began >= vks_interrupt_interval())
            return VKS_INTERRUPTED;
    }
    return status == VKS_INTERRUPTED ? status : VKS_OK;
}

/* Ends the acquired frames of the current generation. A19: a batch waits for each acquire's
 * semaphore. */
static vks_status submit_frames(vks_swapchain *s)
{
    vks_device *device = s->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_begin_present(device, VKS_FOREVER);
    for (uint32_t i = 0; !status && i < s->current->n; i++) {
        vks_present_image *image = &s->current->images[i];
        vks_image_end_use(image);
        if ((image->frame.acquired || image->engine[0]) && vks_device_check(device) == VKS_OK)
            vks_submit_frame(s, image, 0);
    }
    if (!status)
        vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Ends all presents; unproven ones wait for the core's own submissions. VKS_TIMEOUT: these do not
 * end. */
static vks_status end_presents(vks_swapchain *s)
{
    begin_or_resume(s);
    vks_status status = s->device->lost ? drain(s) : VKS_OK; /* submissions that have run prove more */
    if (status || (status = vks_finish_presents(s)))
        return status;
    status = s->current ? submit_frames(s) : VKS_OK;
    return status ? status : drain(s);
}

/* Takes the semaphores of the current generation that no present and no submission has. Signalled
 * ones without a wait are discarded. */
static void take_frame_semaphores(vks_swapchain *s)
{
    for (uint32_t i = 0; s->current && i < s->current->n; i++) {
        vks_present_image *image = &s->current->images[i];
        if (!image->frame.acquired)
            vks_put_semaphore(s, image->acquire_semaphore);
        else
            vks_discard_semaphore(s, image->acquire_semaphore);
        vks_put_semaphore(s, image->frame.spare);
        for (uint32_t n = 0; n < image->frame.n_rendered; n++)
            vks_discard_semaphore(s, image->frame.rendered[n]);
        for (int n = 0; n < 2; n++)
            vks_discard_semaphore(s, image->engine[n]);
        memset(image->engine, 0, sizeof image->engine);
        image->acquire_semaphore = image->frame.spare = image->frame.acquired = 0;
        image->frame.n_rendered = 0;
    }
}

/* Takes everything from the tracker and the current generation, to be destroyed. VKS_TIMEOUT: a
 * thread records. */
static vks_status take_everything(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_wait_for_pins(s);
    if (!status) {
        take_frame_semaphores(s);
        vks_tracker_close(s->tracker);
        s->current = NULL;
        s->counts.acquired = s->n_returned = 0;
        vks_apply_decisions(s);
    }
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

/* Destroys the generations, then the handles of their presents. On failure nothing changes, except
 * for acquired frames. */
static vks_status drop_vulkan(vks_swapchain *s)
{
    vks_device *device = s->device;
    vks_status status = end_presents(s);
    if (status || (status = take_everything(s)))
        return status;
    s->finishing.since = 0;
    vks_proof_give_up(s);
    vks_destroy_retired(s);
    pthread_mutex_lock(&device->lock);
    vks_destroy_discarded(s);
    pthread_mutex_unlock(&device->lock);
    return VKS_OK;
}

static vks_status end_vulkan(vks_swapchain *s)
{
    vks_status status = drop_vulkan(s);
    if (status)
        return status;
    pthread_mutex_lock(&s->device->lock);
    vks_destroy_pools(s);
    pthread_mutex_unlock(&s->device->lock);
    vks_driver_close(s);
    return VKS_OK;
}

/* `inside`: the driver may be called. Otherwise the device was shut down, and its VkDevice must not
 * be destroyed, because the VkSwapchainKHRs exist. */
static vks_status end(vks_swapchain *s, bool inside)
{
    vks_status status = VKS_OK;
    if (!s->info.vulkan)
        vks_offscreen_close(s);
    else if (inside)
        status = end_vulkan(s);
    else
        s->device->swapchain_leaked = true;
    s->is_ended = !status && (inside || !s->info.vulkan);
    return status;
}

vks_status vks_swapchain_try_close(vks_swapchain *s)
{
    if (s->process != vks_process || s->is_ended)
        return VKS_OK;
    atomic_store(&s->is_closed, true);
    vks_frames_changed(s, VKS_FRAMES_ENDED);
    bool inside = vks_device_enter(s->device);
    vks_status status = vks_swapchain_lock(s, VKS_FOREVER);
    if (!status) {
        if (!s->is_ended)
            status = end(s, inside);
        vks_swapchain_unlock(s);
    }
    if (inside)
        vks_device_leave(s->device);
    return status;
}

void vks_swapchain_close(vks_swapchain *swapchain)
{
    VKS_NEEDS_OR(, swapchain);
    while (vks_swapchain_try_close(swapchain) == VKS_INTERRUPTED)
        ;
}

static vks_status retarget_vulkan(vks_swapchain *s, uint64_t surface)
{
    vks_tracker *fresh = NULL;
    vks_status status = vks_tracker_create(s->vulkan.policy, s->info.fence_deadline, &fresh);
    if (status)
        return status;
    if ((status = drop_vulkan(s))) {
        vks_tracker_destroy(fresh);
        return status;
    }
    vks_tracker *old = s->tracker;
    pthread_mutex_lock(&s->device->lock); /* vks_swapchain_get_statistics() has no other lock */
    s->tracker = fresh;
    pthread_mutex_unlock(&s->device->lock);
    vks_tracker_destroy(old);
    s->vulkan.surface = surface;
    s->is_stale = false;
    atomic_store(&s->is_lost, surface == 0);
    return VKS_OK;
}

vks_status vks_swapchain_retarget(vks_swapchain *swapchain, uint64_t surface)
{
    VKS_NEEDS(swapchain);
    vks_status status = vks_swapchain_enter_lost(swapchain);
    if (status)
        return status;
    status = swapchain->info.vulkan ? retarget_vulkan(swapchain, surface) : vks_offscreen_retarget(swapchain, surface);
    vks_frames_changed(swapchain, VKS_FRAMES_MORE);
    return vks_swapchain_leave(swapchain, status);
}
