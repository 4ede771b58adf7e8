/* calls.c: the timed loops of a program in C that does what the Python calls do: it fills the structures and calls the
 * driver.
 *
 * The functions come from the same vkGetDeviceProcAddr as ours, real driver or not. Values grow on every call. Each
 * returns seconds.
 */
#include "clock.h"
#include "vulkan.h"

#define TIMED(n, call)                                                                                                 \
    double start = seconds();                                                                                          \
    for (long i = 0; i < n; i++) {                                                                                     \
        VkResult result = (call);                                                                                      \
        if (result != VK_SUCCESS)                                                                                      \
            return result;                                                                                             \
    }                                                                                                                  \
    return seconds() - start;

/* One command buffer; `n_signals` semaphores are signalled with first, first + 1, ... A negative result: the VkResult
 * of a failed call. */
double time_submits(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, const VkSemaphore *semaphores,
                    uint32_t n_signals, uint64_t first, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++) {
        VkSemaphoreSubmitInfo signals[4];
        for (uint32_t s = 0; s < n_signals; s++)
            signals[s] = (VkSemaphoreSubmitInfo){
                VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL, semaphores[s], first + (uint64_t)i,
                VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,    0};
        VkCommandBufferSubmitInfo commands = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, NULL, buffer, 0};
        VkSubmitInfo2 info = {
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
            .commandBufferInfoCount = 1,
            .pCommandBufferInfos = &commands,
            .signalSemaphoreInfoCount = n_signals,
            .pSignalSemaphoreInfos = signals,
        };
        VkResult result = submit(queue, 1, &info, 0);
        if (result != VK_SUCCESS)
            return result;
    }
    return seconds() - start;
}

double time_values(PFN_vkGetSemaphoreCounterValue get, VkDevice device, VkSemaphore semaphore, long n)
{
    uint64_t value;
    TIMED(n, get(device, semaphore, &value))
}

double time_signals(PFN_vkSignalSemaphore signal, VkDevice device, VkSemaphore semaphore, uint64_t first, long n)
{
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, semaphore, 0};
    TIMED(n, (info.value = first + (uint64_t)i, signal(device, &info)))
}

double time_waits(PFN_vkWaitSemaphores wait, VkDevice device, VkSemaphore semaphore, uint64_t first, long n)
{
    uint64_t value;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &value};
    TIMED(n, (value = first + (uint64_t)i, wait(device, &info, 0)))
}
