/* image.c: a surface's VkImage and its memory: made, exported, imported, destroyed.
 *
 * All properties follow from the numbers of a descriptor and from the driver, so both sides of a
 * hand-over make the same image.
 */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raster/format.h"
#include "shm/memory.h"

#define LARGEST_HEADER                                                                                                 \
    (UINT64_C(1) << 16) /* bytes before the pixels; lavapipe has a page of them, SwiftShader none                      \
                         */

static const VkExternalMemoryHandleTypeFlagBits opaque_fd = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;

/* ---- what the driver is asked for ---- */

static VkImageUsageFlags attachment(uint32_t format)
{
    return vks_format_is_depth(format) ? VK_IMAGE_USAGE_DEPTH_STENCIL_ATTACHMENT_BIT
                                       : VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT;
}

VkImageUsageFlags vks_image_usage(const vks_surface_body *body)
{
    return VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | /* for zeros, read() and write() */
           (body->usage & VKS_USAGE_RENDER ? attachment(body->format) : 0) |
           (body->usage & VKS_USAGE_SAMPLE ? VK_IMAGE_USAGE_SAMPLED_BIT : 0) |
           (body->usage & VKS_USAGE_STORAGE ? VK_IMAGE_USAGE_STORAGE_BIT : 0);
}

VkImageTiling vks_image_tiling(const vks_surface_body *body)
{
    return body->tiling == VKS_OPTIMAL ? VK_IMAGE_TILING_OPTIMAL : VK_IMAGE_TILING_LINEAR;
}

/* Views of a -srgb image see its codes as they are stored, too. */
static VkImageCreateFlags create_flags(const vks_surface_body *body)
{
    return vks_vulkan_format(body->format) == VK_FORMAT_R8G8B8A8_SRGB ? VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT : 0;
}

vks_status vks_image_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                   VkExternalMemoryFeatureFlags needed)
{
    if (vks_image_is_buffer(image))
        return vks_buffer_check_support(image, handle_type, needed);
    if (vks_image_is_planar(image))
        return vks_planes_check_support(image, handle_type, needed);
    const vks_engine *engine = image->engine;
    vks_surface_body *body = &image->body;
    VkPhysicalDeviceExternalImageFormatInfo external = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO, .handleType = handle_type};
    VkPhysicalDeviceImageFormatInfo2 info = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2,
                                             /* NVIDIA has no images where a chain names type 0. */
                                             .pNext = handle_type ? &external : NULL,
                                             .format = vks_vulkan_format(body->format),
                                             .type = VK_IMAGE_TYPE_2D,
                                             .tiling = vks_image_tiling(body),
                                             .usage = vks_image_usage(body),
                                             .flags = create_flags(body)};
    VkExternalImageFormatProperties shared = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES};
    VkImageFormatProperties2 answer = {.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2,
                                       .pNext = handle_type ? &shared : NULL};
    const char *name = engine->physical.adapter.name, *tiling = body->tiling == VKS_OPTIMAL ? "optimal" : "linear";
    if (vks_format_is_depth(body->format) && body->tiling != VKS_OPTIMAL)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "a linear image of format %u: depth is in the driver's own order: use VKS_OPTIMAL, or copy it",
                        body->format);
    VkResult code = engine->instance.GetPhysicalDeviceImageFormatProperties2(engine->physical.handle, &info, &answer);
    VkExternalMemoryFeatureFlags features = shared.externalMemoryProperties.externalMemoryFeatures;
    if (code == VK_ERROR_FORMAT_NOT_SUPPORTED || (!code && (features & needed) != needed))
        return vks_fail(VKS_UNSUPPORTED, code, "%s cannot %s %s images of format %u for usage %u", name,
                        code ? "make" : "share", tiling, body->format, body->usage);
    if (code)
        return vks_vulkan_result(code, "vkGetPhysicalDeviceImageFormatProperties2");
    VkExtent3D most = answer.imageFormatProperties.maxExtent;
    if (body->width > most.width || body->height > most.height)
        return vks_fail(VKS_BAD_VALUE, 0, "the size is %ux%u; %s allows 1x1 to %ux%u for %s images of format %u",
                        body->width, body->height, name, most.width, most.height, tiling, body->format);
    image->must_be_dedicated = (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
    return VKS_OK;
}

/* ---- making the image ---- */

/* Where the driver has a family that only copies, every device's images are shared with it, an
 * engine's too: both sides of a hand-over must make the same image. Returns the number of
 * families. */
uint32_t vks_image_sharing_families(const vks_engine *engine, uint32_t families[3])
{
    const vks_physical *physical = &engine->physical;
    uint32_t n = 0, users[] = {physical->graphics_family, physical->transfer_family, engine->families[VKS_GRAPHICS]};
    if (physical->transfer_family == VK_QUEUE_FAMILY_IGNORED)
        return 0;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (i < 2 || users[i] != users[0])
            families[n++] = users[i];
    return n;
}

void vks_image_set_requirements(vks_surface_image *image, const VkMemoryRequirements2 *needs,
                                const VkMemoryDedicatedRequirements *dedicated)
{
    image->needs = needs->memoryRequirements;
    image->body.memory_size = image->needs.size;
    image->must_be_dedicated |= dedicated->requiresDedicatedAllocation;
    image->body.dedicated = image->must_be_dedicated || dedicated->prefersDedicatedAllocation;
}

void vks_image_read_requirements(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    vks_surface_body *body = &image->body;
    VkImageMemoryRequirementsInfo2 asked = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_REQUIREMENTS_INFO_2,
                                            .image = image->handle};
    VkMemoryDedicatedRequirements dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
    VkMemoryRequirements2 needs = {.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2, .pNext = &dedicated};
    engine->GetImageMemoryRequirements2(engine->handle, &asked, &needs);
    vks_image_set_requirements(image, &needs, &dedicated);
    /* NVIDIA compresses small images in allocations of other kinds, of which CUDA does not know. */
    body->dedicated |= body->tiling == VKS_LINEAR_IN_DEVICE_MEMORY;
    if (body->tiling == VKS_OPTIMAL)
        return;
    VkImageSubresource subresource = {.aspectMask = VK_IMAGE_ASPECT_COLOR_BIT};
    VkSubresourceLayout layout;
    engine->GetImageSubresourceLayout(engine->handle, image->handle, &subresource, &layout);
    body->stride = layout.rowPitch;
    image->first_row = layout.offset;
}

vks_status vks_image_create_handle(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type)
{
    if (vks_image_is_buffer(image))
        return vks_buffer_create_handle(image, handle_type);
    if (vks_image_is_planar(image))
        return vks_planes_create_handles(image, handle_type);
    vks_engine *engine = image->engine;
    const vks_surface_body *body = &image->body;
    uint32_t families[3], n_families = vks_image_sharing_families(engine, families);
    VkExternalMemoryImageCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
                                                .handleTypes = handle_type};
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .pNext = &external,
                              .flags = create_flags(body),
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = vks_vulkan_format(body->format),
                              .extent = {body->width, body->height, 1},
                              .mipLevels = 1,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .tiling = vks_image_tiling(body),
                              .usage = vks_image_usage(body),
                              .sharingMode = n_families ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
                              .queueFamilyIndexCount = n_families,
                              .pQueueFamilyIndices = families,
                              .initialLayout = VK_IMAGE_LAYOUT_UNDEFINED};
    vks_status status =
        vks_vulkan_result(engine->CreateImage(engine->handle, &info, NULL, &image->handle), "vkCreateImage");
    if (!status)
        vks_image_read_requirements(image);
    return status;
}

/* ---- its memory ---- */

/* A buffer on a GPU is for shaders and CUDA. */
static bool is_for_host(const vks_surface_image *image)
{
    return vks_image_is_buffer(image) ? image->engine->physical.adapter.is_software : image->body.tiling == VKS_LINEAR;
}

/* An import must choose as the export did (VUID-VkMemoryAllocateInfo-memoryTypeIndex-01742). */
static uint32_t memory_type(const vks_surface_image *image)
{
    static const VkMemoryPropertyFlags coherent =
                                           VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                       for_host[] = {coherent | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, coherent, 0},
                                       for_device[] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    return vks_physical_memory_type(&image->engine->physical, image->needs.memoryTypeBits,
                                    is_for_host(image) ? for_host : for_device);
}

VkDeviceSize vks_image_heap_size(const vks_surface_image *image)
{
    const VkPhysicalDeviceMemoryProperties *memory = &image->engine->physical.memory;
    return memory->memoryHeaps[memory->memoryTypes[memory_type(image)].heapIndex].size;
}

static vks_status allocate(vks_surface_image *image, const void *extra)
{
    vks_engine *engine = image->engine;
    uint32_t type = memory_type(image);
    VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                               .pNext = extra,
                                               .image = image->handle,
                                               .buffer = image->buffer};
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = image->body.dedicated ? &dedicated : extra,
                                 .allocationSize = image->body.memory_size,
                                 .memoryTypeIndex = type};
    vks_status status =
        vks_vulkan_result(engine->AllocateMemory(engine->handle, &info, NULL, &image->memory), "vkAllocateMemory");
    image->is_mappable = !status && is_for_host(image) && vks_physical_is_mappable(&engine->physical, type);
    return status;
}

static vks_status allocate_exportable(vks_surface_image *image)
{
    VkExportMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                       .handleTypes = opaque_fd};
    return allocate(image, &info);
}

static vks_status import(vks_surface_image *image, int fd)
{
    VkImportMemoryFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                    .handleType = opaque_fd,
                                    .fd = vks_dup(fd)}; /* the driver's, once the import has succeeded */
    if (info.fd < 0 || (image->fd = vks_dup(fd)) < 0) {
        int code = errno;
        if (info.fd >= 0)
            close(info.fd);
        return vks_fail(VKS_OS_ERROR, code, "the memory's fd could not be duplicated");
    }
    vks_status status = allocate(image, &info);
    if (status)
        close(info.fd);
    return status == VKS_VULKAN_ERROR
               ? vks_fail(VKS_BAD_PAGE, vks_last_error()->code, "the driver refused the descriptor's memory")
               : status;
}

vks_status vks_image_driver_fd(const vks_surface_image *image, int *fd)
{
    vks_engine *engine = image->engine;
    int raw = -1;
    VkMemoryGetFdInfoKHR info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = image->memory, .handleType = opaque_fd};
    vks_status status = vks_vulkan_result(engine->GetMemoryFdKHR(engine->handle, &info, &raw), "vkGetMemoryFdKHR");
    if (status)
        return status;
    if (raw < 0) /* lavapipe calls that a success where there are no file descriptors left */
        return vks_fail(VKS_OS_ERROR, EMFILE, "%s gives no fd of its memory", engine->physical.adapter.name);
    status = vks_duplicate_fd(raw, "the memory's fd", fd); /* lavapipe's come without CLOEXEC */
    close(raw);
    return status;
}

static vks_status map(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    void *mapped;
    vks_status status = vks_vulkan_result(
        engine->MapMemory(engine->handle, image->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    if (!status)
        image->mapped = mapped;
    return status;
}

/* Copies the driver's header, for importers other than vkshare. */
static vks_status new_pages(int own, const void *address, int *fd, uint64_t *offset)
{
    struct stat file;
    unsigned char header[LARGEST_HEADER];
    if (fstat(own, &file) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "the driver's fd cannot be used");
    vks_status status = vks_memfd_create("vkshare:surface", (uint64_t)file.st_size, false, fd, NULL);
    if (status || (status = vks_memory_replace(own, *fd, address, offset)))
        return status;
    if (*offset <= sizeof header &&
        (pread(own, header, *offset, 0) != (ssize_t)*offset || pwrite(*fd, header, *offset, 0) != (ssize_t)*offset))
        return vks_fail(VKS_OS_ERROR, errno, "the header of the driver's memory could not be copied");
    return VKS_OK;
}

/* Puts pages of a sealed memfd in the place of a software driver's own (X26): new ones, or those of
 * `fd` (-1: none), which stays the caller's. The driver's file never leaves the process, and no
 * driver opens a file from outside, because lavapipe trusts the header in it. */
static vks_status share_pages(vks_surface_image *image, int fd)
{
    const char *name = image->engine->physical.adapter.name;
    uint64_t offset = 0;
    int own = -1;
    if (!vks_physical_is_mappable(&image->engine->physical, memory_type(image)))
        return vks_fail(VKS_UNSUPPORTED, 0, "%s does not let the CPU see its images", name);
    vks_status status = vks_image_driver_fd(image, &own);
    if (status || (status = map(image)))
        goto end;
    if (fd < 0)
        status = new_pages(own, image->mapped, &image->fd, &offset);
    else if (!(status = vks_duplicate_fd(fd, "the memory's fd", &image->fd)))
        status = vks_memory_replace(own, fd, image->mapped, &offset);
    if (!status && offset > LARGEST_HEADER)
        status = vks_fail(VKS_UNSUPPORTED, 0, "the memory of %s begins %llu bytes into its file", name,
                          (unsigned long long)offset);
    image->pages_at = offset;
end:
    if (own >= 0)
        close(own);
    return status;
}

vks_status vks_image_allocate_shared(vks_surface_image *image)
{
    vks_status status = allocate_exportable(image);
    return status || !image->engine->physical.adapter.is_software ? status : share_pages(image, -1);
}

vks_status vks_image_take_memory(vks_surface_image *image, int fd)
{
    if (!image->engine->physical.adapter.is_software)
        return import(image, fd);
    vks_status status = allocate_exportable(image);
    return status ? status : share_pages(image, fd);
}

vks_status vks_image_export(const vks_surface_image *image, int *fd)
{
    return image->fd < 0 ? vks_image_driver_fd(image, fd) : vks_duplicate_fd(image->fd, "the memory's fd", fd);
}

/* ---- the whole ---- */

vks_surface_image *vks_image_new(vks_engine *engine, const vks_surface_body *body)
{
    vks_surface_image *image = calloc(1, sizeof *image);
    if (!image) {
        vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
        return NULL;
    }
    const vks_adapter *adapter = &engine->physical.adapter;
    image->engine = engine;
    image->fd = -1;
    image->body = (vks_surface_body){.width = body->width,
                                     .height = body->height,
                                     .format = body->format,
                                     .tiling = body->tiling,
                                     .usage = body->usage,
                                     .memory_kind = VKS_OPAQUE_FD,
                                     .color = body->color};
    memcpy(image->body.device_uuid, adapter->device_uuid, VK_UUID_SIZE);
    memcpy(image->body.driver_uuid, adapter->driver_uuid, VK_UUID_SIZE);
    pthread_mutex_lock(&engine->lock);
    image->next = engine->images;
    if (image->next)
        image->next->previous = image;
    engine->images = image;
    pthread_mutex_unlock(&engine->lock);
    return image;
}

vks_status vks_image_bind(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    VkDeviceSize offset = image->body.memory_offset;
    vks_status status =
        vks_image_is_buffer(image)
            ? vks_vulkan_result(engine->BindBufferMemory(engine->handle, image->buffer, image->memory, offset),
                                "vkBindBufferMemory")
            : vks_image_bind_handles(image);
    if (!status && image->is_mappable && !image->mapped)
        status = map(image);
    if (!status && image->is_mappable)
        image->pixels = (char *)image->mapped + offset + image->first_row;
    return status ? status : vks_image_record_ownership(image);
}

vks_status vks_image_create(vks_engine *engine, const vks_surface_body *body, bool has_tight_rows,
                            vks_surface_image **out)
{
    vks_surface_image *image = vks_image_new(engine, body);
    vks_status status =
        image ? vks_image_check_support(image, opaque_fd, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) : VKS_NO_MEMORY;
    if (!status && !(status = vks_image_create_handle(image, opaque_fd)) && has_tight_rows)
        status = vks_image_check_tight(image);
    if (!status && !(status = vks_image_allocate_shared(image)) && !(status = vks_image_bind(image)))
        status = vks_image_start(image);
    if (status && image)
        vks_image_free(image);
    *out = image;
    return status;
}

/* X16: the declaration is what this driver would export. lavapipe accepts an import that is too
 * small. */
static vks_status check_declared(const vks_surface_image *image, const vks_surface_body *declared)
{
    const vks_surface_body *body = &image->body;
    const struct {
        const char *name;
        uint64_t declared, needed;
    } numbers[] = {{"memory_size", declared->memory_size, body->memory_size},
                   {"memory_offset", declared->memory_offset, 0},
                   {"stride", declared->stride, body->stride},
                   {"dedicated", declared->dedicated, body->dedicated}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].declared != numbers[i].needed)
            return vks_fail(VKS_BAD_PAGE, 0, "the descriptor's %s is %llu; this driver needs %llu", numbers[i].name,
                            (unsigned long long)numbers[i].declared, (unsigned long long)numbers[i].needed);
    return VKS_OK;
}

vks_status vks_image_open(vks_engine *engine, const vks_surface_descriptor *descriptor, vks_surface_image **out)
{
    const vks_adapter *adapter = &engine->physical.adapter;
    bool is_software = adapter->is_software;
    vks_status status = vks_surface_descriptor_check_device(descriptor, adapter->device_uuid, adapter->driver_uuid);
    if (status)
        return status;
    vks_surface_image *image = vks_image_new(engine, &descriptor->body);
    status = image ? vks_image_check_support(image, opaque_fd,
                                             is_software ? VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT
                                                         : VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)
                   : VKS_NO_MEMORY;
    if (status == VKS_BAD_VALUE) /* its size */
        status = VKS_BAD_PAGE;
    if (!status && !(status = vks_image_create_handle(image, opaque_fd)) &&
        !(status = check_declared(image, &descriptor->body)))
        status = vks_image_take_memory(image, descriptor->memory_fd);
    if (!status)
        status = vks_image_bind(image);
    if (status && image)
        vks_image_free(image);
    *out = image;
    return status;
}

void vks_image_destroy_objects(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    for (uint32_t family = 0; family < engine->n_families; family++)
        for (int i = 0; i < 2; i++)
            if (image->commands[family][i])
                engine->FreeCommandBuffers(engine->handle, engine->pools[family], 1, &image->commands[family][i]);
    if (image->initial)
        engine->FreeCommandBuffers(engine->handle, engine->pools[VKS_GRAPHICS], 1, &image->initial);
    if (!image->is_adopted) {
        for (uint32_t i = 0; i < VKS_MOST_PLANES; i++)
            if (image->planes[i].handle != image->handle)
                engine->DestroyImage(engine->handle, image->planes[i].handle, NULL);
        engine->DestroyImage(engine->handle, image->handle, NULL);
        engine->DestroyBuffer(engine->handle, image->buffer, NULL);
        engine->FreeMemory(engine->handle, image->memory, NULL);
    }
    image->handle = VK_NULL_HANDLE;
    image->buffer = VK_NULL_HANDLE;
    image->pixels = image->mapped = NULL;
    *(image->previous ? &image->previous->next : &engine->images) = image->next;
    if (image->next)
        image->next->previous = image->previous;
    image->is_destroyed = true;
    if (image->on_close)
        image->on_close(image->user);
}

void vks_image_free(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    pthread_mutex_lock(&engine->lock);
    if (!image->is_destroyed)
        vks_image_destroy_objects(image);
    pthread_mutex_unlock(&engine->lock);
    if (image->host_memory && !image->is_array)
        munmap(image->host_memory, image->body.memory_size);
    if (image->fd >= 0)
        close(image->fd);
    free(image);
}
