/* watcher.h: one thread that sleeps on many futexes at once (futex_waitv), for held work and events that depend on
 * other parties' pages.
 *
 * Without futex_waitv (Linux before 5.16, or forbidden), or past 127 words, the words are looked at every millisecond:
 * vkshare doctor tells.
 */
#ifndef VKS_WATCHER_H
#define VKS_WATCHER_H

#include "platform.h"

typedef struct vks_watch {
    _Atomic uint32_t *word;
    uint32_t expected; /* fire when *word is something else */
} vks_watch;

/* Starts the thread if it does not run yet: asked before something is kept back that only the watcher would bring on.
 */
vks_status vks_watcher_start(void);
/* Replaces what `owner` watches; n == 0 ends it. fire(owner) is called by the watcher thread without locks held, once
 * for each call of vks_watcher_set that found a change: the owner looks, and sets again. Cheap when nothing is watched
 * and n == 0. */
vks_status vks_watcher_set(void *owner, void (*fire)(void *owner), const vks_watch *words, size_t n);
/* When this returns, fire(owner) runs no more (unless it is fire itself that calls) and the words may be unmapped. */
void vks_watcher_remove(void *owner);

#endif
