/* tracker_memory.c: the tracker's memory grows and is kept, so that a frame allocates nothing. */
#include <stdlib.h>
#include <string.h>

#include "os/platform.h"
#include "tracker_state.h"

#define FIRST_CAPACITY 16u

/* Returns the items with room for at least `needed`. NULL: out of memory, and nothing changed. */
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

bool vks_tracker_reserve_decisions(vks_tracker *tracker, uint64_t more)
{
    uint64_t tracked = tracker->n_semaphores + tracker->n_fences + tracker->n_swapchains;
    uint64_t needed = tracked + (tracker->decision_end - tracker->decision_first) + more;
    if (needed <= tracker->decision_capacity)
        return true;
    vks_decision *grown = grow_ring(tracker->decisions, sizeof *grown, &tracker->decision_capacity,
                                    tracker->decision_first, tracker->decision_end, needed);
    tracker->decisions = grown ? grown : tracker->decisions;
    return grown;
}

bool vks_tracker_reserve_waiting(vks_tracker *tracker, uint64_t more)
{
    uint64_t count = tracker->waiting_end - tracker->waiting_first;
    if (count + more <= tracker->waiting_capacity)
        return true;
    waiting *grown = grow_ring(tracker->waiting, sizeof *grown, &tracker->waiting_capacity, tracker->waiting_first,
                               tracker->waiting_end, count + more);
    tracker->waiting = grown ? grown : tracker->waiting;
    return grown;
}

bool vks_tracker_reserve_present(vks_tracker *tracker)
{
    if (tracker->present_free != NONE || tracker->present_end < tracker->present_capacity)
        return true;
    present *grown = grow(tracker->presents, sizeof *grown, &tracker->present_capacity, tracker->present_end + 1ull);
    tracker->presents = grown ? grown : tracker->presents;
    return grown;
}

static bool reserve_images(vks_tracker *tracker, uint32_t count)
{
    if (count <= tracker->unproven_capacity)
        return true;
    uint32_t *grown = grow(tracker->unproven, sizeof *grown, &tracker->unproven_capacity, count);
    tracker->unproven = grown ? grown : tracker->unproven;
    return grown;
}

bool vks_tracker_reserve_swapchain(vks_tracker *tracker, uint32_t image_count)
{
    if (!reserve_images(tracker, image_count))
        return false;
    if (tracker->swapchain_free != NONE || tracker->swapchain_end < tracker->swapchain_capacity)
        return true;
    tracked_swapchain *grown =
        grow(tracker->swapchains, sizeof *grown, &tracker->swapchain_capacity, tracker->swapchain_end + 1ull);
    tracker->swapchains = grown ? grown : tracker->swapchains;
    return grown;
}

uint32_t vks_tracker_new_present(vks_tracker *tracker)
{
    tracker->n_presents++;
    uint32_t index = tracker->present_free;
    if (index == NONE)
        return tracker->present_end++;
    tracker->present_free = tracker->presents[index].next;
    return index;
}

uint32_t vks_tracker_new_swapchain(vks_tracker *tracker)
{
    tracker->n_swapchains++;
    uint32_t index = tracker->swapchain_free;
    if (index == NONE)
        return tracker->swapchain_end++;
    tracker->swapchain_free = tracker->swapchains[index].next;
    return index;
}

void vks_tracker_free_present(vks_tracker *tracker, uint32_t index)
{
    tracker->presents[index].tracked_swapchain = NONE;
    tracker->presents[index].next = tracker->present_free;
    tracker->present_free = index;
    tracker->n_presents--;
}

void vks_tracker_free_swapchain(vks_tracker *tracker, uint32_t index)
{
    tracker->swapchains[index].handle = 0;
    tracker->swapchains[index].next = tracker->swapchain_free;
    tracker->swapchain_free = index;
}

vks_status vks_tracker_create(vks_present_policy policy, uint64_t fence_deadline, vks_tracker **out)
{
    vks_tracker *tracker = calloc(1, sizeof *tracker);
    if (!tracker)
        return vks_fail(VKS_NO_MEMORY, 0, "out of memory for a present tracker");
    *tracker = (vks_tracker){
        .policy = policy,
        .fence_deadline = fence_deadline,
        .present_free = NONE,
        .swapchain_free = NONE,
        .current = NONE,
        .queue = no_presents,
        .quarantine = no_presents,
        .pending = no_swapchains,
        .draining = no_swapchains,
        .shared_serial = UNKNOWN,
    };
    *out = tracker;
    return VKS_OK;
}

void vks_tracker_destroy(vks_tracker *tracker)
{
    if (!tracker)
        return;
    free(tracker->presents);
    free(tracker->swapchains);
    free(tracker->unproven);
    free(tracker->waiting);
    free(tracker->decisions);
    free(tracker);
}
