/* Another API's queue waits for a fence and signals it by the fence's own semaphore (CUDA). Over the stub driver, which
 * notices a signal that does not increase the value. */
#include <poll.h>
#include <sys/wait.h>

#include "outside.h"

/* ---- the cast ---- */

typedef struct cast {
    vks_device *device, *other;
    vks_fence *fence, *follower; /* the other device's */
    stub_api *api, *theirs;      /* theirs imported the follower */
} cast;

static vks_fence *follow(vks_fence *fence, vks_device *device)
{
    int page, semaphore;
    vks_fence *follower = NULL;
    CHECK(vks_fence_export(fence, &page, &semaphore) == VKS_OK &&
              vks_fence_open(device, page, semaphore, &follower) == VKS_OK,
          "%s", vks_last_error()->text);
    return follower;
}

static cast raise_curtain(void)
{
    cast c = {.device = stub_open("here", true), .other = stub_open("there", true)};
    CHECK(vks_fence_create(c.device, 0, &c.fence) == VKS_OK, "%s", vks_last_error()->text);
    c.follower = follow(c.fence, c.other);
    c.api = stub_import_fence(c.fence);
    c.theirs = stub_import_fence(c.follower);
    CHECK(c.api && c.theirs, "%s", vks_last_error()->text);
    return c;
}

static void close_fence(vks_fence *fence)
{
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

static void drop_curtain(cast *c)
{
    close_fence(c->follower);
    close_fence(c->fence);
    drop_api(c->theirs);
    drop_api(c->api);
    stub_close(c->other);
    stub_close(c->device);
}

/* ---- what they do ---- */

/* A batch of the device's queue: *held, if it is not NULL, is the caller's to drop. */
static vks_status batch(vks_device *device, vks_wait wait, vks_signal signal, vks_submission *out)
{
    vks_submission ignored = {0};
    vks_submit_info info = {
        .waits = &wait, .n_waits = wait.fence != NULL, .signals = &signal, .n_signals = signal.fence != NULL};
    vks_status status = vks_submit(device, &info, 0, out ? out : &ignored);
    if (ignored.op)
        vks_op_unref(ignored.op);
    return status;
}

#define WAIT(f, v) ((vks_wait){.fence = (f), .value = (v)})
#define SIGNAL(f, v) ((vks_signal){(f), (v)})
#define NO_WAIT ((vks_wait){0})
#define NO_SIGNAL ((vks_signal){0})

static void api_signals(vks_fence *fence, stub_api *api, uint64_t value)
{
    uint64_t wait;
    vks_status status = vks_fence_lend_value(fence, value, &wait);
    CHECK(status == VKS_OK && wait < value, "status %d: %s", status, vks_last_error()->text);
    stub_work(api, wait, value);
    CHECK(vks_fence_lent_back(fence, value) == VKS_OK, "%s", vks_last_error()->text);
}

static uint64_t value_of(vks_fence *fence)
{
    uint64_t value = UINT64_MAX;
    CHECK(vks_fence_value(fence, &value) == VKS_OK, "%s", vks_last_error()->text);
    return value;
}

static uint64_t queued_of(vks_fence *fence)
{
    uint64_t value = UINT64_MAX;
    CHECK(vks_fence_queued(fence, &value) == VKS_OK, "%s", vks_last_error()->text);
    return value;
}

static vks_status wait_for(vks_fence *fence, uint64_t value, uint64_t ms)
{
    return AGAIN(vks_fence_wait(fence, value, vks_now() + ms * MS));
}

static bool is_readable(int fd, int ms) { return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1; }

static uint32_t held(vks_device *device)
{
    vks_device_statistics statistics;
    vks_device_get_statistics(device, &statistics);
    return (uint32_t)statistics.held;
}

/* ---- in order ---- */

/* Whoever brings the next value, with either queue standing still or not. rules: I3, X1, X2 */
static void values_come_in_order_whichever_queue_brings_them(void)
{
    cast c = raise_curtain();
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
    drop_curtain(&c);
}

/* rules: I3, X4 */
static void queues_wait_for_what_another_api_brings_and_nothing_is_held(void)
{
    cast c = raise_curtain();
    vks_fence *done;
    vks_submission here = {0}, there = {0};
    CHECK(vks_fence_create(c.device, 0, &done) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall_api(c.api, true);
    CHECK(batch(c.other, WAIT(c.follower, 5), NO_SIGNAL, &there) == VKS_OK && held(c.other) == 1, "nobody promised it");
    api_signals(c.fence, c.api, 5);
    CHECK(batch(c.device, WAIT(c.fence, 5), SIGNAL(done, 1), &here) == VKS_OK && held(c.device) == 0, "it is certain");
    CHECK(SOON(held(c.other) == 0), "there, too");
    usleep(5000);
    CHECK(vks_submission_poll(c.device, &here) == VKS_TIMEOUT && vks_submission_poll(c.other, &there) == VKS_TIMEOUT &&
              value_of(done) == 0 && value_of(c.fence) == 0 && queued_of(c.follower) == 5,
          "they wait on the GPU");
    stub_stall_api(c.api, false);
    CHECK(AGAIN(vks_submission_wait(c.device, &here, vks_now() + 1000 * MS)) == VKS_OK &&
              AGAIN(vks_submission_wait(c.other, &there, vks_now() + 1000 * MS)) == VKS_OK,
          "and run");
    CHECK(value_of(c.fence) == 5 && value_of(done) == 1, "in order");
    if (there.op)
        vks_op_unref(there.op);
    close_fence(done);
    drop_curtain(&c);
}

typedef struct waiter {
    vks_fence *fence;
    uint64_t value, took;
    vks_status status;
} waiter;

static void *wait_in_thread(void *argument)
{
    waiter *w = argument;
    uint64_t start = vks_now();
    w->status = wait_for(w->fence, w->value, 3000);
    w->took = vks_now() - start;
    return NULL;
}

/* By what value: 1 is queued when the waits begin, 2 is promised by nobody yet. rules: I3, X3, X23, X24 */
static void the_value_wakes_whoever_waits_for_it_here_and_elsewhere(void)
{
    for (uint64_t early = 0; early < 2; early++) {
        cast c = raise_curtain();
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
            CHECK(waiters[i].status == VKS_OK && waiters[i].took < 1000 * MS, "%d: status %d after %.1f ms", i,
                  waiters[i].status, waiters[i].took / 1e6);
            CHECK(is_readable(fds[i], 1000), "and its event");
            close(fds[i]);
        }
        drop_curtain(&c);
    }
}

/* ---- before it waits ---- */

/* rules: I3, X4, X7 */
static void an_apis_queue_never_waits_for_what_is_held(void)
{
    cast c = raise_curtain();
    vks_fence *gate;
    uint64_t wait = 9;
    CHECK(vks_fence_create(c.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(batch(c.device, WAIT(gate, 1), SIGNAL(c.fence, 3), NULL) == VKS_OK && held(c.device) == 1, "held");
    vks_fence *fences[] = {c.fence, c.follower};
    for (int i = 0; i < 2; i++) {
        uint64_t start = vks_now();
        CHECK(vks_fence_lend_wait(fences[i], 3, 0, &wait) == VKS_TIMEOUT && wait == 0, "deadline 0 tests");
        CHECK(AGAIN(vks_fence_lend_wait(fences[i], 3, start + 30 * MS, &wait)) == VKS_TIMEOUT, "held");
        CHECK(vks_now() - start >= 30 * MS && vks_now() - start < 1000 * MS, "after %.1f ms",
              (vks_now() - start) / 1e6);
    }
    CHECK(vks_fence_lend_value(c.fence, 4, &wait) == VKS_BAD_CALL, "a stream cannot be held");
    stub_stall(true);
    CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
    for (int i = 0; i < 2; i++) {
        CHECK(AGAIN(vks_fence_lend_wait(fences[i], 3, vks_now() + 1000 * MS, &wait)) == VKS_OK && wait == 3,
              "a driver has it: %s", vks_last_error()->text);
        stub_work(i ? c.theirs : c.api, wait, 0);
    }
    CHECK(!stub_is_idle(c.api) && !stub_is_idle(c.theirs), "they wait");
    stub_stall(false);
    CHECK(SOON(stub_is_idle(c.api) && stub_is_idle(c.theirs)), "and go on");
    CHECK(vks_fence_lend_wait(c.fence, 3, 0, &wait) == VKS_OK && wait == 0, "reached: nothing is left to wait for");
    CHECK(vks_fence_lend_wait(c.fence, 0, 0, &wait) == VKS_OK && wait == 0, "as 0 is");
    close_fence(gate);
    drop_curtain(&c);
}

typedef struct lender {
    vks_fence *fence;
    uint64_t wait;
    vks_status status;
} lender;

static void *lend_in_thread(void *argument)
{
    lender *l = argument;
    l->status = AGAIN(vks_fence_lend_wait(l->fence, 1, vks_now() + 3000 * MS, &l->wait));
    return NULL;
}

/* How a wait for a promise ends: it is made, its maker breaks it, the fence is closed, the device is lost. rules: I3,
 * X21 */
static void a_wait_for_a_promise_ends_with_whatever_happens(void)
{
    static const vks_status ends[][2] = {
        {VKS_OK, VKS_OK}, {VKS_DEVICE_LOST, VKS_ABANDONED}, {VKS_CLOSED, VKS_ABANDONED}};
    for (int i = 0; i < 3; i++) {
        cast c = raise_curtain();
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
        CHECK(vks_now() - start < 1000 * MS, "after %.1f ms", (vks_now() - start) / 1e6);
        stub_stall(false);
        drop_curtain(&c);
    }
}

/* ---- while the API is told ---- */

/* rules: I3, X1 */
static void until_the_api_has_the_signal_nobody_counts_on_it(void)
{
    for (int refused = 0; refused < 2; refused++) {
        cast c = raise_curtain();
        uint64_t wait;
        CHECK(vks_fence_signal(c.fence, 2) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_fence_lend_value(c.fence, 6, &wait) == VKS_OK && wait == 0, "nothing comes before it");
        CHECK(queued_of(c.fence) == 6 && queued_of(c.follower) == 2, "promised here, and told to nobody");
        CHECK(vks_fence_lend_value(c.fence, 7, &wait) == VKS_BAD_CALL, "one at a time");
        CHECK(vks_fence_lend_wait(c.fence, 6, 0, &wait) == VKS_TIMEOUT, "no queue is to wait for it");
        CHECK(batch(c.device, WAIT(c.fence, 6), NO_SIGNAL, NULL) == VKS_OK && held(c.device) == 1, "held");
        CHECK(vks_fence_signal(c.fence, 6) == VKS_BAD_VALUE, "it is promised");
        CHECK(vks_fence_lent_back(c.fence, 5) == VKS_BAD_VALUE, "not that one");
        if (!refused) {
            CHECK(vks_fence_signal(c.fence, 9) == VKS_OK && held(c.device) == 2, "a later one comes after it");
            stub_work(c.api, wait, 6);
            CHECK(vks_fence_lent_back(c.fence, 6) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(SOON(value_of(c.fence) == 9) && held(c.device) == 0, "both came");
        } else {
            CHECK(vks_fence_lent_back(c.fence, 0) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(queued_of(c.fence) == 2 && held(c.device) == 1, "as it was");
            CHECK(vks_fence_signal(c.fence, 6) == VKS_OK && held(c.device) == 0, "who waits is helped by another");
        }
        CHECK(vks_fence_lent_back(c.fence, 6) == VKS_BAD_VALUE, "once");
        drop_curtain(&c);
    }
}

/* rules: I3, X1, X10, X11 */
static void what_a_fence_refuses_is_refused_to_other_apis(void)
{
    cast c = raise_curtain();
    uint64_t wait = 9;
    CHECK(vks_fence_signal(c.fence, 4) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_lend_value(c.fence, 4, &wait) == VKS_BAD_VALUE && wait == 0, "not above the queued value");
    CHECK(vks_fence_lend_value(c.fence, 0, &wait) == VKS_BAD_VALUE, "0 is none");
    CHECK(vks_fence_lend_value(c.fence, UINT64_MAX, &wait) == VKS_BAD_VALUE, "nor is 2**64 - 1");
    CHECK(vks_fence_lend_value(c.follower, 5, &wait) == VKS_READ_ONLY, "X10");
    CHECK(vks_fence_lend_value(c.follower, 0, &wait) == VKS_READ_ONLY, "X10");
    CHECK(vks_fence_lent_back(c.follower, 5) == VKS_BAD_VALUE, "nobody lent it");
    pid_t child = fork();
    if (child == 0)
        _exit(vks_fence_lend_wait(c.fence, 1, 0, &wait) == VKS_FORKED &&
                      vks_fence_lend_value(c.fence, 5, &wait) == VKS_FORKED &&
                      vks_fence_lent_back(c.fence, 0) == VKS_FORKED && vks_fence_outside_lost(c.fence) == VKS_FORKED
                  ? 0
                  : 1);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "%d", status);
    CHECK(vks_fence_outside_lost(c.fence) == VKS_OK && vks_fence_signal(c.fence, 5) == VKS_OK, "nothing was lost");
    vks_fence_close(c.fence);
    CHECK(vks_fence_lend_wait(c.fence, 4, 0, &wait) == VKS_CLOSED &&
              vks_fence_lend_value(c.fence, 6, &wait) == VKS_CLOSED && vks_fence_lent_back(c.fence, 0) == VKS_CLOSED &&
              vks_fence_outside_lost(c.fence) == VKS_CLOSED,
          "closed");
    drop_curtain(&c);
    vks_device *devices[2] = {stub_open("bridged", false)};
    CHECK(vks_device_create(&(vks_device_info){.name = "cpu"}, &devices[1]) == VKS_OK, "memory");
    for (int cpu = 0; cpu < 2; cpu++) {
        vks_fence *fence;
        CHECK(vks_fence_create(devices[cpu], 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_fence_lend_wait(fence, 0, 0, &wait) == VKS_UNSUPPORTED &&
                  vks_fence_lend_value(fence, 1, &wait) == VKS_UNSUPPORTED && queued_of(fence) == 0,
              "it has no semaphore that goes out");
        close_fence(fence);
    }
    stub_close(devices[0]);
    vks_device_shutdown(devices[1]);
    vks_device_unref(devices[1]);
}

/* ---- the end ---- */

/* Two of the API's values outstanding with a batch of ours between them, and one behind. rules: I3, X4, X21 */
static void what_an_api_that_died_was_to_bring_is_abandoned_at_once(void)
{
    for (int stalled = 0; stalled < 2; stalled++) {
        cast c = raise_curtain();
        vks_submission behind = {0}, there = {0};
        waiter waiters[] = {{.fence = c.fence, .value = 4}, {.fence = c.follower, .value = 4}};
        pthread_t threads[2];
        int fd;
        api_signals(c.fence, c.api, 1);
        CHECK(SOON(value_of(c.fence) == 1), "the first came");
        stub_stall_api(c.api, true);
        stub_stall(stalled);
        CHECK(batch(c.device, NO_WAIT, SIGNAL(c.fence, 3), NULL) == VKS_OK, "%s", vks_last_error()->text);
        api_signals(c.fence, c.api, 5);
        CHECK(batch(c.device, NO_WAIT, SIGNAL(c.fence, 6), NULL) == VKS_OK, "%s", vks_last_error()->text);
        api_signals(c.fence, c.api, 7);
        CHECK(batch(c.device, WAIT(c.fence, 7), NO_SIGNAL, &behind) == VKS_OK && held(c.device) == 0, "on the GPU");
        CHECK(batch(c.other, WAIT(c.follower, 7), NO_SIGNAL, &there) == VKS_OK && held(c.other) == 0, "on the GPU");
        CHECK(vks_fence_event_fd(c.fence, 4, &fd) == VKS_OK, "%s", vks_last_error()->text);
        for (int i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, wait_in_thread, &waiters[i]);
        usleep(5000);
        stub_lose_api(c.api);
        CHECK(vks_fence_outside_lost(c.fence) == VKS_OK, "%s", vks_last_error()->text);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            CHECK(waiters[i].took < 1000 * MS && (i || waiters[i].status == VKS_ABANDONED), "%d: %d after %.1f ms", i,
                  waiters[i].status, waiters[i].took / 1e6);
        }
        CHECK(is_readable(fd, 1000), "its event says so");
        close(fd);
        stub_stall(false);
        CHECK(AGAIN(vks_submission_wait(c.device, &behind, vks_now() + 1000 * MS)) == VKS_OK, "our queue goes on");
        CHECK(AGAIN(vks_submission_wait(c.other, &there, vks_now() + 1000 * MS)) == VKS_OK, "and theirs");
        CHECK(SOON(value_of(c.fence) == 3), "what came before counts, and no more: %d", (int)value_of(c.fence));
        CHECK(wait_for(c.fence, 3, 100) == VKS_OK && wait_for(c.fence, 4, 100) == VKS_ABANDONED &&
                  wait_for(c.fence, 7, 100) == VKS_ABANDONED,
              "whatever the semaphore says");
        uint64_t wait;
        CHECK(batch(c.device, WAIT(c.fence, 7), NO_SIGNAL, NULL) == VKS_ABANDONED &&
                  vks_fence_lend_wait(c.fence, 7, 0, &wait) == VKS_ABANDONED &&
                  vks_fence_lend_value(c.fence, 8, &wait) == VKS_ABANDONED &&
                  vks_fence_signal(c.fence, 8) == VKS_ABANDONED,
              "it is broken");
        uint64_t start = vks_now();
        drop_curtain(&c);
        CHECK(vks_now() - start < 1000 * MS, "closed after %.1f ms", (vks_now() - start) / 1e6);
    }
}

/* rules: I3, X4, X21 */
static void an_api_that_waits_for_one_that_is_lost_goes_on(void)
{
    cast c = raise_curtain();
    uint64_t wait;
    stub_stall(true);
    CHECK(batch(c.device, NO_WAIT, SIGNAL(c.fence, 1), NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_lend_wait(c.follower, 1, vks_now() + 1000 * MS, &wait) == VKS_OK && wait == 1, "%s",
          vks_last_error()->text);
    stub_work(c.theirs, wait, 0);
    usleep(50000);
    CHECK(!stub_is_idle(c.theirs), "nobody is dead");
    stub_fail_submit(c.device, STUB_DEVICE_LOST, 1); /* its work is gone with it */
    CHECK(vks_submit(c.device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
    CHECK(SOON(stub_is_idle(c.theirs)), "its stream is not stuck");
    stub_stall(false);
    drop_curtain(&c);
}

static void *let_go_soon(void *api)
{
    usleep(50000);
    stub_stall_api(api, false);
    return NULL;
}

/* rules: I3, X6 */
static void close_waits_for_what_the_api_was_given(void)
{
    for (int of_device = 0; of_device < 2; of_device++) {
        cast c = raise_curtain();
        stub_stall_api(c.api, true);
        api_signals(c.fence, c.api, 3);
        pthread_t thread;
        uint64_t start = vks_now();
        pthread_create(&thread, NULL, let_go_soon, c.api);
        if (of_device)
            stub_close(c.device);
        else
            vks_fence_close(c.fence);
        CHECK(stub_is_idle(c.api) && vks_now() - start < 2000 * MS, "after %.1f ms", (vks_now() - start) / 1e6);
        pthread_join(thread, NULL);
        CHECK(wait_for(c.follower, 3, 1000) == VKS_OK, "it came before the end");
        CHECK(wait_for(c.follower, 4, 1000) == VKS_ABANDONED, "and no more will");
        if (!of_device) {
            drop_curtain(&c);
            continue;
        }
        close_fence(c.follower);
        vks_fence_unref(c.fence);
        drop_api(c.theirs);
        drop_api(c.api);
        stub_close(c.other);
    }
}

/* rules: I3, X21 */
static void a_device_that_is_lost_ends_what_its_fences_lent(void)
{
    cast c = raise_curtain();
    uint64_t wait;
    stub_stall_api(c.api, true);
    api_signals(c.fence, c.api, 1);
    CHECK(vks_fence_lend_value(c.fence, 2, &wait) == VKS_OK && wait == 1, "behind its own: %d", (int)wait);
    vks_device_mark_lost(c.device);
    CHECK(vks_fence_lent_back(c.fence, 2) == VKS_DEVICE_LOST && wait_for(c.fence, 1, 1000) == VKS_DEVICE_LOST &&
              wait_for(c.follower, 2, 1000) == VKS_ABANDONED,
          "X21");
    uint64_t start = vks_now();
    drop_curtain(&c);
    CHECK(vks_now() - start < 1000 * MS, "closed after %.1f ms", (vks_now() - start) / 1e6);
}

/* ---- the same of a surface ---- */

/* In the block; after it; after the tenure; and with the queue's work behind it. rules: I3, K7, K9 */
static void a_surface_whose_api_died_is_abandoned_at_once_and_recovers(void)
{
    for (int step = 0; step < 4; step++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        uint64_t wait, signal;
        own(&a, 0);
        CHECK(vks_surface_outside_lost(a.surface) == VKS_OK && look(&a).state == 1, "it had nothing to bring");
        stub_stall_api(api, true);
        CHECK(vks_surface_lend_out(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 0) {
            CHECK(vks_surface_lent_value(a.surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
            stub_work(api, wait, signal);
            CHECK(vks_surface_lent_back(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        }
        if (step > 2)
            CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
        if (step > 1)
            hand_on(&a, 1);
        uint64_t start = vks_now();
        stub_lose_api(api);
        CHECK(vks_surface_outside_lost(a.surface) == VKS_OK, "%s", vks_last_error()->text);
        if (step <= 1)
            CHECK(vks_surface_release(a.surface, 1) == VKS_ABANDONED, "step %d: nobody is handed that", step);
        CHECK(vks_surface_acquire(c.surface, 1, vks_now() + 1000 * MS) == VKS_ABANDONED, "step %d", step);
        CHECK(AGAIN(vks_surface_recover(c.surface, vks_now() + 1000 * MS)) == VKS_OK, "step %d: %s", step,
              vks_last_error()->text);
        CHECK(draw(&c, NULL) == VKS_OK, "%s", vks_last_error()->text);
        hand_on(&c, 2);
        idle(&c);
        idle(&a);
        drop_party(&a);
        CHECK(vks_now() - start < 2000 * MS, "step %d: after %.1f ms", step, (vks_now() - start) / 1e6);
        drop_party(&c);
        drop_api(api);
    }
}

/* ---- all at once ---- */

typedef struct crowd {
    cast *cast;
    pthread_mutex_t by_api; /* one thread speaks for the API at a time */
    _Atomic bool over;
    _Atomic uint64_t next;
} crowd;

static void take_turn(crowd *c, unsigned dice)
{
    vks_fence *fence = c->cast->fence;
    uint64_t wait, value = c->next++;
    switch (dice & 7) {
    case 0:
        vks_fence_signal(fence, value);
        break;
    case 1:
        batch(c->cast->device, NO_WAIT, SIGNAL(fence, 0), NULL);
        break;
    case 2:
        vks_fence_wait(dice & 8 ? fence : c->cast->follower, value, vks_now() + MS);
        break;
    case 3:
        batch(c->cast->other, WAIT(c->cast->follower, value), NO_SIGNAL, NULL);
        break;
    case 4:
        if (vks_fence_lend_wait(c->cast->follower, value, vks_now() + MS, &wait) == VKS_OK && wait) {
            pthread_mutex_lock(&c->by_api);
            stub_work(c->cast->theirs, wait, 0);
            pthread_mutex_unlock(&c->by_api);
        }
        break;
    default:
        pthread_mutex_lock(&c->by_api);
        if (vks_fence_lend_value(fence, value, &wait) == VKS_OK) {
            stub_work(c->cast->api, wait, value);
            vks_fence_lent_back(fence, value);
        }
        pthread_mutex_unlock(&c->by_api);
    }
}

static void *call_anything(void *argument)
{
    crowd *c = argument;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!c->over)
        take_turn(c, (seed = seed * 1103515245u + 12345u) >> 16);
    return NULL;
}

/* rules: I3, X2 */
static void threads_may_call_anything_at_any_time_and_close_the_fence(void)
{
    for (long i = 0, n = check_scale("VKS_ROUNDS", 4); i < n; i++) {
        cast c = raise_curtain();
        crowd all = {.cast = &c, .next = 1};
        pthread_mutex_init(&all.by_api, NULL);
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            pthread_create(&threads[t], NULL, call_anything, &all);
        usleep(60000);
        if (i == 0)
            printf("     %d values, at %d\n", (int)all.next, (int)value_of(c.fence));
        CHECK(value_of(c.fence) > 10, "it went on: %d", (int)value_of(c.fence));
        vks_fence_close(c.fence); /* under their hands */
        all.over = true;
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        CHECK(SOON(stub_is_idle(c.api) && stub_is_idle(c.theirs)), "nothing is stuck");
        drop_curtain(&c);
    }
}

int main(void)
{
    STEP(values_come_in_order_whichever_queue_brings_them);
    STEP(queues_wait_for_what_another_api_brings_and_nothing_is_held);
    STEP(the_value_wakes_whoever_waits_for_it_here_and_elsewhere);
    STEP(an_apis_queue_never_waits_for_what_is_held);
    STEP(a_wait_for_a_promise_ends_with_whatever_happens);
    STEP(until_the_api_has_the_signal_nobody_counts_on_it);
    STEP(what_a_fence_refuses_is_refused_to_other_apis);
    STEP(what_an_api_that_died_was_to_bring_is_abandoned_at_once);
    STEP(an_api_that_waits_for_one_that_is_lost_goes_on);
    STEP(close_waits_for_what_the_api_was_given);
    STEP(a_device_that_is_lost_ends_what_its_fences_lent);
    STEP(a_surface_whose_api_died_is_abandoned_at_once_and_recovers);
    STEP(threads_may_call_anything_at_any_time_and_close_the_fence);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
