/* presents.c: acquiring, presenting and giving back images. */
#include <string.h>

#include "wrappers.h"

enum { SWAPCHAINS = 16 }; /* of one present that the layer can follow; more of them pass through */

/* What a sticky rule has made of the swapchain; VK_SUCCESS: nothing. Under vks_lock. */
static VkResult forced(const struct swapchain *swapchain)
{
    const struct reference of = swapchain->surface;
    const struct surface *surface = vks_find_serial(TYPE_SURFACE, of.handle, of.serial);
    return surface != NULL && surface->forced != VK_SUCCESS ? surface->forced : swapchain->forced;
}

/* Under vks_lock. */
static void make_sticky(struct swapchain *swapchain, VkResult result)
{
    const struct reference of = swapchain->surface;
    struct surface *surface = vks_find_serial(TYPE_SURFACE, of.handle, of.serial);
    if (result == VK_ERROR_SURFACE_LOST_KHR && surface != NULL)
        surface->forced = result;
    else if (result == VK_ERROR_OUT_OF_DATE_KHR)
        swapchain->forced = result;
}

/* ---- acquiring ------------------------------------------------------------------------------------------------- */

/* Decides on an acquire, and checks that it is allowed. */
static enum verdict judge_acquire(enum entry entry, struct context *context, const VkAcquireNextImageInfoKHR *info,
                                  VkResult *failure)
{
    enum verdict verdict = vks_fault(entry, context, failure);
    const bool sticky = vks_sticky();
    pthread_mutex_lock(&vks_lock);
    struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->swapchain));
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(info->semaphore));
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(info->fence));
    if (swapchain != NULL && verdict != PASS && sticky)
        make_sticky(swapchain, *failure);
    if (swapchain != NULL && verdict != INSTEAD) {
        if (swapchain->retired)
            vks_violation(&swapchain->object, NO_EXCUSE, "an image of a retired swapchain is acquired");
        const VkResult said = swapchain->retired ? VK_ERROR_OUT_OF_DATE_KHR : forced(swapchain);
        if (said != VK_SUCCESS) {
            verdict = INSTEAD;
            *failure = said;
        }
    }
    if (semaphore != NULL && semaphore->has_signal)
        vks_violation(&semaphore->object, NO_EXCUSE, "an acquire signals a semaphore that is signalled");
    if (semaphore != NULL)
        vks_check_semaphore(semaphore, "given to an acquire");
    if (fence != NULL)
        vks_check_fence(fence, "given to an acquire");
    pthread_mutex_unlock(&vks_lock);
    return verdict;
}

static void note_acquire(const VkAcquireNextImageInfoKHR *info, uint32_t *index, VkResult result)
{
    pthread_mutex_lock(&vks_lock);
    struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->swapchain));
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(info->semaphore));
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(info->fence));
    const bool acquired = result == VK_SUCCESS || result == VK_SUBOPTIMAL_KHR;
    const uint64_t group = vks_group();
    if (swapchain != NULL && !acquired)
        vks_event(EVENT_ACQUIRE, &swapchain->object, UINT32_MAX, result, group);
    if (swapchain != NULL && acquired && *index < swapchain->image_count) {
        const struct at_present last = {vks_reference(swapchain), swapchain->last_of[*index]};
        *index = swapchain->from_driver[*index];
        vks_event(EVENT_ACQUIRE, &swapchain->object, *index, result, group);
        if (semaphore != NULL) {
            vks_event(EVENT_SIGNAL, &semaphore->object, 0, VK_SUCCESS, group);
            semaphore->has_signal = semaphore->by_acquire = true;
            semaphore->acquired = last;
            semaphore->present_count = 0;
        }
        if (fence != NULL) {
            vks_event(EVENT_FENCE, &fence->object, 0, VK_SUCCESS, group);
            fence->pending = true;
            fence->kind = HOLD_ACQUIRE;
            fence->not_before = vks_not_before(HOLD_ACQUIRE);
            fence->present = last;
            vks_present_by_fence(swapchain, last.present, fence);
        }
    }
    pthread_mutex_unlock(&vks_lock);
}

VkResult layer_AcquireNextImageKHR(VkDevice device, VkSwapchainKHR swapchain, uint64_t timeout, VkSemaphore semaphore,
                                   VkFence fence, uint32_t *index)
{
    struct context *context = vks_context(device);
    const VkAcquireNextImageInfoKHR info = {.swapchain = swapchain, .semaphore = semaphore, .fence = fence};
    VkResult failure = VK_SUCCESS, result = VK_SUCCESS;
    const enum verdict verdict = judge_acquire(ENTRY_AcquireNextImageKHR, context, &info, &failure);
    if (verdict != INSTEAD)
        result = context->AcquireNextImageKHR(device, swapchain, timeout, semaphore, fence, index);
    note_acquire(&info, index, verdict == INSTEAD ? failure : result);
    return verdict == INSTEAD ? failure : verdict == AFTER && result == VK_SUCCESS ? failure : result;
}

VkResult layer_AcquireNextImage2KHR(VkDevice device, const VkAcquireNextImageInfoKHR *info, uint32_t *index)
{
    struct context *context = vks_context(device);
    VkResult failure = VK_SUCCESS, result = VK_SUCCESS;
    const enum verdict verdict = judge_acquire(ENTRY_AcquireNextImage2KHR, context, info, &failure);
    if (verdict != INSTEAD)
        result = context->AcquireNextImage2KHR(device, info, index);
    note_acquire(info, index, verdict == INSTEAD ? failure : result);
    return verdict == INSTEAD ? failure : verdict == AFTER && result == VK_SUCCESS ? failure : result;
}

/* ---- presenting ------------------------------------------------------------------------------------------------ */

static const VkSwapchainPresentFenceInfoEXT *fences_of(const VkPresentInfoKHR *info)
{
    return vks_chained(info->pNext, VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT);
}

/* Checks that the present is allowed, and turns image indices into the driver's. */
static void before(const VkPresentInfoKHR *info, uint32_t *indices)
{
    const VkSwapchainPresentFenceInfoEXT *fences = fences_of(info);
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < info->swapchainCount; i++) {
        const struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->pSwapchains[i]));
        indices[i] = info->pImageIndices[i];
        if (swapchain != NULL && indices[i] < swapchain->image_count - swapchain->held_count)
            indices[i] = swapchain->to_driver[indices[i]];
        struct fence *fence = fences == NULL ? NULL : vks_find(TYPE_FENCE, HANDLE(fences->pFences[i]));
        if (fence != NULL)
            vks_check_fence(fence, "given to a present");
    }
    for (uint32_t i = 0; i < info->waitSemaphoreCount; i++) {
        const struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(info->pWaitSemaphores[i]));
        if (semaphore != NULL && !semaphore->is_exported && !semaphore->has_signal)
            vks_violation(&semaphore->object, NO_EXCUSE, "a present waits for a semaphore that nothing signals");
    }
    pthread_mutex_unlock(&vks_lock);
}

/* Vulkan: these have queued nothing; all other results have, per swapchain or not (A15). */
static bool queued_nothing(VkResult result)
{
    return result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
           result == VK_ERROR_DEVICE_LOST;
}

static void note_swapchain(struct swapchain *swapchain, uint32_t index, VkFence handle, uint64_t group)
{
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(handle));
    const uint64_t present = ++swapchain->presents;
    swapchain->idle_count = vks_idles();
    if (index < IMAGES)
        swapchain->last_of[index] = present;
    if (fence == NULL)
        return;
    vks_event(EVENT_FENCE, &fence->object, 0, VK_SUCCESS, group);
    fence->pending = true;
    fence->kind = HOLD_PRESENT;
    fence->not_before = vks_not_before(HOLD_PRESENT);
    fence->present = (struct at_present){vks_reference(swapchain), present};
    vks_present_by_fence(swapchain, present, fence);
}

static void note_semaphore(struct semaphore *semaphore, const VkPresentInfoKHR *info, uint64_t group)
{
    vks_event(EVENT_WAIT, &semaphore->object, 0, VK_SUCCESS, group);
    semaphore->has_signal = semaphore->by_acquire = false;
    semaphore->present_count = 0;
    semaphore->idle_count = vks_idles();
    for (uint32_t i = 0; i < info->swapchainCount && semaphore->present_count < TARGETS; i++) {
        const struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->pSwapchains[i]));
        if (swapchain != NULL)
            semaphore->presents[semaphore->present_count++] =
                (struct at_present){vks_reference(swapchain), swapchain->presents};
    }
}

/* The driver has queued it. `results`: what the application is told of each swapchain. */
static void note_present(const VkPresentInfoKHR *info, const uint32_t *indices, const VkResult *results, bool queued)
{
    const VkSwapchainPresentFenceInfoEXT *fences = fences_of(info);
    const uint64_t group = vks_group();
    for (uint32_t i = 0; i < info->swapchainCount; i++) {
        struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->pSwapchains[i]));
        if (swapchain == NULL)
            continue;
        vks_event(EVENT_PRESENT, &swapchain->object, info->pImageIndices[i], results[i], group);
        if (queued)
            note_swapchain(swapchain, indices[i], fences == NULL ? VK_NULL_HANDLE : fences->pFences[i], group);
    }
    for (uint32_t i = 0; queued && i < info->waitSemaphoreCount; i++) {
        struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(info->pWaitSemaphores[i]));
        if (semaphore != NULL)
            note_semaphore(semaphore, info, group);
    }
}

/* What the application is told: a rule's result for all, or what stays with a swapchain. Returns the worst. */
static VkResult decide(const VkPresentInfoKHR *info, VkResult *results, VkResult actual, enum verdict verdict,
                       VkResult failure, bool sticky)
{
    VkResult worst = actual;
    for (uint32_t i = 0; i < info->swapchainCount; i++) {
        struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->pSwapchains[i]));
        VkResult said = verdict == PASS ? VK_SUCCESS : failure;
        if (swapchain != NULL && verdict != PASS && sticky)
            make_sticky(swapchain, failure);
        if (swapchain != NULL && verdict == PASS)
            said = forced(swapchain);
        if (said != VK_SUCCESS && results[i] >= 0)
            results[i] = said;
        if (results[i] < 0 ? worst >= 0 : worst == VK_SUCCESS)
            worst = results[i];
    }
    return worst;
}

VkResult layer_QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR *info)
{
    struct context *context = vks_context(queue);
    VkResult failure = VK_SUCCESS, actual = VK_SUCCESS;
    const enum verdict verdict = vks_fault(ENTRY_QueuePresentKHR, context, &failure);
    const bool sticky = vks_sticky();
    if (info->swapchainCount > SWAPCHAINS)
        return verdict == INSTEAD ? failure : context->QueuePresentKHR(queue, info);
    uint32_t indices[SWAPCHAINS];
    VkResult results[SWAPCHAINS] = {VK_SUCCESS};
    before(info, indices);
    if (verdict != INSTEAD) {
        VkPresentInfoKHR copy = *info;
        copy.pImageIndices = indices;
        copy.pResults = results;
        actual = context->QueuePresentKHR(queue, &copy);
    }
    pthread_mutex_lock(&vks_lock);
    const VkResult told = decide(info, results, actual, verdict, failure, sticky);
    note_present(info, indices, results, verdict != INSTEAD && !queued_nothing(actual));
    pthread_mutex_unlock(&vks_lock);
    if (info->pResults != NULL)
        memcpy(info->pResults, results, info->swapchainCount * sizeof *results);
    return told;
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

VkResult layer_ReleaseSwapchainImagesEXT(VkDevice device, const VkReleaseSwapchainImagesInfoEXT *info)
{
    struct context *context = vks_context(device);
    FAULT(ReleaseSwapchainImagesEXT, context);
    uint32_t indices[IMAGES];
    VkReleaseSwapchainImagesInfoEXT copy = *info;
    pthread_mutex_lock(&vks_lock);
    struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(info->swapchain));
    if (swapchain != NULL && info->imageIndexCount <= IMAGES) {
        copy.pImageIndices = indices;
        for (uint32_t i = 0; i < info->imageIndexCount; i++) {
            vks_event(EVENT_RELEASE, &swapchain->object, info->pImageIndices[i], VK_SUCCESS, 0);
            indices[i] = info->pImageIndices[i] < IMAGES ? swapchain->to_driver[info->pImageIndices[i]] : UINT32_MAX;
        }
    }
    pthread_mutex_unlock(&vks_lock);
    VkResult result = context->ReleaseSwapchainImagesEXT(device, &copy);
    return TELL(result);
}

static VkResult forced_status(VkSwapchainKHR handle)
{
    pthread_mutex_lock(&vks_lock);
    const struct swapchain *swapchain = vks_find(TYPE_SWAPCHAIN, HANDLE(handle));
    const VkResult result = swapchain == NULL ? VK_SUCCESS : forced(swapchain);
    pthread_mutex_unlock(&vks_lock);
    return result;
}

VkResult layer_GetSwapchainStatusKHR(VkDevice device, VkSwapchainKHR swapchain)
{
    struct context *context = vks_context(device);
    FAULT(GetSwapchainStatusKHR, context);
    VkResult result = forced_status(swapchain);
    if (result == VK_SUCCESS)
        result = context->GetSwapchainStatusKHR(device, swapchain);
    return TELL(result);
}

VkResult layer_WaitForPresentKHR(VkDevice device, VkSwapchainKHR swapchain, uint64_t id, uint64_t timeout)
{
    struct context *context = vks_context(device);
    FAULT(WaitForPresentKHR, context);
    VkResult result = context->WaitForPresentKHR(device, swapchain, id, timeout);
    return TELL(result);
}
