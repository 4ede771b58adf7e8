/* engine.c: work on a surface that is not submitted through vkshare: an engine's own, or another API's.
 *
 * Where these share no more than a semaphore made for it, the tenure's image and what it waits for go to the queue
 * first; then others may have it. Binary semaphores are taken as they are (Vulkan 7.4): each is waited for once for
 * each time that it is signalled.
 *
 * An API that imported the surface's own semaphore (CUDA) needs no work of the queue: it waits for the value that the
 * tenure took over, and signals the next one. The image stays with VK_QUEUE_FAMILY_EXTERNAL, and the tenure goes on as
 * if it had just begun, and taken over that value. */
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

/* Commands of this device were submitted in the tenure, after whatever other APIs did. */
static bool is_used(const vks_surface *surface) { return surface->taken >= surface->tenure.id; }

/* Under the lock, with the queue to ourselves: what this device and its CPU did on the surface comes before the value
 * that the tenure takes over from then on. */
static vks_status bring(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_promise(surface, value, false);
    if (status)
        return status;
    if (vks_mutex_is_broken(surface->handle.page))
        return VKS_ABANDONED;
    surface->tenure.debt = (vks_debt){value, surface->handle.identity, surface->handle.slot};
    surface->taken = surface->tenure.id - 1;
    return VKS_OK;
}

static vks_status lend(vks_surface *surface, bool by_queue, uint64_t *value)
{
    vks_device *device = surface->device;
    const vks_debt *debt = &surface->tenure.debt;
    vks_touch touch = {.surface = surface, .tenure = surface->tenure, .granted = true};
    vks_op draft = {.kind = VKS_OP_SUBMIT, .device = device, .touches = &touch, .n_touches = 1};
    vks_status why, status;
    if (!surface->owned)
        return VKS_NOT_OWNER;
    vks_readiness ready = surface->held ? VKS_HOLD : vks_op_ready(device, &draft, &why);
    if (ready == VKS_FAIL)
        return why;
    if (ready == VKS_HOLD || (!by_queue && is_used(surface)))
        return VKS_INTERRUPTED; /* it was otherwise a moment ago */
    if ((status = vks_device_reserve_outside(device, 1)) || (by_queue && (status = bring(surface))))
        return status;
    *value = vks_debt_settled(surface, debt) ? 0 : debt->value;
    if (*value)
        vks_device_due_outside(device, VKS_DUE_SURFACE_WAIT, surface, *value);
    surface->lent = true;
    vks_surface_lend(surface, false); /* its own commands would not be in order */
    return VKS_OK;
}

/* Without the lock: until what the tenure took over, and its own work so far, is with a driver. */
static vks_status wait_certain(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (surface->lent)
        return vks_fail(VKS_BAD_CALL, 0, "another API has the surface already: end its block first");
    if (!surface->semaphore || !vks_surface_original(surface)->is_shared)
        return vks_fail(VKS_UNSUPPORTED, 0, "the surface has no timeline semaphore that another API could import");
    if ((status = vks_surface_wait_certain(surface, deadline)) || !surface->held)
        return status;
    return vks_device_wait_held(surface->device, 0, surface, deadline);
}

vks_status vks_surface_lend_out(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = wait_certain(surface, deadline);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    bool by_queue = after_cpu || is_used(surface);
    if (by_queue)
        vks_device_begin_present(device); /* not one of ours, but the queue must be free just so */
    if (!(status = vks_surface_check(surface)))
        status = lend(surface, by_queue, value);
    if (by_queue)
        vks_device_end_present(device);
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
    *value = vks_surface_next_value(surface);
    if (!(status = vks_surface_check(surface)) && !surface->lent)
        status = VKS_NOT_OWNER;
    if (!status)
        status = vks_surface_check_value(surface, *value);
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
    uint64_t next = vks_surface_next_value(surface);
    if (surface->closed)
        status = VKS_CLOSED;
    else if (!surface->lent)
        status = VKS_NOT_OWNER;
    else if (value && value != next)
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the surface's next value is %llu", (unsigned long long)next);
    else if (value)
        status = vks_device_reserve_outside(device, 1);
    if (!status && value) {
        surface->outside = surface->promised = value;
        vks_surface_owe(surface, value); /* before others may wait for it */
        vks_mutex_queued(surface->handle.page, value);
        vks_device_due_outside(device, VKS_DUE_SURFACE, surface, value);
        surface->tenure.debt = (vks_debt){value, surface->handle.identity, surface->handle.slot};
    }
    if (!status) {
        surface->lent = false;
        vks_surface_lend(surface, true);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
