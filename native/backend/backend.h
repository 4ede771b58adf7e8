/* backend.h: the two implementations of vks_backend. Internal. */
#ifndef VKS_BACKEND_H
#define VKS_BACKEND_H

#include "device/device.h"
#include "backend/relay.h"

/* Both set device->impl, which is freed with the device, because completed() may be called after
 * the shutdown. */
vks_status vks_cpu_backend_init(vks_device *device, uint32_t threads);
vks_status vks_vulkan_backend_init(vks_device *device, const vks_vulkan_info *info);

/* Handles of the Vulkan backend for native/present/: its VkDevice, VkQueue and vkGetDeviceProcAddr.
 * vks_vulkan_lock_queue takes the lock of an engine's queue. Caller holds device->lock. */
typedef struct vks_vulkan_handles {
    uint64_t device, queue;
    void *get_device_proc_addr;
} vks_vulkan_handles;
vks_vulkan_handles vks_vulkan_get_handles(const vks_device *device);
void vks_vulkan_lock_queue(vks_device *device, bool lock);

#endif
