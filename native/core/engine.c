/* engine.c: work on a surface that is not submitted through vkshare: an engine's own, or another API's.
 *
 * Where these share no more than a semaphore made for it, the tenure's image and what it waits for go to the queue
 * first; then others may have it. Binary semaphores are taken as they are (Vulkan 7.4): each is waited for once for
 * each time that it is signalled.
 *
 * An API that imported the surface's own semaphore (CUDA) needs no work of the queue: it waits for the value that the
 * tenure took over, and signals the one that its release promises. The image stays with VK_QUEUE_FAMILY_EXTERNAL. */
#include "device.h"

/* Before the lock is taken: what the GPU cannot wait for, the CPU does. */
static vks_status prepare(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (!surface->device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no semaphores");
    if (!surface->owned)
        return VKS_NOT_OWNER;
    return surface->semaphore ? VKS_OK : vks_surface_wait_settled(surface, deadline);
}

/* The queue takes the image over from the owners before. Under the lock, with the queue to ourselves. */
static vks_status take_over(vks_surface *surface, uint64_t *serial)
{
    vks_device *device = surface->device;
    vks_touch touch = {.surface = surface, .tenure = surface->tenure, .granted = true};
    vks_op draft = {.kind = VKS_OP_SUBMIT, .device = device, .touches = &touch, .n_touches = 1};
    vks_status why;
    if (!surface->owned)
        return VKS_NOT_OWNER;
    if (surface->held || vks_op_ready(device, &draft, &why) != VKS_READY)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "work on this surface is held; wait for it (device.wait_idle()) before others may use it");
    vks_status status = vks_op_hand_over(device, &draft);
    *serial = atomic_load(&draft.serial);
    return status;
}

vks_status vks_surface_sync(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                            vks_semaphore_point *signal)
{
    vks_device *device = surface->device;
    uint64_t serial;
    vks_status status = prepare(surface, deadline);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    vks_device_begin_present(device); /* not one of ours, but the queue must be free just so */
    if (!surface->engine_semaphore && surface->owned)
        status = device->backend->create_timeline(device, 0, &surface->engine_semaphore);
    if (!status && !(status = take_over(surface, &serial))) {
        *wait = (vks_semaphore_point){device->timeline, serial};
        *signal = (vks_semaphore_point){surface->engine_semaphore, ++surface->engine_value};
        vks_surface_original(surface)->is_raw = true; /* nobody knows what barriers it has */
    }
    vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_hand_out(vks_surface *surface, uint64_t deadline, uint64_t semaphore)
{
    vks_device *device = surface->device;
    uint64_t serial;
    vks_status status = prepare(surface, deadline);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    vks_device_begin_present(device);
    if (!(status = take_over(surface, &serial)))
        status = vks_surface_submit(surface, (vks_point){0}, surface->release_commands, (vks_point){semaphore, 0});
    vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_take_back(vks_surface *surface, uint64_t semaphore)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    vks_device_begin_present(device);
    status = !device->timeline ? vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no semaphores")
             : surface->closed ? VKS_CLOSED
             : !surface->owned
                 ? VKS_NOT_OWNER
                 : vks_surface_submit(surface, (vks_point){semaphore, 0}, surface->acquire_commands, (vks_point){0});
    vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- by the surface's own semaphore ---- */

static vks_status refuse_used(const vks_surface *surface)
{
    if (surface->lent)
        return vks_fail(VKS_BAD_CALL, 0, "another API has worked on the surface since it was acquired: release it");
    return surface->held || surface->taken >= surface->tenure.id
               ? vks_fail(VKS_BAD_CALL, 0,
                          "commands were submitted to the surface since it was acquired: release it to another key, "
                          "and acquire that, before another API works on it")
               : VKS_OK;
}

/* Under the lock. */
static vks_status lend(vks_surface *surface, uint64_t *value)
{
    vks_device *device = surface->device;
    const vks_debt *debt = &surface->tenure.debt;
    vks_touch touch = {.surface = surface, .tenure = surface->tenure, .granted = true};
    vks_op draft = {.kind = VKS_OP_SUBMIT, .device = device, .touches = &touch, .n_touches = 1};
    vks_status why, status = refuse_used(surface);
    if (status)
        return status;
    if (!surface->owned)
        return VKS_NOT_OWNER;
    vks_readiness ready = vks_op_ready(device, &draft, &why);
    if (ready != VKS_READY)
        return ready == VKS_FAIL ? why : VKS_INTERRUPTED; /* it was certain a moment ago */
    if ((status = vks_device_reserve_outside(device, 1)))
        return status;
    *value = vks_debt_settled(surface, debt) ? 0 : debt->value;
    if (*value)
        vks_device_due_outside(device, VKS_DUE_SURFACE_WAIT, surface, *value);
    surface->lent = VKS_LENT;
    vks_surface_lend(surface, false); /* its own commands would not be in order */
    return VKS_OK;
}

vks_status vks_surface_lend_out(vks_surface *surface, uint64_t deadline, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (!status && (!surface->semaphore || !vks_surface_original(surface)->is_shared))
        status = vks_fail(VKS_UNSUPPORTED, 0, "the surface has no timeline semaphore that another API could import");
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    status = surface->closed ? VKS_CLOSED : refuse_used(surface);
    pthread_mutex_unlock(&device->lock);
    if (status || (status = vks_surface_wait_certain(surface, deadline)))
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)))
        status = lend(surface, value);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_lent_value(vks_surface *surface, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    *value = atomic_load(&surface->handle.page->value) + 1;
    if (!(status = vks_surface_check(surface)) && surface->lent != VKS_LENT)
        status = VKS_NOT_OWNER;
    if (!status && !(status = vks_surface_check_value(surface, *value)) &&
        !(status = vks_device_reserve_outside(device, 1)))
        vks_surface_owe(surface, *value); /* before its work can be done */
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_lent_back(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    uint64_t next = atomic_load(&surface->handle.page->value) + 1;
    if (surface->closed)
        status = VKS_CLOSED;
    else if (surface->lent != VKS_LENT)
        status = VKS_NOT_OWNER;
    else if (value && (value != next || vks_device_reserve_outside(device, 1)))
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the surface's next value is %llu", (unsigned long long)next);
    if (!status && value) {
        surface->lent = VKS_LENT_BACK;
        surface->outside = surface->promised = value;
        vks_mutex_queued(surface->handle.page, value);
        vks_device_due_outside(device, VKS_DUE_SURFACE, surface, value);
    } else if (!status) {
        surface->lent = VKS_NOT_LENT;
        vks_surface_owe_no_more(surface, next);
        vks_surface_lend(surface, true);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
