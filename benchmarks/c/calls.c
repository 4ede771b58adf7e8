/* calls.c: the timed loops of a program in C that does what the Python calls do: it fills the
 * structures and calls the driver.
 *
 * The functions come from the same vkGetDeviceProcAddr as ours, real driver or not. Values grow
 * on every call.
 */
#include "clock.h"
#include "interface.h"

static inline VkResult submit_signalling(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer,
                                         const VkSemaphore *semaphores, uint32_t n, uint64_t value)
{
    VkSemaphoreSubmitInfo signals[4]; /* written here: gcc copies what semaphore_info() returns, for 6 ns more */
    for (uint32_t s = 0; s < n; s++)
        signals[s] = (VkSemaphoreSubmitInfo){VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO, NULL, semaphores[s], value,
                                             VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,    0};
    return submit_one(submit, queue, buffer, 0, NULL, n, signals, 0);
}

double time_submits(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, const VkSemaphore *semaphores,
                    uint32_t n_signals, uint64_t first, long n)
{
    TIMED(n, SUCCEED(submit_signalling(submit, queue, buffer, semaphores, n_signals, first + (uint64_t)i)))
}

double time_values(PFN_vkGetSemaphoreCounterValue get, VkDevice device, VkSemaphore semaphore, long n)
{
    uint64_t value;
    TIMED(n, SUCCEED(get(device, semaphore, &value)))
}

double time_signals(PFN_vkSignalSemaphore signal, VkDevice device, VkSemaphore semaphore, uint64_t first, long n)
{
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, NULL, semaphore, 0};
    TIMED(n, info.value = first + (uint64_t)i; SUCCEED(signal(device, &info)))
}

double time_waits(PFN_vkWaitSemaphores wait, VkDevice device, VkSemaphore semaphore, uint64_t first, long n)
{
    uint64_t value;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &value};
    TIMED(n, value = first + (uint64_t)i; SUCCEED(wait(device, &info, 0)))
}
