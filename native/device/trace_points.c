#include "device/trace_points.h"

void vks_traced_device(const vks_device *device)
{
    vks_trace_record record = {.kind = VKS_TRACE_DEVICE, .device = device->number};
    vks_trace_set_text(&record, device->name);
    vks_trace_write_event(&record, vks_now());
}

void vks_traced_batch(const vks_device *device, const vks_batch *batch, uint64_t work, uint64_t began,
                      vks_status status)
{
    vks_trace_record record = {.kind = VKS_TRACE_BATCH,
                               .status = (uint16_t)status,
                               .device = device->number,
                               .key = batch->family,
                               .order = batch->serial,
                               .work = work};
    vks_trace_write_event(&record, began);
}

static void record_run(const vks_completion *completion, bool ran)
{
    const vks_device *device = completion->object;
    vks_trace_record record = {.kind = VKS_TRACE_RUN,
                               .status = ran ? VKS_OK : VKS_DEVICE_LOST,
                               .device = device->number,
                               .order = completion->serial};
    vks_trace_write_event(&record, completion->value);
}

void vks_traced_completion(vks_device *device, uint64_t serial)
{
    static const vks_completion_class traced_run = {.run = record_run};
    if (vks_device_reserve(device, 1) == VKS_OK)
        vks_device_add_completion(device, serial, &traced_run, device, vks_now());
    else
        vks_clear_error();
}
