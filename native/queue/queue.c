/* queue.c: one end of a surface queue: opening, and closing. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue/queue.h"

static const char *const end_names[] = {"producer", "consumer"};

/* ---- pages ---- */

vks_status vks_queue_page_make(const vks_queue_info *info, int *fd)
{
    VKS_NEEDS(info, fd);
    vks_queue_ring ring;
    vks_status status = vks_queue_page_create(info, fd, &ring);
    if (!status)
        vks_queue_page_close(&ring);
    return status;
}

vks_status vks_queue_page_read(int fd, vks_queue_info *out)
{
    VKS_NEEDS(out);
    vks_queue_ring ring;
    vks_status status = vks_queue_page_open(fd, &ring);
    if (status)
        return status;
    const vks_page_header *header = &ring.page->header;
    *out = (vks_queue_info){.width = header->width,
                            .height = header->height,
                            .format = header->format,
                            .color = header->color,
                            .count = ring.count,
                            .metadata_size = ring.metadata_size,
                            .network = ring.network,
                            .single_threaded = ring.single_threaded,
                            .early = ring.early};
    vks_queue_page_close(&ring);
    return VKS_OK;
}

/* ---- opening ---- */

static vks_queue *queue_of(vks_child *child) { return VKS_CONTAINER(child, vks_queue, child); }

/* Wakes the sleepers, which then check the device's state. */
static void lost_child(vks_child *child) { vks_queue_wake(queue_of(child)->ring.page); }
static void close_child(vks_child *child) { vks_queue_close(queue_of(child)); }
static void ref_child(vks_child *child) { vks_queue_ref(queue_of(child)); }
static void unref_child(vks_child *child) { vks_queue_unref(queue_of(child)); }

static const vks_child_class queue_child = {
    .lost = lost_child, .close = close_child, .ref = ref_child, .unref = unref_child};

static vks_status check_surfaces(vks_device *device, const vks_queue_ring *ring, vks_surface *const *surfaces,
                                 uint32_t count)
{
    if (count != ring->count)
        return vks_fail(VKS_BAD_CALL, 0, "the queue has %u surfaces, and %u were given", ring->count, count);
    for (uint32_t i = 0; i < count; i++)
        if (!surfaces[i] || surfaces[i]->device != device || surfaces[i]->network != ring->network ||
            surfaces[i]->index != i)
            return vks_fail(VKS_BAD_CALL, 0, "surface %u is not this device's handle of the queue's surface", i);
    return VKS_OK;
}

static vks_status register_queue(vks_queue *queue)
{
    vks_device *device = queue->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_adopt(device, VKS_QUEUES, &queue->child);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void destroy_memory(vks_queue *queue)
{
    for (uint32_t i = 0; i < queue->ring.count; i++)
        if (queue->surfaces[i])
            vks_surface_unref(queue->surfaces[i]);
    vks_queue_page_close(&queue->ring);
    vks_queue_close_fd(queue);
    vks_device_unref(queue->device);
    pthread_mutex_destroy(&queue->lock);
    pthread_mutex_destroy(&queue->ready_lock);
    free(queue);
}

/* Checks the current holder first, because a death that was not detected yet frees the end. */
static vks_status open_end(vks_queue *queue)
{
    vks_queue_ring *ring = &queue->ring;
    uint64_t holder = atomic_load(&ring->page->ends[queue->end]);
    if (vks_end_state(holder) == VKS_END_OPEN && !vks_peer_alive(vks_end_process(holder)))
        vks_queue_on_death(ring->page, vks_end_process(holder));
    return vks_queue_end_open(ring, queue->end, queue->device->name, &queue->word);
}

vks_status vks_queue_open(vks_device *device, int page_fd, vks_end end, vks_surface *const *surfaces, uint32_t count,
                          vks_queue **out)
{
    VKS_NEEDS(device, surfaces, out);
    if (end != VKS_PRODUCER && end != VKS_CONSUMER)
        return vks_fail(VKS_BAD_VALUE, end, "a queue's ends are 0 and 1, and this is end %d", (int)end);
    vks_status status = vks_device_check(device);
    vks_queue_ring ring;
    if (status || (status = vks_queue_page_open(page_fd, &ring)))
        return status;
    vks_queue *queue = NULL;
    if (!(status = check_surfaces(device, &ring, surfaces, count)) &&
        !(queue = calloc(1, sizeof *queue + count * sizeof *surfaces)))
        status = vks_fail(VKS_NO_MEMORY, 0, "no memory for an end of a queue");
    if (status) {
        vks_queue_page_close(&ring);
        return status;
    }
    queue->child.class = &queue_child;
    queue->device = device;
    vks_device_ref(device);
    queue->references = 1;
    queue->process = vks_process;
    queue->ring = ring;
    queue->end = end;
    queue->spin_ns = VKS_MIN_SPIN_NS;
    queue->mapping.queue = ring.page;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_mutex_init(&queue->ready_lock, NULL);
    for (uint32_t i = 0; i < count; i++) {
        queue->surfaces[i] = surfaces[i];
        vks_surface_ref(surfaces[i]);
    }
    if ((status = open_end(queue))) {
        destroy_memory(queue);
        return status;
    }
    if (end == VKS_PRODUCER)
        vks_queue_adopt_pairs(queue);
    vks_peers_add(&queue->mapping);
    if ((status = register_queue(queue))) {
        vks_peers_remove(&queue->mapping);
        vks_queue_end_close(&queue->ring, end, queue->word);
        destroy_memory(queue);
        return status;
    }
    *out = queue;
    return VKS_OK;
}

void vks_queue_ref(vks_queue *queue)
{
    VKS_NEEDS_OR(, queue);
    atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
}

void vks_queue_unref(vks_queue *queue)
{
    VKS_NEEDS_OR(, queue);
    if (atomic_fetch_sub(&queue->references, 1) == 1)
        destroy_memory(queue);
}

bool vks_queue_is_closed(const vks_queue *queue)
{
    VKS_NEEDS_OR(true, queue);
    return queue->closed;
}

uint32_t vks_queue_metadata_size(const vks_queue *queue)
{
    VKS_NEEDS_OR(0, queue);
    return queue->ring.metadata_size;
}

/* ---- calls of both ends ---- */

vks_status vks_queue_check(const vks_queue *queue)
{
    if (__builtin_expect(queue->process != vks_process, 0))
        return VKS_FORKED;
    return __builtin_expect(queue->closed, 0) ? VKS_CLOSED : vks_device_check(queue->device);
}

static vks_status check_thread(vks_queue *queue)
{
    uintptr_t self = (uintptr_t)pthread_self(), first = 0;
    if (atomic_load_explicit(&queue->thread, memory_order_relaxed) == self ||
        atomic_compare_exchange_strong(&queue->thread, &first, self))
        return VKS_OK;
    return vks_fail(VKS_BAD_CALL, 0,
                    "the queue was made with single_threaded=True, and this is not the thread that used it first");
}

vks_status vks_queue_begin(vks_queue *queue, bool may_sleep)
{
    vks_status status = vks_queue_check(queue);
    if (status)
        return status;
    if (queue->ring.single_threaded)
        return check_thread(queue);
    if (pthread_mutex_trylock(&queue->lock)) {
        if (!may_sleep) {
            vks_clear_error();
            return VKS_TIMEOUT;
        }
        pthread_mutex_lock(&queue->lock);
    }
    if ((status = vks_queue_check(queue)))
        pthread_mutex_unlock(&queue->lock);
    return status;
}

vks_status vks_queue_finish(vks_queue *queue, vks_status status)
{
    if (!queue->ring.single_threaded)
        pthread_mutex_unlock(&queue->lock);
    return status;
}

uint32_t vks_queue_other_end(vks_queue *queue)
{
    vks_queue_page *page = queue->ring.page;
    for (;;) {
        uint64_t word = atomic_load_explicit(&page->ends[!queue->end], memory_order_acquire);
        if (vks_end_state(word) != VKS_END_OPEN ||
            word == atomic_load_explicit(&queue->mapping.watched, memory_order_relaxed))
            return vks_end_state(word);
        if (vks_peer_alive(vks_end_process(word)))
            atomic_store_explicit(&queue->mapping.watched, word, memory_order_relaxed);
        else
            vks_queue_on_death(page, vks_end_process(word));
    }
}

vks_status vks_queue_not_open_yet(const vks_queue *queue)
{
    return vks_fail(VKS_BAD_CALL, 0, "the queue's %s was not opened yet: open both ends before use",
                    end_names[!queue->end]);
}

/* ---- closing ---- */

void vks_queue_close(vks_queue *queue)
{
    VKS_NEEDS_OR(, queue);
    vks_device *device = queue->device;
    if (queue->process != vks_process || atomic_exchange(&queue->closed, true))
        return;
    pthread_mutex_lock(&device->lock);
    vks_device_disown(device, VKS_QUEUES, &queue->child);
    pthread_mutex_unlock(&device->lock);
    uint32_t pending;
    pthread_mutex_lock(&queue->lock); /* waits for a call in progress */
    if (queue->end == VKS_PRODUCER && !vks_queue_pending(&queue->ring, &pending) && pending)
        vks_queue_commit(&queue->ring, pending);
    pthread_mutex_unlock(&queue->lock);
    vks_queue_end_close(&queue->ring, queue->end, queue->word); /* wakes both ends */
    while (atomic_load(&queue->sleeping)) {
        vks_queue_wake(queue->ring.page);
        sched_yield();
    }
    vks_queue_end_watch(queue);
    vks_peers_remove(&queue->mapping);
}

static void count(const vks_queue_page *page, vks_queue_statistics *out)
{
    uint64_t producer = atomic_load(&page->ends[VKS_PRODUCER]), consumer = atomic_load(&page->ends[VKS_CONSUMER]);
    *out = (vks_queue_statistics){.enqueued = atomic_load(&page->written),
                                  .committed = atomic_load(&page->committed),
                                  .dequeued = atomic_load(&page->taken),
                                  .producer_pid = vks_identity_pid(vks_end_process(producer)),
                                  .consumer_pid = vks_identity_pid(vks_end_process(consumer))};
}

void vks_queue_get_statistics(const vks_queue *queue, vks_queue_statistics *out)
{
    VKS_NEEDS_OR(, queue, out);
    count(queue->ring.page, out);
}

vks_status vks_queue_page_count(int fd, vks_queue_statistics *out)
{
    VKS_NEEDS(out);
    vks_queue_ring ring;
    vks_status status = vks_queue_page_open(fd, &ring);
    if (!status) {
        count(ring.page, out);
        vks_queue_page_close(&ring);
    }
    return status;
}
