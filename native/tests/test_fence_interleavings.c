/* rules: X2, X3, X10, X24. Waits for a fence, with the waiter stopped at each of its accesses in
 * turn while the signaller acts. As in test_mutex_interleavings.c, fence.c is compiled into this
 * file with a step before each atomic access, and with futexes that report a lost wake-up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "check_macros.h"
#include "fence/fence.h"

/* ---- steps ---- */

static vks_device *device, *other;
static vks_fence *fence, *follower;

static struct {
    int left; /* accesses until the action; below 0: none */
    void (*happens)(void);
} plan = {.left = -1};

static struct {
    _Atomic uint32_t *word; /* NULL: no thread sleeps */
    bool woken, slept, forever;
} sleeper;

/* While a device's lock is held no other thread could act, so the action waits until the lock is
 * free. */
static bool is_free(vks_device *d)
{
    if (pthread_mutex_trylock(&d->lock))
        return false;
    pthread_mutex_unlock(&d->lock);
    return true;
}

static void step(void)
{
    if (plan.left < 0)
        return;
    if (plan.left > 0) {
        plan.left--;
    } else if (is_free(device) && is_free(other)) {
        plan.left = -1;
        plan.happens();
    }
}

static vks_status sleep_or_go_on(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, uint64_t deadline)
{
    (void)bits, (void)deadline;
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected)
        return VKS_OK;
    sleeper.word = word;
    sleeper.slept = true;
    sleeper.woken = false;
    if (plan.left >= 0) {
        plan.left = -1;
        plan.happens();
    }
    sleeper.word = NULL;
    sleeper.forever |= !sleeper.woken;
    return sleeper.woken ? VKS_OK : VKS_TIMEOUT;
}

/* A follower maps the same memory at another address, so any wake-up of the fence counts for its
 * sleepers. */
static void wake_up(_Atomic uint32_t *word, uint32_t bits)
{
    (void)word, (void)bits;
    sleeper.woken = true;
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_fetch_add
#define atomic_load(p) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_load_explicit(p, order) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_fetch_add(p, v) (step(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#undef VKS_KILL_POINT
#define VKS_KILL_POINT(n) ((void)0)
#define vks_futex_wait sleep_or_go_on
#define vks_futex_wake wake_up
#include "../fence/close.c"
#include "../fence/create.c"
#include "../fence/events.c"
#include "../fence/values.c"
#include "../fence/wait.c"

/* ---- scenes ---- */

static void host_signals(void) { CHECK(vks_fence_signal(fence, 2) == VKS_OK, "%s", vks_last_error()->text); }

static void work_signals(void)
{
    vks_signal signal = {fence, 2};
    vks_submission submission = {0};
    CHECK(vks_submit(device, &(vks_submit_info){.signals = &signal, .n_signals = 1}, 0, &submission) == VKS_OK, "%s",
          vks_last_error()->text);
}

static void exported_first(void)
{
    int page, semaphore;
    CHECK(vks_fence_export(fence, &page, &semaphore) == VKS_OK, "%s", vks_last_error()->text);
    close(page);
    host_signals();
}

static void signals_below_first(void)
{
    CHECK(vks_fence_signal(fence, 1) == VKS_OK, "%s", vks_last_error()->text);
    host_signals();
}

static void open_pair(bool with_follower)
{
    CHECK(vks_fence_create(device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    follower = NULL;
    if (!with_follower)
        return;
    int page, semaphore;
    CHECK(vks_fence_export(fence, &page, &semaphore) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_open(other, page, semaphore, &follower) == VKS_OK, "%s", vks_last_error()->text);
}

static void close_pair(void)
{
    if (follower) {
        vks_fence_close(follower);
        vks_fence_unref(follower);
    }
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

/* Returns false once the waiter slept until the action, because then there is no later access. */
static bool waits_while(int n, void (*happens)(void), bool as_follower)
{
    open_pair(as_follower);
    sleeper.slept = sleeper.forever = false;
    plan.happens = happens;
    plan.left = n;
    vks_status got = vks_fence_wait(as_follower ? follower : fence, 2, VKS_FOREVER);
    bool more = plan.left < 0 && !sleeper.slept;
    plan.left = -1;
    CHECK(got == VKS_OK && !sleeper.forever, "access %d: got %d, the waiter sleeps for ever: %d", n, got,
          sleeper.forever);
    close_pair();
    return more;
}

static void at_every_access(void (*happens)(void), bool as_follower)
{
    int n = 0;
    while (n < 1000 && waits_while(n, happens, as_follower))
        n++;
    CHECK(n > 3 && n < 1000, "it happened at %d accesses", n);
}

static void a_host_signal_at_any_moment_ends_a_wait(void) { at_every_access(host_signals, false); }
static void a_signal_of_work_at_any_moment_ends_a_wait(void) { at_every_access(work_signals, false); }
static void a_signal_at_any_moment_ends_a_followers_wait(void)
{
    at_every_access(host_signals, true);
    at_every_access(work_signals, true);
}
static void a_page_that_moves_into_shared_memory_takes_its_waiters_along(void)
{
    at_every_access(exported_first, false);
}
static void a_lower_value_ends_no_wait(void)
{
    at_every_access(signals_below_first, false);
    at_every_access(signals_below_first, true);
}

int main(void)
{
    CHECK(vks_device_create(&(vks_device_info){.name = "signaller"}, &device) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_device_create(&(vks_device_info){.name = "follower"}, &other) == VKS_OK, "%s", vks_last_error()->text);
    RUN(a_host_signal_at_any_moment_ends_a_wait);
    RUN(a_signal_of_work_at_any_moment_ends_a_wait);
    RUN(a_signal_at_any_moment_ends_a_followers_wait);
    RUN(a_page_that_moves_into_shared_memory_takes_its_waiters_along);
    RUN(a_lower_value_ends_no_wait);
    vks_device_shutdown(other);
    vks_device_unref(other);
    vks_device_shutdown(device);
    vks_device_unref(device);
    return check_result();
}
