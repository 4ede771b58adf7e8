/* The history's memory: grows, and is kept, so that a frame allocates nothing. */
#include <stdlib.h>
#include <string.h>

#include "core/platform.h"
#include "history_state.h"

#define FIRST_CAPACITY 16u

/* The items in at least `needed` places; NULL, and all as it was, when there is no memory. */
static void *grow(void *items, size_t size, uint32_t *capacity, uint64_t needed)
{
    uint64_t wanted = *capacity ? *capacity : FIRST_CAPACITY;
    while (wanted < needed)
        wanted *= 2;
    void *grown = wanted < NONE ? realloc(items, wanted * size) : NULL;
    if (grown)
        *capacity = (uint32_t)wanted;
    return grown;
}

static void *grow_ring(void *items, size_t size, uint32_t *capacity, uint64_t first, uint64_t end, uint64_t needed)
{
    uint32_t before = *capacity;
    char *grown = grow(NULL, size, capacity, needed);
    if (!grown)
        return NULL;
    for (uint64_t i = first; i < end; i++)
        memcpy(grown + (i & (*capacity - 1)) * size, (char *)items + (i & (before - 1)) * size, size);
    free(items);
    return grown;
}

bool vks_history_reserve_decisions(vks_history *history, uint64_t more)
{
    uint64_t kept = history->kept_semaphores + history->kept_fences + history->kept_chains;
    uint64_t needed = kept + (history->decision_end - history->decision_first) + more;
    if (needed <= history->decision_capacity)
        return true;
    vks_decision *grown = grow_ring(history->decisions, sizeof *grown, &history->decision_capacity,
                                    history->decision_first, history->decision_end, needed);
    history->decisions = grown ? grown : history->decisions;
    return grown;
}

bool vks_history_reserve_waiting(vks_history *history)
{
    uint64_t count = history->waiting_end - history->waiting_first;
    if (count < history->waiting_capacity)
        return true;
    waiting *grown = grow_ring(history->waiting, sizeof *grown, &history->waiting_capacity, history->waiting_first,
                               history->waiting_end, count + 1);
    history->waiting = grown ? grown : history->waiting;
    return grown;
}

bool vks_history_reserve_present(vks_history *history)
{
    if (history->present_free != NONE || history->present_end < history->present_capacity)
        return true;
    present *grown = grow(history->presents, sizeof *grown, &history->present_capacity, history->present_end + 1ull);
    history->presents = grown ? grown : history->presents;
    return grown;
}

static bool reserve_images(vks_history *history, uint32_t count)
{
    if (count <= history->unproven_capacity)
        return true;
    uint32_t *grown = grow(history->unproven, sizeof *grown, &history->unproven_capacity, count);
    history->unproven = grown ? grown : history->unproven;
    return grown;
}

bool vks_history_reserve_chain(vks_history *history, uint32_t image_count)
{
    if (!reserve_images(history, image_count))
        return false;
    if (history->chain_free != NONE || history->chain_end < history->chain_capacity)
        return true;
    chain *grown = grow(history->chains, sizeof *grown, &history->chain_capacity, history->chain_end + 1ull);
    history->chains = grown ? grown : history->chains;
    return grown;
}

uint32_t vks_history_new_present(vks_history *history)
{
    history->kept_presents++;
    uint32_t index = history->present_free;
    if (index == NONE)
        return history->present_end++;
    history->present_free = history->presents[index].next;
    return index;
}

uint32_t vks_history_new_chain(vks_history *history)
{
    history->kept_chains++;
    uint32_t index = history->chain_free;
    if (index == NONE)
        return history->chain_end++;
    history->chain_free = history->chains[index].next;
    return index;
}

void vks_history_free_present(vks_history *history, uint32_t index)
{
    history->presents[index].chain = NONE;
    history->presents[index].next = history->present_free;
    history->present_free = index;
    history->kept_presents--;
}

void vks_history_free_chain(vks_history *history, uint32_t index)
{
    history->chains[index].handle = 0;
    history->chains[index].next = history->chain_free;
    history->chain_free = index;
}

vks_status vks_history_create(vks_present_policy policy, uint64_t fence_deadline, vks_history **out)
{
    vks_history *history = calloc(1, sizeof *history);
    if (!history)
        return vks_fail(VKS_NO_MEMORY, 0, "out of memory for a present history");
    *history = (vks_history){
        .policy = policy,
        .fence_deadline = fence_deadline,
        .present_free = NONE,
        .chain_free = NONE,
        .current = NONE,
        .queue = no_presents,
        .quarantine = no_presents,
        .pending = no_chains,
        .leaving = no_chains,
        .shared_serial = UNKNOWN,
    };
    *out = history;
    return VKS_OK;
}

void vks_history_destroy(vks_history *history)
{
    if (!history)
        return;
    free(history->presents);
    free(history->chains);
    free(history->unproven);
    free(history->waiting);
    free(history->decisions);
    free(history);
}
