#include "surface/trace_points.h"

#define SHORT_NS 1000 /* a wait shorter than this is not recorded */

static uint64_t incomplete_value(const vks_mutex_page *page)
{
    return atomic_load(&page->signaller) ? atomic_load(&page->value) : 0;
}

void vks_traced_acquire(const vks_surface *surface, uint64_t key, uint64_t began, uint64_t deadline, vks_status status)
{
    uint64_t id = surface->handle.page->header.id;
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted(id, began);
    if (status == VKS_INTERRUPTED || (status == VKS_TIMEOUT && !deadline))
        return;
    vks_trace_record record = {.kind = VKS_TRACE_ACQUIRE,
                               .status = (uint16_t)status,
                               .device = surface->device->number,
                               .object = id,
                               .key = key};
    if (status == VKS_OK) {
        record.value = incomplete_value(surface->handle.page);
        record.order = vks_trace_epoch(surface);
    }
    vks_trace_write_wait(&record, began);
}

void vks_traced_grant(const vks_work *work)
{
    const vks_surface *surface = work->accesses[0].object;
    vks_trace_record record = {.kind = VKS_TRACE_GRANT,
                               .device = work->device->number,
                               .begin = work->since,
                               .end = vks_now(),
                               .object = surface->handle.page->header.id,
                               .value = incomplete_value(surface->handle.page),
                               .key = work->accesses[0].key,
                               .order = vks_trace_epoch(surface),
                               .work = work->number};
    vks_trace_write(&record);
}

void vks_traced_release(const vks_surface *surface, uint64_t key, uint64_t value, uint64_t epoch, uint64_t began,
                        vks_status status)
{
    vks_trace_record record = {.kind = VKS_TRACE_RELEASE,
                               .status = (uint16_t)status,
                               .device = surface->device->number,
                               .object = surface->handle.page->header.id,
                               .value = value,
                               .key = key,
                               .order = epoch};
    vks_trace_write_event(&record, began);
}

void vks_traced_surface(vks_trace_kind kind, const vks_surface *surface, uint64_t began, uint64_t deadline,
                        vks_status status)
{
    uint64_t id = surface->handle.page->header.id;
    if (status == VKS_TIMEOUT && !deadline)
        return;
    if (status == VKS_INTERRUPTED) {
        vks_trace_interrupted(id, began);
        return;
    }
    vks_trace_record record = {
        .kind = (uint16_t)kind, .status = (uint16_t)status, .device = surface->device->number, .object = id};
    if (kind != VKS_TRACE_ACCESS || vks_now() - vks_trace_resume(id, began) >= SHORT_NS)
        vks_trace_write_wait(&record, began);
}
