/* scheduler.c: the list of held operations, in order of submission.
 *
 * An operation can run when its own waits are certain to end and no earlier held operation touches
 * one of its surfaces or signals one of its fences. So order is kept wherever it is observable, and
 * an operation is never behind one that waits for it.
 */
#include "scheduler/scheduler.h"

#include <stdlib.h>

vks_status vks_scheduler_attach(vks_device *device)
{
    if (!(device->scheduler = calloc(1, sizeof *device->scheduler)))
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a device");
    device->on_progress = vks_scheduler_run;
    device->on_end = vks_scheduler_fail_all;
    return VKS_OK;
}

/* ---- the list ---- */

static void count_held(const vks_work *work, int by)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->held)
            work->accesses[i].class->held(&work->accesses[i], by);
}

void vks_scheduler_add(vks_work *work)
{
    vks_scheduler *scheduler = work->device->scheduler;
    work->previous = scheduler->last;
    *(scheduler->last ? &scheduler->last->next : &scheduler->first) = work;
    scheduler->last = work;
    work->device->n_held++;
    count_held(work, 1);
}

void vks_scheduler_remove(vks_work *work)
{
    vks_scheduler *scheduler = work->device->scheduler;
    *(work->previous ? &work->previous->next : &scheduler->first) = work->next;
    *(work->next ? &work->next->previous : &scheduler->last) = work->previous;
    work->next = work->previous = NULL;
    work->device->n_held--;
    count_held(work, -1);
}

void vks_scheduler_fail_all(vks_device *device, vks_status why)
{
    while (device->scheduler->first)
        vks_work_fail(device->scheduler->first, why);
}

/* ---- words to watch ---- */

struct vks_watch_list {
    vks_watch *words;
    size_t n, capacity;
};

void vks_watch_word(vks_watch_list *list, _Atomic uint32_t *word, uint32_t expected)
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

static void watch(vks_watch_list *list, const vks_work *work)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].class->watch)
            work->accesses[i].class->watch(&work->accesses[i], list);
}

/* ---- the pass ---- */

static bool is_blocked(const vks_work *work, uint64_t round)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].mark && *work->accesses[i].mark == round)
            return true;
    return false;
}

static void mark(const vks_work *work, uint64_t round)
{
    for (uint32_t i = 0; i < work->n_accesses; i++)
        if (work->accesses[i].mark)
            *work->accesses[i].mark = round;
}

static vks_readiness try_run(vks_work *work, vks_status *why)
{
    vks_readiness ready = vks_work_ready(work, why);
    if (ready != VKS_READY)
        return ready;
    if (work->device->presenting && work->kind != VKS_WORK_ACQUIRE)
        return VKS_HOLD; /* the end of the present runs the scheduler */
    *why = work->run(work);
    return *why == VKS_TIMEOUT ? VKS_HOLD : *why ? VKS_FAIL : VKS_READY;
}

/* One pass over the list. Returns whether something changed that earlier operations may have waited
 * for. */
static bool run_pass(vks_device *device, vks_watch_list *list)
{
    uint64_t round = ++device->scheduler->round;
    list->n = 0;
    bool again = false;
    for (vks_work *work = device->scheduler->first, *next; work; work = next) {
        next = work->next;
        if (!is_blocked(work, round)) {
            watch(list, work);
            vks_status why = VKS_OK;
            vks_work_ref(work);
            vks_readiness ready = try_run(work, &why);
            bool is_held = vks_work_is_held(work); /* a loss of the device empties the list */
            if (is_held && ready == VKS_FAIL)
                vks_work_fail(work, why);
            vks_work_unref(work);
            if (!is_held || ready == VKS_FAIL)
                return true; /* other operations may have been removed with it */
            if (ready == VKS_READY) {
                again |= vks_work_complete(work);
                continue;
            }
        }
        mark(work, round);
    }
    return again;
}

void vks_scheduler_run(vks_device *device)
{
    vks_scheduler *scheduler = device->scheduler;
    if (!scheduler->first && !scheduler->watching)
        return;
    if (scheduler->running) {
        scheduler->run_again = true;
        return;
    }
    scheduler->running = true;
    vks_watch_list list = {0};
    do
        scheduler->run_again = false;
    while (run_pass(device, &list) || scheduler->run_again);
    scheduler->running = false;
    /* With nothing to watch, clear the list, because pages are unmapped after this. */
    scheduler->watching = scheduler->first && list.n;
    vks_watcher_set(device, vks_scheduler_run_unlocked, list.words, scheduler->watching ? list.n : 0);
    free(list.words);
}

void vks_scheduler_run_unlocked(void *user)
{
    vks_device *device = user;
    pthread_mutex_lock(&device->lock);
    vks_scheduler_run(device);
    pthread_mutex_unlock(&device->lock);
}

/* ---- waiting for held operations ---- */

typedef struct held_count {
    const _Atomic uint32_t *count;
    uint32_t below;
} held_count;

static bool is_below(const void *user)
{
    const held_count *held = user;
    return *held->count < held->below;
}

vks_status vks_scheduler_wait(vks_device *device, const _Atomic uint32_t *count, uint32_t below, uint64_t deadline)
{
    return vks_device_wait_until(device, is_below, &(held_count){count, below}, deadline);
}

typedef struct graced {
    const vks_device *device;
    const void *object;
} graced;

static bool none_has_grace(const void *user)
{
    const graced *what = user;
    for (const vks_work *work = vks_scheduler_first(what->device); work; work = work->next)
        if (work->has_grace && (!what->object || work->accesses[0].object == what->object))
            return false;
    return true;
}

vks_status vks_scheduler_finish(vks_device *device, const void *object, uint64_t limit)
{
    vks_status status = vks_device_wait_until(device, none_has_grace, &(graced){device, object}, limit);
    return status == VKS_INTERRUPTED ? status : VKS_OK;
}

vks_status vks_device_wait_idle(vks_device *device, uint64_t deadline)
{
    VKS_NEEDS(device);
    vks_status status = vks_device_check(device);
    if (!status)
        status = vks_scheduler_wait(device, &device->n_held, 1, deadline);
    if (!status) /* held work may have ended because the device was closed or lost */
        status = vks_device_check(device);
    return status ? status : vks_device_wait_serial(device, device->submitted, deadline);
}
