/* present.h: a swapchain's insides. Internal to native/present/.
 *
 * Two locks: swapchain->lock round every Vulkan call on the surface and its VkSwapchainKHRs, and round changes of the
 * list of chains and of their images' states; below it the device's lock, for the history, the pools, what submissions
 * see (vks_presentable) and those same changes. The queue is had between vks_device_begin_present() and end. */
#ifndef VKS_PRESENT_H
#define VKS_PRESENT_H

#include <pthread.h>

#include "core/device.h"
#include "history.h"
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

typedef enum vks_image_state {
    VKS_IMAGE_AWAY,     /* with the presentation engine */
    VKS_IMAGE_ACQUIRED, /* the caller has it */
    VKS_IMAGE_SHELVED   /* ours, and nobody has it: the next to be handed out */
} vks_image_state;

typedef struct vks_chain_image {
    vks_presentable frame; /* the device's lock; first, so that it can be found from there */
    vks_swapchain *swapchain;
    vks_surface *surface;       /* a reference; NULL until it is attached */
    uint64_t acquire_semaphore; /* of the acquire that it is out by; `frame.acquired` until somebody waited */
    uint64_t image, view, initial_commands;
    vks_image_state state;
    bool is_captured;   /* ACQUIRED to be read by capture(): it is shown still, and no frame of the caller's */
    uint64_t engine[2]; /* semaphores that an engine was given, to wait for and to signal: it may have done neither */
    bool by_engine;     /* for the frame that is out */
    uint32_t n_read;    /* of `frame.rendered`: those of captures, since it was acquired */
    _Atomic bool is_returned; /* ACQUIRED for the lock's owner alone: the frame was dropped (the device's lock) */
} vks_chain_image;

/* A VkSwapchainKHR, or a ring. */
typedef struct vks_chain {
    struct vks_chain *next; /* the older ones */
    uint64_t handle;        /* VkSwapchainKHR; 0: a ring */
    uint64_t generation;
    uint32_t n, width, height, mode;
    uint32_t shown; /* the image that was presented last, and not acquired since; UINT32_MAX: none */
    bool was_presented, is_out_of_date; /* the latter: it gives no more images */
    bool is_suboptimal, stays_so;       /* stays_so: it was made for that, and nothing was different */
    vks_chain_image images[VKS_SWAPCHAIN_IMAGES];
} vks_chain;

typedef struct vks_handle_pool {
    uint64_t *handles;
    size_t n, capacity;
    uint64_t made; /* ever */
} vks_handle_pool;

#define VKS_MOST_IN_FLIGHT 16u

struct vks_swapchain {
    pthread_mutex_t lock;
    _Atomic uint64_t locked_since; /* 0: free, or taken this instant */
    _Atomic bool has_returned; /* frames came back while the lock was another thread's: `is_returned` of their images */
    _Atomic uint32_t references;
    uint32_t process;
    uint64_t number;    /* for traces */
    vks_device *device; /* a reference */
    vks_swapchain_info info;
    vks_present_info vulkan;
    vks_present_functions vk;
    VkDevice vk_device;
    VkQueue vk_queue;
    VkCommandPool commands;
    vks_handle_pool spare_commands; /* of it; swapchain->lock */
    _Atomic uint64_t wanted;        /* width << 32 | height */
    _Atomic uint64_t made_for;      /* what `wanted` was when the current chain was made */
    _Atomic uint32_t mode;          /* the present mode that is wanted */
    _Atomic uint64_t pace;          /* ns from frame to frame; 0: none */
    _Atomic uint64_t due;           /* when the next one may go */
    vks_chain *chains;              /* alive, the newest first */
    vks_chain *current;             /* of these; NULL: none was made, or creating failed */
    uint32_t shelved;               /* its images on the shelf */
    uint64_t generation;
    _Atomic bool is_stale; /* recreate at the next acquire */
    bool has_tried;        /* vks_swapchain_acquire_soon() was the first of two attempts */
    _Atomic bool is_lost, is_closed;
    _Atomic bool is_ended; /* and closing has come to its end */
    struct vks_finishing { /* of closing, or of leaving a surface: it may be interrupted and go on */
        uint64_t since;    /* 0: none is under way */
        uint64_t last;     /* when it went on */
        uint64_t frames;   /* when it began: those that had been presented */
        uint64_t left, patience;
    } finishing;
    uint64_t proof_until; /* while a resize waits for room: when it stops waiting; else 0 */

    /* Under the device's lock. */
    vks_history *history;
    vks_handle_pool semaphores, fences;
    vks_handle_pool spoiled; /* semaphores and fences that nobody may use again: destroyed when the chains are gone */
    vks_handle_pool stuck;
    bool is_ending;                                 /* the decisions to destroy are put off until the chains are gone */
    vks_chain *dead;                                /* decided on, to be destroyed without the device's lock */
    uint32_t pins;                                  /* while there are any, the dead wait */
    _Atomic uint64_t in_flight[VKS_MOST_IN_FLIGHT]; /* serials of the last frames; read without it */
    _Atomic uint64_t frames;                        /* presented; likewise */
    vks_swapchain_statistics counts;
};

/* ---- chain.c: one VkSwapchainKHR ---- */
bool vks_mode_is_listed(const vks_swapchain *s, uint32_t mode); /* among those that a present may change between */
/* For the validation layer and frame debuggers: "vkshare present semaphore 3". */
void vks_present_name(vks_swapchain *s, VkObjectType type, uint64_t handle, const char *what, uint64_t number);
vks_status vks_present_result(vks_swapchain *s, VkResult code, const char *call); /* VK_SUCCESS only is VKS_OK */
/* Under swapchain->lock. `old` may be NULL; it is retired by the call, also where that fails (A12). */
vks_status vks_chain_create(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent, vks_chain *old,
                            vks_chain **out);
/* Under swapchain->lock, off every list. */
void vks_chain_destroy(vks_swapchain *s, vks_chain *chain);

/* ---- pools.c: semaphores and fences, under the device's lock ---- */
void vks_keep_handle(vks_handle_pool *pool, uint64_t handle); /* 0, or without memory: not */
vks_status vks_take_semaphore(vks_swapchain *s, uint64_t *out);
vks_status vks_take_fence(vks_swapchain *s, uint64_t *out);
void vks_put_semaphore(vks_swapchain *s, uint64_t semaphore);
void vks_put_fence(vks_swapchain *s, uint64_t fence);           /* unsignalled */
void vks_reset_fence(vks_swapchain *s, uint64_t fence);         /* signalled: for the pool, if that can be */
void vks_spoil_semaphore(vks_swapchain *s, uint64_t semaphore); /* 0: nothing */
void vks_leave_fence(vks_swapchain *s, uint64_t fence);         /* it may be signalled still (A16) */
void vks_destroy_spoiled(vks_swapchain *s);                     /* the chains are gone */
vks_status vks_refill_frame(vks_presentable *frame);
/* Carries out what the history has decided. */
void vks_follow_decisions(vks_swapchain *s);
void vks_destroy_pools(vks_swapchain *s);
bool vks_fence_is_signalled(void *swapchain, uint64_t fence);

/* ---- retire.c: replacing a chain, and proving that old ones are over; under swapchain->lock ---- */
vks_status vks_swapchain_configure(vks_swapchain *s, uint64_t deadline);
void vks_collect(vks_swapchain *s);      /* takes the device's lock */
void vks_look_through(vks_swapchain *s); /* the same under that lock: without burying chains */
void vks_bury_chains(vks_swapchain *s);
/* Somebody records for images that are to go, which takes microseconds. Under the device's lock, which it lets go of.
 */
bool vks_wait_for_pins(vks_swapchain *s);
/* A batch that waits for what the frame's acquire signals; with `signal` (not 0) it has the image's first barrier too,
 * and signals that semaphore. Under the device's lock too, and with the queue. */
vks_status vks_submit_frame(vks_swapchain *s, vks_chain_image *image, uint64_t signal);
/* The semaphores of image->engine go when `serial`, of a later batch than the engine's, has run. */
void vks_part_with_engine(vks_swapchain *s, vks_chain_image *image, uint64_t serial);
/* Everything that was presented is over, or is given up; or VKS_INTERRUPTED: again, with s->finishing as it is. */
vks_status vks_finish_presents(vks_swapchain *s, uint64_t deadline);

/* How long a call of the driver may wait before its caller looks up again: until the deadline, or `slice`. */
static inline uint64_t vks_slice(uint64_t deadline, uint64_t slice)
{
    uint64_t now = vks_now();
    return deadline <= now ? 0 : deadline - now < slice ? deadline - now : slice;
}

#endif
