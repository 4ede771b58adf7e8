/* hold.c: acquires and releases that wait in the scheduler: of mode="gpu", granted when the page is
 * free. */
#include "surface/surface.h"
#include "surface/trace_points.h"

/* ---- a release of an acquire that was not granted yet ---- */

static void fail_release(const vks_access *access, const vks_work *work, vks_status why)
{
    vks_surface *surface = access->object;
    vks_surface_use.failed(access, work, why);
    if (vks_access_had_ownership(access) && surface->has_page && !surface->closed) {
        surface->has_page = false; /* release() was called already, and no other call will release the page */
        vks_mutex_abandon(&surface->handle);
    }
}

vks_status vks_surface_run_release(vks_work *work)
{
    vks_surface *surface = work->accesses[0].object;
    vks_status status = vks_surface_release_now(surface, work->accesses[0].key, false);
    atomic_store(&work->serial, surface->last_serial);
    return status == VKS_ABANDONED ? VKS_OK : status;
}

const vks_access_class vks_surface_release_access = {
    .ready = vks_surface_use_ready,
    .watch = vks_surface_watch_values,
    .is_watched = vks_surface_is_watched,
    .failed = fail_release,
    .held = vks_surface_hold_use,
    .id = vks_surface_access_id,
    .unblocks = true,
    .ref = vks_surface_ref_object,
    .unref = vks_surface_unref_object,
};

/* ---- an acquire of mode="gpu" ---- */

/* Copies a granted ownership to the held operations that were submitted in it, because the handle
 * may have another ownership by the time they run. */
static void record_grant(const vks_surface *surface)
{
    for (vks_work *work = vks_scheduler_first(surface->device); work; work = work->next)
        for (uint32_t i = 0; i < work->n_accesses; i++) {
            vks_access *access = &work->accesses[i];
            if (access->object == surface && access->ownership.id == surface->ownership.id && !access->granted) {
                access->ownership = surface->ownership;
                access->granted = true;
            }
        }
}

static void watch_key(const vks_access *access, vks_watch_list *list)
{
    vks_surface *surface = access->object;
    if (surface->closed)
        return;
    vks_watch_word(list, &surface->handle.page->seq, vks_mutex_prepare_wait(surface->handle.page, access->key));
    vks_peers_watch_page(&surface->mapping);
}

static vks_status run_acquire(vks_work *work)
{
    vks_surface *surface = work->accesses[0].object;
    vks_wait_point wait_point;
    uint64_t seen;
    vks_status status =
        surface->closed ? VKS_CLOSED : vks_mutex_try(&surface->handle, work->accesses[0].key, &wait_point, &seen);
    if (status)
        return status;
    vks_surface_begin_ownership(surface, work->accesses[0].ownership.id, &wait_point);
    record_grant(surface);
    VKS_TRACE(work->since, vks_traced_grant(work));
    return VKS_OK;
}

static void hold_acquire(const vks_access *access, int by)
{
    vks_surface *surface = access->object;
    vks_surface_hold_use(access, by);
    surface->held_acquires += (uint32_t)by;
    vks_slot *slot = &surface->handle.page->slots[surface->handle.slot]; /* for vkshare ps */
    if (by > 0)
        atomic_store(&slot->waiting_key, access->key);
    atomic_store(&slot->waiting_since, by > 0 ? vks_now() : 0);
}

static void fail_acquire(const vks_access *access, const vks_work *work, vks_status why)
{
    (void)work;
    vks_surface_fail_pending(access, why);
}

const vks_access_class vks_surface_acquire_access = {
    .watch = watch_key,
    .is_watched = vks_surface_is_watched,
    .failed = fail_acquire,
    .held = hold_acquire,
    .id = vks_surface_access_id,
    .ref = vks_surface_ref_object,
    .unref = vks_surface_unref_object,
};

vks_status vks_surface_hold_acquire(vks_surface *surface, uint64_t key, vks_work **out)
{
    surface->next_ownership++;
    vks_access access;
    vks_work draft;
    vks_access_surface(&access, &vks_surface_acquire_access, surface, false);
    access.key = key;
    vks_work_draft(&draft, surface->device, VKS_WORK_ACQUIRE, run_acquire, &access, 1);
    surface->pending = true;
    vks_status status = vks_work_hold_copy(&draft, out);
    if (status)
        surface->pending = false;
    vks_surface_changed(surface);
    return status;
}
