/* generation.c: one VkSwapchainKHR: its images, their views, and each image's first barrier. */
#include <stdlib.h>

#include "swapchain_state.h"

/* ---- creation ---- */

static uint32_t clamp_count(uint32_t wanted, const VkSurfaceCapabilitiesKHR *can)
{
    if (wanted < can->minImageCount)
        wanted = can->minImageCount;
    return can->maxImageCount && wanted > can->maxImageCount ? can->maxImageCount : wanted;
}

static bool mode_is_listed(const vks_swapchain *s, uint32_t mode)
{
    for (uint32_t i = 0; i < s->vulkan.n_modes; i++)
        if (s->vulkan.modes[i] == mode)
            return true;
    return false;
}

bool vks_generation_can_change_mode(const vks_swapchain *s, const vks_generation *generation, uint32_t mode)
{
    return mode_is_listed(s, generation->mode) && mode_is_listed(s, mode);
}

static vks_status create_swapchain(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent,
                                   vks_generation *old, vks_generation *generation)
{
    VkSwapchainPresentModesCreateInfoEXT modes = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_MODES_CREATE_INFO_EXT,
                                                  .presentModeCount = s->vulkan.n_modes,
                                                  .pPresentModes = (const VkPresentModeKHR *)s->vulkan.modes};
    generation->mode = atomic_load(&s->mode);
    VkSwapchainCreateInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
        .pNext = mode_is_listed(s, generation->mode) ? &modes : NULL,
        .surface = (VkSurfaceKHR)(uintptr_t)s->vulkan.surface,
        .minImageCount = clamp_count(s->info.image_count, can),
        .imageFormat = (VkFormat)s->vulkan.format,
        .imageColorSpace = (VkColorSpaceKHR)s->vulkan.color_space,
        .imageExtent = extent,
        .imageArrayLayers = 1,
        .imageUsage = s->vulkan.usage,
        .imageSharingMode = VK_SHARING_MODE_EXCLUSIVE,
        .preTransform = can->currentTransform,
        .compositeAlpha = (VkCompositeAlphaFlagBitsKHR)s->vulkan.composite_alpha,
        .presentMode = (VkPresentModeKHR)generation->mode,
        .clipped = VK_FALSE, /* capture() may read the shown image */
        .oldSwapchain = old ? (VkSwapchainKHR)(uintptr_t)old->handle : VK_NULL_HANDLE,
    };
    VkSwapchainKHR handle = VK_NULL_HANDLE;
    vks_status status =
        vks_driver_result(s, s->vk.CreateSwapchainKHR(s->vk_device, &info, NULL, &handle), "vkCreateSwapchainKHR");
    generation->handle = status ? 0 : (uint64_t)(uintptr_t)handle;
    if (!status)
        vks_driver_name(s, VK_OBJECT_TYPE_SWAPCHAIN_KHR, generation->handle, "swapchain", s->newest_generation + 1);
    return status;
}

static vks_status get_images(vks_swapchain *s, vks_generation *generation)
{
    VkSwapchainKHR handle = (VkSwapchainKHR)(uintptr_t)generation->handle;
    VkImage images[VKS_SWAPCHAIN_IMAGES];
    uint32_t n = VKS_SWAPCHAIN_IMAGES;
    VkResult code = s->vk.GetSwapchainImagesKHR(s->vk_device, handle, &n, images);
    if (code == VK_INCOMPLETE)
        return vks_fail(VKS_UNSUPPORTED, 0, "the swapchain has more than %u images; request fewer",
                        VKS_SWAPCHAIN_IMAGES);
    if (code != VK_SUCCESS)
        return vks_driver_result(s, code, "vkGetSwapchainImagesKHR");
    generation->n = n;
    for (uint32_t i = 0; i < n; i++) {
        generation->images[i].image = (uint64_t)(uintptr_t)images[i];
        generation->images[i].swapchain = s;
        generation->images[i].frame.refill = vks_refill_frame;
    }
    return VKS_OK;
}

/* Records the first barrier of an image, from UNDEFINED to PRESENT_SRC_KHR, the layout between
 * frames. */
static vks_status record_fresh(vks_swapchain *s, VkCommandBuffer commands, uint64_t image)
{
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult code = s->vk.BeginCommandBuffer(commands, &begin);
    if (code != VK_SUCCESS)
        return vks_driver_result(s, code, "vkBeginCommandBuffer");
    VkImageMemoryBarrier2 barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
        .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, /* the stage of the wait for the acquire's semaphore */
        .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
        .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
        .newLayout = VK_IMAGE_LAYOUT_PRESENT_SRC_KHR,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = (VkImage)(uintptr_t)image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    VkDependencyInfo dependency = {
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .imageMemoryBarrierCount = 1, .pImageMemoryBarriers = &barrier};
    s->vk.CmdPipelineBarrier2(commands, &dependency);
    return vks_driver_result(s, s->vk.EndCommandBuffer(commands), "vkEndCommandBuffer");
}

/* Reuses command buffers of destroyed generations: allocating them for each resize makes some
 * layers grow. */
static vks_status take_commands(vks_swapchain *s, uint64_t *out)
{
    if (vks_pool_take(&s->spare_commands, out))
        return VKS_OK;
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = s->commands,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    vks_status status =
        vks_driver_result(s, s->vk.AllocateCommandBuffers(s->vk_device, &info, &buffer), "vkAllocateCommandBuffers");
    *out = status ? 0 : (uint64_t)(uintptr_t)buffer;
    return status;
}

static vks_status make_fresh_commands(vks_swapchain *s, vks_generation *generation)
{
    vks_status status = VKS_OK;
    for (uint32_t i = 0; !status && i < generation->n; i++) {
        vks_present_image *image = &generation->images[i];
        if (!(status = take_commands(s, &image->initial_commands)))
            status = record_fresh(s, (VkCommandBuffer)(uintptr_t)image->initial_commands, image->image);
        image->frame.initial_commands = image->initial_commands;
    }
    return status;
}

vks_status vks_generation_create(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent,
                                 vks_generation *old, vks_generation **out)
{
    vks_generation *generation = calloc(1, sizeof *generation);
    if (!generation)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    generation->width = extent.width;
    generation->height = extent.height;
    generation->shown = UINT32_MAX;
    vks_status status = create_swapchain(s, can, extent, old, generation);
    if (!status)
        status = get_images(s, generation);
    if (!status)
        status = make_fresh_commands(s, generation);
    if (status) {
        vks_generation_destroy(s, generation);
        return status;
    }
    *out = generation;
    return VKS_OK;
}

void vks_generation_destroy(vks_swapchain *s, vks_generation *generation)
{
    VkSurfaceCapabilitiesKHR ignored;
    if (generation->handle && !generation->was_presented)
        /* On X11, SwiftShader attaches the images' shared memory without a flush. If that memory is
         * destroyed before the server has processed the request, the resulting X error ends a
         * process that has no handler. This round trip prevents it. */
        s->vk.GetCapabilities((VkPhysicalDevice)(uintptr_t)s->vulkan.physical_device,
                              (VkSurfaceKHR)(uintptr_t)s->vulkan.surface, &ignored);
    for (uint32_t i = 0; i < generation->n; i++) {
        vks_present_image *image = &generation->images[i];
        if (image->surface) {
            pthread_mutex_lock(&s->device->lock);
            image->surface->presentable = NULL;
            pthread_mutex_unlock(&s->device->lock);
            if (s->vulkan.surface_format) /* made here; else its creator closes it */
                vks_surface_close(image->surface);
            vks_surface_unref(image->surface);
        }
        if (image->view)
            s->vk.DestroyImageView(s->vk_device, (VkImageView)(uintptr_t)image->view, NULL);
        if (image->initial_commands)
            vks_pool_add(&s->spare_commands,
                         image->initial_commands); /* without memory the command pool still has it */
    }
    if (generation->handle)
        s->vk.DestroySwapchainKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)generation->handle, NULL);
    free(generation);
}
