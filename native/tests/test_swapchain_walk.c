/* The swapchain over the stub with a presentation engine: each driver call fails in turn; then
 * random calls in any order, by one thread and by several. VKSHARE_SEED and VKSHARE_STEPS
 * choose. */
#include "present_program.h"

/* ---- the n-th call of each function fails ---- */

static const int codes[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST};

static bool is_clean(vks_status status)
{
    return status == VKS_OK || status == VKS_VULKAN_ERROR || status == VKS_DEVICE_LOST || status == VKS_TIMEOUT;
}

/* Repeats a frame that failed: the next call succeeds, or reports the same. */
static bool frame_or_the_same(app *a, uint32_t submissions, const char *call, uint32_t n)
{
    vks_status status = app_frame(a, submissions), again;
    CHECK(is_clean(status), "%s %u: status %d, %s", call, n, status, vks_last_error()->text);
    for (int i = 0; status && i < 3; i++) {
        again = app_frame(a, submissions);
        CHECK(again == VKS_OK || again == VKS_DEVICE_LOST, "%s %u: status %d then %d, %s", call, n, status, again,
              vks_last_error()->text);
        if (!again)
            break;
    }
    return status == VKS_OK;
}

static void run_of_twenty_frames(vks_present_policy policy, const char *call, int code, uint32_t n, bool *failed)
{
    app a = {.violations = presents_violations()};
    choices c = {.pace = PRESENTS_RANDOM, .policy = policy, .seed = n, .image_count = 4, .proof_ms = 2};
    a.device = presents_open(c.pace, c.seed + 1);
    a.surface = presents_surface();
    presents_fail(call, code, n, 1);
    vks_status status = app_swapchain(&a, &c, &a.swapchain);
    if (status)
        CHECK(is_clean(status), "%s %u: status %d", call, n, status);
    if (status && app_swapchain(&a, &c, &a.swapchain) != VKS_OK)
        CHECK(vks_device_state(a.device) == VKS_DEVICE_LOST, "%s %u: %s", call, n, vks_last_error()->text);
    for (uint32_t i = 0; i < 20 && a.swapchain; i++) {
        if (i % 7 == 6 && !vks_device_state(a.device))
            app_resize(&a, 64 + i, 64);
        frame_or_the_same(&a, i % 3, call, n);
    }
    *failed = presents_failures() > 0;
    app_close(&a);
    CHECK(presents_violations() == a.violations, "%s %u: %d, policy %d", call, n, code, policy);
}

static void each_call_may_fail_once(void)
{
    uint32_t runs = 0;
    for (uint32_t f = 0; presents_function(f) && check_failures < 10; f++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t k = 0; k < 3; k++) {
                bool failed = true;
                uint32_t step = 1;
                for (uint32_t n = 1; failed && check_failures < 10; n += step, runs++) {
                    run_of_twenty_frames(policies[p], presents_function(f), codes[k], n, &failed);
                    step = n < 40 ? 1 : 7;
                }
            }
    printf("     %u runs\n", runs);
}

/* ---- anything in any order ---- */

static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

typedef struct walker {
    app app;
    vks_frame out[VKS_SWAPCHAIN_IMAGES];
    uint32_t n_out;
    bool by_engine[VKS_SWAPCHAIN_IMAGES], drawn[VKS_SWAPCHAIN_IMAGES];
} walker;

static void forget(walker *w, uint32_t i)
{
    w->n_out--;
    w->out[i] = w->out[w->n_out];
    w->by_engine[i] = w->by_engine[w->n_out];
    w->drawn[i] = w->drawn[w->n_out];
}

static bool is_expected(vks_status status)
{
    return status == VKS_OK || status == VKS_TIMEOUT || status == VKS_INTERRUPTED || status == VKS_HIDDEN ||
           status == VKS_BAD_CALL || status == VKS_VULKAN_ERROR || status == VKS_NOT_OWNER;
}

static void acquire_one(walker *w)
{
    vks_frame frame;
    vks_status status = below(4) ? vks_swapchain_acquire(w->app.swapchain, vks_now() + 2 * MS, &frame)
                                 : vks_swapchain_try_acquire(w->app.swapchain, &frame);
    CHECK(is_expected(status), "acquire: %d, %s", status, vks_last_error()->text);
    if (status)
        return;
    for (uint32_t i = w->n_out; i-- > 0;)
        if (w->out[i].generation != frame.generation)
            forget(w, i);
        else
            CHECK(w->out[i].index != frame.index, "image %u is out twice", frame.index);
    w->by_engine[w->n_out] = w->drawn[w->n_out] = false;
    w->out[w->n_out++] = frame;
}

static void draw_by_engine(walker *w, uint32_t i)
{
    uint64_t acquired, rendered;
    vks_frame_image image;
    vks_status status = vks_swapchain_take_semaphores(w->app.swapchain, &w->out[i], &acquired, &rendered);
    CHECK(is_expected(status), "take_semaphores: %d", status);
    if (status || vks_swapchain_image(w->app.swapchain, w->out[i].index, w->out[i].generation, &image))
        return;
    if (below(3)) /* else the engine has failed */
        presents_submit(acquired, rendered, image.image);
    w->by_engine[i] = true;
}

/* Reads the shown image by an ordinary submission. */
static void capture(walker *w)
{
    vks_frame frame;
    vks_status status = vks_swapchain_acquire_shown(w->app.swapchain, vks_now() + MS, &frame);
    CHECK(is_expected(status) || status == VKS_BAD_CALL, "acquire_shown: %d, %s", status, vks_last_error()->text);
    if (status)
        return;
    for (uint32_t i = 0; i < w->n_out; i++)
        CHECK(w->out[i].generation != frame.generation || w->out[i].index != frame.index, "image %u is out twice",
              frame.index);
    for (uint32_t n = below(10); n; n--)
        if (app_draw(&w->app, &frame))
            break;
    CHECK(vks_swapchain_drop(w->app.swapchain, &frame) == VKS_OK, "%s", vks_last_error()->text);
}

static void use_one(walker *w, uint32_t what)
{
    uint32_t i = below(w->n_out);
    vks_status status = VKS_OK;
    if (what < 45) {
        if (!w->by_engine[i] && !(status = app_draw(&w->app, &w->out[i])))
            w->drawn[i] = true;
    } else if (what < 50) {
        if (!w->by_engine[i] && !w->drawn[i])
            draw_by_engine(w, i);
    } else if (what < 60) {
        status = vks_swapchain_drop(w->app.swapchain, &w->out[i]);
        forget(w, i);
    } else {
        status = vks_swapchain_present(w->app.swapchain, &w->out[i], vks_now() + 100 * MS);
        if (status != VKS_VULKAN_ERROR)
            forget(w, i);
    }
    CHECK(is_expected(status), "%u: %d, %s", what, status, vks_last_error()->text);
}

static void disturb(walker *w)
{
    static const struct {
        const char *call;
        int code;
    } faults[] = {{"QueuePresentKHR", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"QueuePresentKHR", VK_ERROR_OUT_OF_DATE_KHR},
                  {"QueuePresentKHR", VK_SUBOPTIMAL_KHR},
                  {"AcquireNextImageKHR", VK_ERROR_OUT_OF_DATE_KHR},
                  {"AcquireNextImageKHR", VK_SUBOPTIMAL_KHR},
                  {"AcquireNextImageKHR", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"CreateSwapchainKHR", VK_ERROR_OUT_OF_DEVICE_MEMORY},
                  {"CreateSemaphore", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"CreateFence", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"QueueSubmit2", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"ResetFences", VK_ERROR_OUT_OF_DEVICE_MEMORY},
                  {"GetSwapchainImagesKHR", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"EndCommandBuffer", VK_ERROR_OUT_OF_HOST_MEMORY},
                  {"WaitForFences", VK_ERROR_OUT_OF_HOST_MEMORY}};
    uint32_t i = below(sizeof faults / sizeof *faults + 8), width = 32 + below(64);
    if (i < sizeof faults / sizeof *faults)
        presents_fail(faults[i].call, faults[i].code, 1 + below(3), 1);
    else if (i % 2)
        vks_swapchain_resize(w->app.swapchain, width, 64);
    else
        presents_set_size(w->app.surface, width, 64 * (below(10) != 0));
}

static void walk(vks_present_policy policy, long steps)
{
    walker w = {0};
    app_open(&w.app, (choices){.pace = PRESENTS_RANDOM,
                               .policy = policy,
                               .seed = seed,
                               .image_count = 2 + below(4),
                               .frames_in_flight = 1 + below(4),
                               .retired_limit = 1 + below(4),
                               .proof_ms = 1,
                               .fence_ms = 100000});
    if (below(3) == 0)
        presents_set_size(w.app.surface, UINT32_MAX, UINT32_MAX);
    uint32_t limit = 0;
    for (long i = 0; i < steps && check_failures < 10; i++) {
        uint32_t what = below(100);
        if (what == 99)
            disturb(&w);
        else if (what > 90)
            presents_step();
        else if (what > 85)
            capture(&w);
        else if (!w.n_out || (what < 25 && w.n_out < 2))
            acquire_one(&w);
        else
            use_one(&w, what);
        vks_swapchain_statistics now = app_statistics(&w.app);
        if (now.semaphores > limit)
            limit = (uint32_t)now.semaphores;
    }
    CHECK(app_statistics(&w.app).most_alive <= 6, "%d", (int)app_statistics(&w.app).most_alive);
    CHECK(limit < 200, "%u semaphores", limit);
    CHECK(presents_count().given_up <= app_statistics(&w.app).given_up, "%u", presents_count().given_up);
    for (uint32_t f = 0; presents_function(f); f++)
        presents_fail(presents_function(f), 0, 0, 0);
    app_close(&w.app);
}

static void random_calls_in_any_order_cause_no_violation(void)
{
    long steps = check_scale("VKSHARE_STEPS", 100000), part = 2000;
    seed = (uint64_t)check_scale("VKSHARE_SEED", 1) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (long done = 0; done < steps && check_failures < 10; done += part)
        walk(policies[done / part % 2], part);
}

/* ---- from several threads ---- */

static _Atomic bool is_over;

static void *draw_and_present(void *argument)
{
    app *a = argument; /* each thread has its own frames; no thread creates surfaces, which would need a lock of the
                          program */
    while (!is_over) {
        vks_frame frame;
        vks_status status = vks_swapchain_acquire(a->swapchain, vks_now() + 5 * MS, &frame);
        if (!status)
            status = (vks_now() >> 8) % 7 ? vks_swapchain_present(a->swapchain, &frame, vks_now() + 100 * MS)
                                          : vks_swapchain_drop(a->swapchain, &frame);
        CHECK(is_expected(status), "%d, %s", status, vks_last_error()->text);
    }
    return NULL;
}

static void *resize_and_look(void *argument)
{
    app *a = argument;
    for (uint32_t i = 0; !is_over; i++) {
        vks_swapchain_statistics now;
        vks_swapchain_resize(a->swapchain, 64 + i % 8, 64);
        for (int n = 0; n < 5; n++, usleep(200))
            vks_swapchain_get_statistics(a->swapchain, &now);
    }
    return NULL;
}

static void *submit_others(void *argument)
{
    app *a = argument;
    vks_fence *fence = NULL;
    CHECK(vks_fence_create(a->device, 0, &fence) == VKS_OK, "%s", vks_last_error()->text);
    for (uint64_t v = 1; !is_over; v++) {
        vks_submission out = {0};
        vks_signal signal = {fence, v};
        CHECK(vks_submit(a->device, &(vks_submit_info){.signals = &signal, .n_signals = 1}, vks_now() + HANG, &out) ==
                  VKS_OK,
              "%s", vks_last_error()->text);
        if (out.op)
            vks_work_unref(out.op);
        vks_status status = VKS_INTERRUPTED;
        for (uint64_t until = vks_now() + HANG; v % 8 == 0 && status == VKS_INTERRUPTED;)
            status = vks_fence_wait(fence, v, until);
        CHECK(v % 8 || status == VKS_OK, "%d", status);
    }
    vks_fence_close(fence);
    vks_fence_unref(fence);
    return NULL;
}

static void many_threads_share_a_swapchain(void)
{
    for (uint32_t p = 0; p < 2; p++) {
        app a;
        app_open(&a, (choices){.pace = PRESENTS_THREAD, .policy = policies[p], .image_count = 4, .proof_ms = 50});
        presents_set_size(a.surface, UINT32_MAX, UINT32_MAX);
        is_over = false;
        void *(*const work[])(void *) = {draw_and_present, draw_and_present, resize_and_look, submit_others};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, work[i], &a);
        usleep((useconds_t)check_scale("VKSHARE_MS", 1000) * 1000);
        is_over = true;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        CHECK(app_statistics(&a).frames > 2, "%d frames", (int)app_statistics(&a).frames);
        app_close(&a);
    }
}

int main(void)
{
    RUN(random_calls_in_any_order_cause_no_violation);
    RUN(many_threads_share_a_swapchain);
    RUN(each_call_may_fail_once);
    return check_result();
}
