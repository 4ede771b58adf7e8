/* tracker_state.h: the tracker's state and its lists. Internal to tracker*.c. */
#ifndef VKS_TRACKER_STATE_H
#define VKS_TRACKER_STATE_H

#include "tracker.h"

#define NONE UINT32_MAX
#define UNKNOWN UINT64_MAX /* not the serial of any submission */

/* Presents in order, by index into vks_tracker.presents. */
typedef struct present_list {
    uint32_t first, last, count;
} present_list;

/* Swapchains in the order of their retirement, by index into vks_tracker.swapchains. */
typedef struct swapchain_list {
    uint32_t first, last;
} swapchain_list;

static const present_list no_presents = {NONE, NONE, 0};
static const swapchain_list no_swapchains = {NONE, NONE};

typedef struct present {
    uint64_t semaphores[VKS_FRAME_SEMAPHORES];
    uint64_t serial;                   /* by acquires: the wait is over when this submission has run */
    uint64_t fence, time;              /* by fences */
    uint32_t count;                    /* of `semaphores` */
    uint32_t image, tracked_swapchain; /* the presented image; swapchain: NONE for a free entry */
    uint32_t previous, next;           /* in its list; `next` also in the free list */
    uint32_t older;                    /* the previous present of the same image, if that has no serial either */
    swapchain_list carried;            /* swapchains that the same serial proves (A5) */
} present;

/* A swapchain. By fences it moves to `draining` when it is retired. By acquires it stays in
 * `pending`, or in `carried` of a present, until it is proven, and then moves to `draining`. */
typedef struct tracked_swapchain {
    uint64_t handle; /* 0: a free entry */
    uint64_t last_use;
    uint64_t retired; /* number of its retirement */
    /* By fences: its presents, without quarantined ones. By acquires: the presents without a serial
     * when it was retired. */
    present_list presents;
    uint32_t image_count, quarantined, next;
    bool is_shared;
} tracked_swapchain;

typedef struct waiting {
    uint64_t semaphore, serial;
    bool is_discarded;
} waiting;

/* Ring buffers hold item i at i % capacity, a power of two. */
struct vks_tracker {
    vks_present_policy policy;
    uint64_t fence_deadline;
    uint64_t completed; /* newest serial that is known to have run */
    uint64_t retirements, moved;

    present *presents;
    uint32_t present_capacity, present_end, present_free;
    tracked_swapchain *swapchains;
    uint32_t swapchain_capacity, swapchain_end, swapchain_free;
    uint32_t *unproven; /* for each image of the current swapchain, the newest present without a serial */
    uint32_t unproven_capacity;

    uint32_t current;        /* chain */
    present_list queue;      /* by acquires */
    present_list quarantine; /* by fences */
    swapchain_list pending;  /* attached to the next present, which proves them */
    swapchain_list draining; /* destroyed once their own presents (by fences) and last use complete */
    uint64_t shared_serial;  /* reported before the present that it proves (A11) */

    waiting *waiting; /* a ring buffer, ordered by serial */
    uint64_t waiting_first, waiting_end;
    uint32_t waiting_capacity;
    /* A ring buffer with room for one decision on every tracked handle, so that decide() cannot
     * fail. */
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

/* Reserve room, so that the following calls cannot fail. False: out of memory. */
bool vks_tracker_reserve_present(vks_tracker *tracker);
bool vks_tracker_reserve_swapchain(vks_tracker *tracker, uint32_t image_count);
bool vks_tracker_reserve_waiting(vks_tracker *tracker, uint64_t more);
bool vks_tracker_reserve_decisions(vks_tracker *tracker,
                                   uint64_t more); /* in addition to one for every tracked handle */
/* Return an index; the room was reserved before. */
uint32_t vks_tracker_new_present(vks_tracker *tracker);
uint32_t vks_tracker_new_swapchain(vks_tracker *tracker);
void vks_tracker_free_present(vks_tracker *tracker, uint32_t index);
void vks_tracker_free_swapchain(vks_tracker *tracker, uint32_t index);

#endif
