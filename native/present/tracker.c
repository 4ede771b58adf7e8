/* tracker.c: events, and the decisions that follow from them under both policies. */
#include "tracker_state.h"

#include "os/platform.h"

#define QUARANTINE_PROBES 16u /* fences */

static vks_status no_memory(void) { return vks_fail(VKS_NO_MEMORY, 0, "out of memory for the present tracker"); }

/* Call when the present's wait is over and it is in no list. */
static void finish(vks_tracker *tracker, uint32_t index)
{
    const present *over = &tracker->presents[index];
    for (uint32_t i = 0; i < over->count; i++)
        decide(tracker, VKS_RECYCLE_SEMAPHORE, over->semaphores[i]);
    if (over->fence)
        decide(tracker, VKS_RESET_FENCE, over->fence);
    vks_tracker_free_present(tracker, index);
}

/* ---- by acquires ---- */

/* The presents of the carried swapchains precede the proven present, so they are complete too. */
static void finish_carried(vks_tracker *tracker, swapchain_list *carried)
{
    for (uint32_t i = carried->first; i != NONE; i = tracker->swapchains[i].next) {
        present_list *presents = &tracker->swapchains[i].presents;
        while (presents->first != NONE) {
            uint32_t over = presents->first;
            take_out(tracker, presents, over);
            finish(tracker, over);
        }
    }
    join(tracker, &tracker->draining, carried);
}

static void clean_front(vks_tracker *tracker)
{
    while (tracker->queue.first != NONE && tracker->presents[tracker->queue.first].serial <= tracker->completed) {
        uint32_t front = tracker->queue.first;
        take_out(tracker, &tracker->queue, front);
        finish_carried(tracker, &tracker->presents[front].carried);
        finish(tracker, front);
    }
}

/* A3. Presents without a serial belong to the current swapchain, and all others precede them. So
 * every present behind a front without a serial was made after the carried swapchains were retired,
 * and its proof is theirs too. */
static void move_to_back(vks_tracker *tracker)
{
    uint32_t front = tracker->queue.first;
    take_out(tracker, &tracker->queue, front);
    join(tracker, &tracker->presents[tracker->queue.first].carried, &tracker->presents[front].carried);
    append(tracker, &tracker->queue, front);
    tracker->moved++;
}

static void collect_queue(vks_tracker *tracker)
{
    clean_front(tracker);
    if (tracker->current == NONE)
        return;
    uint32_t images = tracker->swapchains[tracker->current].image_count;
    for (uint32_t moves = 0; moves < images && tracker->queue.count > 2 * images; moves++) {
        if (tracker->presents[tracker->queue.first].serial != UNKNOWN)
            break;
        move_to_back(tracker);
        clean_front(tracker);
    }
}

/* The swapchain's presents without a serial never get one, because no acquire follows. They, and
 * the swapchains that they carried, wait for the next swapchain's first present (A5). */
static void retire_by_acquires(vks_tracker *tracker, uint32_t old)
{
    tracked_swapchain *retired = &tracker->swapchains[old];
    uint32_t last = NONE; /* its newest present with a serial */
    for (uint32_t i = tracker->queue.first, next; i != NONE; i = next) {
        present *item = &tracker->presents[i];
        next = item->next;
        if (item->serial == UNKNOWN) {
            take_out(tracker, &tracker->queue, i);
            join(tracker, &tracker->pending, &item->carried);
            append(tracker, &retired->presents, i);
        } else if (item->tracked_swapchain == old) {
            last = i;
        }
    }
    if (retired->presents.count)
        join_one(tracker, &tracker->pending, old);
    else if (last != NONE) /* all its presents have a serial, as in shared-present mode; no acquire is needed */
        join_one(tracker, &tracker->presents[last].carried, old);
    else
        join_one(tracker, &tracker->draining, old);
}

/* ---- by fences ---- */

typedef struct probe_context {
    uint64_t now;
    vks_fence_probe probe;
    void *user;
} probe_context;

/* Probes from the oldest present forward, or from the newest backward, up to the first incomplete
 * one. */
static void probe_presents(vks_tracker *tracker, tracked_swapchain *of, bool newest_first,
                           const probe_context *probe_context)
{
    while (of->presents.first != NONE) {
        uint32_t index = newest_first ? of->presents.last : of->presents.first;
        const present *item = &tracker->presents[index];
        bool is_over = probe_context->probe(probe_context->user, item->fence);
        if (!is_over && (probe_context->now < item->time || probe_context->now - item->time < tracker->fence_deadline))
            return;
        take_out(tracker, &of->presents, index);
        if (is_over) {
            finish(tracker, index);
        } else { /* A16 */
            append(tracker, &tracker->quarantine, index);
            of->quarantined++;
        }
    }
}

/* Probes a few in turn, because a driver that never signals fences lets the quarantine grow. */
static void probe_quarantine(vks_tracker *tracker, const probe_context *probe_context)
{
    uint32_t count = tracker->quarantine.count < QUARANTINE_PROBES ? tracker->quarantine.count : QUARANTINE_PROBES;
    while (count--) {
        uint32_t index = tracker->quarantine.first;
        const present *item = &tracker->presents[index];
        take_out(tracker, &tracker->quarantine, index);
        if (probe_context->probe(probe_context->user, item->fence)) {
            tracker->swapchains[item->tracked_swapchain].quarantined--;
            finish(tracker, index);
        } else {
            append(tracker, &tracker->quarantine, index);
        }
    }
}

static void collect_fences(vks_tracker *tracker, const probe_context *probe_context)
{
    probe_quarantine(tracker, probe_context);
    if (tracker->current != NONE)
        probe_presents(tracker, &tracker->swapchains[tracker->current], false, probe_context);
    for (uint32_t i = tracker->draining.first; i != NONE; i = tracker->swapchains[i].next)
        probe_presents(tracker, &tracker->swapchains[i], true, probe_context); /* A7 */
}

/* ---- both policies ---- */

static void collect_draining(vks_tracker *tracker)
{
    swapchain_list left = tracker->draining;
    tracker->draining = no_swapchains;
    for (uint32_t i = left.first, next; i != NONE; i = next) {
        const tracked_swapchain *item = &tracker->swapchains[i];
        next = item->next;
        if (item->presents.count || item->quarantined || item->last_use > tracker->completed) {
            join_one(tracker, &tracker->draining, i);
        } else {
            decide(tracker, VKS_DESTROY_SWAPCHAIN, item->handle);
            vks_tracker_free_swapchain(tracker, i);
        }
    }
}

static void collect_waiting(vks_tracker *tracker)
{
    for (; tracker->waiting_first < tracker->waiting_end; tracker->waiting_first++) {
        const waiting *item = &tracker->waiting[tracker->waiting_first & (tracker->waiting_capacity - 1)];
        if (item->serial > tracker->completed)
            break;
        decide(tracker, item->is_discarded ? VKS_DESTROY_SEMAPHORE : VKS_RECYCLE_SEMAPHORE, item->semaphore);
    }
}

vks_status vks_tracker_collect(vks_tracker *tracker, uint64_t completed, uint64_t now, vks_fence_probe probe,
                               void *user)
{
    bool by_fences = tracker->policy == VKS_PRESENTS_BY_FENCES;
    if (by_fences && !probe)
        return vks_fail(VKS_BAD_VALUE, 0, "a tracker by fences cannot collect without a fence probe");
    if (completed == UNKNOWN)
        completed--;
    if (tracker->completed < completed)
        tracker->completed = completed;
    if (by_fences)
        collect_fences(tracker, &(probe_context){now, probe, user});
    else
        collect_queue(tracker);
    collect_draining(tracker);
    collect_waiting(tracker);
    return VKS_OK;
}

/* ---- events ---- */

static vks_status check_swapchain(const vks_tracker *tracker, uint64_t swapchain, uint32_t image_count)
{
    if (swapchain && (image_count < 1 || image_count > VKS_MAX_IMAGES))
        return vks_fail(VKS_BAD_VALUE, 0, "image_count is %u, allowed is 1 to %u", image_count, VKS_MAX_IMAGES);
    for (uint32_t i = 0; swapchain && i < tracker->swapchain_end; i++)
        if (tracker->swapchains[i].handle == swapchain)
            return vks_fail(VKS_BAD_VALUE, 0, "the tracker has the swapchain 0x%llx already",
                            (unsigned long long)swapchain);
    return VKS_OK;
}

static uint32_t add_swapchain(vks_tracker *tracker, uint64_t swapchain, uint32_t image_count, bool is_shared)
{
    uint32_t index = vks_tracker_new_swapchain(tracker);
    tracker->swapchains[index] = (tracked_swapchain){
        .handle = swapchain, .presents = no_presents, .image_count = image_count, .next = NONE, .is_shared = is_shared};
    for (uint32_t i = 0; i < image_count; i++)
        tracker->unproven[i] = NONE;
    return index;
}

vks_status vks_tracker_swapchain(vks_tracker *tracker, uint64_t swapchain, uint32_t image_count, bool is_shared,
                                 uint64_t last_use)
{
    vks_status status = check_swapchain(tracker, swapchain, image_count);
    if (status)
        return status;
    if (swapchain &&
        !(vks_tracker_reserve_swapchain(tracker, image_count) && vks_tracker_reserve_decisions(tracker, 1)))
        return no_memory();
    uint32_t old = tracker->current;
    if (old != NONE) {
        tracker->swapchains[old].last_use = last_use;
        tracker->swapchains[old].retired = ++tracker->retirements;
        if (tracker->policy == VKS_PRESENTS_BY_ACQUIRES)
            retire_by_acquires(tracker, old);
        else
            join_one(tracker, &tracker->draining, old);
    }
    tracker->shared_serial = UNKNOWN;
    tracker->current = swapchain ? add_swapchain(tracker, swapchain, image_count, is_shared) : NONE;
    return VKS_OK;
}

static vks_status check_image(const vks_tracker *tracker, uint32_t image)
{
    if (tracker->current == NONE)
        return vks_fail(VKS_BAD_VALUE, 0, "there is no current swapchain for image %u", image);
    uint32_t count = tracker->swapchains[tracker->current].image_count;
    return image < count ? VKS_OK : vks_fail(VKS_BAD_VALUE, 0, "image is %u, the swapchain has %u", image, count);
}

vks_status vks_tracker_waited(vks_tracker *tracker, uint32_t image, uint64_t serial)
{
    if (tracker->policy == VKS_PRESENTS_BY_FENCES)
        return VKS_OK;
    vks_status status = check_image(tracker, image);
    if (status)
        return status;
    if (serial == UNKNOWN)
        return vks_fail(VKS_BAD_VALUE, 0, "the serial is 2**64 - 1, which no submission has");
    uint32_t i = tracker->unproven[image];
    if (i == NONE && tracker->swapchains[tracker->current].is_shared)
        tracker->shared_serial = serial;
    for (; i != NONE; i = tracker->presents[i].older)
        tracker->presents[i].serial = serial;
    tracker->unproven[image] = NONE;
    return VKS_OK;
}

static vks_status check_present(const vks_tracker *tracker, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                uint64_t fence)
{
    vks_status status = check_image(tracker, image);
    if (status)
        return status;
    if (n > VKS_FRAME_SEMAPHORES)
        return vks_fail(VKS_BAD_VALUE, 0, "a present waits for %u semaphores, allowed are %u", n, VKS_FRAME_SEMAPHORES);
    if (n && tracker->swapchains[tracker->current].is_shared)
        return vks_fail(VKS_BAD_VALUE, 0, "a present in shared-present mode waits for no semaphores, here for %u", n);
    for (uint32_t i = 0; i < n; i++)
        if (!semaphores[i])
            return vks_fail(VKS_BAD_VALUE, 0, "semaphore %u of %u is 0", i, n);
    if (!fence == (tracker->policy == VKS_PRESENTS_BY_FENCES))
        return vks_fail(VKS_BAD_VALUE, 0, "a present signals %s, here it is 0x%llx",
                        fence ? "no fence in a tracker by acquires" : "a fence in a tracker by fences",
                        (unsigned long long)fence);
    return VKS_OK;
}

vks_status vks_tracker_reserve(vks_tracker *tracker, uint32_t semaphores)
{
    return vks_tracker_reserve_present(tracker) && vks_tracker_reserve_waiting(tracker, semaphores) &&
                   vks_tracker_reserve_decisions(tracker, VKS_FRAME_SEMAPHORES + 1 + semaphores)
               ? VKS_OK
               : no_memory();
}

static void enqueue_by_acquires(vks_tracker *tracker, uint32_t index)
{
    present *item = &tracker->presents[index];
    uint32_t *unproven = &tracker->unproven[item->image];
    item->serial = tracker->shared_serial;
    tracker->shared_serial = UNKNOWN;
    if (item->serial == UNKNOWN) {
        item->older = *unproven;
        *unproven = index;
    }
    join(tracker, &item->carried, &tracker->pending);
    append(tracker, &tracker->queue, index);
}

vks_status vks_tracker_presented(vks_tracker *tracker, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                 uint64_t fence, uint64_t now)
{
    vks_status status = check_present(tracker, image, semaphores, n, fence);
    if (status)
        return status;
    if (!vks_tracker_reserve_present(tracker) || !vks_tracker_reserve_decisions(tracker, n + 1))
        return no_memory();
    uint32_t index = vks_tracker_new_present(tracker);
    present *item = &tracker->presents[index];
    item->fence = fence;
    item->time = now;
    item->count = n;
    item->image = image;
    item->tracked_swapchain = tracker->current;
    item->older = NONE;
    item->carried = no_swapchains;
    for (uint32_t i = 0; i < n; i++)
        item->semaphores[i] = semaphores[i];
    tracker->n_semaphores += n;
    tracker->n_fences += fence != 0;
    if (tracker->policy == VKS_PRESENTS_BY_ACQUIRES)
        enqueue_by_acquires(tracker, index);
    else
        append(tracker, &tracker->swapchains[tracker->current].presents, index);
    return VKS_OK;
}

vks_status vks_tracker_semaphore(vks_tracker *tracker, uint64_t semaphore, uint64_t serial, bool is_discarded)
{
    if (!semaphore)
        return vks_fail(VKS_BAD_VALUE, 0, "the semaphore is 0");
    if (!vks_tracker_reserve_waiting(tracker, 1) || !vks_tracker_reserve_decisions(tracker, 1))
        return no_memory();
    uint32_t mask = tracker->waiting_capacity - 1;
    uint64_t at = tracker->waiting_end++;
    for (; at > tracker->waiting_first && tracker->waiting[(at - 1) & mask].serial > serial; at--)
        tracker->waiting[at & mask] = tracker->waiting[(at - 1) & mask];
    tracker->waiting[at & mask] = (waiting){semaphore, serial, is_discarded};
    tracker->n_semaphores++;
    return VKS_OK;
}
