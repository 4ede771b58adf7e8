/* batch.c: an operation becomes one batch of the driver. */
#include <stdlib.h>

#include "device/trace_points.h"
#include "scheduler/scheduler.h"

/* ---- a wait for an earlier submission of the device ---- */

static vks_readiness submission_ready(vks_access *access, const vks_work *work, vks_status *why)
{
    (void)work;
    const vks_work *earlier = access->object;
    if (earlier && vks_work_is_held(earlier))
        return VKS_HOLD;
    *why = earlier ? vks_work_status(earlier) : VKS_OK;
    return *why ? VKS_FAIL : VKS_READY;
}

static void wait_for_submission(vks_access *access, const vks_work *work, vks_batch_draft *draft)
{
    const vks_work *earlier = access->object;
    if (work->device->timeline) /* the CPU backend runs in order */
        vks_draft_wait(draft, work->device->timeline, earlier ? atomic_load(&earlier->serial) : access->value);
}

static void ref_work(void *work)
{
    if (work)
        vks_work_ref(work);
}

static void unref_work(void *work)
{
    if (work)
        vks_work_unref(work);
}

const vks_access_class vks_submission_access = {
    .ready = submission_ready, .before = wait_for_submission, .ref = ref_work, .unref = unref_work};

/* ---- events ---- */

static void push_event(const vks_completion *completion, bool ran)
{
    vks_event_queue_push(completion->object, completion->value, ran ? VKS_OK : VKS_DEVICE_LOST);
}

static void ref_event_queue(void *event_queue) { vks_event_queue_ref(event_queue); }
static void unref_event_queue(void *event_queue) { vks_event_queue_unref(event_queue); }

const vks_completion_class vks_event_completion = {
    .run = push_event, .ref = ref_event_queue, .unref = unref_event_queue};

static void complete_events(vks_work *work, uint64_t serial)
{
    for (size_t i = 0; i < work->n_events; i++) {
        vks_device_add_completion(work->device, serial, &vks_event_completion, work->events[i].event_queue,
                                  work->events[i].token);
        vks_event_queue_unref(work->events[i].event_queue);
    }
    work->n_events = 0;
}

/* ---- choice of the queue ----
 *
 * A transfer-only family is a separate copy engine, which runs beside CUDA. Between graphics and
 * CUDA the GPU switches contexts, which takes longer than most hand-overs. Both queues share one
 * order (native/backend/vulkan.c), so the choice affects only time. Work that only copies, or only
 * releases, begins on the transfer queue if the graphics queue is idle; later work stays there
 * until it needs graphics. A handle that used graphics in its last ownership is expected to do so
 * again, and begins with graphics.
 */
static vks_family choose_family(vks_device *device, const vks_work *work)
{
    if (!device->has_transfer || work->n_raw)
        return VKS_GRAPHICS;
    unsigned needs = 0;
    for (uint32_t i = 0; i < work->n_commands; i++)
        if (!work->commands[i]->buffers[VKS_TRANSFER])
            return VKS_GRAPHICS;
    for (uint32_t i = 0; i < work->n_accesses; i++)
        needs |= work->accesses[i].class->queue_needs ? work->accesses[i].class->queue_needs(&work->accesses[i]) : 0;
    if (needs & VKS_GRAPHICS_ONLY)
        return VKS_GRAPHICS;
    bool may_begin = device->family == VKS_GRAPHICS && needs == VKS_BEGINS_OWNERSHIP &&
                     (work->n_commands || work->kind == VKS_WORK_RELEASE);
    return may_begin && device->backend->completed(device) >= device->submitted ? VKS_TRANSFER : device->family;
}

/* ---- building the batch ---- */

#define SMALL 24u

typedef struct scratch {
    vks_point small_waits[SMALL], small_signals[SMALL];
    uint64_t small_buffers[SMALL];
    void *big; /* one block for all three arrays if they do not fit */
} scratch;

static vks_status make_room(scratch *s, vks_batch_draft *draft, const vks_work *work)
{
    size_t waits = (size_t)work->n_accesses * VKS_ACCESS_WAITS, signals = (size_t)work->n_accesses * VKS_ACCESS_SIGNALS,
           buffers = (size_t)work->n_accesses * VKS_ACCESS_BUFFERS + work->n_commands + work->n_raw;
    draft->waits = s->small_waits;
    draft->signals = s->small_signals;
    draft->buffers = s->small_buffers;
    s->big = NULL;
    if (waits <= SMALL && signals <= SMALL && buffers <= SMALL)
        return VKS_OK;
    if (!(s->big = malloc((waits + signals) * sizeof(vks_point) + buffers * sizeof(uint64_t))))
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a batch of %zu waits, %zu signals and %zu command buffers",
                        waits, signals, buffers);
    draft->waits = s->big;
    draft->signals = draft->waits + waits;
    draft->buffers = (uint64_t *)(draft->signals + signals);
    return VKS_OK;
}

static void add_commands(vks_batch_draft *draft, const vks_work *work)
{
    if (!work->device->timeline) {
        draft->batch.commands = work->commands;
        draft->batch.n_commands = work->n_commands;
        return;
    }
    for (uint32_t i = 0; i < work->n_commands; i++)
        vks_draft_buffer(draft, work->commands[i]->buffers[draft->batch.family]);
    for (uint32_t i = 0; i < work->n_raw; i++)
        vks_draft_buffer(draft, work->raw[i]);
}

/* Undoes prepare() of the first n accesses. */
static void refuse(const vks_work *work, uint32_t n)
{
    while (n--)
        if (work->accesses[n].class->refused)
            work->accesses[n].class->refused(&work->accesses[n]);
}

static vks_status prepare(vks_work *work)
{
    for (uint32_t i = 0; i < work->n_accesses; i++) {
        vks_access *access = &work->accesses[i];
        vks_status status = access->class->prepare ? access->class->prepare(access, work) : VKS_OK;
        if (__builtin_expect(status, 0)) {
            refuse(work, i);
            return status;
        }
    }
    return VKS_OK;
}

static void fill(vks_batch_draft *draft, const vks_work *work)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->before)
            work->accesses[i].class->before(&work->accesses[i], work, draft);
    add_commands(draft, work);
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->after)
            work->accesses[i].class->after(&work->accesses[i], work, draft);
    draft->batch.waits = draft->waits;
    draft->batch.signals = draft->signals;
    draft->batch.buffers = draft->buffers;
}

static vks_status submit_batch(vks_device *device, const vks_work *work)
{
    scratch s;
    vks_batch_draft draft;
    draft.batch.family = choose_family(device, work);
    draft.batch.n_waits = draft.batch.n_signals = draft.batch.n_buffers = draft.batch.n_commands = 0;
    draft.completions = work->n_events;
    vks_status status = make_room(&s, &draft, work);
    if (status)
        return status;
    fill(&draft, work);
    if (!(status = vks_device_reserve(device, draft.completions))) {
        uint64_t began = vks_trace_begin();
        status = vks_device_submit(device, &draft.batch);
        VKS_TRACE(began, vks_traced_batch(device, &draft.batch, work->number, began, status));
    }
    if (__builtin_expect(s.big != NULL, 0))
        free(s.big);
    return status;
}

vks_status vks_work_submit(vks_work *work)
{
    vks_device *device = work->device;
    vks_status status = prepare(work);
    if (status)
        return status;
    if ((status = submit_batch(device, work))) {
        refuse(work, work->n_accesses);
        return status;
    }
    uint64_t serial = atomic_load_explicit(&device->submitted, memory_order_relaxed);
    atomic_store_explicit(&work->serial, serial, memory_order_release);
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->submitted)
            work->accesses[i].class->submitted(&work->accesses[i], work, serial);
    for (uint32_t i = 0; i < work->n_commands; i++)
        atomic_store_explicit(&work->commands[i]->last_serial, serial, memory_order_release);
    complete_events(work, serial);
    vks_trace_completion(device, serial);
    if (!device->timeline) /* a batch without commands has already run */
        vks_device_publish(device);
    return VKS_OK;
}
