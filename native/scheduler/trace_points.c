#include "scheduler/trace_points.h"

#include "shm/queue_page.h"

#define SHORT_NS 1000 /* a wait shorter than this is not recorded */

static void write_ended(vks_trace_record *record, uint64_t began)
{
    record->begin = began;
    record->end = vks_now();
    vks_trace_write(record);
}

/* For calls that may have been interrupted before. */
static void write_waited(vks_trace_record *record, uint64_t began)
{
    write_ended(record, vks_trace_resume(record->object, began));
}

static uint64_t incomplete_value(const vks_mutex_page *page)
{
    return atomic_load(&page->signaller) ? atomic_load(&page->value) : 0;
}

void vks_traced_device(const vks_device *device)
{
    vks_trace_record record = {.kind = VKS_TRACE_DEVICE, .device = device->number};
    vks_trace_set_text(&record, device->name);
    write_ended(&record, vks_now());
}

/* ---- surfaces ---- */

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
    write_waited(&record, began);
}

void vks_traced_grant(const vks_work *op)
{
    const vks_surface *surface = op->touches[0].surface;
    vks_trace_record record = {.kind = VKS_TRACE_GRANT,
                               .device = op->device->number,
                               .begin = op->since,
                               .end = vks_now(),
                               .object = surface->handle.page->header.id,
                               .value = incomplete_value(surface->handle.page),
                               .key = op->key,
                               .order = vks_trace_epoch(surface),
                               .work = op->number};
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
    write_ended(&record, began);
}

/* Callable with or without device->lock, because id and number are constant. */
static void write_wait(vks_trace_kind kind, const vks_device *device, uint64_t id, uint64_t value, uint64_t began,
                       vks_status status)
{
    if (status == VKS_INTERRUPTED) {
        vks_trace_interrupted(id, began);
        return;
    }
    vks_trace_record record = {
        .kind = (uint16_t)kind, .status = (uint16_t)status, .device = device->number, .object = id, .value = value};
    if (kind != VKS_TRACE_ACCESS || vks_now() - vks_trace_resume(id, began) >= SHORT_NS)
        write_waited(&record, began);
}

void vks_traced_surface(vks_trace_kind kind, const vks_surface *surface, uint64_t began, uint64_t deadline,
                        vks_status status)
{
    if (status == VKS_TIMEOUT && !deadline)
        return;
    write_wait(kind, surface->device, surface->handle.page->header.id, 0, began, status);
}

void vks_traced_fence(vks_trace_kind kind, const vks_fence *fence, uint64_t value, uint64_t began, vks_status status)
{
    const vks_fence_page *page = fence->page;
    write_wait(kind, fence->device, page->header.id, value, began, status);
}

/* ---- work ---- */

static uint64_t id_of(const vks_fence *fence)
{
    const vks_fence_page *page = fence->page;
    return page->header.id;
}

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
        record.object = id_of(signals[0].fence);
        record.value = signals[0].value;
    }
    if (status == VKS_OK) {
        record.work = submission->op ? submission->op->number : 0;
        record.order = submission->op ? 0 : submission->serial;
    }
    write_ended(&record, vks_trace_resume(device->number, began));
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
    write_ended(&record, began);
}

void vks_traced_run(const vks_device *device, uint64_t serial, uint64_t began, bool ran)
{
    vks_trace_record record = {
        .kind = VKS_TRACE_RUN, .status = ran ? VKS_OK : VKS_DEVICE_LOST, .device = device->number, .order = serial};
    write_ended(&record, began);
}

void vks_traced_completion(vks_device *device, uint64_t serial)
{
    if (vks_device_reserve(device, 1) == VKS_OK)
        vks_device_add_completion(device, serial, VKS_COMPLETION_TRACE, device, vks_now());
    else
        vks_clear_error();
}

/* ---- holds ---- */

/* Returns the traced object: the surface that the operation touches, or the fence that it waits
 * for. */
static uint64_t traced_object(const vks_work *op)
{
    if (op->n_touches)
        return op->touches[0].surface->handle.page->header.id;
    return op->n_waits && op->waits[0].fence ? id_of(op->waits[0].fence) : 0;
}

static vks_trace_record held(vks_trace_kind kind, const vks_work *op)
{
    return (vks_trace_record){.kind = (uint16_t)kind,
                              .device = op->device->number,
                              .begin = op->since,
                              .end = vks_now(),
                              .object = traced_object(op),
                              .value = op->device->n_held,
                              .key = op->kind,
                              .work = op->number};
}

void vks_traced_hold(vks_work *op)
{
    op->since = vks_now();
    op->number = vks_trace_next();
    vks_trace_record record = held(VKS_TRACE_HOLD, op);
    record.end = record.begin;
    vks_trace_write(&record);
}

void vks_traced_let_go(const vks_work *op, vks_status why)
{
    vks_trace_record record = held(VKS_TRACE_LET_GO, op);
    record.status = (uint16_t)why;
    record.order = why ? 0 : atomic_load(&op->serial);
    vks_trace_write(&record);
}

/* ---- queues ---- */

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
    write_waited(&record, began);
}
