/* fence_external.c: fences that an external API's queue (CUDA) waits for and signals, through the
 * fence's own semaphore.
 *
 * A timeline takes its values in order from whichever queue. So the API's queue waits for the value
 * that was announced before its own, and batches of this device that signal wait for the last value
 * queued with the API (access.c). Between external_begin and external_end the value is announced
 * but no wait relies on it, because the API may refuse it.
 */
#include "fence/fence.h"

void vks_fence_ref_object(void *fence) { vks_fence_ref(fence); }
void vks_fence_unref_object(void *fence) { vks_fence_unref(fence); }

/* ---- what is outstanding ---- */

static void resolve_wait(vks_device *device, const vks_completion *completion)
{
    const vks_fence *fence = completion->object;
    const vks_fence_page *page = fence->page;
    uint32_t status = atomic_load(&page->status);
    if (fence->semaphore && (status == VKS_FENCE_LOST || status == VKS_FENCE_CLOSED || !vks_peer_alive(page->owner)))
        vks_device_signal_orphaned(device, fence->semaphore, completion->value);
}

/* The external API that was to signal the value is lost, so the value is not valid
 * (vks_fence.last_valid). The signal only lets waiting queues continue. Signals go in order,
 * because an outstanding lower signal would lower the counter. */
static void resolve_signal(vks_device *device, const vks_completion *completion)
{
    const vks_fence *fence = completion->object;
    uint64_t counter;
    if (completion->value > fence->last_valid && fence->semaphore &&
        device->backend->counter(device, fence->semaphore, &counter) == VKS_OK && counter >= completion->serial)
        vks_device_signal_orphaned(device, fence->semaphore, completion->value);
}

const vks_completion_class vks_fence_gpu_wait = {
    .resolve = resolve_wait, .ref = vks_fence_ref_object, .unref = vks_fence_unref_object};
const vks_completion_class vks_fence_external_signal = {.run = vks_fence_publish_completion,
                                                        .resolve = resolve_signal,
                                                        .ref = vks_fence_ref_object,
                                                        .unref = vks_fence_unref_object};

/* ---- the calls ---- */

static vks_status check_external(const vks_fence *fence)
{
    if (fence->process != vks_process)
        return VKS_FORKED;
    if (fence->closed)
        return VKS_CLOSED;
    vks_status status = vks_device_check(fence->device);
    if (status)
        return status;
    return !fence->adopted && vks_fence_is_native(fence)
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, 0, "the fence has no timeline semaphore that another API could import");
}

/* Caller holds device->lock. */
static vks_status begin_wait(vks_fence *fence, uint64_t value, uint64_t *wait)
{
    vks_device *device = fence->device;
    vks_status status = check_external(fence);
    if (status || vks_fence_completed(fence) >= value)
        return status;
    if (value > fence->last_valid)
        return VKS_ABANDONED;
    if (fence->follower) { /* its signaller may die, and then its wait is orphaned: the host must end it */
        if ((status = vks_device_reserve_external(device)))
            return status;
        vks_device_add_external(device, &vks_fence_gpu_wait, fence, fence->semaphore, value, 0);
    }
    *wait = value;
    return VKS_OK;
}

vks_status vks_fence_external_wait(vks_fence *fence, uint64_t value, uint64_t deadline, uint64_t *wait)
{
    VKS_NEEDS(fence, wait);
    *wait = 0;
    vks_status status = check_external(fence);
    if (status || (status = vks_fence_wait_queued(fence, value, deadline)))
        return status;
    pthread_mutex_lock(&fence->device->lock);
    status = begin_wait(fence, value, wait);
    pthread_mutex_unlock(&fence->device->lock);
    return status;
}

/* Caller holds device->lock. */
static vks_status begin_signal(vks_fence *fence, uint64_t value)
{
    vks_device *device = fence->device;
    vks_status status = check_external(fence);
    if (status)
        return status;
    if (!value)
        return fence->follower
                   ? VKS_READ_ONLY
                   : vks_fail(VKS_BAD_VALUE, 0, "a fence can be signalled with 1 up to 2**64 - 2, and not with 0");
    if ((status = vks_fence_check_signal(fence, device, &value)))
        return status;
    if (fence->external_signal)
        return vks_fail(VKS_BAD_CALL, 0, "another thread gives a stream the value %llu just now",
                        (unsigned long long)fence->external_signal);
    if (fence->held_signals)
        return vks_fail(VKS_BAD_CALL, 0,
                        "a submission that is held signals the fence first (queued_value is %llu), and a stream cannot "
                        "be held: wait until it is not (Submission.is_held)",
                        (unsigned long long)fence->announced);
    if ((status = vks_device_reserve_external(device)))
        return status;
    fence->external_after = fence->announced;
    fence->external_signal = fence->announced = value;
    /* The signal may come before external_end. */
    vks_device_add_external(device, &vks_fence_external_signal, fence, fence->semaphore, value, fence->external_after);
    return VKS_OK;
}

vks_status vks_fence_external_begin(vks_fence *fence, uint64_t value, uint64_t *wait)
{
    VKS_NEEDS(fence, wait);
    vks_device *device = fence->device;
    *wait = 0;
    vks_status status = check_external(fence); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = begin_signal(fence, value)) && vks_fence_completed(fence) < fence->external_after)
        *wait = fence->external_after;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Caller holds device->lock. */
static void retract_signal(vks_fence *fence)
{
    vks_device_drop_external(fence->device, fence, fence->external_signal);
    if (fence->announced == fence->external_signal) /* otherwise held submissions follow it, and a gap is harmless */
        fence->announced = fence->external_after;
    fence->external_signal = 0;
}

vks_status vks_fence_external_end(vks_fence *fence, uint64_t value)
{
    VKS_NEEDS(fence);
    vks_device *device = fence->device;
    vks_status status = check_external(fence);
    if (status && (value || status != VKS_CLOSED)) /* close() waits for a withdrawal too */
        return status;
    pthread_mutex_lock(&device->lock);
    status = value || !fence->external_signal ? check_external(fence) : VKS_OK;
    if (!status && (!fence->external_signal || (value && value != fence->external_signal)))
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the value to signal is %llu (0: none was requested)",
                          (unsigned long long)fence->external_signal);
    if (!status && value) {
        fence->external_value = value;
        fence->external_signal = 0;
        vks_fence_publish_queued(fence, value);
    } else if (!status) {
        retract_signal(fence);
    }
    if (!status)
        vks_scheduler_run(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

void vks_fence_fail_external(vks_fence *fence)
{
    const vks_completions *all = &fence->device->completions;
    uint64_t last_valid = fence->last_valid;
    for (size_t i = 0; i < all->n_external; i++) {
        const vks_completion *completion = &all->external[i].completion;
        if (completion->class == &vks_fence_external_signal && completion->object == fence &&
            completion->serial < last_valid)
            last_valid = completion->serial;
    }
    if (last_valid == fence->last_valid)
        return;
    fence->last_valid = last_valid;
    vks_fence_fail(fence);
}

vks_status vks_fence_external_lost(vks_fence *fence)
{
    VKS_NEEDS(fence);
    vks_device *device = fence->device;
    vks_status status = check_external(fence);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = check_external(fence))) {
        vks_device_publish(device); /* values that were reached before count */
        if (fence->external_signal)
            retract_signal(fence);
        vks_fence_fail_external(fence);
        vks_scheduler_run(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
