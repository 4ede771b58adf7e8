#define _GNU_SOURCE
#include "shm/queue_page.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "os/event_queue.h"
#include "scheduler/trace_points.h"
#include "os/watcher.h"

/* One end of a queue. `lock` serializes the threads that share it (Q17). A producer holds it while
 * it waits for the GPU; a consumer does not hold it while it waits for a pair. The page's words
 * order the two ends. */
struct vks_queue {
    vks_queue *next, *previous; /* in device->queues */
    vks_device *device;
    _Atomic uint32_t references;
    uint32_t process;
    vks_queue_ring ring;
    vks_end end;
    uint64_t word; /* the value that this end wrote to its word in the page */
    pthread_mutex_t lock;
    _Atomic uintptr_t thread; /* single-threaded queues: the first thread that used it */
    _Atomic bool closed;
    _Atomic uint32_t sleeping; /* threads that check the page without the lock */
    _Atomic uint32_t spin_ns;  /* ns of spinning before a sleep */
    vks_mapping mapping;
    vks_surface *surfaces[];
};

/* A token to push once a dequeue can succeed. */
typedef struct vks_notice {
    vks_queue *queue;
    vks_event_queue *event_queue;
    uint64_t token;
} vks_notice;

/* Time to spin before a sleep. A wake takes about as long as the minimum. Two ends that both sleep
 * would continue to do so, each finding the other asleep. So a short sleep doubles the next spin,
 * and a long sleep resets it. */
#define MIN_SPIN_NS 50000
#define MAX_SPIN_NS 200000
#define SLICE_NS 50000000 /* of a wait for the GPU */

static const char *const end_names[] = {"producer", "consumer"};

/* ---- pages ---- */

vks_status vks_queue_page_make(const vks_queue_info *info, int *fd)
{
    vks_queue_ring ring;
    vks_status status = vks_queue_page_create(info, fd, &ring);
    if (!status)
        vks_queue_page_close(&ring);
    return status;
}

vks_status vks_queue_page_read(int fd, vks_queue_info *out)
{
    vks_queue_ring ring;
    vks_status status = vks_queue_page_open(fd, &ring);
    if (status)
        return status;
    const vks_page_header *header = &ring.page->header;
    *out = (vks_queue_info){.width = header->width,
                            .height = header->height,
                            .format = header->format,
                            .count = ring.count,
                            .metadata_size = ring.metadata_size,
                            .network = ring.network,
                            .single_threaded = ring.single_threaded,
                            .early = ring.early};
    vks_queue_page_close(&ring);
    return VKS_OK;
}

/* ---- opening ---- */

static vks_status check_surfaces(vks_device *device, const vks_queue_ring *ring, vks_surface *const *surfaces,
                                 uint32_t count)
{
    if (count != ring->count)
        return vks_fail(VKS_BAD_CALL, 0, "the queue has %u surfaces, and %u were given", ring->count, count);
    for (uint32_t i = 0; i < count; i++)
        if (surfaces[i]->device != device || surfaces[i]->network != ring->network || surfaces[i]->index != i)
            return vks_fail(VKS_BAD_CALL, 0, "surface %u is not this device's handle of the queue's surface", i);
    return VKS_OK;
}

static vks_status register_queue(vks_queue *queue)
{
    vks_device *device = queue->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_check(device);
    if (!status) {
        queue->next = device->queues;
        if (queue->next)
            queue->next->previous = queue;
        device->queues = queue;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void destroy_memory(vks_queue *queue)
{
    for (uint32_t i = 0; i < queue->ring.count; i++)
        if (queue->surfaces[i])
            vks_surface_unref(queue->surfaces[i]);
    vks_queue_page_close(&queue->ring);
    vks_device_unref(queue->device);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static void adopt(vks_queue *queue);

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
    queue->device = device;
    vks_device_ref(device);
    queue->references = 1;
    queue->process = vks_process;
    queue->ring = ring;
    queue->end = end;
    queue->spin_ns = MIN_SPIN_NS;
    queue->mapping.queue = ring.page;
    pthread_mutex_init(&queue->lock, NULL);
    for (uint32_t i = 0; i < count; i++) {
        queue->surfaces[i] = surfaces[i];
        vks_surface_ref(surfaces[i]);
    }
    if ((status = open_end(queue))) {
        destroy_memory(queue);
        return status;
    }
    if (end == VKS_PRODUCER)
        adopt(queue);
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

void vks_queue_ref(vks_queue *queue) { atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed); }

void vks_queue_unref(vks_queue *queue)
{
    if (atomic_fetch_sub(&queue->references, 1) == 1)
        destroy_memory(queue);
}

bool vks_queue_is_closed(const vks_queue *queue) { return queue->closed; }

uint32_t vks_queue_metadata_size(const vks_queue *queue) { return queue->ring.metadata_size; }

/* ---- checks ---- */

static vks_status check(const vks_queue *queue)
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

/* Takes the lock. VKS_TIMEOUT: it is taken, and the caller must not sleep. */
static vks_status begin(vks_queue *queue, bool may_sleep)
{
    vks_status status = check(queue);
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
    if ((status = check(queue)))
        pthread_mutex_unlock(&queue->lock);
    return status;
}

static vks_status finish(vks_queue *queue, vks_status status)
{
    if (!queue->ring.single_threaded)
        pthread_mutex_unlock(&queue->lock);
    return status;
}

/* Returns the state of the other end, and watches its process for death from now on. */
static uint32_t other_end(vks_queue *queue)
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

static vks_status not_open_yet(const vks_queue *queue)
{
    return vks_fail(VKS_BAD_CALL, 0, "the queue's %s was not opened yet: open both ends before use",
                    end_names[!queue->end]);
}

/* ---- the producer ---- */

/* Commits the pairs that a dead producer wrote; the last one counts if its surface was released. */
static void adopt(vks_queue *queue)
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
    *committed = *pending = 0;
    vks_status status = begin(queue, !wait || deadline);
    if (status)
        return status;
    if (other_end(queue) == VKS_END_NEVER && !queue->ring.early)
        return finish(queue, not_open_yet(queue));
    status = flush(queue, wait ? deadline : 0, committed);
    vks_status counted = vks_queue_pending(&queue->ring, pending);
    if (!wait && status == VKS_TIMEOUT)
        status = counted;
    return finish(queue, status);
}

static vks_status check_enqueue(vks_queue *queue, const vks_surface *surface, size_t length)
{
    if (queue->end != VKS_PRODUCER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's consumer");
    if (surface->network != queue->ring.network)
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
    switch (other_end(queue)) {
    case VKS_END_CLOSED:
        return vks_fail(VKS_CLOSED, 0, "the queue's consumer is gone; the surface is yours still");
    case VKS_END_NEVER:
        return queue->ring.early ? VKS_OK : not_open_yet(queue);
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
    vks_status status = begin(queue, mode != VKS_ENQUEUE_WAIT || deadline);
    if (status)
        return status;
    uint32_t flushed, pending = 0;
    uint64_t value;
    if ((status = check_enqueue(queue, surface, length)))
        return finish(queue, status);
    if (mode != VKS_ENQUEUE_GPU)
        status = flush(queue, mode == VKS_ENQUEUE_WAIT ? deadline : 0, &flushed);
    if (mode == VKS_ENQUEUE_TRY && status == VKS_TIMEOUT)
        status = VKS_OK;
    if (!status && mode == VKS_ENQUEUE_WAIT)
        status = wait_slice(wait_rendered, surface, 0, deadline);
    bool finished = mode != VKS_ENQUEUE_TRY || (!status && vks_surface_cpu_access(surface, 0) == VKS_OK);
    if (status || (status = put_pair(queue, surface, metadata, length, &value)) ||
        (status = vks_queue_pending(&queue->ring, &pending)))
        return finish(queue, status);
    if (mode == VKS_ENQUEUE_GPU || (finished && pending == 1)) {
        vks_queue_commit(&queue->ring, pending); /* the pending pairs are older, and the GPU orders them too */
        *committed = true;
    }
    return finish(queue, VKS_OK);
}

vks_status vks_queue_enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                             vks_enqueue_mode mode, uint64_t deadline, bool *committed)
{
    uint64_t began = vks_trace_begin(), epoch = began ? vks_surface_epoch_after_release(surface) : 0;
    vks_status status = enqueue(queue, surface, metadata, length, mode, deadline, committed);
    VKS_TRACE(began, vks_traced_queue(VKS_TRACE_ENQUEUE, queue->ring.page, surface, epoch, began, status));
    return status;
}

/* ---- the consumer ---- */

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
    uint32_t state = other_end(queue);
    if (state == VKS_END_NEVER && !ring->early)
        return not_open_yet(queue);
    vks_status status = vks_queue_peek(ring, pair->surface, &pair->epoch, pair->metadata, pair->length);
    if (status != VKS_TIMEOUT || state != VKS_END_CLOSED)
        return status;
    adopt(queue);
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
    vks_status status = begin(queue, may_sleep);
    return status ? status : finish(queue, dequeue_one(queue, surface, metadata, length));
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
    spin_ns = was_short ? 2 * spin_ns : MIN_SPIN_NS;
    if (spin_ns <= MAX_SPIN_NS)
        atomic_store_explicit(&queue->spin_ns, spin_ns, memory_order_relaxed);
}

static vks_status dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length)
{
    if (queue->end != VKS_CONSUMER)
        return vks_fail(VKS_BAD_CALL, 0, "this is the queue's producer");
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
    uint64_t began = vks_trace_begin();
    vks_status status = dequeue(queue, deadline, surface, metadata, length);
    VKS_TRACE(began, trace_dequeue(queue, *surface, began, status));
    return status;
}

/* ---- notices ---- */

static void fire(void *owner);

/* Pushes the token if a dequeue can succeed or has failed; else continues to watch. Called by
 * vks_queue_notify and by the watcher's thread. */
static void notify_or_watch(vks_notice *notice)
{
    vks_queue *queue = notice->queue;
    vks_queue_page *page = queue->ring.page;
    uint32_t seq = vks_queue_prepare_wait(page);
    vks_status why = check(queue);
    bool there = atomic_load(&page->committed) != atomic_load(&page->taken);
    if (!why && !there && other_end(queue) != VKS_END_CLOSED) {
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
    vks_status status = check(queue);
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

/* ---- closing ---- */

void vks_queue_wake_all(const vks_device *device)
{
    for (const vks_queue *queue = device->queues; queue; queue = queue->next)
        vks_queue_wake(queue->ring.page);
}

void vks_queue_close(vks_queue *queue)
{
    vks_device *device = queue->device;
    if (queue->process != vks_process || atomic_exchange(&queue->closed, true))
        return;
    pthread_mutex_lock(&device->lock);
    *(queue->previous ? &queue->previous->next : &device->queues) = queue->next;
    if (queue->next)
        queue->next->previous = queue->previous;
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

void vks_queue_get_statistics(const vks_queue *queue, vks_queue_statistics *out) { count(queue->ring.page, out); }

vks_status vks_queue_page_count(int fd, vks_queue_statistics *out)
{
    vks_queue_ring ring;
    vks_status status = vks_queue_page_open(fd, &ring);
    if (!status) {
        count(ring.page, out);
        vks_queue_page_close(&ring);
    }
    return status;
}
