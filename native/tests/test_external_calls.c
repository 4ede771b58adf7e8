/* External APIs (test_external.c): valid calls in each state, the waits before external_begin,
 * surfaces of queues, and threads that cannot be started. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "queue/queue.h"
#include "external_parties.h"

/* ---- threads that cannot be started ---- */

static _Atomic bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &symbol, sizeof real);
    }
    return no_threads ? 11 /* EAGAIN, as under RLIMIT_NPROC */ : real(thread, attributes, run, argument);
}

/* ---- valid calls ---- */

/* rules: I3, K3, K21 */
static void a_call_in_the_wrong_state_is_refused_and_changes_nothing(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait = 7, signal = 0, twice = 0;
    vks_work *op = NULL;
    vks_semaphore_point point;
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_NOT_OWNER, "it is unowned");
    CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_NOT_OWNER, "external use did not begin");
    CHECK(vks_surface_external_end(a.surface, 1) == VKS_NOT_OWNER, "external use did not begin");
    own(&a, 0);
    CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_NOT_OWNER, "external use did not begin");
    CHECK(vks_surface_external_end(a.surface, 0) == VKS_NOT_OWNER, "still");
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK && wait == 0, "nothing to wait for: %d",
          (int)wait);
    {
        CHECK(vks_surface_is_owned(a.surface), "the handle owns it");
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_BAD_CALL, "the API has it");
        CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_ALREADY_OWNER, "K3");
        CHECK(vks_surface_try_acquire(a.surface, 0) == VKS_ALREADY_OWNER, "K3");
        CHECK(vks_surface_acquire_gpu(a.surface, 0, &op) == VKS_ALREADY_OWNER, "K3");
        CHECK(draw(&a, NULL) == VKS_NOT_OWNER, "another API has it");
        CHECK(vks_surface_sync(a.surface, 0, &point, &point) == VKS_NOT_OWNER, "nor engines");
        CHECK(vks_surface_release_to_external(a.surface, 0, 0) == VKS_NOT_OWNER, "nor OpenGL");
        CHECK(vks_surface_acquire_from_external(a.surface, 0) == VKS_NOT_OWNER, "nor OpenGL");
        CHECK(vks_surface_recover(a.surface, 0) == VKS_NOT_ABANDONED, "it is not");
        CHECK(vks_surface_release(a.surface, 1) == VKS_BAD_CALL, "the API has it");
        CHECK(vks_surface_cpu_access(a.surface, 0) == VKS_NOT_OWNER, "the API has it");
        CHECK(vks_surface_external_end(a.surface, 1) == VKS_BAD_VALUE, "no value was requested");
        CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_OK && signal == 1, "%d", (int)signal);
        CHECK(vks_surface_external_signal_value(a.surface, &twice) == VKS_OK && twice == 1, "it stays: %d", (int)twice);
        CHECK(vks_surface_external_end(a.surface, 2) == VKS_BAD_VALUE, "not that one");
        CHECK(vks_surface_release(a.surface, 1) == VKS_BAD_CALL, "the API has it still");
        stub_work(api, wait, signal);
        CHECK(vks_surface_external_end(a.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_external_end(a.surface, signal) == VKS_NOT_OWNER, "once");
        CHECK(vks_surface_external_end(a.surface, 0) == VKS_NOT_OWNER, "and not undone");
        CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_NOT_OWNER, "once");
        CHECK(vks_surface_is_owned(a.surface), "the ownership continues");
    }
    hand_on(&a, 1);
    CHECK(vks_surface_release(a.surface, 1) == VKS_NOT_OWNER && !vks_surface_is_owned(a.surface), "it went on");
    own(&a, 1);
    CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "behind its commands: %s",
          vks_last_error()->text);
    CHECK(draw(&a, NULL) == VKS_NOT_OWNER, "the API has it");
    CHECK(vks_surface_external_end(a.surface, 0) == VKS_OK, "it did nothing");
    hand_on(&a, 2);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_NOT_OWNER, "it went on");
    CHECK(SOON(is_complete(&a)) && stub_value(api) == 2, "two turns, two values");
    vks_surface_close(a.surface);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_CLOSED, "closed");
    CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_CLOSED, "closed");
    CHECK(vks_surface_external_end(a.surface, 0) == VKS_CLOSED, "closed");
    drop_api(api);
    drop_party(&a);
}

/* rules: I3 */
static void a_surface_without_a_shared_semaphore_is_unsupported(void)
{
    uint64_t value;
    party a = new_party("a", NULL), b = new_alias(&a);
    own(&a, 0);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &value) == VKS_UNSUPPORTED, "it was never exported");
    stub_api *api = new_api(&b);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &value) == VKS_OK, "by another handle is enough: %s",
          vks_last_error()->text);
    CHECK(vks_surface_external_end(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
    for (int cpu = 0; cpu < 2; cpu++) {
        static uint8_t pixels[64];
        vks_surface_info info = {.width = 8, .height = 8, .pixels = pixels, .size = sizeof pixels, .stride = 8};
        vks_device *device = cpu ? NULL : stub_open("bridged", false);
        CHECK(!cpu || vks_device_create(&(vks_device_info){.name = "cpu"}, &device) == VKS_OK, "memory");
        vks_surface *surface;
        int page, semaphore;
        CHECK(vks_surface_create(device, &info, &surface) == VKS_OK &&
                  vks_surface_export(surface, &page, &semaphore) == VKS_OK && semaphore == -1 &&
                  vks_surface_acquire(surface, 0, 0) == VKS_OK,
              "%s", vks_last_error()->text);
        close(page);
        CHECK(vks_surface_external_begin(surface, false, 0, &value) == VKS_UNSUPPORTED, "it has no semaphore");
        CHECK(vks_surface_release(surface, 0) == VKS_OK, "and nothing changed");
        vks_surface_close(surface);
        vks_surface_unref(surface);
        if (cpu)
            vks_device_shutdown(device), vks_device_unref(device);
        else
            stub_close(device);
    }
}

/* rules: I3 */
static void an_api_that_did_nothing_leaves_the_ownership_unchanged(void)
{
    party a = new_party("a", NULL), c = new_party("c", &a);
    stub_api *api = new_api(&a);
    stub_stall(true);
    queue_turn(&c, 0);
    own(&a, 1);
    for (int asked = 0; asked < 2; asked++) { /* and it can begin again */
        uint64_t wait, signal;
        vks_submission submission = {0};
        CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK && wait == 1, "%s",
              vks_last_error()->text);
        if (asked)
            CHECK(vks_surface_external_signal_value(a.surface, &signal) == VKS_OK && sum_pending(&a) != 1,
                  "it is announced");
        CHECK(vks_surface_external_end(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(sum_pending(&a) == 1, "only c's value: %d", (int)sum_pending(&a));
        if (!asked)
            continue;
        CHECK(draw(&a, &submission) == VKS_OK && !vks_submission_is_held(a.device, &submission), "its own commands");
        hand_on(&a, 2);
        usleep(3000);
        CHECK(vks_submission_poll(a.device, &submission) == VKS_TIMEOUT, "they wait for c's");
        stub_stall(false);
        CHECK(AGAIN(vks_submission_wait(a.device, &submission, vks_now() + HANG)) == VKS_OK, "and run");
    }
    CHECK(SOON(is_complete(&a)) && stub_value(api) == look(&a).value, "%d", (int)sum_pending(&a));
    drop_api(api);
    drop_party(&c);
    drop_party(&a);
}

/* rules: I3, K25 */
static void held_work_of_the_previous_owner_is_waited_for_up_to_the_deadline(void)
{
    party a = new_party("a", NULL), b = new_alias(&a), c = new_party("c", &a);
    const party *next[] = {&a, &b, &c};
    stub_api *api = new_api(&a);
    for (uint64_t i = 0; i < 3; i++) {
        vks_fence *gate;
        vks_submission held = {0};
        uint64_t wait;
        CHECK(vks_fence_create(a.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        vks_submit_info info = {
            .commands = &a.commands, .n_commands = 1, .waits = &(vks_wait){.fence = gate, .value = 1}, .n_waits = 1};
        own(&a, 2 * i);
        CHECK(vks_submit(a.device, &info, 0, &held) == VKS_OK && held.op, "it is held");
        if (i == 0)
            CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_TIMEOUT, "its own work is held");
        hand_on(&a, 2 * i + 1);
        own(next[i], 2 * i + 1);
        uint64_t start = vks_now();
        CHECK(vks_surface_external_begin(next[i]->surface, false, 0, &wait) == VKS_TIMEOUT, "deadline 0 tests");
        vks_status status = vks_surface_external_begin(next[i]->surface, false, start + 30 * MS, &wait);
        CHECK(status == VKS_TIMEOUT && vks_now() - start >= 30 * MS, "status %d after %.1f ms", status,
              (vks_now() - start) / 1e6);
        CHECK(vks_fence_signal(gate, 1) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(AGAIN(vks_submission_wait(a.device, &held, vks_now() + HANG)) == VKS_OK, "it runs");
        external_use(next[i], api);
        hand_on(next[i], 2 * i + 2);
        vks_work_unref(held.op);
        vks_fence_close(gate);
        vks_fence_unref(gate);
    }
    drop_api(api);
    drop_party(&c);
    drop_party(&b);
    drop_party(&a);
}

static vks_status begin_within(vks_surface *surface, uint64_t deadline)
{
    uint64_t wait;
    return vks_surface_external_begin(surface, false, deadline, &wait);
}

/* The outcomes of a wait for held work: the work runs, its owner is lost, the handle is closed, its
 * device is lost. rules: I3, X21 */
static void a_wait_for_held_work_ends_with_every_outcome(void)
{
    static const vks_status ends[] = {VKS_OK, VKS_ABANDONED, VKS_CLOSED, VKS_DEVICE_LOST};
    for (int i = 0; i < 4; i++) {
        party a = new_party("a", NULL), c = new_party("c", &a);
        stub_api *api = new_api(&a);
        vks_fence *gate;
        vks_submission held = {0};
        CHECK(vks_fence_create(a.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
        vks_submit_info info = {
            .commands = &a.commands, .n_commands = 1, .waits = &(vks_wait){.fence = gate, .value = 1}, .n_waits = 1};
        own(&a, 0);
        CHECK(vks_submit(a.device, &info, 0, &held) == VKS_OK && held.op, "it is held");
        hand_on(&a, 1);
        own(&c, 1);
        sleeper s = {.party = &c, .call = begin_within};
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_in_call, &s);
        usleep(20000);
        if (i == 0)
            vks_fence_signal(gate, 1);
        else if (i == 2)
            vks_surface_close(c.surface);
        else
            vks_device_mark_lost(i == 1 ? a.device : c.device);
        pthread_join(thread, NULL);
        /* A lost device completes its values and poisons the chain: the API may work, and its
         * release abandons. */
        CHECK((s.status == ends[i] || (i == 1 && s.status == VKS_OK)) && s.took < HANG,
              "end %d: status %d after %.1f ms", i, s.status, s.took / 1e6);
        vks_work_unref(held.op);
        if (i > 1) /* a's work must not stay held, because no process would complete its value */
            vks_fence_signal(gate, 1);
        vks_fence_close(gate);
        vks_fence_unref(gate);
        drop_api(api);
        drop_party(&c);
        drop_party(&a);
    }
}

/* An alias owns during the first export, while its device's queue owns and draws the image; no
 * semaphore orders that. rules: I3 */
static void an_image_exported_during_an_ownership_is_released_to_external_first(void)
{
    party a = new_party("a", NULL), b = new_alias(&a);
    uint64_t wait = 9;
    stub_stall(true);
    queue_turn(&a, 0);
    own(&b, 1);
    stub_api *api = new_api(&b);
    uint64_t signal;
    CHECK(vks_surface_external_begin(b.surface, false, 0, &wait) == VKS_OK && wait == 2, "behind a's queue: %d",
          (int)wait);
    CHECK(vks_surface_external_signal_value(b.surface, &signal) == VKS_OK && signal == 3, "%s", vks_last_error()->text);
    stub_work(api, wait, signal);
    CHECK(vks_surface_external_end(b.surface, signal) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall(false);
    hand_on(&b, 2);
    queue_turn(&a, 2);
    idle(&a);
    CHECK(SOON(is_complete(&a)), "all has come");
    drop_api(api);
    drop_party(&b);
    drop_party(&a);
}

/* A surface that two devices pass back and forth through two queues. */
typedef struct ring {
    vks_device *devices[2];
    vks_surface *surfaces[2];
    vks_queue *there_in, *there_out, *back_in, *back_out; /* from device 0 to 1; `back` starts with the surface */
    int fds[2];
} ring;

static ring new_ring(void)
{
    ring r = {.devices = {stub_open("producer", true), stub_open("consumer", true)}};
    r.surfaces[0] = stub_surface(r.devices[0], NULL);
    r.surfaces[1] = stub_surface(r.devices[1], r.surfaces[0]);
    vks_queue_info there = {.width = 8, .height = 8, .count = 1}, back = {.width = 8, .height = 8, .count = 1};
    back.full = true;
    CHECK(vks_queue_page_make(&back, &r.fds[0]) == VKS_OK && vks_queue_page_read(r.fds[0], &back) == VKS_OK, "%s",
          vks_last_error()->text);
    there.network = back.network;
    CHECK(vks_queue_page_make(&there, &r.fds[1]) == VKS_OK, "%s", vks_last_error()->text);
    for (int i = 0; i < 2; i++)
        CHECK(vks_surface_join(r.surfaces[i], back.network, 0) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_queue_open(r.devices[1], r.fds[0], VKS_PRODUCER, &r.surfaces[1], 1, &r.back_in) == VKS_OK &&
              vks_queue_open(r.devices[0], r.fds[0], VKS_CONSUMER, &r.surfaces[0], 1, &r.back_out) == VKS_OK &&
              vks_queue_open(r.devices[0], r.fds[1], VKS_PRODUCER, &r.surfaces[0], 1, &r.there_in) == VKS_OK &&
              vks_queue_open(r.devices[1], r.fds[1], VKS_CONSUMER, &r.surfaces[1], 1, &r.there_out) == VKS_OK,
          "%s", vks_last_error()->text);
    return r;
}

static void drop_ring(ring *r)
{
    vks_queue *queues[] = {r->there_in, r->there_out, r->back_in, r->back_out};
    for (int i = 0; i < 4; i++) {
        vks_queue_close(queues[i]);
        vks_queue_unref(queues[i]);
    }
    for (int i = 0; i < 2; i++) {
        close(r->fds[i]);
        vks_surface_close(r->surfaces[i]);
        vks_surface_unref(r->surfaces[i]);
    }
    stub_close(r->devices[0]);
    stub_close(r->devices[1]);
}

static void dequeue(vks_queue *queue)
{
    uint32_t index;
    size_t length;
    CHECK(AGAIN(vks_queue_dequeue(queue, vks_now() + HANG, &index, NULL, &length)) == VKS_OK, "%s",
          vks_last_error()->text);
}

static vks_status enqueue(vks_queue *queue, vks_surface *surface, int mode, uint64_t ms, bool *committed)
{
    return AGAIN(
        vks_queue_enqueue(queue, surface, NULL, 0, (vks_enqueue_mode)mode, ms ? vks_now() + ms * MS : 0, committed));
}

/* rules: I3, Q10, Q11, Q19 */
static void a_queues_surface_is_enqueued_after_an_external_api_used_it(void)
{
    ring r = new_ring();
    stub_api *api = stub_import(r.surfaces[0]);
    vks_surface *surface = r.surfaces[0];
    for (int mode = VKS_ENQUEUE_WAIT; mode <= VKS_ENQUEUE_GPU; mode++) {
        uint32_t flushed, pending;
        uint64_t wait, signal;
        bool committed;
        dequeue(r.back_out);
        CHECK(vks_surface_release(surface, 0) == VKS_BAD_CALL, "it is a queue's");
        CHECK(AGAIN(vks_surface_external_begin(surface, false, vks_now() + HANG, &wait)) == VKS_OK, "%s",
              vks_last_error()->text);
        CHECK(enqueue(r.there_in, surface, mode, 0, &committed) == VKS_BAD_CALL, "the API has it");
        CHECK(vks_surface_external_signal_value(surface, &signal) == VKS_OK, "%s", vks_last_error()->text);
        stub_stall_api(api, true);
        stub_work(api, wait, signal);
        CHECK(vks_surface_external_end(surface, signal) == VKS_OK, "%s", vks_last_error()->text);
        if (mode == VKS_ENQUEUE_WAIT) {
            CHECK(enqueue(r.there_in, surface, mode, 30, &committed) == VKS_TIMEOUT && !committed,
                  "Q10: the API works still");
            stub_stall_api(api, false);
        }
        CHECK(enqueue(r.there_in, surface, mode, 1000, &committed) == VKS_OK && committed == (mode != VKS_ENQUEUE_TRY),
              "mode %d: %s", mode, vks_last_error()->text);
        if (mode == VKS_ENQUEUE_TRY) {
            CHECK(AGAIN(vks_queue_flush(r.there_in, false, 0, &flushed, &pending)) == VKS_OK && pending == 1,
                  "Q11: the API works still");
            stub_stall_api(api, false);
            CHECK(AGAIN(vks_queue_flush(r.there_in, true, vks_now() + HANG, &flushed, &pending)) == VKS_OK &&
                      flushed == 1,
                  "and has finished");
        }
        dequeue(r.there_out);
        stub_stall_api(api, false);
        CHECK(AGAIN(vks_surface_cpu_access(r.surfaces[1], vks_now() + HANG)) == VKS_OK && stub_is_idle(api),
              "the consumer sees what the API did");
        CHECK(enqueue(r.back_in, r.surfaces[1], VKS_ENQUEUE_GPU, 0, &committed) == VKS_OK, "%s",
              vks_last_error()->text);
    }
    drop_api(api);
    drop_ring(&r);
}

/* rules: I3, K27 */
static void a_queues_surface_is_recovered_after_its_producer_was_lost_during_external_use(void)
{
    ring r = new_ring();
    stub_api *api = stub_import(r.surfaces[1]);
    party producer = {.device = r.devices[0], .surface = r.surfaces[0]}, consumer = {.surface = r.surfaces[1]};
    bool committed;
    can_draw(&producer);
    dequeue(r.back_out);
    stub_stall(true);
    CHECK(draw(&producer, NULL) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(enqueue(r.there_in, producer.surface, VKS_ENQUEUE_GPU, 0, &committed) == VKS_OK, "%s",
          vks_last_error()->text);
    dequeue(r.there_out);
    CHECK(external_use(&consumer, api) == 1, "it waits for the producer");
    lose(&producer);
    stub_stall(false);
    CHECK(AGAIN(vks_surface_recover(consumer.surface, vks_now() + HANG)) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_is_owned(consumer.surface) && stub_is_idle(api), "the consumer owns it, and it is valid again");
    vks_commands_unref(producer.commands);
    drop_api(api);
    drop_ring(&r);
}

/* ---- no threads ---- */

static void external_use_is_refused_without_threads(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait;
    own(&a, 0);
    no_threads = true;
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OS_ERROR, "no thread would poll the value");
    no_threads = false;
    CHECK(sum_pending(&a) == 0 && vks_surface_cpu_access(a.surface, 0) == VKS_OK, "nothing changed");
    external_use(&a, api);
    hand_on(&a, 1);
    CHECK(SOON(is_complete(&a)), "now a thread polls it");
    vks_clear_error();
    drop_api(api);
    drop_party(&a);
}

static void present(vks_device *device, bool begins)
{
    pthread_mutex_lock(&device->lock);
    if (begins)
        vks_device_begin_present(device, VKS_FOREVER);
    else
        vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
}

/* rules: I3 */
static void a_test_does_not_wait_for_a_present(void)
{
    party a = new_party("a", NULL);
    stub_api *api = new_api(&a);
    uint64_t wait;
    own(&a, 0);
    CHECK(draw(&a, NULL) == VKS_OK, "%s", vks_last_error()->text);
    present(a.device, true);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_TIMEOUT, "Python calls it so, with its GIL");
    present(a.device, false);
    CHECK(vks_surface_external_begin(a.surface, false, 0, &wait) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_external_end(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
    hand_on(&a, 1);
    drop_api(api);
    drop_party(&a);
}

int main(void)
{
    STEP(external_use_is_refused_without_threads); /* first, before the process's threads have started */
    STEP(a_call_in_the_wrong_state_is_refused_and_changes_nothing);
    STEP(a_surface_without_a_shared_semaphore_is_unsupported);
    STEP(an_api_that_did_nothing_leaves_the_ownership_unchanged);
    STEP(held_work_of_the_previous_owner_is_waited_for_up_to_the_deadline);
    STEP(a_wait_for_held_work_ends_with_every_outcome);
    STEP(an_image_exported_during_an_ownership_is_released_to_external_first);
    STEP(a_test_does_not_wait_for_a_present);
    STEP(a_queues_surface_is_enqueued_after_an_external_api_used_it);
    STEP(a_queues_surface_is_recovered_after_its_producer_was_lost_during_external_use);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
