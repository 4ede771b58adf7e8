/* submit.c: vks_submit: from command lists, waits and signals to an operation of the scheduler. */
#include "submit/submit.h"

#include <stdlib.h>
#include <string.h>

#include "submit/trace_points.h"

#define SMALL_ACCESSES 16u

/* ---- the accesses: surfaces, then waits, then signals ---- */

typedef struct access_list {
    vks_access small[SMALL_ACCESSES], *accesses;
    uint32_t n, capacity;
    bool is_behind; /* an earlier held operation touches one of its surfaces, or signals one of its fences */
} access_list;

static vks_status make_room(access_list *list, uint32_t n)
{
    if (__builtin_expect(list->n + n <= list->capacity, 1))
        return VKS_OK;
    uint32_t capacity = 2 * (list->n + n);
    vks_access *more = malloc(capacity * sizeof *more);
    if (!more)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a submission with %u surfaces and fences", list->n + n);
    memcpy(more, list->accesses, list->n * sizeof *more);
    if (list->accesses != list->small)
        free(list->accesses);
    list->accesses = more;
    list->capacity = capacity;
    return VKS_OK;
}

static vks_status add_surface(access_list *list, uint64_t round, vks_surface *surface)
{
    if (surface->mark == round)
        return VKS_OK; /* already in the list */
    if (__builtin_expect(surface->closed, 0))
        return VKS_CLOSED;
    bool owned = atomic_load_explicit(&surface->owned, memory_order_relaxed);
    if (__builtin_expect(!owned && !surface->pending, 0))
        return vks_surface_not_owned(surface);
    vks_status status = make_room(list, 1);
    if (__builtin_expect(status, 0))
        return status;
    surface->mark = round;
    vks_access_surface(&list->accesses[list->n++], &vks_surface_use, surface, owned);
    list->is_behind |= surface->held > 0;
    return VKS_OK;
}

static vks_status add_surfaces(access_list *list, vks_device *device, const vks_submit_info *info)
{
    uint64_t round = ++device->scheduler->round;
    for (uint32_t i = 0; i < info->n_commands; i++) {
        const vks_commands *commands = info->commands[i];
        VKS_NEEDS(commands);
        if (commands->device != device)
            return VKS_FOREIGN_DEVICE;
        for (size_t u = 0; u < commands->n_uses; u++) {
            vks_status status = add_surface(list, round, commands->uses[u].surface);
            if (__builtin_expect(status, 0))
                return status;
            if (commands->uses[u].writes)
                commands->uses[u].surface->writes++;
        }
    }
    if (info->n_raw) /* the surfaces of a raw command buffer are unknown, so take all owned ones */
        for (vks_surface *surface = vks_surface_first(device); surface; surface = vks_surface_next(surface))
            if (surface->owned || surface->pending) {
                vks_status status = add_surface(list, round, surface);
                if (status)
                    return status;
                surface->writes++;
            }
    return VKS_OK;
}

static vks_status add_fences(access_list *list, const vks_submit_info *info, const vks_signal *signals)
{
    vks_status status = make_room(list, info->n_waits + info->n_signals);
    if (status)
        return status;
    for (uint32_t i = 0; i < info->n_waits; i++)
        vks_access_wait(&list->accesses[list->n++], &info->waits[i]);
    for (uint32_t i = 0; i < info->n_signals; i++)
        vks_access_signal(&list->accesses[list->n++], signals[i].fence, signals[i].value);
    return VKS_OK;
}

/* ---- waits and signals ---- */

static vks_status check_waits(vks_device *device, const vks_submit_info *info)
{
    for (uint32_t i = 0; i < info->n_waits; i++) {
        const vks_wait *wait = &info->waits[i];
        vks_status status = VKS_OK;
        if (!wait->fence)
            status = vks_submission_check(device, &wait->submission);
        else if (wait->fence->device != device)
            status = VKS_FOREIGN_DEVICE;
        if (status)
            return status;
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

/* ---- submitting ---- */

/* Limit of batches queued in the CPU backend, so that a program that never waits does not fill the
 * memory. */
#define CPU_BACKLOG 4096u

static vks_status check_info(vks_device *device, const vks_submit_info *info, vks_signal *signals, access_list *list)
{
    vks_status status;
    for (uint32_t i = 0; i < info->n_signals; i++)
        VKS_NEEDS(signals[i].fence);
    if ((status = add_surfaces(list, device, info)) || (status = check_waits(device, info)) ||
        (status = check_signals(device, signals, info->n_signals, &list->is_behind)) ||
        (info->n_waits && (status = check_cycles(info, signals))))
        return status;
    return add_fences(list, info, signals);
}

/* VKS_TIMEOUT: the limit of held operations, or of the CPU backend's batches, is reached. Caller
 * holds device->lock. */
static vks_status submit_locked(vks_device *device, const vks_submit_info *info, vks_signal *signals, access_list *list,
                                vks_submission *out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    out->op = NULL;
    out->serial = 0;
    if (vks_submit_is_fast(device, info)) {
        bool is_behind = false; /* nothing is held */
        if ((status = check_signals(device, signals, info->n_signals, &is_behind)) ||
            (status = vks_submit_fast(device, info, signals, &out->serial)))
            return status;
        device->statistics.submissions++;
        return VKS_OK;
    }
    if (!device->timeline && device->submitted - device->backend->completed(device) >= CPU_BACKLOG)
        return VKS_TIMEOUT;
    if ((status = check_info(device, info, signals, list)))
        return status;
    vks_work draft;
    vks_work_draft(&draft, device, VKS_WORK_SUBMIT, vks_work_submit, list->accesses, list->n);
    draft.may_signal_release = true;
    draft.commands = (vks_commands **)info->commands;
    draft.raw = (uint64_t *)info->raw;
    draft.n_commands = info->n_commands;
    draft.n_raw = info->n_raw;
    bool may_hold = device->n_held < device->held_limit || signals_a_held_wait(signals, info->n_signals);
    status = vks_work_submit_or_hold(&draft, list->is_behind, may_hold, &out->op);
    if (status)
        return status;
    out->serial = atomic_load_explicit(&draft.serial, memory_order_relaxed);
    device->statistics.submissions++;
    return VKS_OK;
}

static vks_status wait_for_room(vks_device *device, uint64_t deadline)
{
    /* Read in this order, because the lock is not held. */
    uint64_t done = device->backend->completed(device), submitted = device->submitted;
    if (!device->timeline && submitted >= done + CPU_BACKLOG)
        return vks_device_wait_serial(device, submitted - CPU_BACKLOG / 2, deadline);
    return vks_scheduler_wait(device, &device->n_held, device->held_limit, deadline);
}

#define SMALL_SIGNALS 8

/* The device in whose vks_submit() this thread was interrupted. The caller calls again, which
 * continues the same wait. In a shared library the access to a thread-local variable is a call, so
 * the flag says whether any thread ever had such a device. */
static _Thread_local const vks_device *interrupted;
static _Atomic bool was_interrupted;

static __attribute__((noinline, cold)) void set_interrupted(const vks_device *device)
{
    if (device)
        atomic_store_explicit(&was_interrupted, true, memory_order_relaxed);
    interrupted = device; /* NULL after each other call, because another device may get this address */
}

/* A NULL array that should have elements is like a NULL argument. */
static const void *or_none(const void *array, uint32_t n) { return n ? array : ""; }

vks_status vks_submit(vks_device *device, const vks_submit_info *info, uint64_t deadline, vks_submission *out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    VKS_NEEDS(or_none(info->commands, info->n_commands), or_none(info->raw, info->n_raw),
              or_none(info->waits, info->n_waits), or_none(info->signals, info->n_signals));
    if (info->n_raw && !device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend runs no VkCommandBuffers");
    uint64_t began = vks_trace_begin();
    vks_signal small[SMALL_SIGNALS], *signals = small;
    if (info->n_signals > SMALL_SIGNALS && !(signals = malloc(info->n_signals * sizeof *signals)))
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for %u signals", info->n_signals);
    bool waited = false;
    for (;;) {
        access_list list;
        list.accesses = list.small;
        list.n = 0;
        list.capacity = SMALL_ACCESSES;
        list.is_behind = false;
        if (info->n_signals == 1) /* the common case */
            signals[0] = info->signals[0];
        else if (info->n_signals)
            memcpy(signals, info->signals, info->n_signals * sizeof *signals);
        pthread_mutex_lock(&device->lock);
        status = submit_locked(device, info, signals, &list, out);
        if (status == VKS_TIMEOUT && deadline && !waited) {
            device->statistics.backpressure_waits += interrupted != device;
            waited = true;
        }
        pthread_mutex_unlock(&device->lock);
        if (list.accesses != list.small)
            free(list.accesses);
        if (status != VKS_TIMEOUT || !deadline)
            break;
        if ((status = wait_for_room(device, deadline)))
            break;
    }
    if (__builtin_expect(waited || atomic_load_explicit(&was_interrupted, memory_order_relaxed), 0))
        set_interrupted(waited && status == VKS_INTERRUPTED ? device : NULL);
    VKS_TRACE(began, vks_traced_submit(device, info, signals, out, began, status));
    if (signals != small)
        free(signals);
    return status;
}
