// The loops of ycbcr.c, of which each instruction set has its own (ycbcr_vector.h).
#pragma once

#include "raster/cpu.h"
#include "raster/ycbcr.h"

// A row of a plane between two rows of chroma: near * weight[0] + far * weight[1]. `n` components, of words the upper
// 10 bits.
typedef void (*vks_chroma_rows)(const uint8_t *near, const uint8_t *far, const int weight[2], size_t n, int16_t *out);
// Pairs of a row of chroma at twice as many places, * 4. chroma[-1] and chroma[n] are there, too.
typedef void (*vks_chroma_columns)(const int32_t *chroma, size_t n, int32_t *out);
// RGBA of 8 bits; `bgra` takes another order of codes.
typedef void (*vks_ycbcr_colours)(const struct vks_ycbcr_codes *codes, const uint8_t *luma, const int32_t *chroma,
                                  size_t n, uint8_t *out);

struct vks_ycbcr_kernel {
    vks_chroma_rows rows[2]; // of bytes, of words
    vks_chroma_columns midpoint, cosited, same;
    vks_ycbcr_colours colours[2]; // luma in bytes, in words
};

const struct vks_ycbcr_kernel *vks_ycbcr_kernel(enum vks_isa isa);

extern const struct vks_ycbcr_kernel vks_ycbcr_portable;
#if defined(__x86_64__)
extern const struct vks_ycbcr_kernel vks_ycbcr_sse2;
extern const struct vks_ycbcr_kernel vks_ycbcr_avx2;
extern const struct vks_ycbcr_kernel vks_ycbcr_avx512;
#endif
