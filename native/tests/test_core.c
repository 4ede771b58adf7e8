/* The core on the CPU backend: devices, fences, surfaces and held submissions, from many threads;
 * run under ASAN and TSAN. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "os/platform.h"
#include "raster/raster.h"
#include "submit/compile.h"
#include "vkshare.h"

#define SECOND UINT64_C(1000000000)

static vks_device *open_device(uint32_t held_limit)
{
    vks_device *device = NULL;
    vks_device_info info = {.name = "test", .held_limit = held_limit, .raster_threads = 2};
    CHECK(vks_device_create(&info, &device) == VKS_OK, "%s", vks_last_error()->text);
    return device;
}

static void close_device(vks_device *device)
{
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static vks_fence *new_fence(vks_device *device)
{
    vks_fence *fence = NULL;
    CHECK(vks_fence_create(device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    return fence;
}

static void close_fence(vks_fence *fence)
{
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

static vks_status submit(vks_device *device, vks_commands *commands, vks_fence *wait, uint64_t wait_value,
                         vks_fence *signal, uint64_t value, vks_submission *out)
{
    vks_wait w = {.fence = wait, .value = wait_value};
    vks_signal s = {signal, value};
    vks_submit_info info = {.commands = &commands,
                            .n_commands = commands != NULL,
                            .waits = &w,
                            .n_waits = wait != NULL,
                            .signals = &s,
                            .n_signals = signal != NULL};
    return vks_submit(device, &info, VKS_FOREVER, out);
}

static vks_fence *follow(vks_fence *fence, vks_device *device)
{
    int page, semaphore;
    vks_fence *follower = NULL;
    CHECK(vks_fence_export(fence, &page, &semaphore) == VKS_OK && semaphore == -1, "%s", vks_last_error()->text);
    CHECK(vks_fence_open(device, page, semaphore, &follower) == VKS_OK, "%s", vks_last_error()->text);
    return follower;
}

/* ---- fences ---- */

/* rules: X1 */
static void a_signal_must_grow_and_stay_in_range(void)
{
    vks_device *device = open_device(0);
    vks_fence *fence = new_fence(device);
    CHECK(vks_fence_signal(fence, 5) == VKS_OK, "first");
    CHECK(vks_fence_signal(fence, 5) == VKS_BAD_VALUE && vks_fence_signal(fence, 4) == VKS_BAD_VALUE, "it must grow");
    CHECK(vks_fence_signal(fence, UINT64_MAX) == VKS_BAD_VALUE, "2**64 - 1 is not a value");
    CHECK(vks_fence_signal(fence, 5 + (UINT64_C(1) << 31)) == VKS_BAD_VALUE, "too far");
    CHECK(vks_fence_signal(fence, 5 + (UINT64_C(1) << 31) - 1) == VKS_OK, "just not too far");
    close_fence(fence);
    close_device(device);
}

typedef struct waiter {
    vks_fence *fence;
    uint64_t value;
    vks_status status;
} waiter;

static void *wait_for(void *argument)
{
    waiter *w = argument;
    w->status = vks_fence_wait(w->fence, w->value, vks_now() + 20 * SECOND);
    uint64_t value = 0;
    vks_fence_value(w->fence, &value);
    if (w->status == VKS_OK && value < w->value)
        w->status = VKS_BAD_VALUE;
    return NULL;
}

/* rules: X24, X2, X10 */
static void every_waiter_wakes_when_its_value_is_reached(void)
{
    vks_device *device = open_device(0), *other = open_device(0);
    vks_fence *fence = new_fence(device), *follower = follow(fence, other);
    enum { N = 16 };
    waiter waiters[N];
    pthread_t threads[N];
    for (int i = 0; i < N; i++) {
        waiters[i] = (waiter){i % 2 ? follower : fence, (uint64_t)(N - i) * 10, VKS_TIMEOUT};
        pthread_create(&threads[i], NULL, wait_for, &waiters[i]);
    }
    CHECK(vks_fence_signal(follower, 500) == VKS_READ_ONLY, "a follower only follows");
    for (uint64_t v = 5; v <= N * 10 + 5; v += 5)
        if (v % 20 == 0)
            CHECK(vks_fence_signal(fence, v) == VKS_OK, "%s", vks_last_error()->text);
        else
            CHECK(submit(device, NULL, NULL, 0, fence, v, &(vks_submission){0}) == VKS_OK, "%s",
                  vks_last_error()->text);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK(waiters[i].status == VKS_OK, "waiter %d: %d", i, waiters[i].status);
    }
    close_fence(follower);
    close_fence(fence);
    close_device(other);
    close_device(device);
}

/* rules: X23 */
static void events_come_in_order_of_values_through_one_event_queue(void)
{
    vks_device *device = open_device(0), *other = open_device(0);
    vks_fence *fence = new_fence(device), *follower = follow(fence, other);
    vks_event_queue *event_queue;
    vks_event_queue_create(&event_queue);
    for (uint64_t v = 100; v >= 1; v--)
        CHECK(vks_fence_notify(v % 2 ? fence : follower, v, event_queue, v) == VKS_OK, "%s", vks_last_error()->text);
    int fd;
    CHECK(vks_fence_event_fd(follower, 50, &fd) == VKS_OK, "%s", vks_last_error()->text);
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    CHECK(poll(&readable, 1, 0) == 0, "not reached");
    CHECK(vks_fence_signal(fence, 50) == VKS_OK, "half");
    CHECK(poll(&readable, 1, 5000) == 1, "reached");
    close(fd);
    size_t n = 0;
    for (uint64_t until = vks_now() + HANG; n < 50 && vks_now() < until; usleep(100)) {
        uint64_t tokens[128];
        vks_status results[128];
        size_t got = vks_event_queue_drain(event_queue, tokens, results, 128);
        for (size_t i = 0; i < got; i++)
            CHECK(tokens[i] <= 50 && results[i] == VKS_OK, "token %llu: %d", (unsigned long long)tokens[i], results[i]);
        n += got;
    }
    CHECK(n == 50, "%zu events", n);
    close_fence(follower); /* values that can no longer come are reported as failures */
    close_fence(fence);
    uint64_t tokens[128];
    vks_status results[128];
    CHECK(vks_event_queue_drain(event_queue, tokens, results, 128) == 50 && results[0] == VKS_CLOSED, "the rest fails");
    vks_event_queue_unref(event_queue);
    close_device(other);
    close_device(device);
}

/* ---- held submissions ---- */

/* rules: X4 */
static void a_submission_is_held_until_its_wait_is_certain_and_others_pass_it(void)
{
    vks_device *device = open_device(0), *other = open_device(0);
    vks_fence *theirs = new_fence(other), *seen = follow(theirs, device), *mine = new_fence(device),
              *free_one = new_fence(device);
    vks_submission held = {0}, passing = {0}, behind = {0};
    CHECK(submit(device, NULL, seen, 3, mine, 1, &held) == VKS_OK && vks_submission_is_held(device, &held),
          "3 is not queued yet");
    CHECK(submit(device, NULL, NULL, 0, free_one, 1, &passing) == VKS_OK && !passing.op, "unrelated work passes");
    CHECK(submit(device, NULL, NULL, 0, mine, 2, &behind) == VKS_OK && vks_submission_is_held(device, &behind),
          "the same fence keeps its order");
    CHECK(vks_fence_wait(free_one, 1, vks_now() + HANG) == VKS_OK, "it ran");
    CHECK(vks_fence_poll(mine, 1) == VKS_TIMEOUT, "it is held");
    CHECK(vks_fence_signal(theirs, 3) == VKS_OK, "now");
    CHECK(vks_fence_wait(mine, 2, vks_now() + HANG) == VKS_OK, "both ran");
    CHECK(vks_submission_wait(device, &held, vks_now() + HANG) == VKS_OK, "done");
    vks_work_unref(held.op);
    vks_work_unref(behind.op);
    close_fence(seen), close_fence(theirs), close_fence(mine), close_fence(free_one);
    close_device(other);
    close_device(device);
}

/* rules: X6 */
static void closing_a_device_fails_a_thousand_held_submissions_at_once(void)
{
    vks_device *device = open_device(0);
    vks_fence *never = new_fence(device);
    enum { N = 1000 };
    static vks_submission held[N];
    for (int i = 0; i < N; i++)
        CHECK(submit(device, NULL, never, 1, NULL, 0, &held[i]) == VKS_OK, "%d", i);
    uint64_t start = vks_now();
    vks_device_shutdown(device);
    CHECK(vks_now() - start < HANG, "%.2f s", (vks_now() - start) / 1e9);
    for (int i = 0; i < N; i++) {
        CHECK(vks_submission_poll(device, &held[i]) == VKS_CLOSED, "submission %d", i);
        vks_work_unref(held[i].op);
    }
    CHECK(vks_fence_wait(never, 1, VKS_FOREVER) == VKS_CLOSED, "its fence ended with it");
    close_fence(never);
    vks_device_unref(device);
}

/* rules: K25 */
static void a_submission_beyond_held_limit_blocks_unless_a_held_one_waits_for_its_signal(void)
{
    vks_device *device = open_device(4);
    vks_fence *gate = new_fence(device);
    vks_submission held[4], more = {0};
    for (int i = 0; i < 4; i++)
        submit(device, NULL, gate, 1, NULL, 0, &held[i]);
    vks_wait w = {.fence = gate, .value = 1};
    CHECK(vks_submit(device, &(vks_submit_info){.waits = &w, .n_waits = 1}, vks_now() + SECOND / 50, &more) ==
              VKS_TIMEOUT,
          "the bound is 4");
    CHECK(submit(device, NULL, NULL, 0, gate, 1, &more) == VKS_OK, "a held one waits for this signal");
    vks_device_statistics statistics;
    CHECK(vks_device_wait_idle(device, vks_now() + HANG) == VKS_OK, "all ran");
    vks_device_get_statistics(device, &statistics);
    CHECK(statistics.held == 0 && statistics.held_total == 4 && statistics.backpressure_waits == 1,
          "%llu held, %llu waited", (unsigned long long)statistics.held_total,
          (unsigned long long)statistics.backpressure_waits);
    for (int i = 0; i < 4; i++)
        vks_work_unref(held[i].op);
    close_fence(gate);
    close_device(device);
}

/* ---- surfaces ---- */

enum { SIDE = 64 };

typedef struct painter {
    vks_device *device;
    vks_surface *surface;
    vks_commands *paint; /* clears to a colour of its own */
    uint8_t *pixels;
    uint64_t acquire_key, release_key;
    uint8_t expected, own;
    long rounds;
    bool gpu;
} painter;

static vks_commands *clear_to(vks_device *device, vks_surface *surface, uint8_t value)
{
    vks_drawable_info info = {.width = SIDE, .height = SIDE, .format = VKS_FORMAT_R8_UNORM, .usage = VKS_USE_COPY};
    vks_drawable *drawable;
    vks_recording *recording = vks_recording_create();
    vks_record_problem problem;
    vks_commands *commands = NULL;
    CHECK(vks_drawable_create(&info, &drawable) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_recording_clear(recording, (vks_operand){surface, drawable}, (double[4]){value / 255.0, 0, 0, 1}) ==
              VKS_OK,
          "%s", vks_last_error()->text);
    CHECK(vks_commands_compile(device, recording, NULL, 8, &problem, &commands) == VKS_OK, "%s",
          vks_last_error()->text);
    vks_recording_destroy(recording);
    vks_drawable_unref(drawable);
    return commands;
}

static painter new_painter(uint8_t *pixels, vks_surface *of, uint64_t key, int n, uint32_t held_limit)
{
    painter p = {.device = open_device(held_limit),
                 .pixels = pixels,
                 .acquire_key = key,
                 .release_key = (key + 1) % (uint64_t)n};
    vks_surface_info info = {SIDE, SIDE, VKS_FORMAT_R8_UNORM, pixels, SIDE * SIDE, SIDE, 0, 0, false, false};
    int page, semaphore;
    if (!of) {
        CHECK(vks_surface_create(p.device, &info, &p.surface) == VKS_OK, "%s", vks_last_error()->text);
    } else {
        CHECK(vks_surface_export(of, &page, &semaphore) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_open(p.device, &info, page, semaphore, &p.surface) == VKS_OK, "%s", vks_last_error()->text);
    }
    p.own = (uint8_t)(10 * (key + 1));
    p.expected = (uint8_t)(10 * ((key + (uint64_t)n - 1) % (uint64_t)n + 1));
    p.paint = clear_to(p.device, p.surface, p.own);
    return p;
}

static void drop_painter(painter *p)
{
    vks_commands_unref(p->paint);
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    close_device(p->device);
}

static const char *check_pixels(painter *p)
{
    if (vks_surface_cpu_access(p->surface, vks_now() + 20 * SECOND) != VKS_OK)
        return "no access";
    for (int i = 0; i < SIDE * SIDE; i += 61)
        if (p->pixels[i] != p->expected)
            return "not what the one before drew";
    return NULL;
}

static void *paint(void *argument)
{
    painter *p = argument;
    vks_submission submission;
    for (long i = 0; i < p->rounds; i++) {
        if (p->gpu) {
            vks_work *op;
            vks_status status = vks_surface_acquire_gpu(p->surface, p->acquire_key, &op);
            if (status) {
                fprintf(stderr, "round %ld: status %d\n", i, status);
                return "gpu acquire";
            }
            if (op)
                vks_work_unref(op);
        } else {
            if (vks_surface_acquire(p->surface, p->acquire_key, vks_now() + 20 * SECOND))
                return "acquire";
            const char *why = i || p->acquire_key ? check_pixels(p) : NULL;
            if (why)
                return (void *)why;
        }
        if (submit(p->device, p->paint, NULL, 0, NULL, 0, &submission))
            return "submit";
        if (submission.op)
            vks_work_unref(submission.op);
        if (vks_surface_release(p->surface, p->release_key))
            return "release";
    }
    return (void *)(vks_device_wait_idle(p->device, vks_now() + 20 * SECOND) ? "idle" : NULL);
}

static void run_ring(int gpu_party)
{
    static uint8_t pixels[SIDE * SIDE];
    painter painters[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        painters[i] = new_painter(pixels, i ? painters[0].surface : NULL, (uint64_t)i, 3, 16);
        painters[i].rounds = check_scale("VKS_ROUNDS", 500);
        painters[i].gpu = i == gpu_party;
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, paint, &painters[i]);
    for (int i = 0; i < 3; i++) {
        void *why;
        pthread_join(threads[i], &why);
        CHECK(!why, "party %d: %s", i, (const char *)why);
    }
    for (int i = 2; i >= 0; i--)
        drop_painter(&painters[i]);
}

/* rules: K26, K17, K18, K16 */
static void three_devices_in_a_ring_see_the_previous_owners_frame(void) { run_ring(-1); }

/* rules: K25, K26 */
static void one_device_of_a_ring_queues_its_acquires_ahead(void) { run_ring(1); }

/* rules: K7, K8, K27 */
static void closing_the_owner_wakes_all_waiters_with_abandoned(void)
{
    static uint8_t pixels[SIDE * SIDE];
    painter a = new_painter(pixels, NULL, 0, 3, 0), b = new_painter(pixels, a.surface, 1, 3, 0);
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "fresh");
    vks_work *op;
    CHECK(vks_surface_acquire_gpu(b.surface, 1, &op) == VKS_OK && op, "a owns");
    vks_submission held;
    CHECK(submit(b.device, b.paint, NULL, 0, NULL, 0, &held) == VKS_OK && vks_submission_is_held(b.device, &held),
          "behind the acquire");
    vks_surface_close(a.surface);
    vks_status status;
    for (uint64_t until = vks_now() + HANG; (status = vks_work_poll(op)) == VKS_TIMEOUT && vks_now() < until;)
        usleep(100);
    CHECK(status == VKS_ABANDONED, "%d", status);
    CHECK(vks_submission_wait(b.device, &held, vks_now() + HANG) == VKS_ABANDONED, "it will never run");
    CHECK(vks_surface_acquire(b.surface, 5, VKS_FOREVER) == VKS_ABANDONED, "and it stays so");
    CHECK(vks_surface_recover(b.surface, vks_now() + HANG) == VKS_OK && vks_surface_is_owned(b.surface), "%s",
          vks_last_error()->text);
    CHECK(vks_surface_release(b.surface, 2) == VKS_OK && vks_surface_acquire(b.surface, 2, 0) == VKS_OK,
          "as good as new");
    vks_work_unref(op);
    vks_work_unref(held.op);
    drop_painter(&b);
    drop_painter(&a);
}

int main(void)
{
    RUN(a_signal_must_grow_and_stay_in_range);
    RUN(every_waiter_wakes_when_its_value_is_reached);
    RUN(events_come_in_order_of_values_through_one_event_queue);
    RUN(a_submission_is_held_until_its_wait_is_certain_and_others_pass_it);
    RUN(closing_a_device_fails_a_thousand_held_submissions_at_once);
    RUN(a_submission_beyond_held_limit_blocks_unless_a_held_one_waits_for_its_signal);
    RUN(three_devices_in_a_ring_see_the_previous_owners_frame);
    RUN(one_device_of_a_ring_queues_its_acquires_ahead);
    RUN(closing_the_owner_wakes_all_waiters_with_abandoned);
    return check_result();
}
