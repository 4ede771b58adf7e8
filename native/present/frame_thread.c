/* frame_thread.c: the thread that finds out whether a frame could be acquired: one for each
 * swapchain whose fd was asked for.
 *
 * No driver has an fd for an image that becomes free: its only wait is vkAcquireNextImageKHR. So the
 * thread acquires the next image and puts it back, as a frame that was dropped: the next acquire
 * takes it without the driver. While the fd is readable, the thread sleeps. */
#include "swapchain_state.h"

#define CALL_NS UINT64_C(20000000)   /* limit of one wait, so that a close is seen */
#define DRIVER_NS UINT64_C(4000000)  /* limit of a wait with swapchain->lock; a present may wait for it */
#define LOSS_NS UINT64_C(100000000)  /* between two looks for a loss of the device, which wakes no thread here */
#define HIDDEN_NS UINT64_C(50000000) /* between two frames of a window without pixels: a loop of them burns no CPU */

/* Returns whether an acquire would not wait. Else *again is the time of the next look, unless
 * something changes before. */
static bool look(vks_swapchain *s, uint64_t *hidden_at, uint64_t *again)
{
    uint64_t now = *again = vks_now(), due = vks_pacing_due(s), serial = vks_pacing_serial(s);
    if (vks_swapchain_check(s))
        return true; /* the acquire reports it */
    if (due > now) {
        *again = due;
        return false;
    }
    vks_status status = serial ? vks_device_wait_serial(s->device, serial, now + CALL_NS) : VKS_OK;
    if (status || (status = vks_swapchain_enter(s, now + CALL_NS)))
        return status != VKS_TIMEOUT && status != VKS_INTERRUPTED && vks_swapchain_check(s);
    bool is_out = s->counts.acquired > 0;
    status = vks_swapchain_leave(s, vks_acquire_look(s, is_out ? 0 : vks_now() + DRIVER_NS));
    if (status == VKS_HIDDEN) {
        bool is_due = vks_now() >= *hidden_at + HIDDEN_NS;
        *hidden_at = is_due ? vks_now() : *hidden_at;
        *again = *hidden_at + HIDDEN_NS;
        return is_due;
    }
    if (!s->info.vulkan)
        *again = vks_now() + LOSS_NS; /* until a frame is presented or dropped */
    else
        *again = vks_now() + (is_out ? DRIVER_NS : VKS_POLL_INTERVAL_US * UINT64_C(1000));
    return status != VKS_TIMEOUT;
}

static void *serve(void *swapchain)
{
    vks_swapchain *s = swapchain;
    vks_frame_fd *fd = s->frame_fd;
    uint64_t hidden_at = 0;
    while (!fd->is_ended) {
        uint32_t seen = atomic_load(&fd->changes);
        uint64_t again = VKS_FOREVER;
        if (!vks_frame_fd_is_readable(fd) && look(s, &hidden_at, &again)) {
            vks_frame_fd_found(fd, seen);
            again = VKS_FOREVER;
        }
        vks_futex_wait(&fd->changes, seen, VKS_ANY_BIT, again);
    }
    return NULL;
}

/* Caller holds device->lock, which the thread may wait for. */
static vks_status start(vks_swapchain *s)
{
    vks_frame_fd *fd;
    vks_status status = vks_swapchain_check(s);
    if (status || (status = vks_frame_fd_open(&fd)))
        return status;
    s->frame_fd = fd;
    if ((status = vks_thread_start("vkshare-frames", serve, s, &fd->thread))) {
        s->frame_fd = NULL;
        vks_frame_fd_close(fd);
    }
    return status;
}

vks_status vks_swapchain_frame_fd(vks_swapchain *swapchain, int *fd)
{
    VKS_NEEDS(swapchain, fd);
    *fd = -1;
    if (swapchain->process != vks_process)
        return VKS_FORKED;
    pthread_mutex_lock(&swapchain->device->lock);
    vks_status status = swapchain->frame_fd ? VKS_OK : start(swapchain);
    if (!status)
        *fd = swapchain->frame_fd->ready.fd;
    pthread_mutex_unlock(&swapchain->device->lock);
    return status;
}

void vks_frame_thread_join(vks_swapchain *s)
{
    if (!s->frame_fd)
        return;
    if (s->process == vks_process)
        vks_thread_join(s->frame_fd->thread);
    vks_frame_fd_close(s->frame_fd);
}
