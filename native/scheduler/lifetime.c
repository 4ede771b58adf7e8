/* lifetime.c: a device from its parts, and its end in steps. */
#include <unistd.h>

#include "backend/backend.h"
#include "device/trace_points.h"
#include "scheduler/scheduler.h"

/* A driver that has not finished by then hangs; objects that it uses are leaked, not destroyed. */
#define SHUTDOWN_NS UINT64_C(10000000000)
#define LOST_NS UINT64_C(2000000000) /* the same for a lost device */

vks_status vks_device_create(const vks_device_info *info, vks_device **out)
{
    VKS_NEEDS(info, out);
    vks_device *device;
    vks_status status = vks_device_new(info, &device);
    if (status)
        return status;
    if (!(status = vks_scheduler_attach(device)))
        status = info->vulkan ? vks_vulkan_backend_init(device, info->vulkan)
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

static void refuse_calls(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->shut_down = VKS_SHUTDOWN_BEGUN;
    vks_scheduler_fail_all(device, VKS_CLOSED);
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
        if ((status = vks_scheduler_finish(device, NULL, device->end_limit)))
            return status;
        refuse_calls(device);
    }
    if (!device->gone) {
        if ((status = vks_device_drain(device, device->submitted, device->end_limit)) == VKS_INTERRUPTED)
            return status;
        if (status)
            leak(device);
        vks_watcher_remove(device);
        vks_device_close_children(device);
        device->end_limit = vks_now() + SHUTDOWN_NS;
    }
    if ((status = wait_for_driver_calls(device)))
        return status;
    device->backend->stop(device);
    if (!device->leaks) {
        device->backend->destroy(device);
        if (device->end_engine && !device->swapchain_leaked)
            device->end_engine(device);
    }
    device->shut_down = VKS_SHUTDOWN_DONE;
    return VKS_OK;
}

vks_status vks_device_try_shutdown(vks_device *device)
{
    VKS_NEEDS(device);
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
    VKS_NEEDS_OR(, device);
    while (vks_device_try_shutdown(device) == VKS_INTERRUPTED)
        ;
}
