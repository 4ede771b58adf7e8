#define _GNU_SOURCE
#include "peers/peers.h"

#include "shm/queue_page.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define POLL_MS 50 /* K9 requires 200 */
/* Other processes write the identities, and one of them could name many live processes. So this
 * process opens at most this many pidfds, or a quarter of RLIMIT_NOFILE if that is less. */
#define MAX_PIDFDS 256u
#define MIN_TIDY_PEERS 64u /* below this number of records, unnamed peers are dropped at the next close */

typedef struct peer {
    struct peer *next;
    uint64_t process; /* identity without incarnation */
    int pidfd; /* -1 if none could be opened, or the limit is reached; the service thread then polls every POLL_MS */
    bool dead;
} peer;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* signalled when the service thread has left a callback */
    peer *peers;
    vks_mapping *mappings;
    int epoll;         /* created once file descriptors are available */
    int kick;          /* an eventfd in `epoll`: a peer without a pidfd was added */
    uint32_t n_polled; /* peers without a pidfd */
    uint32_t n_pidfds;
    uint32_t n_peers, tidy_at; /* at this number of peers, those that no page names are dropped */
    bool started;
    vks_mapping *notifying; /* the mapping whose on_death() runs now */
    vks_mapping *cursor;    /* the next mapping to notify */
    uintptr_t thread;
    pthread_t thread_id;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .idle = PTHREAD_COND_INITIALIZER,
             .epoll = -1,
             .kick = -1,
             .tidy_at = MIN_TIDY_PEERS};

static void reset_after_fork(void)
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
    service.peers = NULL; /* leaked, because free() is not safe after fork() */
    service.mappings = NULL;
    service.notifying = service.cursor = NULL;
    service.epoll = service.kick = -1;
    service.n_polled = service.n_pidfds = service.n_peers = 0;
    service.tidy_at = MIN_TIDY_PEERS;
    service.started = false;
}

/* ---- notifying ---- */

static bool names_process(const vks_mapping *mapping, uint64_t process)
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
    /* A signal that was queued before the death still comes, but the process that would publish it
     * is dead. */
    if (mapping->refresh)
        mapping->refresh(mapping);
    vks_mutex_on_death(mapping->mutex, process);
}

/* Handles a death in every mapping (K9). Mappings that do not name the process do not change. */
static void handle_death(uint64_t process)
{
    pthread_mutex_lock(&service.lock);
    for (vks_mapping *m = service.mappings; m; m = m->next)
        if (m->mutex)
            vks_peers_mark_dead(m, process);
        else if (m->queue)
            vks_queue_on_death(m->queue, process);
    /* on_death() may take a device's lock, under which other threads add and remove mappings.
     * Removal keeps `cursor` valid. */
    service.cursor = service.mappings;
    while (service.cursor) {
        service.notifying = service.cursor;
        service.cursor = service.notifying->next;
        void (*on_death)(void *) = service.notifying->on_death;
        void *user = service.notifying->user;
        pthread_mutex_unlock(&service.lock);
        if (on_death)
            on_death(user);
        pthread_mutex_lock(&service.lock);
        service.notifying = NULL;
        pthread_cond_broadcast(&service.idle);
    }
    pthread_mutex_unlock(&service.lock);
}

/* ---- detecting ---- */

/* Caller holds service.lock. */
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

/* Caller holds service.lock. */
static bool has_pidfds_left(void)
{
    struct rlimit limit;
    bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return service.n_pidfds < MAX_PIDFDS && (!is_known || service.n_pidfds < limit.rlim_cur / 4);
}

/* Opens a peer's pidfd first and compares the start time afterwards, so that a reused pid is
 * detected. Returns false if the process is gone. Caller holds service.lock. */
static bool open_peer_pidfd(peer *p)
{
    int pidfd = has_pidfds_left() ? vks_pidfd_open(vks_identity_pid(p->process)) : -1;
    if (vks_identity_gone(p->process)) {
        if (pidfd >= 0)
            close(pidfd);
        return false;
    }
    /* The key is the process, not a pointer, because the record may be freed between epoll_wait()
     * and the lock. */
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = p->process};
    if (pidfd >= 0 && open_epoll() && epoll_ctl(service.epoll, EPOLL_CTL_ADD, pidfd, &event) == 0) {
        p->pidfd = pidfd;
        service.n_polled--;
        service.n_pidfds++;
    } else if (pidfd >= 0) {
        close(pidfd);
    }
    return true;
}

/* Returns the process of one polled peer that has died, or 0. */
static uint64_t find_dead_peer(void)
{
    uint64_t dead = 0;
    pthread_mutex_lock(&service.lock);
    for (peer *p = service.peers; p && !dead; p = p->next)
        if (p->pidfd < 0 && !p->dead && !open_peer_pidfd(p)) {
            p->dead = true;
            service.n_polled--;
            dead = p->process;
        }
    pthread_mutex_unlock(&service.lock);
    return dead;
}

/* Waits for a pidfd to become readable, and returns its process or 0. */
static uint64_t wait_for_death(void)
{
    pthread_mutex_lock(&service.lock);
    bool open = open_epoll();
    int epoll = service.epoll, kick = service.kick, limit = service.n_polled ? POLL_MS : -1;
    pthread_mutex_unlock(&service.lock);
    struct epoll_event event = {0};
    int n = open ? epoll_wait(epoll, &event, 1, limit) : poll(NULL, 0, POLL_MS);
    if (n > 0 && !event.data.u64) {
        uint64_t ignored;
        ssize_t got = read(kick, &ignored, sizeof ignored);
        (void)got;
    }
    return n > 0 ? event.data.u64 : 0;
}

/* Caller holds service.lock. */
static peer *find(uint64_t process)
{
    peer *p = service.peers;
    while (p && p->process != process)
        p = p->next;
    return p;
}

/* Removes the pidfd from the epoll set, because a forked child's copy would keep it there after the
 * close. Caller holds service.lock. */
static void close_pidfd(peer *p)
{
    if (p->pidfd < 0)
        return;
    epoll_ctl(service.epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
    close(p->pidfd);
    p->pidfd = -1;
    service.n_pidfds--;
}

/* Drops the peers, alive or not, that no mapping names any more. Caller holds service.lock. */
static void drop_unnamed_peers(void)
{
    for (peer **link = &service.peers; *link;) {
        peer *p = *link;
        bool is_named = !service.started;
        for (vks_mapping *m = service.mappings; m && !is_named; m = m->next)
            is_named = names_process(m, p->process);
        if (is_named) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        if (p->pidfd < 0 && !p->dead)
            service.n_polled--;
        close_pidfd(p);
        service.n_peers--;
        free(p);
    }
    service.tidy_at = 2 * service.n_peers > MIN_TIDY_PEERS ? 2 * service.n_peers : MIN_TIDY_PEERS;
}

/* Returns false if the record was dropped meanwhile, because no page names the process any more. */
static bool mark_dead(uint64_t process)
{
    pthread_mutex_lock(&service.lock);
    peer *p = find(process);
    if (p) {
        p->dead = true;
        close_pidfd(p); /* the record stays while a page names the process; an fd for each would exhaust the limit */
    }
    pthread_mutex_unlock(&service.lock);
    return p != NULL;
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        uint64_t ended = wait_for_death();
        if (ended && mark_dead(ended))
            handle_death(ended);
        for (uint64_t process; (process = find_dead_peer());)
            handle_death(process);
        pthread_mutex_lock(&service.lock);
        drop_unnamed_peers();
        pthread_mutex_unlock(&service.lock);
    }
    return NULL;
}

/* Caller holds service.lock. */
static vks_status start_service(void)
{
    if (service.started)
        return VKS_OK;
    static bool registered;
    if (!registered) {
        vks_at_fork_child(reset_after_fork);
        registered = true;
    }
    vks_status status = vks_thread_start("vkshare-peers", serve, NULL, &service.thread);
    if (status)
        return status;
    service.thread_id = (pthread_t)service.thread;
    pthread_detach(service.thread_id); /* it runs as long as the process, and uses nothing that exit() destroys */
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
    while (service.notifying == mapping && !pthread_equal(pthread_self(), service.thread_id))
        pthread_cond_wait(&service.idle, &service.lock);
    if (service.cursor == mapping)
        service.cursor = mapping->next;
    if (mapping->previous)
        mapping->previous->next = mapping->next;
    else
        service.mappings = mapping->next;
    if (mapping->next)
        mapping->next->previous = mapping->previous;
    drop_unnamed_peers();
    pthread_mutex_unlock(&service.lock);
}

/* ---- liveness ---- */

/* Adds a record for a process. NULL: the process is gone, or out of memory. Caller holds
 * service.lock. */
static peer *add_peer(uint64_t process)
{
    if (service.n_peers >= service.tidy_at)
        drop_unnamed_peers();
    peer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->process = process;
    p->pidfd = -1;
    service.n_polled++;
    if (!open_peer_pidfd(p)) {
        service.n_polled--;
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
        p = add_peer(process);
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
        /* Every party is watched already; only an owner that died just now needs a check. */
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
