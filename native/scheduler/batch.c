/* batch.c: decides when an operation can be submitted, and builds its batch. Caller of every
 * function holds device->lock. */
#include <stdlib.h>

#include "device/device.h"
#include "scheduler/trace_points.h"

/* ---- readiness ---- */

bool vks_wait_point_is_complete(const vks_surface *surface, const vks_wait_point *wait_point)
{
    bool settled = !wait_point->value || atomic_load(&surface->handle.page->completed) >= wait_point->value;
    VKS_TSAN_ACQUIRE(surface->handle.page->header.id);
    return settled;
}

/* A slot holds its first pending value until `completed` reaches it. So a slot with no pending
 * value, or only a later one, will not signal this value, whatever another process wrote into the
 * page. */
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

/* The signaller is a handle of this device and the driver has its work, so the order of the queue
 * is enough. Work of an external API in the handle's name runs in another queue and does not count. */
static bool is_ordered_by_queue(const vks_device *device, const vks_surface *surface, const vks_wait_point *wait_point)
{
    for (const vks_surface *s = device->surfaces; s; s = s->next)
        if (s->handle.identity == wait_point->signaller && s->handle.slot == wait_point->signaller_slot &&
            s->handle.page->header.id == surface->handle.page->header.id)
            return (s == surface || !s->held) &&
                   !(device->n_external &&
                     vks_device_awaits_external(device, VKS_COMPLETION_SURFACE, s, wait_point->value));
    return false;
}

/* `queue`: the device whose queue is to wait, and which orders its own work; NULL: another queue. */
static vks_readiness wait_point_ready(const vks_device *queue, const vks_surface *surface,
                                      const vks_wait_point *wait_point, vks_status *why)
{
    /* In a poisoned chain a value may be completed while earlier work still runs, and the signal of
     * that work would lower the semaphore. */
    if (surface->semaphore && vks_mutex_is_poisoned(surface->handle.page) &&
        vks_surface_is_pending(surface, wait_point->value))
        return VKS_HOLD;
    if (vks_wait_point_is_complete(surface, wait_point) || (queue && is_ordered_by_queue(queue, surface, wait_point)))
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
    if (ownership->id != touch->ownership.id) /* its acquire failed */
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
        return VKS_READY; /* a reached value stays valid after the fence has failed */
    if (fence->closed)
        return fail(why, VKS_CLOSED);
    if (fence->adopted) {
        uint64_t value = vks_fence_completed(fence);
        return value >= wait->value || atomic_load(&page->queued) >= wait->value ? VKS_READY : VKS_HOLD;
    }
    bool queued = atomic_load(&page->queued) >= wait->value;
    if (wait->value > fence->last_valid)
        return fail(why, VKS_ABANDONED);
    if (!fence->follower && queued)
        return VKS_READY;
    if (atomic_load(&page->status) != VKS_FENCE_LIVE || (fence->follower && !vks_peer_alive(page->owner)))
        return atomic_load(&page->completed) >= wait->value ? VKS_READY : fail(why, VKS_ABANDONED);
    return fence->semaphore && queued ? VKS_READY : VKS_HOLD;
}

static vks_readiness submission_ready(const vks_submission *submission, vks_status *why)
{
    if (submission->op && vks_work_is_held(submission->op))
        return VKS_HOLD;
    vks_status status = submission->op ? vks_work_status(submission->op) : VKS_OK;
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

/* ---- image ownership ----
 *
 * While no other process can have the surface open, a hand-over between handles of this device
 * needs no queue-family transfer: the queue runs their work in order, and each command list begins
 * with a memory barrier and ends with a barrier to the host. So the image stays with the queue
 * family, and a release submits nothing. The first export ends that.
 */

/* Returns whether a release of the surface must release its image to VK_QUEUE_FAMILY_EXTERNAL. */
static bool is_transferred(const vks_surface *surface)
{
    const vks_surface *original = vks_surface_original(surface);
    return surface->release_commands[VKS_GRAPHICS] && (original->is_shared || original->layout_unknown);
}

bool vks_surface_needs_release_barrier(const vks_surface *surface)
{
    return is_transferred(surface) && vks_surface_original(surface)->owned_by_queue;
}

static bool will_be_released(const vks_device *device, const vks_surface *original)
{
    for (const vks_surface *s = device->surfaces; s; s = s->next)
        if (s->has_page && vks_surface_original(s) == original)
            return true;
    for (const vks_work *op = device->held_first; op; op = op->next)
        if (op->kind == VKS_WORK_RELEASE && op->page_released &&
            vks_surface_original(op->touches[0].surface) == original)
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
    if (!vks_surface_needs_release_barrier(surface) || will_be_released(surface->device, original))
        return VKS_OK;
    vks_status status =
        vks_surface_submit(surface, (vks_point){0}, surface->release_commands[VKS_GRAPHICS], (vks_point){0});
    if (status == VKS_OK) {
        original->owned_by_queue = original->layout_unknown = false;
        original->exported_at = surface->last_serial;
    }
    return status;
}

/* ---- choice of the queue ----
 *
 * A transfer-only family is a separate copy engine, which runs beside CUDA. Between graphics and
 * CUDA the GPU switches contexts, which takes longer than most hand-overs. Both queues share one
 * order (backend_vulkan.c), so the choice affects only time. Work that only copies, or only
 * releases, begins on the transfer queue if the graphics queue is idle; later work stays there
 * until it needs graphics. A handle that used graphics in its last ownership is expected to do so
 * again, and begins with graphics.
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

/* Only at a hand-over, and only if no touched surface uses graphics. */
static bool may_begin_transfer(const vks_work *op)
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
    bool may_change = device->family == VKS_GRAPHICS && may_begin_transfer(op);
    if (may_change && device->backend->completed(device) >= device->submitted)
        return VKS_TRANSFER;
    return device->family;
}

/* Called once the driver has the batch. */
static void record_graphics_use(vks_work *op)
{
    bool last_used_graphics = op->n_raw != 0;
    for (uint32_t i = 0; i < op->n_commands; i++)
        last_used_graphics |= !op->commands[i]->buffers[VKS_TRANSFER];
    for (uint32_t i = 0; i < op->n_touches; i++)
        op->touches[i].surface->uses_graphics |= last_used_graphics;
}

/* ---- releases within a submission ----
 *
 * A call of vkQueueSubmit2 is most of the cost of a hand-over. So if a handle's last ownership had
 * one submission, the first submission of the next ownership also does the release's work: its
 * batch releases the image and signals the value, and release() submits nothing. If another
 * submission follows, the ownership continues behind that value.
 */

static bool may_signal_release(const vks_work *op, const vks_touch *touch)
{
    const vks_surface *surface = touch->surface;
    return op->may_signal_release && !op->n_raw && touch->granted && surface->had_one_submission &&
           !surface->submissions && surface->owned && surface->ownership.id == touch->ownership.id &&
           is_transferred(surface) && !surface->engine_value;
}

/* Other processes can write to the page, so a value that the semaphore cannot take must not reach
 * the driver. */
static bool is_valid_signal(const vks_surface *surface, uint64_t value, uint64_t counter)
{
    return !surface->semaphore ||
           (value > counter && value > surface->announced && value - counter <= surface->device->max_difference);
}

/* The pages hold the pending values before the work can run and complete them. */
static void announce_values(vks_device *device, vks_work *op)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_touch *touch = &op->touches[i];
        if (__builtin_expect(!may_signal_release(op, touch), 1))
            continue;
        vks_surface *surface = touch->surface;
        uint64_t value = vks_surface_next_value(surface), counter = 0;
        if ((surface->semaphore && device->backend->counter(device, surface->semaphore, &counter)) ||
            !is_valid_signal(surface, value, counter)) /* the release reports it */
            continue;
        touch->value = value;
        vks_surface_announce(surface, value);
    }
}

/* Called if the driver refused the batch. */
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
        vks_mutex_publish_queued(surface->handle.page, value);
        vks_device_add_completion(device, serial, VKS_COMPLETION_SURFACE, surface, value);
        vks_surface_original(surface)->owned_by_queue = vks_surface_original(surface)->layout_unknown = false;
        vks_surface_continue_after(surface, value);
    }
}

/* ---- building the batch ---- */

#define SMALL 12

typedef struct scratch {
    vks_point small_waits[SMALL], small_signals[SMALL], *waits, *signals;
    uint64_t small_buffers[SMALL], *buffers;
    void *big; /* one block for all three arrays if they do not fit */
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

/* A frame's semaphores are binary (Vulkan 7.4): each signal is waited for exactly once. A frame
 * with more submissions than `rendered` can hold signals the last semaphore again; its own
 * submission waits for that one first. */
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

/* Called once the driver has the batch. */
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

/* Called first, so that a submission cannot fail halfway for lack of a semaphore. */
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
        /* An engine relies on the acquire as a barrier: release, then acquire. */
        if (acquire && owned_by_queue && op->n_raw)
            s->buffers[batch->n_buffers++] = surface->release_commands[batch->family];
        if (acquire && (!owned_by_queue || op->n_raw))
            s->buffers[batch->n_buffers++] = acquire;
        if (surface->semaphore && !vks_wait_point_is_complete(surface, &ownership->wait_point) &&
            !is_ordered_by_queue(op->device, surface, &ownership->wait_point))
            s->waits[batch->n_waits++] = (vks_point){surface->semaphore, ownership->wait_point.value};
    }
}

static void add_waits(vks_device *device, vks_batch *batch, scratch *s, const vks_work *op)
{
    for (uint32_t i = 0; i < op->n_waits; i++) {
        const vks_wait *wait = &op->waits[i];
        if (!device->timeline)
            continue; /* the CPU backend runs in order, and external values are complete by now */
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

/* Records GPU waits for values that other parties announced. */
static void record_gpu_waits(vks_device *device, const vks_work *op, uint64_t serial)
{
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        const vks_ownership *ownership = op->touches[i].granted ? &op->touches[i].ownership : &surface->ownership;
        if (surface->semaphore && surface->acquire_submitted < ownership->id &&
            !vks_wait_point_is_complete(surface, &ownership->wait_point) &&
            !is_ordered_by_queue(device, surface, &ownership->wait_point))
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

/* Updates the core's state once the driver has the batch. */
static void record_submission(vks_device *device, vks_work *op, uint64_t serial)
{
    if (device->native_timelines)
        record_gpu_waits(device, op, serial);
    record_graphics_use(op);
    for (uint32_t i = 0; i < op->n_touches; i++) {
        vks_surface *surface = op->touches[i].surface;
        if (surface
                ->presentable) /* acquire_submitted stays as it is, because each of its submissions needs semaphores */
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
        vks_fence_signal_submitted(op->signals[i].fence, op->signals[i].value, serial);
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

/* A release that needs no command and no signal: its work is the earlier submissions. */
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
    if (status || is_valid_signal(surface, value, counter))
        return status;
    vks_mutex_poison(surface->handle.page);
    return vks_fail(VKS_ABANDONED, 0, "the surface's page asks for the value %llu where its semaphore is at %llu",
                    (unsigned long long)value, (unsigned long long)counter);
}

/* Upper bound of the completions that the operation adds. */
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
        /* The ownership's wait point may be signalled by this very queue (is_ordered_by_queue);
         * then the value completes with it, not before. If the queue is idle, no batch will publish
         * the value, whatever the page holds. */
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
    record_submission(device, op, serial);
    if (op->kind == VKS_WORK_RELEASE) {
        op->touches[0].surface->announced = op->value;
        vks_mutex_publish_queued(op->touches[0].surface->handle.page, op->value);
        vks_device_add_completion(device, serial, VKS_COMPLETION_SURFACE, op->touches[0].surface, op->value);
    }
    vks_trace_completion(device, serial);
    if (!device->timeline) /* a batch without commands has already run */
        vks_device_publish(device);
    return VKS_OK;
}
