/* release.c: from an ownership to a free page with a key, and the value that the next owner waits
 * for. */
#include "surface/surface.h"
#include "surface/trace_points.h"

vks_status vks_surface_submit_release(vks_surface *surface, uint64_t value, bool behind)
{
    vks_access access;
    vks_work draft;
    vks_access_surface(&access, &vks_surface_release_batch, surface, true);
    access.value = value;
    vks_work_draft(&draft, surface->device, VKS_WORK_RELEASE, vks_surface_run_release_batch, &access, 1);
    draft.has_grace = true;
    vks_status why = VKS_OK;
    vks_readiness ready = behind ? VKS_HOLD : vks_work_ready(&draft, &why);
    if (ready == VKS_FAIL) { /* the ownership's wait point will never complete */
        vks_mutex_poison(surface->handle.page);
        return VKS_OK;
    }
    bool first = vks_surface_announce(surface, value); /* before the work can run and complete it */
    vks_status status = ready == VKS_READY ? draft.run(&draft) : vks_work_hold_copy(&draft, NULL);
    if (status && first) /* K24: nothing was signalled, so the release can be tried again */
        vks_surface_retract(surface, value);
    return status == VKS_ABANDONED ? VKS_OK : status; /* the chain is poisoned, so the release abandons */
}

/* Records this ownership's pattern, which the next one is expected to have. */
static void record_pattern(vks_surface *surface)
{
    surface->last_used_graphics = surface->uses_graphics;
    surface->had_one_submission = surface->submissions == 1;
    surface->uses_graphics = false;
    surface->submissions = 0;
}

/* Returns whether the release's value was already submitted (access.c, engine.c), with nothing
 * after it. */
static bool is_value_submitted(const vks_surface *surface)
{
    return surface->last_value && surface->acquire_submitted < surface->ownership.id && !surface->held;
}

static vks_status release_now(vks_surface *surface, uint64_t key, bool behind)
{
    const vks_ownership *ownership = &surface->ownership;
    uint64_t value = vks_surface_next_value(surface);
    vks_wait_point wait_point = {.value = value};
    /* Without submitted work the hand-over is complete. With no signaller no party reads
     * `completed`, so its cache line stays shared. */
    if (is_value_submitted(surface)) {
        wait_point = ownership->wait_point;
    } else if (behind || surface->acquire_submitted >= ownership->id ||
               !vks_wait_point_is_complete(surface, &ownership->wait_point) ||
               vks_surface_needs_release_barrier(surface)) {
        wait_point.signaller = surface->handle.identity;
        wait_point.signaller_slot = surface->handle.slot;
        if (behind) /* it has this value now, so no held submission may signal it when it runs (access.c) */
            surface->had_one_submission = false;
        vks_status status = vks_surface_submit_release(surface, value, behind);
        if (status)
            return status;
    }
    record_pattern(surface);
    if (!surface->has_page) /* the device was lost during the submission */
        return VKS_ABANDONED;
    if (surface->released < ownership->id) /* later ownerships may have been queued and released already */
        surface->released = ownership->id;
    atomic_store_explicit(&surface->has_page, false, memory_order_release);
    atomic_store_explicit(&surface->owned, 0, memory_order_release);
    return vks_mutex_release(&surface->handle, key, &wait_point);
}

VKS_TRACED static vks_status traced_release_now(vks_surface *surface, uint64_t key, bool behind)
{
    uint64_t began = vks_now(), epoch = vks_surface_epoch_after_release(surface),
             value = vks_surface_next_value(surface);
    vks_status status = release_now(surface, key, behind);
    vks_traced_release(surface, key, surface->announced == value ? value : 0, epoch, began, status);
    return status;
}

vks_status vks_surface_release_now(vks_surface *surface, uint64_t key, bool behind)
{
    return vks_tracing() ? traced_release_now(surface, key, behind) : release_now(surface, key, behind);
}

/* Holds the release of an acquire that is not granted yet. Caller holds device->lock. */
static vks_status queue_release(vks_surface *surface, uint64_t key)
{
    vks_access access;
    vks_work draft;
    vks_access_surface(&access, &vks_surface_release_access, surface, false);
    access.key = key;
    vks_work_draft(&draft, surface->device, VKS_WORK_RELEASE, vks_surface_run_release, &access, 1);
    uint64_t released = surface->released;
    surface->pending = false; /* before it is held, because the scheduler may run it at once */
    surface->released = access.ownership.id;
    vks_status status = vks_work_hold_copy(&draft, NULL);
    if (status) {
        surface->pending = true;
        surface->released = released;
    }
    return status;
}

vks_status vks_surface_release_as(vks_surface *surface, uint64_t key, bool by_queue)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    vks_mutex_will_swap(surface->handle.page);
    pthread_mutex_lock(&device->lock);
    if (surface->closed)
        status = VKS_CLOSED;
    else if (__builtin_expect(surface->is_presentable || surface->is_mirrored || (surface->network && !by_queue), 0))
        status = vks_surface_refuse_managed(surface);
    else if (surface->owned)
        status = vks_surface_release_now(surface, key, surface->held > 0 || device->presenting);
    else if (surface->is_external)
        status = vks_fail(VKS_BAD_CALL, 0, "another API has the surface: end its block first");
    else
        status = surface->pending ? queue_release(surface, key) : vks_surface_not_owned(surface);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_release(vks_surface *surface, uint64_t key)
{
    VKS_NEEDS(surface);
    return vks_surface_release_as(surface, key, false);
}
