/* orphaned_waits.c: GPU waits for a signal that will never come (docs/spec/protocol.md,
 * "Host signals"). The signaller died or lost its device while the signalling work was still behind other
 * work. Only the process whose own queue waits signals, from the host, exactly the value that its
 * queue waits for.
 *
 * The publisher calls this every 20 ms while such waits are with the driver. Caller holds
 * device->lock.
 */
#include "device/device.h"

static void signal_orphaned(vks_device *device, uint64_t semaphore, uint64_t value)
{
    uint64_t counter;
    if (device->backend->counter(device, semaphore, &counter) == VKS_OK && counter < value &&
        value - counter <= device->max_difference)
        device->backend->host_signal(device, semaphore, value);
}

static void resolve_surface_wait(vks_device *device, vks_surface *surface, uint64_t value)
{
    uint64_t counter;
    /* A pending value may still come, and a lower one would lower the counter. */
    if (!surface->semaphore || vks_surface_is_pending(surface, value))
        return;
    /* Read the counter after the slots: a party clears its pending value only after the semaphore
     * has it. */
    if (device->backend->counter(device, surface->semaphore, &counter) != VKS_OK || counter >= value)
        return;
    vks_mutex_poison(surface->handle.page); /* first, so that no party takes the result for a complete frame */
    signal_orphaned(device, surface->semaphore, value);
}

static void resolve_fence_wait(vks_device *device, vks_fence *fence, uint64_t value)
{
    const vks_fence_page *page = fence->page;
    uint32_t status = atomic_load(&page->status);
    if (fence->semaphore && (status == VKS_FENCE_LOST || status == VKS_FENCE_CLOSED || !vks_peer_alive(page->owner)))
        signal_orphaned(device, fence->semaphore, value);
}

/* The external API that was to signal the value is lost, so the value is not valid
 * (vks_fence.last_valid). The signal only lets waiting queues continue. Signals go in order,
 * because an outstanding lower signal would lower the counter. */
static void resolve_external_wait(vks_device *device, const vks_completion *completion)
{
    const vks_fence *fence = completion->object;
    uint64_t counter;
    if (completion->value > fence->last_valid && fence->semaphore &&
        device->backend->counter(device, fence->semaphore, &counter) == VKS_OK && counter >= completion->serial)
        signal_orphaned(device, fence->semaphore, completion->value);
}

void vks_device_resolve_orphaned_waits(vks_device *device)
{
    if (device->lost || !device->native_timelines)
        return;
    for (size_t i = 0; i < device->n_external; i++) {
        const vks_completion *completion = &device->external[i];
        if (completion->kind == VKS_COMPLETION_SURFACE_WAIT)
            resolve_surface_wait(device, completion->object, completion->value);
        else if (completion->kind == VKS_COMPLETION_FENCE_WAIT)
            resolve_fence_wait(device, completion->object, completion->value);
        else if (completion->kind == VKS_COMPLETION_FENCE)
            resolve_external_wait(device, completion);
    }
    uint64_t head = device->backend->completed(device) + 1; /* later batches wait for this one anyway */
    for (size_t i = 0; i < device->ring_count; i++) {
        const vks_completion *completion = &device->ring[(device->ring_first + i) & (device->ring_capacity - 1)];
        if (completion->serial > head)
            break;
        if (completion->kind == VKS_COMPLETION_SURFACE_WAIT)
            resolve_surface_wait(device, completion->object, completion->value);
        else if (completion->kind == VKS_COMPLETION_FENCE_WAIT)
            resolve_fence_wait(device, completion->object, completion->value);
    }
}
