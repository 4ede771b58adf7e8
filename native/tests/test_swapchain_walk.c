/* The swapchain over a driver and a presentation engine that are stubs: frames, resizes and errors, on both policies.
 * test_swapchain_walk.c fails each call in turn, and does everything in any order. */
#include "presenting.h"

static const vks_present_policy policies[] = {VKS_PRESENTS_BY_ACQUIRES, VKS_PRESENTS_BY_FENCES};
#define ON_BOTH_POLICIES(p) for (uint32_t p##_ = 0; p##_ < 2; p##_++) for (vks_present_policy p = policies[p##_], *p##1 = &p; p##1; p##1 = NULL)
#define TEXT_HAS(text) (strstr(vks_last_error()->text, text) != NULL)

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

int main(void)
{
    RUN(frames_are_drawn_and_presented);
    return check_result();
}
