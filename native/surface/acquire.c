/* acquire.c: from a free page to an ownership of this handle. */
#include "surface/surface.h"
#include "surface/trace_points.h"

/* ---- refusals ---- */

vks_status vks_surface_refuse_presentable(const vks_surface *surface)
{
    return surface->is_presentable
               ? vks_fail(VKS_BAD_CALL, 0, "the surface is a swapchain's: it is owned from acquire() to present()")
               : VKS_OK;
}

vks_status vks_surface_refuse_managed(const vks_surface *surface)
{
    if (surface->is_mirrored)
        return vks_fail(VKS_BAD_CALL, 0,
                        "the surface is a mirror's: it is owned from vks_mirror_acquire() to vks_mirror_release()");
    return surface->network
               ? vks_fail(
                     VKS_BAD_CALL, 0,
                     "the surface is a queue's: it is owned from dequeue() to enqueue(), so draw without acquire() "
                     "and access(); an object of another API does so in within()")
               : vks_surface_refuse_presentable(surface);
}

bool vks_surface_is_owned_or_pending(const vks_surface *surface)
{
    return surface->owned || surface->pending || surface->recovering || surface->is_external;
}

/* ---- ownerships ---- */

void vks_surface_begin_ownership(vks_surface *surface, uint64_t ownership, const vks_wait_point *wait_point)
{
    surface->ownership = (vks_ownership){ownership, *wait_point};
    surface->last_value = 0;
    atomic_store_explicit(&surface->has_page, true, memory_order_release);
    if (surface->pending && surface->next_ownership == ownership)
        surface->pending = false;
    if (ownership > surface->released)
        atomic_store_explicit(&surface->owned, 1, memory_order_release);
    vks_surface_changed(surface);
}

vks_status vks_surface_present_from(vks_surface *surface, vks_presentable *presentable)
{
    vks_wait_point wait_point;
    uint64_t seen;
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && (surface->has_page || surface->pending || vks_mutex_try(&surface->handle, 0, &wait_point, &seen)))
        status = vks_fail(VKS_BAD_CALL, 0, "a swapchain's surface must be new and unowned");
    if (!status) {
        vks_surface_begin_ownership(surface, ++surface->next_ownership, &wait_point);
        surface->is_presentable = true;
        surface->presentable = presentable;
        vks_surface_set_accessible(surface, false);
    }
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

/* Undoes an acquire of this instant. The page still holds the same key, value and signaller. */
static void undo_acquire(vks_surface *surface)
{
    vks_mutex_page *page = surface->handle.page;
    vks_wait_point wait_point = {atomic_load(&page->value), atomic_load(&page->signaller),
                                 atomic_load(&page->signaller_slot)};
    vks_mutex_release(&surface->handle, atomic_load(&page->key), &wait_point);
}

/* Confirms an acquire that succeeded in the page. Another thread may have closed the handle
 * meanwhile, or started a mode="gpu" acquire. */
static vks_status confirm_acquire(vks_surface *surface, const vks_wait_point *wait_point)
{
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && vks_surface_is_owned_or_pending(surface))
        status = VKS_ALREADY_OWNER;
    else if (!status && surface->held_acquires)
        status = VKS_INTERRUPTED; /* acquires that were queued and released come first */
    if (status)
        undo_acquire(surface);
    else
        vks_surface_begin_ownership(surface, ++surface->next_ownership, wait_point);
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

/* ---- waiting for the page ---- */

vks_status vks_surface_watch(void *user)
{
    vks_surface *surface = user;
    vks_status status = vks_peers_watch_page(&surface->mapping);
    return status ? status : vks_surface_check(surface);
}

typedef vks_status (*mutex_wait)(vks_mutex_handle *, uint64_t key, uint64_t deadline, vks_mutex_watch, void *user,
                                 vks_wait_point *);

static vks_status wait_and_acquire(vks_surface *surface, uint64_t key, uint64_t deadline, mutex_wait wait)
{
    vks_status status = vks_surface_check(surface);
    if (status || (status = vks_surface_refuse_managed(surface)))
        return status;
    if (vks_surface_is_owned_or_pending(surface))
        return VKS_ALREADY_OWNER;
    /* Acquires that were queued and released come first. */
    if (__builtin_expect(surface->held_acquires || surface->has_page, 0) &&
        (status = vks_surface_wait_held(surface, deadline)))
        return status;
    vks_wait_point wait_point;
    atomic_fetch_add(&surface->waiting, 1);
    status = wait(&surface->handle, key, deadline, vks_surface_watch, surface, &wait_point);
    if (status == VKS_OK)
        status = confirm_acquire(surface, &wait_point);
    atomic_fetch_sub(&surface->waiting, 1);
    return status == VKS_INTERRUPTED && !deadline ? VKS_TIMEOUT : status;
}

static vks_status acquire(vks_surface *surface, uint64_t key, uint64_t deadline, mutex_wait wait)
{
    uint64_t began = vks_trace_begin();
    vks_status status = wait_and_acquire(surface, key, deadline, wait);
    if (__builtin_expect(status, 0))
        vks_surface_acquire_failed(surface, status);
    VKS_TRACE(began, vks_traced_acquire(surface, key, began, deadline, status));
    return status;
}

vks_status vks_surface_acquire(vks_surface *surface, uint64_t key, uint64_t deadline)
{
    VKS_NEEDS(surface);
    return acquire(surface, key, deadline, vks_mutex_wait);
}

vks_status vks_surface_acquire_blocking(vks_surface *surface, uint64_t key, uint64_t deadline)
{
    VKS_NEEDS(surface);
    return acquire(surface, key, deadline, vks_mutex_wait_after_spin);
}

/* ---- without waiting ---- */

static vks_status try_once(vks_surface *surface, uint64_t key, const uint64_t *epoch, vks_wait_point *wait_point,
                           uint64_t *seen)
{
    return epoch ? vks_mutex_try_epoch(&surface->handle, key, *epoch, wait_point, seen)
                 : vks_mutex_try(&surface->handle, key, wait_point, seen);
}

/* Tries once under the lock, so that no other thread can close the handle or acquire between the
 * swap and its record. `epoch`: for a queue, the epoch that the pair names; else NULL. Returns
 * false if no further try can change the result. */
static bool try_now(vks_surface *surface, uint64_t key, const uint64_t *epoch, uint64_t *seen, vks_status *status)
{
    vks_wait_point wait_point;
    pthread_mutex_lock(&surface->device->lock);
    bool may = !(*status = vks_surface_check(surface)) && !vks_surface_is_owned_or_pending(surface) &&
               !surface->held_acquires && !surface->has_page && (epoch || !(surface->network || surface->is_mirrored));
    if (may && (*status = try_once(surface, key, epoch, &wait_point, seen)) == VKS_OK)
        vks_surface_begin_ownership(surface, ++surface->next_ownership, &wait_point);
    else if (!may && !*status && (epoch || !(*status = vks_surface_refuse_managed(surface))))
        *status = vks_surface_is_owned_or_pending(surface) ? VKS_ALREADY_OWNER
                                                           : VKS_TIMEOUT; /* acquires that were queued come first */
    pthread_mutex_unlock(&surface->device->lock);
    return may;
}

static vks_status try_acquire(vks_surface *surface, uint64_t key, const uint64_t *epoch)
{
    vks_status status = vks_surface_check(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    uint64_t seen;
    /* It may have been released under another key, or be about to be released. */
    for (int tries = 0; try_now(surface, key, epoch, &seen, &status) && status == VKS_TIMEOUT && tries < 4; tries++)
        if (!vks_mutex_spin(surface->handle.page, seen, VKS_MUTEX_PAUSES))
            break;
    if (__builtin_expect(status, 0))
        vks_surface_acquire_failed(surface, status);
    return status;
}

VKS_TRACED static vks_status traced_try_acquire(vks_surface *surface, uint64_t key, const uint64_t *epoch)
{
    uint64_t began = vks_now();
    vks_status status = try_acquire(surface, key, epoch);
    vks_traced_acquire(surface, key, began, 0, status);
    return status;
}

vks_status vks_surface_try(vks_surface *surface, uint64_t key, const uint64_t *epoch)
{
    return vks_tracing() ? traced_try_acquire(surface, key, epoch) : try_acquire(surface, key, epoch);
}

vks_status vks_surface_try_acquire(vks_surface *surface, uint64_t key)
{
    VKS_NEEDS(surface);
    return vks_surface_try(surface, key, NULL);
}

vks_status vks_surface_acquire_gpu(vks_surface *surface, uint64_t key, vks_work **work)
{
    VKS_NEEDS(surface, work);
    vks_device *device = surface->device;
    *work = NULL;
    vks_status status = vks_surface_check(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)))
        status = vks_surface_refuse_managed(surface);
    if (!status && vks_surface_is_owned_or_pending(surface))
        status = VKS_ALREADY_OWNER;
    if (!status)
        status = vks_peers_watch_page(&surface->mapping);
    if (!status && !(status = vks_surface_hold_acquire(surface, key, work)) && !vks_work_is_held(*work)) {
        status = vks_work_status(*work);
        vks_work_unref(*work);
        *work = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
