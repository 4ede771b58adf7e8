/* wait_point.c: the work that an ownership follows: a value, and the handle that will signal it. */
#include "surface/surface.h"

bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point)
{
    bool settled = !wait_point->value || atomic_load(&surface->handle.page->completed) >= wait_point->value;
    VKS_TSAN_ACQUIRE(surface->handle.page->header.id);
    return settled;
}

/* A slot holds its first pending value until `completed` reaches it. So a slot with no pending
 * value, or only a later one, will not signal this value, whatever another process wrote into the
 * page. */
static bool is_announced(const vks_mutex_page *page, const vks_wait_point *wait_point)
{
    uint64_t pending_value = atomic_load(&page->slots[wait_point->signaller_slot].pending_value);
    return pending_value && pending_value <= wait_point->value;
}

bool vks_wait_point_is_alive(const vks_surface *surface, const vks_wait_point *wait_point)
{
    const vks_mutex_page *page = surface->handle.page;
    if (!vks_mutex_slot_is(page, wait_point->signaller_slot, wait_point->signaller) || !is_announced(page, wait_point))
        return false;
    bool is_own =
        wait_point->signaller_slot == surface->handle.slot && wait_point->signaller == surface->handle.identity;
    return is_own ? vks_surface_has_announced(surface, wait_point->value) : vks_peer_alive(wait_point->signaller);
}

bool vks_wait_point_is_ordered(const vks_device *device, const vks_surface *surface, const vks_wait_point *wait_point)
{
    for (const vks_surface *s = vks_surface_first(device); s; s = vks_surface_next(s))
        if (s->handle.identity == wait_point->signaller && s->handle.slot == wait_point->signaller_slot &&
            s->handle.page->header.id == surface->handle.page->header.id)
            return (s == surface || !s->held) &&
                   !(device->completions.n_external &&
                     vks_device_awaits_external(device, &vks_surface_signal, s, wait_point->value));
    return false;
}

vks_readiness vks_wait_point_ready(const vks_device *queue, const vks_surface *surface,
                                   const vks_wait_point *wait_point, vks_status *why)
{
    /* In a poisoned chain a value may be completed while earlier work still runs, and the signal of
     * that work would lower the semaphore. */
    if (surface->semaphore && vks_mutex_is_poisoned(surface->handle.page) &&
        vks_surface_is_pending(surface, wait_point->value))
        return VKS_HOLD;
    if (vks_wait_point_is_complete(surface, wait_point) ||
        (queue && vks_wait_point_is_ordered(queue, surface, wait_point)))
        return VKS_READY;
    if (surface->semaphore && atomic_load(&surface->handle.page->queued) >= wait_point->value)
        return VKS_READY; /* the GPU itself waits: the signal is with a driver, so it comes even if its process dies */
    if (vks_wait_point_is_alive(surface, wait_point) || vks_wait_point_is_complete(surface, wait_point))
        return VKS_HOLD;
    return vks_never_ready(why, VKS_ABANDONED);
}

vks_readiness vks_ownership_ready(const vks_surface *surface, vks_status *why)
{
    if (surface->closed)
        return vks_never_ready(why, VKS_CLOSED);
    if (surface->acquire_submitted >= surface->ownership.id)
        return VKS_READY;
    return vks_wait_point_ready(surface->device, surface, &surface->ownership.wait_point, why);
}
