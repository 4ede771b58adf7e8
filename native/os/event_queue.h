/* event_queue.h: see vkshare.h, "event queues". */
#ifndef VKS_EVENT_QUEUE_H
#define VKS_EVENT_QUEUE_H

#include "os/platform.h"

/* Callable from any thread; never blocks. */
void vks_event_queue_push(vks_event_queue *event_queue, uint64_t token, vks_status result);

#endif
