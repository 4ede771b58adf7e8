/* tracker.h: tracks which semaphores, fences and swapchains a presentation engine may still use. A
 * pure state machine without Vulkan calls, threads or a clock. Events go in; decisions ("recycle
 * this, destroy that") come out.
 *
 * Reason (ANGLE's PresentSemaphores document): a present waits for a semaphore, and nothing in
 * Vulkan 1.3 reports when that wait is over. The frame's own fence is not enough (A1). Two policies
 * provide the proof behind one interface:
 *
 * - VKS_PRESENTS_BY_ACQUIRES: the wait is over when the same image was acquired again and a
 *   submission that waited for that acquire's semaphore has run (its serial is completed). Entries
 *   are removed from the front, the oldest first.
 * - VKS_PRESENTS_BY_FENCES (VK_EXT_swapchain_maintenance1): each present has a fence of its own.
 *
 * A replaced swapchain is retired: the tracker keeps it until all its presents are proven complete
 * and the submissions that used its images have run.
 *
 * Handles are integers that are only compared; 0 is no handle. Not thread-safe: the caller holds a
 * lock. Serials are the device's (vkshare.h) and complete in order. Times are nanoseconds of any
 * clock that the caller chooses. Every event either succeeds, or returns VKS_NO_MEMORY or
 * VKS_BAD_VALUE (with vks_fail's text) and changes nothing. */
#ifndef VKS_TRACKER_H
#define VKS_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vkshare.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

typedef enum vks_present_policy { VKS_PRESENTS_BY_ACQUIRES, VKS_PRESENTS_BY_FENCES } vks_present_policy;

#define VKS_MAX_IMAGES 1024u /* of a swapchain; far more than any presentation engine has */

typedef struct vks_tracker vks_tracker;

/* `fence_deadline`: ns after its present at which an unsignalled present fence is quarantined
 * (A16). */
vks_status vks_tracker_create(vks_present_policy policy, uint64_t fence_deadline, vks_tracker **out);
void vks_tracker_destroy(vks_tracker *tracker); /* drops all entries; decisions that were not taken are lost */

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* `swapchain` becomes current, and the previous one is retired: it was the oldSwapchain of
 * vkCreateSwapchainKHR. 0: the creation failed, which retires the old one as well (A12), or no
 * swapchain is to follow. `last_use`: the serial of the last submission that used an image of the
 * retired swapchain; the tracker never destroys it before that has run. A retired swapchain without
 * any present is destroyed as soon as that has run (A4). If every present of it has a serial, it
 * completes with these and needs no present of the next swapchain. `is_shared`: shared-present mode
 * (A11), in which the one image is acquired once and presented without semaphores. Makes no
 * decisions; vks_tracker_collect() does. VKS_BAD_VALUE: the tracker has that swapchain already, or
 * `image_count` is not 1 to VKS_MAX_IMAGES. */
vks_status vks_tracker_swapchain(vks_tracker *tracker, uint64_t swapchain, uint32_t image_count, bool is_shared,
                                 uint64_t last_use);

/* The submission `serial` waited for the semaphore of the latest acquire of that image of the
 * current swapchain. This proves the image's previous present, if that has no proof yet. serial 0:
 * the acquire's fence was seen signalled. Call it also for frames that are never presented. Ignored
 * by fences. */
vks_status vks_tracker_waited(vks_tracker *tracker, uint32_t image, uint64_t serial);

/* vkQueuePresentKHR of that image of the current swapchain was executed as far as its waits go:
 * VK_SUCCESS, SUBOPTIMAL, OUT_OF_DATE and SURFACE_LOST (A15). Do not call it after OUT_OF_*_MEMORY
 * and DEVICE_LOST. The present waited for `semaphores` (up to VKS_FRAME_SEMAPHORES; none in
 * shared-present mode) and signals `fence` (by fences: not 0; else 0). In shared-present mode its
 * proof is a vks_tracker_waited() right before or after, with the serial of the present's own
 * submission. An image may be presented again without vks_tracker_waited() in between (the present
 * itself waited for the acquire's semaphore, one of `semaphores`): the next serial of that image is
 * the proof for both. */
vks_status vks_tracker_presented(vks_tracker *tracker, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                 uint64_t fence, uint64_t now);

/* Reserves memory for one vks_tracker_presented() and `semaphores` vks_tracker_semaphore(), which
 * then do not fail for want of it. Call it before vkQueuePresentKHR, which cannot be undone. */
vks_status vks_tracker_reserve(vks_tracker *tracker, uint32_t semaphores);

/* Another user of `semaphore` is known (an acquire's, which the submission `serial` waited for; or
 * a present's without any further wait). The tracker decides when `serial` has run: recycle, or
 * with `is_discarded` (signalled, and without a wait) destroy. */
vks_status vks_tracker_semaphore(vks_tracker *tracker, uint64_t semaphore, uint64_t serial, bool is_discarded);

/* Returns whether a fence is signalled. Only vks_tracker_collect() calls it. */
typedef bool (*vks_fence_probe)(void *user, uint64_t fence);

/* All submissions up to `completed` have run. Scans the entries and makes decisions. By fences it
 * probes the oldest presents of the current swapchain, of each retired swapchain the newest fence
 * only (A7; the older ones are probed once that is signalled, because a reset follows), and up to
 * 16 quarantined fences in turn. A fence that is unsignalled past its deadline is quarantined with
 * its semaphores: neither is reset or destroyed until the fence is signalled, and it delays no
 * other entry (A16). */
vks_status vks_tracker_collect(vks_tracker *tracker, uint64_t completed, uint64_t now, vks_fence_probe probe,
                               void *user);

/* By acquires, when no proof can follow because the current swapchain is out of date and gives no
 * more images: gives up the oldest retired swapchain whose images are unused (its last_use has
 * run). Decides to destroy it, then the semaphores of its unproven presents, which are never used
 * again. False: there is no such swapchain. */
bool vks_tracker_give_up(vks_tracker *tracker);

/* Call after the last present, once the caller has waited as long as it wants to. Decides DESTROY_*
 * for everything that is left, the swapchains before the semaphores and fences of their presents.
 * Returns the number of presents without proof (by fences, all that are left). Earlier decisions
 * that were not taken stay first. */
uint64_t vks_tracker_close(vks_tracker *tracker);

/* ---- decisions ------------------------------------------------------------------------------------------------- */

typedef enum vks_decision_kind {
    VKS_RECYCLE_SEMAPHORE, /* unsignalled and unused */
    VKS_RESET_FENCE,       /* signalled; reset it, then return it to the pool (A8) */
    VKS_DESTROY_SEMAPHORE,
    VKS_DESTROY_FENCE,
    VKS_DESTROY_SWAPCHAIN
} vks_decision_kind;

typedef struct vks_decision {
    vks_decision_kind kind;
    uint64_t handle;
} vks_decision;

/* Takes the oldest decision that was not taken yet. False: there is none. */
bool vks_tracker_next(vks_tracker *tracker, vks_decision *out);

/* ---- wait targets (A6) ------------------------------------------------------------------------------------------ */

typedef enum vks_wanted_kind {
    VKS_WANTS_NOTHING, /* no swapchain is retired */
    VKS_WANTS_IMAGE,   /* value: an image of the current swapchain that must be acquired again */
    VKS_WANTS_SERIAL,  /* value: a submission that must have run */
    VKS_WANTS_FENCE,   /* value: a fence that must be signalled */
    VKS_WANTS_PRESENT  /* the current swapchain has no present yet, and only one can prove anything */
} vks_wanted_kind;

typedef struct vks_wanted {
    vks_wanted_kind kind;
    uint64_t value;
} vks_wanted;

/* Returns the event that the oldest retired swapchain waits for. Swapchains that wait only for a
 * quarantined fence come last, because that fence may never be signalled (A16). Slow: visits every
 * swapchain. */
vks_wanted vks_tracker_wanted(const vks_tracker *tracker);
/* Returns the event that the current swapchain's presents wait for, as close() needs it.
 * VKS_WANTS_NOTHING: none is left. By acquires the presents of retired swapchains that have a
 * serial come first. */
vks_wanted vks_tracker_unproven(const vks_tracker *tracker);

typedef struct vks_tracker_statistics {
    uint64_t presents;    /* tracked, with carried and quarantined ones */
    uint64_t semaphores;  /* tracked: of presents, carried, and from vks_tracker_semaphore() */
    uint64_t fences;      /* tracked, with quarantined ones */
    uint64_t retired;     /* swapchains that were replaced and not destroyed yet */
    uint64_t quarantined; /* presents in quarantine */
    uint64_t moved;       /* entries of starved images that were moved to the back, ever (A3) */
} vks_tracker_statistics;
void vks_tracker_get_statistics(const vks_tracker *tracker, vks_tracker_statistics *out);

#pragma GCC visibility pop

#endif
