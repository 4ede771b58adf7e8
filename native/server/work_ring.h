/* work_ring.h: a client's render requests on their way from the loop to its rendering thread, and back.
 *
 * The model is the hand-off of the multi-rendering X server: the loop fills in one command structure and posts one
 * semaphore, on which the rendering thread sleeps; the same structure comes back with its result, and the loop hears of
 * it through an eventfd, the hub's, that stands in its poll set (rules R2, R3). Nobody takes a lock.
 *
 * Two threads use a hand-off: the loop calls give, collect and close, the rendering thread take and done. What a
 * command and a result are, the caller knows: they are handed through as they are.
 */
#ifndef VKS_WORK_RING_H
#define VKS_WORK_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* Commands that are out at a time: 64 that cannot fail (R6), one that can fail behind them, and one to end it all. */
#define VKS_WORK_RING_CAPACITY 66u

typedef struct vks_command {
    void *request;
    void *result; /* set by vks_work_ring_done() */
} vks_command;

typedef struct vks_work_ring vks_work_ring;

/* `token` goes into the hub with each completion: the client's generation, by which that of a client that is gone is
 * dropped (R14). */
vks_status vks_work_ring_create(vks_event_queue *event_queue, uint64_t token, vks_work_ring **out);
/* Both threads have left. Commands that were not collected are the caller's: collect() gives those that are done,
 * drop() the others. */
void vks_work_ring_destroy(vks_work_ring *hand_off);

/* Loop. Never blocks. VKS_FULL: VKS_WORK_RING_CAPACITY are out; VKS_CLOSED; VKS_FORKED. */
vks_status vks_work_ring_give(vks_work_ring *hand_off, void *request);
/* Loop. The next command that is done, in the order in which they were given; false: none is. */
bool vks_work_ring_collect(vks_work_ring *hand_off, vks_command *out);
/* Loop. No more is given, and what was not taken yet never will be: take() answers VKS_CLOSED. Idempotent. */
void vks_work_ring_close(vks_work_ring *hand_off);
/* After close(), once the rendering thread has left: the next request that was given and not done; false: none. */
bool vks_work_ring_drop(vks_work_ring *hand_off, void **request);

/* Rendering thread. Blocks until there is a command. VKS_CLOSED, VKS_INTERRUPTED, VKS_FORKED. */
vks_status vks_work_ring_take(vks_work_ring *hand_off, void **request);
/* Rendering thread. The command that was taken is done: the loop is told. */
void vks_work_ring_done(vks_work_ring *hand_off, void *result);
/* Rendering thread. It leaves: the loop is told once more, with no command. */
void vks_work_ring_leave(vks_work_ring *hand_off);
bool vks_work_ring_has_left(const vks_work_ring *hand_off);

#endif
