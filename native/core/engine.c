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
    return surface->semaphore ? VKS_OK : vks_surface_wait_complete(surface, deadline);
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
    vks_touch touch = {.surface = surface, .ownership = surface->ownership, .granted = true};
    vks_work draft = {.kind = VKS_WORK_SUBMIT, .device = device, .touches = &touch, .n_touches = 1};
    vks_status why;
    if (!surface->owned)
        return vks_surface_not_owned(surface);
    if (surface->held || vks_work_ready(device, &draft, &why) != VKS_READY)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "work on this surface is held; wait for it (device.wait_idle()) before others may use it");
    vks_status status = vks_work_submit(device, &draft);
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
        vks_surface_original(surface)->layout_unknown = true; /* nobody knows what barriers it has */
    }
    unlock_queue(device);
    return status;
}

vks_status vks_surface_release_to_external(vks_surface *surface, uint64_t deadline, uint64_t semaphore)
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

vks_status vks_surface_acquire_from_external(vks_surface *surface, uint64_t semaphore)
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
static vks_status check_external(const vks_surface *surface)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (!surface->semaphore || !vks_surface_original(surface)->is_shared)
        return vks_fail(VKS_UNSUPPORTED, 0, "the surface has no timeline semaphore that another API could import");
    if (surface->is_external)
        return vks_fail(VKS_BAD_CALL, 0, "another API has the surface already: end its block first");
    return surface->owned ? VKS_OK : vks_surface_not_owned(surface);
}

/* Whether a batch must come first: the image is the queue's, or what the API is to wait for gets no semaphore. */
static bool needs_queue(const vks_surface *surface)
{
    vks_status ignored;
    return surface->acquire_submitted >= surface->ownership.id || vks_surface_needs_release_barrier(surface) ||
           vks_ownership_ready_external(surface, &ignored) == VKS_HOLD;
}

/* With the queue to ourselves: what this device and its CPU did on the surface comes before a value, which is what the
 * tenure takes over from then on. */
static vks_status bring(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_submit_release(surface, value, false);
    if (status)
        return status;
    if (vks_mutex_is_poisoned(surface->handle.page))
        return VKS_ABANDONED;
    vks_surface_take_over_own(surface, value);
    return VKS_OK;
}

static vks_status lend(vks_surface *surface, bool by_queue, uint64_t *value)
{
    vks_device *device = surface->device;
    const vks_wait_point *wait_point = &surface->ownership.wait_point;
    vks_status why, status = check_external(surface);
    if (status)
        return status;
    vks_readiness ready = vks_ownership_is_held(surface) ? VKS_HOLD : vks_ownership_ready(surface, &why);
    if (ready == VKS_FAIL)
        return why;
    if (ready == VKS_HOLD || (!by_queue && needs_queue(surface)))
        return VKS_INTERRUPTED; /* it was otherwise a moment ago */
    if ((status = vks_device_reserve_external_completion(device)) || (by_queue && (status = bring(surface))))
        return status;
    *value = vks_wait_point_is_complete(surface, wait_point) ? 0 : wait_point->value;
    if (*value)
        vks_device_add_external_completion(device, VKS_COMPLETION_SURFACE_WAIT, surface, *value, 0);
    surface->is_external = true;
    surface->external_value = 0;
    vks_surface_set_accessible(surface, false); /* its own commands would not be in order */
    return VKS_OK;
}

/* Without the lock: until what the tenure took over, and its own work so far, is with a driver. */
static vks_status wait_certain(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_wait_certain(surface, deadline);
    return !status && surface->held ? vks_device_wait_held(surface->device, 0, surface, deadline) : status;
}

vks_status vks_surface_external_begin(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface); /* first: after fork() the lock may be held for ever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    status = check_external(surface);
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
    if (status || (status = vks_device_reserve_external_completion(surface->device)))
        return status;
    vks_surface_announce(surface, value);
    vks_device_add_external_completion(surface->device, VKS_COMPLETION_SURFACE, surface, value, 0);
    surface->external_value = value;
    return VKS_OK;
}

vks_status vks_surface_external_signal_value(vks_surface *surface, uint64_t *value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)) && !surface->is_external)
        status = vks_surface_not_owned(surface);
    if (!status && !surface->external_value)
        status = offer(surface);
    *value = surface->external_value;
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_external_end(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)) && !surface->is_external)
        status = vks_surface_not_owned(surface);
    else if (!status && value && value != surface->external_value)
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the value to signal is %llu (0: nobody asked for it yet)",
                          (unsigned long long)surface->external_value);
    if (!status && value) {
        surface->announced = value;
        vks_mutex_queued(surface->handle.page, value);
        vks_surface_take_over_own(surface, value);
    } else if (!status && surface->external_value) {
        vks_device_drop_external_completions(device, surface, surface->external_value);
        vks_surface_retract(surface, surface->external_value);
    }
    if (!status) {
        surface->is_external = false;
        vks_surface_set_accessible(surface, true);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* The last value that another API was to bring for this handle; 0: none is outstanding. */
static uint64_t last_external(const vks_surface *surface)
{
    const vks_device *device = surface->device;
    uint64_t last = 0;
    for (size_t i = 0; i < device->n_external; i++) {
        const vks_completion *completion = &device->external[i];
        if (completion->kind == VKS_COMPLETION_SURFACE && completion->object == surface && completion->value > last)
            last = completion->value;
    }
    return last;
}

vks_status vks_surface_external_lost(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface))) {
        vks_device_publish(device); /* what came before counts */
        uint64_t last = last_external(surface);
        if (last || surface->is_external)
            vks_mutex_poison(surface->handle.page); /* before: nobody is to take what was settled for a whole frame */
        vks_device_drop_external_completions(device, surface, 0);
        if (last) /* whose queue waits for it is helped by orphaned_waits.c, once nobody owes it */
            vks_surface_complete(surface, last);
        if (surface->is_external)
            vks_surface_set_accessible(surface, true);
        surface->is_external = false;
        vks_scheduler_run(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
