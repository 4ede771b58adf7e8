/* device.h: what a device is: a lock, a queue of batches counted by serials, what its completions
 * do, the objects that end with it, and its loss. Internal.
 *
 * Each device has one lock (device->lock). It guards the device's fences, surface handles, held
 * operations and queue order. A thread that holds it takes no other device's lock and does not
 * sleep. The locks of the watcher, the peers and the event queues are taken inside it.
 *
 * The device knows neither fences nor surfaces: they are its children (vks_child_class), and what
 * their values do when a batch has run is a completion (completions.h). It does not know the
 * scheduler either, which is two function pointers here.
 */
#ifndef VKS_DEVICE_H
#define VKS_DEVICE_H

#include <pthread.h>

#include "device/completions.h"
#include "os/platform.h"
#include "vkshare.h"

#define VKS_CONTAINER(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

typedef struct vks_point {
    uint64_t semaphore, value;
} vks_point;

/* The queue families of a device, which has one queue of each. One sequence of serials counts the
 * batches of both queues, and batches run in the order of their serials: the first batch after a
 * change of queue waits on the GPU for the batch before it. */
typedef enum vks_family { VKS_GRAPHICS, VKS_TRANSFER, VKS_FAMILIES } vks_family;

/* One call of vkQueueSubmit2. */
typedef struct vks_batch {
    vks_family family;
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

/* An object that ends with its device. It is a child from its creation to its close. */
typedef struct vks_child vks_child;
typedef struct vks_child_class {
    void (*lost)(vks_child *child); /* the device is lost. Caller holds device->lock */
    void (*poll)(
        vks_child *child); /* publishes values that have no completion; NULL: has none. Caller holds the lock */
    void (*close)(vks_child *child); /* the device closes, and calls it without the lock */
    void (*ref)(vks_child *child);
    void (*unref)(vks_child *child);
} vks_child_class;

struct vks_child {
    vks_child *next, *previous;
    const vks_child_class *class;
};

/* The lists of children, in the order in which a device closes them. */
typedef enum vks_child_kind { VKS_QUEUES, VKS_SURFACES, VKS_FENCES, VKS_CHILD_KINDS } vks_child_kind;

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
    vks_completions completions;

    struct vks_scheduler *scheduler;                        /* owned; freed with the device */
    void (*on_progress)(vks_device *device);                /* held work may run now. Caller holds the lock */
    void (*on_end)(vks_device *device, vks_status because); /* held work never will. Caller holds the lock */
    _Atomic uint32_t n_held;                                /* operations that the scheduler holds */
    uint32_t held_limit;
    uint32_t polled_waits; /* held waits that no process announces, so the publisher calls on_progress() */
    bool presenting;       /* a present or an engine uses the queue; submissions are held meanwhile */
    bool queue_is_locked;  /* that user is an engine: vks_device_lock_queue() */
    uint64_t presenting_since;

    vks_child *children[VKS_CHILD_KINDS];
    bool has_untracked_values;      /* a fence has queued values without a completion; the publisher polls it */
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

    void *engine;                           /* of native/engine; freed with the device */
    void (*end_engine)(vks_device *device); /* the shutdown's last step, unless the device leaks */
};

/* A compiled command list. Its creator sets `destroy`, which drops the uses. */
struct vks_commands {
    vks_commands *next_unused;
    vks_device *device;
    _Atomic uint32_t references;
    uint64_t buffers[VKS_FAMILIES]; /* VkCommandBuffers; 0 for the transfer queue: the list does more than copy */
    vks_program *program;
    struct vks_image *images; /* one per slot of the program */
    size_t n_images;
    uint8_t *relayed; /* owned; in place of a program: the body of the request that the relay sends */
    size_t relayed_size;
    _Atomic uint64_t last_serial;
    void (*retire)(void *user);
    void *user;
    void (*destroy)(vks_commands *commands);
    size_t n_uses;
    vks_use uses[];
};

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

/* A device without backend and scheduler, which backend/ and scheduler/ add. */
vks_status vks_device_new(const vks_device_info *info, vks_device **out);

/* ---- children (caller holds device->lock) ---- */

vks_status vks_device_adopt(vks_device *device, vks_child_kind kind, vks_child *child); /* fails if it is shut down */
void vks_device_disown(vks_device *device, vks_child_kind kind, vks_child *child);
void vks_device_poll_untracked(vks_device *device);
/* Closes every child and then forbids the driver. Caller does not hold device->lock. */
void vks_device_close_children(vks_device *device);

/* ---- batches and serials ---- */

/* Gives the backend the batch, whose serial it sets. A failure may find the device lost. Caller
 * holds device->lock. */
vks_status vks_device_submit(vks_device *device, vks_batch *batch);
/* VKS_OK: the serial has run. VKS_TIMEOUT: not yet. Another status: the reason why it never will.
 * Needs no lock. */
vks_status vks_device_poll_serial(vks_device *device, uint64_t serial);
/* Blocks; may return VKS_INTERRUPTED. Caller does not hold device->lock. */
vks_status vks_device_wait_serial(vks_device *device, uint64_t serial, uint64_t deadline);
/* The same wait before an object is destroyed. A lost device does not end this wait; only the
 * driver does, because Vulkan 4.2.3 makes such waits finite and after VK_ERROR_DEVICE_LOST
 * nothing is in use. VKS_TIMEOUT: the driver may still use the object. */
vks_status vks_device_drain(vks_device *device, uint64_t serial, uint64_t deadline);
void vks_device_progress(vks_device *device); /* wakes the threads that sleep on `progress` */
/* Blocks until done(user), which is called under device->lock. Caller does not hold it. */
vks_status vks_device_wait_until(vks_device *device, bool (*done)(const void *user), const void *user,
                                 uint64_t deadline);

/* ---- loss ---- */

void vks_device_lose(vks_device *device); /* call when DEVICE_LOST was seen. Caller holds device->lock */

/* ---- the queue's exclusive use ----
 *
 * A present may block for as long as the rendering or the display does. So it uses the queue
 * without the lock, and submissions are held until it ends. The same holds for an engine between
 * vks_device_lock_queue() and vks_device_unlock_queue(). begin blocks while another present uses the
 * queue, and releases the lock meanwhile: until the deadline, and at most until
 * VKS_LONGEST_PRESENT_NS after that present began. Only VKS_OK requires an end; else VKS_TIMEOUT or
 * VKS_INTERRUPTED. Caller holds device->lock. */
#define VKS_LONGEST_PRESENT_NS UINT64_C(10000000000)
vks_status vks_device_begin_present(vks_device *device, uint64_t deadline);
void vks_device_end_present(vks_device *device);

#endif
