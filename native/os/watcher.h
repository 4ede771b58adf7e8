/* watcher.h: one thread that sleeps on many futexes at once (futex_waitv), for held work and events
 * that depend on other parties' pages.
 *
 * Without futex_waitv (Linux before 5.16, or forbidden), or beyond 127 words, it polls the words
 * every millisecond; vkshare doctor reports this.
 */
#ifndef VKS_WATCHER_H
#define VKS_WATCHER_H

#include "os/platform.h"

typedef struct vks_watch {
    _Atomic uint32_t *word;
    uint32_t expected; /* fire when *word differs */
} vks_watch;

/* Starts the thread if it does not run yet. Call it before holding work that only the watcher can
 * resume. */
vks_status vks_watcher_start(void);
/* Replaces the words that `owner` watches; n == 0 ends it. The watcher thread calls fire(owner),
 * without locks held, at most once for each call of vks_watcher_set, when it finds a change; the
 * owner checks its state and sets again. Cheap when nothing is watched and n == 0. */
vks_status vks_watcher_set(void *owner, void (*fire)(void *owner), const vks_watch *words, size_t n);
/* When this returns, fire(owner) no longer runs (unless fire itself calls this), and the words may
 * be unmapped. */
void vks_watcher_remove(void *owner);

#endif
