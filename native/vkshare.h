/* vkshare.h: the C core of vkshare. This header is its manual.
 *
 * The core does not depend on Python. It holds the shared pages (fence pages, keyed-mutex pages),
 * the devices with their held submissions, and the threads that report completions and process
 * deaths. It has two backends: Vulkan (native/backend/vulkan.c) and the CPU
 * (native/backend/cpu.c).
 *
 * Conventions
 *  - Every function is safe to call from any thread unless its comment says otherwise.
 *  - A function whose comment says nothing of blocking takes the device's lock at most, which no
 *    thread holds while it sleeps.
 *  - Every function that returns vks_status may return the general statuses: VKS_NO_MEMORY,
 *    VKS_OS_ERROR, VKS_VULKAN_ERROR, and for an object VKS_CLOSED, VKS_DEVICE_LOST and VKS_FORKED.
 *    Its comment has the others, or says that there are none.
 *  - Deadlines are absolute CLOCK_MONOTONIC nanoseconds. 0 tests and returns; VKS_FOREVER never
 *    expires.
 *  - The comment of a function that can block says so. Such a function may return VKS_INTERRUPTED:
 *    nothing changed, and the caller runs its signal handlers and calls again with the same
 *    deadline. It returns that after a signal, after the interrupt interval, or when another thread
 *    changed the object during the call. A signal that arrives just before a sleep does not end the
 *    sleep; vks_set_interrupt_interval() bounds how long such a signal stays unseen.
 *  - Objects are reference counted (vks_X_ref, vks_X_unref). Close and the last unref are separate:
 *    close ends the object's activity, the last unref frees its memory.
 *  - A function that fails stores the details in the calling thread's vks_error (vks_last_error()).
 *  - After fork() every inherited object returns VKS_FORKED and is left untouched.
 */
#ifndef VKSHARE_H
#define VKSHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the functions of this header are what libvkshare.so exports */

#define VKS_VERSION_MAJOR 0
#define VKS_VERSION_MINOR 1
#define VKS_VERSION_PATCH 0
/* One number for a version, so that versions can be compared. */
#define VKS_MAKE_VERSION(major, minor, patch) ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12 | (uint32_t)(patch))
#define VKS_VERSION VKS_MAKE_VERSION(VKS_VERSION_MAJOR, VKS_VERSION_MINOR, VKS_VERSION_PATCH)

#define VKS_FOREVER UINT64_MAX
#define VKS_LAYOUT_VERSION 3u /* of the shared pages; other versions are refused (K32) */
#define VKS_SLOTS 120u        /* handles that may share one surface at a time */
#define VKS_NAME_SIZE 24u     /* a device's name in a slot, with its final 0 */
#define VKS_MAX_FENCE_VALUE (UINT64_MAX - 1)
#define VKS_FRAME_SEMAPHORES 8u /* the most that one present waits for */

typedef enum vks_status {
    VKS_OK = 0,
    VKS_TIMEOUT,       /* the deadline passed; nothing changed */
    VKS_INTERRUPTED,   /* nothing changed; call again with the same deadline */
    VKS_ABANDONED,     /* an owner or signaller died, was closed or failed before its work completed */
    VKS_NOT_OWNER,     /* this handle does not own the surface */
    VKS_ALREADY_OWNER, /* this handle owns the surface already (K3) */
    VKS_NOT_ABANDONED, /* recover() of a surface that is not abandoned */
    VKS_CLOSED,        /* the object, or its device, was closed */
    VKS_DEVICE_LOST,
    VKS_FORKED,         /* the object was made before fork() */
    VKS_READ_ONLY,      /* a follower cannot signal (X10) */
    VKS_BAD_VALUE,      /* a fence value outside the rules (X1) */
    VKS_FOREIGN_DEVICE, /* the object belongs to another device */
    VKS_FULL,           /* all slots of a page are taken */
    VKS_BAD_PAGE,       /* a page or a descriptor from another process was refused; the text says why */
    VKS_OS_ERROR,       /* code is errno, the text names the call */
    VKS_VULKAN_ERROR,   /* code is the VkResult, the text names the call */
    VKS_UNSUPPORTED,
    VKS_NO_MEMORY,
    VKS_BAD_CALL,     /* the object's state does not allow it; the text says why */
    VKS_SURFACE_LOST, /* the window surface behind a swapchain is gone */
    VKS_HIDDEN,       /* the window has no pixels now: there is nothing to present to */
    VKS_OUTDATED      /* a ring of images must be created again, because its size changes */
} vks_status;

typedef struct vks_error {
    vks_status status;
    int64_t code;   /* errno or VkResult */
    char text[232]; /* one sentence, no final full stop */
} vks_error;

/* VKS_VERSION of the library that is loaded, which may be newer than this header. Before 1.0 the
 * interface is the same only if major and minor are the same. */
uint32_t vks_version(void);

/* The calling thread's last error. It is the thread's own, and valid until its next failing call. */
const vks_error *vks_last_error(void);
void vks_clear_error(void); /* call before a function whose VKS_TIMEOUT may have a text of its own */

uint64_t vks_now(void); /* CLOCK_MONOTONIC, ns */

/* Sets the longest sleep, in ns, after which a blocking call of the calling thread returns
 * VKS_INTERRUPTED. 0 (the initial value): only a signal interrupts. */
void vks_set_interrupt_interval(uint64_t ns);

typedef struct vks_device vks_device;
typedef struct vks_fence vks_fence;
typedef struct vks_surface vks_surface;
typedef struct vks_commands vks_commands;
typedef struct vks_work vks_work; /* one operation that is or was held */
typedef struct vks_event_queue vks_event_queue;

/* ---- event queues: one eventfd for any number of outstanding events (X23) ---- */

/* An event queue collects the tokens of completed events. Its eventfd is readable while it holds
 * any. *out is a reference. General statuses only. */
vks_status vks_event_queue_create(vks_event_queue **out);
int vks_event_queue_fd(const vks_event_queue *event_queue); /* owned by the event queue */
/* Moves up to `capacity` tokens out and returns their number. The fd stays readable while more are
 * left. results[i] is VKS_OK, or the reason why the event can never happen. */
size_t vks_event_queue_drain(vks_event_queue *event_queue, uint64_t *tokens, vks_status *results, size_t capacity);
/* Closes the eventfd; events that come later are dropped. Idempotent. */
void vks_event_queue_close(vks_event_queue *event_queue);
void vks_event_queue_ref(vks_event_queue *event_queue);
void vks_event_queue_unref(vks_event_queue *event_queue);

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* The parts of a VkDevice that the core uses. Handles are passed as integers, so that this header
 * needs no vulkan_core.h. */
typedef struct vks_vulkan_info {
    void *get_device_proc_addr; /* PFN_vkGetDeviceProcAddr */
    uint64_t device;            /* VkDevice; the caller destroys it after vks_device_shutdown() */
    uint64_t queue;             /* VkQueue of that device, of a graphics family */
    uint64_t transfer_queue;    /* a queue of a transfer-only family, for work that only copies; 0: none */
    /* Timeline semaphores can be exported and imported as opaque fds; a trial has proven it (X22):
     * vks_vulkan_try_timelines() of vkshare_vulkan.h. */
    bool export_timelines;
    uint64_t max_timeline_difference; /* maxTimelineSemaphoreValueDifference; 0: unknown */
    bool is_adopted;                  /* an engine's own device: the core submits to it only on the engine's behalf */
    /* Called around every use of the queue. NULL: the core's own lock is enough. The engine does
     * not know that lock, and held work reaches the queue from another thread; so an engine without
     * these functions must not use the queue while work of its own is held. */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
} vks_vulkan_info;

typedef struct vks_device_info {
    const char *name;              /* cut to VKS_NAME_SIZE - 1 bytes in shared pages */
    uint32_t held_limit;           /* submit blocks at this number of held operations (K25); 0: 1024 */
    uint32_t raster_threads;       /* CPU backend: threads of a tile pool; 0: one per core */
    const vks_vulkan_info *vulkan; /* NULL: the CPU backend */
} vks_device_info;

/* Creates a device and starts its threads. `info` is read during the call. *out is a reference; the
 * caller ends the device with vks_device_shutdown(). VKS_UNSUPPORTED: the VkDevice lacks a function
 * that the core needs. */
vks_status vks_device_create(const vks_device_info *info, vks_device **out);
/* Another reference, and one less. The last unref frees the memory, after a shutdown. */
void vks_device_ref(vks_device *device);
void vks_device_unref(vks_device *device);
/* Blocks for about a second at most, or some 20 seconds if the driver hangs. Cancels held work
 * (VKS_CLOSED), abandons owned surfaces, waits for submitted work (also on a lost device), stops
 * the threads and destroys the core's semaphores. Idempotent. */
void vks_device_shutdown(vks_device *device);
/* The same in steps: returns VKS_INTERRUPTED until it is done. VKS_TIMEOUT: a call of another
 * thread has not returned from the driver; a later call continues from there. */
vks_status vks_device_try_shutdown(vks_device *device);
/* After a shutdown. True: the driver may still use objects of the device, so neither these nor the
 * VkDevice may be destroyed. */
bool vks_device_leaks(const vks_device *device);
/* VKS_OK, VKS_CLOSED, VKS_DEVICE_LOST or VKS_FORKED. */
vks_status vks_device_state(const vks_device *device);
void vks_device_mark_lost(vks_device *device); /* acts as on VK_ERROR_DEVICE_LOST (X21) */
/* Blocks until all work that was submitted before the call, held work included, has run.
 * VKS_TIMEOUT. */
vks_status vks_device_wait_idle(vks_device *device, uint64_t deadline);
/* A serial is the number of a batch that was submitted to the driver. Serials complete in order. */
uint64_t vks_device_submitted(vks_device *device);
uint64_t vks_device_completed(vks_device *device);

typedef struct vks_device_statistics {
    uint64_t submitted, completed; /* serials */
    uint64_t transfers;            /* batches among them that went to the transfer queue */
    uint64_t submissions;          /* calls of vks_submit that succeeded */
    uint64_t held, held_limit;     /* operations that are held now */
    uint64_t held_total;           /* operations that were ever held */
    uint64_t failed;               /* held operations that failed without running */
    uint64_t backpressure_waits;   /* submits that blocked because held == held_limit */
    uint64_t copied_bytes;         /* reported by the copy paths: vks_device_count_copy() */
    uint64_t fences, surfaces;     /* open */
} vks_device_statistics;
/* Copies the numbers of this moment to *out. */
void vks_device_get_statistics(vks_device *device, vks_device_statistics *out);
void vks_device_count_copy(vks_device *device, uint64_t bytes); /* adds to copied_bytes */

/* ---- commands -------------------------------------------------------------------------------------------------- */

typedef struct vks_program vks_program; /* native/raster/program.h */

typedef struct vks_use {
    vks_surface *surface; /* a reference is taken */
    bool writes;
} vks_use;

/* A compiled command list: a VkCommandBuffer (recorded for simultaneous use) or a program, with the
 * surfaces that it touches. Once the last reference is gone and its last use has run,
 * vks_device_reap() calls `retire(user)`, which can free the command buffer. No other thread calls
 * it. *out is a reference. VKS_FOREIGN_DEVICE: a surface of another device; VKS_UNSUPPORTED: a
 * device of the CPU backend. */
vks_status vks_commands_create_vulkan(vks_device *device, uint64_t command_buffer, const vks_use *uses, size_t n_uses,
                                      void (*retire)(void *user), void *user, vks_commands **out);
/* Takes ownership of `program`. Its slot i is the surface of uses[slots[i]], or of uses[i] if `slots`
 * is NULL. VKS_FOREIGN_DEVICE; VKS_BAD_VALUE: slots[i] is no use; VKS_UNSUPPORTED: a Vulkan device. */
vks_status vks_commands_create_cpu(vks_device *device, vks_program *program, const vks_use *uses, size_t n_uses,
                                   const uint32_t *slots, size_t n_slots, vks_commands **out);
/* Adds the same work, recorded for the family of the device's transfer queue. Only for lists that
 * copy and do nothing else. Set once, before the first submission. */
void vks_commands_set_transfer(vks_commands *commands, uint64_t command_buffer);
void vks_commands_ref(vks_commands *commands);
void vks_commands_unref(vks_commands *commands);
const vks_use *vks_commands_uses(const vks_commands *commands, size_t *n_uses);
/* Calls retire() of the unreferenced command lists whose work has run, and returns their number.
 * `all`: of every unreferenced list (after a shutdown). */
size_t vks_device_reap(vks_device *device, bool all);

/* ---- submissions ----------------------------------------------------------------------------------------------- */

/* The position of a submission: a serial once the driver has it, else the held operation. A value
 * type; its holder drops `op`, a reference or NULL, with vks_work_unref(). */
typedef struct vks_submission {
    uint64_t serial;
    vks_work *op;
} vks_submission;

typedef struct vks_wait { /* a fence and a value, or (fence == NULL) an earlier submission of the same device */
    vks_fence *fence;
    uint64_t value;
    vks_submission submission;
} vks_wait;

typedef struct vks_signal {
    vks_fence *fence;
    uint64_t value; /* 0: the fence's next value (queued_value + 1) */
} vks_signal;

typedef struct vks_submit_info {
    vks_commands *const *commands; /* run in this order */
    uint32_t n_commands;
    /* VkCommandBuffers, run after `commands`; assumed to touch every surface that the device owns. */
    const uint64_t *raw;
    uint32_t n_raw;
    const vks_wait *waits;
    uint32_t n_waits;
    const vks_signal *signals;
    uint32_t n_signals;
} vks_submit_info;

/* Submits a batch to the driver, or holds it until its waits are certain to end (docs/spec/protocol.md,
 * "Held submissions"). Short, but blocks while `held_limit` operations are held, until `deadline`; callers
 * that hold a lock try with deadline 0 first. A submission that fails executes nothing and signals
 * nothing. Errors: VKS_NOT_OWNER (a touched surface is not owned), VKS_BAD_VALUE (also: the
 * submission signals a fence and waits for a value of it that no earlier submission signals),
 * VKS_READ_ONLY, VKS_FOREIGN_DEVICE, VKS_TIMEOUT (held_limit is reached), VKS_CLOSED,
 * VKS_DEVICE_LOST, VKS_ABANDONED (a wait can never end). */
vks_status vks_submit(vks_device *device, const vks_submit_info *info, uint64_t deadline, vks_submission *out);

uint64_t vks_submission_serial(const vks_submission *submission); /* 0 while it is held */
/* True while it waits in the scheduler and the driver does not have it. */
bool vks_submission_is_held(vks_device *device, const vks_submission *submission);
/* VKS_OK: it has run. VKS_TIMEOUT: not yet. Another status: the reason why it never ran. */
vks_status vks_submission_poll(vks_device *device, const vks_submission *submission);
vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline); /* blocks */
/* Pushes `token` into the event queue once the submission has run or failed. General statuses only. */
vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token);
void vks_work_ref(vks_work *op);
void vks_work_unref(vks_work *op);

/* ---- fences ---------------------------------------------------------------------------------------------------- */

/* A new fence whose value is `initial`. *out is a reference. VKS_BAD_VALUE: above
 * VKS_MAX_FENCE_VALUE. */
vks_status vks_fence_create(vks_device *device, uint64_t initial, vks_fence **out);
/* A fence over an engine's own timeline semaphore, which the core never destroys. VKS_UNSUPPORTED:
 * a device of the CPU backend. */
vks_status vks_fence_adopt(vks_device *device, uint64_t vk_semaphore, vks_fence **out);
/* A read-only follower of another party's fence. Takes ownership of both fds, also on failure;
 * semaphore_fd is -1 where there is none. VKS_BAD_PAGE: the page was refused; VKS_FULL. */
vks_status vks_fence_open(vks_device *device, int page_fd, int semaphore_fd, vks_fence **out);
/* Duplicates of the fds for another party, CLOEXEC; the caller closes them. *semaphore_fd is -1
 * where semaphores cannot be exported. VKS_UNSUPPORTED: the fence adopted an engine's semaphore. */
vks_status vks_fence_export(vks_fence *fence, int *page_fd, int *semaphore_fd);
void vks_fence_ref(vks_fence *fence);
void vks_fence_unref(vks_fence *fence);
/* Waits for values that can no longer come return VKS_CLOSED, those of followers VKS_ABANDONED.
 * Idempotent. */
void vks_fence_close(vks_fence *fence);
bool vks_fence_is_closed(const vks_fence *fence);
bool vks_fence_is_follower(const vks_fence *fence);
bool vks_fence_is_native(const vks_fence *fence);     /* its semaphore can be shared between processes */
uint64_t vks_fence_semaphore(const vks_fence *fence); /* VkSemaphore, 0 on the CPU backend */
vks_device *vks_fence_device(const vks_fence *fence);

/* The value that is reached. General statuses only. */
vks_status vks_fence_value(vks_fence *fence, uint64_t *out);
/* The highest value of all signals, held ones included. General statuses only. */
vks_status vks_fence_queued(vks_fence *fence, uint64_t *out);
/* Signals from the host, at once. VKS_READ_ONLY: a follower; VKS_BAD_VALUE: `value` is not above
 * every announced one, or too far above the current one (X1). */
vks_status vks_fence_signal(vks_fence *fence, uint64_t value);
/* VKS_OK: reached. VKS_TIMEOUT: not yet. Another status: the reason why it never will be. */
vks_status vks_fence_poll(vks_fence *fence, uint64_t value);
vks_status vks_fence_wait(vks_fence *fence, uint64_t value, uint64_t deadline); /* blocks */
/* Pushes `token` into the event queue when the value is reached, or can never be reached.
 * VKS_UNSUPPORTED: the fence adopted an engine's semaphore. */
vks_status vks_fence_notify(vks_fence *fence, uint64_t value, vks_event_queue *event_queue, uint64_t token);
/* A new eventfd, which the caller closes. It becomes readable when the value is reached, or can
 * never be reached. Until then the fence holds a duplicate of it. VKS_UNSUPPORTED: as above. */
vks_status vks_fence_event_fd(vks_fence *fence, uint64_t value, int *out);
/* For another API of the same GPU that imported the fence's semaphore (CUDA).
 *
 *  - external_wait: *wait is the value that the API's queue must wait for so that the fence has
 *    `value` (0: it has). Blocks until that wait is certain to end.
 *  - external_begin: the API's queue is to wait for *wait (0: nothing) and then to signal `value`,
 *    which follows the rules of vks_fence_signal(). Until external_end, submissions that signal the
 *    fence are held.
 *  - external_end: `value` is now queued with the API. With 0 it was not queued, and is withdrawn.
 *  - external_lost: the API's context is lost. Values that it was to signal never come, and waits
 *    for them return VKS_ABANDONED.
 *
 * close() waits for the values that are queued with the API. VKS_UNSUPPORTED: the semaphore cannot
 * be shared.
 */
vks_status vks_fence_external_wait(vks_fence *fence, uint64_t value, uint64_t deadline, uint64_t *wait);
vks_status vks_fence_external_begin(vks_fence *fence, uint64_t value, uint64_t *wait);
vks_status vks_fence_external_end(vks_fence *fence, uint64_t value);
vks_status vks_fence_external_lost(vks_fence *fence);

/* ---- surfaces: one party's handle of a keyed mutex ------------------------------------------------------------- */

typedef struct vks_surface_info {
    uint32_t width, height, format; /* for vkshare ps only */
    /* CPU backend: the pixels in the process's memory. Vulkan: may be NULL. */
    void *pixels;
    size_t size, stride;
    /* Vulkan: command buffers, recorded for simultaneous use, that acquire the image from
     * VK_QUEUE_FAMILY_EXTERNAL and release it there; 0 on the CPU backend. */
    uint64_t acquire_commands, release_commands;
    bool discard_unowned; /* K21: unowned="discard" */
    bool is_presentable;  /* a swapchain's image: this handle is its only one, and it is never exported */
} vks_surface_info;

/* A new surface with a new page. It is unowned and its key is 0 (K1). `info` is read during the
 * call; the pixels, or the image, stay the caller's and outlive the handle. *out is a reference.
 * VKS_UNSUPPORTED: a seccomp profile forbids memfd_create(). */
vks_status vks_surface_create(vks_device *device, const vks_surface_info *info, vks_surface **out);
/* Another handle of the page. Takes ownership of both fds, also on failure. VKS_BAD_PAGE: the page
 * was refused; VKS_FULL: VKS_SLOTS handles share it. */
vks_status vks_surface_open(vks_device *device, const vks_surface_info *info, int page_fd, int semaphore_fd,
                            vks_surface **out);
/* Another handle on the same device, as a party of its own. `info` describes the same image, or the
 * same pixels. The new handle uses the page, the mapping and the semaphore of `of`, which may be
 * closed first; nothing is exported, mapped or opened. VKS_UNSUPPORTED: a swapchain's image. */
vks_status vks_surface_alias(vks_surface *of, const vks_surface_info *info, vks_surface **out);
/* Duplicates of the fds for another party, CLOEXEC; the caller closes them. *semaphore_fd is -1
 * where there is none. The first call blocks until the submitted work on the surface has run,
 * because its image belongs to the queue until then. It also blocks while a present uses the queue
 * (VKS_TIMEOUT after 10 s). */
vks_status vks_surface_export(vks_surface *surface, int *page_fd, int *semaphore_fd);
/* A duplicate of the page alone, for vks_page_inspect(). It does not count as an export. The caller
 * closes it. VKS_UNSUPPORTED: a swapchain's image. */
vks_status vks_surface_page(const vks_surface *surface, int *page_fd);
/* Set once, before the first submit. A surface is created before its command buffers can be
 * recorded. */
void vks_surface_set_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
/* The same two command buffers, recorded for the family of the device's transfer queue. Such images
 * are VK_SHARING_MODE_CONCURRENT. */
void vks_surface_set_transfer_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
void vks_surface_ref(vks_surface *surface);
void vks_surface_unref(vks_surface *surface);
/* Abandons the surface if this handle owns it (K7), and cancels the operations that are held on it.
 * Returns the serial that must complete before the image may be destroyed. Blocks for some 10 s at
 * most, until the work of this handle has run, an external API's included; no party can acquire the
 * surface before. */
uint64_t vks_surface_close(vks_surface *surface);
/* The first half of a close, which several surfaces can share under one deadline: waits until held
 * work behind a release of this handle is submitted. A plain close allows half a second for each
 * surface. vks_surface_close_now() is the other half. */
void vks_surface_finish_releases(vks_surface *surface, uint64_t deadline);
uint64_t vks_surface_close_now(vks_surface *surface);
vks_device *vks_surface_device(const vks_surface *surface);
bool vks_surface_is_closed(const vks_surface *surface);
bool vks_surface_is_owned(const vks_surface *surface);
bool vks_surface_discards(const vks_surface *surface);
/* Owned, or a mode="gpu" acquire is pending: submissions are allowed. */
bool vks_surface_may_submit(const vks_surface *surface);
uint32_t vks_surface_generation(const vks_surface *surface);

/* Blocks. VKS_ALREADY_OWNER at once (K3). */
vks_status vks_surface_acquire(vks_surface *surface, uint64_t key, uint64_t deadline);
/* The same in two parts, for callers that hold a lock at first. try_acquire spins for some 2 us and
 * never sleeps; after VKS_TIMEOUT the caller continues with acquire_blocking. Only acquire_blocking
 * detects owners that have died. */
vks_status vks_surface_try_acquire(vks_surface *surface, uint64_t key);
vks_status vks_surface_acquire_blocking(vks_surface *surface, uint64_t key, uint64_t deadline);
/* mode="gpu": returns at once. *op is the held acquire (a reference), or NULL if the acquire was
 * granted at once. VKS_ALREADY_OWNER, VKS_ABANDONED. */
vks_status vks_surface_acquire_gpu(vks_surface *surface, uint64_t key, vks_work **op);
/* For acquire_async. poll: VKS_OK: granted. VKS_TIMEOUT: not yet. Another status: it failed. cancel
 * returns VKS_OK if the acquire was granted first. */
vks_status vks_work_poll(vks_work *op);
vks_status vks_work_cancel(vks_work *op);
vks_status vks_work_notify(vks_work *op, vks_event_queue *event_queue, uint64_t token);
/* Releases the surface under a key, as DXGI's ReleaseSync does: the next acquire with this key gets
 * it. VKS_NOT_OWNER; VKS_ABANDONED: earlier work in the chain of owners failed. */
vks_status vks_surface_release(vks_surface *surface, uint64_t key);
/* Takes ownership of an abandoned surface. Blocks until the pending values of live parties have
 * completed. VKS_NOT_ABANDONED: another handle has recovered it, or it never was abandoned. An
 * owner whose wait point can never complete gives its ownership up first. */
vks_status vks_surface_recover(vks_surface *surface, uint64_t deadline);
/* Blocks until the CPU may access the pixels: the surface is owned, and the previous owner's work
 * and this handle's own have run. VKS_TIMEOUT, VKS_NOT_OWNER, VKS_ABANDONED. */
vks_status vks_surface_cpu_access(vks_surface *surface, uint64_t deadline);
/* Returns a key one above the last one that it returned to any handle of the surface. The first is
 * 1 (K30). */
uint64_t vks_surface_next_key(vks_surface *surface);

typedef struct vks_semaphore_point {
    uint64_t semaphore, value;
} vks_semaphore_point;
/* For an engine's own vkQueueSubmit2. Submits the acquire to the queue, and returns the point that
 * the engine must wait for and the point that it must signal. The engine must submit that signal
 * before it calls release. Blocks until the previous owner's work has run where semaphores are not
 * shared. VKS_NOT_OWNER, VKS_TIMEOUT; VKS_UNSUPPORTED: the CPU backend. */
vks_status vks_surface_sync(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                            vks_semaphore_point *signal);

/* For another API of the same GPU (OpenGL) that is ordered by binary semaphores (VkSemaphore). The
 * surface is owned.
 *
 *  - release_to_external: releases the image to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL and
 *    signals `semaphore`, after all earlier submissions. Blocks until the previous owner's work has
 *    run where parties do not share semaphores.
 *  - acquire_from_external: the queue waits for `semaphore`, whose signal must have been submitted
 *    (0: the CPU has waited), and acquires the image. Later submissions, and the release, come
 *    after it.
 *
 * Each call is one immediate submission, and the two alternate. Both block while a present uses the
 * queue (VKS_TIMEOUT after 10 s). Vulkan only.
 */
vks_status vks_surface_release_to_external(vks_surface *surface, uint64_t deadline, uint64_t semaphore);
vks_status vks_surface_acquire_from_external(vks_surface *surface, uint64_t semaphore);
/* For another API of the same GPU that imported the surface's semaphore (CUDA). The surface is
 * owned.
 *
 *  - external_begin: *value is the value that the API's queue must wait for before its work (0:
 *    none). Blocks until that wait is certain to end. A batch of this device signals the value if
 *    the device's commands came first in this ownership, or if the CPU may have written
 *    (`after_cpu`: queues of other APIs do not see host writes otherwise); else no batch is
 *    submitted. Until external_end, commands of this device are refused (VKS_NOT_OWNER).
 *  - external_signal_value: *value is the value that the API's queue must signal after its work.
 *    From now on other parties, and close(), wait for it.
 *  - external_end: that signal is queued with the API. The ownership continues: later commands, and
 *    the next owner's work, come after the API's work. With 0 the API signals nothing.
 *  - external_lost: the API's context is lost (a CUDA error that ends it). Marks the surface
 *    abandoned: pending waits fail and the next acquire returns VKS_ABANDONED.
 *
 * VKS_UNSUPPORTED: the surface was never exported, or has no timeline semaphore.
 */
vks_status vks_surface_external_begin(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value);
vks_status vks_surface_external_signal_value(vks_surface *surface, uint64_t *value);
vks_status vks_surface_external_end(vks_surface *surface, uint64_t value);
vks_status vks_surface_external_lost(vks_surface *surface);

/* ---- surface queues: a ring of (surface, metadata) pairs from a producer to a consumer --------------------------- */

#define VKS_MAX_QUEUE_SURFACES 64u
#define VKS_MAX_METADATA (1u << 16)

/* A network is a fixed set of surfaces and the queues over it. Each queue is a page of shared
 * memory. Each participating device has one handle of each surface. A surface that a device has
 * dequeued from one queue may be enqueued into any other queue of the network. A vks_queue is one
 * end of one queue, held by one device. */
typedef struct vks_queue vks_queue;
typedef enum vks_end { VKS_PRODUCER = 0, VKS_CONSUMER = 1 } vks_end;

typedef struct vks_queue_info {
    uint32_t width, height, format; /* for vkshare ps */
    uint32_t count;                 /* surfaces in the network: 1 to VKS_MAX_QUEUE_SURFACES */
    uint32_t metadata_size;         /* bytes per pair: up to VKS_MAX_METADATA */
    uint64_t network;               /* that of another queue over the same surfaces; 0: a new network */
    bool single_threaded;           /* Q15: no lock, no waiting */
    bool early;                     /* each end may be used before the other end was first opened */
    bool full;                      /* starts with every surface in it, surface 0 first: the root queue (Q2) */
} vks_queue_info;

/* A new page. The caller owns the fd. VKS_BAD_CALL: a number in `info` is out of range. */
vks_status vks_queue_page_make(const vks_queue_info *info, int *fd);
/* Reads a page's properties after every check of it. The fd stays the caller's. VKS_BAD_PAGE: a
 * check failed. */
vks_status vks_queue_page_read(int fd, vks_queue_info *out);

/* Makes an unowned surface the `index`-th of a network. From then on only the network's queues
 * acquire and release it. Once. VKS_BAD_CALL: it is owned, or a network's already. */
vks_status vks_surface_join(vks_surface *surface, uint64_t network, uint32_t index);

/* Opens one end (Q4: VKS_BAD_CALL while it is open elsewhere). `surfaces` are the device's handles
 * of all surfaces of the network, in its order; the queue takes a reference of each. The fd stays
 * the caller's. */
vks_status vks_queue_open(vks_device *device, int page_fd, vks_end end, vks_surface *const *surfaces, uint32_t count,
                          vks_queue **out);
void vks_queue_ref(vks_queue *queue);
void vks_queue_unref(vks_queue *queue);
/* Wakes all waiters at both ends (Q18). A producer's uncommitted pairs are committed, because the
 * GPU orders their work. Idempotent. */
void vks_queue_close(vks_queue *queue);
bool vks_queue_is_closed(const vks_queue *queue);
uint32_t vks_queue_metadata_size(const vks_queue *queue);

typedef enum vks_enqueue_mode {
    VKS_ENQUEUE_WAIT = 0, /* Q10: waits until the GPU has finished with the surface and earlier pairs are committed */
    VKS_ENQUEUE_TRY,      /* Q11: never waits; commits at once if the GPU has finished, else a flush commits */
    VKS_ENQUEUE_GPU       /* commits at once; the next owner's GPU work waits for this device's */
} vks_enqueue_mode;

/* Enqueues the surface and ends its ownership. Only VKS_ENQUEUE_WAIT blocks. *committed: the pair
 * can be dequeued. On an error the caller still owns the surface (Q19): VKS_NOT_OWNER;
 * VKS_FOREIGN_DEVICE (another device's handle); VKS_BAD_CALL (another network's surface; an end is
 * not open; a second thread of a single-threaded queue; the ring is full of pairs whose surfaces
 * were recovered, so that the consumer must dequeue first); VKS_BAD_VALUE (metadata is too long);
 * VKS_CLOSED (this end, or the consumer). VKS_TIMEOUT: nothing changed. */
vks_status vks_queue_enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                             vks_enqueue_mode mode, uint64_t deadline, bool *committed);
/* Commits pending pairs, first in first out, as far as the GPU has finished with their surfaces.
 * *committed: pairs that this call committed; *pending: pairs that are left. `wait`: blocks until
 * none is left. VKS_TIMEOUT; VKS_BAD_CALL: the other end was never opened. */
vks_status vks_queue_flush(vks_queue *queue, bool wait, uint64_t deadline, uint32_t *committed, uint32_t *pending);
/* Blocks. Dequeues the first pair: the caller's device then owns the surface, whose index is
 * *surface. `metadata` has room for metadata_size bytes. VKS_CLOSED: the queue is empty and the
 * producer is closed. VKS_ABANDONED: the pair was removed and its surface awaits
 * vks_surface_recover(); or the surface was recovered since this handle last owned it, and the next
 * call returns the pair. */
vks_status vks_queue_dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length);
/* Pushes `token` into the event queue once a dequeue can succeed, or has failed for good.
 * VKS_BAD_CALL: a producer's end. */
vks_status vks_queue_notify(vks_queue *queue, vks_event_queue *event_queue, uint64_t token);

typedef struct vks_queue_statistics {
    uint64_t enqueued, committed, dequeued; /* totals */
    uint32_t producer_pid, consumer_pid;    /* 0: not open */
} vks_queue_statistics;
/* Copies the totals of this moment to *out. */
void vks_queue_get_statistics(const vks_queue *queue, vks_queue_statistics *out);
vks_status vks_queue_page_count(int fd, vks_queue_statistics *out); /* the same, from a page; VKS_BAD_PAGE */

/* ---- descriptors: surfaces and fences from other processes ------------------------------------------------------ */

/* vkshare's Python side sends them (SurfaceDescriptor.send(), FenceDescriptor.send()), and
 * vkshare/ipc/descriptors.py packs the same bytes. A descriptor is one message over a Unix socket
 * (SOCK_STREAM or SOCK_SEQPACKET): a header and a body, packed and little-endian, with the file
 * descriptors (SCM_RIGHTS) on the first byte. A layout change raises VKS_DESCRIPTOR_VERSION; other
 * versions are refused (K32). */
#define VKS_DESCRIPTOR_MAGIC "vkshare" /* with its final 0 */
#define VKS_DESCRIPTOR_VERSION 1u
#define VKS_DESCRIPTOR_MAX_FDS 8u   /* in one message of a surface or a fence */
#define VKS_LARGEST_SIDE (1u << 20) /* pixels */
#define VKS_ROW_ALIGNMENT 64u       /* bytes: rows of the CPU backend are padded to a multiple of it */

typedef enum vks_descriptor_kind {
    VKS_DESCRIPTOR_SURFACE = 1,
    VKS_DESCRIPTOR_FENCE = 2,
    VKS_DESCRIPTOR_QUEUE = 3
} vks_descriptor_kind;

typedef struct __attribute__((packed)) vks_descriptor_header { /* 28 bytes */
    char magic[8];
    uint32_t kind, version;
    uint32_t page_version; /* VKS_LAYOUT_VERSION of the sender */
    uint32_t size;         /* of header and body, bytes */
    uint32_t n_fds;
} vks_descriptor_header;

/* Formats by number, in memory order: 1 r8unorm, 2 rg8unorm, 3 rgba8unorm, 4 rgba8unorm-srgb, 5 bgra8unorm,
 * 6 rgb10a2unorm (a 32-bit word, red in its low bits), 7 r32float, 8 rgba16float, 9 rgba32float. */
/* tiling. A linear image is in memory of the first type that is HOST_VISIBLE, HOST_COHERENT and HOST_CACHED, else of
 * the first that is HOST_VISIBLE and HOST_COHERENT; the others in the first that is DEVICE_LOCAL. */
enum { VKS_LINEAR = 0, VKS_OPTIMAL = 1, VKS_LINEAR_IN_DEVICE_MEMORY = 2 };
enum { VKS_USAGE_RENDER = 1, VKS_USAGE_SAMPLE = 2, VKS_USAGE_COPY = 4, VKS_USAGE_STORAGE = 8 }; /* usage, bits */
/* memory_kind: memory of a Vulkan driver, or of the CPU backend. The latter is a memfd with exactly
 * the seals SEAL, SHRINK and GROW. Its stride is between the row length and the row length rounded
 * up to VKS_ROW_ALIGNMENT; its size is stride * height, rounded up to whole pages. */
enum { VKS_OPAQUE_FD = 0, VKS_MEMFD = 1 };

/* Its fds, in this order: the image's memory, the keyed-mutex page and, where the driver exports
 * semaphores, the timeline. The device with these UUIDs imports an opaque fd as an image of exactly
 * these properties: 2D, one level, one layer, one sample, exclusive (on NVIDIA's driver concurrent, with
 * its first graphics and its first transfer-only family), initialLayout UNDEFINED, VkExternalMemoryImageCreateInfo with
 * OPAQUE_FD; TRANSFER_SRC and TRANSFER_DST always, COLOR_ATTACHMENT with VKS_USAGE_RENDER, SAMPLED with _SAMPLE,
 * STORAGE with _STORAGE; flags MUTABLE_FORMAT for rgba8unorm-srgb, else none. allocationSize is memory_size.
 *
 * The opaque fd of a software driver is a memfd with the seals SEAL, SHRINK and GROW, in the layout
 * of the driver's own file. The file of lavapipe begins with {size, offset}, which every party can
 * rewrite and which lavapipe trusts when it imports and frees. So vks_surface_open_image() allocates
 * exportable memory in its place and maps the fd's pages over it, and an import by other means needs
 * a trusted party.
 */
typedef struct __attribute__((packed)) vks_surface_body { /* 112 bytes */
    uint32_t width, height, format;
    uint8_t tiling, usage, memory_kind;
    uint8_t dedicated;                                        /* 1: the import needs VkMemoryDedicatedAllocateInfo */
    uint64_t memory_size, memory_offset;                      /* bytes; row 0 begins at the offset */
    uint64_t stride;                                          /* bytes from row to row; 0 for optimal tiling */
    uint8_t device_uuid[16], driver_uuid[16];                 /* of VkPhysicalDeviceIDProperties */
    uint32_t damage_x, damage_y, damage_width, damage_height; /* all 0: the whole surface; reserved */
    char name[VKS_NAME_SIZE];                                 /* of the sender's device; UTF-8, padded with 0 */
} vks_surface_body;

/* Its fds: the fence page and, where the driver exports semaphores, the timeline. */
typedef struct __attribute__((packed)) vks_fence_body { /* 56 bytes */
    uint8_t device_uuid[16], driver_uuid[16];
    char name[VKS_NAME_SIZE];
} vks_fence_body;

typedef struct vks_surface_descriptor {
    vks_surface_body body;
    int memory_fd, page_fd, semaphore_fd; /* CLOEXEC; semaphore_fd is -1 where there is none */
} vks_surface_descriptor;

typedef struct vks_fence_descriptor {
    vks_fence_body body;
    int page_fd, semaphore_fd;
} vks_fence_descriptor;

/* Receives from a connected Unix socket whose peer runs as the same user. Blocks. Senders are
 * untrusted: sizes, versions, kinds, seals and fds are all checked before anything is mapped.
 * VKS_TIMEOUT: nothing came. VKS_CLOSED: the peer closed the connection before it sent anything.
 * VKS_BAD_PAGE: the message was refused and all its fds are closed; the caller should close the
 * socket too. The caller owns the fds until vks_X_descriptor_close(). */
vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out);
vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out);
void vks_surface_descriptor_close(vks_surface_descriptor *descriptor); /* idempotent */
void vks_fence_descriptor_close(vks_fence_descriptor *descriptor);
/* Sends a descriptor over such a socket, in one message with its fds. Blocks while the receiver has
 * no room, or while too many fds of this user are in flight. The descriptor stays usable, and its
 * fds stay the caller's. VKS_TIMEOUT: nothing was sent. VKS_BAD_PAGE: the peer runs as another user,
 * or a part of the message was sent, so that the caller must close the socket. */
vks_status vks_surface_descriptor_send(int sock, uint64_t deadline, const vks_surface_descriptor *descriptor);
vks_status vks_fence_descriptor_send(int sock, uint64_t deadline, const vks_fence_descriptor *descriptor);
/* VKS_FOREIGN_DEVICE unless the memory belongs to this device and driver. Call it before importing
 * an opaque fd (X17). */
vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *descriptor, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16]);
/* The pixels of a surface of the CPU backend, body.memory_size bytes, writable. The caller unmaps
 * them (munmap) after it closes the surface. VKS_UNSUPPORTED: the memory is a driver's. */
vks_status vks_surface_descriptor_map(const vks_surface_descriptor *descriptor, void **pixels);
/* Opens a handle of the descriptor's surface; the descriptor stays usable. CPU backend: `pixels`
 * from vks_surface_descriptor_map(). Vulkan: NULL, and vks_surface_set_commands() before the first
 * submit. For a fence: vks_fence_open() with duplicates of the fds. VKS_BAD_PAGE, VKS_FULL. */
vks_status vks_surface_open_descriptor(vks_device *device, const vks_surface_descriptor *descriptor, void *pixels,
                                       vks_surface **out);

/* ---- surfaces with an image of the library's: memory, image and handle in one object ---------------------------- */

/* They need a device of the CPU backend, or one of vkshare_vulkan.h. The last unref of a surface
 * destroys its image and frees its memory; vks_surface_close() comes first, and waits for the work
 * that was submitted through the library. An engine's own work is counted if a release followed it. */
typedef struct vks_image_info {
    uint32_t width, height; /* pixels: 1 to VKS_LARGEST_SIDE; a driver may allow less */
    uint32_t format;        /* a number of the list above */
    uint32_t tiling;        /* VKS_LINEAR, ...; the CPU backend has VKS_LINEAR alone */
    uint32_t usage;         /* VKS_USAGE_RENDER, ...; 0: render, sample and copy */
    bool discard_unowned;   /* as in vks_surface_info */
} vks_image_info;

/* A new surface with a new image of zeros that other parties can open. It is unowned, its key is 0,
 * and its image belongs to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL: the state between any two
 * turns, so that a first acquire is like every other one. `info` is read during the call. *out is a
 * reference. Blocks until the queue has zeroed the image. VKS_BAD_VALUE: a number in `info` is out
 * of range. VKS_UNSUPPORTED: the driver cannot make such an image, or cannot export its memory; or
 * the device was made by vks_device_create() on a VkDevice. */
vks_status vks_surface_create_image(vks_device *device, const vks_image_info *info, vks_surface **out);
/* Opens another party's surface, and imports or maps its memory. The descriptor and its fds stay the
 * caller's. *out is a reference. VKS_FOREIGN_DEVICE: the memory belongs to another device or driver.
 * VKS_BAD_PAGE: the descriptor is not what this driver would export (X16), or its page was refused.
 * VKS_FULL; VKS_UNSUPPORTED as above, for memory of a driver on the CPU backend, and for memory of the
 * CPU backend on a VkDevice whose driver cannot import it (VK_EXT_external_memory_host). */
vks_status vks_surface_open_image(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out);
/* A descriptor of the surface for another party; the caller closes it. Blocks as
 * vks_surface_export() does. VKS_UNSUPPORTED: the image is not the library's. */
vks_status vks_surface_export_descriptor(vks_surface *surface, vks_surface_descriptor *out);
/* Row 0 of the pixels and the bytes from row to row. They may be accessed between
 * vks_surface_cpu_access() and the release, and stay mapped until the last unref. VKS_UNSUPPORTED:
 * the CPU does not see the memory, because it is not VKS_LINEAR. */
vks_status vks_surface_pixels(vks_surface *surface, void **pixels, size_t *stride);

/* A descriptor of the fence for another party; the caller closes it. VKS_UNSUPPORTED: the fence
 * adopted an engine's semaphore. */
vks_status vks_fence_export_descriptor(vks_fence *fence, vks_fence_descriptor *out);
/* A read-only follower of the descriptor's fence. The descriptor and its fds stay the caller's. The
 * semaphore is used where this device can import it; else the page alone orders the work.
 * VKS_BAD_PAGE, VKS_FULL. */
vks_status vks_fence_open_descriptor(vks_device *device, const vks_fence_descriptor *descriptor, vks_fence **out);

/* ---- descriptors of queues and pipes ---- */

/* The body of a queue's descriptor: vks_queue_body, and a vks_surface_body for each surface of the
 * network, in its order. Its fds: the queues' pages, and then for each surface those of its own
 * descriptor. */
typedef struct __attribute__((packed)) vks_queue_body { /* 12 bytes */
    uint32_t n_queues;                                  /* 1; 2: a pipe, with the way there and the way back */
    uint32_t n_surfaces, fds_per_surface;               /* 2 or 3 fds each */
} vks_queue_body;

typedef struct vks_queue_descriptor {
    uint32_t n_queues, n_surfaces;
    int page_fds[2]; /* CLOEXEC; -1: none */
    vks_surface_descriptor surfaces[VKS_MAX_QUEUE_SURFACES];
} vks_queue_descriptor;

/* Send, receive and close as those of a surface do. A descriptor that was received has surfaces of
 * one size, format, tiling and usage. recv and send block. VKS_TIMEOUT, VKS_CLOSED, VKS_BAD_PAGE;
 * send: VKS_BAD_VALUE if the numbers are out of range. */
vks_status vks_queue_descriptor_send(int sock, uint64_t deadline, const vks_queue_descriptor *descriptor);
vks_status vks_queue_descriptor_recv(int sock, uint64_t deadline, vks_queue_descriptor *out);
void vks_queue_descriptor_close(vks_queue_descriptor *descriptor);
/* A descriptor of queues over the `count` surfaces of a network, which vks_surface_create_image()
 * made and vks_surface_join() joined, in order. `page_fds` are the pages of 1 or 2 queues; they stay
 * the caller's. The caller closes *out. Blocks as vks_surface_export() does. VKS_BAD_VALUE: a number
 * is out of range. VKS_UNSUPPORTED: a surface's image is not the library's. */
vks_status vks_queue_export_descriptor(const int *page_fds, uint32_t n_queues, vks_surface *const *surfaces,
                                       uint32_t count, vks_queue_descriptor *out);
/* Opens the surfaces of a descriptor on the device, and joins them to its network. `surfaces` has
 * room for n_surfaces, and receives a reference of each; vks_queue_open() takes them with a page of
 * the descriptor. On failure none is left open. The descriptor and its fds stay the caller's.
 * VKS_BAD_PAGE: the queues' pages do not fit the descriptor, or a surface was refused; else as
 * vks_surface_open_image(): VKS_FOREIGN_DEVICE, VKS_UNSUPPORTED, VKS_FULL. */
vks_status vks_queue_open_surfaces(vks_device *device, const vks_queue_descriptor *descriptor, vks_surface **surfaces);

/* ---- read-only views of pages, for vkshare ps (K33) ---- */

typedef struct vks_slot_view {
    uint32_t slot, pid;
    char name[VKS_NAME_SIZE];
    uint64_t pending_value;
    bool waiting;
    uint64_t waiting_key, waiting_since; /* CLOCK_MONOTONIC ns */
} vks_slot_view;

typedef struct vks_page_view {
    uint32_t kind; /* 1 fence page, 2 keyed-mutex page */
    uint32_t version;
    uint64_t id;
    uint32_t width, height, format;
    uint32_t state; /* 0 free, 1 owned, 2 abandoned; fence pages: vks_fence_status */
    uint32_t owner_slot, owner_pid;
    uint64_t key, value, queued, completed, epoch;
    uint32_t generation;
    uint32_t n_slots;
    vks_slot_view slots[VKS_SLOTS];
} vks_page_view;

/* Maps the page read-only, copies its contents and unmaps it. The fd stays the caller's.
 * VKS_BAD_PAGE: not a page of vkshare. */
vks_status vks_page_inspect(int fd, vks_page_view *out);

typedef struct vks_end_view {
    uint32_t state; /* 0 never opened, 1 open, 2 closed */
    uint32_t pid;   /* 0 unless open */
    bool dead;      /* open, and its process has certainly ended; no party has noticed yet */
    char name[VKS_NAME_SIZE];
    uint64_t since; /* of `state`; CLOCK_MONOTONIC ns, as all times here; 0: never */
} vks_end_view;

/* The contents of a surface queue's page. The numbers are not checked against each other. */
typedef struct vks_queue_view {
    uint64_t id, network;
    uint32_t width, height, format, count, metadata_size;
    bool single_threaded;
    uint64_t written, committed, taken; /* totals of surfaces */
    uint64_t committed_at, taken_at;    /* last time of each */
    uint64_t waiting_since;             /* since when a consumer thread sleeps in dequeue; 0: none does */
    vks_end_view ends[2];               /* by vks_end */
} vks_queue_view;

/* Works like vks_page_inspect(); VKS_BAD_PAGE. */
vks_status vks_queue_inspect(int fd, vks_queue_view *out);

/* ---- for tests and tools ---------------------------------------------------------------------------------------- */

bool vks_have_futex_waitv(void); /* false: held work that waits on other parties' pages is polled every millisecond */
uint32_t vks_thread_count(void); /* threads of the core now */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
