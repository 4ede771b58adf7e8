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
        return vks_surface_not_owned(surface);
    return surface->semaphore ? VKS_OK : vks_surface_wait_settled(surface, deadline);
}

/* The device's lock, and the queue to ourselves: not for a present of ours, but it must be free just so. */
static vks_status lock_queue(vks_device *device, uint64_t deadline)
{
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_begin_present(device, deadline);
    if (status)
        pthread_mutex_unlock(&device->lock);
    return status;
}

static void unlock_queue(vks_device *device)
{
    vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
}

/* The queue takes the image over from the owners before. Under the lock, with the queue to ourselves. */
static vks_status take_over(vks_surface *surface, uint64_t *serial)
{
    vks_device *device = surface->device;
    vks_touch touch = {.surface = surface, .tenure = surface->tenure, .granted = true};
    vks_op draft = {.kind = VKS_OP_SUBMIT, .device = device, .touches = &touch, .n_touches = 1};
    vks_status why;
    if (!surface->owned)
        return vks_surface_not_owned(surface);
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
    if ((status = lock_queue(device, deadline)))
        return status;
    if (!surface->engine_semaphore && surface->owned)
        status = device->backend->create_timeline(device, 0, &surface->engine_semaphore);
    if (!status && !(status = take_over(surface, &serial))) {
        *wait = (vks_semaphore_point){device->timeline, serial};
        *signal = (vks_semaphore_point){surface->engine_semaphore, ++surface->engine_value};
        vks_surface_original(surface)->is_raw = true; /* nobody knows what barriers it has */
    }
    unlock_queue(device);
    return status;
}

vks_status vks_surface_hand_out(vks_surface *surface, uint64_t deadline, uint64_t semaphore)
{
    vks_device *device = surface->device;
    uint64_t serial;
    vks_status status = prepare(surface, deadline);
    if (status)
        return status;
    if ((status = lock_queue(device, deadline)))
        return status;
    if (!(status = take_over(surface, &serial)))
        status = vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS],
                                    (vks_point){semaphore, 0});
    unlock_queue(device);
    return status;
}

vks_status vks_surface_take_back(vks_surface *surface, uint64_t semaphore)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if ((status = lock_queue(device, VKS_FOREVER)))
        return status;
    status = !device->timeline ? vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no semaphores")
             : surface->closed ? VKS_CLOSED
             : !surface->owned ? vks_surface_not_owned(surface)
                               : vks_surface_submit(surface, (vks_point){semaphore, 0},
                                                    surface->acquire_commands[VKS_GRAPHICS], (vks_point){0});
    unlock_queue(device);
    return status;
}

/* ---- by the surface's own semaphore ---- */

/* Under the lock. */
static vks_status check_lendable(const vks_surface *surface)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (!surface->semaphore || !vks_surface_original(surface)->is_shared)
        return vks_fail(VKS_UNSUPPORTED, 0, "the surface has no timeline semaphore that another API could import");
    if (surface->lent)
        return vks_fail(VKS_BAD_CALL, 0, "another API has the surface already: end its block first");
    return surface->owned ? VKS_OK : vks_surface_not_owned(surface);
}

/* Whether a batch must come first: the image is the queue's, or what the API is to wait for gets no semaphore. */
static bool needs_queue(const vks_surface *surface)
{
    vks_status ignored;
    return surface->taken >= surface->tenure.id || vks_surface_goes_out(surface) ||
           vks_tenure_ready_outside(surface, &ignored) == VKS_HOLD;
}

/* With the queue to ourselves: what this device and its CPU did on the surface comes before a value, which is what the
 * tenure takes over from then on. */
static vks_status bring(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_promise(surface, value, false);
    if (status)
        return status;
    if (vks_mutex_is_broken(surface->handle.page))
        return VKS_ABANDONED;
    vks_surface_take_over_own(surface, value);
    return VKS_OK;
}

static vks_status lend(vks_surface *surface, bool by_queue, uint64_t *value)
{
    vks_device *device = surface->device;
    const vks_debt *debt = &surface->tenure.debt;
    vks_status why, status = check_lendable(surface);
    if (status)
        return status;
    vks_readiness ready = vks_tenure_is_held(surface) ? VKS_HOLD : vks_tenure_ready(surface, &why);
    if (ready == VKS_FAIL)
        return why;
    if (ready == VKS_HOLD || (!by_queue && needs_queue(surface)))
        return VKS_INTERRUPTED; /* it was otherwise a moment ago */
    if ((status = vks_device_reserve_outside(device)) || (by_queue && (status = bring(surface))))
        return status;
    *value = vks_debt_settled(surface, debt) ? 0 : debt->value;
    if (*value)
        vks_device_due_outside(device, VKS_DUE_SURFACE_WAIT, surface, *value, 0);
    surface->lent = true;
    surface->offered = 0;
    vks_surface_lend(surface, false); /* its own commands would not be in order */
    return VKS_OK;
}

/* Without the lock: until what the tenure took over, and its own work so far, is with a driver. */
static vks_status wait_certain(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_wait_certain(surface, deadline);
    return !status && surface->held ? vks_device_wait_held(surface->device, 0, surface, deadline) : status;
}

vks_status vks_surface_lend_out(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface); /* first: after fork() the lock may be held for ever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    status = check_lendable(surface);
    pthread_mutex_unlock(&device->lock);
    if (status || (status = wait_certain(surface, deadline)))
        return status;
    pthread_mutex_lock(&device->lock);
    bool by_queue = after_cpu || needs_queue(surface);
    if (!by_queue || !(status = vks_device_begin_present(device, deadline))) {
        status = lend(surface, by_queue, value);
        if (by_queue)
            vks_device_end_present(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status == VKS_INTERRUPTED && !deadline ? VKS_TIMEOUT : status;
}

/* Under the lock. The page tells of the promise, and the publisher looks for the value, before its work can be done. */
static vks_status offer(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_check_value(surface, value);
    if (status || (status = vks_device_reserve_outside(surface->device)))
        return status;
    vks_surface_owe(surface, value);
    vks_device_due_outside(surface->device, VKS_DUE_SURFACE, surface, value, 0);
    surface->offered = value;
    return VKS_OK;
}

vks_status vks_surface_lent_value(vks_surface *surface, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)) && !surface->lent)
        status = vks_surface_not_owned(surface);
    if (!status && !surface->offered)
        status = offer(surface);
    *value = surface->offered;
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
    if (!(status = vks_surface_check(surface)) && !surface->lent)
        status = vks_surface_not_owned(surface);
    else if (!status && value && value != surface->offered)
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the value to signal is %llu (0: nobody asked for it yet)",
                          (unsigned long long)surface->offered);
    if (!status && value) {
        surface->promised = value;
        vks_mutex_queued(surface->handle.page, value);
        vks_surface_take_over_own(surface, value);
    } else if (!status && surface->offered) {
        vks_device_forget_outside(device, surface, surface->offered);
        vks_surface_owe_no_more(surface, surface->offered);
    }
    if (!status) {
        surface->lent = false;
        vks_surface_lend(surface, true);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* The last value that another API was to bring for this handle; 0: none is outstanding. */
static uint64_t last_outside(const vks_surface *surface)
{
    const vks_device *device = surface->device;
    uint64_t last = 0;
    for (size_t i = 0; i < device->n_outside; i++) {
        const vks_due *due = &device->outside[i];
        if (due->kind == VKS_DUE_SURFACE && due->object == surface && due->value > last)
            last = due->value;
    }
    return last;
}

vks_status vks_surface_outside_lost(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface))) {
        vks_device_publish(device); /* what came before counts */
        uint64_t last = last_outside(surface);
        if (last || surface->lent)
            vks_mutex_break(surface->handle.page); /* before: nobody is to take what was settled for a whole frame */
        vks_device_forget_outside(device, surface, 0);
        if (last) /* whose queue waits for it is helped by stuck.c, once nobody owes it */
            vks_surface_settle(surface, last);
        if (surface->lent)
            vks_surface_lend(surface, true);
        surface->lent = false;
        vks_device_pump(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
