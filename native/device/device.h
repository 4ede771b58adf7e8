/* device.h: the objects of the core and their ownership. Internal.
 *
 * Each device has one lock (device->lock). It guards the device's fences, surface handles, held
 * operations and queue order. A thread that holds it takes no other device's lock and does not
 * sleep. The locks of the watcher, the peers and the event queues are taken inside it.
 *
 *  - vks_device: counts batches by serials, keeps the held operations in order, and the ring of
 *    completions to publish
 *  - vks_fence: a timeline: a VkSemaphore and/or a fence page
 *  - vks_surface: a handle: a slot in a mutex page, and its current ownership
 *  - vks_work: an operation that is or was held
 *  - vks_commands: a compiled command list
 */
#ifndef VKS_DEVICE_H
#define VKS_DEVICE_H

#include <pthread.h>

#include "os/event_queue.h"
#include "shm/mutex_page.h"
#include "peers/peers.h"
#include "vkshare.h"

typedef struct vks_point {
    uint64_t semaphore, value;
} vks_point;

/* The queue families of a device, which has one queue of each. One sequence of serials counts the
 * batches of both queues, and batches run in the order of their serials: the first batch after a
 * change of queue waits on the GPU for the batch before it. */
typedef enum vks_family { VKS_GRAPHICS, VKS_TRANSFER, VKS_FAMILIES } vks_family;

/* One call of vkQueueSubmit2. */
typedef struct vks_batch {
    vks_family family; /* = unused placeholder */
    const vks_point *waits;
    const vks_point *signals;      /* the backend adds a signal of the device's own timeline with `serial` */
    const uint64_t *buffers;       /* Vulkan: VkCommandBuffers in order */
    vks_commands *const *commands; /* CPU: programs in order */
    uint32_t n_waits, n_signals, n_buffers, n_commands;
    uint64_t serial;
} vks_batch;

/* The interface of a backend. Caller holds device->lock, except for wait(), wait_timeline() and
 * stop(). */
typedef struct vks_backend {
    vks_status (*submit)(vks_device *device, const vks_batch *batch);
    uint64_t (*completed)(vks_device *device); /* the serial up to which all batches have run; needs no lock */
    /* Blocks for some 20 ms at most. VKS_OK: `serial` has run; VKS_INTERRUPTED: call again;
     * VKS_TIMEOUT. */
    vks_status (*wait)(vks_device *device, uint64_t serial, uint64_t deadline);
    vks_status (*start_publisher)(vks_device *device); /* starts the thread that publishes completions; idempotent */
    void (*wake_publisher)(vks_device *device);        /* a completion was added, so the publisher must run */
    void (*stop)(vks_device *device);                  /* ends the threads; all submitted work has run */
    void (*destroy)(vks_device *device);
    /* timelines; semaphore 0: none */
    vks_status (*create_timeline)(vks_device *device, uint64_t initial, uint64_t *semaphore);
    void (*destroy_timeline)(vks_device *device, uint64_t semaphore);
    vks_status (*counter)(vks_device *device, uint64_t semaphore, uint64_t *value);
    vks_status (*host_signal)(vks_device *device, uint64_t semaphore, uint64_t value);
    /* Like wait(). */
    vks_status (*wait_timeline)(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline);
    vks_status (*export_timeline)(vks_device *device, uint64_t semaphore, int *fd);
    vks_status (*import_timeline)(vks_device *device, int fd, uint64_t *semaphore); /* takes ownership of the fd */
} vks_backend;

/* An action to perform when `serial` has run. A _WAIT kind records a GPU wait, for
 * orphaned_waits.c. */
typedef enum vks_completion_kind {
    VKS_COMPLETION_FENCE,
    VKS_COMPLETION_SURFACE,
    VKS_COMPLETION_CLOSE_FENCE,
    VKS_COMPLETION_EVENT,
    VKS_COMPLETION_FENCE_WAIT,
    VKS_COMPLETION_SURFACE_WAIT,
    VKS_COMPLETION_TRACE
} vks_completion_kind;
typedef struct vks_completion {
    uint64_t serial; /* for external signals of a fence: the fence value that must complete before this one */
    vks_completion_kind kind;
    /* A reference: vks_fence, vks_surface or vks_event_queue; for VKS_COMPLETION_TRACE the device,
     * without a reference. */
    void *object;
    uint64_t value; /* fence or surface value, event token, or (trace) time of the submission */
} vks_completion;

typedef enum vks_shutdown { VKS_SHUTDOWN_NONE, VKS_SHUTDOWN_BEGUN, VKS_SHUTDOWN_DONE } vks_shutdown;

struct vks_device {
    pthread_mutex_t lock;
    const vks_backend *backend;
    void *impl;
    uint64_t timeline; /* VkSemaphore that counts serials; 0 on the CPU backend */
    bool has_transfer; /* there is a transfer queue */
    vks_family family; /* queue family of the last batch */
    _Atomic uint32_t references;
    uint32_t process;       /* vks_process of the creating process */
    uint32_t number;        /* number in this process, for traces */
    _Atomic uint32_t state; /* a vks_status */
    char name[VKS_NAME_SIZE];
    bool native_timelines;
    uint64_t max_difference;

    _Atomic uint64_t submitted; /* the last serial; written under device->lock */
    _Atomic uint32_t progress;  /* futex of threads that wait for held work, or (CPU backend) for serials */
    _Atomic uint32_t waiters;   /* threads that sleep on `progress` */

    vks_work *held_first, *held_last;
    uint32_t n_held, held_limit;
    uint64_t round; /* number of the scheduler's pass; marks what the pass found blocked */
    bool scheduling, schedule_again, watching;
    bool presenting; /* a present uses the queue; submissions are held meanwhile */
    uint64_t presenting_since;
    /* Held waits for an engine's semaphores; these are polled, because no process announces their
     * values. */
    uint32_t adopted_waits;

    vks_completion *ring; /* completions in order of serials */
    size_t ring_first, ring_count, ring_capacity;
    /* Signals and waits of external APIs; they have no serial, so their semaphores are polled. */
    vks_completion *external;
    size_t n_external, external_capacity;

    vks_fence *fences;         /* open fences */
    bool has_untracked_values; /* a watched fence has queued values without a completion; the publisher polls them */
    vks_surface *surfaces;
    vks_queue *queues;              /* open ends */
    _Atomic(vks_commands *) unused; /* unreferenced command lists, for vks_device_reap */
    vks_device_statistics statistics;
    _Atomic bool lost;             /* DEVICE_LOST was seen; stays true when the device is closed */
    _Atomic bool gone;             /* shut down: the driver is no longer called */
    _Atomic uint32_t shut_down;    /* a vks_shutdown */
    _Atomic bool ending;           /* a thread runs a step of the shutdown */
    uint64_t end_limit;            /* deadline of the shutdown's current wait */
    _Atomic bool leaks;            /* the driver did not finish: objects that it may use are never destroyed */
    _Atomic bool swapchain_leaked; /* the same for a swapchain of this device, which itself continued */
    _Atomic uint32_t driver_calls; /* calls inside the driver that do not hold the lock */
    uint64_t final;                /* valid when `gone`: the last serial that has run */
};

struct vks_fence {
    vks_fence *next, *previous; /* in device->fences */
    vks_device *device;         /* a reference */
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
    struct vks_event *events; /* heap by value */
    size_t n_events, event_capacity;
    vks_mapping mapping; /* followers */
};

/* One ownership of a surface by a handle. */
typedef struct vks_ownership {
    uint64_t id;               /* counts the ownerships of this handle; 0: none */
    vks_wait_point wait_point; /* the wait of the ownership's first work */
} vks_ownership;

/* State of a swapchain's image for the submissions that draw into it. Owned by the swapchain
 * (native/present/), used by batch.c. Guarded by device->lock. */
typedef struct vks_presentable vks_presentable;
struct vks_presentable {
    uint64_t acquired;         /* VkSemaphore of vkAcquireNextImageKHR, which the next submission waits for; 0: none */
    uint64_t initial_commands; /* barrier from UNDEFINED to PRESENT_SRC_KHR, for the first use; 0: done */
    uint64_t spare;            /* VkSemaphore for the next submission to signal */
    uint64_t rendered[VKS_FRAME_SEMAPHORES]; /* signalled by the submissions so far; the present waits for them */
    uint32_t n_rendered;
    uint64_t waited;                               /* serial of the submission that waited for `acquired` */
    vks_status (*refill)(vks_presentable *itself); /* creates a spare semaphore */
};

struct vks_surface {
    vks_surface *next, *previous;
    vks_device *device;
    _Atomic uint32_t references;
    uint32_t process;
    vks_mutex_handle handle;
    /* A reference: the handle whose page, page_fd and semaphore this handle uses; NULL: it has its
     * own. */
    vks_surface *original;
    /* Fields of an original handle, guarded by device->lock: */
    uint32_t semaphore_users; /* open handles that use its semaphore, itself included */
    bool is_shared;           /* other processes may have it open: it was exported, or opened from a descriptor */
    /* This device's queue family owns the image (it was not released to VK_QUEUE_FAMILY_EXTERNAL). */
    bool owned_by_queue;
    bool layout_unknown;  /* raw command buffers used the image, so its layout is unknown */
    uint64_t exported_at; /* serial of the batch in which an export released it */
    int page_fd;
    _Atomic uint64_t semaphore; /* the surface's timeline, where semaphores are shared */
    void *pixels;
    size_t size, stride;
    uint64_t announced; /* the last value submitted to a driver as a signal of this handle */
    uint32_t width, height, format;
    uint64_t acquire_commands[VKS_FAMILIES], release_commands[VKS_FAMILIES]; /* indexed by the queue's family */
    bool last_used_graphics, uses_graphics; /* the last ownership did more than copy; this one has so far */
    bool had_one_submission;                /* the last ownership had one submission */
    uint32_t submissions;                   /* submissions in this ownership */
    bool discard_unowned, is_presentable;
    _Atomic bool closed;
    _Atomic uint32_t owned;          /* the caller's view: granted, and release() was not called */
    _Atomic bool has_page;           /* the page's view: stays true while a queued release is held */
    _Atomic bool pending;            /* a mode="gpu" acquire (of next_ownership) is not granted yet */
    vks_ownership ownership;         /* the current one, or the last */
    uint64_t next_ownership;         /* the last id assigned */
    uint64_t released;               /* id of the last ownership for which release() was called */
    uint64_t acquire_submitted;      /* id of the last ownership whose acquire was submitted */
    _Atomic uint64_t last_serial;    /* serial of the last batch that touched it */
    _Atomic uint32_t held;           /* held operations that touch it */
    _Atomic uint32_t held_acquires;  /* mode="gpu" acquires that are not granted yet */
    _Atomic bool recovering;         /* a recover() is running */
    uint64_t dead_value, dead_since; /* of the recovering thread: the value that a dead owner may signal, found when */
    _Atomic uint32_t waiting;        /* threads that sleep on the page */
    uint64_t mark;                   /* the scheduler's pass in which an earlier held operation touches it */
    uint64_t engine_semaphore, engine_value; /* sync(): the point that the engine signals */
    _Atomic bool is_external;                /* an external API uses the surface; `owned` is 0 meanwhile */
    uint64_t external_value; /* while is_external: the value that the API is to signal; 0: none was requested */
    uint64_t last_value; /* the value signalled by the last work of this ownership, external work included; 0: none */
    vks_presentable *presentable; /* of a swapchain's image; the swapchain clears it before it is destroyed */
    uint64_t network;             /* network of queues, which alone acquire and release it; 0: none */
    uint32_t index;               /* in that network */
    vks_mapping mapping;
};

struct vks_commands {
    vks_commands *next_unused;
    vks_device *device;
    _Atomic uint32_t references;
    uint64_t buffers[VKS_FAMILIES]; /* VkCommandBuffers; 0 for the transfer queue: the list does more than copy */
    vks_program *program;
    struct vks_image *images; /* one per slot of the program */
    size_t n_images;
    _Atomic uint64_t last_serial;
    void (*retire)(void *user);
    void *user;
    size_t n_uses;
    vks_use uses[];
};

/* Returns the handle that holds the image's shared state. */
static inline vks_surface *vks_surface_original(const vks_surface *surface)
{
    return surface->original ? surface->original : (vks_surface *)surface;
}

typedef enum vks_work_kind { VKS_WORK_SUBMIT, VKS_WORK_ACQUIRE, VKS_WORK_RELEASE } vks_work_kind;
/* An operation leaves VKS_WORK_HELD once. VKS_WORK_SUBMITTED also means a granted acquire. */
typedef enum vks_work_state { VKS_WORK_HELD, VKS_WORK_SUBMITTED, VKS_WORK_FAILED } vks_work_state;

/* A surface that an operation touches, with the ownership that the operation belongs to. */
typedef struct vks_touch {
    vks_surface *surface;
    vks_ownership ownership;
    bool granted;   /* false: the acquire was pending (mode="gpu"); only surface->ownership has its wait point */
    uint64_t value; /* the release value that the operation's batch signals; 0: the release has its own batch */
} vks_touch;

typedef struct vks_event {
    uint64_t value;               /* fences */
    vks_event_queue *event_queue; /* or */
    int fd;                       /* an eventfd to write to and close */
    uint64_t token;
} vks_event;

struct vks_work {
    vks_work *next, *previous;
    vks_device *device;
    _Atomic uint32_t references;
    vks_work_kind kind;
    _Atomic uint32_t state;  /* a vks_work_state */
    vks_status failure;      /* with VKS_WORK_FAILED: the reason; written before `state` */
    _Atomic uint64_t serial; /* of the batch, once submitted */
    uint64_t key;            /* acquire, release */
    uint64_t number, since;  /* for traces; 0: none, or it was never held */
    bool page_released;      /* release: the page was released; only the batch is held */
    bool may_signal_release; /* submit: its batch may also signal the release of its surfaces */
    uint64_t value;          /* release: the surface value that its batch signals */
    vks_touch *touches;
    vks_wait *waits;
    vks_signal *signals;
    vks_commands **commands;
    uint64_t *raw;
    uint32_t n_touches, n_waits, n_signals, n_commands, n_raw;
    vks_event *events; /* event queues to notify */
    size_t n_events;
};

static inline bool vks_work_is_held(const vks_work *op) { return atomic_load(&op->state) == VKS_WORK_HELD; }
/* VKS_TIMEOUT: held. VKS_OK: submitted or granted. Another status: the reason why it failed. */
static inline vks_status vks_work_status(const vks_work *op)
{
    uint32_t state = atomic_load(&op->state);
    return state == VKS_WORK_HELD ? VKS_TIMEOUT : state == VKS_WORK_SUBMITTED ? VKS_OK : op->failure;
}

#define VKS_CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/* ---- device.c ---- */
static inline vks_status vks_device_check(const vks_device *device)
{
    if (__builtin_expect(device->process != vks_process, 0))
        return VKS_FORKED;
    return (vks_status)atomic_load_explicit(&device->state, memory_order_relaxed);
}
/* Brackets every use of the driver without the lock; shutdown waits until all have left. Returns
 * false if the device is shut down. Calls may nest. */
static inline void vks_device_leave(vks_device *device) { atomic_fetch_sub(&device->driver_calls, 1); }
static inline bool vks_device_enter(vks_device *device)
{
    atomic_fetch_add(&device->driver_calls, 1);
    if (__builtin_expect(!atomic_load(&device->gone), 1))
        return true;
    vks_device_leave(device);
    return false;
}
/* Reserves room for n completions and starts the publisher, so that vks_device_add_completion
 * cannot fail once the driver has the work. Caller holds device->lock. */
vks_status vks_device_reserve(vks_device *device, size_t n);
void vks_device_add_completion(vks_device *device, uint64_t serial, vks_completion_kind kind, void *object,
                               uint64_t value);
/* The same for signals and waits of an external API. `object` is a surface or a fence, whose
 * semaphore is polled. `before`: the value that its semaphore must have first (fences). */
vks_status vks_device_reserve_external_completion(vks_device *device);
void vks_device_add_external_completion(vks_device *device, vks_completion_kind kind, void *object, uint64_t value,
                                        uint64_t before);
/* Returns whether such a completion of the object is outstanding. `value` 0: of any value. */
bool vks_device_awaits_external(const vks_device *device, vks_completion_kind kind, const void *object, uint64_t value);
void vks_device_drop_external_completions(vks_device *device, const void *object, uint64_t value); /* 0: every value */
void vks_device_publish(vks_device *device);
void vks_device_progress(vks_device *device); /* wakes the threads that sleep on `progress` */
void vks_device_lose(vks_device *device);     /* call when DEVICE_LOST was seen */
/* VKS_OK: the serial has run. VKS_TIMEOUT: not yet. Another status: the reason why it never will.
 * Needs no lock. */
vks_status vks_device_poll_serial(vks_device *device, uint64_t serial);
/* Blocks; may return VKS_INTERRUPTED. Caller does not hold device->lock. */
vks_status vks_device_wait_serial(vks_device *device, uint64_t serial, uint64_t deadline);
/* The same wait before an object is destroyed. A lost device does not end this wait; only the
 * driver does, because Vulkan 4.2.3 makes such waits finite and after VK_ERROR_DEVICE_LOST
 * nothing is in use. VKS_TIMEOUT: the driver may still use the object. */
vks_status vks_device_drain(vks_device *device, uint64_t serial, uint64_t deadline);
/* Blocks until n_held falls below `below` or, with `surface`, until it has no held operation.
 * Caller does not hold device->lock. */
vks_status vks_device_wait_held(vks_device *device, uint32_t below, const vks_surface *surface, uint64_t deadline);
/* Before a close: waits until `limit` for the held batches of releases whose page was released
 * already (of `surface`, or all). Such a batch normally waits only for the previous owner's work,
 * and cancelling it would abandon a surface that was released correctly. VKS_OK or VKS_INTERRUPTED. */
#define VKS_RELEASE_GRACE_NS UINT64_C(500000000)
vks_status vks_device_finish_releases(vks_device *device, const vks_surface *surface, uint64_t limit);

/* A present may block for as long as the rendering or the display does. So it uses the queue
 * without the lock, and submissions are held until it ends. begin blocks while another present uses
 * the queue, and releases the lock meanwhile: until the deadline, and at most until
 * VKS_LONGEST_PRESENT_NS after that present began. Only VKS_OK requires an end; else VKS_TIMEOUT or
 * VKS_INTERRUPTED. Caller holds device->lock. */
#define VKS_LONGEST_PRESENT_NS UINT64_C(10000000000)
vks_status vks_device_begin_present(vks_device *device, uint64_t deadline);
void vks_device_end_present(vks_device *device);

/* ---- batch.c: from an operation to the driver (caller holds device->lock) ---- */
typedef enum vks_readiness { VKS_READY, VKS_HOLD, VKS_FAIL } vks_readiness;
/* Returns whether the operation can be submitted now. On VKS_FAIL, *why is the reason why it never
 * can. */
vks_readiness vks_work_ready(vks_device *device, const vks_work *op, vks_status *why);
/* Submits a ready submission, or the batch of a release, to the driver. Sets op->serial. */
vks_status vks_work_submit(vks_device *device, vks_work *op);
bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point);
/* Returns whether the device's queue can start work in the surface's current ownership. */
vks_readiness vks_ownership_ready(const vks_surface *surface, vks_status *why);
/* The same for the queue of an external API, which the order of this device's queue does not cover. */
vks_readiness vks_ownership_ready_external(const vks_surface *surface, vks_status *why);
/* Returns whether a release of the surface must submit a barrier, because this queue family owns
 * the image and other processes may acquire it. */
bool vks_surface_needs_release_barrier(const vks_surface *surface);
/* Submits one batch of `commands` (0: none) on the surface at once, with a semaphore to wait for
 * and one to signal (0: none). */
vks_status vks_surface_submit(vks_surface *surface, vks_point wait, uint64_t commands, vks_point signal);
/* For the first export: releases the image to VK_QUEUE_FAMILY_EXTERNAL, unless a later release
 * will. No present uses the queue. */
vks_status vks_surface_release_for_export(vks_surface *surface);
/* VKS_ABANDONED, and the chain is poisoned, unless the surface's semaphore can be signalled with
 * the value. */
vks_status vks_surface_check_value(vks_surface *surface, uint64_t value);
/* Returns whether a live process has announced the value. Call it before the last check of
 * vks_wait_point_is_complete(), because a completed value is no longer announced. */
bool vks_wait_point_is_alive(const vks_surface *surface, const vks_wait_point *wait_point);

/* ---- submit_fast.c (caller holds device->lock) ---- */
bool vks_submit_is_fast(const vks_device *device, const vks_submit_info *info);
/* Submits it. The caller has checked `signals` and the device's state. */
vks_status vks_submit_fast(vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                           uint64_t *serial);

/* ---- orphaned_waits.c (caller holds device->lock) ---- */
void vks_device_resolve_orphaned_waits(vks_device *device); /* ends GPU waits for values that will never be signalled */

/* ---- scheduler.c (caller holds device->lock) ---- */
void vks_work_hold(vks_device *device, vks_work *op); /* takes ownership of the reference */
void vks_scheduler_run(vks_device *device); /* submits, grants or fails every operation that it can; sets the watcher */
void vks_scheduler_run_unlocked(void *device); /* takes the lock itself; a callback of the watcher and the peers */
vks_work *vks_work_create(vks_device *device, vks_work_kind kind, uint32_t n_touches, uint32_t n_waits,
                          uint32_t n_signals, uint32_t n_commands, uint32_t n_raw);
bool vks_ownership_is_held(const vks_surface *surface); /* work of the current ownership is held */
/* Fails an operation: poisons its chains, completes its values and removes it from the list. */
void vks_work_fail(vks_device *device, vks_work *op, vks_status why);

/* ---- submit.c (caller holds device->lock) ---- */
vks_status vks_submit_signal(vks_device *device, vks_signal *signal); /* through the queue; ignores held_limit */

/* ---- fence.c (caller holds device->lock) ---- */
void vks_fence_poll_untracked(vks_device *device); /* publishes values that have no completion */
/* Publishes a completion: page, sleepers, events. */
void vks_fence_publish_completed(vks_fence *fence, uint64_t completed);
void vks_fence_signal_submitted(vks_fence *fence, uint64_t value, uint64_t serial); /* records a submitted signal */
/* Publishes on the page that the signal is with a driver or an external API. */
void vks_fence_publish_queued(vks_fence *fence, uint64_t value);
vks_status vks_fence_check_signal(vks_fence *fence, vks_device *device, uint64_t *value);
void vks_fence_fail(vks_fence *fence); /* a signal will never come, or the device is lost */
void vks_fence_finish_close(vks_fence *fence);
uint64_t vks_fence_completed(vks_fence *fence); /* the latest known value; may find the device lost */

/* ---- fence.c ---- */
/* Blocks until the value's signal is with a driver, or was reached, so that a queue's wait for it
 * will end. */
vks_status vks_fence_wait_queued(vks_fence *fence, uint64_t value, uint64_t deadline);

/* ---- fence_external.c (caller holds device->lock) ---- */
/* Fails the values that an external API has not signalled yet. The fence fails if there are any. */
void vks_fence_fail_external(vks_fence *fence);
/* Returns whether a batch that signals the fence must first wait for an external API's signal,
 * because timeline values must grow. */
static inline bool vks_fence_follows_external(const vks_fence *fence)
{
    return fence->external_value > atomic_load_explicit(&fence->page->completed, memory_order_relaxed);
}

/* Returns whether completions of the fence must be published. */
static inline bool vks_fence_is_watched(const vks_fence *fence)
{
    return fence->published || fence->sleepers || fence->n_events || !fence->semaphore;
}

/* ---- surface.c ---- */
vks_status vks_surface_check(const vks_surface *surface); /* VKS_FORKED, VKS_CLOSED, or the device's state */
/* Returns the error for a surface that this handle does not own: it may have been closed or lost
 * since the call began. */
vks_status vks_surface_not_owned(const vks_surface *surface);
/* Blocks until the previous owner's work has run, for waits that the GPU cannot do. */
vks_status vks_surface_wait_complete(vks_surface *surface, uint64_t deadline);
/* Blocks until this device's queue can wait for the previous owner's work: it is with a driver, or
 * has run. */
vks_status vks_surface_wait_submittable(vks_surface *surface, uint64_t deadline);

/* ---- surface.c (caller holds device->lock) ---- */
/* Records an ownership after the page was acquired. */
void vks_surface_begin_ownership(vks_surface *surface, uint64_t ownership, const vks_wait_point *wait_point);
/* Returns whether this handle has a pending value up to `value`, by this process's own records. */
bool vks_surface_has_announced(const vks_surface *surface, uint64_t value);
/* Completes `value`. If it failed, call vks_mutex_poison first. */
void vks_surface_complete(vks_surface *surface, uint64_t value);
/* Returns the value that the ownership's next work will signal. */
uint64_t vks_surface_next_value(const vks_surface *surface);
/* Continues the ownership behind `value`, whose signal is with a driver: `value` becomes the wait
 * point of the ownership's later work. */
void vks_surface_continue_after(vks_surface *surface, uint64_t value);
/* Submits the batch of a release, or holds it behind held operations (`behind`). */
vks_status vks_surface_submit_release(vks_surface *surface, uint64_t value, bool behind);
/* announce: writes the value to the slot; false: an earlier value is pending and stays there.
 * retract: removes it. */
bool vks_surface_announce(vks_surface *surface, uint64_t value);
void vks_surface_retract(vks_surface *surface, uint64_t value);
/* Returns whether a live handle has a pending value up to `value`. This handle's own values count,
 * because an external API may be about to signal them. */
bool vks_surface_is_pending(const vks_surface *surface, uint64_t value);
/* Releases the page now. `behind`: held operations come first, so the batch of the release is held
 * too. */
vks_status vks_surface_release_now(vks_surface *surface, uint64_t key, bool behind);
/* Turns a new surface into a swapchain's image. `presentable` is NULL where no driver presents it. */
vks_status vks_surface_present_from(vks_surface *surface, vks_presentable *presentable);
/* For surface queues, whose pairs carry the ownership.
 *
 *  - acquire_epoch: acquires at once, because no other party may acquire it. The pair names the
 *    epoch in which the surface was released. VKS_TIMEOUT: the word has another epoch, or is owned.
 *  - release_epoch: *value is the value that must complete before the GPU has finished with the
 *    surface (0: it has).
 *  - epoch_after_release: the epoch that the page gets when the owned surface is released.
 *  - was_released: the surface was released in this epoch and is still free.
 *  - was_reacquired: the surface was owned again or recovered since this epoch, so a pair of this
 *    epoch is stale.
 */
vks_status vks_surface_acquire_epoch(vks_surface *surface, uint64_t epoch);
vks_status vks_surface_release_epoch(vks_surface *surface, uint64_t *value);
uint64_t vks_surface_epoch_after_release(const vks_surface *surface);
bool vks_surface_was_released(const vks_surface *surface, uint64_t epoch);
bool vks_surface_was_reacquired(const vks_surface *surface, uint64_t epoch);
bool vks_surface_is_abandoned(const vks_surface *surface);
vks_status vks_surface_wait_released(vks_surface *surface, uint64_t value, uint64_t deadline);
/* queue.c: wakes all sleepers of the device's queues, so that they check the device's state. */
void vks_queue_wake_all(const vks_device *device);
/* A swapchain's image is always owned. Its handle can use it only between acquire and present. */
static inline void vks_surface_set_accessible(vks_surface *surface, bool accessible)
{
    atomic_store_explicit(&surface->owned, accessible, memory_order_release);
}

vks_status vks_cpu_backend_init(vks_device *device, uint32_t threads);
vks_status vks_vulkan_backend_init(vks_device *device, const vks_vulkan_info *info);
/* Handles of the Vulkan backend for native/present/: its VkDevice, VkQueue and vkGetDeviceProcAddr.
 * vks_vulkan_lock_queue takes the lock of an engine's queue. Caller holds device->lock. */
typedef struct vks_vulkan_handles {
    uint64_t device, queue;
    void *get_device_proc_addr;
} vks_vulkan_handles;
vks_vulkan_handles vks_vulkan_get_handles(const vks_device *device);
void vks_vulkan_lock_queue(vks_device *device, bool lock);

#endif
