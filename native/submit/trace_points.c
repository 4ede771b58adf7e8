#include "submit/trace_points.h"

void vks_traced_submit(const vks_device *device, const vks_submit_info *info, const vks_signal *signals,
                       const vks_submission *submission, uint64_t began, vks_status status)
{
    if (status == VKS_INTERRUPTED) {
        vks_trace_interrupted(device->number, began);
        return;
    }
    vks_trace_record record = {
        .kind = VKS_TRACE_SUBMIT, .status = (uint16_t)status, .device = device->number, .key = info->n_commands};
    if (info->n_signals) {
        record.object = vks_fence_page_of(signals[0].fence)->header.id;
        record.value = signals[0].value;
    }
    if (status == VKS_OK) {
        record.work = submission->op ? submission->op->number : 0;
        record.order = submission->op ? 0 : submission->serial;
    }
    vks_trace_write_event(&record, vks_trace_resume(device->number, began));
}
