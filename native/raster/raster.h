// The CPU backend's rasterizer: clear, fill, copy, blit, composite and triangles on images in plain memory.
//
// The meaning of every operation is Vulkan's: vkCmdClearColorImage, vkCmdCopyImage, vkCmdBlitImage, and a graphics
// pipeline with premultiplied source-over blending. Colours are linear floats in the order R, G, B, A.
//
// Rectangles may lie outside the image: they are clipped, as a scissor clips. Invalid arguments (an image that does
// not fit its memory, an unknown format, a NaN opacity) return a negative status, and nothing is written.
//
// Thread-safety: a call touches the images that it is given and nothing else, so calls on different images may run at
// the same time. A pool serves one caller at a time. Pixels are the same for every number of threads and every
// instruction set.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raster/pool.h"
#include "vkshare.h" // enum vks_format

enum vks_filter {
    VKS_FILTER_NEAREST = 0,
    VKS_FILTER_LINEAR = 1,
};

enum vks_raster_status {
    VKS_RASTER_OK = 0,
    VKS_RASTER_BAD_IMAGE = -1,    // NULL, empty, too large, or rows that do not fit stride or size
    VKS_RASTER_BAD_FORMAT = -2,   // not a value of enum vks_format, or other values than colours where those are needed
    VKS_RASTER_BAD_ARGUMENT = -3, // a filter, opacity, layout or sub-pixel precision out of range, or NULL
    VKS_RASTER_FORMAT_MISMATCH = -4, // copy between different formats
    VKS_RASTER_OVERLAP = -5,         // source and target share memory
    VKS_RASTER_NO_MEMORY = -6,
    VKS_RASTER_BAD_SLOT = -7,       // a program's image slot that was never declared
    VKS_RASTER_IMAGE_MISMATCH = -8, // an image that differs from its slot's declaration
};

// Largest width and height: keeps every edge function of a guard-band triangle inside 52 bits.
#define VKS_RASTER_MAX_EXTENT 32768u

// An image in memory that the caller owns. Row 0 is the top one; `pixels` needs no alignment (64 bytes is fastest).
struct vks_image {
    void *pixels;
    size_t size;     // bytes that may be touched from `pixels` on
    uint32_t width;  // pixels, 1..VKS_RASTER_MAX_EXTENT
    uint32_t height; // rows, 1..VKS_RASTER_MAX_EXTENT
    size_t stride;   // bytes from one row to the next, at least width * vks_format_bytes(format)
    uint32_t format; // enum vks_format
    // A planar format has it; planes lie as planar.h says, `stride` is the first one's, and the size is a whole number
    // of pixels of chroma.
    struct vks_color color;
};

// The two corners of a blit region, in pixels, as VkImageBlit has them. x1 < x0 or y1 < y0 mirrors.
struct vks_blit_rect {
    int32_t x0, y0, x1, y1;
};

// Interleaved float vertices. `data` holds count * stride floats. Offsets are in floats from a vertex's start.
struct vks_vertex_layout {
    const float *data;
    uint32_t stride;  // floats from one vertex to the next
    int32_t position; // x, y, z, w: clip space with Vulkan's conventions (y down, z in 0..w)
    int32_t colour;   // R, G, B, A, premultiplied; -1: white
    int32_t uv;       // u, v in 0..1 over the texture; -1: none
};

// Bytes of a pixel, or 0 for a number that is no format, or a planar one.
size_t vks_format_bytes(uint32_t format);
const char *vks_format_name(uint32_t format); // as vkshare/formats.py has it

// English for a status ("the image's rows do not fit its size"); never NULL.
const char *vks_raster_status_text(int status);

// VKS_RASTER_OK if the image may be given to the calls below.
int vks_image_check(const struct vks_image *image);

// Float colour to the pixel's bytes (at most 16) as Vulkan converts: for UNORM clamped, rounded to nearest even, NaN to
// 0; sRGB by the Khronos Data Format formula; half floats round to nearest even; of r32uint red is
// the bits of the number. `pixel` receives vks_format_bytes().
int vks_pack_colour(uint32_t format, const float rgba[4], void *pixel);

// The way back. Components that the format lacks are 0, alpha 1. -srgb decodes.
int vks_unpack_colour(uint32_t format, const void *pixel, float rgba[4]);

// Every call takes a pool, or NULL to run on the calling thread alone. All return enum vks_raster_status.

int vks_raster_clear(const struct vks_image *target, const float rgba[4], struct vks_pool *pool);

int vks_raster_fill_rect(const struct vks_image *target, int32_t x, int32_t y, int32_t width, int32_t height,
                         const float rgba[4], struct vks_pool *pool);

// Bytes of equal formats. The rectangle is clipped to both images. In a planar format it begins and ends at pixels of
// chroma (VKS_RASTER_BAD_ARGUMENT), and the colours are equal (VKS_RASTER_FORMAT_MISMATCH).
int vks_raster_copy(const struct vks_image *source, int32_t source_x, int32_t source_y, int32_t width, int32_t height,
                    const struct vks_image *target, int32_t x, int32_t y, struct vks_pool *pool);

// Scales, mirrors and converts as vkCmdBlitImage. Pixel x of the target reads u = (x + 0.5 - dx0) * scale + sx0;
// nearest takes floor(u) in exact arithmetic. Reads outside the source image clamp to its edge. Coordinates lie within
// +-2^29.
int vks_raster_blit(const struct vks_image *source, struct vks_blit_rect from, const struct vks_image *target,
                    struct vks_blit_rect to, enum vks_filter filter, struct vks_pool *pool);

// The colours of a source are multiplied by its alpha already (premultiplied), or not (straight).
enum vks_alpha { VKS_PREMULTIPLIED = 0, VKS_STRAIGHT = 1 };

// Source-over with the source's top left at (x, y): d = s * opacity + d * (1 - s.a * opacity); of a straight source the
// colours are multiplied by s.a first. A -srgb target blends in linear light, a -srgb source is decoded before all
// that; all else is blended as stored. Opacity: 0..1.
int vks_raster_composite(const struct vks_image *source, const struct vks_image *target, int32_t x, int32_t y,
                         float opacity, enum vks_alpha alpha, struct vks_pool *pool);

// The comparison that passes: the pixel's depth is less than what is stored, ... VkCompareOp has the same numbers.
enum vks_depth_test {
    VKS_DEPTH_NEVER = 0,
    VKS_DEPTH_LESS = 1,
    VKS_DEPTH_EQUAL = 2,
    VKS_DEPTH_LESS_EQUAL = 3,
    VKS_DEPTH_GREATER = 4,
    VKS_DEPTH_NOT_EQUAL = 5,
    VKS_DEPTH_GREATER_EQUAL = 6,
    VKS_DEPTH_ALWAYS = 7,
};

// The depth of a draw: an image of the target's size and a depth format.
struct vks_depth {
    const struct vks_image *image;
    enum vks_depth_test test;
    bool writes; // the depth of pixels that pass
};

// Triangle list, premultiplied source-over in painter's order, no culling, the viewport is the whole target.
// Colours and uv are perspective-correct; texture (or NULL) is clamped to its edge and modulated by the colour.
// Vertices snap to 2^-subpixel_bits pixels (4..8), the top-left rule decides about pixel centres on an edge. Triangles
// are clipped to w > 0 and 0 <= z <= w. Triangles with a NaN or infinite position are skipped, as is a trailing part
// of a triangle. A texture without layout->uv is refused. With `depth` (or NULL) a pixel is drawn if its depth passes
// the test: z / w, which is affine over the target, as a float, or rounded to nearest for d16unorm.
int vks_raster_draw_triangles(const struct vks_image *target, const struct vks_vertex_layout *layout, uint32_t count,
                              const struct vks_image *texture, enum vks_filter filter, uint32_t subpixel_bits,
                              const struct vks_depth *depth, struct vks_pool *pool);
