/* record.h: command lists as data, and what turns them into work: a VkCommandBuffer or a program of
 * the rasteriser. No Python, no ownership, no order between submissions.
 *
 *  - vks_drawable: the properties and Vulkan handles of an image, as commands use it
 *  - vks_recording: an array of commands, the surfaces that they use, and vertices (list.c, commands.c)
 *  - vks_recorder: the command buffers, vertex buffers and descriptor sets of one VkDevice, each
 *    used again when the last use of its list has run (recorder.c)
 *  - vks_recorded: one command buffer of a recorder, with its vertices
 *
 * A recording is for one thread at a time. The other objects are thread-safe.
 *
 * The creator of a recorder makes pipelines, layouts and samplers, because that is rare: it
 * registers the pipelines by number (vks_recorder_set_pipeline), and vks_recorder_record() names the
 * one that is missing.
 */
#ifndef VKS_RECORD_H
#define VKS_RECORD_H

#include "vkshare.h"

#pragma GCC visibility push(default) /* Python uses it: native/vkshare.map.in */

/* ---- drawables ------------------------------------------------------------------------------------------------- */

/* vks_drawable_info.usage: the uses that the image was created for. A buffer for copies has
 * VKS_USE_BYTES alone, so that commands of images refuse it. */
enum { VKS_USE_RENDER = 1, VKS_USE_SAMPLE = 2, VKS_USE_COPY = 4, VKS_USE_STORAGE = 8, VKS_USE_BYTES = 16 };

/* vks_drawable_info.features: the driver's abilities for the image's format and tiling. */
typedef enum vks_feature {
    VKS_CAN_BLEND = 1,
    VKS_CAN_FILTER = 2,
    VKS_CAN_BLIT_FROM = 4,
    VKS_CAN_BLIT_TO = 8,
    VKS_HAS_RAW_VIEW = 16 /* a view of the codes as they are stored; set by vks_drawable_create() */
} vks_feature;

typedef struct vks_drawable vks_drawable;
typedef struct vks_drawable_info {
    uint32_t width, height; /* pixels */
    uint32_t format;        /* vks_format; VKS_FORMAT_NONE: a buffer */
    vks_color color;        /* of planes */
    uint32_t usage, features;
    bool is_mappable;    /* the host may read the memory after the list */
    bool is_presentable; /* of a swapchain: in layout PRESENT_SRC_KHR between two lists, else in GENERAL */
    /* VkImage; VkImageViews of it, 0 for none: one that encodes and decodes -srgb, and one of the
     * codes as they are stored. All 0 on the CPU backend. */
    uint64_t image, view, raw_view;
    /* The same of each plane, where there are several: those above are the first one's. */
    uint64_t planes[3], plane_views[3];
    uint64_t size, buffer; /* of a buffer: its bytes, and its VkBuffer */
} vks_drawable_info;

/* VKS_BAD_VALUE: no such format, or a buffer of no bytes. */
vks_status vks_drawable_create(const vks_drawable_info *info, vks_drawable **out);
void vks_drawable_ref(vks_drawable *drawable);
void vks_drawable_unref(vks_drawable *drawable);
/* Call before the image is destroyed, when no work uses it and no thread records with it: from now
 * on vks_recorder_record() refuses it. Idempotent; one thread at a time. */
void vks_drawable_close(vks_drawable *drawable);
const vks_drawable_info *vks_drawable_get_info(const vks_drawable *drawable);

/* ---- recordings ------------------------------------------------------------------------------------------------ */

/* x, y, z, w, red, green, blue, alpha, u, v: the floats of a vertex in a recording. */
#define VKS_VERTEX_FLOATS 10u
#define VKS_VERTEX_BYTES (VKS_VERTEX_FLOATS * sizeof(float))

typedef struct vks_recording vks_recording;

/* A surface as the argument of a command, with its image. The recording takes references. */
typedef struct vks_operand {
    vks_surface *surface;
    vks_drawable *drawable;
} vks_operand;

/* The depth of a draw: a surface of a depth format, of the target's size. */
typedef struct vks_depth_operand {
    vks_operand image;
    uint32_t test; /* enum vks_depth_test */
    bool writes;   /* the depth of pixels that pass */
} vks_depth_operand;

typedef struct vks_rect {
    int32_t x, y, width, height; /* pixels, row 0 on top */
} vks_rect;

/* A copy from or to a buffer. */
typedef struct vks_bytes_copy {
    vks_rect rect;                         /* of the image */
    uint64_t source_offset, target_offset; /* in buffers, bytes; 0 in an image */
    uint64_t size;                         /* between buffers, bytes; 0 with an image */
    uint64_t stride;                       /* from row to row in the buffer, bytes */
} vks_bytes_copy;

vks_recording *vks_recording_create(void); /* NULL: no memory */
void vks_recording_destroy(vks_recording *recording);
void vks_recording_empty(vks_recording *recording); /* drops all commands and references */
size_t vks_recording_length(const vks_recording *recording);
/* The surfaces that the commands use, each once, in the order of their first use. */
const vks_use *vks_recording_uses(const vks_recording *recording, size_t *n_uses);

/* Each appends one command, or none if it has no area. VKS_BAD_VALUE: an argument is outside its
 * range, and the text says which; VKS_UNSUPPORTED: an image has integers (r32uint), which are
 * cleared, filled and copied alone, or depth, which is cleared, copied and the depth of draws;
 * VKS_NO_MEMORY. A refused command leaves the commands as they were. */
/* `colour` becomes floats; of r32uint, red is rounded (ties to even) and clamped to 0..UINT32_MAX;
 * of a depth format, red is the depth, 0 to 1. */
vks_status vks_recording_clear(vks_recording *recording, vks_operand target, const double colour[4]);
vks_status vks_recording_fill_rect(vks_recording *recording, vks_operand target, vks_rect rect, const double colour[4]);
vks_status vks_recording_copy(vks_recording *recording, vks_operand source, vks_operand target, vks_rect from,
                              int32_t x, int32_t y);
/* Copies between a buffer and an image, or two buffers. `stride` 0: the rows are tight. VKS_BAD_VALUE:
 * no buffer is there; an offset or a stride is no multiple of the image's pixel; or the bytes are not
 * inside the buffer, and the text names both sizes. */
vks_status vks_recording_copy_bytes(vks_recording *recording, vks_operand source, vks_operand target,
                                    const vks_bytes_copy *copy);
/* A negative width or height mirrors: (x, y) is then the right or bottom edge. */
vks_status vks_recording_blit(vks_recording *recording, vks_operand source, vks_operand target, vks_rect from,
                              vks_rect to, bool linear);
typedef enum vks_composite_how {
    VKS_COMPOSITE_STRAIGHT = 1, /* the source's colours are not multiplied by its alpha yet */
    VKS_COMPOSITE_CODES = 2 /* a -srgb source is read as it is stored, for targets that are shown as they are stored */
} vks_composite_how;
vks_status vks_recording_composite(vks_recording *recording, vks_operand source, vks_operand target, int32_t x,
                                   int32_t y, float opacity, uint32_t how);
/* `vertices` has `count` rows (a multiple of 3) of `floats` floats, which are copied. Rows are
 * without a texture (`texture.surface` NULL) x y rgba (6) or xyzw rgba (8), with one x y uv (4) or
 * xyzw uv (6), with either xyzw rgba uv (10). `depth` may be NULL. */
vks_status vks_recording_draw_triangles(vks_recording *recording, vks_operand target, const float *vertices,
                                        size_t count, uint32_t floats, vks_operand texture, bool linear,
                                        const vks_depth_operand *depth);

/* Appends the commands of `from` to `to` that write to a use of `from` with keep[use]; a use as a
 * source becomes sources[use], and so does a use as depth, which is not written then without
 * keep[use]. For unowned surfaces (rule K21). VKS_BAD_VALUE: `from` has not
 * `n_uses` uses. */
vks_status vks_recording_append(vks_recording *to, const vks_recording *from, size_t n_uses, const bool *keep,
                                const vks_operand *sources);

/* The same commands for the rasteriser; slot i is use i. The caller owns the program. */
vks_status vks_recording_program(const vks_recording *recording, uint32_t subpixel_bits, vks_program **out);

/* The same for another process, which draws it on another machine: the body of a relay request in
 * msgpack (docs/server.md), in which surfaces are the numbers that their drawables have as `image`.
 * The caller frees *data. VKS_UNSUPPORTED: a copy from or to a buffer. */
vks_status vks_recording_encode(const vks_recording *recording, uint8_t **data, size_t *size);

/* ---- recorders ------------------------------------------------------------------------------------------------- */

/* Numbers of pipelines; each is made for one format of the target (vks_drawable_info.format). */
enum {
    VKS_PIPELINE_COLOURED,  /* triangles */
    VKS_PIPELINE_TEXTURED,  /* triangles */
    VKS_PIPELINE_COMPOSITE, /* + 1: decodes the source; + 2: its colours are straight */
    VKS_PIPELINE_BLIT = VKS_PIPELINE_COMPOSITE +
        4, /* + 1: linear; + 2: decodes; + 4: encodes; + 8: the target has 16-bit floats */
    VKS_PIPELINE_DEPTH = VKS_PIPELINE_BLIT + 16, /* triangles with depth; + 1: textured; + 2: d32float, not d16unorm */
    /* with a source in planes; + 1: the target blends in linear light */
    VKS_PIPELINE_COMPOSITE_PLANES = VKS_PIPELINE_DEPTH + 4,
    VKS_PIPELINE_BLIT_PLANES = VKS_PIPELINE_COMPOSITE_PLANES + 2, /* from planes; + 1: linear */
    VKS_PIPELINE_TO_PLANES = VKS_PIPELINE_BLIT_PLANES + 2,        /* a blit to a plane of that format; + 1: linear */
    /* triangles; + 1: with depth, of d16unorm; + 2: of d32float */
    VKS_PIPELINE_TEXTURED_PLANES = VKS_PIPELINE_TO_PLANES + 2,
    VKS_PIPELINES = VKS_PIPELINE_TEXTURED_PLANES + 3,
    VKS_PIPELINE_FORMATS = 18u, /* vks_format is below */
    VKS_PUSH_SIZE = 128u        /* bytes of push constants that the pipeline layout needs */
};

typedef struct vks_recorder vks_recorder;
typedef struct vks_recorder_info {
    void *get_device_proc_addr; /* PFN_vkGetDeviceProcAddr */
    uint64_t device;            /* VkDevice */
    uint32_t family;            /* of the graphics queue */
    uint32_t transfer_family;   /* UINT32_MAX: no transfer queue */
    /* The VkPipelineLayout of every pipeline, and its one VkDescriptorSetLayout: binding 0 is a
     * combined image sampler, binding 1 a storage buffer, bindings 2 and 3 are samplers of planes of
     * chroma; all are for the fragment stage. */
    uint64_t layout, set_layout;
    uint64_t nearest, linear; /* VkSamplers */
    uint64_t tables;          /* VkBuffer for binding 1 */
    /* Masks of memory types for vertices, the best first: host-visible and coherent. */
    uint32_t host_types[2];
    bool has_names; /* VK_EXT_debug_utils is enabled */
} vks_recorder_info;

/* Makes no Vulkan object before the first vks_recorder_record(). VKS_UNSUPPORTED: the driver lacks
 * a function. */
vks_status vks_recorder_create(const vks_recorder_info *info, vks_recorder **out);
void vks_recorder_ref(vks_recorder *recorder);
void vks_recorder_unref(vks_recorder *recorder); /* frees memory; calls no driver */
/* Destroys everything that the recorder made: nothing of it runs any more. Idempotent. */
void vks_recorder_close(vks_recorder *recorder);
/* `number`: as above. VKS_BAD_VALUE: no such pipeline. */
vks_status vks_recorder_set_pipeline(vks_recorder *recorder, uint32_t number, uint32_t format, uint64_t pipeline);

typedef enum vks_record_problem_kind {
    VKS_PROBLEM_NONE,     /* the status and its text say it */
    VKS_PROBLEM_PIPELINE, /* register that one, and call again */
    VKS_PROBLEM_CLOSED,   /* the image of `use` is closed */
    VKS_PROBLEM_FEATURE   /* the image of `use` lacks `feature` */
} vks_record_problem_kind;
typedef struct vks_record_problem {
    vks_record_problem_kind kind;
    uint32_t pipeline, format;
    vks_feature feature;
    bool is_blit; /* with VKS_CAN_FILTER: a blit by the driver needs it, not a texture */
    size_t use;
} vks_record_problem;

typedef struct vks_recorded vks_recorded;

/* Records the list for simultaneous use, behind all work that was submitted before. Draws on one
 * target in a row share a rendering scope; all other commands come after a barrier over everything.
 * The driver is called with the recorder's lock held. The caller keeps the images alive meanwhile
 * (those of a swapchain by vks_swapchain_pin). */
vks_status vks_recorder_record(vks_recorder *recorder, const vks_recording *recording, vks_record_problem *problem,
                               vks_recorded **out);
/* Returns whether a command buffer is unused. If not, vks_device_reap() may give some back. */
bool vks_recorder_has_unused(vks_recorder *recorder);
/* The VkCommandBuffers: for the graphics queue; for the transfer queue, 0 unless the list only
 * copies. */
uint64_t vks_recorded_graphics(const vks_recorded *recorded);
uint64_t vks_recorded_transfer(const vks_recorded *recorded);
/* Gives it back to its recorder: its last use has run. The argument of
 * vks_commands_create_vulkan(), with the vks_recorded as `user`. */
void vks_recorded_retire(void *recorded);

typedef struct vks_recorder_statistics {
    uint32_t made, unused; /* vks_recorded */
    uint32_t sets;         /* descriptor sets that were allocated */
    uint64_t vertex_bytes; /* of the vertex buffers */
} vks_recorder_statistics;
void vks_recorder_get_statistics(vks_recorder *recorder, vks_recorder_statistics *out);

#pragma GCC visibility pop

#endif
