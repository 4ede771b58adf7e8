/* fence.h: a fence: a VkSemaphore, a fence page, or both. Internal. */
#ifndef VKS_FENCE_H
#define VKS_FENCE_H

#include "peers/peers.h"
#include "scheduler/scheduler.h"

typedef struct vks_fence_event {
    uint64_t value;
    vks_event_queue *event_queue; /* a reference; or */
    int fd;                       /* an eventfd to write to and close */
    uint64_t token;
} vks_fence_event;

struct vks_fence {
    vks_child child;
    vks_device *device; /* a reference */
    _Atomic uint32_t references;
    uint32_t process;
    vks_fence_page *_Atomic page; /* private memory until the fence is exported */
    vks_fence_page *private_page;
    int page_fd;
    _Atomic uint64_t semaphore;        /* written under device->lock; 0 once closed */
    bool follower, adopted, published; /* published: the fence was exported, so completions must reach the page */
    _Atomic bool closed;
    uint64_t announced;       /* the highest value of all queued and held signals */
    uint64_t last_serial;     /* serial of the batch with the last queued signal */
    uint64_t external_signal; /* between external_begin and external_end: the value that the API is to signal; else 0 */
    uint64_t external_after;  /* in that time: the value that was announced before it */
    uint64_t external_value;  /* the last value queued with an external API; signals of this device wait for it */
    /* After a loss of the external API: values above it count as failed, even if the semaphore
     * reaches them. */
    uint64_t last_valid;
    uint32_t sleepers;       /* threads that sleep on the page's seq; guarded by device->lock */
    uint32_t driver_waiters; /* threads inside wait_timeline */
    uint64_t signal_mark;    /* the scheduler's pass in which an earlier held operation signals it */
    uint32_t held_signals, held_waits;
    vks_fence_event *events; /* heap by value */
    size_t n_events, event_capacity;
    vks_mapping mapping; /* followers */
};

static inline vks_fence_page *vks_fence_page_of(const vks_fence *fence) { return fence->page; }

static inline vks_status vks_fence_check(const vks_fence *fence)
{
    if (__builtin_expect(fence->process != vks_process, 0))
        return VKS_FORKED;
    return __builtin_expect(fence->closed, 0) ? VKS_CLOSED : VKS_OK;
}

/* Returns whether completions of the fence must be published. */
static inline bool vks_fence_is_watched(const vks_fence *fence)
{
    return fence->published || fence->sleepers || fence->n_events || !fence->semaphore;
}

/* Returns whether a batch that signals the fence must first wait for an external API's signal,
 * because timeline values must grow. */
static inline bool vks_fence_follows_external(const vks_fence *fence)
{
    return fence->external_value > atomic_load_explicit(&vks_fence_page_of(fence)->completed, memory_order_relaxed);
}

/* ---- access.c ---- */

extern const vks_access_class vks_fence_wait_access, vks_fence_signal_access;
static inline void vks_access_wait(vks_access *access, const vks_wait *wait)
{
    if (wait->fence)
        vks_access_init(access, &vks_fence_wait_access, wait->fence, NULL, wait->value);
    else
        vks_access_init(access, &vks_submission_access, wait->submission.op, NULL, wait->submission.serial);
}
static inline void vks_access_signal(vks_access *access, vks_fence *fence, uint64_t value)
{
    vks_access_init(access, &vks_fence_signal_access, fence, &fence->signal_mark, value);
}

/* ---- values.c (caller holds device->lock) ---- */

uint64_t vks_fence_completed(vks_fence *fence); /* the latest known value; may find the device lost */
/* Returns the same, and publishes it for the next call. Takes the lock itself. */
uint64_t vks_fence_current(vks_fence *fence);
/* Publishes a completion: page, sleepers, events. */
void vks_fence_publish_completed(vks_fence *fence, uint64_t completed);
void vks_fence_publish_completion(const vks_completion *completion, bool ran); /* of vks_completion_class */
/* Publishes on the page that the signal is with a driver or an external API. */
void vks_fence_publish_queued(vks_fence *fence, uint64_t value);
void vks_fence_signal_submitted(vks_fence *fence, uint64_t value, uint64_t serial); /* records a submitted signal */
vks_status vks_fence_check_signal(vks_fence *fence, const vks_device *device, uint64_t *value);
/* From now on completions reach the page, also those of values that the driver already has. */
vks_status vks_fence_start_publishing(vks_fence *fence);
void vks_fence_fail(vks_fence *fence);                         /* a signal will never come, or the device is lost */
bool vks_fence_may_be_behind(const vks_fence *fence);          /* the semaphore may be ahead of the page */
bool vks_fence_set_status(vks_fence_page *page, uint32_t end); /* false: the page had a final status already */
void vks_fence_poll_untracked(vks_fence *fence);               /* publishes values that have no completion */

/* ---- wait.c ---- */

/* Returns the status of a wait for `value`; `completed` was just read. VKS_TIMEOUT: the value may
 * still come. */
vks_status vks_fence_wait_status(vks_fence *fence, uint64_t value, uint64_t completed);
/* Blocks until the value's signal is with a driver, or was reached, so that a queue's wait for it
 * will end. */
vks_status vks_fence_wait_queued(vks_fence *fence, uint64_t value, uint64_t deadline);

/* ---- events.c (caller holds device->lock) ---- */

/* Fires the events of reached values; with a failure, all other events too. */
void vks_fence_fire_events(vks_fence *fence, uint64_t completed, vks_status failure);
/* Handles a process death; it matters only if that process was the signaller. A callback of the
 * peers, which do not hold the lock. */
void vks_fence_on_death(void *fence);

/* ---- external.c (caller holds device->lock) ---- */

extern const vks_completion_class vks_fence_external_signal, vks_fence_gpu_wait;
/* Fails the values that an external API has not signalled yet. The fence fails if there are any. */
void vks_fence_fail_external(vks_fence *fence);
void vks_fence_ref_object(void *fence);
void vks_fence_unref_object(void *fence);

#endif
