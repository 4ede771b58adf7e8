/* engine.c: work on a surface that is not submitted through vkshare: an engine's own, or an
 * external API's.
 *
 * An engine or API that shares only a semaphore made for this use gets the surface after the queue
 * has acquired its image and waited for the previous owner. Binary semaphores follow Vulkan 7.4:
 * each signal is waited for exactly once.
 *
 * An API that imported the surface's own semaphore (CUDA) needs no work in the queue: it waits for
 * the ownership's wait point and signals the next value. The image stays with
 * VK_QUEUE_FAMILY_EXTERNAL, and that value becomes the ownership's wait point.
 */
#include "surface/surface.h"

/* Waits on the CPU where the GPU cannot, and until the previous owner's release is with a driver.
 * Caller does not hold device->lock. */
static vks_status prepare(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (!surface->device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no semaphores");
    if (!surface->owned)
        return vks_surface_not_owned(surface);
    return surface->semaphore ? vks_surface_wait_submittable(surface, deadline)
                              : vks_surface_wait_complete(surface, deadline);
}

/* Takes the device's lock and exclusive use of the queue, as a present does. */
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

/* Submits the acquire of the image to the queue. `in_order`: what follows in the queue relies on it as
 * a barrier. Caller holds device->lock and has exclusive use of the queue. */
static vks_status submit_acquire(vks_surface *surface, bool in_order, uint64_t *serial)
{
    vks_access access;
    vks_work draft;
    vks_status why;
    vks_access_surface(&access, &vks_surface_use, surface, true);
    vks_work_draft(&draft, surface->device, VKS_WORK_SUBMIT, vks_work_submit, &access, 1);
    draft.is_barrier = in_order;
    if (!surface->owned)
        return vks_surface_not_owned(surface);
    if (surface->held || vks_work_ready(&draft, &why) != VKS_READY)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "work of this owner on the surface is held: wait for it before others may use the surface");
    vks_status status = vks_work_submit(&draft);
    *serial = atomic_load(&draft.serial);
    return status;
}

/* The engine's submissions in this ownership are in order, and nothing of this device came since. */
static bool is_in_order(const vks_surface *surface)
{
    return surface->owned && surface->acquire_submitted >= surface->ownership.id &&
           surface->last_serial == surface->engine_serial;
}

/* Returns whether this ownership follows an engine's turn on this queue alone: its release ended with a
 * barrier for all that follows (access.c). */
static bool is_visible(const vks_surface *surface)
{
    const vks_surface *original = vks_surface_original(surface);
    const vks_wait_point *wait_point = &surface->ownership.wait_point;
    vks_status why;
    return surface->owned && !surface->held && !surface->is_presentable && original->owned_by_queue &&
           !original->is_shared && !original->initial_commands && original->visible_serial &&
           original->visible_serial == original->used_serial && vks_ownership_ready(surface, &why) == VKS_READY &&
           (vks_wait_point_is_complete(surface, wait_point) ||
            vks_wait_point_is_ordered(surface->device, surface, wait_point));
}

/* Begins the ownership in the queue without a batch; returns the serial that it follows. */
static uint64_t begin_visible(vks_surface *surface)
{
    vks_surface *original = vks_surface_original(surface);
    surface->acquire_submitted = surface->ownership.id;
    original->visible_serial = 0; /* the engine's own work has no serial, and a release may fail */
    vks_surface_use_in(surface, original->used_serial);
    return original->used_serial;
}

/* Caller holds device->lock and has exclusive use of the queue. */
static vks_status sync(vks_surface *surface, vks_semaphore_point *wait, vks_semaphore_point *signal)
{
    vks_device *device = surface->device;
    uint64_t serial = surface->engine_serial;
    vks_status status = VKS_OK;
    if (signal && !surface->engine_semaphore && surface->owned)
        status = device->backend->create_timeline(device, surface->engine_value, &surface->engine_semaphore);
    if (!status && (signal || !is_in_order(surface))) {
        if (!signal && is_visible(surface))
            serial = begin_visible(surface);
        else
            status = submit_acquire(surface, !signal, &serial);
    }
    if (status)
        return status;
    surface->engine_serial = serial;
    surface->writes++;                                         /* for all that is known */
    surface->engine_value += signal || !surface->engine_value; /* 1 without a semaphore: an engine uses it */
    *wait = (vks_semaphore_point){device->timeline, serial};
    if (signal)
        *signal = (vks_semaphore_point){surface->engine_semaphore, surface->engine_value};
    surface->is_engine_in_queue = !signal;
    vks_surface_original(surface)->layout_unknown |= signal != NULL;
    return VKS_OK;
}

vks_status vks_surface_sync(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                            vks_semaphore_point *signal)
{
    VKS_NEEDS(surface, wait);
    vks_status status = prepare(surface, deadline);
    if (status)
        return status;
    if ((status = lock_queue(surface->device, deadline)))
        return status;
    status = sync(surface, wait, signal);
    unlock_queue(surface->device);
    return status;
}

bool vks_surface_has_engine_work(const vks_surface *surface)
{
    return surface->is_engine_in_queue && is_in_order(surface);
}

vks_status vks_surface_follow_engine(vks_surface *surface, uint64_t deadline, uint64_t *serial)
{
    vks_status status = lock_queue(surface->device, deadline);
    if (status)
        return status;
    if (vks_surface_has_engine_work(surface)) /* no other thread was first */
        status = submit_acquire(surface, true, serial);
    else
        *serial = surface->last_serial;
    unlock_queue(surface->device);
    return status;
}

vks_status vks_surface_release_to_external(vks_surface *surface, uint64_t deadline, uint64_t semaphore)
{
    VKS_NEEDS(surface);
    vks_device *device = surface->device;
    uint64_t serial;
    vks_status status = prepare(surface, deadline);
    if (status)
        return status;
    if ((status = lock_queue(device, deadline)))
        return status;
    if (!(status = submit_acquire(surface, false, &serial)))
        status = vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS],
                                    (vks_point){semaphore, 0});
    unlock_queue(device);
    return status;
}

vks_status vks_surface_acquire_from_external(vks_surface *surface, uint64_t semaphore)
{
    VKS_NEEDS(surface);
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

/* ---- external APIs on the surface's own semaphore ---- */

/* Caller holds device->lock. */
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

/* Returns whether a batch must come first: the image belongs to this queue family, or the wait
 * point has no signal yet that the API could wait for. */
static bool needs_batch(const vks_surface *surface)
{
    vks_status ignored;
    return surface->acquire_submitted >= surface->ownership.id || vks_surface_needs_release_barrier(surface) ||
           vks_wait_point_ready(NULL, surface, &surface->ownership.wait_point, &ignored) == VKS_HOLD;
}

/* Signals a value after the earlier work of this device and its CPU; the value becomes the
 * ownership's wait point. Caller has exclusive use of the queue. */
static vks_status signal_own_work(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_submit_release(surface, value, false);
    if (status)
        return status;
    if (vks_mutex_is_poisoned(surface->handle.page))
        return VKS_ABANDONED;
    vks_surface_continue_after(surface, value);
    return VKS_OK;
}

static vks_status begin_external(vks_surface *surface, bool by_queue, uint64_t *value)
{
    vks_device *device = surface->device;
    const vks_wait_point *wait_point = &surface->ownership.wait_point;
    vks_status why, status = check_external(surface);
    if (status)
        return status;
    vks_readiness ready = vks_ownership_is_held(surface) ? VKS_HOLD : vks_ownership_ready(surface, &why);
    if (ready == VKS_FAIL)
        return why;
    if (ready == VKS_HOLD || (!by_queue && needs_batch(surface)))
        return VKS_INTERRUPTED; /* the state changed before the lock was taken; the caller calls again */
    if ((status = vks_device_reserve_external(device)) || (by_queue && (status = signal_own_work(surface))))
        return status;
    *value = vks_wait_point_is_complete(surface, wait_point) ? 0 : wait_point->value;
    if (*value)
        vks_device_add_external(device, &vks_surface_gpu_wait, surface, surface->semaphore, *value, 0);
    surface->is_external = true;
    surface->external_value = 0;
    surface->writes++;                          /* for all that is known */
    vks_surface_set_accessible(surface, false); /* commands of this device would not be ordered */
    return VKS_OK;
}

/* Blocks until the ownership's wait point and its own work so far are with a driver. Caller does
 * not hold device->lock. */
static vks_status wait_submittable(vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_surface_wait_submittable(surface, deadline);
    return !status && surface->held ? vks_surface_wait_held(surface, deadline) : status;
}

vks_status vks_surface_external_begin(vks_surface *surface, bool after_cpu, uint64_t deadline, uint64_t *value)
{
    VKS_NEEDS(surface, value);
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    status = check_external(surface);
    pthread_mutex_unlock(&device->lock);
    if (status || (status = wait_submittable(surface, deadline)))
        return status;
    pthread_mutex_lock(&device->lock);
    bool by_queue = after_cpu || needs_batch(surface);
    if (!by_queue || !(status = vks_device_begin_present(device, deadline))) {
        status = begin_external(surface, by_queue, value);
        if (by_queue)
            vks_device_end_present(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status == VKS_INTERRUPTED && !deadline ? VKS_TIMEOUT : status;
}

/* Announces the next value in the page and adds its completion, before the API's work can run.
 * Caller holds device->lock. */
static vks_status announce_external(vks_surface *surface)
{
    uint64_t value = vks_surface_next_value(surface);
    vks_status status = vks_surface_check_value(surface, value);
    if (status || (status = vks_device_reserve_external(surface->device)))
        return status;
    vks_surface_announce(surface, value);
    vks_device_add_external(surface->device, &vks_surface_signal, surface, surface->semaphore, value, 0);
    surface->external_value = value;
    return VKS_OK;
}

vks_status vks_surface_external_signal_value(vks_surface *surface, uint64_t *value)
{
    VKS_NEEDS(surface, value);
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)) && !surface->is_external)
        status = vks_surface_not_owned(surface);
    if (!status && !surface->external_value)
        status = announce_external(surface);
    *value = surface->external_value;
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_external_end(vks_surface *surface, uint64_t value)
{
    VKS_NEEDS(surface);
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)) && !surface->is_external)
        status = vks_surface_not_owned(surface);
    else if (!status && value && value != surface->external_value)
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the value to signal is %llu (0: none was requested yet)",
                          (unsigned long long)surface->external_value);
    if (!status && value) {
        surface->announced = value;
        vks_mutex_publish_queued(surface->handle.page, value);
        vks_surface_continue_after(surface, value);
    } else if (!status && surface->external_value) {
        vks_device_drop_external(device, surface, surface->external_value);
        vks_surface_retract(surface, surface->external_value);
    }
    if (!status) {
        surface->is_external = false;
        vks_surface_set_accessible(surface, true);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Returns the last outstanding value of an external API for this handle; 0: none. */
static uint64_t last_external(const vks_surface *surface)
{
    const vks_completions *all = &surface->device->completions;
    uint64_t last = 0;
    for (size_t i = 0; i < all->n_external; i++) {
        const vks_completion *completion = &all->external[i].completion;
        if (completion->class == &vks_surface_signal && completion->object == surface && completion->value > last)
            last = completion->value;
    }
    return last;
}

vks_status vks_surface_external_lost(vks_surface *surface)
{
    VKS_NEEDS(surface);
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface))) {
        vks_device_publish(device); /* values that were reached before count */
        uint64_t last = last_external(surface);
        /* Poison first, so that no party takes the completed value for a complete frame. */
        if (last || surface->is_external)
            vks_mutex_poison(surface->handle.page);
        vks_device_drop_external(device, surface, 0);
        if (last) /* device/completions.h ends GPU waits for it, once no slot has it pending */
            vks_surface_complete(surface, last);
        if (surface->is_external)
            vks_surface_set_accessible(surface, true);
        surface->is_external = false;
        vks_scheduler_run(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
