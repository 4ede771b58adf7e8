/* vkshare_present.h: frames of a window, and the ticks of a display.
 *
 * vkshare.h has the conventions. Vulkan's handles and enumerators are integers here as there.
 *
 * A frame of an engine:
 *
 *   vks_observer_wait(observer, deadline, &tick, &missed)       a display's tick
 *   vks_swapchain_acquire(swapchain, deadline, &frame)          the next image
 *   vks_swapchain_image(swapchain, frame.index, ...)            its VkImage and VkImageView
 *   vks_swapchain_take_semaphores(swapchain, &frame, ...)       what the engine's submission waits for and signals
 *   vkQueueSubmit2(...)                                         the engine's drawing
 *   vks_swapchain_present(swapchain, &frame, deadline)          after that drawing
 *
 * With vks_submit() in place of vkQueueSubmit2, vks_swapchain_surface() is the surface to draw on, and
 * no semaphore is needed. */
#ifndef VKSHARE_PRESENT_H
#define VKSHARE_PRESENT_H

#include "vkshare.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* as in vkshare.h */

/* ---- swapchains ------------------------------------------------------------------------------------------------ */

/* A VkSurfaceKHR with its successive VkSwapchainKHRs. A frame names an image by its index and its
 * `generation`, a number that grows with each VkSwapchainKHR.
 *
 * Every function that uses the driver waits while another thread is inside it, and returns
 * VKS_TIMEOUT after 10 s. A driver call itself has no bound: it lasts as long as the window system
 * does not reply. A wait returns VKS_INTERRUPTED now and then. */
typedef struct vks_swapchain vks_swapchain;

#define VKS_SWAPCHAIN_IMAGES 16u /* at most */

typedef struct vks_window_info {
    uint64_t surface;          /* VkSurfaceKHR; the caller's, and outlives the swapchain */
    uint32_t width, height;    /* pixels, where the surface does not determine the size */
    uint32_t format;           /* vks_format; 0: the best that the surface has */
    uint32_t present_mode;     /* VkPresentModeKHR; every surface has VK_PRESENT_MODE_FIFO_KHR, 2 */
    uint32_t image_count;      /* wished for, up to VKS_SWAPCHAIN_IMAGES; 0: 3 */
    uint32_t frames_in_flight; /* frames whose GPU work may be unfinished when a frame is acquired, up to 16; 0: 2 */
    bool sizes_itself;         /* of a headless VkSurfaceKHR: width and height hold, whatever the surface says */
} vks_window_info;

/* Makes a swapchain on a device of vkshare_vulkan.h. The library's own devices have all window
 * systems' extensions of their driver; an adopted one was made with VK_KHR_swapchain. The first
 * acquire creates the VkSwapchainKHR. `info` is read during the call. *out is a reference. Proof
 * that presents are over comes from later acquires, as ANGLE has it, and needs no extension.
 * VKS_UNSUPPORTED: another device, no such extension, or the surface has no such format or mode, or
 * is not for the device's queue; the text names it. VKS_BAD_VALUE. */
vks_status vks_swapchain_open(vks_device *device, const vks_window_info *info, vks_swapchain **out);
void vks_swapchain_ref(vks_swapchain *swapchain);
void vks_swapchain_unref(vks_swapchain *swapchain); /* closes it first if it is open */
/* Blocks up to 1 s until all presents are known to be complete. Idempotent. Presents without proof
 * by then are destroyed when the device's queue is empty, because no better proof exists. If the
 * queue does not become empty, or another thread's call does not return from the driver, everything
 * is leaked after about 10 s; with an image that stays pinned, after about 1 s. Call it before
 * vks_device_shutdown(). Later everything is leaked, and vks_device_leaks() is true. */
void vks_swapchain_close(vks_swapchain *swapchain);

/* Sets the size from the next acquire on. Never blocks. VKS_SURFACE_LOST: the window is gone. */
vks_status vks_swapchain_resize(vks_swapchain *swapchain, uint32_t width, uint32_t height);
/* Sets VK_PRESENT_MODE_*, from the next present on where a present may change the mode, else from
 * the next acquire (A13). Never blocks. VKS_SURFACE_LOST: the window is gone. */
vks_status vks_swapchain_set_mode(vks_swapchain *swapchain, uint32_t present_mode);
/* Hands out at most one frame in `interval` ns, for targets without a pace of their own. 0, the
 * default: no limit. */
void vks_swapchain_set_pace(vks_swapchain *swapchain, uint64_t interval);
/* Replaces a lost VkSurfaceKHR (A9); presents on the old one are given up. Blocks. 0: there is no
 * new one yet; everything on the old one is destroyed, and the swapchain is lost until the next
 * call. VKS_INTERRUPTED: call again. VKS_TIMEOUT: not everything is destroyed yet; a later call
 * resumes. */
vks_status vks_swapchain_retarget(vks_swapchain *swapchain, uint64_t surface);

typedef struct vks_frame {
    uint32_t index;
    uint32_t width, height;
    uint64_t generation;
} vks_frame;

/* Acquires the next frame. Blocks while as many frames are drawn as may be in flight, or all images
 * are acquired. Errors: VKS_TIMEOUT; VKS_BAD_CALL (the caller has all images, so that the wait
 * would never end); VKS_HIDDEN (0x0: nothing to present to); VKS_SURFACE_LOST; VKS_VULKAN_ERROR
 * OUT_OF_DATE after two attempts (A9); those of the device. After an error the next call succeeds
 * or repeats it. */
vks_status vks_swapchain_acquire(vks_swapchain *swapchain, uint64_t deadline, vks_frame *out);

/* For an event loop: *fd is readable while vks_swapchain_acquire() with deadline 0 would not return
 * VKS_TIMEOUT. The first call makes it, with a thread that acquires ahead of the caller, because
 * drivers have no fd for an image; the swapchain owns it until its last unref. Use it only to poll.
 * A close and a loss make it readable, and the acquire reports them. If the target changes, or
 * another thread acquires, the fd may be readable until the next acquire fails. While frames are
 * drawn, an image that the driver has free is noticed within 4 ms. A window without pixels has a
 * frame every 50 ms. */
vks_status vks_swapchain_frame_fd(vks_swapchain *swapchain, int *fd);

/* The Surface of an acquired frame, for vks_submit(): made when a frame of its image first asks. It
 * is owned from the acquire to the present. *out is a reference. VKS_BAD_CALL: the caller no longer
 * has the frame. */
vks_status vks_swapchain_surface(vks_swapchain *swapchain, const vks_frame *frame, vks_surface **out);
/* For a rendering engine's own vkQueueSubmit2 on the frame, to the device's queue. The engine waits
 * for `acquired` and signals `rendered`, takes the image from layout UNDEFINED or PRESENT_SRC_KHR
 * and leaves it in PRESENT_SRC_KHR. Call it before any vks_submit to the frame. Submits a batch
 * that waits for the driver's acquire, so that the engine need not submit anything. VKS_BAD_CALL:
 * the caller no longer has the frame, or vks_submit() has drawn into it. */
vks_status vks_swapchain_take_semaphores(vks_swapchain *swapchain, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered);
/* Presents the frame after all work submitted to it. Blocks while some of that work is held.
 * VKS_BAD_CALL: the caller no longer has the frame; the text gives the reason. Out of memory: the
 * frame is unchanged, present it again (A15). */
vks_status vks_swapchain_present(vks_swapchain *swapchain, const vks_frame *frame, uint64_t deadline);
/* Returns the frame without a present (A20). The next acquire hands it out again, with its
 * contents. VKS_BAD_CALL: the caller no longer has the frame. */
vks_status vks_swapchain_drop(vks_swapchain *swapchain, const vks_frame *frame);

typedef struct vks_frame_image {
    uint64_t image, view; /* VkImage; VkImageView, or 0 if the surface's images allow none */
    uint32_t width, height;
} vks_frame_image;
/* The image of a frame. It is valid until the swapchain is recreated, and the swapchain's.
 * VKS_BAD_CALL: the generation is no longer current. Does not block for long: it waits for other
 * threads' calls. */
vks_status vks_swapchain_image(vks_swapchain *swapchain, uint32_t index, uint64_t generation, vks_frame_image *out);

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
/* A snapshot. Never fails. */
void vks_swapchain_get_statistics(vks_swapchain *swapchain, vks_swapchain_statistics *out);

/* ---- displays -------------------------------------------------------------------------------------------------- */

/* numerator / denominator nanoseconds: 60000/1001 Hz is 1001e9 / 60000. Allowed are 1 us to 100
 * s. */
typedef struct vks_interval {
    uint64_t numerator;
    uint32_t denominator;
} vks_interval;

typedef enum vks_tick_kind {
    VKS_TICK_SOFTWARE, /* computed */
    VKS_TICK_X11_PRESENT,
    VKS_TICK_PRESENT_WAIT,
    VKS_TICK_DISPLAY_CONTROL,
    VKS_TICK_PRESENT_TIMING,
} vks_tick_kind;

enum {
    VKS_TICK_IS_MISSED = 1,    /* the tick precedes its observer */
    VKS_TICK_IS_ESTIMATED = 2, /* the interval is unknown; 1/60 s is assumed */
    VKS_TICK_IS_BROKEN = 4     /* a discontinuity: a long time passed without a tick */
};

typedef struct vks_tick {
    uint64_t id;     /* grows; a step of more than one counts ticks that were not delivered */
    uint64_t time;   /* of the vsync; never later than now */
    uint64_t output; /* earliest display time of a frame that begins now; after `time` */
    vks_interval interval;
    uint32_t kind;    /* vks_tick_kind */
    uint32_t flags;   /* VKS_TICK_IS_* */
    uint32_t display; /* number of the display; the tick clock leaves it 0 */
} vks_tick;

/* A display has one source of ticks and one thread; each window has a dispatcher, with ids of its
 * own, and observers, which take the newest tick. The thread runs no code of the caller and waits
 * for no observer. A display without observers sleeps without a deadline. After fork() a call
 * returns VKS_FORKED; close, shutdown and unref have no effect. */
typedef struct vks_display vks_display;
typedef struct vks_dispatcher vks_dispatcher;
typedef struct vks_observer vks_observer;
typedef struct vks_mailbox vks_mailbox; /* of another process: for the bridge of the Python package */

/* ---- displays: reference-counted by their owner, their dispatchers and the end of a bridge ---- */

/* A display that ticks by a timer. The thread starts with the first observer. VKS_BAD_VALUE: the
 * interval is not allowed. */
vks_status vks_display_create(vks_interval interval, bool is_estimated, vks_display **out);
void vks_display_unref(vks_display *display);            /* by the owner, after the shutdown */
uint32_t vks_display_number(const vks_display *display); /* unique in this process; not 0 */

/* Ends the thread and closes the mailboxes of all observers: their waits return VKS_CLOSED.
 * Idempotent. After it returns no tick of this display is delivered (V17), and the functions below
 * return VKS_CLOSED. */
void vks_display_shutdown(vks_display *display);

/* From the tick after the next one on. VKS_BAD_VALUE: the interval is not allowed. */
vks_status vks_display_set_interval(vks_display *display, vks_interval interval, bool is_estimated);

/* Sets the source of ticks: a hardware of that kind, which calls vks_display_hardware_tick()
 * (VKS_TICK_SOFTWARE: none), or, with `inbox`, another process's display, whose kinds and intervals
 * are adopted. The timer ticks until the source is steady. *source is the number of the new source.
 * After the call returns, the thread no longer uses an earlier inbox, and ticks under another
 * source number are ignored. A closed inbox is still checked at each timer tick, because it may be
 * reopened. */
vks_status vks_display_set_source(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox, uint32_t *source);
/* Reports that the hardware ticked at `time`. VKS_CLOSED: the display has another source. */
vks_status vks_display_hardware_tick(vks_display *display, uint32_t source, uint64_t time);
/* Blocks until the display has observers (is_wanted), or has none. A hardware source is needed only
 * while it has. VKS_TIMEOUT, VKS_INTERRUPTED; VKS_CLOSED: the display has another source. */
vks_status vks_display_wait_wanted(vks_display *display, uint32_t source, bool is_wanted, uint64_t deadline);

typedef struct vks_display_statistics {
    uint64_t ticks;     /* delivered */
    uint64_t hardware;  /* delivered hardware ticks */
    uint64_t skipped;   /* due ticks that a later one replaced */
    uint64_t breaks;    /* discontinuities */
    uint64_t wakeups;   /* of the thread */
    uint64_t late;      /* ns from the newest software tick's time to its delivery */
    uint64_t latest;    /* ns; maximum of `late` */
    uint32_t observing; /* dispatchers that observe now */
    uint32_t kind;      /* vks_tick_kind of the source that ticks now */
    vks_interval interval;
    bool is_estimated;
} vks_display_statistics;
/* A snapshot. Never fails. */
void vks_display_get_statistics(vks_display *display, vks_display_statistics *out);

/* ---- dispatchers: reference-counted by their owner and their observers ---- */

/* General statuses only. */
vks_status vks_dispatcher_create(vks_display *display, vks_dispatcher **out);
/* Its observers' waits return VKS_CLOSED. Idempotent. */
void vks_dispatcher_close(vks_dispatcher *dispatcher);
void vks_dispatcher_unref(vks_dispatcher *dispatcher); /* by the owner, after the close */

/* Moves the window to another display. Moves are serialised; after the call returns no tick of the
 * old display arrives (V12). Ids continue to grow. On failure nothing changes. VKS_CLOSED: either
 * is. */
vks_status vks_dispatcher_move(vks_dispatcher *dispatcher, vks_display *display);

/* ---- observers ------------------------------------------------------------------------------------------------ */

/* Creates an observer, which rests at first. `mailbox`: ticks are posted there, as a bridge to
 * another process needs it; the caller owns it, and it must outlive the observer. NULL: the
 * observer's own mailbox. VKS_CLOSED: the dispatcher or the display is. */
vks_status vks_observer_create(vks_dispatcher *dispatcher, vks_mailbox *mailbox, vks_observer **out);
/* Starts delivery. The first observer of a display gets the last tick at once if that is younger
 * than an interval, flagged VKS_TICK_IS_MISSED (V6). */
vks_status vks_observer_attend(vks_observer *observer);
/* Stops delivery. After it returns no tick arrives, and a posted one that was not taken is removed
 * (V5). Idempotent, like attend. VKS_CLOSED. */
vks_status vks_observer_rest(vks_observer *observer);
/* Closes the observer: delivery stops, and waits return VKS_CLOSED. Idempotent. */
void vks_observer_close(vks_observer *observer);
void vks_observer_destroy(vks_observer *observer); /* closes it; no thread may be in a call on it */

/* Takes the newest tick, or blocks for one until `deadline`. `missed`: ticks between the one taken
 * before and this one. VKS_TIMEOUT, VKS_INTERRUPTED, VKS_CLOSED. */
vks_status vks_observer_wait(vks_observer *observer, uint64_t deadline, vks_tick *out, uint64_t *missed);
/* Returns an eventfd that is readable while there is a tick to take. The observer owns it; use it
 * only to poll. VKS_OS_ERROR: there are too many file descriptors. */
vks_status vks_observer_fd(vks_observer *observer, int *fd);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
