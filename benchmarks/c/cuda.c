/* cuda.c: a program in C that hands a surface from Vulkan to CUDA and back, ordered on the GPU by one timeline.
 *
 * Its queue, command buffer, stream and imports are those of the Python side; CUDA's functions come from its driver. */
#include "clock.h"
#include "vulkan.h"

typedef struct semaphore_parameters { /* CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, and ..._SIGNAL_PARAMS: 144 bytes */
    uint64_t value;
    uint64_t reserved[17];
} semaphore_parameters;

typedef int (*on_semaphores)(void *const *semaphores, const semaphore_parameters *parameters, unsigned n, void *stream);
typedef int (*fill_rows)(uint64_t address, size_t pitch, unsigned value, size_t width, size_t height, void *stream);

typedef struct cuda_side {
    on_semaphores wait, signal;
    fill_rows fill; /* cuMemsetD2D32Async */
    void *semaphore, *stream;
    uint64_t address;
    size_t pitch, width, height; /* bytes, words, rows */
} cuda_side;

int cuda_work(const cuda_side *cuda, unsigned value)
{
    return cuda->fill(cuda->address, cuda->pitch, value, cuda->width, cuda->height, cuda->stream);
}

static int vulkan_work(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, VkSemaphore semaphore,
                       uint64_t after)
{
    VkSemaphoreSubmitInfo wait = semaphore_info(semaphore, after, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT), signal = wait;
    signal.value = after + 1;
    return submit_one(submit, queue, buffer, 1, &wait, 1, &signal, 0);
}

/* n frames behind the value `after`: Vulkan's work, then CUDA's. The seconds that the calls took; negative: a VkResult,
 * or -1000 less a CUresult. */
double time_frames(PFN_vkQueueSubmit2 submit, VkQueue queue, VkCommandBuffer buffer, VkSemaphore semaphore,
                   const cuda_side *cuda, uint64_t after, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++, after += 2) {
        int result = vulkan_work(submit, queue, buffer, semaphore, after);
        if (result)
            return result;
        semaphore_parameters wait = {.value = after + 1}, signal = {.value = after + 2};
        if ((result = cuda->wait(&cuda->semaphore, &wait, 1, cuda->stream)) ||
            (result = cuda_work(cuda, (unsigned)i)) ||
            (result = cuda->signal(&cuda->semaphore, &signal, 1, cuda->stream)))
            return -1000 - result;
    }
    return seconds() - start;
}
