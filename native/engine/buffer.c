/* buffer.c: buffers whose memory is the library's, on both backends: what differs from images. */
#include "engine/engine.h"

#include <unistd.h>

#include "surface/message.h"
#include "surface/surface.h"

/* ---- what the driver is asked for ---- */

VkBufferUsageFlags vks_buffer_usage(const vks_surface_body *body)
{
    return VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | /* for zeros, read() and write() */
           (body->usage & VKS_BUFFER_STORAGE ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT : 0) |
           (body->usage & VKS_BUFFER_VERTEX ? VK_BUFFER_USAGE_VERTEX_BUFFER_BIT : 0) |
           (body->usage & VKS_BUFFER_INDEX ? VK_BUFFER_USAGE_INDEX_BUFFER_BIT : 0) |
           (body->usage & VKS_BUFFER_UNIFORM ? VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT : 0) |
           (body->usage & VKS_BUFFER_INDIRECT ? VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT : 0);
}

static uint64_t largest(const vks_engine *engine)
{
    VkPhysicalDeviceMaintenance3Properties allocations = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties buffers = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, .pNext = &allocations};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &buffers};
    engine->instance.GetPhysicalDeviceProperties2(engine->physical.handle, &properties);
    uint64_t least = VKS_LARGEST_MEMORY;
    least = buffers.maxBufferSize < least ? buffers.maxBufferSize : least;
    return allocations.maxMemoryAllocationSize < least ? allocations.maxMemoryAllocationSize : least;
}

vks_status vks_buffer_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                    VkExternalMemoryFeatureFlags needed)
{
    const vks_engine *engine = image->engine;
    const char *name = engine->physical.adapter.name;
    uint64_t size = vks_buffer_size(&image->body), most = largest(engine);
    if (size < 1 || size > most)
        return vks_fail(VKS_BAD_VALUE, 0, "nbytes is %llu; allowed is 1 to %llu on %s", (unsigned long long)size,
                        (unsigned long long)most, name);
    VkPhysicalDeviceExternalBufferInfo asked = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                .usage = vks_buffer_usage(&image->body),
                                                .handleType = handle_type};
    VkExternalBufferProperties shared = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    engine->instance.GetPhysicalDeviceExternalBufferProperties(engine->physical.handle, &asked, &shared);
    VkExternalMemoryFeatureFlags features = shared.externalMemoryProperties.externalMemoryFeatures;
    if ((features & needed) != needed)
        return vks_fail(VKS_UNSUPPORTED, 0, "%s cannot share the memory of buffers for usage %u", name,
                        image->body.usage);
    image->must_be_dedicated = (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
    return VKS_OK;
}

vks_status vks_buffer_create_handle(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type)
{
    vks_engine *engine = image->engine;
    uint32_t families[3], n_families = vks_image_sharing_families(engine, families);
    VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                 .handleTypes = handle_type};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .pNext = &external,
                               .size = (vks_buffer_size(&image->body) + 3) / 4 * 4, /* vkCmdFillBuffer zeros words */
                               .usage = vks_buffer_usage(&image->body),
                               .sharingMode = n_families ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
                               .queueFamilyIndexCount = n_families,
                               .pQueueFamilyIndices = families};
    vks_status status =
        vks_vulkan_result(engine->CreateBuffer(engine->handle, &info, NULL, &image->buffer), "vkCreateBuffer");
    if (status)
        return status;
    VkBufferMemoryRequirementsInfo2 asked = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2,
                                             .buffer = image->buffer};
    VkMemoryDedicatedRequirements dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 needs = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, .pNext = &dedicated};
    engine->GetBufferMemoryRequirements2(engine->handle, &asked, &needs);
    vks_image_set_requirements(image, &needs, &dedicated);
    return VKS_OK;
}

/* ---- buffers of both backends ---- */

/* The CPU backend allocates all pages at once, and no process survives an allocation of more than
 * there is. */
static uint64_t physical_memory(void)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes < VKS_LARGEST_MEMORY ? bytes : VKS_LARGEST_MEMORY;
}

vks_status vks_buffer_create(vks_device *device, const vks_buffer_info *info, vks_surface **out)
{
    const uint32_t usages = 2 * VKS_BUFFER_INDIRECT - 1, usual = VKS_BUFFER_COPY | VKS_BUFFER_STORAGE;
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    uint64_t most = device->timeline ? VKS_LARGEST_MEMORY : physical_memory();
    if (info->nbytes < 1 || info->nbytes > most)
        return vks_fail(VKS_BAD_VALUE, 0, "nbytes is %llu; allowed is 1 to %llu", (unsigned long long)info->nbytes,
                        (unsigned long long)most);
    if (info->usage & ~usages)
        return vks_fail(VKS_BAD_VALUE, (int)info->usage, "usage is 0x%x; allowed are bits of 0x%x", info->usage,
                        usages);
    vks_surface_body body = {.width = (uint32_t)info->nbytes,
                             .height = (uint32_t)(info->nbytes >> 32),
                             .tiling = VKS_BUFFER,
                             .usage = (uint8_t)(info->usage ? info->usage : usual)};
    return vks_surface_create_memory(device, &body, false, false, out);
}

vks_status vks_buffer_open(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out)
{
    VKS_NEEDS(device, descriptor, out);
    if (descriptor->body.tiling != VKS_BUFFER)
        return vks_fail(VKS_BAD_PAGE, descriptor->body.tiling,
                        "the descriptor is a surface's: vks_surface_open_image() opens it");
    return vks_surface_open_memory(device, descriptor, out);
}

vks_status vks_buffer_get_vulkan(vks_surface *buffer, vks_vulkan_buffer *out)
{
    VKS_NEEDS(buffer, out);
    vks_surface_image *image;
    vks_status status = vks_surface_vulkan_image(buffer, &image);
    if (status)
        return status;
    if (!vks_image_is_buffer(image))
        return vks_fail(VKS_UNSUPPORTED, image->body.tiling,
                        "a surface has no VkBuffer: vks_surface_get_vulkan() has the VkImage");
    *out = (vks_vulkan_buffer){.buffer = image->buffer,
                               .memory = image->memory,
                               .nbytes = vks_buffer_size(&image->body),
                               .usage = vks_buffer_usage(&image->body)};
    return VKS_OK;
}
