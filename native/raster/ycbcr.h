// Y'CbCr to R'G'B': chroma is interpolated linearly to the luma's pixels (Vulkan 16.3.8), and both are multiplied by
// the matrix of ITU-T H.273.
//
// The results are codes of the surface's own primaries and transfer function: tones and gamuts are not mapped. They are
// computed in integers, whose sum is exact but for coefficients of 2^-14: 0.52 of a code of 8 bits from the real number
// at most. Every kernel computes the same integers.
#pragma once

#include "raster/format.h"
#include "raster/image.h"
#include "raster/planar.h"

// An image of planes, and how its rows become colours. Initialised by vks_ycbcr_begin() and not changed afterwards.
struct vks_ycbcr {
    const struct vks_planar_format *format;
    struct vks_image plane[VKS_MOST_PLANES];
    enum vks_siting siting;
    // In units of 1/64 of an 8-bit code, and of 1/16 of a 10-bit one: Y, and Cb in the low half, Cr in the high one.
    struct vks_ycbcr_codes {
        int32_t luma;      // the factor, * 2^19, of 255 levels
        int32_t chroma[3]; // two int16 factors a component: R, G, B
        int32_t bias[3];   // with one half
    } codes;
    struct vks_ycbcr_floats {
        float luma, cb[3], cr[3], bias[3]; // of 0..1
    } floats;
    struct vks_ycbcr_back { // R'G'B' to codes
        float weight[3];    // of R, G and B in luma
        float cb, cr;       // of B - Y' and R - Y'
        float luma_zero, luma_span, chroma_zero, chroma_span;
    } back;
};

// The factors alone. VKS_RASTER_BAD_FORMAT: the format has one plane. VKS_RASTER_BAD_ARGUMENT: the colour has no such
// matrix, range or siting.
int vks_ycbcr_factors(uint32_t format, const struct vks_color *color, struct vks_ycbcr *out);

// With the planes of an image.
int vks_ycbcr_begin(const struct vks_image *image, struct vks_ycbcr *out);

// Pixels x..x+n-1 of row y, which lie in the image, as RGBA or BGRA of 8 bits, and as floats of 0..1. Alpha is 1.
void vks_ycbcr_read_8888(const struct vks_ycbcr *source, uint32_t x, uint32_t y, uint32_t n, bool bgra, uint8_t *out);
void vks_ycbcr_read(const struct vks_ycbcr *source, uint32_t x, uint32_t y, uint32_t n, vks_rgba *out);

// The way back, of an image of colours of the target's size at x, y: whole pixels of chroma, of the rows first..end-1
// of these. Colours are clamped to 0..1. A pixel of chroma is the mean of those of luma that it lies among: of two in
// an axis where it lies midway, else of three, of which the middle one counts twice. Alpha is left out.
void vks_ycbcr_write(const struct vks_ycbcr *target, uint32_t x, uint32_t y, const struct vks_image *colours,
                     uint32_t first, uint32_t end);
