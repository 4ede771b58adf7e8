/* The core when something ends: a device is lost or closed while other threads are in its calls, a
 * release fails, a process runs out of threads. Uses the stub driver. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "raster/program.h"
#include "stub_driver.h"

#define MS UINT64_C(1000000)

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

/* ---- parties ---- */

typedef struct party {
    vks_device *device;
    vks_surface *surface;
    vks_commands *commands;
} party;

static party new_party(const char *name, party *of, bool native)
{
    party p = {.device = stub_open(name, native)};
    p.surface = stub_surface(p.device, of ? of->surface : NULL);
    CHECK(p.surface != NULL, "%s", vks_last_error()->text);
    CHECK(stub_commands(p.surface, STUB_VARIED, &p.commands) == VKS_OK, "%s", vks_last_error()->text);
    return p;
}

static void drop_party(party *p)
{
    vks_commands_unref(p->commands);
    vks_surface_close(p->surface);
    vks_surface_unref(p->surface);
    stub_close(p->device);
}

static vks_status draw(party *p, vks_submission *out)
{
    vks_submission ignored = {0};
    vks_submit_info info = {.commands = &p->commands, .n_commands = 1};
    vks_status status = vks_submit(p->device, &info, 0, out ? out : &ignored);
    if (ignored.op)
        vks_work_unref(ignored.op);
    return status;
}

static uint64_t sum_pending(const party *p)
{
    int page;
    vks_page_view view = {0};
    uint64_t pending_value = 0;
    CHECK(vks_surface_page(p->surface, &page) == VKS_OK && vks_page_inspect(page, &view) == VKS_OK, "%s",
          vks_last_error()->text);
    for (uint32_t i = 0; i < view.n_slots; i++)
        pending_value += view.slots[i].pending_value;
    close(page);
    return pending_value;
}

/* Exports the surface, so that each release must release its image to other devices. */
static void share(const party *p)
{
    int page, semaphore;
    CHECK(vks_surface_export(p->surface, &page, &semaphore) == VKS_OK, "%s", vks_last_error()->text);
    close(page);
    if (semaphore >= 0)
        close(semaphore);
}

/* ---- a device is lost ---- */

/* rules: X21, K27 */
static void a_device_lost_in_a_release_has_no_pending_value(void)
{
    party a = new_party("a", NULL, false), b = new_party("b", &a, false);
    stub_stall(true);
    for (uint64_t key = 0; key < 2;
         key++) { /* the first release's work is still in the driver when the second release fails */
        CHECK(vks_surface_acquire(a.surface, key, 0) == VKS_OK && draw(&a, NULL) == VKS_OK, "turn %d", (int)key);
        CHECK(draw(&a, NULL) == VKS_OK, "after a turn of more than one submission the release has a batch of its own");
        if (key)
            stub_fail_submit(a.device, STUB_DEVICE_LOST, 1);
        CHECK(vks_surface_release(a.surface, key + 1) == (key ? VKS_DEVICE_LOST : VKS_OK), "turn %d", (int)key);
    }
    CHECK(sum_pending(&b) == 0, "a lost device has no pending value: %d", (int)sum_pending(&b));
    CHECK(vks_surface_acquire(b.surface, 2, 1000 * MS) == VKS_ABANDONED, "its chain is poisoned");
    CHECK(vks_surface_recover(b.surface, vks_now() + HANG) == VKS_OK, "no wait is left for its values");
    stub_stall(false);
    drop_party(&b);
    drop_party(&a);
}

/* rules: X21, I6 */
static void an_image_stays_owned_when_its_external_transfer_fails(void)
{
    party a = new_party("a", NULL, false);
    CHECK(vks_surface_release_to_external(a.surface, VKS_FOREVER, 0) == VKS_NOT_OWNER, "it is unowned");
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "%s", vks_last_error()->text);
    for (uint32_t n = 1; n <= 2;
         n++) { /* the first submission acquires the image for the queue, the second releases it */
        stub_fail_submit(a.device, STUB_OUT_OF_MEMORY, n);
        CHECK(vks_surface_release_to_external(a.surface, VKS_FOREVER, 0) == VKS_VULKAN_ERROR, "%s",
              vks_last_error()->text);
    }
    CHECK(vks_surface_release_to_external(a.surface, VKS_FOREVER, 0) == VKS_OK, "%s", vks_last_error()->text);
    stub_fail_submit(a.device, STUB_OUT_OF_MEMORY, 1);
    CHECK(vks_surface_acquire_from_external(a.surface, 0) == VKS_VULKAN_ERROR, "%s", vks_last_error()->text);
    CHECK(vks_surface_acquire_from_external(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_release(a.surface, 0) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_acquire_from_external(a.surface, 0) == VKS_NOT_OWNER, "it went on");
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "%s", vks_last_error()->text);
    stub_fail_submit(a.device, STUB_DEVICE_LOST, 2);
    CHECK(vks_surface_release_to_external(a.surface, VKS_FOREVER, 0) == VKS_DEVICE_LOST, "%s", vks_last_error()->text);
    CHECK(vks_surface_acquire_from_external(a.surface, 0) == VKS_DEVICE_LOST, "%s", vks_last_error()->text);
    drop_party(&a);
}

typedef struct sleeper {
    party *party;
    vks_status (*call)(vks_surface *surface, uint64_t deadline);
    vks_status status;
    uint64_t took;
} sleeper;

static void *sleep_in_call(void *argument)
{
    sleeper *s = argument;
    uint64_t start = vks_now();
    while ((s->status = s->call(s->party->surface, start + HANG)) == VKS_INTERRUPTED)
        ;
    s->took = vks_now() - start;
    return NULL;
}

static vks_status acquire_7(vks_surface *surface, uint64_t deadline)
{
    return vks_surface_acquire(surface, 7, deadline);
}

static void lose_while(vks_status (*call)(vks_surface *surface, uint64_t deadline), bool close_it)
{
    party a = new_party("a", NULL, false), b = new_party("b", &a, false);
    stub_stall(true);
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK && draw(&a, NULL) == VKS_OK &&
              vks_surface_release(a.surface, 1) == VKS_OK,
          "a's work goes on");
    if (call == vks_surface_cpu_access)
        CHECK(vks_surface_acquire(b.surface, 1, 0) == VKS_OK, "b owns and a's work has not run");
    sleeper s = {&b, call, VKS_OK, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_in_call, &s);
    usleep(50000);
    if (close_it)
        vks_surface_close(b.surface);
    else
        vks_device_mark_lost(b.device);
    pthread_join(thread, NULL);
    CHECK(s.status == (close_it ? VKS_CLOSED : VKS_DEVICE_LOST) && s.took < HANG, "status %d after %.1f ms", s.status,
          s.took / 1e6);
    stub_stall(false);
    drop_party(&b);
    drop_party(&a);
}

/* rules: X21 */
static void a_lost_device_wakes_waits_for_ownership(void) { lose_while(acquire_7, false); }
static void a_lost_device_wakes_waits_for_the_previous_owners_work(void) { lose_while(vks_surface_cpu_access, false); }
static void a_closed_handle_wakes_waits_for_ownership(void) { lose_while(acquire_7, true); }
static void a_closed_handle_wakes_waits_for_the_previous_owners_work(void) { lose_while(vks_surface_cpu_access, true); }

/* rules: X21 */
static void a_device_that_was_lost_and_closed_leaves_no_semaphore(void)
{
    uint32_t before = stub_semaphores();
    party a = new_party("a", NULL, true);
    vks_fence *fence;
    CHECK(vks_fence_create(a.device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall(true);
    vks_submission submission = {0};
    CHECK(vks_submit(a.device, &(vks_submit_info){.signals = &(vks_signal){fence, 1}, .n_signals = 1}, 0,
                     &submission) == VKS_OK,
          "it waits in the driver");
    stub_fail_submit(a.device, STUB_DEVICE_LOST, 1);
    CHECK(vks_submit(a.device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
    vks_device *device = a.device;
    vks_device_ref(device);
    drop_party(&a);
    CHECK(stub_semaphores() == before, "%u semaphores are left", stub_semaphores() - before);
    CHECK(vks_device_state(device) == VKS_CLOSED, "it is closed, %d", vks_device_state(device));
    CHECK(vks_submission_poll(device, &submission) == VKS_DEVICE_LOST, "work that never ran is not done");
    vks_fence_unref(fence);
    vks_device_unref(device);
    stub_stall(false);
}

/* ---- a release that fails ---- */

/* rules: K24, K25 */
static void a_queued_release_that_fails_abandons_the_surface(void)
{
    party a = new_party("a", NULL, false), b = new_party("b", &a, false);
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK, "fresh");
    vks_work *op;
    CHECK(vks_surface_acquire_gpu(b.surface, 1, &op) == VKS_OK && op && draw(&b, NULL) == VKS_OK &&
              vks_surface_release(b.surface, 2) == VKS_OK,
          "b queues a turn");
    stub_fail_submit(b.device, STUB_OUT_OF_MEMORY, 2); /* the release's submit, not the drawing's */
    CHECK(vks_surface_release(a.surface, 1) == VKS_OK, "now b's turn comes");
    vks_status status = VKS_TIMEOUT;
    for (int i = 0; i < 200 && status == VKS_TIMEOUT; i++)
        status = vks_surface_acquire(a.surface, 9, vks_now() + 10 * MS);
    CHECK(status == VKS_ABANDONED, "%d: no other release can come", status);
    CHECK(vks_surface_recover(a.surface, vks_now() + HANG) == VKS_OK && vks_surface_release(a.surface, 5) == VKS_OK,
          "it can be recovered");
    vks_surface_acquire(b.surface, 5, vks_now() + HANG);
    CHECK(vks_surface_acquire(b.surface, 5, vks_now() + HANG) == VKS_OK || vks_surface_is_owned(b.surface), "by b too");
    vks_work_unref(op);
    drop_party(&b);
    drop_party(&a);
}

/* ---- a device is closed while others use it ---- */

static _Atomic bool over;

static void *use(void *argument)
{
    party *p = argument;
    vks_submission submission = {.serial = 1};
    while (!over) {
        vks_fence *fence;
        int page, semaphore;
        if (vks_fence_create(p->device, 0, &fence) == VKS_OK) {
            if (vks_fence_export(fence, &page, &semaphore) == VKS_OK) {
                close(page);
                close(semaphore);
            }
            vks_fence_wait(fence, 1, vks_now() + MS / 10);
            vks_fence_close(fence);
            vks_fence_unref(fence);
        }
        vks_surface *surface;
        if (vks_surface_create(p->device, &(vks_surface_info){.width = 8, .height = 8}, &surface) == VKS_OK) {
            vks_surface_close(surface);
            vks_surface_unref(surface);
        }
        draw(p, NULL);
        vks_submission_poll(p->device, &submission);
        vks_device_completed(p->device);
        vks_device_wait_idle(p->device, vks_now() + MS);
    }
    return NULL;
}

/* rules: X6 */
static void a_device_may_be_closed_while_threads_are_in_any_of_its_calls(void)
{
    int before = check_failures;
    for (long i = 0, n = check_scale("VKS_ROUNDS", 60); i < n && check_failures == before; i++) {
        uint32_t semaphores = stub_semaphores(), violations = stub_violations();
        party p = new_party("p", NULL, true);
        CHECK(vks_surface_acquire(p.surface, 0, 0) == VKS_OK, "fresh");
        pthread_t threads[3];
        over = false;
        for (int t = 0; t < 3; t++)
            pthread_create(&threads[t], NULL, use, &p);
        usleep((useconds_t)(i % 7) * 300);
        vks_device_ref(p.device);
        stub_close(p.device);
        usleep(500);
        over = true;
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
        vks_commands_unref(p.commands);
        vks_surface_unref(p.surface);
        vks_device_unref(p.device);
        CHECK(stub_semaphores() == semaphores, "round %ld: %u semaphores are left", i, stub_semaphores() - semaphores);
        CHECK(stub_violations() == violations, "round %ld", i);
    }
}

static void *shut_down(void *device)
{
    vks_device_shutdown(device);
    return NULL;
}

static void a_closing_device_reports_running_work_as_not_done(void)
{
    party p = new_party("p", NULL, false);
    stub_stall(true);
    vks_submission submission;
    CHECK(vks_surface_acquire(p.surface, 0, 0) == VKS_OK && draw(&p, &submission) == VKS_OK, "it waits in the driver");
    pthread_t thread;
    pthread_create(&thread, NULL, shut_down, p.device);
    usleep(30000);
    CHECK(vks_submission_poll(p.device, &submission) == VKS_TIMEOUT, "its memory is still in use");
    CHECK(vks_device_completed(p.device) < vks_device_submitted(p.device), "and so are its command buffers");
    stub_stall(false);
    pthread_join(thread, NULL);
    CHECK(vks_submission_poll(p.device, &submission) == VKS_OK, "it ran before the end");
    drop_party(&p);
}

/* ---- work of the CPU backend that fails ---- */

/* ---- values of a lost device ---- */

/* Runs one turn: acquire `key`, draw, release `key + 1`. */
static void take_turn(party *p, uint64_t key, vks_submission *out)
{
    CHECK(vks_surface_acquire(p->surface, key, 0) == VKS_OK && draw(p, out) == VKS_OK &&
              vks_surface_release(p->surface, key + 1) == VKS_OK,
          "turn %d: %s", (int)key, vks_last_error()->text);
}

static void lose(party *p)
{
    stub_fail_submit(p->device, STUB_DEVICE_LOST, 1);
    CHECK(vks_submit(p->device, &(vks_submit_info){0}, 0, &(vks_submission){0}) == VKS_DEVICE_LOST, "lost");
}

static vks_status wait_for(party *p, const vks_submission *submission)
{
    uint64_t limit = vks_now() + HANG;
    vks_status status;
    while ((status = vks_submission_wait(p->device, submission, limit)) == VKS_INTERRUPTED)
        ;
    return status;
}

/* rules: K9, K27 */
static void a_gpu_wait_for_a_lost_device_ends_despite_later_pending_values_and_gaps(void)
{
    party a = new_party("a", NULL, true), lost = new_party("lost", &a, true), waiter = new_party("waiter", &a, true),
          behind = new_party("behind", &a, true);
    vks_submission mine, theirs;
    take_turn(&a, 0, &mine);
    CHECK(wait_for(&a, &mine) == VKS_OK && vks_device_wait_idle(a.device, vks_now() + HANG) == VKS_OK, "drawn");
    CHECK(vks_surface_acquire(a.surface, 1, 0) == VKS_OK && vks_surface_release(a.surface, 2) == VKS_OK,
          "a hand-over without work: its value is never signalled");
    stub_stall(true);
    take_turn(&lost, 2, &mine);
    take_turn(&waiter, 3, &mine);
    take_turn(&behind, 4, &theirs);
    lose(&lost);
    stub_stall(false);
    vks_status first = wait_for(&waiter, &mine), second = wait_for(&behind, &theirs);
    CHECK(first == VKS_OK && second == VKS_OK, "%d, then %d", first, second);
    CHECK(vks_surface_acquire(a.surface, 5, vks_now() + 100 * MS) == VKS_ABANDONED, "but the frame is incomplete");
    CHECK(vks_surface_recover(a.surface, vks_now() + HANG) == VKS_OK, "%s", vks_last_error()->text);
    drop_party(&behind);
    drop_party(&waiter);
    drop_party(&lost);
    drop_party(&a);
}

/* rules: K9 */
static void work_in_a_poisoned_chain_waits_for_earlier_work_with_lower_signals(void)
{
    party later = new_party("later", NULL, true), slow = new_party("slow", &later, true),
          lost = new_party("lost", &later, true); /* the stub runs the queues in this order */
    uint32_t violations = stub_violations();
    vks_submission mine, theirs = {0};
    stub_stall(true);
    take_turn(&slow, 0, &mine);
    take_turn(&lost, 1, &theirs);
    CHECK(vks_surface_acquire(later.surface, 2, 0) == VKS_OK, "the hand-over succeeds");
    lose(&lost);
    CHECK(draw(&later, &theirs) == VKS_OK && vks_submission_is_held(later.device, &theirs),
          "slow's signal comes first");
    vks_surface_release(later.surface, 3);
    stub_stall(false);
    CHECK(wait_for(&slow, &mine) == VKS_OK && wait_for(&later, &theirs) == VKS_OK, "then it goes");
    vks_work_unref(theirs.op);
    CHECK(vks_device_wait_idle(later.device, vks_now() + HANG) == VKS_OK, "and its signal");
    CHECK(stub_violations() == violations, "the semaphore never fell");
    drop_party(&lost);
    drop_party(&slow);
    drop_party(&later);
}

/* rules: K27 */
static void a_slot_holds_the_first_pending_value_of_its_handle(void)
{
    party a = new_party("a", NULL, true);
    vks_fence *gate;
    vks_submission gated = {0};
    CHECK(vks_fence_create(a.device, 0, &gate) == VKS_OK, "%s", vks_last_error()->text);
    share(&a);
    stub_stall(true);
    for (uint64_t key = 0; key < 2; key++) {
        take_turn(&a, key, NULL);
        CHECK(sum_pending(&a) == 1, "after turn %d the slot has %d", (int)key, (int)sum_pending(&a));
    }
    vks_submit_info info = {
        .commands = &a.commands, .n_commands = 1, .waits = &(vks_wait){.fence = gate, .value = 1}, .n_waits = 1};
    CHECK(vks_surface_acquire(a.surface, 2, 0) == VKS_OK && vks_submit(a.device, &info, 0, &gated) == VKS_OK &&
              vks_surface_release(a.surface, 3) == VKS_OK,
          "the third turn is held until the gate opens: %s", vks_last_error()->text);
    CHECK(sum_pending(&a) == 1, "the slot still has the first: %d", (int)sum_pending(&a));
    stub_stall(false);
    for (uint64_t limit = vks_now() + HANG; sum_pending(&a) < 3 && vks_now() < limit;)
        usleep(100);
    CHECK(sum_pending(&a) == 3, "the third turn's value is still pending: %d", (int)sum_pending(&a));
    CHECK(vks_fence_signal(gate, 1) == VKS_OK && wait_for(&a, &gated) == VKS_OK, "%s", vks_last_error()->text);
    for (uint64_t limit = vks_now() + HANG; sum_pending(&a) && vks_now() < limit;)
        usleep(100);
    CHECK(sum_pending(&a) == 0, "and nothing in the end: %d", (int)sum_pending(&a));
    vks_work_unref(gated.op);
    vks_fence_close(gate);
    vks_fence_unref(gate);
    drop_party(&a);
}

/* rules: K25 */
static void work_of_a_queued_ownership_runs_although_its_handle_owns_again(void)
{
    party a = new_party("a", NULL, false), b = new_party("b", &a, false);
    vks_work *op = NULL;
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK && vks_surface_acquire_gpu(b.surface, 1, &op) == VKS_OK && op,
          "%s", vks_last_error()->text);
    CHECK(draw(&b, NULL) == VKS_OK, "it waits for the acquire");
    stub_stall(true);
    CHECK(draw(&a, NULL) == VKS_OK && vks_surface_release(a.surface, 1) == VKS_OK, "%s", vks_last_error()->text);
    for (uint64_t limit = vks_now() + HANG; !vks_surface_is_owned(b.surface) && vks_now() < limit;)
        usleep(100);
    CHECK(vks_surface_release(b.surface, 2) == VKS_OK, "behind the work, which waits for a's now");
    CHECK(vks_surface_acquire(b.surface, 2, vks_now() + HANG) == VKS_OK, "and it owns again");
    stub_stall(false);
    CHECK(vks_device_wait_idle(b.device, vks_now() + HANG) == VKS_OK, "all has run");
    CHECK(vks_surface_cpu_access(b.surface, vks_now() + HANG) == VKS_OK, "and is whole");
    CHECK(vks_surface_release(b.surface, 3) == VKS_OK, "%s", vks_last_error()->text);
    if (op)
        vks_work_unref(op);
    drop_party(&b);
    drop_party(&a);
}

/* rules: X21 */
static void a_loss_that_only_submits_report_ends_a_wait(void)
{
    vks_device *device = stub_open("gpu", true);
    vks_submission submission;
    vks_fence *fence;
    CHECK(vks_fence_create(device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    stub_stall(true);
    vks_submit_info work = {.signals = &(vks_signal){fence, 1}, .n_signals = 1};
    CHECK(vks_submit(device, &work, 0, &submission) == VKS_OK, "%s", vks_last_error()->text);
    stub_fail_submit(device, STUB_DEVICE_LOST, 1);
    uint64_t start = vks_now();
    vks_status status;
    do
        status = vks_submission_wait(device, &submission, start + HANG);
    while (status == VKS_INTERRUPTED);
    CHECK(status == VKS_DEVICE_LOST && vks_now() - start < HANG, "status %d after %.1f ms", status,
          (double)(vks_now() - start) / MS);
    CHECK(vks_fence_wait(fence, 1, vks_now() + HANG) == VKS_DEVICE_LOST, "and every other wait");
    stub_stall(false);
    vks_fence_close(fence);
    vks_fence_unref(fence);
    stub_close(device);
}

/* rules: X21 */
static void a_wait_does_not_use_an_engines_queue(void)
{
    vks_device *device = stub_adopt("engine", true);
    vks_submission submission;
    stub_stall(true);
    CHECK(vks_submit(device, &(vks_submit_info){0}, 0, &submission) == VKS_OK, "%s", vks_last_error()->text);
    stub_fail_submit(device, STUB_DEVICE_LOST, 1);
    uint64_t limit = vks_now() + 300 * MS;
    vks_status status;
    do
        status = vks_submission_wait(device, &submission, limit);
    while (status == VKS_INTERRUPTED);
    CHECK(status == VKS_TIMEOUT && !stub_has_failed(), "status %d, asked: %d", status, stub_has_failed());
    stub_fail_submit(device, STUB_NO_FAULT, 0);
    stub_stall(false);
    stub_close(device);
}

/* rules: X21 */
static void a_program_that_does_not_fit_its_surface_is_never_reported_done(void)
{
    static uint8_t pixels[8 * 8];
    vks_device *device;
    vks_surface *surface;
    vks_commands *commands;
    vks_fence *fence;
    struct vks_program *program = vks_program_create();
    int slot = vks_program_image(program, 16, 16, VKS_FORMAT_R8_UNORM); /* the surface is 8 by 8 */
    vks_program_clear(program, (uint32_t)slot, (float[4]){1, 1, 1, 1});
    CHECK(vks_device_create(&(vks_device_info){.name = "cpu"}, &device) == VKS_OK &&
              vks_fence_create(device, 0, &fence) == VKS_OK,
          "%s", vks_last_error()->text);
    vks_surface_info info = {
        .width = 8, .height = 8, .format = VKS_FORMAT_R8_UNORM, .pixels = pixels, .size = sizeof pixels, .stride = 8};
    CHECK(vks_surface_create(device, &info, &surface) == VKS_OK && vks_surface_acquire(surface, 0, 0) == VKS_OK, "%s",
          vks_last_error()->text);
    vks_use use = {surface, true};
    CHECK(vks_commands_create_cpu(device, program, &use, 1, &(uint32_t){0}, 1, &commands) == VKS_OK, "%s",
          vks_last_error()->text);
    vks_submission submission;
    vks_submit_info work = {.commands = &commands, .n_commands = 1, .signals = &(vks_signal){fence, 1}, .n_signals = 1};
    CHECK(vks_submit(device, &work, 0, &submission) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_fence_wait(fence, 1, vks_now() + HANG) == VKS_DEVICE_LOST, "nothing was drawn");
    CHECK(vks_submission_poll(device, &submission) == VKS_DEVICE_LOST, "and nothing is done");
    vks_commands_unref(commands);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_fence_unref(fence);
    vks_device_unref(device);
}

/* ---- no threads ---- */

static void a_wait_or_a_held_submission_is_refused_without_threads(void)
{
    party a = new_party("a", NULL, false), b = new_party("b", &a, false);
    vks_fence *fence, *follower;
    int page, semaphore;
    CHECK(vks_fence_create(a.device, 0, &fence) == VKS_OK && vks_fence_export(fence, &page, &semaphore) == VKS_OK &&
              vks_fence_open(b.device, page, semaphore, &follower) == VKS_OK,
          "%s", vks_last_error()->text);
    no_threads = true;
    vks_submission held = {0};
    vks_wait wait = {.fence = follower, .value = 1};
    vks_work *op = NULL;
    CHECK(vks_submit(b.device, &(vks_submit_info){.waits = &wait, .n_waits = 1}, 0, &held) == VKS_OS_ERROR,
          "no thread would submit it");
    CHECK(vks_surface_acquire(a.surface, 0, 0) == VKS_OK &&
              vks_surface_acquire_gpu(b.surface, 1, &op) == VKS_OS_ERROR && !op,
          "no thread would grant it");
    CHECK(draw(&a, NULL) == VKS_OK && vks_surface_release(a.surface, 1) == VKS_OS_ERROR &&
              vks_surface_is_owned(a.surface),
          "no thread would notify b");
    no_threads = false;
    CHECK(vks_surface_release(a.surface, 1) == VKS_OK, "K24: it can be tried again");
    CHECK(vks_surface_acquire(b.surface, 1, vks_now() + HANG) == VKS_OK, "and b comes to it");
    CHECK(vks_submit(b.device, &(vks_submit_info){.waits = &wait, .n_waits = 1}, 0, &held) == VKS_OK && held.op,
          "held now");
    CHECK(vks_fence_signal(fence, 1) == VKS_OK && vks_submission_wait(b.device, &held, vks_now() + HANG) != VKS_TIMEOUT,
          "and submitted");
    vks_work_unref(held.op);
    vks_fence_close(follower), vks_fence_unref(follower);
    vks_fence_close(fence), vks_fence_unref(fence);
    drop_party(&b);
    drop_party(&a);
}

int main(void)
{
    RUN(a_wait_or_a_held_submission_is_refused_without_threads); /* first, before the process's threads have started */
    RUN(a_device_lost_in_a_release_has_no_pending_value);
    RUN(an_image_stays_owned_when_its_external_transfer_fails);
    RUN(a_lost_device_wakes_waits_for_ownership);
    RUN(a_lost_device_wakes_waits_for_the_previous_owners_work);
    RUN(a_closed_handle_wakes_waits_for_ownership);
    RUN(a_closed_handle_wakes_waits_for_the_previous_owners_work);
    RUN(a_device_that_was_lost_and_closed_leaves_no_semaphore);
    RUN(a_gpu_wait_for_a_lost_device_ends_despite_later_pending_values_and_gaps);
    RUN(work_in_a_poisoned_chain_waits_for_earlier_work_with_lower_signals);
    RUN(a_slot_holds_the_first_pending_value_of_its_handle);
    RUN(work_of_a_queued_ownership_runs_although_its_handle_owns_again);
    RUN(a_loss_that_only_submits_report_ends_a_wait);
    RUN(a_wait_does_not_use_an_engines_queue);
    RUN(a_queued_release_that_fails_abandons_the_surface);
    RUN(a_program_that_does_not_fit_its_surface_is_never_reported_done);
    RUN(a_closing_device_reports_running_work_as_not_done);
    RUN(a_device_may_be_closed_while_threads_are_in_any_of_its_calls);
    CHECK(stub_violations() == 0, "%u violations", stub_violations());
    return check_result();
}
