/* image.c: which queue family owns the image; and the export, which passes it to others.
 *
 * While no other process can have the surface open, a hand-over between handles of this device
 * needs no queue-family transfer: the queue runs their work in order, and each command list begins
 * with a memory barrier and ends with a barrier to the host. So the image stays with the queue
 * family, and a release submits nothing. The first export ends that.
 */
#include <unistd.h>

#include "surface/surface.h"

bool vks_surface_is_transferred(const vks_surface *surface)
{
    const vks_surface *original = vks_surface_original(surface);
    return surface->release_commands[VKS_GRAPHICS] && (original->is_shared || original->layout_unknown);
}

bool vks_surface_needs_release_barrier(const vks_surface *surface)
{
    return vks_surface_is_transferred(surface) && vks_surface_original(surface)->owned_by_queue;
}

static bool will_be_released(const vks_device *device, const vks_surface *original)
{
    for (const vks_surface *s = vks_surface_first(device); s; s = vks_surface_next(s))
        if (s->has_page && vks_surface_original(s) == original)
            return true;
    for (const vks_work *work = vks_scheduler_first(device); work; work = work->next)
        if (work->accesses[0].class == &vks_surface_release_batch &&
            vks_surface_original(work->accesses[0].object) == original)
            return true;
    return false;
}

vks_status vks_surface_submit(vks_surface *surface, vks_point wait, uint64_t commands, vks_point signal)
{
    vks_batch batch = {
        .waits = &wait,
        .signals = &signal,
        .buffers = &commands,
        .n_waits = wait.semaphore != 0,
        .n_signals = signal.semaphore != 0,
        .n_buffers = commands != 0,
    };
    vks_status status = vks_device_submit(surface->device, &batch);
    if (!status)
        vks_surface_use_in(surface, batch.serial);
    return status;
}

vks_status vks_surface_release_for_export(vks_surface *surface)
{
    vks_surface *original = vks_surface_original(surface);
    if (!vks_surface_needs_release_barrier(surface) || will_be_released(surface->device, original))
        return VKS_OK;
    vks_status status = VKS_OK;
    if (original->initial_commands)
        status = vks_surface_submit(surface, (vks_point){0}, original->initial_commands, (vks_point){0});
    if (status)
        return status;
    original->initial_commands = 0;
    status = vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS], (vks_point){0});
    if (status == VKS_OK) {
        original->owned_by_queue = original->layout_unknown = false;
        original->exported_at = surface->last_serial;
    }
    return status;
}

/* ---- export ---- */

/* Releases the image for the first export and waits for that batch, because another device's work
 * must come after it and no wait point covers it. */
static vks_status transfer_for_export(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_surface *original = vks_surface_original(surface);
    vks_status status = VKS_OK;
    pthread_mutex_lock(&device->lock);
    original->is_shared = true;
    if (vks_surface_needs_release_barrier(surface)) {
        /* not a present, but the queue must be free in the same way */
        if ((status = vks_device_begin_present(device, VKS_FOREVER))) {
            pthread_mutex_unlock(&device->lock);
            return status;
        }
        if (!(status = vks_surface_check(surface)))
            status = vks_surface_release_for_export(surface);
        vks_device_end_present(device);
    }
    uint64_t serial = original->exported_at;
    pthread_mutex_unlock(&device->lock);
    return status || !serial ? status : vks_device_wait_serial(device, serial, VKS_FOREVER);
}

static vks_status check_shared(const vks_surface *surface)
{
    vks_status status = vks_surface_check(surface);
    return !status && surface->is_presentable
               ? vks_fail(VKS_UNSUPPORTED, 0, "a swapchain's image has no memory of its own to export")
               : status;
}

/* Caller holds device->lock. */
static vks_status duplicate_page(const vks_surface *surface, int *page_fd)
{
    vks_status status = check_shared(surface);
    return status ? status : vks_duplicate_fd(surface->page_fd, "the surface's page", page_fd);
}

vks_status vks_surface_page(const vks_surface *surface, int *page_fd)
{
    VKS_NEEDS(surface, page_fd);
    *page_fd = -1;
    vks_status status = check_shared(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&surface->device->lock);
    status = duplicate_page(surface, page_fd);
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

vks_status vks_surface_export(vks_surface *surface, int *page_fd, int *semaphore_fd)
{
    VKS_NEEDS(surface, page_fd, semaphore_fd);
    *page_fd = *semaphore_fd = -1;
    vks_device *device = surface->device;
    vks_status status = check_shared(surface);
    if (status || (status = transfer_for_export(surface)))
        return status;
    pthread_mutex_lock(&device->lock); /* prevents close() from destroying the semaphore */
    if (!(status = duplicate_page(surface, page_fd)) && surface->semaphore &&
        (status = device->backend->export_timeline(device, surface->semaphore, semaphore_fd))) {
        close(*page_fd);
        *page_fd = -1;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
