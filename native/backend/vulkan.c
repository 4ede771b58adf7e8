/* backend_vulkan.c: the Vulkan backend's queue: vkQueueSubmit2, the device's own timeline, and the
 * thread that publishes completions.
 *
 * The driver's entry points come from the creator's vkGetDeviceProcAddr, because an engine's device
 * may have layers or a loader of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "vulkan/vulkan_core.h"

/* A wait inside the driver notices neither signals nor close(), so it is split into slices. */
#define SLICE_NS UINT64_C(20000000)
#define POLL_NS UINT64_C(1000000)
#define LOSS_POLL_NS UINT64_C(100000000)

#define FUNCTIONS(X)                                                                                                   \
    X(QueueSubmit2)                                                                                                    \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores) X(SignalSemaphore)
#define OPTIONAL_FUNCTIONS(X) X(QueueWaitIdle)
#define EXPORT_FUNCTIONS(X) X(GetSemaphoreFdKHR) X(ImportSemaphoreFdKHR)

typedef struct vulkan_queue {
    VkDevice device;
    VkQueue queues[VKS_FAMILIES];
    void *get_device_proc_addr;
#define DECLARE(name) PFN_vk##name name;
    FUNCTIONS(DECLARE)
    OPTIONAL_FUNCTIONS(DECLARE)
    EXPORT_FUNCTIONS(DECLARE)
#undef DECLARE
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    VkSemaphore timeline;
    _Atomic uint64_t completed; /* as last read */
    _Atomic uint32_t wakes;     /* the publisher's futex */
    _Atomic uint32_t sleeping;
    _Atomic uint32_t stop;
    _Atomic uint64_t loss_polled; /* time of the last poll for a lost device */
    bool started, is_adopted;
    uintptr_t thread;
    pthread_mutex_t retired_lock; /* innermost */
    struct retired {
        VkSemaphore semaphore;
        uint64_t serial;
    } *retired; /* unused semaphores, and the serial after which the driver has released them */
    size_t n_retired, retired_capacity;
} vulkan_queue;

static VkSemaphore semaphore_of(uint64_t handle) { return (VkSemaphore)(uintptr_t)handle; }

static vks_status result(VkResult code, const char *call)
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

static uint64_t completed(vks_device *device)
{
    vulkan_queue *queue = device->impl;
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
        out[i] = (VkSemaphoreSubmitInfo){VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL,
                                         semaphore_of(points[i].semaphore),       points[i].value,
                                         VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,    0};
}

static VkResult call_submit(vulkan_queue *queue, vks_family family, const VkSubmitInfo2 *info)
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
    vulkan_queue *queue = device->impl;
    uint64_t last = batch->serial - 1;
    /* Without it, the device's timeline would be signalled out of order. */
    bool changes = batch->family != device->family && completed(device) < last;
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
    return __builtin_expect(code == VK_SUCCESS, 1) ? VKS_OK : result(code, "vkQueueSubmit2");
}

vks_vulkan_handles vks_vulkan_get_handles(const vks_device *device)
{
    const vulkan_queue *queue = device->impl;
    return (vks_vulkan_handles){(uint64_t)(uintptr_t)queue->device, (uint64_t)(uintptr_t)queue->queues[VKS_GRAPHICS],
                                queue->get_device_proc_addr};
}

void vks_vulkan_lock_queue(vks_device *device, bool lock)
{
    const vulkan_queue *queue = device->impl;
    if (queue->lock_queue)
        (lock ? queue->lock_queue : queue->unlock_queue)(queue->lock_user);
}

/* ---- timelines ---- */

static vks_status counter(vks_device *device, uint64_t semaphore, uint64_t *value)
{
    vulkan_queue *queue = device->impl;
    VkResult code = queue->GetSemaphoreCounterValue(queue->device, semaphore_of(semaphore), value);
    return __builtin_expect(code == VK_SUCCESS, 1) ? VKS_OK : result(code, "vkGetSemaphoreCounterValue");
}

/* A wait longer than 100 ms polls for device loss with an empty vkQueueSubmit2, at 10 Hz. Some
 * drivers report a loss there only: NVIDIA's vkWaitSemaphores never returns if another process
 * crashed the GPU. An engine's queue is not polled, because its lock may be held for long, and the
 * engine sees the loss itself. */
static VkResult poll_for_loss(vks_device *device, vulkan_queue *queue)
{
    uint64_t now = vks_now(), loss_polled = atomic_load(&queue->loss_polled);
    if (queue->is_adopted || now - loss_polled < LOSS_POLL_NS ||
        !atomic_compare_exchange_strong(&queue->loss_polled, &loss_polled, now) ||
        pthread_mutex_trylock(&device->lock)) /* the lock's holder may be submitting, and then sees the loss itself */
        return VK_SUCCESS;
    VkResult code =
        device->presenting ? VK_SUCCESS : queue->QueueSubmit2(queue->queues[VKS_GRAPHICS], 0, NULL, VK_NULL_HANDLE);
    pthread_mutex_unlock(&device->lock);
    return code;
}

static vks_status wait_timeline(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline)
{
    vulkan_queue *queue = device->impl;
    uint64_t now = vks_now();
    if (deadline <= now)
        return VKS_TIMEOUT;
    VkSemaphore handle = semaphore_of(semaphore);
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &handle, .pValues = &value};
    VkResult code = queue->WaitSemaphores(queue->device, &info, deadline - now < SLICE_NS ? deadline - now : SLICE_NS);
    bool again = code == VK_TIMEOUT || code == VK_ERROR_OUT_OF_HOST_MEMORY || code == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (again && code != VK_TIMEOUT)
        usleep(1000); /* out of memory is no result of the wait */
    if (again && poll_for_loss(device, queue) == VK_ERROR_DEVICE_LOST)
        return result(VK_ERROR_DEVICE_LOST, "vkQueueSubmit2");
    if (again)
        return vks_now() >= deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
    return result(code, "vkWaitSemaphores");
}

static vks_status wait(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vulkan_queue *queue = device->impl;
    return wait_timeline(device, (uint64_t)(uintptr_t)queue->timeline, serial, deadline);
}

static vks_status host_signal(vks_device *device, uint64_t semaphore, uint64_t value)
{
    vulkan_queue *queue = device->impl;
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, semaphore_of(semaphore), value};
    return result(queue->SignalSemaphore(queue->device, &info), "vkSignalSemaphore");
}

static vks_status create_timeline(vks_device *device, uint64_t initial, uint64_t *semaphore)
{
    vulkan_queue *queue = device->impl;
    VkExportSemaphoreCreateInfo export_info = {VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, NULL,
                                               VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      device->native_timelines ? &export_info : NULL, VK_SEMAPHORE_TYPE_TIMELINE,
                                      initial};
    VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VkSemaphore handle = VK_NULL_HANDLE;
    vks_status status = result(queue->CreateSemaphore(queue->device, &info, NULL, &handle), "vkCreateSemaphore");
    *semaphore = (uint64_t)(uintptr_t)handle;
    return status;
}

/* Mesa's queue thread releases the semaphores that a batch waited for only after the batch's
 * signals are visible. Destroying one as soon as its work is known to be done corrupts Mesa's heap
 * (seen on lavapipe 25). So a semaphore is destroyed when a later batch has run too, or
 * vkQueueWaitIdle has returned. */
#define RETIRED_LIMIT 64

static void destroy_retired(vulkan_queue *queue, uint64_t before)
{
    size_t kept = 0;
    for (size_t i = 0; i < queue->n_retired; i++) {
        if (queue->retired[i].serial < before)
            queue->DestroySemaphore(queue->device, queue->retired[i].semaphore, NULL);
        else
            queue->retired[kept++] = queue->retired[i];
    }
    queue->n_retired = kept;
}

static void wait_for_driver(vulkan_queue *queue)
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

static void destroy_timeline(vks_device *device, uint64_t semaphore)
{
    vulkan_queue *queue = device->impl;
    uint64_t submitted = device->submitted, done = completed(device);
    if (!submitted) {
        queue->DestroySemaphore(queue->device, semaphore_of(semaphore), NULL);
        return;
    }
    pthread_mutex_lock(&queue->retired_lock);
    /* A program that creates and closes fences without submitting. */
    if (queue->n_retired >= RETIRED_LIMIT && !device->presenting && done >= submitted) {
        wait_for_driver(queue);
        destroy_retired(queue, UINT64_MAX);
    } else {
        destroy_retired(queue, done);
    }
    if (queue->n_retired == queue->retired_capacity) {
        size_t capacity = queue->retired_capacity ? 2 * queue->retired_capacity : RETIRED_LIMIT;
        struct retired *more = realloc(queue->retired, capacity * sizeof *more);
        if (more) {
            queue->retired = more;
            queue->retired_capacity = capacity;
        }
    }
    if (queue->n_retired < queue->retired_capacity)
        queue->retired[queue->n_retired++] = (struct retired){semaphore_of(semaphore), submitted};
    /* Out of memory for the list: the semaphore is leaked, not destroyed too early. */
    pthread_mutex_unlock(&queue->retired_lock);
}

static vks_status export_timeline(vks_device *device, uint64_t semaphore, int *fd)
{
    vulkan_queue *queue = device->impl;
    VkSemaphoreGetFdInfoKHR info = {VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, NULL, semaphore_of(semaphore),
                                    VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    int raw = -1;
    vks_status status = result(queue->GetSemaphoreFdKHR(queue->device, &info, &raw), "vkGetSemaphoreFdKHR");
    if (status)
        return status;
    *fd = vks_dup(raw); /* the driver's fd is not always CLOEXEC */
    int code = errno;
    close(raw);
    return *fd < 0 ? vks_fail(VKS_OS_ERROR, code, "the semaphore's file descriptor could not be duplicated") : VKS_OK;
}

static vks_status import_timeline(vks_device *device, int fd, uint64_t *semaphore)
{
    vulkan_queue *queue = device->impl;
    uint64_t handle;
    vks_status status = create_timeline(device, 0, &handle);
    if (!status) {
        VkImportSemaphoreFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
                                           .semaphore = semaphore_of(handle),
                                           .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
                                           .fd = fd};
        if ((status = result(queue->ImportSemaphoreFdKHR(queue->device, &info), "vkImportSemaphoreFdKHR")))
            destroy_timeline(device, handle);
    }
    if (status) {
        close(fd); /* the driver takes the fd on success only (X18) */
        return status;
    }
    *semaphore = handle;
    return VKS_OK;
}

/* ---- the publisher: started with the first completion to publish ---- */

/* Values without a notification are polled: an engine's semaphores, and those of external APIs. */
static bool must_poll(const vks_device *device) { return device->adopted_waits || device->n_external; }

static vks_status wait_for_next(vks_device *device, vulkan_queue *queue, uint64_t serial, bool polls)
{
    uint64_t slice = polls ? POLL_NS : SLICE_NS;
    if (serial)
        return wait_timeline(device, (uint64_t)(uintptr_t)queue->timeline, serial, vks_now() + slice);
    uint32_t seen = atomic_load(&queue->wakes);
    atomic_store(&queue->sleeping, 1);
    pthread_mutex_lock(&device->lock);
    bool idle = !device->ring_count && !atomic_load(&queue->stop) && (polls || !must_poll(device));
    pthread_mutex_unlock(&device->lock);
    if (idle)
        vks_futex_wait(&queue->wakes, seen, VKS_ANY_BIT, polls ? vks_now() + slice : VKS_FOREVER);
    atomic_store(&queue->sleeping, 0);
    return polls && poll_for_loss(device, queue) == VK_ERROR_DEVICE_LOST ? VKS_DEVICE_LOST : VKS_OK;
}

static void *publish(void *argument)
{
    vks_device *device = argument;
    vulkan_queue *queue = device->impl;
    uint64_t resolved = 0;
    while (!atomic_load(&queue->stop)) {
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
        vks_fence_poll_untracked(device);
        if (vks_now() - resolved >= SLICE_NS) { /* less often than values are polled */
            vks_device_resolve_orphaned_waits(device);
            resolved = vks_now();
        }
        if (device->adopted_waits)
            vks_scheduler_run(device);
        bool polls = must_poll(device);
        uint64_t serial = device->ring_count ? device->ring[device->ring_first].serial : 0;
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
    vulkan_queue *queue = device->impl;
    if (queue->started || atomic_load(&queue->stop))
        return VKS_OK;
    vks_status status = vks_thread_start("vkshare-vulkan", publish, device, &queue->thread);
    queue->started = status == VKS_OK;
    return status;
}

static void wake_publisher(vks_device *device)
{
    vulkan_queue *queue = device->impl;
    atomic_fetch_add(&queue->wakes, 1);
    if (atomic_load(&queue->sleeping))
        vks_futex_wake(&queue->wakes, VKS_ANY_BIT);
}

static void stop(vks_device *device)
{
    vulkan_queue *queue = device->impl;
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
    vulkan_queue *queue = device->impl;
    atomic_store(&queue->completed, device->submitted); /* the driver is not called from here on */
    wait_for_driver(queue);
    destroy_retired(queue, UINT64_MAX);
    free(queue->retired);
    queue->retired = NULL;
    queue->n_retired = queue->retired_capacity = 0;
    queue->DestroySemaphore(queue->device, queue->timeline, NULL);
    queue->timeline = VK_NULL_HANDLE;
}

static const vks_backend backend = {
    submit,          completed,       wait,
    start_publisher, wake_publisher,  stop,
    destroy,         create_timeline, destroy_timeline,
    counter,         host_signal,     wait_timeline,
    export_timeline, import_timeline,
};

static const char *load(vulkan_queue *queue, PFN_vkGetDeviceProcAddr get, bool exports)
{
#define LOAD(name)                                                                                                     \
    if (!(queue->name = (PFN_vk##name)get(queue->device, "vk" #name)))                                                 \
        return "vk" #name;
    FUNCTIONS(LOAD)
    queue->QueueWaitIdle = (PFN_vkQueueWaitIdle)get(queue->device, "vkQueueWaitIdle");
    if (exports) {
        EXPORT_FUNCTIONS(LOAD)
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
    vulkan_queue *queue = calloc(1, sizeof *queue);
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
    vks_status status = create_timeline(device, 0, &handle);
    device->native_timelines = exports;
    queue->timeline = semaphore_of(handle);
    device->timeline = handle;
    device->has_transfer = info->transfer_queue != 0;
    return status;
}
