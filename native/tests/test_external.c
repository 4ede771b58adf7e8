/* External APIs (CUDA) work on a surface through its own semaphore, without batches of the device's
 * queue in between. Uses the stub driver, which reports work that overtakes earlier work, an image
 * owned by two queues, and a signal that does not increase the value. */
#include "external_parties.h"

/* ---- order ---- */

/* rules: I3, K18 */
static void ownerships_alternate_between_queues_and_an_external_api_in_order(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *turns[] = {&a, &b, &c};
    stub_api *apis[] = {new_api(&a), new_api(&c)};
    for (uint64_t key = 0; key < 54; key++) { /* every pair of handles and of ways to work */
        const party *owner = turns[(key / 2 + key / 18) % 3];
        if (key & 1 || key / 18 == 1)
            external_turn(owner, apis[owner == &c], key);
        else
            queue_turn(owner, key);
    }
    idle(&a);
    idle(&c);
    CHECK(SOON(is_complete(&a)), "%d is pending", (int)sum_pending(&a));
    CHECK(stub_is_idle(apis[0]) && stub_is_idle(apis[1]) && stub_value(apis[0]) == look(&a).value, "all has run");
    drop_api(apis[0]);
    drop_api(apis[1]);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* Every way to mix both in one ownership, with the queue or the API stalled or not.
 * rules: I3, K18 */
static void commands_and_an_external_api_work_in_one_ownership_in_order(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *parties[] = {&a, &b, &c};
    stub_api *apis[] = {new_api(&a), new_api(&b), new_api(&c)};
    uint64_t key = 0;
    for (uint32_t plan = 0; plan < 3 * 64; plan++) {
        const party *p = parties[plan % 3];
        stub_api *api = apis[plan % 3];
        stub_stall(plan & 1);
        stub_stall_api(api, plan & 2);
        own(p, key);
        for (uint32_t bits = plan / 3, n = 0; n < 3; n++, bits >>= 2) {
            uint64_t wait = 0, signal = 0;
            if (bits & 1)
                CHECK(draw(p, NULL) == VKS_OK, "%s", vks_last_error()->text);
            if (!(bits & 2))
                continue;
            vks_status status = AGAIN(vks_surface_external_begin(p->surface, plan % 5 == 0, vks_now() + HANG, &wait));
            CHECK(status == VKS_OK && (wait || !(bits & 1)), "plan %u, status %d: %s", plan, status,
                  vks_last_error()->text);
            CHECK(vks_surface_external_signal_value(p->surface, &signal) == VKS_OK && signal > wait, "%s",
                  vks_last_error()->text);
            stub_work(api, wait, signal);
            CHECK(vks_surface_external_end(p->surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        }
        hand_on(p, ++key);
        stub_stall(false);
        stub_stall_api(api, false);
    }
    own(&c, key);
    CHECK(draw(&c, NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(AGAIN(vks_surface_cpu_access(c.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&c, key + 1);
    idle(&c);
    CHECK(SOON(is_complete(&a)), "all has come");
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    for (int i = 0; i < 3; i++)
        drop_api(apis[i]);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3, K18 */
static void the_cpu_does_not_wait_where_a_gpu_can(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    stub_stall_api(api, true);
    queue_turn(&a, 0);
    uint64_t submitted = vks_device_submitted(a.device);
    CHECK(external_turn(&a, api, 1) == 1, "the API waits for the queue");
    CHECK(external_turn(&b, api, 2) == 2, "and for its own turn before");
    CHECK(external_turn(&c, api, 3) == 3, "whichever handle's");
    CHECK(vks_device_submitted(a.device) == submitted, "the queue had nothing to do");
    queue_turn(&b, 4);
    queue_turn(&c, 5);
    queue_turn(&a, 6);
    vks_device_statistics held;
    vks_device_get_statistics(a.device, &held);
    CHECK(held.held_total == 0, "%d were held", (int)held.held_total);
    CHECK(stub_value(api) == 0 && look(&a).completed == 0 && look(&a).queued == 7, "and nothing has run");
    stub_stall(false);
    CHECK(SOON(stub_value(api) == 1), "now the queue's");
    usleep(3000);
    CHECK(stub_value(api) == 1, "what comes after waits for the API");
    stub_stall_api(api, false);
    idle(&a);
    idle(&c);
    CHECK(SOON(is_complete(&a)) && stub_value(api) == 7, "all has run");
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3, K18 */
static void the_next_owner_on_the_same_device_waits_for_the_external_api(void)
{
    party a = new_party("a", NULL), b = new_alias(&a);
    const party *next[] = {&a, &b};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 2; i++) {
        vks_submission submission = {0};
        stub_stall_api(api, true);
        external_turn(&a, api, 2 * i);
        own(next[i], 2 * i + 1);
        CHECK(draw(next[i], &submission) == VKS_OK && !vks_submission_is_held(a.device, &submission),
              "the driver has it");
        hand_on(next[i], 2 * i + 2);
        usleep(5000);
        CHECK(vks_submission_poll(a.device, &submission) == VKS_TIMEOUT, "it waits there");
        stub_stall_api(api, false);
        CHECK(AGAIN(vks_submission_wait(a.device, &submission, vks_now() + HANG)) == VKS_OK, "and runs");
    }
    idle(&a);
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
}

/* Its own queue still works, so no party is dead. rules: I3, K9 */
static void an_owner_whose_own_queue_still_draws_is_not_taken_for_dead(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    const party *owners[] = {&a, &b};
    for (uint64_t i = 0; i < 2; i++) {
        stub_stall(true);
        queue_turn(&a, 3 * i);
        CHECK(external_turn(owners[i], api, 3 * i + 1) == 3 * i + 1, "it waits for the queue");
        usleep(40000); /* time for the publisher to resolve orphaned waits */
        CHECK(stub_value(api) == 3 * i, "the value came before its work: %d", (int)stub_value(api));
        stub_stall(false);
        queue_turn(&c, 3 * i + 2);
        idle(&c);
    }
    CHECK(SOON(is_complete(&a)), "all has come");
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* The completion of an earlier value leaves the API's value pending. rules: I3, K9, K27 */
static void a_later_value_of_the_api_stays_pending_when_an_earlier_one_completes(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall_api(api, true);
    stub_stall(true);
    queue_turn(&a, 0);
    external_turn(&a, api, 1);
    CHECK(sum_pending(&a) == 1, "the first: %d", (int)sum_pending(&a));
    stub_stall(false);
    CHECK(SOON(sum_pending(&a) == 2), "then the API's: %d", (int)sum_pending(&a));
    queue_turn(&c, 2); /* waits on the GPU; no other party announced a value */
    usleep(60000);
    CHECK(stub_value(api) == 1 && look(&a).state == 0, "c does not take a for dead");
    stub_stall_api(api, false);
    idle(&c);
    CHECK(SOON(is_complete(&a)) && stub_value(api) == 3, "all has come");
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: I3, K18 */
static void a_value_wakes_the_threads_that_sleep_on_it(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *next[] = {&a, &b, &c};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 3; i++) {
        stub_stall_api(api, true);
        external_turn(&a, api, 2 * i);
        CHECK(sum_pending(&a) == look(&a).value && look(&a).queued == look(&a).value, "announced and queued");
        own(next[i], 2 * i + 1);
        sleeper s = {.party = next[i], .call = vks_surface_cpu_access};
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_in_call, &s);
        usleep(20000);
        CHECK(look(&a).completed < look(&a).value, "not yet");
        stub_stall_api(api, false);
        pthread_join(thread, NULL);
        CHECK(s.status == VKS_OK && s.took < HANG, "status %d after %.1f ms", s.status, s.took / 1e6);
        CHECK(sum_pending(&a) == 0 && look(&a).completed == look(&a).value, "the page says so");
        hand_on(next[i], 2 * i + 2);
    }
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

/* rules: I3 */
static void the_cpu_may_access_in_the_same_ownership_once_the_apis_work_has_run(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    own(&a, 0);
    stub_stall_api(api, true);
    external_use(&a, api);
    CHECK(vks_surface_cpu_access(a.surface, vks_now() + 5 * MS) == VKS_TIMEOUT, "it runs");
    stub_stall_api(api, false);
    CHECK(AGAIN(vks_surface_cpu_access(a.surface, vks_now() + HANG)) == VKS_OK, "it has");
    hand_on(&a, 1);
    CHECK(vks_surface_cpu_access(a.surface, 0) == VKS_NOT_OWNER, "and it went on");
    drop_api(api);
    drop_party(&a);
}

int main(void)
{
    STEP(ownerships_alternate_between_queues_and_an_external_api_in_order);
    STEP(commands_and_an_external_api_work_in_one_ownership_in_order);
    STEP(the_cpu_does_not_wait_where_a_gpu_can);
    STEP(the_next_owner_on_the_same_device_waits_for_the_external_api);
    STEP(an_owner_whose_own_queue_still_draws_is_not_taken_for_dead);
    STEP(a_later_value_of_the_api_stays_pending_when_an_earlier_one_completes);
    STEP(a_value_wakes_the_threads_that_sleep_on_it);
    STEP(the_cpu_may_access_in_the_same_ownership_once_the_apis_work_has_run);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
