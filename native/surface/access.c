/* access.c: what operations do with surfaces: the batches that use one, and that end an
 * ownership. */
#include "surface/surface.h"

/* A pending access gets its wait point with the grant. */
static const vks_ownership *ownership_of(const vks_access *access)
{
    const vks_surface *surface = access->object;
    return access->granted ? &access->ownership : &surface->ownership;
}

uint64_t vks_surface_access_id(const vks_access *access)
{
    const vks_surface *surface = access->object;
    return surface->handle.page->header.id;
}

/* ---- readiness ---- */

vks_readiness vks_surface_use_ready(vks_access *access, const vks_work *work, vks_status *why)
{
    const vks_surface *surface = access->object;
    if (surface->closed)
        return vks_never_ready(why, VKS_CLOSED);
    const vks_ownership *ownership = ownership_of(access);
    if (ownership->id != access->ownership.id) /* its acquire failed */
        return vks_never_ready(why, VKS_ABANDONED);
    if (surface->acquire_submitted >= ownership->id)
        return VKS_READY;
    return vks_wait_point_ready(work->device, surface, &ownership->wait_point, why);
}

bool vks_surface_is_watched(const vks_access *access)
{
    (void)access;
    return true;
}

void vks_surface_watch_values(const vks_access *access, vks_watch_list *list)
{
    vks_surface *surface = access->object;
    if (surface->closed)
        return;
    vks_watch_word(list, &surface->handle.page->value_seq, vks_mutex_prepare_value_wait(surface->handle.page));
    vks_peers_watch_page(&surface->mapping);
}

static unsigned queue_needs(const vks_access *access)
{
    const vks_surface *surface = access->object;
    bool needs_graphics = surface->presentable || surface->engine_value ||
                          (surface->release_commands[VKS_GRAPHICS] && !surface->release_commands[VKS_TRANSFER]);
    return (needs_graphics ? VKS_GRAPHICS_ONLY : 0u) |
           (surface->last_used_graphics || surface->uses_graphics ? VKS_GRAPHICS_LIKELY : 0u) |
           (surface->acquire_submitted < access->ownership.id ? VKS_BEGINS_OWNERSHIP : 0u);
}

/* ---- releases within a submission ----
 *
 * A call of vkQueueSubmit2 is most of the cost of a hand-over. So if a handle's last ownership had
 * one submission, the first submission of the next ownership also does the release's work: its
 * batch releases the image and signals the value, and release() submits nothing. If another
 * submission follows, the ownership continues behind that value.
 */

static bool may_signal_release(const vks_access *access, const vks_work *work)
{
    const vks_surface *surface = access->object;
    return work->may_signal_release && !work->n_raw && access->granted && surface->had_one_submission &&
           !surface->submissions && surface->owned && surface->ownership.id == access->ownership.id &&
           vks_surface_is_transferred(surface) && !surface->engine_value;
}

/* The page holds the pending value before the work can run and complete it. */
static void announce_release(vks_access *access)
{
    vks_surface *surface = access->object;
    vks_device *device = surface->device;
    uint64_t value = vks_surface_next_value(surface), counter = 0;
    if ((surface->semaphore && device->backend->counter(device, surface->semaphore, &counter)) ||
        !vks_surface_may_signal(surface, value, counter)) /* the release reports it */
        return;
    access->value = value;
    vks_surface_announce(surface, value);
}

static void retract_release(vks_access *access)
{
    if (access->value)
        vks_surface_retract(access->object, access->value);
    access->value = 0;
}

/* ---- the batch ---- */

static vks_status prepare_use(vks_access *access, const vks_work *work)
{
    vks_presentable *frame = ((const vks_surface *)access->object)->presentable;
    vks_status status = frame && !frame->spare ? frame->refill(frame) : VKS_OK;
    if (status)
        return status;
    if (__builtin_expect(may_signal_release(access, work), 0))
        announce_release(access);
    return VKS_OK;
}

/* A frame's semaphores are binary (Vulkan 7.4): each signal is waited for exactly once. A frame
 * with more submissions than `rendered` can hold signals the last semaphore again; its own
 * submission waits for that one first. */
static void add_presentable(vks_batch_draft *draft, const vks_presentable *frame)
{
    if (frame->acquired)
        vks_draft_wait(draft, frame->acquired, 0);
    if (frame->initial_commands)
        vks_draft_buffer(draft, frame->initial_commands);
    uint64_t signalled = frame->spare;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES) {
        signalled = frame->rendered[VKS_FRAME_SEMAPHORES - 1];
        vks_draft_wait(draft, signalled, 0);
    }
    vks_draft_signal(draft, signalled, 0);
}

/* Acquires the image, and waits for the previous owner. */
static void add_use(vks_access *access, const vks_work *work, vks_batch_draft *draft)
{
    const vks_surface *surface = access->object;
    const vks_ownership *ownership = ownership_of(access);
    bool is_acquired = surface->acquire_submitted >= ownership->id;
    access->waits = false;
    if (surface->presentable)
        add_presentable(draft, surface->presentable);
    if (is_acquired && !work->is_barrier)
        return;
    vks_family family = draft->batch.family;
    uint64_t acquire = surface->acquire_commands[family];
    const vks_surface *original = vks_surface_original(surface);
    bool owned_by_queue = original->owned_by_queue;
    if (original->initial_commands)
        vks_draft_buffer(draft, original->initial_commands);
    /* An engine relies on the acquire as a barrier: release, then acquire. */
    bool is_barrier = work->n_raw || work->is_barrier;
    if (acquire && owned_by_queue && is_barrier)
        vks_draft_buffer(draft, surface->release_commands[family]);
    if (acquire && (!owned_by_queue || is_barrier))
        vks_draft_buffer(draft, acquire);
    access->waits = !is_acquired && surface->semaphore &&
                    !vks_wait_point_is_complete(surface, &ownership->wait_point) &&
                    !vks_wait_point_is_ordered(work->device, surface, &ownership->wait_point);
    if (access->waits)
        vks_draft_wait(draft, surface->semaphore, ownership->wait_point.value);
    draft->completions += access->waits;
}

/* The engine's barriers are not known, and its image stays with the queue: the batch of the release
 * has a barrier for the next user there, which then needs none (external.c). */
static bool ends_engine_turn(const vks_surface *surface, const vks_work *work)
{
    return work->kind == VKS_WORK_RELEASE && surface->is_engine_in_queue && surface->release_commands[VKS_GRAPHICS] &&
           !vks_surface_is_transferred(surface);
}

static void add_release(const vks_access *access, const vks_work *work, vks_batch_draft *draft)
{
    const vks_surface *surface = access->object;
    if (!access->value)
        return;
    draft->completions++;
    if (surface->engine_semaphore)
        vks_draft_wait(draft, surface->engine_semaphore, surface->engine_value);
    bool ends_with_barrier = ends_engine_turn(surface, work);
    if (ends_with_barrier || vks_surface_is_transferred(surface))
        vks_draft_buffer(draft, surface->release_commands[draft->batch.family]);
    if (ends_with_barrier)
        vks_draft_buffer(draft, surface->acquire_commands[draft->batch.family]);
    if (surface->semaphore)
        vks_draft_signal(draft, surface->semaphore, access->value);
}

/* ---- the driver has the batch ---- */

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

static bool uses_graphics(const vks_work *work)
{
    bool uses = work->n_raw != 0;
    for (uint32_t i = 0; i < work->n_commands; i++)
        uses |= !work->commands[i]->buffers[VKS_TRANSFER];
    return uses;
}

static void record_use(vks_access *access, const vks_work *work, uint64_t serial, bool is_released)
{
    vks_surface *surface = access->object, *original = vks_surface_original(surface);
    if (access->waits)
        vks_device_add_completion(work->device, serial, &vks_surface_gpu_wait, surface,
                                  ownership_of(access)->wait_point.value);
    if (surface->presentable) /* acquire_submitted stays, because each of its submissions needs semaphores */
        use_presentable(surface->presentable, serial);
    else if (surface->acquire_submitted < access->ownership.id)
        surface->acquire_submitted = access->ownership.id;
    original->initial_commands = 0;
    original->owned_by_queue = !is_released;
    original->layout_unknown = !is_released && (original->layout_unknown || work->n_raw);
    vks_surface_record_batch(surface, serial, uses_graphics(work), work->kind == VKS_WORK_RELEASE);
    if (!is_released && ends_engine_turn(surface, work))
        original->visible_serial = serial;
}

static void use_submitted(vks_access *access, const vks_work *work, uint64_t serial)
{
    vks_surface *surface = access->object;
    record_use(access, work, serial, access->value != 0);
    if (!access->value)
        return;
    vks_surface_value_submitted(surface, access->value, serial);
    vks_surface_continue_after(surface, access->value);
}

/* ---- holds and failures ---- */

static vks_work *find_ownership(const vks_surface *surface, uint64_t ownership)
{
    for (vks_work *work = vks_scheduler_first(surface->device); work; work = work->next)
        for (uint32_t i = 0; i < work->n_accesses; i++)
            if (work->accesses[i].object == surface && work->accesses[i].ownership.id == ownership)
                return work;
    return NULL;
}

bool vks_ownership_is_held(const vks_surface *surface)
{
    return surface->held && find_ownership(surface, surface->ownership.id);
}

void vks_surface_fail_held(vks_surface *surface, bool acquires_only, vks_status why)
{
    for (vks_work *work = vks_scheduler_first(surface->device); work;) {
        bool ours = false;
        for (uint32_t i = 0; i < work->n_accesses; i++)
            ours |= work->accesses[i].object == surface;
        vks_work *next = work->next;
        if (ours && (work->kind == VKS_WORK_ACQUIRE || !acquires_only)) {
            vks_work_fail(work, why);
            next = vks_scheduler_first(surface->device); /* others may have gone with it */
        }
        work = next;
    }
}

void vks_surface_hold_use(const vks_access *access, int by)
{
    vks_surface *surface = access->object;
    surface->held += (uint32_t)by;
}

bool vks_access_had_ownership(const vks_access *access)
{
    const vks_surface *surface = access->object;
    return access->granted || surface->ownership.id == access->ownership.id;
}

void vks_surface_fail_pending(const vks_access *access, vks_status why)
{
    vks_surface *surface = access->object;
    if (vks_access_had_ownership(access))
        return;
    if (surface->next_ownership == access->ownership.id)
        surface->pending = false;
    for (vks_work *work; (work = find_ownership(surface, access->ownership.id));)
        vks_work_fail(work, why);
    vks_surface_changed(surface);
}

static void fail_use(const vks_access *access, const vks_work *work, vks_status why)
{
    (void)work;
    vks_surface *surface = access->object;
    if (vks_access_had_ownership(access) && !surface->closed)
        vks_mutex_poison(surface->handle.page);
    vks_surface_fail_pending(access, why);
}

const vks_access_class vks_surface_use = {
    .ready = vks_surface_use_ready,
    .watch = vks_surface_watch_values,
    .is_watched = vks_surface_is_watched,
    .queue_needs = queue_needs,
    .prepare = prepare_use,
    .refused = retract_release,
    .before = add_use,
    .after = add_release,
    .submitted = use_submitted,
    .failed = fail_use,
    .held = vks_surface_hold_use,
    .id = vks_surface_access_id,
    .ref = vks_surface_ref_object,
    .unref = vks_surface_unref_object,
};

/* ---- the batch of a release whose page was released ---- */

static vks_status prepare_release(vks_access *access, const vks_work *work)
{
    (void)work;
    return vks_surface_check_value(access->object, access->value);
}

static void release_submitted(vks_access *access, const vks_work *work, uint64_t serial)
{
    record_use(access, work, serial, vks_surface_is_transferred(access->object));
    vks_surface_value_submitted(access->object, access->value, serial);
}

/* Completes the value once the batches of this handle have run. The chain is poisoned, so no party
 * takes the value for a complete frame. */
static void complete_poisoned(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    if (device->backend->completed(device) >= surface->last_serial || vks_device_reserve(device, 1) != VKS_OK)
        vks_surface_complete(surface, value);
    else
        vks_device_add_completion(device, device->submitted, &vks_surface_signal, surface, value);
}

static void fail_release_batch(const vks_access *access, const vks_work *work, vks_status why)
{
    vks_surface *surface = access->object;
    fail_use(access, work, why);
    if (!surface->closed)
        complete_poisoned(surface, access->value);
}

const vks_access_class vks_surface_release_batch = {
    .ready = vks_surface_use_ready,
    .watch = vks_surface_watch_values,
    .is_watched = vks_surface_is_watched,
    .queue_needs = queue_needs,
    .prepare = prepare_release,
    .before = add_use,
    .after = add_release,
    .submitted = release_submitted,
    .failed = fail_release_batch,
    .held = vks_surface_hold_use,
    .id = vks_surface_access_id,
    .unblocks = true,
    .ref = vks_surface_ref_object,
    .unref = vks_surface_unref_object,
};

/* A release that needs no command and no signal: its work is the earlier submissions. */
static bool is_empty_release(const vks_surface *surface)
{
    bool is_awaited = surface->semaphore && vks_surface_original(surface)->is_shared;
    return !vks_surface_is_transferred(surface) && !is_awaited && !surface->engine_value;
}

vks_status vks_surface_run_release_batch(vks_work *work)
{
    vks_device *device = work->device;
    vks_access *access = &work->accesses[0];
    vks_surface *surface = access->object;
    if (!is_empty_release(surface))
        return vks_work_submit(work);
    vks_status status = vks_surface_check_value(surface, access->value);
    if (status || (status = vks_device_reserve(device, 1)))
        return status;
    atomic_store(&work->serial, surface->last_serial);
    /* The ownership's wait point may be signalled by this very queue (vks_wait_point_is_ordered);
     * then the value completes with it, not before. If the queue is idle, no batch will publish
     * the value, whatever the page holds. */
    bool is_settled = vks_wait_point_is_complete(surface, &access->ownership.wait_point);
    if (device->backend->completed(device) >= (is_settled ? surface->last_serial : device->submitted))
        vks_surface_complete(surface, access->value);
    else
        vks_device_add_completion(device, device->submitted, &vks_surface_signal, surface, access->value);
    return VKS_OK;
}
