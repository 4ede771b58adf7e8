/* mailbox.h: a one-slot mailbox for ticks: the latest value replaces the previous one, and there is
 * no queue (V8). It may lie in memory that two processes share (V18): neither side trusts the
 * other's values, and neither waits for the other. */
#ifndef VKS_MAILBOX_H
#define VKS_MAILBOX_H

#include <stdatomic.h>

#include "vsync/tick_clock.h"

struct vks_mailbox {
    _Atomic uint32_t state;    /* vks_mailbox_state; the reader's futex */
    _Atomic uint32_t sequence; /* odd while a tick is being written */
    _Atomic uint64_t tick[6];
    _Atomic uint32_t wanted; /* 1: the reader wants ticks; the writer's futex */
    _Atomic uint32_t reserved;
    _Atomic uint64_t reader; /* identity (platform.h) of the reader's process; 0: the writer's own, or no reader yet */
};

typedef enum vks_mailbox_state {
    VKS_MAILBOX_EMPTY,
    VKS_MAILBOX_AWAITED, /* a reader sleeps on `state` */
    VKS_MAILBOX_FULL,
    VKS_MAILBOX_CLOSED
} vks_mailbox_state;

/* ---- the writer; one thread at a time ---- */

/* Replaces the previous tick. True: the mailbox held none, so the caller must also wake readers
 * that do not sleep on the futex (by an eventfd). */
bool vks_mailbox_post(vks_mailbox *mailbox, const vks_tick *tick);
void vks_mailbox_retract(vks_mailbox *mailbox); /* removes a tick that was not taken */
void vks_mailbox_close(vks_mailbox *mailbox);   /* no tick follows */
void vks_mailbox_reopen(vks_mailbox *mailbox);  /* ends a close: ticks follow again */

/* ---- the reader ---- */

/* Takes the newest tick. VKS_TIMEOUT: there is none (or its writer died during the write);
 * VKS_CLOSED. */
vks_status vks_mailbox_take(vks_mailbox *mailbox, vks_tick *out);
/* Sleeps until a tick, vks_mailbox_wake() or `deadline`. Returns at once if `changes` differs from
 * `expected` after `state` shows the sleeper. VKS_OK does not mean that there is a tick. */
vks_status vks_mailbox_sleep(vks_mailbox *mailbox, const _Atomic uint32_t *changes, uint32_t expected,
                             uint64_t deadline);
void vks_mailbox_wake(vks_mailbox *mailbox); /* ends a sleep without a tick */
/* Says whether the reader wants ticks, and wakes a writer that waits until it does. */
void vks_mailbox_set_wanted(vks_mailbox *mailbox, bool wanted);

#endif
