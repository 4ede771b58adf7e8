/* engine.h: a VkDevice with all that the library makes on it: images, their memory, their ownership
 * commands. Internal. A vks_device of vkshare_vulkan.h has one, which ends with the shutdown. */
#ifndef VKS_ENGINE_H
#define VKS_ENGINE_H

#include "engine/instance.h"
#include "raster/planar.h"

#define VKS_NEEDED_EXTENSION "VK_KHR_external_memory_fd"
#define VKS_SEMAPHORE_EXTENSION "VK_KHR_external_semaphore_fd"
#define VKS_HOST_EXTENSION "VK_EXT_external_memory_host"
#define VKS_LINEAR_EXTENSION "VK_NV_linear_color_attachment" /* else views of linear images that render are invalid */
#define VKS_SWAPCHAIN_EXTENSION "VK_KHR_swapchain"
#define VKS_MOST_FAMILIES 32u

/* clang-format off */
#define VKS_ENGINE_FUNCTIONS(X)                                                                                        \
    X(DestroyDevice) X(GetDeviceQueue) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements2)                   \
    X(GetImageSubresourceLayout) X(AllocateMemory) X(FreeMemory) X(BindImageMemory) X(MapMemory) X(GetMemoryFdKHR)     \
    X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer)   \
    X(EndCommandBuffer) X(CmdPipelineBarrier2) X(CmdClearColorImage) X(CmdClearDepthStencilImage) X(CreateBuffer)      \
    X(DestroyBuffer) X(GetBufferMemoryRequirements2) X(BindBufferMemory) X(CmdFillBuffer) X(CmdSetDeviceMask)                           \
    X(CmdCopyImage)
/* clang-format on */

/* A plane of a surface, as an image of its own in the surface's memory. */
typedef struct vks_plane_image {
    VkImage handle;
    VkDeviceSize offset;    /* from body.memory_offset */
    VkDeviceSize first_row; /* from there */
    VkDeviceSize stride;    /* 0 for optimal tiling */
} vks_plane_image;

/* The image of a surface, or the buffer. Its `body` is what a descriptor of it says. */
typedef struct vks_surface_image vks_surface_image;
struct vks_surface_image {
    struct vks_engine *engine; /* NULL: memory of the CPU backend */
    vks_surface_image *next, *previous;
    vks_surface_body body;
    VkImage handle;                          /* of planes, the first one's */
    vks_plane_image planes[VKS_MOST_PLANES]; /* of a format in planes; else all 0 */
    VkBuffer buffer;                         /* in the place of an image, where body.tiling is VKS_BUFFER */
    VkDeviceMemory memory;
    VkMemoryRequirements needs;
    VkCommandBuffer commands[VKS_FAMILIES][2]; /* acquire and release */
    bool is_mappable, is_destroyed;
    bool must_be_dedicated;       /* the driver demands it; body.dedicated may be its wish alone */
    bool is_foreign;              /* the memory is not as this driver would export it */
    bool is_adopted;              /* an engine's image, with its memory or without; neither is destroyed */
    bool is_array;                /* an array's memory, which is not unmapped */
    VkImageLayout old_layout;     /* of an engine's image, before its first use */
    VkCommandBuffer initial;      /* from there to GENERAL */
    void (*on_close)(void *user); /* when the library uses image and memory no more */
    void *user;
    uint64_t pages_at;      /* file offset of the memory in the file of `fd` */
    void *mapped;           /* the whole memory; NULL: it is not mapped */
    void *host_memory;      /* imported memory of the CPU backend, memory_size bytes */
    VkDeviceSize first_row; /* in the memory, bytes */
    void *pixels;           /* row 0, where the CPU sees it; on the CPU backend all of the memory */
    int fd;                 /* by which others open the memory; -1: the driver is asked for one */
};

/* The structures that the library's own VkDevice was made with. */
typedef struct vks_creation {
    const char *extensions[5];
    VkDeviceQueueCreateInfo queues[VKS_FAMILIES];
    VkPhysicalDeviceLinearColorAttachmentFeaturesNV linear;
    VkPhysicalDeviceVulkan13Features newer;
    VkPhysicalDeviceVulkan12Features older;
    VkDeviceCreateInfo info;
} vks_creation;

typedef struct vks_engine {
    vks_device *device; /* which owns this; NULL in a trial */
    vks_instance instance;
    vks_physical physical;
    VkDevice handle;
    vks_creation made_with; /* unless it is adopted */
    VkQueue queue;
    uint32_t families[VKS_FAMILIES]; /* queue families of the device's queues */
    uint32_t n_families;
    bool is_adopted, has_semaphore_fd, has_host_memory, has_swapchain;
    pthread_mutex_t lock; /* guards the pools and the list; innermost but for the driver */
    VkCommandPool pools[VKS_FAMILIES];
    vks_surface_image *images; /* that are not destroyed */
#define DECLARE(name) PFN_vk##name name;
    VKS_ENGINE_FUNCTIONS(DECLARE)
#undef DECLARE
} vks_engine;

/* ---- physical.c ---- */
bool vks_has_name(const char *const *names, size_t n, const char *wanted);

/* ---- device.c ---- */
/* Makes a VkDevice with a graphics queue, and a transfer queue where the driver has one. The caller
 * has set instance and physical. */
vks_status vks_engine_create_device(vks_engine *engine);
/* The engine of a device of vkshare_vulkan.h; VKS_UNSUPPORTED: it has none. */
vks_status vks_engine_of(const vks_device *device, vks_engine **out);

/* ---- barriers.c ---- */
/* One end of a barrier of an image. */
typedef struct vks_image_state {
    VkImageLayout layout;
    uint32_t family;
    VkPipelineStageFlags2 stages;
    VkAccessFlags2 access;
} vks_image_state;
/* Records a barrier; `to_host`: the CPU sees what was written, too. */
void vks_image_barrier(const vks_surface_image *image, VkCommandBuffer commands, vks_image_state from,
                       vks_image_state to, bool to_host);
/* A new command buffer of the family's pool, for simultaneous use, which is being recorded. Caller holds
 * engine->lock, and frees *out also on failure, unless it is VK_NULL_HANDLE. */
vks_status vks_engine_begin_commands(vks_engine *engine, uint32_t family, VkCommandBuffer *out);
/* Records the two ownership commands for each queue family. */
vks_status vks_image_record_ownership(vks_surface_image *image);
/* Zeros a new image and releases it to VK_QUEUE_FAMILY_EXTERNAL. Blocks. */
vks_status vks_image_start(vks_surface_image *image);
/* Waits for all that the queue has. */
vks_status vks_image_wait_for_queue(vks_surface_image *image);

/* ---- rows.c ---- */
/* VKS_UNSUPPORTED: the image's rows have padding; the text names the widths that need none. */
vks_status vks_image_check_tight(const vks_surface_image *image);

/* ---- image.c ---- */
/* A new image in exportable memory, or one in the memory of a checked descriptor. */
vks_status vks_image_create(vks_engine *engine, const vks_surface_body *body, bool has_tight_rows,
                            vks_surface_image **out);
vks_status vks_image_open(vks_engine *engine, const vks_surface_descriptor *descriptor, vks_surface_image **out);
/* Reads what the driver needs of a VkImage that is there. */
void vks_image_read_requirements(vks_surface_image *image);
/* Memory that others can open; on a software driver with pages of a sealed memfd in it. */
vks_status vks_image_allocate_shared(vks_surface_image *image);
/* The driver's own fd, the caller's; no other process may have that of a software driver. */
vks_status vks_image_driver_fd(const vks_surface_image *image, int *fd);
/* Has the image use the memory of an fd, which stays the caller's: body.memory_size bytes. */
vks_status vks_image_take_memory(vks_surface_image *image, int fd);
/* A new fd of the memory, CLOEXEC, the caller's. */
vks_status vks_image_export(const vks_surface_image *image, int *fd);
/* Destroys the Vulkan objects. Caller holds engine->lock. */
void vks_image_destroy_objects(vks_surface_image *image);
/* Bytes of the heap that its memory is in. */
VkDeviceSize vks_image_heap_size(const vks_surface_image *image);
/* Destroys and frees everything; nothing runs on it. */
void vks_image_free(vks_surface_image *image);
VkImageUsageFlags vks_image_usage(const vks_surface_body *body);
VkImageTiling vks_image_tiling(const vks_surface_body *body);

/* The steps of both: an image without a handle; whether the driver has such images, shared with
 * these features; the VkImage and its requirements; and, with its memory, the ownership
 * commands. */
vks_surface_image *vks_image_new(vks_engine *engine, const vks_surface_body *body);
vks_status vks_image_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                   VkExternalMemoryFeatureFlags needed);
vks_status vks_image_create_handle(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type);
vks_status vks_image_bind(vks_surface_image *image);

/* The parts of both: its families, of which it returns the number (0: exclusive); and, from what the
 * driver answered, the requirements. */
uint32_t vks_image_sharing_families(const vks_engine *engine, uint32_t families[3]);
void vks_image_set_requirements(vks_surface_image *image, const VkMemoryRequirements2 *needs,
                                const VkMemoryDedicatedRequirements *dedicated);

/* ---- buffer.c: the same steps for a buffer ---- */
static inline bool vks_image_is_buffer(const vks_surface_image *image) { return image->body.tiling == VKS_BUFFER; }
vks_status vks_buffer_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                    VkExternalMemoryFeatureFlags needed);
vks_status vks_buffer_create_handle(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type);
VkBufferUsageFlags vks_buffer_usage(const vks_surface_body *body);

/* ---- planes.c: the same steps for a surface in planes ---- */
static inline bool vks_image_is_planar(const vks_surface_image *image)
{
    return vks_planar_format(image->body.format) != NULL;
}
vks_status vks_planes_check_support(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type,
                                    VkExternalMemoryFeatureFlags needed);
vks_status vks_planes_create_handles(vks_surface_image *image, VkExternalMemoryHandleTypeFlagBits handle_type);
/* Whether rows of chroma have no padding; of one plane, true. */
bool vks_planes_are_tight(const vks_surface_image *image);
/* Whether the planes lie in the memory as those of a surface of the CPU backend do; of one plane, true. */
bool vks_planes_lie_as(const vks_surface_image *image, const vks_surface_body *host);
/* The VkImages, of which it returns the number: one, or one a plane. */
uint32_t vks_image_handles(const vks_surface_image *image, VkImage handles[VKS_MOST_PLANES]);
/* Binds them to the image's memory. */
vks_status vks_image_bind_handles(vks_surface_image *image);

/* ---- host_image.c ---- */
/* An image over the pages of a surface of the CPU backend, without a copy. */
vks_status vks_image_open_host(vks_engine *engine, const vks_surface_descriptor *descriptor, vks_surface_image **out);
/* An image over an array's memory, without a copy. */
vks_status vks_image_open_array(vks_engine *engine, const vks_array_info *info, vks_surface_image **out);

/* ---- surface.c ---- */
/* VKS_BAD_VALUE: a number is out of range. */
vks_status vks_image_check_info(const vks_image_info *info);
/* The same for memory that others allocated. VKS_UNSUPPORTED: the format has planes. */
vks_status vks_image_check_foreign(const vks_image_info *info);
#define VKS_PLANE_ALIGNMENT 4u /* bytes, of luma's rows on the CPU backend: chroma's begin at whole pixels */
/* Bytes from row to row of an image of the CPU backend, of luma in planes. */
uint64_t vks_image_host_stride(const vks_surface_body *body, uint64_t alignment);
/* The numbers that an image of either backend is made from. */
vks_surface_body vks_image_body(const vks_image_info *info);
/* A new surface with that image, which is freed where the call fails. */
vks_status vks_surface_from_image(vks_device *device, vks_surface_image *image, bool discard_unowned,
                                  vks_surface **out);
/* Frees an image of either backend; nothing runs on it. */
void vks_image_drop(vks_surface_image *image);
/* A surface with a new image, or buffer, of these properties. */
vks_status vks_surface_create_memory(vks_device *device, const vks_surface_body *body, bool has_tight_rows,
                                     bool discard_unowned, vks_surface **out);
/* A surface over the memory of a descriptor whose kind was checked. */
vks_status vks_surface_open_memory(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out);
/* The surface's image of either backend. VKS_UNSUPPORTED: it is not the library's. */
vks_status vks_surface_own_image(const vks_surface *surface, vks_surface_image **out);
/* The surface's VkImage, or VkBuffer. VKS_UNSUPPORTED: it has none. */
vks_status vks_surface_vulkan_image(const vks_surface *surface, vks_surface_image **out);

#endif
