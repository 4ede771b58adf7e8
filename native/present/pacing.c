/* pacing.c: the moment from which the next frame may be acquired: an interval for targets without a
 * pace of their own, and the GPU work of earlier frames. Needs no lock. */
#include <time.h>
#include <unistd.h>

#include "swapchain_state.h"

#define SLICE_NS UINT64_C(20000000)

void vks_swapchain_set_pace(vks_swapchain *swapchain, uint64_t interval)
{
    VKS_NEEDS_OR(, swapchain);
    atomic_store(&swapchain->pacing.interval, interval);
    atomic_store(&swapchain->pacing.due, vks_now());
    vks_frames_changed(swapchain, VKS_FRAMES_MORE);
}

uint64_t vks_pacing_due(const vks_swapchain *s)
{
    return atomic_load_explicit(&s->pacing.interval, memory_order_relaxed)
               ? atomic_load_explicit(&s->pacing.due, memory_order_relaxed)
               : 0;
}

uint64_t vks_pacing_serial(const vks_swapchain *s)
{
    uint64_t serial = s->pacing.in_flight[s->pacing.frames % s->info.frames_in_flight];
    return serial && s->device->backend->completed(s->device) < serial ? serial : 0;
}

/* Sleeps until the time of the next frame, in slices. */
static vks_status wait_for_interval(vks_swapchain *s, uint64_t deadline)
{
    uint64_t due = vks_pacing_due(s), now;
    if (!due || (now = vks_now()) >= due)
        return VKS_OK;
    uint64_t until = now + SLICE_NS < due ? now + SLICE_NS : due;
    until = until < deadline ? until : deadline;
    if (until <= now)
        return VKS_TIMEOUT;
    struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    if (until == due)
        return VKS_OK;
    return until == deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
}

/* A10: waits for the GPU work of an earlier frame. */
static vks_status wait_in_flight(vks_swapchain *s, uint64_t deadline)
{
    uint64_t serial = vks_pacing_serial(s);
    if (!serial)
        return VKS_OK;
    if (!deadline)
        return VKS_TIMEOUT;
    pthread_mutex_lock(&s->device->lock);
    s->counts.acquire_waits++;
    pthread_mutex_unlock(&s->device->lock);
    return vks_device_wait_serial(s->device, serial, deadline);
}

vks_status vks_pacing_wait(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = wait_for_interval(s, deadline);
    return status ? status : wait_in_flight(s, deadline);
}

void vks_pacing_acquired(vks_swapchain *s)
{
    uint64_t interval = atomic_load_explicit(&s->pacing.interval, memory_order_relaxed);
    if (!interval)
        return;
    uint64_t due = atomic_load(&s->pacing.due), now = vks_now();
    atomic_store(&s->pacing.due, (now > due + interval ? now : due) + interval); /* a late frame starts a new phase */
}

void vks_pacing_presented(vks_swapchain *s, uint64_t serial)
{
    s->pacing.in_flight[s->pacing.frames++ % s->info.frames_in_flight] = serial;
}

void vks_pacing_poll(uint64_t deadline)
{
    usleep(vks_now() + VKS_POLL_INTERVAL_US * UINT64_C(1000) < deadline ? VKS_POLL_INTERVAL_US : 0);
}
