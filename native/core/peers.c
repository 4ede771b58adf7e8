#define _GNU_SOURCE
#include "peers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

typedef struct peer {
    struct peer *next;
    uint64_t process; /* identity without incarnation */
    int pidfd;
    bool dead;
} peer;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle;   /* the service thread is not telling anybody */
    peer *peers;
    vks_mapping *mappings;
    int epoll;
    bool started;
    vks_mapping *telling;  /* the mapping whose told() runs now */
    vks_mapping *cursor;   /* the one after it */
    uintptr_t thread;
    pthread_t thread_id;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .epoll = -1};

static void forget(void)
{
    for (peer *p = service.peers; p; p = p->next)
        close(p->pidfd);
    if (service.epoll >= 0)
        close(service.epoll);
    pthread_mutex_init(&service.lock, NULL);
    pthread_cond_init(&service.idle, NULL);
    service.peers = NULL; /* the list's memory stays with the parent's copy: freeing here is not fork-safe */
    service.mappings = NULL;
    service.telling = service.cursor = NULL;
    service.epoll = -1;
    service.started = false;
}

/* ---- telling ---- */

static bool mentions(const vks_mapping *mapping, uint64_t process)
{
    if (mapping->fence)
        return (mapping->fence->owner & VKS_IDENTITY_MASK) == process;
    for (uint32_t i = 0; i < VKS_SLOTS; i++)
        if ((atomic_load(&mapping->mutex->slots[i].identity) & VKS_IDENTITY_MASK) == process)
            return true;
    return false;
}

void vks_peers_bury(vks_mapping *mapping, uint64_t process)
{
    if (mapping->refresh) /* a signal that was queued before the death still comes, and who would have told of it is dead */
        mapping->refresh(mapping);
    vks_mutex_death(mapping->mutex, process);
}

/* Tells every mapping of a death: those that do not mention the dead find nothing to do. */
static void tell_all(uint64_t process)
{
    pthread_mutex_lock(&service.lock);
    for (vks_mapping *m = service.mappings; m; m = m->next)
        if (m->mutex)
            vks_peers_bury(m, process);
    /* told() may take a device's lock, under which others add and remove mappings: `cursor` is what removal keeps valid. */
    service.cursor = service.mappings;
    while (service.cursor) {
        service.telling = service.cursor;
        service.cursor = service.telling->next;
        void (*told)(void *) = service.telling->told;
        void *user = service.telling->user;
        pthread_mutex_unlock(&service.lock);
        if (told)
            told(user);
        pthread_mutex_lock(&service.lock);
        service.telling = NULL;
        pthread_cond_broadcast(&service.idle);
    }
    pthread_mutex_unlock(&service.lock);
}

static void *serve(void *unused)
{
    (void)unused;
    int epoll = service.epoll;
    for (;;) {
        struct epoll_event event;
        int n = epoll_wait(epoll, &event, 1, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n <= 0)
            continue;
        peer *p = event.data.ptr;
        pthread_mutex_lock(&service.lock);
        p->dead = true;
        epoll_ctl(epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
        uint64_t process = p->process;
        pthread_mutex_unlock(&service.lock);
        tell_all(process);
    }
}

/* Under the lock. */
static bool start_service(void)
{
    if (service.started)
        return true;
    static bool registered;
    if (!registered) {
        vks_at_fork_child(forget);
        registered = true;
    }
    service.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (service.epoll < 0)
        return false;
    if (vks_thread_start("vkshare-peers", serve, NULL, &service.thread) != VKS_OK) {
        close(service.epoll);
        service.epoll = -1;
        return false;
    }
    service.thread_id = (pthread_t)service.thread;
    pthread_detach(service.thread_id); /* it lives as long as the process and touches nothing that exit tears down */
    service.started = true;
    return true;
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
    atomic_store(&mapping->roster, UINT32_MAX);
    pthread_mutex_unlock(&service.lock);
}

/* Peers that no mapping mentions any more are not worth an fd. */
static void drop_strangers(void)
{
    for (peer **link = &service.peers; *link;) {
        peer *p = *link;
        bool wanted = !service.started;
        for (vks_mapping *m = service.mappings; m && !wanted; m = m->next)
            wanted = mentions(m, p->process);
        if (wanted || !p->dead) { /* a living stranger's record may be in the service thread's hands: keep it */
            link = &p->next;
            continue;
        }
        *link = p->next;
        close(p->pidfd);
        free(p);
    }
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

static bool still_running(int pidfd)
{
    struct pollfd poll_one = {.fd = pidfd, .events = POLLIN};
    return poll(&poll_one, 1, 0) == 0;
}

/* Under the lock. Opens a pidfd first and compares the start time after, so that a reused pid cannot pass. */
static peer *watch(uint64_t process)
{
    uint32_t pid = vks_identity_pid(process);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return NULL;
    peer *p = NULL;
    if (vks_identity_of(pid) == process && start_service() && (p = calloc(1, sizeof *p))) {
        p->process = process;
        p->pidfd = pidfd;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
        if (epoll_ctl(service.epoll, EPOLL_CTL_ADD, pidfd, &event) == 0) {
            p->next = service.peers;
            service.peers = p;
            return p;
        }
        free(p);
    }
    close(pidfd);
    return NULL;
}

bool vks_peer_alive(uint64_t identity)
{
    uint64_t process = identity & VKS_IDENTITY_MASK;
    if (process == vks_self())
        return true;
    pthread_mutex_lock(&service.lock);
    peer *p = service.peers;
    while (p && p->process != process)
        p = p->next;
    if (!p)
        p = watch(process);
    /* Without a pidfd (no fds left, an old kernel) the start time still tells, if only when asked. */
    bool alive = p ? !p->dead && still_running(p->pidfd) : vks_identity_of(vks_identity_pid(process)) == process;
    pthread_mutex_unlock(&service.lock);
    return alive;
}

void vks_peers_watch_page(vks_mapping *mapping)
{
    vks_mutex_page *page = mapping->mutex;
    uint32_t roster = atomic_load(&page->roster);
    uint64_t word = atomic_load(&page->word);
    uint64_t self = vks_self();
    if (roster == atomic_load(&mapping->roster)) {
        /* Everybody is watched already; only an owner that died this instant is worth a look. */
        uint32_t slot = vks_word_slot(word);
        uint64_t owner = slot < VKS_SLOTS && vks_word_state(word) == VKS_OWNED ? atomic_load(&page->slots[slot].identity) & VKS_IDENTITY_MASK : 0;
        if (owner && owner != self && !vks_peer_alive(owner))
            vks_peers_bury(mapping, owner);
        return;
    }
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t process = atomic_load(&page->slots[i].identity) & VKS_IDENTITY_MASK;
        if (process && process != self && !vks_peer_alive(process))
            vks_peers_bury(mapping, process);
    }
    atomic_store(&mapping->roster, roster);
}
