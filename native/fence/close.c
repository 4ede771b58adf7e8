/* close.c: the end of a fence, after the work that was submitted with it. */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "fence/fence.h"

/* Called once all work that was submitted with the fence has run. Caller holds device->lock. */
static void finish_close(vks_fence *fence)
{
    vks_device *device = fence->device;
    vks_fence_page *page = fence->page;
    if (!fence->follower) {
        if (!device->lost && atomic_load(&page->status) == VKS_FENCE_LIVE)
            vks_atomic_max(&page->completed, atomic_load(&page->queued));
        vks_fence_set_status(page, VKS_FENCE_CLOSED);
        atomic_fetch_add(&page->seq, 1);
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
    }
    uint64_t semaphore = fence->semaphore;
    fence->semaphore = 0;
    if (semaphore && !fence->adopted)
        device->backend->destroy_timeline(device, semaphore);
}

static void close_completed(const vks_completion *completion, bool ran)
{
    (void)ran; /* work of a lost device no longer uses the semaphore either */
    finish_close(completion->object);
}

static const vks_completion_class fence_close = {
    .run = close_completed, .ref = vks_fence_ref_object, .unref = vks_fence_unref_object};

/* Blocks until the waiters have left. Waiters check `closed` when they are woken, or every 20 ms
 * inside the driver. */
static void wait_for_waiters(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    for (;;) {
        pthread_mutex_lock(&fence->device->lock);
        bool any = fence->sleepers || fence->driver_waiters;
        pthread_mutex_unlock(&fence->device->lock);
        if (!any)
            return;
        vks_futex_wake(&page->seq, VKS_ANY_BIT); /* repeatedly, because a follower cannot change seq */
        sched_yield();
    }
}

#define EXTERNAL_NS UINT64_C(10000000000) /* an external API that has not finished by then hangs */
#define ORPHAN_POLL_NS UINT64_C(1000000000)

/* Waits for external signals and waits, which are polled. The API may wait for a dead process's
 * value (device/completions.h). */
static void finish_external(vks_fence *fence)
{
    vks_device *device = fence->device;
    uint64_t limit = vks_now() + EXTERNAL_NS;
    pthread_mutex_lock(&device->lock);
    while ((vks_device_awaits_external(device, &vks_fence_external_signal, fence, 0) ||
            vks_device_awaits_external(device, &vks_fence_gpu_wait, fence, 0)) &&
           vks_now() < limit) {
        pthread_mutex_unlock(&device->lock);
        usleep(200);
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
    }
    vks_fence_fail_external(fence);
    /* Queued batches may wait on values that the failed API will never signal. Signal those values
     * from the host, in order, so that the queue drains. */
    for (limit = vks_now() + ORPHAN_POLL_NS;
         vks_device_awaits_external(device, &vks_fence_external_signal, fence, 0) && vks_now() < limit;) {
        vks_device_resolve_orphaned_waits(device);
        vks_device_publish(device);
        pthread_mutex_unlock(&device->lock);
        usleep(200);
        pthread_mutex_lock(&device->lock);
    }
    vks_device_drop_external(device, fence, 0);
    pthread_mutex_unlock(&device->lock);
}

void vks_fence_close(vks_fence *fence)
{
    VKS_NEEDS_OR(, fence);
    vks_device *device = fence->device;
    if (fence->process != vks_process)
        return;
    bool entered = vks_device_enter(device); /* false: already closed */
    pthread_mutex_lock(&device->lock);
    if (fence->closed || !entered) {
        pthread_mutex_unlock(&device->lock);
        if (entered)
            vks_device_leave(device);
        return;
    }
    fence->closed = true;
    vks_device_disown(device, VKS_FENCES, &fence->child);
    vks_fence_fire_events(fence, vks_fence_completed(fence), VKS_CLOSED);
    vks_scheduler_run(device); /* held operations that use it fail */
    pthread_mutex_unlock(&device->lock);

    wait_for_waiters(fence);
    if (fence->follower) {
        vks_watcher_remove(fence);
        vks_peers_remove(&fence->mapping);
    }
    finish_external(fence);
    pthread_mutex_lock(&device->lock);
    uint64_t serial = device->submitted;
    bool ran = vks_device_poll_serial(device, serial) != VKS_TIMEOUT,
         later = !ran && vks_device_reserve(device, 1) == VKS_OK;
    if (later)
        vks_device_add_completion(device, serial, &fence_close, fence, 0);
    pthread_mutex_unlock(&device->lock);
    if (!later) {
        while (!ran && vks_device_wait_serial(device, serial, VKS_FOREVER) == VKS_INTERRUPTED)
            ; /* no completion will do it later */
        pthread_mutex_lock(&device->lock);
        finish_close(fence);
        pthread_mutex_unlock(&device->lock);
    }
    vks_device_leave(device);
}
