/* vkshare_ipc.h: what other processes get: surface queues, descriptors, surfaces with memory of the
 * library's, and read-only views of pages. vkshare.h includes it, and has the conventions. */
#ifndef VKSHARE_IPC_H
#define VKSHARE_IPC_H

#include "vkshare.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* as in vkshare.h */

/* ---- surface queues: a ring of (surface, metadata) pairs from a producer to a consumer --------------------------- */

#define VKS_MAX_QUEUE_SURFACES 64u
#define VKS_MAX_METADATA (1u << 16)

/* A network is a fixed set of surfaces and the queues over it. Each queue is a page of shared
 * memory. Each participating device has one handle of each surface. A surface that a device has
 * dequeued from one queue may be enqueued into any other queue of the network. A vks_queue is one
 * end of one queue, held by one device. All surfaces of a network are images, or all are buffers. */
typedef struct vks_queue vks_queue;
typedef enum vks_end { VKS_PRODUCER = 0, VKS_CONSUMER = 1 } vks_end;

typedef struct vks_queue_info {
    uint32_t width, height, format; /* for vkshare ps; buffers: the bytes' low and high 32 bits, and 0 */
    uint32_t count;                 /* surfaces in the network: 1 to VKS_MAX_QUEUE_SURFACES */
    uint32_t metadata_size;         /* bytes per pair: up to VKS_MAX_METADATA */
    uint64_t network;               /* that of another queue over the same surfaces; 0: a new network */
    bool single_threaded;           /* Q15: no lock, no waiting */
    bool early;                     /* each end may be used before the other end was first opened */
    bool full;                      /* starts with every surface in it, surface 0 first: the root queue (Q2) */
    vks_color color;                /* of the surfaces, for vkshare ps */
} vks_queue_info;

/* A new page. The caller owns the fd. VKS_BAD_CALL: a number in `info` is out of range. */
vks_status vks_queue_page_make(const vks_queue_info *info, int *fd);
/* Reads a page's properties after every check of it. The fd stays the caller's. VKS_BAD_PAGE: a
 * check failed. */
vks_status vks_queue_page_read(int fd, vks_queue_info *out);

/* Makes an unowned surface the `index`-th of a network. From then on only the network's queues
 * acquire and release it. Once. VKS_BAD_CALL: it is owned, or a network's already. */
vks_status vks_surface_join(vks_surface *surface, uint64_t network, uint32_t index);

/* Opens one end (Q4: VKS_BAD_CALL while it is open elsewhere). `surfaces` are the device's handles
 * of all surfaces of the network, in its order; the queue takes a reference of each. The fd stays
 * the caller's. */
vks_status vks_queue_open(vks_device *device, int page_fd, vks_end end, vks_surface *const *surfaces, uint32_t count,
                          vks_queue **out);
void vks_queue_ref(vks_queue *queue);
void vks_queue_unref(vks_queue *queue);
/* Wakes all waiters at both ends (Q18). A producer's uncommitted pairs are committed, because the
 * GPU orders their work. Idempotent. */
void vks_queue_close(vks_queue *queue);
bool vks_queue_is_closed(const vks_queue *queue);
uint32_t vks_queue_metadata_size(const vks_queue *queue);

typedef enum vks_enqueue_mode {
    VKS_ENQUEUE_WAIT = 0, /* Q10: waits until the GPU has finished with the surface and earlier pairs are committed */
    VKS_ENQUEUE_TRY,      /* Q11: never waits; commits at once if the GPU has finished, else a flush commits */
    VKS_ENQUEUE_GPU       /* commits at once; the next owner's GPU work waits for this device's */
} vks_enqueue_mode;

/* Enqueues the surface and ends its ownership. Only VKS_ENQUEUE_WAIT blocks. *committed: the pair
 * can be dequeued. On an error the caller still owns the surface (Q19): VKS_NOT_OWNER;
 * VKS_FOREIGN_DEVICE (another device's handle); VKS_BAD_CALL (another network's surface; an end is
 * not open; a second thread of a single-threaded queue; the ring is full of pairs whose surfaces
 * were recovered, so that the consumer must dequeue first); VKS_BAD_VALUE (metadata is too long);
 * VKS_CLOSED (this end, or the consumer). VKS_TIMEOUT: nothing changed. */
vks_status vks_queue_enqueue(vks_queue *queue, vks_surface *surface, const void *metadata, size_t length,
                             vks_enqueue_mode mode, uint64_t deadline, bool *committed);
/* Commits pending pairs, first in first out, as far as the GPU has finished with their surfaces.
 * *committed: pairs that this call committed; *pending: pairs that are left. `wait`: blocks until
 * none is left. VKS_TIMEOUT; VKS_BAD_CALL: the other end was never opened. */
vks_status vks_queue_flush(vks_queue *queue, bool wait, uint64_t deadline, uint32_t *committed, uint32_t *pending);
/* Blocks. Dequeues the first pair: the caller's device then owns the surface, whose index is
 * *surface. `metadata` has room for metadata_size bytes. VKS_CLOSED: the queue is empty and the
 * producer is closed. VKS_ABANDONED: the pair was removed and its surface awaits
 * vks_surface_recover(); or the surface was recovered since this handle last owned it, and the next
 * call returns the pair. */
vks_status vks_queue_dequeue(vks_queue *queue, uint64_t deadline, uint32_t *surface, void *metadata, size_t *length);
/* Pushes `token` into the event queue once a dequeue can succeed, or has failed for good.
 * VKS_BAD_CALL: a producer's end. */
vks_status vks_queue_notify(vks_queue *queue, vks_event_queue *event_queue, uint64_t token);
/* For an event loop: *fd is readable while a dequeue with deadline 0 would not return VKS_TIMEOUT.
 * The first call makes it; the queue owns it until its last unref. Use it only to poll. The end of
 * either side and a loss make it readable, and the dequeue reports them. VKS_BAD_CALL: a producer's
 * end. */
vks_status vks_queue_fd(vks_queue *queue, int *fd);

typedef struct vks_queue_statistics {
    uint64_t enqueued, committed, dequeued; /* totals */
    uint32_t producer_pid, consumer_pid;    /* 0: not open */
} vks_queue_statistics;
/* Copies the totals of this moment to *out. */
void vks_queue_get_statistics(const vks_queue *queue, vks_queue_statistics *out);
vks_status vks_queue_page_count(int fd, vks_queue_statistics *out); /* the same, from a page; VKS_BAD_PAGE */

/* ---- descriptors: surfaces and fences from other processes ------------------------------------------------------ */

/* vkshare's Python side sends and receives the same (SurfaceDescriptor.send(),
 * FenceDescriptor.send()). A descriptor is one message over a Unix socket (SOCK_STREAM or
 * SOCK_SEQPACKET): a header and a body, packed and little-endian, with the file descriptors
 * (SCM_RIGHTS) on the first byte. A layout change raises VKS_DESCRIPTOR_VERSION; other versions are
 * refused (K32). */
#define VKS_DESCRIPTOR_MAGIC "vkshare" /* with its final 0 */
#define VKS_DESCRIPTOR_VERSION 2u
#define VKS_DESCRIPTOR_MAX_FDS 8u   /* in one message of a surface or a fence */
#define VKS_LARGEST_SIDE (1u << 20) /* pixels */
#define VKS_ROW_ALIGNMENT 64u       /* bytes: rows of the CPU backend are padded to a multiple of it */

typedef enum vks_descriptor_kind {
    VKS_DESCRIPTOR_SURFACE = 1,
    VKS_DESCRIPTOR_FENCE = 2,
    VKS_DESCRIPTOR_QUEUE = 3,
    VKS_DESCRIPTOR_BUFFER = 4
} vks_descriptor_kind;

typedef struct __attribute__((packed)) vks_descriptor_header { /* 28 bytes */
    char magic[8];
    uint32_t kind, version;
    uint32_t page_version; /* VKS_LAYOUT_VERSION of the sender */
    uint32_t size;         /* of header and body, bytes */
    uint32_t n_fds;
} vks_descriptor_header;

/* Formats by number, in memory order: 1 r8unorm, 2 rg8unorm, 3 rgba8unorm, 4 rgba8unorm-srgb,
 * 5 bgra8unorm, 6 rgb10a2unorm (a 32-bit word, red in its low bits), 7 r32float, 8 rgba16float,
 * 9 rgba32float, 10 r16float, 11 rg16float, 12 r16unorm, 13 rg16unorm, 14 rgba16unorm,
 * 15 r32uint, 16 d16unorm, 17 d32float, and in planes 18 nv12, 19 p010, 20 i420, 21 nv16, 22 yuv444p; a
 * buffer has 0. */
/* tiling. A linear image is in memory of the first type that is HOST_VISIBLE, HOST_COHERENT and
 * HOST_CACHED, else of the first that is HOST_VISIBLE and HOST_COHERENT; the others in the first
 * that is DEVICE_LOCAL. */
enum { VKS_LINEAR = 0, VKS_OPTIMAL = 1, VKS_LINEAR_IN_DEVICE_MEMORY = 2, VKS_BUFFER = 3 };
enum { VKS_USAGE_RENDER = 1, VKS_USAGE_SAMPLE = 2, VKS_USAGE_COPY = 4, VKS_USAGE_STORAGE = 8 }; /* usage, bits */
/* usage of a buffer, bits: those of VkBufferUsageFlagBits with the same names, and with COPY the
 * permission to record copies. */
enum {
    VKS_BUFFER_COPY = 1,
    VKS_BUFFER_STORAGE = 2,
    VKS_BUFFER_VERTEX = 4,
    VKS_BUFFER_INDEX = 8,
    VKS_BUFFER_UNIFORM = 16,
    VKS_BUFFER_INDIRECT = 32
};
/* memory_kind: memory of a Vulkan driver, or of the CPU backend. The latter is a memfd with exactly
 * the seals SEAL, SHRINK and GROW. Its stride is between the row length and the row length rounded
 * up to VKS_ROW_ALIGNMENT; its size is stride * height, rounded up to whole pages. The row and the stride
 * of planes are the luma's, and the stride is a multiple of 4. Rows of chroma follow without a gap, with the same
 * stride, or in the planes of i420 with half of it. */
enum { VKS_OPAQUE_FD = 0, VKS_MEMFD = 1 };

/* Its fds, in this order: the image's memory, the keyed-mutex page and, where the driver exports
 * semaphores, the timeline. The device with these UUIDs imports an opaque fd as an image of exactly
 * these properties: 2D, one level, one layer, one sample, exclusive (on NVIDIA's driver concurrent,
 * with its first graphics and its first transfer-only family), initialLayout UNDEFINED,
 * VkExternalMemoryImageCreateInfo with OPAQUE_FD; TRANSFER_SRC and TRANSFER_DST always,
 * COLOR_ATTACHMENT with VKS_USAGE_RENDER (of a depth format DEPTH_STENCIL_ATTACHMENT), SAMPLED with _SAMPLE, STORAGE
 * with _STORAGE; flags MUTABLE_FORMAT for rgba8unorm-srgb, else none. allocationSize is memory_size.
 * A format in planes has such an image a plane, of the plane's own format and size, luma first. The
 * first is bound at memory_offset, and each other one where the one before ends, rounded up to its own
 * alignment; memory_size is the last one's end, and the allocation is not dedicated.
 *
 * The opaque fd of a software driver is a memfd with the seals SEAL, SHRINK and GROW, in the layout
 * of the driver's own file. The file of lavapipe begins with {size, offset}, which every party can
 * rewrite and which lavapipe trusts when it imports and frees. So vks_surface_open_image()
 * allocates exportable memory in its place and maps the fd's pages over it, and an import by other
 * means needs a trusted party.
 *
 * A buffer's descriptor has the kind VKS_DESCRIPTOR_BUFFER and the same body and fds: tiling is
 * VKS_BUFFER, format and stride are 0, and the buffer has width + (height << 32) bytes. It is
 * imported as a VkBuffer of that size: handle type and sharing as those of an image; TRANSFER_SRC and
 * TRANSFER_DST always, and the bits of `usage`; no flags. Its memory is of the type of VKS_LINEAR
 * images where the driver is a software driver, else of that of VKS_OPTIMAL images. A memfd has the
 * bytes in whole pages.
 */
typedef struct __attribute__((packed)) vks_surface_body { /* 120 bytes */
    uint32_t width, height, format;
    uint8_t tiling, usage, memory_kind;
    uint8_t dedicated;                                        /* 1: the import needs VkMemoryDedicatedAllocateInfo */
    uint64_t memory_size, memory_offset;                      /* bytes; row 0 begins at the offset */
    uint64_t stride;                                          /* bytes from row to row; 0 for optimal tiling */
    uint8_t device_uuid[16], driver_uuid[16];                 /* of VkPhysicalDeviceIDProperties */
    uint32_t damage_x, damage_y, damage_width, damage_height; /* all 0: the whole surface; reserved */
    char name[VKS_NAME_SIZE];                                 /* of the sender's device; UTF-8, padded with 0 */
    vks_color color;     /* all 0: the sender has not said it, and it is sRGB's; a format of planes has one */
    uint8_t reserved[3]; /* 0 */
} vks_surface_body;

/* Its fds: the fence page and, where the driver exports semaphores, the timeline. */
typedef struct __attribute__((packed)) vks_fence_body { /* 56 bytes */
    uint8_t device_uuid[16], driver_uuid[16];
    char name[VKS_NAME_SIZE];
} vks_fence_body;

typedef struct vks_surface_descriptor {
    vks_surface_body body;
    int memory_fd, page_fd, semaphore_fd; /* CLOEXEC; semaphore_fd is -1 where there is none */
} vks_surface_descriptor;

typedef struct vks_fence_descriptor {
    vks_fence_body body;
    int page_fd, semaphore_fd;
} vks_fence_descriptor;

/* Receives from a connected Unix socket whose peer runs as the same user. Blocks. Senders are
 * untrusted: sizes, versions, kinds, seals and fds are all checked before anything is mapped.
 * VKS_TIMEOUT: nothing came. VKS_CLOSED: the peer closed the connection before it sent anything.
 * VKS_BAD_PAGE: the message was refused and all its fds are closed; the caller should close the
 * socket too. The caller owns the fds until vks_X_descriptor_close(). */
vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out);
vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out);
void vks_surface_descriptor_close(vks_surface_descriptor *descriptor); /* idempotent */
void vks_fence_descriptor_close(vks_fence_descriptor *descriptor);
/* Sends a descriptor over such a socket, in one message with its fds. Blocks while the receiver has
 * no room, or while too many fds of this user are in flight. The descriptor stays usable, and its
 * fds stay the caller's. VKS_TIMEOUT: nothing was sent. VKS_BAD_PAGE: the peer runs as another
 * user, or a part of the message was sent, so that the caller must close the socket. */
vks_status vks_surface_descriptor_send(int sock, uint64_t deadline, const vks_surface_descriptor *descriptor);
vks_status vks_fence_descriptor_send(int sock, uint64_t deadline, const vks_fence_descriptor *descriptor);
/* VKS_FOREIGN_DEVICE unless the memory belongs to this device and driver. Call it before importing
 * an opaque fd (X17). */
vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *descriptor, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16]);
/* The pixels of a surface of the CPU backend, body.memory_size bytes, writable. The caller unmaps
 * them (munmap) after it closes the surface. VKS_UNSUPPORTED: the memory is a driver's. */
vks_status vks_surface_descriptor_map(const vks_surface_descriptor *descriptor, void **pixels);
/* Opens a handle of the descriptor's surface; the descriptor stays usable. CPU backend: `pixels`
 * from vks_surface_descriptor_map(). Vulkan: NULL, and vks_surface_set_commands() before the first
 * submit. For a fence: vks_fence_open() with duplicates of the fds. VKS_BAD_PAGE, VKS_FULL. */
vks_status vks_surface_open_descriptor(vks_device *device, const vks_surface_descriptor *descriptor, void *pixels,
                                       vks_surface **out);

/* ---- surfaces with an image of the library's: memory, image and handle in one object ---------------------------- */

/* They need a device of the CPU backend, or one of vkshare_vulkan.h. The last unref of a surface
 * destroys its image and frees its memory; vks_surface_close() comes first, and waits for the work
 * that was submitted through the library. An engine's own work is counted if a release followed
 * it. */
typedef struct vks_image_info {
    uint32_t width, height; /* pixels: 1 to VKS_LARGEST_SIDE; a driver may allow less */
    uint32_t format;        /* a number of the list above */
    uint32_t tiling;        /* VKS_LINEAR, ...; the CPU backend has VKS_LINEAR alone */
    uint32_t usage;         /* VKS_USAGE_RENDER, ...; 0: render, sample and copy */
    bool discard_unowned;   /* as in vks_surface_info */
    bool has_tight_rows;    /* no byte between rows, for VKS_LINEAR and VKS_LINEAR_IN_DEVICE_MEMORY */
    vks_color color;        /* of the codes; all 0: sRGB's, of planes BT.709's of limited range */
} vks_image_info;

/* *bytes: rows of linear images whose length is a multiple of it have no padding, in every format
 * (rule E7); 0: unknown. Thread-safe. VKS_UNSUPPORTED as below. */
vks_status vks_row_alignment(vks_device *device, uint32_t *bytes);

/* A new surface with a new image of zeros that other parties can open. It is unowned, its key is 0,
 * and its image belongs to VK_QUEUE_FAMILY_EXTERNAL in layout GENERAL: the state between any two
 * turns, so that a first acquire is like every other one. `info` is read during the call. *out is a
 * reference. Blocks until the queue has zeroed the image. VKS_BAD_VALUE: a number in `info` is out
 * of range. VKS_UNSUPPORTED: the driver cannot make such an image, or not without padding, or cannot
 * export its memory; or the device was made by vks_device_create() on a VkDevice. */
vks_status vks_surface_create_image(vks_device *device, const vks_image_info *info, vks_surface **out);
/* Opens another party's surface, and imports or maps its memory. The descriptor and its fds stay the
 * caller's. *out is a reference. VKS_FOREIGN_DEVICE: the memory belongs to another device or driver.
 * VKS_BAD_PAGE: the descriptor is not what this driver would export (X16), or its page was refused.
 * VKS_FULL; VKS_UNSUPPORTED as above, for memory of a driver on the CPU backend, and for memory of the
 * CPU backend on a VkDevice whose driver cannot import it (VK_EXT_external_memory_host). */
vks_status vks_surface_open_image(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out);

/* Memory that another API or engine allocated, with an image in it. */
typedef struct vks_import_info {
    vks_image_info image; /* of one plane; has_tight_rows is not read; VKS_LINEAR is memory that the CPU sees */
    uint64_t size;        /* bytes of the memory, as it was allocated */
    uint64_t offset;      /* bytes from its beginning to the image */
    uint64_t stride;      /* bytes from row to row of linear images; 0: as the driver has it */
    bool is_dedicated;    /* it was allocated for this image alone (VkMemoryDedicatedAllocateInfo) */
    const uint8_t *device_uuid, *driver_uuid; /* 16 bytes each, of the allocator; NULL: not compared */
} vks_import_info;

/* A new surface in the memory of `fd`, whose contents stay (rule E3): an opaque fd of the device's
 * driver; on a software driver and on the CPU backend a memfd with the seals SEAL, SHRINK and GROW.
 * The surface is unowned, its key is 0, and its image belongs to VK_QUEUE_FAMILY_EXTERNAL in layout
 * GENERAL: what the other API did with it has ended. The fd is the library's when the call returns
 * VKS_OK, else the caller's. `info` is read during the call. *out is a reference.
 * VKS_FOREIGN_DEVICE: a UUID is not the device's. VKS_BAD_PAGE: the memory has no room for such an
 * image, not at that offset or not with that stride, or the fd is not of such memory.
 * VKS_BAD_VALUE, VKS_UNSUPPORTED as above. */
vks_status vks_surface_import_memory(vks_device *device, const vks_import_info *info, int fd, vks_surface **out);

/* Memory of this process that another library allocated: rows of pixels. */
typedef struct vks_array_info {
    vks_image_info image;         /* of one plane; tiling is VKS_LINEAR; has_tight_rows is not read */
    void *pixels;                 /* row 0 */
    size_t stride;                /* bytes from row to row */
    size_t size;                  /* bytes from `pixels` on that the caller keeps until on_close */
    void (*on_close)(void *user); /* once the library uses the memory no more; NULL: none. It calls no function of the
                                     library */
    void *user;
} vks_array_info;

/* A new surface over that memory, without a copy (rule E4); unowned, its key is 0, and its contents
 * are the memory's. A device of the CPU backend wants address and stride in whole pixels; a
 * VkDevice wants all three as VK_EXT_external_memory_host has them, so whole pages, and rows as the
 * driver has them: else VKS_BAD_VALUE, with the text. `info` is read during the call. *out is a
 * reference. No other party can open it. VKS_UNSUPPORTED: another tiling, or the driver has no
 * images in host memory. */
vks_status vks_surface_share_array(vks_device *device, const vks_array_info *info, vks_surface **out);
/* A descriptor of the surface for another party; the caller closes it. Blocks as
 * vks_surface_export() does. VKS_UNSUPPORTED: the image is not the library's, or in foreign memory
 * that is not as this driver would export it. */
vks_status vks_surface_export_descriptor(vks_surface *surface, vks_surface_descriptor *out);
/* Row 0 of the pixels and the bytes from row to row. They may be accessed between
 * vks_surface_cpu_access() and the release, and stay mapped until the last unref. VKS_UNSUPPORTED:
 * the CPU does not see the memory, because it is not VKS_LINEAR. */
vks_status vks_surface_pixels(vks_surface *surface, void **pixels, size_t *stride);

/* A plane of a surface. */
typedef struct vks_plane {
    uint32_t width, height; /* pixels of this plane */
    uint32_t format;        /* VKS_FORMAT_RG8_UNORM of the chroma of VKS_FORMAT_NV12, for example */
    void *pixels;           /* row 0, as those of vks_surface_pixels(); NULL: the CPU does not see the memory */
    size_t stride;          /* bytes from row to row; 0 for optimal tiling */
} vks_plane;

/* The plane of that number, 0 for luma; a format of one plane has plane 0 alone. VKS_BAD_VALUE: there
 * is no such plane. VKS_UNSUPPORTED: the image is not the library's. */
vks_status vks_surface_get_plane(vks_surface *surface, uint32_t plane, vks_plane *out);

/* ---- buffers: bytes under a keyed mutex ------------------------------------------------------------------------- */

/* A buffer is a vks_surface without pixels (rule E5). All calls of surfaces take it: its keys, fences,
 * deaths, exports and its end are the same. vks_surface_export_descriptor() and
 * vks_surface_descriptor_send() pass it on, and vks_surface_pixels() has its bytes, with stride 0. */
typedef struct vks_buffer_info {
    uint64_t nbytes; /* 1 to 2^48; a driver may allow less, and the CPU backend the machine's memory */
    uint32_t usage;  /* VKS_BUFFER_COPY, ...; 0: copy and storage */
} vks_buffer_info;

/* A new buffer of zeros that other parties can open, unowned, with key 0, as
 * vks_surface_create_image() makes a surface. Its memory is the CPU's on the CPU backend and with a
 * software driver, else the GPU's. VKS_BAD_VALUE: a number in `info` is out of range.
 * VKS_UNSUPPORTED: the driver cannot share the memory of buffers. */
vks_status vks_buffer_create(vks_device *device, const vks_buffer_info *info, vks_surface **out);
/* Opens another party's buffer, as vks_surface_open_image() opens a surface; its errors are the same:
 * VKS_FOREIGN_DEVICE, VKS_BAD_PAGE, VKS_FULL, VKS_UNSUPPORTED. */
vks_status vks_buffer_open(vks_device *device, const vks_surface_descriptor *descriptor, vks_surface **out);
/* vks_surface_descriptor_recv() for a buffer; it blocks, too. Each of the two refuses the other's
 * descriptors (VKS_BAD_PAGE). */
vks_status vks_buffer_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out);

/* A descriptor of the fence for another party; the caller closes it. VKS_UNSUPPORTED: the fence
 * adopted an engine's semaphore. */
vks_status vks_fence_export_descriptor(vks_fence *fence, vks_fence_descriptor *out);
/* A read-only follower of the descriptor's fence. The descriptor and its fds stay the caller's. The
 * semaphore is used where this device can import it; else the page alone orders the work.
 * VKS_BAD_PAGE, VKS_FULL. */
vks_status vks_fence_open_descriptor(vks_device *device, const vks_fence_descriptor *descriptor, vks_fence **out);

/* ---- descriptors of queues and pipes ---- */

/* The body of a queue's descriptor: vks_queue_body, and a vks_surface_body for each surface of the
 * network, in its order. Its fds: the queues' pages, and then for each surface those of its own
 * descriptor. */
typedef struct __attribute__((packed)) vks_queue_body { /* 12 bytes */
    uint32_t n_queues;                                  /* 1; 2: a pipe, with the way there and the way back */
    uint32_t n_surfaces, fds_per_surface;               /* 2 or 3 fds each */
} vks_queue_body;

typedef struct vks_queue_descriptor {
    uint32_t n_queues, n_surfaces;
    int page_fds[2]; /* CLOEXEC; -1: none */
    vks_surface_descriptor surfaces[VKS_MAX_QUEUE_SURFACES];
} vks_queue_descriptor;

/* Send, receive and close as those of a surface do. A descriptor that was received has surfaces of
 * one size, format, tiling, usage and colour. recv and send block. VKS_TIMEOUT, VKS_CLOSED, VKS_BAD_PAGE;
 * send: VKS_BAD_VALUE if the numbers are out of range. */
vks_status vks_queue_descriptor_send(int sock, uint64_t deadline, const vks_queue_descriptor *descriptor);
vks_status vks_queue_descriptor_recv(int sock, uint64_t deadline, vks_queue_descriptor *out);
void vks_queue_descriptor_close(vks_queue_descriptor *descriptor);
/* A descriptor of queues over the `count` surfaces of a network, which vks_surface_create_image() or
 * vks_buffer_create() made and vks_surface_join() joined, in order. `page_fds` are the pages of 1 or
 * 2 queues; they stay the caller's. The caller closes *out. Blocks as vks_surface_export() does.
 * VKS_BAD_VALUE: a number is out of range, or the surfaces differ in size, format, tiling, usage or
 * colour.
 * VKS_UNSUPPORTED: a surface's image is not the library's. */
vks_status vks_queue_export_descriptor(const int *page_fds, uint32_t n_queues, vks_surface *const *surfaces,
                                       uint32_t count, vks_queue_descriptor *out);
/* Opens the surfaces of a descriptor on the device, and joins them to its network. `surfaces` has
 * room for n_surfaces, and receives a reference of each; vks_queue_open() takes them with a page of
 * the descriptor. On failure none is left open. The descriptor and its fds stay the caller's.
 * VKS_BAD_PAGE: the queues' pages do not fit the descriptor, or a surface was refused; else as
 * vks_surface_open_image(): VKS_FOREIGN_DEVICE, VKS_UNSUPPORTED, VKS_FULL. */
vks_status vks_queue_open_surfaces(vks_device *device, const vks_queue_descriptor *descriptor, vks_surface **surfaces);

/* ---- mirrors: a surface on a device that cannot open its memory ------------------------------------------------- */

/* A handle of another adapter's surface, with an image of its own on the device (rules G1 and G2). Its
 * turns are for one thread at a time; all other functions are for any. */
typedef struct vks_mirror vks_mirror;

typedef struct vks_mirror_statistics {
    uint64_t pulls, pushes;              /* copies from the other adapter's image, and to it */
    uint64_t pulled_bytes, pushed_bytes; /* of pixels */
} vks_mirror_statistics;

/* Makes a mirror of a descriptor's surface; the descriptor stays the caller's. The CPU copies, by way
 * of a device of the other adapter that the mirror opens. Where the device can open the memory, the
 * mirror has no other image, and copies nothing. Blocks while drivers are loaded. *out is a reference.
 * VKS_FOREIGN_DEVICE: this process has no such adapter. VKS_UNSUPPORTED: the device has no such
 * images, or the CPU sees no rows of the format, as of depth on Vulkan. Else as
 * vks_surface_open_image(). */
vks_status vks_device_mirror(vks_device *device, const vks_surface_descriptor *descriptor, vks_mirror **out);
/* The image on the device, which is owned in a turn of the mirror. The mirror's reference. */
vks_surface *vks_mirror_surface(const vks_mirror *mirror);
/* The handle that shares the keyed mutex, for its fds, keys and generation. The mirror's reference. */
vks_surface *vks_mirror_party(const vks_mirror *mirror);
/* Acquires and recovers as vks_surface_acquire() and vks_surface_recover() do, and copies what others
 * have changed since the mirror's last turn. Both block, also for the work on what is copied.
 * VKS_INTERRUPTED: the next call goes on, and a release gives it up. VKS_TIMEOUT: the copy begins anew
 * with the next call, so that one with deadline 0 may never end it. */
vks_status vks_mirror_acquire(vks_mirror *mirror, uint64_t key, uint64_t deadline);
vks_status vks_mirror_recover(vks_mirror *mirror, uint64_t deadline);
/* Copies back what this turn has changed, all of it inside `damage` (empty: nothing; NULL: perhaps
 * everything), and releases. Blocks for the work on it. VKS_TIMEOUT: it is still owned; VKS_INTERRUPTED,
 * too, and the same call is the next one, before anything is drawn. VKS_BAD_VALUE: the box is not inside the surface.
 * VKS_NOT_OWNER, VKS_ABANDONED. */
vks_status vks_mirror_release(vks_mirror *mirror, uint64_t key, const vks_box *damage, uint64_t deadline);
void vks_mirror_get_statistics(const vks_mirror *mirror, vks_mirror_statistics *out);
void vks_mirror_close(vks_mirror *mirror); /* of both images; blocks as vks_surface_close(). Idempotent */
void vks_mirror_ref(vks_mirror *mirror);
void vks_mirror_unref(vks_mirror *mirror);

/* ---- read-only views of pages, for vkshare ps (K33) ---- */

typedef struct vks_slot_view {
    uint32_t slot, pid;
    char name[VKS_NAME_SIZE];
    uint64_t pending_value;
    bool waiting;
    uint64_t waiting_key, waiting_since; /* CLOCK_MONOTONIC ns */
} vks_slot_view;

typedef struct vks_page_view {
    uint32_t kind; /* 1 fence page, 2 keyed-mutex page */
    uint32_t version;
    uint64_t id;
    uint32_t width, height, format;
    vks_color color; /* of a surface; all 0: not said */
    uint32_t state;  /* 0 free, 1 owned, 2 abandoned; fence pages: vks_fence_status */
    uint32_t owner_slot, owner_pid;
    uint64_t key, value, queued, completed, epoch;
    uint32_t generation;
    uint32_t n_slots;
    vks_slot_view slots[VKS_SLOTS];
} vks_page_view;

/* Maps the page read-only, copies its contents and unmaps it. The fd stays the caller's.
 * VKS_BAD_PAGE: not a page of vkshare. */
vks_status vks_page_inspect(int fd, vks_page_view *out);

typedef struct vks_end_view {
    uint32_t state; /* 0 never opened, 1 open, 2 closed */
    uint32_t pid;   /* 0 unless open */
    bool dead;      /* open, and its process has certainly ended; no party has noticed yet */
    char name[VKS_NAME_SIZE];
    uint64_t since; /* of `state`; CLOCK_MONOTONIC ns, as all times here; 0: never */
} vks_end_view;

/* The contents of a surface queue's page. The numbers are not checked against each other. */
typedef struct vks_queue_view {
    uint64_t id, network;
    uint32_t width, height, format, count, metadata_size;
    vks_color color; /* all 0: not said */
    bool single_threaded;
    uint64_t written, committed, taken; /* totals of surfaces */
    uint64_t committed_at, taken_at;    /* last time of each */
    uint64_t waiting_since;             /* since when a consumer thread sleeps in dequeue; 0: none does */
    vks_end_view ends[2];               /* by vks_end */
} vks_queue_view;

/* Works like vks_page_inspect(); VKS_BAD_PAGE. */
vks_status vks_queue_inspect(int fd, vks_queue_view *out);

/* ---- for tests and tools ---------------------------------------------------------------------------------------- */

bool vks_have_futex_waitv(void); /* false: held work that waits on other parties' pages is polled every millisecond */
uint32_t vks_thread_count(void); /* threads of the core now */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
