/* fence_outside.c: fences that another API's queue waits for and signals (CUDA), by the fence's own semaphore.
 *
 * A counter takes its values in order, whichever queue brings them. So the API's queue waits for the value that was
 * promised before it signals its own, and a batch of ours that signals waits for what the API was given before
 * (batch.c). Between lend_value and lent_back the value is promised, and nobody counts on it: the API may refuse. */
#include "device.h"

static vks_status check(const vks_fence *fence)
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

/* Under the lock. */
static vks_status lend_wait(vks_fence *fence, uint64_t value, uint64_t *wait)
{
    vks_device *device = fence->device;
    vks_status status = check(fence);
    if (status || vks_fence_completed(fence) >= value)
        return status;
    if (value > fence->end)
        return VKS_ABANDONED;
    if (fence->follower) { /* its signaller may die: then the queue that waits must be helped (stuck.c) */
        if ((status = vks_device_reserve_outside(device)))
            return status;
        vks_device_due_outside(device, VKS_DUE_FENCE_WAIT, fence, value, 0);
    }
    *wait = value;
    return VKS_OK;
}

vks_status vks_fence_lend_wait(vks_fence *fence, uint64_t value, uint64_t deadline, uint64_t *wait)
{
    *wait = 0;
    vks_status status = check(fence);
    if (status || (status = vks_fence_wait_certain(fence, value, deadline)))
        return status;
    pthread_mutex_lock(&fence->device->lock);
    status = lend_wait(fence, value, wait);
    pthread_mutex_unlock(&fence->device->lock);
    return status;
}

/* Under the lock. */
static vks_status lend_value(vks_fence *fence, uint64_t value)
{
    vks_device *device = fence->device;
    vks_status status = check(fence);
    if (status)
        return status;
    if (!value)
        return fence->follower
                   ? VKS_READ_ONLY
                   : vks_fail(VKS_BAD_VALUE, 0, "a fence can be signalled with 1 up to 2**64 - 2, and not with 0");
    if ((status = vks_fence_check_signal(fence, device, &value)))
        return status;
    if (fence->lent)
        return vks_fail(VKS_BAD_CALL, 0, "another thread gives a stream the value %llu just now",
                        (unsigned long long)fence->lent);
    if (fence->held_signals)
        return vks_fail(VKS_BAD_CALL, 0,
                        "a submission that is held signals the fence first (queued_value is %llu), and a stream cannot "
                        "be held: wait until it is not (Submission.is_held)",
                        (unsigned long long)fence->promised);
    if ((status = vks_device_reserve_outside(device)))
        return status;
    fence->lent_after = fence->promised;
    fence->lent = fence->promised = value;
    vks_device_due_outside(device, VKS_DUE_FENCE, fence, value, fence->lent_after); /* it may come before lent_back */
    return VKS_OK;
}

vks_status vks_fence_lend_value(vks_fence *fence, uint64_t value, uint64_t *wait)
{
    vks_device *device = fence->device;
    *wait = 0;
    vks_status status = check(fence); /* first: after fork() the lock may be held for ever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = lend_value(fence, value)) && vks_fence_completed(fence) < fence->lent_after)
        *wait = fence->lent_after;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Under the lock. */
static void take_back(vks_fence *fence)
{
    vks_device_forget_outside(fence->device, fence, fence->lent);
    if (fence->promised == fence->lent) /* else held submissions come after it, and a gap is nobody's business */
        fence->promised = fence->lent_after;
    fence->lent = 0;
}

vks_status vks_fence_lent_back(vks_fence *fence, uint64_t value)
{
    vks_device *device = fence->device;
    vks_status status = check(fence);
    if (status && (value || status != VKS_CLOSED)) /* close() waits for what was not given to be taken back */
        return status;
    pthread_mutex_lock(&device->lock);
    status = value || !fence->lent ? check(fence) : VKS_OK;
    if (!status && (!fence->lent || (value && value != fence->lent)))
        status = vks_fail(VKS_BAD_VALUE, (int64_t)value, "the value to signal is %llu (0: nobody asked for one)",
                          (unsigned long long)fence->lent);
    if (!status && value) {
        fence->outside = value;
        fence->lent = 0;
        vks_fence_announce(fence, value);
    } else if (!status) {
        take_back(fence);
    }
    if (!status)
        vks_device_pump(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

void vks_fence_give_up_outside(vks_fence *fence)
{
    const vks_device *device = fence->device;
    uint64_t end = fence->end;
    for (size_t i = 0; i < device->n_outside; i++) {
        const vks_due *due = &device->outside[i];
        if (due->kind == VKS_DUE_FENCE && due->object == fence && due->serial < end)
            end = due->serial;
    }
    if (end == fence->end)
        return;
    fence->end = end;
    vks_fence_break(fence);
}

vks_status vks_fence_outside_lost(vks_fence *fence)
{
    vks_device *device = fence->device;
    vks_status status = check(fence);
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = check(fence))) {
        vks_device_publish(device); /* what came before counts */
        if (fence->lent)
            take_back(fence);
        vks_fence_give_up_outside(fence);
        vks_device_pump(device);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}
