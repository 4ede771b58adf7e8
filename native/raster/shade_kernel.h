// shade.h's rows, included once for each instruction set (shade_sse2.c and its neighbours), which define:
//   LANES               floats in a vector; VKS_CHUNK is a multiple
//   MAX(a, b), MIN(a, b) of float vectors; b where a is NaN
//   LOAD(p, n), STORE(p, v, n)  the first n <= LANES pixels of 4 bytes; lanes past n are not touched in memory
//   GATHER(p, i)        the pixels of 4 bytes at p + 4 * i
//   MULTIPLY_HIGH(a, b), ADD_SATURATED(a, b) of vectors of uint16_t
//   KERNEL              the function to define
//
// Products and sums are not contracted (-ffp-contract=off) and every lane computes independently, so the kernels agree
// bit for bit. Formats without 8-bit components go through arrays of floats here, and shade.c reads and blends them.
#include "raster/image.h"
#include "raster/shade.h"
#include "raster/shade_values.h"
// after its vectors
#include "raster/shade_8888.h"

static void store_taps(struct taps taps, int32_t *first, int32_t *second, float *weight)
{
    memcpy(first, &taps.first, sizeof taps.first);
    memcpy(second, &taps.second, sizeof taps.second);
    memcpy(weight, &taps.weight, sizeof taps.weight);
}

// Colours of `count` pixels from (x, y) on, and the texels that they read.
static void evaluate(const struct vks_draw *draw, const struct vks_triangle *t, int32_t x, int32_t y, uint32_t count,
                     struct vks_colours *colours, struct vks_taps *taps)
{
    struct ramps ramps = ramps_at(t, x, y);
    bool linear = draw->filter == VKS_FILTER_LINEAR;
    F index = lane_numbers();
    for (uint32_t i = 0; i < count; i += LANES, index += splat(LANES)) {
        F w = unprojection(&ramps, t->perspective, index), colour[4];
        vertex_colour(t, &ramps, t->perspective, w, index, colour);
        EACH_COMPONENT(c)
        memcpy(&colours->component[c][i], &colour[c], sizeof colour[c]);
        if (draw->texture == NULL)
            continue;
        F u = interpolate(&ramps, VKS_U, t->perspective, w, index);
        F v = interpolate(&ramps, VKS_V, t->perspective, w, index);
        store_taps(find_taps(u, (float)draw->texture->width, linear), &taps->x0[i], &taps->x1[i], &taps->fx[i]);
        store_taps(find_taps(v, (float)draw->texture->height, linear), &taps->y0[i], &taps->y1[i], &taps->fy[i]);
    }
}

static void rows_any(const struct rows *rows)
{
    struct vks_colours colours;
    struct vks_taps taps;
    const struct vks_draw *draw = rows->draw;
    for (int32_t r = 0; r < rows->count; r++) {
        for (int32_t done = 0; done < rows->spans[r].count; done += VKS_CHUNK) {
            int32_t left = rows->spans[r].count - done, x = rows->spans[r].x + done, y = rows->y + r;
            uint32_t count = left < VKS_CHUNK ? (uint32_t)left : VKS_CHUNK;
            evaluate(draw, rows->triangle, x, y, count, &colours, &taps);
            if (draw->texture != NULL)
                vks_modulate_any(draw, &taps, count, &colours);
            vks_blend_any(draw, &colours, count, vks_pixel_at(draw->target, (uint32_t)x, (uint32_t)y));
        }
    }
}

void KERNEL(const struct vks_draw *draw, const struct vks_triangle *triangle, int32_t y, int32_t count,
            const struct vks_span *spans)
{
    struct rows rows = {draw, triangle, y, count, spans};
    if (draw->in_8888)
        rows_8888(&rows);
    else
        rows_any(&rows);
}
