/* tracker_queries.c: decisions, wait targets, statistics, and the end of the tracker. */
#include "tracker_state.h"

bool vks_tracker_next(vks_tracker *tracker, vks_decision *out)
{
    if (tracker->decision_first == tracker->decision_end)
        return false;
    *out = tracker->decisions[tracker->decision_first++ & (tracker->decision_capacity - 1)];
    return true;
}

/* ---- wait targets ---- */

/* By acquires every entry waits for the front. */
static vks_wanted wants_front(const vks_tracker *tracker)
{
    if (tracker->queue.first == NONE)
        return (vks_wanted){VKS_WANTS_NOTHING, 0};
    const present *front = &tracker->presents[tracker->queue.first];
    return front->serial == UNKNOWN ? (vks_wanted){VKS_WANTS_IMAGE, front->image}
                                    : (vks_wanted){VKS_WANTS_SERIAL, front->serial};
}

static vks_wanted wants_quarantined(const vks_tracker *tracker, uint32_t tracked_swapchain)
{
    uint32_t i = tracker->quarantine.first;
    while (i != NONE && tracker->presents[i].tracked_swapchain != tracked_swapchain)
        i = tracker->presents[i].next;
    return i == NONE ? (vks_wanted){VKS_WANTS_NOTHING, 0} : (vks_wanted){VKS_WANTS_FENCE, tracker->presents[i].fence};
}

static vks_wanted swapchain_wants(const vks_tracker *tracker, uint32_t index)
{
    const tracked_swapchain *of = &tracker->swapchains[index];
    if (contains(tracker, &tracker->pending, index))
        return (vks_wanted){VKS_WANTS_PRESENT, 0};
    if (!contains(tracker, &tracker->draining, index))
        return wants_front(tracker);
    if (of->presents.last != NONE)
        return (vks_wanted){VKS_WANTS_FENCE, tracker->presents[of->presents.last].fence};
    return of->quarantined ? wants_quarantined(tracker, index) : (vks_wanted){VKS_WANTS_SERIAL, of->last_use};
}

/* Only quarantined fences are left. */
static bool is_only_quarantined(const tracked_swapchain *of) { return !of->presents.count && of->quarantined; }

vks_wanted vks_tracker_wanted(const vks_tracker *tracker)
{
    uint32_t oldest = NONE;
    for (uint32_t i = 0; i < tracker->swapchain_end; i++) {
        const tracked_swapchain *of = &tracker->swapchains[i],
                                *best = &tracker->swapchains[oldest == NONE ? i : oldest];
        if (!of->handle || i == tracker->current)
            continue;
        if (oldest == NONE || (is_only_quarantined(of) == is_only_quarantined(best) ? of->retired < best->retired
                                                                                    : is_only_quarantined(best)))
            oldest = i;
    }
    return oldest == NONE ? (vks_wanted){VKS_WANTS_NOTHING, 0} : swapchain_wants(tracker, oldest);
}

vks_wanted vks_tracker_unproven(const vks_tracker *tracker)
{
    if (tracker->policy == VKS_PRESENTS_BY_ACQUIRES)
        return wants_front(tracker);
    if (tracker->current == NONE)
        return (vks_wanted){VKS_WANTS_NOTHING, 0};
    const tracked_swapchain *of = &tracker->swapchains[tracker->current];
    if (of->presents.first != NONE)
        return (vks_wanted){VKS_WANTS_FENCE, tracker->presents[of->presents.first].fence};
    return wants_quarantined(tracker, tracker->current);
}

void vks_tracker_get_statistics(const vks_tracker *tracker, vks_tracker_statistics *out)
{
    *out = (vks_tracker_statistics){
        .presents = tracker->n_presents,
        .semaphores = tracker->n_semaphores,
        .fences = tracker->n_fences,
        .retired = tracker->n_swapchains - (tracker->current != NONE),
        .quarantined = tracker->quarantine.count,
        .moved = tracker->moved,
    };
}

/* ---- giving up ---- */

static bool remove_from(vks_tracker *tracker, swapchain_list *list, uint32_t index)
{
    uint32_t before = NONE;
    for (uint32_t i = list->first; i != NONE && i != index; i = tracker->swapchains[i].next)
        before = i;
    if (before == NONE ? list->first != index : tracker->swapchains[before].next != index)
        return false;
    *(before == NONE ? &list->first : &tracker->swapchains[before].next) = tracker->swapchains[index].next;
    if (list->last == index)
        list->last = before;
    return true;
}

static void remove_swapchain(vks_tracker *tracker, uint32_t index)
{
    bool found = remove_from(tracker, &tracker->pending, index) || remove_from(tracker, &tracker->draining, index);
    for (uint32_t i = tracker->queue.first; i != NONE && !found; i = tracker->presents[i].next)
        found = remove_from(tracker, &tracker->presents[i].carried, index);
}

bool vks_tracker_give_up(vks_tracker *tracker)
{
    uint32_t oldest = NONE;
    for (uint32_t i = 0; tracker->policy == VKS_PRESENTS_BY_ACQUIRES && i < tracker->swapchain_end; i++) {
        const tracked_swapchain *of = &tracker->swapchains[i];
        if (of->handle && i != tracker->current && of->last_use <= tracker->completed &&
            (oldest == NONE || of->retired < tracker->swapchains[oldest].retired))
            oldest = i;
    }
    if (oldest == NONE)
        return false;
    remove_swapchain(tracker, oldest);
    decide(tracker, VKS_DESTROY_SWAPCHAIN, tracker->swapchains[oldest].handle);
    present_list *presents = &tracker->swapchains[oldest].presents;
    while (presents->first != NONE) {
        uint32_t index = presents->first;
        take_out(tracker, presents, index);
        for (uint32_t i = 0; i < tracker->presents[index].count; i++)
            decide(tracker, VKS_DESTROY_SEMAPHORE, tracker->presents[index].semaphores[i]);
        vks_tracker_free_present(tracker, index);
    }
    vks_tracker_free_swapchain(tracker, oldest);
    return true;
}

/* ---- the end ---- */

static void destroy_swapchains(vks_tracker *tracker)
{
    for (uint32_t i = 0; i < tracker->swapchain_end; i++)
        if (tracker->swapchains[i].handle)
            decide(tracker, VKS_DESTROY_SWAPCHAIN, tracker->swapchains[i].handle);
    tracker->swapchain_end = 0;
    tracker->swapchain_free = tracker->current = NONE;
    tracker->pending = tracker->draining = no_swapchains;
}

/* Returns the number of presents without proof. */
static uint64_t destroy_presents(vks_tracker *tracker)
{
    uint64_t unproven = 0;
    for (uint32_t i = 0; i < tracker->present_end; i++) {
        const present *item = &tracker->presents[i];
        if (item->tracked_swapchain == NONE)
            continue;
        unproven += tracker->policy == VKS_PRESENTS_BY_FENCES || item->serial > tracker->completed;
        for (uint32_t k = 0; k < item->count; k++)
            decide(tracker, VKS_DESTROY_SEMAPHORE, item->semaphores[k]);
        if (item->fence)
            decide(tracker, VKS_DESTROY_FENCE, item->fence);
    }
    tracker->present_end = 0;
    tracker->present_free = NONE;
    tracker->n_presents = 0;
    tracker->queue = tracker->quarantine = no_presents;
    return unproven;
}

uint64_t vks_tracker_close(vks_tracker *tracker)
{
    destroy_swapchains(tracker);
    uint64_t unproven = destroy_presents(tracker);
    for (; tracker->waiting_first < tracker->waiting_end; tracker->waiting_first++) {
        uint64_t place = tracker->waiting_first & (tracker->waiting_capacity - 1);
        decide(tracker, VKS_DESTROY_SEMAPHORE, tracker->waiting[place].semaphore);
    }
    tracker->shared_serial = UNKNOWN;
    return unproven;
}
