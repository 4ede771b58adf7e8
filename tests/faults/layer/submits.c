/* submits.c: queues, and what their submits wait for and signal. */
#include "wrappers.h"

/* One semaphore of a VkSubmitInfo or VkSubmitInfo2. */
struct use {
    VkSemaphore semaphore;
    uint64_t value;
};

/* One VkSubmitInfo or VkSubmitInfo2, read by index. */
struct batch {
    const VkSubmitInfo *one;
    const VkTimelineSemaphoreSubmitInfo *values;
    const VkSubmitInfo2 *two;
};

static struct batch batch_of(const VkSubmitInfo *one, const VkSubmitInfo2 *two, uint32_t i)
{
    if (two != NULL)
        return (struct batch){.two = &two[i]};
    return (struct batch){.one = &one[i],
                          .values = vks_chained(one[i].pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)};
}

static uint32_t wait_count(struct batch b)
{
    return b.two != NULL ? b.two->waitSemaphoreInfoCount : b.one->waitSemaphoreCount;
}

static uint32_t signal_count(struct batch b)
{
    return b.two != NULL ? b.two->signalSemaphoreInfoCount : b.one->signalSemaphoreCount;
}

static struct use wait_of(struct batch b, uint32_t i)
{
    if (b.two != NULL)
        return (struct use){b.two->pWaitSemaphoreInfos[i].semaphore, b.two->pWaitSemaphoreInfos[i].value};
    const bool has = b.values != NULL && i < b.values->waitSemaphoreValueCount;
    return (struct use){b.one->pWaitSemaphores[i], has ? b.values->pWaitSemaphoreValues[i] : 0};
}

static struct use signal_of(struct batch b, uint32_t i)
{
    if (b.two != NULL)
        return (struct use){b.two->pSignalSemaphoreInfos[i].semaphore, b.two->pSignalSemaphoreInfos[i].value};
    const bool has = b.values != NULL && i < b.values->signalSemaphoreValueCount;
    return (struct use){b.one->pSignalSemaphores[i], has ? b.values->pSignalSemaphoreValues[i] : 0};
}

/* ---- before: is it allowed? ------------------------------------------------------------------------------------ */

/* Why a semaphore that a present may wait for may be signalled all the same: the batch itself, or one before it on the
 * queue, waits for the next acquire of the image. */
static unsigned excuses(const struct queue *queue, struct batch b, const struct semaphore *semaphore)
{
    unsigned found = vks_idles() > semaphore->idle_count ? BY_IDLE : NO_EXCUSE;
    for (uint32_t i = 0; i < semaphore->present_count; i++) {
        const struct at_present at = semaphore->presents[i];
        if (vks_is_ordered(at, queue))
            found |= BY_ORDER;
        for (uint32_t j = 0; j < wait_count(b); j++) {
            const struct semaphore *waited = vks_find(TYPE_SEMAPHORE, HANDLE(wait_of(b, j).semaphore));
            if (waited != NULL && waited->by_acquire && waited->acquired.swapchain.serial == at.swapchain.serial &&
                waited->acquired.present >= at.present)
                found |= BY_ORDER;
        }
    }
    return found;
}

/* Its own waits come before its signals. */
static bool waits_for(struct batch b, VkSemaphore semaphore)
{
    for (uint32_t i = 0; i < wait_count(b); i++)
        if (wait_of(b, i).semaphore == semaphore)
            return true;
    return false;
}

/* What a batch waits for may be signalled by one before it in the same call: only the first one's waits are checked. */
static void check(const struct queue *queue, struct batch b, bool is_first)
{
    for (uint32_t i = 0; is_first && i < wait_count(b); i++) {
        struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(wait_of(b, i).semaphore));
        if (semaphore != NULL && !semaphore->is_timeline && !semaphore->is_exported && !semaphore->has_signal)
            vks_violation(&semaphore->object, NO_EXCUSE, "a submit waits for a semaphore that nothing signals");
    }
    for (uint32_t i = 0; i < signal_count(b); i++) {
        struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(signal_of(b, i).semaphore));
        if (semaphore == NULL || semaphore->is_timeline || semaphore->is_exported)
            continue;
        if (semaphore->has_signal && !waits_for(b, signal_of(b, i).semaphore))
            vks_violation(&semaphore->object, NO_EXCUSE, "a submit signals a semaphore that is signalled");
        if (vks_semaphore_is_waited_for(semaphore))
            vks_violation(&semaphore->object, excuses(queue, b, semaphore),
                          "a submit signals a semaphore that present %llu may still wait for",
                          (unsigned long long)semaphore->presents[0].present);
    }
}

/* ---- after: it is queued --------------------------------------------------------------------------------------- */

static void note_wait(struct queue *queue, struct use use, uint64_t group)
{
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(use.semaphore));
    if (semaphore == NULL)
        return;
    vks_event(EVENT_WAIT, &semaphore->object, use.value, VK_SUCCESS, group);
    semaphore->waited = (struct at_submit){vks_reference(queue), queue->submits};
    if (semaphore->is_timeline)
        return;
    semaphore->has_signal = false;
    const struct reference of = semaphore->acquired.swapchain;
    struct swapchain *swapchain = semaphore->by_acquire ? vks_find_serial(TYPE_SWAPCHAIN, of.handle, of.serial) : NULL;
    if (swapchain != NULL)
        vks_present_by_submit(swapchain, semaphore->acquired.present, semaphore->waited);
    semaphore->by_acquire = false;
}

static void note_signal(struct queue *queue, struct use use, uint64_t group)
{
    struct semaphore *semaphore = vks_find(TYPE_SEMAPHORE, HANDLE(use.semaphore));
    if (semaphore == NULL)
        return;
    vks_event(EVENT_SIGNAL, &semaphore->object, use.value, VK_SUCCESS, group);
    semaphore->signalled = (struct at_submit){vks_reference(queue), queue->submits};
    semaphore->present_count = 0;
    semaphore->by_acquire = false;
    if (semaphore->is_timeline)
        vks_proof_by_timeline(queue, semaphore, use.value);
    else
        semaphore->has_signal = true;
}

static void note_fence(struct queue *queue, VkFence handle, uint64_t group)
{
    struct fence *fence = vks_find(TYPE_FENCE, HANDLE(handle));
    if (fence == NULL)
        return;
    vks_event(EVENT_FENCE, &fence->object, 0, VK_SUCCESS, group);
    fence->pending = true;
    fence->kind = HOLD_SUBMIT;
    fence->not_before = vks_not_before(HOLD_SUBMIT);
    fence->submit = (struct at_submit){vks_reference(queue), queue->submits};
    vks_proof_by_fence(queue, fence);
}

static void before(VkQueue handle, uint32_t count, const VkSubmitInfo *one, const VkSubmitInfo2 *two, VkFence fence)
{
    pthread_mutex_lock(&vks_lock);
    const struct queue *queue = vks_queue(handle);
    for (uint32_t i = 0; i < count; i++)
        check(queue, batch_of(one, two, i), i == 0);
    struct fence *known = vks_find(TYPE_FENCE, HANDLE(fence));
    if (known != NULL)
        vks_check_fence(known, "submitted");
    pthread_mutex_unlock(&vks_lock);
}

static void after(VkQueue handle, uint32_t count, const VkSubmitInfo *one, const VkSubmitInfo2 *two, VkFence fence,
                  VkResult result)
{
    pthread_mutex_lock(&vks_lock);
    struct queue *queue = vks_queue(handle);
    uint64_t group = vks_group();
    for (uint32_t i = 0; i < count && result >= 0; i++) {
        const struct batch b = batch_of(one, two, i);
        queue->submits++;
        vks_event(EVENT_SUBMIT, &queue->object, queue->submits, result, group);
        for (uint32_t j = 0; j < wait_count(b); j++)
            note_wait(queue, wait_of(b, j), group);
        for (uint32_t j = 0; j < signal_count(b); j++)
            note_signal(queue, signal_of(b, j), group);
        if (i + 1 < count)
            group = vks_group();
    }
    if (result < 0)
        vks_event(EVENT_SUBMIT, &queue->object, 0, result, group);
    else
        note_fence(queue, fence, group);
    pthread_mutex_unlock(&vks_lock);
}

VkResult layer_QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    struct context *context = vks_context(queue);
    FAULT(QueueSubmit, context);
    before(queue, count, infos, NULL, fence);
    VkResult result = context->QueueSubmit(queue, count, infos, fence);
    after(queue, count, infos, NULL, fence, result);
    return TELL(result);
}

VkResult layer_QueueSubmit2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos, VkFence fence)
{
    struct context *context = vks_context(queue);
    FAULT(QueueSubmit2, context);
    before(queue, count, NULL, infos, fence);
    VkResult result = context->QueueSubmit2(queue, count, infos, fence);
    after(queue, count, NULL, infos, fence, result);
    return TELL(result);
}

/* ---- queues ---------------------------------------------------------------------------------------------------- */

VkResult layer_QueueWaitIdle(VkQueue queue)
{
    struct context *context = vks_context(queue);
    FAULT(QueueWaitIdle, context);
    VkResult result = context->QueueWaitIdle(queue);
    pthread_mutex_lock(&vks_lock);
    if (result == VK_SUCCESS)
        vks_queue_idle(vks_queue(queue));
    pthread_mutex_unlock(&vks_lock);
    return TELL(result);
}

VkResult layer_DeviceWaitIdle(VkDevice device)
{
    struct context *context = vks_context(device);
    FAULT(DeviceWaitIdle, context);
    VkResult result = context->DeviceWaitIdle(device);
    pthread_mutex_lock(&vks_lock);
    if (result == VK_SUCCESS)
        vks_device_idle(context);
    pthread_mutex_unlock(&vks_lock);
    return TELL(result);
}

/* A queue's handle has its key only after the loader has seen it: so it is entered here, with the device's context. */
static void enter(struct context *context, VkQueue queue)
{
    pthread_mutex_lock(&vks_lock);
    if (queue != VK_NULL_HANDLE && vks_find(TYPE_QUEUE, HANDLE(queue)) == NULL)
        vks_event(EVENT_CREATE, vks_add(TYPE_QUEUE, HANDLE(queue), context->handle, context), 0, VK_SUCCESS, 0);
    pthread_mutex_unlock(&vks_lock);
}

void layer_GetDeviceQueue(VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_GetDeviceQueue, context, &(VkResult){VK_SUCCESS});
    context->GetDeviceQueue(device, family, index, out);
    enter(context, *out);
}

void layer_GetDeviceQueue2(VkDevice device, const VkDeviceQueueInfo2 *info, VkQueue *out)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_GetDeviceQueue2, context, &(VkResult){VK_SUCCESS});
    context->GetDeviceQueue2(device, info, out);
    enter(context, *out);
}
