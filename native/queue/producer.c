/* producer.c: from an ownership into the ring. */
#include "queue/queue.h"
#include "queue/trace_points.h"

#define SLICE_NS 50000000 /* of a wait for the GPU */

/* Commits the pairs that a dead producer wrote; the last one counts if its surface was released. */
void vks_queue_adopt_pairs(vks_queue *queue)
{
    uint32_t surface;
    uint64_t epoch;
    if (vks_queue_last_pending(&queue->ring, &surface, &epoch) == VKS_OK)
        vks_queue_adopt(&queue->ring, vks_surface_was_released(queue->surfaces[surface], epoch),
                        queue->end == VKS_PRODUCER);
}

typedef vks_status (*gpu_wait)(vks_surface *surface, uint64_t value, uint64_t deadline);

/* Waits for the GPU for one slice, because close() must not wait for work that may never run. The
 * caller calls again, and sees whether the end is closed. */
static vks_status wait_slice(gpu_wait wait, vks_surface *surface, uint64_t value, uint64_t deadline)
{
    uint64_t now = deadline ? vks_now() : 0, slice = now + SLICE_NS < deadline ? now + SLICE_NS : deadline;
    vks_status status = wait(surface, value, slice);
    return status == VKS_TIMEOUT && slice != deadline ? VKS_INTERRUPTED : status;
}

static vks_status wait_rendered(vks_surface *surface, uint64_t unused, uint64_t deadline)
{
    (void)unused;
    return vks_surface_cpu_access(surface, deadline);
}

static vks_status flush(vks_queue *queue, uint64_t deadline, uint32_t *committed)
{
    uint32_t surface;
    uint64_t value;
    vks_status status;
    for (*committed = 0; !(status = vks_queue_first_pending(&queue->ring, &surface, &value)); ++*committed) {
        if ((status = wait_slice(vks_surface_wait_released, queue->surfaces[surface], value, deadline)))
            return status;
        vks_queue_commit(&queue->ring, 1);
    }
    return status == VKS_TIMEOUT ? VKS_OK : status; /* nothing is pending */
}

vks_status vks_queue_flush(vks_queue *queue, bool wait, uint64_t deadline, uint32_t *committed, uint32_t *pending)
{
    VKS_NEEDS(queue, committed, pending);
    *committed = *pending = 0;
    vks_status status = vks_queue_begin(queue, !wait || deadline);
    if (status)
        return status;
    if (vks_queue_other_end(queue) == VKS_END_NEVER && !queue->ring.early)
        return vks_queue_finish(queue, vks_queue_not_open_yet(queue));
    status = flush(queue, wait ? deadline : 0, committed);
    vks_status counted = vks_queue_pending(&queue->ring, pending);
    if (!wait && status == VKS_TIMEOUT)
        status = counted;
    return vks_queue_finish(queue, status);
}

static vks_status check_enqueue(vks_queue *queue, const vks_surface *surface, const void *metadata, size_t length)
{
    if (queue->end != VKS_PRODUCER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's consumer");
    if (surface->network != queue->ring.network || surface->index >= queue->ring.count)
        return vks_fail(VKS_BAD_CALL, 0, "the surface is not of this queue's network");
    if (surface != queue->surfaces[surface->index])
        return vks_fail(VKS_BAD_CALL, 0, "the surface was dequeued by another device than the producer's");
    if (!vks_surface_is_owned(surface))
        return vks_fail(VKS_BAD_CALL, 0,
                        "the surface is not dequeued at present: it is in a queue, or another device has it");
    if (surface->is_external)
        return vks_fail(VKS_BAD_CALL, 0, "another API has the surface: end its block first");
    if (length > queue->ring.metadata_size)
        return vks_fail(VKS_BAD_VALUE, 0, "metadata has %zu bytes, and this queue's metadata_size is %u", length,
                        queue->ring.metadata_size);
    if (length)
        VKS_NEEDS(metadata);
    switch (vks_queue_other_end(queue)) {
    case VKS_END_CLOSED:
        return vks_fail(VKS_CLOSED, 0, "the queue's consumer is gone; the surface is yours still");
    case VKS_END_NEVER:
        return queue->ring.early ? VKS_OK : vks_queue_not_open_yet(queue);
    default:
        return VKS_OK;
    }
}

/* Writes the pair, then releases the surface, so that the pair is not lost if this process dies in
 * between. */
static vks_status put_pair(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length, uint64_t *value)
{
    vks_status status =
        vks_queue_put(&queue->ring, surface->index, vks_surface_epoch_after_release(surface), metadata, length);
    if (status)
        return status;
    VKS_KILL_POINT(20);
    status = vks_surface_release_epoch(surface, value);
    if (status)
        vks_queue_undo_put(&queue->ring);
    else
        vks_queue_set_value(&queue->ring, *value);
    VKS_KILL_POINT(21);
    return status;
}

static vks_status enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                          vks_enqueue_mode mode, uint64_t deadline, bool *committed)
{
    *committed = false;
    vks_status status = vks_queue_begin(queue, mode != VKS_ENQUEUE_WAIT || deadline);
    if (status)
        return status;
    uint32_t flushed, pending = 0;
    uint64_t value;
    if ((status = check_enqueue(queue, surface, metadata, length)))
        return vks_queue_finish(queue, status);
    if (mode != VKS_ENQUEUE_GPU)
        status = flush(queue, mode == VKS_ENQUEUE_WAIT ? deadline : 0, &flushed);
    if (mode == VKS_ENQUEUE_TRY && status == VKS_TIMEOUT)
        status = VKS_OK;
    if (!status && mode == VKS_ENQUEUE_WAIT)
        status = wait_slice(wait_rendered, surface, 0, deadline);
    bool finished = mode != VKS_ENQUEUE_TRY || (!status && vks_surface_cpu_access(surface, 0) == VKS_OK);
    if (status || (status = put_pair(queue, surface, metadata, length, &value)) ||
        (status = vks_queue_pending(&queue->ring, &pending)))
        return vks_queue_finish(queue, status);
    if (mode == VKS_ENQUEUE_GPU || (finished && pending == 1)) {
        vks_queue_commit(&queue->ring, pending); /* the pending pairs are older, and the GPU orders them too */
        *committed = true;
    }
    return vks_queue_finish(queue, VKS_OK);
}

vks_status vks_queue_enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                             vks_enqueue_mode mode, uint64_t deadline, bool *committed)
{
    VKS_NEEDS(queue, surface, committed);
    uint64_t began = vks_trace_begin(), epoch = began ? vks_surface_epoch_after_release(surface) : 0;
    vks_status status = enqueue(queue, surface, metadata, length, mode, deadline, committed);
    VKS_TRACE(began, vks_traced_queue(VKS_TRACE_ENQUEUE, queue->ring.page, surface, epoch, began, status));
    return status;
}
