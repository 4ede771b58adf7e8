/* batch.c: when an operation may go to the driver, and what the driver is given then. Everything here runs under the
 * device's lock. */
#include <stdlib.h>

#include "device.h"
#include "trace_points.h"

/* ---- may it go? ---- */

bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point)
{
    bool settled = !wait_point->value || atomic_load(&surface->handle.page->completed) >= wait_point->value;
    VKS_TSAN_ACQUIRE(surface->handle.page->header.id);
    return settled;
}

/* A slot tells of its first open promise until `completed` has it: one that tells of none, or of a later one only, will
 * not bring the value, whatever another process wrote into the page. */
static bool is_announced(const vks_mutex_page *page, const vks_wait_point *wait_point)
{
    uint64_t pending_value = atomic_load(&page->slots[wait_point->signaller_slot].pending_value);
    return pending_value && pending_value <= wait_point->value;
}

bool vks_wait_point_is_alive(const vks_surface *surface, const vks_wait_point *wait_point)
{
    const vks_mutex_page *page = surface->handle.page;
    if (!vks_mutex_slot_is(page, wait_point->signaller_slot, wait_point->signaller) || !is_announced(page, wait_point))
        return false;
    bool is_own =
        wait_point->signaller_slot == surface->handle.slot && wait_point->signaller == surface->handle.identity;
    return is_own ? vks_surface_has_announced(surface, wait_point->value) : vks_peer_alive(wait_point->signaller);
}

static vks_readiness fail(vks_status *why, vks_status status)
{
    *why = status;
    return VKS_FAIL;
}

/* The debtor is a handle of this very device, and the driver has its work: the order of the queue is enough, nobody
 * waits for himself. What another API brings in its name comes by another queue. */
static bool in_own_queue(const vks_device *device, const vks_surface *surface, const vks_wait_point *wait_point)
{
    for (const vks_surface *s = device->surfaces; s; s = s->next)
        if (s->handle.identity == wait_point->signaller && s->handle.slot == wait_point->signaller_slot &&
            s->handle.page->header.id == surface->handle.page->header.id)
            return (s == surface || !s->held) &&
                   !(device->n_external &&
                     vks_device_awaits_external(device, VKS_COMPLETION_SURFACE, s, wait_point->value));
    return false;
}

/* `queue`: the device whose queue is to wait, which keeps its own order; NULL: another one's. */
static vks_readiness wait_point_ready(const vks_device *queue, const vks_surface *surface,
                                      const vks_wait_point *wait_point, vks_status *why)
{
    /* In a broken chain a promise may be settled while earlier work runs, whose signal would take the semaphore back.
     */
    if (surface->semaphore && vks_mutex_is_poisoned(surface->handle.page) &&
        vks_surface_is_pending(surface, wait_point->value))
        return VKS_HOLD;
    if (vks_wait_point_is_complete(surface, wait_point) || (queue && in_own_queue(queue, surface, wait_point)))
        return VKS_READY;
    if (surface->semaphore && atomic_load(&surface->handle.page->queued) >= wait_point->value)
        return VKS_READY; /* the GPU itself waits: the signal is with a driver, so it comes even if its process dies */
    if (vks_wait_point_is_alive(surface, wait_point) || vks_wait_point_is_complete(surface, wait_point))
        return VKS_HOLD;
    return fail(why, VKS_ABANDONED);
}

vks_readiness vks_ownership_ready_external(const vks_surface *surface, vks_status *why)
{
    return wait_point_ready(NULL, surface, &surface->ownership.wait_point, why);
}

static vks_readiness touch_ready(const vks_device *device, const vks_touch *touch, vks_status *why)
{
    const vks_surface *surface = touch->surface;
    if (surface->closed)
        return fail(why, VKS_CLOSED);
    const vks_ownership *ownership = touch->granted ? &touch->ownership : &surface->ownership;
    if (ownership->id != touch->ownership.id) /* its acquire never succeeded */
        return fail(why, VKS_ABANDONED);
    if (surface->acquire_submitted >= ownership->id)
        return VKS_READY;
    return wait_point_ready(device, surface, &ownership->wait_point, why);
}

vks_readiness vks_ownership_ready(const vks_surface *surface, vks_status *why)
{
    return touch_ready(
        surface->device,
        &(vks_touch){.surface = (vks_surface *)surface, .ownership = surface->ownership, .granted = true}, why);
}

static vks_readiness fence_ready(const vks_wait *wait, vks_status *why)
{
    vks_fence *fence = wait->fence;
    const vks_fence_page *page = fence->page;
    if (atomic_load(&page->completed) >= wait->value)
        return VKS_READY; /* what was reached counts, whatever became of the fence since */
    if (fence->closed)
        return fail(why, VKS_CLOSED);
    if (fence->adopted) {
        uint64_t value = vks_fence_completed(fence);
        return value >= wait->value || atomic_load(&page->queued) >= wait->value ? VKS_READY : VKS_HOLD;
    }
    bool queued = atomic_load(&page->queued) >= wait->value;
    if (wait->value > fence->end)
        return fail(why, VKS_ABANDONED);
    if (!fence->follower && queued)
        return VKS_READY;
    if (atomic_load(&page->status) != VKS_FENCE_LIVE || (fence->follower && !vks_peer_alive(page->owner)))
        return atomic_load(&page->completed) >= wait->value ? VKS_READY : fail(why, VKS_ABANDONED);
    return fence->semaphore && queued ? VKS_READY : VKS_HOLD;
}

static vks_readiness submission_ready(const vks_submission *submission, vks_status *why)
{
    vks_status status = submission->op ? (vks_status)atomic_load(&submission->op->status) : VKS_OK;
    if (status == VKS_TIMEOUT)
        return VKS_HOLD;
    return status ? fail(why, status) : VKS_READY;
}

vks_readiness vks_work_ready(vks_device *device, const vks_work *op, vks_status *why)
{
    bool hold = false;
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_readiness ready = touch_ready(device, &op->touches[i], why);
        if (ready == VKS_FAIL)
            return VKS_FAIL;
        hold |= ready == VKS_HOLD;
    }
    for (uint32_t i = 0; i < op->n_waits; i++) {
        const vks_wait *wait = &op->waits[i];
        vks_readiness ready = wait->fence ? fence_ready(wait, why) : submission_ready(&wait->submission, why);
        if (ready == VKS_FAIL)
            return VKS_FAIL;
        hold |= ready == VKS_HOLD;
    }
    for (uint32_t i = 0; i < op->n_signals; i++) {
        if (op->signals[i].fence->closed)
            return fail(why, VKS_CLOSED);
        hold |= op->signals[i].fence->external_signal != 0;
    }
    return hold ? VKS_HOLD : VKS_READY;
}

/* ---- whose image it is ----
 *
 * While no other device can have the surface open, a hand-over between handles of this one is no business of the
 * driver's: the queue runs their work in order, and each list begins with a barrier over memory and ends with one to
 * the host. So the image stays here, and a release submits nothing. The first export ends that. */

/* A release of it must hand the image on. */
static bool is_transferred(const vks_surface *surface)
{
    const vks_surface *original = vks_surface_original(surface);
    return surface->release_commands[VKS_GRAPHICS] && (original->is_shared || original->layout_unknown);
}

bool vks_surface_needs_release_barrier(const vks_surface *surface)
{
    return is_transferred(surface) && vks_surface_original(surface)->owned_by_queue;
}

static bool is_to_be_released(const vks_device *device, const vks_surface *original)
{
    for (const vks_surface *s = device->surfaces; s; s = s->next)
        if (s->has_page && vks_surface_original(s) == original)
            return true;
    for (const vks_work *op = device->held_first; op; op = op->next)
        if (op->kind == VKS_WORK_RELEASE && op->word_done && vks_surface_original(op->touches[0].surface) == original)
            return true;
    return false;
}

vks_status vks_surface_submit(vks_surface *surface, vks_point wait, uint64_t commands, vks_point signal)
{
    vks_device *device = surface->device;
    vks_batch batch = {
        .waits = &wait,
        .signals = &signal,
        .buffers = &commands,
        .n_waits = wait.semaphore != 0,
        .n_signals = signal.semaphore != 0,
        .n_buffers = commands != 0,
        .serial = device->submitted + 1,
    };
    vks_status status = device->backend->submit(device, &batch);
    if (status) {
        if (status == VKS_DEVICE_LOST)
            vks_device_lose(device);
        return status;
    }
    atomic_store_explicit(&device->submitted, batch.serial, memory_order_release);
    atomic_store_explicit(&surface->last_serial, batch.serial, memory_order_release);
    return VKS_OK;
}

vks_status vks_surface_release_for_export(vks_surface *surface)
{
    vks_surface *original = vks_surface_original(surface);
    if (!vks_surface_needs_release_barrier(surface) || is_to_be_released(surface->device, original))
        return VKS_OK;
    vks_status status =
        vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS], (vks_point){0});
    if (status == VKS_OK) {
        original->owned_by_queue = original->layout_unknown = false;
        original->exported_at = surface->last_serial;
    }
    return status;
}

/* ---- which queue it goes to ----
 *
 * A family that only copies is a copy engine of its own, which works beside CUDA; between graphics and CUDA the GPU
 * changes its context, for longer than most hand-overs take. The order is one over both queues (backend_vulkan.c), so
 * nothing but time hangs on the choice. Work that only copies, or only hands on, begins on the transfer queue where
 * the other one has nothing to do; what follows stays there until it needs graphics. A handle that drew in its last
 * tenure is taken to draw in the next, and begins with graphics.
 */

static bool only_copies(const vks_work *op)
{
    if (op->n_raw)
        return false;
    for (uint32_t i = 0; i < op->n_commands; i++)
        if (!op->commands[i]->buffers[VKS_TRANSFER])
            return false;
    for (uint32_t i = 0; i < op->n_touches; i++) {
        const vks_surface *surface = op->touches[i].surface;
        if (surface->presentable || surface->engine_value ||
            (surface->release_commands[VKS_GRAPHICS] && !surface->release_commands[VKS_TRANSFER]))
            return false;
    }
    return true;
}

/* At a hand-over, and among surfaces on which nobody draws. */
static bool may_begin(const vks_work *op)
{
    bool takes = false;
    for (uint32_t i = 0; i < op->n_touches; i++) {
        const vks_surface *surface = op->touches[i].surface;
        if (surface->last_used_graphics || surface->uses_graphics)
            return false;
        takes |= surface->acquire_submitted < op->touches[i].ownership.id;
    }
    return takes && (op->n_commands || op->kind == VKS_WORK_RELEASE);
}

static vks_family choose_family(vks_device *device, const vks_work *op)
{
    if (!device->has_transfer || !only_copies(op))
        return VKS_GRAPHICS;
    bool may_change = device->family == VKS_GRAPHICS && may_begin(op);
    if (may_change && device->backend->completed(device) >= device->submitted)
        return VKS_TRANSFER;
    return device->family;
}

/* Once the driver has it. */
static void remember_drawing(vks_work *op)
{
    bool last_used_graphics = op->n_raw != 0;
    for (uint32_t i = 0; i < op->n_commands; i++)
        last_used_graphics |= !op->commands[i]->buffers[VKS_TRANSFER];
    for (uint32_t i = 0; i < op->n_touches; i++)
        op->touches[i].surface->uses_graphics |= last_used_graphics;
}

/* ---- a release that comes with the work ----
 *
 * A call of vkQueueSubmit2 is most of what a hand-over costs. So where a handle's last tenure was of one submission,
 * the first one of the next brings what the release would: the image goes out and the value is signalled in the same
 * batch, and the release has nothing left to do. If more is submitted after all, the tenure goes on behind that value.
 */

static bool may_signal_release(const vks_work *op, const vks_touch *touch)
{
    const vks_surface *surface = touch->surface;
    return op->may_signal_release && !op->n_raw && touch->granted && surface->is_single && !surface->submissions &&
           surface->owned && surface->ownership.id == touch->ownership.id && is_transferred(surface) &&
           !surface->engine_value;
}

/* The page is others' to write to as well: a value that the semaphore cannot take must not come to the driver. */
static bool can_take(const vks_surface *surface, uint64_t value, uint64_t counter)
{
    return !surface->semaphore ||
           (value > counter && value > surface->announced && value - counter <= surface->device->max_difference);
}

/* The pages tell of the promises before the work can be done and settle them. */
static void announce_values(vks_device *device, vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_touch *touch = &op->touches[i];
        if (__builtin_expect(!may_signal_release(op, touch), 1))
            continue;
        vks_surface *surface = touch->surface;
        uint64_t value = vks_surface_next_value(surface), counter = 0;
        if ((surface->semaphore && device->backend->counter(device, surface->semaphore, &counter)) ||
            !can_take(surface, value, counter)) /* the release will say so */
            continue;
        touch->value = value;
        vks_surface_announce(surface, value);
    }
}

/* The driver refused the batch. */
static void retract_values(vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++)
        if (op->touches[i].value) {
            vks_surface_retract(op->touches[i].surface, op->touches[i].value);
            op->touches[i].value = 0;
        }
}

static void signal_values(vks_device *device, const vks_work *op, uint64_t serial)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        uint64_t value = op->touches[i].value;
        if (!value)
            continue;
        surface->announced = value;
        vks_mutex_queued(surface->handle.page, value);
        vks_device_add_completion(device, serial, VKS_COMPLETION_SURFACE, surface, value);
        vks_surface_original(surface)->owned_by_queue = vks_surface_original(surface)->layout_unknown = false;
        vks_surface_take_over_own(surface, value);
    }
}

/* ---- there it goes ---- */

#define SMALL 12

typedef struct scratch {
    vks_point small_waits[SMALL], small_signals[SMALL], *waits, *signals;
    uint64_t small_buffers[SMALL], *buffers;
    void *big; /* one block for all three when they do not fit */
} scratch;

static vks_status make_room(scratch *s, size_t waits, size_t signals, size_t buffers)
{
    s->waits = s->small_waits;
    s->signals = s->small_signals;
    s->buffers = s->small_buffers;
    s->big = NULL;
    if (waits <= SMALL && signals <= SMALL && buffers <= SMALL)
        return VKS_OK;
    s->big = malloc((waits + signals) * sizeof(vks_point) + buffers * sizeof(uint64_t));
    if (!s->big)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a batch of %zu waits, %zu signals and %zu command buffers",
                        waits, signals, buffers);
    s->waits = s->big;
    s->signals = s->waits + waits;
    s->buffers = (uint64_t *)(s->signals + signals);
    return VKS_OK;
}

/* A frame's semaphores are binary (Vulkan 7.4): each is waited for once for each time that it is signalled. A frame of
 * more submissions than `rendered` has room for signals the last one anew, which its own submission waits for first. */
static void add_presentable(vks_batch *batch, scratch *s, const vks_presentable *frame)
{
    if (frame->acquired)
        s->waits[batch->n_waits++] = (vks_point){frame->acquired, 0};
    if (frame->initial_commands)
        s->buffers[batch->n_buffers++] = frame->initial_commands;
    uint64_t signalled = frame->spare;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES) {
        signalled = frame->rendered[VKS_FRAME_SEMAPHORES - 1];
        s->waits[batch->n_waits++] = (vks_point){signalled, 0};
    }
    s->signals[batch->n_signals++] = (vks_point){signalled, 0};
}

/* The driver has it. */
static void use_presentable(vks_presentable *frame, uint64_t serial)
{
    if (frame->acquired)
        frame->waited = serial;
    frame->acquired = frame->initial_commands = 0;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES)
        return;
    frame->rendered[frame->n_rendered++] = frame->spare;
    frame->spare = 0;
}

/* Before anything is done: a submission cannot fail half-way for want of a semaphore. */
static vks_status refill_presentables(const vks_work *op, uint32_t *n)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_presentable *frame = op->touches[i].surface->presentable;
        vks_status status = frame && !frame->spare ? frame->refill(frame) : VKS_OK;
        if (status)
            return status;
        *n += frame != NULL;
    }
    return VKS_OK;
}

static void add_touches(vks_batch *batch, scratch *s, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        const vks_surface *surface = op->touches[i].surface;
        const vks_ownership *ownership = op->touches[i].granted ? &op->touches[i].ownership : &surface->ownership;
        if (surface->presentable)
            add_presentable(batch, s, surface->presentable);
        if (surface->acquire_submitted >= ownership->id)
            continue;
        uint64_t acquire = surface->acquire_commands[batch->family];
        bool owned_by_queue = vks_surface_original(surface)->owned_by_queue;
        if (acquire && owned_by_queue && op->n_raw) /* an engine takes the acquire for a barrier: there and back */
            s->buffers[batch->n_buffers++] = surface->release_commands[batch->family];
        if (acquire && (!owned_by_queue || op->n_raw))
            s->buffers[batch->n_buffers++] = acquire;
        if (surface->semaphore && !vks_wait_point_is_complete(surface, &ownership->wait_point) &&
            !in_own_queue(op->device, surface, &ownership->wait_point))
            s->waits[batch->n_waits++] = (vks_point){surface->semaphore, ownership->wait_point.value};
    }
}

static void add_waits(vks_device *device, vks_batch *batch, scratch *s, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_waits; i++) {
        const vks_wait *wait = &op->waits[i];
        if (!device->timeline)
            continue; /* the CPU backend runs in order, and what others signal is complete by now */
        if (!wait->fence) {
            uint64_t serial = wait->submission.op ? atomic_load(&wait->submission.op->serial) : wait->submission.serial;
            s->waits[batch->n_waits++] = (vks_point){device->timeline, serial};
        } else if (wait->fence->semaphore &&
                   atomic_load(&((vks_fence_page *)wait->fence->page)->completed) < wait->value) {
            s->waits[batch->n_waits++] = (vks_point){wait->fence->semaphore, wait->value};
        }
    }
}

static void add_release(vks_batch *batch, scratch *s, const vks_surface *surface, uint64_t value)
{
    if (surface->engine_value)
        s->waits[batch->n_waits++] = (vks_point){surface->engine_semaphore, surface->engine_value};
    if (is_transferred(surface))
        s->buffers[batch->n_buffers++] = surface->release_commands[batch->family];
    if (surface->semaphore)
        s->signals[batch->n_signals++] = (vks_point){surface->semaphore, value};
}

static void add_signals(vks_device *device, vks_batch *batch, scratch *s, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_signals && device->timeline; i++) {
        const vks_fence *fence = op->signals[i].fence;
        if (vks_fence_follows_external(fence))
            s->waits[batch->n_waits++] = (vks_point){fence->semaphore, fence->external_value};
        s->signals[batch->n_signals++] = (vks_point){fence->semaphore, op->signals[i].value};
    }
    for (uint32_t i = 0; i < op->n_touches; i++)
        if (op->kind == VKS_WORK_RELEASE || op->touches[i].value)
            add_release(batch, s, op->touches[i].surface, op->touches[i].value ? op->touches[i].value : op->value);
}

/* GPU waits for what other parties promised. */
static void remember_waits(vks_device *device, const vks_work *op, uint64_t serial)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        const vks_ownership *ownership = op->touches[i].granted ? &op->touches[i].ownership : &surface->ownership;
        if (surface->semaphore && surface->acquire_submitted < ownership->id &&
            !vks_wait_point_is_complete(surface, &ownership->wait_point) &&
            !in_own_queue(device, surface, &ownership->wait_point))
            vks_device_add_completion(device, serial, VKS_COMPLETION_SURFACE_WAIT, surface,
                                      ownership->wait_point.value);
    }
    for (uint32_t i = 0; i < op->n_waits; i++) {
        vks_fence *fence = op->waits[i].fence;
        if (fence && fence->follower && fence->semaphore &&
            atomic_load(&((vks_fence_page *)fence->page)->completed) < op->waits[i].value)
            vks_device_add_completion(device, serial, VKS_COMPLETION_FENCE_WAIT, fence, op->waits[i].value);
    }
}

/* What the core remembers once the driver has the batch. */
static void handed_over(vks_device *device, vks_work *op, uint64_t serial)
{
    if (device->native_timelines)
        remember_waits(device, op, serial);
    remember_drawing(op);
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        if (surface->presentable) /* and it stays untaken: each of its submissions needs its semaphores */
            use_presentable(surface->presentable, serial);
        else if (surface->acquire_submitted < op->touches[i].ownership.id)
            surface->acquire_submitted = op->touches[i].ownership.id;
        vks_surface *original = vks_surface_original(surface);
        bool goes = op->kind == VKS_WORK_RELEASE && is_transferred(surface);
        original->owned_by_queue = !goes;
        original->layout_unknown = !goes && (original->layout_unknown || op->n_raw);
        atomic_store_explicit(&surface->last_serial, serial, memory_order_release);
        surface->submissions += op->kind == VKS_WORK_SUBMIT;
    }
    signal_values(device, op, serial);
    for (uint32_t i = 0; i < op->n_commands; i++)
        atomic_store_explicit(&op->commands[i]->last_serial, serial, memory_order_release);
    for (uint32_t i = 0; i < op->n_signals; i++)
        vks_fence_queue(op->signals[i].fence, op->signals[i].value, serial);
    for (size_t i = 0; i < op->n_events; i++)
        vks_device_add_completion(device, serial, VKS_COMPLETION_EVENT, op->events[i].event_queue, op->events[i].token);
}

static vks_status submit_batch(vks_device *device, vks_work *op)
{
    scratch s;
    uint32_t frames = 0;
    vks_status status = refill_presentables(op, &frames);
    if (!status)
        status = make_room(&s, op->n_waits + op->n_touches + op->n_signals + 2 * frames + 1,
                           op->n_signals + op->n_touches + frames + 1,
                           3 * op->n_touches + frames + op->n_commands + op->n_raw + 1);
    if (status)
        return status;
    vks_batch batch = {.family = choose_family(device, op),
                       .waits = s.waits,
                       .signals = s.signals,
                       .buffers = s.buffers,
                       .serial = device->submitted + 1};
    add_touches(&batch, &s, op);
    add_waits(device, &batch, &s, op);
    if (device->timeline) {
        for (uint32_t i = 0; i < op->n_commands; i++)
            s.buffers[batch.n_buffers++] = op->commands[i]->buffers[batch.family];
        for (uint32_t i = 0; i < op->n_raw; i++)
            s.buffers[batch.n_buffers++] = op->raw[i];
    } else {
        batch.commands = op->commands;
        batch.n_commands = op->n_commands;
    }
    add_signals(device, &batch, &s, op);
    uint64_t began = vks_trace_begin();
    status = device->backend->submit(device, &batch);
    VKS_TRACE(began, vks_traced_batch(device, &batch, op->number, began, status));
    if (__builtin_expect(s.big != NULL, 0))
        free(s.big);
    if (status == VKS_OK)
        atomic_store_explicit(&device->submitted, batch.serial, memory_order_release);
    else if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    return status;
}

/* A release whose driver needs no command and no signal: its work is what was submitted before. */
static bool is_empty_release(const vks_work *op)
{
    const vks_surface *surface = op->touches[0].surface;
    bool is_awaited = surface->semaphore && vks_surface_original(surface)->is_shared;
    return op->kind == VKS_WORK_RELEASE && !is_transferred(surface) && !is_awaited && !surface->engine_value;
}

vks_status vks_surface_check_value(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    uint64_t counter = 0;
    vks_status status = surface->semaphore ? device->backend->counter(device, surface->semaphore, &counter) : VKS_OK;
    if (status || can_take(surface, value, counter))
        return status;
    vks_mutex_poison(surface->handle.page);
    return vks_fail(VKS_ABANDONED, 0, "the surface's page asks for the value %llu where its semaphore is at %llu",
                    (unsigned long long)value, (unsigned long long)counter);
}

/* At most so many things are due when it has run. */
static size_t count_completions(const vks_device *device, const vks_work *op)
{
    size_t n =
        op->n_events + (op->kind == VKS_WORK_RELEASE) + (device->native_timelines ? op->n_touches + op->n_waits : 0);
    for (uint32_t i = 0; i < op->n_touches; i++)
        n += op->touches[i].value != 0;
    for (uint32_t i = 0; i < op->n_signals; i++)
        n += vks_fence_is_watched(op->signals[i].fence);
    return n;
}

vks_status vks_work_submit(vks_device *device, vks_work *op)
{
    vks_status status =
        op->kind == VKS_WORK_RELEASE ? vks_surface_check_value(op->touches[0].surface, op->value) : VKS_OK;
    if (status)
        return status;
    announce_values(device, op);
    if ((status = vks_device_reserve(device, count_completions(device, op)))) {
        retract_values(op);
        return status;
    }
    if (op->kind == VKS_WORK_RELEASE && is_empty_release(op)) {
        vks_surface *surface = op->touches[0].surface;
        atomic_store(&op->serial, surface->last_serial);
        /* What the tenure took over may be on its way in this very queue (in_own_queue): then the value comes with it,
         * not before. Where the queue is empty nothing is on its way, whatever the page says, and no batch would
         * publish the value. */
        bool is_settled = vks_wait_point_is_complete(surface, &op->touches[0].ownership.wait_point);
        if (device->backend->completed(device) >= (is_settled ? surface->last_serial : device->submitted))
            vks_surface_complete(surface, op->value);
        else
            vks_device_add_completion(device, device->submitted, VKS_COMPLETION_SURFACE, surface, op->value);
        return VKS_OK;
    }
    if ((status = submit_batch(device, op))) {
        retract_values(op);
        return status;
    }
    uint64_t serial = atomic_load_explicit(&device->submitted, memory_order_relaxed);
    atomic_store_explicit(&op->serial, serial, memory_order_release);
    handed_over(device, op, serial);
    if (op->kind == VKS_WORK_RELEASE) {
        op->touches[0].surface->announced = op->value;
        vks_mutex_queued(op->touches[0].surface->handle.page, op->value);
        vks_device_add_completion(device, serial, VKS_COMPLETION_SURFACE, op->touches[0].surface, op->value);
    }
    vks_trace_completion(device, serial);
    if (!device->timeline) /* a batch without commands has run already */
        vks_device_publish(device);
    return VKS_OK;
}
