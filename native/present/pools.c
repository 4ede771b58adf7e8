/* pools.c: a swapchain's semaphores and fences, created on demand and reused. Caller holds
 * device->lock. */
#include <stdlib.h>

#include "present.h"

static bool grow(vks_handle_pool *pool)
{
    if (pool->n < pool->capacity)
        return true;
    size_t capacity = pool->capacity ? 2 * pool->capacity : 16;
    uint64_t *more = realloc(pool->handles, capacity * sizeof *more);
    if (!more)
        return false;
    pool->handles = more;
    pool->capacity = capacity;
    return true;
}

vks_status vks_take_semaphore(vks_swapchain *s, uint64_t *out)
{
    if (s->semaphores.n) {
        *out = s->semaphores.handles[--s->semaphores.n];
        return VKS_OK;
    }
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkSemaphore handle = VK_NULL_HANDLE;
    vks_status status =
        vks_present_result(s, s->vk.CreateSemaphore(s->vk_device, &info, NULL, &handle), "vkCreateSemaphore");
    if (status)
        return status;
    *out = (uint64_t)(uintptr_t)handle;
    s->counts.semaphores++;
    vks_present_name(s, VK_OBJECT_TYPE_SEMAPHORE, *out, "present semaphore", ++s->semaphores.made);
    return VKS_OK;
}

static void destroy_semaphore(vks_swapchain *s, uint64_t semaphore)
{
    s->device->backend->destroy_timeline(s->device, semaphore); /* which destroys binary semaphores too */
    s->counts.semaphores--;
}

/* Returns the limit of the pool: one semaphore to acquire and one to present for each image, those
 * of frames in flight and tracked ones. Resizes need more, which are destroyed when they are free.
 */
static uint64_t pool_limit(const vks_swapchain *s)
{
    return 3u * (s->current ? s->current->n : s->info.image_count) + 2;
}

void vks_put_semaphore(vks_swapchain *s, uint64_t semaphore)
{
    if (!semaphore)
        return;
    if (s->counts.semaphores <= pool_limit(s) && grow(&s->semaphores))
        s->semaphores.handles[s->semaphores.n++] = semaphore;
    else
        destroy_semaphore(s, semaphore);
}

vks_status vks_refill_frame(vks_presentable *frame)
{
    return frame->spare ? VKS_OK : vks_take_semaphore(((vks_present_image *)frame)->swapchain, &frame->spare);
}

vks_status vks_take_fence(vks_swapchain *s, uint64_t *out)
{
    if (s->fences.n) {
        *out = s->fences.handles[--s->fences.n];
        return VKS_OK;
    }
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence handle = VK_NULL_HANDLE;
    vks_status status = vks_present_result(s, s->vk.CreateFence(s->vk_device, &info, NULL, &handle), "vkCreateFence");
    if (status)
        return status;
    *out = (uint64_t)(uintptr_t)handle;
    s->counts.fences++;
    vks_present_name(s, VK_OBJECT_TYPE_FENCE, *out, "present fence", ++s->fences.made);
    return VKS_OK;
}

static void destroy_fence(vks_swapchain *s, uint64_t fence)
{
    s->vk.DestroyFence(s->vk_device, (VkFence)(uintptr_t)fence, NULL);
    s->counts.fences--;
}

void vks_put_fence(vks_swapchain *s, uint64_t fence)
{
    if (grow(&s->fences))
        s->fences.handles[s->fences.n++] = fence;
    else
        destroy_fence(s, fence);
}

void vks_reset_fence(vks_swapchain *s, uint64_t fence)
{
    VkFence handle = (VkFence)(uintptr_t)fence;
    if (s->vk.ResetFences(s->vk_device, 1, &handle) == VK_SUCCESS)
        vks_put_fence(s, fence);
    else /* out of memory: it stays signalled, and a present needs an unsignalled fence */
        destroy_fence(s, fence);
}

bool vks_fence_is_signalled(void *swapchain, uint64_t fence)
{
    vks_swapchain *s = swapchain;
    VkResult code = s->vk.GetFenceStatus(s->vk_device, (VkFence)(uintptr_t)fence);
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_lose(s->device);
    return code == VK_SUCCESS;
}

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
            if (s->is_ending)
                vks_discard_semaphore(s, decision.handle);
            else
                destroy_semaphore(s, decision.handle);
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

void vks_pool_add(vks_handle_pool *pool, uint64_t handle)
{
    if (handle && grow(pool)) /* without memory for the list the handle is leaked, not destroyed too early */
        pool->handles[pool->n++] = handle;
}

void vks_discard_semaphore(vks_swapchain *s, uint64_t semaphore) { vks_pool_add(&s->discarded_semaphores, semaphore); }

void vks_discard_fence(vks_swapchain *s, uint64_t fence) { vks_pool_add(&s->discarded_fences, fence); }

void vks_destroy_discarded(vks_swapchain *s)
{
    while (s->discarded_semaphores.n)
        destroy_semaphore(s, s->discarded_semaphores.handles[--s->discarded_semaphores.n]);
    while (s->discarded_fences.n) {
        uint64_t fence = s->discarded_fences.handles[--s->discarded_fences.n];
        VkResult code = s->vk.GetFenceStatus(s->vk_device, (VkFence)(uintptr_t)fence);
        /* On a lost device too the driver's result decides, not the device's state
         * (vks_device_drain). */
        if (code == VK_SUCCESS || code == VK_ERROR_DEVICE_LOST)
            destroy_fence(s, fence); /* else it is leaked, because a driver may still write to it */
    }
    free(s->discarded_semaphores.handles);
    free(s->discarded_fences.handles);
    s->discarded_semaphores = s->discarded_fences = (vks_handle_pool){NULL, 0, 0, 0};
}

void vks_destroy_pools(vks_swapchain *s)
{
    while (s->semaphores.n)
        destroy_semaphore(s, s->semaphores.handles[--s->semaphores.n]);
    while (s->fences.n)
        destroy_fence(s, s->fences.handles[--s->fences.n]);
    free(s->semaphores.handles);
    free(s->fences.handles);
    free(s->spare_commands.handles);
    s->spare_commands = s->semaphores = s->fences = (vks_handle_pool){NULL, 0, 0, 0};
}
