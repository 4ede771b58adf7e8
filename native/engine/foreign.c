/* foreign.c: surfaces in memory that another API, engine or library allocated (rules E3 and E4).
 *
 * The caller says what the memory is. All that the driver can compute is compared with that, as for
 * a descriptor (X16 to X18), and the contents stay: the image belongs to VK_QUEUE_FAMILY_EXTERNAL in
 * layout GENERAL.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine.h"
#include "raster/raster.h"
#include "shm/memory.h"
#include "surface/message.h"
#include "surface/surface.h"

static const uint8_t cpu_uuid[VK_UUID_SIZE] = {0x76, 0xb5, 0xa1, 0xe0, 0x0c, 0x70, 0x5c, 0x9e,
                                               0x8f, 0x0e, 0x63, 0x70, 0x75, 0x00, 0x00, 0x01};

static vks_status check_uuids(const vks_import_info *info, const uint8_t *device_uuid, const uint8_t *driver_uuid)
{
    bool is_same = (!info->device_uuid || !memcmp(info->device_uuid, device_uuid, VK_UUID_SIZE)) &&
                   (!info->driver_uuid || !memcmp(info->driver_uuid, driver_uuid, VK_UUID_SIZE));
    return is_same ? VKS_OK
                   : vks_fail(VKS_FOREIGN_DEVICE, 0,
                              "the memory is of another device or driver: import it on the adapter that allocated it");
}

/* Returns whether `size` bytes have `needed` bytes from `offset` on. */
static bool has_room(uint64_t size, uint64_t offset, uint64_t needed)
{
    return offset <= size && size - offset >= needed;
}

static vks_status no_room(const vks_import_info *info, uint64_t needed)
{
    return vks_fail(VKS_BAD_PAGE, 0, "size is %llu; from offset %llu on %llu bytes are needed",
                    (unsigned long long)info->size, (unsigned long long)info->offset, (unsigned long long)needed);
}

/* ---- memory of a driver ---- */

static vks_status place(vks_surface_image *image, const vks_import_info *info)
{
    vks_surface_body *body = &image->body;
    VkDeviceSize needed = image->needs.size, alignment = image->needs.alignment;
    bool is_exact = info->size == needed && !info->offset, wanted = body->dedicated;
    if (info->stride && info->stride != body->stride)
        return vks_fail(VKS_BAD_PAGE, 0, "stride is %llu; this driver has %llu", (unsigned long long)info->stride,
                        (unsigned long long)body->stride);
    if (info->offset % alignment)
        return vks_fail(VKS_BAD_PAGE, 0, "offset is %llu; the image begins at a multiple of %llu",
                        (unsigned long long)info->offset, (unsigned long long)alignment);
    if (!has_room(info->size, info->offset, needed))
        return no_room(info, needed);
    if (info->size > vks_image_heap_size(image))
        return vks_fail(VKS_BAD_PAGE, 0, "size is %llu; the image is in a heap of %llu bytes, and no memory is larger",
                        (unsigned long long)info->size, (unsigned long long)vks_image_heap_size(image));
    if (image->engine->physical.adapter.is_software) /* it gets memory of its own */
        body->dedicated = wanted && is_exact;
    else if (info->is_dedicated && !is_exact)
        return vks_fail(VKS_BAD_PAGE, 0, "is_dedicated is set, and dedicated memory has %llu bytes from offset 0 on",
                        (unsigned long long)needed);
    else
        body->dedicated = info->is_dedicated;
    if (image->must_be_dedicated && !body->dedicated)
        return vks_fail(VKS_BAD_PAGE, 0, "is_dedicated is false; this driver needs dedicated memory of %llu bytes",
                        (unsigned long long)needed);
    body->memory_size = info->size;
    body->memory_offset = info->offset;
    image->is_foreign = !is_exact || body->dedicated != wanted;
    return VKS_OK;
}

static vks_status import(vks_engine *engine, const vks_import_info *info, int fd, vks_surface_image **out)
{
    const VkExternalMemoryHandleTypeFlagBits opaque_fd = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
    const vks_adapter *adapter = &engine->physical.adapter;
    vks_surface_body body = vks_image_body(&info->image);
    vks_status status = check_uuids(info, adapter->device_uuid, adapter->driver_uuid);
    if (status)
        return status;
    vks_surface_image *image = vks_image_new(engine, &body);
    status = image ? vks_image_check_support(image, opaque_fd,
                                             adapter->is_software ? VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT
                                                                  : VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT)
                   : VKS_NO_MEMORY;
    if (!status && !(status = vks_image_create_handle(image, opaque_fd)) && !(status = place(image, info)) &&
        !(status = vks_memory_check(fd, false, info->size)) && !(status = vks_image_take_memory(image, fd)))
        status = vks_image_bind(image);
    if (status && image)
        vks_image_free(image);
    *out = image;
    return status;
}

/* ---- a memfd, on the CPU backend ---- */

static vks_status check_rows(const vks_import_info *info, vks_surface_body *body)
{
    uint64_t pixel = vks_format_bytes(body->format), row = body->width * pixel;
    body->stride = info->stride ? info->stride : (row + VKS_ROW_ALIGNMENT - 1) / VKS_ROW_ALIGNMENT * VKS_ROW_ALIGNMENT;
    body->memory_size = info->size;
    body->memory_offset = info->offset;
    body->memory_kind = VKS_MEMFD;
    if (body->tiling != VKS_LINEAR)
        return vks_fail(VKS_UNSUPPORTED, body->tiling, "the CPU backend has no tiling %u: VKS_LINEAR is 0",
                        body->tiling);
    if (body->stride < row || body->stride % pixel || body->stride > INT32_MAX)
        return vks_fail(VKS_BAD_PAGE, 0, "stride is %llu; allowed are multiples of %llu from %llu to 2**31 - 1",
                        (unsigned long long)body->stride, (unsigned long long)pixel, (unsigned long long)row);
    if (info->offset % pixel)
        return vks_fail(VKS_BAD_PAGE, 0, "offset is %llu; allowed are multiples of %llu",
                        (unsigned long long)info->offset, (unsigned long long)pixel);
    uint64_t needed = body->stride * (body->height - 1) + row;
    return has_room(info->size, info->offset, needed) ? VKS_OK : no_room(info, needed);
}

static vks_status map_host(vks_surface_image *image, int fd)
{
    vks_surface_body *body = &image->body;
    vks_status status = vks_memfd_check(fd, "image memory", VKS_MEMFD_WRITE, body->memory_size);
    if (status)
        return status;
    if ((status = vks_memfd_map(fd, body->memory_size, true, &image->mapped))) {
        image->mapped = NULL;
        return status;
    }
    image->pixels = (char *)image->mapped + body->memory_offset;
    image->is_foreign = vks_surface_check_memfd(body) || vks_memory_check(fd, true, body->memory_size);
    return vks_duplicate_fd(fd, "the memory's fd", &image->fd);
}

static vks_status import_host(const vks_import_info *info, int fd, vks_surface_image **out)
{
    vks_surface_body body = vks_image_body(&info->image);
    vks_status status = check_uuids(info, cpu_uuid, cpu_uuid);
    if (status || (status = check_rows(info, &body)))
        return status;
    vks_surface_image *image = calloc(1, sizeof *image);
    if (!image)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
    image->fd = -1;
    image->body = body;
    if ((status = map_host(image, fd)))
        vks_image_drop(image);
    *out = image;
    return status;
}

/* ---- an array ---- */

static vks_status share_host(const vks_array_info *info, vks_surface_image **out)
{
    vks_surface_body body = vks_image_body(&info->image);
    uint64_t pixel = vks_format_bytes(body.format), row = body.width * pixel;
    if (body.tiling != VKS_LINEAR)
        return vks_fail(VKS_UNSUPPORTED, body.tiling, "an array has no tiling %u: VKS_LINEAR is 0", body.tiling);
    if ((uintptr_t)info->pixels % pixel || info->stride % pixel || info->stride < row || info->stride > INT32_MAX)
        return vks_fail(
            VKS_BAD_VALUE, 0,
            "pixels is %p and stride %zu; allowed are multiples of %llu, and strides from %llu to 2**31 - 1",
            info->pixels, info->stride, (unsigned long long)pixel, (unsigned long long)row);
    if (info->stride * (body.height - 1) + row > info->size)
        return vks_fail(VKS_BAD_VALUE, 0, "size is %zu; the rows need %llu", info->size,
                        (unsigned long long)(info->stride * (body.height - 1) + row));
    vks_surface_image *image = calloc(1, sizeof *image);
    if (!image)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an image");
    body.stride = info->stride;
    body.memory_size = info->size;
    image->fd = -1;
    image->body = body;
    image->pixels = info->pixels;
    image->is_foreign = image->is_array = true;
    *out = image;
    return VKS_OK;
}

static vks_status share_array(vks_device *device, const vks_array_info *info, vks_surface **out)
{
    vks_surface_image *image = NULL;
    vks_engine *engine = NULL;
    vks_status status = vks_image_check_foreign(&info->image);
    if (status || (device->timeline && (status = vks_engine_of(device, &engine))))
        return status;
    if (!info->pixels)
        return vks_fail(VKS_BAD_VALUE, 0, "pixels is NULL");
    if (engine && info->image.tiling != VKS_LINEAR)
        return vks_fail(VKS_UNSUPPORTED, info->image.tiling, "an array has no tiling %u: VKS_LINEAR is 0",
                        info->image.tiling);
    if ((status = engine ? vks_image_open_array(engine, info, &image) : share_host(info, &image)) ||
        (status = vks_surface_from_image(device, image, info->image.discard_unowned, out)))
        return status;
    image->user = info->user; /* last: memory that cannot be shared stays the caller's */
    image->on_close = info->on_close;
    return VKS_OK;
}

vks_status vks_surface_share_array(vks_device *device, const vks_array_info *info, vks_surface **out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    status = share_array(device, info, out);
    vks_device_leave(device);
    return status;
}

/* ---- a memfd or a driver's memory ---- */

static vks_status import_memory(vks_device *device, const vks_import_info *info, int fd, vks_surface **out)
{
    vks_surface_image *image = NULL;
    vks_engine *engine = NULL;
    vks_status status = vks_image_check_foreign(&info->image);
    if (status || (device->timeline && (status = vks_engine_of(device, &engine))))
        return status;
    status = engine ? import(engine, info, fd, &image) : import_host(info, fd, &image);
    return status ? status : vks_surface_from_image(device, image, info->image.discard_unowned, out);
}

vks_status vks_surface_import_memory(vks_device *device, const vks_import_info *info, int fd, vks_surface **out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    if (!(status = import_memory(device, info, fd, out)))
        close(fd);
    vks_device_leave(device);
    return status;
}
