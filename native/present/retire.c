/* retire.c: replacing a VkSwapchainKHR, and the proof that old ones are over. Under swapchain->lock.
 *
 * Old swapchains go when the history says so (history.h). What ANGLE's document leaves open is how many there may be
 * while a window is being resized: here at most `retired_limit`. Past it the next replacement waits for proof, with a
 * deadline. When none came the window keeps the swapchain that it has for as long as that gives images, and the next
 * acquire looks again; when it gives none, the oldest goes without proof, and is counted. Nothing ever waits for the
 * device to idle: that proves nothing of a presentation engine (A17).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "present.h"

#define SLICE_NS UINT64_C(20000000)
#define NAP_US 500u

/* ---- carrying out decisions ---- */

#define PINS_NS UINT64_C(1000000000)

/* False: whoever records was killed, or interrupted at a bad moment. */
bool vks_wait_for_pins(vks_swapchain *s)
{
    uint64_t limit = vks_now() + PINS_NS;
    while (s->pins && vks_now() < limit) {
        pthread_mutex_unlock(&s->device->lock);
        usleep(100);
        pthread_mutex_lock(&s->device->lock);
    }
    return s->pins == 0;
}

void vks_bury_chains(vks_swapchain *s)
{
    for (;;) {
        pthread_mutex_lock(&s->device->lock);
        vks_chain *chain = s->pins ? NULL : s->dead;
        s->dead = s->pins ? s->dead : NULL;
        pthread_mutex_unlock(&s->device->lock);
        if (!chain)
            return;
        while (chain) {
            vks_chain *next = chain->next;
            vks_chain_destroy(s, chain);
            chain = next;
        }
    }
}

void vks_look_through(vks_swapchain *s)
{
    vks_history_collect(s->history, s->device->backend->completed(s->device), vks_now(), vks_fence_is_signalled, s);
    vks_follow_decisions(s);
}

void vks_collect(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    vks_look_through(s);
    bool dead = s->dead != NULL;
    pthread_mutex_unlock(&s->device->lock);
    if (dead)
        vks_bury_chains(s);
}

/* ---- a batch of our own ---- */

vks_status vks_submit_frame(vks_swapchain *s, vks_chain_image *image, uint64_t signal)
{
    vks_device *device = s->device;
    vks_presentable *frame = &image->frame;
    bool anew = frame->n_rendered && signal == frame->rendered[frame->n_rendered - 1]; /* a binary one: waited for */
    vks_point wait = {anew ? signal : frame->acquired, 0}, signalled = {signal, 0};
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

/* ---- giving frames of an old chain up ---- */

/* Decided on when `serial` has run. */
static void hand_in(vks_swapchain *s, uint64_t semaphore, uint64_t serial, bool is_spoiled)
{
    if (semaphore && vks_history_semaphore(s->history, semaphore, serial, is_spoiled))
        vks_spoil_semaphore(s, semaphore); /* no memory to remember when */
}

void vks_part_with_engine(vks_swapchain *s, vks_chain_image *image, uint64_t serial)
{
    for (int i = 0; i < 2; i++)
        hand_in(s, image->engine[i], serial, true);
    memset(image->engine, 0, sizeof image->engine);
}

/* Its semaphores go back to the pool when nobody uses them any more. Under the device's lock. If it fails the frame is
 * as it was. */
static vks_status give_up_frame(vks_swapchain *s, vks_chain *chain, vks_chain_image *image)
{
    vks_presentable *frame = &image->frame;
    vks_status status = VKS_OK;
    /* What the acquire signals must be waited for (A19), and an engine's submissions be left behind. */
    if ((frame->acquired || image->engine[0]) && (status = vks_submit_frame(s, image, 0)))
        return status;
    uint64_t last = image->surface ? image->surface->last_serial : frame->waited;
    if (image->engine[0])
        last = s->device->submitted;
    if (frame->waited && (status = vks_history_waited(s->history, (uint32_t)(image - chain->images), frame->waited)))
        return status;
    if (image->surface)
        vks_surface_set_accessible(image->surface, false);
    hand_in(s, image->acquire_semaphore, frame->waited, false);
    for (uint32_t i = 0; i < frame->n_rendered; i++)
        hand_in(s, frame->rendered[i], last, true);
    vks_part_with_engine(s, image, last);
    vks_put_semaphore(s, frame->spare);
    image->acquire_semaphore = frame->spare = 0;
    frame->n_rendered = 0;
    image->by_engine = image->is_returned = false;
    image->state = VKS_IMAGE_AWAY;
    return VKS_OK;
}

/* The last submission that touched an image of the chain, whose frames that are out are given up. */
static vks_status give_up_frames(vks_swapchain *s, vks_chain *chain, uint64_t deadline, uint64_t *last_use)
{
    *last_use = 0;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_device_begin_present(s->device, deadline); /* for the queue */
    if (status) {
        pthread_mutex_unlock(&s->device->lock);
        return status;
    }
    for (uint32_t i = 0; i < chain->n && !status; i++) {
        vks_chain_image *image = &chain->images[i];
        if (image->state != VKS_IMAGE_AWAY || image->frame.spare)
            status = give_up_frame(s, chain, image);
        uint64_t last = image->surface ? image->surface->last_serial : image->frame.waited;
        if (last > *last_use)
            *last_use = last;
    }
    s->counts.acquired = s->shelved = 0;
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
    return code == VK_TIMEOUT ? VKS_TIMEOUT : vks_present_result(s, code, "vkWaitForFences");
}

/* Acquires an image of the current chain, which is about to be replaced, with a fence in place of a semaphore: when
 * that is signalled the presentation engine has done with what was presented of that image before. The image goes on
 * the shelf: should the replacement fail, it is the next frame. */
static vks_status acquire_for_proof(vks_swapchain *s, uint64_t deadline)
{
    vks_chain *chain = s->current;
    uint64_t fence;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_take_fence(s, &fence);
    pthread_mutex_unlock(&s->device->lock);
    if (status)
        return status;
    uint32_t index = 0;
    VkResult code =
        s->vk.AcquireNextImageKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)chain->handle, vks_slice(deadline, SLICE_NS),
                                  VK_NULL_HANDLE, (VkFence)(uintptr_t)fence, &index);
    bool got = code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR;
    while (got && (status = wait_fence(s, fence, vks_now() + SLICE_NS)) == VKS_TIMEOUT && vks_now() < deadline)
        ;
    pthread_mutex_lock(&s->device->lock);
    if (got) {
        chain->images[index].state = VKS_IMAGE_SHELVED;
        chain->images[index].acquire_semaphore = 0;
        chain->images[index].frame.acquired = chain->images[index].frame.waited = 0;
        s->shelved++;
    }
    if (got && !status) {
        vks_reset_fence(s, fence);
        status = vks_history_waited(s->history, index, 0);
    } else if (got) {
        vks_leave_fence(s, fence);
    } else {
        vks_put_fence(s, fence); /* untouched */
    }
    pthread_mutex_unlock(&s->device->lock);
    if (code == VK_TIMEOUT || code == VK_NOT_READY) {
        usleep(NAP_US); /* some drivers do not wait */
        return VKS_OK;
    }
    if (code == VK_ERROR_OUT_OF_DATE_KHR) {
        chain->is_out_of_date = true;
        return VKS_OK;
    }
    return got ? status : vks_present_result(s, code, "vkAcquireNextImageKHR");
}

/* An image that is out, or on the shelf, was acquired again already: where nothing has waited for that acquire, a batch
 * does. *any: there was one, and what is wanted may be another thing by now. */
static vks_status prove_by_acquired(vks_swapchain *s, uint64_t deadline, bool *any)
{
    vks_chain *chain = s->current;
    *any = false;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_device_begin_present(s->device, deadline); /* for the queue */
    bool has_queue = !status;
    for (uint32_t i = 0; !status && i < chain->n; i++) {
        vks_chain_image *image = &chain->images[i];
        if (image->state == VKS_IMAGE_AWAY || !image->frame.acquired)
            continue;
        *any = true;
        if (!(status = vks_submit_frame(s, image, 0)))
            status = vks_history_waited(s->history, i, image->frame.waited);
    }
    if (has_queue)
        vks_device_end_present(s->device);
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

static vks_status seek_image(vks_swapchain *s, uint64_t deadline)
{
    bool any = false;
    vks_status status = s->shelved || s->counts.acquired ? prove_by_acquired(s, deadline, &any) : VKS_OK;
    return status || any ? status : acquire_for_proof(s, deadline);
}

/* One step towards what `wanted` names: VKS_OK: look again; VKS_TIMEOUT: there is no way to have it. */
static vks_status seek(vks_swapchain *s, vks_wanted wanted, uint64_t deadline)
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
        return s->current ? seek_image(s, deadline) : VKS_TIMEOUT;
    default:
        return VKS_TIMEOUT;
    }
}

static vks_history_statistics count(vks_swapchain *s)
{
    vks_history_statistics now;
    pthread_mutex_lock(&s->device->lock);
    vks_history_get_statistics(s->history, &now);
    pthread_mutex_unlock(&s->device->lock);
    return now;
}

static vks_wanted look(vks_swapchain *s, bool everything)
{
    pthread_mutex_lock(&s->device->lock);
    vks_wanted wanted = vks_history_wanted(s->history);
    if (everything && (wanted.kind == VKS_WANTS_NOTHING || wanted.kind == VKS_WANTS_PRESENT))
        wanted = vks_history_unproven(s->history);
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

/* Of a current chain that is out of date no proof can come, and nothing that was presented before it is shown any more:
 * the oldest goes without. */
static bool give_up_oldest(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    bool gone = vks_history_give_up(s->history);
    s->counts.given_up += gone;
    vks_follow_decisions(s);
    pthread_mutex_unlock(&s->device->lock);
    vks_bury_chains(s);
    return gone;
}

/* One step towards room for one more. */
static vks_status make_room(vks_swapchain *s, uint64_t until)
{
    vks_wanted wanted = look(s, false);
    bool is_dead_end =
        s->current->is_out_of_date && (wanted.kind == VKS_WANTS_IMAGE || wanted.kind == VKS_WANTS_PRESENT);
    if (is_dead_end && give_up_oldest(s))
        return VKS_OK;
    if (is_dead_end) /* somebody draws into its images still */
        wanted = (vks_wanted){VKS_WANTS_SERIAL, s->device->submitted};
    vks_status status = vks_now() >= until ? VKS_TIMEOUT : seek(s, wanted, until);
    return status == VKS_TIMEOUT ? no_room(s, wanted) : status;
}

/* A6: until one more may be retired. Those who come after the deadline do not wait any more: they go on with the
 * current chain, whose presents bring the proof. */
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
            return VKS_INTERRUPTED; /* the caller looks for signals */
    }
    s->proof_until = 0;
    return VKS_OK;
}

/* A window goes on showing what was presented last, and keeps that image: no proof of it comes while nothing more is
 * presented, so who closes waits for it only as long as a display may take. */
#define LAST_PROOF_NS UINT64_C(100000000)

/* On a lost device the fences alone: their waits end (see vks_device_drain), an acquire's may not. */
static bool may_come(const vks_swapchain *s, vks_wanted wanted)
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
    while (!status && vks_now() < f->patience && (by_fences || !s->is_lost)) {
        vks_collect(s);
        vks_wanted wanted = look(s, true);
        if (!may_come(s, wanted))
            break;
        uint64_t now_left = count(s).presents;
        if (now_left < f->left && !by_fences)
            f->patience = vks_now() + LAST_PROOF_NS < deadline ? vks_now() + LAST_PROOF_NS : deadline;
        f->left = now_left;
        status = seek(s, wanted, f->patience);
        if (!status && vks_interrupt_interval() && vks_now() - began >= vks_interrupt_interval())
            return VKS_INTERRUPTED;
    }
    return status == VKS_INTERRUPTED ? status : VKS_OK;
}

/* ---- replacing ---- */

/* A14: what the surface says, or, where it leaves it to us, what is wanted. */
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

/* The current chain is retired, with `made` (may be NULL) in its place. */
static vks_status replace(vks_swapchain *s, vks_chain *made, uint64_t last_use)
{
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_history_swapchain(s->history, made ? made->handle : 0, made ? made->n : 0, false, last_use);
    if (!status && made) {
        made->next = s->chains;
        s->chains = made;
        made->generation = ++s->generation;
    }
    if (!status) {
        s->counts.recreated += s->generation > 1 && made != NULL;
        s->current = made;
    }
    vks_follow_decisions(s);
    uint64_t alive = 0;
    for (vks_chain *chain = s->chains; chain; chain = chain->next)
        alive++;
    if (alive > s->counts.most_alive)
        s->counts.most_alive = alive;
    pthread_mutex_unlock(&s->device->lock);
    return status;
}

/* What a present fence of frames that have run is waited for: memory that the driver uses again is worth that much. */
#define MOMENT_NS UINT64_C(200000)

/* Whether nothing uses the current chain any more: its frames have run, and its presents are known to be over. */
static bool is_over(vks_swapchain *s, uint64_t last_use)
{
    vks_device *device = s->device;
    uint64_t until = vks_now() + MOMENT_NS;
    vks_wanted wanted;
    do {
        vks_collect(s);
        pthread_mutex_lock(&device->lock);
        bool is_used = s->pins || device->backend->completed(device) < last_use;
        wanted = vks_history_unproven(s->history);
        pthread_mutex_unlock(&device->lock);
        if (is_used)
            return false;
    } while (wanted.kind == VKS_WANTS_FENCE && vks_now() < until && !wait_fence(s, wanted.value, until));
    return wanted.kind == VKS_WANTS_NOTHING;
}

/* Before another chain is made. One that nothing uses goes beforehand, so that the driver has its memory for the next
 * one: where it can be known by now, and, of those that were never presented on (A4), where there may be no more than
 * there are. Any other is retired by the next one. */
static vks_status retire_current(vks_swapchain *s, uint64_t deadline, uint64_t *last_use)
{
    vks_chain *old = s->current;
    vks_status status = VKS_OK;
    if (!old)
        return VKS_OK;
    if (old->was_presented && (status = wait_for_room(s, deadline)))
        return status;
    if ((status = give_up_frames(s, old, deadline, last_use)))
        return status;
    bool has_room = old->was_presented || count(s).retired < s->info.retired_limit;
    if (has_room && !is_over(s, *last_use))
        return VKS_OK;
    uint64_t limit = vks_now() + s->info.proof_deadline;
    do
        status = vks_device_wait_serial(s->device, *last_use, limit);
    while (status == VKS_INTERRUPTED && vks_now() < limit);
    if (!status && !(status = replace(s, NULL, *last_use)))
        vks_collect(s);
    pthread_mutex_lock(&s->device->lock);
    vks_wait_for_pins(s); /* until it is gone the surface is in use */
    pthread_mutex_unlock(&s->device->lock);
    vks_bury_chains(s);
    return status;
}

vks_status vks_swapchain_configure(vks_swapchain *s, uint64_t deadline)
{
    uint64_t wanted = atomic_load(&s->wanted), last_use = 0;
    VkSurfaceCapabilitiesKHR can;
    vks_status status = vks_present_result(s,
                                           s->vk.GetCapabilities((VkPhysicalDevice)(uintptr_t)s->vulkan.physical_device,
                                                                 (VkSurfaceKHR)(uintptr_t)s->vulkan.surface, &can),
                                           "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
    if (status)
        return status;
    VkExtent2D extent = choose_extent(s, &can, wanted);
    if (!extent.width || !extent.height || !can.maxImageExtent.width || !can.maxImageExtent.height)
        return VKS_HIDDEN;
    vks_chain *made = NULL;
    bool was_suboptimal = s->current && s->current->is_suboptimal && s->current->width == extent.width &&
                          s->current->height == extent.height && s->made_for == wanted;
    if ((status = retire_current(s, deadline, &last_use)))
        return status;
    status = vks_chain_create(s, &can, extent, s->current, &made);
    if (!status)
        made->stays_so = was_suboptimal; /* making it anew each frame would not help */
    vks_status kept = replace(s, made, last_use);
    if (!status && (status = kept))
        vks_chain_destroy(s, made);
    if (!status) {
        s->made_for = wanted;
        s->is_stale = false;
    }
    vks_collect(s); /* what was never presented on goes at once (A4) */
    return status;
}
