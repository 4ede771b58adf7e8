/* pools.c: a swapchain's semaphores and fences, created on demand and reused. Caller holds
 * device->lock. */
#include <stdlib.h>

#include "swapchain_state.h"

/* ---- lists of handles ---- */

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

bool vks_pool_add(vks_handle_pool *pool, uint64_t handle)
{
    if (!grow(pool))
        return false;
    pool->handles[pool->n++] = handle;
    return true;
}

bool vks_pool_take(vks_handle_pool *pool, uint64_t *out)
{
    if (!pool->n)
        return false;
    *out = pool->handles[--pool->n];
    return true;
}

static void empty(vks_swapchain *s, vks_handle_pool *pool, void (*destroy)(vks_swapchain *s, uint64_t handle))
{
    uint64_t handle;
    while (vks_pool_take(pool, &handle))
        destroy(s, handle);
    free(pool->handles);
    *pool = (vks_handle_pool){0};
}

/* ---- semaphores ---- */

vks_status vks_take_semaphore(vks_swapchain *s, uint64_t *out)
{
    if (vks_pool_take(&s->pools.semaphores, out))
        return VKS_OK;
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkSemaphore handle = VK_NULL_HANDLE;
    vks_status status =
        vks_driver_result(s, s->vk.CreateSemaphore(s->vk_device, &info, NULL, &handle), "vkCreateSemaphore");
    if (status)
        return status;
    *out = (uint64_t)(uintptr_t)handle;
    s->counts.semaphores++;
    vks_driver_name(s, VK_OBJECT_TYPE_SEMAPHORE, *out, "present semaphore", ++s->pools.semaphores_made);
    return VKS_OK;
}

static void destroy_semaphore(vks_swapchain *s, uint64_t semaphore)
{
    s->device->backend->destroy_timeline(s->device, semaphore); /* which destroys binary semaphores too */
    s->counts.semaphores--;
}

void vks_destroy_semaphore_late(vks_swapchain *s, uint64_t semaphore)
{
    if (s->to_destroy)
        vks_pool_add(&s->pools.late_semaphores, semaphore);
    else
        destroy_semaphore(s, semaphore);
}

void vks_destroy_late_semaphores(vks_swapchain *s) { empty(s, &s->pools.late_semaphores, destroy_semaphore); }

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
    if (s->counts.semaphores > pool_limit(s) || !vks_pool_add(&s->pools.semaphores, semaphore))
        destroy_semaphore(s, semaphore);
}

void vks_discard_semaphore(vks_swapchain *s, uint64_t semaphore)
{
    if (semaphore)
        vks_pool_add(&s->pools.discarded_semaphores, semaphore);
}

vks_status vks_refill_frame(vks_presentable *frame)
{
    return frame->spare ? VKS_OK : vks_take_semaphore(((vks_present_image *)frame)->swapchain, &frame->spare);
}

/* ---- fences ---- */

vks_status vks_take_fence(vks_swapchain *s, uint64_t *out)
{
    if (vks_pool_take(&s->pools.fences, out))
        return VKS_OK;
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence handle = VK_NULL_HANDLE;
    vks_status status = vks_driver_result(s, s->vk.CreateFence(s->vk_device, &info, NULL, &handle), "vkCreateFence");
    if (status)
        return status;
    *out = (uint64_t)(uintptr_t)handle;
    s->counts.fences++;
    vks_driver_name(s, VK_OBJECT_TYPE_FENCE, *out, "present fence", ++s->pools.fences_made);
    return VKS_OK;
}

static void destroy_fence(vks_swapchain *s, uint64_t fence)
{
    s->vk.DestroyFence(s->vk_device, (VkFence)(uintptr_t)fence, NULL);
    s->counts.fences--;
}

void vks_put_fence(vks_swapchain *s, uint64_t fence)
{
    if (!vks_pool_add(&s->pools.fences, fence))
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

void vks_discard_fence(vks_swapchain *s, uint64_t fence) { vks_pool_add(&s->pools.discarded_fences, fence); }

/* ---- the end ---- */

/* A fence that is not signalled is leaked, because a driver may still write to it. On a lost device
 * too the driver's result decides, not the device's state (vks_device_drain). */
static void destroy_discarded_fence(vks_swapchain *s, uint64_t fence)
{
    VkResult code = s->vk.GetFenceStatus(s->vk_device, (VkFence)(uintptr_t)fence);
    if (code == VK_SUCCESS || code == VK_ERROR_DEVICE_LOST)
        destroy_fence(s, fence);
}

void vks_destroy_discarded(vks_swapchain *s)
{
    empty(s, &s->pools.discarded_semaphores, destroy_semaphore);
    empty(s, &s->pools.discarded_fences, destroy_discarded_fence);
}

void vks_destroy_pools(vks_swapchain *s)
{
    empty(s, &s->pools.semaphores, destroy_semaphore);
    empty(s, &s->pools.fences, destroy_fence);
}
