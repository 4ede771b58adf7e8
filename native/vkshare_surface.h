/* vkshare_surface.h: surfaces and their keyed mutexes, and the turns of engines and other APIs on them.
 * vkshare.h includes it, and has the conventions. */
#ifndef VKSHARE_SURFACE_H
#define VKSHARE_SURFACE_H

#include "vkshare.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* as in vkshare.h */

/* ---- surfaces: one party's handle of a keyed mutex ------------------------------------------------------------- */

typedef struct vks_surface_info {
    /* For vkshare ps only. A buffer has format VKS_FORMAT_NONE, and width + (height << 32) bytes. */
    uint32_t width, height, format;
    /* CPU backend: the pixels in the process's memory. Vulkan: may be NULL. */
    void *pixels;
    size_t size, stride;
    /* Vulkan: command buffers, recorded for simultaneous use, that acquire the image from
     * VK_QUEUE_FAMILY_EXTERNAL and release it there; 0 on the CPU backend. */
    uint64_t acquire_commands, release_commands;
    bool discard_unowned; /* K21: unowned="discard" */
    bool is_presentable;  /* a swapchain's image: this handle is its only one, and it is never exported */
    vks_color color;      /* of the codes; all 0: sRGB's, of planes BT.709's of limited range */
} vks_surface_info;

/* A new surface with a new page. It is unowned and its key is 0 (K1). `info` is read during the
 * call; the pixels, or the image, stay the caller's and outlive the handle. *out is a reference.
 * VKS_UNSUPPORTED: a seccomp profile forbids memfd_create(). */
vks_status vks_surface_create(vks_device *device, const vks_surface_info *info, vks_surface **out);
/* Another handle of the page. Takes ownership of both fds, also on failure. VKS_BAD_PAGE: the page
 * was refused; VKS_FULL: VKS_SLOTS handles share it. */
vks_status vks_surface_open(vks_device *device, const vks_surface_info *info, int page_fd, int semaphore_fd,
                            vks_surface **out);
/* Another handle on the same device, as a party of its own. `info` describes the same image, or the
 * same pixels. The new handle uses the page, the mapping and the semaphore of `of`, which may be
 * closed first; nothing is exported, mapped or opened. VKS_UNSUPPORTED: a swapchain's image. */
vks_status vks_surface_alias(vks_surface *of, const vks_surface_info *info, vks_surface **out);
/* Duplicates of the fds for another party, CLOEXEC; the caller closes them. *semaphore_fd is -1
 * where there is none. The first call blocks until the submitted work on the surface has run,
 * because its image belongs to the queue until then. It also blocks while a present uses the queue
 * (VKS_TIMEOUT after 10 s). */
vks_status vks_surface_export(vks_surface *surface, int *page_fd, int *semaphore_fd);
/* A duplicate of the page alone, for vks_page_inspect(). It does not count as an export. The caller
 * closes it. VKS_UNSUPPORTED: a swapchain's image. */
vks_status vks_surface_page(const vks_surface *surface, int *page_fd);
/* Set once, before the first submit. A surface is created before its command buffers can be
 * recorded. */
void vks_surface_set_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
/* The same two command buffers, recorded for the family of the device's transfer queue. Such images
 * are VK_SHARING_MODE_CONCURRENT. */
void vks_surface_set_transfer_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands);
/* Set once, before the first use and the first export of a new surface whose image belongs to the
 * queue, in a layout of the engine's: the barrier from that layout to GENERAL, which is submitted
 * before the first use. Without it the image belongs to VK_QUEUE_FAMILY_EXTERNAL in GENERAL. */
void vks_surface_set_initial_commands(vks_surface *surface, uint64_t initial_commands);
void vks_surface_ref(vks_surface *surface);
void vks_surface_unref(vks_surface *surface);
/* Abandons the surface if this handle owns it (K7), and cancels the operations that are held on it.
 * Returns the serial that must complete before the image may be destroyed. Blocks for some 10 s at
 * most, until the work of this handle has run, an external API's included; no party can acquire the
 * surface before. */
uint64_t vks_surface_close(vks_surface *surface);
/* The first half of a close, which several surfaces can share under one deadline: waits until held
 * work behind a release of this handle is submitted. A plain close allows half a second for each
 * surface. vks_surface_close_now() is the other half. */
void vks_surface_finish_releases(vks_surface *surface, uint64_t deadline);
uint64_t vks_surface_close_now(vks_surface *surface);
vks_device *vks_surface_device(const vks_surface *surface);
bool vks_surface_is_closed(const vks_surface *surface);
bool vks_surface_is_owned(const vks_surface *surface);
bool vks_surface_discards(const vks_surface *surface);
/* Owned, or a mode="gpu" acquire is pending: submissions are allowed. */
bool vks_surface_may_submit(const vks_surface *surface);
uint32_t vks_surface_generation(const vks_surface *surface);
/* The meaning of the codes, as the surface was made. General statuses only. */
vks_status vks_surface_get_color(const vks_surface *surface, vks_color *out);

/* A turn, for mirrors (docs/spec/protocol.md, "Damage"). */
typedef struct vks_turn {
    uint64_t writes; /* grows with each submission of the handle that may write; writes of the CPU do not count */
    uint64_t epoch;  /* of the release that this turn follows; that of its own release is one more */
    bool is_granted; /* false: a mode="gpu" acquire is pending, and nothing below or in `epoch` is known */
    bool is_known;   /* `changed` has all that turns after the given epoch changed; false: perhaps everything */
    vks_box changed;
} vks_turn;

/* Says that this turn changes nothing outside the box; of several boxes of a turn, the last one counts.
 * Without it a turn may change all. VKS_BAD_VALUE: not inside the surface. VKS_NOT_OWNER, also while a
 * mode="gpu" acquire is pending. */
vks_status vks_surface_set_damage(vks_surface *surface, const vks_box *box);
/* VKS_NOT_OWNER: neither owned nor pending. */
vks_status vks_surface_get_turn(vks_surface *surface, uint64_t since, vks_turn *out);

/* Blocks. VKS_ALREADY_OWNER at once (K3). */
vks_status vks_surface_acquire(vks_surface *surface, uint64_t key, uint64_t deadline);
/* The same in two parts, for callers that hold a lock at first. try_acquire spins for some 2 us and
 * never sleeps; after VKS_TIMEOUT the caller continues with acquire_blocking. Only acquire_blocking
 * detects owners that have died. */
vks_status vks_surface_try_acquire(vks_surface *surface, uint64_t key);
vks_status vks_surface_acquire_blocking(vks_surface *surface, uint64_t key, uint64_t deadline);
/* mode="gpu": returns at once. *work is the held acquire (a reference), or NULL if the acquire was
 * granted at once. VKS_ALREADY_OWNER, VKS_ABANDONED. */
vks_status vks_surface_acquire_gpu(vks_surface *surface, uint64_t key, vks_work **work);
/* For acquire_async. poll: VKS_OK: granted. VKS_TIMEOUT: not yet. Another status: it failed. cancel
 * returns VKS_OK if the acquire was granted first. */
vks_status vks_work_poll(vks_work *work);
vks_status vks_work_cancel(vks_work *work);
vks_status vks_work_notify(vks_work *work, vks_event_queue *event_queue, uint64_t token);
/* For an event loop: *fd is readable while an acquire with `key` and deadline 0 would not return
 * VKS_TIMEOUT, and not while this handle owns the surface or is about to. The first call for a key
 * makes the fd; the surface owns it until close_acquire_fd or its last unref. Use it only to poll.
 * A close, a loss and a death make it readable, and the acquire reports them. If another handle
 * acquires first, the fd stays readable until the next acquire of this one fails. VKS_BAD_CALL: a
 * surface of a queue or a swapchain. */
vks_status vks_surface_acquire_fd(vks_surface *surface, uint64_t key, int *fd);
void vks_surface_close_acquire_fd(vks_surface *surface, uint64_t key); /* of any key; no effect if it has none */
/* Releases the surface under a key, as DXGI's ReleaseSync does: the next acquire with this key gets
 * it. VKS_NOT_OWNER; VKS_ABANDONED: earlier work in the chain of owners failed. */
vks_status vks_surface_release(vks_surface *surface, uint64_t key);
/* Takes ownership of an abandoned surface. Blocks until the pending values of live parties have
 * completed. VKS_NOT_ABANDONED: another handle has recovered it, or it never was abandoned. An
 * owner whose wait point can never complete gives its ownership up first. */
vks_status vks_surface_recover(vks_surface *surface, uint64_t deadline);
/* Blocks until the CPU may access the pixels: the surface is owned, and the previous owner's work
 * and this handle's own have run. VKS_TIMEOUT, VKS_NOT_OWNER, VKS_ABANDONED. */
vks_status vks_surface_cpu_access(vks_surface *surface, uint64_t deadline);
/* Returns a key one above the last one that it returned to any handle of the surface. The first is
 * 1 (K30). */
uint64_t vks_surface_next_key(vks_surface *surface);

typedef struct vks_semaphore_point {
    uint64_t semaphore, value;
} vks_semaphore_point;
/* For an engine's own vkQueueSubmit2. Submits the acquire to the queue, and returns the point that
 * the engine must wait for and the point that it must signal. The engine must submit that signal
 * before it calls release. Blocks until the previous owner's release is submitted and, where
 * semaphores are not shared, has run. VKS_NOT_OWNER, VKS_TIMEOUT; VKS_UNSUPPORTED: the CPU backend,
 * or work of this owner on the surface is held.
 * `signal` NULL: the engine submits to the device's own queue after this call, and leaves the image in
 * layout GENERAL. Then it needs neither point, because the acquire, or the release of the engine's turn
 * before, is a barrier for all that follows it there, and the release comes later. */
vks_status vks_surface_sync(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                            vks_semaphore_point *signal);

/* For another API of the same GPU (OpenGL) that is ordered by binary semaphores (VkSemaphore). The
 * surface is owned.
 *
 *  - release_to_external: releases the image to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL and
 *    signals `semaphore`, after all earlier submissions. Blocks until the previous owner's work has
 *    run where parties do not share semaphores.
 *  - acquire_from_external: the queue waits for `semaphore`, whose signal must have been submitted
 *    (0: the CPU has waited), and acquires the image. Later submissions, and the release, come
 *    after it.
 *
 * Each call is one immediate submission, and the two alternate. Both block while a present uses the
 * queue (VKS_TIMEOUT after 10 s). Vulkan only.
 */
vks_status vks_surface_release_to_external(vks_surface *surface, uint64_t deadline, uint64_t semaphore);
vks_status vks_surface_acquire_from_external(vks_surface *surface, uint64_t semaphore);
/* For another API of the same GPU that imported the surface's semaphore (CUDA). The surface is
 * owned.
 *
 *  - external_begin: *value is the value that the API's queue must wait for before its work (0:
 *    none). Blocks until that wait is certain to end. A batch of this device signals the value if
 *    the device's commands came first in this ownership, or if the CPU may have written
 *    (`after_cpu`: queues of other APIs do not see host writes otherwise); else no batch is
 *    submitted. Until external_end, commands of this device are refused (VKS_NOT_OWNER).
 *  - external_signal_value: *value is the value that the API's queue must signal after its work.
 *    From now on other parties, and close(), wait for it.
 *  - external_end: that signal is queued with the API. The ownership continues: later commands, and
 *    the next owner's work, come after the API's work. With 0 the API signals nothing.
 *  - external_lost: the API's context is lost (a CUDA error that ends it). Marks the surface
 *    abandoned: pending waits fail and the next acquire returns VKS_ABANDONED.
 *
 * VKS_UNSUPPORTED: the surface was never exported, or has no timeline semaphore.
 */
vks_status vks_surface_external_begin(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value);
vks_status vks_surface_external_signal_value(vks_surface *surface, uint64_t *value);
vks_status vks_surface_external_end(vks_surface *surface, uint64_t value);
vks_status vks_surface_external_lost(vks_surface *surface);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
