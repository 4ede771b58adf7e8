/* vulkan_planes.h: surfaces in planes, for vulkan_needs.c and vulkan_commands.c. */
#ifndef VKS_VULKAN_PLANES_H
#define VKS_VULKAN_PLANES_H

#include "record/vulkan_needs.h"

/* The push constants of shaders that read planes, and of the one that writes them, from byte 64 on. */
typedef struct vks_planes_push {
    float first[4], second[4], third[4];
    int32_t shape[4];
} vks_planes_push;

/* A surface of one plane has 1. */
uint32_t vks_planes_of(const vks_drawable_info *image);
/* The image, the view, the format and the size of a plane. */
VkImage vks_plane_image(const vks_drawable_info *image, uint32_t plane);
VkImageView vks_plane_view(const vks_drawable_info *image, uint32_t plane);
VkExtent2D vks_plane_extent(const vks_drawable_info *image, uint32_t plane);
/* A rectangle of luma in a plane. */
vks_rect vks_plane_rect(const vks_drawable_info *image, uint32_t plane, vks_rect rect);
/* A colour as a plane's image stores it. */
void vks_plane_colour(const vks_drawable_info *image, uint32_t plane, const float colour[4], float out[4]);

vks_planes_push vks_planes_reading(const vks_drawable_info *source);
vks_planes_push vks_planes_writing(const vks_drawable_info *target, uint32_t plane);

/* Writes a set that reads an image of one plane or several. Planes of chroma are at bindings 2 and 3; what has none
 * has the image itself there, because Mesa 22.3 reads all descriptors of a set. */
void vks_planes_write_set(vks_recorder *r, uint64_t set, const vks_drawable_info *info, uint64_t view,
                          uint64_t sampler);
void vks_planes_clear(const vks_recorder *r, VkCommandBuffer commands, const vks_drawable_info *target,
                      const float colour[4]);

#endif
