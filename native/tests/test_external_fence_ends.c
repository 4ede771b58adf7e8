/* Fences that an external API signals (test_external_fences.c) when something ends: the API is
 * lost, a fence or a device is closed or lost, or threads make calls at any time. */
#include "external_fences.h"

/* ---- the end ---- */

/* Two values of the API are outstanding, with a batch of the device between them and one behind.
 * rules: I3, X4, X21 */
static void outstanding_values_of_a_lost_api_are_abandoned_at_once(void)
{
    for (int stalled = 0; stalled < 2; stalled++) {
        cast c = new_cast();
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
        CHECK(vks_fence_external_lost(c.fence) == VKS_OK, "%s", vks_last_error()->text);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            CHECK(waiters[i].took < HANG && (i || waiters[i].status == VKS_ABANDONED), "%d: %d after %.1f ms", i,
                  waiters[i].status, waiters[i].took / 1e6);
        }
        CHECK(is_readable(fd, 1000), "its event says so");
        close(fd);
        stub_stall(false);
        CHECK(AGAIN(vks_submission_wait(c.device, &behind, vks_now() + HANG)) == VKS_OK, "this queue continues");
        CHECK(AGAIN(vks_submission_wait(c.other, &there, vks_now() + HANG)) == VKS_OK, "and the other one");
        CHECK(SOON(value_of(c.fence) == 3), "only earlier values count: %d", (int)value_of(c.fence));
        CHECK(wait_for(c.fence, 3, 100) == VKS_OK && wait_for(c.fence, 4, 100) == VKS_ABANDONED &&
                  wait_for(c.fence, 7, 100) == VKS_ABANDONED,
              "whatever the semaphore says");
        uint64_t wait;
        CHECK(batch(c.device, WAIT(c.fence, 7), NO_SIGNAL, NULL) == VKS_ABANDONED &&
                  vks_fence_external_wait(c.fence, 7, 0, &wait) == VKS_ABANDONED &&
                  vks_fence_external_begin(c.fence, 8, &wait) == VKS_ABANDONED &&
                  vks_fence_signal(c.fence, 8) == VKS_ABANDONED,
              "it has failed");
        uint64_t start = vks_now();
        drop_cast(&c);
        CHECK(vks_now() - start < HANG, "closed after %.1f ms", (vks_now() - start) / 1e6);
    }
}

/* rules: I3, X4, X21 */
static void an_api_wait_for_a_lost_signaller_ends(void)
{
    cast c = new_cast();
    uint64_t wait;
    stub_stall(true);
    CHECK(batch(c.device, NO_WAIT, SIGNAL(c.fence, 1), NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_external_wait(c.follower, 1, vks_now() + HANG, &wait) == VKS_OK && wait == 1, "%s",
          vks_last_error()->text);
    stub_work(c.theirs, wait, 0);
    usleep(50000);
    CHECK(!stub_is_idle(c.theirs), "no party is dead");
    stub_fail_submit(c.device, STUB_DEVICE_LOST, 1); /* its work is lost with it */
    CHECK(vks_submit(c.device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
    CHECK(SOON(stub_is_idle(c.theirs)), "its stream continues");
    stub_stall(false);
    drop_cast(&c);
}

static void *resume_soon(void *api)
{
    usleep(50000);
    stub_stall_api(api, false);
    return NULL;
}

/* rules: I3, X6 */
static void close_waits_for_values_queued_with_the_api(void)
{
    for (int of_device = 0; of_device < 2; of_device++) {
        cast c = new_cast();
        stub_stall_api(c.api, true);
        api_signals(c.fence, c.api, 3);
        pthread_t thread;
        uint64_t start = vks_now();
        pthread_create(&thread, NULL, resume_soon, c.api);
        if (of_device)
            stub_close(c.device);
        else
            vks_fence_close(c.fence);
        CHECK(stub_is_idle(c.api) && vks_now() - start < HANG, "after %.1f ms", (vks_now() - start) / 1e6);
        pthread_join(thread, NULL);
        CHECK(wait_for(c.follower, 3, 1000) == VKS_OK, "it came before the end");
        CHECK(wait_for(c.follower, 4, 1000) == VKS_ABANDONED, "and no more will");
        if (!of_device) {
            drop_cast(&c);
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
static void a_lost_device_ends_external_use_of_its_fences(void)
{
    cast c = new_cast();
    uint64_t wait;
    stub_stall_api(c.api, true);
    api_signals(c.fence, c.api, 1);
    CHECK(vks_fence_external_begin(c.fence, 2, &wait) == VKS_OK && wait == 1, "behind its own: %d", (int)wait);
    vks_device_mark_lost(c.device);
    CHECK(vks_fence_external_end(c.fence, 2) == VKS_DEVICE_LOST && wait_for(c.fence, 1, 1000) == VKS_DEVICE_LOST &&
              wait_for(c.follower, 2, 1000) == VKS_ABANDONED,
          "X21");
    uint64_t start = vks_now();
    drop_cast(&c);
    CHECK(vks_now() - start < HANG, "closed after %.1f ms", (vks_now() - start) / 1e6);
}

/* ---- all at once ---- */

typedef struct crowd {
    cast *cast;
    pthread_mutex_t by_api; /* one thread uses the API at a time */
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
        if (vks_fence_external_wait(c->cast->follower, value, vks_now() + MS, &wait) == VKS_OK && wait) {
            pthread_mutex_lock(&c->by_api);
            stub_work(c->cast->theirs, wait, 0);
            pthread_mutex_unlock(&c->by_api);
        }
        break;
    default:
        pthread_mutex_lock(&c->by_api);
        if (vks_fence_external_begin(fence, value, &wait) == VKS_OK) {
            stub_work(c->cast->api, wait, value);
            vks_fence_external_end(fence, value);
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
        cast c = new_cast();
        crowd all = {.cast = &c, .next = 1};
        pthread_mutex_init(&all.by_api, NULL);
        pthread_t threads[4];
        for (int t = 0; t < 4; t++)
            pthread_create(&threads[t], NULL, call_anything, &all);
        usleep(60000);
        if (i == 0)
            printf("     %d values, at %d\n", (int)all.next, (int)value_of(c.fence));
        CHECK(SOON(value_of(c.fence) > 10), "it went on: %d", (int)value_of(c.fence));
        vks_fence_close(c.fence); /* under their hands */
        all.over = true;
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        CHECK(SOON(stub_is_idle(c.api) && stub_is_idle(c.theirs)), "no queue waits forever");
        drop_cast(&c);
    }
}

int main(void)
{
    STEP(outstanding_values_of_a_lost_api_are_abandoned_at_once);
    STEP(an_api_wait_for_a_lost_signaller_ends);
    STEP(close_waits_for_values_queued_with_the_api);
    STEP(a_lost_device_ends_external_use_of_its_fences);
    STEP(threads_may_call_anything_at_any_time_and_close_the_fence);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
