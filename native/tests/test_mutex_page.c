/* The keyed mutex as transitions of its page, without devices and with no threads but the test's
 * own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/mutex_page.h"

static vks_status no_watch(void *user)
{
    (void)user;
    return VKS_OK;
}

static vks_mutex_page *new_page(void)
{
    void *map = mmap(NULL, VKS_MUTEX_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    vks_mutex_page *page = map;
    vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
    vks_mutex_init(page);
    return page;
}

static vks_mutex_handle join(vks_mutex_page *page)
{
    vks_mutex_handle handle;
    CHECK(vks_mutex_join(page, "test", &handle) == VKS_OK, "a page has %u slots", VKS_SLOTS);
    return handle;
}

static vks_status acquire(vks_mutex_handle *handle, uint64_t key, double seconds)
{
    vks_wait_point wait_point;
    return vks_mutex_wait(handle, key, seconds > 0 ? vks_now() + (uint64_t)(seconds * 1e9) : 0, no_watch, NULL,
                          &wait_point);
}

static vks_status release(vks_mutex_handle *handle, uint64_t key)
{
    vks_wait_point wait_point = {.value = atomic_load(&handle->page->value) + 1};
    vks_mutex_complete(handle, wait_point.value, 0);
    return vks_mutex_release(handle, key, &wait_point);
}

/* rules: K1, K2 */
static void a_fresh_page_is_free_under_key_0_and_nobody_may_release_it(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page);
    CHECK(release(&a, 0) == VKS_NOT_OWNER, "it is unowned");
    CHECK(release(&a, 1) == VKS_NOT_OWNER, "it is unowned");
    CHECK(acquire(&a, 1, 0) == VKS_TIMEOUT, "the key is 0");
    CHECK(acquire(&a, 0, 0) == VKS_OK, "the key is 0");
}

/* rules: K4, K5, K6, K11 */
static void a_release_admits_the_key_that_it_names_and_no_other(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page), b = join(page);
    CHECK(acquire(&a, 0, 0) == VKS_OK, "fresh");
    CHECK(acquire(&b, 0, 0) == VKS_TIMEOUT && acquire(&b, 1, 0.01) == VKS_TIMEOUT, "a owns");
    CHECK(release(&b, 0) == VKS_NOT_OWNER, "a owns");
    CHECK(release(&a, 1) == VKS_OK, "a owns");
    CHECK(acquire(&b, 0, 0) == VKS_TIMEOUT && acquire(&b, 2, 0) == VKS_TIMEOUT, "the key is 1");
    CHECK(acquire(&b, 1, 0) == VKS_OK && release(&b, 0) == VKS_OK && acquire(&a, 0, 0) == VKS_OK, "back again");
}

/* rule: K14 */
static void every_bit_of_a_key_counts(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page);
    uint64_t last = 0;
    for (int bit = 0; bit <= 64; bit++) {
        uint64_t key = bit < 64 ? UINT64_C(1) << bit : UINT64_MAX;
        CHECK(acquire(&a, last, 0) == VKS_OK && release(&a, key) == VKS_OK, "bit %d", bit);
        CHECK(acquire(&a, 0, 0) == VKS_TIMEOUT && acquire(&a, key ^ 1, 0) == VKS_TIMEOUT, "bit %d", bit);
        last = key;
    }
}

/* rule: K16 */
static void the_value_grows_with_every_hand_over(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page);
    const uint64_t keys[] = {0, 0, 5, 3, 3, 0};
    for (size_t i = 0; i + 1 < sizeof keys / sizeof *keys; i++) {
        uint64_t before = page->value;
        CHECK(acquire(&a, keys[i], 0) == VKS_OK && release(&a, keys[i + 1]) == VKS_OK, "step %zu", i);
        CHECK(page->value == before + 1, "value %llu", (unsigned long long)page->value);
    }
}

/* rules: K7, K27 */
static void an_abandoned_page_stays_so_until_it_is_recovered(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page), b = join(page), c = join(page);
    CHECK(acquire(&a, 0, 0) == VKS_OK, "fresh");
    CHECK(vks_mutex_recover_begin(&b) == VKS_NOT_ABANDONED, "a owns");
    vks_mutex_abandon(&a);
    vks_mutex_leave(&a);
    CHECK(acquire(&b, 0, 0) == VKS_ABANDONED && acquire(&b, 7, 1) == VKS_ABANDONED && release(&b, 0) == VKS_NOT_OWNER,
          "a went");
    CHECK(vks_mutex_recover_begin(&b) == VKS_OK && vks_mutex_recover_begin(&c) == VKS_NOT_ABANDONED, "one recovers");
    uint64_t signaller;
    CHECK(!vks_mutex_has_pending_values(&b, &signaller), "no value is pending");
    vks_mutex_recover_finish(&b);
    CHECK(release(&b, 4) == VKS_OK, "b owns after it recovered");
    CHECK(acquire(&c, 4, 0) == VKS_ABANDONED, "c is notified once");
    CHECK(acquire(&c, 4, 0) == VKS_OK, "then it works");
    CHECK(c.generation == 2 && b.generation == 2, "generation %u", c.generation);
}

static void a_poisoned_chain_makes_the_owners_release_abandon(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page), b = join(page);
    CHECK(acquire(&a, 0, 0) == VKS_OK, "fresh");
    vks_mutex_poison(page);
    CHECK(release(&a, 1) == VKS_ABANDONED && acquire(&b, 1, 0) == VKS_ABANDONED, "its work will never run");
}

/* rules: K9, X9 */
static void the_death_of_an_owner_or_a_signaller_abandons(void)
{
    for (int pending_value = 0; pending_value < 2; pending_value++) {
        vks_mutex_page *page = new_page();
        vks_mutex_handle a = join(page);
        pid_t pid = fork();
        if (pid == 0) {
            vks_mutex_handle b;
            vks_mutex_join(page, "child", &b);
            acquire(&b, 0, 0);
            if (pending_value) {
                vks_wait_point wait_point = {page->value + 1, b.identity, b.slot};
                atomic_store(&page->slots[b.slot].pending_value, wait_point.value);
                vks_mutex_release(&b, 3, &wait_point);
            }
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        uint64_t dead = page->slots[1].identity & VKS_IDENTITY_MASK;
        CHECK(vks_identity_pid(dead) == (uint32_t)pid, "slot 1 is the child's");
        CHECK(vks_identity_gone(dead), "it is gone");
        vks_mutex_on_death(page, dead);
        vks_mutex_on_death(page, dead);
        CHECK(acquire(&a, pending_value ? 3 : 0, 0) == VKS_ABANDONED, "pending value: %d", pending_value);
        CHECK(vks_identity_pid(page->slots[1].identity) == 0, "its slot is free again");
    }
}

static void a_dead_party_without_ownership_or_pending_value_changes_nothing(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle a = join(page);
    pid_t pid = fork();
    if (pid == 0) {
        vks_mutex_handle b;
        vks_mutex_join(page, "child", &b);
        acquire(&b, 0, 0);
        release(&b, 9);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    vks_mutex_on_death(page, page->slots[1].identity & VKS_IDENTITY_MASK);
    CHECK(acquire(&a, 9, 0) == VKS_OK, "the hand-over was whole");
}

/* rules: K27 */
static void recover_exceeds_every_value_that_a_dead_owners_queue_may_signal(void)
{
    for (int n_values = 1; n_values < 4; n_values++) {
        vks_mutex_page *page = new_page();
        vks_mutex_handle dead = join(page), recoverer, joined;
        CHECK(acquire(&dead, 0, 0) == VKS_OK, "fresh");
        for (int i = 1; i <= n_values; i++) /* a driver has the last one, which the page does not show yet */
            CHECK(vks_mutex_announce(&dead, 10u * (unsigned)i) == (i == 1), "a slot holds one value");
        recoverer = join(page);
        vks_mutex_abandon(&dead);
        vks_mutex_leave(&dead);
        joined = join(page);
        CHECK(joined.slot == dead.slot, "the new party has the dead party's slot");
        CHECK(vks_mutex_last_announced(page) == 10u * (unsigned)n_values, "%llu is the last announced value",
              (unsigned long long)vks_mutex_last_announced(page));
        CHECK(vks_mutex_recover_begin(&recoverer) == VKS_OK, "it is abandoned");
        uint64_t value = vks_mutex_recover_finish(&recoverer);
        CHECK(value > 10u * (unsigned)n_values, "recover() signals the value %llu", (unsigned long long)value);
    }
}

static void a_page_has_as_many_slots_as_it_says(void)
{
    vks_mutex_page *page = new_page();
    vks_mutex_handle handles[VKS_SLOTS], more;
    for (uint32_t i = 0; i < VKS_SLOTS; i++)
        handles[i] = join(page);
    CHECK(vks_mutex_join(page, "one too many", &more) == VKS_FULL, "%u slots", VKS_SLOTS);
    uint64_t before = handles[5].identity;
    vks_mutex_leave(&handles[5]);
    CHECK(vks_mutex_join(page, "again", &more) == VKS_OK && more.slot == 5 && more.identity != before,
          "a new incarnation");
}

/* ---- threads ---- */

typedef struct party {
    vks_mutex_handle handle;
    uint64_t acquire_key, release_key;
    long rounds;
    int *inside;
    long *total;
} party;

static void *take_turns(void *argument)
{
    party *p = argument;
    for (long i = 0; i < p->rounds; i++) {
        if (acquire(&p->handle, p->acquire_key, 60) != VKS_OK)
            return "timed out";
        if (++*p->inside != 1) /* TSAN reports a race here if two threads own at once */
            return "two owners";
        ++*p->total;
        --*p->inside;
        if (release(&p->handle, p->release_key) != VKS_OK)
            return "not owner";
    }
    return NULL;
}

static void run_parties(int n, long rounds, bool ring)
{
    vks_mutex_page *page = new_page();
    int inside = 0;
    long total = 0;
    party parties[8];
    pthread_t threads[8];
    for (int i = 0; i < n; i++)
        parties[i] =
            (party){join(page), ring ? (uint64_t)i : 0, ring ? (uint64_t)(i + 1) % n : 0, rounds, &inside, &total};
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, take_turns, &parties[i]);
    for (int i = 0; i < n; i++) {
        void *why;
        pthread_join(threads[i], &why);
        CHECK(!why, "%s", (char *)why);
    }
    CHECK(total == n * rounds, "%ld turns", total);
}

/* rules: K10, K15 */
static void eight_threads_on_one_key_are_all_served_and_never_two_at_once(void)
{
    run_parties(8, check_scale("VKS_ROUNDS", 2000), false);
}

/* rules: K26, K12 */
static void three_threads_in_a_ring_of_keys_go_round_robin(void)
{
    run_parties(3, check_scale("VKS_ROUNDS", 2000), true);
}

typedef struct value_race {
    vks_mutex_page *page;
    _Atomic uint32_t round, joined;
    uint32_t rounds;
} value_race;

static void *join_each_round(void *argument)
{
    value_race *r = argument;
    for (uint32_t i = 1; i <= r->rounds; i++) {
        while (r->round != i)
            sched_yield();
        for (volatile uint32_t n = 0; n < i % 64; n++)
            ;
        vks_mutex_handle handle = join(r->page);
        vks_mutex_leave(&handle);
        r->joined = i;
    }
    return NULL;
}

/* rules: K7 */
static void a_dead_partys_pending_value_is_seen_while_its_slot_is_taken_again(void)
{
    value_race r = {.page = new_page(), .rounds = (uint32_t)check_scale("VKS_ROUNDS", 2000) * 5};
    vks_mutex_handle others[VKS_SLOTS - 1];
    for (uint32_t i = 0; i < VKS_SLOTS - 1; i++)
        others[i] = join(r.page);
    vks_slot *last = &r.page->slots[VKS_SLOTS - 1];
    uint32_t missed = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, join_each_round, &r);
    for (uint32_t i = 1; i <= r.rounds; i++) {
        atomic_store(&last->pending_value, i); /* its party died with that value pending */
        r.round = i;
        while (r.joined != i)
            missed += vks_mutex_last_announced(r.page) < i;
    }
    pthread_join(thread, NULL);
    CHECK(missed == 0, "%u reads in %u rounds saw no pending value", missed, r.rounds);
    for (uint32_t i = 0; i < VKS_SLOTS - 1; i++)
        vks_mutex_leave(&others[i]);
}

int main(void)
{
    RUN(a_fresh_page_is_free_under_key_0_and_nobody_may_release_it);
    RUN(a_release_admits_the_key_that_it_names_and_no_other);
    RUN(every_bit_of_a_key_counts);
    RUN(the_value_grows_with_every_hand_over);
    RUN(an_abandoned_page_stays_so_until_it_is_recovered);
    RUN(a_poisoned_chain_makes_the_owners_release_abandon);
    RUN(the_death_of_an_owner_or_a_signaller_abandons);
    RUN(a_dead_party_without_ownership_or_pending_value_changes_nothing);
    RUN(recover_exceeds_every_value_that_a_dead_owners_queue_may_signal);
    RUN(a_dead_partys_pending_value_is_seen_while_its_slot_is_taken_again);
    RUN(a_page_has_as_many_slots_as_it_says);
    RUN(eight_threads_on_one_key_are_all_served_and_never_two_at_once);
    RUN(three_threads_in_a_ring_of_keys_go_round_robin);
    return check_result();
}
