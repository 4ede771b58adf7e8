/* submit_fast.c: the shortest path to the driver, for the most common submissions. Caller holds
 * device->lock.
 *
 * Conditions: the device is a Vulkan device, nothing is held, no present uses the queue, the
 * submission has no raw command buffers, at most SMALL lists and signals, and no waits, the queue of
 * the last batch can run it, no external API is about to signal one of its fences, and every touched
 * surface is owned with its acquire already submitted. So nothing can hold the
 * submission back, and no other party's pending value is involved. The effect is that of
 * vks_work_submit() (native/scheduler/batch.c).
 */
#include "device/trace_points.h"
#include "submit/submit.h"

#define SMALL 8

bool vks_submit_is_fast(const vks_device *device, const vks_submit_info *info)
{
    if (!device->timeline || device->n_held || device->presenting || info->n_waits || info->n_raw ||
        info->n_commands > SMALL || info->n_signals > SMALL)
        return false;
    for (uint32_t i = 0; i < info->n_signals; i++) {
        const vks_fence *fence = info->signals[i].fence;
        if (!fence || fence->device != device || fence->external_signal || vks_fence_follows_external(fence))
            return false;
    }
    for (uint32_t i = 0; i < info->n_commands; i++) {
        const vks_commands *commands = info->commands[i];
        if (!commands || commands->device != device ||
            !commands->buffers[device->family]) /* it needs the other queue */
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

static void record_submission(const vks_submit_info *info, const vks_signal *signals, uint64_t serial)
{
    for (uint32_t i = 0; i < info->n_commands; i++) {
        vks_commands *commands = info->commands[i];
        atomic_store_explicit(&commands->last_serial, serial, memory_order_release);
        for (size_t u = 0; u < commands->n_uses; u++) {
            vks_surface *surface = commands->uses[u].surface;
            /* a surface may count twice; only "exactly one" matters */
            vks_surface_record_batch(surface, serial, !commands->buffers[VKS_TRANSFER], false);
            surface->writes += commands->uses[u].writes;
        }
    }
    for (uint32_t i = 0; i < info->n_signals; i++)
        vks_fence_signal_submitted(signals[i].fence, signals[i].value, serial);
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
    vks_batch batch = {.family = device->family,
                       .signals = points,
                       .buffers = buffers,
                       .n_signals = info->n_signals,
                       .n_buffers = info->n_commands};
    uint64_t began = vks_trace_begin();
    status = vks_device_submit(device, &batch);
    VKS_TRACE(began, vks_traced_batch(device, &batch, 0, began, status));
    if (status)
        return status;
    *serial = batch.serial;
    record_submission(info, signals, *serial);
    vks_trace_completion(device, *serial);
    return VKS_OK;
}
