/* The swapchain over a driver and a presentation engine that are stubs: closing and retargeting in
 * steps, while other threads have the queue or the lock. */
#include "surface/surface.h"
#include "present/swapchain_state.h"
#include "present_program.h"

static void begin_other_present(app *a)
{
    pthread_mutex_lock(&a->device->lock);
    CHECK(vks_device_begin_present(a->device, VKS_FOREVER) == VKS_OK, "%s", vks_last_error()->text);
    pthread_mutex_unlock(&a->device->lock);
}

static void end_other_present(app *a)
{
    pthread_mutex_lock(&a->device->lock);
    vks_device_end_present(a->device);
    pthread_mutex_unlock(&a->device->lock);
}

/* rules: A17, A27 */
static void close_waits_for_proof_although_another_swapchain_has_the_queue(void)
{
    app a;
    vks_frame frame;
    app_open(&a, (choices){.pace = PRESENTS_LAZY, .policy = VKS_PRESENTS_BY_ACQUIRES, .proof_ms = 5000});
    app_frames(&a, 6, 1);
    CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK, "%s", vks_last_error()->text);
    begin_other_present(&a);
    vks_set_interrupt_interval(5 * MS);
    uint64_t limit = vks_now() + 5000 * MS;
    pthread_mutex_lock(&a.swapchain->lock);
    a.swapchain->finishing = (struct vks_finishing){.since = vks_now(), .left = UINT64_MAX, .give_up_at = limit};
    CHECK(vks_finish_presents(a.swapchain) == VKS_INTERRUPTED, "the proof is still to come");
    a.swapchain->finishing.since = 0;
    pthread_mutex_unlock(&a.swapchain->lock);
    vks_set_interrupt_interval(0);
    end_other_present(&a);
    app_close(&a);
}

typedef struct holder {
    vks_swapchain *swapchain;
    _Atomic bool has_lock;
} holder;

static void *hold_lock(void *argument)
{
    holder *h = argument;
    pthread_mutex_lock(&h->swapchain->lock);
    h->has_lock = true;
    usleep(30000);
    pthread_mutex_unlock(&h->swapchain->lock);
    return NULL;
}

/* rules: A27 */
static void the_lock_timeout_starts_when_an_idle_swapchain_is_locked(void)
{
    app a;
    app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = VKS_PRESENTS_BY_FENCES});
    app_frames(&a, 3, 1);
    if (a.swapchain->locked_since) /* then some time goes by */
        a.swapchain->locked_since -= VKS_LONGEST_PRESENT_NS + MS;
    holder h = {.swapchain = a.swapchain};
    pthread_t thread;
    pthread_create(&thread, NULL, hold_lock, &h);
    while (!h.has_lock) /* and it has not noted yet since when */
        usleep(100);
    CHECK(vks_swapchain_prepare(a.swapchain, vks_now() + HANG) == VKS_OK, "%s", vks_last_error()->text);
    pthread_join(thread, NULL);
    app_close(&a);
}

/* rules: A17, A27 */
static void a_close_long_after_an_interrupted_retarget_has_its_own_deadlines(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_LAZY, .policy = policy, .proof_ms = 5000});
        app_frames(&a, 6, 1);
        presents_stall(STALL_QUEUE | STALL_PRESENTS | STALL_FENCES | STALL_ACQUIRES);
        vks_set_interrupt_interval(2 * MS);
        CHECK(vks_swapchain_retarget(a.swapchain, a.surface) == VKS_INTERRUPTED, "nothing is over");
        vks_set_interrupt_interval(0);
        presents_stall(0);
        app_frames(&a, 3, 1);
        struct vks_finishing *f = &a.swapchain->finishing; /* then some time goes by */
        f->last -= f->since ? VKS_LONGEST_PRESENT_NS + MS : 0;
        f->since -= f->since ? VKS_LONGEST_PRESENT_NS + MS : 0;
        f->give_up_at = f->since + 5000 * MS;
        CHECK(vks_swapchain_try_close(a.swapchain) == VKS_OK, "%s", vks_last_error()->text);
        app_close(&a);
    }
}

/* The engine takes nothing, and a thread records. */
static void open_pinned(app *a, vks_present_policy policy)
{
    app_open(a, (choices){.pace = PRESENTS_EAGER, .policy = policy, .proof_ms = 1, .fence_ms = 60000});
    presents_stall(STALL_PRESENTS | STALL_FENCES);
    presents_allow_early_destroy(true); /* no proof can come */
    app_frames(a, 2, 1);
    CHECK(vks_swapchain_pin(a->swapchain, app_statistics(a).generation) == VKS_OK, "%s", vks_last_error()->text);
}

/* rules: A21, A27 */
static void a_close_while_a_thread_records_destroys_nothing_and_can_be_repeated(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        open_pinned(&a, policy);
        presents_counts before = presents_count();
        vks_clear_error();
        CHECK(vks_swapchain_try_close(a.swapchain) == VKS_TIMEOUT && TEXT_HAS("records commands"), "%s",
              vks_last_error()->text);
        CHECK(presents_count().semaphores == before.semaphores && presents_count().swapchains == 1, "%u of %u",
              presents_count().semaphores, before.semaphores);
        vks_swapchain_unpin(a.swapchain);
        CHECK(vks_swapchain_try_close(a.swapchain) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(presents_count().swapchains == 0, "%u", presents_count().swapchains);
        app_close(&a);
    }
}

/* rules: A9, A21 */
static void a_retarget_while_a_thread_records_changes_nothing_and_can_be_repeated(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        open_pinned(&a, policy);
        CHECK(vks_swapchain_retarget(a.swapchain, a.surface) == VKS_TIMEOUT && TEXT_HAS("records commands"), "%s",
              vks_last_error()->text);
        vks_swapchain_unpin(a.swapchain);
        CHECK(vks_swapchain_retarget(a.swapchain, a.surface) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 2, 1); /* the surface has no other swapchain */
        app_close(&a);
    }
}

static void *retarget(void *argument)
{
    app *a = argument;
    CHECK(vks_swapchain_retarget(a->swapchain, a->surface) == VKS_CLOSED, "%s", vks_last_error()->text);
    return NULL;
}

/* rules: A27 */
static void a_retarget_that_waited_behind_a_close_reports_that_it_is_closed(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        pthread_t thread;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy});
        app_frames(&a, 3, 1);
        uint32_t calls = a.device->driver_calls;
        pthread_mutex_lock(&a.swapchain->lock); /* as a close has it */
        pthread_create(&thread, NULL, retarget, &a);
        while (a.device->driver_calls == calls) /* its first check is over */
            usleep(100);
        a.swapchain->is_closed = true;
        pthread_mutex_unlock(&a.swapchain->lock);
        pthread_join(thread, NULL);
        CHECK(presents_count().swapchains == 1, "%u", presents_count().swapchains);
        app_close(&a);
    }
}

/* rules: A28 */
static void a_close_after_the_device_was_shut_down_keeps_its_vulkan_device(void)
{
    static app a; /* what is leaked stays within reach of a leak checker */
    app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = VKS_PRESENTS_BY_FENCES});
    app_frames(&a, 3, 1);
    app_forget_surfaces(&a);
    vks_device_shutdown(a.device);
    CHECK(vks_swapchain_try_close(a.swapchain) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(presents_count().swapchains == 1, "the driver is not called any more");
    CHECK(vks_device_leaks(a.device), "a VkSwapchainKHR is alive");
    CHECK(vks_swapchain_try_close(a.swapchain) == VKS_OK, "%s", vks_last_error()->text);
    vks_swapchain_unref(a.swapchain);
}

/* rules: A28 */
static void a_swapchain_that_was_leaked_keeps_its_vulkan_device(void)
{
    static app a; /* what is leaked stays within reach of a leak checker */
    app_open(&a, (choices){.pace = PRESENTS_LAZY, .policy = VKS_PRESENTS_BY_FENCES});
    presents_stall(STALL_QUEUE | STALL_PRESENTS | STALL_FENCES);
    app_frames(&a, 1, 1);
    app_forget_surfaces(&a);
    uint64_t now = vks_now(), since = now - VKS_LONGEST_PRESENT_NS - MS; /* it was closed so long ago */
    a.swapchain->finishing =
        (struct vks_finishing){.since = since, .last = now, .frames = 1, .left = UINT64_MAX, .give_up_at = since};
    CHECK(vks_swapchain_try_close(a.swapchain) == VKS_TIMEOUT, "its frames have not run");
    vks_swapchain_unref(a.swapchain);
    presents_stall(0);
    CHECK(!vks_device_leaks(a.device), "it goes on");
    vks_device_shutdown(a.device);
    CHECK(vks_device_leaks(a.device), "a VkSwapchainKHR is alive");
}

int main(void)
{
    RUN(close_waits_for_proof_although_another_swapchain_has_the_queue);
    RUN(the_lock_timeout_starts_when_an_idle_swapchain_is_locked);
    RUN(a_close_long_after_an_interrupted_retarget_has_its_own_deadlines);
    RUN(a_close_while_a_thread_records_destroys_nothing_and_can_be_repeated);
    RUN(a_retarget_while_a_thread_records_changes_nothing_and_can_be_repeated);
    RUN(a_retarget_that_waited_behind_a_close_reports_that_it_is_closed);
    RUN(a_close_after_the_device_was_shut_down_keeps_its_vulkan_device);
    RUN(a_swapchain_that_was_leaked_keeps_its_vulkan_device);
    return check_result();
}
