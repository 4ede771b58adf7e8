/* adopted.c: images that an engine made on the device's VkDevice (rule E2). */
#include <unistd.h>

#include "engine/engine.h"
#include "raster/format.h"
#include "shm/memory.h"
#include "surface/surface.h"

static vks_status check_info(const vks_adopt_image_info *info)
{
    const VkImageLayout layouts[] = {
        VK_IMAGE_LAYOUT_GENERAL,
        VK_IMAGE_LAYOUT_UNDEFINED,
        VK_IMAGE_LAYOUT_PREINITIALIZED,
        vks_format_is_depth(info->image.format) ? VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL
                                                : VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
        VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
        VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
        VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
    };
    vks_status status = vks_image_check_foreign(&info->image);
    if (status)
        return status;
    if (!info->handle)
        return vks_fail(VKS_BAD_VALUE, 0, "handle is VK_NULL_HANDLE");
    if (info->image.usage && !(info->image.usage & VKS_USAGE_COPY))
        return vks_fail(VKS_BAD_VALUE, info->image.usage, "usage is 0x%x; VKS_USAGE_COPY is needed", info->image.usage);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (info->layout == layouts[i])
            return VKS_OK;
    return vks_fail(VKS_BAD_VALUE, info->layout, "layout is %d; vkshare_vulkan.h lists those that are allowed",
                    (int)info->layout);
}

/* ---- memory that others open ---- */

/* An image as other parties make it of a descriptor. */
static vks_status create_twin(vks_surface_image *image, vks_surface_image **out)
{
    const VkExternalMemoryHandleTypeFlagBits opaque_fd = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    vks_surface_image *twin = vks_image_new(image->engine, &image->body);
    vks_status status =
        twin ? vks_image_check_support(twin, opaque_fd, VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) : VKS_NO_MEMORY;
    if (!status)
        status = vks_image_create_handle(twin, opaque_fd);
    *out = twin;
    if (status)
        return status;
    image->body.dedicated = twin->body.dedicated;
    if (image->needs.size == twin->needs.size && image->body.stride == twin->body.stride)
        return VKS_OK;
    return vks_fail(VKS_UNSUPPORTED, 0,
                    "the engine's image takes %llu bytes with a stride of %llu, and as others would open it, %llu with "
                    "%llu: make it as vks_surface_body describes, or pass no memory",
                    (unsigned long long)image->needs.size, (unsigned long long)image->body.stride,
                    (unsigned long long)twin->needs.size, (unsigned long long)twin->body.stride);
}

/* Puts the twin's sealed pages in the place of the driver's own (X26), once in the memory's life. */
static vks_status replace_pages(vks_surface_image *image, vks_surface_image *twin, int own)
{
    vks_status status = vks_memory_find_shared(own, &image->fd, &image->pages_at);
    if (status || image->fd >= 0)
        return status;
    if ((status = vks_image_allocate_shared(twin)) || (status = vks_image_wait_for_queue(image)) ||
        (status = vks_memory_share(own, twin->fd, twin->pages_at)))
        return status;
    image->pages_at = twin->pages_at;
    return vks_duplicate_fd(twin->fd, "the memory's fd", &image->fd);
}

static vks_status share(vks_surface_image *image)
{
    vks_surface_image *twin = NULL;
    int own = -1;
    vks_status status = vks_image_driver_fd(image, &own);
    if (!status && !(status = create_twin(image, &twin)))
        status = image->engine->physical.adapter.is_software ? replace_pages(image, twin, own)
                                                             : vks_duplicate_fd(own, "the memory's fd", &image->fd);
    if (twin)
        vks_image_free(twin);
    if (own >= 0)
        close(own);
    return status;
}

/* ---- the image ---- */

static vks_status adopt(vks_engine *engine, const vks_adopt_image_info *info, vks_surface_image **out)
{
    vks_surface_body body = vks_image_body(&info->image);
    vks_surface_image *image = vks_image_new(engine, &body);
    if (!image)
        return VKS_NO_MEMORY;
    image->is_adopted = true;
    vks_status status = vks_image_check_support(image, 0, 0);
    if (!status) {
        image->handle = info->handle;
        image->memory = info->memory;
        image->old_layout = info->layout;
        vks_image_read_requirements(image);
        if (info->memory)
            status = share(image);
    }
    if (!status)
        status = vks_image_record_ownership(image);
    if (status)
        vks_image_free(image);
    *out = image;
    return status;
}

static vks_status adopt_image(vks_device *device, const vks_adopt_image_info *info, vks_surface **out)
{
    vks_engine *engine;
    vks_surface_image *image;
    vks_status status = check_info(info);
    if (!status && !device->timeline)
        status = vks_fail(VKS_UNSUPPORTED, 0, "the CPU backend has no VkImages");
    if (status || (status = vks_engine_of(device, &engine)) || (status = adopt(engine, info, &image)) ||
        (status = vks_surface_from_image(device, image, info->image.discard_unowned, out)))
        return status;
    image->user = info->user; /* last: an image that cannot be adopted stays the engine's */
    image->on_close = info->on_close;
    return VKS_OK;
}

vks_status vks_surface_adopt_image(vks_device *device, const vks_adopt_image_info *info, vks_surface **out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    status = adopt_image(device, info, out);
    vks_device_leave(device);
    return status;
}
