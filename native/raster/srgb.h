// sRGB by the Khronos Data Format Specification 13.3. Decoding is a table. Encoding compares with the exact thresholds
// between codes: a bucket of the float's upper bits gives the lowest code that it may have, and no bucket holds two.
#pragma once

#include <stdint.h>
#include <string.h>

#include "raster/vec4.h"

#define VKS_SRGB_FIRST_BUCKET (0x39000000u >> 16) // 2^-13, below the first threshold; 7 bits of mantissa
#define VKS_SRGB_BUCKETS ((0x3f800000u >> 16) - VKS_SRGB_FIRST_BUCKET)

struct vks_srgb {
    float linear[256];
    float threshold[256]; // the smallest float that encodes to i + 1 at least; +infinity for 255
    uint8_t code[VKS_SRGB_BUCKETS];
};

// Made at the first call, by whichever thread.
const struct vks_srgb *vks_srgb(void);

// Clamps to the range of the buckets, whose ends encode to 0 and 255; NaN to 0.
static inline vks_f4 vks_srgb_clamp(vks_f4 linear) { return vks_f4_clamp(linear, 0x1p-13f, 0x1.fffffep-1f); }

// `linear` has been clamped.
static inline uint8_t vks_srgb_encode(const struct vks_srgb *srgb, float linear)
{
    uint32_t bits;
    memcpy(&bits, &linear, sizeof bits);
    uint8_t code = srgb->code[(bits >> 16) - VKS_SRGB_FIRST_BUCKET];
    return (uint8_t)(code + (linear >= srgb->threshold[code]));
}
