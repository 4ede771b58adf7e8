/* cuda.c: a program in C that hands a surface from Vulkan to CUDA and back, ordered on the GPU by
 * one timeline.
 *
 * Its queue, command buffer, stream and imports are those of the Python side; CUDA's functions
 * come from its driver. */
#include "clock.h"
#include "interface.h"

int cuda_work(const cuda_side *cuda, unsigned value)
{
    return cuda->fill(cuda->address, cuda->pitch, value, cuda->width, cuda->height, cuda->stream);
}

/* n frames behind the value `after`: Vulkan's work, then CUDA's. A negative result: a VkResult,
 * or -1000 less a CUresult. */
double time_cuda_frames(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, VkSemaphore semaphore,
                        const cuda_side *cuda, uint64_t after, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++, after += 2) {
        VkSemaphoreSubmitInfo before = semaphore_info(semaphore, after, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
        VkSemaphoreSubmitInfo then = semaphore_info(semaphore, after + 1, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT);
        SUCCEED(submit_one(submit, queue, buffer, 1, &before, 1, &then, 0));
        semaphore_parameters wait = {.value = after + 1}, signal = {.value = after + 2};
        int result;
        if ((result = cuda->wait(&cuda->semaphore, &wait, 1, cuda->stream)) ||
            (result = cuda_work(cuda, (unsigned)i)) ||
            (result = cuda->signal(&cuda->semaphore, &signal, 1, cuda->stream)))
            return -1000 - result;
    }
    return seconds() - start;
}
