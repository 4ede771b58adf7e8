/* work_ring.h: a ring buffer for a client's render requests, from the server's loop to the client's
 * rendering thread and back.
 *
 * The model is the hand-off of the multi-rendering X server: the loop fills a command structure and
 * posts a semaphore, on which the rendering thread sleeps. The same structure returns with its
 * result, and an event queue's eventfd in the loop's poll set reports it (rules R2, R3). No thread
 * takes a lock.
 *
 * Single producer, single consumer: the loop calls give, collect and close, the rendering thread
 * take and done. Requests and results are opaque pointers. */
#ifndef VKS_WORK_RING_H
#define VKS_WORK_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

/* Capacity: 64 requests that cannot fail (R6), one that can fail behind them, and one that ends the
 * thread. */
#define VKS_WORK_RING_CAPACITY 66u

typedef struct vks_command {
    void *request;
    void *result; /* set by vks_work_ring_done() */
} vks_command;

typedef struct vks_work_ring vks_work_ring;

/* Each completion puts `token` into the event queue. It is the client's generation, so that
 * completions of a client that has disconnected can be dropped (R14). */
vks_status vks_work_ring_create(vks_event_queue *event_queue, uint64_t token, vks_work_ring **out);
/* Call after both threads have stopped using it. The caller first takes the remaining commands:
 * collect() returns completed ones, drop() the others. */
void vks_work_ring_destroy(vks_work_ring *ring);

/* Loop. Never blocks. VKS_FULL: the ring holds VKS_WORK_RING_CAPACITY commands; VKS_CLOSED;
 * VKS_FORKED. */
vks_status vks_work_ring_give(vks_work_ring *ring, void *request);
/* Loop. Returns the next completed command, in the order of give(). False: there is none. */
bool vks_work_ring_collect(vks_work_ring *ring, vks_command *out);
/* Loop. Ends the transfer: take() returns VKS_CLOSED, also for commands that were not taken.
 * Idempotent. */
void vks_work_ring_close(vks_work_ring *ring);
/* Loop, after close() and the rendering thread's leave(). Returns the next request that was not
 * completed. False: there is none. */
bool vks_work_ring_drop(vks_work_ring *ring, void **request);

/* Rendering thread. Blocks until there is a command. VKS_CLOSED, VKS_INTERRUPTED, VKS_FORKED. */
vks_status vks_work_ring_take(vks_work_ring *ring, void **request);
/* Rendering thread. Completes the command that was taken, and notifies the loop. */
void vks_work_ring_done(vks_work_ring *ring, void *result);
/* Rendering thread. Announces its exit to the loop, by the token without a command. */
void vks_work_ring_leave(vks_work_ring *ring);
bool vks_work_ring_has_left(const vks_work_ring *ring);

#pragma GCC visibility pop

#endif
