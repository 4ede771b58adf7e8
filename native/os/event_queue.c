#define _GNU_SOURCE
#include "os/event_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct event {
    uint64_t token;
    vks_status result;
} event;

struct vks_event_queue {
    pthread_mutex_t lock;
    _Atomic uint32_t references;
    uint32_t process;
    int fd;
    event *list;
    size_t count, capacity, taken; /* list[taken .. count) is not drained yet */
    uint64_t lost;                 /* events lost for lack of memory; reported as failures with token 0 */
};

vks_status vks_event_queue_create(vks_event_queue **out)
{
    VKS_NEEDS(out);
    vks_platform_init();
    vks_event_queue *event_queue = calloc(1, sizeof *event_queue);
    if (!event_queue)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an event queue");
    event_queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_queue->fd < 0) {
        free(event_queue);
        return vks_fail(VKS_OS_ERROR, errno, "eventfd failed");
    }
    pthread_mutex_init(&event_queue->lock, NULL);
    event_queue->references = 1;
    event_queue->process = vks_process;
    *out = event_queue;
    return VKS_OK;
}

int vks_event_queue_fd(const vks_event_queue *event_queue)
{
    VKS_NEEDS_OR(-1, event_queue);
    return event_queue->fd;
}

void vks_event_queue_close(vks_event_queue *event_queue)
{
    VKS_NEEDS_OR(, event_queue);
    if (event_queue->process != vks_process)
        return;
    pthread_mutex_lock(&event_queue->lock);
    if (event_queue->fd >= 0)
        close(event_queue->fd);
    event_queue->fd = -1;
    pthread_mutex_unlock(&event_queue->lock);
}

void vks_event_queue_ref(vks_event_queue *event_queue)
{
    VKS_NEEDS_OR(, event_queue);
    atomic_fetch_add(&event_queue->references, 1);
}

void vks_event_queue_unref(vks_event_queue *event_queue)
{
    VKS_NEEDS_OR(, event_queue);
    if (atomic_fetch_sub(&event_queue->references, 1) != 1)
        return;
    vks_event_queue_close(event_queue);
    pthread_mutex_destroy(&event_queue->lock);
    free(event_queue->list);
    free(event_queue);
}

void vks_event_queue_push(vks_event_queue *event_queue, uint64_t token, vks_status result)
{
    pthread_mutex_lock(&event_queue->lock);
    if (event_queue->fd < 0) {
        pthread_mutex_unlock(&event_queue->lock);
        return;
    }
    if (event_queue->count == event_queue->capacity) {
        size_t capacity = event_queue->capacity ? 2 * event_queue->capacity : 64;
        event *list = realloc(event_queue->list, capacity * sizeof *list);
        if (list) {
            event_queue->list = list;
            event_queue->capacity = capacity;
        }
    }
    if (event_queue->count < event_queue->capacity)
        event_queue->list[event_queue->count++] = (event){token, result};
    else
        event_queue->lost++;
    ssize_t ignored = write(event_queue->fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored; /* EAGAIN: the counter is full, so the fd is readable anyway */
    pthread_mutex_unlock(&event_queue->lock);
}

size_t vks_event_queue_drain(vks_event_queue *event_queue, uint64_t *tokens, vks_status *results, size_t capacity)
{
    VKS_NEEDS_OR(0, event_queue);
    if (capacity)
        VKS_NEEDS_OR(0, tokens, results);
    size_t n = 0;
    if (event_queue->process != vks_process) /* the eventfd is the parent's too: reading it would take its wake-ups */
        return 0;
    pthread_mutex_lock(&event_queue->lock);
    while (n < capacity && event_queue->taken < event_queue->count) {
        tokens[n] = event_queue->list[event_queue->taken].token;
        results[n++] = event_queue->list[event_queue->taken++].result;
    }
    while (n < capacity && event_queue->lost) {
        event_queue->lost--;
        tokens[n] = 0;
        results[n++] = VKS_NO_MEMORY;
    }
    if (event_queue->taken == event_queue->count && !event_queue->lost) {
        event_queue->taken = event_queue->count = 0;
        uint64_t ignored;
        ssize_t got = read(event_queue->fd, &ignored, sizeof ignored);
        (void)got;
    }
    pthread_mutex_unlock(&event_queue->lock);
    return n;
}
