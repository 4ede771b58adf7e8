/* What the history tells: its decisions, what is waited for, its end. */
#include "history_state.h"

bool vks_history_next(vks_history *history, vks_decision *out)
{
    if (history->decision_first == history->decision_end)
        return false;
    *out = history->decisions[history->decision_first++ & (history->decision_capacity - 1)];
    return true;
}

/* ---- what is waited for ---- */

/* By acquires everything waits for the front. */
static vks_wanted wants_front(const vks_history *history)
{
    if (history->queue.first == NONE)
        return (vks_wanted){VKS_WANTS_NOTHING, 0};
    const present *front = &history->presents[history->queue.first];
    return front->serial == UNKNOWN ? (vks_wanted){VKS_WANTS_IMAGE, front->image}
                                    : (vks_wanted){VKS_WANTS_SERIAL, front->serial};
}

static vks_wanted wants_quarantined(const vks_history *history, uint32_t chain)
{
    uint32_t i = history->quarantine.first;
    while (i != NONE && history->presents[i].chain != chain)
        i = history->presents[i].next;
    return i == NONE ? (vks_wanted){VKS_WANTS_NOTHING, 0} : (vks_wanted){VKS_WANTS_FENCE, history->presents[i].fence};
}

static vks_wanted chain_wants(const vks_history *history, uint32_t index)
{
    const chain *of = &history->chains[index];
    if (contains(history, &history->pending, index))
        return (vks_wanted){VKS_WANTS_PRESENT, 0};
    if (!contains(history, &history->leaving, index))
        return wants_front(history);
    if (of->presents.last != NONE)
        return (vks_wanted){VKS_WANTS_FENCE, history->presents[of->presents.last].fence};
    return of->quarantined ? wants_quarantined(history, index) : (vks_wanted){VKS_WANTS_SERIAL, of->last_use};
}

/* Nothing but a fence in quarantine is left to wait for. */
static bool is_orphaned(const chain *of) { return !of->presents.count && of->quarantined; }

vks_wanted vks_history_wanted(const vks_history *history)
{
    uint32_t oldest = NONE;
    for (uint32_t i = 0; i < history->chain_end; i++) {
        const chain *of = &history->chains[i], *best = &history->chains[oldest == NONE ? i : oldest];
        if (!of->handle || i == history->current)
            continue;
        if (oldest == NONE || (is_orphaned(of) == is_orphaned(best) ? of->retired < best->retired : is_orphaned(best)))
            oldest = i;
    }
    return oldest == NONE ? (vks_wanted){VKS_WANTS_NOTHING, 0} : chain_wants(history, oldest);
}

vks_wanted vks_history_unproven(const vks_history *history)
{
    if (history->policy == VKS_PRESENTS_BY_ACQUIRES)
        return wants_front(history);
    if (history->current == NONE)
        return (vks_wanted){VKS_WANTS_NOTHING, 0};
    const chain *of = &history->chains[history->current];
    if (of->presents.first != NONE)
        return (vks_wanted){VKS_WANTS_FENCE, history->presents[of->presents.first].fence};
    return wants_quarantined(history, history->current);
}

void vks_history_get_statistics(const vks_history *history, vks_history_statistics *out)
{
    *out = (vks_history_statistics){
        .presents = history->kept_presents,
        .semaphores = history->kept_semaphores,
        .fences = history->kept_fences,
        .retired = history->kept_chains - (history->current != NONE),
        .quarantined = history->quarantine.count,
        .moved = history->moved,
    };
}

/* ---- giving up ---- */

static bool remove_from(vks_history *history, chain_list *list, uint32_t index)
{
    uint32_t before = NONE;
    for (uint32_t i = list->first; i != NONE && i != index; i = history->chains[i].next)
        before = i;
    if (before == NONE ? list->first != index : history->chains[before].next != index)
        return false;
    *(before == NONE ? &list->first : &history->chains[before].next) = history->chains[index].next;
    if (list->last == index)
        list->last = before;
    return true;
}

static void remove_chain(vks_history *history, uint32_t index)
{
    bool found = remove_from(history, &history->pending, index) || remove_from(history, &history->leaving, index);
    for (uint32_t i = history->queue.first; i != NONE && !found; i = history->presents[i].next)
        found = remove_from(history, &history->presents[i].carried, index);
}

bool vks_history_give_up(vks_history *history)
{
    uint32_t oldest = NONE;
    for (uint32_t i = 0; history->policy == VKS_PRESENTS_BY_ACQUIRES && i < history->chain_end; i++) {
        const chain *of = &history->chains[i];
        if (of->handle && i != history->current && of->last_use <= history->completed &&
            (oldest == NONE || of->retired < history->chains[oldest].retired))
            oldest = i;
    }
    if (oldest == NONE)
        return false;
    remove_chain(history, oldest);
    decide(history, VKS_DESTROY_SWAPCHAIN, history->chains[oldest].handle);
    present_list *presents = &history->chains[oldest].presents;
    while (presents->first != NONE) {
        uint32_t index = presents->first;
        take_out(history, presents, index);
        for (uint32_t i = 0; i < history->presents[index].count; i++)
            decide(history, VKS_DESTROY_SEMAPHORE, history->presents[index].semaphores[i]);
        vks_history_free_present(history, index);
    }
    vks_history_free_chain(history, oldest);
    return true;
}

/* ---- the end ---- */

static void destroy_swapchains(vks_history *history)
{
    for (uint32_t i = 0; i < history->chain_end; i++)
        if (history->chains[i].handle)
            decide(history, VKS_DESTROY_SWAPCHAIN, history->chains[i].handle);
    history->chain_end = 0;
    history->chain_free = history->current = NONE;
    history->pending = history->leaving = no_chains;
}

/* Returns how many had no proof. */
static uint64_t destroy_presents(vks_history *history)
{
    uint64_t unproven = 0;
    for (uint32_t i = 0; i < history->present_end; i++) {
        const present *item = &history->presents[i];
        if (item->chain == NONE)
            continue;
        unproven += history->policy == VKS_PRESENTS_BY_FENCES || item->serial > history->completed;
        for (uint32_t k = 0; k < item->count; k++)
            decide(history, VKS_DESTROY_SEMAPHORE, item->semaphores[k]);
        if (item->fence)
            decide(history, VKS_DESTROY_FENCE, item->fence);
    }
    history->present_end = 0;
    history->present_free = NONE;
    history->kept_presents = 0;
    history->queue = history->quarantine = no_presents;
    return unproven;
}

uint64_t vks_history_close(vks_history *history)
{
    destroy_swapchains(history);
    uint64_t unproven = destroy_presents(history);
    for (; history->waiting_first < history->waiting_end; history->waiting_first++) {
        uint64_t place = history->waiting_first & (history->waiting_capacity - 1);
        decide(history, VKS_DESTROY_SEMAPHORE, history->waiting[place].semaphore);
    }
    history->shared_serial = UNKNOWN;
    return unproven;
}
