/* vulkan_queue.h: the state of the Vulkan backend, for its files. */
#ifndef VKS_VULKAN_QUEUE_H
#define VKS_VULKAN_QUEUE_H

#include "backend/backend.h"
#include "vulkan/vulkan_core.h"

/* A wait inside the driver notices neither signals nor close(), so it is split into slices. */
#define VKS_WAIT_SLICE_NS UINT64_C(20000000)

#define VKS_FUNCTIONS(X)                                                                                               \
    X(QueueSubmit2)                                                                                                    \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores) X(SignalSemaphore)
#define VKS_OPTIONAL_FUNCTIONS(X) X(QueueWaitIdle)
#define VKS_EXPORT_FUNCTIONS(X) X(GetSemaphoreFdKHR) X(ImportSemaphoreFdKHR)

typedef struct vks_vulkan_queue {
    VkDevice device;
    VkQueue queues[VKS_FAMILIES];
    void *get_device_proc_addr;
#define DECLARE(name) PFN_vk##name name;
    VKS_FUNCTIONS(DECLARE)
    VKS_OPTIONAL_FUNCTIONS(DECLARE)
    VKS_EXPORT_FUNCTIONS(DECLARE)
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
} vks_vulkan_queue;

static inline VkSemaphore vks_vulkan_semaphore(uint64_t handle) { return (VkSemaphore)(uintptr_t)handle; }
vks_status vks_vulkan_result(VkResult code, const char *call);
uint64_t vks_vulkan_completed(vks_device *device);
/* Waits until the driver has let go of everything that batches used. */
void vks_vulkan_wait_for_driver(vks_vulkan_queue *queue);

/* ---- vulkan_timelines.c; members of vks_backend, where not said otherwise ---- */
vks_status vks_vulkan_counter(vks_device *device, uint64_t semaphore, uint64_t *value);
vks_status vks_vulkan_wait_timeline(vks_device *device, uint64_t semaphore, uint64_t value, uint64_t deadline);
vks_status vks_vulkan_host_signal(vks_device *device, uint64_t semaphore, uint64_t value);
vks_status vks_vulkan_create_timeline(vks_device *device, uint64_t initial, uint64_t *semaphore);
void vks_vulkan_destroy_timeline(vks_device *device, uint64_t semaphore);
vks_status vks_vulkan_export_timeline(vks_device *device, uint64_t semaphore, int *fd);
vks_status vks_vulkan_import_timeline(vks_device *device, int fd, uint64_t *semaphore);
/* Destroys the retired semaphores that no batch from `before` on may use. */
void vks_vulkan_destroy_retired(vks_vulkan_queue *queue, uint64_t before);
/* A wait longer than 100 ms polls for device loss with an empty vkQueueSubmit2, at 10 Hz. Some
 * drivers report a loss there only: NVIDIA's vkWaitSemaphores never returns if another process
 * crashed the GPU. An engine's queue is not polled, because its lock may be held for long, and the
 * engine sees the loss itself. */
VkResult vks_vulkan_poll_for_loss(vks_device *device, vks_vulkan_queue *queue);

#endif
