#include "raster/triangle.h"

#include <string.h>

// A vertex on the sub-pixel grid (fixed), and the same place in pixels.
struct corner {
    int64_t fixed_x, fixed_y;
    double x, y, z;
    double inverse_w;
    const float *attribute;
};

// Round to nearest, ties to even, for |v| < 2^51: the sum's last mantissa bit is worth 1.
static int64_t round_to_int(double v)
{
    const double magic = 0x1.8p52;
    double shifted = v + magic;
    int64_t bits, zero;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &magic, sizeof zero);
    return bits - zero;
}

// Coordinates of 1e38 leave clipping with errors that are larger than the target: none may leave the guard band.
static inline double into_guard_band(double v)
{
    v = v > -VKS_GUARD_BAND ? v : -VKS_GUARD_BAND; // NaN too
    return v < VKS_GUARD_BAND ? v : VKS_GUARD_BAND;
}

static inline struct corner project(const struct vks_setup *setup, const struct vks_vertex *v)
{
    struct corner c = {.inverse_w = 1.0 / v->position[3], .attribute = v->attribute};
    double x = v->position[0] * c.inverse_w * setup->half_width + setup->half_width;
    double y = v->position[1] * c.inverse_w * setup->half_height + setup->half_height;
    c.fixed_x = round_to_int(into_guard_band(x) * setup->scale);
    c.fixed_y = round_to_int(into_guard_band(y) * setup->scale);
    c.x = (double)c.fixed_x * setup->inverse_scale;
    c.y = (double)c.fixed_y * setup->inverse_scale;
    c.z = v->position[2] * c.inverse_w;
    return c;
}

static int64_t smallest(int64_t a, int64_t b, int64_t c)
{
    int64_t m = a < b ? a : b;
    return m < c ? m : c;
}

// First pixel whose centre is at or after `fixed`, within 0..limit.
static int32_t first_pixel(int64_t fixed, uint32_t bits, uint32_t limit)
{
    int64_t half = (int64_t)1 << (bits - 1);
    int64_t pixel = (fixed - half + ((int64_t)1 << bits) - 1) >> bits;
    return (int32_t)(pixel < 0 ? 0 : pixel < (int64_t)limit ? pixel : (int64_t)limit);
}

// Clips the bounding box to the target; false if no pixel centre is in it.
static bool set_bounds(const struct vks_setup *setup, const struct corner *a, const struct corner *b,
                       const struct corner *c, struct vks_triangle *out)
{
    uint32_t bits = setup->subpixel_bits;
    out->x0 = first_pixel(smallest(a->fixed_x, b->fixed_x, c->fixed_x), bits, setup->width);
    out->x1 = first_pixel(-smallest(-a->fixed_x, -b->fixed_x, -c->fixed_x), bits, setup->width);
    out->y0 = first_pixel(smallest(a->fixed_y, b->fixed_y, c->fixed_y), bits, setup->height);
    out->y1 = first_pixel(-smallest(-a->fixed_y, -b->fixed_y, -c->fixed_y), bits, setup->height);
    return out->x0 < out->x1 && out->y0 < out->y1;
}

// Corners go round clockwise as seen, so an edge that goes up is a left one. Horizontal edges bound rows, not spans.
static void add_edge(const struct vks_setup *setup, const struct corner *from, const struct corner *to, bool left,
                     struct vks_triangle *out)
{
    int64_t dx = to->fixed_x - from->fixed_x, dy = to->fixed_y - from->fixed_y;
    if (left ? dy >= 0 : dy <= 0)
        return;
    int64_t one = (int64_t)1 << setup->subpixel_bits, half = one >> 1;
    int64_t y = out->y0 * one + half - from->fixed_y;
    int64_t sign = left ? -1 : 1;
    out->edge[out->edges++] = (struct vks_edge){
        .start = sign * (dx * y + dy * (from->fixed_x - half)),
        .step = sign * dx * one,
        .width = sign * dy * one,
    };
}

static void set_edges(const struct vks_setup *setup, const struct corner *a, const struct corner *b,
                      const struct corner *c, struct vks_triangle *out)
{
    out->edges = 0;
    add_edge(setup, a, b, true, out);
    add_edge(setup, b, c, true, out);
    add_edge(setup, c, a, true, out);
    out->lefts = out->edges;
    add_edge(setup, a, b, false, out);
    add_edge(setup, b, c, false, out);
    add_edge(setup, c, a, false, out);
}

// Coefficients that turn three values into a plane: the corners relative to the first, over twice the area.
struct gradient {
    double x1, y1, x2, y2; // already divided by the doubled area
    double x, y;           // from the first corner to the plane's origin
};

static inline void set_plane(const struct gradient *g, double v0, double v1, double v2, int index,
                             struct vks_planes *out)
{
    double d1 = v1 - v0, d2 = v2 - v0;
    double dx = d1 * g->y2 - d2 * g->y1;
    double dy = d2 * g->x1 - d1 * g->x2;
    out->at[index] = (float)(v0 + dx * g->x + dy * g->y);
    out->dx[index] = (float)dx;
    out->dy[index] = (float)dy;
}

static struct gradient gradient_of(const struct corner *a, const struct corner *b, const struct corner *c, double area,
                                   const struct vks_triangle *t)
{
    double part = 1 / area;
    return (struct gradient){
        .x1 = (b->x - a->x) * part,
        .y1 = (b->y - a->y) * part,
        .x2 = (c->x - a->x) * part,
        .y2 = (c->y - a->y) * part,
        .x = t->x0 + 0.5 - a->x,
        .y = t->y0 + 0.5 - a->y,
    };
}

static void set_depth(const struct corner *a, const struct corner *b, const struct corner *c, double area,
                      struct vks_triangle *out)
{
    struct gradient g = gradient_of(a, b, c, area, out);
    double d1 = b->z - a->z, d2 = c->z - a->z;
    out->z.dx = d1 * g.y2 - d2 * g.y1;
    out->z.dy = d2 * g.x1 - d1 * g.x2;
    out->z.at = a->z + out->z.dx * g.x + out->z.dy * g.y;
}

static void set_attributes(const struct vks_setup *setup, const struct corner *a, const struct corner *b,
                           const struct corner *c, double area, struct vks_triangle *out)
{
    out->flat = memcmp(a->attribute, b->attribute, sizeof out->colour) == 0 &&
                memcmp(a->attribute, c->attribute, sizeof out->colour) == 0;
    memcpy(out->colour, a->attribute, sizeof out->colour);
    out->perspective = a->inverse_w != b->inverse_w || a->inverse_w != c->inverse_w;
    if (out->flat && !setup->textured)
        return;
    memset(&out->planes, 0, sizeof out->planes);
    struct gradient g = gradient_of(a, b, c, area, out);
    double wa = 1, wb = 1, wc = 1;
    if (out->perspective) { // scaled to at most 1: a float must hold them
        double most = a->inverse_w > b->inverse_w ? a->inverse_w : b->inverse_w;
        most = most > c->inverse_w ? most : c->inverse_w;
        wa = a->inverse_w / most;
        wb = b->inverse_w / most;
        wc = c->inverse_w / most;
        set_plane(&g, wa, wb, wc, VKS_INVERSE_W, &out->planes);
    }
    int first = out->flat ? VKS_U : VKS_RED, end = setup->textured ? VKS_ATTRIBUTES : VKS_U;
    for (int i = first; i < end; i++)
        set_plane(&g, a->attribute[i] * wa, b->attribute[i] * wb, c->attribute[i] * wc, i, &out->planes);
}

// In sub-pixels; positive when a, b, c go round clockwise as seen.
static int64_t doubled_area(const struct corner *a, const struct corner *b, const struct corner *c)
{
    return (b->fixed_x - a->fixed_x) * (c->fixed_y - a->fixed_y) -
           (c->fixed_x - a->fixed_x) * (b->fixed_y - a->fixed_y);
}

bool vks_triangle_setup(const struct vks_setup *setup, const struct vks_vertex *a, const struct vks_vertex *b,
                        const struct vks_vertex *c, struct vks_triangle *out)
{
    struct corner p = project(setup, a), q = project(setup, b), r = project(setup, c);
    if (!set_bounds(setup, &p, &q, &r, out))
        return false;
    int64_t area = doubled_area(&p, &q, &r);
    if (area == 0)
        return false;
    if (area > 0)
        set_edges(setup, &p, &q, &r, out);
    else
        set_edges(setup, &p, &r, &q, out);
    double pixels = (double)area * setup->inverse_scale * setup->inverse_scale; // doubled
    set_attributes(setup, &p, &q, &r, pixels, out);
    if (setup->has_depth)
        set_depth(&p, &q, &r, pixels, out);
    return true;
}

// Steps ceil(crossing) from row to row without dividing: crossing = whole + rest / width.
struct walk {
    int64_t whole, rest;
    int64_t whole_step, rest_step;
    int64_t width;
};

// |a| < 2^52, so the double quotient is never rounded up to an integer that it does not reach.
static void divide_floor(int64_t a, int64_t positive, int64_t *quotient, int64_t *rest)
{
    int64_t q = (int64_t)((double)a / (double)positive);
    int64_t r = a - q * positive;
    int64_t below = r >> 63; // truncation went up
    *quotient = q + below;
    *rest = r + (positive & below);
}

static struct walk start_walk(const struct vks_edge *edge, int64_t rows)
{
    struct walk w = {.width = edge->width};
    divide_floor(edge->start + rows * edge->step + edge->width - 1, edge->width, &w.whole, &w.rest);
    divide_floor(edge->step, edge->width, &w.whole_step, &w.rest_step);
    return w;
}

static inline int64_t take_step(struct walk *w)
{
    int64_t now = w->whole;
    int64_t rest = w->rest + w->rest_step - w->width;
    int64_t borrow = rest >> 63;
    w->whole += w->whole_step + 1 + borrow;
    w->rest = rest + (w->width & borrow);
    return now;
}

// A triangle has one left and one right edge at least; the third, if it is not horizontal, is of either kind.
void vks_triangle_spans(const struct vks_triangle *triangle, int32_t y, int32_t rows, struct vks_span *out)
{
    const struct vks_edge *edge = triangle->edge;
    int64_t down = y - triangle->y0, x0 = triangle->x0, x1 = triangle->x1;
    bool third_is_left = triangle->lefts == 2 || triangle->edges == 2; // of two edges, the left one again
    struct walk left = start_walk(&edge[0], down), right = start_walk(&edge[triangle->edges - 1], down);
    struct walk third = start_walk(&edge[triangle->edges == 3 ? 1 : 0], down);
    for (int32_t i = 0; i < rows; i++) {
        int64_t first = take_step(&left), end = take_step(&right), other = take_step(&third);
        int64_t least = third_is_left ? other : x0;
        int64_t most = third_is_left ? x1 : other;
        first = first > least ? first : least;
        first = first > x0 ? first : x0;
        end = end < most ? end : most;
        end = end < x1 ? end : x1;
        bool empty = end <= first;
        out[i] = (struct vks_span){(int32_t)(empty ? x0 : first), (int32_t)(empty ? 0 : end - first)};
    }
}
