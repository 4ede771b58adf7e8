/* tracker.h: which semaphores, fences and swapchains a presentation engine may still be using. A pure state machine: no
 * Vulkan, no thread, no clock. Events go in; decisions ("recycle this, destroy that") come out.
 *
 * Why it is needed (ANGLE's PresentSemaphores document): a present waits for a semaphore, and nothing in Vulkan 1.3
 * says when that wait is over. The frame's own fence is not enough (A1). Two policies behind one interface know it:
 *
 *  - VKS_PRESENTS_BY_ACQUIRES: the wait is over when the same image was acquired again and a submission that waited for
 *    that acquire's semaphore has run (its serial is completed). Entries are cleaned from the front, the oldest first.
 *  - VKS_PRESENTS_BY_FENCES (VK_EXT_swapchain_maintenance1): each present has a fence of its own.
 *
 * A swapchain that was replaced is retired: it is kept until everything that was presented on it is known to be over,
 * and the submissions that touched its images have run.
 *
 * Handles are integers that are only compared; 0 is none. Not thread-safe: its owner locks. Serials are those of the
 * device (vkshare.h): they complete in order. Times are nanoseconds of whatever clock the owner uses.
 * Every event either succeeds, or answers VKS_NO_MEMORY or VKS_BAD_VALUE (with vks_fail's text) and changes nothing.
 */
#ifndef VKS_TRACKER_H
#define VKS_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vkshare.h"

typedef enum vks_present_policy { VKS_PRESENTS_BY_ACQUIRES, VKS_PRESENTS_BY_FENCES } vks_present_policy;

#define VKS_MAX_IMAGES 1024u /* of a swapchain: far more than any presentation engine has */

typedef struct vks_tracker vks_tracker;

/* `fence_deadline`: a present fence that is not signalled so many ns after its present is quarantined (A16). */
vks_status vks_tracker_create(vks_present_policy policy, uint64_t fence_deadline, vks_tracker **out);
void vks_tracker_destroy(vks_tracker *tracker); /* forgets everything; decisions that were not taken are lost */

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* `swapchain` is current from now on; the one before, if any, is retired: it was given to vkCreateSwapchainKHR as
 * oldSwapchain. 0: creating failed, which retires the old one all the same (A12), or there is to be none.
 * `last_use`: the serial of the last submission that touched an image of the one that is retired; it is never destroyed
 * before that has run. A retired swapchain on which nothing was ever presented goes as soon as that is so (A4).
 * One whose presents all have a serial goes with these, needing no present of the next one.
 * `is_shared`: shared-present mode (A11): its one image is acquired once and presented without semaphores.
 * Decides nothing itself: vks_tracker_collect() does. VKS_BAD_VALUE: the history has that swapchain already, or
 * `image_count` is not 1 to VKS_MAX_IMAGES. */
vks_status vks_tracker_swapchain(vks_tracker *tracker, uint64_t swapchain, uint32_t image_count, bool is_shared,
                                 uint64_t last_use);

/* The submission `serial` waited for the semaphore of the latest acquire of that image of the current swapchain. This
 * is the proof for the present of that image before it, where there was one and it had none yet. serial 0: the
 * acquire's fence was seen signalled. Also for frames that are never presented. Ignored by fences. */
vks_status vks_tracker_waited(vks_tracker *tracker, uint32_t image, uint64_t serial);

/* vkQueuePresentKHR of that image of the current swapchain was carried out as far as its waits go: VK_SUCCESS,
 * SUBOPTIMAL, OUT_OF_DATE and SURFACE_LOST (A15); never told for OUT_OF_*_MEMORY and DEVICE_LOST. It waited for
 * `semaphores` (up to VKS_FRAME_SEMAPHORES; none in shared-present mode) and signals `fence` (by fences: not 0; else
 * 0). In shared-present mode its proof is vks_tracker_waited(), told right before or after: the present's own
 * submission. An image may be presented again without vks_tracker_waited() in between (the present itself waited for
 * the acquire's semaphore, one of `semaphores`): the next serial of that image is the proof for both. */
vks_status vks_tracker_presented(vks_tracker *tracker, uint32_t image, const uint64_t *semaphores, uint32_t n,
                                 uint64_t fence, uint64_t now);

/* Somebody else used `semaphore` (an acquire's, waited for by the submission `serial`; or a present's that nobody will
 * wait for any more): decided on when `serial` has run: recycled, or with `is_discarded` (signalled, and nobody waits for
 * it) destroyed. */
vks_status vks_tracker_semaphore(vks_tracker *tracker, uint64_t semaphore, uint64_t serial, bool is_discarded);

/* Whether a fence is signalled: asked by vks_tracker_collect() only. */
typedef bool (*vks_fence_probe)(void *user, uint64_t fence);

/* Everything up to `completed` has run. Looks through the history and decides. By fences it probes the front of the
 * current swapchain's presents, of each retired swapchain the newest fence only (A7; the older ones are looked at when
 * that is signalled: they are reset next), and up to 16 of those in quarantine in turn. A fence unsignalled past its
 * deadline goes into quarantine with what it guards: neither reset nor destroyed before it is signalled after all, and
 * it holds nobody else up (A16). */
vks_status vks_tracker_collect(vks_tracker *tracker, uint64_t completed, uint64_t now, vks_fence_probe probe,
                               void *user);

/* By acquires, where no proof can come: the current swapchain is out of date, so that it gives no more images. The
 * oldest retired swapchain whose images nobody uses (its last_use has run) is given up: it is destroyed, and then the
 * semaphores of its presents that have no proof, which are never used again. False: there is none such. */
bool vks_tracker_give_up(vks_tracker *tracker);

/* The end: nothing is presented any more, and the owner has waited as long as it would. Everything that is left is
 * decided on as DESTROY_*, the swapchains before the semaphores and fences that their presents used; returns how many
 * presents had no proof (by fences all that are left). Decisions that were not taken before stay, ahead of these. */
uint64_t vks_tracker_close(vks_tracker *tracker);

/* ---- decisions ------------------------------------------------------------------------------------------------- */

typedef enum vks_decision_kind {
    VKS_RECYCLE_SEMAPHORE, /* unsignalled, and nobody uses it */
    VKS_RESET_FENCE,       /* signalled: reset it, then it may go back to the pool (A8) */
    VKS_DESTROY_SEMAPHORE,
    VKS_DESTROY_FENCE,
    VKS_DESTROY_SWAPCHAIN
} vks_decision_kind;

typedef struct vks_decision {
    vks_decision_kind kind;
    uint64_t handle;
} vks_decision;

/* Takes the oldest decision that was not taken yet; false when there is none. */
bool vks_tracker_next(vks_tracker *tracker, vks_decision *out);

/* ---- what is waited for (A6) ----------------------------------------------------------------------------------- */

typedef enum vks_wanted_kind {
    VKS_WANTS_NOTHING, /* no swapchain is retired */
    VKS_WANTS_IMAGE,   /* value: an image of the current swapchain that must be acquired again */
    VKS_WANTS_SERIAL,  /* value: a submission that must have run */
    VKS_WANTS_FENCE,   /* value: a fence that must be signalled */
    VKS_WANTS_PRESENT  /* nothing was presented on the current swapchain yet: only a present of it can prove anything */
} vks_wanted_kind;

typedef struct vks_wanted {
    vks_wanted_kind kind;
    uint64_t value;
} vks_wanted;

/* What stands between the oldest retired swapchain and its end. Those that only wait for a fence in quarantine come
 * last: there may be none for ever (A16). Slow: looks at every swapchain. */
vks_wanted vks_tracker_wanted(const vks_tracker *tracker);
/* The same for the presents of the current swapchain: what close() waits for. VKS_WANTS_NOTHING: none is left. By
 * acquires the presents of retired swapchains that have a serial come first. */
vks_wanted vks_tracker_unproven(const vks_tracker *tracker);

typedef struct vks_tracker_statistics {
    uint64_t presents;    /* in the history, carried and quarantined ones too */
    uint64_t semaphores;  /* that it keeps: of presents, carried, and those of vks_tracker_semaphore() */
    uint64_t fences;      /* that it keeps, those in quarantine too */
    uint64_t retired;     /* swapchains that were replaced and are not destroyed yet */
    uint64_t quarantined; /* presents in quarantine */
    uint64_t moved;       /* starved entries that ever went to the back (A3) */
} vks_tracker_statistics;
void vks_tracker_get_statistics(const vks_tracker *tracker, vks_tracker_statistics *out);

#endif
