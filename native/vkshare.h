/* vkshare.h: the C core of vkshare. This header is its manual.
 *
 * The core knows no Python. It keeps the shared pages (fence pages, keyed-mutex pages), the devices with their held
 * submissions, and the threads that turn completions and deaths into wake-ups. Two backends hang below it: Vulkan
 * (native/core/backend_vulkan.c) and the CPU (native/core/backend_cpu.c).
 *
 * Conventions
 *  - Every function is safe to call from any thread unless its comment says otherwise.
 *  - Deadlines are absolute CLOCK_MONOTONIC nanoseconds. 0 tests and returns; VKS_FOREVER never expires.
 *  - A function that can block says so; it may then return VKS_INTERRUPTED when a signal arrived: state is as it was,
 *    the caller runs its signal handlers and calls again with the same deadline.
 *    vks_set_interrupt_interval() makes it do so by itself now and then: a signal that comes just before a sleep does
 * not end it.
 *  - Objects are counted (vks_X_ref, vks_X_unref). Closing is separate from the last unref: close ends what the object
 *    does, the last unref frees its memory.
 *  - A function that fails leaves the details in the calling thread's vks_error (vks_last_error()).
 *  - After fork() every inherited object answers VKS_FORKED and is left untouched.
 */
#ifndef VKSHARE_H
#define VKSHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VKS_FOREVER UINT64_MAX
#define VKS_LAYOUT_VERSION 3u /* of the shared pages; others are refused (K32) */
#define VKS_SLOTS 120u        /* handles that may share one surface at a time */
#define VKS_NAME_SIZE 24u     /* a device's name in a slot, with its final 0 */
#define VKS_MAX_FENCE_VALUE (UINT64_MAX - 1)
#define VKS_FRAME_SEMAPHORES 8u /* that one present waits for, at most */

typedef enum vks_status {
    VKS_OK = 0,
    VKS_TIMEOUT,       /* the deadline passed; nothing changed */
    VKS_INTERRUPTED,   /* a signal arrived; nothing changed */
    VKS_ABANDONED,     /* an owner or signaller died, was closed or failed before it was done */
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
    VKS_BAD_PAGE,       /* a page or a descriptor that came from outside was refused; the text says why */
    VKS_OS_ERROR,       /* code is errno, the text names the call */
    VKS_VULKAN_ERROR,   /* code is the VkResult, the text names the call */
    VKS_UNSUPPORTED,
    VKS_NO_MEMORY,
    VKS_BAD_CALL,     /* the object's state does not allow it; the text says why */
    VKS_SURFACE_LOST, /* the window surface behind a swapchain is gone */
    VKS_HIDDEN,       /* the window has no pixels now: there is nothing to present to */
    VKS_OUTDATED      /* a ring has to be made anew: its size is to change */
} vks_status;

typedef struct vks_error {
    vks_status status;
    int64_t code;   /* errno or VkResult */
    char text[232]; /* one sentence, no final full stop */
} vks_error;

const vks_error *vks_last_error(void);
void vks_clear_error(void); /* before a call whose VKS_TIMEOUT may have a text of its own */

uint64_t vks_now(void); /* CLOCK_MONOTONIC, ns */

/* Blocking calls of the calling thread answer VKS_INTERRUPTED after this many ns of sleep (0, as it is at first: only
 * after a signal). */
void vks_set_interrupt_interval(uint64_t ns);

typedef struct vks_device vks_device;
typedef struct vks_fence vks_fence;
typedef struct vks_surface vks_surface;
typedef struct vks_commands vks_commands;
typedef struct vks_work vks_work; /* one held operation, or the memory of one */
typedef struct vks_event_queue vks_event_queue;

/* ---- hubs: one eventfd for any number of outstanding events (X23) --------------------------------------------- */

/* A hub collects the tokens of events that happened and keeps its eventfd readable while there are some. */
vks_status vks_event_queue_create(vks_event_queue **out);
int vks_event_queue_fd(const vks_event_queue *event_queue); /* owned by the hub */
/* Moves up to `capacity` tokens out and returns how many; the fd stays readable while more are left.
 * results[i] tells how the event ended: VKS_OK, or why it can never happen. */
size_t vks_event_queue_drain(vks_event_queue *event_queue, uint64_t *tokens, vks_status *results, size_t capacity);
/* Closes the eventfd; events that come later are dropped. Idempotent. */
void vks_event_queue_close(vks_event_queue *event_queue);
void vks_event_queue_ref(vks_event_queue *event_queue);
void vks_event_queue_unref(vks_event_queue *event_queue);

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* What the core needs of a VkDevice. Handles are passed as integers so that this header needs no vulkan_core.h. */
typedef struct vks_vulkan_info {
    void *get_device_proc_addr;       /* PFN_vkGetDeviceProcAddr */
    uint64_t device;                  /* VkDevice; the caller destroys it after vks_device_shutdown() */
    uint64_t queue;                   /* VkQueue of that device, of a graphics family */
    uint64_t transfer_queue;          /* one of a family that only copies, for what needs no more; 0: none */
    bool export_timelines;            /* timeline semaphores go out and in as opaque fds: proven by a trial (X22) */
    uint64_t max_timeline_difference; /* maxTimelineSemaphoreValueDifference, 0 where it is not told */
    bool is_adopted;                  /* an engine's own: used for what the engine submits, and for nothing else */
    /* Taken round every use of the queue. NULL: the core's own lock is enough, which an engine does not know: without
     * these it must not use the queue while work of its own is held back, which goes to it from another thread. */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
} vks_vulkan_info;

typedef struct vks_device_info {
    const char *name;              /* cut to VKS_NAME_SIZE - 1 bytes in shared pages */
    uint32_t held_limit;           /* held operations past which submit waits (K25); 0: 1024 */
    uint32_t raster_threads;       /* CPU backend: threads a tile pool has; 0: one a core */
    const vks_vulkan_info *vulkan; /* NULL: the CPU backend */
} vks_device_info;

vks_status vks_device_create(const vks_device_info *info, vks_device **out);
void vks_device_ref(vks_device *device);
void vks_device_unref(vks_device *device);
/* Blocks, at most about a second unless the driver hangs, and then some 20 seconds: cancels what is held (VKS_CLOSED),
 * abandons what is owned, waits for what the driver has (that of a lost device too), stops the threads, destroys the
 * core's semaphores. Idempotent. */
void vks_device_shutdown(vks_device *device);
/* The same in steps: VKS_INTERRUPTED until it is done. VKS_TIMEOUT: a call of another thread has not returned from the
 * driver; later calls go on from there. */
vks_status vks_device_try_shutdown(vks_device *device);
/* After it: the driver may use what it was given still. Neither that nor the VkDevice may be destroyed. */
bool vks_device_leaks(const vks_device *device);
/* VKS_OK, VKS_CLOSED, VKS_DEVICE_LOST or VKS_FORKED. */
vks_status vks_device_state(const vks_device *device);
void vks_device_mark_lost(vks_device *device); /* as after VK_ERROR_DEVICE_LOST (X21) */
/* Blocks until everything submitted before the call, held work too, has run. */
vks_status vks_device_wait_idle(vks_device *device, uint64_t deadline);
/* Serials count the batches that the driver has been given; they complete in order. */
uint64_t vks_device_submitted(vks_device *device);
uint64_t vks_device_completed(vks_device *device);

typedef struct vks_device_statistics {
    uint64_t submitted, completed; /* serials */
    uint64_t transfers;            /* of those, batches that went to the transfer queue */
    uint64_t submissions;          /* calls of vks_submit that succeeded */
    uint64_t held, held_limit;     /* operations that wait now */
    uint64_t held_total;           /* operations that ever waited */
    uint64_t failed;               /* held operations that ended without running */
    uint64_t backpressure_waits;   /* submits that waited because held == held_limit */
    uint64_t copied_bytes;         /* counted by the copy paths themselves: vks_device_count_copy() */
    uint64_t fences, surfaces;     /* open */
} vks_device_statistics;
void vks_device_get_statistics(vks_device *device, vks_device_statistics *out);
void vks_device_count_copy(vks_device *device, uint64_t bytes); /* adds to copied_bytes */

/* ---- commands -------------------------------------------------------------------------------------------------- */

typedef struct vks_program vks_program; /* native/raster/program.h */

typedef struct vks_use {
    vks_surface *surface; /* a reference is taken */
    bool writes;
} vks_use;

/* A compiled command list: a VkCommandBuffer (recorded for simultaneous use) or a program, and the surfaces that it
 * touches. When the last reference goes and the device has run its last use, `retire(user)` is called from
 * vks_device_reap(), never from another thread: the place to free the command buffer. */
vks_status vks_commands_create_vulkan(vks_device *device, uint64_t command_buffer, const vks_use *uses, size_t n_uses,
                                      void (*retire)(void *user), void *user, vks_commands **out);
/* Takes over `program`, whose slot i is the surface of uses[slots[i]]. */
vks_status vks_commands_create_cpu(vks_device *device, vks_program *program, const vks_use *uses, size_t n_uses,
                                   const uint32_t *slots, size_t n_slots, vks_commands **out);
/* The same work recorded for the family of the device's transfer queue, where it only copies. Set once, before it is
 * submitted. */
void vks_commands_set_transfer(vks_commands *commands, uint64_t command_buffer);
void vks_commands_ref(vks_commands *commands);
void vks_commands_unref(vks_commands *commands);
const vks_use *vks_commands_uses(const vks_commands *commands, size_t *n_uses);
/* Calls retire() of the dead commands whose work is done; returns how many. With `all`, of every dead one (after
 * shutdown). */
size_t vks_device_reap(vks_device *device, bool all);

/* ---- submissions ----------------------------------------------------------------------------------------------- */

/* Where a submission stands: a serial when the driver has it; else the operation that is held. A value type; hold the
 * reference of `op` (vks_work_unref) when it is not NULL. */
typedef struct vks_submission {
    uint64_t serial;
    vks_work *op;
} vks_submission;

typedef struct vks_wait { /* either a fence and a value, or (fence == NULL) an earlier submission of the same device */
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
    const uint64_t *raw; /* VkCommandBuffers, after `commands`; taken to touch every surface that the device owns */
    uint32_t n_raw;
    const vks_wait *waits;
    uint32_t n_waits;
    const vks_signal *signals;
    uint32_t n_signals;
} vks_submit_info;

/* Hands a batch to the driver, or keeps it back until its waits are certain to end (docs/spec/protocol.md, "Held
 * submissions").
 * Short, but blocks while `held_limit` operations are held, until `deadline` (callers that keep a lock try with
 * deadline 0 first). Errors: VKS_NOT_OWNER (a touched surface is not owned), VKS_BAD_VALUE (also for a wait for a
 * value of a fence that is not queued before this submission signals that fence), VKS_READ_ONLY, VKS_FOREIGN_DEVICE,
 * VKS_TIMEOUT (bound reached), VKS_CLOSED, VKS_DEVICE_LOST, VKS_ABANDONED (a wait can never be met). Whatever fails
 * executes nothing and signals nothing. */
vks_status vks_submit(vks_device *device, const vks_submit_info *info, uint64_t deadline, vks_submission *out);

uint64_t vks_submission_serial(const vks_submission *submission); /* 0 while it is held */
bool vks_submission_is_held(vks_device *device, const vks_submission *submission);
/* VKS_OK when done, VKS_TIMEOUT while it is not, else why it never ran. */
vks_status vks_submission_poll(vks_device *device, const vks_submission *submission);
vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline); /* blocks */
/* Puts `token` into the hub once the submission is done or has failed. */
vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token);
void vks_work_ref(vks_work *op);
void vks_work_unref(vks_work *op);

/* ---- fences ---------------------------------------------------------------------------------------------------- */

vks_status vks_fence_create(vks_device *device, uint64_t initial, vks_fence **out);
/* An engine's own timeline semaphore; never destroyed by us. */
vks_status vks_fence_adopt(vks_device *device, uint64_t vk_semaphore, vks_fence **out);
/* A read-only follower of another party's fence. Takes over both fds, also when it fails; semaphore_fd is -1 where
 * there is none. */
vks_status vks_fence_open(vks_device *device, int page_fd, int semaphore_fd, vks_fence **out);
/* Duplicates for another party, CLOEXEC, the caller's to close; *semaphore_fd is -1 where semaphores cannot be
 * exported. */
vks_status vks_fence_export(vks_fence *fence, int *page_fd, int *semaphore_fd);
void vks_fence_ref(vks_fence *fence);
void vks_fence_unref(vks_fence *fence);
/* Waiters for what cannot come any more get VKS_CLOSED; followers VKS_ABANDONED. Idempotent. */
void vks_fence_close(vks_fence *fence);
bool vks_fence_is_closed(const vks_fence *fence);
bool vks_fence_is_follower(const vks_fence *fence);
bool vks_fence_is_native(const vks_fence *fence);     /* a follower whose semaphore the GPU itself can wait for */
uint64_t vks_fence_semaphore(const vks_fence *fence); /* VkSemaphore, 0 on the CPU backend */
vks_device *vks_fence_device(const vks_fence *fence);

vks_status vks_fence_value(vks_fence *fence, uint64_t *out);
vks_status vks_fence_queued(vks_fence *fence, uint64_t *out);  /* with what held submissions promise */
vks_status vks_fence_signal(vks_fence *fence, uint64_t value); /* by the host, at once */
/* VKS_OK reached, VKS_TIMEOUT not yet, else why never. */
vks_status vks_fence_poll(vks_fence *fence, uint64_t value);
vks_status vks_fence_wait(vks_fence *fence, uint64_t value, uint64_t deadline); /* blocks */
vks_status vks_fence_notify(vks_fence *fence, uint64_t value, vks_event_queue *event_queue, uint64_t token);
/* A new eventfd, the caller's to close, that becomes readable when the value is reached, or never can be. Until then
 * the fence keeps a duplicate of it. */
vks_status vks_fence_event_fd(vks_fence *fence, uint64_t value, int *out);
/* For another API of the same GPU that imported the fence's semaphore (CUDA). lend_wait: *wait is what the API's queue
 * must wait for in order that the fence has `value` (0: it has); blocks until that is certain. lend_value: its queue is
 * to wait for *wait (0: nothing) and then to signal `value`, as vks_fence_signal() takes it; meanwhile submissions that
 * signal the fence are held. lent_back: the queue has that signal, so that everybody may count on it, or with 0 has
 * not. outside_lost: that API died: what it was to bring never comes, and waits for it get VKS_ABANDONED. close() waits
 * for what the API's queue was given. VKS_UNSUPPORTED: the semaphore cannot be shared. */
vks_status vks_fence_external_wait(vks_fence *fence, uint64_t value, uint64_t deadline, uint64_t *wait);
vks_status vks_fence_external_begin(vks_fence *fence, uint64_t value, uint64_t *wait);
vks_status vks_fence_external_end(vks_fence *fence, uint64_t value);
vks_status vks_fence_external_lost(vks_fence *fence);

/* ---- surfaces: one party's handle of a keyed mutex ------------------------------------------------------------- */

typedef struct vks_surface_info {
    uint32_t width, height, format; /* for vkshare ps only */
    /* CPU backend: the pixels as the program sees them. Vulkan: pixels may be NULL. */
    void *pixels;
    size_t size, stride;
    /* Vulkan: command buffers recorded for simultaneous use that take the image from VK_QUEUE_FAMILY_EXTERNAL and give
     * it back; 0 on the CPU backend. */
    uint64_t acquire_commands, release_commands;
    bool discard_unowned; /* K21: unowned="discard" */
    bool is_presentable;  /* a swapchain's image: it has this handle alone, and is never exported */
} vks_surface_info;

/* A new surface with a new page; nobody owns it and its key is 0 (K1). */
vks_status vks_surface_create(vks_device *device, const vks_surface_info *info, vks_surface **out);
/* Another handle on the page. Takes over both fds, also when it fails. */
vks_status vks_surface_open(vks_device *device, const vks_surface_info *info, int page_fd, int semaphore_fd,
                            vks_surface **out);
/* Another handle on the same device, a party of its own: `info` describes the same image, or the same pixels. It uses
 * the page, the mapping and the semaphore of `of`, which may be closed before it: nothing is exported, mapped or
 * opened. VKS_UNSUPPORTED: a swapchain's image. */
vks_status vks_surface_alias(vks_surface *of, const vks_surface_info *info, vks_surface **out);
/* Duplicates for another party, CLOEXEC, the caller's to close; *semaphore_fd is -1 where there is none. Blocks, the
 * first time, until the work that was submitted to the surface has run: until then its image did not leave the queue;
 * and while a present has the queue (VKS_TIMEOUT after 10 s). */
vks_status vks_surface_export(vks_surface *surface, int *page_fd, int *semaphore_fd);
/* A duplicate of the page alone, to be looked at (vks_page_inspect): nothing is exported by that. */
vks_status vks_surface_page(const vks_surface *surface, int *page_fd);
/* Set once, before the first submit: a surface is made before its command buffers can be recorded. */
void vks_surface_set_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
/* The same two, recorded for the family of the device's transfer queue: its images are VK_SHARING_MODE_CONCURRENT. */
void vks_surface_set_transfer_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
void vks_surface_ref(vks_surface *surface);
void vks_surface_unref(vks_surface *surface);
/* Abandons the surface if this handle owns it (K7) and cancels what is held on it. Returns the serial that must have
 * completed before the image may be destroyed. Blocks for at most some 10 s, until the work of this handle, another
 * API's in its name too, has run: nobody may take the surface before. */
uint64_t vks_surface_close(vks_surface *surface);
/* The first half of a close, which several surfaces can have with one deadline: lets work behind a release of this
 * handle go that others were promised. Without it half a second is allowed for each. vks_surface_close_now() is the
 * other half. */
void vks_surface_finish_releases(vks_surface *surface, uint64_t deadline);
uint64_t vks_surface_close_now(vks_surface *surface);
vks_device *vks_surface_device(const vks_surface *surface);
bool vks_surface_is_closed(const vks_surface *surface);
bool vks_surface_is_owned(const vks_surface *surface);
bool vks_surface_discards(const vks_surface *surface);
/* Owned, or a mode="gpu" tenure is open: submissions may be made. */
bool vks_surface_may_submit(const vks_surface *surface);
uint32_t vks_surface_generation(const vks_surface *surface);

/* Blocks. K3: VKS_ALREADY_OWNER at once. */
vks_status vks_surface_acquire(vks_surface *surface, uint64_t key, uint64_t deadline);
/* The same in two parts, for callers that keep a lock at first. soon: spins for some 2 us and never sleeps;
 * VKS_TIMEOUT: go on with the other. A death that nobody has seen yet is left to that. */
vks_status vks_surface_try_acquire(vks_surface *surface, uint64_t key);
vks_status vks_surface_acquire_blocking(vks_surface *surface, uint64_t key, uint64_t deadline);
/* mode="gpu": returns at once; *op (a reference, may be NULL when granted at once) is the held acquire. */
vks_status vks_surface_acquire_gpu(vks_surface *surface, uint64_t key, vks_work **op);
/* For acquire_async: VKS_OK granted, VKS_TIMEOUT not yet; cancel gives VKS_OK if it was granted first. */
vks_status vks_work_poll(vks_work *op);
vks_status vks_work_cancel(vks_work *op);
vks_status vks_work_notify(vks_work *op, vks_event_queue *event_queue, uint64_t token);
/* Hands the surface to the party that acquires with this key. VKS_NOT_OWNER, VKS_ABANDONED (the chain before is). */
vks_status vks_surface_release(vks_surface *surface, uint64_t key);
/* Takes an abandoned surface over. Blocks (debts of the living). VKS_NOT_ABANDONED: another handle has recovered it, or
 * it never was. An owner that took over work which can never run gives its ownership up first. */
vks_status vks_surface_recover(vks_surface *surface, uint64_t deadline);
/* Blocks until the CPU may touch the pixels: owned, the previous owner's work and this handle's own have run. */
vks_status vks_surface_cpu_access(vks_surface *surface, uint64_t deadline);
/* The key after the last one that it gave, for any handle of the surface; the first is 1 (K30). */
uint64_t vks_surface_next_key(vks_surface *surface);

typedef struct vks_semaphore_point {
    uint64_t semaphore, value;
} vks_semaphore_point;
/* For an engine's own vkQueueSubmit2: makes the acquire known to the queue and gives the pair to wait for and the pair
 * to signal. The engine must have submitted the signal before it calls release. Blocks where semaphores are not shared:
 * until the previous owner's work has run. Vulkan only. */
vks_status vks_surface_sync(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                            vks_semaphore_point *signal);

/* For another API of the same GPU (OpenGL), by binary semaphores (VkSemaphore), in an owned tenure. hand_out: gives the
 * image to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL and signals `semaphore`, behind all that was submitted.
 * take_back: the queue waits for `semaphore`, whose signal must have been submitted (0: the CPU has waited), and takes
 * the image: what is submitted later, release too, comes after. Each is one submission, at once, and they take turns.
 * hand_out blocks where semaphores are not shared between parties: until the previous owner's work has run. Both block
 * while a present has the queue (VKS_TIMEOUT after 10 s). Vulkan only. */
vks_status vks_surface_release_to_external(vks_surface *surface, uint64_t deadline, uint64_t semaphore);
vks_status vks_surface_acquire_from_external(vks_surface *surface, uint64_t semaphore);
/* For another API of the same GPU that imported the surface's semaphore (CUDA), in an owned tenure. lend_out: *value is
 * what the API's queue must wait for before its work (0: nothing is left to wait for); blocks until that is certain to
 * come. Where commands of this device came first in the tenure, or the CPU may have written (`after_cpu`: other APIs'
 * queues look for nothing of the CPU's), a batch of this device brings that; else no batch comes between. Until
 * lent_back commands of this device are refused (VKS_NOT_OWNER). lent_value: what the API's queue must signal after its
 * work; from now on the others, and close(), wait for it. lent_back: that signal is with the API's queue, and the
 * tenure goes on: commands come after the API's work, and so does the next owner's work. With 0 the API signals
 * nothing. outside_lost: that API died (an error of CUDA's that ends its context), and brings nothing of what it was
 * to: then the chain is broken, so that whoever is next gets VKS_ABANDONED, and nobody waits. VKS_UNSUPPORTED: the
 * surface was never exported, or is not ordered by a timeline semaphore. */
vks_status vks_surface_external_begin(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value);
vks_status vks_surface_external_signal_value(vks_surface *surface, uint64_t *value);
vks_status vks_surface_external_end(vks_surface *surface, uint64_t value);
vks_status vks_surface_external_lost(vks_surface *surface);

/* ---- surface queues: a ring of (surface, metadata) pairs from a producer to a consumer --------------------------- */

#define VKS_MAX_QUEUE_SURFACES 64u
#define VKS_MAX_METADATA (1u << 16)

/* A network is a fixed set of surfaces and the queues over it. Each queue is a page of shared memory; each device that
 * takes part has one handle of each surface, and a surface that it has dequeued from one queue may be enqueued into any
 * other of the network. A vks_queue is one end of one queue, held by one device. */
typedef struct vks_queue vks_queue;
typedef enum vks_end { VKS_PRODUCER = 0, VKS_CONSUMER = 1 } vks_end;

typedef struct vks_queue_info {
    uint32_t width, height, format; /* for vkshare ps */
    uint32_t count;                 /* surfaces in the network: 1 to VKS_MAX_QUEUE_SURFACES */
    uint32_t metadata_size;         /* bytes a pair may carry: up to VKS_MAX_METADATA */
    uint64_t network;               /* of a queue over the same surfaces; 0: a new network */
    bool single_threaded;           /* Q15: no lock, no waiting */
    bool early;                     /* each end may be used before the other was opened for the first time */
    bool full;                      /* starts with every surface in it, the first on top: the root queue (Q2) */
} vks_queue_info;

/* A new page; the fd is the caller's. */
vks_status vks_queue_page_make(const vks_queue_info *info, int *fd);
/* What a page says, after every check of it. Takes over nothing. */
vks_status vks_queue_page_read(int fd, vks_queue_info *out);

/* Makes the surface, which nobody owns, the `index`-th of a network: from now on it is acquired and released by its
 * queues alone. Once. */
vks_status vks_surface_join(vks_surface *surface, uint64_t network, uint32_t index);

/* Opens one end (Q4: VKS_BAD_CALL while somebody has it open). `surfaces` are the device's handles of all surfaces of
 * the network, in its order; a reference is taken of each. Takes over nothing of the fd. */
vks_status vks_queue_open(vks_device *device, int page_fd, vks_end end, vks_surface *const *surfaces, uint32_t count,
                          vks_queue **out);
void vks_queue_ref(vks_queue *queue);
void vks_queue_unref(vks_queue *queue);
/* Wakes everybody who waits at either end (Q18). A producer's pairs that are put down and not committed are committed:
 * the GPU orders them. Idempotent. */
void vks_queue_close(vks_queue *queue);
bool vks_queue_is_closed(const vks_queue *queue);
uint32_t vks_queue_metadata_size(const vks_queue *queue);

typedef enum vks_enqueue_mode {
    VKS_ENQUEUE_WAIT = 0, /* Q10: the GPU has finished with the surface, and what was pending is committed, before */
    VKS_ENQUEUE_TRY,      /* Q11: never waits; committed at once if the GPU has finished, else by a flush */
    VKS_ENQUEUE_GPU       /* committed at once; the next owner's GPU work waits for ours */
} vks_enqueue_mode;

/* Gives up the surface. Only VKS_ENQUEUE_WAIT blocks. VKS_NOT_OWNER, VKS_FOREIGN_DEVICE (another device's handle),
 * VKS_BAD_CALL (not of this network; an end is not open; a second thread of a single-threaded queue), VKS_BAD_VALUE
 * (metadata is too long), VKS_CLOSED (this end, or the consumer): the surface is the caller's as before (Q19). Also
 * VKS_BAD_CALL where the ring is full of pairs whose surfaces were recovered since: the consumer must dequeue first.
 * *committed: it can be dequeued. VKS_TIMEOUT: nothing changed. */
vks_status vks_queue_enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                             vks_enqueue_mode mode, uint64_t deadline, bool *committed);
/* Commits what is pending, first in first out, as far as the GPU has finished with it; *pending: what is left. With
 * `wait` blocks until nothing is. *committed: how many this call did. */
vks_status vks_queue_flush(vks_queue *queue, bool wait, uint64_t deadline, uint32_t *committed, uint32_t *pending);
/* Blocks. The first pair: the caller's device owns the surface, whose index is *surface. `metadata` has room for
 * metadata_size bytes. VKS_CLOSED: nothing is left and the producer is gone. VKS_ABANDONED: the pair is taken off the
 * queue and its surface is there for vks_surface_recover(); or the surface was recovered since this handle had it, and
 * the next call gives the pair. */
vks_status vks_queue_dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length);
/* Puts `token` into the hub once a dequeue is worth a try, or fails for good. */
vks_status vks_queue_notify(vks_queue *queue, vks_event_queue *event_queue, uint64_t token);

typedef struct vks_queue_statistics {
    uint64_t enqueued, committed, dequeued; /* ever */
    uint32_t producer_pid, consumer_pid;    /* 0: not open */
} vks_queue_statistics;
void vks_queue_get_statistics(const vks_queue *queue, vks_queue_statistics *out);
vks_status vks_queue_page_count(int fd, vks_queue_statistics *out); /* the same, by a page */

/* ---- descriptors: surfaces and fences from other processes ------------------------------------------------------ */

/* vkshare's Python side sends them (SurfaceDescriptor.send(), FenceDescriptor.send()); vkshare/descriptors.py packs the
 * same bytes. One message over a Unix socket (SOCK_STREAM or SOCK_SEQPACKET): a header and a body, packed and
 * little-endian, with the file descriptors (SCM_RIGHTS) on the first byte. A layout change raises
 * VKS_DESCRIPTOR_VERSION; other versions are refused (K32). */
#define VKS_DESCRIPTOR_MAGIC "vkshare" /* with its final 0 */
#define VKS_DESCRIPTOR_VERSION 1u
#define VKS_DESCRIPTOR_MAX_FDS 8u   /* in one message */
#define VKS_LARGEST_SIDE (1u << 20) /* pixels */
#define VKS_ROW_ALIGNMENT 64u       /* bytes: rows of the CPU backend are padded to a multiple of it */

typedef enum vks_descriptor_kind { VKS_DESCRIPTOR_SURFACE = 1, VKS_DESCRIPTOR_FENCE = 2 } vks_descriptor_kind;

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
/* memory_kind: a Vulkan driver's, or the CPU backend's: a memfd with the seals SEAL, SHRINK and GROW and no others,
 * whose rows have a stride of their length to that rounded up to VKS_ROW_ALIGNMENT, and whose size is stride * height
 * rounded up to whole pages. */
enum { VKS_OPAQUE_FD = 0, VKS_MEMFD = 1 };

/* Its fds, in this order: the image's memory, the keyed-mutex page and, where the driver exports semaphores, the
 * timeline. An opaque fd is imported by the device whose UUIDs these are, as an image of just these properties:
 * 2D, one level, one layer, one sample, exclusive, initialLayout UNDEFINED, VkExternalMemoryImageCreateInfo with
 * OPAQUE_FD; TRANSFER_SRC and TRANSFER_DST always, COLOR_ATTACHMENT with VKS_USAGE_RENDER, SAMPLED with _SAMPLE,
 * STORAGE with _STORAGE; flags MUTABLE_FORMAT for rgba8unorm-srgb, else none. allocationSize is memory_size.
 * The opaque fd of a software driver is a memfd with the seals SEAL, SHRINK and GROW, laid out as the driver's own
 * file. lavapipe's begins with {size, offset}, which every party can rewrite and which lavapipe believes when it
 * imports and when it frees: import only what a trusted party sent, or allocate memory for export in its place and map
 * the fd's pages over it, as vkshare's own devices do. */
typedef struct __attribute__((packed)) vks_surface_body { /* 112 bytes */
    uint32_t width, height, format;
    uint8_t tiling, usage, memory_kind;
    uint8_t dedicated;                                        /* 1: the import needs VkMemoryDedicatedAllocateInfo */
    uint64_t memory_size, memory_offset;                      /* bytes; row 0 begins at the offset */
    uint64_t stride;                                          /* bytes from row to row; 0 for optimal tiling */
    uint8_t device_uuid[16], driver_uuid[16];                 /* of VkPhysicalDeviceIDProperties */
    uint32_t damage_x, damage_y, damage_width, damage_height; /* all 0: everything; for later */
    char name[VKS_NAME_SIZE];                                 /* of the sender's device, UTF-8, filled up with 0 */
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

/* From a connected Unix socket whose peer runs as the same user. Blocks. They come from strangers: sizes, versions,
 * kinds, seals and fds are all checked before anything is mapped. VKS_TIMEOUT: nothing came. VKS_CLOSED: the peer
 * closed the connection before sending anything. VKS_BAD_PAGE: it was refused, and every fd that came is closed; then
 * close the socket too. The fds are the caller's, until vks_X_descriptor_close(). */
vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out);
vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out);
void vks_surface_descriptor_close(vks_surface_descriptor *descriptor); /* idempotent */
void vks_fence_descriptor_close(vks_fence_descriptor *descriptor);
/* VKS_FOREIGN_DEVICE unless the memory is of this device and driver: before an opaque fd is imported (X17). */
vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *descriptor, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16]);
/* The pixels of a surface of the CPU backend, body.memory_size bytes, writable; the caller's to munmap once the surface
 * is closed. VKS_UNSUPPORTED: the memory is a driver's. */
vks_status vks_surface_descriptor_map(const vks_surface_descriptor *descriptor, void **pixels);
/* A handle on it; the descriptor stays usable. CPU backend: `pixels` from the call above. Vulkan: NULL, and
 * vks_surface_set_commands() before the first submit. For a fence: vks_fence_open() with duplicates of the fds. */
vks_status vks_surface_open_descriptor(vks_device *device, const vks_surface_descriptor *descriptor, void *pixels,
                                       vks_surface **out);

/* ---- a look at a page, for vkshare ps (K33); never disturbs it -------------------------------------------------- */

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

/* Maps the page read-only, copies what it says, unmaps. Does not take over the fd. VKS_BAD_PAGE if it is not one of
 * ours. */
vks_status vks_page_inspect(int fd, vks_page_view *out);

typedef struct vks_end_view {
    uint32_t state; /* 0 never opened, 1 open, 2 closed */
    uint32_t pid;   /* 0 unless open */
    bool dead;      /* open, and its process is gone for certain: nobody has noticed yet */
    char name[VKS_NAME_SIZE];
    uint64_t since; /* of `state`; CLOCK_MONOTONIC ns, as all times here; 0: never */
} vks_end_view;

/* What the page of a surface queue says. The numbers are not checked against each other. */
typedef struct vks_queue_view {
    uint64_t id, network;
    uint32_t width, height, format, count, metadata_size;
    bool single_threaded;
    uint64_t written, committed, taken; /* surfaces, ever */
    uint64_t committed_at, taken_at;    /* the last time */
    uint64_t waiting_since;             /* a thread of the consumer's sleeps in dequeue since; 0: none does */
    vks_end_view ends[2];               /* by vks_end */
} vks_queue_view;

/* As vks_page_inspect. */
vks_status vks_queue_inspect(int fd, vks_queue_view *out);

/* ---- for tests and tools ---------------------------------------------------------------------------------------- */

bool vks_have_futex_waitv(void); /* false: held work on other parties' pages is polled every millisecond */
uint32_t vks_thread_count(void); /* threads that the core runs now */

#endif
