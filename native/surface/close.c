/* close.c: the end of a handle: of its own accord, or with its device. */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "surface/surface.h"

#define WORK_NS UINT64_C(10000000000) /* work that has not run by then hangs */

void vks_surface_lost(vks_child *child)
{
    vks_surface *surface = vks_surface_of(child);
    vks_mutex_page *page = surface->handle.page;
    uint64_t pending_value = atomic_load(&page->slots[surface->handle.slot].pending_value);
    if (pending_value)
        vks_mutex_poison(page);
    if (surface->has_page)
        vks_mutex_abandon(&surface->handle);
    surface->has_page = false;
    surface->is_external = false;
    atomic_store(&surface->owned, 0);
    vks_mutex_wake_all(page); /* this device's sleepers check the device's state (X21), here and on value_seq */
    vks_surface_complete(surface, pending_value);
    if (surface->announced)
        vks_mutex_retract_queued(page, surface->announced);
}

void vks_surface_finish_releases(vks_surface *surface, uint64_t deadline)
{
    VKS_NEEDS_OR(, surface);
    vks_device *device = surface->device;
    if (surface->process != vks_process || !vks_device_enter(device)) /* already closed */
        return;
    if (!surface->closed && surface->held && !surface->has_page)
        while (vks_scheduler_finish(device, surface, deadline))
            ;
    vks_device_leave(device);
}

uint64_t vks_surface_close(vks_surface *surface)
{
    VKS_NEEDS_OR(0, surface);
    vks_surface_finish_releases(surface, vks_now() + VKS_RELEASE_GRACE_NS);
    return vks_surface_close_now(surface);
}

/* Gives the image back to VK_QUEUE_FAMILY_EXTERNAL, if this queue has it and no other handle here
 * will: the next owner acquires it from there. Else, behind an engine's work, submits a barrier, which
 * the close waits for. A closed or lost device cannot. Caller holds device->lock. */
static void give_image_back(vks_surface *surface)
{
    vks_device *device = surface->device;
    if ((!vks_surface_needs_release_barrier(surface) && !vks_surface_has_uncovered_work(surface)) ||
        vks_device_check(device) || vks_device_begin_present(device, vks_now() + VKS_RELEASE_GRACE_NS))
        return;
    if (!vks_device_check(device) && !vks_surface_release_for_export(surface) &&
        vks_surface_has_uncovered_work(surface) &&
        !vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS], (vks_point){0}))
        vks_surface_submit(surface, (vks_point){0}, surface->acquire_commands[VKS_GRAPHICS], (vks_point){0});
    vks_device_end_present(device);
}

/* Takes the handle from its device. *had: it owned the page. Returns the serial of its last work.
 * Caller holds device->lock. */
static uint64_t detach(vks_surface *surface, bool *had)
{
    vks_device *device = surface->device;
    vks_surface_fail_held(surface, false, VKS_CLOSED);
    surface->closed = true;
    vks_scheduler_run(device); /* the watcher drops this page */
    *had = surface->has_page;
    surface->has_page = surface->pending = false;
    if (!surface->is_external)
        give_image_back(surface);
    surface->is_external = false;
    atomic_store(&surface->owned, 0);
    vks_surface_changed(surface);
    vks_device_disown(device, VKS_SURFACES, &surface->child);
    return atomic_load(&surface->handle.page->slots[surface->handle.slot].pending_value) ? device->submitted
                                                                                         : surface->last_serial;
}

/* No party may acquire the surface while this handle's work still runs. A driver's work ends; that
 * of a lost device needs no wait. */
static void wait_for_work(vks_surface *surface, uint64_t serial)
{
    vks_device *device = surface->device;
    uint64_t limit = vks_now() + WORK_NS;
    while (vks_device_wait_serial(device, serial, limit) == VKS_INTERRUPTED)
        ;
    pthread_mutex_lock(&device->lock);
    vks_device_publish(device); /* completes this handle's values */
    while ((vks_device_awaits_external(device, &vks_surface_signal, surface, 0) ||
            vks_device_awaits_external(device, &vks_surface_gpu_wait, surface, 0)) &&
           vks_now() < limit) {
        pthread_mutex_unlock(&device->lock);
        usleep(200); /* external signals are polled, and their API may wait for a dead process's value */
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
    }
    vks_device_drop_external(device, surface, 0);
    pthread_mutex_unlock(&device->lock);
}

/* Lets the threads that sleep on the page return. */
static void wake_waiters(vks_surface *surface)
{
    while (atomic_load(&surface->waiting)) {
        vks_mutex_wake_all(surface->handle.page);
        vks_mutex_complete(&surface->handle, 0, 0); /* wakes the threads that wait for values */
        sched_yield();
    }
}

static void drop_semaphores(vks_surface *surface)
{
    vks_device *device = surface->device;
    pthread_mutex_lock(&device->lock);
    vks_surface_drop_semaphore(surface);
    if (surface->engine_semaphore)
        device->backend->destroy_timeline(device, surface->engine_semaphore);
    surface->engine_semaphore = 0;
    pthread_mutex_unlock(&device->lock);
}

uint64_t vks_surface_close_now(vks_surface *surface)
{
    VKS_NEEDS_OR(0, surface);
    vks_device *device = surface->device;
    if (surface->process != vks_process || !vks_device_enter(device)) /* already closed */
        return surface->last_serial;
    pthread_mutex_lock(&device->lock);
    bool had = false, was_closed = surface->closed;
    uint64_t serial = was_closed ? surface->last_serial : detach(surface, &had);
    pthread_mutex_unlock(&device->lock);
    if (!was_closed) {
        wait_for_work(surface, serial);
        if (had)
            vks_mutex_abandon(&surface->handle);
        wake_waiters(surface);
        if (surface->was_watched)
            vks_watcher_remove(surface);
        vks_peers_remove(&surface->mapping);
        vks_mutex_leave(&surface->handle);
        drop_semaphores(surface);
    }
    vks_device_leave(device);
    return serial;
}
