/* rules: K8, K9, K10, K11, K15, K27, X3, X9. The keyed mutex with one party stopped at each of its
 * accesses to the page in turn: there another party acts, or the first one dies. So every place
 * between two accesses is tried, which threads would hit once in a million runs.
 *
 * The page's own code is compiled into this file with a step before each atomic access, and with
 * futexes that fail the test where a real one would sleep forever.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/mutex_page.h"

/* ---- steps ---- */

static struct {
    int left; /* accesses until the action; below 0: none */
    void (*happens)(void);
} plan = {.left = -1};

static void step(void)
{
    if (plan.left < 0 || plan.left-- > 0)
        return;
    plan.happens(); /* its own steps do nothing, because `left` is below 0 now */
}

static vks_status sleep_or_go_on(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, uint64_t deadline);
static void wake_up(_Atomic uint32_t *word, uint32_t bits);

/* A millisecond passes between two reads of the clock, so that no thread spins. */
static uint64_t hasty_clock(void)
{
    static uint64_t now;
    return now += 1000000;
}

#undef atomic_load
#undef atomic_store
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_and
#undef atomic_fetch_or
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#define atomic_load(p) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_store(p, v) (step(), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_load_explicit(p, order) (step(), __atomic_load_n((p), __ATOMIC_SEQ_CST))
#define atomic_store_explicit(p, v, order) (step(), __atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_exchange(p, v) (step(), __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_add(p, v) (step(), __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_and(p, v) (step(), __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST))
#define atomic_fetch_or(p, v) (step(), __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(p, e, v)                                                                        \
    (step(), __atomic_compare_exchange_n((p), (e), (v), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#undef VKS_KILL_POINT
#define VKS_KILL_POINT(n) ((void)0)
#define vks_now hasty_clock
#define vks_futex_wait sleep_or_go_on
#define vks_futex_wake wake_up
#include "../shm/mutex_page.c"

/* ---- futexes ---- */

static struct {
    _Atomic uint32_t *word; /* NULL: no thread sleeps */
    uint32_t bits;
    bool woken, slept, forever;
} sleeper;

static void wake_up(_Atomic uint32_t *word, uint32_t bits)
{
    sleeper.woken |= word == sleeper.word && (bits & sleeper.bits);
}

/* A thread that comes to sleep here is alone: the planned action happens now and must wake it; if
 * it happened before, the word must show it. */
static vks_status sleep_or_go_on(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, uint64_t deadline)
{
    (void)deadline;
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected)
        return VKS_OK;
    sleeper.word = word;
    sleeper.bits = bits;
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

/* ---- parties ---- */

static vks_mutex_page *page;
static vks_mutex_handle a, b, c;
static uint64_t dead_process; /* the process of a.identity where `a` is to die */

static void new_page(void)
{
    static void *map;
    if (!map)
        map = mmap(NULL, VKS_MUTEX_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    page = map;
    vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
    vks_mutex_init(page);
    sleeper.word = NULL;
    sleeper.slept = sleeper.forever = false;
}

static void join(vks_mutex_handle *handle) { CHECK(vks_mutex_join(page, "test", handle) == VKS_OK, "there is room"); }

/* Joins with an identity whose process can be reported dead. */
static void join_mortal(vks_mutex_handle *handle)
{
    join(handle);
    dead_process = UINT64_C(0x3ffff) << 22 | 0x3ffffe; /* a start time and a pid of no process */
    handle->identity = (handle->identity & ~VKS_IDENTITY_MASK) | dead_process;
    page->slots[handle->slot].identity = handle->identity;
}

static vks_status try_key(vks_mutex_handle *handle, uint64_t key)
{
    vks_wait_point wait_point;
    uint64_t seen;
    return vks_mutex_try(handle, key, &wait_point, &seen);
}

static vks_status no_watch(void *user)
{
    (void)user;
    return VKS_OK;
}

static vks_status wait_for_key(vks_mutex_handle *handle, uint64_t key)
{
    vks_wait_point wait_point;
    return vks_mutex_wait(handle, key, VKS_FOREVER, no_watch, NULL, &wait_point);
}

/* Releases as surface.c does: announce the value, release the word, complete the value. */
static vks_status release_in_two(vks_mutex_handle *handle, uint64_t key, bool completes)
{
    vks_wait_point wait_point = {page->value + 1, handle->identity, handle->slot};
    __atomic_store_n(&page->slots[handle->slot].pending_value, wait_point.value, __ATOMIC_SEQ_CST);
    vks_status status = vks_mutex_release(handle, key, &wait_point);
    if (completes)
        vks_mutex_complete(handle, wait_point.value, 0);
    return status;
}

static bool owns(const vks_mutex_handle *handle)
{
    uint64_t word = page->word;
    return vks_word_state(word) == VKS_OWNED && vks_word_slot(word) == handle->slot;
}

/* Runs `scene(n)` with the plan at the first access, the second, ... until the scene has fewer
 * accesses. */
static void at_every_access(bool (*scene)(int n))
{
    int n = 0;
    while (n < 2000 && scene(n))
        n++;
    CHECK(n > 3 && n < 2000, "the plan happened at %d accesses", n);
}

static void set_plan(int n, void (*happens)(void))
{
    plan.happens = happens;
    plan.left = n;
}

/* Returns whether the action happened between two accesses, so that there is a later one to try;
 * false if all parties slept until it happened. */
static bool end_plan(void)
{
    bool happened = plan.left < 0 && !sleeper.slept;
    plan.left = -1;
    return happened;
}

/* ---- two at once ---- */

static vks_status b_got;

static void b_takes_a_turn(void)
{
    b_got = try_key(&b, 0);
    if (b_got == VKS_OK)
        CHECK(release_in_two(&b, 5, true) == VKS_OK, "b owns");
}

static bool a_tries_while_b_takes_a_turn(int n)
{
    new_page();
    join(&a), join(&b);
    b_got = VKS_TIMEOUT;
    set_plan(n, b_takes_a_turn);
    vks_status got = try_key(&a, 0);
    bool more = end_plan();
    CHECK((got == VKS_OK) != (b_got == VKS_OK) || !more, "access %d: a got %d and b %d under a key of one", n, got,
          b_got);
    CHECK(got != VKS_OK || owns(&a), "access %d: a success that does not own", n);
    CHECK(got == VKS_OK || page->key == 5, "access %d", n);
    return more;
}

static void a_stale_word_admits_no_party(void) { at_every_access(a_tries_while_b_takes_a_turn); }

static void b_takes_it(void) { b_got = try_key(&b, 0); }

static bool a_tries_while_b_takes_it(int n)
{
    new_page();
    join(&a), join(&b);
    b_got = VKS_TIMEOUT;
    set_plan(n, b_takes_it);
    vks_status got = try_key(&a, 0);
    bool more = end_plan();
    CHECK((got == VKS_OK) + (b_got == VKS_OK) == 1 && (got != VKS_OK || owns(&a)) && (b_got != VKS_OK || owns(&b)),
          "access %d: a got %d, b %d", n, got, b_got);
    return more;
}

static void two_parties_try_and_one_owns(void) { at_every_access(a_tries_while_b_takes_it); }

/* ---- wake-ups ---- */

static void b_releases(void) { CHECK(release_in_two(&b, 7, true) == VKS_OK, "b owns"); }

static bool a_waits_while_b_releases(int n)
{
    new_page();
    join(&a), join(&b);
    CHECK(try_key(&b, 0) == VKS_OK, "fresh");
    set_plan(n, b_releases);
    vks_status got = wait_for_key(&a, 7);
    bool more = end_plan();
    CHECK(got == VKS_OK && owns(&a) && !sleeper.forever, "access %d: got %d, a sleeps for ever: %d", n, got,
          sleeper.forever);
    return more;
}

static void a_release_at_any_moment_wakes_its_waiters(void) { at_every_access(a_waits_while_b_releases); }

static void b_abandons(void) { vks_mutex_abandon(&b); }

static bool a_waits_while_b_abandons(int n)
{
    new_page();
    join(&a), join(&b);
    CHECK(try_key(&b, 0) == VKS_OK, "fresh");
    set_plan(n, b_abandons);
    vks_status got = wait_for_key(&a, 7);
    CHECK(got == VKS_ABANDONED && !sleeper.forever, "access %d: got %d, a sleeps for ever: %d", n, got,
          sleeper.forever);
    return end_plan();
}

static void an_abandonment_at_any_moment_wakes_waiters_of_every_key(void) { at_every_access(a_waits_while_b_abandons); }

static void bs_work_fails(void) { vks_mutex_poison(page); }

static bool a_waits_while_the_work_before_fails(int n)
{
    new_page();
    join(&a), join(&b);
    CHECK(try_key(&b, 0) == VKS_OK && release_in_two(&b, 9, false) == VKS_OK, "fresh");
    set_plan(n, bs_work_fails);
    vks_status got = wait_for_key(&a, 7);
    CHECK(got == VKS_ABANDONED && !sleeper.forever, "access %d: got %d, a sleeps for ever: %d", n, got,
          sleeper.forever);
    return end_plan();
}

static void a_poisoning_at_any_moment_wakes_waiters_of_every_key(void)
{
    at_every_access(a_waits_while_the_work_before_fails);
}

static void report_b_dead(void) { vks_mutex_on_death(page, dead_process); }

static bool a_waits_while_the_owner_dies(int n)
{
    new_page();
    join(&a), join_mortal(&b);
    CHECK(try_key(&b, 0) == VKS_OK, "fresh");
    set_plan(n, report_b_dead);
    vks_status got = wait_for_key(&a, 7);
    CHECK(got == VKS_ABANDONED && !sleeper.forever, "access %d: got %d, a sleeps for ever: %d", n, got,
          sleeper.forever);
    return end_plan();
}

static void an_owners_death_at_any_moment_wakes_waiters_of_every_key(void)
{
    at_every_access(a_waits_while_the_owner_dies);
}

/* ---- deaths ---- */

static jmp_buf death;
static void a_dies(void) { longjmp(death, 1); }

/* `a` dies inside its release: it leaves its complete hand-over under key 5, or none. */
static bool a_dies_while_it_releases(int n)
{
    new_page();
    join_mortal(&a), join(&b);
    CHECK(try_key(&a, 0) == VKS_OK, "fresh");
    volatile bool died = false;
    set_plan(n, a_dies);
    if (setjmp(death) == 0)
        release_in_two(&a, 5, true);
    else
        died = true;
    plan.left = -1;
    vks_mutex_on_death(page, dead_process);
    vks_status by_old = try_key(&b, 0), by_new = try_key(&b, 5);
    bool whole = by_new == VKS_OK && page->completed >= page->value && page->value == 1;
    CHECK(by_old == VKS_ABANDONED || (by_old == VKS_TIMEOUT && whole),
          "access %d: key 0 gives %d, key 5 %d, value %llu", n, by_old, by_new, (unsigned long long)page->value);
    CHECK(died || whole, "one that dies after its hand-over was whole and its work done takes nothing along");
    CHECK(!vks_identity_pid(page->slots[a.slot].identity), "access %d: its slot is not free", n);
    return died;
}

static void a_death_during_a_release_leaves_a_complete_hand_over_or_an_abandoned_page(void)
{
    at_every_access(a_dies_while_it_releases);
}

static bool a_dies_while_it_acquires(int n)
{
    new_page();
    join_mortal(&a), join(&b);
    volatile bool died = false;
    set_plan(n, a_dies);
    if (setjmp(death) == 0)
        try_key(&a, 0);
    else
        died = true;
    plan.left = -1;
    bool owned = owns(&a);
    vks_mutex_on_death(page, dead_process);
    vks_status got = try_key(&b, 0);
    CHECK(got == (owned ? VKS_ABANDONED : VKS_OK), "access %d: %d", n, got);
    return died;
}

static void a_death_during_an_acquire_abandons_an_owned_surface_and_nothing_else(void)
{
    at_every_access(a_dies_while_it_acquires);
}

static void another_service_was_faster_and_a_new_party_took_the_slot(void)
{
    vks_mutex_on_death(page, dead_process);
    join(&c);
    CHECK(c.slot == a.slot && c.identity != a.identity, "the first free place, and another incarnation");
    vks_status got = try_key(&c, 0);
    CHECK(got == VKS_OK, "the page is free: %d", got);
}

static bool a_death_is_handled_twice(int n)
{
    new_page();
    join_mortal(&a), join(&b);
    c.page = NULL;
    set_plan(n, another_service_was_faster_and_a_new_party_took_the_slot);
    vks_mutex_on_death(page, dead_process);
    bool more = end_plan();
    CHECK(!more || !c.page || owns(&c), "access %d: a live owner lost its ownership", n);
    CHECK(!more || !c.page || page->slots[c.slot].identity == c.identity, "access %d: a live party lost its slot", n);
    c.page = NULL;
    return more;
}

static void a_new_party_in_a_dead_partys_slot_is_not_taken_for_it(void) { at_every_access(a_death_is_handled_twice); }

/* ---- recover ---- */

static void b_tries_and_recovers(void)
{
    b_got = try_key(&b, 0);
    CHECK(b_got == VKS_ABANDONED || b_got == VKS_TIMEOUT, "no party may own it before recover() has finished: %d",
          b_got);
    CHECK(vks_mutex_recover_begin(&b) != VKS_OK || vks_word_slot(page->word) == b.slot, "one recovers");
}

static bool a_recovers_while_b_tries(int n)
{
    new_page();
    join(&a), join(&b);
    CHECK(try_key(&b, 0) == VKS_OK, "fresh");
    vks_mutex_abandon(&b);
    set_plan(n, b_tries_and_recovers);
    if (vks_mutex_recover_begin(&a) == VKS_OK) {
        vks_mutex_recover_finish(&a);
        CHECK(owns(&a) && page->generation == 2, "access %d: generation %u", n, page->generation);
        CHECK(release_in_two(&a, 3, true) == VKS_OK, "access %d: it is valid again", n);
    } else {
        CHECK(owns(&b), "access %d: one of them recovered", n);
    }
    return end_plan();
}

static void two_parties_recover_and_one_owns_a_valid_page(void) { at_every_access(a_recovers_while_b_tries); }

int main(void)
{
    RUN(a_stale_word_admits_no_party);
    RUN(two_parties_try_and_one_owns);
    RUN(a_release_at_any_moment_wakes_its_waiters);
    RUN(an_abandonment_at_any_moment_wakes_waiters_of_every_key);
    RUN(a_poisoning_at_any_moment_wakes_waiters_of_every_key);
    RUN(an_owners_death_at_any_moment_wakes_waiters_of_every_key);
    RUN(a_death_during_a_release_leaves_a_complete_hand_over_or_an_abandoned_page);
    RUN(a_death_during_an_acquire_abandons_an_owned_surface_and_nothing_else);
    RUN(a_new_party_in_a_dead_partys_slot_is_not_taken_for_it);
    RUN(two_parties_recover_and_one_owns_a_valid_page);
    return check_result();
}
