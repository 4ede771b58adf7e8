/* The swapchain over a driver and a presentation engine that are stubs: errors, presents that last,
 * and close. */
#include "queue/queue.h"
#include "present_program.h"

/* ---- errors ---- */

static void out_of_date_at_acquire_is_tried_twice(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy});
        app_frames(&a, 5, 1);
        presents_fail("AcquireNextImageKHR", VK_ERROR_OUT_OF_DATE_KHR, 1, 1);
        app_frames(&a, 1, 1);
        CHECK(app_statistics(&a).recreated == 1, "once");
        presents_fail("AcquireNextImageKHR", VK_ERROR_OUT_OF_DATE_KHR, 1, UINT32_MAX);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t before = presents_calls("AcquireNextImageKHR");
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_VULKAN_ERROR &&
                      vks_last_error()->code == VK_ERROR_OUT_OF_DATE_KHR,
                  "%s", vks_last_error()->text);
            CHECK(presents_calls("AcquireNextImageKHR") - before == 2, "two attempts");
        }
        presents_fail("AcquireNextImageKHR", 0, 0, 0);
        app_frames(&a, 5, 1);
        app_close(&a);
    }
}

static void suboptimal_is_good_for_a_frame_and_recreates_after_a_present(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy});
        app_frames(&a, 3, 1);
        presents_fail("AcquireNextImageKHR", VK_SUBOPTIMAL_KHR, 1, 1);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_swapchain_drop(a.swapchain, &frame) == VKS_OK, "A19");
        app_frames(&a, 3, 1);
        CHECK(app_statistics(&a).recreated == 0, "%d", (int)app_statistics(&a).recreated);
        for (uint32_t lost = 0; lost < 2; lost++) {
            presents_fail("QueuePresentKHR", lost ? VK_ERROR_OUT_OF_DATE_KHR : VK_SUBOPTIMAL_KHR, 1, 1);
            app_frames(&a, 1, 1);
            CHECK(app_statistics(&a).recreated == lost && app_statistics(&a).lost_frames == lost, "not yet");
            app_frames(&a, 1, 1);
            CHECK(app_statistics(&a).recreated == lost + 1, "now");
        }
        app_close(&a);
    }
}

static const char *const lossy[] = {"GetPhysicalDeviceSurfaceCapabilitiesKHR", "CreateSwapchainKHR",
                                    "AcquireNextImageKHR", "QueuePresentKHR"};

static void a_lost_surface_is_replaced_by_another(void)
{
    ON_BOTH_POLICIES(policy)
    for (uint32_t i = 0; i < 4; i++)
        for (presents_pace pace = PRESENTS_EAGER; pace <= PRESENTS_RANDOM; pace++) {
            app a;
            app_open(&a, (choices){.pace = pace, .policy = policy});
            app_frames(&a, 5, 1);
            if (i < 2)
                app_resize(&a, 80, 80);
            presents_fail(lossy[i], VK_ERROR_SURFACE_LOST_KHR, 1, 1);
            for (uint32_t n = 0; n < 3; n++)
                CHECK(app_frame(&a, 1) == VKS_SURFACE_LOST, "%s: %s", lossy[i], vks_last_error()->text);
            a.surface = presents_surface();
            CHECK(vks_swapchain_retarget(a.swapchain, a.surface) == VKS_OK, "%s", vks_last_error()->text);
            app_frames(&a, 5, 1);
            app_close(&a);
        }
}

static void each_call_reports_a_lost_device(void)
{
    ON_BOTH_POLICIES(policy)
    for (uint32_t i = 1; i < 4; i++) {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        app_frames(&a, 5, 1);
        if (i < 2)
            app_resize(&a, 80, 80);
        presents_fail(lossy[i], VK_ERROR_DEVICE_LOST, 1, 1);
        for (uint32_t n = 0; n < 3; n++)
            CHECK(app_frame(&a, 1) == VKS_DEVICE_LOST, "%s: %s", lossy[i], vks_last_error()->text);
        CHECK(vks_device_state(a.device) == VKS_DEVICE_LOST, "the device knows");
        app_close(&a);
    }
}

static void out_of_memory_at_present_leaves_the_frame(void)
{
    ON_BOTH_POLICIES(policy)
    for (int code = VK_ERROR_OUT_OF_DEVICE_MEMORY; code <= VK_ERROR_OUT_OF_HOST_MEMORY; code++) {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        app_frames(&a, 5, 1);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && app_draw(&a, &frame) == VKS_OK, "%s",
              vks_last_error()->text);
        presents_fail("QueuePresentKHR", code, 1, 2);
        for (uint32_t i = 0; i < 2; i++) {
            CHECK(app_present(&a, &frame) == VKS_VULKAN_ERROR && vks_last_error()->code == code, "%s",
                  vks_last_error()->text);
            CHECK(app_draw(&a, &frame) == VKS_OK, "it is drawn on: %s", vks_last_error()->text);
        }
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 5, 1);
        app_close(&a);
    }
}

static void a_swapchain_that_cannot_be_made_retires_the_old_one(void)
{
    ON_BOTH_POLICIES(policy)
    for (uint32_t presented = 0; presented < 2; presented++) {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        if (presented)
            app_frames(&a, 5, 1);
        else
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && app_draw(&a, &frame) == VKS_OK, "%s",
                  vks_last_error()->text);
        app_resize(&a, 80, 80);
        presents_fail("CreateSwapchainKHR", VK_ERROR_OUT_OF_DEVICE_MEMORY, 1, 3);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_VULKAN_ERROR, "%s", vks_last_error()->text);
        app_frames(&a, 20, 1);
        CHECK(app_statistics(&a).swapchains == 1, "%d", (int)app_statistics(&a).swapchains);
        app_close(&a);
    }
}

/* ---- held work, and long presents ---- */

static vks_fence *new_fence(app *a)
{
    vks_fence *fence = NULL;
    CHECK(vks_fence_create(a->device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    return fence;
}

static void close_fence(vks_fence *fence)
{
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

static void a_present_waits_for_held_work_of_its_frame(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy});
        vks_fence *fence = new_fence(&a);
        vks_submission held = {0};
        app_frames(&a, 3, 1);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_submit(&a, &frame, fence, 5, &held) == VKS_OK && held.op, "it is held");
        vks_clear_error();
        CHECK(vks_swapchain_present(a.swapchain, &frame, vks_now() + 20 * MS) == VKS_TIMEOUT && TEXT_HAS("is held"),
              "%s", vks_last_error()->text);
        CHECK(vks_fence_signal(fence, 5) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_submission_wait(a.device, &held, vks_now() + HANG) == VKS_OK, "it ran");
        vks_work_unref(held.op);
        app_frames(&a, 3, 1);
        close_fence(fence);
        app_close(&a);
    }
}

typedef struct presenter {
    app *app;
    vks_frame frame;
    vks_status status;
    _Atomic bool done;
} presenter;

static void *present_it(void *argument)
{
    presenter *p = argument;
    p->status = app_present(p->app, &p->frame);
    p->done = true;
    return NULL;
}

static void during_a_present_other_threads_continue_and_their_work_is_held(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_THREAD, .policy = policy});
        vks_fence *fence = new_fence(&a);
        vks_surface *surface = NULL;
        CHECK(vks_surface_create(a.device, &(vks_surface_info){.width = 8, .height = 8}, &surface) == VKS_OK &&
                  vks_surface_acquire(surface, 0, vks_now() + 100 * MS) == VKS_OK,
              "%s", vks_last_error()->text);
        app_frames(&a, 3, 1);
        presenter p = {.app = &a};
        CHECK(app_acquire(&a, HANG / MS, &p.frame) == VKS_OK && app_draw(&a, &p.frame) == VKS_OK, "%s",
              vks_last_error()->text);
        presents_set_duration(UINT32_MAX); /* until the next call */
        uint32_t before = presents_calls("QueuePresentKHR");
        pthread_t thread;
        pthread_create(&thread, NULL, present_it, &p);
        while (presents_calls("QueuePresentKHR") == before)
            usleep(200);
        uint64_t start = vks_now();
        vks_submission first = {0}, second = {0};
        vks_signal signals[] = {{fence, 1}, {fence, 2}};
        CHECK(vks_submit(a.device, &(vks_submit_info){.signals = signals, .n_signals = 1}, start + HANG, &first) ==
                  VKS_OK,
              "%s", vks_last_error()->text);
        CHECK(vks_submit(a.device, &(vks_submit_info){.signals = signals + 1, .n_signals = 1}, start + HANG, &second) ==
                  VKS_OK,
              "%s", vks_last_error()->text);
        CHECK(vks_surface_release(surface, 1) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_fence_signal(fence, 3) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).frames == 3, "and the statistics are available");
        CHECK(first.op && second.op && vks_submission_is_held(a.device, &second), "the queue is the present's");
        CHECK(!p.done, "each of these returned while the present was in the driver");
        presents_set_duration(0);
        CHECK(vks_fence_wait(fence, 3, start + HANG) == VKS_OK, "in order");
        pthread_join(thread, NULL);
        CHECK(p.status == VKS_OK, "%d", p.status);
        if (first.op)
            vks_work_unref(first.op);
        if (second.op)
            vks_work_unref(second.op);
        app_frames(&a, 3, 1);
        vks_surface_close(surface);
        vks_surface_unref(surface);
        close_fence(fence);
        app_close(&a);
    }
}

static void *present_many(void *argument)
{
    app *a = argument;
    for (uint32_t i = 0; i < 150; i++) {
        CHECK(app_frame(a, i % 3) == VKS_OK, "frame %u: %s", i, vks_last_error()->text);
        if (i % 50 == 49)
            app_resize(a, 64 + i, 64);
    }
    return NULL;
}

static void two_swapchains_present_from_two_threads(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a, b;
        choices c = {.pace = PRESENTS_THREAD, .policy = policy, .proof_ms = 200};
        app_open(&a, c);
        b = (app){.device = a.device, .surface = presents_surface()};
        CHECK(app_swapchain(&b, &c, &b.swapchain) == VKS_OK, "%s", vks_last_error()->text);
        presents_set_duration(1);
        pthread_t threads[2];
        pthread_create(&threads[0], NULL, present_many, &a);
        pthread_create(&threads[1], NULL, present_many, &b);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        app_close_swapchain(&b);
        app_forget_surfaces(&b);
        app_close(&a);
    }
}

/* ---- the end ---- */

static void closing_with_frames_out_leaves_nothing(void)
{
    for (presents_pace pace = PRESENTS_EAGER; pace <= PRESENTS_THREAD; pace++)
        ON_BOTH_POLICIES(policy)
    for (uint32_t drawn = 0; drawn < 4; drawn++) {
        app a;
        vks_frame first, second;
        app_open(&a, (choices){.pace = pace, .policy = policy});
        app_frames(&a, drawn == 3 ? 0 : 5, 1);
        CHECK(app_acquire(&a, HANG / MS, &first) == VKS_OK && app_acquire(&a, HANG / MS, &second) == VKS_OK, "%s",
              vks_last_error()->text);
        for (uint32_t n = 0; n < drawn; n++)
            CHECK(app_draw(&a, &first) == VKS_OK, "%s", vks_last_error()->text);
        vks_swapchain_close(a.swapchain);
        CHECK(app_present(&a, &first) == VKS_CLOSED && app_acquire(&a, 0, &second) == VKS_CLOSED, "it is closed");
        app_close(&a);
    }
}

static void closing_without_proof_ends_all_the_same(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy, .frames_in_flight = 8, .fence_ms = 60000});
        app_frames(&a, 3, 1);
        app_resize(&a, 80, 80);
        presents_stall(STALL_PRESENTS | STALL_FENCES);
        app_frames(&a, 2, 1);
        presents_allow_early_destroy(true); /* no proof can come */
        uint64_t start = vks_now();
        app_close_swapchain(&a);
        CHECK(vks_now() - start < HANG, "%d ms", (int)((vks_now() - start) / MS));
        presents_stall(0);
        app_close(&a);
    }
}

static void a_fence_past_its_deadline_is_quarantined_and_found_again(void)
{
    app a;
    app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = VKS_PRESENTS_BY_FENCES, .fence_ms = 20, .proof_ms = 200});
    app_frames(&a, 3, 1);
    presents_stall(STALL_FENCES);
    app_frames(&a, 5, 1);
    usleep(30000);
    app_frames(&a, 1, 1);
    CHECK(app_statistics(&a).quarantined == 5, "%d", (int)app_statistics(&a).quarantined);
    presents_stall(0);
    app_frames(&a, 3, 1);
    CHECK(app_statistics(&a).quarantined == 0, "%d", (int)app_statistics(&a).quarantined);
    app_close(&a);
}

/* rules: A28 */
static void a_lost_device_is_waited_for_before_what_it_uses_is_destroyed(void)
{
    ON_BOTH_POLICIES(policy)
    {
        for (uint32_t i = 0; i < 24; i++) {
            app a;
            presents_pace pace = (presents_pace[]){PRESENTS_LAZY, PRESENTS_RANDOM, PRESENTS_THREAD}[i % 3];
            app_open(&a, (choices){.pace = pace, .seed = i, .policy = policy, .proof_ms = 300});
            app_frames(&a, i / 3, 1);
            if (i % 2)
                app_resize(&a, 65 + i, 64);
            vks_device_mark_lost(a.device); /* reported by the caller; the driver executes its queue */
            presents_allow_early_destroy(policy == VKS_PRESENTS_BY_ACQUIRES); /* its presents get no proof */
            if (i % 4 < 2)
                app_close_swapchain(&a);
            app_close(&a);
        }
    }
}

static void *present_one(void *argument)
{
    app *a = argument;
    vks_frame frame;
    CHECK(app_acquire(a, 1000, &frame) == VKS_OK && app_draw(a, &frame) == VKS_OK && app_present(a, &frame) == VKS_OK,
          "%s", vks_last_error()->text);
    return NULL;
}

/* Starts a present on a thread, and waits until that is inside the driver. */
static pthread_t start_present(app *a)
{
    pthread_t thread;
    uint32_t before = presents_calls("QueuePresentKHR");
    pthread_create(&thread, NULL, present_one, a);
    for (uint64_t limit = vks_now() + 5000 * MS; presents_calls("QueuePresentKHR") == before && vks_now() < limit;)
        usleep(200);
    return thread;
}

static vks_status try_queue(app *a, uint64_t deadline)
{
    pthread_mutex_lock(&a->device->lock);
    vks_status status = vks_device_begin_present(a->device, deadline);
    if (!status)
        vks_device_end_present(a->device);
    pthread_mutex_unlock(&a->device->lock);
    return status;
}

/* rules: A27 */
static void a_call_behind_a_present_waits_until_its_deadline_and_reports_the_reason(void)
{
    app a;
    vks_frame late, frame;
    app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = VKS_PRESENTS_BY_FENCES, .image_count = 4});
    app_frames(&a, 2, 1);
    CHECK(app_acquire(&a, 1000, &late) == VKS_OK, "%s", vks_last_error()->text);
    presents_set_duration(300);
    pthread_t thread = start_present(&a);
    CHECK(app_acquire(&a, 10, &frame) == VKS_TIMEOUT && TEXT_HAS("another thread has used the swapchain"), "%s",
          vks_last_error()->text);
    vks_set_interrupt_interval(5 * MS);
    CHECK(vks_swapchain_acquire(a.swapchain, VKS_FOREVER, &frame) == VKS_INTERRUPTED, "looks for signals");
    CHECK(vks_swapchain_try_close(a.swapchain) == VKS_INTERRUPTED, "this too");
    vks_set_interrupt_interval(0);
    CHECK(try_queue(&a, 0) == VKS_TIMEOUT && TEXT_HAS("a present has the queue"), "%s", vks_last_error()->text);
    CHECK(try_queue(&a, vks_now() + 10 * MS) == VKS_TIMEOUT, "%s", vks_last_error()->text);
    CHECK(vks_swapchain_drop(a.swapchain, &late) == VKS_CLOSED, "it is being closed");
    pthread_join(thread, NULL);
    presents_set_duration(0);
    app_close(&a);
}

/* rules: A27, A20 */
static void a_frame_dropped_behind_a_present_is_returned(void)
{
    app a;
    vks_frame late, frame;
    app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = VKS_PRESENTS_BY_FENCES, .image_count = 4});
    for (uint32_t i = 0; i < 8; i++) {
        CHECK(app_acquire(&a, 1000, &late) == VKS_OK, "%s", vks_last_error()->text);
        presents_set_duration(30);
        pthread_t thread = start_present(&a);
        CHECK(vks_swapchain_drop(a.swapchain, &late) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_swapchain_drop(a.swapchain, &late) == VKS_BAD_CALL, "once");
        if (i % 2)
            CHECK(app_present(&a, &late) == VKS_BAD_CALL, "the frame was dropped");
        pthread_join(thread, NULL);
        presents_set_duration(0);
        if (i == 5)
            app_resize(&a, 80, 64);
        CHECK(app_acquire(&a, 1000, &frame) == VKS_OK && (i == 5 || frame.index == late.index), "%s",
              vks_last_error()->text);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).acquired == 0, "%d", (int)app_statistics(&a).acquired);
    }
    app_close(&a);
}

int main(void)
{
    RUN(out_of_date_at_acquire_is_tried_twice);
    RUN(suboptimal_is_good_for_a_frame_and_recreates_after_a_present);
    RUN(a_lost_surface_is_replaced_by_another);
    RUN(each_call_reports_a_lost_device);
    RUN(out_of_memory_at_present_leaves_the_frame);
    RUN(a_swapchain_that_cannot_be_made_retires_the_old_one);
    RUN(a_present_waits_for_held_work_of_its_frame);
    RUN(during_a_present_other_threads_continue_and_their_work_is_held);
    RUN(two_swapchains_present_from_two_threads);
    RUN(closing_with_frames_out_leaves_nothing);
    RUN(closing_without_proof_ends_all_the_same);
    RUN(a_fence_past_its_deadline_is_quarantined_and_found_again);
    RUN(a_lost_device_is_waited_for_before_what_it_uses_is_destroyed);
    RUN(a_call_behind_a_present_waits_until_its_deadline_and_reports_the_reason);
    RUN(a_frame_dropped_behind_a_present_is_returned);
    return check_result();
}
