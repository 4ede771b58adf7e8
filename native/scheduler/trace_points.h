/* trace_points.h: the records of the core's trace points. Each function is called at the end of an
 * event, with its start time (vks_trace_begin()), through VKS_TRACE() alone, so never when tracing
 * is off. A call that ended with VKS_INTERRUPTED writes nothing: the caller repeats it, and the
 * record then has the time of the first call. */
#ifndef VKS_TRACE_POINTS_H
#define VKS_TRACE_POINTS_H

#include "device/device.h"
#include "os/trace.h"

void vks_traced_device(const vks_device *device);
/* A failed test (`deadline` 0) is not recorded. The caller owns the surface if status is VKS_OK. */
void vks_traced_acquire(const vks_surface *surface, uint64_t key, uint64_t began, uint64_t deadline, vks_status status);
void vks_traced_grant(const vks_work *op); /* caller holds device->lock */
/* `value`: signalled by its work, 0: none; `epoch`: vks_surface_epoch_after_release(), taken before
 * the release. */
void vks_traced_release(const vks_surface *surface, uint64_t key, uint64_t value, uint64_t epoch, uint64_t began,
                        vks_status status);
void vks_traced_surface(vks_trace_kind kind, const vks_surface *surface, uint64_t began, uint64_t deadline,
                        vks_status status);
void vks_traced_fence(vks_trace_kind kind, const vks_fence *fence, uint64_t value, uint64_t began, vks_status status);
void vks_traced_submit(const vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                       const vks_submission *submission, uint64_t began, vks_status status);
void vks_traced_batch(const vks_device *device, const vks_batch *batch, uint64_t work, uint64_t began,
                      vks_status status);
/* Caller holds device->lock. */
void vks_traced_run(const vks_device *device, uint64_t serial, uint64_t began, bool ran);
void vks_traced_hold(vks_work *op); /* caller holds device->lock; vks_traced_let_go ends the span */
void vks_traced_let_go(const vks_work *op, vks_status why); /* caller holds device->lock */
/* `page` is the queue's. `epoch` as above; for a dequeue, the epoch under which the surface is
 * owned. */
typedef struct vks_queue_page vks_queue_page;
void vks_traced_queue(vks_trace_kind kind, const vks_queue_page *page, const vks_surface *surface, uint64_t epoch,
                      uint64_t began, vks_status status);
static inline uint64_t vks_trace_epoch(const vks_surface *surface) /* of an owned surface */
{
    return vks_word_epoch(atomic_load_explicit(&surface->handle.page->word, memory_order_relaxed));
}

/* If tracing is on, adds a completion that records when the batch `serial` has run. It comes after
 * the completions for which room was reserved. Without room for it, the trace lacks the end of that
 * work. */
void vks_traced_completion(vks_device *device, uint64_t serial);
static inline void vks_trace_completion(vks_device *device, uint64_t serial)
{
    if (vks_tracing())
        vks_traced_completion(device, serial);
}

#endif
