/* vulkan_planes.c: the parts of surfaces in planes, and the factors of their shaders. */
#include "record/vulkan_planes.h"

#include "raster/ycbcr.h"

uint32_t vks_planes_of(const vks_drawable_info *image)
{
    const struct vks_planar_format *planar = vks_planar_format(image->format);
    return planar ? planar->planes : 1;
}

VkImage vks_plane_image(const vks_drawable_info *image, uint32_t plane)
{
    return (VkImage)(uintptr_t)(vks_planes_of(image) > 1 ? image->planes[plane] : image->image);
}

VkImageView vks_plane_view(const vks_drawable_info *image, uint32_t plane)
{
    return (VkImageView)(uintptr_t)image->plane_views[plane];
}

static const struct vks_planar_format *chroma_of(const vks_drawable_info *image, uint32_t plane)
{
    return plane ? vks_planar_format(image->format) : NULL;
}

VkExtent2D vks_plane_extent(const vks_drawable_info *image, uint32_t plane)
{
    const struct vks_planar_format *chroma = chroma_of(image, plane);
    return chroma ? (VkExtent2D){image->width >> chroma->x_shift, image->height >> chroma->y_shift}
                  : (VkExtent2D){image->width, image->height};
}

vks_rect vks_plane_rect(const vks_drawable_info *image, uint32_t plane, vks_rect rect)
{
    const struct vks_planar_format *chroma = chroma_of(image, plane);
    if (!chroma)
        return rect;
    return (vks_rect){rect.x >> chroma->x_shift, rect.y >> chroma->y_shift, rect.width >> chroma->x_shift,
                      rect.height >> chroma->y_shift};
}

static struct vks_ycbcr factors_of(const vks_drawable_info *image)
{
    struct vks_ycbcr found;
    vks_ycbcr_factors(image->format, &image->color, &found); /* the descriptor, or Python, has checked the colour */
    return found;
}

static float clamped(float value) { return value > 0 ? value < 1 ? value : 1 : 0; /* NaN too */ }

/* A code as a unorm image has it: in the upper bits of a word where it has more than 8. */
static float stored(const struct vks_planar_format *planar, float code)
{
    float most = (float)((1 << planar->bits) - 1);
    uint32_t whole = vks_to_unorm(code / most, most);
    return planar->bits > 8 ? (float)(whole << planar->unused) / 65535.0f : (float)whole / 255.0f;
}

void vks_plane_colour(const vks_drawable_info *image, uint32_t plane, const float colour[4], float out[4])
{
    struct vks_ycbcr f = factors_of(image);
    const struct vks_ycbcr_back *back = &f.back;
    float rgb[3] = {clamped(colour[0]), clamped(colour[1]), clamped(colour[2])};
    float luma = rgb[0] * back->weight[0] + rgb[1] * back->weight[1] + rgb[2] * back->weight[2];
    float cb = back->chroma_zero + back->chroma_span * ((rgb[2] - luma) * back->cb);
    float cr = back->chroma_zero + back->chroma_span * ((rgb[0] - luma) * back->cr);
    out[0] = stored(f.format, plane == 0 ? back->luma_zero + back->luma_span * luma : plane == 1 ? cb : cr);
    out[1] = stored(f.format, cr);
    out[2] = 0;
    out[3] = 1;
}

static void put_shape(const struct vks_ycbcr *f, int32_t third, int32_t out[4])
{
    out[0] = f->format->x_shift;
    out[1] = f->format->y_shift;
    out[2] = third;
    out[3] = f->format->bits;
}

vks_planes_push vks_planes_reading(const vks_drawable_info *source)
{
    struct vks_ycbcr f = factors_of(source);
    float unit = f.format->bits > 8 ? 16 : 64; /* of a code */
    vks_planes_push push = {.first[3] = f.floats.luma * unit,
                            .second[3] = f.siting != VKS_SITING_CENTER,
                            .third[3] = f.siting == VKS_SITING_TOP_LEFT};
    for (int i = 0; i < 3; i++) {
        push.first[i] = f.floats.cb[i] * unit;
        push.second[i] = f.floats.cr[i] * unit;
        push.third[i] = f.floats.bias[i];
    }
    put_shape(&f, f.format->planes == 2, push.shape);
    return push;
}

vks_planes_push vks_planes_writing(const vks_drawable_info *target, uint32_t plane)
{
    struct vks_ycbcr f = factors_of(target);
    const struct vks_ycbcr_back *b = &f.back;
    vks_planes_push push = {.first = {b->weight[0], b->weight[1], b->weight[2], 0},
                            .second = {b->luma_zero, b->luma_span, b->chroma_zero, b->chroma_span},
                            .third = {b->cb, b->cr, f.siting != VKS_SITING_CENTER, f.siting == VKS_SITING_TOP_LEFT}};
    put_shape(&f, plane == 0 ? 0 : f.format->planes == 2 ? 1 : (int32_t)plane + 1, push.shape);
    return push;
}

/* ---- descriptor sets and clears ---- */

static VkWriteDescriptorSet write_of(uint64_t set, uint32_t binding, VkDescriptorType type)
{
    return (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = (VkDescriptorSet)(uintptr_t)set,
                                  .dstBinding = binding,
                                  .descriptorCount = 1,
                                  .descriptorType = type};
}

void vks_planes_write_set(vks_recorder *r, uint64_t set, const vks_drawable_info *info, uint64_t view, uint64_t sampler)
{
    const uint64_t second = info->plane_views[1] ? info->plane_views[1] : view;
    const uint64_t views[3] = {view, second, info->plane_views[2] ? info->plane_views[2] : second};
    VkDescriptorBufferInfo tables = {(VkBuffer)(uintptr_t)r->info.tables, 0, VK_WHOLE_SIZE};
    VkDescriptorImageInfo images[3];
    VkWriteDescriptorSet writes[4] = {write_of(set, 1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER)};
    writes[0].pBufferInfo = &tables;
    for (uint32_t i = 0; i < 3; i++) {
        images[i] = (VkDescriptorImageInfo){(VkSampler)(uintptr_t)sampler, (VkImageView)(uintptr_t)views[i],
                                            VK_IMAGE_LAYOUT_GENERAL};
        writes[1 + i] = write_of(set, i ? 1 + i : 0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER);
        writes[1 + i].pImageInfo = &images[i];
    }
    r->UpdateDescriptorSets(r->device, 4, writes, 0, NULL);
}

void vks_planes_clear(const vks_recorder *r, VkCommandBuffer commands, const vks_drawable_info *target,
                      const float colour[4])
{
    static const VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    for (uint32_t plane = 0; plane < vks_planes_of(target); plane++) {
        VkClearColorValue value;
        vks_plane_colour(target, plane, colour, value.float32);
        r->CmdClearColorImage(commands, vks_plane_image(target, plane), VK_IMAGE_LAYOUT_GENERAL, &value, 1, &whole);
    }
}
