// Images of Y'CbCr in planes: a plane of luma, and one or two of chroma, which may have fewer pixels.
//
// The planes lie in one memory, one after the other, without a gap between them: `stride` of the image is that of the
// luma, and rows of a plane of chroma have the same stride, of which planes of one component at half the width have
// half. (V4L2's single-planar formats lie so.)
#pragma once

#include "raster/raster.h"

#define VKS_MOST_PLANES 3u

// The parts of a planar format. A pixel of chroma is for 1 << x_shift columns and 1 << y_shift rows of luma.
struct vks_planar_format {
    uint8_t planes; // 2: chroma is interleaved, Cb first; 3: a plane for Cb, and one for Cr
    uint8_t bits;   // of a component
    uint8_t unused; // low bits of a word that are none of a component's: 6 of a 10-bit one
    uint8_t x_shift, y_shift;
};

// NULL: the format has one plane, or is none.
const struct vks_planar_format *vks_planar_format(uint32_t format);

// Planes of a format; 0 for a number that is no format.
uint32_t vks_format_planes(uint32_t format);

// The format of a plane's pixels, such as VKS_FORMAT_RG8_UNORM of VKS_FORMAT_NV12's second; 0: there is no such plane.
uint32_t vks_plane_format(uint32_t format, uint32_t plane);

// Whether a width and a height are whole numbers of chroma pixels.
bool vks_planes_fit(uint32_t format, uint32_t width, uint32_t height);

// Bytes from row to row of a plane, and the rows' total with the planes before it, where `stride` is the luma's.
size_t vks_plane_stride(uint32_t format, uint32_t plane, size_t stride);
uint64_t vks_planes_bytes(uint32_t format, uint32_t planes, uint32_t height, size_t stride);

// A plane of an image that vks_image_check() accepts, as an image of its own. A format of one plane has the image
// itself.
struct vks_image vks_plane_of(const struct vks_image *image, uint32_t plane);
