/* chain.c: a swapchain, its images, and a command buffer for each that clears it, recorded once. */
#include <stdbool.h>
#include <stdlib.h>

#include "swapchain.h"

/* ---- images and commands --------------------------------------------------------------------------------------- */

static VkResult build_swapchain(chain *chain, uint32_t width, uint32_t height)
{
    gpu *gpu = chain->gpu;
    VkSurfaceCapabilitiesKHR able = {.minImageCount = 1, .currentExtent = {UINT32_MAX, UINT32_MAX}};
    if (gpu->instance)
        TRY(gpu->GetPhysicalDeviceSurfaceCapabilitiesKHR(gpu->physical, chain->surface, &able));
    uint32_t count = chain->wanted_images < able.minImageCount ? able.minImageCount : chain->wanted_images;
    if (able.maxImageCount && count > able.maxImageCount)
        count = able.maxImageCount;
    bool is_free = chain->kind == HEADLESS || able.currentExtent.width == UINT32_MAX; /* SwiftShader's is never free */
    chain->extent = is_free ? (VkExtent2D){width, height} : able.currentExtent;
    VkSwapchainCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
                                     .surface = chain->surface,
                                     .minImageCount = count,
                                     .imageFormat = chain->format,
                                     .imageExtent = chain->extent,
                                     .imageArrayLayers = 1,
                                     .imageUsage =
                                         VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                                     .preTransform = able.currentTransform ? able.currentTransform : 1,
                                     .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                                     .presentMode = VK_PRESENT_MODE_FIFO_KHR,
                                     .clipped = 1,
                                     .oldSwapchain = chain->swapchain};
    TRY(gpu->CreateSwapchainKHR(gpu->device, &info, NULL, &chain->swapchain));
    VkImage images[IMAGES];
    chain->n_images = IMAGES;
    TRY(gpu->GetSwapchainImagesKHR(gpu->device, chain->swapchain, &chain->n_images, images));
    for (uint32_t i = 0; i < chain->n_images; i++)
        chain->images[i].image = images[i];
    return VK_SUCCESS;
}

static VkResult build_ring(chain *chain, uint32_t width, uint32_t height)
{
    gpu *gpu = chain->gpu;
    chain->extent = (VkExtent2D){width, height};
    chain->n_images = chain->wanted_images < IMAGES ? chain->wanted_images : IMAGES;
    for (uint32_t i = 0; i < chain->n_images; i++) {
        VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                  .imageType = VK_IMAGE_TYPE_2D,
                                  .format = chain->format,
                                  .extent = {width, height, 1},
                                  .mipLevels = 1,
                                  .arrayLayers = 1,
                                  .samples = VK_SAMPLE_COUNT_1_BIT,
                                  .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT};
        TRY(gpu->CreateImage(gpu->device, &info, NULL, &chain->images[i].image));
        VkMemoryRequirements needs;
        gpu->GetImageMemoryRequirements(gpu->device, chain->images[i].image, &needs);
        uint32_t type = 0; /* the first that is allowed: drivers put the fastest first */
        while (!(needs.memoryTypeBits >> type & 1u))
            type++;
        VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, needs.size, type};
        TRY(gpu->AllocateMemory(gpu->device, &memory, NULL, &chain->images[i].memory));
        TRY(gpu->BindImageMemory(gpu->device, chain->images[i].image, chain->images[i].memory, 0));
    }
    return VK_SUCCESS;
}

static const VkImageSubresourceRange WHOLE = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

static VkResult make_view(chain *chain, uint32_t i)
{
    gpu *gpu = chain->gpu;
    VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = chain->images[i].image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = chain->format,
                                  .subresourceRange = WHOLE};
    return gpu->CreateImageView(gpu->device, &info, NULL, &chain->images[i].view);
}

static void barrier(chain *chain, uint32_t i, VkImageMemoryBarrier2 how)
{
    how.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2;
    how.srcQueueFamilyIndex = how.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    how.image = chain->images[i].image;
    how.subresourceRange = WHOLE;
    VkDependencyInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &how};
    chain->gpu->CmdPipelineBarrier2(chain->images[i].commands, &info);
}

/* Where the image is written, and how. The acquire is waited for there. */
uint64_t chain_stage(const chain *chain)
{
    return chain->clears_by_rendering ? VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT : VK_PIPELINE_STAGE_2_CLEAR_BIT;
}

static uint64_t access(const chain *chain)
{
    return chain->clears_by_rendering ? VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT : VK_ACCESS_2_TRANSFER_WRITE_BIT;
}

static uint32_t layout(const chain *chain)
{
    return chain->clears_by_rendering ? VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL : VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL;
}

static void clear(chain *chain, uint32_t i)
{
    gpu *gpu = chain->gpu;
    VkCommandBuffer commands = chain->images[i].commands;
    VkClearColorValue red = {.float32 = {1, 0, 0, 1}};
    if (!chain->clears_by_rendering) {
        gpu->CmdClearColorImage(commands, chain->images[i].image, layout(chain), &red, 1, &WHOLE);
        return;
    }
    VkRenderingAttachmentInfo attachment = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                            .imageView = chain->images[i].view,
                                            .imageLayout = layout(chain),
                                            .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                            .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                            .clearValue = {.color = red}};
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                            .renderArea = {.extent = chain->extent},
                            .layerCount = 1,
                            .colorAttachmentCount = 1,
                            .pColorAttachments = &attachment};
    gpu->CmdBeginRendering(commands, &info);
    gpu->CmdEndRendering(commands);
}

static VkResult record(chain *chain, uint32_t i)
{
    gpu *gpu = chain->gpu;
    VkCommandBuffer commands = chain->images[i].commands;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    TRY(gpu->BeginCommandBuffer(commands, &begin));
    barrier(chain, i,
            (VkImageMemoryBarrier2){.srcStageMask = chain_stage(chain),
                                    .dstStageMask = chain_stage(chain),
                                    .dstAccessMask = access(chain),
                                    .newLayout = layout(chain)});
    clear(chain, i);
    if (chain->kind != RING)
        barrier(chain, i,
                (VkImageMemoryBarrier2){.srcStageMask = chain_stage(chain),
                                        .srcAccessMask = access(chain),
                                        .oldLayout = layout(chain),
                                        .newLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR});
    return gpu->EndCommandBuffer(commands);
}

/* Objects that outlive a replacement of the images; made when an image with that index is first acquired. */
static VkResult make_rest(chain *chain, uint32_t i)
{
    gpu *gpu = chain->gpu;
    if (chain->images[i].commands)
        return VK_SUCCESS;
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = chain->pool, .commandBufferCount = 1};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, VK_FENCE_CREATE_SIGNALED_BIT};
    TRY(gpu->AllocateCommandBuffers(gpu->device, &commands, &chain->images[i].commands));
    TRY(gpu->CreateSemaphore(gpu->device, &semaphore, NULL, &chain->images[i].rendered));
    return gpu->CreateFence(gpu->device, &fence, NULL, &chain->images[i].presented);
}

VkResult chain_build(chain *chain, uint32_t width, uint32_t height)
{
    TRY(chain->kind == RING ? build_ring(chain, width, height) : build_swapchain(chain, width, height));
    for (uint32_t i = 0; i < chain->n_images; i++) {
        TRY(make_rest(chain, i));
        TRY(make_view(chain, i));
        TRY(record(chain, i));
    }
    return VK_SUCCESS;
}

void chain_tear_down(chain *chain)
{
    gpu *gpu = chain->gpu;
    for (uint32_t i = 0; i < chain->n_images; i++) {
        gpu->DestroyImageView(gpu->device, chain->images[i].view, NULL);
        if (chain->kind == RING) {
            gpu->DestroyImage(gpu->device, chain->images[i].image, NULL);
            gpu->FreeMemory(gpu->device, chain->images[i].memory, NULL);
        }
        chain->images[i].view = chain->images[i].image = chain->images[i].memory = 0;
    }
    if (chain->swapchain)
        gpu->DestroySwapchainKHR(gpu->device, chain->swapchain, NULL);
    chain->swapchain = 0;
    chain->n_images = 0;
}

/* Until nothing runs: what one turn leaves must not be paid for by the next. */
VkResult chain_wait(chain *chain) { return chain->gpu->DeviceWaitIdle(chain->gpu->device); }

/* Records the commands anew, with the other way to clear. */
VkResult chain_clear_by_rendering(chain *chain, int by_rendering)
{
    TRY(chain_wait(chain));
    chain->clears_by_rendering = by_rendering;
    for (uint32_t i = 0; i < chain->n_images; i++)
        TRY(record(chain, i));
    return VK_SUCCESS;
}

/* ---- a swapchain ----------------------------------------------------------------------------------------------- */

static VkResult make_surface(chain *chain)
{
    gpu *gpu = chain->gpu;
    if (!gpu->instance || chain->kind == RING)
        return VK_SUCCESS;
    if (chain->kind == HEADLESS) {
        VkHeadlessSurfaceCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_HEADLESS_SURFACE_CREATE_INFO_EXT};
        TRY(gpu->CreateHeadlessSurfaceEXT(gpu->instance, &info, NULL, &chain->surface));
    }
    VkBool32 able = 0;
    TRY(gpu->GetPhysicalDeviceSurfaceSupportKHR(gpu->physical, gpu->family, chain->surface, &able));
    return able ? VK_SUCCESS : VK_ERROR_FEATURE_NOT_PRESENT;
}

static VkResult make_flights(chain *chain)
{
    gpu *gpu = chain->gpu;
    VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL,
                                    VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, gpu->family};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkFenceCreateInfo fence = {VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, NULL, VK_FENCE_CREATE_SIGNALED_BIT};
    TRY(gpu->CreateCommandPool(gpu->device, &pool, NULL, &chain->pool));
    for (uint32_t f = 0; f < chain->n_flights; f++) {
        TRY(gpu->CreateSemaphore(gpu->device, &semaphore, NULL, &chain->flights[f].acquired));
        TRY(gpu->CreateFence(gpu->device, &fence, NULL, &chain->flights[f].done));
    }
    return VK_SUCCESS;
}

/* Waits until nothing runs, and frees everything, a surface that was given too. */
void chain_close(chain *chain)
{
    if (!chain)
        return;
    gpu *gpu = chain->gpu;
    gpu->DeviceWaitIdle(gpu->device);
    chain_tear_down(chain);
    for (uint32_t i = 0; i < IMAGES; i++) {
        gpu->DestroySemaphore(gpu->device, chain->images[i].rendered, NULL);
        gpu->DestroyFence(gpu->device, chain->images[i].presented, NULL);
    }
    for (uint32_t f = 0; f < FLIGHTS; f++) {
        gpu->DestroySemaphore(gpu->device, chain->flights[f].acquired, NULL);
        gpu->DestroyFence(gpu->device, chain->flights[f].done, NULL);
    }
    gpu->DestroyCommandPool(gpu->device, chain->pool, NULL);
    if (gpu->instance && chain->surface)
        gpu->DestroySurfaceKHR(gpu->instance, chain->surface, NULL);
    free(chain);
}

/* `surface` for a WINDOW; taken over. NULL: `result` says why. */
chain *chain_open(gpu *gpu, chain_kind kind, VkSurfaceKHR surface, uint32_t width, uint32_t height, uint32_t format,
                  uint32_t n_images, uint32_t n_flights, int has_present_fences, VkResult *result)
{
    chain *made = calloc(1, sizeof *made);
    *result = VK_ERROR_OUT_OF_HOST_MEMORY;
    if (!made)
        return NULL;
    made->gpu = gpu;
    made->kind = kind;
    made->surface = surface;
    made->format = format;
    made->wanted_images = n_images;
    made->n_flights = n_flights < FLIGHTS ? n_flights : FLIGHTS;
    made->has_present_fences = has_present_fences;
    *result = make_surface(made);
    if (*result >= 0)
        *result = make_flights(made);
    if (*result >= 0)
        *result = chain_build(made, width, height);
    if (*result >= 0)
        return made;
    chain_close(made);
    return NULL;
}
