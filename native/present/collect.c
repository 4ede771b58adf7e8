/* collect.c: carries out the tracker's decisions: recycles semaphores and fences, and destroys
 * generations. Caller holds swapchain->lock. */
#include <unistd.h>

#include "swapchain_state.h"

/* Moves the generation from `generations` to `to_destroy`. */
static void move_to_destroy(vks_swapchain *s, uint64_t handle)
{
    for (vks_generation **link = &s->generations; *link; link = &(*link)->next) {
        vks_generation *generation = *link;
        if (generation->handle != handle)
            continue;
        *link = generation->next;
        generation->next = s->to_destroy;
        s->to_destroy = generation;
        return;
    }
}

void vks_apply_decisions(vks_swapchain *s)
{
    vks_decision decision;
    while (vks_tracker_next(s->tracker, &decision)) {
        switch (decision.kind) {
        case VKS_RECYCLE_SEMAPHORE:
            vks_put_semaphore(s, decision.handle);
            break;
        case VKS_RESET_FENCE:
            vks_reset_fence(s, decision.handle);
            break;
        case VKS_DESTROY_SEMAPHORE:
            vks_destroy_semaphore_late(s, decision.handle);
            break;
        case VKS_DESTROY_FENCE:
            vks_discard_fence(s, decision.handle);
            break;
        case VKS_DESTROY_SWAPCHAIN:
            move_to_destroy(s, decision.handle);
            break;
        }
    }
}

static bool is_signalled(void *swapchain, uint64_t fence)
{
    vks_swapchain *s = swapchain;
    VkResult code = s->vk.GetFenceStatus(s->vk_device, (VkFence)(uintptr_t)fence);
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_lose(s->device);
    return code == VK_SUCCESS;
}

void vks_collect_locked(vks_swapchain *s)
{
    vks_tracker_collect(s->tracker, s->device->backend->completed(s->device), vks_now(), is_signalled, s);
    vks_apply_decisions(s);
}

void vks_collect(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    vks_collect_locked(s);
    bool to_destroy = s->to_destroy != NULL;
    pthread_mutex_unlock(&s->device->lock);
    if (to_destroy)
        vks_destroy_retired(s);
}

void vks_destroy_retired(vks_swapchain *s)
{
    for (;;) {
        pthread_mutex_lock(&s->device->lock);
        vks_generation *generation = s->pins ? NULL : s->to_destroy;
        s->to_destroy = s->pins ? s->to_destroy : NULL;
        if (!generation && !s->pins)
            vks_destroy_late_semaphores(s);
        pthread_mutex_unlock(&s->device->lock);
        if (!generation)
            return;
        while (generation) {
            vks_generation *next = generation->next;
            vks_generation_destroy(s, generation);
            generation = next;
        }
    }
}

#define PINS_NS UINT64_C(1000000000)

vks_status vks_wait_for_pins(vks_swapchain *s)
{
    uint64_t limit = vks_now() + PINS_NS;
    while (s->pins && vks_now() < limit) {
        pthread_mutex_unlock(&s->device->lock);
        usleep(100);
        pthread_mutex_lock(&s->device->lock);
    }
    return s->pins ? vks_fail(VKS_TIMEOUT, 0,
                              "a thread records commands for an image of the swapchain, and has not finished for 1 s: "
                              "call again")
                   : VKS_OK;
}
