/* planes.c: surfaces in planes: a VkImage a plane, of the plane's own format, bound one after the
 * other in one memory (docs/decisions/0136-planes-are-images-of-their-own.md). */
#include "engine/engine.h"

/* A plane as an image of its own, without a handle. */
static vks_surface_image part_of(const vks_surface_image *image, uint32_t plane)
{
    const vks_surface_body *body = &image->body;
    const struct vks_planar_format *planar = vks_planar_format(body->format);
    return (vks_surface_image){.engine = image->engine,
                               .fd = -1,
                               .body = {.width = body->width >> (plane ? planar->x_shift : 0),
                                        .height = body->height >> (plane ? planar->y_shift : 0),
                                        .format = vks_plane_format(body->format, plane),
                                        .tiling = body->tiling,
                                        .usage = body->usage}};
}

vks_status vks_planes_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                    VkExternalMemoryFeatureFlags needed)
{
    const char *format = vks_format_name(image->body.format);
    vks_status status = VKS_OK;
    if (image->body.tiling == VKS_LINEAR_IN_DEVICE_MEMORY)
        return vks_fail(VKS_UNSUPPORTED, (int)image->body.tiling,
                        "the planes of %s share a memory, which is no linear image's in device memory: use VKS_LINEAR "
                        "or VKS_OPTIMAL",
                        format);
    for (uint32_t i = 0; i < vks_format_planes(image->body.format) && !status; i++) {
        vks_surface_image part = part_of(image, i);
        status = vks_image_check_support(&part, handle_type, needed);
        if (!status && part.must_be_dedicated)
            status =
                vks_fail(VKS_UNSUPPORTED, 0, "each image of %s needs a memory of its own, and planes of %s share one",
                         image->engine->physical.adapter.name, format);
    }
    return status;
}

/* Where a plane begins: in the CPU backend's memory as its rows lie there, else behind the plane
 * before. */
static VkDeviceSize start_of(const vks_surface_image *image, uint32_t plane, bool is_host, VkDeviceSize end,
                             VkDeviceSize alignment)
{
    const vks_surface_body *body = &image->body;
    return is_host ? vks_planes_bytes(body->format, plane, body->height, vks_image_host_stride(body, VKS_ROW_ALIGNMENT))
                   : (end + alignment - 1) / alignment * alignment;
}

static vks_status create_plane(vks_surface_image *image, uint32_t plane, VkExternalMemoryHandleTypeFlagBits handle_type,
                               VkDeviceSize *end)
{
    vks_surface_image part = part_of(image, plane);
    vks_status status = vks_image_create_handle(&part, handle_type);
    bool is_host = handle_type == VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    image->planes[plane] = (vks_plane_image){.handle = part.handle};
    if (status)
        return status;
    VkDeviceSize alignment = part.needs.alignment, start = start_of(image, plane, is_host, *end, alignment);
    if (start % alignment)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "plane %u begins %llu bytes into its memory, and %s wants a multiple of %llu: copy it, or open "
                        "it on the CPU backend",
                        plane, (unsigned long long)start, image->engine->physical.adapter.name,
                        (unsigned long long)alignment);
    image->planes[plane].offset = start;
    image->planes[plane].first_row = part.first_row;
    image->planes[plane].stride = part.body.stride;
    image->needs.memoryTypeBits &= part.needs.memoryTypeBits;
    if (*end < start + part.needs.size)
        *end = start + part.needs.size;
    return VKS_OK;
}

vks_status vks_planes_create_handles(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type)
{
    VkDeviceSize end = 0;
    vks_status status = VKS_OK;
    image->needs = (VkMemoryRequirements){.alignment = 1, .memoryTypeBits = UINT32_MAX};
    for (uint32_t i = 0; i < vks_format_planes(image->body.format) && !status; i++)
        status = create_plane(image, i, handle_type, &end);
    image->handle = image->planes[0].handle;
    image->first_row = image->planes[0].first_row;
    image->needs.size = image->body.memory_size = end;
    image->body.stride = image->planes[0].stride;
    return status;
}

uint32_t vks_image_handles(const vks_surface_image *image, VkImage handles[VKS_MOST_PLANES])
{
    uint32_t n = vks_format_planes(image->body.format);
    handles[0] = image->handle;
    for (uint32_t i = 1; i < n; i++)
        handles[i] = image->planes[i].handle;
    return n;
}

vks_status vks_image_bind_handles(vks_surface_image *image)
{
    vks_engine *engine = image->engine;
    VkImage handles[VKS_MOST_PLANES];
    uint32_t n = vks_image_handles(image, handles);
    vks_status status = VKS_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        VkDeviceSize offset = image->body.memory_offset + image->planes[i].offset; /* of one plane, 0 */
        status = vks_vulkan_result(engine->BindImageMemory(engine->handle, handles[i], image->memory, offset),
                                   "vkBindImageMemory");
    }
    return status;
}

bool vks_planes_are_tight(const vks_surface_image *image)
{
    const vks_surface_body *body = &image->body;
    for (uint32_t i = 1; i < vks_format_planes(body->format); i++) {
        vks_surface_image part = part_of(image, i);
        uint64_t stride = image->engine ? image->planes[i].stride : vks_plane_stride(body->format, i, body->stride);
        if (stride != part.body.width * (uint64_t)vks_format_bytes(part.body.format))
            return false;
    }
    return true;
}

bool vks_planes_lie_as(const vks_surface_image *image, const vks_surface_body *host)
{
    uint32_t n = vks_image_is_planar(image) ? vks_format_planes(host->format) : 0;
    for (uint32_t i = 0; i < n; i++) {
        const vks_plane_image *plane = &image->planes[i];
        if (plane->first_row || plane->stride != vks_plane_stride(host->format, i, host->stride) ||
            plane->offset != vks_planes_bytes(host->format, i, host->height, host->stride))
            return false;
    }
    return true;
}

/* ---- properties ---- */

static vks_status check_plane(const vks_surface_image *image, uint32_t plane)
{
    const vks_surface_body *body = &image->body;
    if (vks_image_is_buffer(image))
        return vks_fail(VKS_UNSUPPORTED, VKS_BUFFER, "a buffer has no planes: vks_surface_pixels() has its bytes");
    return plane < vks_format_planes(body->format)
               ? VKS_OK
               : vks_fail(VKS_BAD_VALUE, plane, "plane is %u; allowed for %s is 0 to %u", plane,
                          vks_format_name(body->format), vks_format_planes(body->format) - 1);
}

static void find_pixels(const vks_surface_image *image, uint32_t plane, vks_plane *out)
{
    const vks_surface_body *body = &image->body;
    if (image->engine) {
        const vks_plane_image *own = &image->planes[plane];
        bool is_planar = vks_image_is_planar(image);
        out->stride = is_planar ? own->stride : body->stride;
        if (image->pixels && is_planar)
            out->pixels = (char *)image->mapped + body->memory_offset + own->offset + own->first_row;
        else
            out->pixels = image->pixels;
        return;
    }
    struct vks_image whole = {
        image->pixels, body->memory_size - body->memory_offset, body->width, body->height, body->stride, body->format};
    struct vks_image part = vks_plane_of(&whole, plane);
    out->pixels = part.pixels;
    out->stride = part.stride;
}

vks_status vks_surface_get_plane(vks_surface *surface, uint32_t plane, vks_plane *out)
{
    VKS_NEEDS(surface, out);
    vks_surface_image *image;
    vks_status status = vks_surface_own_image(surface, &image);
    if (status || (status = check_plane(image, plane)))
        return status;
    const struct vks_planar_format *planar = vks_planar_format(image->body.format);
    *out = (vks_plane){.width = image->body.width >> (plane ? planar->x_shift : 0),
                       .height = image->body.height >> (plane ? planar->y_shift : 0),
                       .format = vks_plane_format(image->body.format, plane)};
    find_pixels(image, plane, out);
    return VKS_OK;
}

vks_status vks_surface_get_vulkan_plane(vks_surface *surface, uint32_t plane, vks_vulkan_image *out)
{
    VKS_NEEDS(surface, out);
    vks_surface_image *image;
    VkImage handles[VKS_MOST_PLANES];
    vks_plane of;
    vks_status status = vks_surface_vulkan_image(surface, &image);
    if (status || (status = vks_surface_get_plane(surface, plane, &of)))
        return status;
    vks_image_handles(image, handles);
    *out = (vks_vulkan_image){.image = handles[plane],
                              .memory = image->memory,
                              .format = vks_vulkan_format(of.format),
                              .extent = {of.width, of.height},
                              .tiling = vks_image_tiling(&image->body),
                              .usage = vks_image_usage(&image->body),
                              .offset = image->body.memory_offset + image->planes[plane].offset};
    return VKS_OK;
}
