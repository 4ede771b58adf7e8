/* trace_points.h: the records of devices and batches. Each function is called at the end of an
 * event, with its start time (vks_trace_begin()), through VKS_TRACE() alone, so never when tracing
 * is off. */
#ifndef VKS_DEVICE_TRACE_POINTS_H
#define VKS_DEVICE_TRACE_POINTS_H

#include "device/device.h"
#include "os/trace.h"

void vks_traced_device(const vks_device *device);
/* `work`: the number of the held operation, 0: it was not held. */
void vks_traced_batch(const vks_device *device, const vks_batch *batch, uint64_t work, uint64_t began,
                      vks_status status);
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
