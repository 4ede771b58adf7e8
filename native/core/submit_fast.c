/* submit_fast.c: the submission that most are, on the shortest way to the driver. Under the device's lock.
 *
 * Nothing is held, the queue is free, and it waits for nothing; it can go where the last batch went; no other API is to
 * signal a fence that it signals; every surface that it touches is owned, and its acquire was given to the driver with
 * earlier work. Then nothing can keep it back and nobody else's promise is involved. What it does is what
 * vks_work_submit() (batch.c) does for such an operation.
 */
#include "device.h"
#include "trace_points.h"

#define SMALL 8

bool vks_submit_is_fast(const vks_device *device, const vks_submit_info *info)
{
    if (!device->timeline || device->n_held || device->presenting || info->n_waits || info->n_raw ||
        info->n_commands > SMALL || info->n_signals > SMALL)
        return false;
    for (uint32_t i = 0; i < info->n_signals; i++) {
        const vks_fence *fence = info->signals[i].fence;
        if (fence->device != device || fence->external_signal || vks_fence_follows_external(fence))
            return false;
    }
    for (uint32_t i = 0; i < info->n_commands; i++) {
        const vks_commands *commands = info->commands[i];
        if (commands->device != device || !commands->buffers[device->family]) /* it needs the other queue */
            return false;
        for (size_t u = 0; u < commands->n_uses; u++) {
            const vks_surface *surface = commands->uses[u].surface;
            if (surface->closed || !surface->owned || surface->acquire_submitted < surface->ownership.id ||
                (device->family != VKS_GRAPHICS && surface->engine_value))
                return false;
        }
    }
    return true;
}

static void remember(const vks_submit_info *info, const vks_signal *signals, uint64_t serial)
{
    for (uint32_t i = 0; i < info->n_commands; i++) {
        vks_commands *commands = info->commands[i];
        atomic_store_explicit(&commands->last_serial, serial, memory_order_release);
        for (size_t u = 0; u < commands->n_uses; u++) {
            vks_surface *surface = commands->uses[u].surface;
            atomic_store_explicit(&surface->last_serial, serial, memory_order_release);
            surface->uses_graphics |= !commands->buffers[VKS_TRANSFER];
            surface->submissions++; /* or more often, which says the same: not one */
        }
    }
    for (uint32_t i = 0; i < info->n_signals; i++)
        vks_fence_queue(signals[i].fence, signals[i].value, serial);
}

vks_status vks_submit_fast(vks_device *device, const vks_submit_info *info, const vks_signal *signals, uint64_t *serial)
{
    vks_point points[SMALL];
    uint64_t buffers[SMALL];
    size_t completions = 0;
    for (uint32_t i = 0; i < info->n_signals; i++) {
        points[i] = (vks_point){signals[i].fence->semaphore, signals[i].value};
        completions += vks_fence_is_watched(signals[i].fence);
    }
    vks_status status = completions ? vks_device_reserve(device, completions) : VKS_OK;
    if (status)
        return status;
    for (uint32_t i = 0; i < info->n_commands; i++)
        buffers[i] = info->commands[i]->buffers[device->family];
    *serial = atomic_load_explicit(&device->submitted, memory_order_relaxed) + 1;
    vks_batch batch = {.family = device->family,
                       .signals = points,
                       .buffers = buffers,
                       .n_signals = info->n_signals,
                       .n_buffers = info->n_commands,
                       .serial = *serial};
    uint64_t began = vks_trace_begin();
    status = device->backend->submit(device, &batch);
    VKS_TRACE(began, vks_traced_batch(device, &batch, 0, began, status));
    if (status) {
        if (status == VKS_DEVICE_LOST)
            vks_device_lose(device);
        return status;
    }
    atomic_store_explicit(&device->submitted, *serial, memory_order_release);
    remember(info, signals, *serial);
    vks_trace_completion(device, *serial);
    return VKS_OK;
}
