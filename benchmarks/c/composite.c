// The work of a compositor for one picture of windows, in plain C. Pixels are R, G, B, A in memory.
// Compile with -O3, or with -O3 -march=native.
#include "clock.h"
#include "interface.h"

#define EVEN 0x00ff00ffu
#define HALF 0x00800080u

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
static void blend(const target *target, const window *w, int32_t first, int32_t end)
{
    int32_t left = larger(w->x, 0), right = smaller(w->x + w->width, target->width);
    for (int32_t y = larger(w->y, first); left < right && y < smaller(w->y + w->height, end); y++)
        blend_row(target->pixels + (size_t)y * (size_t)target->width + left,
                  w->pixels + (size_t)(y - w->y) * (size_t)w->width + (left - w->x), right - left, w->opacity);
}

static void clear(const target *target, uint32_t colour, int32_t first, int32_t end)
{
    size_t width = (size_t)target->width;
    for (size_t i = (size_t)first * width; i < (size_t)end * width; i++)
        target->pixels[i] = colour;
}

// A band of rows at a time, so that what was blended last is still in the cache; one loop after the
// other over the whole picture where the band is as high.
static void composite(const target *target, uint32_t colour, const window *windows, int32_t count, int32_t band)
{
    for (int32_t first = 0; first < target->height; first += band) {
        int32_t end = smaller(first + band, target->height);
        clear(target, colour, first, end);
        for (int32_t i = 0; i < count; i++)
            blend(target, &windows[i], first, end);
    }
}

/* Clears the target, blends the windows over it in order, `band` rows at a time, n times. */
double time_composites(const target *target, uint32_t colour, const window *windows, int32_t count, int32_t band,
                       long n)
{
    TIMED(n, composite(target, colour, windows, count, band))
}
