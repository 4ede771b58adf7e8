/* driver.c: a driver that does nothing, to see what calling one costs.
 *
 * Submitting moves the counters and no more, so that what is left is the caller's own time. With driver_lag(1) a
 * counter moves by one each time that it is read, up to what was signalled: work that is always under way. One thread
 * at a time may call.
 */
#include <string.h>

#include "vulkan.h"

#define SEMAPHORES UINT64_C(4096) /* a power of two. A benchmark makes a handful; past it creation fails */

static struct {
    uint64_t value, signalled;
} counters[SEMAPHORES];
static uint64_t made;
static int lagging;

void driver_lag(int on)
{
    lagging = on;
    for (uint64_t i = 0; i < SEMAPHORES && !on; i++) /* all work is done at once */
        counters[i].value = counters[i].signalled;
}

static void raise_counter(VkSemaphore semaphore, uint64_t value)
{
    semaphore &= SEMAPHORES - 1; /* a caller's mistake must not write elsewhere */
    counters[semaphore].signalled = value;
    if (!lagging)
        counters[semaphore].value = value;
}

static VkResult QueueSubmit2(VkQueue queue, uint32_t n, const VkSubmitInfo2 *infos, VkFence fence)
{
    (void)queue, (void)fence;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < infos[i].signalSemaphoreInfoCount; s++)
            raise_counter(infos[i].pSignalSemaphoreInfos[s].semaphore, infos[i].pSignalSemaphoreInfos[s].value);
    return VK_SUCCESS;
}

static VkResult CreateSemaphore(VkDevice device, const VkSemaphoreCreateInfo *info, const void *allocator,
                                VkSemaphore *out)
{
    (void)device, (void)allocator;
    if (made + 1 == SEMAPHORES)
        return -1; /* VK_ERROR_OUT_OF_HOST_MEMORY */
    *out = ++made;
    const VkSemaphoreTypeCreateInfo *type = info->pNext; /* NULL: a binary one, whose counter is never read */
    counters[made].value = counters[made].signalled = type ? type->initialValue : 0;
    return VK_SUCCESS;
}

static void DestroySemaphore(VkDevice device, VkSemaphore semaphore, const void *allocator)
{
    (void)device, (void)semaphore, (void)allocator;
}

static VkResult GetSemaphoreCounterValue(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    (void)device;
    if (lagging && counters[semaphore].value < counters[semaphore].signalled)
        counters[semaphore].value++;
    *value = counters[semaphore].value;
    return VK_SUCCESS;
}

static VkResult WaitSemaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    (void)device, (void)timeout;
    return counters[info->pSemaphores[0]].value >= info->pValues[0] ? VK_SUCCESS : 2; /* VK_TIMEOUT */
}

static VkResult SignalSemaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
    (void)device;
    counters[info->semaphore].value = counters[info->semaphore].signalled = info->value;
    return VK_SUCCESS;
}

void *driver_present_proc_addr(const char *name); /* driver_present.c */

/* PFN_vkGetDeviceProcAddr of the driver. */
void *driver_get_proc_addr(VkDevice device, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"vkQueueSubmit2", QueueSubmit2},         {"vkCreateSemaphore", CreateSemaphore},
        {"vkDestroySemaphore", DestroySemaphore}, {"vkGetSemaphoreCounterValue", GetSemaphoreCounterValue},
        {"vkWaitSemaphores", WaitSemaphores},     {"vkSignalSemaphore", SignalSemaphore},
    };
    (void)device;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(name, functions[i].name))
            return functions[i].function;
    return driver_present_proc_addr(name);
}

/* A semaphore of the driver, as a caller in C would make one. */
VkSemaphore driver_semaphore(void)
{
    VkSemaphore semaphore = 0;
    VkSemaphoreTypeCreateInfo type = {.initialValue = 0};
    CreateSemaphore(NULL, &(VkSemaphoreCreateInfo){.pNext = &type}, NULL, &semaphore);
    return semaphore;
}
