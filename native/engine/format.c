/* format.c: Vulkan's names of the formats. */
#include "engine/engine.h"

VkFormat vks_vulkan_format(uint32_t format)
{
    static const VkFormat formats[] = {VK_FORMAT_UNDEFINED,
                                       VK_FORMAT_R8_UNORM,
                                       VK_FORMAT_R8G8_UNORM,
                                       VK_FORMAT_R8G8B8A8_UNORM,
                                       VK_FORMAT_R8G8B8A8_SRGB,
                                       VK_FORMAT_B8G8R8A8_UNORM,
                                       VK_FORMAT_A2B10G10R10_UNORM_PACK32,
                                       VK_FORMAT_R32_SFLOAT,
                                       VK_FORMAT_R16G16B16A16_SFLOAT,
                                       VK_FORMAT_R32G32B32A32_SFLOAT,
                                       VK_FORMAT_R16_SFLOAT,
                                       VK_FORMAT_R16G16_SFLOAT,
                                       VK_FORMAT_R16_UNORM,
                                       VK_FORMAT_R16G16_UNORM,
                                       VK_FORMAT_R16G16B16A16_UNORM,
                                       VK_FORMAT_R32_UINT,
                                       VK_FORMAT_D16_UNORM,
                                       VK_FORMAT_D32_SFLOAT,
                                       VK_FORMAT_G8_B8R8_2PLANE_420_UNORM,
                                       VK_FORMAT_G10X6_B10X6R10X6_2PLANE_420_UNORM_3PACK16,
                                       VK_FORMAT_G8_B8_R8_3PLANE_420_UNORM,
                                       VK_FORMAT_G8_B8R8_2PLANE_422_UNORM,
                                       VK_FORMAT_G8_B8_R8_3PLANE_444_UNORM};
    return format < sizeof formats / sizeof *formats ? formats[format] : VK_FORMAT_UNDEFINED;
}
