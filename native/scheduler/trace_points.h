/* trace_points.h: the records of held operations; see native/device/trace_points.h. Caller holds
 * device->lock. */
#ifndef VKS_SCHEDULER_TRACE_POINTS_H
#define VKS_SCHEDULER_TRACE_POINTS_H

#include "device/trace_points.h"
#include "scheduler/scheduler.h"

void vks_traced_hold(vks_work *work); /* vks_traced_let_go ends the span */
void vks_traced_let_go(const vks_work *work, vks_status why);

#endif
