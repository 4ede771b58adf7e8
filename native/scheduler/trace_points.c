#include "scheduler/trace_points.h"

static vks_trace_record held(vks_trace_kind kind, const vks_work *work)
{
    const vks_access *first = work->n_accesses ? &work->accesses[0] : NULL;
    return (vks_trace_record){.kind = (uint16_t)kind,
                              .device = work->device->number,
                              .begin = work->since,
                              .end = vks_now(),
                              .object = first && first->class->id ? first->class->id(first) : 0,
                              .value = work->device->n_held,
                              .key = work->kind,
                              .work = work->number};
}

void vks_traced_hold(vks_work *work)
{
    work->since = vks_now();
    work->number = vks_trace_next();
    vks_trace_record record = held(VKS_TRACE_HOLD, work);
    record.end = record.begin;
    vks_trace_write(&record);
}

void vks_traced_let_go(const vks_work *work, vks_status why)
{
    vks_trace_record record = held(VKS_TRACE_LET_GO, work);
    record.status = (uint16_t)why;
    record.order = why ? 0 : atomic_load(&work->serial);
    vks_trace_write(&record);
}
