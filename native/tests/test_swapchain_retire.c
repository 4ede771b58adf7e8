/* The swapchain over a driver and a presentation engine that are stubs: swapchains that are
 * replaced while the engine, or another thread, still uses them. */
#include "present_program.h"

/* Retires one swapchain, which is the limit, whose presents the engine does not take; another is
 * current. */
static void reach_the_limit(app *a, choices c, vks_frame *frame)
{
    c.retired_limit = 1;
    c.pace = PRESENTS_EAGER;
    app_open(a, c);
    presents_set_size(a->surface, UINT32_MAX, UINT32_MAX);
    app_frames(a, 1, 1);
    presents_stall(STALL_PRESENTS | STALL_FENCES);
    app_frames(a, 1, 1);
    CHECK(vks_swapchain_resize(a->swapchain, 80, 64) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(app_acquire(a, HANG / MS, frame) == VKS_OK && frame->width == 80, "%s", vks_last_error()->text);
    CHECK(app_statistics(a).retired == 1, "%d", (int)app_statistics(a).retired);
}

/* A batch of other work runs, and with it the driver's semaphores that were destroyed before are
 * really gone. */
static void other_work(app *a)
{
    vks_fence *fence = NULL;
    CHECK(vks_fence_create(a->device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    vks_submission out = {0};
    vks_signal signal = {fence, 1};
    CHECK(vks_submit(a->device, &(vks_submit_info){.signals = &signal, .n_signals = 1}, vks_now() + HANG, &out) ==
              VKS_OK,
          "%s", vks_last_error()->text);
    if (out.op)
        vks_work_unref(out.op);
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

/* rules: A6 */
static void the_semaphores_of_a_swapchain_that_is_given_up_are_destroyed_after_it(void)
{
    for (uint32_t is_pinned = 0; is_pinned < 2; is_pinned++) {
        app a;
        vks_frame frame;
        reach_the_limit(&a, (choices){.policy = VKS_PRESENTS_BY_ACQUIRES}, &frame);
        CHECK(app_draw(&a, &frame) == VKS_OK && app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_resize(&a, 100, 64); /* the current one is out of date: no proof can come */
        if (is_pinned)
            CHECK(vks_swapchain_pin(a.swapchain, frame.generation) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 100, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).given_up == 1, "%d", (int)app_statistics(&a).given_up);
        CHECK(presents_count().swapchains == 2 + is_pinned, "%u", presents_count().swapchains);
        for (uint32_t i = 0; i < 3; i++)
            other_work(&a);
        if (is_pinned)
            vks_swapchain_unpin(a.swapchain);
        presents_stall(0);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 10, 1);
        CHECK(presents_count().swapchains == 1, "%u", presents_count().swapchains);
        CHECK(app_statistics(&a).semaphores <= 11, "%d semaphores", (int)app_statistics(&a).semaphores);
        app_close(&a);
    }
}

/* rules: A6 */
static void an_image_acquired_for_proof_is_drawn_into_only_after_the_engine_returns_it(void)
{
    for (uint32_t fails = 0; fails < 2; fails++) {
        app a;
        vks_frame frame;
        reach_the_limit(&a, (choices){.policy = VKS_PRESENTS_BY_ACQUIRES}, &frame);
        CHECK(app_draw(&a, &frame) == VKS_OK && app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        presents_stall(STALL_PRESENTS | STALL_ACQUIRES);
        CHECK(vks_swapchain_resize(a.swapchain, 100, 64) == VKS_OK, "%s", vks_last_error()->text);
        if (fails) {
            presents_fail("WaitForFences", VK_ERROR_OUT_OF_HOST_MEMORY, 1, 1);
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_VULKAN_ERROR, "%s", vks_last_error()->text);
            CHECK(vks_swapchain_resize(a.swapchain, 80, 64) == VKS_OK, "%s", vks_last_error()->text);
        }
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 80, "it goes on at the old size: %u, %s",
              frame.width, vks_last_error()->text);
        CHECK(app_draw(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        presents_stall(0);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_swapchain_resize(a.swapchain, 100, 64) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 10, 1);
        CHECK(app_statistics(&a).width == 100, "%u", app_statistics(&a).width);
        CHECK(app_statistics(&a).fences == app_statistics(&a).pooled_fences, "the fence is used again");
        app_close(&a);
    }
}

/* rules: A6, A21 */
static void a_swapchain_that_a_thread_keeps_pinned_is_not_replaced(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frame;
        reach_the_limit(&a, (choices){.policy = policy}, &frame);
        CHECK(vks_swapchain_pin(a.swapchain, frame.generation) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_swapchain_resize(a.swapchain, 100, 64) == VKS_OK, "%s", vks_last_error()->text);
        for (uint32_t i = 0; i < 2; i++) {
            vks_clear_error();
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_TIMEOUT && TEXT_HAS("records commands"), "%s",
                  vks_last_error()->text);
        }
        vks_swapchain_unpin(a.swapchain);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 100, "%s", vks_last_error()->text);
        presents_stall(0);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 10, 1);
        app_close(&a);
    }
}

/* rules: A20 */
static void frames_of_a_resize_that_fails_halfway_are_counted_once(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frames[2];
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy, .image_count = 4});
        for (uint32_t i = 0; i < 2; i++)
            CHECK(app_acquire(&a, HANG / MS, &frames[i]) == VKS_OK, "%s", vks_last_error()->text);
        app_resize(&a, 80, 64);
        presents_fail("QueueSubmit2", VK_ERROR_OUT_OF_HOST_MEMORY, 2, 1);
        CHECK(app_acquire(&a, HANG / MS, &frames[0]) == VKS_VULKAN_ERROR, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).acquired == 1, "%u", app_statistics(&a).acquired);
        CHECK(app_acquire(&a, HANG / MS, &frames[0]) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).acquired == 1, "%u", app_statistics(&a).acquired);
        CHECK(app_present(&a, &frames[1]) == VKS_BAD_CALL, "it was given up");
        CHECK(app_present(&a, &frames[0]) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(app_statistics(&a).acquired == 0, "%u", app_statistics(&a).acquired);
        app_close(&a);
    }
}

int main(void)
{
    RUN(the_semaphores_of_a_swapchain_that_is_given_up_are_destroyed_after_it);
    RUN(an_image_acquired_for_proof_is_drawn_into_only_after_the_engine_returns_it);
    RUN(a_swapchain_that_a_thread_keeps_pinned_is_not_replaced);
    RUN(frames_of_a_resize_that_fails_halfway_are_counted_once);
    return check_result();
}
