/* trace_points.h: what the core's trace points write. Each is called where something ended, with the time when it began
 * (vks_trace_begin()), by VKS_TRACE() alone: never where nobody traces. A call that ended with VKS_INTERRUPTED writes
 * nothing: it is made again, and the record has the time when it was made first. */
#ifndef VKS_TRACE_POINTS_H
#define VKS_TRACE_POINTS_H

#include "device.h"
#include "trace.h"

void vks_traced_device(const vks_device *device);
/* A look (`deadline` 0) that found nothing is not worth a record. The caller owns the surface if status is VKS_OK. */
void vks_traced_acquire(const vks_surface *surface, uint64_t key, uint64_t began, uint64_t deadline, vks_status status);
void vks_traced_grant(const vks_work *op); /* under the lock */
/* `value`: that its work brings, 0: none; `epoch`: vks_surface_epoch_after_release(), from before. */
void vks_traced_release(const vks_surface *surface, uint64_t key, uint64_t value, uint64_t epoch, uint64_t began,
                        vks_status status);
void vks_traced_surface(vks_trace_kind kind, const vks_surface *surface, uint64_t began, uint64_t deadline,
                        vks_status status);
void vks_traced_fence(vks_trace_kind kind, const vks_fence *fence, uint64_t value, uint64_t began, vks_status status);
void vks_traced_submit(const vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                       const vks_submission *submission, uint64_t began, vks_status status);
void vks_traced_batch(const vks_device *device, const vks_batch *batch, uint64_t work, uint64_t began,
                      vks_status status);
void vks_traced_run(const vks_device *device, uint64_t serial, uint64_t began, bool ran); /* under the lock */
void vks_traced_hold(vks_work *op);                         /* under the lock; begins what the next one ends */
void vks_traced_let_go(const vks_work *op, vks_status why); /* under the lock */
/* `page` is the queue's; `epoch` as above, or for a dequeue the one that the surface is owned under. */
typedef struct vks_queue_page vks_queue_page;
void vks_traced_queue(vks_trace_kind kind, const vks_queue_page *page, const vks_surface *surface, uint64_t epoch,
                      uint64_t began, vks_status status);
static inline uint64_t vks_trace_epoch(const vks_surface *surface) /* of an owned surface */
{
    return vks_word_epoch(atomic_load_explicit(&surface->handle.page->word, memory_order_relaxed));
}

/* One more due where somebody traces: that the batch `serial` has run. After those for which room was reserved; without
 * room for this one the trace has no end of that work, and nobody else is the worse. */
void vks_traced_completion(vks_device *device, uint64_t serial);
static inline void vks_trace_completion(vks_device *device, uint64_t serial)
{
    if (vks_tracing())
        vks_traced_completion(device, serial);
}

#endif
