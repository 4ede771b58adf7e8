/* present_program.h: a program that draws and presents with the stub driver, for the tests of the
 * swapchain: the device, the swapchain, and a surface and commands for each image. */
#ifndef VKS_PRESENT_PROGRAM_H
#define VKS_PRESENT_PROGRAM_H

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check_macros.h"
#include "present/swapchain.h"
#include "stub_presents.h"
#include "vulkan/vulkan_core.h"

#define MS UINT64_C(1000000)

static const vks_present_policy policies[] = {VKS_PRESENTS_BY_ACQUIRES, VKS_PRESENTS_BY_FENCES};
#define ON_BOTH_POLICIES(p)                                                                                            \
    for (uint32_t p##_ = 0; p##_ < 2; p##_++)                                                                          \
        for (vks_present_policy p = policies[p##_], *p##1 = &p; p##1; p##1 = NULL)
#define TEXT_HAS(words) (strstr(vks_last_error()->text, words) != NULL)

typedef struct app {
    vks_device *device;
    vks_swapchain *swapchain;
    uint64_t surface, generation;
    vks_surface *surfaces[VKS_SWAPCHAIN_IMAGES];
    vks_commands *commands[VKS_SWAPCHAIN_IMAGES];
    uint32_t violations; /* before */
} app;

typedef struct choices {
    presents_pace pace;
    uint64_t seed;
    vks_present_policy policy;
    uint32_t width, height, image_count, frames_in_flight, retired_limit; /* 0: 64, 64, 3, 2, 4 */
    uint64_t proof_ms, fence_ms;                                          /* 0: 30, 1000 */
} choices;

static inline vks_status app_swapchain(app *a, const choices *c, vks_swapchain **out)
{
    vks_present_info vulkan = {.physical_device = 1,
                               .surface = a->surface,
                               .get_capabilities = presents_get_capabilities(),
                               .format = VK_FORMAT_B8G8R8A8_UNORM,
                               .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                               .composite_alpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                               .present_mode = VK_PRESENT_MODE_FIFO_KHR,
                               .has_views = true,
                               .policy = c->policy};
    vks_swapchain_info info = {.device = a->device,
                               .vulkan = &vulkan,
                               .width = c->width ? c->width : 64,
                               .height = c->height ? c->height : 64,
                               .image_count = c->image_count ? c->image_count : 3,
                               .frames_in_flight = c->frames_in_flight ? c->frames_in_flight : 2,
                               .retired_limit = c->retired_limit ? c->retired_limit : 4,
                               .proof_deadline = (c->proof_ms ? c->proof_ms : 30) * MS,
                               .fence_deadline = (c->fence_ms ? c->fence_ms : 1000) * MS};
    return vks_swapchain_create(&info, out);
}

static inline void app_open(app *a, choices c)
{
    *a = (app){.violations = presents_violations()};
    a->device = presents_open(c.pace, c.seed + 1);
    a->surface = presents_surface();
    CHECK(app_swapchain(a, &c, &a->swapchain) == VKS_OK, "%s", vks_last_error()->text);
}

static inline void app_forget_surfaces(app *a)
{
    for (uint32_t i = 0; i < VKS_SWAPCHAIN_IMAGES; i++) {
        if (a->commands[i])
            vks_commands_unref(a->commands[i]);
        if (a->surfaces[i]) {
            vks_surface_close(a->surfaces[i]);
            vks_surface_unref(a->surfaces[i]);
        }
        a->commands[i] = NULL;
        a->surfaces[i] = NULL;
    }
    vks_device_reap(a->device, false);
}

static inline void app_close_swapchain(app *a)
{
    vks_swapchain_close(a->swapchain);
    vks_swapchain_unref(a->swapchain);
    a->swapchain = NULL;
}

static inline void app_close(app *a)
{
    if (a->swapchain)
        app_close_swapchain(a);
    app_forget_surfaces(a);
    vks_device_reap(a->device, true);
    presents_close(a->device);
    CHECK(presents_violations() == a->violations, "the driver detected invalid use");
}

/* A surface and a command list for the frame's image, if it has none. */
static inline vks_status app_adopt(app *a, const vks_frame *frame)
{
    if (frame->generation != a->generation)
        app_forget_surfaces(a);
    a->generation = frame->generation;
    if (a->commands[frame->index])
        return VKS_OK;
    vks_frame_image image;
    vks_status status = vks_swapchain_image(a->swapchain, frame->index, frame->generation, &image);
    vks_surface_info info = {.width = frame->width, .height = frame->height, .is_presentable = true};
    vks_surface **surface = &a->surfaces[frame->index];
    if (!status && !*surface && !(status = vks_surface_create(a->device, &info, surface)) &&
        (status = vks_swapchain_attach(a->swapchain, frame->index, frame->generation, *surface))) {
        vks_surface_close(*surface);
        vks_surface_unref(*surface);
        *surface = NULL;
    }
    vks_use use = {*surface, true};
    if (!status)
        status = vks_commands_create_vulkan(a->device, presents_draw(image.image), &use, 1, NULL, NULL,
                                            &a->commands[frame->index]);
    return status;
}

static inline vks_status app_submit(app *a, const vks_frame *frame, vks_fence *wait, uint64_t value,
                                    vks_submission *out)
{
    vks_status status = app_adopt(a, frame);
    if (status)
        return status;
    vks_wait waits = {.fence = wait, .value = value};
    vks_submit_info info = {
        .commands = &a->commands[frame->index], .n_commands = 1, .waits = &waits, .n_waits = wait != NULL};
    return vks_submit(a->device, &info, vks_now() + HANG, out);
}

static inline vks_status app_draw(app *a, const vks_frame *frame)
{
    vks_submission out = {0};
    vks_status status = app_submit(a, frame, NULL, 0, &out);
    if (!status && out.op)
        vks_work_unref(out.op);
    return status;
}

/* Calls again while it was interrupted, as callers do. */
static inline vks_status app_acquire(app *a, uint32_t ms, vks_frame *frame)
{
    uint64_t deadline = vks_now() + ms * MS;
    vks_status status;
    do
        status = vks_swapchain_acquire(a->swapchain, deadline, frame);
    while (status == VKS_INTERRUPTED);
    return status;
}

static inline vks_status app_present(app *a, const vks_frame *frame)
{
    uint64_t deadline = vks_now() + HANG;
    vks_status status;
    do
        status = vks_swapchain_present(a->swapchain, frame, deadline);
    while (status == VKS_INTERRUPTED);
    return status;
}

/* One frame of n submissions. */
static inline vks_status app_frame(app *a, uint32_t submissions)
{
    vks_frame frame;
    vks_status status = app_acquire(a, HANG / MS, &frame);
    for (uint32_t i = 0; i < submissions && !status; i++)
        status = app_draw(a, &frame);
    return status ? status : app_present(a, &frame);
}

static inline void app_frames(app *a, uint32_t n, uint32_t submissions)
{
    for (uint32_t i = 0; i < n; i++)
        CHECK(app_frame(a, submissions) == VKS_OK, "frame %u: %s", i, vks_last_error()->text);
}

static inline void app_resize(app *a, uint32_t width, uint32_t height)
{
    presents_set_size(a->surface, width, height);
    CHECK(vks_swapchain_resize(a->swapchain, width, height) == VKS_OK, "%s", vks_last_error()->text);
}

static inline vks_swapchain_statistics app_statistics(app *a)
{
    vks_swapchain_statistics now;
    vks_swapchain_get_statistics(a->swapchain, &now);
    return now;
}

#endif
