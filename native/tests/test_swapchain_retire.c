/* The swapchain over a driver and a presentation engine that are stubs: swapchains that are replaced while the engine,
 * or another thread, still uses them. */
#include "presenting.h"

/* Retires one swapchain, which is the limit, whose presents the engine does not take; another is current. */
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
    RUN(an_image_acquired_for_proof_is_drawn_into_only_after_the_engine_returns_it);
    RUN(frames_of_a_resize_that_fails_halfway_are_counted_once);
    return check_result();
}
