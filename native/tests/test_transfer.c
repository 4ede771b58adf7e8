/* The choice between a device's two queues, and the one order over both. Uses the stub driver,
 * which reports a signal that does not increase the value, work that overtakes earlier work on an
 * image, an image owned by two queues, and a command buffer of another queue family. */
#include "external_parties.h"

/* ---- parties ---- */

/* A surface that another device has open too, because a hand-over within one device submits
 * nothing. */
typedef struct pair {
    party near, far;
    vks_commands *draws, *copies;
} pair;

static pair new_pair(void)
{
    pair p = {.near = new_party("near", NULL)};
    p.far = new_party("far", &p.near);
    CHECK(stub_commands(p.near.surface, STUB_DRAWS, &p.draws) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(stub_commands(p.near.surface, STUB_COPIES, &p.copies) == VKS_OK, "%s", vks_last_error()->text);
    return p;
}

static void drop_pair(pair *p)
{
    vks_commands_unref(p->draws);
    vks_commands_unref(p->copies);
    drop_party(&p->far);
    drop_party(&p->near);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
}

static uint64_t transfers(const pair *p)
{
    vks_device_statistics s;
    vks_device_get_statistics(p->near.device, &s);
    return s.transfers;
}

static void submit(const pair *p, vks_commands *commands)
{
    vks_submission ignored = {0};
    vks_submit_info info = {.commands = &commands, .n_commands = commands != NULL};
    CHECK(vks_submit(p->near.device, &info, 0, &ignored) == VKS_OK, "%s", vks_last_error()->text);
}

/* Returns whether the call's batch went to the transfer queue. */
#define COPIED(call)                                                                                                   \
    ({                                                                                                                 \
        uint64_t before_ = transfers(&p);                                                                              \
        call;                                                                                                          \
        transfers(&p) > before_;                                                                                       \
    })

/* ---- choice of the queue ---- */

static void copies_go_to_the_transfer_queue_with_their_release(void)
{
    pair p = new_pair();
    for (uint64_t key = 0; key < 3; key++) {
        own(&p.near, key);
        idle(&p.near);
        CHECK(COPIED(submit(&p, p.copies)), "it copies");
        CHECK(COPIED(submit(&p, p.copies)), "and goes on");
        CHECK(COPIED(submit(&p, NULL)), "signals alone follow");
        CHECK(COPIED(hand_on(&p.near, key + 1)), "and the release");
    }
    drop_pair(&p);
}

/* rules: I3 */
static void host_writes_reach_an_external_api_through_the_transfer_queue(void)
{
    pair p = new_pair();
    stub_api *api = new_api(&p.near);
    uint64_t wait = 0, signal = 0;
    own(&p.near, 0);
    CHECK(COPIED(vks_surface_external_begin(p.near.surface, true, vks_now() + HANG, &wait)) && wait, "two barriers");
    CHECK(vks_surface_external_signal_value(p.near.surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
    stub_work(api, wait, signal);
    CHECK(vks_surface_external_end(p.near.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&p.near, 1);
    drop_api(api);
    drop_pair(&p);
}

static void draws_go_to_the_graphics_queue_with_their_release(void)
{
    pair p = new_pair();
    own(&p.near, 0);
    CHECK(!COPIED(submit(&p, p.draws)), "it draws");
    idle(&p.near);
    CHECK(!COPIED(submit(&p, p.copies)), "in the midst of a turn the queue is not changed for a copy");
    CHECK(!COPIED(hand_on(&p.near, 1)), "and the release follows");
    drop_pair(&p);
}

static void a_handle_that_drew_in_its_last_turn_begins_the_next_with_graphics(void)
{
    pair p = new_pair();
    const bool draws[] = {false, true, true, false, false, true}, begins[] = {true, true, false, false, true, true};
    for (uint64_t key = 0; key < 6; key++) {
        own(&p.near, key);
        idle(&p.near);
        bool copied = COPIED(submit(&p, p.copies));
        CHECK(copied == begins[key], "turn %d", (int)key);
        if (draws[key])
            CHECK(!COPIED(submit(&p, p.draws)), "turn %d draws", (int)key);
        hand_on(&p.near, key + 1);
        idle(&p.near);
    }
    drop_pair(&p);
}

static void copies_stay_behind_graphics_that_run(void)
{
    pair p = new_pair();
    stub_stall(true);
    vks_commands *draws;
    vks_surface *surface = stub_surface(p.near.device, NULL);
    CHECK(stub_commands(surface, STUB_DRAWS, &draws) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(AGAIN(vks_surface_acquire(surface, 0, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    submit(&p, draws);
    own(&p.near, 0);
    CHECK(!COPIED(submit(&p, p.copies)), "it would wait there");
    stub_stall(false);
    hand_on(&p.near, 1);
    vks_commands_unref(draws);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    drop_pair(&p);
}

static void work_with_an_engine_goes_to_the_graphics_queue(void)
{
    pair p = new_pair();
    vks_semaphore_point wait, signal;
    uint64_t raw[] = {3};
    own(&p.near, 0);
    vks_submit_info info = {.raw = raw, .n_raw = 1};
    CHECK(!COPIED(CHECK(vks_submit(p.near.device, &info, 0, &(vks_submission){0}) == VKS_OK, "raw")), "raw");
    hand_on(&p.near, 1);
    own(&p.near, 1);
    idle(&p.near);
    CHECK(vks_surface_sync(p.near.surface, vks_now() + HANG, &wait, &signal) == VKS_OK, "%s", vks_last_error()->text);
    stub_submit(p.near.device, wait, signal);
    CHECK(!COPIED(hand_on(&p.near, 2)), "it waits for the engine's queue");
    drop_pair(&p);
}

static void a_device_without_a_transfer_queue_uses_the_graphics_queue(void)
{
    stub_have_transfer(false);
    pair p = new_pair();
    own(&p.near, 0);
    CHECK(!COPIED(submit(&p, p.copies)) && !COPIED(hand_on(&p.near, 1)), "there is none");
    drop_pair(&p);
    stub_have_transfer(true);
}

/* ---- order ---- */

static void batches_of_both_queues_run_in_the_order_of_their_serials(void)
{
    pair p = new_pair();
    uint64_t seed = 1, key = 0;
    for (int i = 0; i < 400; i++) {
        own(&p.near, key);
        for (int n = 0; n < 3; n++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            if (seed >> 62 == 0)
                idle(&p.near);
            submit(&p, seed >> 58 & 7 ? p.copies : p.draws);
        }
        hand_on(&p.near, ++key);
        if (i % 7 == 0) {
            queue_turn(&p.far, key);
            key++;
        }
    }
    idle(&p.near);
    CHECK(transfers(&p) > 20 && vks_device_completed(p.near.device) == vks_device_submitted(p.near.device),
          "%d of %d were transfers", (int)transfers(&p), (int)vks_device_submitted(p.near.device));
    drop_pair(&p);
}

/* A wait for a serial covers all earlier serials, on both queues. */
static void a_batch_of_the_other_queue_waits_for_the_last_one_on_the_gpu(void)
{
    pair p = new_pair();
    own(&p.near, 0);
    submit(&p, p.copies);
    stub_stall(true);
    submit(&p, p.copies);
    vks_submission drawn = {0};
    vks_submit_info info = {.commands = &p.draws, .n_commands = 1};
    CHECK(vks_submit(p.near.device, &info, 0, &drawn) == VKS_OK && !vks_submission_is_held(p.near.device, &drawn),
          "no CPU waits");
    stub_stall_transfers(p.near.device, true);
    stub_stall(false);
    usleep(3000);
    CHECK(vks_submission_poll(p.near.device, &drawn) == VKS_TIMEOUT, "the copies have not run");
    stub_stall_transfers(p.near.device, false);
    CHECK(AGAIN(vks_submission_wait(p.near.device, &drawn, vks_now() + HANG)) == VKS_OK, "now they have");
    hand_on(&p.near, 1);
    drop_pair(&p);
}

static void a_batch_that_the_driver_refuses_changes_no_queue(void)
{
    pair p = new_pair();
    own(&p.near, 0);
    submit(&p, p.copies);
    vks_submit_info info = {.commands = &p.draws, .n_commands = 1};
    stub_fail_submit(p.near.device, STUB_OUT_OF_MEMORY, 1);
    CHECK(vks_submit(p.near.device, &info, 0, &(vks_submission){0}) == VKS_VULKAN_ERROR, "out of memory");
    CHECK(COPIED(submit(&p, p.copies)), "as if nothing had been asked");
    submit(&p, p.draws);
    hand_on(&p.near, 1);
    drop_pair(&p);
}

/* rules: I3 */
static void an_external_api_alternates_with_copies_and_with_graphics(void)
{
    pair p = new_pair();
    stub_api *api = new_api(&p.near);
    for (uint64_t key = 0; key < 60; key += 2) {
        own(&p.near, key);
        if (key % 4 == 0)
            idle(&p.near);
        submit(&p, key % 20 < 10 ? p.copies : p.draws);
        hand_on(&p.near, key + 1);
        external_turn(&p.near, api, key + 1);
    }
    idle(&p.near);
    CHECK(SOON(stub_is_idle(api)) && transfers(&p) >= 10, "%d transfers", (int)transfers(&p));
    drop_api(api);
    drop_pair(&p);
}

int main(void)
{
    stub_have_transfer(true);
    STEP(copies_go_to_the_transfer_queue_with_their_release);
    STEP(host_writes_reach_an_external_api_through_the_transfer_queue);
    STEP(draws_go_to_the_graphics_queue_with_their_release);
    STEP(a_handle_that_drew_in_its_last_turn_begins_the_next_with_graphics);
    STEP(copies_stay_behind_graphics_that_run);
    STEP(work_with_an_engine_goes_to_the_graphics_queue);
    STEP(a_device_without_a_transfer_queue_uses_the_graphics_queue);
    STEP(batches_of_both_queues_run_in_the_order_of_their_serials);
    STEP(a_batch_of_the_other_queue_waits_for_the_last_one_on_the_gpu);
    STEP(a_batch_that_the_driver_refuses_changes_no_queue);
    STEP(an_external_api_alternates_with_copies_and_with_graphics);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
