/* trace_points.h: the records of fences; see native/device/trace_points.h. */
#ifndef VKS_FENCE_TRACE_POINTS_H
#define VKS_FENCE_TRACE_POINTS_H

#include "device/trace_points.h"
#include "fence/fence.h"

/* A wait or a signal. A call that ended with VKS_INTERRUPTED writes nothing: the caller repeats it,
 * and the record then has the time of the first call. */
void vks_traced_fence(vks_trace_kind kind, const vks_fence *fence, uint64_t value, uint64_t began, vks_status status);

#endif
