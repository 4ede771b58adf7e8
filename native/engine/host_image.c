/* host_image.c: a surface of the CPU backend as a VkImage: its pages are mapped here, and the
 * driver imports the mapping. */

#include "engine/engine.h"

static const VkExternalMemoryHandleTypeFlagBits host_pointer = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;

/* The bytes that the driver imports: whole units of its alignment. */
static VkDeviceSize import_size(const vks_surface_image *image)
{
    VkDeviceSize alignment = image->engine->physical.host_alignment;
    return (image->needs.size + alignment - 1) / alignment * alignment;
}

/* The driver lays the image out as the CPU backend did, within its memory. */
static vks_status check_layout(const vks_surface_image *image, const vks_surface_body *declared)
{
    const char *name = image->engine->physical.adapter.name;
    if (image->body.stride != declared->stride || image->first_row)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "its rows are %llu bytes apart, and %s wants %llu: copy it, or open it on the CPU backend",
                        (unsigned long long)declared->stride, name, (unsigned long long)image->body.stride);
    if (!vks_planes_lie_as(image, declared))
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "%s wants the rows of chroma elsewhere: copy it, or open it on the CPU backend", name);
    if (import_size(image) > declared->memory_size)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "it has %llu bytes, and %s needs %llu: copy it, or open it on the CPU backend",
                        (unsigned long long)declared->memory_size, name, (unsigned long long)import_size(image));
    return VKS_OK;
}

static vks_status import(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    PFN_vkGetMemoryHostPointerPropertiesEXT ask =
        (PFN_vkGetMemoryHostPointerPropertiesEXT)engine->instance.GetDeviceProcAddr(
            engine->handle, "vkGetMemoryHostPointerPropertiesEXT");
    VkMemoryHostPointerPropertiesEXT allowed = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkResult code =
        ask ? ask(engine->handle, host_pointer, image->host_memory, &allowed) : VK_ERROR_EXTENSION_NOT_PRESENT;
    uint32_t bits = allowed.memoryTypeBits & image->needs.memoryTypeBits;
    if (code || !bits)
        return vks_fail(VKS_UNSUPPORTED, code, "%s has no memory type for its images in host memory",
                        engine->physical.adapter.name);
    uint32_t type = vks_physical_memory_type(&engine->physical, bits, (const VkMemoryPropertyFlags[]){0});
    VkImportMemoryHostPointerInfoEXT host = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                             .handleType = host_pointer,
                                             .pHostPointer = image->host_memory};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &host,
                                 .allocationSize = import_size(image),
                                 .memoryTypeIndex = type};
    image->is_mappable = vks_physical_is_mappable(&engine->physical, type);
    image->mapped = image->host_memory;
    return vks_vulkan_result(engine->AllocateMemory(engine->handle, &info, NULL, &image->memory), "vkAllocateMemory");
}

static vks_status check_array(const vks_surface_image *image, const vks_array_info *array)
{
    unsigned long long alignment = image->engine->physical.host_alignment, needed = import_size(image);
    const char *name = image->engine->physical.adapter.name;
    if ((uintptr_t)array->pixels % alignment)
        return vks_fail(VKS_BAD_VALUE, 0, "pixels is %p; %s wants a multiple of %llu", array->pixels, name, alignment);
    if (image->first_row || (array->stride != image->body.stride && array->image.height > 1))
        return vks_fail(VKS_BAD_VALUE, 0, "stride is %zu; %s wants %llu", array->stride, name,
                        (unsigned long long)image->body.stride);
    return array->size >= needed ? VKS_OK
                                 : vks_fail(VKS_BAD_VALUE, 0, "size is %zu; %s wants %llu, a multiple of %llu",
                                            array->size, name, needed, alignment);
}

vks_status vks_image_open_array(vks_engine *engine, const vks_array_info *info, vks_surface_image **out)
{
    if (!engine->has_host_memory)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "the VkDevice was made without " VKS_HOST_EXTENSION ", so it has no images in host memory");
    vks_surface_body body = vks_image_body(&info->image);
    vks_surface_image *image = vks_image_new(engine, &body);
    vks_status status =
        image ? vks_image_check_support(image, host_pointer, VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) : VKS_NO_MEMORY;
    if (!status && !(status = vks_image_create_handle(image, host_pointer)) && !(status = check_array(image, info))) {
        image->host_memory = info->pixels;
        image->is_array = image->is_foreign = true;
        if (!(status = import(image)))
            status = vks_image_bind(image);
    }
    if (status && image)
        vks_image_free(image);
    *out = image;
    return status;
}

vks_status vks_image_open_host(vks_engine *engine, const vks_surface_descriptor *descriptor, vks_surface_image **out)
{
    if (!engine->has_host_memory)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "its memory is of the CPU backend, and the VkDevice was made without " VKS_HOST_EXTENSION);
    vks_surface_image *image = vks_image_new(engine, &descriptor->body);
    void *pages = NULL;
    vks_status status = image ? vks_surface_descriptor_map(descriptor, &pages) : VKS_NO_MEMORY;
    if (!status)
        image->host_memory = pages;
    if (!status &&
        !(status = vks_image_check_support(image, host_pointer, VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)) &&
        !(status = vks_image_create_handle(image, host_pointer)))
        status = check_layout(image, &descriptor->body);
    if (image)
        image->body = descriptor->body; /* what a descriptor of it says, and the size of the mapping */
    if (!status)
        status = vks_duplicate_fd(descriptor->memory_fd, "the memory's fd", &image->fd);
    if (!status && !(status = import(image)))
        status = vks_image_bind(image);
    if (status && image)
        vks_image_free(image);
    *out = image;
    return status;
}
