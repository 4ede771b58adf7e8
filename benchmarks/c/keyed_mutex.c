/* keyed_mutex.c: a keyed mutex as one writes it by hand in C, with the waiting strategy of
 * vkshare's: compare-and-swap, 40 pauses, sched_yield for up to 50 us, futex. No deaths, no
 * fences, no timeouts: what is left is what a hand-over must cost. The memory is shared by two
 * processes.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "interface.h"

#define PAUSES 40
#define YIELD_SECONDS 50e-6

typedef struct keyed_mutex {
    _Alignas(64) _Atomic uint64_t word; /* epoch << 1 | owned */
    _Atomic uint64_t key;
    _Atomic uint32_t seq, sleepers;
} keyed_mutex;

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int try_acquire(keyed_mutex *mutex, uint64_t key, uint64_t *seen)
{
    uint64_t word = *seen = atomic_load(&mutex->word);
    return !(word & 1) && atomic_load_explicit(&mutex->key, memory_order_relaxed) == key &&
           atomic_compare_exchange_strong(&mutex->word, &word, word | 1);
}

static int changed(keyed_mutex *mutex, uint64_t seen)
{
    return atomic_load_explicit(&mutex->word, memory_order_relaxed) != seen;
}

static int spin(keyed_mutex *mutex, uint64_t seen, double *until)
{
    for (int i = 0; i < PAUSES; i++) {
        if (changed(mutex, seen))
            return 1;
        relax();
    }
    if (*until == 0)
        *until = seconds() + YIELD_SECONDS;
    do {
        sched_yield();
        if (changed(mutex, seen))
            return 1;
    } while (seconds() < *until);
    return 0;
}

static void acquire(keyed_mutex *mutex, uint64_t key)
{
    uint64_t seen;
    double until = 0;
    while (!try_acquire(mutex, key, &seen)) {
        if (spin(mutex, seen, &until))
            continue;
        uint32_t seq = atomic_load(&mutex->seq);
        atomic_fetch_add(&mutex->sleepers, 1);
        int owned = try_acquire(mutex, key, &seen);
        if (!owned)
            syscall(SYS_futex, &mutex->seq, FUTEX_WAIT, seq, NULL, NULL, 0);
        atomic_fetch_sub(&mutex->sleepers, 1);
        if (owned)
            return;
        until = 0;
    }
}

static void release(keyed_mutex *mutex, uint64_t key)
{
    uint64_t word = atomic_load_explicit(&mutex->word, memory_order_relaxed);
    atomic_store_explicit(&mutex->key, key, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&mutex->word, &word, (word | 1) + 1))
        ;
    if (atomic_load(&mutex->sleepers)) {
        atomic_fetch_add(&mutex->seq, 1);
        syscall(SYS_futex, &mutex->seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}

/* Uncontended: two swaps and what belongs to them. */
double time_pairs(void *memory, long n)
{
    keyed_mutex *mutex = memory;
    TIMED(n, acquire(mutex, 0); release(mutex, 0))
}

/* One party of a ring of `count` mutexes that lie one after another, 64 bytes each: takes each
 * in turn by the key `take`, fills its block where there are blocks, gives it on by `give`, n
 * times in all. */
double time_ring(void *memory, long count, uint64_t take, uint64_t give, void *const *blocks, size_t size, long n)
{
    keyed_mutex *mutexes = memory;
    double start = seconds();
    for (long i = 0, at = 0; i < n; i++, at = at + 1 == count ? 0 : at + 1) {
        acquire(&mutexes[at], take);
        if (blocks)
            memset(blocks[at], (int)(i & 0xff), size);
        release(&mutexes[at], give);
    }
    return seconds() - start;
}
