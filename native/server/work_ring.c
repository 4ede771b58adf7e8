/* work_ring.c: see work_ring.h. One counter for each step of a command: given >= taken >= done >=
 * collected. Each counter has one writer. */
#include "server/work_ring.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "os/event_queue.h"
#include "os/platform.h"

struct vks_work_ring {
    vks_event_queue *event_queue;
    uint64_t token;
    uint32_t process;
    sem_t pushed_or_closed;    /* posted once for each command, and once by close() */
    uint64_t given, collected; /* written by the loop */
    uint64_t taken;            /* written by the rendering thread */
    _Atomic uint64_t done;     /* written by the rendering thread */
    _Atomic bool is_closed, has_left;
    vks_command
        ring[VKS_WORK_RING_CAPACITY]; /* [n % capacity]; from given to done the rendering thread's, else the loop's */
};

vks_status vks_work_ring_create(vks_event_queue *event_queue, uint64_t token, vks_work_ring **out)
{
    vks_platform_init();
    vks_work_ring *h = calloc(1, sizeof *h);
    if (!h)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a work ring");
    sem_init(&h->pushed_or_closed, 0, 0);
    h->process = vks_process;
    h->token = token;
    h->event_queue = event_queue;
    vks_event_queue_ref(event_queue);
    *out = h;
    return VKS_OK;
}

void vks_work_ring_destroy(vks_work_ring *h)
{
    if (!h)
        return;
    vks_event_queue_unref(h->event_queue);
    if (h->process == vks_process) /* in a forked child the semaphore may have a waiter that does not exist */
        sem_destroy(&h->pushed_or_closed);
    free(h);
}

static vks_status check(const vks_work_ring *h)
{
    if (h->process != vks_process)
        return VKS_FORKED;
    return atomic_load(&h->is_closed) ? VKS_CLOSED : VKS_OK;
}

/* ---- the loop ---- */

vks_status vks_work_ring_give(vks_work_ring *h, void *request)
{
    vks_status status = check(h);
    if (status != VKS_OK)
        return vks_fail(status, 0, "the work ring is closed");
    if (h->given - h->collected == VKS_WORK_RING_CAPACITY)
        return vks_fail(VKS_FULL, 0, "the work ring holds %u commands already", VKS_WORK_RING_CAPACITY);
    h->ring[h->given++ % VKS_WORK_RING_CAPACITY] = (vks_command){.request = request};
    sem_post(&h->pushed_or_closed);
    return VKS_OK;
}

bool vks_work_ring_collect(vks_work_ring *h, vks_command *out)
{
    if (h->collected == atomic_load_explicit(&h->done, memory_order_acquire))
        return false;
    *out = h->ring[h->collected++ % VKS_WORK_RING_CAPACITY];
    return true;
}

void vks_work_ring_close(vks_work_ring *h)
{
    if (h->process == vks_process && !atomic_exchange(&h->is_closed, true))
        sem_post(&h->pushed_or_closed);
}

bool vks_work_ring_drop(vks_work_ring *h, void **request)
{
    uint64_t done = atomic_load_explicit(&h->done, memory_order_acquire);
    if (h->collected < done || h->collected == h->given)
        return false; /* call collect() first */
    *request = h->ring[h->collected++ % VKS_WORK_RING_CAPACITY].request;
    atomic_store_explicit(&h->done, h->collected, memory_order_release);
    return true;
}

/* ---- the rendering thread ---- */

vks_status vks_work_ring_take(vks_work_ring *h, void **request)
{
    if (h->process != vks_process)
        return vks_fail(VKS_FORKED, 0, "the work ring belongs to the process before fork()");
    if (sem_wait(&h->pushed_or_closed))
        return VKS_INTERRUPTED; /* EINTR, the only possible error */
    if (atomic_load(&h->is_closed))
        return vks_fail(VKS_CLOSED, 0, "the work ring is closed");
    *request = h->ring[h->taken++ % VKS_WORK_RING_CAPACITY].request;
    return VKS_OK;
}

void vks_work_ring_done(vks_work_ring *h, void *result)
{
    uint64_t done = atomic_load_explicit(&h->done, memory_order_relaxed);
    h->ring[done % VKS_WORK_RING_CAPACITY].result = result;
    atomic_store_explicit(&h->done, done + 1, memory_order_release);
    vks_event_queue_push(h->event_queue, h->token, VKS_OK);
}

void vks_work_ring_leave(vks_work_ring *h)
{
    atomic_store(&h->has_left, true);
    vks_event_queue_push(h->event_queue, h->token, VKS_OK);
}

bool vks_work_ring_has_left(const vks_work_ring *h) { return atomic_load(&h->has_left); }
