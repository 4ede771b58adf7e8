/* chain.c: one VkSwapchainKHR: its images, their views, and the barrier that each needs before its first use. */
#include <stdio.h>
#include <stdlib.h>

#include "present.h"

vks_status vks_present_result(vks_swapchain *s, VkResult code, const char *call)
{
    switch (code) {
    case VK_SUCCESS:
        return VKS_OK;
    case VK_ERROR_DEVICE_LOST:
        return vks_fail(VKS_DEVICE_LOST, code, "%s", call);
    case VK_ERROR_SURFACE_LOST_KHR:
        atomic_store(&s->is_lost, true);
        return vks_fail(VKS_SURFACE_LOST, code, "%s", call);
    default:
        return vks_fail(VKS_VULKAN_ERROR, code, "%s", call);
    }
}

void vks_present_name(vks_swapchain *s, VkObjectType type, uint64_t handle, const char *what, uint64_t number)
{
    if (!s->vk.SetName)
        return;
    char name[64];
    snprintf(name, sizeof name, "vkshare %s %llu", what, (unsigned long long)number);
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = name};
    s->vk.SetName(s->vk_device, &info);
}

/* ---- making one ---- */

static uint32_t clamp_count(uint32_t wanted, const VkSurfaceCapabilitiesKHR *can)
{
    if (wanted < can->minImageCount)
        wanted = can->minImageCount;
    return can->maxImageCount && wanted > can->maxImageCount ? can->maxImageCount : wanted;
}

bool vks_mode_is_listed(const vks_swapchain *s, uint32_t mode)
{
    for (uint32_t i = 0; i < s->vulkan.n_modes; i++)
        if (s->vulkan.modes[i] == mode)
            return true;
    return false;
}

static vks_status create_swapchain(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent,
                                   vks_chain *old, vks_chain *chain)
{
    VkSwapchainPresentModesCreateInfoEXT modes = {.sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_MODES_CREATE_INFO_EXT,
                                                  .presentModeCount = s->vulkan.n_modes,
                                                  .pPresentModes = (const VkPresentModeKHR *)s->vulkan.modes};
    chain->mode = atomic_load(&s->mode);
    VkSwapchainCreateInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
        .pNext = vks_mode_is_listed(s, chain->mode) ? &modes : NULL,
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
        .presentMode = (VkPresentModeKHR)chain->mode,
        .clipped = VK_FALSE, /* what is shown may be read back by capture() */
        .oldSwapchain = old ? (VkSwapchainKHR)(uintptr_t)old->handle : VK_NULL_HANDLE,
    };
    VkSwapchainKHR handle = VK_NULL_HANDLE;
    vks_status status =
        vks_present_result(s, s->vk.CreateSwapchainKHR(s->vk_device, &info, NULL, &handle), "vkCreateSwapchainKHR");
    chain->handle = status ? 0 : (uint64_t)(uintptr_t)handle;
    if (!status)
        vks_present_name(s, VK_OBJECT_TYPE_SWAPCHAIN_KHR, chain->handle, "swapchain", s->generation + 1);
    return status;
}

static vks_status get_images(vks_swapchain *s, vks_chain *chain)
{
    VkSwapchainKHR handle = (VkSwapchainKHR)(uintptr_t)chain->handle;
    VkImage images[VKS_SWAPCHAIN_IMAGES];
    uint32_t n = VKS_SWAPCHAIN_IMAGES;
    VkResult code = s->vk.GetSwapchainImagesKHR(s->vk_device, handle, &n, images);
    if (code == VK_INCOMPLETE)
        return vks_fail(VKS_UNSUPPORTED, 0, "the swapchain has more than %u images: ask for fewer",
                        VKS_SWAPCHAIN_IMAGES);
    if (code != VK_SUCCESS)
        return vks_present_result(s, code, "vkGetSwapchainImagesKHR");
    chain->n = n;
    for (uint32_t i = 0; i < n; i++) {
        chain->images[i].image = (uint64_t)(uintptr_t)images[i];
        chain->images[i].swapchain = s;
        chain->images[i].frame.refill = vks_refill_frame;
    }
    return VKS_OK;
}

/* Images come in layout UNDEFINED and are at rest in PRESENT_SRC_KHR: this is for the first use of each. */
static vks_status record_fresh(vks_swapchain *s, VkCommandBuffer commands, uint64_t image)
{
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult code = s->vk.BeginCommandBuffer(commands, &begin);
    if (code != VK_SUCCESS)
        return vks_present_result(s, code, "vkBeginCommandBuffer");
    VkImageMemoryBarrier2 barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
        .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, /* where the acquire's semaphore is waited for */
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
    return vks_present_result(s, s->vk.EndCommandBuffer(commands), "vkEndCommandBuffer");
}

/* From those of chains that are gone: allocating and freeing them for each resize makes some layers grow. */
static vks_status take_commands(vks_swapchain *s, uint64_t *out)
{
    if (s->spare_commands.n) {
        *out = s->spare_commands.handles[--s->spare_commands.n];
        return VKS_OK;
    }
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = s->commands,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    vks_status status =
        vks_present_result(s, s->vk.AllocateCommandBuffers(s->vk_device, &info, &buffer), "vkAllocateCommandBuffers");
    *out = status ? 0 : (uint64_t)(uintptr_t)buffer;
    return status;
}

static vks_status make_fresh_commands(vks_swapchain *s, vks_chain *chain)
{
    vks_status status = VKS_OK;
    for (uint32_t i = 0; !status && i < chain->n; i++) {
        vks_chain_image *image = &chain->images[i];
        if (!(status = take_commands(s, &image->initial_commands)))
            status = record_fresh(s, (VkCommandBuffer)(uintptr_t)image->initial_commands, image->image);
        image->frame.initial_commands = image->initial_commands;
    }
    return status;
}

vks_status vks_chain_create(vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, VkExtent2D extent, vks_chain *old,
                            vks_chain **out)
{
    vks_chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    chain->width = extent.width;
    chain->height = extent.height;
    chain->shown = UINT32_MAX;
    vks_status status = create_swapchain(s, can, extent, old, chain);
    if (!status)
        status = get_images(s, chain);
    if (!status)
        status = make_fresh_commands(s, chain);
    if (status) {
        vks_chain_destroy(s, chain);
        return status;
    }
    *out = chain;
    return VKS_OK;
}

void vks_chain_destroy(vks_swapchain *s, vks_chain *chain)
{
    VkSurfaceCapabilitiesKHR ignored;
    if (chain->handle && !chain->was_presented)
        /* On X11 SwiftShader attaches the images' shared memory without a flush. Destroyed before the server has come
         * to that, it is an X error, which ends a process that does not expect one: a round trip comes between. */
        s->vk.GetCapabilities((VkPhysicalDevice)(uintptr_t)s->vulkan.physical_device,
                              (VkSurfaceKHR)(uintptr_t)s->vulkan.surface, &ignored);
    for (uint32_t i = 0; i < chain->n; i++) {
        vks_chain_image *image = &chain->images[i];
        if (image->surface) {
            pthread_mutex_lock(&s->device->lock);
            image->surface->presentable = NULL;
            pthread_mutex_unlock(&s->device->lock);
            vks_surface_unref(image->surface);
        }
        if (image->view)
            s->vk.DestroyImageView(s->vk_device, (VkImageView)(uintptr_t)image->view, NULL);
        vks_keep_handle(&s->spare_commands, image->initial_commands); /* the command pool has it in any case */
    }
    if (chain->handle)
        s->vk.DestroySwapchainKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)chain->handle, NULL);
    free(chain);
}
