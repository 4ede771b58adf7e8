#include "raster/planar.h"

static const struct vks_planar_format formats[] = {
    [VKS_FORMAT_NV12] = {2, 8, 0, 1, 1}, [VKS_FORMAT_P010] = {2, 10, 6, 1, 1},   [VKS_FORMAT_I420] = {3, 8, 0, 1, 1},
    [VKS_FORMAT_NV16] = {2, 8, 0, 1, 0}, [VKS_FORMAT_YUV444P] = {3, 8, 0, 0, 0},
};

const struct vks_planar_format *vks_planar_format(uint32_t format)
{
    return format < sizeof formats / sizeof *formats && formats[format].planes ? &formats[format] : NULL;
}

uint32_t vks_format_planes(uint32_t format)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    return planar ? planar->planes : vks_format_bytes(format) != 0;
}

uint32_t vks_plane_format(uint32_t format, uint32_t plane)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    if (plane >= vks_format_planes(format))
        return VKS_FORMAT_NONE;
    if (planar == NULL)
        return format;
    bool is_pair = plane == 1 && planar->planes == 2;
    if (planar->bits > 8)
        return is_pair ? VKS_FORMAT_RG16_UNORM : VKS_FORMAT_R16_UNORM;
    return is_pair ? VKS_FORMAT_RG8_UNORM : VKS_FORMAT_R8_UNORM;
}

bool vks_planes_fit(uint32_t format, uint32_t width, uint32_t height)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    if (planar == NULL)
        return true;
    return width % (1u << planar->x_shift) == 0 && height % (1u << planar->y_shift) == 0;
}

size_t vks_plane_stride(uint32_t format, uint32_t plane, size_t stride)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    return planar != NULL && plane > 0 && planar->planes == 3 ? stride >> planar->x_shift : stride;
}

static uint32_t plane_height(const struct vks_planar_format *planar, uint32_t plane, uint32_t height)
{
    return plane == 0 ? height : height >> planar->y_shift;
}

uint64_t vks_planes_bytes(uint32_t format, uint32_t planes, uint32_t height, size_t stride)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    uint64_t bytes = 0;
    for (uint32_t plane = 0; plane < planes; plane++)
        bytes +=
            (uint64_t)vks_plane_stride(format, plane, stride) * (planar ? plane_height(planar, plane, height) : height);
    return bytes;
}

struct vks_image vks_plane_of(const struct vks_image *image, uint32_t plane)
{
    const struct vks_planar_format *planar = vks_planar_format(image->format);
    struct vks_image out = *image;
    if (planar == NULL)
        return out;
    size_t offset = (size_t)vks_planes_bytes(image->format, plane, image->height, image->stride);
    out.pixels = (uint8_t *)image->pixels + offset;
    out.size = image->size - offset;
    out.format = vks_plane_format(image->format, plane);
    out.stride = vks_plane_stride(image->format, plane, image->stride);
    if (plane > 0) {
        out.width = image->width >> planar->x_shift;
        out.height = image->height >> planar->y_shift;
    }
    return out;
}
