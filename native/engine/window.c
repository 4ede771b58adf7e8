/* window.c: swapchains on a VkSurfaceKHR, for devices of vkshare_vulkan.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "present/swapchain.h"

#define PROOF_NS UINT64_C(1000000000) /* limits of vks_swapchain_info */
#define FENCE_NS UINT64_C(5000000000)
enum { RETIRED = 4, MOST = 128 };

typedef struct window {
    const vks_engine *engine;
    VkSurfaceKHR surface;
    PFN_vkGetPhysicalDeviceSurfaceSupportKHR GetSupport;
    PFN_vkGetPhysicalDeviceSurfaceFormatsKHR GetFormats;
    PFN_vkGetPhysicalDeviceSurfacePresentModesKHR GetModes;
    PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR GetCapabilities;
} window;

/* Blending and copying are exact in these; -srgb would encode what is drawn. The best first. */
static const vks_format preferred[] = {VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGB10A2_UNORM,
                                       VKS_FORMAT_RGBA16_FLOAT, VKS_FORMAT_RGBA8_UNORM_SRGB};

static vks_status load(const vks_engine *engine, window *out)
{
    PFN_vkVoidFunction found[4];
    static const char *const names[] = {"vkGetPhysicalDeviceSurfaceSupportKHR", "vkGetPhysicalDeviceSurfaceFormatsKHR",
                                        "vkGetPhysicalDeviceSurfacePresentModesKHR",
                                        "vkGetPhysicalDeviceSurfaceCapabilitiesKHR"};
    for (int i = 0; i < 4; i++)
        if (!(found[i] = engine->instance.get(engine->instance.handle, names[i])))
            return vks_fail(VKS_UNSUPPORTED, 0, "the VkInstance was made without VK_KHR_surface");
    out->GetSupport = (PFN_vkGetPhysicalDeviceSurfaceSupportKHR)found[0];
    out->GetFormats = (PFN_vkGetPhysicalDeviceSurfaceFormatsKHR)found[1];
    out->GetModes = (PFN_vkGetPhysicalDeviceSurfacePresentModesKHR)found[2];
    out->GetCapabilities = (PFN_vkGetPhysicalDeviceSurfaceCapabilitiesKHR)found[3];
    return engine->has_swapchain
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, 0, "the VkDevice of %s was made without " VKS_SWAPCHAIN_EXTENSION,
                          engine->physical.adapter.name);
}

static vks_status check_queue(const window *w)
{
    VkBool32 can_present = VK_FALSE;
    uint32_t family = w->engine->families[VKS_GRAPHICS];
    vks_status status = vks_vulkan_result(w->GetSupport(w->engine->physical.handle, family, w->surface, &can_present),
                                          "vkGetPhysicalDeviceSurfaceSupportKHR");
    return status || can_present ? status
                                 : vks_fail(VKS_UNSUPPORTED, family, "queues of family %u of %s do not present to it",
                                            family, w->engine->physical.adapter.name);
}

/* The colour space of a format that the surface has: the standard one if it has several. */
static const VkSurfaceFormatKHR *find_format(const VkSurfaceFormatKHR *all, uint32_t n, vks_format wanted)
{
    const VkSurfaceFormatKHR *found = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (all[i].format == vks_vulkan_format(wanted) &&
            (!found || all[i].colorSpace == VK_COLOR_SPACE_SRGB_NONLINEAR_KHR))
            found = &all[i];
    return found;
}

static vks_status choose_format(const window *w, uint32_t wanted, vks_present_info *out)
{
    VkSurfaceFormatKHR all[MOST];
    uint32_t n = MOST;
    VkResult code = w->GetFormats(w->engine->physical.handle, w->surface, &n, all);
    if (code != VK_SUCCESS && code != VK_INCOMPLETE)
        return vks_vulkan_result(code, "vkGetPhysicalDeviceSurfaceFormatsKHR");
    const VkSurfaceFormatKHR *found = wanted ? find_format(all, n, wanted) : NULL;
    out->surface_format = wanted;
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred && !wanted && !found; i++)
        if ((found = find_format(all, n, preferred[i])))
            out->surface_format = preferred[i];
    if (!found)
        return vks_fail(VKS_UNSUPPORTED, wanted, "the surface has no format %u; 0 chooses among those that it has",
                        wanted);
    out->format = found->format;
    out->color_space = found->colorSpace;
    return VKS_OK;
}

static vks_status check_mode(const window *w, uint32_t wanted)
{
    VkPresentModeKHR all[MOST];
    uint32_t n = MOST;
    VkResult code = w->GetModes(w->engine->physical.handle, w->surface, &n, all);
    if (code != VK_SUCCESS && code != VK_INCOMPLETE)
        return vks_vulkan_result(code, "vkGetPhysicalDeviceSurfacePresentModesKHR");
    for (uint32_t i = 0; i < n; i++)
        if ((uint32_t)all[i] == wanted && wanted <= VK_PRESENT_MODE_FIFO_RELAXED_KHR)
            return VKS_OK;
    return vks_fail(VKS_UNSUPPORTED, wanted, "the surface has no VkPresentModeKHR %u; each has %d", wanted,
                    VK_PRESENT_MODE_FIFO_KHR);
}

static vks_status choose_usage(const window *w, vks_present_info *out)
{
    const VkImageUsageFlags wanted = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_SAMPLED_BIT |
                                     VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    VkSurfaceCapabilitiesKHR can;
    vks_status status = vks_vulkan_result(w->GetCapabilities(w->engine->physical.handle, w->surface, &can),
                                          "vkGetPhysicalDeviceSurfaceCapabilitiesKHR");
    if (status)
        return status;
    out->usage = can.supportedUsageFlags & wanted;
    out->has_views = out->usage & (VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_SAMPLED_BIT);
    VkCompositeAlphaFlagsKHR alpha = can.supportedCompositeAlpha; /* opaque: the window's alpha is ignored */
    out->composite_alpha =
        alpha & VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR ? VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR : alpha & -alpha;
    return VKS_OK;
}

vks_status vks_swapchain_open(vks_device *device, const vks_window_info *info, vks_swapchain **out)
{
    VKS_NEEDS(device, info, out);
    vks_engine *engine;
    vks_status status = vks_engine_of(device, &engine);
    if (status)
        return status;
    if (!info->surface)
        return vks_fail(VKS_BAD_VALUE, 0, "surface is VK_NULL_HANDLE: pass the window's VkSurfaceKHR");
    window w = {.engine = engine, .surface = (VkSurfaceKHR)(uintptr_t)info->surface};
    vks_present_info vulkan = {.physical_device = (uintptr_t)engine->physical.handle,
                               .surface = info->surface,
                               .queue_family = engine->families[VKS_GRAPHICS],
                               .present_mode = info->present_mode,
                               .sizes_itself = info->sizes_itself,
                               .policy = VKS_PRESENTS_BY_ACQUIRES};
    if ((status = load(engine, &w)) || (status = check_queue(&w)) ||
        (status = choose_format(&w, info->format, &vulkan)) || (status = check_mode(&w, info->present_mode)) ||
        (status = choose_usage(&w, &vulkan)))
        return status;
    memcpy(&vulkan.get_capabilities, &w.GetCapabilities, sizeof vulkan.get_capabilities);
    vks_swapchain_info made = {.device = device,
                               .vulkan = &vulkan,
                               .width = info->width,
                               .height = info->height,
                               .image_count = info->image_count ? info->image_count : 3,
                               .frames_in_flight = info->frames_in_flight ? info->frames_in_flight : 2,
                               .retired_limit = RETIRED,
                               .proof_deadline = PROOF_NS,
                               .fence_deadline = FENCE_NS};
    return vks_swapchain_create(&made, out);
}
