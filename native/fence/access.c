/* access.c: what operations do with fences: they wait for them and signal them. */
#include "fence/fence.h"

static uint64_t fence_id(const vks_access *access) { return vks_fence_page_of(access->object)->header.id; }

/* ---- waits ---- */

static vks_readiness wait_ready(vks_access *access, const vks_work *work, vks_status *why)
{
    vks_fence *fence = access->object;
    (void)work;
    const vks_fence_page *page = fence->page;
    if (atomic_load(&page->completed) >= access->value)
        return VKS_READY; /* a reached value stays valid after the fence has failed */
    if (fence->closed)
        return vks_never_ready(why, VKS_CLOSED);
    if (fence->adopted) {
        uint64_t value = vks_fence_completed(fence);
        return value >= access->value || atomic_load(&page->queued) >= access->value ? VKS_READY : VKS_HOLD;
    }
    bool queued = atomic_load(&page->queued) >= access->value;
    if (access->value > fence->last_valid)
        return vks_never_ready(why, VKS_ABANDONED);
    if (!fence->follower && queued)
        return VKS_READY;
    if (atomic_load(&page->status) != VKS_FENCE_LIVE || (fence->follower && !vks_peer_alive(page->owner)))
        return atomic_load(&page->completed) >= access->value ? VKS_READY : vks_never_ready(why, VKS_ABANDONED);
    return fence->semaphore && queued ? VKS_READY : VKS_HOLD;
}

static bool is_follower(const vks_access *access)
{
    const vks_fence *fence = access->object;
    return fence->follower;
}

static void watch_follower(const vks_access *access, vks_watch_list *list)
{
    const vks_fence *fence = access->object;
    vks_fence_page *page = fence->page;
    if (fence->follower && !fence->closed)
        vks_watch_word(list, &page->seq, atomic_load(&page->seq));
}

/* The CPU backend has no semaphores; there the value is complete by now. A follower's signaller may
 * die, and then the host must end the wait. */
static void add_wait(vks_access *access, const vks_work *work, vks_batch_draft *draft)
{
    const vks_fence *fence = access->object;
    access->waits = false;
    if (!fence->semaphore || atomic_load(&vks_fence_page_of(fence)->completed) >= access->value)
        return;
    vks_draft_wait(draft, fence->semaphore, access->value);
    access->waits = fence->follower && work->device->native_timelines;
    draft->completions += access->waits;
}

static void record_wait(vks_access *access, const vks_work *work, uint64_t serial)
{
    if (access->waits)
        vks_device_add_completion(work->device, serial, &vks_fence_gpu_wait, access->object, access->value);
}

static void hold_wait(const vks_access *access, int by)
{
    vks_fence *fence = access->object;
    fence->held_waits += (uint32_t)by;
    if (fence->adopted)
        fence->device->polled_waits += (uint32_t)by;
}

const vks_access_class vks_fence_wait_access = {
    .ready = wait_ready,
    .watch = watch_follower,
    .is_watched = is_follower,
    .before = add_wait,
    .submitted = record_wait,
    .held = hold_wait,
    .id = fence_id,
    .ref = vks_fence_ref_object,
    .unref = vks_fence_unref_object,
};

/* ---- signals ---- */

static vks_readiness signal_ready(vks_access *access, const vks_work *work, vks_status *why)
{
    (void)work;
    const vks_fence *fence = access->object;
    if (fence->closed)
        return vks_never_ready(why, VKS_CLOSED);
    return fence->external_signal ? VKS_HOLD : VKS_READY;
}

static void add_signal(const vks_access *access, const vks_work *work, vks_batch_draft *draft)
{
    const vks_fence *fence = access->object;
    draft->completions += vks_fence_is_watched(fence);
    if (!work->device->timeline)
        return;
    if (vks_fence_follows_external(fence))
        vks_draft_wait(draft, fence->semaphore, fence->external_value);
    vks_draft_signal(draft, fence->semaphore, access->value);
}

static void record_signal(vks_access *access, const vks_work *work, uint64_t serial)
{
    (void)work;
    vks_fence_signal_submitted(access->object, access->value, serial);
}

static void fail_signal(const vks_access *access, const vks_work *work, vks_status why)
{
    (void)work, (void)why;
    vks_fence_fail(access->object);
}

static void hold_signal(const vks_access *access, int by)
{
    vks_fence *fence = access->object;
    fence->held_signals += (uint32_t)by;
    if (by > 0)
        fence->announced = access->value;
}

const vks_access_class vks_fence_signal_access = {
    .ready = signal_ready,
    .after = add_signal,
    .submitted = record_signal,
    .failed = fail_signal,
    .held = hold_signal,
    .id = fence_id,
    .unblocks = true,
    .ref = vks_fence_ref_object,
    .unref = vks_fence_unref_object,
};
