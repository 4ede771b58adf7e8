/* values.c: a fence's values: announced, queued, completed, failed. */
#include "fence/fence.h"
#include "fence/trace_points.h"

/* ---- completion ---- */

/* Returns whether the semaphore may be ahead of the page. */
bool vks_fence_may_be_behind(const vks_fence *fence)
{
    const vks_fence_page *page = fence->page;
    return fence->semaphore && (fence->adopted || atomic_load_explicit(&page->queued, memory_order_relaxed) >
                                                      atomic_load_explicit(&page->completed, memory_order_relaxed));
}

uint64_t vks_fence_completed(vks_fence *fence)
{
    const vks_fence_page *page = fence->page;
    uint64_t completed = atomic_load_explicit(&page->completed, memory_order_acquire), counter;
    if (!vks_fence_may_be_behind(fence))
        return completed;
    vks_status status = fence->device->backend->counter(fence->device, fence->semaphore, &counter);
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(fence->device);
    if (counter > fence->last_valid)
        counter = fence->last_valid;
    return status == VKS_OK && counter > completed ? counter : completed;
}

/* Takes device->lock, so that close() does not destroy the semaphore meanwhile. */
uint64_t vks_fence_current(vks_fence *fence)
{
    if (!vks_fence_may_be_behind(fence))
        return atomic_load_explicit(&vks_fence_page_of(fence)->completed, memory_order_acquire);
    pthread_mutex_lock(&fence->device->lock);
    uint64_t completed = vks_fence_completed(fence);
    if (!fence->follower && !fence->adopted)
        vks_fence_publish_completed(fence, completed); /* the next call need not query the driver */
    pthread_mutex_unlock(&fence->device->lock);
    return completed;
}

static void wake_page(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    atomic_fetch_add(&page->seq, 1);
    if (fence->page_fd >= 0 || fence->sleepers)
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
}

void vks_fence_publish_completed(vks_fence *fence, uint64_t completed)
{
    vks_fence_page *page = fence->page;
    VKS_KILL_POINT(20);
    if (!vks_atomic_max(&page->completed, completed < fence->last_valid ? completed : fence->last_valid))
        return;
    VKS_KILL_POINT(21);
    wake_page(fence);
    if (fence->n_events)
        vks_fence_fire_events(fence, completed, VKS_OK);
}

/* Only the signaller writes `queued`, under its device's lock, so a plain store is enough. */
static void store_queued(vks_fence *fence, uint64_t value)
{
    vks_fence_page *page = fence->page;
    if (atomic_load_explicit(&page->queued, memory_order_relaxed) < value)
        atomic_store_explicit(&page->queued, value, memory_order_release);
}

void vks_fence_publish_queued(vks_fence *fence, uint64_t value)
{
    store_queued(fence, value);
    if (fence->published || fence->sleepers) /* followers whose GPU can wait read `queued` */
        wake_page(fence);
}

void vks_fence_publish_completion(const vks_completion *completion, bool ran)
{
    if (ran) /* a fence of a lost device keeps its value */
        vks_fence_publish_completed(completion->object, completion->value);
}

static const vks_completion_class fence_signal = {
    .run = vks_fence_publish_completion, .ref = vks_fence_ref_object, .unref = vks_fence_unref_object};

void vks_fence_signal_submitted(vks_fence *fence, uint64_t value, uint64_t serial)
{
    if (fence->announced < value)
        fence->announced = value;
    fence->last_serial = serial;
    vks_fence_publish_queued(fence, value);
    if (vks_fence_is_watched(fence))
        vks_device_add_completion(fence->device, serial, &fence_signal, fence, value);
}

/* From now on completions reach the page, also those of values that the driver already has. Caller
 * holds device->lock. */
vks_status vks_fence_start_publishing(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    if (fence->follower || fence->adopted || page->queued <= page->completed || fence->closed)
        return VKS_OK;
    vks_device *device = fence->device;
    /* A value of an external API is published anyway. */
    bool by_serial = fence->external_value < page->queued;
    vks_status status = by_serial ? vks_device_reserve(device, 1) : VKS_OK;
    if (!status && by_serial) /* adds the last signal; earlier ones are polled */
        vks_device_add_completion(device, fence->last_serial ? fence->last_serial : device->submitted, &fence_signal,
                                  fence, page->queued);
    device->has_untracked_values |= !status && fence->semaphore && page->queued > page->completed + 1;
    return status;
}

void vks_fence_poll_untracked(vks_fence *fence)
{
    if (!vks_fence_is_watched(fence) || !vks_fence_may_be_behind(fence) || fence->follower || fence->adopted)
        return;
    vks_fence_publish_completed(fence, vks_fence_completed(fence));
    fence->device->has_untracked_values |= vks_fence_may_be_behind(fence);
}

/* Returns false if the page had a final status already. */
bool vks_fence_set_status(vks_fence_page *page, uint32_t end)
{
    uint32_t live = VKS_FENCE_LIVE, broken = VKS_FENCE_BROKEN;
    return atomic_compare_exchange_strong(&page->status, &live, end) ||
           (end != VKS_FENCE_BROKEN && atomic_compare_exchange_strong(&page->status, &broken, end));
}

void vks_fence_fail(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    bool lost = fence->device->lost;
    if (fence->follower ? !lost : !vks_fence_set_status(page, lost ? VKS_FENCE_LOST : VKS_FENCE_BROKEN))
        return;
    if (fence->follower) /* another process's page; its sleepers in this process check their device's state */
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
    else
        wake_page(fence);
    vks_fence_fire_events(fence, vks_fence_completed(fence), lost ? VKS_DEVICE_LOST : VKS_ABANDONED);
}

/* ---- values ---- */

vks_status vks_fence_value(vks_fence *fence, uint64_t *out)
{
    VKS_NEEDS(fence, out);
    vks_status status = vks_fence_check(fence);
    if (!status)
        *out = vks_fence_current(fence);
    return status;
}

vks_status vks_fence_queued(vks_fence *fence, uint64_t *out)
{
    VKS_NEEDS(fence, out);
    vks_status status = vks_fence_check(fence);
    if (status)
        return status;
    if (fence->follower) {
        *out = atomic_load(&vks_fence_page_of(fence)->queued);
        return VKS_OK;
    }
    pthread_mutex_lock(&fence->device->lock);
    uint64_t completed = fence->adopted ? vks_fence_completed(fence) : 0;
    *out = fence->announced > completed ? fence->announced : completed;
    pthread_mutex_unlock(&fence->device->lock);
    return VKS_OK;
}

vks_status vks_fence_check_signal(vks_fence *fence, const vks_device *device, uint64_t *value)
{
    vks_status status = vks_fence_check(fence);
    if (status)
        return status;
    if (fence->device != device)
        return VKS_FOREIGN_DEVICE;
    if (fence->follower)
        return VKS_READ_ONLY;
    if (atomic_load_explicit(&vks_fence_page_of(fence)->status, memory_order_relaxed) != VKS_FENCE_LIVE)
        return VKS_ABANDONED;
    if (fence->adopted) {
        uint64_t counter = vks_fence_completed(fence);
        if (fence->announced < counter)
            fence->announced = counter;
    }
    if (*value == 0)
        *value = fence->announced + 1;
    if (__builtin_expect(*value <= fence->announced || *value > VKS_MAX_FENCE_VALUE, 0))
        return vks_fail(VKS_BAD_VALUE, (int64_t)*value,
                        "a signal must be above the queued value %llu and at most 2**64 - 2, and it is %llu",
                        (unsigned long long)fence->announced, (unsigned long long)*value);
    const vks_fence_page *page = fence->page;
    if (*value - atomic_load_explicit(&page->completed, memory_order_relaxed) > device->max_difference &&
        *value - vks_fence_completed(fence) > device->max_difference)
        return vks_fail(VKS_BAD_VALUE, (int64_t)*value,
                        "the signal %llu is more than %llu (maxTimelineSemaphoreValueDifference) above the value %llu",
                        (unsigned long long)*value, (unsigned long long)device->max_difference,
                        (unsigned long long)vks_fence_completed(fence));
    return VKS_OK;
}

vks_status vks_fence_signal(vks_fence *fence, uint64_t value)
{
    VKS_NEEDS(fence);
    vks_device *device = fence->device;
    uint64_t began = vks_trace_begin();
    vks_status status = vks_fence_check(fence);
    if (status || (status = vks_device_check(device)))
        return status;
    if (value == 0)
        return fence->follower
                   ? VKS_READ_ONLY
                   : vks_fail(VKS_BAD_VALUE, 0, "a fence can be signalled with 1 up to 2**64 - 2, and not with 0");
    pthread_mutex_lock(&device->lock);
    bool pending = fence->announced > vks_fence_completed(fence);
    status = vks_fence_check_signal(fence, device, &value);
    if (!status && !pending &&
        (!fence->semaphore || !(status = device->backend->host_signal(device, fence->semaphore, value)))) {
        fence->announced = value;
        store_queued(fence, value);
        vks_fence_publish_completed(fence, value);
        if (device->n_held)
            vks_scheduler_run(device);
    } else if (!status && pending) {
        /* Signals are pending, and the counter must not pass them
         * (VUID-VkSemaphoreSignalInfo-value-03259), so signal through the queue. */
        vks_access access;
        vks_work *held, draft;
        vks_access_signal(&access, fence, value);
        vks_work_draft(&draft, device, VKS_WORK_SUBMIT, vks_work_submit, &access, 1);
        status = vks_work_submit_or_hold(&draft, fence->held_signals > 0, true, &held);
        if (held)
            vks_work_unref(held);
    }
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
    VKS_TRACE(began, vks_traced_fence(VKS_TRACE_SIGNAL, fence, value, began, status));
    return status;
}
