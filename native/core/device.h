/* device.h: the objects of the core and who owns what. Internal.
 *
 * One lock a device (device->lock) guards everything in it: its fences, its surface handles, its held operations, the
 * order of its queue. It is never held while another device's is taken, nor while a thread sleeps. Below it come the
 * locks of the watcher, the peers and the hubs.
 *
 *  - vks_device: counts batches by serials, keeps the held operations in order, and the ring of what completions
 * publish
 *  - vks_fence: a timeline: a VkSemaphore and/or a fence page
 *  - vks_surface: a handle: a slot in a mutex page, and the tenure (one ownership) that it has
 *  - vks_work: an operation that is or was held
 *  - vks_commands: a compiled command list
 */
#ifndef VKS_DEVICE_H
#define VKS_DEVICE_H

#include <pthread.h>

#include "event_queue.h"
#include "mutex_page.h"
#include "peers.h"
#include "vkshare.h"

typedef struct vks_point {
    uint64_t semaphore, value;
} vks_point;

/* The queue families of a device, which has one queue of each. Serials count the batches of both, which run in the
 * order of their serials: the first batch after a change of queue waits on the GPU for the last one before it. */
typedef enum vks_family { VKS_GRAPHICS, VKS_TRANSFER, VKS_FAMILIES } vks_family;

/* What the driver is given in one call. */
typedef struct vks_batch {
    vks_family family; /* of the queue */
    const vks_point *waits;
    const vks_point *signals;      /* on top of these the backend signals the device's own timeline with `serial` */
    const uint64_t *buffers;       /* Vulkan: VkCommandBuffers in order */
    vks_commands *const *commands; /* CPU: programs in order */
    uint32_t n_waits, n_signals, n_buffers, n_commands;
    uint64_t serial;
} vks_batch;

/* The two ways to keep the interface. All calls but wait() and stop() are made under the device's lock. */
typedef struct vks_backend {
    vks_status (*submit)(vks_device *device, const vks_batch *batch);
    uint64_t (*completed)(vks_device *device); /* the serial up to which everything has run; any thread, any time */
    /* Blocks for at most some 20 ms: VKS_OK when `serial` has run, VKS_INTERRUPTED to be called again, VKS_TIMEOUT. */
    vks_status (*wait)(vks_device *device, uint64_t serial, uint64_t deadline);
    vks_status (*prepare)(vks_device *device); /* starts the thread that publishes completions; again: nothing */
    void (*interest)(vks_device *device);      /* the ring is not empty any more: somebody must publish completions */
    void (*stop)(vks_device *device);          /* ends the threads; everything submitted has run */
    void (*destroy)(vks_device *device);
    /* timelines; semaphore 0 has none */
    vks_status (*create_timeline)(vks_device *device, uint64_t initial, uint64_t *semaphore);
    void (*destroy_timeline)(vks_device *device, uint64_t semaphore);
    vks_status (*counter)(vks_device *device, uint64_t semaphore, uint64_t *value);
    vks_status (*host_signal)(vks_device *device, uint64_t semaphore, uint64_t value);
    /* Like wait(). */
    vks_status (*wait_timeline)(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline);
    vks_status (*export_timeline)(vks_device *device, uint64_t semaphore, int *fd);
    vks_status (*import_timeline)(vks_device *device, int fd, uint64_t *semaphore); /* takes over the fd */
} vks_backend;

/* What must be published when `serial` has run. The waits are there to be looked at while the GPU waits:
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
    uint64_t serial; /* of what another API brings to a fence: the value that must have come before */
    vks_completion_kind kind;
    void *object; /* a reference: vks_fence, vks_surface or vks_event_queue; of VKS_COMPLETION_TRACE the device, without
                     one */
    uint64_t value; /* fence or surface value, or the token, or when the driver had it */
} vks_completion;

struct vks_device {
    pthread_mutex_t lock;
    const vks_backend *backend;
    void *impl;
    uint64_t timeline; /* VkSemaphore that counts serials; 0 on the CPU backend */
    bool has_transfer; /* a queue that only copies */
    vks_family family; /* of the queue that the last batch went to */
    _Atomic uint32_t references;
    uint32_t process;       /* vks_process of the maker */
    uint32_t number;        /* in this process, for traces */
    _Atomic uint32_t state; /* a vks_status */
    char name[VKS_NAME_SIZE];
    bool native_timelines;
    uint64_t max_difference;

    _Atomic uint64_t submitted; /* the last serial given out; written under the lock */
    _Atomic uint32_t progress;  /* the futex of those who wait for held work, and on the CPU backend for serials */
    _Atomic uint32_t waiters;   /* on progress */

    vks_work *held_first, *held_last;
    uint32_t n_held, held_limit;
    uint64_t round; /* of the pump: marks what it found blocked */
    bool scheduling, schedule_again, watching;
    bool presenting; /* a present has the queue: what is submitted meanwhile is held */
    uint64_t presenting_since;
    uint32_t adopted_waits; /* held waits for an engine's semaphores: nobody announces them, so they are polled */

    vks_completion *ring; /* in order of serials */
    size_t ring_first, ring_count, ring_capacity;
    vks_completion *external; /* what other APIs' queues bring or wait for: no serial tells, the semaphores are asked */
    size_t n_external, external_capacity;

    vks_fence *fences; /* open ones */
    bool late;         /* somebody waits for values of fences whose serials were not remembered: look now and then */
    vks_surface *surfaces;
    vks_queue *queues;            /* open ends */
    _Atomic(vks_commands *) dead; /* unreferenced, waiting for vks_device_reap */
    vks_device_statistics statistics;
    _Atomic bool lost;          /* DEVICE_LOST was seen; stays so when the device is closed */
    _Atomic bool gone;          /* shut down: nobody asks the driver any more */
    _Atomic uint32_t shut_down; /* 1: a shutdown has begun; 2: it has ended */
    _Atomic bool ending;        /* a thread is in a step of it */
    uint64_t end_limit;         /* of the step that waits */
    _Atomic bool leaks;         /* the driver did not finish: what it may use is never destroyed */
    _Atomic bool swapchain_leaked;    /* the same of a swapchain, while the device went on */
    _Atomic uint32_t inside;    /* calls that use the driver without the lock */
    uint64_t final;             /* once it is gone: the last serial that has run */
};

struct vks_fence {
    vks_fence *next, *previous; /* in device->fences */
    vks_device *device;         /* a reference */
    _Atomic uint32_t references;
    uint32_t process;
    vks_fence_page *_Atomic page; /* private memory until the fence is exported */
    vks_fence_page *private_page;
    int page_fd;
    _Atomic uint64_t semaphore;        /* written under the lock; 0 once it is closed */
    bool follower, adopted, published; /* published: completions must reach the page (an export, an event, a sleeper) */
    _Atomic bool closed;
    uint64_t announced;       /* queued and held signals */
    uint64_t last_serial;     /* of the batch that brings the last queued signal */
    uint64_t external_signal; /* what another API was told to signal, and its queue was not given yet; 0: nothing */
    uint64_t external_after;  /* then: the value that was promised before */
    uint64_t
        external_value; /* the last value that another API's queue was given to signal: ours are to come after it */
    uint64_t end;       /* above it nothing is true any more: that API died, and the signals are for the stuck */
    uint32_t sleepers;  /* on the page's seq, under the lock */
    uint32_t driver_waiters; /* threads inside wait_timeline */
    uint64_t signal_mark;    /* the pump's round in which an earlier held operation signals it */
    uint32_t held_signals, held_waits;
    struct vks_event *events; /* heap by value */
    size_t n_events, event_capacity;
    vks_mapping mapping; /* followers */
};

/* One ownership of a surface by a handle. */
typedef struct vks_ownership {
    uint64_t id;               /* counts the handle's tenures; 0: none */
    vks_wait_point wait_point; /* what its work must wait for */
} vks_ownership;

/* What a submission that draws into a swapchain's image needs beside its commands. It is the swapchain's
 * (native/present/), batch.c uses it; guarded by the device's lock. */
typedef struct vks_presentable vks_presentable;
struct vks_presentable {
    uint64_t acquired;                       /* VkSemaphore of the acquire: the next submission waits for it; 0: none */
    uint64_t initial_commands;                 /* from UNDEFINED to PRESENT_SRC_KHR, before the first use; 0: that was */
    uint64_t spare;                          /* VkSemaphore for the next submission to signal */
    uint64_t rendered[VKS_FRAME_SEMAPHORES]; /* signalled by the submissions so far: what the present waits for */
    uint32_t n_rendered;
    uint64_t waited;                               /* serial of the submission that waited for `acquired` */
    vks_status (*refill)(vks_presentable *itself); /* sees to it that there is a spare */
};

struct vks_surface {
    vks_surface *next, *previous;
    vks_device *device;
    _Atomic uint32_t references;
    uint32_t process;
    vks_mutex_handle handle;
    vks_surface *original; /* a reference: the handle whose page, page_fd and semaphore this one uses; NULL: its own */
    /* Of an original, under the lock: */
    uint32_t semaphore_users; /* open handles, itself among them */
    bool is_shared;           /* others may have it open: it was exported, or came from elsewhere */
    bool owned_by_queue;      /* this queue has its image: it was not handed to VK_QUEUE_FAMILY_EXTERNAL since */
    bool layout_unknown;      /* and raw command buffers used it: nobody knows how they left it */
    uint64_t exported_at;     /* serial of the batch in which an export handed it there */
    int page_fd;
    _Atomic uint64_t semaphore; /* the surface's timeline where it travels natively */
    void *pixels;
    size_t size, stride;
    uint64_t announced; /* the last value that the driver was given to signal for this handle */
    uint32_t width, height, format;
    uint64_t acquire_commands[VKS_FAMILIES], release_commands[VKS_FAMILIES]; /* by the queue that runs them */
    bool last_used_graphics, uses_graphics; /* the last tenure's work was not copies alone; and this one's so far */
    bool is_single;                         /* the last tenure was of one submission */
    uint32_t submissions;                   /* in this tenure */
    bool discard_unowned, is_presentable;
    _Atomic bool closed;
    _Atomic uint32_t owned;                  /* as the caller sees it: granted, and release() was not called */
    _Atomic bool has_page;                   /* as the page has it: a queued release may be due still */
    _Atomic bool pending;                    /* a mode="gpu" tenure (next_ownership) is open and not granted yet */
    vks_ownership ownership;                 /* the current one, or the last */
    uint64_t next_ownership;                 /* the last id given out */
    uint64_t released;                       /* the last tenure for which release() was called */
    uint64_t acquire_submitted;              /* id of the last tenure whose acquire the driver was given */
    _Atomic uint64_t last_serial;            /* of the last batch that touched it */
    _Atomic uint32_t held;                   /* held operations that touch it */
    _Atomic uint32_t held_acquires;          /* mode="gpu" tenures that are not granted yet */
    _Atomic bool recovering;                 /* a recover() is under way */
    _Atomic uint32_t waiting;                /* threads that sleep on the page */
    uint64_t mark;                           /* the pump's round in which an earlier held operation touches it */
    uint64_t engine_semaphore, engine_value; /* sync(): what the engine signals */
    _Atomic bool is_external;     /* another API, which has the semaphore, works on it; `owned` is 0 meanwhile */
    uint64_t external_value;      /* while it is: the value that the other API was told to signal; 0: it did not ask */
    uint64_t last_value;          /* in this tenure: the value that its last work, another API's or our own, brings */
    vks_presentable *presentable; /* of a swapchain's image; its owner unsets it before it goes */
    uint64_t network;             /* of queues, by which alone it is acquired and released; 0: none */
    uint32_t index;               /* in that network */
    vks_mapping mapping;
};

struct vks_commands {
    vks_commands *next_dead;
    vks_device *device;
    _Atomic uint32_t references;
    uint64_t buffers[VKS_FAMILIES]; /* VkCommandBuffers; 0 for the transfer queue: it does more than copy */
    vks_program *program;
    struct vks_image *images; /* for the program, one a slot */
    size_t n_images;
    _Atomic uint64_t last_serial;
    void (*retire)(void *user);
    void *user;
    size_t n_uses;
    vks_use uses[];
};

/* The handle that stands for the image of several. */
static inline vks_surface *vks_surface_original(const vks_surface *surface)
{
    return surface->original ? surface->original : (vks_surface *)surface;
}

typedef enum vks_work_kind { VKS_WORK_SUBMIT, VKS_WORK_ACQUIRE, VKS_WORK_RELEASE } vks_work_kind;

/* A surface that an operation touches, with the tenure that it belongs to. */
typedef struct vks_touch {
    vks_surface *surface;
    vks_ownership ownership;
    bool granted;   /* false: the tenure is a mode="gpu" one that was pending; ask the surface when the turn comes */
    uint64_t value; /* that its batch brings, so that a release needs none of its own; 0: the release brings it */
} vks_touch;

typedef struct vks_event {
    uint64_t value;               /* fences */
    vks_event_queue *event_queue; /* or */
    int fd;                       /* an eventfd of ours to write to and close */
    uint64_t token;
} vks_event;

struct vks_work {
    vks_work *next, *previous;
    vks_device *device;
    _Atomic uint32_t references;
    vks_work_kind kind;
    _Atomic uint32_t status; /* VKS_TIMEOUT while held; VKS_OK; else why it never ran */
    _Atomic uint64_t serial; /* of the batch, once the driver has it */
    uint64_t key;            /* acquire, release */
    uint64_t number, since;  /* for traces: 0 where there is none, or it was never held */
    bool word_done;          /* release: the page was released already, only the work is due */
    bool may_signal_release; /* submit: it may bring what a release of its surfaces would */
    uint64_t value;          /* release: the surface value that its work brings */
    vks_touch *touches;
    vks_wait *waits;
    vks_signal *signals;
    vks_commands **commands;
    uint64_t *raw;
    uint32_t n_touches, n_waits, n_signals, n_commands, n_raw;
    vks_event *events; /* hubs to tell */
    size_t n_events;
};

#define VKS_CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

/* ---- device.c ---- */
static inline vks_status vks_device_check(const vks_device *device)
{
    if (__builtin_expect(device->process != vks_process, 0))
        return VKS_FORKED;
    return (vks_status)atomic_load_explicit(&device->state, memory_order_relaxed);
}
/* Round every use of the driver without the lock: shutdown waits for those inside. False: the device is gone. They may
 * nest. */
static inline void vks_device_leave(vks_device *device) { atomic_fetch_sub(&device->inside, 1); }
static inline bool vks_device_enter(vks_device *device)
{
    atomic_fetch_add(&device->inside, 1);
    if (__builtin_expect(!atomic_load(&device->gone), 1))
        return true;
    vks_device_leave(device);
    return false;
}
/* Under the lock. Makes room for n more dues, and sees to it that they will be published, so that
 * vks_device_add_completion cannot fail once the driver has the work. */
vks_status vks_device_reserve(vks_device *device, size_t n);
void vks_device_add_completion(vks_device *device, uint64_t serial, vks_completion_kind kind, void *object,
                               uint64_t value);
/* The same for what another API's queue brings, or waits for: `object` is a surface or a fence, whose semaphore says
 * when. `before`: what its semaphore must have first (fences). */
vks_status vks_device_reserve_external_completion(vks_device *device);
void vks_device_add_external_completion(vks_device *device, vks_completion_kind kind, void *object, uint64_t value,
                                        uint64_t before);
/* Whether such a value of the object, of that kind (and value, if it is not 0), is still to come. */
bool vks_device_awaits_external(const vks_device *device, vks_completion_kind kind, const void *object, uint64_t value);
void vks_device_drop_external_completions(vks_device *device, const void *object,
                                          uint64_t value); /* 0: all of the object */
void vks_device_publish(vks_device *device);
void vks_device_progress(vks_device *device); /* wakes those who sleep on progress */
void vks_device_lose(vks_device *device);     /* DEVICE_LOST was seen */
/* VKS_OK when the serial has run, VKS_TIMEOUT while it may, else why it never will. With the lock or without. */
vks_status vks_device_poll_serial(vks_device *device, uint64_t serial);
/* Without the lock. Blocks; may answer VKS_INTERRUPTED. */
vks_status vks_device_wait_serial(vks_device *device, uint64_t serial, uint64_t deadline);
/* Like it, before something is destroyed: a loss of the device does not end the wait, the driver's own word does
 * (Vulkan 4.2.3: such a wait is finite, and after VK_ERROR_DEVICE_LOST nothing is in use). VKS_TIMEOUT: it may be in
 * use. */
vks_status vks_device_drain(vks_device *device, uint64_t serial, uint64_t deadline);
/* Like it, until n_held falls below `below` or `surface` (may be NULL) has no held operation. */
vks_status vks_device_wait_held(vks_device *device, uint32_t below, const vks_surface *surface, uint64_t deadline);
/* Before a close: gives work behind a release (of `surface`, or all) that others were promised until `limit` (half a
 * second from when the close began) to go; it only waits for their work, as a rule, and cancelling it would abandon a
 * surface that was handed over in good order. VKS_OK, or VKS_INTERRUPTED. */
#define VKS_RELEASE_GRACE_NS UINT64_C(500000000)
vks_status vks_device_finish_releases(vks_device *device, const vks_surface *surface, uint64_t limit);

/* A present may last as long as the rendering or the display does, so the queue is its own meanwhile, without the lock:
 * submissions are held until it ends. begin blocks while another present has the queue, and lets go of the lock then:
 * until the deadline, and no longer than VKS_LONGEST_PRESENT_NS after that present began. Unless it answers VKS_OK
 * (else VKS_TIMEOUT, VKS_INTERRUPTED) there is nothing to end. */
#define VKS_LONGEST_PRESENT_NS UINT64_C(10000000000)
vks_status vks_device_begin_present(vks_device *device, uint64_t deadline);
void vks_device_end_present(vks_device *device);

/* ---- batch.c: from an operation to the driver (under the lock) ---- */
typedef enum vks_readiness { VKS_READY, VKS_HOLD, VKS_FAIL } vks_readiness;
/* May the operation be handed over now? On VKS_FAIL *why says why it never can. */
vks_readiness vks_work_ready(vks_device *device, const vks_work *op, vks_status *why);
/* Hands a ready submission (or a release's work) to the driver; op->serial is set. */
vks_status vks_work_submit(vks_device *device, vks_work *op);
bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point);
/* May the device's queue go on with the surface's tenure, for commands or whatever else? */
vks_readiness vks_ownership_ready(const vks_surface *surface, vks_status *why);
/* Likewise, may the queue of another API wait for what the surface's tenure took over? The order of ours says nothing
 * to it. */
vks_readiness vks_ownership_ready_external(const vks_surface *surface, vks_status *why);
/* Whether the driver has work with a release of it, whatever this tenure did: the image is here and others wait for it.
 */
bool vks_surface_needs_release_barrier(const vks_surface *surface);
/* One batch of `commands` (0: none) on the surface, at once, with a semaphore to wait for and one to signal (0: none).
 */
vks_status vks_surface_submit(vks_surface *surface, vks_point wait, uint64_t commands, vks_point signal);
/* For the first export of an image that goes out: hands it to others where no release is to come that does. The queue
 * is free. */
vks_status vks_surface_release_for_export(vks_surface *surface);
/* VKS_ABANDONED (and a broken chain) unless the surface's semaphore can be brought to the value. */
vks_status vks_surface_check_value(vks_surface *surface, uint64_t value);
/* Whether a living process has promised to bring it. Asked before vks_wait_point_is_complete() is asked once more: a
 * promise that was kept in between is none any longer. */
bool vks_wait_point_is_alive(const vks_surface *surface, const vks_wait_point *wait_point);

/* ---- submit_fast.c (under the lock) ---- */
bool vks_submit_is_fast(const vks_device *device, const vks_submit_info *info);
/* Hands it over; `signals` are checked, and the device's state is. */
vks_status vks_submit_fast(vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                           uint64_t *serial);

/* ---- orphaned_waits.c (under the lock) ---- */
void vks_device_resolve_orphaned_waits(vks_device *device); /* ends GPU waits for what will never be signalled */

/* ---- scheduler.c (under the lock) ---- */
void vks_work_hold(vks_device *device, vks_work *op); /* takes over the reference; the op is complete */
void vks_scheduler_run(vks_device *device);           /* hands over, grants, fails whatever can be; sets the watcher */
void vks_scheduler_run_unlocked(void *device);        /* without the lock: for the watcher and the peers */
vks_work *vks_work_create(vks_device *device, vks_work_kind kind, uint32_t n_touches, uint32_t n_waits,
                          uint32_t n_signals, uint32_t n_commands, uint32_t n_raw);
bool vks_ownership_is_held(const vks_surface *surface); /* work of its tenure is; that of earlier ones does not count */
void vks_work_fail(vks_device *device, vks_work *op, vks_status why); /* off the list, chains broken, debts settled */

/* ---- submit.c (under the lock) ---- */
vks_status vks_submit_signal(vks_device *device, vks_signal *signal); /* through the queue, past every bound */

/* ---- fence.c (under the lock) ---- */
void vks_fence_refresh_late(vks_device *device);            /* publishes what was asked for late */
void vks_fence_raise(vks_fence *fence, uint64_t completed); /* publish a completion: page, sleepers, events */
void vks_fence_queue(vks_fence *fence, uint64_t value, uint64_t serial); /* the driver has the signal */
void vks_fence_publish_queued(vks_fence *fence,
                              uint64_t value); /* on the page: the signal is with a driver, or another API */
vks_status vks_fence_check_signal(vks_fence *fence, vks_device *device, uint64_t *value);
void vks_fence_break(vks_fence *fence); /* a promised signal will never come, or the device is lost */
void vks_fence_finish_close(vks_fence *fence);
uint64_t vks_fence_completed(vks_fence *fence); /* the freshest that is known; may find the device lost */

/* ---- fence.c ---- */
/* Blocks until a queue may wait for the value without being stuck: its signal is with a driver, or it was reached. */
vks_status vks_fence_wait_certain(vks_fence *fence, uint64_t value, uint64_t deadline);

/* ---- fence_external.c (under the lock) ---- */
/* What another API is still to bring ends; the fence is broken if there was any. */
void vks_fence_fail_external(vks_fence *fence);
/* Whether a batch that signals it must wait first for what another API brings: a counter takes its values in order. */
static inline bool vks_fence_follows_external(const vks_fence *fence)
{
    return fence->external_value > atomic_load_explicit(&fence->page->completed, memory_order_relaxed);
}

/* Whether its completions must be published. */
static inline bool vks_fence_is_watched(const vks_fence *fence)
{
    return fence->published || fence->sleepers || fence->n_events || !fence->semaphore;
}

/* ---- surface.c ---- */
vks_status vks_surface_check(const vks_surface *surface); /* VKS_FORKED, VKS_CLOSED, or the device's */
/* What to say where this handle does not own the surface: it may have been closed or lost since the call began. */
vks_status vks_surface_not_owned(const vks_surface *surface);
/* Blocks until the previous owner's work has run: for what the GPU itself cannot wait for. */
vks_status vks_surface_wait_complete(vks_surface *surface, uint64_t deadline);
/* Blocks until this device's queue can: what the previous owner left is with a driver, or has run. */
vks_status vks_surface_wait_certain(vks_surface *surface, uint64_t deadline);

/* ---- surface.c (under the lock) ---- */
void vks_surface_begin_ownership(vks_surface *surface, uint64_t ownership,
                                 const vks_wait_point *wait_point); /* bookkeeping after the page was acquired */
/* Whether a promise of this handle is open that brings `value`, or comes before it, as this process itself knows. */
bool vks_surface_has_announced(const vks_surface *surface, uint64_t value);
/* The promise of `value` is kept, or broken (then after vks_mutex_poison). */
void vks_surface_complete(vks_surface *surface, uint64_t value);
/* The value that the tenure's work, or its next part, is to bring. */
uint64_t vks_surface_next_value(const vks_surface *surface);
/* The value is brought by work that is with a driver: the tenure goes on as if it had just begun, behind it. */
void vks_surface_take_over_own(vks_surface *surface, uint64_t value);
/* Gives the release's work to the driver now, or holds it behind what is held. */
vks_status vks_surface_submit_release(vks_surface *surface, uint64_t value, bool behind);
/* Tells the page of the promise; false: an earlier one is open still, and stands there. And takes it back. */
bool vks_surface_announce(vks_surface *surface, uint64_t value);
void vks_surface_retract(vks_surface *surface, uint64_t value);
/* Whether a living handle's work, promised up to `value`, is still to come; this one's own counts, since another API
 * may be to bring it. */
bool vks_surface_is_pending(const vks_surface *surface, uint64_t value);
/* `behind`: held operations come first, so that the work of the release is held too; the page is released now all the
 * same. */
vks_status vks_surface_release_now(vks_surface *surface, uint64_t key, bool behind);
/* Makes a new surface a swapchain's image (`presentable` is NULL where no driver presents it). */
vks_status vks_surface_present_from(vks_surface *surface, vks_presentable *presentable);
/* For the queues: ownership comes and goes with the ring's pairs. take: at once, for nobody else may want it; the pair
 * names the epoch in which the surface was given up for it (VKS_TIMEOUT: the word is in another one, or owned). give:
 * *value is what must have completed before the GPU has finished with it (0: it has). The epoch that the page will have
 * once an owned surface was given up tells later whether it was. was_handed_on: the surface was given up for this epoch
 * and has been owned since, or was recovered, so a pair that names the epoch has nothing to give. */
vks_status vks_surface_acquire_epoch(vks_surface *surface, uint64_t epoch);
vks_status vks_surface_release_epoch(vks_surface *surface, uint64_t *value);
uint64_t vks_surface_epoch_after_release(const vks_surface *surface);
bool vks_surface_was_released(const vks_surface *surface, uint64_t epoch);
bool vks_surface_was_reacquired(const vks_surface *surface, uint64_t epoch);
bool vks_surface_is_abandoned(const vks_surface *surface);
vks_status vks_surface_wait_released(vks_surface *surface, uint64_t value, uint64_t deadline);
/* queue.c: wakes who sleeps on it, to see what became of the device. */
void vks_queue_wake_all(const vks_device *device);
/* A swapchain's image is owned for good, and shows it to its handle from acquire to present only. */
static inline void vks_surface_set_accessible(vks_surface *surface, bool lend)
{
    atomic_store_explicit(&surface->owned, lend, memory_order_release);
}

vks_status vks_cpu_backend_init(vks_device *device, uint32_t threads);
vks_status vks_vulkan_backend_init(vks_device *device, const vks_vulkan_info *info);
/* Of the Vulkan backend, for native/present/: its VkDevice, VkQueue and vkGetDeviceProcAddr, and the lock that an
 * engine takes round its queue (the device's own is held already). */
typedef struct vks_vulkan_handles {
    uint64_t device, queue;
    void *get_device_proc_addr;
} vks_vulkan_handles;
vks_vulkan_handles vks_vulkan_get_handles(const vks_device *device);
void vks_vulkan_lock_queue(vks_device *device, bool lock);

#endif
