// The pool: each item once, whatever the threads do; and the properties that a library's thread must have.
#define _GNU_SOURCE
#include "test_raster.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct tally {
    atomic_uint calls[1000];
    uint32_t plain[1000]; // written without atomics: the pool must order it before its caller
    uint32_t round;
};

static void count_item(void *context, uint32_t index)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->calls[index], 1);
    tally->plain[index] = tally->round + index;
}

static void every_item_runs_once_and_its_writes_are_seen(void)
{
    static struct tally tally;
    for (uint32_t threads = 1; threads <= 5; threads++) {
        struct vks_pool *pool;
        CHECK(vks_pool_create(threads, &pool) == 0, "%u threads", threads);
        CHECK(vks_pool_threads(pool) == threads, "it has %u", vks_pool_threads(pool));
        for (uint32_t round = 0; round < 2000; round++) {
            uint32_t count = round % 7 == 0 ? 1000 : round % 5;
            tally.round = round;
            vks_pool_run(pool, count, count_item, &tally);
            for (uint32_t i = 0; i < count; i++) {
                CHECK(tally.plain[i] == round + i, "round %u, item %u", round, i);
                CHECK(atomic_exchange(&tally.calls[i], 0) == 1, "round %u, item %u", round, i);
            }
        }
        vks_pool_destroy(pool);
    }
}

static void workers_wake_again_after_they_slept(void)
{
    static struct tally tally;
    struct vks_pool *pool;
    CHECK(vks_pool_create(3, &pool) == 0, "no pool");
    for (uint32_t round = 0; round < 60; round++) {
        nanosleep(&(struct timespec){.tv_nsec = round % 3 * 500000}, NULL);
        tally.round = round;
        vks_pool_run(pool, 100, count_item, &tally);
        for (uint32_t i = 0; i < 100; i++)
            CHECK(atomic_exchange(&tally.calls[i], 0) == 1, "round %u, item %u", round, i);
    }
    vks_pool_destroy(pool);
}

static void meet(void *context, uint32_t index)
{
    (void)index;
    atomic_uint *arrived = context;
    atomic_fetch_add(arrived, 1);
    for (int i = 0; i < 5000 && atomic_load(arrived) < 3; i++) // 5 s: then the test fails, it does not hang
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void items_really_run_at_the_same_time(void)
{
    struct vks_pool *pool;
    CHECK(vks_pool_create(3, &pool) == 0, "no pool");
    atomic_uint arrived = 0;
    vks_pool_run(pool, 3, meet, &arrived);
    CHECK(atomic_load(&arrived) == 3, "only %u met", atomic_load(&arrived));
    vks_pool_destroy(pool);
}

struct witness {
    atomic_uint workers, named, blocking;
    pthread_t caller;
};

static void look_around(void *context, uint32_t index)
{
    (void)index;
    struct witness *w = context;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (pthread_equal(pthread_self(), w->caller))
        return;
    atomic_fetch_add(&w->workers, 1);
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    atomic_fetch_add(&w->named, strcmp(name, "vkshare-tile") == 0);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF};
    int all = 1;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        all = all && sigismember(&blocked, signals[i]) == 1;
    atomic_fetch_add(&w->blocking, (unsigned)all);
}

static void threads_are_named_and_block_every_signal_and_the_callers_mask_is_left_alone(void)
{
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    struct vks_pool *pool;
    CHECK(vks_pool_create(4, &pool) == 0, "no pool");
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(sigismember(&before, SIGINT) == sigismember(&after, SIGINT), "the caller's mask changed");
    struct witness w = {.caller = pthread_self()};
    for (int i = 0; i < 50 && atomic_load(&w.workers) == 0; i++)
        vks_pool_run(pool, 16, look_around, &w);
    CHECK(atomic_load(&w.workers) > 0, "no worker ran");
    CHECK(atomic_load(&w.named) == atomic_load(&w.workers), "a worker has another name");
    CHECK(atomic_load(&w.blocking) == atomic_load(&w.workers), "a worker takes signals");
    vks_pool_destroy(pool);
}

static int threads_of_this_process(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(tasks)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void destroying_pools_leaves_no_thread(void)
{
    int before = threads_of_this_process();
    for (int i = 0; i < 200; i++) {
        struct vks_pool *pool;
        CHECK(vks_pool_create(1 + (uint32_t)i % 4, &pool) == 0, "pool %d", i);
        if (i % 2) {
            static struct tally tally;
            vks_pool_run(pool, 10, count_item, &tally);
        }
        vks_pool_destroy(pool);
    }
    // A joined thread's entry may stay for a moment, one of the test before this one too: fewer than before is well.
    int after = 0;
    for (int i = 0; i < 200 && (after = threads_of_this_process()) > before; i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    CHECK(after <= before, "%d threads became %d", before, after);
    vks_pool_destroy(NULL);
    CHECK(vks_pool_threads(NULL) == 1, "NULL is not one thread");
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void an_idle_pool_uses_no_processor_time(void)
{
    static struct tally tally;
    struct vks_pool *pool;
    CHECK(vks_pool_create(4, &pool) == 0, "no pool");
    vks_pool_run(pool, 100, count_item, &tally);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    CHECK(cpu_seconds() - before < 0.02, "it used %g s", cpu_seconds() - before);
    vks_pool_destroy(pool);
}

static void too_many_threads_are_refused(void)
{
    struct vks_pool *pool = (struct vks_pool *)&pool;
    CHECK(vks_pool_create(257, &pool) == -EINVAL && pool == NULL, "257 threads");
    CHECK(vks_pool_create(0, &pool) == 0 && vks_pool_threads(pool) >= 1, "0 is not the default");
    vks_pool_destroy(pool);
}

int main(void)
{
    const struct test tests[] = {
        TEST(every_item_runs_once_and_its_writes_are_seen),
        TEST(workers_wake_again_after_they_slept),
        TEST(items_really_run_at_the_same_time),
        TEST(threads_are_named_and_block_every_signal_and_the_callers_mask_is_left_alone),
        TEST(destroying_pools_leaves_no_thread),
        TEST(an_idle_pool_uses_no_processor_time),
        TEST(too_many_threads_are_refused),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
