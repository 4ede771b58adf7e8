/* recorder.h: what a recorder owns, for recorder.c and the vulkan_*.c. */
#ifndef VKS_RECORDER_H
#define VKS_RECORDER_H

#include "record/recording.h"
#include "vulkan/vulkan_core.h"

#define VKS_RECORDER_FUNCTIONS(X)                                                                                      \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers)                                                                                          \
    X(FreeCommandBuffers)                                                                                              \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(CreateDescriptorPool)                                                                                            \
    X(DestroyDescriptorPool)                                                                                           \
    X(AllocateDescriptorSets)                                                                                          \
    X(UpdateDescriptorSets)                                                                                            \
    X(CmdPipelineBarrier2)                                                                                             \
    X(CmdBeginRendering)                                                                                               \
    X(CmdEndRendering)                                                                                                 \
    X(CmdSetViewport)                                                                                                  \
    X(CmdSetScissor)                                                                                                   \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdBindDescriptorSets)                                                                                           \
    X(CmdBindVertexBuffers)                                                                                            \
    X(CmdPushConstants)                                                                                                \
    X(CmdDraw)                                                                                                         \
    X(CmdClearColorImage)                                                                                              \
    X(CmdClearDepthStencilImage)                                                                                       \
    X(CmdSetDepthTestEnable)                                                                                           \
    X(CmdSetDepthWriteEnable)                                                                                          \
    X(CmdSetDepthCompareOp)                                                                                            \
    X(CmdClearAttachments)                                                                                             \
    X(CmdCopyImage) X(CmdCopyBuffer) X(CmdCopyBufferToImage) X(CmdCopyImageToBuffer) X(CmdBlitImage)

enum { VKS_RECORDED_GRAPHICS, VKS_RECORDED_TRANSFER, VKS_RECORDED_FAMILIES };

typedef struct vks_set_pool {
    struct vks_set_pool *next;
    VkDescriptorPool pool;
} vks_set_pool;

struct vks_recorder {
    _Atomic uint32_t references;
    pthread_mutex_t lock; /* guards all below; innermost */
    bool closed;
    vks_recorder_info info;
    VkDevice device;
    VkPipelineLayout layout;
#define VKS_DECLARE(name) PFN_vk##name name;
    VKS_RECORDER_FUNCTIONS(VKS_DECLARE)
#undef VKS_DECLARE
    PFN_vkSetDebugUtilsObjectNameEXT SetDebugUtilsObjectNameEXT; /* NULL: objects have no names */
    VkCommandPool pools[VKS_RECORDED_FAMILIES];                  /* buffers of both are reset one by one */
    VkPipeline pipelines[VKS_PIPELINES][VKS_PIPELINE_FORMATS];
    vks_recorded *all;     /* by next_made */
    vks_recorded *unused;  /* by next_unused */
    uint64_t unused_bytes; /* of the vertex buffers of these */
    vks_set_pool *set_pools;
    uint32_t set_room; /* sets that the newest pool still has */
    uint64_t *unused_sets;
    size_t n_unused_sets, unused_set_capacity;
    vks_recorder_statistics statistics;
};

struct vks_recorded {
    vks_recorder *recorder; /* a reference while it is in use */
    vks_recorded *next_made, *previous_made, *next_unused;
    VkCommandBuffer buffers[VKS_RECORDED_FAMILIES]; /* NULL: not allocated yet */
    bool has_transfer;
    VkBuffer vertices;
    VkDeviceMemory memory;
    void *mapped;
    size_t vertex_bytes; /* of the buffer */
};

/* ---- vulkan_needs.c ---- */
/* VKS_OK, or the problem that keeps the list from being recorded. Takes no sets and calls no
 * driver. */
vks_status vks_vulkan_check(const vks_recorder *recorder, const vks_recording *recording, vks_record_problem *problem);
/* Calls `need` for each descriptor set that the list binds, until it fails. */
vks_status vks_vulkan_each_set(vks_recorder *recorder, const vks_recording *recording,
                               vks_status (*need)(vks_recorder *recorder, vks_drawable *drawable, unsigned set));
bool vks_vulkan_only_copies(const vks_recording *recording);

/* ---- vulkan_commands.c ---- */
/* Fills the command buffer. Everything that can fail was made before. */
void vks_vulkan_write(const vks_recorder *recorder, const vks_recording *recording, VkCommandBuffer commands,
                      VkBuffer vertices);

#endif
