/* tracker_state.h: what the files of the history share: its state, and the lists in it. For nobody else. */
#ifndef VKS_TRACKER_STATE_H
#define VKS_TRACKER_STATE_H

#include "tracker.h"

#define NONE UINT32_MAX
#define UNKNOWN UINT64_MAX /* no serial that anybody can submit */

/* Presents in order, by index into vks_tracker.presents. */
typedef struct present_list {
    uint32_t first, last, count;
} present_list;

/* Swapchains in the order in which they were retired, by index into vks_tracker.chains. */
typedef struct swapchain_list {
    uint32_t first, last;
} swapchain_list;

static const present_list no_presents = {NONE, NONE, 0};
static const swapchain_list no_swapchains = {NONE, NONE};

typedef struct present {
    uint64_t semaphores[VKS_FRAME_SEMAPHORES];
    uint64_t serial;         /* by acquires: its wait is over when that has run */
    uint64_t fence, time;    /* by fences */
    uint32_t count;          /* of semaphores */
    uint32_t image, tracked_swapchain;   /* what was presented; chain: NONE for a free one */
    uint32_t previous, next; /* in the list that it is in; next also of the free ones */
    uint32_t older;          /* the present of the same image before it, if that has no serial either */
    swapchain_list carried;      /* proven by the same serial (A5) */
} present;

/* A swapchain. Once it is retired it is, by fences, in `leaving` at once. By acquires, it is in `pending` or `carried`
 * by a present until that is proven, and then in `leaving`. */
typedef struct tracked_swapchain {
    uint64_t handle; /* 0: a free one */
    uint64_t last_use;
    uint64_t retired; /* which retirement it was */
    /* By fences: its own, but those in quarantine. By acquires: those that had no serial when it was retired. */
    present_list presents;
    uint32_t image_count, quarantined, next;
    bool is_shared;
} tracked_swapchain;

typedef struct waiting {
    uint64_t semaphore, serial;
    bool is_discarded;
} waiting;

/* Rings: item i is at i % capacity, a power of two. */
struct vks_tracker {
    vks_present_policy policy;
    uint64_t fence_deadline;
    uint64_t completed; /* as far as was told */
    uint64_t retirements, moved;

    present *presents;
    uint32_t present_capacity, present_end, present_free;
    tracked_swapchain *swapchains;
    uint32_t swapchain_capacity, swapchain_end, swapchain_free;
    uint32_t *unproven; /* of each image of the current swapchain the newest present without a serial */
    uint32_t unproven_capacity;

    uint32_t current;        /* chain */
    present_list queue;      /* by acquires */
    present_list quarantine; /* by fences */
    swapchain_list pending;      /* rides on the next present */
    swapchain_list draining;      /* goes with its own presents (by fences) and its last use */
    uint64_t shared_serial;  /* told before the present that it belongs to (A11) */

    waiting *waiting; /* a ring, ordered by serial */
    uint64_t waiting_first, waiting_end;
    uint32_t waiting_capacity;
    /* A ring with room for everything that is kept, so that to decide cannot fail. */
    vks_decision *decisions;
    uint64_t decision_first, decision_end;
    uint32_t decision_capacity;

    uint64_t n_presents, n_semaphores, n_fences, n_swapchains;
};

/* ---- lists ---- */

static inline void append(vks_tracker *tracker, present_list *list, uint32_t index)
{
    tracker->presents[index].previous = list->last;
    tracker->presents[index].next = NONE;
    *(list->last == NONE ? &list->first : &tracker->presents[list->last].next) = index;
    list->last = index;
    list->count++;
}

static inline void take_out(vks_tracker *tracker, present_list *list, uint32_t index)
{
    const present *item = &tracker->presents[index];
    *(item->previous == NONE ? &list->first : &tracker->presents[item->previous].next) = item->next;
    *(item->next == NONE ? &list->last : &tracker->presents[item->next].previous) = item->previous;
    list->count--;
}

/* Empties `from`. */
static inline void join(vks_tracker *tracker, swapchain_list *list, swapchain_list *from)
{
    if (from->first == NONE)
        return;
    *(list->first == NONE ? &list->first : &tracker->swapchains[list->last].next) = from->first;
    list->last = from->last;
    *from = no_swapchains;
}

static inline void join_one(vks_tracker *tracker, swapchain_list *list, uint32_t index)
{
    swapchain_list one = {index, index};
    tracker->swapchains[index].next = NONE;
    join(tracker, list, &one);
}

static inline bool contains(const vks_tracker *tracker, const swapchain_list *list, uint32_t index)
{
    uint32_t i = list->first;
    while (i != NONE && i != index)
        i = tracker->swapchains[i].next;
    return i != NONE;
}

/* ---- deciding ---- */

static inline void decide(vks_tracker *tracker, vks_decision_kind kind, uint64_t handle)
{
    tracker->decisions[tracker->decision_end++ & (tracker->decision_capacity - 1)] = (vks_decision){kind, handle};
    switch (kind) {
    case VKS_RECYCLE_SEMAPHORE:
    case VKS_DESTROY_SEMAPHORE:
        tracker->n_semaphores--;
        break;
    case VKS_RESET_FENCE:
    case VKS_DESTROY_FENCE:
        tracker->n_fences--;
        break;
    case VKS_DESTROY_SWAPCHAIN:
        tracker->n_swapchains--;
        break;
    }
}

/* ---- tracker_memory.c ---- */

/* Make room, so that what follows cannot fail. False: out of memory. */
bool vks_tracker_reserve_present(vks_tracker *tracker);
bool vks_tracker_reserve_swapchain(vks_tracker *tracker, uint32_t image_count);
bool vks_tracker_reserve_waiting(vks_tracker *tracker);
bool vks_tracker_reserve_decisions(vks_tracker *tracker, uint64_t more); /* beside those on all that is kept */
/* Indices; reserved before. */
uint32_t vks_tracker_new_present(vks_tracker *tracker);
uint32_t vks_tracker_new_swapchain(vks_tracker *tracker);
void vks_tracker_free_present(vks_tracker *tracker, uint32_t index);
void vks_tracker_free_swapchain(vks_tracker *tracker, uint32_t index);

#endif
