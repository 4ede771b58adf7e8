/* layer_calls.c: calls of an engine, whose VkDevice goes through the engines layer or does not. The
 * functions are those of its vkGetDeviceProcAddr. */
#include "clock.h"
#include "interface.h"

double time_empty_submits(void *submit, VkQueue queue, long n)
{
    TIMED(n, SUCCEED(((PFN_vkQueueSubmit)submit)(queue, 0, NULL, VK_NULL_HANDLE)))
}

double time_images(void *create, void *destroy, VkDevice device, long n)
{
    const VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                    .imageType = VK_IMAGE_TYPE_2D,
                                    .format = VK_FORMAT_R8G8B8A8_UNORM,
                                    .extent = {64, 64, 1},
                                    .mipLevels = 1,
                                    .arrayLayers = 1,
                                    .samples = VK_SAMPLE_COUNT_1_BIT,
                                    .usage = VK_IMAGE_USAGE_SAMPLED_BIT};
    VkImage image;
    TIMED(n, SUCCEED(((PFN_vkCreateImage)create)(device, &info, NULL, &image));
          ((PFN_vkDestroyImage)destroy)(device, image, NULL))
}

/* Recorded, and thrown away. */
double time_draws(void *begin, void *draw, void *end, VkCommandBuffer commands, long n)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    SUCCEED(((PFN_vkBeginCommandBuffer)begin)(commands, &info));
    double start = seconds();
    for (long i = 0; i < n; i++)
        ((PFN_vkCmdDraw)draw)(commands, 3, 1, 0, 0);
    double took = seconds() - start;
    SUCCEED(((PFN_vkEndCommandBuffer)end)(commands));
    return took;
}
