/* swapchain.c: acquires and presents frames. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/trace_points.h"
#include "swapchain_state.h"

/* A thread that waits for an image releases the lock now and then, so that other threads can
 * present. */
#define SLICE_NS UINT64_C(4000000)
#define POLL_INTERVAL_NS UINT64_C(500000)
#define PACE_SLICE_NS UINT64_C(20000000)

/* Internal status: the swapchain is out of date and must be recreated. Never leaves this file. */
#define STALE ((vks_status) - 1)

/* ---- creation ---- */

static void free_swapchain(vks_swapchain *s)
{
    if (s->tracker)
        vks_tracker_destroy(s->tracker);
    pthread_mutex_destroy(&s->lock);
    vks_device_unref(s->device);
    free(s);
}

vks_status vks_swapchain_create(const vks_swapchain_info *info, vks_swapchain **out)
{
    vks_status status = vks_device_check(info->device);
    if (status)
        return status;
    if (!info->image_count || info->image_count > VKS_SWAPCHAIN_IMAGES || !info->frames_in_flight ||
        info->frames_in_flight > VKS_MOST_IN_FLIGHT || !info->retired_limit)
        return vks_fail(
            VKS_BAD_VALUE, 0, "image_count is %u (1 to %u), frames_in_flight %u (1 to %u), retired_limit %u",
            info->image_count, VKS_SWAPCHAIN_IMAGES, info->frames_in_flight, VKS_MOST_IN_FLIGHT, info->retired_limit);
    vks_swapchain *s = calloc(1, sizeof *s);
    if (!s)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    s->device = info->device;
    vks_device_ref(s->device);
    s->references = 1;
    s->process = vks_process;
    s->number = vks_trace_next();
    s->info = *info;
    pthread_mutex_init(&s->lock, NULL);
    atomic_init(&s->wanted, (uint64_t)info->width << 32 | info->height);
    if (info->vulkan) {
        s->vulkan = *info->vulkan;
        atomic_init(&s->mode, s->vulkan.present_mode);
        s->info.vulkan = &s->vulkan;
    }
    if (!vks_device_enter(s->device)) {
        free_swapchain(s);
        return VKS_CLOSED;
    }
    if (info->vulkan) {
        status = vks_tracker_create(s->vulkan.policy, info->fence_deadline, &s->tracker);
        if (!status)
            status = vks_driver_open(s);
    } else {
        status = vks_offscreen_open(s);
    }
    vks_device_leave(s->device);
    if (status)
        free_swapchain(s);
    else
        *out = s;
    return status;
}

void vks_swapchain_ref(vks_swapchain *s) { atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed); }

/* ---- close ---- */

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
    struct vks_finishing *f = &s->finishing;
    uint64_t now = vks_now();
    bool is_given_up = s->pacing.frames != f->frames && now - f->last >= RESUME_LIMIT_NS;
    if (!f->since || is_given_up)
        *f = (struct vks_finishing){
            .since = now, .frames = s->pacing.frames, .left = UINT64_MAX, .give_up_at = now + s->info.proof_deadline};
    f->last = now;
}

/* Ends all presents; unproven ones wait for the core's own submissions. VKS_TIMEOUT: these do not
 * end. */
static vks_status end_presents(vks_swapchain *s)
{
    vks_device *device = s->device;
    begin_or_resume(s);
    vks_status status = device->lost ? drain(s) : VKS_OK; /* submissions that have run prove more */
    if (status || (status = vks_finish_presents(s, s->finishing.since + s->info.proof_deadline)))
        return status;
    vks_generation *current = s->current;
    if (current) {
        pthread_mutex_lock(&device->lock);
        if ((status = vks_device_begin_present(device, VKS_FOREVER))) {
            pthread_mutex_unlock(&device->lock);
            return status;
        }
        for (uint32_t i = 0; i < current->n; i++) {
            vks_present_image *image = &current->images[i];
            if (image->surface)
                vks_surface_set_accessible(image->surface, false);
            if ((image->frame.acquired || image->engine[0]) && vks_device_check(device) == VKS_OK)
                vks_submit_frame(s, image, 0); /* A19: a batch waits for the acquire's semaphore */
        }
        vks_device_end_present(device);
        pthread_mutex_unlock(&device->lock);
    }
    return drain(s);
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

/* Destroys the generations, then the handles of their presents. On failure nothing changes, except
 * for acquired frames. */
static vks_status drop_vulkan(vks_swapchain *s)
{
    vks_device *device = s->device;
    vks_status status = end_presents(s);
    if (status)
        return status;
    s->finishing.since = 0;
    pthread_mutex_lock(&device->lock);
    take_frame_semaphores(s);
    vks_tracker_close(s->tracker);
    s->current = NULL;
    s->counts.acquired = s->n_returned = 0;
    vks_apply_decisions(s, true);
    if (!vks_wait_for_pins(s))
        s->to_destroy = NULL; /* leaked, because recording with destroyed images would crash */
    pthread_mutex_unlock(&device->lock);
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

vks_status vks_swapchain_try_close(vks_swapchain *s)
{
    if (s->process != vks_process || s->is_ended)
        return VKS_OK;
    atomic_store(&s->is_closed, true);
    bool inside = vks_device_enter(s->device);
    vks_status status = vks_swapchain_lock(s, VKS_FOREVER);
    if (!status) {
        if (!s->is_ended && !s->info.vulkan)
            vks_offscreen_close(s);
        else if (!s->is_ended && inside)
            status = end_vulkan(s);
        s->is_ended = !status;
        vks_swapchain_unlock(s);
    }
    if (inside)
        vks_device_leave(s->device);
    return status;
}

void vks_swapchain_close(vks_swapchain *s)
{
    while (vks_swapchain_try_close(s) == VKS_INTERRUPTED)
        ;
}

void vks_swapchain_unref(vks_swapchain *s)
{
    if (atomic_fetch_sub(&s->references, 1) != 1)
        return;
    vks_swapchain_close(s);
    if (s->is_ended || s->process != vks_process)
        free_swapchain(s);
    else /* leaked, with its driver objects */
        s->device->swapchain_leaked = true;
}

/* ---- state ---- */

vks_status vks_swapchain_resize(vks_swapchain *s, uint32_t width, uint32_t height)
{
    vks_status status = vks_swapchain_check(s);
    if (!status)
        atomic_store(&s->wanted, (uint64_t)width << 32 | height);
    return status;
}

vks_status vks_swapchain_set_mode(vks_swapchain *s, uint32_t present_mode)
{
    vks_status status = vks_swapchain_check(s);
    if (!status)
        atomic_store(&s->mode, present_mode);
    return status;
}

void vks_swapchain_lose(vks_swapchain *s)
{
    if (s->process == vks_process)
        atomic_store(&s->is_lost, true);
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
    vks_tracker_destroy(s->tracker);
    s->tracker = fresh;
    s->vulkan.surface = surface;
    s->is_stale = false;
    atomic_store(&s->is_lost, surface == 0);
    return VKS_OK;
}

vks_status vks_swapchain_retarget(vks_swapchain *s, uint64_t surface)
{
    vks_status status = vks_swapchain_enter_lost(s);
    if (status)
        return status;
    return vks_swapchain_leave(s, s->info.vulkan ? retarget_vulkan(s, surface) : vks_offscreen_retarget(s, surface));
}

/* A13: returns whether a present of the generation can change to that mode: it was created with
 * both. */
static bool may_change_mode(const vks_swapchain *s, const vks_generation *generation, uint32_t mode)
{
    return vks_mode_is_listed(s, generation->mode) && vks_mode_is_listed(s, mode);
}

static bool is_current(const vks_swapchain *s)
{
    const vks_generation *generation = s->current;
    uint32_t mode = atomic_load(&s->mode);
    return generation && !s->is_stale && s->made_for == atomic_load(&s->wanted) &&
           (generation->mode == mode || may_change_mode(s, generation, mode));
}

vks_status vks_swapchain_prepare(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    if (s->info.vulkan && !is_current(s))
        status = vks_swapchain_configure(s, deadline);
    return vks_swapchain_leave(s, status);
}

/* ---- acquire ---- */

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

/* Acquires the driver's next image as VKS_IMAGE_RETURNED. A9: a suboptimal image is used for a
 * frame. */
static vks_status acquire_next(vks_swapchain *s, uint64_t timeout, uint32_t *index, bool *is_suboptimal)
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
    if (code == VK_SUCCESS || *is_suboptimal) {
        vks_image_receive(s, &s->current->images[*index], semaphore);
    } else {
        vks_put_semaphore(s, semaphore);
    }
    pthread_mutex_unlock(&s->device->lock);
    switch (code) {
    case VK_SUBOPTIMAL_KHR:
        return VKS_OK;
    case VK_TIMEOUT:
    case VK_NOT_READY:
        return VKS_TIMEOUT;
    case VK_ERROR_OUT_OF_DATE_KHR:
        return STALE;
    default:
        return vks_driver_result(s, code, "vkAcquireNextImageKHR");
    }
}

static vks_status acquire_from_driver(vks_swapchain *s, uint64_t timeout, vks_frame *out)
{
    uint32_t index = 0;
    bool is_suboptimal;
    vks_status status = acquire_next(s, timeout, &index, &is_suboptimal);
    if (!status && !is_suboptimal && must_keep_shown(s, index))
        status = acquire_next(s, timeout, &index, &is_suboptimal); /* it is another image */
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
        if (!status && s->info.vulkan && !is_current(s))
            status = vks_swapchain_configure(s, deadline);
        if (status && !can_use_outdated(s, status, deadline))
            return status;
        if (take_returned(s, out))
            return VKS_OK;
        if ((status = acquire_image(s, deadline, out)) != STALE)
            return status;
        s->is_stale = s->current->is_out_of_date = true;
    }
    return vks_fail(VKS_VULKAN_ERROR, VK_ERROR_OUT_OF_DATE_KHR, "vkAcquireNextImageKHR, on a new swapchain");
}

static void trace_frame(vks_trace_kind kind, const vks_swapchain *s, const vks_frame *frame, uint64_t began,
                        vks_status status)
{
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted(s->number, began);
    if (status == VKS_INTERRUPTED || status == VKS_TIMEOUT)
        return;
    vks_trace_record record = {.kind = (uint16_t)kind,
                               .status = (uint16_t)status,
                               .device = s->device->number,
                               .begin = vks_trace_resume(s->number, began),
                               .end = vks_now(),
                               .object = s->number};
    if (status == VKS_OK) {
        record.value = frame->index;
        record.key = frame->generation;
    }
    vks_trace_write(&record);
}

/* Other threads can use the swapchain meanwhile. */
static void sleep_poll_interval(uint64_t deadline)
{
    uint64_t until = vks_now() + POLL_INTERVAL_NS;
    usleep((useconds_t)((until < deadline ? POLL_INTERVAL_NS : 0) / 1000));
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
        sleep_poll_interval(deadline);
    return status;
}

vks_status vks_swapchain_acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    uint64_t began = vks_trace_begin();
    vks_status status = wait_and_acquire(s, deadline, out);
    VKS_TRACE(began, trace_frame(VKS_TRACE_FRAME, s, out, began, status));
    return status;
}

/* VKS_INTERRUPTED: another thread's capture has the image, another thread presents soon, or the
 * driver still has the image. This does not wait in the driver, because other threads would wait
 * for the lock. */
static vks_status acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    const vks_generation *generation = s->current;
    bool is_late = vks_now() >= deadline;
    if (!generation || generation->shown >= generation->n) {
        if (generation && s->pacing.frames && !is_late)
            return VKS_INTERRUPTED;
        return vks_fail(VKS_BAD_CALL, 0,
                        "nothing was presented since the last resize, or all images are acquired, with the shown one: "
                        "present a frame first");
    }
    uint32_t shown = generation->shown, index;
    bool is_suboptimal;
    vks_status status = vks_image_has_caller(&generation->images[shown]) ? VKS_TIMEOUT : VKS_OK;
    while (!status && s->info.vulkan && generation->images[shown].state == VKS_IMAGE_NOT_ACQUIRED)
        status = acquire_next(s, 0, &index, &is_suboptimal);
    if (!status)
        vks_image_take(s, shown, VKS_IMAGE_CAPTURED, out);
    if (status == STALE)
        return vks_fail(VKS_BAD_CALL, 0, "the window has changed: its images are out of date");
    return status == VKS_TIMEOUT && !is_late ? VKS_INTERRUPTED : status;
}

vks_status vks_swapchain_acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    status = vks_swapchain_leave(s, acquire_shown(s, deadline, out));
    if (status == VKS_INTERRUPTED)
        sleep_poll_interval(deadline);
    return status;
}

static vks_status try_acquire(vks_swapchain *s, vks_frame *out)
{
    vks_status status = vks_swapchain_check(s);
    if (status || (status = vks_pacing_wait(s, 0)) || (status = vks_swapchain_try_enter(s)))
        return status;
    if (s->info.vulkan ? !is_current(s) : vks_offscreen_check(s, out))
        status = VKS_TIMEOUT;
    else if (!take_returned(s, out))
        status = acquire_image(s, 0, out);
    if (status == STALE) {
        s->is_stale = s->current->is_out_of_date = s->has_tried = true;
        status = VKS_TIMEOUT;
    } else if (!status) {
        vks_pacing_acquired(s);
    }
    return vks_swapchain_leave(s, status);
}

vks_status vks_swapchain_try_acquire(vks_swapchain *s, vks_frame *out)
{
    uint64_t began = vks_trace_begin();
    vks_status status = try_acquire(s, out);
    VKS_TRACE(began, trace_frame(VKS_TRACE_FRAME, s, out, began, status));
    return status;
}

/* ---- acquired frames ---- */

/* An engine may fail before its submission without a report. So it gets semaphores of its own that
 * no batch of the core waits for: a batch here waits for the acquire, and the present waits for a
 * batch behind the engine's (close_frame). Caller has the queue. */
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

vks_status vks_swapchain_take_semaphores(vks_swapchain *s, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered)
{
    vks_present_image *image = NULL;
    *acquired = *rendered = 0;
    if (!s->info.vulkan)
        return vks_fail(VKS_UNSUPPORTED, 0, "an offscreen swapchain has no semaphores to wait for");
    vks_status status = vks_swapchain_enter(s, VKS_FOREVER);
    if (status)
        return status;
    pthread_mutex_lock(&s->device->lock);
    status = vks_image_find(s, frame, &image);
    if (!status && !image->by_engine && image->frame.n_rendered > image->n_read)
        status = vks_fail(VKS_BAD_CALL, 0, "device.submit() has drawn into the frame: take its semaphores before that");
    if (!status && !image->by_engine && !(status = vks_device_begin_present(s->device, VKS_FOREVER))) {
        status = give_to_engine(s, image);
        vks_device_end_present(s->device);
    }
    if (!status) {
        *acquired = image->engine[0];
        *rendered = image->engine[1];
    }
    pthread_mutex_unlock(&s->device->lock);
    return vks_swapchain_leave(s, status);
}

/* ---- present ---- */

/* Submits one more batch, whose signal the present waits for. */
static vks_status submit_last(vks_swapchain *s, vks_present_image *image)
{
    vks_presentable *frame = &image->frame;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES)
        return vks_submit_frame(s, image, frame->rendered[VKS_FRAME_SEMAPHORES - 1]);
    vks_status status = vks_refill_frame(frame);
    if (!status && !(status = vks_submit_frame(s, image, frame->spare))) {
        frame->rendered[frame->n_rendered++] = frame->spare;
        frame->spare = 0;
    }
    return status;
}

/* Submits a batch behind everything that the present must wait for; its serial is the frame's.
 * Caller holds device->lock. */
static vks_status close_frame(vks_swapchain *s, vks_present_image *image, uint64_t *serial)
{
    vks_status status = VKS_OK;
    if (image->by_engine || !image->frame.n_rendered) /* behind the engine's submissions; or nothing was drawn */
        status = submit_last(s, image);
    image->by_engine &= status != VKS_OK;
    *serial = image->surface ? image->surface->last_serial : s->device->submitted;
    return status;
}

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
    if (generation->mode != mode && may_change_mode(s, generation, mode)) { /* A13 */
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
        status = close_frame(s, image, &serial);
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

/* Held work of the frame must be submitted before the present. */
static vks_status wait_for_held(vks_swapchain *s, vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_device_wait_held(s->device, 0, surface, deadline);
    if (status == VKS_TIMEOUT)
        return vks_fail(VKS_TIMEOUT, 0, "work of the frame is held: it waits for a fence value that is not queued");
    return status;
}

static vks_status present(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    vks_present_image *image;
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    if (!(status = vks_image_find(s, frame, &image)) && image->surface && image->surface->held) {
        vks_surface *surface = image->surface;
        vks_surface_ref(surface);
        vks_swapchain_leave(s, VKS_OK);
        status = wait_for_held(s, surface, deadline);
        vks_surface_unref(surface);
        if (status || (status = vks_swapchain_enter(s, deadline)))
            return status;
        status = vks_image_find(s, frame, &image);
    }
    if (status)
        return vks_swapchain_leave(s, status);
    pthread_mutex_lock(&s->device->lock);
    if ((status = vks_image_find(s, frame, &image))) /* another thread dropped it */
        ;
    else if (s->info.vulkan)
        status = present_by_driver(s, s->current, frame->index, deadline);
    else
        vks_offscreen_present(s, frame->index);
    bool to_destroy = s->to_destroy != NULL;
    pthread_mutex_unlock(&s->device->lock);
    if (to_destroy)
        vks_destroy_retired(s);
    return vks_swapchain_leave(s, status);
}

vks_status vks_swapchain_present(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    uint64_t began = vks_trace_begin();
    vks_status status = present(s, frame, deadline);
    VKS_TRACE(began, trace_frame(VKS_TRACE_PRESENT, s, frame, began, status));
    return status;
}

/* ---- statistics ---- */

void vks_swapchain_get_statistics(vks_swapchain *s, vks_swapchain_statistics *out)
{
    if (s->process != vks_process) {
        *out = (vks_swapchain_statistics){0};
        return;
    }
    vks_tracker_statistics tracked = {0};
    pthread_mutex_lock(&s->device->lock); /* device->lock only, because a present may last */
    if (s->tracker)
        vks_tracker_get_statistics(s->tracker, &tracked);
    *out = s->counts;
    out->generation = s->newest_generation;
    out->frames = s->pacing.frames;
    for (const vks_generation *generation = s->generations; generation; generation = generation->next)
        out->swapchains++;
    out->retired = tracked.retired;
    out->history = tracked.presents;
    out->quarantined = tracked.quarantined;
    out->moved = tracked.moved;
    out->pooled_semaphores = s->pools.semaphores.n;
    out->pooled_fences = s->pools.fences.n;
    out->shown = UINT32_MAX;
    out->is_current = !s->info.vulkan || is_current(s);
    if (s->current) {
        out->shown = s->current->shown;
        out->image_count = s->current->n;
        out->width = s->current->width;
        out->height = s->current->height;
        out->present_mode = s->info.vulkan ? s->current->mode : 0;
    }
    pthread_mutex_unlock(&s->device->lock);
}
