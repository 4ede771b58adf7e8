/* retire.c: replaces a VkSwapchainKHR, and proves that old ones are unused. Caller holds
 * swapchain->lock.
 *
 * The tracker decides when old swapchains are destroyed (tracker.h). ANGLE's document does not
 * bound their number during a resize; here it is `retired_limit`. Beyond it the next replacement
 * waits for proof, with a deadline. Without proof the window keeps the current swapchain for as
 * long as that gives images, and the next acquire tries again. When it gives none, the oldest
 * retired swapchain is destroyed without proof, and counted. No function waits for the device to be
 * idle, because that proves nothing about a presentation engine (A17). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "swapchain_state.h"

#define SLICE_NS UINT64_C(20000000)
#define POLL_INTERVAL_US 500u

/* ---- the core's own batch ---- */

vks_status vks_submit_frame(vks_swapchain *s, vks_present_image *image, uint64_t signal)
{
    vks_device *device = s->device;
    vks_presentable *frame = &image->frame;
    bool is_resignal =
        frame->n_rendered &&
        signal ==
            frame->rendered[frame->n_rendered - 1]; /* the last binary semaphore is waited for, then signalled again */
    vks_point wait = {is_resignal ? signal : frame->acquired, 0}, signalled = {signal, 0};
    vks_batch batch = {
        .waits = &wait,
        .signals = &signalled,
        .buffers = &frame->initial_commands,
        .n_waits = wait.semaphore != 0,
        .n_signals = signal != 0,
        .n_buffers = signal && frame->initial_commands,
        .serial = device->submitted + 1,
    };
    vks_status status = device->backend->submit(device, &batch);
    if (status) {
        if (status == VKS_DEVICE_LOST)
            vks_device_lose(device);
        return status;
    }
    atomic_store_explicit(&device->submitted, batch.serial, memory_order_release);
    if (image->surface)
        atomic_store_explicit(&image->surface->last_serial, batch.serial, memory_order_release);
    if (frame->acquired)
        frame->waited = batch.serial;
    frame->acquired = 0;
    if (signal)
        frame->initial_commands = 0;
    return VKS_OK;
}

/* ---- giving up the frames of an old generation ---- */

/* The tracker decides about the semaphore when `serial` has run. */
static void track_semaphore(vks_swapchain *s, uint64_t semaphore, uint64_t serial, bool is_discarded)
{
    if (semaphore && vks_tracker_semaphore(s->tracker, semaphore, serial, is_discarded))
        vks_discard_semaphore(s, semaphore); /* no memory to track the serial */
}

void vks_release_engine_semaphores(vks_swapchain *s, vks_present_image *image, uint64_t serial)
{
    for (int i = 0; i < 2; i++)
        track_semaphore(s, image->engine[i], serial, true);
    memset(image->engine, 0, sizeof image->engine);
}

/* Returns the frame's semaphores to the pool when they are unused. Caller holds device->lock. On
 * failure the frame is unchanged. */
static vks_status give_up_frame(vks_swapchain *s, vks_generation *generation, vks_present_image *image)
{
    vks_presentable *frame = &image->frame;
    vks_status status = VKS_OK;
    /* A batch must wait for the acquire (A19), and come behind an engine's submissions. */
    if ((frame->acquired || image->engine[0]) && (status = vks_submit_frame(s, image, 0)))
        return status;
    uint64_t last = image->surface ? image->surface->last_serial : frame->waited;
    if (image->engine[0])
        last = s->device->submitted;
    if (frame->waited &&
        (status = vks_tracker_waited(s->tracker, (uint32_t)(image - generation->images), frame->waited)))
        return status;
    if (image->surface)
        vks_surface_set_accessible(image->surface, false);
    track_semaphore(s, image->acquire_semaphore, frame->waited, false);
    for (uint32_t i = 0; i < frame->n_rendered; i++)
        track_semaphore(s, frame->rendered[i], last, true);
    vks_release_engine_semaphores(s, image, last);
    vks_put_semaphore(s, frame->spare);
    image->acquire_semaphore = frame->spare = 0;
    frame->n_rendered = 0;
    vks_image_give_up(s, image);
    return VKS_OK;
}

/* Gives up the acquired frames, and gets the last submission that used an image of the generation.
 */
static vks_status give_up_frames(vks_swapchain *s, vks_generation *generation, uint64_t deadline, uint64_t *last_use)
{
    *last_use = 0;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_device_begin_present(s->device, deadline); /* get the queue */
    if (status) {
        pthread_mutex_unlock(&s->device->lock);
        return status;
    }
    for (uint32_t i = 0; i < generation->n && !status; i++) {
        vks_present_image *image = &generation->images[i];
        if (image->state != VKS_IMAGE_NOT_ACQUIRED || image->frame.spare)
            status = give_up_frame(s, generation, image);
        uint64_t last = image->surface ? image->surface->last_serial : image->frame.waited;
        if (last > *last_use)
            *last_use = last;
    }
    vks_device_end_present(s->device);
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

/* ---- proof ---- */

static vks_status wait_fence(vks_swapchain *s, uint64_t fence, uint64_t deadline)
{
    VkFence handle = (VkFence)(uintptr_t)fence;
    VkResult code = s->vk.WaitForFences(s->vk_device, 1, &handle, VK_TRUE, vks_slice(deadline, SLICE_NS));
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_mark_lost(s->device);
    return code == VK_TIMEOUT ? VKS_TIMEOUT : vks_driver_result(s, code, "vkWaitForFences");
}

/* Acquires an image of the current generation, which is about to be replaced, with a fence in place
 * of a semaphore. When the fence is signalled, the presentation engine no longer uses the image's
 * previous present. The image becomes VKS_IMAGE_RETURNED: if the replacement fails, it is the next
 * frame. */
static vks_status acquire_for_proof(vks_swapchain *s, uint64_t deadline)
{
    vks_generation *generation = s->current;
    uint64_t fence;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_take_fence(s, &fence);
    pthread_mutex_unlock(&s->device->lock);
    if (status)
        return status;
    uint32_t index = 0;
    VkResult code =
        s->vk.AcquireNextImageKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)generation->handle,
                                  vks_slice(deadline, SLICE_NS), VK_NULL_HANDLE, (VkFence)(uintptr_t)fence, &index);
    bool got = code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR;
    while (got && (status = wait_fence(s, fence, vks_now() + SLICE_NS)) == VKS_TIMEOUT && vks_now() < deadline)
        ;
    pthread_mutex_lock(&s->device->lock);
    if (got) {
        vks_image_receive(s, &generation->images[index], 0);
    }
    if (got && !status) {
        vks_reset_fence(s, fence);
        status = vks_tracker_waited(s->tracker, index, 0);
    } else if (got) {
        vks_discard_fence(s, fence);
    } else {
        vks_put_fence(s, fence); /* the driver did not use it */
    }
    pthread_mutex_unlock(&s->device->lock);
    if (code == VK_TIMEOUT || code == VK_NOT_READY) {
        usleep(POLL_INTERVAL_US); /* some drivers return at once */
        return VKS_OK;
    }
    if (code == VK_ERROR_OUT_OF_DATE_KHR) {
        generation->is_out_of_date = true;
        return VKS_OK;
    }
    return got ? status : vks_driver_result(s, code, "vkAcquireNextImageKHR");
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

/* Waits once for the event of `wanted`. VKS_OK: check again. VKS_TIMEOUT: the event cannot come. */
static vks_status wait_step(vks_swapchain *s, vks_wanted wanted, uint64_t deadline)
{
    vks_status status;
    switch (wanted.kind) {
    case VKS_WANTS_SERIAL:
        status = vks_device_wait_serial(s->device, wanted.value, deadline);
        return status == VKS_INTERRUPTED ? VKS_OK : status;
    case VKS_WANTS_FENCE:
        status = wait_fence(s, wanted.value, deadline);
        return status == VKS_TIMEOUT ? VKS_OK : status;
    case VKS_WANTS_IMAGE:
        return s->current ? wait_for_image(s, deadline) : VKS_TIMEOUT;
    default:
        return VKS_TIMEOUT;
    }
}

static vks_tracker_statistics count(vks_swapchain *s)
{
    vks_tracker_statistics now;
    pthread_mutex_lock(&s->device->lock);
    vks_tracker_get_statistics(s->tracker, &now);
    pthread_mutex_unlock(&s->device->lock);
    return now;
}

static vks_wanted next_wait(vks_swapchain *s, bool everything)
{
    pthread_mutex_lock(&s->device->lock);
    vks_wanted wanted = vks_tracker_wanted(s->tracker);
    if (everything && (wanted.kind == VKS_WANTS_NOTHING || wanted.kind == VKS_WANTS_PRESENT))
        wanted = vks_tracker_unproven(s->tracker);
    pthread_mutex_unlock(&s->device->lock);
    return wanted;
}

static vks_status no_room(vks_swapchain *s, vks_wanted wanted)
{
    static const char *const what[] = {"nothing", "an image to be acquired again", "a submission to run",
                                       "a present fence", "a present of the new swapchain"};
    return vks_fail(VKS_TIMEOUT, 0, "%llu replaced swapchains may still be shown, %u are allowed: waited for %s",
                    (unsigned long long)count(s).retired, s->info.retired_limit, what[wanted.kind]);
}

/* Gives up the oldest retired generation without proof. The current generation is out of date, so
 * that no proof can follow and nothing that was presented before it is shown any more. */
static bool give_up_oldest(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    bool gone = vks_tracker_give_up(s->tracker);
    s->counts.given_up += gone;
    vks_apply_decisions(s, false);
    pthread_mutex_unlock(&s->device->lock);
    vks_destroy_retired(s);
    return gone;
}

/* Waits once for room for one more retired generation. */
static vks_status make_room(vks_swapchain *s, uint64_t until)
{
    vks_wanted wanted = next_wait(s, false);
    bool is_dead_end =
        s->current->is_out_of_date && (wanted.kind == VKS_WANTS_IMAGE || wanted.kind == VKS_WANTS_PRESENT);
    if (is_dead_end && give_up_oldest(s))
        return VKS_OK;
    if (is_dead_end) /* a submission still uses its images */
        wanted = (vks_wanted){VKS_WANTS_SERIAL, s->device->submitted};
    vks_status status = vks_now() >= until ? VKS_TIMEOUT : wait_step(s, wanted, until);
    return status == VKS_TIMEOUT ? no_room(s, wanted) : status;
}

/* A6: waits until one more generation may be retired. Callers after the deadline do not wait: they
 * continue with the current generation, whose presents bring the proof. */
static vks_status wait_for_room(vks_swapchain *s, uint64_t deadline)
{
    uint64_t start = vks_now();
    while (count(s).retired >= s->info.retired_limit) {
        vks_collect(s);
        if (count(s).retired < s->info.retired_limit)
            break;
        if (!s->proof_until) {
            s->proof_until = vks_now() + s->info.proof_deadline;
            pthread_mutex_lock(&s->device->lock);
            s->counts.resize_waits++;
            pthread_mutex_unlock(&s->device->lock);
        }
        vks_status status = make_room(s, s->proof_until < deadline ? s->proof_until : deadline);
        if (status)
            return status;
        if (vks_now() - start > SLICE_NS)
            return VKS_INTERRUPTED; /* the caller handles signals */
    }
    s->proof_until = 0;
    return VKS_OK;
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

vks_status vks_finish_presents(vks_swapchain *s, uint64_t deadline)
{
    bool by_fences = s->vulkan.policy == VKS_PRESENTS_BY_FENCES;
    struct vks_finishing *f = &s->finishing;
    uint64_t began = vks_now();
    vks_status status = VKS_OK;
    while (!status && vks_now() < f->give_up_at && (by_fences || !s->is_lost)) {
        vks_collect(s);
        vks_wanted wanted = next_wait(s, true);
        if (!can_complete(s, wanted))
            break;
        uint64_t now_left = count(s).presents;
        if (now_left < f->left && !by_fences)
            f->give_up_at = vks_now() + LAST_PROOF_NS < deadline ? vks_now() + LAST_PROOF_NS : deadline;
        f->left = now_left;
        status = wait_step(s, wanted, f->give_up_at);
        if (!status && vks_interrupt_interval() && vks_now() - began >= vks_interrupt_interval())
            return VKS_INTERRUPTED;
    }
    return status == VKS_INTERRUPTED ? status : VKS_OK;
}

/* ---- replacing ---- */

/* A14: returns the surface's extent, or the wanted one where the surface leaves the choice to the
 * swapchain. */
static VkExtent2D choose_extent(const vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, uint64_t wanted)
{
    VkExtent2D extent = can->currentExtent;
    if (extent.width != UINT32_MAX && !s->vulkan.sizes_itself)
        return extent;
    extent = (VkExtent2D){(uint32_t)(wanted >> 32), (uint32_t)wanted};
    if (!extent.width || !extent.height)
        return (VkExtent2D){0, 0};
    VkExtent2D low = can->minImageExtent, high = can->maxImageExtent;
    extent.width = extent.width < low.width ? low.width : extent.width > high.width ? high.width : extent.width;
    extent.height = extent.height < low.height ? low.height : extent.height > high.height ? high.height : extent.height;
    return extent;
}

/* Retires the current generation and makes `made` (may be NULL) current. */
static vks_status replace(vks_swapchain *s, vks_generation *made, uint64_t last_use)
{
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_tracker_swapchain(s->tracker, made ? made->handle : 0, made ? made->n : 0, false, last_use);
    if (!status && made) {
        made->next = s->generations;
        s->generations = made;
        made->number = ++s->newest_generation;
    }
    if (!status) {
        s->counts.recreated += s->newest_generation > 1 && made != NULL;
        s->current = made;
    }
    vks_apply_decisions(s, false);
    uint64_t alive = 0;
    for (vks_generation *generation = s->generations; generation; generation = generation->next)
        alive++;
    if (alive > s->counts.most_alive)
        s->counts.most_alive = alive;
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

/* Wait for the present fence of frames that have run, so that the driver can reuse their memory. */
#define FENCE_WAIT_NS UINT64_C(200000)

/* Returns whether the current generation is unused: its frames have run, and its presents are
 * complete. */
static bool is_unused(vks_swapchain *s, uint64_t last_use)
{
    vks_device *device = s->device;
    uint64_t until = vks_now() + FENCE_WAIT_NS;
    vks_wanted wanted;
    do {
        vks_collect(s);
        pthread_mutex_lock(&device->lock);
        bool is_used = s->pins || device->backend->completed(device) < last_use;
        wanted = vks_tracker_unproven(s->tracker);
        pthread_mutex_unlock(&device->lock);
        if (is_used)
            return false;
    } while (wanted.kind == VKS_WANTS_FENCE && vks_now() < until && !wait_fence(s, wanted.value, until));
    return wanted.kind == VKS_WANTS_NOTHING;
}

/* Prepares for the next generation. Destroys an unused current generation first, so that the driver
 * can reuse its memory: when it is known to be unused by now, and, for one that was never presented
 * (A4), when the limit of retired ones is reached. Any other is retired by vkCreateSwapchainKHR of
 * the next one. */
static vks_status retire_current(vks_swapchain *s, uint64_t deadline, uint64_t *last_use)
{
    vks_generation *old = s->current;
    vks_status status = VKS_OK;
    if (!old)
        return VKS_OK;
    if (old->was_presented && (status = wait_for_room(s, deadline)))
        return status;
    if ((status = give_up_frames(s, old, deadline, last_use)))
        return status;
    bool has_room = old->was_presented || count(s).retired < s->info.retired_limit;
    if (has_room && !is_unused(s, *last_use))
        return VKS_OK;
    uint64_t limit = vks_now() + s->info.proof_deadline;
    do
        status = vks_device_wait_serial(s->device, *last_use, limit);
    while (status == VKS_INTERRUPTED && vks_now() < limit);
    if (!status && !(status = replace(s, NULL, *last_use)))
        vks_collect(s);
    pthread_mutex_lock(&s->device->lock);
    vks_wait_for_pins(s); /* the surface is in use until the swapchain is destroyed */
    pthread_mutex_unlock(&s->device->lock);
    vks_destroy_retired(s);
    return status;
}

vks_status vks_swapchain_configure(vks_swapchain *s, uint64_t deadline)
{
    uint64_t wanted = atomic_load(&s->wanted), last_use = 0;
    VkSurfaceCapabilitiesKHR can;
    vks_status status = vks_driver_result(s,
                                          s->vk.GetCapabilities((VkPhysicalDevice)(uintptr_t)s->vulkan.physical_device,
                                                                (VkSurfaceKHR)(uintptr_t)s->vulkan.surface, &can),
                                          "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
    if (status)
        return status;
    VkExtent2D extent = choose_extent(s, &can, wanted);
    if (!extent.width || !extent.height || !can.maxImageExtent.width || !can.maxImageExtent.height)
        return VKS_HIDDEN;
    vks_generation *made = NULL;
    bool was_suboptimal = s->current && s->current->is_suboptimal && s->current->width == extent.width &&
                          s->current->height == extent.height && s->made_for == wanted;
    if ((status = retire_current(s, deadline, &last_use)))
        return status;
    status = vks_generation_create(s, &can, extent, s->current, &made);
    if (!status)
        made->stays_suboptimal = was_suboptimal; /* recreating it each frame would not help */
    vks_status kept = replace(s, made, last_use);
    if (!status && (status = kept))
        vks_generation_destroy(s, made);
    if (!status) {
        s->made_for = wanted;
        s->is_stale = false;
    }
    vks_collect(s); /* destroys a swapchain that was never presented (A4) */
    return status;
}
