#include "queue/trace_points.h"

void vks_traced_queue(vks_trace_kind kind, const vks_queue_page *page, const vks_surface *surface, uint64_t epoch,
                      uint64_t began, vks_status status)
{
    uint64_t id = page->header.id;
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted(id, began);
    if (status == VKS_INTERRUPTED || status == VKS_TIMEOUT)
        return;
    vks_trace_record record = {.kind = (uint16_t)kind, .status = (uint16_t)status, .object = id};
    if (surface) {
        record.device = surface->device->number;
        record.key = surface->handle.page->header.id;
        record.order = epoch;
    }
    uint64_t taken = atomic_load(&page->taken), committed = atomic_load(&page->committed);
    record.value = committed > taken ? committed - taken : 0;
    vks_trace_write_wait(&record, began);
}
