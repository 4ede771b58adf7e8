/* external_fences.h: shared parts of the tests of fences that an external API signals: the parties
 * and their actions. */
#ifndef VKS_TEST_EXTERNAL_FENCES_H
#define VKS_TEST_EXTERNAL_FENCES_H

#include <poll.h>
#include <sys/wait.h>

#include "external_parties.h"

/* ---- parties ---- */

typedef struct cast {
    vks_device *device, *other;
    vks_fence *fence, *follower; /* on the other device */
    stub_api *api, *theirs;      /* `theirs` imported the follower */
} cast;

static inline vks_fence *follow(vks_fence *fence, vks_device *device)
{
    int page, semaphore;
    vks_fence *follower = NULL;
    CHECK(vks_fence_export(fence, &page, &semaphore) == VKS_OK &&
              vks_fence_open(device, page, semaphore, &follower) == VKS_OK,
          "%s", vks_last_error()->text);
    return follower;
}

static inline cast new_cast(void)
{
    cast c = {.device = stub_open("here", true), .other = stub_open("there", true)};
    CHECK(vks_fence_create(c.device, 0, &c.fence) == VKS_OK, "%s", vks_last_error()->text);
    c.follower = follow(c.fence, c.other);
    c.api = stub_import_fence(c.fence);
    c.theirs = stub_import_fence(c.follower);
    CHECK(c.api && c.theirs, "%s", vks_last_error()->text);
    return c;
}

static inline void close_fence(vks_fence *fence)
{
    vks_fence_close(fence);
    vks_fence_unref(fence);
}

static inline void drop_cast(cast *c)
{
    close_fence(c->follower);
    close_fence(c->fence);
    drop_api(c->theirs);
    drop_api(c->api);
    stub_close(c->other);
    stub_close(c->device);
}

/* ---- actions ---- */

/* Submits a batch to the device's queue. The caller drops *held, if it is not NULL. */
static inline vks_status batch(vks_device *device, vks_wait wait, vks_signal signal, vks_submission *out)
{
    vks_submission ignored = {0};
    vks_submit_info info = {
        .waits = &wait, .n_waits = wait.fence != NULL, .signals = &signal, .n_signals = signal.fence != NULL};
    vks_status status = vks_submit(device, &info, 0, out ? out : &ignored);
    if (ignored.op)
        vks_work_unref(ignored.op);
    return status;
}

#define WAIT(f, v) ((vks_wait){.fence = (f), .value = (v)})
#define SIGNAL(f, v) ((vks_signal){(f), (v)})
#define NO_WAIT ((vks_wait){0})
#define NO_SIGNAL ((vks_signal){0})

static inline void api_signals(vks_fence *fence, stub_api *api, uint64_t value)
{
    uint64_t wait;
    vks_status status = vks_fence_external_begin(fence, value, &wait);
    CHECK(status == VKS_OK && wait < value, "status %d: %s", status, vks_last_error()->text);
    stub_work(api, wait, value);
    CHECK(vks_fence_external_end(fence, value) == VKS_OK, "%s", vks_last_error()->text);
}

static inline uint64_t value_of(vks_fence *fence)
{
    uint64_t value = UINT64_MAX;
    CHECK(vks_fence_value(fence, &value) == VKS_OK, "%s", vks_last_error()->text);
    return value;
}

static inline uint64_t queued_of(vks_fence *fence)
{
    uint64_t value = UINT64_MAX;
    CHECK(vks_fence_queued(fence, &value) == VKS_OK, "%s", vks_last_error()->text);
    return value;
}

static inline vks_status wait_for(vks_fence *fence, uint64_t value, uint64_t ms)
{
    return AGAIN(vks_fence_wait(fence, value, vks_now() + ms * MS));
}

static inline bool is_readable(int fd, int ms)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1;
}

static inline uint32_t held(vks_device *device)
{
    vks_device_statistics statistics;
    vks_device_get_statistics(device, &statistics);
    return (uint32_t)statistics.held;
}

typedef struct waiter {
    vks_fence *fence;
    uint64_t value, took;
    vks_status status;
} waiter;

static inline void *wait_in_thread(void *argument)
{
    waiter *w = argument;
    uint64_t start = vks_now();
    w->status = wait_for(w->fence, w->value, 3000);
    w->took = vks_now() - start;
    return NULL;
}

#endif
