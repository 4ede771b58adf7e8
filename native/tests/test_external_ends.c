/* External APIs (test_external.c) when something ends: a handle or a device is closed or lost, a
 * signaller dies, the process forks. */
#include <sys/wait.h>

#include "external_parties.h"

/* ---- the end ---- */

static void *resume_soon(void *api)
{
    usleep(50000);
    stub_stall_api(api, false);
    return NULL;
}

/* rules: I3, K7 */
static void a_handle_closed_during_external_use_abandons_the_surface(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    uint64_t wait;
    own(&a, 0);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
    uint64_t start = vks_now();
    vks_surface_close(a.surface);
    CHECK(vks_now() - start < HANG && !vks_surface_is_owned(a.surface), "no value was announced");
    CHECK(vks_surface_acquire(c.surface, 0, vks_now() + HANG) == VKS_ABANDONED, "K7");
    CHECK(vks_surface_recover(c.surface, vks_now() + HANG) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&c, 1);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* After external_signal_value, after external_end, and after the release: each close waits for the
 * outstanding signal. rules: I3, K7 */
static void close_waits_for_the_value_that_an_external_api_is_to_signal(void)
{
    for (int step = 0; step < 3; step++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal;
        own(&a, 0);
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK &&
                  vks_surface_external_signal_value(a.surface, &signal) == VKS_OK,
              "%s", vks_last_error()->text);
        stub_stall_api(api, true);
        stub_work(api, wait, signal);
        if (step > 0)
            CHECK(vks_surface_external_end(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            hand_on(&a, 1);
        pthread_t thread;
        uint64_t start = vks_now();
        pthread_create(&thread, NULL, resume_soon, api);
        vks_surface_close(a.surface);
        CHECK(vks_now() - start > 40 * MS && vks_now() - start < HANG && stub_is_idle(api),
              "step %d: closed after %.1f ms", step, (vks_now() - start) / 1e6);
        vks_status status = vks_surface_acquire(c.surface, 1, vks_now() + HANG);
        CHECK(status == (step > 1 ? VKS_OK : VKS_ABANDONED), "step %d: %d", step, status);
        pthread_join(thread, NULL);
        if (step < 2)
            CHECK(vks_surface_recover(c.surface, vks_now() + HANG) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(draw(&c, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(&c, 2);
        drop_api(api);
        drop_party(&c);
        drop_party(&a);
    }
}

/* rules: I3 */
static void a_device_shuts_down_after_external_values_have_come(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall_api(api, true);
    external_turn(&a, api, 0);
    queue_turn(&a, 1);
    external_turn(&a, api, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, resume_soon, api);
    vks_commands_unref(a.commands);
    stub_close(a.device);
    CHECK(stub_is_idle(api) && stub_value(api) == 3, "all has run: %d", (int)stub_value(api));
    pthread_join(thread, NULL);
    vks_surface_unref(a.surface);
    queue_turn(&c, 3);
    drop_api(api);
    drop_party(&c);
}

/* rules: I3, X21 */
static void a_lost_device_ends_external_use(void)
{
    for (int step = 0; step < 4; step++) {
        party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal = 0;
        own(&a, 0);
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 0)
            CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            CHECK(vks_surface_external_end(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 2)
            hand_on(&a, 1);
        lose(&a);
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_external_signal_value(a.surface, &wait) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_external_end(a.surface, signal) == VKS_DEVICE_LOST, "lost");
        CHECK(vks_surface_release(a.surface, 1) == VKS_DEVICE_LOST, "lost");
        CHECK(!vks_surface_is_owned(a.surface) && sum_pending(&c) == 0, "step %d: %d is pending", step,
              (int)sum_pending(&c));
        CHECK(vks_surface_acquire(c.surface, 1, vks_now() + HANG) == VKS_ABANDONED, "step %d", step);
        CHECK(vks_surface_recover(c.surface, vks_now() + HANG) == VKS_OK, "%s", vks_last_error()->text);
        uint64_t start = vks_now();
        drop_party(&b);
        drop_party(&a);
        CHECK(vks_now() - start < HANG, "step %d: closing took %.1f ms", step, (vks_now() - start) / 1e6);
        drop_api(api);
        drop_party(&c);
    }
}

/* The device's own queue is idle, so only the publisher calls the driver. The loss shows in the
 * counter, or in submits alone. rules: X21 */
static void a_loss_is_detected_while_only_an_external_api_is_waited_for(void)
{
    for (int by_submit = 0; by_submit < 2; by_submit++) {
        party a = new_party("a", NULL);
        stub_api *api = new_api(&a);
        stub_stall_api(api, true);
        external_turn(&a, api, 0);
        own(&a, 1);
        if (by_submit)
            stub_fail_submit(a.device, STUB_DEVICE_LOST, 1);
        else
            stub_fail(STUB_DEVICE_LOST, 1);
        sleeper s = {.party = &a, .call = vks_surface_cpu_access};
        sleep_in_call(&s);
        CHECK(s.status == VKS_DEVICE_LOST && s.took < HANG, "status %d after %.1f ms", s.status, s.took / 1e6);
        drop_api(api);
        drop_party(&a);
    }
}

/* rules: I3, K9 */
static void a_lost_signallers_value_is_signalled_for_a_waiting_api(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    queue_turn(&c, 0);
    CHECK(external_turn(&a, api, 1) == 1, "the API waits for c");
    usleep(30000);
    CHECK(stub_value(api) == 0, "c is alive");
    lose(&c); /* its work is lost with it */
    CHECK(SOON(stub_is_idle(api)) && stub_value(api) == 2, "its queue continues: %d", (int)stub_value(api));
    CHECK(vks_surface_acquire(a.surface, 2, vks_now() + HANG) == VKS_ABANDONED, "but the frame is incomplete");
    CHECK(AGAIN(vks_surface_recover(a.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall(false);
    CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&a, 3);
    idle(&a);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* The same for a closed handle whose API still waits. rules: I3, K9 */
static void a_handle_closes_after_its_apis_orphaned_wait_is_resolved(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    uint64_t wait;
    stub_stall(true);
    queue_turn(&c, 0);
    own(&a, 1);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK && wait == 1, "%s", vks_last_error()->text);
    stub_work(api, wait, 0);
    lose(&c);
    vks_surface_close(a.surface);
    CHECK(SOON(stub_is_idle(api)), "no other process would signal");
    stub_stall(false);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: I3, K27 */
static void recover_waits_for_the_value_that_an_external_api_is_to_signal(void)
{
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        party a = new_party("a", NULL), c = new_party("c", &a), d = new_party("d", &a);
        const party *p = by_itself ? &a : &c;
        stub_api *api = new_api(&a);
        stub_stall_api(api, true);
        external_turn(&a, api, 0);
        own(&d, 1);
        vks_surface_close(d.surface); /* K7: it was the owner */
        uint64_t start = vks_now();
        CHECK(AGAIN(vks_surface_recover(p->surface, start + 20 * MS)) == VKS_TIMEOUT, "a's API works still");
        CHECK(vks_now() - start >= 20 * MS, "it waited");
        pthread_t thread;
        pthread_create(&thread, NULL, resume_soon, api);
        CHECK(AGAIN(vks_surface_recover(p->surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(stub_is_idle(api) && stub_value(api) == look(p).value, "nothing is under way");
        pthread_join(thread, NULL);
        CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(p, 2);
        idle(p);
        drop_api(api);
        drop_party(&d);
        drop_party(&c);
        drop_party(&a);
    }
}

/* In a poisoned chain no batch's signal overtakes the signal of this handle's own API.
 * rules: I3, K9 */
static void work_in_a_poisoned_chain_waits_for_the_apis_lower_signal(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    vks_submission held = {0};
    stub_stall(true);
    stub_stall_api(api, true);
    external_turn(&a, api, 0);
    queue_turn(&c, 1);
    own(&a, 2);
    lose(&c);
    stub_stall(false);
    CHECK(draw(&a, &held) == VKS_OK && vks_submission_is_held(a.device, &held), "its own API's signal comes first");
    CHECK(vks_surface_release(a.surface, 3) == VKS_ABANDONED, "the chain is poisoned");
    stub_stall_api(api, false);
    CHECK(AGAIN(vks_submission_wait(a.device, &held, vks_now() + HANG)) == VKS_OK, "then it goes");
    idle(&a);
    vks_work_unref(held.op);
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: X11 */
static void every_call_in_a_forked_child_returns_forked(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait, signal;
    own(&a, 0);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
    pid_t child = fork();
    if (child == 0)
        _exit(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_FORKED &&
                      vks_surface_external_signal_value(a.surface, &signal) == VKS_FORKED &&
                      vks_surface_external_end(a.surface, 0) == VKS_FORKED && !vks_surface_is_owned(a.surface)
                  ? 0
                  : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%d", status);
    CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_OK, "the parent goes on");
    stub_work(api, 0, signal);
    CHECK(vks_surface_external_end(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&a, 1);
    drop_api(api);
    drop_party(&a);
}

/* During external use; after it; after the release; and with queued work behind it.
 * rules: I3, K7, K9 */
static void a_surface_whose_api_was_lost_is_abandoned_at_once_and_recovers(void)
{
    for (int step = 0; step < 4; step++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal;
        own(&a, 0);
        CHECK(vks_surface_external_lost(a.surface) == VKS_OK && look(&a).state == 1, "it had no value to signal");
        stub_stall_api(api, true);
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 0) {
            CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
            stub_work(api, wait, signal);
            CHECK(vks_surface_external_end(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        }
        if (step > 2)
            CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            hand_on(&a, 1);
        uint64_t start = vks_now();
        stub_lose_api(api);
        CHECK(vks_surface_external_lost(a.surface) == VKS_OK, "%s", vks_last_error()->text);
        if (step <= 1)
            CHECK(vks_surface_release(a.surface, 1) == VKS_ABANDONED, "step %d: the frame is incomplete", step);
        CHECK(vks_surface_acquire(c.surface, 1, vks_now() + HANG) == VKS_ABANDONED, "step %d", step);
        CHECK(AGAIN(vks_surface_recover(c.surface, vks_now() + HANG)) == VKS_OK, "step %d: %s", step,
              vks_last_error()->text);
        CHECK(draw(&c, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(&c, 2);
        idle(&c);
        idle(&a);
        drop_party(&a);
        CHECK(vks_now() - start < HANG, "step %d: after %.1f ms", step, (vks_now() - start) / 1e6);
        drop_party(&c);
        drop_api(api);
    }
}

/* ---- all at once ---- */

typedef struct crowd {
    party *party;
    stub_api *api;
    pthread_mutex_t by_api; /* one thread uses the API at a time */
    _Atomic bool over;
    _Atomic uint32_t turns;
} crowd;

static void take_api_turn(crowd *c)
{
    const party *p = c->party;
    uint64_t wait, value = 0;
    if (vks_surface_external_begin(p->surface, false, vks_now() + MS, &wait) != VKS_OK ||
        vks_surface_external_signal_value(p->surface, &value) != VKS_OK)
        return;
    stub_work(c->api, wait, value);
    if (vks_surface_external_end(p->surface, value) == VKS_OK)
        c->turns++;
}

/* Calls in any order, by several threads on one handle; every turn stays complete. */
static void *call_anything(void *argument)
{
    crowd *c = argument;
    const party *p = c->party;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!c->over)
        switch ((seed = seed * 1103515245u + 12345u) >> 16 & 7) {
        case 0:
            vks_surface_acquire(p->surface, 0, vks_now() + MS);
            break;
        case 1:
            draw(p, NULL);
            break;
        case 2:
            vks_surface_cpu_access(p->surface, vks_now() + MS);
            break;
        case 3:
            vks_surface_release(p->surface, 0);
            break;
        default:
            pthread_mutex_lock(&c->by_api);
            take_api_turn(c);
            pthread_mutex_unlock(&c->by_api);
        }
    return NULL;
}

/* rules: I3, K19 */
static void threads_may_call_anything_at_any_time_and_close_the_handle(void)
{
    for (long i = 0, n = check_scale("VKS_ROUNDS", 6); i < n; i++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        crowd crowds[2] = {{.party = &a, .api = new_api(&a)}, {.party = &c, .api = new_api(&c)}};
        for (int k = 0; k < 2; k++)
            pthread_mutex_init(&crowds[k].by_api, NULL);
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            pthread_create(&threads[t], NULL, call_anything, &crowds[t & 1]);
        usleep(60000);
        vks_surface_close(a.surface); /* while the threads use it */
        usleep(1000);
        crowds[0].over = crowds[1].over = true;
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        if (i == 0)
            printf("     %u and %u turns\n", crowds[0].turns, crowds[1].turns);
        CHECK(SOON(stub_is_idle(crowds[0].api) && stub_is_idle(crowds[1].api)), "no queue waits forever");
        drop_party(&c);
        drop_party(&a);
        drop_api(crowds[0].api);
        drop_api(crowds[1].api);
    }
}

int main(void)
{
    STEP(a_handle_closed_during_external_use_abandons_the_surface);
    STEP(close_waits_for_the_value_that_an_external_api_is_to_signal);
    STEP(a_device_shuts_down_after_external_values_have_come);
    STEP(a_lost_device_ends_external_use);
    STEP(a_loss_is_detected_while_only_an_external_api_is_waited_for);
    STEP(a_lost_signallers_value_is_signalled_for_a_waiting_api);
    STEP(a_handle_closes_after_its_apis_orphaned_wait_is_resolved);
    STEP(recover_waits_for_the_value_that_an_external_api_is_to_signal);
    STEP(work_in_a_poisoned_chain_waits_for_the_apis_lower_signal);
    STEP(every_call_in_a_forked_child_returns_forked);
    STEP(a_surface_whose_api_was_lost_is_abandoned_at_once_and_recovers);
    STEP(threads_may_call_anything_at_any_time_and_close_the_handle);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
