// Premultiplied source-over on 8-bit, four-component pixels that are blended as stored.
//
// At full opacity: d = min(255, s + round(d * (255 - s.a) / 255)), exact. With an opacity, 16 bits a component between:
// within 0.51 / 255 of the real number. Every kernel computes the same integers.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "raster/cpu.h"

// `opacity` is 0..65535 for 0..1. Rows need no alignment and do not overlap.
typedef void (*vks_over_row)(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity);

// The four variants of a kernel: [swap: exchange R and B of the source][fade: opacity below 1].
struct vks_over_kernel {
    vks_over_row row[2][2];
};

const struct vks_over_kernel *vks_over_kernel(enum vks_isa isa);

extern const struct vks_over_kernel vks_over_portable;
#if defined(__x86_64__)
extern const struct vks_over_kernel vks_over_sse2;
extern const struct vks_over_kernel vks_over_avx2;
extern const struct vks_over_kernel vks_over_avx512;
#endif

// The portable row, which also finishes the vector kernels' rows.
void vks_over_pixels(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity, int swap, int fade);
