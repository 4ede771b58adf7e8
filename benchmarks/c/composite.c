// See composite.h. Compile with -O3, or with -O3 -march=native.
#include "composite.h"

#include "clock.h"

#define EVEN 0x00ff00ffu
#define HALF 0x00800080u
#define BAND 32 // rows; as much of a 1080p target as stays in the second-level cache beside what is read

// x / 255 of each of two components a word, rounded; 128 has been added.
static inline uint32_t over_255(uint32_t x) { return (x + (x >> 8 & EVEN)) >> 8 & EVEN; }

// The classic packed-word source-over.
static inline uint32_t over(uint32_t d, uint32_t s)
{
    uint32_t keep = 255 - (s >> 24);
    return s + (over_255((d & EVEN) * keep + HALF) | over_255((d >> 8 & EVEN) * keep + HALF) << 8);
}

// A premultiplied component is at most its alpha, so the sum of both products fits 16 bits.
static inline uint32_t over_faded(uint32_t d, uint32_t s, uint32_t opacity)
{
    uint32_t alpha = (s >> 24) * opacity + 128;
    uint32_t keep = 255 - ((alpha + (alpha >> 8)) >> 8);
    uint32_t even = (s & EVEN) * opacity + (d & EVEN) * keep + HALF;
    uint32_t odd = (s >> 8 & EVEN) * opacity + (d >> 8 & EVEN) * keep + HALF;
    return over_255(even) | over_255(odd) << 8;
}

static void blend_row(uint32_t *restrict to, const uint32_t *restrict from, int32_t pixels, int32_t opacity)
{
    if (opacity == 255)
        for (int32_t i = 0; i < pixels; i++)
            to[i] = over(to[i], from[i]);
    else
        for (int32_t i = 0; i < pixels; i++)
            to[i] = over_faded(to[i], from[i], (uint32_t)opacity);
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

// The part of the window that lies in rows first..end-1 of the target.
static void blend(const struct target *target, const struct window *w, int32_t first, int32_t end)
{
    int32_t left = larger(w->x, 0), right = smaller(w->x + w->width, target->width);
    for (int32_t y = larger(w->y, first); left < right && y < smaller(w->y + w->height, end); y++)
        blend_row(target->pixels + (size_t)y * (size_t)target->width + left,
                  w->pixels + (size_t)(y - w->y) * (size_t)w->width + (left - w->x), right - left, w->opacity);
}

static void clear(const struct target *target, uint32_t colour, int32_t first, int32_t end)
{
    size_t width = (size_t)target->width;
    for (size_t i = (size_t)first * width; i < (size_t)end * width; i++)
        target->pixels[i] = colour;
}

// One loop after the other, each over the whole picture.
static void composite(const struct target *target, uint32_t colour, const struct window *windows, int32_t count)
{
    clear(target, colour, 0, target->height);
    for (int32_t i = 0; i < count; i++)
        blend(target, &windows[i], 0, target->height);
}

// The same loops a band of rows at a time, so that what was blended last is still in the cache.
static void composite_in_bands(const struct target *target, uint32_t colour, const struct window *windows,
                               int32_t count)
{
    for (int32_t first = 0; first < target->height; first += BAND) {
        int32_t end = smaller(first + BAND, target->height);
        clear(target, colour, first, end);
        for (int32_t i = 0; i < count; i++)
            blend(target, &windows[i], first, end);
    }
}

double time_composites(const struct target *target, uint32_t colour, const struct window *windows, int32_t count,
                       long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++)
        composite(target, colour, windows, count);
    return seconds() - start;
}

double time_composites_in_bands(const struct target *target, uint32_t colour, const struct window *windows,
                                int32_t count, long n)
{
    double start = seconds();
    for (long i = 0; i < n; i++)
        composite_in_bands(target, colour, windows, count);
    return seconds() - start;
}
