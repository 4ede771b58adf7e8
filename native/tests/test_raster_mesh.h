// Triangles for the rasterizer's tests: vertices, quads, and the equations that say what must come of them.
#pragma once

#include "test_raster.h"

struct vertex {
    float position[4], colour[4], uv[2];
};

static inline int draw(const struct vks_image *target, const struct vertex *v, uint32_t count,
                       const struct vks_image *texture, enum vks_filter filter, uint32_t bits, struct vks_pool *pool)
{
    const struct vks_vertex_layout layout = {.data = v->position, .stride = 10, .position = 0, .colour = 4, .uv = 8};
    return vks_raster_draw_triangles(target, &layout, count, texture, filter, bits, NULL, pool);
}

static inline int draw_plain(const struct vks_image *target, const struct vertex *v, uint32_t count, uint32_t bits)
{
    return draw(target, v, count, NULL, VKS_FILTER_NEAREST, bits, NULL);
}

static const float white[4] = {1, 1, 1, 1};

// Alpha 0 adds: each pixel of a float target counts how often it was covered.
static const float count_one[4] = {1, 0, 0, 0};

static inline struct vks_image new_counter(uint32_t width, uint32_t height)
{
    struct vks_image image = new_image(width, height, VKS_FORMAT_R32_FLOAT, 0);
    memset(image.pixels, 0, image.size);
    return image;
}

static inline float count_at(const struct vks_image *image, uint32_t x, uint32_t y)
{
    float v;
    memcpy(&v, pixel_at(image, x, y), sizeof v);
    return v;
}

// At pixel coordinates x, y of a power-of-two target, exactly.
static inline struct vertex vertex_at(const struct vks_image *target, double x, double y, const float colour[4])
{
    struct vertex v = {.position = {(float)(x * 2 / target->width - 1), (float)(y * 2 / target->height - 1), 0.5f, 1}};
    memcpy(v.colour, colour, sizeof v.colour);
    return v;
}

// A rectangle of NDC with the whole texture on it, z = 0.
static inline void quad(struct vertex out[6], float x0, float y0, float x1, float y1, const float colour[4])
{
    const float corner[4][4] = {{x0, y0, 0, 0}, {x1, y0, 1, 0}, {x1, y1, 1, 1}, {x0, y1, 0, 1}};
    const int index[6] = {0, 1, 2, 0, 2, 3};
    for (int i = 0; i < 6; i++) {
        const float *c = corner[index[i]];
        out[i] = (struct vertex){.position = {c[0], c[1], 0, 1}, .uv = {c[2], c[3]}};
        memcpy(out[i].colour, colour, sizeof out[i].colour);
    }
}

// Some behind the eye, some nearer than z = 0 or farther than z = w.
static inline struct vertex random_vertex(double spread)
{
    struct vertex v;
    float w = random_unit() * 4 - 1;
    for (int k = 0; k < 2; k++)
        v.position[k] = (float)((random_unit() * 2 - 1) * spread);
    v.position[2] = (random_unit() * 1.6f - 0.3f) * fabsf(w);
    v.position[3] = w;
    for (int k = 0; k < 4; k++)
        v.colour[k] = random_unit();
    v.uv[0] = random_unit();
    v.uv[1] = random_unit();
    return v;
}

static inline double determinant(const double a[3], const double b[3], const double c[3])
{
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0]);
}

// Weights of the corners at pixel coordinates x, y, found before projection (Olano and Greer, 1997): nothing is
// clipped, w may have any sign, and attributes are the weighted means. False behind the eye and for a triangle that is
// seen edge-on.
static inline int weights_at(const struct vertex v[3], const struct vks_image *target, double x, double y,
                             double weight[3])
{
    double p[3][3], point[3] = {x * 2 / target->width - 1, y * 2 / target->height - 1, 1};
    for (int i = 0; i < 3; i++) {
        p[i][0] = v[i].position[0];
        p[i][1] = v[i].position[1];
        p[i][2] = v[i].position[3];
    }
    double whole = determinant(p[0], p[1], p[2]);
    weight[0] = determinant(point, p[1], p[2]) / whole;
    weight[1] = determinant(p[0], point, p[2]) / whole;
    weight[2] = determinant(p[0], p[1], point) / whole;
    double sum = weight[0] + weight[1] + weight[2];
    for (int i = 0; i < 3; i++)
        weight[i] /= sum;
    return isfinite(whole) && fabs(whole) > 1e-9 && isfinite(sum) && sum > 0;
}

// Smallest of the weights and of the distances from z = 0 and z = w: negative outside.
static inline double insideness(const struct vertex v[3], const double weight[3])
{
    double least = INFINITY, z = 0, w = 0;
    for (int i = 0; i < 3; i++) {
        least = fmin(least, weight[i]);
        z += weight[i] * v[i].position[2];
        w += weight[i] * v[i].position[3];
    }
    return fmin(least, fmin(z, w - z) / fabs(w));
}
