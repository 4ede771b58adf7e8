#define _GNU_SOURCE
#include "hub.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct happened {
    uint64_t token;
    vks_status result;
} happened;

struct vks_hub {
    pthread_mutex_t lock;
    _Atomic uint32_t references;
    uint32_t process;
    int fd;
    happened *list;
    size_t count, capacity, taken; /* list[taken .. count) is not drained yet */
    uint64_t lost;                 /* events for which there was no memory: told as failures with token 0 */
};

vks_status vks_hub_create(vks_hub **out)
{
    vks_platform_init();
    vks_hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a hub");
    hub->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hub->fd < 0) {
        free(hub);
        return vks_fail(VKS_OS_ERROR, errno, "eventfd failed");
    }
    pthread_mutex_init(&hub->lock, NULL);
    hub->references = 1;
    hub->process = vks_process;
    *out = hub;
    return VKS_OK;
}

int vks_hub_fd(const vks_hub *hub) { return hub->fd; }

void vks_hub_close(vks_hub *hub)
{
    if (hub->process != vks_process)
        return;
    pthread_mutex_lock(&hub->lock);
    if (hub->fd >= 0)
        close(hub->fd);
    hub->fd = -1;
    pthread_mutex_unlock(&hub->lock);
}

void vks_hub_ref(vks_hub *hub) { atomic_fetch_add(&hub->references, 1); }

void vks_hub_unref(vks_hub *hub)
{
    if (atomic_fetch_sub(&hub->references, 1) != 1)
        return;
    vks_hub_close(hub);
    pthread_mutex_destroy(&hub->lock);
    free(hub->list);
    free(hub);
}

void vks_hub_push(vks_hub *hub, uint64_t token, vks_status result)
{
    pthread_mutex_lock(&hub->lock);
    if (hub->fd < 0) {
        pthread_mutex_unlock(&hub->lock);
        return;
    }
    if (hub->count == hub->capacity) {
        size_t capacity = hub->capacity ? 2 * hub->capacity : 64;
        happened *list = realloc(hub->list, capacity * sizeof *list);
        if (list) {
            hub->list = list;
            hub->capacity = capacity;
        }
    }
    if (hub->count < hub->capacity)
        hub->list[hub->count++] = (happened){token, result};
    else
        hub->lost++;
    ssize_t ignored = write(hub->fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored; /* EAGAIN: the counter is full, so the fd is readable anyway */
    pthread_mutex_unlock(&hub->lock);
}

size_t vks_hub_drain(vks_hub *hub, uint64_t *tokens, vks_status *results, size_t capacity)
{
    size_t n = 0;
    if (hub->process != vks_process) /* the eventfd is the parent's too: reading it would take its wake-ups */
        return 0;
    pthread_mutex_lock(&hub->lock);
    while (n < capacity && hub->taken < hub->count) {
        tokens[n] = hub->list[hub->taken].token;
        results[n++] = hub->list[hub->taken++].result;
    }
    while (n < capacity && hub->lost) {
        hub->lost--;
        tokens[n] = 0;
        results[n++] = VKS_NO_MEMORY;
    }
    if (hub->taken == hub->count && !hub->lost) {
        hub->taken = hub->count = 0;
        uint64_t ignored;
        ssize_t got = read(hub->fd, &ignored, sizeof ignored);
        (void)got;
    }
    pthread_mutex_unlock(&hub->lock);
    return n;
}
