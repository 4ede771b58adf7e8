/* swapchain.h: the frames of a window or of a headless target, beyond vkshare_present.h.
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
#include "vkshare_present.h"

/* native/python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

#define VKS_SWAPCHAIN_MODES 6u           /* compatible present modes */
#define VKS_HELD_FRAME_NS 10000000000ull /* limit of present()'s wait for held work of its frame (A21) */

/* Values are Vulkan's enumerators and handles. */
typedef struct vks_present_info {
    uint64_t physical_device, surface; /* the caller's, and outlives the swapchain */
    void *get_capabilities;            /* PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR */
    uint32_t queue_family, format, color_space, usage, composite_alpha, present_mode;
    uint32_t modes[VKS_SWAPCHAIN_MODES], n_modes; /* modes that a present may change to (A13); by fences only */
    uint32_t
        surface_format; /* vks_format of `format`: vks_swapchain_surface() makes surfaces; 0: the caller attaches */
    bool has_views;     /* the usage allows image views */
    bool sizes_itself;  /* a headless target; the swapchain chooses the size, whatever the current extent */
    bool can_name;      /* VK_EXT_debug_utils is enabled on the instance */
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
/* The same in steps. VKS_INTERRUPTED: call again. VKS_TIMEOUT, in place of the leak: later calls
 * resume. */
vks_status vks_swapchain_try_close(vks_swapchain *swapchain);

/* Reports that the window is gone: VKS_SURFACE_LOST from now on. Never blocks. */
void vks_swapchain_lose(vks_swapchain *swapchain);
/* Creates the VkSwapchainKHR now if it is missing or out of date. Blocks, as acquire does. */
vks_status vks_swapchain_prepare(vks_swapchain *swapchain, uint64_t deadline);

/* For offscreen images and headless targets: acquires the image presented last, to be read and
 * dropped, never drawn or presented. It stays the shown image, and one caller has it at a time;
 * other frames are acquired and presented meanwhile. Recreates nothing. VKS_BAD_CALL: nothing was
 * presented since the last resize, or the image is acquired, and no other thread presented before
 * the deadline. */
vks_status vks_swapchain_acquire_shown(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);
/* Acquires the next frame if that takes microseconds only. VKS_TIMEOUT: call
 * vks_swapchain_acquire(). Never waits, recreates nothing. */
vks_status vks_swapchain_try_acquire(vks_swapchain *swapchain, vks_frame *out);
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
#pragma GCC visibility pop

#endif
