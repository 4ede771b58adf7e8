/* swapchain.c: the life of a swapchain, from its creation to its last reference. */
#include <stdlib.h>

#include "swapchain_state.h"

static void free_swapchain(vks_swapchain *s)
{
    vks_frame_thread_join(s);
    vks_tracker_destroy(s->tracker);
    pthread_mutex_destroy(&s->lock);
    vks_device_unref(s->device);
    free(s);
}

static vks_swapchain *allocate(const vks_swapchain_info *info)
{
    vks_swapchain *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->device = info->device;
    vks_device_ref(s->device);
    s->references = 1;
    s->process = vks_process;
    s->number = vks_trace_next();
    s->info = *info;
    pthread_mutex_init(&s->lock, NULL);
    atomic_init(&s->wanted, (uint64_t)info->width << 32 | info->height);
    if (info->vulkan) {
        s->vulkan = *info->vulkan;
        atomic_init(&s->mode, s->vulkan.present_mode);
        s->info.vulkan = &s->vulkan;
    }
    return s;
}

static vks_status open_target(vks_swapchain *s)
{
    if (!s->info.vulkan)
        return vks_offscreen_open(s);
    vks_status status = vks_tracker_create(s->vulkan.policy, s->info.fence_deadline, &s->tracker);
    return status ? status : vks_driver_open(s);
}

vks_status vks_swapchain_create(const vks_swapchain_info *info, vks_swapchain **out)
{
    vks_status status = vks_device_check(info->device);
    if (status)
        return status;
    if (!info->image_count || info->image_count > VKS_SWAPCHAIN_IMAGES || !info->frames_in_flight ||
        info->frames_in_flight > VKS_MOST_IN_FLIGHT || !info->retired_limit)
        return vks_fail(
            VKS_BAD_VALUE, 0, "image_count is %u (1 to %u), frames_in_flight %u (1 to %u), retired_limit %u",
            info->image_count, VKS_SWAPCHAIN_IMAGES, info->frames_in_flight, VKS_MOST_IN_FLIGHT, info->retired_limit);
    vks_swapchain *s = allocate(info);
    if (!s)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    status = VKS_CLOSED;
    if (vks_device_enter(s->device)) {
        status = open_target(s);
        vks_device_leave(s->device);
    }
    if (status)
        free_swapchain(s);
    else
        *out = s;
    return status;
}

void vks_swapchain_ref(vks_swapchain *swapchain)
{
    VKS_NEEDS_OR(, swapchain);
    atomic_fetch_add_explicit(&swapchain->references, 1, memory_order_relaxed);
}

void vks_swapchain_unref(vks_swapchain *swapchain)
{
    VKS_NEEDS_OR(, swapchain);
    if (atomic_fetch_sub(&swapchain->references, 1) != 1)
        return;
    vks_swapchain_close(swapchain);
    if (swapchain->is_ended || swapchain->process != vks_process)
        free_swapchain(swapchain);
    else /* leaked, with its driver objects */
        swapchain->device->swapchain_leaked = true;
}

void vks_swapchain_lose(vks_swapchain *s)
{
    if (s->process != vks_process)
        return;
    atomic_store(&s->is_lost, true);
    vks_frames_changed(s, VKS_FRAMES_MORE);
}
