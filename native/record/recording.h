/* recording.h: the data of a recording and of a drawable, for the files of this folder. */
#ifndef VKS_RECORDING_H
#define VKS_RECORDING_H

#include <pthread.h>
#include <stdatomic.h>

#include "os/platform.h"
#include "raster/program.h"
#include "record/record.h"

typedef enum vks_command_kind {
    VKS_COMMAND_CLEAR,
    VKS_COMMAND_FILL,
    VKS_COMMAND_COPY,
    VKS_COMMAND_COPY_BYTES,
    VKS_COMMAND_BLIT,
    VKS_COMMAND_COMPOSITE,
    VKS_COMMAND_DRAW
} vks_command_kind;

#define VKS_NO_USE UINT32_MAX

typedef struct vks_command {
    vks_command_kind kind;
    uint32_t target, source; /* indices of uses; VKS_NO_USE: no source */
    bool linear;
    union {
        struct {
            vks_rect rect;   /* inside the target */
            float colour[4]; /* as vks_pack_colour() takes it */
        } fill;              /* of a clear: the colour */
        struct {
            vks_rect from;
            int32_t x, y;
        } copy;
        vks_bytes_copy bytes;
        struct {
            struct vks_blit_rect from, to;
        } blit;
        struct {
            int32_t x, y;
            float opacity;
            uint32_t how; /* vks_composite_how */
        } composite;
        struct {
            uint32_t first, count; /* vertices */
            uint32_t depth;        /* use; VKS_NO_USE: none */
            uint32_t depth_test;
            bool writes_depth;
        } draw;
    };
} vks_command;

struct vks_recording {
    vks_command *commands;
    size_t length, capacity;
    vks_use *uses;
    vks_drawable **drawables; /* of each use */
    size_t n_uses, use_capacity;
    uint32_t *table; /* hash table of indices into `uses` + 1, where there are many; its size is a power of two */
    size_t table_size;
    float *vertices; /* rows of VKS_VERTEX_FLOATS */
    size_t n_vertices, vertex_capacity;
};

/* Descriptor sets of a drawable. */
enum { VKS_SET_LINEAR, VKS_SET_NEAREST, VKS_SET_RAW, VKS_SETS };

struct vks_drawable {
    _Atomic uint32_t references;
    _Atomic bool closed;
    vks_drawable_info info;
    /* A reference: the owner of the sets; NULL: there are none. Written under the recorder's
     * lock. */
    _Atomic(vks_recorder *) recorder;
    uint64_t sets[VKS_SETS]; /* guarded by the recorder's lock */
};

/* ---- list.c ---- */
static const vks_operand vks_no_operand = {NULL, NULL};
/* Appends a checked command; `source` and `depth` may be vks_no_operand. VKS_NO_MEMORY: the list is
 * as it was. */
vks_status vks_recording_add(vks_recording *recording, vks_command command, vks_operand target, vks_operand source,
                             vks_operand depth);
/* Room for `count` more rows of vertices, which count once n_vertices does. NULL: no memory. */
float *vks_recording_vertices(vks_recording *recording, size_t count);
vks_status vks_recording_no_memory(void);

/* recorder.c: takes the sets of a drawable back. */
void vks_recorder_take_sets(vks_drawable *drawable);

static inline bool vks_drawable_is_buffer(const vks_drawable *drawable)
{
    return drawable->info.format == VKS_FORMAT_NONE;
}
static inline bool vks_format_is_srgb(uint32_t format) { return format == VKS_FORMAT_RGBA8_UNORM_SRGB; }

#endif
