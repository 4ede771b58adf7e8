/* peers.h: who is alive. Peers are watched through pidfds (X19) by one service thread; a death is told to every page
 * that this process has mapped.
 *
 * Detection is on demand: whoever goes to sleep on a page, or keeps work back for it, asks about the page's parties
 * first (vks_peers_watch_page), and from then on hears of their deaths.
 */
#ifndef VKS_PEERS_H
#define VKS_PEERS_H

#include "mutex_page.h"

/* A page that this process has mapped and a death must be told to. */
typedef struct vks_mapping {
    struct vks_mapping *next, *previous;
    vks_mutex_page *mutex;                        /* or */
    const vks_fence_page *fence;                  /* or */
    struct vks_queue_page *queue;                 /* or */
    const _Atomic uint64_t *party;                /* no page's: one identity, that told() is to hear of */
    void (*refresh)(struct vks_mapping *mapping); /* or NULL: raises `completed` to what the GPU itself says, before a
                                                     death is judged by it */
    void (*on_death)(void *user); /* after a death was handled; called by the service thread, without locks held */
    void *user;
    _Atomic uint32_t join_count; /* the page's roster when its parties were last looked at */
    _Atomic uint64_t watched; /* of a queue: the other end's word, once its process is watched. That process may close
                                 the end and die before it wakes this one */
} vks_mapping;

void vks_peers_add(vks_mapping *mapping);
/* When this returns, told() runs no more and will not again. */
void vks_peers_remove(vks_mapping *mapping);

/* True while the process of this identity lives. False is final. From the first call on the process is watched, for as
 * long as a mapping names it. */
bool vks_peer_alive(uint64_t identity);
/* A death in one mutex page. */
void vks_peers_mark_dead(vks_mapping *mapping, uint64_t process);
/* Every party of a mutex page is watched after this; those that are dead already are handled. Cheap when nobody joined
 * since. VKS_OS_ERROR: there is no thread that would hear of a death, so nobody may sleep on the page for long. */
vks_status vks_peers_watch_page(vks_mapping *mapping);

#endif
