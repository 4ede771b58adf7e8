#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.h"
#include "scheduler/trace_points.h"
#include "os/watcher.h"

/* ---- creating and opening ---- */

static void on_death(void *user);

static vks_fence *new_fence(vks_device *device)
{
    vks_fence *fence = calloc(1, sizeof *fence);
    if (!fence)
        return NULL;
    fence->device = device;
    vks_device_ref(device);
    fence->references = 1;
    fence->process = vks_process;
    fence->page_fd = -1;
    fence->last_valid = UINT64_MAX;
    fence->mapping.on_death = on_death;
    fence->mapping.user = fence;
    return fence;
}

static void destroy_memory(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    if (page && page != fence->private_page)
        munmap(page, VKS_FENCE_PAGE_SIZE);
    if (fence->page_fd >= 0)
        close(fence->page_fd);
    free(fence->private_page);
    free(fence->events);
    vks_device_unref(fence->device);
    free(fence);
}

/* Adds the fence to the device, unless that was shut down meanwhile. */
static vks_status link_fence(vks_fence *fence, uint64_t semaphore)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_check(device);
    if (!status) {
        fence->semaphore = semaphore;
        fence->next = device->fences;
        if (fence->next)
            fence->next->previous = fence;
        device->fences = fence;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

static vks_status make_private_page(vks_fence *fence, uint64_t initial)
{
    vks_fence_page *page = aligned_alloc(64, sizeof *page);
    if (!page)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    memset(page, 0, sizeof *page);
    vks_page_init(&page->header, VKS_PAGE_FENCE, VKS_FENCE_PAGE_SIZE);
    page->owner = vks_self();
    memcpy(page->name, fence->device->name, VKS_NAME_SIZE);
    page->queued = page->completed = initial;
    fence->private_page = page;
    fence->page = page;
    fence->announced = initial;
    return VKS_OK;
}

vks_status vks_fence_create(vks_device *device, uint64_t initial, vks_fence **out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (initial > VKS_MAX_FENCE_VALUE)
        return vks_fail(VKS_BAD_VALUE, (int64_t)initial, "a fence starts between 0 and 2**64 - 2");
    vks_fence *fence = new_fence(device);
    if (!fence)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    if (!vks_device_enter(device)) {
        destroy_memory(fence);
        return VKS_CLOSED;
    }
    uint64_t semaphore = 0;
    if (!(status = make_private_page(fence, initial)) &&
        !(status = device->backend->create_timeline(device, initial, &semaphore)) &&
        (status = link_fence(fence, semaphore)) && semaphore)
        device->backend->destroy_timeline(device, semaphore);
    if (status)
        destroy_memory(fence);
    else
        *out = fence;
    vks_device_leave(device);
    return status;
}

vks_status vks_fence_adopt(vks_device *device, uint64_t vk_semaphore, vks_fence **out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!device->timeline || !vk_semaphore)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "only a Vulkan device can adopt a timeline semaphore, and it must not be null");
    uint64_t value;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    status = device->backend->counter(device, vk_semaphore, &value);
    vks_device_leave(device);
    if (status)
        return status;
    vks_fence *fence = new_fence(device);
    if (!fence)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    fence->adopted = true;
    if ((status = make_private_page(fence, value)) || (status = link_fence(fence, vk_semaphore))) {
        destroy_memory(fence);
        return status;
    }
    *out = fence;
    return VKS_OK;
}

static vks_status follow(vks_fence *fence, uint64_t semaphore)
{
    fence->follower = true;
    fence->mapping.fence = fence->page;
    vks_peers_add(&fence->mapping);
    vks_status status = link_fence(fence, semaphore);
    if (status) {
        vks_peers_remove(&fence->mapping);
        if (semaphore)
            fence->device->backend->destroy_timeline(fence->device, semaphore);
    }
    return status;
}

vks_status vks_fence_open(vks_device *device, int page_fd, int semaphore_fd, vks_fence **out)
{
    vks_status status = vks_device_check(device);
    bool entered = !status && vks_device_enter(device);
    if (!status && !entered)
        status = VKS_CLOSED;
    vks_fence *fence = status ? NULL : new_fence(device);
    if (!status && !fence)
        status = vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    void *page = NULL;
    uint64_t semaphore = 0;
    if (!status && (status = vks_page_open(page_fd, VKS_PAGE_FENCE, false, &page)) == VKS_OK) {
        fence->page = page;
        fence->page_fd = page_fd;
        page_fd = -1;
        if (semaphore_fd >= 0 && device->native_timelines) {
            status = device->backend->import_timeline(device, semaphore_fd, &semaphore);
            semaphore_fd = -1;
        }
    }
    if (page_fd >= 0)
        close(page_fd);
    if (semaphore_fd >= 0)
        close(semaphore_fd);
    if (!status)
        status = follow(fence, semaphore);
    if (!status)
        *out = fence;
    else if (fence)
        destroy_memory(fence);
    if (entered)
        vks_device_leave(device);
    return status;
}

/* ---- export: the page moves into shared memory ---- */

static vks_status share_page(vks_fence *fence)
{
    if (fence->page_fd >= 0)
        return VKS_OK;
    void *map;
    int fd;
    vks_status status = vks_memfd_create("vkshare:fence", VKS_FENCE_PAGE_SIZE, true, &fd, &map);
    if (status)
        return status;
    vks_fence_page *shared = map, *old = fence->page;
    memcpy(shared, old, sizeof *shared);
    shared->header.native = fence->device->native_timelines;
    fence->page_fd = fd;
    fence->page = shared;
    atomic_fetch_add(&old->seq, 1); /* sleepers on the private page check again and find the shared one */
    vks_futex_wake(&old->seq, VKS_ANY_BIT);
    return VKS_OK;
}

/* From now on completions reach the page, also those of values that the driver already has. Caller
 * holds device->lock. */
static vks_status start_publishing(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    if (fence->follower || fence->adopted || page->queued <= page->completed || fence->closed)
        return VKS_OK;
    vks_device *device = fence->device;
    /* A value of an external API is published anyway. */
    bool by_serial = fence->external_value < page->queued;
    vks_status status = by_serial ? vks_device_reserve(device, 1) : VKS_OK;
    if (!status && by_serial) /* adds the last signal; earlier ones are polled */
        vks_device_add_completion(device, fence->last_serial ? fence->last_serial : device->submitted,
                                  VKS_COMPLETION_FENCE, fence, page->queued);
    device->has_untracked_values |= !status && fence->semaphore && page->queued > page->completed + 1;
    return status;
}

static vks_status check(const vks_fence *fence)
{
    if (__builtin_expect(fence->process != vks_process, 0))
        return VKS_FORKED;
    return __builtin_expect(fence->closed, 0) ? VKS_CLOSED : VKS_OK;
}

vks_status vks_fence_export(vks_fence *fence, int *page_fd, int *semaphore_fd)
{
    vks_device *device = fence->device;
    *page_fd = *semaphore_fd = -1;
    vks_status status = check(fence);
    if (status)
        return status;
    if (fence->adopted)
        return vks_fail(
            VKS_UNSUPPORTED, 0,
            "an adopted semaphore is the engine's: no process announces its values, so it cannot be followed");
    pthread_mutex_lock(&device->lock);
    if ((status = check(fence)) == VKS_OK && (status = share_page(fence)) == VKS_OK) {
        fence->published = true;
        status = start_publishing(fence);
    }
    if (!status && (*page_fd = vks_dup(fence->page_fd)) < 0)
        status = vks_fail(VKS_OS_ERROR, errno, "the fence's page could not be duplicated");
    if (!status && device->native_timelines && fence->semaphore &&
        (status = device->backend->export_timeline(device, fence->semaphore, semaphore_fd))) {
        close(*page_fd);
        *page_fd = -1;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- properties ---- */

void vks_fence_ref(vks_fence *fence) { atomic_fetch_add_explicit(&fence->references, 1, memory_order_relaxed); }

void vks_fence_unref(vks_fence *fence)
{
    if (atomic_fetch_sub(&fence->references, 1) == 1)
        destroy_memory(fence);
}

bool vks_fence_is_closed(const vks_fence *fence) { return fence->closed; }
bool vks_fence_is_follower(const vks_fence *fence) { return fence->follower; }
bool vks_fence_is_native(const vks_fence *fence)
{
    return fence->semaphore && (fence->follower || fence->device->native_timelines);
}
uint64_t vks_fence_semaphore(const vks_fence *fence) { return fence->semaphore; }
vks_device *vks_fence_device(const vks_fence *fence) { return fence->device; }

/* ---- events: a heap by value ---- */

static void sift_up(vks_event *heap, size_t i)
{
    while (i && heap[i].value < heap[(i - 1) / 2].value) {
        vks_event swap = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = swap;
        i = (i - 1) / 2;
    }
}

static void sift_down(vks_event *heap, size_t n)
{
    for (size_t i = 0, least;; i = least) {
        least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (heap[child].value < heap[least].value)
                least = child;
        if (least == i)
            return;
        vks_event swap = heap[i];
        heap[i] = heap[least];
        heap[least] = swap;
    }
}

static void fire_event(const vks_event *event, vks_status result)
{
    if (event->event_queue) {
        vks_event_queue_push(event->event_queue, event->token, result);
        vks_event_queue_unref(event->event_queue);
        return;
    }
    ssize_t ignored = write(event->fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
    close(event->fd);
}

/* Fires the events of reached values; with a failure, all other events too. */
static void fire_events(vks_fence *fence, uint64_t completed, vks_status failure)
{
    while (fence->n_events && (fence->events[0].value <= completed || failure)) {
        vks_event event = fence->events[0];
        fence->events[0] = fence->events[--fence->n_events];
        sift_down(fence->events, fence->n_events);
        fire_event(&event, event.value <= completed ? VKS_OK : failure);
    }
}

/* ---- completion ---- */

/* Returns whether the semaphore may be ahead of the page. */
static bool may_be_behind(const vks_fence *fence)
{
    const vks_fence_page *page = fence->page;
    return fence->semaphore && (fence->adopted || atomic_load_explicit(&page->queued, memory_order_relaxed) >
                                                      atomic_load_explicit(&page->completed, memory_order_relaxed));
}

uint64_t vks_fence_completed(vks_fence *fence)
{
    const vks_fence_page *page = fence->page;
    uint64_t completed = atomic_load_explicit(&page->completed, memory_order_acquire), counter;
    if (!may_be_behind(fence))
        return completed;
    vks_status status = fence->device->backend->counter(fence->device, fence->semaphore, &counter);
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(fence->device);
    if (counter > fence->last_valid)
        counter = fence->last_valid;
    return status == VKS_OK && counter > completed ? counter : completed;
}

/* Takes device->lock, so that close() does not destroy the semaphore meanwhile. */
static uint64_t current_value(vks_fence *fence)
{
    if (!may_be_behind(fence))
        return atomic_load_explicit(&((vks_fence_page *)fence->page)->completed, memory_order_acquire);
    pthread_mutex_lock(&fence->device->lock);
    uint64_t completed = vks_fence_completed(fence);
    if (!fence->follower && !fence->adopted)
        vks_fence_publish_completed(fence, completed); /* the next call need not query the driver */
    pthread_mutex_unlock(&fence->device->lock);
    return completed;
}

static void wake_page(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    atomic_fetch_add(&page->seq, 1);
    if (fence->page_fd >= 0 || fence->sleepers)
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
}

void vks_fence_publish_completed(vks_fence *fence, uint64_t completed)
{
    vks_fence_page *page = fence->page;
    VKS_KILL_POINT(20);
    if (!vks_atomic_max(&page->completed, completed < fence->last_valid ? completed : fence->last_valid))
        return;
    VKS_KILL_POINT(21);
    wake_page(fence);
    if (fence->n_events)
        fire_events(fence, completed, VKS_OK);
}

/* Only the signaller writes `queued`, under its device's lock, so a plain store is enough. */
static void store_queued(vks_fence *fence, uint64_t value)
{
    vks_fence_page *page = fence->page;
    if (atomic_load_explicit(&page->queued, memory_order_relaxed) < value)
        atomic_store_explicit(&page->queued, value, memory_order_release);
}

void vks_fence_publish_queued(vks_fence *fence, uint64_t value)
{
    store_queued(fence, value);
    if (fence->published || fence->sleepers) /* followers whose GPU can wait read `queued` */
        wake_page(fence);
}

void vks_fence_signal_submitted(vks_fence *fence, uint64_t value, uint64_t serial)
{
    if (fence->announced < value)
        fence->announced = value;
    fence->last_serial = serial;
    vks_fence_publish_queued(fence, value);
    if (vks_fence_is_watched(fence))
        vks_device_add_completion(fence->device, serial, VKS_COMPLETION_FENCE, fence, value);
}

void vks_fence_poll_untracked(vks_device *device)
{
    if (!device->has_untracked_values)
        return;
    device->has_untracked_values = false;
    for (vks_fence *f = device->fences; f && !device->lost; f = f->next) {
        if (!vks_fence_is_watched(f) || !may_be_behind(f) || f->follower || f->adopted)
            continue;
        vks_fence_publish_completed(f, vks_fence_completed(f));
        device->has_untracked_values |= may_be_behind(f);
    }
}

/* Returns false if the page had a final status already. */
static bool set_final_status(vks_fence_page *page, uint32_t end)
{
    uint32_t live = VKS_FENCE_LIVE, broken = VKS_FENCE_BROKEN;
    return atomic_compare_exchange_strong(&page->status, &live, end) ||
           (end != VKS_FENCE_BROKEN && atomic_compare_exchange_strong(&page->status, &broken, end));
}

void vks_fence_fail(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    bool lost = fence->device->lost;
    if (fence->follower ? !lost : !set_final_status(page, lost ? VKS_FENCE_LOST : VKS_FENCE_BROKEN))
        return;
    if (fence->follower) /* another process's page; its sleepers in this process check their device's state */
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
    else
        wake_page(fence);
    fire_events(fence, vks_fence_completed(fence), lost ? VKS_DEVICE_LOST : VKS_ABANDONED);
}

/* ---- values ---- */

vks_status vks_fence_value(vks_fence *fence, uint64_t *out)
{
    vks_status status = check(fence);
    if (!status)
        *out = current_value(fence);
    return status;
}

vks_status vks_fence_queued(vks_fence *fence, uint64_t *out)
{
    vks_status status = check(fence);
    if (status)
        return status;
    if (fence->follower) {
        *out = atomic_load(&((vks_fence_page *)fence->page)->queued);
        return VKS_OK;
    }
    pthread_mutex_lock(&fence->device->lock);
    uint64_t completed = fence->adopted ? vks_fence_completed(fence) : 0;
    *out = fence->announced > completed ? fence->announced : completed;
    pthread_mutex_unlock(&fence->device->lock);
    return VKS_OK;
}

vks_status vks_fence_check_signal(vks_fence *fence, vks_device *device, uint64_t *value)
{
    vks_status status = check(fence);
    if (status)
        return status;
    if (fence->device != device)
        return VKS_FOREIGN_DEVICE;
    if (fence->follower)
        return VKS_READ_ONLY;
    if (atomic_load_explicit(&((vks_fence_page *)fence->page)->status, memory_order_relaxed) != VKS_FENCE_LIVE)
        return VKS_ABANDONED;
    if (fence->adopted) {
        uint64_t counter = vks_fence_completed(fence);
        if (fence->announced < counter)
            fence->announced = counter;
    }
    if (*value == 0)
        *value = fence->announced + 1;
    if (__builtin_expect(*value <= fence->announced || *value > VKS_MAX_FENCE_VALUE, 0))
        return vks_fail(VKS_BAD_VALUE, (int64_t)*value,
                        "a signal must be above the queued value %llu and at most 2**64 - 2, and it is %llu",
                        (unsigned long long)fence->announced, (unsigned long long)*value);
    const vks_fence_page *page = fence->page;
    if (*value - atomic_load_explicit(&page->completed, memory_order_relaxed) > device->max_difference &&
        *value - vks_fence_completed(fence) > device->max_difference)
        return vks_fail(VKS_BAD_VALUE, (int64_t)*value,
                        "the signal %llu is more than %llu (maxTimelineSemaphoreValueDifference) above the value %llu",
                        (unsigned long long)*value, (unsigned long long)device->max_difference,
                        (unsigned long long)vks_fence_completed(fence));
    return VKS_OK;
}

vks_status vks_fence_signal(vks_fence *fence, uint64_t value)
{
    vks_device *device = fence->device;
    uint64_t began = vks_trace_begin();
    vks_status status = check(fence);
    if (status || (status = vks_device_check(device)))
        return status;
    if (value == 0)
        return fence->follower
                   ? VKS_READ_ONLY
                   : vks_fail(VKS_BAD_VALUE, 0, "a fence can be signalled with 1 up to 2**64 - 2, and not with 0");
    pthread_mutex_lock(&device->lock);
    bool pending = fence->announced > vks_fence_completed(fence);
    status = vks_fence_check_signal(fence, device, &value);
    if (!status && !pending &&
        (!fence->semaphore || !(status = device->backend->host_signal(device, fence->semaphore, value)))) {
        fence->announced = value;
        store_queued(fence, value);
        vks_fence_publish_completed(fence, value);
        if (device->n_held)
            vks_scheduler_run(device);
    } else if (!status && pending) {
        /* Signals are pending, and the counter must not pass them
         * (VUID-VkSemaphoreSignalInfo-value-03259), so signal through the queue. */
        status = vks_submit_signal(device, &(vks_signal){fence, value});
    }
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
    VKS_TRACE(began, vks_traced_fence(VKS_TRACE_SIGNAL, fence, value, began, status));
    return status;
}

/* ---- waiting ---- */

/* Returns the status of a wait for `value`; `completed` was just read. VKS_TIMEOUT: the value may
 * still come. */
static vks_status wait_status(vks_fence *fence, uint64_t value, uint64_t completed)
{
    const vks_fence_page *page = fence->page;
    if (completed >= value)
        return VKS_OK;
    if (fence->closed)
        return VKS_CLOSED;
    vks_status state = vks_device_check(fence->device);
    if (state)
        return state;
    if (atomic_load(&page->status) == VKS_FENCE_LIVE && !(fence->follower && !vks_peer_alive(page->owner)))
        return VKS_TIMEOUT;
    return atomic_load(&page->completed) >= value ? VKS_OK
                                                  : VKS_ABANDONED; /* a value that came before the failure counts */
}

static vks_status poll_fence(vks_fence *fence, uint64_t value)
{
    if (atomic_load_explicit(&((vks_fence_page *)fence->page)->completed, memory_order_acquire) >= value)
        return VKS_OK;
    vks_status status = wait_status(fence, value, current_value(fence));
    return status == VKS_ABANDONED && current_value(fence) >= value
               ? VKS_OK
               : status; /* the GPU may have reached it before the signaller ended */
}

vks_status vks_fence_poll(vks_fence *fence, uint64_t value)
{
    vks_status status = check(fence);
    return status ? status : poll_fence(fence, value);
}

/* Waits in the driver, which has the signal. */
static vks_status wait_in_driver(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    bool closed = fence->closed;
    fence->driver_waiters += !closed;
    pthread_mutex_unlock(&device->lock);
    if (closed)
        return VKS_CLOSED;
    vks_status status = device->backend->wait_timeline(device, fence->semaphore, value, deadline);
    pthread_mutex_lock(&device->lock);
    fence->driver_waiters--;
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    else if (status == VKS_OK && value > fence->last_valid)
        status = VKS_ABANDONED;
    pthread_mutex_unlock(&device->lock);
    return status;
}

#define FOLLOWER_POLL_NS UINT64_C(50000000)

/* Sleeps once. A follower cannot write to its page, so a local change just before the sleep may go
 * unnoticed; followers therefore poll. */
static vks_status sleep_on_seq(vks_fence *fence, vks_fence_page *page, uint32_t seq, uint64_t deadline)
{
    uint64_t now = vks_now(),
             until = fence->follower && deadline - now > FOLLOWER_POLL_NS ? now + FOLLOWER_POLL_NS : deadline;
    if (now >= deadline) /* checked here too, because seq may change all the time */
        return VKS_TIMEOUT;
    vks_status status = vks_futex_wait(&page->seq, seq, VKS_ANY_BIT, until);
    return status == VKS_TIMEOUT && until < deadline ? VKS_OK : status;
}

static vks_status sleep_on_page(vks_fence *fence, uint64_t value, uint64_t deadline,
                                vks_status (*poll)(vks_fence *fence, uint64_t value))
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    fence->sleepers++;
    vks_status status = start_publishing(fence);
    pthread_mutex_unlock(&device->lock);
    while (!status) {
        vks_fence_page *page = fence->page; /* export may move the page, and then changes the old seq once */
        uint32_t seq = atomic_load(&page->seq);
        if (page != fence->page)
            continue;
        vks_status reached = poll(fence, value);
        if (reached != VKS_TIMEOUT) {
            status = reached;
            break;
        }
        status = sleep_on_seq(fence, page, seq, deadline);
        if (status == VKS_TIMEOUT && poll(fence, value) == VKS_OK)
            status = VKS_OK;
        else if (status == VKS_OK)
            continue;
        break;
    }
    pthread_mutex_lock(&device->lock);
    fence->sleepers--;
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_fence_wait(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    vks_status status = check(fence);
    if (status || (status = poll_fence(fence, value)) != VKS_TIMEOUT || !deadline)
        return status;
    const vks_fence_page *page = fence->page;
    uint64_t began = vks_trace_begin();
    if (fence->semaphore && !fence->follower && (fence->adopted || atomic_load(&page->queued) >= value))
        status = wait_in_driver(fence, value, deadline);
    else
        status = sleep_on_page(fence, value, deadline, poll_fence);
    VKS_TRACE(began, vks_traced_fence(VKS_TRACE_FENCE_WAIT, fence, value, began, status));
    return status;
}

static vks_status poll_queued(vks_fence *fence, uint64_t value)
{
    vks_status status = poll_fence(fence, value);
    bool queued = atomic_load(&((vks_fence_page *)fence->page)->queued) >= value;
    return status == VKS_TIMEOUT && queued ? VKS_OK : status;
}

vks_status vks_fence_wait_queued(vks_fence *fence, uint64_t value, uint64_t deadline)
{
    vks_status status = check(fence);
    if (status || (status = poll_queued(fence, value)) != VKS_TIMEOUT || !deadline)
        return status;
    return sleep_on_page(fence, value, deadline, poll_queued);
}

/* ---- events ---- */

static void on_watch(void *user);

/* Fires a follower's events, for the watcher and the peers. Caller holds device->lock. */
static void check_follower(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    vks_watch watch = {&page->seq, atomic_load(&page->seq)}; /* read before the check */
    bool dead = atomic_load(&page->status) != VKS_FENCE_LIVE || !vks_peer_alive(page->owner);
    fire_events(fence, vks_fence_completed(fence), dead ? VKS_ABANDONED : VKS_OK);
    vks_watcher_set(fence, on_watch, &watch, fence->n_events ? 1 : 0);
}

static void on_watch(void *user)
{
    vks_fence *fence = user;
    pthread_mutex_lock(&fence->device->lock);
    if (!fence->closed)
        check_follower(fence);
    pthread_mutex_unlock(&fence->device->lock);
}

/* Handles a process death; it matters only if that process was the signaller. */
static void on_death(void *user)
{
    vks_fence *fence = user;
    if (vks_peer_alive(((vks_fence_page *)fence->page)->owner))
        return;
    on_watch(fence);
    vks_scheduler_run_unlocked(fence->device);
    /* The page is read-only here, so a wake may come just before a sleep; wake until the sleepers
     * have left. */
    for (;;) {
        pthread_mutex_lock(&fence->device->lock);
        uint32_t sleepers = fence->sleepers;
        pthread_mutex_unlock(&fence->device->lock);
        if (!sleepers || fence->closed)
            return;
        vks_futex_wake(&((vks_fence_page *)fence->page)->seq, VKS_ANY_BIT);
        sched_yield();
    }
}

static vks_status add_event(vks_fence *fence, vks_event event)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = check(fence),
               now = status ? status : wait_status(fence, event.value, vks_fence_completed(fence));
    if (!status && now != VKS_TIMEOUT) {
        fire_event(&event, now);
    } else if (!status) {
        if (fence->n_events == fence->event_capacity) {
            size_t capacity = fence->event_capacity ? 2 * fence->event_capacity : 8;
            vks_event *events = realloc(fence->events, capacity * sizeof *events);
            if (events) {
                fence->events = events;
                fence->event_capacity = capacity;
            } else {
                status = vks_fail(VKS_NO_MEMORY, 0, "no memory for an event");
            }
        }
        if (!status) /* before the event is in the heap: on a failure the caller keeps it */
            status = fence->follower ? vks_watcher_start() : start_publishing(fence);
        if (!status) {
            fence->events[fence->n_events] = event;
            sift_up(fence->events, fence->n_events++);
            if (fence->follower)
                check_follower(fence);
        }
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_fence_notify(vks_fence *fence, uint64_t value, vks_event_queue *event_queue, uint64_t token)
{
    vks_status status = check(fence);
    if (status)
        return status;
    if (fence->adopted)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "no process announces the values of an adopted semaphore: wait() for it in a thread");
    vks_event_queue_ref(event_queue);
    if ((status = add_event(fence, (vks_event){.value = value, .event_queue = event_queue, .fd = -1, .token = token})))
        vks_event_queue_unref(event_queue);
    return status;
}

vks_status vks_fence_event_fd(vks_fence *fence, uint64_t value, int *out)
{
    vks_status status = check(fence);
    if (status)
        return status;
    if (fence->adopted)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "no process announces the values of an adopted semaphore: wait() for it in a thread");
    int mine = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *out = mine < 0 ? -1 : vks_dup(mine);
    if (*out < 0) {
        int code = errno;
        if (mine >= 0)
            close(mine);
        return vks_fail(VKS_OS_ERROR, code, "an eventfd could not be made");
    }
    if ((status = add_event(fence, (vks_event){.value = value, .fd = mine}))) {
        close(mine);
        close(*out);
        *out = -1;
    }
    return status;
}

/* ---- closing ---- */

/* Called once all work that was submitted with the fence has run. Caller holds device->lock. */
void vks_fence_finish_close(vks_fence *fence)
{
    vks_device *device = fence->device;
    vks_fence_page *page = fence->page;
    if (!fence->follower) {
        if (!device->lost && atomic_load(&page->status) == VKS_FENCE_LIVE)
            vks_atomic_max(&page->completed, atomic_load(&page->queued));
        set_final_status(page, VKS_FENCE_CLOSED);
        atomic_fetch_add(&page->seq, 1);
        vks_futex_wake(&page->seq, VKS_ANY_BIT);
    }
    uint64_t semaphore = fence->semaphore;
    fence->semaphore = 0;
    if (semaphore && !fence->adopted)
        device->backend->destroy_timeline(device, semaphore);
}

/* Blocks until the waiters have left. Waiters check `closed` when they are woken, or every 20 ms
 * inside the driver. */
static void wait_for_waiters(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    for (;;) {
        pthread_mutex_lock(&fence->device->lock);
        bool any = fence->sleepers || fence->driver_waiters;
        pthread_mutex_unlock(&fence->device->lock);
        if (!any)
            return;
        vks_futex_wake(&page->seq, VKS_ANY_BIT); /* repeatedly, because a follower cannot change seq */
        sched_yield();
    }
}

#define EXTERNAL_NS UINT64_C(10000000000) /* an external API that has not finished by then hangs */
#define ORPHAN_POLL_NS UINT64_C(1000000000)

/* Waits for external signals and waits, which are polled. The API may wait for a dead process's
 * value (orphaned_waits.c). */
static void finish_external(vks_fence *fence)
{
    vks_device *device = fence->device;
    uint64_t limit = vks_now() + EXTERNAL_NS;
    pthread_mutex_lock(&device->lock);
    while ((vks_device_awaits_external(device, VKS_COMPLETION_FENCE, fence, 0) ||
            vks_device_awaits_external(device, VKS_COMPLETION_FENCE_WAIT, fence, 0)) &&
           vks_now() < limit) {
        pthread_mutex_unlock(&device->lock);
        usleep(200);
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
    }
    vks_fence_fail_external(fence);
    /* Queued batches may wait on values that the failed API will never signal. Signal those values
     * from the host, in order, so that the queue drains. */
    for (limit = vks_now() + ORPHAN_POLL_NS;
         vks_device_awaits_external(device, VKS_COMPLETION_FENCE, fence, 0) && vks_now() < limit;) {
        vks_device_resolve_orphaned_waits(device);
        vks_device_publish(device);
        pthread_mutex_unlock(&device->lock);
        usleep(200);
        pthread_mutex_lock(&device->lock);
    }
    vks_device_drop_external_completions(device, fence, 0);
    pthread_mutex_unlock(&device->lock);
}

void vks_fence_close(vks_fence *fence)
{
    vks_device *device = fence->device;
    if (fence->process != vks_process)
        return;
    bool entered = vks_device_enter(device); /* false: already closed */
    pthread_mutex_lock(&device->lock);
    if (fence->closed || !entered) {
        pthread_mutex_unlock(&device->lock);
        if (entered)
            vks_device_leave(device);
        return;
    }
    fence->closed = true;
    *(fence->previous ? &fence->previous->next : &device->fences) = fence->next;
    if (fence->next)
        fence->next->previous = fence->previous;
    fire_events(fence, vks_fence_completed(fence), VKS_CLOSED);
    vks_scheduler_run(device); /* held operations that use it fail */
    pthread_mutex_unlock(&device->lock);

    wait_for_waiters(fence);
    if (fence->follower) {
        vks_watcher_remove(fence);
        vks_peers_remove(&fence->mapping);
    }
    finish_external(fence);
    pthread_mutex_lock(&device->lock);
    uint64_t serial = device->submitted;
    bool ran = vks_device_poll_serial(device, serial) != VKS_TIMEOUT,
         later = !ran && vks_device_reserve(device, 1) == VKS_OK;
    if (later)
        vks_device_add_completion(device, serial, VKS_COMPLETION_CLOSE_FENCE, fence, 0);
    pthread_mutex_unlock(&device->lock);
    if (!later) {
        while (!ran && vks_device_wait_serial(device, serial, VKS_FOREVER) == VKS_INTERRUPTED)
            ; /* no completion will do it later */
        pthread_mutex_lock(&device->lock);
        vks_fence_finish_close(fence);
        pthread_mutex_unlock(&device->lock);
    }
    vks_device_leave(device);
}
