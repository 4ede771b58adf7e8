/* semaphores.c: semaphores, and timelines that are made to look as if they stood still. */
#include <time.h>

#include "wrappers.h"

VkResult layer_CreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkSemaphore *out)
{
    struct context *context = vks_context(device);
    FAULT(CreateSemaphore, context);
    VkResult result = context->CreateSemaphore(device, info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    const VkSemaphoreTypeCreateInfo *type = vks_chained(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    pthread_mutex_lock(&vks_lock);
    struct semaphore *semaphore = vks_add(TYPE_SEMAPHORE, HANDLE(*out), 0, context);
    semaphore->is_timeline = type != NULL && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
    if (semaphore->is_timeline) {
        semaphore->value = type->initialValue;
        semaphore->frozen = vks_forced.hold_semaphores;
    }
    vks_event(EVENT_CREATE, &semaphore->object, semaphore->value, VK_SUCCESS, 0);
    pthread_mutex_unlock(&vks_lock);
    return TELL(result);
}

void layer_DestroySemaphore(VkDevice device, VkSemaphore semaphore, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_DestroySemaphore, context, &(VkResult){VK_SUCCESS});
    pthread_mutex_lock(&vks_lock);
    struct semaphore *known = vks_find(TYPE_SEMAPHORE, HANDLE(semaphore));
    if (known != NULL)
        vks_check_semaphore(known, "destroyed");
    pthread_mutex_unlock(&vks_lock);
    vks_destroyed(TYPE_SEMAPHORE, HANDLE(semaphore));
    context->DestroySemaphore(device, semaphore, allocator);
}

/* True, and the value that it is held at, if the host is not to see this timeline's progress. */
static bool held_at(VkSemaphore handle, uint64_t *value)
{
    pthread_mutex_lock(&vks_lock);
    const struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(handle));
    const bool frozen = semaphore != NULL && semaphore->frozen;
    if (frozen)
        *value = semaphore->value;
    pthread_mutex_unlock(&vks_lock);
    return frozen;
}

VkResult layer_GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    struct context *context = vks_context(device);
    FAULT(GetSemaphoreCounterValue, context);
    VkResult result = context->GetSemaphoreCounterValue(device, semaphore, value);
    if (result == VK_SUCCESS)
        held_at(semaphore, value);
    return TELL(result);
}

static VkResult wait_for_held(struct context *context, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    const VkDevice device = (VkDevice)(uintptr_t)context->handle;
    const uint64_t start = vks_now();
    for (;;) {
        uint32_t reached = 0;
        for (uint32_t i = 0; i < info->semaphoreCount; i++) {
            uint64_t value = 0;
            VkResult result = context->GetSemaphoreCounterValue(device, info->pSemaphores[i], &value);
            if (result < 0)
                return result;
            held_at(info->pSemaphores[i], &value);
            reached += value >= info->pValues[i];
        }
        if (info->flags & VK_SEMAPHORE_WAIT_ANY_BIT ? reached > 0 : reached == info->semaphoreCount)
            return VK_SUCCESS;
        if (atomic_load(&context->lost))
            return VK_ERROR_DEVICE_LOST;
        if (vks_now() - start >= timeout)
            return VK_TIMEOUT;
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

VkResult layer_WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    struct context *context = vks_context(device);
    FAULT(WaitSemaphores, context);
    bool held = false;
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
        held |= held_at(info->pSemaphores[i], &(uint64_t){0});
    VkResult result = held ? wait_for_held(context, info, timeout) : context->WaitSemaphores(device, info, timeout);
    return TELL(result);
}

VkResult layer_SignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
    struct context *context = vks_context(device);
    FAULT(SignalSemaphore, context);
    VkResult result = context->SignalSemaphore(device, info);
    pthread_mutex_lock(&vks_lock);
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(info->semaphore));
    if (result == VK_SUCCESS && semaphore != NULL) {
        if (semaphore->value < info->value)
            semaphore->value = info->value;
        vks_event(EVENT_SIGNAL, &semaphore->object, info->value, result, 0);
    }
    pthread_mutex_unlock(&vks_lock);
    return TELL(result);
}

static void set_exported(VkSemaphore handle)
{
    pthread_mutex_lock(&vks_lock);
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(handle));
    if (semaphore != NULL)
        semaphore->is_exported = true;
    pthread_mutex_unlock(&vks_lock);
}

VkResult layer_GetSemaphoreFdKHR(VkDevice device, const VkSemaphoreGetFdInfoKHR *info, int *fd)
{
    struct context *context = vks_context(device);
    FAULT(GetSemaphoreFdKHR, context);
    set_exported(info->semaphore);
    VkResult result = context->GetSemaphoreFdKHR(device, info, fd);
    return TELL(result);
}

VkResult layer_ImportSemaphoreFdKHR(VkDevice device, const VkImportSemaphoreFdInfoKHR *info)
{
    struct context *context = vks_context(device);
    FAULT(ImportSemaphoreFdKHR, context);
    set_exported(info->semaphore);
    VkResult result = context->ImportSemaphoreFdKHR(device, info);
    return TELL(result);
}
