#define _GNU_SOURCE
#include "peers.h"

#include "queue_page.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_MS 50 /* K9 asks for 200 */
/* Identities come from pages that other processes write: one that names living processes at will gets no more pidfds
 * than these, or a quarter of RLIMIT_NOFILE where that is less. */
#define MOST_PIDFDS 256u
#define FEW_PEERS 64u /* below that many records the unnamed ones may wait for the next close */

typedef struct peer {
    struct peer *next;
    uint64_t process; /* identity without incarnation */
    int pidfd;        /* -1 while none can be had, or all are used: the service thread looks every LOOK_MS then */
    bool dead;
} peer;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* the service thread is not telling anybody */
    peer *peers;
    vks_mapping *mappings;
    int epoll;         /* made by the service thread, as soon as there are fds for it */
    int kick;          /* an eventfd in it: a peer without a pidfd was added */
    uint32_t unpinned; /* peers without one */
    uint32_t n_pidfds;
    uint32_t n_peers, tidy_at; /* past so many peers those that no page names are looked for */
    bool started;
    vks_mapping *telling; /* the mapping whose told() runs now */
    vks_mapping *cursor;  /* the one after it */
    uintptr_t thread;
    pthread_t thread_id;
} service = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .epoll = -1, .kick = -1, .tidy_at = FEW_PEERS};

static void forget(void)
{
    for (peer *p = service.peers; p; p = p->next)
        if (p->pidfd >= 0)
            close(p->pidfd);
    if (service.epoll >= 0) {
        close(service.epoll);
        close(service.kick);
    }
    pthread_mutex_init(&service.lock, NULL);
    pthread_cond_init(&service.idle, NULL);
    service.peers = NULL; /* the list's memory stays with the parent's copy: freeing here is not fork-safe */
    service.mappings = NULL;
    service.telling = service.cursor = NULL;
    service.epoll = service.kick = -1;
    service.unpinned = service.n_pidfds = service.n_peers = 0;
    service.tidy_at = FEW_PEERS;
    service.started = false;
}

/* ---- telling ---- */

static bool mentions(const vks_mapping *mapping, uint64_t process)
{
    if (mapping->party)
        return (atomic_load(mapping->party) & VKS_IDENTITY_MASK) == process;
    if (mapping->fence)
        return (mapping->fence->owner & VKS_IDENTITY_MASK) == process;
    if (mapping->queue)
        return vks_end_process(atomic_load(&mapping->watched)) == process ||
               vks_end_process(atomic_load(&mapping->queue->ends[VKS_PRODUCER])) == process ||
               vks_end_process(atomic_load(&mapping->queue->ends[VKS_CONSUMER])) == process;
    for (uint32_t i = 0; i < VKS_SLOTS; i++)
        if ((atomic_load(&mapping->mutex->slots[i].identity) & VKS_IDENTITY_MASK) == process)
            return true;
    return false;
}

void vks_peers_mark_dead(vks_mapping *mapping, uint64_t process)
{
    if (mapping->refresh) /* a signal that was queued before the death still comes, and who would have told of it is
                             dead */
        mapping->refresh(mapping);
    vks_mutex_death(mapping->mutex, process);
}

/* Tells every mapping of a death: those that do not mention the dead find nothing to do. */
static void tell_all(uint64_t process)
{
    pthread_mutex_lock(&service.lock);
    for (vks_mapping *m = service.mappings; m; m = m->next)
        if (m->mutex)
            vks_peers_mark_dead(m, process);
        else if (m->queue)
            vks_queue_death(m->queue, process);
    /* told() may take a device's lock, under which others add and remove mappings: `cursor` is what removal keeps
     * valid. */
    service.cursor = service.mappings;
    while (service.cursor) {
        service.telling = service.cursor;
        service.cursor = service.telling->next;
        void (*on_death)(void *) = service.telling->on_death;
        void *user = service.telling->user;
        pthread_mutex_unlock(&service.lock);
        if (on_death)
            on_death(user);
        pthread_mutex_lock(&service.lock);
        service.telling = NULL;
        pthread_cond_broadcast(&service.idle);
    }
    pthread_mutex_unlock(&service.lock);
}

/* ---- looking ---- */

/* Under the lock. */
static bool open_epoll(void)
{
    if (service.epoll >= 0)
        return true;
    int epoll = epoll_create1(EPOLL_CLOEXEC), kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll >= 0 && kick >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, kick, &event) == 0) {
        service.epoll = epoll;
        service.kick = kick;
        return true;
    }
    if (epoll >= 0)
        close(epoll);
    if (kick >= 0)
        close(kick);
    return false;
}

/* Under the lock. */
static bool has_pidfds_left(void)
{
    struct rlimit limit;
    bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return service.n_pidfds < MOST_PIDFDS && (!is_known || service.n_pidfds < limit.rlim_cur / 4);
}

/* Under the lock. Opens a pidfd first and compares the start time after, so that a reused pid cannot pass. False: the
 * process is gone. */
static bool pin(peer *p)
{
    int pidfd = has_pidfds_left() ? vks_pidfd_open(vks_identity_pid(p->process)) : -1;
    if (vks_identity_gone(p->process)) {
        if (pidfd >= 0)
            close(pidfd);
        return false;
    }
    /* No pointer: the record may be freed between epoll_wait() and the lock. */
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = p->process};
    if (pidfd >= 0 && open_epoll() && epoll_ctl(service.epoll, EPOLL_CTL_ADD, pidfd, &event) == 0) {
        p->pidfd = pidfd;
        service.unpinned--;
        service.n_pidfds++;
    } else if (pidfd >= 0) {
        close(pidfd);
    }
    return true;
}

/* The process of one unpinned peer that has died, or 0. */
static uint64_t find_dead(void)
{
    uint64_t dead = 0;
    pthread_mutex_lock(&service.lock);
    for (peer *p = service.peers; p && !dead; p = p->next)
        if (p->pidfd < 0 && !p->dead && !pin(p)) {
            p->dead = true;
            service.unpinned--;
            dead = p->process;
        }
    pthread_mutex_unlock(&service.lock);
    return dead;
}

/* The process whose pidfd became readable, or 0. */
static uint64_t wait_for_death(void)
{
    pthread_mutex_lock(&service.lock);
    bool open = open_epoll();
    int epoll = service.epoll, kick = service.kick, limit = service.unpinned ? LOOK_MS : -1;
    pthread_mutex_unlock(&service.lock);
    struct epoll_event event = {0};
    int n = open ? epoll_wait(epoll, &event, 1, limit) : poll(NULL, 0, LOOK_MS);
    if (n > 0 && !event.data.u64) {
        uint64_t ignored;
        ssize_t got = read(kick, &ignored, sizeof ignored);
        (void)got;
    }
    return n > 0 ? event.data.u64 : 0;
}

/* Under the lock. */
static peer *find(uint64_t process)
{
    peer *p = service.peers;
    while (p && p->process != process)
        p = p->next;
    return p;
}

/* Under the lock. Closing alone leaves it in the epoll set for as long as a child that was forked has a copy. */
static void close_pidfd(peer *p)
{
    if (p->pidfd < 0)
        return;
    epoll_ctl(service.epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
    close(p->pidfd);
    p->pidfd = -1;
    service.n_pidfds--;
}

/* Under the lock. Forgets the peers, dead or alive, that no mapping names any more. */
static void drop_strangers(void)
{
    for (peer **link = &service.peers; *link;) {
        peer *p = *link;
        bool wanted = !service.started;
        for (vks_mapping *m = service.mappings; m && !wanted; m = m->next)
            wanted = mentions(m, p->process);
        if (wanted) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        if (p->pidfd < 0 && !p->dead)
            service.unpinned--;
        close_pidfd(p);
        service.n_peers--;
        free(p);
    }
    service.tidy_at = 2 * service.n_peers > FEW_PEERS ? 2 * service.n_peers : FEW_PEERS;
}

/* False: the record went meanwhile, as no page names that process any more. */
static bool note_death(uint64_t process)
{
    pthread_mutex_lock(&service.lock);
    peer *p = find(process);
    if (p) {
        p->dead = true;
        close_pidfd(p); /* the record stays while a page mentions the dead; an fd for each death would use up the
                           limit */
    }
    pthread_mutex_unlock(&service.lock);
    return p != NULL;
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t ended = wait_for_death();
        if (ended && note_death(ended))
            tell_all(ended);
        for (uint64_t process; (process = find_dead());)
            tell_all(process);
        pthread_mutex_lock(&service.lock);
        drop_strangers();
        pthread_mutex_unlock(&service.lock);
    }
    return NULL;
}

/* Under the lock. */
static vks_status start_service(void)
{
    if (service.started)
        return VKS_OK;
    static bool registered;
    if (!registered) {
        vks_at_fork_child(forget);
        registered = true;
    }
    vks_status status = vks_thread_start("vkshare-peers", serve, NULL, &service.thread);
    if (status)
        return status;
    service.thread_id = (pthread_t)service.thread;
    pthread_detach(service.thread_id); /* it lives as long as the process and touches nothing that exit tears down */
    service.started = true;
    return VKS_OK;
}

/* ---- mappings ---- */

void vks_peers_add(vks_mapping *mapping)
{
    pthread_mutex_lock(&service.lock);
    mapping->previous = NULL;
    mapping->next = service.mappings;
    if (service.mappings)
        service.mappings->previous = mapping;
    service.mappings = mapping;
    atomic_store(&mapping->join_count, UINT32_MAX);
    pthread_mutex_unlock(&service.lock);
}

void vks_peers_remove(vks_mapping *mapping)
{
    pthread_mutex_lock(&service.lock);
    while (service.telling == mapping && !pthread_equal(pthread_self(), service.thread_id))
        pthread_cond_wait(&service.idle, &service.lock);
    if (service.cursor == mapping)
        service.cursor = mapping->next;
    if (mapping->previous)
        mapping->previous->next = mapping->next;
    else
        service.mappings = mapping->next;
    if (mapping->next)
        mapping->next->previous = mapping->previous;
    drop_strangers();
    pthread_mutex_unlock(&service.lock);
}

/* ---- liveness ---- */

/* Under the lock. NULL: the process is gone, or there is no memory to remember it. */
static peer *watch(uint64_t process)
{
    if (service.n_peers >= service.tidy_at)
        drop_strangers();
    peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->process = process;
    p->pidfd = -1;
    service.unpinned++;
    if (!pin(p)) {
        service.unpinned--;
        free(p);
        return NULL;
    }
    p->next = service.peers;
    service.peers = p;
    service.n_peers++;
    start_service();
    if (p->pidfd < 0 && service.kick >= 0) {
        ssize_t ignored = write(service.kick, &(uint64_t){1}, sizeof(uint64_t));
        (void)ignored;
    }
    return p;
}

bool vks_peer_alive(uint64_t identity)
{
    uint64_t process = identity & VKS_IDENTITY_MASK;
    if (process == vks_self())
        return true;
    pthread_mutex_lock(&service.lock);
    peer *p = find(process);
    if (!p)
        p = watch(process);
    bool alive = p ? !p->dead && !(p->pidfd >= 0 ? vks_pidfd_exited(p->pidfd) : vks_identity_gone(process))
                   : !vks_identity_gone(process);
    pthread_mutex_unlock(&service.lock);
    return alive;
}

vks_status vks_peers_watch_page(vks_mapping *mapping)
{
    vks_mutex_page *page = mapping->mutex;
    uint32_t join_count = atomic_load(&page->join_count);
    uint64_t word = atomic_load(&page->word);
    uint64_t self = vks_self();
    if (join_count == atomic_load(&mapping->join_count)) {
        /* Everybody is watched already; only an owner that died this instant is worth a look. */
        uint32_t slot = vks_word_slot(word);
        uint64_t owner = slot < VKS_SLOTS && vks_word_state(word) == VKS_OWNED
                             ? atomic_load(&page->slots[slot].identity) & VKS_IDENTITY_MASK
                             : 0;
        if (owner && owner != self && !vks_peer_alive(owner))
            vks_peers_mark_dead(mapping, owner);
        return VKS_OK;
    }
    bool others = false;
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t process = atomic_load(&page->slots[i].identity) & VKS_IDENTITY_MASK;
        if (!process || process == self)
            continue;
        if (vks_peer_alive(process))
            others = true;
        else
            vks_peers_mark_dead(mapping, process);
    }
    pthread_mutex_lock(&service.lock);
    vks_status status = others ? start_service() : VKS_OK;
    pthread_mutex_unlock(&service.lock);
    if (!status)
        atomic_store(&mapping->join_count, join_count);
    return status;
}
