#define _GNU_SOURCE
#include "os/watcher.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define WAITV_MAX 128 /* FUTEX_WAITV_MAX; one word is watcher.control */
#define POLL_NS 1000000

struct waitv { /* struct futex_waitv, which older headers lack */
    uint64_t value, address;
    uint32_t flags, reserved;
};
#define FUTEX2_U32 2u

typedef struct group {
    struct group *next;
    void *owner;
    void (*fire)(void *owner);
    size_t n;
    vks_watch words[];
} group;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    group *groups;
    _Atomic uint32_t control; /* grows with every change of the groups */
    void *firing;
    bool started;
    pthread_t thread;
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static void reset_after_fork(void)
{
    pthread_mutex_init(&watcher.lock, NULL);
    pthread_cond_init(&watcher.idle, NULL);
    watcher.groups = NULL;
    watcher.firing = NULL;
    watcher.started = false;
}

bool vks_have_futex_waitv(void) { return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL; }

static bool changed(const group *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (atomic_load(g->words[i].word) != g->words[i].expected)
            return true;
    return false;
}

/* Fires the first group with a change, after removing it from the list. Returns false if there is
 * none. Caller holds watcher.lock. */
static bool fire_one(void)
{
    for (group **link = &watcher.groups; *link; link = &(*link)->next) {
        group *g = *link;
        if (!changed(g))
            continue;
        *link = g->next;
        watcher.firing = g->owner;
        pthread_mutex_unlock(&watcher.lock);
        g->fire(g->owner);
        free(g);
        pthread_mutex_lock(&watcher.lock);
        watcher.firing = NULL;
        pthread_cond_broadcast(&watcher.idle);
        return true;
    }
    return false;
}

/* Returns the number of all words; fills in the first WAITV_MAX - 1. Caller holds watcher.lock. */
static size_t collect(struct waitv *list, uint32_t control)
{
    size_t n = 0;
    list[n++] = (struct waitv){.value = control, .address = (uintptr_t)&watcher.control, .flags = FUTEX2_U32};
    for (group *g = watcher.groups; g; g = g->next)
        for (size_t i = 0; i < g->n; i++, n++)
            if (n < WAITV_MAX)
                list[n] = (struct waitv){
                    .value = g->words[i].expected, .address = (uintptr_t)g->words[i].word, .flags = FUTEX2_U32};
    return n;
}

static void *watch(void *unused)
{
    (void)unused;
    static struct waitv list[WAITV_MAX];
    bool waitv = vks_have_futex_waitv();
    pthread_mutex_lock(&watcher.lock);
    for (;;) {
        uint32_t control = atomic_load(&watcher.control);
        if (fire_one())
            continue;
        size_t n = collect(list, control);
        pthread_mutex_unlock(&watcher.lock);
        bool poll = n > WAITV_MAX || (!waitv && n > 1);
        uint64_t until = poll ? vks_now() + POLL_NS : VKS_FOREVER;
        if (waitv) {
            struct timespec limit = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
            /* EFAULT: a page was unmapped in between; the list is built again. */
            syscall(SYS_futex_waitv, list, n < WAITV_MAX ? n : WAITV_MAX, 0, poll ? &limit : NULL, CLOCK_MONOTONIC);
        } else {
            vks_futex_wait(&watcher.control, control, VKS_ANY_BIT, until);
        }
        pthread_mutex_lock(&watcher.lock);
    }
    return NULL;
}

static vks_status start(void)
{
    if (watcher.started)
        return VKS_OK;
    static bool registered;
    if (!registered) {
        vks_at_fork_child(reset_after_fork);
        registered = true;
    }
    uintptr_t thread;
    vks_status status = vks_thread_start("vkshare-watch", watch, NULL, &thread);
    if (status)
        return status;
    watcher.thread = (pthread_t)thread;
    pthread_detach(watcher.thread);
    watcher.started = true;
    return VKS_OK;
}

vks_status vks_watcher_start(void)
{
    pthread_mutex_lock(&watcher.lock);
    vks_status status = start();
    pthread_mutex_unlock(&watcher.lock);
    return status;
}

static void drop(void *owner)
{
    for (group **link = &watcher.groups; *link;) {
        group *g = *link;
        if (g->owner == owner) {
            *link = g->next;
            free(g);
        } else {
            link = &g->next;
        }
    }
}

static void kick(void)
{
    atomic_fetch_add(&watcher.control, 1);
    vks_futex_wake(&watcher.control, VKS_ANY_BIT);
}

/* Appends at the end, so that an owner whose words always change (a page of another process can do
 * that) does not starve the others. */
static void append(group *g)
{
    group **link = &watcher.groups;
    while (*link)
        link = &(*link)->next;
    g->next = NULL;
    *link = g;
}

vks_status vks_watcher_set(void *owner, void (*fire)(void *owner), const vks_watch *words, size_t n)
{
    group *g = NULL;
    if (n) {
        g = malloc(sizeof *g + n * sizeof *words);
        if (!g)
            return vks_fail(VKS_NO_MEMORY, 0, "no memory to watch %zu pages", n);
        g->owner = owner;
        g->fire = fire;
        g->n = n;
        memcpy(g->words, words, n * sizeof *words);
    }
    pthread_mutex_lock(&watcher.lock);
    drop(owner);
    vks_status status = VKS_OK;
    if (n && (status = start()) == VKS_OK) {
        append(g);
        kick();
    } else {
        free(g);
    }
    pthread_mutex_unlock(&watcher.lock);
    return status;
}

void vks_watcher_remove(void *owner)
{
    pthread_mutex_lock(&watcher.lock);
    drop(owner);
    while (watcher.firing == owner && !pthread_equal(pthread_self(), watcher.thread))
        pthread_cond_wait(&watcher.idle, &watcher.lock);
    drop(owner); /* fire() may have set it again meanwhile */
    if (watcher.started)
        kick(); /* the thread may sleep on words that are about to be unmapped */
    pthread_mutex_unlock(&watcher.lock);
}
