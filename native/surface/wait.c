/* wait.c: waits of the CPU for a surface's work. */
#include "surface/surface.h"
#include "surface/trace_points.h"

vks_status vks_surface_wait_held(vks_surface *surface, uint64_t deadline)
{
    return vks_scheduler_wait(surface->device, &surface->held, 1, deadline);
}

/* The deadline is checked here too, because value_seq may change all the time. */
vks_status vks_surface_sleep_on_values(vks_surface *surface, uint32_t seq, uint64_t deadline)
{
    return vks_now() < deadline ? vks_futex_wait(&surface->handle.page->value_seq, seq, VKS_ANY_BIT, deadline)
                                : VKS_TIMEOUT;
}

/* Blocks until the previous owner's work has run, or can never run. */
vks_status vks_wait_point_wait(vks_surface *surface, const vks_wait_point *wait_point, uint64_t deadline)
{
    vks_mutex_page *page = surface->handle.page;
    while (!vks_wait_point_is_complete(surface, wait_point)) {
        uint32_t seq = vks_mutex_prepare_value_wait(page);
        vks_status status = vks_surface_watch(surface);
        pthread_mutex_lock(&surface->device->lock);
        bool alive = vks_wait_point_is_alive(surface, wait_point);
        pthread_mutex_unlock(&surface->device->lock);
        if (vks_wait_point_is_complete(surface, wait_point))
            break;
        if (!alive) {
            vks_mutex_poison(page);
            return VKS_ABANDONED;
        }
        if (status || (status = vks_surface_sleep_on_values(surface, seq, deadline)))
            return status;
    }
    /* A failed value was completed too, after the chain was poisoned: the frame is incomplete. */
    return atomic_load(&page->word) & VKS_POISONED ? VKS_ABANDONED : VKS_OK;
}

vks_status vks_surface_as_waiter(vks_surface *surface, vks_status (*call)(vks_surface *surface, uint64_t deadline),
                                 uint64_t deadline)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    atomic_fetch_add(&surface->waiting, 1);
    if (!(status = vks_surface_check(surface)))
        status = call(surface, deadline);
    atomic_fetch_sub(&surface->waiting, 1);
    return status;
}

/* ---- CPU access ---- */

/* Returns whether the ownership's wait point is work of this handle (vks_surface_continue_after) in
 * this device's queue. Caller holds device->lock. */
static bool is_own_work(const vks_surface *surface)
{
    const vks_wait_point *wait_point = &surface->ownership.wait_point;
    return surface->last_value && wait_point->signaller == surface->handle.identity &&
           wait_point->signaller_slot == surface->handle.slot &&
           !vks_device_awaits_external(surface->device, &vks_surface_signal, surface, wait_point->value);
}

/* Waits, then publishes the completions itself, which is faster than waking the publisher. */
static vks_status wait_own_work(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vks_status status = vks_device_wait_serial(device, serial, deadline);
    pthread_mutex_lock(&device->lock);
    if (!status)
        vks_device_publish(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static vks_status cpu_access(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    vks_status status;
    pthread_mutex_lock(&device->lock);
    bool owned = surface->owned, held = surface->held > 0, ours = is_own_work(surface);
    bool has_engine_work = vks_surface_has_engine_work(surface);
    vks_wait_point wait_point = surface->ownership.wait_point;
    uint64_t serial = surface->last_serial;
    pthread_mutex_unlock(&device->lock);
    if (!owned)
        return vks_surface_not_owned(surface);
    if (has_engine_work && (status = vks_surface_follow_engine(surface, deadline, &serial)))
        return status;
    if ((ours && (status = wait_own_work(device, serial, deadline))) ||
        (status = vks_wait_point_wait(surface, &wait_point, deadline)))
        return status;
    if (held) {
        if ((status = vks_surface_wait_held(surface, deadline)))
            return status;
        pthread_mutex_lock(&device->lock);
        serial = surface->last_serial;
        pthread_mutex_unlock(&device->lock);
    }
    /* A device that was lost meanwhile has completed its pending values itself. */
    return serial ? vks_device_wait_serial(device, serial, deadline) : vks_surface_check(surface);
}

vks_status vks_surface_cpu_access(vks_surface *surface, uint64_t deadline)
{
    VKS_NEEDS(surface);
    uint64_t began = vks_trace_begin();
    vks_status status = vks_surface_as_waiter(surface, cpu_access, deadline);
    VKS_TRACE(began, vks_traced_surface(VKS_TRACE_ACCESS, surface, began, deadline, status));
    return status;
}

/* ---- waits for submissions of others (external.c) ---- */

static vks_status wait_ownership_complete(vks_surface *surface, uint64_t deadline)
{
    pthread_mutex_lock(&surface->device->lock);
    vks_wait_point wait_point = surface->ownership.wait_point;
    pthread_mutex_unlock(&surface->device->lock);
    return vks_wait_point_wait(surface, &wait_point, deadline);
}

vks_status vks_surface_wait_complete(vks_surface *surface, uint64_t deadline)
{
    return vks_surface_as_waiter(surface, wait_ownership_complete, deadline);
}

static vks_status wait_ownership_submittable(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(surface->handle.page);
        vks_status status = vks_surface_watch(surface), why;
        pthread_mutex_lock(&device->lock);
        if (!(why = vks_surface_check(surface)) && !surface->owned)
            why = vks_surface_not_owned(surface);
        vks_readiness ready = why ? VKS_FAIL : vks_ownership_ready(surface, &why);
        pthread_mutex_unlock(&device->lock);
        if (ready != VKS_HOLD)
            return ready == VKS_READY ? VKS_OK : why;
        if (status || (status = vks_surface_sleep_on_values(surface, seq, deadline)))
            return status;
    }
}

vks_status vks_surface_wait_submittable(vks_surface *surface, uint64_t deadline)
{
    return vks_surface_as_waiter(surface, wait_ownership_submittable, deadline);
}
