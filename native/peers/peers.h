/* peers.h: liveness of other processes. One service thread watches the peers through pidfds (X19)
 * and reports each death to every page that this process has mapped.
 *
 * Detection is on demand: a thread that is about to sleep on a page, or to hold work for it, calls
 * vks_peers_watch_page first; from then on it is notified of the parties' deaths.
 */
#ifndef VKS_PEERS_H
#define VKS_PEERS_H

#include "shm/mutex_page.h"

/* A page that this process has mapped, and whose parties are watched. */
typedef struct vks_mapping {
    struct vks_mapping *next, *previous;
    vks_mutex_page *mutex;         /* or */
    const vks_fence_page *fence;   /* or */
    struct vks_queue_page *queue;  /* or */
    const _Atomic uint64_t *party; /* no page: one identity to watch */
    /* Raises `completed` to the GPU's value before a death is handled; may be NULL. */
    void (*refresh)(struct vks_mapping *mapping);
    void (*on_death)(void *user); /* called by the service thread after it handled a death, without locks held */
    void *user;
    _Atomic uint32_t join_count; /* the page's join count when its parties were last checked */
    /* Queues: the other end's word, once its process is watched, because that process may close the
     * end and die before it wakes this one. */
    _Atomic uint64_t watched;
} vks_mapping;

void vks_peers_add(vks_mapping *mapping);
/* When this returns, on_death() no longer runs and will not run again. */
void vks_peers_remove(vks_mapping *mapping);

/* Returns whether the process of this identity is alive. False is final. The first call starts to
 * watch the process, for as long as a mapping names it. */
bool vks_peer_alive(uint64_t identity);
/* Handles a death in one mutex page. */
void vks_peers_mark_dead(vks_mapping *mapping, uint64_t process);
/* Starts to watch every party of a mutex page, and handles deaths that already happened. Cheap when
 * no party joined since. VKS_OS_ERROR: no thread could be started to watch, so callers must not
 * sleep long on the page. */
vks_status vks_peers_watch_page(vks_mapping *mapping);

#endif
