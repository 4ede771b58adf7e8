/* vkshare_vulkan.h: the part of the library for engines with Vulkan: devices, images, turns.
 *
 * vkshare.h has the conventions and all that both backends share. Handles have Vulkan's own types
 * here, so that a compiler notices a VkImage in the place of a VkCommandBuffer; any Vulkan headers of
 * version 1.3 or later serve. The library never links to libvulkan: an engine passes its
 * vkGetInstanceProcAddr, or libvulkan.so.1 is loaded when a function first needs it.
 *
 * A turn of an engine on a surface:
 *
 *   vks_surface_acquire(surface, key, deadline)      waits for the key
 *   vks_surface_submit_info(surface, ...)            what the engine's submission waits for and signals
 *   vks_surface_cmd_acquire(surface, commands, ...)  the layout that the engine wants
 *   ... the engine's commands ...
 *   vks_surface_cmd_release(surface, commands, ...)  back to the shared layout
 *   vkQueueSubmit2(...)                              with both semaphores
 *   vks_surface_release(surface, next key)           at once: the next owner's work comes after the engine's
 */
#ifndef VKSHARE_VULKAN_H
#define VKSHARE_VULKAN_H

#include <vulkan/vulkan_core.h>

#include "vkshare.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* as in vkshare.h */

/* ---- devices --------------------------------------------------------------------------------------------------- */

typedef struct vks_adapter {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    uint8_t device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE]; /* of VkPhysicalDeviceIDProperties */
    uint32_t api_version;                                         /* VkPhysicalDeviceProperties.apiVersion */
    bool is_software;                                             /* the driver runs on the CPU */
} vks_adapter;

/* Lists the physical devices that the library can use, the best first: GPUs before software.
 * *count: their number; at most `capacity` of them are written to `out`. Blocks while drivers are
 * loaded. VKS_UNSUPPORTED: there is no Vulkan 1.3 here. */
vks_status vks_adapters(vks_adapter *out, uint32_t capacity, uint32_t *count);

typedef struct vks_open_info {
    const char *name; /* as in vks_device_info */
    uint32_t held_limit;
    const uint8_t *device_uuid, *driver_uuid; /* VK_UUID_SIZE bytes each, such as a descriptor's; NULL: any */
    uint32_t index;                           /* among the adapters with these UUIDs, in the order of vks_adapters() */
} vks_open_info;

/* A device of the library's own: a VkDevice with a graphics queue, on a VkInstance that the process
 * keeps. vks_device_create() makes one of the CPU backend. `info` is read during the call. *out is
 * a reference; vks_device_shutdown() destroys the VkDevice too, so a program destroys what it made
 * on the VkDevice before, after vks_device_wait_idle(). Blocks while the driver is loaded, and for
 * the trial of vks_vulkan_try_timelines(). VKS_UNSUPPORTED: no Vulkan, or no such adapter. */
vks_status vks_device_open_vulkan(const vks_open_info *info, vks_device **out);

typedef struct vks_requirements {
    uint32_t api_version;      /* for VkApplicationInfo */
    const char *extensions[8]; /* of the device: those that are needed, then optional ones that this device has */
    uint32_t n_extensions, n_needed;
    /* Fields of VkPhysicalDeviceVulkan12Features and ...13Features that are needed; then, with its
     * extension, one that makes views of VKS_LINEAR images with VKS_USAGE_RENDER valid. */
    const char *features[4];
    uint32_t n_features, n_needed_features;
} vks_requirements;

/* Writes what an engine enables on a VkDevice for vks_device_adopt_vulkan(). With
 * VK_KHR_external_semaphore_fd, parties wait for each other on the GPU. The strings are constants.
 * `get_instance_proc_addr` NULL: that of libvulkan.so.1. VKS_UNSUPPORTED: this device lacks
 * something that is needed; the text names it. */
vks_status vks_vulkan_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                   VkPhysicalDevice physical_device, vks_requirements *out);

/* The trial of vks_vulkan_info.export_timelines: two VkDevices are made on this physical device, a
 * timeline semaphore is exported from one as an opaque fd and imported into the other, the first
 * signals it and the second waits. Blocks: some 200 ms on a GPU, no time where the driver says
 * beforehand that it cannot. VKS_OK: it works. VKS_UNSUPPORTED: it does not; the text says why. */
vks_status vks_vulkan_try_timelines(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                    VkPhysicalDevice physical_device);

typedef struct vks_adopt_info {
    const char *name; /* as in vks_device_info */
    uint32_t held_limit;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* NULL: that of libvulkan.so.1 */
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family; /* of `queue`; its queues draw */
    /* The device's extensions and, in its pNext chain, its features; an engine passes the structure
     * that it gave to vkCreateDevice. Nothing else of it is read. */
    const VkDeviceCreateInfo *created_with;
    void (*lock_queue)(void *user); /* as in vks_vulkan_info */
    void (*unlock_queue)(void *user);
    void *lock_user;
} vks_adopt_info;

/* A device over an engine's VkDevice and queue. `info` is read during the call. *out is a
 * reference. The engine's objects are never destroyed; vks_device_shutdown() destroys those that
 * the library made, and the engine calls it before it destroys the VkDevice. Blocks for the trial
 * of vks_vulkan_try_timelines() if VK_KHR_external_semaphore_fd is enabled. VKS_UNSUPPORTED: an
 * extension or a feature is missing, or the queues of that family cannot draw. VKS_BAD_VALUE: there
 * is no such family, or created_with is NULL. */
vks_status vks_device_adopt_vulkan(const vks_adopt_info *info, vks_device **out);

typedef struct vks_vulkan_device {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint8_t device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
    bool export_timelines;                  /* the trial succeeded: parties wait for each other on the GPU */
    uint32_t api_version;                   /* of the instance; 0: the device is an engine's, which knows it */
    const VkDeviceCreateInfo *created_with; /* extensions, features and queues; NULL: the device is an engine's */
} vks_vulkan_device;

/* The handles of such a device, valid until its shutdown. They stay the owner's. The queue of a
 * device of the library's own is used through vks_submit(), or between vks_device_lock_queue() and
 * vks_device_unlock_queue(). VKS_UNSUPPORTED: another device. */
vks_status vks_device_get_vulkan(vks_device *device, vks_vulkan_device *out);

/* ---- images ---------------------------------------------------------------------------------------------------- */

/* The VkFormat of a surface's format; VK_FORMAT_UNDEFINED: there is no such number. A format in planes
 * has that of several planes, although its surfaces have a VkImage a plane. */
VkFormat vks_vulkan_format(uint32_t format);

typedef struct vks_vulkan_image {
    VkImage image;         /* one level, one layer, one sample */
    VkDeviceMemory memory; /* bound to the image from `offset` on */
    VkFormat format;
    VkExtent2D extent;
    VkImageTiling tiling;
    VkImageUsageFlags usage;
    VkDeviceSize offset; /* bytes; of a plane also behind the planes before it */
} vks_vulkan_image;

/* The image of a surface of vks_surface_create_image() or vks_surface_open_image(). It stays the
 * library's, and is valid until the last unref of the surface or the shutdown of the device; views
 * of it are not used after that. VKS_UNSUPPORTED: the surface has none, or one a plane. */
vks_status vks_surface_get_vulkan(vks_surface *surface, vks_vulkan_image *out);
/* The same for a plane of the surface, 0 for luma: an image of the plane's own format and size. A
 * format of one plane has plane 0 alone. VKS_BAD_VALUE: there is no such plane. */
vks_status vks_surface_get_vulkan_plane(vks_surface *surface, uint32_t plane, vks_vulkan_image *out);

/* An image that an engine made on the device's VkDevice. */
typedef struct vks_adopt_image_info {
    vks_image_info image; /* of one plane, as the VkImage was made; has_tight_rows is not read; usage with _COPY */
    VkImage handle;       /* VK_SHARING_MODE_EXCLUSIVE on the family of the device's queue */
    VkImageLayout layout; /* now: GENERAL, UNDEFINED (the contents are lost), PREINITIALIZED, or an _OPTIMAL one of
                             COLOR_ATTACHMENT (of a depth format DEPTH_STENCIL_ATTACHMENT), SHADER_READ_ONLY,
                             TRANSFER_SRC, TRANSFER_DST */
    /* If other parties are to open the surface: memory made with VkExportMemoryAllocateInfo for an
     * opaque fd, for this image alone, of the size of its VkMemoryRequirements, for an image as
     * vks_surface_body describes it. VK_NULL_HANDLE: they cannot. On a software driver its pages are
     * replaced by those of a sealed memfd with the same contents: nothing uses the image during the
     * call, and no fd of the memory was exported before. */
    VkDeviceMemory memory;
    void (*on_close)(void *user); /* once the library uses the image no more; NULL: none. It calls no function of the
                                     library */
    void *user;
} vks_adopt_image_info;

/* A new surface with that image (rule E2), unowned under key 0. Neither image nor memory is ever
 * destroyed. The first use begins with a transition from the given layout; between two uses the image is in
 * GENERAL, and belongs to the queue, or after an export to VK_QUEUE_FAMILY_EXTERNAL. on_close is called
 * by the last unref of the surface, or by the shutdown of the device. `info` is read during the call.
 * *out is a reference. Blocks for the work that the queue has, if the memory is a software driver's.
 * VKS_BAD_VALUE: a number in `info` is not as above. VKS_UNSUPPORTED: a device of the CPU backend; the
 * driver has no such images, or cannot export the memory as it would its own. */
vks_status vks_surface_adopt_image(vks_device *device, const vks_adopt_image_info *info, vks_surface **out);

typedef struct vks_vulkan_buffer {
    VkBuffer buffer;       /* of nbytes, rounded up to a multiple of 4 */
    VkDeviceMemory memory; /* bound to the buffer from offset 0 on */
    uint64_t nbytes;
    VkBufferUsageFlags usage;
} vks_vulkan_buffer;

/* The same for a buffer of vks_buffer_create() or vks_buffer_open(). VKS_UNSUPPORTED: it has none. */
vks_status vks_buffer_get_vulkan(vks_surface *buffer, vks_vulkan_buffer *out);

/* ---- turns ----------------------------------------------------------------------------------------------------- */

/* Records a barrier into an engine's command buffer: from the shared layout, GENERAL, to `layout`,
 * before commands that access the image in `stages` by `access`. The contents are kept. cmd_release
 * records the way back, after such commands; host memory is made visible to the CPU. The queue
 * family needs no barrier of the engine's, because the library transfers the image in its own
 * batches, before and after the engine's. Neither calls the queue; the caller synchronizes the
 * command buffer, as with every vkCmd. The images of planes all get the layout. A buffer has none, so
 * `layout` is not read for it.
 * VKS_UNSUPPORTED: the surface has no VkImage and no VkBuffer. */
vks_status vks_surface_cmd_acquire(vks_surface *surface, VkCommandBuffer commands, VkImageLayout layout,
                                   VkPipelineStageFlags2 stages, VkAccessFlags2 access);
vks_status vks_surface_cmd_release(vks_surface *surface, VkCommandBuffer commands, VkImageLayout layout,
                                   VkPipelineStageFlags2 stages, VkAccessFlags2 access);

/* vks_surface_sync() in the form of VkSubmitInfo2: the engine's submission waits for *wait and
 * signals *signal, on the device's queue. Both cover all commands; an engine may narrow the stages.
 * Blocks and fails as vks_surface_sync() does: VKS_NOT_OWNER, VKS_TIMEOUT, VKS_UNSUPPORTED. */
vks_status vks_surface_submit_info(vks_surface *surface, uint64_t deadline, VkSemaphoreSubmitInfo *wait,
                                   VkSemaphoreSubmitInfo *signal);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
