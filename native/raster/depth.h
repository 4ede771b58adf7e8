// The depth test of a triangle's spans: before they are shaded, they are cut into the runs of pixels that pass.
//
// It has one form for all instruction sets above the baseline, so depth is the same whatever the processor.
#pragma once

#include "raster/triangle.h"

// Runs of pixels that pass among the pixels that are tested at a time.
#define VKS_MOST_RUNS 32

// Tests the first pixels of `left`, a part of row y of the triangle, and takes them off it. Writes the depth of those
// that pass. Returns how many runs of these there are.
uint32_t vks_depth_runs(const struct vks_depth *depth, const struct vks_triangle *triangle, int32_t y,
                        struct vks_span *left, struct vks_span runs[VKS_MOST_RUNS]);

bool vks_depth_test_is_valid(enum vks_depth_test test);
