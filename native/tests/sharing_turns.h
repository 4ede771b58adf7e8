/* sharing_turns.h: turns of several handles of one image, for the tests that share one. */
#ifndef VKS_SHARING_TURNS_H
#define VKS_SHARING_TURNS_H

#include "check_macros.h"
#include "stub_driver.h"

#define SECOND UINT64_C(1000000000)

static inline vks_status draw(vks_surface *surface)
{
    vks_commands *commands;
    vks_device *device = vks_surface_device(surface);
    if (stub_commands(surface, STUB_VARIED, &commands) != VKS_OK)
        return VKS_NO_MEMORY;
    vks_submission submission = {0};
    vks_submit_info info = {.commands = &commands, .n_commands = 1};
    vks_status status = vks_submit(device, &info, 0, &submission);
    if (submission.op)
        vks_work_unref(submission.op);
    vks_commands_unref(commands);
    vks_device_reap(device, false);
    return status;
}

static inline void draw_after(vks_surface *surface, vks_fence *fence, uint64_t value)
{
    vks_commands *commands;
    vks_submission held = {0};
    vks_wait wait = {.fence = fence, .value = value};
    CHECK(stub_commands(surface, STUB_DRAWS, &commands) == VKS_OK, "memory");
    vks_submit_info info = {.commands = &commands, .n_commands = 1, .waits = &wait, .n_waits = 1};
    CHECK(vks_submit(vks_surface_device(surface), &info, 0, &held) == VKS_OK && held.op, "the draw is held");
    vks_work_unref(held.op);
    vks_commands_unref(commands);
}

static inline vks_status draw_raw(vks_surface *surface)
{
    uint64_t raw = 4;
    vks_submission submission = {0};
    vks_submit_info info = {.raw = &raw, .n_raw = 1};
    vks_status status = vks_submit(vks_surface_device(surface), &info, 0, &submission);
    if (submission.op)
        vks_work_unref(submission.op);
    return status;
}

static inline void drop(vks_surface *surface)
{
    vks_surface_close(surface);
    vks_surface_unref(surface);
}

static inline void own(vks_surface *surface, uint64_t key)
{
    CHECK(vks_surface_acquire(surface, key, vks_now() + 10 * SECOND) == VKS_OK, "%s", vks_last_error()->text);
}

static inline void hand_on(vks_surface *surface, uint64_t key)
{
    vks_status status = vks_surface_release(surface, key);
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static inline void idle(vks_device *device)
{
    uint64_t limit = vks_now() + 10 * SECOND;
    vks_status status;
    while ((status = vks_device_wait_idle(device, limit)) == VKS_INTERRUPTED)
        ;
    CHECK(status == VKS_OK, "status %d: %s", status, vks_last_error()->text);
}

static inline void end(vks_fence *gate, vks_device *device, vks_device *other)
{
    vks_fence_close(gate);
    vks_fence_unref(gate);
    stub_close(device);
    if (other != device)
        stub_close(other);
}

#endif
