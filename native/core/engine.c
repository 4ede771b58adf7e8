/* engine.c: work on a surface that is not submitted through vkshare: an engine's own, or another API's.
 *
 * The tenure's image and what it waits for go to the queue first; then others may have it. Binary semaphores are taken
 * as they are (Vulkan 7.4): each is waited for once for each time that it is signalled. */
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
