#include "device/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/trace_points.h"
#include "os/watcher.h"

#define HELD_LIMIT 1024u
/* A driver that has not finished by then hangs; objects that it uses are leaked, not destroyed. */
#define SHUTDOWN_NS UINT64_C(10000000000)
#define LOST_NS UINT64_C(2000000000) /* the same for a lost device */

vks_status vks_device_create(const vks_device_info *info, vks_device **out)
{
    vks_platform_init();
    if (!vks_self())
        return vks_fail(VKS_OS_ERROR, errno,
                        "/proc/self/stat cannot be read: other parties could not detect the death of this process");
    vks_device *device = calloc(1, sizeof *device);
    if (!device)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a device");
    pthread_mutex_init(&device->lock, NULL);
    device->references = 1;
    device->process = vks_process;
    device->number = (uint32_t)vks_trace_next();
    device->held_limit = info->held_limit ? info->held_limit : HELD_LIMIT;
    device->max_difference = INT32_MAX; /* X1: the limit if the device reports none */
    snprintf(device->name, sizeof device->name, "%s", info->name ? info->name : "");
    vks_status status = info->vulkan ? vks_vulkan_backend_init(device, info->vulkan)
                                     : vks_cpu_backend_init(device, info->raster_threads);
    if (status) {
        vks_device_unref(device);
        return status;
    }
    if (vks_tracing())
        vks_traced_device(device);
    *out = device;
    return VKS_OK;
}

void vks_device_ref(vks_device *device) { atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed); }

void vks_device_unref(vks_device *device)
{
    if (atomic_fetch_sub(&device->references, 1) != 1)
        return;
    if (device->gone && device->shut_down != VKS_SHUTDOWN_DONE && device->process == vks_process)
        return; /* a thread is still inside the driver */
    pthread_mutex_destroy(&device->lock);
    free(device->ring);
    free(device->external);
    free(device->impl);
    free(device);
}

vks_status vks_device_state(const vks_device *device) { return vks_device_check(device); }

uint64_t vks_device_submitted(vks_device *device)
{
    if (device->process != vks_process)
        return device->submitted;
    pthread_mutex_lock(&device->lock); /* a batch may complete before its serial is counted */
    uint64_t submitted = device->submitted;
    pthread_mutex_unlock(&device->lock);
    return submitted;
}

uint64_t vks_device_completed(vks_device *device)
{
    if (device->process != vks_process || !vks_device_enter(device))
        return device->submitted;
    uint64_t done = device->backend->completed(device);
    vks_device_leave(device);
    return done;
}

void vks_device_count_copy(vks_device *device, uint64_t bytes)
{
    if (device->process != vks_process)
        return;
    pthread_mutex_lock(&device->lock);
    device->statistics.copied_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
}

void vks_device_get_statistics(vks_device *device, vks_device_statistics *out)
{
    memset(out, 0, sizeof *out);
    if (device->process != vks_process)
        return;
    pthread_mutex_lock(&device->lock);
    *out = device->statistics;
    out->submitted = device->submitted;
    out->held = device->n_held;
    out->held_limit = device->held_limit;
    for (const vks_fence *f = device->fences; f; f = f->next)
        out->fences++;
    for (const vks_surface *s = device->surfaces; s; s = s->next)
        out->surfaces++;
    pthread_mutex_unlock(&device->lock);
    out->completed = vks_device_completed(device);
}

/* ---- the ring of completions ---- */

static void unref_object(vks_completion_kind kind, void *object)
{
    switch (kind) {
    case VKS_COMPLETION_FENCE:
    case VKS_COMPLETION_FENCE_WAIT:
    case VKS_COMPLETION_CLOSE_FENCE:
        vks_fence_unref(object);
        break;
    case VKS_COMPLETION_SURFACE_WAIT:
    case VKS_COMPLETION_SURFACE:
        vks_surface_unref(object);
        break;
    case VKS_COMPLETION_EVENT:
        vks_event_queue_unref(object);
        break;
    case VKS_COMPLETION_TRACE:
        break;
    }
}

static void ref_object(vks_completion_kind kind, void *object)
{
    switch (kind) {
    case VKS_COMPLETION_FENCE:
    case VKS_COMPLETION_FENCE_WAIT:
    case VKS_COMPLETION_CLOSE_FENCE:
        vks_fence_ref(object);
        break;
    case VKS_COMPLETION_SURFACE_WAIT:
    case VKS_COMPLETION_SURFACE:
        vks_surface_ref(object);
        break;
    case VKS_COMPLETION_EVENT:
        vks_event_queue_ref(object);
        break;
    case VKS_COMPLETION_TRACE:
        break;
    }
}

vks_status vks_device_reserve(vks_device *device, size_t n)
{
    vks_status status = n ? device->backend->start_publisher(device) : VKS_OK;
    if (status || device->ring_count + n <= device->ring_capacity)
        return status;
    size_t capacity = device->ring_capacity ? device->ring_capacity : 64;
    while (capacity < device->ring_count + n)
        capacity *= 2;
    vks_completion *ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory to remember what completions publish");
    for (size_t i = 0; i < device->ring_count; i++)
        ring[i] = device->ring[(device->ring_first + i) & (device->ring_capacity - 1)];
    free(device->ring);
    device->ring = ring;
    device->ring_first = 0;
    device->ring_capacity = capacity;
    return VKS_OK;
}

void vks_device_add_completion(vks_device *device, uint64_t serial, vks_completion_kind kind, void *object,
                               uint64_t value)
{
    ref_object(kind, object);
    size_t mask = device->ring_capacity - 1, at = device->ring_first + device->ring_count++;
    for (; at != device->ring_first && device->ring[(at - 1) & mask].serial > serial; at--) /* late request */
        device->ring[at & mask] = device->ring[(at - 1) & mask];
    device->ring[at & mask] = (vks_completion){serial, kind, object, value};
    device->backend->wake_publisher(device);
}

/* `ran` is false for work that a lost device did not run: then fences keep their value, and
 * everything else ends. */
static void publish_one(const vks_completion *completion, bool ran)
{
    switch (completion->kind) {
    case VKS_COMPLETION_FENCE:
        if (ran)
            vks_fence_publish_completed(completion->object, completion->value);
        break;
    case VKS_COMPLETION_CLOSE_FENCE:
        vks_fence_finish_close(completion->object);
        break;
    case VKS_COMPLETION_SURFACE: {
        vks_surface *surface = completion->object;
        if (!ran)
            vks_mutex_poison(surface->handle.page);
        vks_surface_complete(surface, completion->value);
        break;
    }
    case VKS_COMPLETION_EVENT:
        vks_event_queue_push(completion->object, completion->value, ran ? VKS_OK : VKS_DEVICE_LOST);
        break;
    case VKS_COMPLETION_TRACE:
        vks_traced_run(completion->object, completion->serial, completion->value, ran);
        break;
    case VKS_COMPLETION_FENCE_WAIT:
    case VKS_COMPLETION_SURFACE_WAIT:
        break;
    }
    unref_object(completion->kind, completion->object);
}

/* ---- signals and waits of external APIs ---- */

vks_status vks_device_reserve_external_completion(vks_device *device)
{
    vks_status status = device->backend->start_publisher(device);
    if (status || device->n_external < device->external_capacity)
        return status;
    size_t capacity = 2 * device->external_capacity + 1;
    vks_completion *more = realloc(device->external, capacity * sizeof *more);
    if (!more)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory to remember what another API is to signal");
    device->external = more;
    device->external_capacity = capacity;
    return VKS_OK;
}

void vks_device_add_external_completion(vks_device *device, vks_completion_kind kind, void *object, uint64_t value,
                                        uint64_t before)
{
    ref_object(kind, object);
    device->external[device->n_external++] = (vks_completion){before, kind, object, value};
    device->backend->wake_publisher(device);
}

bool vks_device_awaits_external(const vks_device *device, vks_completion_kind kind, const void *object, uint64_t value)
{
    for (size_t i = 0; i < device->n_external; i++) {
        const vks_completion *completion = &device->external[i];
        if (completion->kind == kind && completion->object == object && (!value || completion->value == value))
            return true;
    }
    return false;
}

void vks_device_drop_external_completions(vks_device *device, const void *object, uint64_t value)
{
    size_t kept = 0;
    for (size_t i = 0; i < device->n_external; i++) {
        vks_completion completion = device->external[i];
        if (completion.object == object && (!value || completion.value == value))
            unref_object(completion.kind, completion.object);
        else
            device->external[kept++] = completion;
    }
    device->n_external = kept;
}

/* The last counter that was read; most completions that are polled together share one object. */
typedef struct last_counter {
    uint64_t semaphore, counter;
} last_counter;

/* VKS_TIMEOUT: not reached yet. */
static vks_status poll_external_value(vks_device *device, const vks_completion *completion, last_counter *last)
{
    bool of_fence = completion->kind == VKS_COMPLETION_FENCE || completion->kind == VKS_COMPLETION_FENCE_WAIT;
    uint64_t semaphore = of_fence ? ((const vks_fence *)completion->object)->semaphore
                                  : ((const vks_surface *)completion->object)->semaphore;
    if (semaphore && semaphore != last->semaphore) {
        vks_status status = device->backend->counter(device, semaphore, &last->counter);
        last->semaphore = status ? 0 : semaphore;
        if (status)
            return status == VKS_DEVICE_LOST ? status : VKS_TIMEOUT;
    }
    return !semaphore || last->counter >= completion->value ? VKS_OK : VKS_TIMEOUT;
}

static bool publish_external(vks_device *device)
{
    bool any = false;
    last_counter last = {0};
    for (size_t i = 0; i < device->n_external;) {
        vks_completion completion = device->external[i];
        vks_status status = device->lost ? VKS_OK : poll_external_value(device, &completion, &last);
        if (status == VKS_DEVICE_LOST) {
            vks_device_lose(device); /* which publishes the rest */
            return true;
        }
        if (status) {
            i++;
            continue;
        }
        device->external[i] = device->external[--device->n_external]; /* the array is unordered */
        publish_one(&completion, !device->lost);
        any = true;
    }
    return any;
}

void vks_device_publish(vks_device *device)
{
    bool any = device->n_external && publish_external(device);
    if (!device->ring_count) {
        if (any && device->n_held)
            vks_scheduler_run(device);
        return;
    }
    uint64_t done = device->backend->completed(device);
    while (device->ring_count && (device->lost || device->ring[device->ring_first].serial <= done)) {
        vks_completion completion = device->ring[device->ring_first];
        device->ring_first = (device->ring_first + 1) & (device->ring_capacity - 1);
        device->ring_count--;
        publish_one(&completion, completion.serial <= done);
        any = true;
    }
    if (any && device->n_held)
        vks_scheduler_run(device);
}

/* ---- sleeping on progress ---- */

void vks_device_progress(vks_device *device)
{
    atomic_fetch_add(&device->progress, 1);
    if (atomic_load(&device->waiters))
        vks_futex_wake(&device->progress, VKS_ANY_BIT);
}

vks_status vks_device_poll_serial(vks_device *device, uint64_t serial)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    if (!vks_device_enter(device))
        return serial <= device->final ? VKS_OK : device->lost ? VKS_DEVICE_LOST : VKS_CLOSED;
    bool ran = device->backend->completed(device) >= serial;
    vks_device_leave(device);
    return ran ? VKS_OK : device->lost ? VKS_DEVICE_LOST : VKS_TIMEOUT;
}

vks_status vks_device_wait_serial(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vks_status status = vks_device_poll_serial(device, serial);
    if (status != VKS_TIMEOUT || !deadline)
        return status;
    if (!vks_device_enter(device))
        return vks_device_poll_serial(device, serial);
    status = device->backend->wait(device, serial, deadline);
    vks_device_leave(device);
    if (status == VKS_DEVICE_LOST) {
        pthread_mutex_lock(&device->lock);
        vks_device_lose(device);
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

vks_status vks_device_wait_held(vks_device *device, uint32_t below, const vks_surface *surface, uint64_t deadline)
{
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&device->progress);
        pthread_mutex_lock(&device->lock);
        bool done = surface ? surface->held == 0 : device->n_held < below;
        pthread_mutex_unlock(&device->lock);
        if (done)
            status = VKS_OK;
        if (done || status || (status = vks_device_check(device)))
            break;
        status = deadline ? vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, deadline) : VKS_TIMEOUT;
    }
    atomic_fetch_sub(&device->waiters, 1);
    return status;
}

vks_status vks_device_begin_present(vks_device *device, uint64_t deadline)
{
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    while (device->presenting && !status) {
        uint32_t seen = atomic_load(&device->progress);
        uint64_t limit = device->presenting_since + VKS_LONGEST_PRESENT_NS;
        limit = deadline < limit ? deadline : limit;
        pthread_mutex_unlock(&device->lock);
        status = vks_now() < limit ? vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, limit) : VKS_TIMEOUT;
        pthread_mutex_lock(&device->lock);
    }
    atomic_fetch_sub(&device->waiters, 1);
    if (!device->presenting) {
        device->presenting = true;
        device->presenting_since = vks_now();
        return VKS_OK;
    }
    return status == VKS_TIMEOUT
               ? vks_fail(VKS_TIMEOUT, 0,
                          "a present has the queue for %llu ms: the driver waits for the window system, or for the "
                          "rendering",
                          (unsigned long long)((vks_now() - device->presenting_since) / 1000000u))
               : status;
}

void vks_device_end_present(vks_device *device)
{
    device->presenting = false;
    vks_device_progress(device);
    vks_scheduler_run(device);
}

static bool has_pending_release(const vks_device *device, const vks_surface *surface)
{
    for (const vks_work *op = device->held_first; op; op = op->next)
        if (op->kind == VKS_WORK_RELEASE && op->page_released && (!surface || op->touches[0].surface == surface))
            return true;
    return false;
}

vks_status vks_device_finish_releases(vks_device *device, const vks_surface *surface, uint64_t limit)
{
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    while (!status) {
        uint32_t seen = atomic_load(&device->progress);
        pthread_mutex_lock(&device->lock);
        bool any = has_pending_release(device, surface);
        pthread_mutex_unlock(&device->lock);
        if (!any || vks_device_check(device))
            break;
        status = vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, limit);
    }
    atomic_fetch_sub(&device->waiters, 1);
    return status == VKS_TIMEOUT ? VKS_OK : status;
}

vks_status vks_device_wait_idle(vks_device *device, uint64_t deadline)
{
    vks_status status = vks_device_check(device);
    if (!status)
        status = vks_device_wait_held(device, 1, NULL, deadline);
    if (!status) /* held work may have ended because the device was closed or lost */
        status = vks_device_check(device);
    return status ? status : vks_device_wait_serial(device, device->submitted, deadline);
}

/* ---- shutdown ---- */

static void fail_all_held(vks_device *device, vks_status why)
{
    while (device->held_first)
        vks_work_fail(device, device->held_first, why);
}

static void mark_surface_lost(vks_surface *surface)
{
    vks_mutex_page *page = surface->handle.page;
    uint64_t pending_value = atomic_load(&page->slots[surface->handle.slot].pending_value);
    if (pending_value)
        vks_mutex_poison(page);
    if (surface->has_page)
        vks_mutex_abandon(&surface->handle);
    surface->has_page = false;
    surface->is_external = false;
    atomic_store(&surface->owned, 0);
    vks_mutex_wake_all(page); /* this device's sleepers check the device's state (X21), here and on value_seq */
    vks_surface_complete(surface, pending_value);
    if (surface->announced)
        vks_mutex_retract_queued(page, surface->announced);
}

void vks_device_lose(vks_device *device)
{
    if (device->lost)
        return;
    device->lost = true;
    uint32_t open = VKS_OK;
    /* A device that is being closed stays closed. */
    atomic_compare_exchange_strong(&device->state, &open, VKS_DEVICE_LOST);
    fail_all_held(device, VKS_DEVICE_LOST);
    for (vks_surface *s = device->surfaces; s; s = s->next)
        mark_surface_lost(s);
    for (vks_fence *f = device->fences; f; f = f->next)
        vks_fence_fail(f);
    vks_queue_wake_all(device);
    vks_device_publish(device);
    vks_device_progress(device);
}

void vks_device_mark_lost(vks_device *device)
{
    if (vks_device_check(device))
        return;
    pthread_mutex_lock(&device->lock);
    vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
}

vks_status vks_device_drain(vks_device *device, uint64_t serial, uint64_t deadline)
{
    if (!vks_device_enter(device))
        return device->leaks ? VKS_TIMEOUT : VKS_OK;
    bool ran = device->backend->completed(device) >= serial;
    vks_status status = ran ? VKS_OK : device->backend->wait(device, serial, deadline);
    vks_device_leave(device);
    return status == VKS_DEVICE_LOST ? VKS_OK : status;
}

/* Closing removes an object from its list. The lock is released meanwhile, because closing a
 * mapping waits for the peers' thread. */
static void close_queues(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    for (vks_queue *queue; (queue = device->queues);) {
        vks_queue_ref(queue);
        pthread_mutex_unlock(&device->lock);
        vks_queue_close(queue);
        vks_queue_unref(queue);
        pthread_mutex_lock(&device->lock);
    }
    pthread_mutex_unlock(&device->lock);
}

static void close_all(vks_device *device)
{
    close_queues(device);
    pthread_mutex_lock(&device->lock);
    vks_device_publish(device);
    for (;;) {
        vks_surface *surface = device->surfaces;
        vks_fence *fence = surface ? NULL : device->fences;
        if (!surface && !fence)
            break;
        surface ? vks_surface_ref(surface) : vks_fence_ref(fence);
        pthread_mutex_unlock(&device->lock);
        if (surface) {
            vks_surface_close(surface);
            vks_surface_unref(surface);
        } else {
            vks_fence_close(fence);
            vks_fence_unref(fence);
        }
        pthread_mutex_lock(&device->lock);
    }
    vks_device_publish(device);
    device->final = device->backend->completed(device);
    atomic_store(&device->gone, true);
    pthread_mutex_unlock(&device->lock);
}

static void refuse_calls(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->shut_down = VKS_SHUTDOWN_BEGUN;
    fail_all_held(device, VKS_CLOSED);
    atomic_store(&device->state, VKS_CLOSED);
    vks_device_progress(device);
    device->end_limit = vks_now() + (device->lost ? LOST_NS : SHUTDOWN_NS);
    pthread_mutex_unlock(&device->lock);
}

/* Called if the driver did not finish. Peers see a lost device, and no thread waits for the driver
 * again. */
static void leak(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->leaks = true;
    vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
}

/* Blocks until no thread is inside the driver. */
static vks_status wait_for_driver_calls(vks_device *device)
{
    uint64_t began = vks_now();
    while (atomic_load(&device->driver_calls)) {
        uint64_t now = vks_now();
        if (now >= device->end_limit)
            return vks_fail(VKS_TIMEOUT, 0, "a call of another thread has not returned from the driver: close() again");
        if (vks_interrupt_interval() && now - began >= vks_interrupt_interval())
            return VKS_INTERRUPTED;
        usleep(100);
    }
    return VKS_OK;
}

/* Every step can be repeated, so an interrupted caller calls again. */
static vks_status end_device(vks_device *device)
{
    vks_status status;
    if (!device->shut_down) {
        device->end_limit = device->end_limit ? device->end_limit : vks_now() + VKS_RELEASE_GRACE_NS;
        if ((status = vks_device_finish_releases(device, NULL, device->end_limit)))
            return status;
        refuse_calls(device);
    }
    if (!device->gone) {
        if ((status = vks_device_drain(device, device->submitted, device->end_limit)) == VKS_INTERRUPTED)
            return status;
        if (status)
            leak(device);
        vks_watcher_remove(device);
        close_all(device);
        device->end_limit = vks_now() + SHUTDOWN_NS;
    }
    if ((status = wait_for_driver_calls(device)))
        return status;
    device->backend->stop(device);
    if (!device->leaks)
        device->backend->destroy(device);
    device->shut_down = VKS_SHUTDOWN_DONE;
    return VKS_OK;
}

vks_status vks_device_try_shutdown(vks_device *device)
{
    if (device->process != vks_process || device->shut_down == VKS_SHUTDOWN_DONE)
        return VKS_OK;
    /* Another thread shuts down; the first thread that returns may destroy the VkDevice. */
    if (atomic_exchange(&device->ending, true)) {
        usleep(1000);
        return VKS_INTERRUPTED;
    }
    vks_status status = device->shut_down == VKS_SHUTDOWN_DONE ? VKS_OK : end_device(device);
    atomic_store(&device->ending, false);
    return status;
}

void vks_device_shutdown(vks_device *device)
{
    while (vks_device_try_shutdown(device) == VKS_INTERRUPTED)
        ;
}

bool vks_device_leaks(const vks_device *device)
{
    return device->process == vks_process &&
           (device->leaks || (device->shut_down == VKS_SHUTDOWN_BEGUN && device->gone) ||
            (device->shut_down == VKS_SHUTDOWN_DONE && device->swapchain_leaked));
}
