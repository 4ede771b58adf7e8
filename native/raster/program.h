// A recorded list of raster operations, run many times.
//
// Operations name images by slot; a program owns no pixels. A slot is declared with the extent and format that its
// image will have, so each operation is checked when it is recorded, as far as possible. Vertices are copied into the
// program. Rectangles are clipped when the program runs; an operation of no area is left out.
//
// One thread records. A recorded program is constant: several threads may run it at the same time, each with a pool of
// its own. All functions return enum vks_raster_status unless they say otherwise; a refused operation leaves the
// program as it was.
#pragma once

#include "raster/raster.h"

struct vks_program;

// NULL if out of memory. The caller owns it.
struct vks_program *vks_program_create(void);

// NULL is allowed. native/python calls it: native/vkshare.map.in.
__attribute__((visibility("default"))) void vks_program_destroy(struct vks_program *program);

// Declares the next image slot: 0, 1, 2, … or a negative status.
int vks_program_image(struct vks_program *program, uint32_t width, uint32_t height, uint32_t format);

// The same for a slot of `size` bytes without pixels: its vks_image has format VKS_FORMAT_NONE and that size at least.
int vks_program_bytes(struct vks_program *program, uint64_t size);

int vks_program_clear(struct vks_program *program, uint32_t target, const float rgba[4]);

int vks_program_fill_rect(struct vks_program *program, uint32_t target, int32_t x, int32_t y, int32_t width,
                          int32_t height, const float rgba[4]);

int vks_program_copy(struct vks_program *program, uint32_t source, int32_t source_x, int32_t source_y, int32_t width,
                     int32_t height, uint32_t target, int32_t x, int32_t y);

// Copies between a slot of bytes and another slot. Where that is an image, the rectangle lies inside it, and its rows
// are `stride` bytes apart in the bytes, from the offset on.
struct vks_byte_rows {
    uint64_t source_offset, target_offset; // in bytes; 0 in an image
    uint64_t size;                         // between bytes; else 0
    uint64_t stride;
    int32_t x, y, width, height;
};
int vks_program_copy_bytes(struct vks_program *program, uint32_t source, uint32_t target,
                           const struct vks_byte_rows *copy);

int vks_program_blit(struct vks_program *program, uint32_t source, struct vks_blit_rect from, uint32_t target,
                     struct vks_blit_rect to, enum vks_filter filter);

// `codes`: a -srgb source is read as it is stored.
int vks_program_composite(struct vks_program *program, uint32_t source, uint32_t target, int32_t x, int32_t y,
                          float opacity, enum vks_alpha alpha, bool codes);

// `texture` for a draw that has none.
#define VKS_NO_SLOT UINT32_MAX

// The depth of a draw, which may have none.
struct vks_depth_slot {
    uint32_t slot;
    enum vks_depth_test test;
    bool writes;
};

int vks_program_draw_triangles(struct vks_program *program, uint32_t target, const struct vks_vertex_layout *layout,
                               uint32_t count, uint32_t texture, enum vks_filter filter, uint32_t subpixel_bits,
                               const struct vks_depth_slot *depth);

// Operations that were recorded and have work to do.
uint32_t vks_program_length(const struct vks_program *program);

// Slots that were declared.
uint32_t vks_program_images(const struct vks_program *program);

// Runs every operation in order on images[0..count-1], image i in slot i. All images are checked first: they match
// their declarations, and two that one operation uses share no memory. Nothing is written unless all do. Then only
// VKS_RASTER_NO_MEMORY can stop it half-way.
int vks_program_run(const struct vks_program *program, const struct vks_image *images, uint32_t count,
                    struct vks_pool *pool);
