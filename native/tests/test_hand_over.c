/* Releases within a submission: after a turn of one submission, the first submission of the next
 * turn also does its release's work. Uses the stub driver, with native timelines and without. */
#include "queue/queue.h"
#include "external_parties.h"

/* ---- parties ---- */

static bool is_native;

static party make_party(const char *name, const party *of)
{
    party p = {.device = stub_open(name, is_native)};
    p.surface = stub_surface(p.device, of ? of->surface : NULL);
    can_draw(&p);
    return p;
}

typedef struct pair {
    party near, far;
} pair;

/* Makes a pair whose near party had a turn of one submission. */
static pair new_pair(void)
{
    pair p = {.near = make_party("near", NULL)};
    p.far = make_party("far", &p.near);
    queue_turn(&p.near, 0);
    idle(&p.near);
    CHECK(SOON(is_complete(&p.near)), "%d are pending", (int)sum_pending(&p.near));
    return p;
}

static void drop_pair(pair *p)
{
    drop_party(&p->far);
    drop_party(&p->near);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
}

static uint64_t batches(const party *p) { return vks_device_submitted(p->device); }

/* The number of batches that the call submits. */
#define GIVEN(p, call)                                                                                                 \
    ({                                                                                                                 \
        uint64_t before_ = batches(p);                                                                                 \
        call;                                                                                                          \
        (int)(batches(p) - before_);                                                                                   \
    })

static void draw_once(const party *p) { CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text); }

/* ---- one batch a turn ---- */

/* rules: K18 */
static void a_turn_of_one_submission_is_one_batch_from_the_second_on(void)
{
    pair p = new_pair();
    for (uint64_t key = 1; key < 5; key++) {
        own(&p.near, key);
        CHECK(GIVEN(&p.near, draw_once(&p.near)) == 1 && GIVEN(&p.near, hand_on(&p.near, key + 1)) == 0,
              "turn %d: the release has nothing to do", (int)key);
    }
    queue_turn(&p.far, 5);
    idle(&p.far);
    CHECK(SOON(is_complete(&p.near)), "%d are pending", (int)sum_pending(&p.near));
    drop_pair(&p);
}

/* rules: K18 */
static void a_longer_turn_continues_behind_it_and_the_next_one_is_not_expected_to_be_short(void)
{
    pair p = new_pair();
    own(&p.near, 1);
    draw_once(&p.near);
    CHECK(GIVEN(&p.near, draw_once(&p.near)) == 1 && GIVEN(&p.near, hand_on(&p.near, 2)) == 1,
          "it hands on at its end");
    own(&p.near, 2);
    draw_once(&p.near);
    CHECK(GIVEN(&p.near, hand_on(&p.near, 3)) == 1, "as it does now");
    own(&p.near, 3);
    draw_once(&p.near);
    CHECK(GIVEN(&p.near, hand_on(&p.near, 4)) == 0, "one again");
    queue_turn(&p.far, 4);
    idle(&p.far);
    CHECK(SOON(is_complete(&p.near)), "%d are pending", (int)sum_pending(&p.near));
    drop_pair(&p);
}

static void a_surface_that_nobody_else_has_open_needs_no_hand_over(void)
{
    party a = make_party("alone", NULL), b = new_alias(&a);
    for (uint64_t key = 0; key < 6; key += 2) {
        queue_turn(&a, key);
        CHECK(GIVEN(&a, queue_turn(&b, key + 1)) == 1, "the draw");
    }
    drop_party(&b);
    drop_party(&a);
}

/* ---- order ---- */

/* rules: K18 */
static void the_next_owner_waits_for_the_work_as_usual(void)
{
    pair p = new_pair();
    vks_submission theirs = {0};
    stub_stall(true);
    own(&p.near, 1);
    draw_once(&p.near);
    CHECK(vks_surface_acquire(p.far.surface, 2, 0) == VKS_TIMEOUT, "it is owned until its release");
    hand_on(&p.near, 2);
    own(&p.far, 2);
    CHECK(draw(&p.far, &theirs) == VKS_OK && vks_submission_is_held(p.far.device, &theirs) == !is_native,
          "on the GPU, or held");
    CHECK(vks_surface_cpu_access(p.far.surface, vks_now() + 3 * MS) == VKS_TIMEOUT, "and so does the CPU");
    hand_on(&p.far, 3);
    stub_stall(false);
    CHECK(AGAIN(vks_submission_wait(p.far.device, &theirs, vks_now() + HANG)) == VKS_OK, "it runs then");
    if (theirs.op)
        vks_work_unref(theirs.op);
    idle(&p.far);
    drop_pair(&p);
}

/* rules: K18 */
static void the_owner_itself_may_access_once_its_work_has_run(void)
{
    pair p = new_pair();
    own(&p.near, 1);
    stub_stall(true);
    draw_once(&p.near);
    CHECK(vks_surface_cpu_access(p.near.surface, vks_now() + 3 * MS) == VKS_TIMEOUT, "it has not");
    stub_stall(false);
    CHECK(AGAIN(vks_surface_cpu_access(p.near.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(GIVEN(&p.near, hand_on(&p.near, 2)) == 0, "looking changes nothing");
    drop_pair(&p);
}

/* rules: I3 */
static void an_external_api_works_in_the_same_turn_without_a_batch_between(void)
{
    if (!is_native)
        return;
    pair p = new_pair();
    stub_api *api = new_api(&p.near);
    own(&p.near, 1);
    stub_stall(true);
    draw_once(&p.near);
    uint64_t waited = 0;
    CHECK(GIVEN(&p.near, waited = external_use(&p.near, api)) == 0 && waited, "it waits for the commands' own value");
    stub_stall(false);
    draw_once(&p.near);
    hand_on(&p.near, 2);
    queue_turn(&p.far, 2);
    idle(&p.far);
    drop_api(api);
    drop_pair(&p);
}

/* ---- ends ---- */

/* rules: K24 */
static void a_submission_that_the_driver_refuses_announces_nothing(void)
{
    pair p = new_pair();
    own(&p.near, 1);
    stub_fail_submit(p.near.device, STUB_OUT_OF_MEMORY, 1);
    vks_status status = draw(&p.near, NULL);
    CHECK(status == VKS_VULKAN_ERROR && sum_pending(&p.near) == 0, "status %d, %d is pending", status,
          (int)sum_pending(&p.near));
    CHECK(GIVEN(&p.near, draw_once(&p.near)) == 1 && GIVEN(&p.near, hand_on(&p.near, 2)) == 0, "as if never tried");
    queue_turn(&p.far, 2);
    idle(&p.far);
    drop_pair(&p);
}

/* rules: K7 */
static void an_owner_that_ends_before_its_release_abandons_the_surface(void)
{
    for (int way = 0; way < 3; way++) {
        pair p = new_pair();
        stub_stall(way > 0);
        own(&p.near, 1);
        draw_once(&p.near);
        stub_stall(false);
        if (way < 2)
            vks_surface_close(p.near.surface);
        else
            lose(&p.near);
        CHECK(AGAIN(vks_surface_acquire(p.far.surface, 2, vks_now() + HANG)) == VKS_ABANDONED, "way %d", way);
        CHECK(AGAIN(vks_surface_recover(p.far.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
        for (uint64_t key = 1; key < 4; key++) {
            CHECK(draw(&p.far, NULL) == VKS_OK, "%s", vks_last_error()->text);
            hand_on(&p.far, key); /* values continue from the last one */
            own(&p.far, key);
        }
        idle(&p.far);
        drop_pair(&p);
    }
}

static void *recover(void *argument)
{
    const party *p = argument;
    vks_status status = AGAIN(vks_surface_recover(p->surface, vks_now() + HANG));
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
    return NULL;
}

/* Simulates SIGKILL: the word is abandoned, the slot free, and the batch still runs. The kill may
 * come before the page shows that a driver has the signal, and a new party may take the slot.
 * rules: K7, K27 */
static void recover_after_a_dead_owner(bool is_announced, bool is_slot_taken)
{
    pair p = new_pair();
    pthread_t thread;
    vks_mutex_handle joined;
    vks_mutex_page *page = p.far.surface->handle.page;
    own(&p.near, 1);
    stub_stall(true);
    draw_once(&p.near);
    if (!is_announced)
        atomic_store(&page->queued, page->completed);
    vks_mutex_abandon(&p.near.surface->handle);
    vks_mutex_leave(&p.near.surface->handle);
    if (is_slot_taken)
        CHECK(vks_mutex_join(page, "joined", &joined) == VKS_OK && joined.slot == p.near.surface->handle.slot,
              "the dead party's slot");
    pthread_create(&thread, NULL, recover, &p.far);
    usleep(50000);
    stub_stall(false);
    pthread_join(thread, NULL);
    CHECK(draw(&p.far, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&p.far, 1);
    idle(&p.near);
    idle(&p.far);
    if (is_slot_taken)
        vks_mutex_leave(&joined);
    drop_pair(&p);
}

static void a_dead_owners_signal_comes_before_the_one_of_who_recovers(void) { recover_after_a_dead_owner(true, false); }

static void so_it_does_where_the_owner_died_before_it_could_say_that_a_driver_has_it(void)
{
    recover_after_a_dead_owner(false, false);
    recover_after_a_dead_owner(false, true);
}

/* The owner died between its announcement and its submission, so the value never comes. Each call
 * has a deadline of its own that is long over, as in a program that polls.
 * rules: K27 */
static void recover_without_timeout_succeeds_once_a_dead_owners_value_is_overdue(void)
{
    pair p = new_pair();
    vks_mutex_page *page = p.far.surface->handle.page;
    own(&p.near, 1);
    vks_atomic_max(&page->announced, atomic_load(&page->completed) + 1);
    vks_mutex_abandon(&p.near.surface->handle);
    vks_mutex_leave(&p.near.surface->handle);
    uint32_t refusals = 0;
    vks_status status;
    for (uint64_t limit = vks_now() + HANG; (status = vks_surface_recover(p.far.surface, 0)) && vks_now() < limit;
         refusals++) {
        CHECK(status == VKS_TIMEOUT || status == VKS_INTERRUPTED, "status %d: %s", status, vks_last_error()->text);
        usleep(5000);
    }
    CHECK(status == VKS_OK, "status %d after %u calls", status, refusals);
    CHECK(!is_native || refusals > 0, "the first call may not know that the value is overdue");
    CHECK(draw(&p.far, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&p.far, 1);
    idle(&p.far);
    drop_pair(&p);
}

/* rules: X21, K27 */
static void a_device_lost_in_the_submission_has_no_pending_value(void)
{
    pair p = new_pair();
    own(&p.near, 1);
    stub_fail_submit(p.near.device, STUB_DEVICE_LOST, 1);
    CHECK(draw(&p.near, NULL) == VKS_DEVICE_LOST && sum_pending(&p.far) == 0, "%d are pending",
          (int)sum_pending(&p.far));
    CHECK(AGAIN(vks_surface_acquire(p.far.surface, 2, vks_now() + HANG)) == VKS_ABANDONED, "its chain is broken");
    CHECK(AGAIN(vks_surface_recover(p.far.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    drop_pair(&p);
}

static void both_ways(void (*test)(void))
{
    for (int native = 0; native < 2; native++) {
        is_native = native;
        test();
    }
}

#define BOTH(test)                                                                                                     \
    do {                                                                                                               \
        int before = check_failures;                                                                                   \
        both_ways(test);                                                                                               \
        printf("%s %s\n", check_failures == before ? "ok  " : "FAIL", #test);                                          \
        fflush(stdout);                                                                                                \
    } while (0)

int main(void)
{
    BOTH(a_turn_of_one_submission_is_one_batch_from_the_second_on);
    BOTH(a_longer_turn_continues_behind_it_and_the_next_one_is_not_expected_to_be_short);
    BOTH(a_surface_that_nobody_else_has_open_needs_no_hand_over);
    BOTH(the_next_owner_waits_for_the_work_as_usual);
    BOTH(the_owner_itself_may_access_once_its_work_has_run);
    BOTH(an_external_api_works_in_the_same_turn_without_a_batch_between);
    BOTH(a_submission_that_the_driver_refuses_announces_nothing);
    BOTH(an_owner_that_ends_before_its_release_abandons_the_surface);
    BOTH(a_dead_owners_signal_comes_before_the_one_of_who_recovers);
    BOTH(so_it_does_where_the_owner_died_before_it_could_say_that_a_driver_has_it);
    BOTH(recover_without_timeout_succeeds_once_a_dead_owners_value_is_overdue);
    BOTH(a_device_lost_in_the_submission_has_no_pending_value);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
