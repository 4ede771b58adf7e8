// A job is published in one 64-bit word: {sequence : 32, open : 1, joined : 31}. A worker joins an open job by
// compare-and-swap and leaves by a decrement; the caller closes the job when its items are handed out and waits for the
// workers that joined, never for one that did not wake in time.
#define _GNU_SOURCE
#include "raster/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OPEN 0x80000000u
#define MAX_THREADS 256u
#define DEFAULT_THREADS 16u
#define SPIN_PAUSES 64
#define SPIN_NANOSECONDS 50000 // about the price of waking a sleeping thread on another core

struct vks_pool {
    _Alignas(64) _Atomic uint64_t job;  // the word above
    _Alignas(64) _Atomic uint32_t bell; // futex of idle workers: grows with each job
    _Atomic uint32_t sleepers;          // workers that are, or are about to be, in the futex
    _Alignas(64) _Atomic uint32_t next; // first item that no thread has taken
    _Alignas(64) _Atomic uint32_t done; // futex of the caller: grows when the last worker leaves a closed job
    atomic_bool stop;
    void (*work)(void *context, uint32_t index); // these three are written before the job opens
    void *context;
    uint32_t count;
    uint32_t workers;
    pthread_t threads[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// True once *word differs from value; false when the spin is over. Yields, so that a busy core is given away.
static bool spin_until_changed(_Atomic uint32_t *word, uint32_t value)
{
    for (int i = 0; i < SPIN_PAUSES; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        pause_briefly();
    }
    for (uint64_t end = now() + SPIN_NANOSECONDS; now() < end;) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        sched_yield();
    }
    return false;
}

static void take_items(struct vks_pool *pool)
{
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->count)
            return;
        pool->work(pool->context, i);
    }
}

static void join_job(struct vks_pool *pool)
{
    uint64_t job = atomic_load_explicit(&pool->job, memory_order_acquire);
    do {
        if (!(job & OPEN))
            return;
    } while (
        !atomic_compare_exchange_weak_explicit(&pool->job, &job, job + 1, memory_order_acq_rel, memory_order_acquire));
    take_items(pool);
    job = atomic_fetch_sub_explicit(&pool->job, 1, memory_order_acq_rel) - 1;
    if ((uint32_t)job == 0) { // closed, and the last to leave
        atomic_fetch_add(&pool->done, 1);
        futex_wake(&pool->done, 1);
    }
}

static void *worker(void *argument)
{
    struct vks_pool *pool = argument;
    uint32_t heard = 0;
    for (;;) {
        if (!spin_until_changed(&pool->bell, heard)) {
            atomic_fetch_add(&pool->sleepers, 1);
            while (atomic_load(&pool->bell) == heard)
                futex_wait(&pool->bell, heard);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
        heard = atomic_load(&pool->bell);
        if (atomic_load(&pool->stop))
            return NULL;
        join_job(pool);
    }
}

static void ring(struct vks_pool *pool, uint32_t wanted)
{
    atomic_fetch_add(&pool->bell, 1);
    if (atomic_load(&pool->sleepers) != 0)
        futex_wake(&pool->bell, wanted);
}

void vks_pool_run(struct vks_pool *pool, uint32_t count, void (*work)(void *, uint32_t), void *context)
{
    if (pool == NULL || pool->workers == 0 || count < 2) {
        for (uint32_t i = 0; i < count; i++)
            work(context, i);
        return;
    }
    pool->work = work;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    uint32_t done = atomic_load(&pool->done);
    uint64_t sequence = (atomic_load_explicit(&pool->job, memory_order_relaxed) >> 32) + 1;
    atomic_store_explicit(&pool->job, sequence << 32 | OPEN, memory_order_release);
    ring(pool, count - 1 < pool->workers ? count - 1 : pool->workers);
    take_items(pool);
    uint64_t closed = atomic_fetch_and_explicit(&pool->job, ~(uint64_t)OPEN, memory_order_acq_rel);
    if ((uint32_t)closed == OPEN) // no worker had joined
        return;
    if (!spin_until_changed(&pool->done, done))
        while (atomic_load(&pool->done) == done)
            futex_wait(&pool->done, done);
}

static uint32_t default_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint32_t n = (uint32_t)CPU_COUNT(&set);
    return n < DEFAULT_THREADS ? n : DEFAULT_THREADS;
}

int vks_pool_create(uint32_t threads, struct vks_pool **out)
{
    *out = NULL;
    if (threads == 0)
        threads = default_threads();
    if (threads > MAX_THREADS)
        return -EINVAL;
    size_t bytes = sizeof(struct vks_pool) + (threads - 1) * sizeof(pthread_t);
    struct vks_pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (pool == NULL)
        return -ENOMEM;
    atomic_init(&pool->job, 0);
    atomic_init(&pool->bell, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->next, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->stop, false);
    pool->count = 0;

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (pool->workers = 0; pool->workers + 1 < threads && error == 0; pool->workers++) {
        error = pthread_create(&pool->threads[pool->workers], NULL, worker, pool);
        if (error != 0)
            break;
        pthread_setname_np(pool->threads[pool->workers], "vkshare-tile");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        vks_pool_destroy(pool);
        return -error;
    }
    *out = pool;
    return 0;
}

void vks_pool_destroy(struct vks_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->stop, true);
    ring(pool, pool->workers);
    for (uint32_t i = 0; i < pool->workers; i++)
        pthread_join(pool->threads[i], NULL);
    free(pool);
}

uint32_t vks_pool_threads(const struct vks_pool *pool) { return pool == NULL ? 1 : pool->workers + 1; }
