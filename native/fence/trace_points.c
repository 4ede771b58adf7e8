#include "fence/trace_points.h"

/* Callable with or without device->lock, because id and number are constant. */
void vks_traced_fence(vks_trace_kind kind, const vks_fence *fence, uint64_t value, uint64_t began, vks_status status)
{
    uint64_t id = vks_fence_page_of(fence)->header.id;
    if (status == VKS_INTERRUPTED) {
        vks_trace_interrupted(id, began);
        return;
    }
    vks_trace_record record = {.kind = (uint16_t)kind,
                               .status = (uint16_t)status,
                               .device = fence->device->number,
                               .object = id,
                               .value = value};
    vks_trace_write_wait(&record, began);
}
