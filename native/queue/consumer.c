/* consumer.c: from the ring to an ownership; and the notice that a pair is there. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "queue/queue.h"
#include "queue/trace_points.h"

/* Time to spin before a sleep. A wake takes about as long as the minimum. Two ends that both sleep
 * would continue to do so, each finding the other asleep. So a short sleep doubles the next spin,
 * and a long sleep resets it. */
#define MAX_SPIN_NS 200000

typedef struct front_pair {
    uint32_t *surface;
    void *metadata;
    size_t *length;
    uint64_t epoch;
} front_pair;

/* Reads the oldest pair, which stays in the ring. VKS_TIMEOUT: empty for now. */
static vks_status peek_front(vks_queue *queue, front_pair *pair)
{
    vks_queue_ring *ring = &queue->ring;
    uint32_t state = vks_queue_other_end(queue);
    if (state == VKS_END_NEVER && !ring->early)
        return vks_queue_not_open_yet(queue);
    vks_status status = vks_queue_peek(ring, pair->surface, &pair->epoch, pair->metadata, pair->length);
    if (status != VKS_TIMEOUT || state != VKS_END_CLOSED)
        return status;
    vks_queue_adopt_pairs(queue);
    status = vks_queue_peek(ring, pair->surface, &pair->epoch, pair->metadata, pair->length);
    return status == VKS_TIMEOUT ? vks_fail(VKS_CLOSED, 0, "the queue's producer is gone and nothing is left in it")
                                 : status;
}

/* Acquires the front pair's surface. The pair leaves the ring if its surface was acquired, is
 * abandoned, or cannot be acquired any more (*is_stale): a consumer died between the two steps, or
 * the surface was recovered out of the ring. A new generation's notice removes nothing, because the
 * pair was written after it. Caller holds queue->lock. */
static vks_status acquire_front(vks_queue *queue, const front_pair *pair, bool *is_stale)
{
    vks_surface *surface = queue->surfaces[*pair->surface];
    vks_status status = vks_surface_acquire_epoch(surface, pair->epoch);
    VKS_KILL_POINT(22);
    *is_stale = status && vks_surface_was_reacquired(surface, pair->epoch);
    if (!status || *is_stale || (status == VKS_ABANDONED && vks_surface_is_abandoned(surface)))
        vks_queue_pop(&queue->ring);
    else if (status == VKS_TIMEOUT || status == VKS_ALREADY_OWNER)
        return vks_fail(VKS_BAD_PAGE, 0,
                        "surface %u is in the queue and owned at once: another process breaks the rules",
                        *pair->surface);
    return status;
}

/* Tries one dequeue. VKS_TIMEOUT: empty for now. Caller holds queue->lock. */
static vks_status dequeue_one(vks_queue *queue, uint32_t *surface, void *metadata, size_t *length)
{
    front_pair pair = {.surface = surface, .metadata = metadata, .length = length};
    vks_status status = VKS_TIMEOUT;
    bool is_stale = true;
    for (uint32_t i = 0; is_stale && i <= queue->ring.capacity; i++) {
        if ((status = peek_front(queue, &pair)))
            return status;
        status = acquire_front(queue, &pair, &is_stale);
    }
    return is_stale ? VKS_TIMEOUT : status;
}

static vks_status try_dequeue(vks_queue *queue, bool may_sleep, uint32_t *surface, void *metadata, size_t *length)
{
    vks_status status = vks_queue_begin(queue, may_sleep);
    return status ? status : vks_queue_finish(queue, dequeue_one(queue, surface, metadata, length));
}

/* Waits like the keyed mutex: pauses, then sched_yield; the caller sleeps afterwards, because a
 * wake takes longer than most pairs do (docs/spec/drivers.md). Returns whether a pair came. */
static bool spin_for_pair(const vks_queue *queue, uint64_t deadline)
{
    const vks_queue_page *page = queue->ring.page;
    uint64_t until = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(&page->committed, memory_order_relaxed) !=
            atomic_load_explicit(&page->taken, memory_order_relaxed))
            return true;
        if (i < VKS_MUTEX_PAUSES) {
            vks_pause();
            continue;
        }
        uint64_t now = vks_now();
        if (!until)
            until = now + atomic_load_explicit(&queue->spin_ns, memory_order_relaxed);
        if (now >= until || now >= deadline)
            return false;
        sched_yield();
    }
}

static void adapt_spin(vks_queue *queue, uint64_t ns)
{
    uint32_t spin_ns = atomic_load_explicit(&queue->spin_ns, memory_order_relaxed);
    bool was_short = ns < MAX_SPIN_NS;
    spin_ns = was_short ? 2 * spin_ns : VKS_MIN_SPIN_NS;
    if (spin_ns <= MAX_SPIN_NS)
        atomic_store_explicit(&queue->spin_ns, spin_ns, memory_order_relaxed);
}

static vks_status dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length)
{
    if (queue->end != VKS_CONSUMER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's producer");
    if (queue->ring.metadata_size)
        VKS_NEEDS(metadata);
    vks_status status = try_dequeue(queue, deadline != 0, surface, metadata, length);
    if (status != VKS_TIMEOUT || !deadline || queue->ring.single_threaded)
        return status;
    if (spin_for_pair(queue, deadline) && (status = try_dequeue(queue, true, surface, metadata, length)) != VKS_TIMEOUT)
        return status;
    uint64_t since = vks_now();
    if (!atomic_fetch_add(&queue->sleeping, 1))
        vks_queue_set_waiting(&queue->ring, true);
    while (status == VKS_TIMEOUT) {
        uint32_t seq = vks_queue_prepare_wait(queue->ring.page);
        status = try_dequeue(queue, true, surface, metadata, length);
        if (status != VKS_TIMEOUT)
            break;
        vks_status slept =
            vks_now() < deadline ? vks_futex_wait(&queue->ring.page->seq, seq, VKS_ANY_BIT, deadline) : VKS_TIMEOUT;
        if (slept != VKS_OK) { /* check once more, so that a wake is not lost */
            status = try_dequeue(queue, true, surface, metadata, length);
            if (status == VKS_TIMEOUT) {
                status = slept;
                break;
            }
        }
    }
    if (atomic_fetch_sub(&queue->sleeping, 1) == 1)
        vks_queue_set_waiting(&queue->ring, false);
    if (!status)
        adapt_spin(queue, vks_now() - since);
    return status;
}

VKS_TRACED static void trace_dequeue(const vks_queue *queue, uint32_t index, uint64_t began, vks_status status)
{
    const vks_surface *surface = status ? NULL : queue->surfaces[index];
    uint64_t epoch = surface ? vks_trace_epoch(surface) : 0;
    vks_traced_queue(VKS_TRACE_DEQUEUE, queue->ring.page, surface, epoch, began, status);
}

vks_status vks_queue_dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length)
{
    VKS_NEEDS(queue, surface, length);
    uint64_t began = vks_trace_begin();
    vks_status status = dequeue(queue, deadline, surface, metadata, length);
    if (__builtin_expect(queue->ready != NULL, 0) && status != VKS_FORKED)
        vks_queue_update_fd(queue);
    VKS_TRACE(began, trace_dequeue(queue, *surface, began, status));
    return status;
}

/* ---- notices ---- */

/* A token to push once a dequeue can succeed. */
typedef struct vks_notice {
    vks_queue *queue;
    vks_event_queue *event_queue;
    uint64_t token;
} vks_notice;

static void fire(void *owner);

/* Pushes the token if a dequeue can succeed or has failed; else continues to watch. Called by
 * vks_queue_notify and by the watcher's thread. */
static void notify_or_watch(vks_notice *notice)
{
    vks_queue *queue = notice->queue;
    vks_queue_page *page = queue->ring.page;
    uint32_t seq = vks_queue_prepare_wait(page);
    vks_status why = vks_queue_check(queue);
    bool there = atomic_load(&page->committed) != atomic_load(&page->taken);
    if (!why && !there && vks_queue_other_end(queue) != VKS_END_CLOSED) {
        vks_watch word = {&page->seq, seq};
        if ((why = vks_watcher_set(notice, fire, &word, 1)) == VKS_OK)
            return;
    }
    /* The dequeue reports the error. */
    vks_event_queue_push(notice->event_queue, notice->token, why == VKS_CLOSED ? VKS_OK : why);
    vks_event_queue_unref(notice->event_queue);
    vks_queue_unref(queue);
    free(notice);
}

static void fire(void *owner) { notify_or_watch(owner); }

vks_status vks_queue_notify(vks_queue *queue, vks_event_queue *event_queue, uint64_t token)
{
    VKS_NEEDS(queue, event_queue);
    vks_status status = vks_queue_check(queue);
    if (status)
        return status;
    if (queue->end != VKS_CONSUMER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's producer");
    vks_notice *notice = calloc(1, sizeof *notice);
    if (!notice)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a notice");
    *notice = (vks_notice){.queue = queue, .event_queue = event_queue, .token = token};
    vks_event_queue_ref(event_queue);
    vks_queue_ref(queue);
    notify_or_watch(notice);
    return VKS_OK;
}
