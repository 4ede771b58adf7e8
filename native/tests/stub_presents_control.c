/* The tests' controls of the stub, and its statistics. */
#include "stub_presents_state.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define NAME(call) #call,
    STUB_CALLS(NAME)
#undef NAME
};

static stub_call find(const char *name)
{
    for (uint32_t i = 0; i < N_CALLS; i++)
        if (!strcmp(names[i], name))
            return (stub_call)i;
    abort();
}

const char *presents_function(uint32_t i) { return i < N_CALLS ? names[i] : NULL; }

void presents_fail(const char *call, int code, uint32_t n, uint32_t times)
{
    pthread_mutex_lock(&stub.lock);
    stub.faults[find(call)] = (stub_fault_of_call){(VkResult)code, n, times};
    stub.failures = 0;
    pthread_mutex_unlock(&stub.lock);
}

uint32_t presents_failures(void)
{
    pthread_mutex_lock(&stub.lock);
    uint32_t n = stub.failures;
    pthread_mutex_unlock(&stub.lock);
    return n;
}

uint32_t presents_calls(const char *call)
{
    pthread_mutex_lock(&stub.lock);
    uint32_t n = stub.calls[find(call)];
    pthread_mutex_unlock(&stub.lock);
    return n;
}

void presents_stall(unsigned what)
{
    pthread_mutex_lock(&stub.lock);
    stub.stalled = what;
    stub_advance();
    pthread_mutex_unlock(&stub.lock);
}

void presents_set_duration(uint32_t ms)
{
    pthread_mutex_lock(&stub.lock);
    stub.lasts = ms;
    pthread_mutex_unlock(&stub.lock);
}

void presents_allow_early_destroy(bool may)
{
    pthread_mutex_lock(&stub.lock);
    stub.may_destroy_early = may;
    pthread_mutex_unlock(&stub.lock);
}

bool presents_step(void)
{
    pthread_mutex_lock(&stub.lock);
    bool any = stub_step();
    pthread_mutex_unlock(&stub.lock);
    return any;
}

presents_counts presents_count(void)
{
    pthread_mutex_lock(&stub.lock);
    presents_counts counts = stub.counts;
    pthread_mutex_unlock(&stub.lock);
    return counts;
}

uint64_t presents_draw(uint64_t image) { return stub_handle(KIND_DRAW, stub_index(image)); }

void presents_submit(uint64_t acquired, uint64_t rendered, uint64_t image)
{
    VkSemaphoreSubmitInfo points[] = {{.semaphore = (VkSemaphore)(uintptr_t)acquired},
                                      {.semaphore = (VkSemaphore)(uintptr_t)rendered}};
    VkCommandBufferSubmitInfo buffer = {.commandBuffer = HANDLE(VkCommandBuffer, KIND_ENGINE, stub_index(image))};
    VkSubmitInfo2 info = {.waitSemaphoreInfoCount = 1,
                          .pWaitSemaphoreInfos = &points[0],
                          .commandBufferInfoCount = 1,
                          .pCommandBufferInfos = &buffer,
                          .signalSemaphoreInfoCount = 1,
                          .pSignalSemaphoreInfos = &points[1]};
    PFN_vkQueueSubmit2 submit = (PFN_vkQueueSubmit2)stub_presents_get(NULL, "vkQueueSubmit2");
    while (submit(HANDLE(VkQueue, 0, 1), 1, &info, VK_NULL_HANDLE) == VK_ERROR_OUT_OF_HOST_MEMORY)
        ; /* it has to signal what it was given to signal */
}
