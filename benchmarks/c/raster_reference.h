// Hand-written loops that the rasterizer is measured against. They are compiled twice, at -O3 for
// the baseline and for the machine at hand. cffi reads this file, too (compiler.py).
#pragma once

#include <stddef.h>
#include <stdint.h>

struct reference_triangle {
    float x[3], y[3]; // pixels
    uint32_t colour;  // premultiplied RGBA8
};

void reference_over_baseline(uint32_t *target, const uint32_t *source, size_t pixels);
void reference_over_native(uint32_t *target, const uint32_t *source, size_t pixels);
void reference_triangles_baseline(uint32_t *target, int width, int height, const struct reference_triangle *triangles,
                                  size_t count);
void reference_triangles_native(uint32_t *target, int width, int height, const struct reference_triangle *triangles,
                                size_t count);
