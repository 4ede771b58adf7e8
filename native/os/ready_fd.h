/* ready_fd.h: an eventfd that is readable while a call of its owner would not wait. Another event
 * loop polls it; the owner decides when it is readable. */
#ifndef VKS_READY_FD_H
#define VKS_READY_FD_H

#include "os/platform.h"

/* The owner's lock protects it. In a forked child its number is an fd that stays readable, so that
 * a loop there makes the call, which returns VKS_FORKED; the parent's fd is not changed. */
typedef struct vks_ready_fd {
    int fd;
    bool is_readable;
    struct vks_ready_fd *previous, *next; /* all of this process, for fork() */
} vks_ready_fd;

/* Opens the fd, which is not readable. VKS_OS_ERROR: there are too many file descriptors. */
vks_status vks_ready_fd_open(vks_ready_fd *ready);
void vks_ready_fd_set(vks_ready_fd *ready, bool is_readable);
void vks_ready_fd_close(vks_ready_fd *ready);

#endif
