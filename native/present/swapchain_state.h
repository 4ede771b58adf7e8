/* swapchain_state.h: a swapchain's internals, for native/present/ only.
 *
 * Two locks. swapchain->lock is held for every Vulkan call on the surface and its VkSwapchainKHRs,
 * and for changes of the list of generations and of their images' states. Below it, device->lock
 * protects the tracker, the pools, the state that submissions see (vks_presentable) and those same
 * changes. A thread has the queue between vks_device_begin_present() and vks_device_end_present().
 *
 * Each file calls only files that come before it here: tracker*.c, frame_fd.c, driver.c, pools.c,
 * generation.c, collect.c, image_state.c, lock.c, pacing.c, offscreen.c, frame_batch.c, proof.c, retire.c,
 * configure.c, statistics.c, acquire.c, frame_thread.c, capture.c, present.c, engine.c, frame.c, close.c,
 * swapchain.c. */
#ifndef VKS_SWAPCHAIN_STATE_H
#define VKS_SWAPCHAIN_STATE_H

#include <pthread.h>

#include "backend/backend.h"
#include "surface/surface.h"
#include "os/platform.h"
#include "os/ready_fd.h"
#include "os/trace.h"
#include "tracker.h"
#include "swapchain.h"
#include "vulkan/vulkan_core.h"

#define VKS_PRESENT_FUNCTIONS(X)                                                                                       \
    X(CreateSwapchainKHR)                                                                                              \
    X(DestroySwapchainKHR)                                                                                             \
    X(GetSwapchainImagesKHR)                                                                                           \
    X(AcquireNextImageKHR)                                                                                             \
    X(QueuePresentKHR)                                                                                                 \
    X(CreateSemaphore)                                                                                                 \
    X(CreateFence)                                                                                                     \
    X(DestroyFence)                                                                                                    \
    X(ResetFences)                                                                                                     \
    X(GetFenceStatus)                                                                                                  \
    X(WaitForFences)                                                                                                   \
    X(CreateImageView)                                                                                                 \
    X(DestroyImageView)                                                                                                \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier2)

typedef struct vks_present_functions {
#define VKS_DECLARE(name) PFN_vk##name name;
    VKS_PRESENT_FUNCTIONS(VKS_DECLARE)
#undef VKS_DECLARE
    PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR GetCapabilities;
    PFN_vkSetDebugUtilsObjectNameEXT SetName; /* may be NULL */
} vks_present_functions;

/* Only image_state.c changes a state. */
typedef enum vks_image_state {
    VKS_IMAGE_NOT_ACQUIRED, /* the presentation engine owns it; offscreen: free */
    VKS_IMAGE_RETURNED,     /* acquired from the driver, without a caller; the next acquire returns it */
    VKS_IMAGE_ACQUIRED,     /* a caller has it as a frame */
    VKS_IMAGE_CAPTURED      /* a capture() has it: still shown, and no frame to draw */
} vks_image_state;

typedef struct vks_present_image {
    vks_presentable frame; /* device->lock; the first field, because vks_refill_frame() casts it */
    vks_swapchain *swapchain;
    vks_surface *surface;       /* a reference; NULL until a surface is attached */
    uint64_t acquire_semaphore; /* of the latest acquire; equals `frame.acquired` until a batch waited for it */
    uint64_t image, view, initial_commands;
    vks_image_state state;
    uint64_t engine[2];      /* semaphores given to an engine, to wait for and to signal; it may have used neither */
    bool by_engine;          /* `engine` belongs to the current frame */
    uint32_t n_read;         /* the part of `frame.rendered` that captures have signalled since the acquire */
    _Atomic bool is_dropped; /* the frame was dropped while another thread held swapchain->lock; device->lock */
} vks_present_image;

/* A swapchain generation: one VkSwapchainKHR, or one set of offscreen images. */
typedef struct vks_generation {
    struct vks_generation *next; /* the next older one */
    uint64_t handle;             /* VkSwapchainKHR; 0: offscreen images */
    uint64_t number;             /* the generation in vks_frame */
    uint32_t n, width, height, mode;
    uint32_t shown;                       /* the image presented last, if it was not acquired since; UINT32_MAX: none */
    bool was_presented, is_out_of_date;   /* is_out_of_date: it gives no more images */
    bool is_suboptimal, stays_suboptimal; /* stays_suboptimal: recreating it for that reason changed nothing */
    vks_present_image images[VKS_SWAPCHAIN_IMAGES];
} vks_generation;

typedef struct vks_handle_pool {
    uint64_t *handles;
    size_t n, capacity;
} vks_handle_pool;

/* Semaphores and fences without a user. device->lock. */
typedef struct vks_present_pools {
    vks_handle_pool semaphores, fences;                     /* unsignalled */
    vks_handle_pool discarded_semaphores, discarded_fences; /* destroyed after the generations are destroyed */
    vks_handle_pool late_semaphores;                        /* destroyed after `to_destroy`, whose presents have them */
    uint64_t semaphores_made, fences_made;                  /* in total; the numbers in their names */
} vks_present_pools;

#define VKS_MOST_IN_FLIGHT 16u
#define VKS_POLL_INTERVAL_US 500u /* between attempts, where a driver returns at once in place of a wait */

/* The moment of the next frame. Needs no lock; a present adds to it under device->lock. */
typedef struct vks_pacing {
    _Atomic uint64_t interval;                      /* minimum ns between frames; 0: none */
    _Atomic uint64_t due;                           /* time of the next frame, with an interval */
    _Atomic uint64_t in_flight[VKS_MOST_IN_FLIGHT]; /* serials of the last frames */
    _Atomic uint64_t frames;                        /* presented */
} vks_pacing;

/* vks_swapchain_frame_fd(). It exists until the swapchain is freed. */
typedef struct vks_frame_fd {
    pthread_mutex_t lock;
    vks_ready_fd ready;       /* lock */
    _Atomic uint32_t changes; /* a futex: grows with each call that may change whether an acquire would wait */
    _Atomic bool is_ended;    /* the swapchain is closed: the fd stays readable, and the thread ends */
    uintptr_t thread;
} vks_frame_fd;

/* Progress of a close or retarget, which signals may interrupt. swapchain->lock. */
typedef struct vks_finishing {
    uint64_t since;  /* when it began; 0: not in progress */
    uint64_t last;   /* when it was last resumed */
    uint64_t frames; /* frames presented when it began */
    uint64_t left;   /* presents without proof */
    uint64_t give_up_at;
} vks_finishing;

struct vks_swapchain {
    /* Written at the creation only (swapchain.c, driver.c); retarget() changes vulkan.surface. */
    uint32_t process;
    uint64_t number;    /* in traces */
    vks_device *device; /* a reference */
    vks_swapchain_info info;
    vks_present_info vulkan;
    vks_present_functions vk;
    VkDevice vk_device;
    VkQueue vk_queue;
    VkCommandPool commands;

    /* Atomic, and read without a lock. */
    _Atomic uint32_t references;
    _Atomic uint64_t locked_since;     /* ns; 0: `lock` is free, or just being taken */
    _Atomic bool has_dropped;          /* an image has `is_dropped` */
    _Atomic bool is_lost, is_closed;   /* the window is gone; close() was called */
    _Atomic bool is_ended;             /* closing is complete */
    _Atomic bool is_stale;             /* recreate the VkSwapchainKHR at the next acquire */
    _Atomic uint64_t wanted, made_for; /* width << 32 | height; of the next generation, of the current one */
    _Atomic uint32_t mode;             /* VkPresentModeKHR to present with */
    vks_pacing pacing;
    _Atomic(vks_frame_fd *) frame_fd; /* NULL: none was asked for; written with device->lock */

    /* Protected by `lock`. */
    pthread_mutex_t lock;
    vks_handle_pool spare_commands; /* of `commands`, for the next generation */
    uint64_t proof_until;           /* deadline of a resize that waits for room; else 0 */
    uint64_t proof_fence;           /* of an acquire of `current` for proof, until it was seen signalled; else 0 */
    uint32_t proof_image;           /* of that acquire; not acquired until then */
    bool has_tried;                 /* vks_swapchain_try_acquire() made the first of the two attempts */
    vks_finishing finishing;

    /* Protected by both locks: either suffices to read, both are needed to write. */
    vks_generation *generations; /* not decided to be destroyed, the newest first */
    vks_generation *current;     /* one of these; NULL: not created yet, or its creation failed */
    uint64_t newest_generation;  /* number of the newest; 0: none yet */
    uint32_t n_returned;         /* images of `current` in VKS_IMAGE_RETURNED */

    /* Protected by device->lock. */
    vks_tracker *tracker;
    vks_present_pools pools;
    vks_generation *to_destroy; /* decided on; destroyed without device->lock */
    uint32_t pins;              /* threads that record; `to_destroy` is kept meanwhile */
    vks_swapchain_statistics counts;
};

/* ---- frame_fd.c ---- */
typedef enum vks_frame_change {
    VKS_FRAMES_FEWER, /* acquire() has returned: a frame, or none; or a frame was presented, and is in flight */
    VKS_FRAMES_MORE,  /* a frame was dropped, or the target has changed */
    VKS_FRAMES_ENDED  /* the swapchain is closed */
} vks_frame_change;
vks_status vks_frame_fd_open(vks_frame_fd **out);
void vks_frame_fd_close(vks_frame_fd *fd);
bool vks_frame_fd_is_readable(vks_frame_fd *fd);
/* Makes it readable, unless something has changed since `changes` was `seen`. */
void vks_frame_fd_found(vks_frame_fd *fd, uint32_t seen);
void vks_frame_fd_note(vks_frame_fd *fd, vks_frame_change change);
static inline void vks_frames_changed(const vks_swapchain *s, vks_frame_change change)
{
    vks_frame_fd *fd = atomic_load_explicit(&s->frame_fd, memory_order_acquire);
    if (__builtin_expect(fd != NULL, 0) && s->process == vks_process) /* a child's fd stays readable */
        vks_frame_fd_note(fd, change);
}

/* ---- driver.c ---- */
vks_status vks_driver_open(vks_swapchain *s); /* loads the functions and creates the command pool */
void vks_driver_close(vks_swapchain *s);      /* destroys that pool, with all command buffers */
vks_status vks_driver_result(vks_swapchain *s, VkResult code, const char *call); /* VKS_OK only for VK_SUCCESS */
/* Names an object for the validation layer and frame debuggers: "vkshare present semaphore 3". */
void vks_driver_name(vks_swapchain *s, VkObjectType type, uint64_t handle, const char *what, uint64_t number);

/* ---- pools.c: caller holds device->lock ---- */
bool vks_pool_add(vks_handle_pool *pool, uint64_t handle); /* false: no memory */
bool vks_pool_take(vks_handle_pool *pool, uint64_t *out);  /* false: it is empty */
vks_status vks_take_semaphore(vks_swapchain *s, uint64_t *out);
vks_status vks_take_fence(vks_swapchain *s, uint64_t *out);
void vks_put_semaphore(vks_swapchain *s, uint64_t semaphore); /* unsignalled; 0: no effect */
void vks_put_fence(vks_swapchain *s, uint64_t fence);         /* unsignalled */
void vks_reset_fence(vks_swapchain *s, uint64_t fence); /* signalled; returns it to the pool if the reset succeeds */
/* Destroys it after the generations in `to_destroy`, whose presents may still wait for it; at once
 * if there are none. Without memory for the list it is leaked. */
void vks_destroy_semaphore_late(vks_swapchain *s, uint64_t semaphore);
void vks_destroy_late_semaphores(vks_swapchain *s); /* call after the generations in `to_destroy` are destroyed */
/* For a handle that may be in use. It is destroyed with vks_destroy_discarded(); without memory for
 * the list it is leaked, not destroyed too early. */
void vks_discard_semaphore(vks_swapchain *s, uint64_t semaphore); /* signalled without a wait; 0: no effect */
void vks_discard_fence(vks_swapchain *s, uint64_t fence);         /* the driver may still signal it (A16) */
void vks_destroy_discarded(vks_swapchain *s);                     /* call after all generations are destroyed */
void vks_destroy_pools(vks_swapchain *s);
vks_status vks_refill_frame(vks_presentable *frame); /* `refill` of each image's frame */

/* ---- generation.c: caller holds swapchain->lock ---- */
/* A13: returns whether a present of the generation can change to that mode, because the generation
 * was created with both. */
bool vks_generation_can_change_mode(const vks_swapchain *s, const vks_generation *generation, uint32_t mode);
/* `old` may be NULL; the call retires it, also when the call fails (A12). VKS_NO_MEMORY: nothing
 * was called, and `old` is not retired. */
vks_status vks_generation_create(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent,
                                 vks_generation *old, vks_generation **out);
void vks_generation_destroy(vks_swapchain *s, vks_generation *generation); /* it is in no list */

/* ---- collect.c: caller holds swapchain->lock ---- */
void vks_apply_decisions(vks_swapchain *s); /* caller holds device->lock; destroys no generation */
void vks_collect(vks_swapchain *s);         /* takes device->lock */
void vks_collect_locked(vks_swapchain *s);  /* caller holds device->lock; destroys no generation */
void vks_destroy_retired(vks_swapchain *s);
/* Waits until no thread records commands for images that are to be destroyed; takes microseconds.
 * VKS_TIMEOUT: a thread has not finished for 1 s. Caller holds device->lock, which is released during
 * the wait. */
vks_status vks_wait_for_pins(vks_swapchain *s);

/* ---- image_state.c: caller holds swapchain->lock and device->lock ---- */
/* Returns the current generation if it has that number, and an image of that index; else NULL. */
vks_generation *vks_generation_find(vks_swapchain *s, uint64_t number, uint32_t index);
/* VKS_BAD_CALL: the caller no longer has the frame. Either lock suffices. */
vks_status vks_image_find(vks_swapchain *s, const vks_frame *frame, vks_present_image **out);
/* NOT_ACQUIRED to RETURNED: the driver's acquire signals `semaphore`; 0: it was waited for. */
void vks_image_receive(vks_swapchain *s, vks_present_image *image, uint64_t semaphore);
/* To ACQUIRED or CAPTURED. Takes device->lock. */
void vks_image_take(vks_swapchain *s, uint32_t index, vks_image_state as, vks_frame *out);
void vks_image_put_back(vks_swapchain *s, vks_present_image *image); /* a dropped frame */
/* The frames that were dropped while another thread held swapchain->lock. Takes device->lock. */
void vks_images_put_back_dropped(vks_swapchain *s);
void vks_image_presented(vks_swapchain *s, vks_present_image *image); /* to NOT_ACQUIRED */
void vks_image_give_up(vks_swapchain *s, vks_present_image *image);   /* to NOT_ACQUIRED, from any state */
/* The image will be destroyed: held submissions that use it fail, and later ones are refused. */
void vks_image_end_use(const vks_present_image *image);
static inline bool vks_image_has_caller(const vks_present_image *image)
{
    return image->state == VKS_IMAGE_ACQUIRED || image->state == VKS_IMAGE_CAPTURED;
}

/* ---- lock.c ---- */
/* Begins a call that uses the driver; vks_swapchain_leave() ends it. */
vks_status vks_swapchain_enter(vks_swapchain *s, uint64_t deadline);
vks_status vks_swapchain_enter_lost(vks_swapchain *s);               /* also if the window is gone; no deadline */
vks_status vks_swapchain_try_enter(vks_swapchain *s);                /* VKS_TIMEOUT: another thread has the lock */
vks_status vks_swapchain_leave(vks_swapchain *s, vks_status status); /* returns `status` */
/* VKS_FORKED, VKS_CLOSED, VKS_SURFACE_LOST, or the device's state. Needs no lock. */
vks_status vks_swapchain_check(const vks_swapchain *s);
/* The lock is also held by a thread that is inside the driver. */
vks_status vks_swapchain_lock(vks_swapchain *s, uint64_t deadline);
bool vks_swapchain_try_lock(vks_swapchain *s);
void vks_swapchain_unlock(vks_swapchain *s);

/* ---- pacing.c: needs no lock ---- */
/* Waits until the next frame may be acquired. Deadline 0 returns VKS_TIMEOUT in place of a wait. */
vks_status vks_pacing_wait(vks_swapchain *s, uint64_t deadline);
/* Sleeps for a moment before the next attempt, so that other threads can use the swapchain. */
void vks_pacing_poll(uint64_t deadline);
uint64_t vks_pacing_due(const vks_swapchain *s);    /* the time from which a frame may be acquired; 0: any */
uint64_t vks_pacing_serial(const vks_swapchain *s); /* of the GPU work to wait for (A10); 0: none, or it has run */
void vks_pacing_acquired(vks_swapchain *s);         /* the next frame comes one interval after this one */
void vks_pacing_presented(vks_swapchain *s, uint64_t serial); /* `serial`: the frame's last batch */

/* ---- offscreen.c: caller holds swapchain->lock ---- */
vks_status vks_offscreen_open(vks_swapchain *s); /* no images yet */
void vks_offscreen_close(vks_swapchain *s);
vks_status vks_offscreen_retarget(vks_swapchain *s, uint64_t surface);
vks_status vks_offscreen_check(const vks_swapchain *s, vks_frame *out); /* VKS_HIDDEN, VKS_OUTDATED */
vks_status vks_offscreen_acquire(vks_swapchain *s, vks_frame *out);     /* VKS_TIMEOUT: none is free */
uint32_t vks_offscreen_find(const vks_swapchain *s); /* the image of the next acquire; UINT32_MAX: none is free */
void vks_offscreen_present(vks_swapchain *s, uint32_t index); /* caller holds device->lock too */

/* ---- frame_batch.c: caller holds both locks, and has the queue ---- */
/* Submits a batch that waits for the frame's acquire. With `signal` (not 0) the batch also has the
 * image's first barrier, and signals that semaphore. */
vks_status vks_submit_frame(vks_swapchain *s, vks_present_image *image, uint64_t signal);
/* Submits a batch behind everything that the present must wait for; its serial is the frame's. */
vks_status vks_close_frame(vks_swapchain *s, vks_present_image *image, uint64_t *serial);
/* The tracker decides about the semaphore when `serial` has run; `is_discarded`: destroys it. 0: no
 * effect. */
void vks_track_semaphore(vks_swapchain *s, uint64_t semaphore, uint64_t serial, bool is_discarded);
/* Destroys the semaphores of image->engine when `serial`, of a batch behind the engine's, has run.
 */
void vks_release_engine_semaphores(vks_swapchain *s, vks_present_image *image, uint64_t serial);

/* ---- proof.c: caller holds swapchain->lock ---- */
/* Returns the event that retired generations wait for; with `everything` also the current one's. */
vks_wanted vks_proof_next(vks_swapchain *s, bool everything);
/* Waits once for the event. VKS_OK: check again. VKS_TIMEOUT: the event cannot come. */
vks_status vks_proof_wait(vks_swapchain *s, vks_wanted wanted, uint64_t deadline);
vks_status vks_proof_wait_fence(vks_swapchain *s, uint64_t fence, uint64_t deadline); /* for 20 ms at most */
vks_tracker_statistics vks_proof_counts(vks_swapchain *s);
void vks_proof_poll(vks_swapchain *s);    /* an image acquired for proof is RETURNED if its fence is signalled */
void vks_proof_give_up(vks_swapchain *s); /* call when `current` is retired */

/* ---- retire.c: caller holds swapchain->lock ---- */
/* Prepares for the next generation: gives up the acquired frames, and waits for room for one more
 * retired generation. */
vks_status vks_retire_current(vks_swapchain *s, uint64_t deadline, uint64_t *last_use);
/* Retires the current generation and makes `made` (may be NULL) current. */
vks_status vks_replace_current(vks_swapchain *s, vks_generation *made, uint64_t last_use);

/* ---- configure.c ---- */
bool vks_swapchain_is_current(const vks_swapchain *s);                   /* caller holds either lock */
vks_status vks_swapchain_configure(vks_swapchain *s, uint64_t deadline); /* caller holds swapchain->lock */

/* ---- acquire.c: caller holds swapchain->lock ---- */
#define VKS_STALE ((vks_status) - 1) /* the driver's VK_ERROR_OUT_OF_DATE_KHR; never leaves native/present/ */
/* The driver's next image becomes VKS_IMAGE_RETURNED. */
vks_status vks_acquire_next(vks_swapchain *s, uint64_t timeout, uint32_t *index, bool *is_suboptimal);

/* Returns what an acquire would return, apart from the pace of frames. An image that the driver has
 * is RETURNED then. */
vks_status vks_acquire_look(vks_swapchain *s, uint64_t deadline);

/* ---- frame_thread.c ---- */
void vks_frame_thread_join(vks_swapchain *s); /* of a closed swapchain without references */

/* ---- close.c: caller holds swapchain->lock ---- */
/* Waits until all presents are complete or given up. VKS_INTERRUPTED: call again, with s->finishing
 * unchanged. */
vks_status vks_finish_presents(vks_swapchain *s);

/* ---- statistics.c ---- */
/* Writes a trace record; called through VKS_TRACE(). */
void vks_traced_frame(vks_trace_kind kind, const vks_swapchain *s, const vks_frame *frame, uint64_t began,
                      vks_status status);

/* Returns how long a driver call may wait: until the deadline, at most `slice`. */
static inline uint64_t vks_slice(uint64_t deadline, uint64_t slice)
{
    uint64_t now = vks_now();
    return deadline <= now ? 0 : deadline - now < slice ? deadline - now : slice;
}

#endif
