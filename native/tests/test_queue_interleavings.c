/* rules: X3, Q16, Q18. The queue page's futex with the producer stopped at each of its accesses to
 * the page: there the consumer acts, or the producer dies. So every place between two accesses is
 * tried, which threads would hit once in a million runs.
 *
 * The page's own code is compiled into this file with a step before each atomic access, and with
 * futexes that let one thread play both ends.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/queue_page.h"

/* ---- steps ---- */

static struct {
    int done; /* accesses of the producer so far; below 0: they are not counted */
    int dies; /* before this one; below 0: it lives */
    void (*between)(int done);
    jmp_buf death;
} producer = {.done = -1, .dies = -1};

static void step(void)
{
    if (producer.done < 0)
        return;
    int done = producer.done;
    producer.done = -1; /* the consumer's actions in between are not counted */
    if (producer.between)
        producer.between(done);
    producer.done = done + 1;
    if (done == producer.dies) {
        producer.done = -1;
        longjmp(producer.death, 1);
    }
}

static void wake_up(_Atomic uint32_t *word, uint32_t bits);

#undef atomic_load
#undef atomic_store
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load(p) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_store(p, v) (step(), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_load_explicit(p, order) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_store_explicit(p, v, order) (step(), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_exchange(p, v) (step(), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add(p, v) (step(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add_explicit(p, v, order) (step(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_sub(p, v) (step(), __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(p, e, v)                                                                        \
    (step(), __atomic_compare_exchange_n((p), (e), (v), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#undef VKS_KILL_POINT
#define VKS_KILL_POINT(n) ((void)0)
#define vks_futex_wake(word, bits) (step(), wake_up((word), (bits)))
#include "../shm/queue_page.c"
#undef vks_futex_wake

/* ---- the consumer: what a dequeue does, an action at a time ---- */

static vks_queue_ring ring;
static int page_fd;

static struct {
    enum { WANT, LOOK, SLEEP, ASLEEP } next;
    uint32_t seq, taken;
} consumer;

static void wake_up(_Atomic uint32_t *word, uint32_t bits)
{
    (void)bits;
    if (consumer.next == ASLEEP && word == &ring.page->seq)
        consumer.next = WANT;
}

static void act(void)
{
    uint32_t surface;
    uint64_t epoch;
    size_t length;
    switch (consumer.next) {
    case WANT:
        consumer.seq = vks_queue_prepare_wait(ring.page);
        consumer.next = LOOK;
        break;
    case LOOK:
        consumer.next = SLEEP;
        if (vks_queue_peek(&ring, &surface, &epoch, NULL, &length) == VKS_OK) {
            vks_queue_pop(&ring);
            consumer.taken++;
            consumer.next = WANT;
        }
        break;
    case SLEEP:
        consumer.next = ring.page->seq == consumer.seq ? ASLEEP : WANT;
        break;
    case ASLEEP:
        break;
    }
}

static void act_until_asleep(void)
{
    while (consumer.next != ASLEEP)
        act();
}

static void new_ring(void)
{
    vks_queue_info info = {.width = 1, .height = 1, .count = 2};
    CHECK(vks_queue_page_create(&info, &page_fd, &ring) == VKS_OK, "%s", vks_last_error()->text);
    memset(&consumer, 0, sizeof consumer);
}

static void drop_ring(void)
{
    vks_queue_page_close(&ring);
    close(page_fd);
}

static void commit_one(void)
{
    if (vks_queue_put(&ring, 0, 0, NULL, 0))
        CHECK(false, "%s", vks_last_error()->text);
    vks_queue_commit(&ring, 1);
}

/* ---- a commit, and a consumer at every place between two of its accesses ---- */

enum { ACTIONS = 6 };
static int places[ACTIONS]; /* the producer's accesses before each action; ascending */

static void act_in_place(int done)
{
    for (int i = 0; i < ACTIONS; i++)
        if (places[i] == done)
            act();
}

/* Moves on to the next such row; false after the last. */
static bool next_places(int most)
{
    int i = ACTIONS - 1;
    while (i >= 0 && places[i] == most)
        i--;
    if (i < 0)
        return false;
    int place = places[i] + 1;
    for (; i < ACTIONS; i++)
        places[i] = place;
    return true;
}

static int count_commits_steps(void)
{
    new_ring();
    act_until_asleep();
    producer.between = NULL;
    producer.done = 0;
    commit_one();
    int steps = producer.done;
    producer.done = -1;
    drop_ring();
    return steps;
}

/* rules: X3, Q16 */
static void a_committed_pair_leaves_no_consumer_asleep(void)
{
    int steps = count_commits_steps(), lost = 0;
    long rows = 0;
    memset(places, 0, sizeof places);
    do {
        new_ring();
        producer.between = act_in_place;
        producer.done = 0;
        commit_one();
        producer.done = -1;
        for (int i = 0; i < 2; i++) { /* the consumer may be about to sleep, or asleep, at the next commits */
            act_until_asleep();
            commit_one();
            lost += consumer.next == ASLEEP;
        }
        drop_ring();
        rows++;
    } while (next_places(steps));
    CHECK(!lost, "a consumer slept beside a pair in %d of %ld rows", lost, rows);
    CHECK(rows > 1000, "%ld rows of %d steps", rows, steps);
}

/* ---- deaths ---- */

#define DEAD ((UINT64_C(0x3ffff) << 22) | 0x3ffffe) /* the identity of no process */

/* Runs `what` as a producer that dies before its access number `dies`. Returns false if `what` has
 * fewer accesses. */
static bool dies_in(void (*what)(void), int dies, void (*between)(int done))
{
    producer.between = between;
    producer.dies = dies;
    bool died = setjmp(producer.death) != 0;
    if (!died) {
        producer.done = 0;
        what();
    }
    producer.done = producer.dies = -1;
    return died;
}

static void open_by_a_mortal(void)
{
    uint64_t word;
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "mortal", &word) == VKS_OK, "%s", vks_last_error()->text);
    atomic_store(&ring.page->ends[VKS_PRODUCER], (word & ~VKS_IDENTITY_MASK) | DEAD);
}

static void close_it(void) { vks_queue_end_close(&ring, VKS_PRODUCER, ring.page->ends[VKS_PRODUCER]); }

/* rules: Q18 */
static void a_producer_death_anywhere_in_a_commit_or_a_close_is_detected(void)
{
    void (*const acts[])(void) = {commit_one, close_it};
    for (int i = 0; i < 2; i++)
        for (int dies = 0;; dies++) {
            new_ring();
            open_by_a_mortal();
            act_until_asleep();
            bool died = dies_in(acts[i], dies, NULL);
            vks_queue_on_death(ring.page, DEAD);
            CHECK(consumer.next != ASLEEP, "act %d, %d", i, dies);
            CHECK(vks_end_state(ring.page->ends[VKS_PRODUCER]) == VKS_END_CLOSED, "act %d, %d", i, dies);
            drop_ring();
            if (!died)
                break;
        }
}

static int opens_at;

static void open_the_next(int done)
{
    uint64_t word;
    if (done != opens_at || vks_end_state(ring.page->ends[VKS_PRODUCER]) != VKS_END_CLOSED)
        return;
    CHECK(vks_queue_end_open(&ring, VKS_PRODUCER, "next", &word) == VKS_OK, "%s", vks_last_error()->text);
    act_until_asleep(); /* now it watches the next producer */
}

/* rules: Q18 */
static void a_producer_death_in_a_close_consumes_no_wake_of_the_next_producer(void)
{
    for (opens_at = 0; opens_at < 20; opens_at++)
        for (int dies = opens_at; dies < 20; dies++) {
            new_ring();
            open_by_a_mortal();
            act_until_asleep();
            dies_in(close_it, dies, open_the_next);
            if (vks_end_state(ring.page->ends[VKS_PRODUCER]) == VKS_END_OPEN) {
                act_until_asleep();
                commit_one();
                CHECK(consumer.next != ASLEEP, "the next one opened at %d, the first died at %d", opens_at, dies);
            }
            drop_ring();
        }
}

int main(void)
{
    RUN(a_committed_pair_leaves_no_consumer_asleep);
    RUN(a_producer_death_anywhere_in_a_commit_or_a_close_is_detected);
    RUN(a_producer_death_in_a_close_consumes_no_wake_of_the_next_producer);
    return check_result();
}
