// Colours of a triangle's spans, blended into the target.
#pragma once

#include "raster/cpu.h"
#include "raster/format.h"
#include "raster/triangle.h"

// Shared by all triangles of a draw call.
struct vks_draw {
    const struct vks_image *target;
    const struct vks_image *texture; // or NULL
    enum vks_filter filter;
    bool in_8888; // all of it can be done by shade_8888.h
};

struct vks_draw vks_make_draw(const struct vks_image *target, const struct vks_image *texture, enum vks_filter filter);

// Draws spans[0..rows-1], which lie in rows y, y + 1, … of the target.
typedef void (*vks_shade_rows)(const struct vks_draw *draw, const struct vks_triangle *triangle, int32_t y,
                               int32_t rows, const struct vks_span *spans);

vks_shade_rows vks_shade_kernel(enum vks_isa isa);

void vks_shade_rows_portable(const struct vks_draw *, const struct vks_triangle *, int32_t, int32_t,
                             const struct vks_span *);
#if defined(__x86_64__)
void vks_shade_rows_sse2(const struct vks_draw *, const struct vks_triangle *, int32_t, int32_t,
                         const struct vks_span *);
void vks_shade_rows_avx2(const struct vks_draw *, const struct vks_triangle *, int32_t, int32_t,
                         const struct vks_span *);
void vks_shade_rows_avx512(const struct vks_draw *, const struct vks_triangle *, int32_t, int32_t,
                           const struct vks_span *);
#endif

// Up to a chunk of pixels, one array a component. Aligned for the widest vectors.
struct vks_colours {
    _Alignas(64) float component[4][VKS_CHUNK];
};

// Where a chunk of pixels reads its texture: rows and columns inside it, and the second ones' weights.
struct vks_taps {
    _Alignas(64) int32_t x0[VKS_CHUNK];
    int32_t x1[VKS_CHUNK], y0[VKS_CHUNK], y1[VKS_CHUNK];
    float fx[VKS_CHUNK], fy[VKS_CHUNK];
};

// The ways for any format. `count` is at most VKS_CHUNK.
void vks_modulate_any(const struct vks_draw *draw, const struct vks_taps *taps, uint32_t count,
                      struct vks_colours *colours);
void vks_blend_any(const struct vks_draw *draw, const struct vks_colours *colours, uint32_t count, void *pixels);
