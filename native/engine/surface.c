/* surface.c: surfaces whose image and memory are the library's, on both backends. */
#include "surface/surface.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "raster/raster.h"
#include "shm/memory.h"
#include "surface/message.h"

/* ---- memory of the CPU backend ---- */

static void free_host(vks_surface_image *image)
{
    if (image->mapped)
        munmap(image->mapped, image->body.memory_size);
    if (image->fd >= 0)
        close(image->fd);
    if (image->on_close)
        image->on_close(image->user);
    free(image);
}

uint64_t vks_image_host_stride(const vks_surface_body *body, uint64_t alignment)
{
    const uint64_t least = vks_planar_format(body->format) ? VKS_PLANE_ALIGNMENT : 1;
    uint64_t step = alignment > least ? alignment : least;
    uint64_t row = body->width * (uint64_t)vks_format_bytes(vks_plane_format(body->format, 0));
    return (row + step - 1) / step * step;
}

/* Bytes of the pixels; a buffer has no rows. */
static uint64_t host_bytes(const vks_surface_body *body)
{
    return body->tiling == VKS_BUFFER
               ? vks_buffer_size(body)
               : vks_planes_bytes(body->format, vks_format_planes(body->format), body->height, body->stride);
}

static vks_status create_host(const vks_surface_body *body, bool has_tight_rows, vks_surface_image **out)
{
    uint64_t alignment = has_tight_rows ? 1 : VKS_ROW_ALIGNMENT;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (body->tiling != VKS_LINEAR && body->tiling != VKS_BUFFER)
        return vks_fail(VKS_UNSUPPORTED, body->tiling, "the CPU backend has no tiling %u: VKS_LINEAR is 0",
                        body->tiling);
    vks_surface_image *image = calloc(1, sizeof *image);
    if (!image)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
    image->fd = -1;
    image->body = *body;
    image->body.memory_kind = VKS_MEMFD;
    image->body.stride = vks_image_host_stride(body, alignment); /* 0 of a buffer, which has no pixels */
    image->body.memory_size = (host_bytes(&image->body) + page - 1) / page * page;
    vks_status status = has_tight_rows ? vks_image_check_tight(image) : VKS_OK;
    if (!status)
        status = vks_memfd_create("vkshare:surface", image->body.memory_size, false, &image->fd, &image->mapped);
    if (!status)
        status = vks_memory_reserve(image->fd, image->mapped, image->body.memory_size, 0);
    image->pixels = image->mapped;
    if (status)
        free_host(image);
    *out = image;
    return status;
}

static vks_status open_host(const vks_surface_descriptor *descriptor, vks_surface_image **out)
{
    vks_surface_image *image = calloc(1, sizeof *image);
    if (!image)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
    image->body = descriptor->body;
    image->fd = -1;
    vks_status status = vks_surface_descriptor_map(descriptor, &image->mapped);
    if (status)
        image->mapped = NULL;
    else
        status = vks_duplicate_fd(descriptor->memory_fd, "the memory's fd", &image->fd);
    image->pixels = image->mapped;
    if (status)
        free_host(image);
    *out = image;
    return status;
}

/* ---- images of both backends ---- */

void vks_image_drop(vks_surface_image *image)
{
    if (image->engine)
        vks_image_free(image);
    else
        free_host(image);
}

/* A driver that still uses the image keeps it until the device ends; a forked child leaves the
 * parent's alone. */
static void drop_image(vks_surface *surface)
{
    vks_surface_image *image = surface->image;
    vks_device *device = surface->device;
    if (image->engine && (device->process != vks_process || vks_device_drain(device, surface->last_serial, 0)))
        return;
    vks_image_drop(image);
}

vks_status vks_image_check_info(const vks_image_info *info)
{
    const uint32_t usages = VKS_USAGE_RENDER | VKS_USAGE_SAMPLE | VKS_USAGE_COPY | VKS_USAGE_STORAGE;
    if (info->width < 1 || info->width > VKS_LARGEST_SIDE || info->height < 1 || info->height > VKS_LARGEST_SIDE)
        return vks_fail(VKS_BAD_VALUE, 0, "the size is %ux%u; allowed is 1 to %u", info->width, info->height,
                        VKS_LARGEST_SIDE);
    if (!vks_format_planes(info->format))
        return vks_fail(VKS_BAD_VALUE, info->format, "there is no format %u", info->format);
    if (!vks_planes_fit(info->format, info->width, info->height))
        return vks_fail(VKS_BAD_VALUE, 0, "the size is %ux%u; %s has half as many columns or rows of chroma",
                        info->width, info->height, vks_format_name(info->format));
    if (info->tiling > VKS_LINEAR_IN_DEVICE_MEMORY)
        return vks_fail(VKS_BAD_VALUE, info->tiling, "tiling is %u; allowed is 0 to %d", info->tiling,
                        VKS_LINEAR_IN_DEVICE_MEMORY);
    if (info->has_tight_rows && info->tiling == VKS_OPTIMAL)
        return vks_fail(VKS_BAD_VALUE, info->tiling, "has_tight_rows is set, and VKS_OPTIMAL has no rows in order");
    if (info->usage & ~usages)
        return vks_fail(VKS_BAD_VALUE, info->usage, "usage is 0x%x; allowed are bits of 0x%x", info->usage, usages);
    vks_color color = vks_color_or_default(info->format, &info->color);
    return vks_color_check(VKS_BAD_VALUE, info->format, &color);
}

vks_status vks_image_check_foreign(const vks_image_info *info)
{
    return vks_planar_format(info->format)
               ? vks_fail(VKS_UNSUPPORTED, (int)info->format,
                          "format %s has planes, which lie in the library's own memory alone: "
                          "vks_surface_create_image() makes such a surface, to which a plane can be copied",
                          vks_format_name(info->format))
               : vks_image_check_info(info);
}

static vks_surface_info info_of(const vks_surface_image *image)
{
    const vks_surface_body *body = &image->body;
    return (vks_surface_info){.width = body->width,
                              .height = body->height,
                              .format = body->format,
                              .color = body->color,
                              .pixels = image->engine ? NULL : image->pixels,
                              .size = image->engine ? 0 : body->memory_size - body->memory_offset,
                              .stride = body->stride,
                              .acquire_commands = (uintptr_t)image->commands[VKS_GRAPHICS][0],
                              .release_commands = (uintptr_t)image->commands[VKS_GRAPHICS][1]};
}

static void attach(vks_surface *surface, vks_surface_image *image)
{
    const VkCommandBuffer *transfer = image->commands[VKS_TRANSFER];
    if (transfer[0])
        vks_surface_set_transfer_commands(surface, (uintptr_t)transfer[0], (uintptr_t)transfer[1]);
    if (image->initial)
        vks_surface_set_initial_commands(surface, (uintptr_t)image->initial);
    surface->image = image;
    surface->drop_image = drop_image;
}

vks_surface_body vks_image_body(const vks_image_info *info)
{
    const uint32_t usual = VKS_USAGE_RENDER | VKS_USAGE_SAMPLE | VKS_USAGE_COPY;
    return (vks_surface_body){.width = info->width,
                              .height = info->height,
                              .format = info->format,
                              .tiling = (uint8_t)info->tiling,
                              .usage = (uint8_t)(info->usage ? info->usage : usual),
                              .color = vks_color_or_default(info->format, &info->color)};
}

vks_status vks_surface_from_image(vks_device *device, vks_surface_image *image, bool discard_unowned, vks_surface **out)
{
    vks_surface_info info = info_of(image);
    info.discard_unowned = discard_unowned;
    vks_status status = vks_surface_create(device, &info, out);
    if (status)
        vks_image_drop(image);
    else
        attach(*out, image);
    return status;
}

static vks_status create(vks_device *device, const vks_surface_body *body, bool has_tight_rows, bool discard_unowned,
                         vks_surface **out)
{
    vks_surface_image *image;
    vks_engine *engine = NULL;
    vks_status status = device->timeline ? vks_engine_of(device, &engine) : VKS_OK;
    if (status || (status = engine ? vks_image_create(engine, body, has_tight_rows, &image)
                                   : create_host(body, has_tight_rows, &image)))
        return status;
    return vks_surface_from_image(device, image, discard_unowned, out);
}

static vks_status open_image(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out)
{
    vks_surface_image *image;
    vks_engine *engine = NULL;
    vks_status status = VKS_OK;
    if (device->timeline && (status = vks_engine_of(device, &engine)))
        return status;
    bool is_host = descriptor->body.memory_kind == VKS_MEMFD;
    status = !engine   ? open_host(descriptor, &image)
             : is_host ? vks_image_open_host(engine, descriptor, &image)
                       : vks_image_open(engine, descriptor, &image);
    if (status)
        return status;
    int page = vks_dup(descriptor->page_fd), semaphore = -1;
    if (page < 0 || (descriptor->semaphore_fd >= 0 && (semaphore = vks_dup(descriptor->semaphore_fd)) < 0)) {
        int code = errno;
        if (page >= 0)
            close(page);
        status = vks_fail(VKS_OS_ERROR, code, "the descriptor's fds could not be duplicated");
    } else {
        vks_surface_info info = info_of(image);
        status = vks_surface_open(device, &info, page, semaphore, out);
    }
    if (status)
        vks_image_drop(image);
    else
        attach(*out, image);
    return status;
}

/* Both are calls of the driver, for which a shutdown waits. */
vks_status vks_surface_create_memory(vks_device *device, const vks_surface_body *body, bool has_tight_rows,
                                     bool discard_unowned, vks_surface **out)
{
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    vks_status status = create(device, body, has_tight_rows, discard_unowned, out);
    vks_device_leave(device);
    return status;
}

vks_status vks_surface_open_memory(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    status = open_image(device, descriptor, out);
    vks_device_leave(device);
    return status;
}

vks_status vks_surface_create_image(vks_device *device, const vks_image_info *info, vks_surface **out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status || (status = vks_image_check_info(info)))
        return status;
    vks_surface_body body = vks_image_body(info);
    return vks_surface_create_memory(device, &body, info->has_tight_rows, info->discard_unowned, out);
}

vks_status vks_surface_open_image(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out)
{
    VKS_NEEDS(device, descriptor, out);
    if (descriptor->body.tiling == VKS_BUFFER)
        return vks_fail(VKS_BAD_PAGE, VKS_BUFFER, "the descriptor is a buffer's: vks_buffer_open() opens it");
    return vks_surface_open_memory(device, descriptor, out);
}

/* ---- properties ---- */

vks_status vks_surface_own_image(const vks_surface *surface, vks_surface_image **out)
{
    vks_status status = vks_surface_check(surface);
    *out = vks_surface_original(surface)->image;
    if (status)
        return status;
    return *out ? VKS_OK
                : vks_fail(VKS_UNSUPPORTED, 0,
                           "the surface's image is not the library's: vks_surface_create_image() and "
                           "vks_surface_open_image() make such images");
}

vks_status vks_surface_vulkan_image(const vks_surface *surface, vks_surface_image **out)
{
    vks_status status = vks_surface_own_image(surface, out);
    return status           ? status
           : (*out)->engine ? VKS_OK
                            : vks_fail(VKS_UNSUPPORTED, 0, "a surface of the CPU backend has no VkImage");
}

vks_status vks_surface_get_vulkan(vks_surface *surface, vks_vulkan_image *out)
{
    VKS_NEEDS(surface, out);
    vks_surface_image *image;
    vks_status status = vks_surface_vulkan_image(surface, &image);
    if (status)
        return status;
    if (vks_image_is_buffer(image))
        return vks_fail(VKS_UNSUPPORTED, VKS_BUFFER,
                        "a buffer has no VkImage: vks_buffer_get_vulkan() has the VkBuffer");
    if (vks_image_is_planar(image))
        return vks_fail(VKS_UNSUPPORTED, (int)image->body.format,
                        "a surface of format %s has a VkImage a plane: vks_surface_get_vulkan_plane() has them",
                        vks_format_name(image->body.format));
    return vks_surface_get_vulkan_plane(surface, 0, out);
}

vks_status vks_surface_pixels(vks_surface *surface, void **pixels, size_t *stride)
{
    VKS_NEEDS(surface, pixels, stride);
    vks_surface_image *image;
    vks_status status = vks_surface_own_image(surface, &image);
    if (status)
        return status;
    if (!image->pixels)
        return vks_fail(VKS_UNSUPPORTED, image->body.tiling,
                        "the CPU does not see the memory of tiling %u: VKS_LINEAR is 0", image->body.tiling);
    *pixels = image->pixels;
    *stride = image->body.stride;
    return VKS_OK;
}

vks_status vks_surface_submit_info(vks_surface *surface, uint64_t deadline, VkSemaphoreSubmitInfo *wait,
                                   VkSemaphoreSubmitInfo *signal)
{
    VKS_NEEDS(surface, wait, signal);
    vks_semaphore_point before, after;
    vks_status status = vks_surface_sync(surface, deadline, &before, &after);
    if (status)
        return status;
    *wait = *signal = (VkSemaphoreSubmitInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                              .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
    wait->semaphore = vks_vulkan_semaphore(before.semaphore);
    wait->value = before.value;
    signal->semaphore = vks_vulkan_semaphore(after.semaphore);
    signal->value = after.value;
    return VKS_OK;
}

/* ---- descriptors ---- */

vks_status vks_surface_export_descriptor(vks_surface *surface, vks_surface_descriptor *out)
{
    VKS_NEEDS(surface, out);
    vks_surface_image *image;
    memset(out, 0, sizeof *out);
    out->memory_fd = out->page_fd = out->semaphore_fd = -1;
    vks_status status = vks_surface_own_image(surface, &image);
    if (!status && image->is_adopted && !image->memory)
        status = vks_fail(VKS_UNSUPPORTED, 0,
                          "the memory of the engine's image is unknown: pass its VkDeviceMemory, made with "
                          "VkExportMemoryAllocateInfo, to vks_surface_adopt_image()");
    if (!status && image->is_foreign)
        status = vks_fail(VKS_UNSUPPORTED, 0,
                          "the surface's memory is not as this driver would export it, so no other party could open "
                          "it: copy it to a surface of vks_surface_create_image()");
    if (status || (status = vks_surface_export(surface, &out->page_fd, &out->semaphore_fd)))
        return status;
    out->body = image->body;
    vks_descriptor_name(surface->device->name, out->body.name);
    if ((status = vks_image_export(image, &out->memory_fd)))
        vks_surface_descriptor_close(out);
    return status;
}

vks_status vks_fence_export_descriptor(vks_fence *fence, vks_fence_descriptor *out)
{
    VKS_NEEDS(fence, out);
    vks_device *device = vks_fence_device(fence);
    memset(out, 0, sizeof *out);
    vks_status status = vks_fence_export(fence, &out->page_fd, &out->semaphore_fd);
    if (status)
        return status;
    const vks_engine *engine = device->engine;
    if (engine) {
        memcpy(out->body.device_uuid, engine->physical.adapter.device_uuid, VK_UUID_SIZE);
        memcpy(out->body.driver_uuid, engine->physical.adapter.driver_uuid, VK_UUID_SIZE);
    }
    vks_descriptor_name(device->name, out->body.name);
    return VKS_OK;
}

/* Returns whether the device can import the semaphore of a descriptor with these UUIDs. */
static bool can_import(const vks_device *device, const vks_fence_body *body)
{
    const vks_engine *engine = device->engine;
    return device->native_timelines && engine &&
           !memcmp(body->device_uuid, engine->physical.adapter.device_uuid, VK_UUID_SIZE) &&
           !memcmp(body->driver_uuid, engine->physical.adapter.driver_uuid, VK_UUID_SIZE);
}

vks_status vks_fence_open_descriptor(vks_device *device, const vks_fence_descriptor *descriptor, vks_fence **out)
{
    VKS_NEEDS(device, descriptor, out);
    int page = vks_dup(descriptor->page_fd), semaphore = -1, code = errno;
    bool wanted = descriptor->semaphore_fd >= 0 && can_import(device, &descriptor->body);
    if (page >= 0 && (!wanted || (semaphore = vks_dup(descriptor->semaphore_fd)) >= 0))
        return vks_fence_open(device, page, semaphore, out);
    if (page >= 0) {
        code = errno;
        close(page);
    }
    return vks_fail(VKS_OS_ERROR, code, "the descriptor's fds could not be duplicated");
}
