/* The swapchain while allocations fail, over a driver and a presentation engine that are stubs. */
#define _GNU_SOURCE
#include "failing_memory.h"

#include "present_program.h"

static bool is_expected(vks_status status)
{
    return status == VKS_OK || status == VKS_TIMEOUT || status == VKS_NO_MEMORY;
}

/* rules: A15 */
static void a_present_without_memory_leaves_the_frame(void)
{
    ON_BOTH_POLICIES(policy)
    {
        memory.has_failed = true;
        for (uint32_t n = 1; memory.has_failed; n++) {
            app a;
            vks_frame frame;
            app_open(&a, (choices){.pace = PRESENTS_LAZY, .policy = policy});
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && app_draw(&a, &frame) == VKS_OK, "%s",
                  vks_last_error()->text);
            memory.has_failed = false;
            memory_fail(n);
            vks_status status = app_present(&a, &frame);
            memory_fail(0);
            CHECK(is_expected(status), "allocation %u: %d, %s", n, status, vks_last_error()->text);
            if (status)
                CHECK(app_present(&a, &frame) == VKS_OK, "allocation %u: %s", n, vks_last_error()->text);
            CHECK(app_statistics(&a).frames == 1, "%d", (int)app_statistics(&a).frames);
            app_frames(&a, 3, 1);
            app_close(&a);
        }
    }
}

/* A frame whose acquire and present have memory for `left` allocations, and no more for the next
 * one. */
static vks_status frame_with_little_memory(app *a, bool is_drawn, uint32_t *left)
{
    vks_frame frame;
    memory_fail(*left);
    vks_status status = app_acquire(a, HANG / MS, &frame);
    *left = memory.left;
    memory_fail(0);
    if (!status && is_drawn)
        status = app_draw(a, &frame);
    memory_fail(*left);
    if (!status)
        status = app_present(a, &frame);
    *left = memory.left;
    memory_fail(0);
    return status;
}

/* rules: A12 */
static void each_allocation_may_fail_once(void)
{
    ON_BOTH_POLICIES(policy)
    {
        memory.has_failed = true;
        for (uint32_t n = 1; memory.has_failed; n++) {
            app a;
            app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy, .seed = n, .proof_ms = 2});
            memory.has_failed = false;
            uint32_t left = n;
            for (uint32_t i = 0; i < 20; i++) {
                if (i % 7 == 6)
                    app_resize(&a, 64 + i, 64);
                vks_status status = frame_with_little_memory(&a, i % 3, &left);
                CHECK(is_expected(status), "allocation %u: %d, %s", n, status, vks_last_error()->text);
            }
            app_close(&a);
            CHECK(presents_violations() == a.violations, "allocation %u, policy %d", n, policy);
        }
    }
}

/* The device's list of semaphores to destroy has room from then on; without memory for it they are
 * leaked. */
static void destroy_a_semaphore(app *a)
{
    vks_fence *fence = NULL;
    CHECK(vks_fence_create(a->device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

/* rules: A12 */
static void each_allocation_may_fail_once_while_swapchains_are_replaced(void)
{
    ON_BOTH_POLICIES(policy)
    {
        memory.has_failed = true;
        for (uint32_t n = 1; memory.has_failed; n++) {
            app a;
            app_open(&a, (choices){.pace = PRESENTS_EAGER,
                                   .policy = policy,
                                   .frames_in_flight = 16,
                                   .retired_limit = 20, /* more than the tracker has room for at first */
                                   .fence_ms = 60000});
            presents_set_size(a.surface, UINT32_MAX, UINT32_MAX);
            app_frames(&a, 1, 1);
            destroy_a_semaphore(&a);
            presents_stall(STALL_PRESENTS | STALL_FENCES);
            memory.has_failed = false;
            uint32_t left = n;
            for (uint32_t i = 0; i < 18; i++) {
                vks_status status = frame_with_little_memory(&a, true, &left);
                CHECK(is_expected(status), "allocation %u: %d, %s", n, status, vks_last_error()->text);
                CHECK(vks_swapchain_resize(a.swapchain, 100 + i, 64) == VKS_OK, "%s", vks_last_error()->text);
            }
            presents_stall(0);
            app_frames(&a, 3, 1);
            app_close(&a);
            CHECK(presents_violations() == a.violations, "allocation %u, policy %d", n, policy);
        }
    }
}

static vks_swapchain *new_offscreen(vks_device **device)
{
    vks_swapchain *swapchain = NULL;
    uint64_t generation;
    CHECK(vks_device_create(&(vks_device_info){.name = "offscreen"}, device) == VKS_OK, "%s", vks_last_error()->text);
    vks_swapchain_info info = {
        .device = *device, .width = 64, .height = 64, .image_count = 3, .frames_in_flight = 2, .retired_limit = 1};
    CHECK(vks_swapchain_create(&info, &swapchain) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_swapchain_new_offscreen(swapchain, 64, 64, 3, &generation) == VKS_OK, "%s", vks_last_error()->text);
    return swapchain;
}

/* rules: A9, A14 */
static void offscreen_images_without_memory_are_made_before_the_next_frame(void)
{
    vks_device *device;
    vks_swapchain *swapchain = new_offscreen(&device);
    uint64_t generation;
    vks_frame frame;
    CHECK(vks_swapchain_acquire(swapchain, 0, &frame) == VKS_OK, "%s", vks_last_error()->text);
    memory_fail(1);
    CHECK(vks_swapchain_new_offscreen(swapchain, 64, 64, 3, &generation) == VKS_NO_MEMORY, "no images");
    memory_fail(0);
    CHECK(vks_swapchain_present(swapchain, &frame, 0) == VKS_BAD_CALL, "its image is gone");
    CHECK(vks_swapchain_acquire_shown(swapchain, 0, &frame) == VKS_BAD_CALL, "none is shown");
    CHECK(vks_swapchain_acquire(swapchain, 0, &frame) == VKS_OUTDATED && frame.width == 64, "it asks for images");
    CHECK(vks_swapchain_try_acquire(swapchain, &frame) == VKS_TIMEOUT, "call vks_swapchain_acquire()");
    CHECK(vks_swapchain_resize(swapchain, 0, 64) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_swapchain_acquire(swapchain, 0, &frame) == VKS_HIDDEN, "nothing to present to");
    CHECK(vks_swapchain_resize(swapchain, 64, 64) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_swapchain_new_offscreen(swapchain, 64, 64, 3, &generation) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_swapchain_acquire(swapchain, 0, &frame) == VKS_OK && frame.generation == generation, "%s",
          vks_last_error()->text);
    CHECK(vks_swapchain_present(swapchain, &frame, 0) == VKS_OK, "%s", vks_last_error()->text);
    vks_swapchain_unref(swapchain);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

int main(void)
{
    RUN(a_present_without_memory_leaves_the_frame);
    RUN(each_allocation_may_fail_once);
    RUN(each_allocation_may_fail_once_while_swapchains_are_replaced);
    RUN(offscreen_images_without_memory_are_made_before_the_next_frame);
    return check_result();
}
