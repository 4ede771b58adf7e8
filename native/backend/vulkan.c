/* vulkan.c: the Vulkan backend's queue: vkQueueSubmit2, the device's own timeline, and the thread
 * that publishes completions.
 *
 * The driver's entry points come from the creator's vkGetDeviceProcAddr, because an engine's device
 * may have layers or a loader of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan_queue.h"

#define POLL_NS UINT64_C(1000000)

vks_status vks_vulkan_result(VkResult code, const char *call)
{
    switch (code) {
    case VK_SUCCESS:
        return VKS_OK;
    case VK_ERROR_DEVICE_LOST:
        return vks_fail(VKS_DEVICE_LOST, code, "%s", call);
    default:
        return vks_fail(VKS_VULKAN_ERROR, code, "%s", call);
    }
}

uint64_t vks_vulkan_completed(vks_device *device)
{
    vks_vulkan_queue *queue = device->impl;
    uint64_t value = atomic_load_explicit(&queue->completed, memory_order_acquire), now;
    if (value >= device->submitted || device->gone ||
        queue->GetSemaphoreCounterValue(queue->device, queue->timeline, &now) != VK_SUCCESS)
        return value;
    vks_atomic_max(&queue->completed, now);
    return now;
}

/* ---- submitting ---- */

#define SMALL 16

typedef union submit_arrays {
    struct {
        VkSemaphoreSubmitInfo semaphores[SMALL];
        VkCommandBufferSubmitInfo buffers[SMALL];
    } small;
} submit_arrays;

static void fill_semaphores(VkSemaphoreSubmitInfo *out, const vks_point *points, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (VkSemaphoreSubmitInfo){VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,   NULL,
                                         vks_vulkan_semaphore(points[i].semaphore), points[i].value,
                                         VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,      0};
}

static VkResult call_submit(vks_vulkan_queue *queue, vks_family family, const VkSubmitInfo2 *info)
{
    if (__builtin_expect(queue->lock_queue != NULL, 0))
        queue->lock_queue(queue->lock_user);
    VkResult code = queue->QueueSubmit2(queue->queues[family], 1, info, VK_NULL_HANDLE);
    if (__builtin_expect(queue->unlock_queue != NULL, 0))
        queue->unlock_queue(queue->lock_user);
    return code;
}

static vks_status submit(vks_device *device, const vks_batch *batch)
{
    vks_vulkan_queue *queue = device->impl;
    uint64_t last = batch->serial - 1;
    /* Without it, the device's timeline would be signalled out of order. */
    bool changes = batch->family != device->family && vks_vulkan_completed(device) < last;
    submit_arrays arrays;
    VkSemaphoreSubmitInfo *semaphores = arrays.small.semaphores;
    VkCommandBufferSubmitInfo *buffers = arrays.small.buffers;
    uint32_t n_waits = batch->n_waits + changes, n_semaphores = n_waits + batch->n_signals + 1;
    void *big = NULL;
    if (__builtin_expect(n_semaphores > SMALL || batch->n_buffers > SMALL, 0)) {
        big = malloc(n_semaphores * sizeof *semaphores + batch->n_buffers * sizeof *buffers);
        if (!big)
            return vks_fail(VKS_NO_MEMORY, 0, "no memory for a batch");
        semaphores = big;
        buffers = (VkCommandBufferSubmitInfo *)(semaphores + n_semaphores);
    }
    fill_semaphores(semaphores, batch->waits, batch->n_waits);
    if (__builtin_expect(changes, 0))
        fill_semaphores(semaphores + batch->n_waits, &(vks_point){device->timeline, last}, 1);
    VkSemaphoreSubmitInfo *signals = semaphores + n_waits;
    fill_semaphores(signals, batch->signals, batch->n_signals);
    fill_semaphores(signals + batch->n_signals, &(vks_point){device->timeline, batch->serial}, 1);
    for (uint32_t i = 0; i < batch->n_buffers; i++)
        buffers[i] = (VkCommandBufferSubmitInfo){VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, NULL,
                                                 (VkCommandBuffer)(uintptr_t)batch->buffers[i], 0};
    VkSubmitInfo2 info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
        .waitSemaphoreInfoCount = n_waits,
        .pWaitSemaphoreInfos = semaphores,
        .commandBufferInfoCount = batch->n_buffers,
        .pCommandBufferInfos = buffers,
        .signalSemaphoreInfoCount = batch->n_signals + 1,
        .pSignalSemaphoreInfos = signals,
    };
    VkResult code = call_submit(queue, batch->family, &info);
    if (__builtin_expect(big != NULL, 0))
        free(big);
    if (__builtin_expect(code == VK_SUCCESS, 1)) {
        device->family = batch->family;
        device->statistics.transfers += batch->family == VKS_TRANSFER;
    }
    return __builtin_expect(code == VK_SUCCESS, 1) ? VKS_OK : vks_vulkan_result(code, "vkQueueSubmit2");
}

vks_vulkan_handles vks_vulkan_get_handles(const vks_device *device)
{
    const vks_vulkan_queue *queue = device->impl;
    return (vks_vulkan_handles){(uint64_t)(uintptr_t)queue->device, (uint64_t)(uintptr_t)queue->queues[VKS_GRAPHICS],
                                queue->get_device_proc_addr};
}

void vks_vulkan_lock_queue(vks_device *device, bool lock)
{
    const vks_vulkan_queue *queue = device->impl;
    if (queue->lock_queue)
        (lock ? queue->lock_queue : queue->unlock_queue)(queue->lock_user);
}

/* ---- the queue for an engine ---- */

vks_status vks_device_try_lock_queue(vks_device *device, uint64_t deadline)
{
    VKS_NEEDS(device);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!device->timeline)
        return vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no VkQueue");
    pthread_mutex_lock(&device->lock);
    status = vks_device_begin_present(device, deadline);
    if (!status && (status = vks_device_check(device)))
        vks_device_end_present(device);
    device->queue_is_locked |= !status;
    pthread_mutex_unlock(&device->lock);
    if (!status)
        vks_vulkan_lock_queue(device, true);
    return status;
}

void vks_device_lock_queue(void *device)
{
    VKS_NEEDS_OR(, device);
    vks_status status;
    do
        status = vks_device_try_lock_queue(device, VKS_FOREVER);
    while (status == VKS_INTERRUPTED || status == VKS_TIMEOUT);
}

static void unlock_queue(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    bool was_locked = device->queue_is_locked;
    device->queue_is_locked = false;
    pthread_mutex_unlock(&device->lock);
    if (!was_locked)
        return;
    vks_vulkan_lock_queue(device, false); /* an engine's function, which may wait: device->lock is not held */
    pthread_mutex_lock(&device->lock);
    vks_device_end_present(device);
    pthread_mutex_unlock(&device->lock);
}

void vks_device_unlock_queue(void *device)
{
    VKS_NEEDS_OR(, device);
    if (((vks_device *)device)->process == vks_process)
        unlock_queue(device);
}

/* ---- the driver ---- */

void vks_vulkan_wait_for_driver(vks_vulkan_queue *queue)
{
    if (!queue->QueueWaitIdle)
        return;
    if (queue->lock_queue)
        queue->lock_queue(queue->lock_user);
    for (vks_family i = VKS_GRAPHICS; i < VKS_FAMILIES && queue->queues[i]; i++)
        queue->QueueWaitIdle(queue->queues[i]);
    if (queue->unlock_queue)
        queue->unlock_queue(queue->lock_user);
}

static vks_status wait(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vks_vulkan_queue *queue = device->impl;
    return vks_vulkan_wait_timeline(device, (uint64_t)(uintptr_t)queue->timeline, serial, deadline);
}

/* ---- the publisher: started with the first completion to publish ---- */

/* Values without a notification are polled: an engine's semaphores, and those of external APIs. */
static bool must_poll(const vks_device *device) { return device->polled_waits || device->completions.n_external; }

static vks_status wait_for_next(vks_device *device, vks_vulkan_queue *queue, uint64_t serial, bool polls)
{
    uint64_t slice = polls ? POLL_NS : VKS_WAIT_SLICE_NS;
    if (serial)
        return vks_vulkan_wait_timeline(device, (uint64_t)(uintptr_t)queue->timeline, serial, vks_now() + slice);
    uint32_t seen = atomic_load(&queue->wakes);
    atomic_store(&queue->sleeping, 1);
    pthread_mutex_lock(&device->lock);
    bool idle = !device->completions.ring_count && !atomic_load(&queue->stop) && (polls || !must_poll(device));
    pthread_mutex_unlock(&device->lock);
    if (idle)
        vks_futex_wait(&queue->wakes, seen, VKS_ANY_BIT, polls ? vks_now() + slice : VKS_FOREVER);
    atomic_store(&queue->sleeping, 0);
    return polls && vks_vulkan_poll_for_loss(device, queue) == VK_ERROR_DEVICE_LOST ? VKS_DEVICE_LOST : VKS_OK;
}

static void *publish(void *argument)
{
    vks_device *device = argument;
    vks_vulkan_queue *queue = device->impl;
    const vks_completions *all = &device->completions;
    uint64_t resolved = 0;
    while (!atomic_load(&queue->stop)) {
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
        vks_device_poll_untracked(device);
        if (vks_now() - resolved >= VKS_WAIT_SLICE_NS) { /* less often than values are polled */
            vks_device_resolve_orphaned_waits(device);
            resolved = vks_now();
        }
        if (device->polled_waits)
            device->on_progress(device);
        bool polls = must_poll(device);
        uint64_t serial = all->ring_count ? all->ring[all->ring_first].serial : 0;
        pthread_mutex_unlock(&device->lock);
        if (wait_for_next(device, queue, serial, polls) == VKS_DEVICE_LOST) {
            pthread_mutex_lock(&device->lock);
            vks_device_lose(device);
            pthread_mutex_unlock(&device->lock);
        }
    }
    return NULL;
}

static vks_status start_publisher(vks_device *device)
{
    vks_vulkan_queue *queue = device->impl;
    if (queue->started || atomic_load(&queue->stop))
        return VKS_OK;
    vks_status status = vks_thread_start("vkshare-vulkan", publish, device, &queue->thread);
    queue->started = status == VKS_OK;
    return status;
}

static void wake_publisher(vks_device *device)
{
    vks_vulkan_queue *queue = device->impl;
    atomic_fetch_add(&queue->wakes, 1);
    if (atomic_load(&queue->sleeping))
        vks_futex_wake(&queue->wakes, VKS_ANY_BIT);
}

static void stop(vks_device *device)
{
    vks_vulkan_queue *queue = device->impl;
    pthread_mutex_lock(&device->lock);
    atomic_store(&queue->stop, 1);
    bool started = queue->started;
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_add(&queue->wakes, 1);
    vks_futex_wake(&queue->wakes, VKS_ANY_BIT);
    if (started)
        vks_thread_join(queue->thread);
}

static void destroy(vks_device *device)
{
    vks_vulkan_queue *queue = device->impl;
    atomic_store(&queue->completed, device->submitted); /* the driver is not called from here on */
    vks_vulkan_wait_for_driver(queue);
    vks_vulkan_destroy_retired(queue, UINT64_MAX);
    free(queue->retired);
    queue->retired = NULL;
    queue->n_retired = queue->retired_capacity = 0;
    queue->DestroySemaphore(queue->device, queue->timeline, NULL);
    queue->timeline = VK_NULL_HANDLE;
}

static const vks_backend backend = {
    .submit = submit,
    .completed = vks_vulkan_completed,
    .wait = wait,
    .start_publisher = start_publisher,
    .wake_publisher = wake_publisher,
    .stop = stop,
    .destroy = destroy,
    .create_timeline = vks_vulkan_create_timeline,
    .destroy_timeline = vks_vulkan_destroy_timeline,
    .counter = vks_vulkan_counter,
    .host_signal = vks_vulkan_host_signal,
    .wait_timeline = vks_vulkan_wait_timeline,
    .export_timeline = vks_vulkan_export_timeline,
    .import_timeline = vks_vulkan_import_timeline,
};

/* ---- opening ---- */

static const char *load(vks_vulkan_queue *queue, PFN_vkGetDeviceProcAddr get, bool exports)
{
#define LOAD(name)                                                                                                     \
    if (!(queue->name = (PFN_vk##name)get(queue->device, "vk" #name)))                                                 \
        return "vk" #name;
    VKS_FUNCTIONS(LOAD)
    queue->QueueWaitIdle = (PFN_vkQueueWaitIdle)get(queue->device, "vkQueueWaitIdle");
    if (exports) {
        VKS_EXPORT_FUNCTIONS(LOAD)
    }
#undef LOAD
    return NULL;
}

/* Keeps the loader in the process. Python's binding unloads it when its module is freed, at the
 * interpreter's end; devices and swapchains that are freed later still call through it. */
static void keep_library(const void *function)
{
    Dl_info found;
    if (!dladdr(function, &found) || !found.dli_fname)
        return;
    void *library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (library)
        dlclose(library);
}

vks_status vks_vulkan_backend_init(vks_device *device, const vks_vulkan_info *info)
{
    vks_vulkan_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a queue");
    queue->device = (VkDevice)(uintptr_t)info->device;
    queue->queues[VKS_GRAPHICS] = (VkQueue)(uintptr_t)info->queue;
    queue->queues[VKS_TRANSFER] = (VkQueue)(uintptr_t)info->transfer_queue;
    queue->get_device_proc_addr = info->get_device_proc_addr;
    queue->is_adopted = info->is_adopted;
    queue->lock_queue = info->lock_queue;
    queue->unlock_queue = info->unlock_queue;
    queue->lock_user = info->lock_user;
    pthread_mutex_init(&queue->retired_lock, NULL);
    PFN_vkGetDeviceProcAddr get;
    memcpy(&get, &info->get_device_proc_addr, sizeof get);
    keep_library(info->get_device_proc_addr);
    const char *missing = get ? load(queue, get, info->export_timelines) : "vkGetDeviceProcAddr";
    if (missing) {
        free(queue);
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "the VkDevice has no %s: Vulkan 1.3 with timelineSemaphore and synchronization2 is needed",
                        missing);
    }
    device->impl = queue; /* freed with the device's last reference */
    device->backend = &backend;
    device->native_timelines = info->export_timelines;
    if (info->max_timeline_difference)
        device->max_difference = info->max_timeline_difference;
    bool exports = device->native_timelines;
    device->native_timelines = false; /* this counter is not exported */
    uint64_t handle;
    vks_status status = vks_vulkan_create_timeline(device, 0, &handle);
    device->native_timelines = exports;
    queue->timeline = vks_vulkan_semaphore(handle);
    device->timeline = handle;
    device->has_transfer = info->transfer_queue != 0;
    return status;
}
