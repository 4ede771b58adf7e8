#define _GNU_SOURCE
#include "os/ready_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    vks_ready_fd *first;
    bool registered;
} fds = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The eventfd is the parent's too, so the child puts another file under each number. */
static void reset_after_fork(void)
{
    pthread_mutex_init(&fds.lock, NULL);
    int readable = fds.first ? eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (readable < 0)
        return;
    for (vks_ready_fd *ready = fds.first; ready; ready = ready->next)
        dup3(readable, ready->fd, O_CLOEXEC);
    close(readable);
}

vks_status vks_ready_fd_open(vks_ready_fd *ready)
{
    *ready = (vks_ready_fd){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (ready->fd < 0)
        return vks_fail(VKS_OS_ERROR, errno, "eventfd");
    pthread_mutex_lock(&fds.lock);
    if (!fds.registered)
        vks_at_fork_child(reset_after_fork);
    fds.registered = true;
    ready->next = fds.first;
    if (fds.first)
        fds.first->previous = ready;
    fds.first = ready;
    pthread_mutex_unlock(&fds.lock);
    return VKS_OK;
}

void vks_ready_fd_set(vks_ready_fd *ready, bool is_readable)
{
    if (ready->is_readable == is_readable)
        return;
    ready->is_readable = is_readable;
    eventfd_t ignored;
    if (is_readable)
        eventfd_write(ready->fd, 1);
    else
        eventfd_read(ready->fd, &ignored);
}

void vks_ready_fd_close(vks_ready_fd *ready)
{
    pthread_mutex_lock(&fds.lock);
    *(ready->previous ? &ready->previous->next : &fds.first) = ready->next;
    if (ready->next)
        ready->next->previous = ready->previous;
    pthread_mutex_unlock(&fds.lock);
    close(ready->fd);
}
