/* The entry points. Each takes the lock, may fail on command, and lets the engine advance. */
#define _GNU_SOURCE
#include "stub_presents_state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- begin and end of every call ---- */

static bool is_failing(stub_call call)
{
    stub_fault_of_call *fault = &stub.faults[call];
    if (!fault->left || --fault->left)
        return false;
    fault->left = fault->times && --fault->times ? 1 : 0;
    stub.failures++;
    return true;
}

/* Whether vk.xml lists DEVICE_LOST for it. */
static bool may_be_lost(stub_call call)
{
    switch (call) {
    case CALL_CreateSwapchainKHR:
    case CALL_AcquireNextImageKHR:
    case CALL_QueuePresentKHR:
    case CALL_GetSemaphoreCounterValue:
    case CALL_WaitSemaphores:
    case CALL_QueueSubmit2:
    case CALL_QueueWaitIdle:
    case CALL_GetFenceStatus:
    case CALL_WaitForFences:
        return true;
    default:
        return false;
    }
}

VkResult stub_begin(stub_call call)
{
    pthread_mutex_lock(&stub.lock);
    if (!stub.open)
        stub_violation("a call comes after the device was destroyed");
    stub.calls[call]++;
    stub_advance();
    if (stub.is_lost)
        return may_be_lost(call) ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
    if (!is_failing(call))
        return VK_SUCCESS;
    VkResult code = stub.faults[call].code;
    if (code == VK_ERROR_DEVICE_LOST && may_be_lost(call))
        stub_lose();
    return code == VK_ERROR_DEVICE_LOST && !may_be_lost(call) ? VK_ERROR_OUT_OF_HOST_MEMORY : code;
}

VkResult stub_end(VkResult code)
{
    if (stub.pace == PRESENTS_EAGER)
        stub_advance();
    pthread_mutex_unlock(&stub.lock);
    return code;
}

/* Vulkan's external synchronisation: no other thread is inside. */
void stub_enter(atomic_int *inside, const char *what)
{
    if (atomic_exchange(inside, 1))
        stub_violation(what);
    if (stub.pace == PRESENTS_THREAD)
        sched_yield();
}

void stub_leave(atomic_int *inside) { atomic_store(inside, 0); }

/* ---- semaphores ---- */

static VkResult CreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *unused,
                                VkSemaphore *out)
{
    (void)device, (void)unused;
    VkResult code = stub_begin(CALL_CreateSemaphore);
    if (code == VK_SUCCESS) {
        const VkSemaphoreTypeCreateInfo *type = info->pNext;
        uint32_t index = ++stub.n_semaphores;
        if (index >= MANY)
            abort();
        stub.semaphores[index] = (semaphore){.alive = true, .is_binary = !type, .value = type ? type->initialValue : 0};
        stub.counts.semaphores++;
        *out = HANDLE(VkSemaphore, KIND_SEMAPHORE, index);
    }
    return stub_end(code);
}

static void DestroySemaphore(VkDevice device, VkSemaphore handle, const VkAllocationCallbacks *unused)
{
    (void)device, (void)unused;
    stub_begin(CALL_DestroySemaphore);
    semaphore *s = &stub.semaphores[INDEX(handle)];
    if (!s->alive)
        stub_violation("a semaphore is destroyed twice");
    if (s->presents)
        stub_violation("a semaphore is destroyed that the engine still waits for");
    if (s->signals || s->waits)
        stub_violation("a semaphore is destroyed that the queue still uses, or an acquire");
    s->alive = false;
    stub.counts.semaphores--;
    stub_end(VK_SUCCESS);
}

static VkResult GetSemaphoreCounterValue(VkDevice device, VkSemaphore handle, uint64_t *value)
{
    (void)device;
    VkResult code = stub_begin(CALL_GetSemaphoreCounterValue);
    if (code == VK_SUCCESS)
        *value = stub.semaphores[INDEX(handle)].value;
    return stub_end(code);
}

static VkResult WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    (void)device;
    uint64_t limit = vks_now() + timeout;
    VkResult code = stub_begin(CALL_WaitSemaphores);
    while (code == VK_SUCCESS && stub.semaphores[INDEX(info->pSemaphores[0])].value < info->pValues[0])
        code = stub.is_lost ? VK_ERROR_DEVICE_LOST : stub_wait(limit) ? VK_SUCCESS : VK_TIMEOUT;
    return stub_end(code);
}

static VkResult SignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
    (void)device;
    VkResult code = stub_begin(CALL_SignalSemaphore);
    if (code == VK_SUCCESS)
        stub.semaphores[INDEX(info->semaphore)].value = info->value;
    return stub_end(code);
}

/* ---- the queue ---- */

static void add_work(batch *b, VkCommandBuffer handle)
{
    stub_kind kind = (stub_kind)((uint64_t)(uintptr_t)handle >> 40);
    uint32_t on = INDEX(handle);
    if (kind == KIND_BUFFER) {
        if (!stub.buffers[on].alive || !stub.buffers[on].image)
            stub_violation("a command buffer is submitted that was freed, or holds nothing");
        on = stub.buffers[on].image;
    }
    if (!swapchain_of(on)->alive)
        stub_violation("an image is drawn into whose swapchain was destroyed");
    b->works[b->n_works].kind = kind;
    b->works[b->n_works++].image = on;
    image_of(on)->batches++;
    image_of(on)->works++;
}

static void add_batch(const VkSubmitInfo2 *info)
{
    batch *b = stub_new(sizeof *b);
    for (uint32_t i = 0; i < info->waitSemaphoreInfoCount && i < POINTS; i++) {
        uint32_t index = INDEX(info->pWaitSemaphoreInfos[i].semaphore);
        b->waits[b->n_waits++] = (point){index, info->pWaitSemaphoreInfos[i].value};
        if (stub.semaphores[index].is_binary)
            stub_expect_wait(index, false);
    }
    for (uint32_t i = 0; i < info->signalSemaphoreInfoCount && i < POINTS; i++) {
        uint32_t index = INDEX(info->pSignalSemaphoreInfos[i].semaphore);
        b->signals[b->n_signals++] = (point){index, info->pSignalSemaphoreInfos[i].value};
        if (!stub.semaphores[index].is_binary)
            continue;
        stub.counts.signalled_again += stub.semaphores[index].waits != 0;
        stub_expect_signal(index);
        stub.semaphores[index].image = 0;
    }
    for (uint32_t i = 0; i < info->commandBufferInfoCount && i < POINTS; i++)
        add_work(b, info->pCommandBufferInfos[i].commandBuffer);
    *stub.last_batch = b;
    stub.last_batch = &b->next;
    stub.counts.batches++;
}

static VkResult QueueSubmit2(VkQueue queue, uint32_t n, const VkSubmitInfo2 *infos, VkFence fence)
{
    (void)queue, (void)fence;
    stub_enter(&stub.queue_inside, "two threads use the queue");
    VkResult code = stub_begin(CALL_QueueSubmit2);
    for (uint32_t i = 0; i < n && code == VK_SUCCESS; i++)
        add_batch(&infos[i]);
    stub_leave(&stub.queue_inside);
    return stub_end(code);
}

static VkResult QueueWaitIdle(VkQueue queue)
{
    (void)queue;
    uint64_t limit = vks_now() + UINT64_C(2000000000);
    stub_enter(&stub.queue_inside, "two threads use the queue");
    VkResult code = stub_begin(CALL_QueueWaitIdle);
    while (code == VK_SUCCESS && stub.batches)
        if (!stub_wait(limit)) {
            stub_violation("vkQueueWaitIdle hangs");
            break;
        }
    stub_leave(&stub.queue_inside);
    return stub_end(code);
}

/* ---- fences ---- */

static VkResult CreateFence(VkDevice device, const VkFenceCreateInfo *info, const VkAllocationCallbacks *unused,
                            VkFence *out)
{
    (void)device, (void)unused;
    VkResult code = stub_begin(CALL_CreateFence);
    if (code == VK_SUCCESS) {
        uint32_t index = ++stub.n_fences;
        if (index >= MANY)
            abort();
        stub.fences[index] = (fence){.alive = true, .signalled = info->flags & VK_FENCE_CREATE_SIGNALED_BIT};
        stub.counts.fences++;
        *out = HANDLE(VkFence, KIND_FENCE, index);
    }
    return stub_end(code);
}

fence *stub_use_fence(VkFence handle, bool may_be_pending)
{
    fence *of = &stub.fences[INDEX(handle)];
    if (!of->alive)
        stub_violation("a fence is used that does not exist");
    if (of->pending && !may_be_pending)
        stub_violation("a fence is reset, destroyed or given away while it is pending");
    return of;
}

static void DestroyFence(VkDevice device, VkFence handle, const VkAllocationCallbacks *unused)
{
    (void)device, (void)unused;
    stub_begin(CALL_DestroyFence);
    stub_use_fence(handle, stub.may_destroy_early)->alive = false;
    stub.counts.fences--;
    stub_end(VK_SUCCESS);
}

static VkResult ResetFences(VkDevice device, uint32_t n, const VkFence *handles)
{
    (void)device;
    VkResult code = stub_begin(CALL_ResetFences);
    for (uint32_t i = 0; i < n && code == VK_SUCCESS; i++)
        stub_use_fence(handles[i], false)->signalled = false;
    return stub_end(code);
}

static VkResult GetFenceStatus(VkDevice device, VkFence handle)
{
    (void)device;
    VkResult code = stub_begin(CALL_GetFenceStatus);
    if (code == VK_SUCCESS && !stub_use_fence(handle, true)->signalled)
        code = VK_NOT_READY;
    return stub_end(code);
}

static VkResult WaitForFences(VkDevice device, uint32_t n, const VkFence *handles, VkBool32 all, uint64_t timeout)
{
    (void)device, (void)n, (void)all;
    uint64_t limit = vks_now() + timeout;
    VkResult code = stub_begin(CALL_WaitForFences);
    while (code == VK_SUCCESS && !stub_use_fence(handles[0], true)->signalled)
        code = stub.is_lost ? VK_ERROR_DEVICE_LOST : stub_wait(limit) ? VK_SUCCESS : VK_TIMEOUT;
    return stub_end(code);
}

/* ---- views and commands ---- */

static VkResult CreateImageView(VkDevice device, const VkImageViewCreateInfo *info, const VkAllocationCallbacks *unused,
                                VkImageView *out)
{
    (void)device, (void)unused;
    VkResult code = stub_begin(CALL_CreateImageView);
    if (code == VK_SUCCESS) {
        if (!swapchain_of(INDEX(info->image))->alive)
            stub_violation("a view is made of an image that is gone");
        stub.counts.views++;
        *out = HANDLE(VkImageView, KIND_VIEW, ++stub.n_views);
    }
    return stub_end(code);
}

static void DestroyImageView(VkDevice device, VkImageView view, const VkAllocationCallbacks *unused)
{
    (void)device, (void)view, (void)unused;
    stub_begin(CALL_DestroyImageView);
    stub.counts.views--;
    stub_end(VK_SUCCESS);
}

static VkResult CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                  const VkAllocationCallbacks *unused, VkCommandPool *out)
{
    (void)device, (void)info, (void)unused;
    VkResult code = stub_begin(CALL_CreateCommandPool);
    if (code == VK_SUCCESS) {
        stub.counts.pools++;
        *out = HANDLE(VkCommandPool, KIND_POOL, ++stub.n_pools);
    }
    return stub_end(code);
}

static void free_buffer(uint32_t index)
{
    buffer *b = &stub.buffers[index];
    if (!b->alive)
        stub_violation("a command buffer is freed twice");
    for (const batch *pending = stub.batches; pending; pending = pending->next)
        for (uint32_t i = 0; i < pending->n_works; i++)
            if (pending->works[i].kind == KIND_BUFFER && pending->works[i].image == b->image)
                stub_violation("a command buffer is freed that has not run");
    b->alive = false;
    stub.counts.buffers--;
}

static void DestroyCommandPool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks *unused)
{
    (void)device, (void)unused;
    stub_begin(CALL_DestroyCommandPool);
    for (uint32_t i = 1; i <= stub.n_buffers; i++)
        if (stub.buffers[i].alive && stub.buffers[i].pool == INDEX(pool))
            free_buffer(i);
    stub.counts.pools -= pool != VK_NULL_HANDLE;
    stub_end(VK_SUCCESS);
}

static VkResult AllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    (void)device;
    VkResult code = stub_begin(CALL_AllocateCommandBuffers);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        out[i] = VK_NULL_HANDLE;
        if (code != VK_SUCCESS)
            continue;
        if (++stub.n_buffers >= MANY)
            abort();
        stub.buffers[stub.n_buffers] = (buffer){.alive = true, .pool = INDEX(info->commandPool)};
        stub.counts.buffers++;
        out[i] = HANDLE(VkCommandBuffer, KIND_BUFFER, stub.n_buffers);
    }
    return stub_end(code);
}

static void FreeCommandBuffers(VkDevice device, VkCommandPool pool, uint32_t n, const VkCommandBuffer *handles)
{
    (void)device, (void)pool;
    stub_begin(CALL_FreeCommandBuffers);
    for (uint32_t i = 0; i < n; i++)
        free_buffer(INDEX(handles[i]));
    stub_end(VK_SUCCESS);
}

static VkResult BeginCommandBuffer(VkCommandBuffer handle, const VkCommandBufferBeginInfo *info)
{
    (void)handle, (void)info;
    return stub_end(stub_begin(CALL_BeginCommandBuffer));
}

static VkResult EndCommandBuffer(VkCommandBuffer handle)
{
    (void)handle;
    return stub_end(stub_begin(CALL_EndCommandBuffer));
}

static void CmdPipelineBarrier2(VkCommandBuffer handle, const VkDependencyInfo *info)
{
    stub_begin(CALL_CmdPipelineBarrier2);
    stub.buffers[INDEX(handle)].image = INDEX(info->pImageMemoryBarriers[0].image);
    stub_end(VK_SUCCESS);
}

PFN_vkVoidFunction stub_presents_get(VkDevice device, const char *name)
{
    (void)device;
#define FIND(call)                                                                                                     \
    if (strcmp(name, "vk" #call) == 0)                                                                                 \
        return (PFN_vkVoidFunction)call;
    STUB_PLAIN_CALLS(FIND)
#undef FIND
    return stub_presents_get_wsi(name);
}
