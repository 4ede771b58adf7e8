/* hand_off.h: a client's render requests on their way from the loop to its rendering thread, and back.
 *
 * The model is the hand-off of the multi-rendering X server: the loop fills in one command structure and posts one
 * semaphore, on which the rendering thread sleeps; the same structure comes back with its result, and the loop hears of
 * it through an eventfd, the hub's, that stands in its poll set (rules R2, R3). Nobody takes a lock.
 *
 * Two threads use a hand-off: the loop calls give, collect and close, the rendering thread take and done. What a
 * command and a result are, the caller knows: they are handed through as they are.
 */
#ifndef VKS_HAND_OFF_H
#define VKS_HAND_OFF_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* Commands that are out at a time: 64 that cannot fail (R6), one that can fail behind them, and one to end it all. */
#define VKS_HAND_OFF_MOST 66u

typedef struct vks_command {
    void *request;
    void *result; /* set by vks_hand_off_done() */
} vks_command;

typedef struct vks_hand_off vks_hand_off;

/* `token` goes into the hub with each completion: the client's generation, by which that of a client that is gone is
 * dropped (R14). */
vks_status vks_hand_off_create(vks_event_queue *event_queue, uint64_t token, vks_hand_off **out);
/* Both threads have left. Commands that were not collected are the caller's: collect() gives those that are done,
 * drop() the others. */
void vks_hand_off_destroy(vks_hand_off *hand_off);

/* Loop. Never blocks. VKS_FULL: VKS_HAND_OFF_MOST are out; VKS_CLOSED; VKS_FORKED. */
vks_status vks_hand_off_give(vks_hand_off *hand_off, void *request);
/* Loop. The next command that is done, in the order in which they were given; false: none is. */
bool vks_hand_off_collect(vks_hand_off *hand_off, vks_command *out);
/* Loop. No more is given, and what was not taken yet never will be: take() answers VKS_CLOSED. Idempotent. */
void vks_hand_off_close(vks_hand_off *hand_off);
/* After close(), once the rendering thread has left: the next request that was given and not done; false: none. */
bool vks_hand_off_drop(vks_hand_off *hand_off, void **request);

/* Rendering thread. Blocks until there is a command. VKS_CLOSED, VKS_INTERRUPTED, VKS_FORKED. */
vks_status vks_hand_off_take(vks_hand_off *hand_off, void **request);
/* Rendering thread. The command that was taken is done: the loop is told. */
void vks_hand_off_done(vks_hand_off *hand_off, void *result);
/* Rendering thread. It leaves: the loop is told once more, with no command. */
void vks_hand_off_leave(vks_hand_off *hand_off);
bool vks_hand_off_has_left(const vks_hand_off *hand_off);

#endif
