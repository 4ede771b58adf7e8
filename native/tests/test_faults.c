/* rules: K24, X21, X18, K22. The core over a driver whose n-th call fails, for every n of a small
 * scenario: two devices, a fence and its follower, held work, and a surface that is passed around,
 * also through queued acquires. After every failure the statuses are valid, no call hangs, and
 * nothing leaks. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "stub_driver.h"

#define MS UINT64_C(1000000)

static vks_status last_bad;
static int not_ok;       /* statuses other than VKS_OK */
static uint64_t wait_ns; /* of each wait: after a fault it may never end, without one it does */

/* Notes any status that an error of the driver must not cause. */
static vks_status expect(vks_status status)
{
    not_ok += status != VKS_OK;
    switch (status) {
    case VKS_OK:
    case VKS_TIMEOUT:
    case VKS_ABANDONED:
    case VKS_NOT_OWNER:
    case VKS_ALREADY_OWNER:
    case VKS_NOT_ABANDONED:
    case VKS_CLOSED:
    case VKS_DEVICE_LOST:
    case VKS_VULKAN_ERROR:
        break;
    default:
        last_bad = status;
    }
    return status;
}

/* Calls again as the header requires, until the deadline. */
#define AGAIN(call)                                                                                                    \
    ({                                                                                                                 \
        vks_status again_;                                                                                             \
        while ((again_ = (call)) == VKS_INTERRUPTED)                                                                   \
            ;                                                                                                          \
        expect(again_);                                                                                                \
    })

typedef struct party {
    vks_device *device;
    vks_fence *fence, *theirs;
    vks_surface *surface;
    vks_commands *commands;
} party;

static vks_submission submit(party *p, vks_fence *wait, uint64_t wait_value, uint64_t signal_value, bool draws)
{
    vks_submission out = {0};
    vks_wait waits = {.fence = wait, .value = wait_value};
    vks_signal signals = {p->fence, signal_value};
    vks_submit_info info = {.commands = &p->commands,
                            .n_commands = draws && p->commands,
                            .waits = &waits,
                            .n_waits = wait != NULL,
                            .signals = &signals,
                            .n_signals = p->fence && signal_value};
    vks_status status = expect(vks_submit(p->device, &info, vks_now() + wait_ns, &out));
    if (status == VKS_VULKAN_ERROR) { /* K22: nothing changed, so it can be tried again */
        CHECK(out.op == NULL, "an error leaves no operation");
        expect(vks_submit(p->device, &info, vks_now() + wait_ns, &out));
    }
    return out;
}

static void drop(vks_submission submission)
{
    if (submission.op)
        vks_work_unref(submission.op);
}

static void make(party *p, const char *name, party *of, bool native)
{
    memset(p, 0, sizeof *p);
    if (!(p->device = stub_open(name, native)))
        return;
    int page = -1, semaphore = -1;
    vks_surface_info info = {.width = 8, .height = 8, .acquire_commands = 1, .release_commands = 2};
    expect(vks_fence_create(p->device, 0, &p->fence));
    if (!of)
        expect(vks_surface_create(p->device, &info, &p->surface));
    else if (of->surface && expect(vks_surface_export(of->surface, &page, &semaphore)) == VKS_OK)
        expect(vks_surface_open(p->device, &info, page, semaphore, &p->surface));
    if (p->surface)
        expect(stub_commands(p->surface, STUB_VARIED, &p->commands));
}

static void follow(party *p, party *of)
{
    int page, semaphore;
    if (of->fence && expect(vks_fence_export(of->fence, &page, &semaphore)) == VKS_OK)
        expect(vks_fence_open(p->device, page, semaphore, &p->theirs));
}

static void unmake(party *p)
{
    if (p->commands)
        vks_commands_unref(p->commands);
    if (p->surface) {
        vks_surface_close(p->surface);
        vks_surface_unref(p->surface);
    }
    if (p->theirs) {
        vks_fence_close(p->theirs);
        vks_fence_unref(p->theirs);
    }
    vks_fence *left = p->fence; /* closed by the shutdown */
    stub_close(p->device);
    if (left)
        vks_fence_unref(left);
}

/* K24: a release that failed for lack of driver memory is called again. */
static void release(party *p, uint64_t key)
{
    vks_status status = expect(vks_surface_release(p->surface, key));
    if (status == VKS_VULKAN_ERROR)
        CHECK(expect(vks_surface_release(p->surface, key)) != VKS_VULKAN_ERROR, "one call fails, not two");
}

static void turn(party *a, party *b)
{
    vks_work *op = NULL;
    expect(vks_surface_acquire(a->surface, 0, vks_now() + wait_ns));
    if (expect(vks_surface_acquire_gpu(b->surface, 1, &op)) == VKS_OK) { /* b's whole turn is queued in advance */
        drop(submit(b, NULL, 0, 2, true));
        release(b, 2);
    }
    drop(submit(a, NULL, 0, 1, true));
    release(a, 1);
    if (expect(vks_fence_signal(a->fence, 2)) == VKS_VULKAN_ERROR) /* releases b's held work */
        expect(vks_fence_signal(a->fence, 2));
    AGAIN(vks_surface_acquire(a->surface, 2, vks_now() + wait_ns));
    AGAIN(vks_surface_cpu_access(a->surface, vks_now() + wait_ns));
    release(a, 3);
    if (op)
        vks_work_unref(op);
}

static void engine_turn(party *p, uint64_t key)
{
    vks_semaphore_point wait, signal;
    if (AGAIN(vks_surface_acquire(p->surface, key, vks_now() + wait_ns / 2)) != VKS_OK)
        return;
    if (AGAIN(vks_surface_sync(p->surface, vks_now() + wait_ns, &wait, &signal)) == VKS_OK)
        stub_submit(p->device, wait, signal);
    release(p, key + 1);
}

/* An external API works for the party and signals exactly the requested value. */
static void external_turn(party *p, stub_api *api, uint64_t key)
{
    uint64_t wait, signal;
    if (AGAIN(vks_surface_acquire(p->surface, key, vks_now() + wait_ns / 2)) != VKS_OK)
        return;
    vks_status status = AGAIN(vks_surface_external_begin(p->surface, false, vks_now() + wait_ns, &wait));
    if (status == VKS_VULKAN_ERROR) /* K24: external use did not begin, and can be tried again */
        status = AGAIN(vks_surface_external_begin(p->surface, false, vks_now() + wait_ns, &wait));
    if (status == VKS_OK) {
        status = expect(vks_surface_external_signal_value(p->surface, &signal));
        if (status == VKS_VULKAN_ERROR)
            status = expect(vks_surface_external_signal_value(p->surface, &signal));
        if (status == VKS_OK)
            stub_work(api, wait, signal);
        expect(vks_surface_external_end(p->surface, status == VKS_OK ? signal : 0));
    }
    release(p, key + 1);
}

static void scenario(bool native)
{
    party a, b;
    vks_event_queue *event_queue;
    vks_event_queue_create(&event_queue);
    make(&a, "a", NULL, native);
    make(&b, "b", &a, native);
    if (a.device && b.device && a.surface && b.surface && a.fence && b.fence) {
        follow(&b, &a);
        vks_submission held = {0};
        if (b.theirs)
            held = submit(&b, b.theirs, 2, 1, false);
        expect(vks_fence_notify(b.fence, 2, event_queue, 1));
        turn(&a, &b);
        AGAIN(vks_fence_wait(b.fence, 2, vks_now() + wait_ns));
        AGAIN(vks_submission_wait(b.device, &held, vks_now() + wait_ns));
        drop(held);
        engine_turn(&b, 3);
        stub_api *apis[2] = {native ? stub_import(a.surface) : NULL, native ? stub_import(b.surface) : NULL};
        uint64_t last = 4;
        for (int i = 0; i < 4 && apis[0] && apis[1];
             i++, last++) /* after a queue, after itself, and after the other API */
            external_turn(i & 2 ? &b : &a, apis[i >> 1], last);
        if (AGAIN(vks_surface_acquire(a.surface, last, vks_now() + wait_ns / 2)) == VKS_ABANDONED)
            AGAIN(vks_surface_recover(a.surface, vks_now() + wait_ns));
        AGAIN(vks_device_wait_idle(a.device, vks_now() + wait_ns));
        AGAIN(vks_device_wait_idle(b.device, vks_now() + wait_ns));
        for (int i = 0; i < 2; i++) {
            for (uint64_t limit = vks_now() + HANG; apis[i] && !stub_is_idle(apis[i]) && vks_now() < limit;)
                usleep(200);
            CHECK(!apis[i] || stub_is_idle(apis[i]), "what it waited for never came");
            if (apis[i])
                stub_drop(apis[i]);
        }
    }
    unmake(&b);
    unmake(&a);
    vks_event_queue_unref(event_queue);
}

static void fail_each_call(stub_fault fault, bool native)
{
    not_ok = 0;
    wait_ns = HANG;
    scenario(native); /* starts the process's own threads and fds */
    CHECK(not_ok == 0, "without a fault all goes well, and %d calls did not", not_ok);
    wait_ns = 100 * MS;
    int fds = count_fds();
    uint32_t n = 1, step = (uint32_t)check_scale("VKS_FAULT_STEP", 1);
    for (bool failed = true; failed && check_failures < 10; n += step) {
        uint32_t semaphores = stub_semaphores(), violations = stub_violations();
        uint64_t start = vks_now();
        last_bad = VKS_OK;
        stub_fail(fault, n);
        scenario(native);
        failed = stub_has_failed();
        stub_fail(STUB_NO_FAULT, 0);
        CHECK(vks_now() - start < HANG, "call %u: took %.1f s", n, (vks_now() - start) / 1e9);
        CHECK(last_bad == VKS_OK, "call %u: status %d", n, last_bad);
        CHECK(stub_semaphores() == semaphores, "call %u: %u semaphores leak", n, stub_semaphores() - semaphores);
        CHECK(stub_violations() == violations, "call %u", n);
        CHECK(count_fds() == fds, "call %u: %d file descriptors, before %d", n, count_fds(), fds);
    }
    printf("     %u calls failed in turn\n", n - step);
}

static void a_native_driver_may_be_out_of_memory_at_any_call(void) { fail_each_call(STUB_OUT_OF_MEMORY, true); }
static void a_bridged_driver_may_be_out_of_memory_at_any_call(void) { fail_each_call(STUB_OUT_OF_MEMORY, false); }
static void a_native_driver_may_lose_its_device_at_any_call(void) { fail_each_call(STUB_DEVICE_LOST, true); }
static void a_bridged_driver_may_lose_its_device_at_any_call(void) { fail_each_call(STUB_DEVICE_LOST, false); }

int main(void)
{
    RUN(a_native_driver_may_be_out_of_memory_at_any_call);
    RUN(a_bridged_driver_may_be_out_of_memory_at_any_call);
    RUN(a_native_driver_may_lose_its_device_at_any_call);
    RUN(a_bridged_driver_may_lose_its_device_at_any_call);
    return check_result();
}
