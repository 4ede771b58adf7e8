/* vulkan_needs.h: what a command needs of a recorder, for vulkan_needs.c and vulkan_commands.c. */
#ifndef VKS_VULKAN_NEEDS_H
#define VKS_VULKAN_NEEDS_H

#include "record/recorder.h"

static inline const vks_drawable_info *vks_image_of(const vks_recording *recording, uint32_t use)
{
    return &recording->drawables[use]->info;
}

static inline VkImage vks_handle_of(const vks_recording *recording, uint32_t use)
{
    return (VkImage)(uintptr_t)vks_image_of(recording, use)->image;
}

/* The depth of a draw; VKS_NO_USE: none. */
static inline uint32_t vks_depth_of(const vks_command *c)
{
    return c->kind == VKS_COMMAND_DRAW ? c->draw.depth : VKS_NO_USE;
}

/* The target of a blit without mirrors, which go to the source. */
struct vks_blit_rect vks_straightened(struct vks_blit_rect to, struct vks_blit_rect *from);

typedef enum vks_blit_way { VKS_AS_COPY, VKS_BY_DRAWING, VKS_BY_DRIVER } vks_blit_way;
vks_blit_way vks_blit_way_of(const vks_recording *recording, const vks_command *c);

/* The pipeline of a command that draws, and the format of its target, or of that plane of it, as it sees it. */
bool vks_pipeline_of(const vks_recording *recording, const vks_command *c, uint32_t plane, uint32_t *number,
                     uint32_t *format);
/* The descriptor set (VKS_SET_LINEAR, ...) that it binds; false: none. */
bool vks_set_of(const vks_recording *recording, const vks_command *c, unsigned *set);

#endif
