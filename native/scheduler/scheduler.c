/* scheduler.c: operations that are held until their waits are certain to end (docs/spec/protocol.md,
 * "Held submissions"). Caller of every function holds device->lock.
 *
 * The list is in order of submission. An operation can run when its own waits are certain to end
 * and no earlier held operation touches one of its surfaces or signals one of its fences. So order
 * is kept wherever it is observable, and an operation is never behind one that waits for it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "scheduler/trace_points.h"
#include "os/watcher.h"

/* ---- the operation as an object ---- */

vks_work *vks_work_create(vks_device *device, vks_work_kind kind, uint32_t n_touches, uint32_t n_waits,
                          uint32_t n_signals, uint32_t n_commands, uint32_t n_raw)
{
    vks_work *op =
        calloc(1, sizeof *op + n_touches * sizeof *op->touches + n_waits * sizeof *op->waits +
                      n_signals * sizeof *op->signals + n_commands * sizeof *op->commands + n_raw * sizeof *op->raw);
    if (!op)
        return NULL;
    op->touches = (vks_touch *)(op + 1);
    op->waits = (vks_wait *)(op->touches + n_touches);
    op->signals = (vks_signal *)(op->waits + n_waits);
    op->commands = (vks_commands **)(op->signals + n_signals);
    op->raw = (uint64_t *)(op->commands + n_commands);
    op->n_touches = n_touches;
    op->n_waits = n_waits;
    op->n_signals = n_signals;
    op->n_commands = n_commands;
    op->n_raw = n_raw;
    op->kind = kind;
    op->device = device;
    vks_device_ref(device);
    op->references = 1;
    op->state = VKS_WORK_HELD;
    return op;
}

void vks_work_ref(vks_work *op) { atomic_fetch_add(&op->references, 1); }

static void release_references(vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++)
        vks_surface_unref(op->touches[i].surface);
    for (uint32_t i = 0; i < op->n_waits; i++) {
        if (op->waits[i].fence)
            vks_fence_unref(op->waits[i].fence);
        if (op->waits[i].submission.op)
            vks_work_unref(op->waits[i].submission.op);
    }
    for (uint32_t i = 0; i < op->n_signals; i++)
        vks_fence_unref(op->signals[i].fence);
    for (uint32_t i = 0; i < op->n_commands; i++)
        vks_commands_unref(op->commands[i]);
    op->n_touches = op->n_waits = op->n_signals = op->n_commands = 0;
    for (size_t i = 0; i < op->n_events; i++)
        vks_event_queue_unref(op->events[i].event_queue);
    free(op->events);
    op->events = NULL;
    op->n_events = 0;
}

void vks_work_unref(vks_work *op)
{
    if (atomic_fetch_sub(&op->references, 1) != 1)
        return;
    release_references(op);
    vks_device_unref(op->device);
    free(op);
}

/* ---- on and off the list ---- */

static void count_held(vks_work *op, int by)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        op->touches[i].surface->held += (uint32_t)by;
        if (op->kind == VKS_WORK_ACQUIRE)
            op->touches[i].surface->held_acquires += (uint32_t)by;
    }
    for (uint32_t i = 0; i < op->n_waits; i++)
        if (op->waits[i].fence) {
            op->waits[i].fence->held_waits += (uint32_t)by;
            if (op->waits[i].fence->adopted)
                op->device->adopted_waits += (uint32_t)by;
        }
    for (uint32_t i = 0; i < op->n_signals; i++)
        op->signals[i].fence->held_signals += (uint32_t)by;
}

void vks_work_hold(vks_device *device, vks_work *op)
{
    op->previous = device->held_last;
    *(device->held_last ? &device->held_last->next : &device->held_first) = op;
    device->held_last = op;
    device->n_held++;
    device->statistics.held_total++;
    count_held(op, 1);
    if (vks_tracing())
        vks_traced_hold(op);
    if (op->kind == VKS_WORK_ACQUIRE) { /* for vkshare ps */
        vks_slot *slot = &op->touches[0].surface->handle.page->slots[op->touches[0].surface->handle.slot];
        atomic_store(&slot->waiting_key, op->key);
        atomic_store(&slot->waiting_since, vks_now());
    }
    vks_scheduler_run(device);
    if (device->adopted_waits)
        device->backend->wake_publisher(device);
}

/* Removes an operation from the list and finishes it. `why` VKS_OK: it was submitted, or granted. */
static void finish(vks_device *device, vks_work *op, vks_status why)
{
    *(op->previous ? &op->previous->next : &device->held_first) = op->next;
    *(op->next ? &op->next->previous : &device->held_last) = op->previous;
    op->next = op->previous = NULL;
    device->n_held--;
    count_held(op, -1);
    VKS_TRACE(op->since, vks_traced_let_go(op, why));
    if (op->kind == VKS_WORK_ACQUIRE) {
        vks_surface *surface = op->touches[0].surface;
        atomic_store(&surface->handle.page->slots[surface->handle.slot].waiting_since, 0);
    }
    op->failure = why;
    atomic_store(&op->state, why ? VKS_WORK_FAILED : VKS_WORK_SUBMITTED);
    if (why || op->kind == VKS_WORK_ACQUIRE) /* batch.c added the events of a submitted operation as completions */
        for (size_t i = 0; i < op->n_events; i++)
            vks_event_queue_push(op->events[i].event_queue, op->events[i].token, why);
    release_references(op);
    vks_device_progress(device);
    vks_work_unref(op);
}

/* ---- failing ---- */

static vks_work *find_ownership(const vks_device *device, const vks_surface *surface, uint64_t ownership)
{
    for (vks_work *op = device->held_first; op; op = op->next)
        for (uint32_t i = 0; i < op->n_touches; i++)
            if (op->touches[i].surface == surface && op->touches[i].ownership.id == ownership)
                return op;
    return NULL;
}

bool vks_ownership_is_held(const vks_surface *surface)
{
    return surface->held && find_ownership(surface->device, surface, surface->ownership.id);
}

/* If any operation of a pending acquire fails, fail the whole acquire; otherwise the next owner
 * would receive a partial frame. */
static void fail_pending_ownership(vks_device *device, vks_surface *surface, uint64_t ownership, vks_status why)
{
    if (surface->next_ownership == ownership)
        surface->pending = false;
    for (vks_work *op; (op = find_ownership(device, surface, ownership));)
        vks_work_fail(device, op, why);
}

/* Completes the value once the batches of this handle have run. The chain is poisoned, so no party
 * takes the value for a complete frame. */
static void complete_poisoned(vks_device *device, vks_surface *surface, uint64_t value)
{
    if (device->backend->completed(device) >= surface->last_serial || vks_device_reserve(device, 1) != VKS_OK)
        vks_surface_complete(surface, value);
    else
        vks_device_add_completion(device, device->submitted, VKS_COMPLETION_SURFACE, surface, value);
}

void vks_work_fail(vks_device *device, vks_work *op, vks_status why)
{
    vks_work_ref(op);
    uint32_t n = op->n_touches;
    vks_touch small[8], *touches = n <= 8 ? small : malloc(n * sizeof *touches);
    if (touches)
        memcpy(touches, op->touches, n * sizeof *touches);
    else
        n = 0; /* no memory for the list; the chains are still poisoned below */
    for (uint32_t i = 0; i < n; i++)
        vks_surface_ref(touches[i].surface);
    for (uint32_t i = 0; i < op->n_signals; i++)
        vks_fence_fail(op->signals[i].fence);
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        bool had = op->touches[i].granted || surface->ownership.id == op->touches[i].ownership.id;
        if (had && op->kind != VKS_WORK_ACQUIRE && !surface->closed)
            vks_mutex_poison(surface->handle.page);
        if (op->kind == VKS_WORK_RELEASE && op->page_released && !surface->closed)
            complete_poisoned(device, surface, op->value);
        if (op->kind == VKS_WORK_RELEASE && !op->page_released && had && surface->has_page && !surface->closed) {
            surface->has_page = false; /* release() was called already, and no other call will release the page */
            vks_mutex_abandon(&surface->handle);
        }
    }
    device->statistics.failed++;
    finish(device, op, why);
    for (uint32_t i = 0; i < n; i++) {
        vks_surface *surface = touches[i].surface;
        if (!touches[i].granted && surface->ownership.id != touches[i].ownership.id)
            fail_pending_ownership(device, surface, touches[i].ownership.id, why);
        vks_surface_unref(surface);
    }
    if (touches != small)
        free(touches);
    vks_work_unref(op);
}

/* ---- the scheduler ---- */

static bool is_blocked(const vks_device *device, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++)
        if (op->touches[i].surface->mark == device->round)
            return true;
    for (uint32_t i = 0; i < op->n_signals; i++)
        if (op->signals[i].fence->signal_mark == device->round)
            return true;
    return false;
}

static void mark(const vks_device *device, vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++)
        op->touches[i].surface->mark = device->round;
    for (uint32_t i = 0; i < op->n_signals; i++)
        op->signals[i].fence->signal_mark = device->round;
}

typedef struct watch_list {
    vks_watch *words;
    size_t n, capacity;
} watch_list;

static void add_word(watch_list *list, _Atomic uint32_t *word, uint32_t expected)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->words[i].word == word)
            return; /* keep the earlier value, which was read before the first check */
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        vks_watch *words = realloc(list->words, capacity * sizeof *words);
        if (!words)
            return;
        list->words = words;
        list->capacity = capacity;
    }
    list->words[list->n++] = (vks_watch){word, expected};
}

/* Read the words before checking the operation, so that a change in between fires the watcher at
 * once. */
static void add_watches(watch_list *list, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        if (surface->closed)
            continue;
        if (op->kind == VKS_WORK_ACQUIRE)
            add_word(list, &surface->handle.page->seq, vks_mutex_prepare_wait(surface->handle.page, op->key));
        else
            add_word(list, &surface->handle.page->value_seq, vks_mutex_prepare_value_wait(surface->handle.page));
        vks_peers_watch_page(&surface->mapping);
    }
    for (uint32_t i = 0; i < op->n_waits; i++) {
        vks_fence *fence = op->waits[i].fence;
        if (fence && fence->follower && !fence->closed)
            add_word(list, &((vks_fence_page *)fence->page)->seq, atomic_load(&((vks_fence_page *)fence->page)->seq));
    }
}

/* Copies a granted ownership to the held operations that were submitted in it, because the handle
 * may have another ownership by the time they run. */
static void record_grant(const vks_device *device, const vks_surface *surface)
{
    for (vks_work *op = device->held_first; op; op = op->next)
        for (uint32_t i = 0; i < op->n_touches; i++) {
            vks_touch *touch = &op->touches[i];
            if (touch->surface == surface && touch->ownership.id == surface->ownership.id && !touch->granted) {
                touch->ownership = surface->ownership;
                touch->granted = true;
            }
        }
}

static vks_readiness try_acquire(vks_work *op, vks_status *why)
{
    vks_surface *surface = op->touches[0].surface;
    if (surface->closed) {
        *why = VKS_CLOSED;
        return VKS_FAIL;
    }
    vks_wait_point wait_point;
    uint64_t seen;
    vks_status status = vks_mutex_try(&surface->handle, op->key, &wait_point, &seen);
    if (status == VKS_TIMEOUT)
        return VKS_HOLD;
    if (status == VKS_OK) {
        vks_surface_begin_ownership(surface, op->touches[0].ownership.id, &wait_point);
        record_grant(op->device, surface);
        VKS_TRACE(op->since, vks_traced_grant(op));
        return VKS_READY;
    }
    *why = status;
    return VKS_FAIL;
}

static vks_readiness try_run(vks_device *device, vks_work *op, vks_status *why)
{
    if (op->kind == VKS_WORK_ACQUIRE)
        return try_acquire(op, why);
    vks_readiness ready = vks_work_ready(device, op, why);
    if (ready != VKS_READY)
        return ready;
    if (device->presenting)
        return VKS_HOLD; /* the end of the present runs the scheduler */
    if (op->kind == VKS_WORK_RELEASE && !op->page_released) {
        vks_surface *surface = op->touches[0].surface;
        vks_status status = vks_surface_release_now(surface, op->key, false);
        atomic_store(&op->serial, surface->last_serial);
        if (status && status != VKS_ABANDONED) {
            *why = status;
            return VKS_FAIL;
        }
        return VKS_READY;
    }
    *why = vks_work_submit(device, op);
    return *why ? VKS_FAIL : VKS_READY;
}

/* One pass over the list. Returns whether something changed that earlier operations may have waited
 * for. */
static bool run_pass(vks_device *device, watch_list *list)
{
    device->round++;
    list->n = 0;
    bool again = false;
    for (vks_work *op = device->held_first, *next; op; op = next) {
        next = op->next;
        if (!is_blocked(device, op)) {
            add_watches(list, op);
            vks_status why = VKS_OK;
            vks_work_ref(op);
            vks_readiness ready = try_run(device, op, &why);
            bool is_held = vks_work_is_held(op); /* a loss of the device empties the list */
            if (is_held && ready == VKS_FAIL)
                vks_work_fail(device, op, why);
            vks_work_unref(op);
            if (!is_held || ready == VKS_FAIL)
                return true; /* other operations may have been removed with it */
            if (ready == VKS_READY) {
                again |= op->n_signals > 0 || op->kind == VKS_WORK_RELEASE;
                finish(device, op, VKS_OK);
                continue;
            }
        }
        mark(device, op);
    }
    return again;
}

void vks_scheduler_run(vks_device *device)
{
    if (!device->held_first && !device->watching)
        return;
    if (device->scheduling) {
        device->schedule_again = true;
        return;
    }
    device->scheduling = true;
    watch_list list = {0};
    do
        device->schedule_again = false;
    while (run_pass(device, &list) || device->schedule_again);
    device->scheduling = false;
    /* With nothing to watch, clear the list, because pages are unmapped after this. */
    device->watching = device->held_first && list.n;
    vks_watcher_set(device, vks_scheduler_run_unlocked, list.words, device->watching ? list.n : 0);
    free(list.words);
}

void vks_scheduler_run_unlocked(void *user)
{
    vks_device *device = user;
    pthread_mutex_lock(&device->lock);
    vks_scheduler_run(device);
    pthread_mutex_unlock(&device->lock);
}
