/* work.c: the operation as an object. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/trace_points.h"

static vks_work *create(vks_device *device, vks_work_kind kind, uint32_t n_accesses, uint32_t n_commands,
                        uint32_t n_raw)
{
    vks_work *work = calloc(1, sizeof *work + n_accesses * sizeof *work->accesses +
                                   n_commands * sizeof *work->commands + n_raw * sizeof *work->raw);
    if (!work)
        return NULL;
    work->accesses = (vks_access *)(work + 1);
    work->commands = (vks_commands **)(work->accesses + n_accesses);
    work->raw = (uint64_t *)(work->commands + n_commands);
    work->n_accesses = n_accesses;
    work->n_commands = n_commands;
    work->n_raw = n_raw;
    work->kind = kind;
    work->device = device;
    vks_device_ref(device);
    work->references = 1;
    work->state = VKS_WORK_HELD;
    return work;
}

void vks_work_ref(vks_work *work)
{
    VKS_NEEDS_OR(, work);
    atomic_fetch_add(&work->references, 1);
}

static void drop_events(vks_work *work)
{
    for (size_t i = 0; i < work->n_events; i++)
        vks_event_queue_unref(work->events[i].event_queue);
    free(work->events);
    work->events = NULL;
    work->n_events = 0;
}

static void drop_references(vks_work *work)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        work->accesses[i].class->unref(work->accesses[i].object);
    for (uint32_t i = 0; i < work->n_commands; i++)
        vks_commands_unref(work->commands[i]);
    work->n_accesses = work->n_commands = 0;
    drop_events(work);
}

void vks_work_unref(vks_work *work)
{
    VKS_NEEDS_OR(, work);
    if (atomic_fetch_sub(&work->references, 1) != 1)
        return;
    drop_references(work);
    vks_device_unref(work->device);
    free(work);
}

vks_readiness vks_work_ready(const vks_work *work, vks_status *why)
{
    bool hold = false;
    for (uint32_t i = 0; i < work->n_accesses; i++) {
        vks_access *access = &work->accesses[i];
        vks_readiness ready = access->class->ready ? access->class->ready(access, work, why) : VKS_READY;
        if (ready == VKS_FAIL)
            return VKS_FAIL;
        hold |= ready == VKS_HOLD;
    }
    return hold ? VKS_HOLD : VKS_READY;
}

/* ---- holding ---- */

/* Takes over the reference. */
static void hold(vks_work *work)
{
    vks_device *device = work->device;
    vks_scheduler_add(work);
    device->statistics.held_total++;
    if (vks_tracing())
        vks_traced_hold(work);
    vks_scheduler_run(device);
    if (device->polled_waits)
        device->backend->wake_publisher(device);
}

static vks_work *copy(const vks_work *from)
{
    vks_work *work = create(from->device, from->kind, from->n_accesses, from->n_commands, from->n_raw);
    if (!work)
        return NULL;
    work->run = from->run;
    work->has_grace = from->has_grace;
    work->may_signal_release = from->may_signal_release;
    work->is_barrier = from->is_barrier;
    for (uint32_t i = 0; i < from->n_accesses; i++) {
        work->accesses[i] = from->accesses[i];
        work->accesses[i].class->ref(work->accesses[i].object);
    }
    for (uint32_t i = 0; i < from->n_commands; i++) {
        work->commands[i] = from->commands[i];
        vks_commands_ref(work->commands[i]);
    }
    if (from->n_raw)
        memcpy(work->raw, from->raw, from->n_raw * sizeof *work->raw);
    return work;
}

vks_status vks_work_hold_copy(const vks_work *draft, vks_work **out)
{
    bool is_watched = false;
    for (uint32_t i = 0; i < draft->n_accesses; i++)
        is_watched |= draft->accesses[i].class->is_watched && draft->accesses[i].class->is_watched(&draft->accesses[i]);
    vks_status status = is_watched ? vks_watcher_start() : VKS_OK;
    if (status)
        return status;
    vks_work *work = copy(draft);
    if (!work)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a held operation");
    if (out) {
        vks_work_ref(work);
        *out = work;
    }
    hold(work);
    return VKS_OK;
}

/* Returns whether held operations may wait for what this one does. */
static bool unblocks(const vks_work *work)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->unblocks)
            return true;
    return false;
}

vks_status vks_work_submit_or_hold(vks_work *draft, bool behind, bool may_hold, vks_work **held)
{
    vks_device *device = draft->device;
    vks_status status = VKS_OK;
    *held = NULL;
    vks_readiness ready = behind ? VKS_HOLD : vks_work_ready(draft, &status);
    if (ready == VKS_FAIL)
        return status;
    if (ready == VKS_HOLD || device->presenting) {
        if (!may_hold)
            return VKS_TIMEOUT;
        /* Reading a fence may have found the device lost. */
        return (status = vks_device_check(device)) ? status : vks_work_hold_copy(draft, held);
    }
    status = vks_work_submit(draft);
    if (status == VKS_OK && device->n_held && unblocks(draft))
        vks_scheduler_run(device);
    return status;
}

/* ---- the end ---- */

/* Finishes an operation that left the list. `why` VKS_OK: it was submitted, or granted. */
static void finish(vks_work *work, vks_status why)
{
    VKS_TRACE(work->since, vks_traced_let_go(work, why));
    work->failure = why;
    atomic_store(&work->state, why ? VKS_WORK_FAILED : VKS_WORK_SUBMITTED);
    for (size_t i = 0; i < work->n_events; i++) /* batch.c takes those of a submitted operation */
        vks_event_queue_push(work->events[i].event_queue, work->events[i].token, why);
    drop_references(work);
    vks_device_progress(work->device);
    vks_work_unref(work);
}

void vks_work_fail(vks_work *work, vks_status why)
{
    vks_scheduler_remove(work);
    work->device->statistics.failed++;
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->failed)
            work->accesses[i].class->failed(&work->accesses[i], work, why);
    finish(work, why);
}

bool vks_work_complete(vks_work *work)
{
    bool any = unblocks(work);
    vks_scheduler_remove(work);
    finish(work, VKS_OK);
    return any;
}

vks_status vks_work_poll(vks_work *work)
{
    VKS_NEEDS(work);
    return work->device->process != vks_process ? VKS_FORKED : vks_work_status(work);
}

vks_status vks_work_cancel(vks_work *work)
{
    VKS_NEEDS(work);
    vks_device *device = work->device;
    if (device->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_work_status(work);
    if (vks_work_is_held(work))
        vks_work_fail(work, VKS_CLOSED);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_work_add_event(vks_work *work, vks_event_queue *event_queue, uint64_t token)
{
    vks_work_event *events = realloc(work->events, (work->n_events + 1) * sizeof *events);
    if (!events)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an event");
    work->events = events;
    events[work->n_events++] = (vks_work_event){event_queue, token};
    vks_event_queue_ref(event_queue);
    return VKS_OK;
}

vks_status vks_work_notify(vks_work *work, vks_event_queue *event_queue, uint64_t token)
{
    VKS_NEEDS(work, event_queue);
    vks_device *device = work->device;
    if (device->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_work_status(work), result = VKS_OK;
    if (vks_work_is_held(work))
        result = vks_work_add_event(work, event_queue, token);
    else
        vks_event_queue_push(event_queue, token, status);
    pthread_mutex_unlock(&device->lock);
    return result;
}
