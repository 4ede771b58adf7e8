/* events.c: a fence's events, a heap by value; and the followers' source of events: the other
 * party's page. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fence/fence.h"

static void sift_up(vks_fence_event *heap, size_t i)
{
    while (i && heap[i].value < heap[(i - 1) / 2].value) {
        vks_fence_event swap = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = swap;
        i = (i - 1) / 2;
    }
}

static void sift_down(vks_fence_event *heap, size_t n)
{
    for (size_t i = 0, least;; i = least) {
        least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (heap[child].value < heap[least].value)
                least = child;
        if (least == i)
            return;
        vks_fence_event swap = heap[i];
        heap[i] = heap[least];
        heap[least] = swap;
    }
}

static void fire_event(const vks_fence_event *event, vks_status result)
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
void vks_fence_fire_events(vks_fence *fence, uint64_t completed, vks_status failure)
{
    while (fence->n_events && (fence->events[0].value <= completed || failure)) {
        vks_fence_event event = fence->events[0];
        fence->events[0] = fence->events[--fence->n_events];
        sift_down(fence->events, fence->n_events);
        fire_event(&event, event.value <= completed ? VKS_OK : failure);
    }
}

/* ---- followers ---- */

static void on_watch(void *user);

/* Fires a follower's events, for the watcher and the peers. Caller holds device->lock. */
static void check_follower(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    vks_watch watch = {&page->seq, atomic_load(&page->seq)}; /* read before the check */
    bool dead = atomic_load(&page->status) != VKS_FENCE_LIVE || !vks_peer_alive(page->owner);
    vks_fence_fire_events(fence, vks_fence_completed(fence), dead ? VKS_ABANDONED : VKS_OK);
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
void vks_fence_on_death(void *user)
{
    vks_fence *fence = user;
    if (vks_peer_alive(vks_fence_page_of(fence)->owner))
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
        vks_futex_wake(&vks_fence_page_of(fence)->seq, VKS_ANY_BIT);
        sched_yield();
    }
}

/* ---- adding ---- */

static vks_status add_event(vks_fence *fence, vks_fence_event event)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_fence_check(fence),
               now = status ? status : vks_fence_wait_status(fence, event.value, vks_fence_completed(fence));
    if (!status && now != VKS_TIMEOUT) {
        fire_event(&event, now);
    } else if (!status) {
        if (fence->n_events == fence->event_capacity) {
            size_t capacity = fence->event_capacity ? 2 * fence->event_capacity : 8;
            vks_fence_event *events = realloc(fence->events, capacity * sizeof *events);
            if (events) {
                fence->events = events;
                fence->event_capacity = capacity;
            } else {
                status = vks_fail(VKS_NO_MEMORY, 0, "no memory for an event");
            }
        }
        if (!status) /* before the event is in the heap: on a failure the caller keeps it */
            status = fence->follower ? vks_watcher_start() : vks_fence_start_publishing(fence);
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
    VKS_NEEDS(fence, event_queue);
    vks_status status = vks_fence_check(fence);
    if (status)
        return status;
    if (fence->adopted)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "no process announces the values of an adopted semaphore: wait() for it in a thread");
    vks_event_queue_ref(event_queue);
    if ((status =
             add_event(fence, (vks_fence_event){.value = value, .event_queue = event_queue, .fd = -1, .token = token})))
        vks_event_queue_unref(event_queue);
    return status;
}

vks_status vks_fence_event_fd(vks_fence *fence, uint64_t value, int *out)
{
    VKS_NEEDS(fence, out);
    vks_status status = vks_fence_check(fence);
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
    if ((status = add_event(fence, (vks_fence_event){.value = value, .fd = mine}))) {
        close(mine);
        close(*out);
        *out = -1;
    }
    return status;
}
