/* stuck.c: GPU waits for a signal that will never come (spec: "Who may signal by the host"). Its signaller died or lost
 * its device with the work that brings it still behind other work. The process whose own queue is stuck, and no other,
 * then signals exactly the value that it waits for.
 *
 * Called by the publisher every 20 ms while such waits are with the driver; under the device's lock.
 */
#include "device.h"

static void signal_for_the_dead(vks_device *device, uint64_t semaphore, uint64_t value)
{
    uint64_t counter;
    if (device->backend->counter(device, semaphore, &counter) == VKS_OK && counter < value &&
        value - counter <= device->max_difference)
        device->backend->host_signal(device, semaphore, value);
}

static void look_at_surface(vks_device *device, vks_surface *surface, uint64_t value)
{
    uint64_t counter;
    if (!surface->semaphore || vks_surface_is_owed(surface, value)) /* it may come, or a lower one take it back */
        return;
    /* In this order: who kept a promise owes nothing any more only after the semaphore has the value. */
    if (device->backend->counter(device, surface->semaphore, &counter) != VKS_OK || counter >= value)
        return;
    vks_mutex_break(surface->handle.page); /* before: nobody is to take what comes of it for a whole frame */
    signal_for_the_dead(device, surface->semaphore, value);
}

static void look_at_fence(vks_device *device, vks_fence *fence, uint64_t value)
{
    const vks_fence_page *page = fence->page;
    uint32_t status = atomic_load(&page->status);
    if (fence->semaphore && (status == VKS_FENCE_LOST || status == VKS_FENCE_CLOSED || !vks_peer_alive(page->owner)))
        signal_for_the_dead(device, fence->semaphore, value);
}

/* Another API died that was to bring the value, which is not true any more (vks_fence.end): only queues hear of it, so
 * that they go on. In order, for a signal under way would take the counter back. */
static void look_at_broken_fence(vks_device *device, const vks_due *due)
{
    const vks_fence *fence = due->object;
    uint64_t counter;
    if (due->value > fence->end && fence->semaphore &&
        device->backend->counter(device, fence->semaphore, &counter) == VKS_OK && counter >= due->serial)
        signal_for_the_dead(device, fence->semaphore, due->value);
}

void vks_device_unstick(vks_device *device)
{
    if (device->lost || !device->native_timelines)
        return;
    for (size_t i = 0; i < device->n_outside; i++) {
        const vks_due *due = &device->outside[i];
        if (due->kind == VKS_DUE_SURFACE_WAIT)
            look_at_surface(device, due->object, due->value);
        else if (due->kind == VKS_DUE_FENCE_WAIT)
            look_at_fence(device, due->object, due->value);
        else if (due->kind == VKS_DUE_FENCE)
            look_at_broken_fence(device, due);
    }
    uint64_t head = device->backend->completed(device) + 1; /* what stands behind it waits for it anyway */
    for (size_t i = 0; i < device->ring_count; i++) {
        const vks_due *due = &device->ring[(device->ring_first + i) & (device->ring_capacity - 1)];
        if (due->serial > head)
            break;
        if (due->kind == VKS_DUE_SURFACE_WAIT)
            look_at_surface(device, due->object, due->value);
        else if (due->kind == VKS_DUE_FENCE_WAIT)
            look_at_fence(device, due->object, due->value);
    }
}
