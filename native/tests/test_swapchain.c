/* The swapchain over a driver and a presentation engine that are stubs: frames and resizes, on both
 * policies. test_swapchain_errors.c has what goes wrong; test_swapchain_walk.c fails each call in
 * turn, and does everything in any order. */
#include "present_program.h"

/* ---- frames ---- */

static void frames_are_drawn_and_presented(void)
{
    for (presents_pace pace = PRESENTS_EAGER; pace <= PRESENTS_THREAD; pace++)
        ON_BOTH_POLICIES(policy)
        {
            app a;
            app_open(&a, (choices){.pace = pace, .policy = policy});
            app_frames(&a, 50, 1);
            vks_swapchain_statistics now = app_statistics(&a);
            CHECK(now.frames == 50 && now.swapchains == 1 && now.recreated == 0, "%d", (int)now.frames);
            CHECK(now.semaphores <= 16, "%d semaphores", (int)now.semaphores);
            app_close(&a);
        }
}

static void a_frame_may_be_many_submissions(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        for (uint32_t n = 1; n <= 20; n++)
            app_frames(&a, 4, n);
        CHECK(presents_count().signalled_again == 4 * (12 * 13 / 2), "past 8 the last semaphore is signalled anew: %d",
              (int)presents_count().signalled_again);
        app_close(&a);
    }
}

static void frames_that_are_never_drawn_are_presented(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        for (uint32_t i = 0; i < 40; i++)
            app_frames(&a, 1, i % 2);
        CHECK(presents_count().batches + presents_count().taken > 0, "it goes on");
        app_close(&a);
    }
}

static void a_dropped_frame_is_acquired_again(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame first, again;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        for (uint32_t i = 0; i < 40; i++) {
            CHECK(app_acquire(&a, HANG / MS, &first) == VKS_OK, "%s", vks_last_error()->text);
            if (i % 2)
                CHECK(app_draw(&a, &first) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(vks_swapchain_drop(a.swapchain, &first) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(vks_swapchain_drop(a.swapchain, &first) == VKS_BAD_CALL, "once");
            CHECK(app_present(&a, &first) == VKS_BAD_CALL && TEXT_HAS("acquire another"), "the frame was presented");
            if (i % 2)
                CHECK(app_draw(&a, &first) == VKS_NOT_OWNER, "nor is its surface");
            CHECK(app_acquire(&a, HANG / MS, &again) == VKS_OK && again.index == first.index, "the same image");
            if (i % 4 < 2)
                CHECK(app_draw(&a, &again) == VKS_OK, "%s", vks_last_error()->text);
            if (i % 8 == 3)
                app_resize(&a, 64 + i, 64); /* what was dropped goes with its swapchain */
            if (i % 8 != 3 || i % 16 == 3)
                CHECK(app_present(&a, &again) == VKS_OK, "%s", vks_last_error()->text);
            else
                CHECK(vks_swapchain_drop(a.swapchain, &again) == VKS_OK, "%s", vks_last_error()->text);
        }
        app_close(&a);
    }
}

static void an_engine_may_draw_a_frame(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        for (uint32_t i = 0; i < 60; i++) {
            vks_frame frame;
            vks_frame_image image;
            uint64_t acquired, rendered, same[2];
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(vks_swapchain_image(a.swapchain, frame.index, frame.generation, &image) == VKS_OK && image.view,
                  "view");
            if (i % 10 == 3) {
                CHECK(app_draw(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
                CHECK(vks_swapchain_take_semaphores(a.swapchain, &frame, same, same + 1) == VKS_BAD_CALL, "too late");
            } else {
                CHECK(vks_swapchain_take_semaphores(a.swapchain, &frame, &acquired, &rendered) == VKS_OK, "%s",
                      vks_last_error()->text);
                CHECK(vks_swapchain_take_semaphores(a.swapchain, &frame, same, same + 1) == VKS_OK &&
                          same[0] == acquired && same[1] == rendered,
                      "the same again");
                presents_submit(acquired, rendered, image.image);
            }
            CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            if (i % 20 == 19)
                app_resize(&a, 64 + i, 64);
        }
        app_close(&a);
    }
}

/* rules: A26, A19 */
static void an_engine_that_never_submits_leaves_nothing_behind(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_RANDOM, .policy = policy});
        for (uint32_t i = 0; i < 60; i++) {
            vks_frame frame;
            uint64_t acquired, rendered, first = 0;
            for (uint32_t turn = 0; turn < i % 3; turn++) {
                CHECK(app_acquire(&a, 1000, &frame) == VKS_OK, "%s", vks_last_error()->text);
                CHECK(vks_swapchain_take_semaphores(a.swapchain, &frame, &acquired, &rendered) == VKS_OK, "%s",
                      vks_last_error()->text);
                CHECK(acquired != first && rendered != first, "the ones of the frame that came back");
                first = acquired;
                CHECK(vks_swapchain_drop(a.swapchain, &frame) == VKS_OK, "%s", vks_last_error()->text);
            }
            CHECK(app_acquire(&a, 1000, &frame) == VKS_OK, "%s", vks_last_error()->text);
            if (i % 2)
                CHECK(vks_swapchain_take_semaphores(a.swapchain, &frame, &acquired, &rendered) == VKS_OK, "%s",
                      vks_last_error()->text);
            for (uint32_t turn = 0; turn < (i % 5 == 4) * (VKS_FRAME_SEMAPHORES + 2); turn++)
                CHECK(app_draw(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            if (i % 20 == 19)
                app_resize(&a, 64 + i, 64);
        }
        vks_swapchain_statistics now = app_statistics(&a);
        CHECK(now.semaphores <= 24, "%d semaphores", (int)now.semaphores);
        app_close(&a);
    }
}

/* ---- resizes ---- */

static void resizing(uint32_t frames_between, vks_present_policy policy, presents_pace pace)
{
    app a;
    app_open(&a, (choices){.pace = pace, .policy = policy, .proof_ms = HANG / MS});
    app_frames(&a, 1, 0);
    for (uint32_t i = 0; i < 60; i++) {
        app_resize(&a, 65 + i, 64);
        vks_frame frame;
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 65 + i, "%s", vks_last_error()->text);
        if (frames_between)
            CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        if (frames_between > 1)
            app_frames(&a, frames_between - 1, 1);
    }
    vks_swapchain_statistics now = app_statistics(&a);
    CHECK(now.recreated == 60, "%d", (int)now.recreated);
    CHECK(now.most_alive <= 5 && presents_count().most_swapchains <= 6, "%d, the driver saw %d", (int)now.most_alive,
          (int)presents_count().most_swapchains);
    CHECK(presents_count().given_up <= now.given_up, "%u", presents_count().given_up);
    CHECK(now.semaphores <= 60, "%d semaphores", (int)now.semaphores);
    app_close(&a);
}

static void resizes_keep_few_swapchains_whatever_is_presented_between(void)
{
    for (presents_pace pace = PRESENTS_EAGER; pace <= PRESENTS_THREAD; pace++)
        ON_BOTH_POLICIES(policy)
        {
            resizing(0, policy, pace);
            resizing(1, policy, pace);
            resizing(7, policy, pace);
        }
}

/* Retires swapchains until the bound is reached: the engine takes nothing, and none is out of
 * date. */
static void fill(app *a, uint32_t limit)
{
    presents_set_size(a->surface, UINT32_MAX, UINT32_MAX);
    presents_stall(STALL_PRESENTS | STALL_FENCES);
    for (uint32_t i = 0; i <= limit; i++) {
        CHECK(app_frame(a, 1) == VKS_OK, "%u: %s", i, vks_last_error()->text);
        CHECK(vks_swapchain_resize(a->swapchain, 100 + i, 64) == VKS_OK, "%s", vks_last_error()->text);
    }
}

static void past_the_limit_a_resize_waits_for_proof_and_reports_a_timeout(void)
{
    for (uint32_t limit = 1; limit <= 4; limit += 3)
        ON_BOTH_POLICIES(policy)
        {
            app a;
            app_open(&a, (choices){.pace = PRESENTS_EAGER,
                                   .policy = policy,
                                   .retired_limit = limit,
                                   .frames_in_flight = 16,
                                   .proof_ms = 100,
                                   .fence_ms = 60000});
            fill(&a, limit);
            vks_frame frame;
            uint64_t start = vks_now();
            vks_clear_error();
            CHECK(app_acquire(&a, 30, &frame) == VKS_TIMEOUT && TEXT_HAS("replaced swapchains may still be shown"),
                  "%s", vks_last_error()->text);
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 99 + limit,
                  "then it goes on with what there is: %u, %s", frame.width, vks_last_error()->text);
            CHECK(vks_now() - start >= 95 * MS && vks_now() - start < HANG, "%d ms", (int)((vks_now() - start) / MS));
            CHECK(app_statistics(&a).retired == limit && app_statistics(&a).resize_waits == 1, "%d retired, %d waits",
                  (int)app_statistics(&a).retired, (int)app_statistics(&a).resize_waits);
            CHECK(presents_count().swapchains == limit + 1, "%d", (int)presents_count().swapchains);
            CHECK(app_draw(&a, &frame) == VKS_OK && app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            presents_stall(0);
            for (uint32_t i = 0; i < 10 && frame.width != 100 + limit; i++) { /* whose presents bring the proof */
                CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK, "%s", vks_last_error()->text);
                if (frame.width != 100 + limit)
                    CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            }
            CHECK(frame.width == 100 + limit, "%u", frame.width);
            CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
            app_frames(&a, 10, 1);
            CHECK(app_statistics(&a).swapchains == 1, "%d", (int)app_statistics(&a).swapchains);
            app_close(&a);
        }
}

static void a_hidden_window_presents_nothing_and_comes_back(void)
{
    ON_BOTH_POLICIES(policy)
    {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .policy = policy});
        presents_set_size(a.surface, 0, 0);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_HIDDEN, "at first");
        app_resize(&a, 64, 64);
        app_frames(&a, 5, 1);
        app_resize(&a, 0, 0);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_HIDDEN, "%s", vks_last_error()->text);
        app_resize(&a, 32, 16);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 32 && frame.height == 16, "back");
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_close(&a);
    }
}

static void the_extent_and_the_image_count_are_clamped(void)
{
    static const uint32_t counts[][4] = {{1, 2, 8, 2}, {3, 2, 8, 3},   {16, 2, 8, 8},
                                         {1, 4, 4, 4}, {16, 1, 0, 16}, {1, 1, 1, 1}};
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        app a;
        vks_frame frame;
        app_open(&a, (choices){.pace = PRESENTS_EAGER, .width = 9000, .height = 7, .image_count = counts[i][0]});
        presents_set_size(a.surface, UINT32_MAX, UINT32_MAX);
        presents_set_limits(a.surface, counts[i][1], counts[i][2], 512);
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_OK && frame.width == 512 && frame.height == 7, "%u x %u",
              frame.width, frame.height);
        CHECK(presents_count().images == counts[i][3], "%u", presents_count().images);
        CHECK(app_present(&a, &frame) == VKS_OK, "%s", vks_last_error()->text);
        app_frames(&a, 10, 1);
        CHECK(vks_swapchain_resize(a.swapchain, 0, 7) == VKS_OK && app_acquire(&a, HANG / MS, &frame) == VKS_HIDDEN,
              "0");
        app_close(&a);
    }
}

static void more_images_than_there_is_room_for_are_refused(void)
{
    app a;
    vks_frame frame;
    app_open(&a, (choices){.pace = PRESENTS_EAGER});
    presents_set_images(a.surface, VKS_SWAPCHAIN_IMAGES + 1);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(app_acquire(&a, HANG / MS, &frame) == VKS_UNSUPPORTED && TEXT_HAS("more than 16"), "%s",
              vks_last_error()->text);
    presents_set_images(a.surface, VKS_SWAPCHAIN_IMAGES);
    app_frames(&a, 20, 1);
    app_close(&a);
}

int main(void)
{
    RUN(frames_are_drawn_and_presented);
    RUN(a_frame_may_be_many_submissions);
    RUN(frames_that_are_never_drawn_are_presented);
    RUN(a_dropped_frame_is_acquired_again);
    RUN(an_engine_may_draw_a_frame);
    RUN(an_engine_that_never_submits_leaves_nothing_behind);
    RUN(resizes_keep_few_swapchains_whatever_is_presented_between);
    RUN(past_the_limit_a_resize_waits_for_proof_and_reports_a_timeout);
    RUN(a_hidden_window_presents_nothing_and_comes_back);
    RUN(the_extent_and_the_image_count_are_clamped);
    RUN(more_images_than_there_is_room_for_are_refused);
    return check_result();
}
