/* frame_fd.c: the fd that is readable when an acquire would not wait, and the changes that its
 * thread (frame_thread.c) sleeps for. Takes no other lock. */
#include <stdlib.h>

#include "swapchain_state.h"

vks_status vks_frame_fd_open(vks_frame_fd **out)
{
    vks_frame_fd *made = calloc(1, sizeof *made);
    if (!made)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a file descriptor");
    vks_status status = vks_ready_fd_open(&made->ready);
    if (status) {
        free(made);
        return status;
    }
    pthread_mutex_init(&made->lock, NULL);
    *out = made;
    return VKS_OK;
}

void vks_frame_fd_close(vks_frame_fd *fd)
{
    vks_ready_fd_close(&fd->ready);
    pthread_mutex_destroy(&fd->lock);
    free(fd);
}

bool vks_frame_fd_is_readable(vks_frame_fd *fd)
{
    pthread_mutex_lock(&fd->lock);
    bool is_readable = fd->ready.is_readable;
    pthread_mutex_unlock(&fd->lock);
    return is_readable;
}

void vks_frame_fd_found(vks_frame_fd *fd, uint32_t seen)
{
    pthread_mutex_lock(&fd->lock);
    if (atomic_load(&fd->changes) == seen)
        vks_ready_fd_set(&fd->ready, true);
    pthread_mutex_unlock(&fd->lock);
}

void vks_frame_fd_note(vks_frame_fd *fd, vks_frame_change change)
{
    pthread_mutex_lock(&fd->lock);
    fd->is_ended |= change == VKS_FRAMES_ENDED;
    if (change == VKS_FRAMES_FEWER || fd->is_ended)
        vks_ready_fd_set(&fd->ready, fd->is_ended);
    atomic_fetch_add(&fd->changes, 1);
    pthread_mutex_unlock(&fd->lock);
    vks_futex_wake(&fd->changes, VKS_ANY_BIT);
}
