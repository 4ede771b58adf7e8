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
 *  - A pointer may be NULL where a comment says so, an array where its count is 0, and a callback with
 *    its `user`. Else a function that returns vks_status returns VKS_BAD_VALUE, and the text names
 *    the argument; other functions do nothing and return 0, false or NULL, vks_event_queue_fd() -1 and
 *    vks_X_is_closed() true. Closed objects, objects of another device and numbers out of range are
 *    refused too. A pointer to anything else cannot be checked.
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

/* The format of a surface: memory order of the components, and Vulkan's format of that name. Others
 * store these numbers: never renumber. */
typedef enum vks_format {
    VKS_FORMAT_NONE = 0, /* no pixels: a buffer */
    VKS_FORMAT_R8_UNORM = 1,
    VKS_FORMAT_RG8_UNORM,
    VKS_FORMAT_RGBA8_UNORM,
    VKS_FORMAT_RGBA8_UNORM_SRGB, /* RGB sRGB-encoded, A linear */
    VKS_FORMAT_BGRA8_UNORM,
    VKS_FORMAT_RGB10A2_UNORM, /* A2B10G10R10_UNORM_PACK32: R in bits 0..9, A in bits 30..31 */
    VKS_FORMAT_R32_FLOAT,
    VKS_FORMAT_RGBA16_FLOAT,
    VKS_FORMAT_RGBA32_FLOAT,
    VKS_FORMAT_R16_FLOAT,
    VKS_FORMAT_RG16_FLOAT,
    VKS_FORMAT_R16_UNORM,
    VKS_FORMAT_RG16_UNORM,
    VKS_FORMAT_RGBA16_UNORM,
    VKS_FORMAT_R32_UINT, /* whole numbers, which are cleared, filled and copied alone */
    /* depth, 0 to 1: cleared, copied, and the depth of draws; of optimal tiling on Vulkan */
    VKS_FORMAT_D16_UNORM,
    VKS_FORMAT_D32_FLOAT,
    /* Y'CbCr in planes: 4:2:0 but for NV16 (4:2:2) and YUV444P; chroma in one plane of pairs, Cb first, but for I420
     * and YUV444P, which have a plane of Cb and one of Cr */
    VKS_FORMAT_NV12,
    VKS_FORMAT_P010, /* words whose upper 10 bits count */
    VKS_FORMAT_I420,
    VKS_FORMAT_NV16,
    VKS_FORMAT_YUV444P,
} vks_format;

/* The meaning of the codes of a surface, by the numbers of ITU-T H.273. */
typedef enum vks_primaries {
    VKS_PRIMARIES_BT709 = 1,
    VKS_PRIMARIES_BT601_625 = 5,
    VKS_PRIMARIES_BT601 = 6,
    VKS_PRIMARIES_BT2020 = 9
} vks_primaries;
typedef enum vks_transfer {
    VKS_TRANSFER_BT709 = 1, /* and BT.601 and BT.2020 */
    VKS_TRANSFER_LINEAR = 8,
    VKS_TRANSFER_SRGB = 13,
    VKS_TRANSFER_PQ = 16,
    VKS_TRANSFER_HLG = 18
} vks_transfer;
typedef enum vks_matrix {
    VKS_MATRIX_RGB = 0, /* the identity: components are R, G and B */
    VKS_MATRIX_BT709 = 1,
    VKS_MATRIX_BT601 = 6,
    VKS_MATRIX_BT2020 = 9 /* of non-constant luminance */
} vks_matrix;
typedef enum vks_range { VKS_RANGE_LIMITED = 0, VKS_RANGE_FULL = 1 } vks_range;
/* Where a pixel of chroma lies, of the luma's that it is for: the first column, midway; midway; the first of both. */
typedef enum vks_siting { VKS_SITING_LEFT = 0, VKS_SITING_CENTER = 1, VKS_SITING_TOP_LEFT = 2 } vks_siting;

typedef struct vks_color {
    uint8_t primaries, transfer, matrix, range, siting;
} vks_color;

/* A rectangle of pixels; empty where a side is 0. */
typedef struct vks_box {
    uint32_t x, y, width, height;
} vks_box;

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

/* The calling thread's last error. It is the thread's own, and valid until its next failing
 * call. */
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
/* Exclusive use of the device's VkQueue, for an engine that submits or presents on it with Vulkan's
 * own calls. Blocks while a present or another engine has the queue. Work of the device that is
 * submitted meanwhile is held, and runs after the unlock; so until then the caller neither waits for
 * such work nor calls vks_surface_sync(). On an adopted device the engine's own lock_queue() is
 * called too. Any thread may unlock, and an unlock without a lock does nothing. lock_queue and
 * unlock_queue can be the functions of another library's lock, with the device as their argument;
 * the lock returns too because the device was closed or lost. try_lock_queue: VKS_TIMEOUT, also
 * when a present has the queue for 10 seconds; VKS_UNSUPPORTED: the CPU backend. */
vks_status vks_device_try_lock_queue(vks_device *device, uint64_t deadline);
void vks_device_lock_queue(void *device);
void vks_device_unlock_queue(void *device);
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
/* Takes ownership of `program`. Its slot i is the surface of uses[slots[i]], or of uses[i] if
 * `slots` is NULL. VKS_FOREIGN_DEVICE; VKS_BAD_VALUE: slots[i] is no use; VKS_UNSUPPORTED: a Vulkan
 * device. */
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
    /* VkCommandBuffers, run after `commands`; assumed to touch every surface that the device
     * owns. */
    const uint64_t *raw;
    uint32_t n_raw;
    const vks_wait *waits;
    uint32_t n_waits;
    const vks_signal *signals;
    uint32_t n_signals;
} vks_submit_info;

/* Submits a batch to the driver, or holds it until its waits are certain to end
 * (docs/spec/protocol.md, "Held submissions"). Short, but blocks while `held_limit` operations are
 * held, until `deadline`; callers that hold a lock try with deadline 0 first. A submission that
 * fails executes nothing and signals nothing. Errors: VKS_NOT_OWNER (a touched surface is not
 * owned), VKS_BAD_VALUE (also: the submission signals a fence and waits for a value of it that no
 * earlier submission signals), VKS_READ_ONLY, VKS_FOREIGN_DEVICE, VKS_TIMEOUT (held_limit is
 * reached), VKS_CLOSED, VKS_DEVICE_LOST, VKS_ABANDONED (a wait can never end). */
vks_status vks_submit(vks_device *device, const vks_submit_info *info, uint64_t deadline, vks_submission *out);

uint64_t vks_submission_serial(const vks_submission *submission); /* 0 while it is held */
/* True while it waits in the scheduler and the driver does not have it. */
bool vks_submission_is_held(vks_device *device, const vks_submission *submission);
/* VKS_OK: it has run. VKS_TIMEOUT: not yet. Another status: the reason why it never ran. */
vks_status vks_submission_poll(vks_device *device, const vks_submission *submission);
vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline); /* blocks */
/* Pushes `token` into the event queue once the submission has run or failed. General statuses
 * only. */
vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token);
void vks_work_ref(vks_work *work);
void vks_work_unref(vks_work *work);

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

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

/* The manual goes on there: keyed mutexes; then queues, descriptors, images. */
#include "vkshare_surface.h"

#include "vkshare_ipc.h"

#endif
