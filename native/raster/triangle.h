// From clip-space vertices to the pixel spans that a triangle covers.
//
// Coverage is exact: vertices snap to the sub-pixel grid, and from there on everything is integer. A row's span is
// [ceil(left), ceil(right)) in pixels, where left and right are the edges' exact crossings with the row of pixel
// centres: a centre on a left edge is inside and on a right edge outside, rows include a top edge and exclude a bottom
// one. By this top-left rule triangles with a common edge have no pixel in common and leave none out.
#pragma once

#include <stdbool.h>

#include "raster/raster.h"

// Rows that are turned into spans at a time.
#define VKS_SPAN_ROWS 64

enum vks_attribute {
    VKS_RED,
    VKS_GREEN,
    VKS_BLUE,
    VKS_ALPHA,
    VKS_U,
    VKS_V,
    VKS_ATTRIBUTES,
    VKS_INVERSE_W = VKS_ATTRIBUTES, // a plane, not a vertex's attribute
    VKS_PLANES = 8,                 // a power of two, for vectors
};

// A vertex in clip space. Positions are double: a clipped triangle's and its neighbour's common vertices must project
// to the same bits, however huge the coordinates.
struct vks_vertex {
    double position[4];
    float attribute[VKS_ATTRIBUTES];
};

// Crossing of an edge with row y: (start + (y - y0) * step) / width pixels.
struct vks_edge {
    int64_t start, step, width; // width > 0
};

// Values that are linear over the target: at + (x - x0) * dx + (y - y0) * dy at the centre of pixel (x, y). Indexed by
// enum vks_attribute.
struct vks_planes {
    float at[VKS_PLANES], dx[VKS_PLANES], dy[VKS_PLANES];
};

// A triangle that is ready to be drawn, from any row on.
struct vks_triangle {
    int32_t x0, x1, y0, y1; // pixels that it may touch, clipped to the target; x1 and y1 exclusive
    uint8_t lefts, edges;   // edge[0..lefts-1] are left edges, those up to edge[edges-1] right ones
    bool flat;              // colour is the same everywhere
    bool perspective;       // planes hold attribute / w, and 1 / w (both times a constant)
    struct vks_edge edge[3];
    float colour[4];          // if flat
    struct vks_planes planes; // of values that are used and not flat
    struct {
        double at, dx, dy;
    } z; // z / w, as the planes; if the setup has depth
};

struct vks_span {
    int32_t x, count;
};

// The parameters of a draw call that set-up uses.
struct vks_setup {
    const struct vks_vertex_layout *layout;
    uint32_t width, height;
    uint32_t subpixel_bits;
    bool textured, has_depth;
    double half_width, half_height; // the viewport's scale, and its centre
    double scale, inverse_scale;    // sub-pixels in a pixel
};

// Triangles that one triangle can become: seven planes clip it to ten corners at most.
#define VKS_MOST_CLIPPED 8

struct vks_setup vks_make_setup(const struct vks_vertex_layout *layout, const struct vks_image *target,
                                uint32_t subpixel_bits, bool textured, bool has_depth);

// Fetches triangle `index` of the layout, clips and sets it up. Returns how many triangles it wrote to out.
uint32_t vks_triangle_prepare(const struct vks_setup *setup, uint32_t index, struct vks_triangle out[VKS_MOST_CLIPPED]);

// Sets up a triangle whose vertices lie within the clip volume and the guard band. False if it covers no pixel centre's
// row or column.
bool vks_triangle_setup(const struct vks_setup *setup, const struct vks_vertex *a, const struct vks_vertex *b,
                        const struct vks_vertex *c, struct vks_triangle *out);

// Spans of `rows` rows from y on, all inside y0..y1; count is 0 where nothing is covered.
void vks_triangle_spans(const struct vks_triangle *triangle, int32_t y, int32_t rows, struct vks_span *out);

// Farthest that a set-up vertex may lie from the target's origin, in pixels.
#define VKS_GUARD_BAND 65536.0
