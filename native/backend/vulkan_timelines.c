/* vulkan_timelines.c: timeline semaphores: waits, host signals, and their exchange with other
 * processes. */
#include <stdlib.h>
#include <unistd.h>

#include "backend/vulkan_queue.h"

#define LOSS_POLL_NS UINT64_C(100000000)

VkResult vks_vulkan_poll_for_loss(vks_device *device, vks_vulkan_queue *queue)
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

vks_status vks_vulkan_counter(vks_device *device, uint64_t semaphore, uint64_t *value)
{
    vks_vulkan_queue *queue = device->impl;
    VkResult code = queue->GetSemaphoreCounterValue(queue->device, vks_vulkan_semaphore(semaphore), value);
    return __builtin_expect(code == VK_SUCCESS, 1) ? VKS_OK : vks_vulkan_result(code, "vkGetSemaphoreCounterValue");
}

vks_status vks_vulkan_wait_timeline(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline)
{
    vks_vulkan_queue *queue = device->impl;
    uint64_t now = vks_now();
    if (deadline <= now)
        return VKS_TIMEOUT;
    VkSemaphore handle = vks_vulkan_semaphore(semaphore);
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &handle, .pValues = &value};
    VkResult code = queue->WaitSemaphores(queue->device, &info,
                                          deadline - now < VKS_WAIT_SLICE_NS ? deadline - now : VKS_WAIT_SLICE_NS);
    bool again = code == VK_TIMEOUT || code == VK_ERROR_OUT_OF_HOST_MEMORY || code == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (again && code != VK_TIMEOUT)
        usleep(1000); /* out of memory is no vks_vulkan_result of the wait */
    if (again && vks_vulkan_poll_for_loss(device, queue) == VK_ERROR_DEVICE_LOST)
        return vks_vulkan_result(VK_ERROR_DEVICE_LOST, "vkQueueSubmit2");
    if (again)
        return vks_now() >= deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
    return vks_vulkan_result(code, "vkWaitSemaphores");
}

vks_status vks_vulkan_host_signal(vks_device *device, uint64_t semaphore, uint64_t value)
{
    vks_vulkan_queue *queue = device->impl;
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, vks_vulkan_semaphore(semaphore),
                                  value};
    return vks_vulkan_result(queue->SignalSemaphore(queue->device, &info), "vkSignalSemaphore");
}

vks_status vks_vulkan_create_timeline(vks_device *device, uint64_t initial, uint64_t *semaphore)
{
    vks_vulkan_queue *queue = device->impl;
    VkExportSemaphoreCreateInfo export_info = {VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO, NULL,
                                               VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      device->native_timelines ? &export_info : NULL, VK_SEMAPHORE_TYPE_TIMELINE,
                                      initial};
    VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    VkSemaphore handle = VK_NULL_HANDLE;
    vks_status status =
        vks_vulkan_result(queue->CreateSemaphore(queue->device, &info, NULL, &handle), "vkCreateSemaphore");
    *semaphore = (uint64_t)(uintptr_t)handle;
    return status;
}

/* Mesa's queue thread releases the semaphores that a batch waited for only after the batch's
 * signals are visible. Destroying one as soon as its work is known to be done corrupts Mesa's heap
 * (seen on lavapipe 25). So a semaphore is destroyed when a later batch has run too, or
 * vkQueueWaitIdle has returned. */
#define RETIRED_LIMIT 64

void vks_vulkan_destroy_retired(vks_vulkan_queue *queue, uint64_t before)
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

void vks_vulkan_destroy_timeline(vks_device *device, uint64_t semaphore)
{
    vks_vulkan_queue *queue = device->impl;
    uint64_t submitted = device->submitted, done = vks_vulkan_completed(device);
    if (!submitted) {
        queue->DestroySemaphore(queue->device, vks_vulkan_semaphore(semaphore), NULL);
        return;
    }
    pthread_mutex_lock(&queue->retired_lock);
    /* A program that creates and closes fences without submitting. */
    if (queue->n_retired >= RETIRED_LIMIT && !device->presenting && done >= submitted) {
        vks_vulkan_wait_for_driver(queue);
        vks_vulkan_destroy_retired(queue, UINT64_MAX);
    } else {
        vks_vulkan_destroy_retired(queue, done);
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
        queue->retired[queue->n_retired++] = (struct retired){vks_vulkan_semaphore(semaphore), submitted};
    /* Out of memory for the list: the semaphore is leaked, not destroyed too early. */
    pthread_mutex_unlock(&queue->retired_lock);
}

vks_status vks_vulkan_export_timeline(vks_device *device, uint64_t semaphore, int *fd)
{
    vks_vulkan_queue *queue = device->impl;
    VkSemaphoreGetFdInfoKHR info = {VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, NULL, vks_vulkan_semaphore(semaphore),
                                    VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    int raw = -1;
    vks_status status = vks_vulkan_result(queue->GetSemaphoreFdKHR(queue->device, &info, &raw), "vkGetSemaphoreFdKHR");
    if (status)
        return status;
    status = vks_duplicate_fd(raw, "the semaphore's file descriptor", fd); /* the driver's is not always CLOEXEC */
    close(raw);
    return status;
}

vks_status vks_vulkan_import_timeline(vks_device *device, int fd, uint64_t *semaphore)
{
    vks_vulkan_queue *queue = device->impl;
    uint64_t handle;
    vks_status status = vks_vulkan_create_timeline(device, 0, &handle);
    if (!status) {
        VkImportSemaphoreFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
                                           .semaphore = vks_vulkan_semaphore(handle),
                                           .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
                                           .fd = fd};
        if ((status = vks_vulkan_result(queue->ImportSemaphoreFdKHR(queue->device, &info), "vkImportSemaphoreFdKHR")))
            vks_vulkan_destroy_timeline(device, handle);
    }
    if (status) {
        close(fd); /* the driver takes the fd on success only (X18) */
        return status;
    }
    *semaphore = handle;
    return VKS_OK;
}
