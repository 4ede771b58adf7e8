/* trace_points.h: the records of surfaces; see native/device/trace_points.h. A call that ended with
 * VKS_INTERRUPTED writes nothing: the caller repeats it, and the record then has the time of the
 * first call. */
#ifndef VKS_SURFACE_TRACE_POINTS_H
#define VKS_SURFACE_TRACE_POINTS_H

#include "device/trace_points.h"
#include "surface/surface.h"

/* A failed test (`deadline` 0) is not recorded. The caller owns the surface if status is VKS_OK. */
void vks_traced_acquire(const vks_surface *surface, uint64_t key, uint64_t began, uint64_t deadline, vks_status status);
void vks_traced_grant(const vks_work *work); /* caller holds device->lock */
/* `value`: signalled by its work, 0: none; `epoch`: vks_surface_epoch_after_release(), taken before
 * the release. */
void vks_traced_release(const vks_surface *surface, uint64_t key, uint64_t value, uint64_t epoch, uint64_t began,
                        vks_status status);
void vks_traced_surface(vks_trace_kind kind, const vks_surface *surface, uint64_t began, uint64_t deadline,
                        vks_status status);
static inline uint64_t vks_trace_epoch(const vks_surface *surface) /* of an owned surface */
{
    return vks_word_epoch(atomic_load_explicit(&surface->handle.page->word, memory_order_relaxed));
}

#endif
