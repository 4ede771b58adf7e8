/* layer.h: the engines layer inside: its instances and devices, and what it knows of their objects.
 *
 * An image that vkshare shares with an engine is always in VK_IMAGE_LAYOUT_GENERAL. Each call of the
 * engine that names a layout for it is passed on with GENERAL in its place, so that neither the
 * order of the engine's command buffers nor its beliefs about the layout matter (decision 0126).
 */
#ifndef VKS_LAYER_H
#define VKS_LAYER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "layer/loader.h"
#include "vkshare_layer.h"

#define LAYER_SHOWN __attribute__((visibility("default")))

/* The device functions of the next layer: those that the layer wraps (with another name, or ""), then those
 * that it only calls. */
#define LAYER_WRAPPED(X)                                                                                               \
    X(DestroyDevice, "")                                                                                               \
    X(GetDeviceQueue, "")                                                                                              \
    X(GetDeviceQueue2, "")                                                                                             \
    X(QueueSubmit, "")                                                                                                 \
    X(QueueSubmit2, "vkQueueSubmit2KHR")                                                                               \
    X(QueuePresentKHR, "")                                                                                             \
    X(QueueBindSparse, "")                                                                                             \
    X(QueueWaitIdle, "")                                                                                               \
    X(DeviceWaitIdle, "")                                                                                              \
    X(CreateImage, "")                                                                                                 \
    X(DestroyImage, "")                                                                                                \
    X(GetImageMemoryRequirements, "")                                                                                  \
    X(GetImageMemoryRequirements2, "vkGetImageMemoryRequirements2KHR")                                                 \
    X(BindImageMemory, "")                                                                                             \
    X(BindImageMemory2, "vkBindImageMemory2KHR")                                                                       \
    X(CreateImageView, "")                                                                                             \
    X(DestroyImageView, "")                                                                                            \
    X(CreateFramebuffer, "")                                                                                           \
    X(DestroyFramebuffer, "")                                                                                          \
    X(CreateRenderPass, "")                                                                                            \
    X(CreateRenderPass2, "vkCreateRenderPass2KHR")                                                                     \
    X(DestroyRenderPass, "")                                                                                           \
    X(CreateDescriptorPool, "")                                                                                        \
    X(DestroyDescriptorPool, "")                                                                                       \
    X(AllocateDescriptorSets, "")                                                                                      \
    X(UpdateDescriptorSets, "")                                                                                        \
    X(CreateDescriptorUpdateTemplate, "vkCreateDescriptorUpdateTemplateKHR")                                           \
    X(DestroyDescriptorUpdateTemplate, "vkDestroyDescriptorUpdateTemplateKHR")                                         \
    X(UpdateDescriptorSetWithTemplate, "vkUpdateDescriptorSetWithTemplateKHR")                                         \
    X(GetDescriptorEXT, "")                                                                                            \
    X(BeginCommandBuffer, "")                                                                                          \
    X(CmdExecuteCommands, "")                                                                                          \
    X(CmdPipelineBarrier, "")                                                                                          \
    X(CmdPipelineBarrier2, "vkCmdPipelineBarrier2KHR")                                                                 \
    X(CmdWaitEvents, "")                                                                                               \
    X(CmdWaitEvents2, "vkCmdWaitEvents2KHR")                                                                           \
    X(CmdSetEvent2, "vkCmdSetEvent2KHR")                                                                               \
    X(CmdBeginRenderPass, "")                                                                                          \
    X(CmdBeginRenderPass2, "vkCmdBeginRenderPass2KHR")                                                                 \
    X(CmdEndRenderPass, "")                                                                                            \
    X(CmdEndRenderPass2, "vkCmdEndRenderPass2KHR")                                                                     \
    X(CmdBeginRendering, "vkCmdBeginRenderingKHR")                                                                     \
    X(CmdBindDescriptorSets, "")                                                                                       \
    X(CmdBindDescriptorSets2KHR, "vkCmdBindDescriptorSets2")                                                           \
    X(CmdBindDescriptorBuffersEXT, "")                                                                                 \
    X(CmdPushDescriptorSetKHR, "vkCmdPushDescriptorSet")                                                               \
    X(CmdPushDescriptorSet2KHR, "vkCmdPushDescriptorSet2")                                                             \
    X(CmdPushDescriptorSetWithTemplateKHR, "vkCmdPushDescriptorSetWithTemplate")                                       \
    X(CmdPushDescriptorSetWithTemplate2KHR, "vkCmdPushDescriptorSetWithTemplate2")                                     \
    X(CmdClearColorImage, "")                                                                                          \
    X(CmdCopyImage, "")                                                                                                \
    X(CmdCopyImage2, "vkCmdCopyImage2KHR")                                                                             \
    X(CmdBlitImage, "")                                                                                                \
    X(CmdBlitImage2, "vkCmdBlitImage2KHR")                                                                             \
    X(CmdResolveImage, "")                                                                                             \
    X(CmdResolveImage2, "vkCmdResolveImage2KHR")                                                                       \
    X(CmdCopyBufferToImage, "")                                                                                        \
    X(CmdCopyBufferToImage2, "vkCmdCopyBufferToImage2KHR")                                                             \
    X(CmdCopyImageToBuffer, "")                                                                                        \
    X(CmdCopyImageToBuffer2, "vkCmdCopyImageToBuffer2KHR")
#define LAYER_CALLED(X)                                                                                                \
    X(FreeMemory, "")                                                                                                  \
    X(AllocateCommandBuffers, "")

typedef struct layer_instance {
    void *key; /* the first word of its handle, and of its physical devices' */
    VkInstance handle;
    uint32_t api_version;
    bool is_vkshares;  /* an instance of vkshare's own: nothing of it is wrapped */
    bool is_validated; /* a validation layer may be above this one */
    char *extensions;  /* a space after each */
    instance_lookup next;
    /* The next layer's functions. They are looked up before vkCreateInstance returns: later the loader's own look-up,
     * which is the next one of the last layer, gives the functions of the first layer. */
    PFN_vkDestroyInstance DestroyInstance;
    PFN_vkEnumerateDeviceExtensionProperties EnumerateDeviceExtensionProperties;
    PFN_vkGetPhysicalDeviceFeatures2 GetPhysicalDeviceFeatures2;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties GetPhysicalDeviceQueueFamilyProperties;
} layer_instance;

typedef struct layer_image layer_image;
typedef struct layer_node layer_node;
typedef struct layer_template layer_template;

typedef struct layer_device {
    void *key; /* the first word of its handle, and of its queues' and command buffers' */
    VkDevice handle;
    const layer_instance *instance;
    VkPhysicalDevice physical_device;
    device_lookup next;
    char *extensions;
    VkDeviceCreateInfo created_with;
    VkPhysicalDeviceVulkan12Features features12;
    VkPhysicalDeviceVulkan13Features features13;
    char **names; /* of created_with */

    atomic_bool has_guest;  /* a vks_device uses it: the engine's submissions take queue_lock */
    sem_t queue_lock;       /* a semaphore, because any thread may unlock */
    _Atomic(VkQueue) queue; /* the one of vks_layer_device */
    uint32_t queue_family;

    /* Shared images, and the objects of the engine that refer to them. */
    atomic_uint n_images;
    atomic_uint n_sets, n_late; /* nodes of LAYER_SET and LAYER_LATE; these three are read without the lock */
    pthread_mutex_t lock;       /* guards what follows; never held during a call of libvkshare */
    layer_image *images;
    layer_node *nodes[1024];

#define X(name, alias) PFN_vk##name name;
    LAYER_WRAPPED(X)
    LAYER_CALLED(X)
#undef X
} layer_device;

struct layer_image {
    layer_image *next;
    layer_device *device;
    vks_layer_offer from;
    uint32_t textures;              /* images of the engine that it is */
    bool image_ended, memory_ended; /* vkshare destroyed it: done with the last texture */
    bool is_muted, is_reported;
    bool is_in_memory; /* vkGetDescriptorEXT wrote a descriptor of it */
    pthread_t muted_by;
};

/* An object of the engine, and an image that it refers to. */
typedef enum layer_kind {
    LAYER_VIEW,        /* VkImageView */
    LAYER_FRAMEBUFFER, /* VkFramebuffer; sub: the attachment's number */
    LAYER_SET,         /* VkDescriptorSet; sub: binding and element */
    LAYER_COMMANDS,    /* VkCommandBuffer: it uses the image */
    LAYER_PASS,        /* VkCommandBuffer: in a render pass that leaves the image in layout `sub` */
    LAYER_RENDER_PASS, /* VkRenderPass; sub: the attachment's number; layouts in place of an image */
    LAYER_TEMPLATE,    /* VkDescriptorUpdateTemplate; its entries in place of an image */
    LAYER_LATE,        /* VkDescriptorPool with UPDATE_AFTER_BIND, and its VkDescriptorSets (sub: the pool); no image */
    LAYER_BOUND,       /* VkCommandBuffer: it binds the late set `sub`; 0: descriptor buffers; no image */
} layer_kind;

struct layer_template {
    size_t size; /* bytes of the data that it reads; 0: it has a type that the layer does not know */
    uint32_t n;
    VkDescriptorUpdateTemplateEntry entries[];
};

struct layer_node {
    layer_node *next;
    uint64_t key, sub;
    layer_kind kind;
    layer_image *image;
    VkImageLayout first, last; /* LAYER_RENDER_PASS */
    layer_template *template;  /* LAYER_TEMPLATE; the node's own */
};

#define LAYER_KEY(handle) ((uint64_t)(uintptr_t)(handle))

/* ---- registry.c: found by the loader's key, without a lock ---- */

layer_instance *layer_instance_of(const void *dispatchable);
layer_device *layer_device_of(const void *dispatchable);
bool layer_is_device(const layer_device *device); /* it has not ended */
bool layer_add_instance(layer_instance *instance);
bool layer_add_device(layer_device *device);
void layer_remove_instance(layer_instance *instance);
void layer_remove_device(layer_device *device);

/* ---- nodes.c: caller holds device->lock ---- */

/* False: no memory. add does nothing if there is such a node. */
bool layer_add(layer_device *device, layer_kind kind, uint64_t key, uint64_t sub, layer_image *image);
layer_node *layer_add_pass(layer_device *device, uint64_t key, uint64_t sub);
bool layer_add_template(layer_device *device, uint64_t key, layer_template *template); /* takes it over */
/* Whether that object refers to the image. */
bool layer_refers(const layer_device *device, layer_kind kind, uint64_t key, const layer_image *image);
/* The next node of that object after `after` (NULL: the first). */
layer_node *layer_find(const layer_device *device, layer_kind kind, uint64_t key, const layer_node *after);
void layer_forget(layer_device *device, layer_kind kind, uint64_t key);
void layer_forget_one(layer_device *device, layer_kind kind, uint64_t key, uint64_t sub);
void layer_forget_sub(layer_device *device, layer_kind kind, uint64_t sub); /* of all objects */
void layer_forget_kind(layer_device *device, layer_kind kind);
void layer_forget_image(layer_device *device, const layer_image *image); /* NULL: everything */

/* ---- sets.c ---- */

/* Whether that command buffer, as it is now, uses the image. Caller holds device->lock. */
bool layer_uses(const layer_device *device, VkCommandBuffer commands, const layer_image *image);

/* ---- images.c ---- */

/* Whether an image is shared; the wrappers do nothing else where none is. */
static inline bool layer_shares(const layer_device *device)
{
    return __builtin_expect(atomic_load_explicit(&device->n_images, memory_order_acquire) != 0, 0);
}

/* NULL: the image is not a shared one. Caller holds device->lock. */
layer_image *layer_image_of(const layer_device *device, VkImage image);
layer_image *layer_viewed(const layer_device *device, VkImageView view);
void layer_end_images(layer_device *device); /* of a device that ends */
PFN_vkVoidFunction layer_guest_function(const char *name);

/* ---- submit.c ---- */

void layer_lock_queue(void *device);
void layer_unlock_queue(void *device);

/* ---- layer.c ---- */

extern _Thread_local layer_device *layer_thread_device; /* on which this thread made its last image */
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_guest_instance_function(VkInstance instance, const char *name);

/* ---- the wrappers, in the files of what they are about: layer_QueueSubmit() and so on, with Vulkan's types ---- */

#define X(name, alias) __typeof__(*(PFN_vk##name)NULL) layer_##name;
LAYER_WRAPPED(X)
X(CreateDevice, "")
#undef X

#endif
