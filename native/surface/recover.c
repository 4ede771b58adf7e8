/* recover.c: an abandoned surface gets an owner and a new generation. */
#include "surface/surface.h"
#include "surface/trace_points.h"

static vks_status wait_for_pending_values(vks_surface *surface, uint64_t deadline)
{
    vks_mutex_page *page = surface->handle.page;
    uint64_t signaller;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(page);
        if (!vks_mutex_has_pending_values(&surface->handle, &signaller))
            return VKS_OK;
        if (!vks_peer_alive(signaller)) {
            vks_peers_mark_dead(&surface->mapping, signaller & VKS_IDENTITY_MASK);
            continue;
        }
        vks_status status = vks_surface_watch(surface);
        if (status || (status = vks_surface_sleep_on_values(surface, seq, deadline)))
            return status;
    }
}

/* Signals the semaphore up to the page's value, which ends the GPU waits that dead processes left.
 * Caller holds device->lock. */
static vks_status signal_up_to(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    uint64_t counter;
    vks_status status = device->backend->counter(device, surface->semaphore, &counter);
    if (status || counter >= value)
        return status;
    if (value - counter > device->max_difference)
        return vks_fail(VKS_ABANDONED, 0,
                        "the surface's page says %llu where its semaphore is at %llu: make another surface",
                        (unsigned long long)value, (unsigned long long)counter);
    return device->backend->host_signal(device, surface->semaphore, value);
}

/* If the ownership's wait point will never be signalled, gives the ownership up as abandoned.
 * Submissions fail in that state, and their error advises recover(). Caller holds device->lock. */
static void abandon_if_orphaned(vks_surface *surface)
{
    vks_status why = VKS_OK;
    if (!surface->owned)
        return;
    if (vks_ownership_ready(surface, &why) == VKS_FAIL && why == VKS_ABANDONED)
        vks_mutex_poison(surface->handle.page);
    if (vks_mutex_is_poisoned(surface->handle.page))
        vks_surface_release_now(surface, 0, surface->held > 0 || surface->device->presenting);
}

static vks_status recover_begin(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_peers_watch_page(&surface->mapping); /* detects an owner that has died */
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status)
        status = vks_surface_refuse_presentable(surface);
    if (!status)
        abandon_if_orphaned(surface);
    if (!status && surface->recovering)
        status = VKS_ALREADY_OWNER;
    if (!status && !(status = vks_mutex_recover_begin(&surface->handle))) {
        surface->recovering = true;
        vks_surface_changed(surface);
        vks_surface_fail_held(surface, true, VKS_ABANDONED); /* they and this call would wait for each other */
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Waits for external signals of this handle, because they would lower the semaphore under the new
 * generation's value. */
static vks_status wait_for_external(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(surface->handle.page);
        vks_status status = vks_surface_watch(surface);
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
        bool awaits = vks_device_awaits_external(device, &vks_surface_signal, surface, 0);
        pthread_mutex_unlock(&device->lock);
        if (!awaits)
            return VKS_OK;
        if (status || (status = vks_surface_sleep_on_values(surface, seq, deadline)))
            return status;
    }
}

#define DEAD_OWNER_NS UINT64_C(1000000000)

/* Waits for the work that a dead owner's queue already has. It still runs and its signal still
 * comes, although no wait counts on it (K7), and would lower a higher value that this process
 * signalled before. The owner may have died before it could publish that its queue has the signal,
 * or before its queue had it. If that queue waits for a value that never comes,
 * device/completions.h ends the wait. The second that this may take begins with the first recover()
 * that finds the value: many recover() calls with short timeouts get as far as one long call. */
static vks_status wait_for_dead_owner(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    uint64_t last = vks_mutex_last_announced(surface->handle.page);
    uint64_t completed = atomic_load(&surface->handle.page->completed);
    /* Otherwise the value came, was lost, or is one that no driver accepts. */
    if (!surface->semaphore || last <= completed || last - completed > device->max_difference)
        return VKS_OK;
    if (surface->dead_value != last) {
        surface->dead_value = last;
        surface->dead_since = vks_now();
    }
    uint64_t end = surface->dead_since + DEAD_OWNER_NS, limit = end < deadline ? end : deadline;
    vks_status status;
    do
        status = device->backend->wait_timeline(device, surface->semaphore, last, limit);
    while (status == VKS_INTERRUPTED);
    return status == VKS_TIMEOUT && vks_now() >= end ? VKS_OK : status;
}

static vks_status recover(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    vks_status status = recover_begin(surface);
    if (status)
        return status;
    status = wait_for_pending_values(surface, deadline);
    if (!status)
        status = vks_surface_wait_held(surface, deadline);
    if (!status)
        status = vks_device_wait_serial(device, surface->last_serial, deadline);
    if (!status)
        status = wait_for_external(surface, deadline);
    if (!status)
        status = wait_for_dead_owner(surface, deadline);
    pthread_mutex_lock(&device->lock);
    vks_device_publish(device); /* completes this device's own values */
    if (!status)
        status = vks_surface_check(surface);
    if (status) {
        vks_mutex_abandon(&surface->handle);
    } else {
        uint64_t value = vks_mutex_recover_finish(&surface->handle);
        if (surface->semaphore && (status = signal_up_to(surface, value)))
            vks_mutex_abandon(&surface->handle);
        else
            vks_surface_begin_ownership(surface, ++surface->next_ownership, &(vks_wait_point){0});
    }
    surface->recovering = false;
    vks_surface_changed(surface);
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_recover(vks_surface *surface, uint64_t deadline)
{
    VKS_NEEDS(surface);
    uint64_t began = vks_trace_begin();
    vks_status status = vks_surface_as_waiter(surface, recover, deadline);
    VKS_TRACE(began, vks_traced_surface(VKS_TRACE_RECOVER, surface, began, deadline, status));
    return status;
}
