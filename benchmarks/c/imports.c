/* imports.c: memory of another party becomes an image of this device, and what the order of its users needs. */
#include <unistd.h>

#include "clock.h"
#include "interface.h"

/* `is_shared`: other processes wait for it, too. */
static VkResult make_semaphore(const gpu *gpu, int is_shared, VkSemaphore *out)
{
    VkExportSemaphoreCreateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                            .handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .pNext = is_shared ? &exported : NULL,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
    return gpu->CreateSemaphore(gpu->device, &info, NULL, out);
}

static VkResult make_view(const gpu *gpu, VkImage image, VkImageView *out)
{
    VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = VK_FORMAT_R8G8B8A8_UNORM,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    return gpu->CreateImageView(gpu->device, &info, NULL, out);
}

/* 2D, optimal, of the usages of a surface. `is_external`: in memory that an fd names. */
VkImage make_image(gpu *gpu, uint32_t width, uint32_t height, int is_external)
{
    VkExternalMemoryImageCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
                                                .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .pNext = is_external ? &external : NULL,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = VK_FORMAT_R8G8B8A8_UNORM,
                              .extent = {width, height, 1},
                              .mipLevels = 1,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                                       VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_SAMPLED_BIT};
    VkImage image = VK_NULL_HANDLE;
    gpu->CreateImage(gpu->device, &info, NULL, &image);
    return image;
}

/* Memory for an image that its owner keeps, bound. */
VkDeviceMemory make_memory(gpu *gpu, VkImage image)
{
    VkMemoryRequirements needs;
    gpu->GetImageMemoryRequirements(gpu->device, image, &needs);
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = needs.size,
                                 .memoryTypeIndex = (uint32_t)__builtin_ctz(needs.memoryTypeBits)};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    if (!gpu->AllocateMemory(gpu->device, &info, NULL, &memory))
        gpu->BindImageMemory(gpu->device, image, memory, 0);
    return memory;
}

void end_image(gpu *gpu, VkImage image, VkDeviceMemory memory)
{
    gpu->DestroyImage(gpu->device, image, NULL);
    gpu->FreeMemory(gpu->device, memory, NULL);
}

static VkResult import(gpu *gpu, int fd, uint32_t width, uint32_t height, int is_dedicated, int is_shared)
{
    VkImage image = make_image(gpu, width, height, 1);
    VkMemoryRequirements needs;
    gpu->GetImageMemoryRequirements(gpu->device, image, &needs);
    VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                               .image = image};
    VkImportMemoryFdInfoKHR imported = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                        .pNext = is_dedicated ? &dedicated : NULL,
                                        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                        .fd = dup(fd)};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &imported,
                                 .allocationSize = needs.size,
                                 .memoryTypeIndex = (uint32_t)__builtin_ctz(needs.memoryTypeBits)};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkImageView view = VK_NULL_HANDLE;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    VkResult result = gpu->AllocateMemory(gpu->device, &info, NULL, &memory);
    if (result)
        close(imported.fd);
    if (!result && !(result = gpu->BindImageMemory(gpu->device, image, memory, 0)) &&
        !(result = make_view(gpu, image, &view)))
        result = make_semaphore(gpu, is_shared, &semaphore);
    gpu->DestroySemaphore(gpu->device, semaphore, NULL);
    gpu->DestroyImageView(gpu->device, view, NULL);
    end_image(gpu, image, memory);
    return result;
}

/* Imports and ends again, n times. */
double time_imports(gpu *gpu, int fd, uint32_t width, uint32_t height, int is_dedicated, int is_shared, long n)
{
    TIMED(n, SUCCEED(import(gpu, fd, width, height, is_dedicated, is_shared)))
}

/* What a user of an image that exists needs: a view, and a semaphore for the order. */
double time_adoptions(gpu *gpu, VkImage image, int is_shared, long n)
{
    VkImageView view;
    VkSemaphore semaphore;
    TIMED(n, SUCCEED(make_view(gpu, image, &view)); SUCCEED(make_semaphore(gpu, is_shared, &semaphore));
          gpu->DestroySemaphore(gpu->device, semaphore, NULL); gpu->DestroyImageView(gpu->device, view, NULL))
}
