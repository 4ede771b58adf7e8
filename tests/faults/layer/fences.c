/* fences.c: fences, and how one that is signalled is made to look as if it were not. */
#include <time.h>

#include "wrappers.h"

VkResult layer_CreateFence(VkDevice device, const VkFenceCreateInfo *info, const VkAllocationCallbacks *allocator,
                           VkFence *out)
{
    struct context *context = vks_context(device);
    FAULT(CreateFence, context);
    VkResult result = context->CreateFence(device, info, allocator, out);
    if (result == VK_SUCCESS)
        vks_created(TYPE_FENCE, HANDLE(*out), 0, context);
    return TELL(result);
}

void layer_DestroyFence(VkDevice device, VkFence fence, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_DestroyFence, context, &(VkResult){VK_SUCCESS});
    pthread_mutex_lock(&vks_lock);
    struct fence *known = vks_find(TYPE_FENCE, HANDLE(fence));
    if (known != NULL)
        vks_check_fence(known, "destroyed");
    pthread_mutex_unlock(&vks_lock);
    vks_destroyed(TYPE_FENCE, HANDLE(fence));
    context->DestroyFence(device, fence, allocator);
}

VkResult layer_ResetFences(VkDevice device, uint32_t count, const VkFence *fences)
{
    struct context *context = vks_context(device);
    FAULT(ResetFences, context);
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < count; i++) {
        struct fence *fence = vks_find(TYPE_FENCE, HANDLE(fences[i]));
        if (fence == NULL)
            continue;
        vks_check_fence(fence, "reset");
        fence->pending = false; /* from here on no call asks the driver about it */
        fence->not_before = 0;
        vks_event(EVENT_RESET, &fence->object, 0, VK_SUCCESS, 0);
    }
    pthread_mutex_unlock(&vks_lock);
    VkResult result = context->ResetFences(device, count, fences);
    return TELL(result);
}

/* What the application is told of a fence that the driver says is signalled. */
static VkResult tell(VkFence handle)
{
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&vks_lock);
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(handle));
    if (fence != NULL && fence->not_before != 0 && vks_now() < fence->not_before)
        result = VK_NOT_READY;
    else if (fence != NULL)
        vks_fence_ready(fence);
    pthread_mutex_unlock(&vks_lock);
    return result;
}

VkResult layer_GetFenceStatus(VkDevice device, VkFence fence)
{
    struct context *context = vks_context(device);
    FAULT(GetFenceStatus, context);
    VkResult result = context->GetFenceStatus(device, fence);
    if (result == VK_SUCCESS)
        result = tell(fence);
    return TELL(result);
}

static bool any_is_held(uint32_t count, const VkFence *fences)
{
    bool held = false;
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < count; i++) {
        const struct fence *fence = vks_find(TYPE_FENCE, HANDLE(fences[i]));
        held |= fence != NULL && fence->not_before != 0;
    }
    pthread_mutex_unlock(&vks_lock);
    return held;
}

/* Waits by asking: a fence that is held back has no other way to be waited for. */
static VkResult wait_for_held(struct context *context, uint32_t count, const VkFence *fences, VkBool32 all,
                              uint64_t timeout)
{
    const VkDevice device = (VkDevice)(uintptr_t)context->handle;
    const uint64_t start = vks_now();
    for (;;) {
        uint32_t ready = 0;
        for (uint32_t i = 0; i < count; i++) {
            VkResult result = context->GetFenceStatus(device, fences[i]);
            if (result < 0)
                return result;
            ready += result == VK_SUCCESS && tell(fences[i]) == VK_SUCCESS;
        }
        if (all ? ready == count : ready > 0)
            return VK_SUCCESS;
        if (atomic_load(&context->lost))
            return VK_ERROR_DEVICE_LOST;
        if (vks_now() - start >= timeout)
            return VK_TIMEOUT;
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

VkResult layer_WaitForFences(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t timeout)
{
    struct context *context = vks_context(device);
    FAULT(WaitForFences, context);
    VkResult result;
    if (any_is_held(count, fences)) {
        result = wait_for_held(context, count, fences, all, timeout);
    } else {
        result = context->WaitForFences(device, count, fences, all, timeout);
        for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
            if (all || count == 1 || context->GetFenceStatus(device, fences[i]) == VK_SUCCESS)
                tell(fences[i]);
        }
    }
    return TELL(result);
}

VkResult layer_ImportFenceFdKHR(VkDevice device, const VkImportFenceFdInfoKHR *info)
{
    struct context *context = vks_context(device);
    FAULT(ImportFenceFdKHR, context);
    pthread_mutex_lock(&vks_lock);
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(info->fence));
    if (fence != NULL)
        vks_check_fence(fence, "given another payload");
    pthread_mutex_unlock(&vks_lock);
    VkResult result = context->ImportFenceFdKHR(device, info);
    return TELL(result);
}
