// The work of a compositor for one picture of windows, in plain C. Pixels are R, G, B, A in memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct window {
    const uint32_t *pixels; // premultiplied; width * height of them, row after row
    int32_t width, height;
    int32_t x, y;    // of its top left in the target; it may lie outside
    int32_t opacity; // 0..255
};

struct target {
    uint32_t *pixels;
    int32_t width, height;
};

// Clears the target, blends the windows over it in order, n times. Seconds.
double time_composites(const struct target *target, uint32_t colour, const struct window *windows, int32_t count,
                       long n);

// The same, a band of rows at a time.
double time_composites_in_bands(const struct target *target, uint32_t colour, const struct window *windows,
                                int32_t count, long n);
