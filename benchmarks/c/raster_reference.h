// Hand-written loops that the rasterizer is measured against. This file is compiled twice, at -O3 for
// the baseline and for the machine at hand; SUFFIX makes the names differ. No part of the library.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct reference_triangle {
    float x[3], y[3]; // pixels
    uint32_t colour;  // premultiplied RGBA8
};

#define DECLARE_REFERENCES(suffix)                                                                                     \
    void reference_over_##suffix(uint32_t *target, const uint32_t *source, size_t pixels);                             \
    void reference_triangles_##suffix(uint32_t *target, int width, int height, const struct reference_triangle *,      \
                                      size_t count);

DECLARE_REFERENCES(baseline)
DECLARE_REFERENCES(native)
