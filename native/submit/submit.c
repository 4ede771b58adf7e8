/* submit.c: vks_submit, and the queries about a submission. */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "scheduler/trace_points.h"
#include "os/watcher.h"

#define SMALL_TOUCHES 16

/* ---- surfaces of the submission ---- */

typedef struct touch_list {
    vks_touch small[SMALL_TOUCHES], *touches;
    uint32_t n, capacity;
    bool held; /* an earlier held operation touches one of them */
} touch_list;

static vks_status touch(touch_list *list, vks_device *device, vks_surface *surface)
{
    if (surface->mark == device->round)
        return VKS_OK; /* already in the list */
    if (__builtin_expect(surface->closed, 0))
        return VKS_CLOSED;
    bool owned = atomic_load_explicit(&surface->owned, memory_order_relaxed);
    if (__builtin_expect(!owned && !surface->pending, 0))
        return vks_surface_not_owned(surface);
    if (__builtin_expect(list->n == list->capacity, 0)) {
        vks_touch *more = malloc(2 * list->capacity * sizeof *more);
        if (!more)
            return vks_fail(VKS_NO_MEMORY, 0, "no memory for a submission of more than %u surfaces", list->n);
        memcpy(more, list->touches, list->n * sizeof *more);
        if (list->touches != list->small)
            free(list->touches);
        list->touches = more;
        list->capacity *= 2;
    }
    surface->mark = device->round;
    vks_touch *t = &list->touches[list->n++];
    t->surface = surface;
    t->granted = owned;
    t->value = 0;
    if (owned)
        t->ownership = surface->ownership;
    else
        t->ownership = (vks_ownership){.id = surface->next_ownership};
    list->held |= surface->held > 0;
    return VKS_OK;
}

static vks_status touch_all(touch_list *list, vks_device *device, const vks_submit_info *info)
{
    device->round++;
    for (uint32_t i = 0; i < info->n_commands; i++) {
        const vks_commands *commands = info->commands[i];
        if (commands->device != device)
            return VKS_FOREIGN_DEVICE;
        for (size_t u = 0; u < commands->n_uses; u++) {
            vks_status status = touch(list, device, commands->uses[u].surface);
            if (__builtin_expect(status, 0))
                return status;
        }
    }
    if (info->n_raw) /* the touched surfaces of a raw command buffer are unknown, so take all owned ones */
        for (vks_surface *surface = device->surfaces; surface; surface = surface->next)
            if (surface->owned || surface->pending) {
                vks_status status = touch(list, device, surface);
                if (status)
                    return status;
            }
    return VKS_OK;
}

/* ---- waits and signals ---- */

static vks_status check_waits(vks_device *device, const vks_submit_info *info)
{
    for (uint32_t i = 0; i < info->n_waits; i++) {
        const vks_wait *wait = &info->waits[i];
        if (wait->fence ? wait->fence->device != device : wait->submission.op && wait->submission.op->device != device)
            return VKS_FOREIGN_DEVICE;
        if (wait->fence && wait->value > VKS_MAX_FENCE_VALUE)
            return vks_fail(VKS_BAD_VALUE, (int64_t)wait->value, "a fence can be waited for up to 2**64 - 2");
    }
    return VKS_OK;
}

/* Fills in next values and checks X1. One submission may signal a fence once. */
static vks_status check_signals(vks_device *device, vks_signal *signals, uint32_t n, bool *held)
{
    for (uint32_t i = 0; i < n; i++) {
        vks_status status = vks_fence_check_signal(signals[i].fence, device, &signals[i].value);
        if (__builtin_expect(status, 0))
            return status;
        *held |= signals[i].fence->held_signals > 0;
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (signals[j].fence == signals[i].fence)
                return vks_fail(VKS_BAD_VALUE, (int64_t)signals[i].value, "one submission may signal a fence once");
    return VKS_OK;
}

/* A fence's values are signalled in order, and a submission signals after its own waits. So a
 * submission that signals a fence and waits for a value of it that is not queued yet would wait for
 * itself. The engine of an adopted fence may signal a lower value meanwhile. */
static vks_status check_cycles(const vks_submit_info *info, const vks_signal *signals)
{
    for (uint32_t i = 0; i < info->n_waits; i++)
        for (uint32_t j = 0; j < info->n_signals; j++) {
            const vks_fence *fence = signals[j].fence;
            uint64_t limit = fence->adopted ? signals[j].value - 1 : fence->announced;
            if (info->waits[i].fence == fence && info->waits[i].value > limit)
                return vks_fail(VKS_BAD_VALUE, (int64_t)info->waits[i].value,
                                "a submission that signals a fence may wait for values of it up to %llu, and it waits "
                                "for %llu: it would wait for itself",
                                (unsigned long long)limit, (unsigned long long)info->waits[i].value);
        }
    return VKS_OK;
}

static bool signals_a_held_wait(const vks_signal *signals, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (signals[i].fence->held_waits)
            return true;
    return false;
}

/* ---- holding ---- */

static vks_work *copy(vks_device *device, const vks_work *from)
{
    vks_work *op = vks_work_create(device, VKS_WORK_SUBMIT, from->n_touches, from->n_waits, from->n_signals,
                                   from->n_commands, from->n_raw);
    if (!op)
        return NULL;
    for (uint32_t i = 0; i < from->n_touches; i++) {
        op->touches[i] = from->touches[i];
        vks_surface_ref(op->touches[i].surface);
    }
    for (uint32_t i = 0; i < from->n_waits; i++) {
        op->waits[i] = from->waits[i];
        if (op->waits[i].fence)
            vks_fence_ref(op->waits[i].fence);
        if (op->waits[i].submission.op)
            vks_work_ref(op->waits[i].submission.op);
    }
    for (uint32_t i = 0; i < from->n_signals; i++) {
        op->signals[i] = from->signals[i];
        vks_fence_ref(op->signals[i].fence);
    }
    for (uint32_t i = 0; i < from->n_commands; i++) {
        op->commands[i] = from->commands[i];
        vks_commands_ref(op->commands[i]);
    }
    if (from->n_raw)
        memcpy(op->raw, from->raw, from->n_raw * sizeof *op->raw);
    return op;
}

/* Returns whether the operation depends on other parties' pages. */
static bool needs_watcher(const vks_work *op)
{
    bool needs = op->n_touches > 0;
    for (uint32_t i = 0; i < op->n_waits; i++)
        needs |= op->waits[i].fence && op->waits[i].fence->follower;
    return needs;
}

static vks_status hold(vks_device *device, const vks_work *draft, vks_submission *out)
{
    vks_status status = needs_watcher(draft) ? vks_watcher_start() : VKS_OK;
    if (status)
        return status;
    vks_work *op = copy(device, draft);
    if (!op)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a held submission");
    for (uint32_t i = 0; i < op->n_signals; i++)
        op->signals[i].fence->announced = op->signals[i].value;
    vks_work_ref(op); /* the caller's */
    out->serial = 0;
    out->op = op;
    vks_work_hold(device, op);
    return VKS_OK;
}

/* Limit of batches queued in the CPU backend, so that a program that never waits does not fill the
 * memory. */
#define CPU_BACKLOG 4096u

/* Describes the submission as an operation on the stack. Assigns field by field, because zeroing
 * the whole struct takes longer than the driver's entry. */
static void draft_submission(vks_work *draft, vks_device *device, const vks_submit_info *info, vks_signal *signals,
                             const touch_list *list)
{
    draft->kind = VKS_WORK_SUBMIT;
    draft->device = device;
    draft->touches = list->touches;
    draft->waits = (vks_wait *)info->waits;
    draft->signals = signals;
    draft->commands = (vks_commands **)info->commands;
    draft->raw = (uint64_t *)info->raw;
    draft->n_touches = list->n;
    draft->n_waits = info->n_waits;
    draft->n_signals = info->n_signals;
    draft->n_commands = info->n_commands;
    draft->n_raw = info->n_raw;
    draft->n_events = 0;
    draft->may_signal_release = true;
    draft->number = 0;
    atomic_init(&draft->serial, 0);
}

/* VKS_TIMEOUT: the limit of held operations, or of the CPU backend's batches, is reached. Caller
 * holds device->lock. */
static vks_status submit_locked(vks_device *device, const vks_submit_info *info, vks_signal *signals, touch_list *list,
                                bool bounded, vks_submission *out)
{
    vks_status status = vks_device_check(device);
    bool behind = false;
    if (!status && vks_submit_is_fast(device, info)) {
        out->op = NULL;
        if ((status = check_signals(device, signals, info->n_signals, &behind)) ||
            (status = vks_submit_fast(device, info, signals, &out->serial)))
            return status;
        device->statistics.submissions++;
        return VKS_OK;
    }
    if (!status && bounded && !device->timeline &&
        device->submitted - device->backend->completed(device) >= CPU_BACKLOG)
        return VKS_TIMEOUT;
    if (status || (status = touch_all(list, device, info)) || (status = check_waits(device, info)) ||
        (status = check_signals(device, signals, info->n_signals, &behind)) ||
        (info->n_waits && (status = check_cycles(info, signals))))
        return status;
    vks_work draft;
    draft_submission(&draft, device, info, signals, list);
    vks_status why = VKS_OK;
    vks_readiness ready = behind || list->held ? VKS_HOLD : vks_work_ready(device, &draft, &why);
    if (ready == VKS_READY && device->presenting)
        ready = VKS_HOLD;
    if (ready == VKS_FAIL)
        return why;
    if (ready == VKS_HOLD) {
        if (bounded && device->n_held >= device->held_limit && !signals_a_held_wait(signals, info->n_signals))
            return VKS_TIMEOUT;
        if ((status = vks_device_check(device))) /* reading a fence may have found the device lost */
            return status;
        status = hold(device, &draft, out);
    } else {
        status = vks_work_submit(device, &draft);
        out->serial = atomic_load_explicit(&draft.serial, memory_order_relaxed);
        out->op = NULL;
        if (status == VKS_OK && device->n_held && info->n_signals)
            vks_scheduler_run(device); /* a held operation may wait for one of its signals */
    }
    if (status == VKS_OK)
        device->statistics.submissions++;
    return status;
}

static vks_status wait_for_room(vks_device *device, uint64_t deadline)
{
    /* Read in this order, because the lock is not held. */
    uint64_t done = device->backend->completed(device), submitted = device->submitted;
    if (!device->timeline && submitted >= done + CPU_BACKLOG)
        return vks_device_wait_serial(device, submitted - CPU_BACKLOG / 2, deadline);
    return vks_device_wait_held(device, device->held_limit, NULL, deadline);
}

#define SMALL_SIGNALS 8

vks_status vks_submit(vks_device *device, const vks_submit_info *info, uint64_t deadline, vks_submission *out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (info->n_raw && !device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend runs no VkCommandBuffers");
    uint64_t began = vks_trace_begin();
    vks_signal small[SMALL_SIGNALS], *signals = small;
    if (info->n_signals > SMALL_SIGNALS && !(signals = malloc(info->n_signals * sizeof *signals)))
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for %u signals", info->n_signals);
    static VKS_THREAD_LOCAL const vks_device *interrupted; /* its caller calls again, which continues the same wait */
    bool waited = false;
    for (;;) {
        touch_list list;
        list.touches = list.small;
        list.n = 0;
        list.capacity = SMALL_TOUCHES;
        list.held = false;
        if (info->n_signals == 1) /* the common case */
            signals[0] = info->signals[0];
        else if (info->n_signals)
            memcpy(signals, info->signals, info->n_signals * sizeof *signals);
        pthread_mutex_lock(&device->lock);
        status = submit_locked(device, info, signals, &list, true, out);
        if (status == VKS_TIMEOUT && deadline && !waited) {
            device->statistics.backpressure_waits += interrupted != device;
            waited = true;
        }
        pthread_mutex_unlock(&device->lock);
        if (list.touches != list.small)
            free(list.touches);
        if (status != VKS_TIMEOUT || !deadline)
            break;
        if ((status = wait_for_room(device, deadline)))
            break;
    }
    if (__builtin_expect(waited || interrupted, 0))
        interrupted = waited && status == VKS_INTERRUPTED
                          ? device
                          : NULL; /* cleared, because another device may get this address */
    VKS_TRACE(began, vks_traced_submit(device, info, signals, out, began, status));
    if (signals != small)
        free(signals);
    return status;
}

vks_status vks_submit_signal(vks_device *device, vks_signal *signal)
{
    touch_list list = {.touches = list.small, .capacity = SMALL_TOUCHES};
    vks_submission out = {0};
    vks_status status =
        submit_locked(device, &(vks_submit_info){.signals = signal, .n_signals = 1}, signal, &list, false, &out);
    if (out.op)
        vks_work_unref(out.op);
    return status;
}

/* ---- queries ---- */

uint64_t vks_submission_serial(const vks_submission *submission)
{
    return submission->op ? atomic_load(&submission->op->serial) : submission->serial;
}

bool vks_submission_is_held(vks_device *device, const vks_submission *submission)
{
    return device->process == vks_process && submission->op && vks_work_is_held(submission->op);
}

/* VKS_OK and the serial once submitted; VKS_TIMEOUT while held; else the reason why it never ran. */
static vks_status find_serial(const vks_submission *submission, uint64_t *serial)
{
    vks_status status = submission->op ? vks_work_status(submission->op) : VKS_OK;
    *serial = submission->op ? atomic_load(&submission->op->serial) : submission->serial;
    return status;
}

vks_status vks_submission_poll(vks_device *device, const vks_submission *submission)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    vks_status status = find_serial(submission, &serial);
    return status ? status : vks_device_poll_serial(device, serial);
}

vks_status vks_submission_wait(vks_device *device, const vks_submission *submission, uint64_t deadline)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    vks_status status = VKS_TIMEOUT;
    atomic_fetch_add(&device->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&device->progress);
        vks_status held = find_serial(submission, &serial);
        if (held != VKS_TIMEOUT) {
            status = held;
            break;
        }
        if (!deadline || (status = vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, deadline)))
            break;
    }
    atomic_fetch_sub(&device->waiters, 1);
    return status ? status : vks_device_wait_serial(device, serial, deadline);
}

static vks_status add_work_event(vks_work *op, vks_event_queue *event_queue, uint64_t token)
{
    vks_event *events = realloc(op->events, (op->n_events + 1) * sizeof *events);
    if (!events)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an event");
    op->events = events;
    events[op->n_events++] = (vks_event){.event_queue = event_queue, .fd = -1, .token = token};
    vks_event_queue_ref(event_queue);
    return VKS_OK;
}

vks_status vks_submission_notify(vks_device *device, const vks_submission *submission, vks_event_queue *event_queue,
                                 uint64_t token)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    uint64_t serial;
    pthread_mutex_lock(&device->lock);
    vks_status status = find_serial(submission, &serial), result = VKS_OK;
    if (status == VKS_TIMEOUT) {
        result = add_work_event(submission->op, event_queue, token);
    } else if (status || (status = vks_device_poll_serial(device, serial)) != VKS_TIMEOUT) {
        vks_event_queue_push(event_queue, token, status);
    } else if ((result = vks_device_reserve(device, 1)) == VKS_OK) {
        vks_device_add_completion(device, serial, VKS_COMPLETION_EVENT, event_queue, token);
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}

vks_status vks_work_poll(vks_work *op) { return op->device->process != vks_process ? VKS_FORKED : vks_work_status(op); }

vks_status vks_work_cancel(vks_work *op)
{
    vks_device *device = op->device;
    if (device->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_work_status(op);
    if (vks_work_is_held(op))
        vks_work_fail(device, op, VKS_CLOSED);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_work_notify(vks_work *op, vks_event_queue *event_queue, uint64_t token)
{
    vks_device *device = op->device;
    if (device->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_work_status(op), result = VKS_OK;
    if (vks_work_is_held(op))
        result = add_work_event(op, event_queue, token);
    else
        vks_event_queue_push(event_queue, token, status);
    pthread_mutex_unlock(&device->lock);
    return result;
}
