/* retire.c: retires the current generation, so that the next one can replace it. Caller holds
 * swapchain->lock.
 *
 * The tracker decides when old swapchains are destroyed (tracker.h). ANGLE's document does not
 * bound their number during a resize; here it is `retired_limit`. Beyond it the next replacement
 * waits for proof, with a deadline. Without proof the window keeps the current swapchain for as
 * long as that gives images, and the next acquire tries again. When it gives none, the oldest
 * retired swapchain is destroyed without proof, and counted. No function waits for the device to be
 * idle, because that proves nothing about a presentation engine (A17). */
#include "swapchain_state.h"

#define SLICE_NS UINT64_C(20000000)

/* ---- the frames of the old generation ---- */

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
    vks_track_semaphore(s, image->acquire_semaphore, frame->waited, false);
    for (uint32_t i = 0; i < frame->n_rendered; i++)
        vks_track_semaphore(s, frame->rendered[i], last, true);
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
        if (!status)
            vks_image_end_use(image);
        uint64_t last = image->surface ? image->surface->last_serial : image->frame.waited;
        if (last > *last_use)
            *last_use = last;
    }
    vks_device_end_present(s->device);
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

/* ---- room for one more ---- */

static vks_status no_room(vks_swapchain *s, vks_wanted wanted)
{
    static const char *const what[] = {"nothing", "an image to be acquired again", "a submission to run",
                                       "a present fence", "a present of the new swapchain"};
    return vks_fail(VKS_TIMEOUT, 0, "%llu replaced swapchains may still be shown, %u are allowed: waited for %s",
                    (unsigned long long)vks_proof_counts(s).retired, s->info.retired_limit, what[wanted.kind]);
}

/* Gives up the oldest retired generation without proof. The current generation is out of date, so
 * that no proof can follow and nothing that was presented before it is shown any more. */
static bool give_up_oldest(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    bool gone = vks_tracker_give_up(s->tracker);
    s->counts.given_up += gone;
    vks_apply_decisions(s);
    pthread_mutex_unlock(&s->device->lock);
    vks_destroy_retired(s);
    return gone;
}

/* Waits once for room for one more retired generation. */
static vks_status make_room(vks_swapchain *s, uint64_t until)
{
    vks_wanted wanted = vks_proof_next(s, false);
    bool is_dead_end =
        s->current->is_out_of_date && (wanted.kind == VKS_WANTS_IMAGE || wanted.kind == VKS_WANTS_PRESENT);
    if (is_dead_end && give_up_oldest(s))
        return VKS_OK;
    if (is_dead_end) /* a submission still uses its images */
        wanted = (vks_wanted){VKS_WANTS_SERIAL, s->device->submitted};
    vks_status status = vks_now() >= until ? VKS_TIMEOUT : vks_proof_wait(s, wanted, until);
    return status == VKS_TIMEOUT ? no_room(s, wanted) : status;
}

/* A6: waits until one more generation may be retired. Callers after the deadline do not wait: they
 * continue with the current generation, whose presents bring the proof. */
static vks_status wait_for_room(vks_swapchain *s, uint64_t deadline)
{
    uint64_t start = vks_now();
    while (vks_proof_counts(s).retired >= s->info.retired_limit) {
        vks_collect(s);
        if (vks_proof_counts(s).retired < s->info.retired_limit)
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

/* ---- the replacement ---- */

vks_status vks_replace_current(vks_swapchain *s, vks_generation *made, uint64_t last_use)
{
    vks_proof_give_up(s);
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
    vks_apply_decisions(s);
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
    } while (wanted.kind == VKS_WANTS_FENCE && vks_now() < until && !vks_proof_wait_fence(s, wanted.value, until));
    return wanted.kind == VKS_WANTS_NOTHING;
}

/* Destroys the generations that the tracker has decided to destroy. The surface is in use until
 * then: it may have no other VkSwapchainKHR. VKS_TIMEOUT: a thread records. */
static vks_status free_surface(vks_swapchain *s)
{
    for (;;) {
        pthread_mutex_lock(&s->device->lock);
        bool is_free = !s->to_destroy;
        vks_status status = is_free ? VKS_OK : vks_wait_for_pins(s);
        pthread_mutex_unlock(&s->device->lock);
        if (is_free || status)
            return status;
        vks_destroy_retired(s);
    }
}

/* Destroys an unused current generation first, so that the driver can reuse its memory: when it is
 * known to be unused by now, and, for one that was never presented (A4), when the limit of retired
 * ones is reached. Any other is retired by vkCreateSwapchainKHR of the next one. */
vks_status vks_retire_current(vks_swapchain *s, uint64_t deadline, uint64_t *last_use)
{
    vks_generation *old = s->current;
    vks_status status = VKS_OK;
    if (!old)
        return free_surface(s);
    if (old->was_presented && (status = wait_for_room(s, deadline)))
        return status;
    if ((status = give_up_frames(s, old, deadline, last_use)))
        return status;
    bool has_room = old->was_presented || vks_proof_counts(s).retired < s->info.retired_limit;
    if (has_room && !is_unused(s, *last_use))
        return VKS_OK;
    uint64_t limit = vks_now() + s->info.proof_deadline;
    do
        status = vks_device_wait_serial(s->device, *last_use, limit);
    while (status == VKS_INTERRUPTED && vks_now() < limit);
    if (!status && !(status = vks_replace_current(s, NULL, *last_use)))
        vks_collect(s);
    return status ? status : free_surface(s);
}
