/* surface.h: one party's handle of a surface: a slot in a mutex page, and its current ownership.
 * Internal. */
#ifndef VKS_SURFACE_H
#define VKS_SURFACE_H

#include "peers/peers.h"
#include "scheduler/scheduler.h"

/* State of a swapchain's image for the submissions that draw into it. Owned by the swapchain
 * (native/present/), used by access.c. Guarded by device->lock. */
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

typedef struct vks_key_fd vks_key_fd;

struct vks_surface {
    vks_child child;
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
    /* This device's queue family owns the image (it was not released to
     * VK_QUEUE_FAMILY_EXTERNAL). */
    bool owned_by_queue;
    /* Barrier from the layout that an engine left its image in; it comes before the first use here. 0:
     * none, or done. */
    uint64_t initial_commands;
    bool layout_unknown;  /* raw command buffers used the image, so its layout is unknown */
    uint64_t exported_at; /* serial of the batch in which an export released it */
    /* Serials: of the last batch of any handle of this device, and of the last one that ended with a
     * barrier for all that follows it in the queue. */
    uint64_t used_serial, visible_serial;
    int page_fd;
    _Atomic uint64_t semaphore; /* the surface's timeline, where semaphores are shared */
    void *pixels;
    size_t size, stride;
    uint64_t announced; /* the last value submitted to a driver as a signal of this handle */
    uint32_t width, height, format;
    vks_color color;
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
    uint64_t writes;                 /* command lists, and turns of other APIs, that may have written */
    _Atomic uint64_t last_serial;    /* serial of the last batch that touched it */
    _Atomic uint32_t held;           /* held operations that touch it */
    _Atomic uint32_t held_acquires;  /* mode="gpu" acquires that are not granted yet */
    _Atomic bool recovering;         /* a recover() is running */
    uint64_t dead_value, dead_since; /* of the recovering thread: the value that a dead owner may signal, found when */
    _Atomic uint32_t waiting;        /* threads that sleep on the page */
    uint64_t mark;                   /* the scheduler's pass in which an earlier held operation touches it */
    uint64_t engine_semaphore, engine_value; /* sync(): the point that the engine signals; value 0: no engine uses it */
    uint64_t engine_serial;                  /* sync(): of the batch that the engine's last submission comes after */
    bool is_engine_in_queue;  /* the last sync() was without a signal: the engine uses the device's queue */
    _Atomic bool is_external; /* an external API uses the surface; `owned` is 0 meanwhile */
    uint64_t external_value;  /* while is_external: the value that the API is to signal; 0: none was requested */
    uint64_t last_value; /* the value signalled by the last work of this ownership, external work included; 0: none */
    vks_presentable *presentable; /* of a swapchain's image; the swapchain clears it before it is destroyed */
    bool is_mirrored;             /* of native/mirror, whose turns acquire and release it */
    uint64_t network;             /* network of queues, which alone acquire and release it; 0: none */
    uint32_t index;               /* in that network */
    void *image;                  /* of native/engine; NULL: the caller's own */
    void (*drop_image)(vks_surface *surface); /* of an original handle: its memory is about to be freed */
    _Atomic(vks_key_fd *) key_fds;            /* of vks_surface_acquire_fd(); device->lock */
    _Atomic bool was_watched;                 /* there was such an fd, so the watcher may know this handle */
    vks_mapping mapping;
};

/* Returns the handle that holds the image's shared state. */
static inline vks_surface *vks_surface_original(const vks_surface *surface)
{
    return surface->original ? surface->original : (vks_surface *)surface;
}
static inline vks_surface *vks_surface_of(vks_child *child) { return VKS_CONTAINER(child, vks_surface, child); }
/* The device's open surfaces, as a list. */
static inline vks_surface *vks_surface_first(const vks_device *device)
{
    vks_child *child = device->children[VKS_SURFACES];
    return child ? vks_surface_of(child) : NULL;
}
static inline vks_surface *vks_surface_next(const vks_surface *surface)
{
    return surface->child.next ? vks_surface_of(surface->child.next) : NULL;
}

/* Records a batch that touches the surface, once the driver has it. */
static inline void vks_surface_use_in(vks_surface *surface, uint64_t serial)
{
    vks_surface_original(surface)->used_serial = serial;
    atomic_store_explicit(&surface->last_serial, serial, memory_order_release);
}
static inline void vks_surface_record_batch(vks_surface *surface, uint64_t serial, bool uses_graphics, bool is_release)
{
    vks_surface_use_in(surface, serial);
    surface->uses_graphics |= uses_graphics;
    surface->submissions += !is_release;
}

/* ---- create.c ---- */
vks_status vks_surface_check(const vks_surface *surface); /* VKS_FORKED, VKS_CLOSED, or the device's state */
/* `refused`: a number that H.273 or vkshare does not have, or a matrix that such a format has not. */
vks_status vks_color_check(vks_status refused, uint32_t format, const vks_color *color);
/* The colour; of planes whose colour is all 0, BT.709's of limited range. */
vks_color vks_color_or_default(uint32_t format, const vks_color *color);
/* Returns the error for a surface that this handle does not own: it may have been closed or lost
 * since the call began. */
vks_status vks_surface_not_owned(const vks_surface *surface);
/* Drops this handle's use of the semaphore; the last user destroys it. Caller holds
 * device->lock. */
void vks_surface_drop_semaphore(vks_surface *surface);
void vks_surface_ref_object(void *surface);
void vks_surface_unref_object(void *surface);

/* ---- descriptor.c ---- */
/* Fills *out, which then owns the fds, with a message that was checked. */
void vks_surface_descriptor_fill(const void *body, const int *fds, size_t n_fds, vks_surface_descriptor *out);

/* ---- close.c ---- */
void vks_surface_lost(vks_child *child); /* of vks_child_class */

/* ---- wait_point.c: the work that an ownership follows (caller holds device->lock) ---- */
bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point);
/* Returns whether a live process has announced the value. Call it before the last check of
 * vks_wait_point_is_complete(), because a completed value is no longer announced. */
bool vks_wait_point_is_alive(const vks_surface *surface, const vks_wait_point *wait_point);
/* The signaller is a handle of this device and the driver has its work, so the order of the queue
 * is enough. Work of an external API in the handle's name runs in another queue and does not
 * count. */
bool vks_wait_point_is_ordered(const vks_device *device, const vks_surface *surface, const vks_wait_point *wait_point);
/* `queue`: the device whose queue is to wait, and which orders its own work; NULL: another
 * queue. */
vks_readiness vks_wait_point_ready(const vks_device *queue, const vks_surface *surface,
                                   const vks_wait_point *wait_point, vks_status *why);
/* Returns whether the device's queue can start work in the surface's current ownership. */
vks_readiness vks_ownership_ready(const vks_surface *surface, vks_status *why);

/* ---- values.c: the values that this handle signals (caller holds device->lock) ---- */
extern const vks_completion_class vks_surface_signal, vks_surface_gpu_wait;
/* announce: writes the value to the slot; false: an earlier value is pending and stays there.
 * retract: removes it. */
bool vks_surface_announce(vks_surface *surface, uint64_t value);
void vks_surface_retract(vks_surface *surface, uint64_t value);
/* Returns whether this handle has a pending value up to `value`, by this process's own records. */
bool vks_surface_has_announced(const vks_surface *surface, uint64_t value);
/* Completes `value`. If it failed, call vks_mutex_poison first. */
void vks_surface_complete(vks_surface *surface, uint64_t value);
/* Returns whether a live handle has a pending value up to `value`. This handle's own values count,
 * because an external API may be about to signal them. */
bool vks_surface_is_pending(const vks_surface *surface, uint64_t value);
/* Returns the value that the ownership's next work will signal. */
uint64_t vks_surface_next_value(const vks_surface *surface);
/* Other processes can write to the page, so a value that the semaphore cannot take must not reach
 * the driver. */
bool vks_surface_may_signal(const vks_surface *surface, uint64_t value, uint64_t counter);
/* VKS_ABANDONED, and the chain is poisoned, unless the surface's semaphore can be signalled with
 * the value. */
vks_status vks_surface_check_value(vks_surface *surface, uint64_t value);
/* Records that the driver has the signal of the value. */
void vks_surface_value_submitted(vks_surface *surface, uint64_t value, uint64_t serial);
/* Continues the ownership behind `value`, whose signal is with a driver: `value` becomes the wait
 * point of the ownership's later work. */
void vks_surface_continue_after(vks_surface *surface, uint64_t value);

/* ---- image.c: which queue family owns the image (caller holds device->lock) ---- */
/* Returns whether a release of the surface must release its image to VK_QUEUE_FAMILY_EXTERNAL. */
bool vks_surface_is_transferred(const vks_surface *surface);
/* Returns whether a release of the surface must submit a barrier, because this queue family owns
 * the image and other processes may acquire it. */
bool vks_surface_needs_release_barrier(const vks_surface *surface);
/* Submits one batch of `commands` (0: none) on the surface at once, with a semaphore to wait for
 * and one to signal (0: none). */
vks_status vks_surface_submit(vks_surface *surface, vks_point wait, uint64_t commands, vks_point signal);
/* For the first export: releases the image to VK_QUEUE_FAMILY_EXTERNAL, unless a later release
 * will. No present uses the queue. */
vks_status vks_surface_release_for_export(vks_surface *surface);

/* ---- access.c ---- */
extern const vks_access_class vks_surface_use, vks_surface_acquire_access, vks_surface_release_access,
    vks_surface_release_batch;
/* An access in the current ownership, which is granted, or in the pending one. */
static inline void vks_access_surface(vks_access *access, const vks_access_class *class, vks_surface *surface,
                                      bool granted)
{
    vks_access_init(access, class, surface, &surface->mark, 0);
    access->granted = granted;
    if (granted)
        access->ownership = surface->ownership;
    else
        access->ownership.id = surface->next_ownership;
}
/* The members that every class of surfaces has. */
vks_readiness vks_surface_use_ready(vks_access *access, const vks_work *work, vks_status *why);
void vks_surface_watch_values(const vks_access *access, vks_watch_list *list);
bool vks_surface_is_watched(const vks_access *access);
void vks_surface_hold_use(const vks_access *access, int by);
uint64_t vks_surface_access_id(const vks_access *access);
vks_status vks_surface_run_release_batch(vks_work *work);
/* Returns whether the access's ownership was granted, by now at least. */
bool vks_access_had_ownership(const vks_access *access);
/* If any operation of a pending acquire fails, fail the whole acquire; otherwise the next owner
 * would receive a partial frame. */
void vks_surface_fail_pending(const vks_access *access, vks_status why);
bool vks_ownership_is_held(const vks_surface *surface); /* work of the current ownership is held */
/* Fails the held operations on the surface, or only the acquires. Caller holds device->lock. */
void vks_surface_fail_held(vks_surface *surface, bool acquires_only, vks_status why);

/* ---- hold.c (caller holds device->lock) ---- */
/* Holds an acquire of the next ownership; *out is a reference of the operation. */
vks_status vks_surface_hold_acquire(vks_surface *surface, uint64_t key, vks_work **out);
vks_status vks_surface_run_release(vks_work *work);

/* ---- acquire.c ---- */
/* Records an ownership after the page was acquired. Caller holds device->lock. */
void vks_surface_begin_ownership(vks_surface *surface, uint64_t ownership, const vks_wait_point *wait_point);
bool vks_surface_is_owned_or_pending(const vks_surface *surface); /* or an acquire is in progress */
vks_status vks_surface_refuse_presentable(const vks_surface *surface);
/* Refuses surfaces whose ownership a queue or a swapchain controls. */
vks_status vks_surface_refuse_managed(const vks_surface *surface);
/* Turns a new surface into a swapchain's image. `presentable` is NULL where no driver presents
 * it. */
vks_status vks_surface_present_from(vks_surface *surface, vks_presentable *presentable);
/* A swapchain's image is always owned. Its handle can use it only between acquire and present. */
static inline void vks_surface_set_accessible(vks_surface *surface, bool accessible)
{
    atomic_store_explicit(&surface->owned, accessible, memory_order_release);
}
/* Watches the page's parties for death; then the state of the surface. A vks_mutex_watch. */
vks_status vks_surface_watch(void *surface);
/* Tries once under the lock, and briefly spins. `epoch`: for a queue, the epoch that the pair
 * names; else NULL. */
vks_status vks_surface_try(vks_surface *surface, uint64_t key, const uint64_t *epoch);

/* ---- key_fds.c ---- */
/* Sets the fds by the state of now. Caller holds device->lock. */
void vks_surface_update_fds(vks_surface *surface);
/* The same after a call that may change the answer of the next acquire. Caller holds device->lock. */
static inline void vks_surface_changed(vks_surface *surface)
{
    if (__builtin_expect(atomic_load_explicit(&surface->key_fds, memory_order_relaxed) != NULL, 0))
        vks_surface_update_fds(surface);
}
/* The same after an acquire that returned `status`. Takes device->lock. */
void vks_surface_acquire_failed(vks_surface *surface, vks_status status);
void vks_surface_close_fds(vks_surface *surface); /* of a handle without references */

/* ---- release.c ---- */
/* Submits the batch of a release, or holds it behind held operations (`behind`). Caller holds
 * device->lock. */
vks_status vks_surface_submit_release(vks_surface *surface, uint64_t value, bool behind);
/* Releases the page now. `behind`: held operations come first, so the batch of the release is held
 * too. Caller holds device->lock. */
vks_status vks_surface_release_now(vks_surface *surface, uint64_t key, bool behind);
vks_status vks_surface_release_as(vks_surface *surface, uint64_t key, bool by_queue); /* takes the lock */

/* ---- wait.c ---- */
vks_status vks_surface_wait_held(vks_surface *surface, uint64_t deadline); /* blocks until none is held on it */
/* Blocks until the previous owner's work has run, for waits that the GPU cannot do. */
vks_status vks_surface_wait_complete(vks_surface *surface, uint64_t deadline);
/* Blocks until this device's queue can wait for the previous owner's work: it is with a driver, or
 * has run. */
vks_status vks_surface_wait_submittable(vks_surface *surface, uint64_t deadline);
/* The same for one wait point; VKS_ABANDONED: it will never complete. */
vks_status vks_wait_point_wait(vks_surface *surface, const vks_wait_point *wait_point, uint64_t deadline);
vks_status vks_surface_sleep_on_values(vks_surface *surface, uint32_t seq, uint64_t deadline); /* once */
/* Runs the call and counts it in `waiting`: close() wakes such calls and lets them return before it
 * frees the slot and the semaphore. */
vks_status vks_surface_as_waiter(vks_surface *surface, vks_status (*call)(vks_surface *surface, uint64_t deadline),
                                 uint64_t deadline);

/* ---- external.c ---- */
/* Returns whether an engine may have submitted work to the device's own queue that no batch came after:
 * no serial covers it. Caller holds device->lock. */
static inline bool vks_surface_has_uncovered_work(const vks_surface *surface)
{
    return surface->is_engine_in_queue && surface->last_serial == surface->engine_serial;
}
/* Whether an engine in the device's own queue (sync() without a signal) may have submitted work that no
 * serial covers. Caller holds device->lock. */
bool vks_surface_has_engine_work(const vks_surface *surface);
/* Submits a batch behind that work; *serial is what the CPU waits for. Takes device->lock. */
vks_status vks_surface_follow_engine(vks_surface *surface, uint64_t deadline, uint64_t *serial);

/* ---- network.c: for surface queues, whose pairs carry the ownership ----
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

#endif
