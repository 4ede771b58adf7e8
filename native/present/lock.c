/* lock.c: the beginning and the end of a call: the checks, the entry into the device, and
 * swapchain->lock. */
#include <time.h>

#include "swapchain_state.h"

/* ---- the lock ---- */

static vks_status wait_for_lock(vks_swapchain *s, uint64_t deadline)
{
    for (;;) {
        uint64_t now = vks_now(), locked = s->locked_since, since = locked ? locked : now;
        uint64_t limit = since + VKS_LONGEST_PRESENT_NS;
        limit = deadline < limit ? deadline : limit;
        if (now >= limit)
            return vks_fail(VKS_TIMEOUT, 0,
                            "another thread has used the swapchain for %llu ms: the driver waits for the window "
                            "system, or for the rendering",
                            (unsigned long long)((now - since) / 1000000u));
        uint64_t left = limit - now, slice = vks_interrupt_interval();
        slice = slice && slice < left ? slice : left;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        uint64_t nanoseconds = (uint64_t)until.tv_nsec + slice;
        until.tv_sec += (time_t)(nanoseconds / 1000000000u);
        until.tv_nsec = (long)(nanoseconds % 1000000000u);
        if (!pthread_mutex_timedlock(&s->lock, &until))
            return VKS_OK;
        if (slice < left)
            return VKS_INTERRUPTED;
    }
}

static void note_locked(vks_swapchain *s)
{
    s->locked_since = vks_now();
    if (__builtin_expect(s->has_dropped, 0))
        vks_images_put_back_dropped(s);
}

bool vks_swapchain_try_lock(vks_swapchain *s)
{
    if (pthread_mutex_trylock(&s->lock))
        return false;
    note_locked(s);
    return true;
}

vks_status vks_swapchain_lock(vks_swapchain *s, uint64_t deadline)
{
    if (vks_swapchain_try_lock(s))
        return VKS_OK;
    vks_status status = wait_for_lock(s, deadline);
    if (!status)
        note_locked(s);
    return status;
}

void vks_swapchain_unlock(vks_swapchain *s)
{
    s->locked_since = 0;
    pthread_mutex_unlock(&s->lock);
}

/* ---- calls ---- */

/* The state of everything but the window. */
static vks_status check_open(const vks_swapchain *s)
{
    if (__builtin_expect(s->process != vks_process, 0))
        return VKS_FORKED;
    if (__builtin_expect(atomic_load_explicit(&s->is_closed, memory_order_relaxed), 0))
        return VKS_CLOSED;
    return vks_device_check(s->device);
}

vks_status vks_swapchain_check(const vks_swapchain *s)
{
    vks_status status = check_open(s);
    if (!status && __builtin_expect(atomic_load_explicit(&s->is_lost, memory_order_relaxed), 0))
        return vks_fail(VKS_SURFACE_LOST, VK_ERROR_SURFACE_LOST_KHR, "the window is gone");
    return status;
}

/* Ends an entry: `status` is the lock's, and `checked` repeats the check under it. */
static vks_status entered(vks_swapchain *s, vks_status status, vks_status (*check)(const vks_swapchain *s))
{
    if (!status && (status = check(s)))
        vks_swapchain_unlock(s);
    if (status)
        vks_device_leave(s->device);
    return status;
}

vks_status vks_swapchain_enter(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = vks_swapchain_check(s);
    if (status)
        return status;
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    return entered(s, vks_swapchain_lock(s, deadline), vks_swapchain_check);
}

vks_status vks_swapchain_enter_lost(vks_swapchain *s)
{
    vks_status status = check_open(s);
    if (status)
        return status;
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    return entered(s, vks_swapchain_lock(s, VKS_FOREVER), check_open);
}

vks_status vks_swapchain_try_enter(vks_swapchain *s)
{
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    return entered(s, vks_swapchain_try_lock(s) ? VKS_OK : VKS_TIMEOUT, vks_swapchain_check);
}

vks_status vks_swapchain_leave(vks_swapchain *s, vks_status status)
{
    vks_swapchain_unlock(s);
    vks_device_leave(s->device);
    if (__builtin_expect(status == VKS_DEVICE_LOST, 0))
        vks_device_mark_lost(s->device);
    return status;
}
