/* ready.c: an fd that is readable when a dequeue would not wait. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "queue/queue.h"

static bool is_ready(vks_queue *queue)
{
    const vks_queue_page *page = queue->ring.page;
    return vks_queue_check(queue) || atomic_load(&page->committed) != atomic_load(&page->taken) ||
           vks_queue_other_end(queue) == VKS_END_CLOSED;
}

static void fire(void *owner) { vks_queue_update_fd(owner); }

/* Watches the page's word while the queue is empty. A queue that is not empty has no sleeper for
 * its producer to wake: this consumer alone empties it, and then calls this function. */
static bool check_or_watch(vks_queue *queue)
{
    if (is_ready(queue))
        return true;
    vks_watch word = {&queue->ring.page->seq, vks_queue_prepare_wait(queue->ring.page)};
    /* Without a thread that watches, a loop that polls is better than one that hangs. */
    return is_ready(queue) || vks_watcher_set(queue, fire, &word, 1);
}

void vks_queue_update_fd(vks_queue *queue)
{
    pthread_mutex_lock(&queue->ready_lock);
    vks_ready_fd_set(queue->ready, check_or_watch(queue));
    pthread_mutex_unlock(&queue->ready_lock);
}

static vks_status open_fd(vks_queue *queue)
{
    vks_status status = vks_queue_check(queue);
    if (status)
        return status;
    vks_ready_fd *made = malloc(sizeof *made);
    if (!made)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a file descriptor");
    if ((status = vks_ready_fd_open(made))) {
        free(made);
        return status;
    }
    queue->ready = made;
    vks_ready_fd_set(made, check_or_watch(queue));
    return VKS_OK;
}

vks_status vks_queue_fd(vks_queue *queue, int *fd)
{
    VKS_NEEDS(queue, fd);
    *fd = -1;
    if (queue->process != vks_process)
        return VKS_FORKED;
    if (queue->end != VKS_CONSUMER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's producer");
    pthread_mutex_lock(&queue->ready_lock);
    vks_status status = queue->ready ? VKS_OK : open_fd(queue);
    if (!status)
        *fd = queue->ready->fd;
    pthread_mutex_unlock(&queue->ready_lock);
    return status;
}

void vks_queue_end_watch(vks_queue *queue)
{
    if (!queue->ready)
        return;
    vks_queue_update_fd(queue);
    vks_watcher_remove(queue);
}

void vks_queue_close_fd(vks_queue *queue)
{
    if (queue->ready)
        vks_ready_fd_close(queue->ready);
    free(queue->ready);
}
