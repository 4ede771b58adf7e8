// Vertex fetch and clipping (Vulkan 28.4): 0 <= z <= w, w > 0, and a guard band in place of the frustum's sides, whose
// work the clipping of pixels to the target does.
//
// A clipped edge's new vertex is computed from the inside vertex towards the outside one, so that two triangles that
// share the edge get the same bits.
#include <float.h>
#include <math.h>
#include <string.h>

#include "raster/triangle.h"

#define PLANES 7
#define CORNERS (3 + PLANES)
#define SMALLEST_W 1e-30

// Signed distance, in no particular unit: negative is outside.
static double distance(const struct vks_setup *setup, const double p[4], int plane)
{
    switch (plane) {
    case 0:
        return p[3] - SMALLEST_W;
    case 1:
        return p[2];
    case 2:
        return p[3] - p[2];
    case 3:
        return p[0] * setup->half_width + (VKS_GUARD_BAND + setup->half_width) * p[3];
    case 4:
        return (VKS_GUARD_BAND - setup->half_width) * p[3] - p[0] * setup->half_width;
    case 5:
        return p[1] * setup->half_height + (VKS_GUARD_BAND + setup->half_height) * p[3];
    default:
        return (VKS_GUARD_BAND - setup->half_height) * p[3] - p[1] * setup->half_height;
    }
}

// Bit i: outside of plane i.
static unsigned outside(const struct vks_setup *setup, const double p[4])
{
    unsigned code = 0;
    for (int plane = 0; plane < PLANES; plane++)
        code |= (unsigned)(distance(setup, p, plane) < 0) << plane;
    return code;
}

// Returns whether a vertex lies inside all planes and in the part of the guard band that every target has, as nearly
// every vertex does. False for a NaN or an infinity.
static inline bool is_plainly_inside(const double p[4])
{
    double w = p[3];
    bool in_depth = (w >= SMALLEST_W) & (w <= FLT_MAX) & (p[2] >= 0) & (p[2] <= w);
    return in_depth & (fabs(p[0]) <= 2 * w) & (fabs(p[1]) <= 2 * w);
}

static void between(const struct vks_vertex *in, const struct vks_vertex *out, double t, struct vks_vertex *at)
{
    for (int i = 0; i < 4; i++)
        at->position[i] = in->position[i] + (out->position[i] - in->position[i]) * t;
    for (int i = 0; i < VKS_ATTRIBUTES; i++)
        at->attribute[i] = (float)(in->attribute[i] + ((double)out->attribute[i] - in->attribute[i]) * t);
}

// Sutherland and Hodgman's step. `to` has room for one corner more than `from`.
static int clip_to_plane(const struct vks_setup *setup, int plane, const struct vks_vertex *from, int count,
                         struct vks_vertex *to)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        const struct vks_vertex *a = &from[i], *b = &from[(i + 1) % count];
        double da = distance(setup, a->position, plane), db = distance(setup, b->position, plane);
        if (da >= 0)
            to[kept++] = *a;
        if (da >= 0 && db < 0)
            between(a, b, da / (da - db), &to[kept++]);
        else if (da < 0 && db >= 0)
            between(b, a, db / (db - da), &to[kept++]);
    }
    return kept;
}

static uint32_t clip_and_set_up(const struct vks_setup *setup, const struct vks_vertex v[3], unsigned planes,
                                struct vks_triangle *out)
{
    struct vks_vertex corners[2][CORNERS + 1];
    memcpy(corners[0], v, 3 * sizeof *v);
    int count = 3, now = 0;
    for (int plane = 0; plane < PLANES && count >= 3; plane++) {
        if (!(planes >> plane & 1))
            continue;
        count = clip_to_plane(setup, plane, corners[now], count, corners[!now]);
        now = !now;
    }
    uint32_t made = 0;
    for (int i = 1; i + 1 < count; i++)
        made += vks_triangle_setup(setup, &corners[now][0], &corners[now][i], &corners[now][i + 1], &out[made]);
    return made;
}

static void fetch(const struct vks_vertex_layout *layout, size_t index, struct vks_vertex *out)
{
    const float *v = layout->data + index * layout->stride;
    for (int i = 0; i < 4; i++) {
        out->position[i] = v[layout->position + i];
        out->attribute[i] = layout->colour < 0 ? 1.0f : v[layout->colour + i];
    }
    out->attribute[VKS_U] = layout->uv < 0 ? 0.0f : v[layout->uv];
    out->attribute[VKS_V] = layout->uv < 0 ? 0.0f : v[layout->uv + 1];
}

static bool is_finite(const struct vks_vertex v[3])
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            sum += v[i].position[k] - v[i].position[k]; // NaN for an infinity too
    return sum == 0;
}

struct vks_setup vks_make_setup(const struct vks_vertex_layout *layout, const struct vks_image *target,
                                uint32_t subpixel_bits, bool textured, bool has_depth)
{
    double scale = (double)(1u << subpixel_bits);
    return (struct vks_setup){
        .layout = layout,
        .width = target->width,
        .height = target->height,
        .subpixel_bits = subpixel_bits,
        .textured = textured,
        .has_depth = has_depth,
        .half_width = target->width * 0.5,
        .half_height = target->height * 0.5,
        .scale = scale,
        .inverse_scale = 1 / scale,
    };
}

uint32_t vks_triangle_prepare(const struct vks_setup *setup, uint32_t index, struct vks_triangle out[VKS_MOST_CLIPPED])
{
    struct vks_vertex v[3];
    for (size_t i = 0; i < 3; i++)
        fetch(setup->layout, (size_t)index * 3 + i, &v[i]);
    if (is_plainly_inside(v[0].position) & is_plainly_inside(v[1].position) & is_plainly_inside(v[2].position))
        return vks_triangle_setup(setup, &v[0], &v[1], &v[2], out);
    if (!is_finite(v))
        return 0;
    unsigned code[3];
    for (int i = 0; i < 3; i++)
        code[i] = outside(setup, v[i].position);
    if (code[0] & code[1] & code[2])
        return 0;
    return clip_and_set_up(setup, v, code[0] | code[1] | code[2], out);
}
