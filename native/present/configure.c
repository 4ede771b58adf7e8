/* configure.c: the size and the mode that the caller wants, and the VkSwapchainKHR that fits them.
 */
#include "swapchain_state.h"

vks_status vks_swapchain_resize(vks_swapchain *swapchain, uint32_t width, uint32_t height)
{
    VKS_NEEDS(swapchain);
    vks_status status = vks_swapchain_check(swapchain);
    if (!status)
        atomic_store(&swapchain->wanted, (uint64_t)width << 32 | height);
    vks_frames_changed(swapchain, VKS_FRAMES_MORE);
    return status;
}

vks_status vks_swapchain_set_mode(vks_swapchain *swapchain, uint32_t present_mode)
{
    VKS_NEEDS(swapchain);
    vks_status status = vks_swapchain_check(swapchain);
    if (!status)
        atomic_store(&swapchain->mode, present_mode);
    vks_frames_changed(swapchain, VKS_FRAMES_MORE);
    return status;
}

bool vks_swapchain_is_current(const vks_swapchain *s)
{
    const vks_generation *generation = s->current;
    uint32_t mode = atomic_load(&s->mode);
    return generation && !s->is_stale && s->made_for == atomic_load(&s->wanted) &&
           (generation->mode == mode || vks_generation_can_change_mode(s, generation, mode));
}

static vks_status get_capabilities(vks_swapchain *s, VkSurfaceCapabilitiesKHR *out)
{
    VkPhysicalDevice device = (VkPhysicalDevice)(uintptr_t)s->vulkan.physical_device;
    VkSurfaceKHR surface = (VkSurfaceKHR)(uintptr_t)s->vulkan.surface;
    return vks_driver_result(s, s->vk.GetCapabilities(device, surface, out),
                             "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
}

/* A14: returns the surface's extent, or the wanted one where the surface leaves the choice to the
 * swapchain. */
static VkExtent2D choose_extent(const vks_swapchain *s, const VkSurfaceCapabilitiesKHR *can, uint64_t wanted)
{
    VkExtent2D extent = can->currentExtent;
    if (extent.width != UINT32_MAX && !s->vulkan.sizes_itself)
        return extent;
    extent = (VkExtent2D){(uint32_t)(wanted >> 32), (uint32_t)wanted};
    if (!extent.width || !extent.height)
        return (VkExtent2D){0, 0};
    VkExtent2D low = can->minImageExtent, high = can->maxImageExtent;
    extent.width = extent.width < low.width ? low.width : extent.width > high.width ? high.width : extent.width;
    extent.height = extent.height < low.height ? low.height : extent.height > high.height ? high.height : extent.height;
    return extent;
}

vks_status vks_swapchain_configure(vks_swapchain *s, uint64_t deadline)
{
    uint64_t wanted = atomic_load(&s->wanted), last_use = 0;
    VkSurfaceCapabilitiesKHR can;
    vks_status status = get_capabilities(s, &can);
    if (status)
        return status;
    VkExtent2D extent = choose_extent(s, &can, wanted);
    if (!extent.width || !extent.height || !can.maxImageExtent.width || !can.maxImageExtent.height)
        return VKS_HIDDEN;
    vks_generation *made = NULL;
    bool was_suboptimal = s->current && s->current->is_suboptimal && s->current->width == extent.width &&
                          s->current->height == extent.height && s->made_for == wanted;
    if ((status = vks_retire_current(s, deadline, &last_use)))
        return status;
    status = vks_generation_create(s, &can, extent, s->current, &made);
    if (status == VKS_NO_MEMORY)
        return status;
    if (!status)
        made->stays_suboptimal = was_suboptimal; /* recreating it each frame would not help */
    vks_status kept = vks_replace_current(s, made, last_use);
    if (!status && (status = kept)) {
        vks_generation_destroy(s, made);
        vks_replace_current(s, NULL, last_use); /* needs no memory; the old one is retired (A12) */
    }
    if (!status) {
        s->made_for = wanted;
        s->is_stale = false;
    }
    vks_collect(s); /* destroys a swapchain that was never presented (A4) */
    return status;
}

vks_status vks_swapchain_prepare(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = vks_swapchain_enter(s, deadline);
    if (status)
        return status;
    if (s->info.vulkan && !vks_swapchain_is_current(s))
        status = vks_swapchain_configure(s, deadline);
    return vks_swapchain_leave(s, status);
}
