/* An external API's queue (CUDA) waits for a fence and signals it, through the fence's own
 * semaphore. Uses the stub driver, which reports a signal that does not increase the value. */
#include "external_fences.h"

/* ---- order ---- */

/* Every order of signalling queues, with each queue stalled or not. rules: I3, X1, X2 */
static void values_come_in_order_whichever_queue_signals_them(void)
{
    cast c = new_cast();
    stub_api *second = stub_import_fence(c.fence); /* another stream */
    unsigned seed = 7;
    uint64_t value = 0;
    for (int n = 0; n < 2000; n++) {
        seed = seed * 1103515245u + 12345u;
        unsigned dice = seed >> 16;
        stub_stall(dice & 1);
        stub_stall_api(c.api, dice & 2);
        stub_stall_api(second, dice & 4);
        value += 1 + (dice >> 3) % 3;
        switch ((dice >> 6) & 3) {
        case 0:
            CHECK(batch(c.device, NO_WAIT, SIGNAL(c.fence, value), NULL) == VKS_OK, "%s", vks_last_error()->text);
            break;
        case 1:
            CHECK(vks_fence_signal(c.fence, value) == VKS_OK, "%s", vks_last_error()->text);
            break;
        default:
            api_signals(c.fence, dice & 256 ? c.api : second, value);
        }
        CHECK(queued_of(c.fence) == value && value_of(c.fence) <= value, "%d", (int)value);
    }
    stub_stall(false);
    stub_stall_api(c.api, false);
    stub_stall_api(second, false);
    CHECK(wait_for(c.fence, value, 2000) == VKS_OK && value_of(c.fence) == value, "all came: %d", (int)value);
    CHECK(wait_for(c.follower, value, 2000) == VKS_OK && value_of(c.follower) == value, "and there");
    CHECK(held(c.device) == 0 && stub_violations() == 0, "%u violations", stub_violations());
    drop_api(second);
    drop_cast(&c);
}

/* rules: I3, X4 */
static void queues_wait_for_an_external_apis_value_and_nothing_is_held(void)
{
    cast c = new_cast();
    vks_fence *done;
    vks_submission here = {0}, there = {0};
    CHECK(vks_fence_create(c.device, 0, &done) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall_api(c.api, true);
    CHECK(batch(c.other, WAIT(c.follower, 5), NO_SIGNAL, &there) == VKS_OK && held(c.other) == 1,
          "no party announced it");
    api_signals(c.fence, c.api, 5);
    CHECK(batch(c.device, WAIT(c.fence, 5), SIGNAL(done, 1), &here) == VKS_OK && held(c.device) == 0, "it is certain");
    CHECK(SOON(held(c.other) == 0), "there, too");
    usleep(5000);
    CHECK(vks_submission_poll(c.device, &here) == VKS_TIMEOUT && vks_submission_poll(c.other, &there) == VKS_TIMEOUT &&
              value_of(done) == 0 && value_of(c.fence) == 0 && queued_of(c.follower) == 5,
          "they wait on the GPU");
    stub_stall_api(c.api, false);
    CHECK(AGAIN(vks_submission_wait(c.device, &here, vks_now() + HANG)) == VKS_OK &&
              AGAIN(vks_submission_wait(c.other, &there, vks_now() + HANG)) == VKS_OK,
          "and run");
    CHECK(value_of(c.fence) == 5 && value_of(done) == 1, "in order");
    if (there.op)
        vks_work_unref(there.op);
    close_fence(done);
    drop_cast(&c);
}

/* Value 1 is queued when the waits begin; value 2 is not announced yet. rules: I3, X3, X23, X24 */
static void a_value_wakes_all_its_waiters_in_every_process(void)
{
    for (uint64_t early = 0; early < 2; early++) {
        cast c = new_cast();
        waiter waiters[] = {{.fence = c.fence, .value = 1}, {.fence = c.follower, .value = 1}};
        pthread_t threads[2];
        int fds[2];
        stub_stall_api(c.api, true);
        if (early)
            api_signals(c.fence, c.api, 1);
        for (int i = 0; i < 2; i++) {
            CHECK(vks_fence_event_fd(waiters[i].fence, 1, &fds[i]) == VKS_OK, "%s", vks_last_error()->text);
            pthread_create(&threads[i], NULL, wait_in_thread, &waiters[i]);
        }
        usleep(10000);
        if (!early)
            api_signals(c.fence, c.api, 1);
        CHECK(!is_readable(fds[0], 5) && !is_readable(fds[1], 5) && value_of(c.fence) == 0, "not yet");
        stub_stall_api(c.api, false);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            CHECK(waiters[i].status == VKS_OK && waiters[i].took < HANG, "%d: status %d after %.1f ms", i,
                  waiters[i].status, waiters[i].took / 1e6);
            CHECK(is_readable(fds[i], 1000), "and its event");
            close(fds[i]);
        }
        drop_cast(&c);
    }
}

/* ---- held work ---- */

/* rules: I3, X4, X7 */
static void an_apis_queue_never_waits_for_held_work(void)
{
    cast c = new_cast();
    vks_fence *gate;
    uint64_t wait = 9;
    CHECK(vks_fence_create(c.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(batch(c.device, WAIT(gate, 1), SIGNAL(c.fence, 3), NULL) == VKS_OK && held(c.device) == 1, "held");
    vks_fence *fences[] = {c.fence, c.follower};
    for (int i = 0; i < 2; i++) {
        uint64_t start = vks_now();
        CHECK(vks_fence_external_wait(fences[i], 3, 0, &wait) == VKS_TIMEOUT && wait == 0, "deadline 0 tests");
        CHECK(AGAIN(vks_fence_external_wait(fences[i], 3, start + 30 * MS, &wait)) == VKS_TIMEOUT, "held");
        CHECK(vks_now() - start >= 30 * MS && vks_now() - start < HANG, "after %.1f ms", (vks_now() - start) / 1e6);
    }
    CHECK(vks_fence_external_begin(c.fence, 4, &wait) == VKS_BAD_CALL, "a stream cannot be held");
    stub_stall(true);
    CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
    for (int i = 0; i < 2; i++) {
        CHECK(AGAIN(vks_fence_external_wait(fences[i], 3, vks_now() + HANG, &wait)) == VKS_OK && wait == 3,
              "a driver has it: %s", vks_last_error()->text);
        stub_work(i ? c.theirs : c.api, wait, 0);
    }
    CHECK(!stub_is_idle(c.api) && !stub_is_idle(c.theirs), "they wait");
    stub_stall(false);
    CHECK(SOON(stub_is_idle(c.api) && stub_is_idle(c.theirs)), "and go on");
    CHECK(vks_fence_external_wait(c.fence, 3, 0, &wait) == VKS_OK && wait == 0, "reached: nothing is left to wait for");
    CHECK(vks_fence_external_wait(c.fence, 0, 0, &wait) == VKS_OK && wait == 0, "as 0 is");
    close_fence(gate);
    drop_cast(&c);
}

typedef struct lender {
    vks_fence *fence;
    uint64_t wait;
    vks_status status;
} lender;

static void *lend_in_thread(void *argument)
{
    lender *l = argument;
    l->status = AGAIN(vks_fence_external_wait(l->fence, 1, vks_now() + HANG, &l->wait));
    return NULL;
}

/* The outcomes of a wait for an announced value: it is queued, its signaller fails it, the fence is
 * closed, the device is lost. rules: I3, X21 */
static void a_wait_for_an_announced_value_ends_with_every_outcome(void)
{
    static const vks_status ends[][2] = {
        {VKS_OK, VKS_OK}, {VKS_DEVICE_LOST, VKS_ABANDONED}, {VKS_CLOSED, VKS_ABANDONED}};
    for (int i = 0; i < 3; i++) {
        cast c = new_cast();
        lender lenders[] = {{.fence = c.fence}, {.fence = c.follower}};
        pthread_t threads[2];
        for (int k = 0; k < 2; k++)
            pthread_create(&threads[k], NULL, lend_in_thread, &lenders[k]);
        usleep(10000);
        uint64_t start = vks_now();
        stub_stall(true);
        if (i == 0)
            batch(c.device, NO_WAIT, SIGNAL(c.fence, 1), NULL);
        else if (i == 1)
            vks_device_mark_lost(c.device);
        else
            vks_fence_close(c.fence);
        for (int k = 0; k < 2; k++) {
            pthread_join(threads[k], NULL);
            CHECK(lenders[k].status == ends[i][k] && lenders[k].wait == (i == 0), "end %d, %d: status %d", i, k,
                  lenders[k].status);
        }
        CHECK(vks_now() - start < HANG, "after %.1f ms", (vks_now() - start) / 1e6);
        stub_stall(false);
        drop_cast(&c);
    }
}

/* ---- between external_begin and external_end ---- */

/* rules: I3, X1 */
static void no_wait_relies_on_a_signal_that_the_api_does_not_have_yet(void)
{
    for (int refused = 0; refused < 2; refused++) {
        cast c = new_cast();
        uint64_t wait;
        CHECK(vks_fence_signal(c.fence, 2) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_fence_external_begin(c.fence, 6, &wait) == VKS_OK && wait == 0, "nothing comes before it");
        CHECK(queued_of(c.fence) == 6 && queued_of(c.follower) == 2,
              "announced here, and published to no other process");
        CHECK(vks_fence_external_begin(c.fence, 7, &wait) == VKS_BAD_CALL, "one at a time");
        CHECK(vks_fence_external_wait(c.fence, 6, 0, &wait) == VKS_TIMEOUT, "no queue is to wait for it");
        CHECK(batch(c.device, WAIT(c.fence, 6), NO_SIGNAL, NULL) == VKS_OK && held(c.device) == 1, "held");
        CHECK(vks_fence_signal(c.fence, 6) == VKS_BAD_VALUE, "it is promised");
        CHECK(vks_fence_external_end(c.fence, 5) == VKS_BAD_VALUE, "not that one");
        if (!refused) {
            CHECK(vks_fence_signal(c.fence, 9) == VKS_OK && held(c.device) == 2, "a later one comes after it");
            stub_work(c.api, wait, 6);
            CHECK(vks_fence_external_end(c.fence, 6) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(SOON(value_of(c.fence) == 9) && held(c.device) == 0, "both came");
        } else {
            CHECK(vks_fence_external_end(c.fence, 0) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(queued_of(c.fence) == 2 && held(c.device) == 1, "as it was");
            CHECK(vks_fence_signal(c.fence, 6) == VKS_OK && held(c.device) == 0, "another signal ends the wait");
        }
        CHECK(vks_fence_external_end(c.fence, 6) == VKS_BAD_VALUE, "once");
        drop_cast(&c);
    }
}

/* rules: I3, X1, X10, X11 */
static void an_external_api_gets_the_same_refusals_as_a_submission(void)
{
    cast c = new_cast();
    uint64_t wait = 9;
    CHECK(vks_fence_signal(c.fence, 4) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_external_begin(c.fence, 4, &wait) == VKS_BAD_VALUE && wait == 0, "not above the queued value");
    CHECK(vks_fence_external_begin(c.fence, 0, &wait) == VKS_BAD_VALUE, "0 is none");
    CHECK(vks_fence_external_begin(c.fence, UINT64_MAX, &wait) == VKS_BAD_VALUE, "nor is 2**64 - 1");
    CHECK(vks_fence_external_begin(c.follower, 5, &wait) == VKS_READ_ONLY, "X10");
    CHECK(vks_fence_external_begin(c.follower, 0, &wait) == VKS_READ_ONLY, "X10");
    CHECK(vks_fence_external_end(c.follower, 5) == VKS_BAD_VALUE, "external use did not begin");
    pid_t child = fork();
    if (child == 0)
        _exit(vks_fence_external_wait(c.fence, 1, 0, &wait) == VKS_FORKED &&
                      vks_fence_external_begin(c.fence, 5, &wait) == VKS_FORKED &&
                      vks_fence_external_end(c.fence, 0) == VKS_FORKED && vks_fence_external_lost(c.fence) == VKS_FORKED
                  ? 0
                  : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%d", status);
    CHECK(vks_fence_external_lost(c.fence) == VKS_OK && vks_fence_signal(c.fence, 5) == VKS_OK, "nothing was lost");
    vks_fence_close(c.fence);
    CHECK(vks_fence_external_wait(c.fence, 4, 0, &wait) == VKS_CLOSED &&
              vks_fence_external_begin(c.fence, 6, &wait) == VKS_CLOSED &&
              vks_fence_external_end(c.fence, 0) == VKS_CLOSED && vks_fence_external_lost(c.fence) == VKS_CLOSED,
          "closed");
    drop_cast(&c);
    vks_device *devices[2] = {stub_open("bridged", false)};
    CHECK(vks_device_create(&(vks_device_info){.name = "cpu"}, &devices[1]) == VKS_OK, "memory");
    for (int cpu = 0; cpu < 2; cpu++) {
        vks_fence *fence;
        CHECK(vks_fence_create(devices[cpu], 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_fence_external_wait(fence, 0, 0, &wait) == VKS_UNSUPPORTED &&
                  vks_fence_external_begin(fence, 1, &wait) == VKS_UNSUPPORTED && queued_of(fence) == 0,
              "it has no semaphore that goes out");
        close_fence(fence);
    }
    stub_close(devices[0]);
    vks_device_shutdown(devices[1]);
    vks_device_unref(devices[1]);
}

int main(void)
{
    STEP(values_come_in_order_whichever_queue_signals_them);
    STEP(queues_wait_for_an_external_apis_value_and_nothing_is_held);
    STEP(a_value_wakes_all_its_waiters_in_every_process);
    STEP(an_apis_queue_never_waits_for_held_work);
    STEP(a_wait_for_an_announced_value_ends_with_every_outcome);
    STEP(no_wait_relies_on_a_signal_that_the_api_does_not_have_yet);
    STEP(an_external_api_gets_the_same_refusals_as_a_submission);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
