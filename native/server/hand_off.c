/* hand_off.c: see hand_off.h. A ring with one counter for each step of a command's way: given >= taken >= done >=
 * collected. Each counter has one writer. */
#include "server/hand_off.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/event_queue.h"
#include "core/platform.h"

struct vks_hand_off {
    vks_event_queue *event_queue;
    uint64_t token;
    uint32_t process;
    sem_t given_or_closed;     /* posted once for each command, and once by close() */
    uint64_t given, collected; /* the loop's own */
    uint64_t taken;            /* the rendering thread's own */
    _Atomic uint64_t done;     /* published by the rendering thread */
    _Atomic bool is_closed, has_left;
    vks_command ring[VKS_HAND_OFF_MOST]; /* [n % MOST]: the loop's, but from given to done the rendering thread's */
};

vks_status vks_hand_off_create(vks_event_queue *event_queue, uint64_t token, vks_hand_off **out)
{
    vks_platform_init();
    vks_hand_off *h = calloc(1, sizeof *h);
    if (!h)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a hand-off");
    sem_init(&h->given_or_closed, 0, 0);
    h->process = vks_process;
    h->token = token;
    h->event_queue = event_queue;
    vks_event_queue_ref(event_queue);
    *out = h;
    return VKS_OK;
}

void vks_hand_off_destroy(vks_hand_off *h)
{
    if (!h)
        return;
    vks_event_queue_unref(h->event_queue);
    if (h->process == vks_process) /* a forked child's copy may have a sleeper in it that is not there */
        sem_destroy(&h->given_or_closed);
    free(h);
}

static vks_status check(const vks_hand_off *h)
{
    if (h->process != vks_process)
        return VKS_FORKED;
    return atomic_load(&h->is_closed) ? VKS_CLOSED : VKS_OK;
}

/* ---- the loop ---- */

vks_status vks_hand_off_give(vks_hand_off *h, void *request)
{
    vks_status status = check(h);
    if (status != VKS_OK)
        return vks_fail(status, 0, "the hand-off is closed");
    if (h->given - h->collected == VKS_HAND_OFF_MOST)
        return vks_fail(VKS_FULL, 0, "%u commands are out", VKS_HAND_OFF_MOST);
    h->ring[h->given++ % VKS_HAND_OFF_MOST] = (vks_command){.request = request};
    sem_post(&h->given_or_closed);
    return VKS_OK;
}

bool vks_hand_off_collect(vks_hand_off *h, vks_command *out)
{
    if (h->collected == atomic_load_explicit(&h->done, memory_order_acquire))
        return false;
    *out = h->ring[h->collected++ % VKS_HAND_OFF_MOST];
    return true;
}

void vks_hand_off_close(vks_hand_off *h)
{
    if (h->process == vks_process && !atomic_exchange(&h->is_closed, true))
        sem_post(&h->given_or_closed);
}

bool vks_hand_off_drop(vks_hand_off *h, void **request)
{
    uint64_t done = atomic_load_explicit(&h->done, memory_order_acquire);
    if (h->collected < done || h->collected == h->given)
        return false; /* collect() first */
    *request = h->ring[h->collected++ % VKS_HAND_OFF_MOST].request;
    atomic_store_explicit(&h->done, h->collected, memory_order_release);
    return true;
}

/* ---- the rendering thread ---- */

vks_status vks_hand_off_take(vks_hand_off *h, void **request)
{
    if (h->process != vks_process)
        return vks_fail(VKS_FORKED, 0, "the hand-off belongs to the process before fork()");
    if (sem_wait(&h->given_or_closed))
        return VKS_INTERRUPTED; /* EINTR: nothing else can be */
    if (atomic_load(&h->is_closed))
        return vks_fail(VKS_CLOSED, 0, "the hand-off is closed");
    *request = h->ring[h->taken++ % VKS_HAND_OFF_MOST].request;
    return VKS_OK;
}

void vks_hand_off_done(vks_hand_off *h, void *result)
{
    uint64_t done = atomic_load_explicit(&h->done, memory_order_relaxed);
    h->ring[done % VKS_HAND_OFF_MOST].result = result;
    atomic_store_explicit(&h->done, done + 1, memory_order_release);
    vks_event_queue_push(h->event_queue, h->token, VKS_OK);
}

void vks_hand_off_leave(vks_hand_off *h)
{
    atomic_store(&h->has_left, true);
    vks_event_queue_push(h->event_queue, h->token, VKS_OK);
}

bool vks_hand_off_has_left(const vks_hand_off *h) { return atomic_load(&h->has_left); }
