/* mail.h: the newest tick, from one who tells it to one who is told. Newest wins: there is no queue (V8). It may lie in
 * memory that two processes share (V18): neither side believes the other's words, and neither waits for the other.
 */
#ifndef VKS_MAIL_H
#define VKS_MAIL_H

#include <stdatomic.h>

#include "vsync/ticker.h"

typedef struct vks_mail {
    _Atomic uint32_t word;     /* vks_mail_word; the futex of the one who is told */
    _Atomic uint32_t sequence; /* odd while a tick is being written */
    _Atomic uint64_t tick[6];
    _Atomic uint32_t wanted; /* 1: the one who is told wants to be; the futex of the other */
    _Atomic uint32_t reserved;
    _Atomic uint64_t reader; /* the identity (platform.h) of the process that is told; 0: the same, or nobody yet */
} vks_mail;

typedef enum vks_mail_word {
    VKS_MAIL_NONE,
    VKS_MAIL_AWAITED, /* and somebody sleeps on the word */
    VKS_MAIL_TOLD,
    VKS_MAIL_CLOSED
} vks_mail_word;

/* ---- of the one who tells; one thread at a time ---- */

/* Puts the tick in place of the one before. True: that one was taken, so the reader is to be woken by other means than
 * the futex, too (an eventfd). */
bool vks_mail_post(vks_mail *mail, const vks_tick *tick);
void vks_mail_retract(vks_mail *mail); /* takes back what was not taken */
void vks_mail_close(vks_mail *mail);   /* nothing will come any more */
void vks_mail_reopen(vks_mail *mail);  /* or it will, after all */

/* ---- of the one who is told ---- */

/* Takes the newest tick. VKS_TIMEOUT: there is none (or its writer died in the middle of it); VKS_CLOSED. */
vks_status vks_mail_take(vks_mail *mail, vks_tick *out);
/* Sleeps until there is one, until vks_mail_rouse(), or until `deadline`, if `changes` still is `expected` once the
 * others can see that somebody sleeps. VKS_OK does not say that there is one. */
vks_status vks_mail_sleep(vks_mail *mail, const _Atomic uint32_t *changes, uint32_t expected, uint64_t deadline);
void vks_mail_rouse(vks_mail *mail);
void vks_mail_want(vks_mail *mail, bool wanted);

#endif
