/* mailbox.h: the newest tick, from one who tells it to one who is told. Newest wins: there is no queue (V8). It may lie in
 * memory that two processes share (V18): neither side believes the other's words, and neither waits for the other.
 */
#ifndef VKS_MAILBOX_H
#define VKS_MAILBOX_H

#include <stdatomic.h>

#include "vsync/tick_clock.h"

typedef struct vks_mailbox {
    _Atomic uint32_t state;     /* vks_mailbox_state; the futex of the one who is told */
    _Atomic uint32_t sequence; /* odd while a tick is being written */
    _Atomic uint64_t tick[6];
    _Atomic uint32_t wanted; /* 1: the one who is told wants to be; the futex of the other */
    _Atomic uint32_t reserved;
    _Atomic uint64_t reader; /* the identity (platform.h) of the process that is told; 0: the same, or nobody yet */
} vks_mailbox;

typedef enum vks_mailbox_state {
    VKS_MAILBOX_EMPTY,
    VKS_MAILBOX_AWAITED, /* and somebody sleeps on the word */
    VKS_MAILBOX_FULL,
    VKS_MAILBOX_CLOSED
} vks_mailbox_state;

/* ---- of the one who tells; one thread at a time ---- */

/* Puts the tick in place of the one before. True: that one was taken, so the reader is to be woken by other means than
 * the futex, too (an eventfd). */
bool vks_mailbox_post(vks_mailbox *mailbox, const vks_tick *tick);
void vks_mailbox_retract(vks_mailbox *mailbox); /* takes back what was not taken */
void vks_mailbox_close(vks_mailbox *mailbox);   /* nothing will come any more */
void vks_mailbox_reopen(vks_mailbox *mailbox);  /* or it will, after all */

/* ---- of the one who is told ---- */

/* Takes the newest tick. VKS_TIMEOUT: there is none (or its writer died in the middle of it); VKS_CLOSED. */
vks_status vks_mailbox_take(vks_mailbox *mailbox, vks_tick *out);
/* Sleeps until there is one, until vks_mailbox_wake(), or until `deadline`, if `changes` still is `expected` once the
 * others can see that somebody sleeps. VKS_OK does not say that there is one. */
vks_status vks_mailbox_sleep(vks_mailbox *mailbox, const _Atomic uint32_t *changes, uint32_t expected, uint64_t deadline);
void vks_mailbox_wake(vks_mailbox *mailbox);
void vks_mailbox_set_wanted(vks_mailbox *mailbox, bool wanted);

#endif
