/* trace_points.h: the records of queues; see native/surface/trace_points.h. */
#ifndef VKS_QUEUE_TRACE_POINTS_H
#define VKS_QUEUE_TRACE_POINTS_H

#include "shm/queue_page.h"
#include "surface/trace_points.h"

/* `page` is the queue's. `epoch`: see vks_traced_release(); for a dequeue, the epoch under which
 * the surface is owned. */
void vks_traced_queue(vks_trace_kind kind, const vks_queue_page *page, const vks_surface *surface, uint64_t epoch,
                      uint64_t began, vks_status status);

#endif
