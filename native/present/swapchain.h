/* swapchain.h: what a window, or a headless target, shows.
 *
 * A swapchain hands out its images one after the other, each as a frame that is drawn into and presented. With Vulkan
 * below it is one VkSurfaceKHR and the VkSwapchainKHRs that follow each other on it; without (info->vulkan == NULL) a
 * ring of ordinary surfaces with the same rules. Frames are numbered by image; `generation` counts what the images
 * belong to, and grows with each VkSwapchainKHR.
 *
 * The images are the maker's surfaces (made with is_presentable): attached when they are first drawn into, owned by
 * their handle from acquire to present, and refused to every submission else.
 *
 * Every function is safe to call from any thread. A wait answers VKS_INTERRUPTED now and then: the caller looks for
 * signals and calls again with the same deadline. Every function that uses the driver waits for its turn where another
 * thread is inside it; after 10 s that is VKS_TIMEOUT. A call of the driver itself cannot be bounded: it lasts as long
 * as the window system is silent. */
#ifndef VKS_SWAPCHAIN_H
#define VKS_SWAPCHAIN_H

#include "tracker.h"
#include "vkshare.h"

typedef struct vks_swapchain vks_swapchain;

#define VKS_SWAPCHAIN_IMAGES 16u         /* at most */
#define VKS_SWAPCHAIN_MODES 6u           /* compatible present modes */
#define VKS_HELD_FRAME_NS 10000000000ull /* present() waits so long for held work of its frame (A21) */

/* Values are Vulkan's enumerators and handles. */
typedef struct vks_present_info {
    uint64_t physical_device, surface; /* the surface is the maker's, and outlives the swapchain */
    void *get_capabilities;            /* PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR */
    uint32_t queue_family, format, color_space, usage, composite_alpha, present_mode;
    uint32_t modes[VKS_SWAPCHAIN_MODES], n_modes; /* that a present may change to (A13): by fences only */
    bool has_views;                               /* the usage allows image views */
    bool sizes_itself; /* a headless target: its size is ours to choose, whatever its current extent */
    bool can_name;     /* VK_EXT_debug_utils is enabled on the instance */
    vks_present_policy policy;
} vks_present_info;

typedef struct vks_swapchain_info {
    vks_device *device;
    const vks_present_info *vulkan; /* NULL: a ring of `image_count` images that the maker attaches all */
    uint32_t width, height;         /* where the surface leaves the size to us (A14) */
    uint32_t image_count;           /* wanted; clamped to what the surface allows */
    uint32_t frames_in_flight;      /* whose GPU work may be under way when a frame is acquired (A10) */
    uint32_t retired_limit;         /* swapchains that were replaced and not proven yet (A6) */
    uint64_t proof_deadline;        /* ns that a resize waits for proof (A6), and close() */
    uint64_t fence_deadline;        /* ns after which a present fence is quarantined (A16) */
} vks_swapchain_info;

vks_status vks_swapchain_create(const vks_swapchain_info *info, vks_swapchain **out);
void vks_swapchain_ref(vks_swapchain *swapchain);
void vks_swapchain_unref(vks_swapchain *swapchain); /* closes it first, if nobody did */
/* Blocks: waits up to `proof_deadline` until everything presented is known to be over. Idempotent. What has no proof by
 * then is destroyed when the device's queue has run dry: no better proof can come. Where that does not happen, or a
 * call of another thread does not return from the driver, all is leaked after some 10 s. */
void vks_swapchain_close(vks_swapchain *swapchain);
/* The same in steps: VKS_INTERRUPTED until it is done; VKS_TIMEOUT in place of the leak: later calls go on from there.
 */
vks_status vks_swapchain_try_close(vks_swapchain *swapchain);

/* Another size from the next acquire on. Never blocks. */
vks_status vks_swapchain_resize(vks_swapchain *swapchain, uint32_t width, uint32_t height);
/* VK_PRESENT_MODE_*: from the next present on where a present may change it, else from the next acquire (A13). */
vks_status vks_swapchain_set_mode(vks_swapchain *swapchain, uint32_t present_mode);
/* At most one frame is handed out in so many ns, for targets that pace nobody themselves; 0, as it is at first: as many
 * as there can be. */
void vks_swapchain_set_pace(vks_swapchain *swapchain, uint64_t interval);
/* A new VkSurfaceKHR in place of one that is lost (A9); what was presented on the old one is given up. Blocks. 0: there
 * is none for now, everything on the old one is destroyed, and the swapchain is lost until there is. For a ring any
 * other number says that it is shown again. */
vks_status vks_swapchain_retarget(vks_swapchain *swapchain, uint64_t surface);
/* The window is gone, as somebody else was told: VKS_SURFACE_LOST from now on. Never blocks. */
void vks_swapchain_lose(vks_swapchain *swapchain);
/* Makes the VkSwapchainKHR now if it is missing or out of date. Blocks, as acquire does. */
vks_status vks_swapchain_prepare(vks_swapchain *swapchain, uint64_t deadline);

typedef struct vks_frame {
    uint32_t index;
    uint32_t width, height;
    uint64_t generation;
} vks_frame;

/* The next frame. Blocks while `frames_in_flight` frames are drawn, or all images are out. Errors: VKS_TIMEOUT;
 * VKS_BAD_CALL (the caller has all images himself, and would wait for ever); VKS_HIDDEN (0x0: nothing to present to);
 * VKS_OUTDATED (vks_swapchain_new_offscreen() comes first, of the size in *out); VKS_SURFACE_LOST; VKS_VULKAN_ERROR
 * OUT_OF_DATE after two attempts (A9); those of the device. After any of them the next call works, or says the same. */
vks_status vks_swapchain_acquire(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);
/* Of a ring or a headless target: the image that was presented last, to be read and dropped, never drawn or presented.
 * It stays the shown one, and one caller has it at a time; frames go out and are presented meanwhile. Recreates
 * nothing. VKS_BAD_CALL: nothing was presented, or not since the last resize, or the image is acquired, and no other
 * thread presented before the deadline. */
vks_status vks_swapchain_acquire_shown(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);
/* The same if that is a matter of microseconds; VKS_TIMEOUT: go on with the other. Never waits, recreates nothing. */
vks_status vks_swapchain_try_acquire(vks_swapchain *swapchain, vks_frame *out);
/* Shows it, behind all that was submitted to it. Blocks while some of that is held. VKS_BAD_CALL: it is not the
 * caller's any more, which the text explains. Out of memory: the frame is as before, present it again (A15). */
vks_status vks_swapchain_present(vks_swapchain *swapchain, const vks_frame *frame, uint64_t deadline);
/* Gives it back unpresented (A20): the next acquire hands it out again, with what was drawn. */
vks_status vks_swapchain_drop(vks_swapchain *swapchain, const vks_frame *frame);

/* The image of a frame. */
typedef struct vks_frame_image {
    uint64_t image, view; /* VkImage, VkImageView; 0 in a ring */
    uint32_t width, height;
} vks_frame_image;
vks_status vks_swapchain_image(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_frame_image *out);
/* A ring of `image_count` images in place of the one before, whose frames that are out cannot be presented any more.
 * Its surfaces are attached by the maker, each when it first comes. */
vks_status vks_swapchain_new_offscreen(vks_swapchain *swapchain, uint32_t width, uint32_t height, uint32_t image_count,
                                  uint64_t *generation);
/* Has `surface` stand for the image: a new one that nobody owns. Takes a reference. */
vks_status vks_swapchain_attach(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_surface *surface);
/* Between pin and unpin no image of that generation, nor its view, is destroyed: commands may be recorded for it.
 * VKS_BAD_CALL: it is gone. Neither blocks. */
vks_status vks_swapchain_pin(vks_swapchain *swapchain, uint64_t generation);
void vks_swapchain_unpin(vks_swapchain *swapchain);
/* For an engine's own vkQueueSubmit2 on the frame, to the device's queue: it waits for the one and signals the other,
 * takes the image from layout UNDEFINED or PRESENT_SRC_KHR and leaves it in PRESENT_SRC_KHR. Before any vks_submit to
 * the frame. Submits a batch, which waits for what the driver's acquire signals: so it does not matter whether the
 * engine ever submits. */
vks_status vks_swapchain_take_semaphores(vks_swapchain *swapchain, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered);

typedef struct vks_swapchain_statistics {
    uint64_t generation;
    uint64_t frames;       /* presented */
    uint64_t lost_frames;  /* of these, not shown: the window had changed */
    uint64_t swapchains;   /* VkSwapchainKHRs alive: the current one and those retired */
    uint64_t retired;      /* of these, not proven yet */
    uint64_t most_alive;   /* the most that were ever alive */
    uint64_t recreated;    /* times that a VkSwapchainKHR was made in place of another */
    uint64_t resize_waits; /* of these, how many waited for proof (A6) */
    uint64_t given_up;     /* swapchains that were destroyed without proof: none could come any more */
    uint64_t semaphores;   /* that exist */
    uint64_t pooled_semaphores, fences, pooled_fences;
    uint64_t history;       /* presents without proof */
    uint64_t quarantined;   /* of these, with a fence past its deadline (A16) */
    uint64_t moved;         /* presents of starved images that went to the back of the history (A3) */
    uint64_t acquire_waits; /* frames that waited for earlier frames' GPU work (A10) */
    uint32_t image_count, acquired, width, height, present_mode;
    uint32_t
        shown; /* the image that was presented last, of this generation, and not acquired since; UINT32_MAX: none */
    bool is_current; /* false: the next acquire makes another VkSwapchainKHR first */
} vks_swapchain_statistics;
void vks_swapchain_get_statistics(vks_swapchain *swapchain, vks_swapchain_statistics *out);

#endif
