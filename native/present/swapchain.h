/* swapchain.h: the frames of a window or of a headless target.
 *
 * A swapchain hands out its images one after the other, each as a frame to draw and present. With
 * Vulkan it is one VkSurfaceKHR and its successive VkSwapchainKHRs; without (info->vulkan == NULL)
 * a set of ordinary offscreen surfaces with the same rules. A frame names an image by its index and
 * its `generation`, a number that grows with each VkSwapchainKHR or set of offscreen images.
 *
 * The images are the caller's surfaces (created with is_presentable). The caller attaches each
 * before it is first drawn, owns it from acquire to present, and every other submission to it is
 * refused.
 *
 * Every function is safe to call from any thread. A wait returns VKS_INTERRUPTED now and then; the
 * caller then handles signals and calls again with the same deadline. Every function that uses the
 * driver waits while another thread is inside it, and returns VKS_TIMEOUT after 10 s. A driver call
 * itself has no bound: it lasts as long as the window system does not reply. */
#ifndef VKS_SWAPCHAIN_H
#define VKS_SWAPCHAIN_H

#include "tracker.h"
#include "vkshare.h"

/* native/python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

typedef struct vks_swapchain vks_swapchain;

#define VKS_SWAPCHAIN_IMAGES 16u         /* at most */
#define VKS_SWAPCHAIN_MODES 6u           /* compatible present modes */
#define VKS_HELD_FRAME_NS 10000000000ull /* limit of present()'s wait for held work of its frame (A21) */

/* Values are Vulkan's enumerators and handles. */
typedef struct vks_present_info {
    uint64_t physical_device, surface; /* the caller's, and outlives the swapchain */
    void *get_capabilities;            /* PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR */
    uint32_t queue_family, format, color_space, usage, composite_alpha, present_mode;
    uint32_t modes[VKS_SWAPCHAIN_MODES], n_modes; /* modes that a present may change to (A13); by fences only */
    bool has_views;                               /* the usage allows image views */
    bool sizes_itself; /* a headless target; the swapchain chooses the size, whatever the current extent */
    bool can_name;     /* VK_EXT_debug_utils is enabled on the instance */
    vks_present_policy policy;
} vks_present_info;

typedef struct vks_swapchain_info {
    vks_device *device;
    const vks_present_info *vulkan; /* NULL: `image_count` offscreen images, all attached by the caller */
    uint32_t width, height;         /* size where the surface does not determine it (A14) */
    uint32_t image_count;           /* requested; clamped to the surface's limits */
    uint32_t frames_in_flight;      /* frames whose GPU work may be unfinished when a frame is acquired (A10) */
    uint32_t retired_limit;         /* limit of swapchains that were replaced and are not proven yet (A6) */
    uint64_t proof_deadline;        /* limit in ns of the wait for proof in a resize (A6) and in close() */
    uint64_t fence_deadline;        /* ns after which a present fence is quarantined (A16) */
} vks_swapchain_info;

vks_status vks_swapchain_create(const vks_swapchain_info *info, vks_swapchain **out);
void vks_swapchain_ref(vks_swapchain *swapchain);
void vks_swapchain_unref(vks_swapchain *swapchain); /* closes it first if it is open */
/* Blocks up to `proof_deadline` until all presents are known to be complete. Idempotent. Presents
 * without proof by then are destroyed when the device's queue is empty, because no better proof
 * exists. If the queue does not become empty, or another thread's call does not return from the
 * driver, everything is leaked after about 10 s; with an image that stays pinned, after about 1 s.
 * Call it before vks_device_shutdown(). Later everything is leaked, and vks_device_leaks() is true. */
void vks_swapchain_close(vks_swapchain *swapchain);
/* The same in steps. VKS_INTERRUPTED: call again. VKS_TIMEOUT, in place of the leak: later calls
 * resume. */
vks_status vks_swapchain_try_close(vks_swapchain *swapchain);

/* Sets the size from the next acquire on. Never blocks. */
vks_status vks_swapchain_resize(vks_swapchain *swapchain, uint32_t width, uint32_t height);
/* Sets VK_PRESENT_MODE_*, from the next present on where a present may change the mode, else from
 * the next acquire (A13). */
vks_status vks_swapchain_set_mode(vks_swapchain *swapchain, uint32_t present_mode);
/* Hands out at most one frame in `interval` ns, for targets without a pace of their own. 0, the
 * default: no limit. */
void vks_swapchain_set_pace(vks_swapchain *swapchain, uint64_t interval);
/* Replaces a lost VkSurfaceKHR (A9); presents on the old one are given up. Blocks. 0: there is no
 * new one yet; everything on the old one is destroyed, and the swapchain is lost until the next
 * call. VKS_INTERRUPTED and VKS_TIMEOUT: as in vks_swapchain_try_close(). With offscreen images any
 * other number shows it again. */
vks_status vks_swapchain_retarget(vks_swapchain *swapchain, uint64_t surface);
/* Creates the VkSwapchainKHR now if it is missing or out of date. Blocks, as acquire does. */
vks_status vks_swapchain_prepare(vks_swapchain *swapchain, uint64_t deadline);

typedef struct vks_frame {
    uint32_t index;
    uint32_t width, height;
    uint64_t generation;
} vks_frame;

/* Acquires the next frame. Blocks while `frames_in_flight` frames are drawn, or all images are
 * acquired. Errors: VKS_TIMEOUT; VKS_BAD_CALL (the caller has all images, so that the wait would
 * never end); VKS_HIDDEN (0x0: nothing to present to); VKS_OUTDATED (call
 * vks_swapchain_new_offscreen() first, with the size in *out); VKS_SURFACE_LOST; VKS_VULKAN_ERROR
 * OUT_OF_DATE after two attempts (A9); those of the device. After an error the next call succeeds
 * or repeats it. */
vks_status vks_swapchain_acquire(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);
/* For offscreen images and headless targets: acquires the image presented last, to be read and
 * dropped, never drawn or presented. It stays the shown image, and one caller has it at a time;
 * other frames are acquired and presented meanwhile. Recreates nothing. VKS_BAD_CALL: nothing was
 * presented since the last resize, or the image is acquired, and no other thread presented before
 * the deadline. */
vks_status vks_swapchain_acquire_shown(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);
/* Acquires the next frame if that takes microseconds only. VKS_TIMEOUT: call
 * vks_swapchain_acquire(). Never waits, recreates nothing. */
vks_status vks_swapchain_try_acquire(vks_swapchain *swapchain, vks_frame *out);
/* Presents the frame after all work submitted to it. Blocks while some of that work is held.
 * VKS_BAD_CALL: the caller no longer has the frame; the text gives the reason. Out of memory: the
 * frame is unchanged, present it again (A15). */
vks_status vks_swapchain_present(vks_swapchain *swapchain, const vks_frame *frame, uint64_t deadline);
/* Returns the frame without a present (A20). The next acquire hands it out again, with its
 * contents. */
vks_status vks_swapchain_drop(vks_swapchain *swapchain, const vks_frame *frame);

/* The image of a frame. */
typedef struct vks_frame_image {
    uint64_t image, view; /* VkImage, VkImageView; 0 for offscreen images */
    uint32_t width, height;
} vks_frame_image;
vks_status vks_swapchain_image(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_frame_image *out);
/* Replaces the offscreen images with `image_count` new ones. Acquired frames of the old ones cannot
 * be presented any more. The caller attaches the surface of each image when the image is first
 * acquired. */
vks_status vks_swapchain_new_offscreen(vks_swapchain *swapchain, uint32_t width, uint32_t height, uint32_t image_count,
                                       uint64_t *generation);
/* Makes `surface`, a new one without owner, the surface of the image. Takes a reference. */
vks_status vks_swapchain_attach(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_surface *surface);
/* Between pin and unpin no image of that generation, nor its view, is destroyed, so that commands
 * can be recorded for it. VKS_BAD_CALL: the generation is destroyed. Neither function blocks. */
vks_status vks_swapchain_pin(vks_swapchain *swapchain, uint64_t generation);
void vks_swapchain_unpin(vks_swapchain *swapchain);
/* For a rendering engine's own vkQueueSubmit2 on the frame, to the device's queue. The engine waits
 * for `acquired` and signals `rendered`, takes the image from layout UNDEFINED or PRESENT_SRC_KHR
 * and leaves it in PRESENT_SRC_KHR. Call it before any vks_submit to the frame. Submits a batch
 * that waits for the driver's acquire, so that the engine need not submit anything. */
vks_status vks_swapchain_take_semaphores(vks_swapchain *swapchain, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered);

typedef struct vks_swapchain_statistics {
    uint64_t generation;
    uint64_t frames;       /* presented */
    uint64_t lost_frames;  /* presented frames that were not shown because the window had changed */
    uint64_t swapchains;   /* VkSwapchainKHRs that exist: the current one and retired ones */
    uint64_t retired;      /* retired ones that are not proven yet */
    uint64_t most_alive;   /* maximum of `swapchains` */
    uint64_t recreated;    /* VkSwapchainKHRs that replaced another */
    uint64_t resize_waits; /* of these, the ones that waited for proof (A6) */
    uint64_t given_up;     /* swapchains destroyed without proof, because none could follow */
    uint64_t semaphores;   /* that exist */
    uint64_t pooled_semaphores, fences, pooled_fences;
    uint64_t history;       /* presents without proof */
    uint64_t quarantined;   /* of these, the ones with a fence past its deadline (A16) */
    uint64_t moved;         /* presents of starved images that were moved to the back (A3) */
    uint64_t acquire_waits; /* frames that waited for earlier frames' GPU work (A10) */
    uint32_t image_count, acquired, width, height, present_mode;
    uint32_t shown;  /* the image presented last, of this generation and not acquired since; UINT32_MAX: none */
    bool is_current; /* false: the next acquire creates another VkSwapchainKHR first */
} vks_swapchain_statistics;
void vks_swapchain_get_statistics(vks_swapchain *swapchain, vks_swapchain_statistics *out);

#pragma GCC visibility pop

#endif
