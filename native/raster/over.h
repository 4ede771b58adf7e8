// Source-over on 8-bit, four-component pixels that are blended as stored.
//
// Premultiplied, at full opacity: d = min(255, s + round(d * (255 - s.a) / 255)), exact. Straight, where the source's
// alpha is taken for 255 as a component: d = round((s * s.a + d * (255 - s.a)) / 255), exact. With an opacity, 16 bits
// a component between: within 0.52 / 255 of the real number. Every kernel computes the same integers.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "raster/cpu.h"

// `opacity` is 0..65535 for 0..1. Rows need no alignment and do not overlap.
typedef void (*vks_over_row)(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity);

// The variants of a kernel: [straight][swap: exchange R and B of the source][fade: opacity below 1].
struct vks_over_kernel {
    vks_over_row row[2][2][2];
};

// Defines them, and their table `kernel`, by an inline ROW(target, source, pixels, opacity, straight, swap, fade).
#define VKS_OVER_VARIANT(name, straight, swap, fade)                                                                   \
    static void name(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity)                          \
    {                                                                                                                  \
        ROW(target, source, pixels, opacity, straight, swap, fade);                                                    \
    }
#define VKS_OVER_VARIANTS(kernel)                                                                                      \
    VKS_OVER_VARIANT(plain, 0, 0, 0)                                                                                   \
    VKS_OVER_VARIANT(faded, 0, 0, 1)                                                                                   \
    VKS_OVER_VARIANT(swapped, 0, 1, 0)                                                                                 \
    VKS_OVER_VARIANT(swapped_faded, 0, 1, 1)                                                                           \
    VKS_OVER_VARIANT(straight_plain, 1, 0, 0)                                                                          \
    VKS_OVER_VARIANT(straight_faded, 1, 0, 1)                                                                          \
    VKS_OVER_VARIANT(straight_swapped, 1, 1, 0)                                                                        \
    VKS_OVER_VARIANT(straight_swapped_faded, 1, 1, 1)                                                                  \
    const struct vks_over_kernel kernel = {                                                                            \
        {{{plain, faded}, {swapped, swapped_faded}},                                                                   \
         {{straight_plain, straight_faded}, {straight_swapped, straight_swapped_faded}}}};

const struct vks_over_kernel *vks_over_kernel(enum vks_isa isa);

extern const struct vks_over_kernel vks_over_portable;
#if defined(__x86_64__)
extern const struct vks_over_kernel vks_over_sse2;
extern const struct vks_over_kernel vks_over_avx2;
extern const struct vks_over_kernel vks_over_avx512;
#endif

// The portable row, which also finishes the vector kernels' rows.
void vks_over_pixels(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity, int straight, int swap,
                     int fade);
