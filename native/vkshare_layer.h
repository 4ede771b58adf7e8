/* vkshare_layer.h: the Vulkan layer VK_LAYER_VKSHARE_engines, by which an engine that owns its VkDevice
 * and its images shares them (docs/spec/engines.md, E10 to E14).
 *
 * The layer is a library of its own, VkLayer_vkshare_engines.so. The Vulkan loader loads it into the
 * engine's process (VK_ADD_LAYER_PATH names the folder of its manifest, VK_INSTANCE_LAYERS the layer),
 * and a program gets these functions from the loaded library with dlopen() and dlsym().
 *
 * How a surface becomes an engine's image:
 *
 *   vks_layer_thread_device(&of_engine)          the engine's VkDevice, queue and functions
 *   vks_device_adopt_vulkan(...) with these      a vks_device on them
 *   vks_layer_make_offer(&offer)                 the surface's VkImage ...
 *   (the engine makes a texture)                 ... is what its vkCreateImage returns
 *
 * From then on the engine's submissions that use the image take their turn by the surface's keyed
 * mutex: acquire before, release after. To the driver the image is always in VK_IMAGE_LAYOUT_GENERAL,
 * whatever layout the engine names. Every function is thread-safe.
 */
#ifndef VKSHARE_LAYER_H
#define VKSHARE_LAYER_H

#include <vulkan/vulkan_core.h>

#include "vkshare.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define VKS_LAYER_VERSION 1u
uint32_t vks_layer_version(void); /* VKS_LAYER_VERSION of the loaded library */

/* A VkDevice that an engine made through the layer. The pointers are valid until its end. */
typedef struct vks_layer_device {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr; /* of the layers below this one; with these handles only */
    VkInstance instance;
    VkPhysicalDevice physical_device; /* as this layer knows it, which is not the engine's handle */
    VkDevice device;
    VkQueue queue; /* the first queue of a graphics family that the engine asked for; NULL: none yet */
    uint32_t queue_family, api_version;
    const VkDeviceCreateInfo *created_with; /* the device's extensions, and the features that vkshare needs */
    const char *extensions;                 /* of the instance and of the device, a space after each */
    /* For vks_adopt_info: the engine's own submissions and presents take this lock too. */
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
} vks_layer_device;

/* The device on which this thread made its last image through the layer, since vks_layer_begin().
 * False: there is none, because the engine's instance is without the layer. The device is in use by
 * a vks_device from then on. */
void vks_layer_begin(void);
bool vks_layer_thread_device(vks_layer_device *out);

/* Functions of libvkshare, to which the layer is not linked: vks_surface_sync() and so on. */
typedef struct vks_layer_calls {
    vks_status (*surface_sync)(vks_surface *surface, uint64_t deadline, vks_semaphore_point *wait,
                               vks_semaphore_point *signal);
    void (*surface_ref)(vks_surface *surface);
    void (*surface_unref)(vks_surface *surface);
} vks_layer_calls;

typedef struct vks_layer_offer {
    VkDevice device;
    VkImage image; /* of the surface; in layout GENERAL, with one level, layer and sample */
    VkDeviceMemory memory;
    uint32_t width, height;
    VkFormat format;
    VkImageUsageFlags usage;
    vks_surface *surface; /* the handle that is owned in the engine's turns; a reference is taken */
    vks_layer_calls calls;
} vks_layer_offer;

/* The next vkCreateImage of this thread on that device, if it asks for such an image, returns this
 * one. From then on to vks_layer_end_offer() command buffers that this thread submits and that use the
 * image do not reach the driver: so an engine that clears a texture before its first use, or brings it
 * into a layout, believes that it did. The image and its memory live until both the engine and the
 * vks_device have destroyed them. An image is offered by one thread at a time. False: no such device,
 * or a part of the offer is missing. */
bool vks_layer_make_offer(const vks_layer_offer *offer);
bool vks_layer_is_taken(void);  /* an image was made of this thread's offer */
bool vks_layer_end_offer(void); /* the same, at the end of the offer */

/* `status`: the vks_status of the surface, such as VKS_NOT_OWNER, or VKS_LAYER_OTHER_QUEUE. */
#define VKS_LAYER_OTHER_QUEUE (-1)
/* Sets the function that is called, on the engine's thread, when a submission uses an image that its
 * surface does not own; once until the next submission that does. NULL: a line on stderr. */
void vks_layer_on_misuse(void (*report)(vks_surface *surface, int status));
uint64_t vks_layer_misuses(void); /* such submissions so far */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
