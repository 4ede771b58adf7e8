/* wait.c: waits of the CPU for a fence. */
#include <sched.h>

#include "fence/fence.h"
#include "fence/trace_points.h"

/* Returns the status of a wait for `value`; `completed` was just read. VKS_TIMEOUT: the value may
 * still come. */
vks_status vks_fence_wait_status(vks_fence *fence, uint64_t value, uint64_t completed)
{
    const vks_fence_page *page = fence->page;
    if (completed >= value)
        return VKS_OK;
    if (fence->closed)
        return VKS_CLOSED;
    vks_status state = vks_device_check(fence->device);
    if (state)
        return state;
    if (atomic_load(&page->status) == VKS_FENCE_LIVE && !(fence->follower && !vks_peer_alive(page->owner)))
        return VKS_TIMEOUT;
    return atomic_load(&page->completed) >= value ? VKS_OK
                                                  : VKS_ABANDONED; /* a value that came before the failure counts */
}

static vks_status poll_fence(vks_fence *fence, uint64_t value)
{
    if (atomic_load_explicit(&vks_fence_page_of(fence)->completed, memory_order_acquire) >= value)
        return VKS_OK;
    vks_status status = vks_fence_wait_status(fence, value, vks_fence_current(fence));
    return status == VKS_ABANDONED && vks_fence_current(fence) >= value
               ? VKS_OK
               : status; /* the GPU may have reached it before the signaller ended */
}

vks_status vks_fence_poll(vks_fence *fence, uint64_t value)
{
    VKS_NEEDS(fence);
    vks_status status = vks_fence_check(fence);
    return status ? status : poll_fence(fence, value);
}

/* Waits in the driver, which has the signal. */
static vks_status wait_in_driver(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    bool closed = fence->closed;
    fence->driver_waiters += !closed;
    pthread_mutex_unlock(&device->lock);
    if (closed)
        return VKS_CLOSED;
    vks_status status = device->backend->wait_timeline(device, fence->semaphore, value, deadline);
    pthread_mutex_lock(&device->lock);
    fence->driver_waiters--;
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    else if (status == VKS_OK && value > fence->last_valid)
        status = VKS_ABANDONED;
    pthread_mutex_unlock(&device->lock);
    return status;
}

#define FOLLOWER_POLL_NS UINT64_C(50000000)

/* Sleeps once. A follower cannot write to its page, so a local change just before the sleep may go
 * unnoticed; followers therefore poll. */
static vks_status sleep_on_seq(vks_fence *fence, vks_fence_page *page, uint32_t seq, uint64_t deadline)
{
    uint64_t now = vks_now(),
             until = fence->follower && deadline - now > FOLLOWER_POLL_NS ? now + FOLLOWER_POLL_NS : deadline;
    if (now >= deadline) /* checked here too, because seq may change all the time */
        return VKS_TIMEOUT;
    vks_status status = vks_futex_wait(&page->seq, seq, VKS_ANY_BIT, until);
    return status == VKS_TIMEOUT && until < deadline ? VKS_OK : status;
}

static vks_status sleep_on_page(vks_fence *fence, uint64_t value, uint64_t deadline,
                                vks_status (*poll)(vks_fence *fence, uint64_t value))
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    fence->sleepers++;
    vks_status status = vks_fence_start_publishing(fence);
    pthread_mutex_unlock(&device->lock);
    while (!status) {
        vks_fence_page *page = fence->page; /* export may move the page, and then changes the old seq once */
        uint32_t seq = atomic_load(&page->seq);
        if (page != fence->page)
            continue;
        vks_status reached = poll(fence, value);
        if (reached != VKS_TIMEOUT) {
            status = reached;
            break;
        }
        status = sleep_on_seq(fence, page, seq, deadline);
        if (status == VKS_TIMEOUT && poll(fence, value) == VKS_OK)
            status = VKS_OK;
        else if (status == VKS_OK)
            continue;
        break;
    }
    pthread_mutex_lock(&device->lock);
    fence->sleepers--;
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_fence_wait(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    VKS_NEEDS(fence);
    vks_status status = vks_fence_check(fence);
    if (status || (status = poll_fence(fence, value)) != VKS_TIMEOUT || !deadline)
        return status;
    const vks_fence_page *page = fence->page;
    uint64_t began = vks_trace_begin();
    if (fence->semaphore && !fence->follower && (fence->adopted || atomic_load(&page->queued) >= value))
        status = wait_in_driver(fence, value, deadline);
    else
        status = sleep_on_page(fence, value, deadline, poll_fence);
    VKS_TRACE(began, vks_traced_fence(VKS_TRACE_FENCE_WAIT, fence, value, began, status));
    return status;
}

static vks_status poll_queued(vks_fence *fence, uint64_t value)
{
    vks_status status = poll_fence(fence, value);
    bool queued = atomic_load(&vks_fence_page_of(fence)->queued) >= value;
    return status == VKS_TIMEOUT && queued ? VKS_OK : status;
}

vks_status vks_fence_wait_queued(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    vks_status status = vks_fence_check(fence);
    if (status || (status = poll_queued(fence, value)) != VKS_TIMEOUT || !deadline)
        return status;
    return sleep_on_page(fence, value, deadline, poll_queued);
}
