#include "raster/shade.h"

#include "raster/image.h"
#include "raster/vec4.h"

vks_shade_rows vks_shade_kernel(enum vks_isa isa)
{
#if defined(__x86_64__)
    switch (isa) {
    case VKS_ISA_AVX512:
        return vks_shade_rows_avx512;
    case VKS_ISA_AVX2:
        return vks_shade_rows_avx2;
    case VKS_ISA_SSE2:
        return vks_shade_rows_sse2;
    case VKS_ISA_PORTABLE:
        break;
    }
#endif
    (void)isa;
    return vks_shade_rows_portable;
}

// Pixels are gathered by a 32-bit index.
static bool can_be_gathered(const struct vks_image *texture)
{
    return vks_format_is_8888(texture->format) && texture->stride % 4 == 0 &&
           texture->stride / 4 <= INT32_MAX / texture->height;
}

struct vks_draw vks_make_draw(const struct vks_image *target, const struct vks_image *texture, enum vks_filter filter)
{
    return (struct vks_draw){
        .target = target,
        .texture = texture,
        .filter = filter,
        .in_8888 = vks_format_is_8888(target->format) && (texture == NULL || can_be_gathered(texture)),
    };
}

static void fetch(const struct vks_image *texture, const int32_t *x, const int32_t *y, uint32_t count, vks_rgba *out)
{
    uint8_t raw[VKS_CHUNK * 16];
    size_t bytes = vks_format_bytes(texture->format);
    for (uint32_t i = 0; i < count; i++)
        memcpy(raw + i * bytes, vks_pixel_at(texture, (uint32_t)x[i], (uint32_t)y[i]), bytes);
    vks_load_pixels(texture->format, raw, out, count);
}

// to += (from - to) * weight
static void mix(vks_rgba *to, const vks_rgba *from, const float *weight, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        vks_f4 t = vks_f4_load(to[i]);
        vks_f4_store(to[i], t + (vks_f4_load(from[i]) - t) * vks_f4_all(weight[i]));
    }
}

void vks_modulate_any(const struct vks_draw *draw, const struct vks_taps *taps, uint32_t count,
                      struct vks_colours *colours)
{
    vks_rgba texel[VKS_CHUNK], other[VKS_CHUNK], below[VKS_CHUNK];
    fetch(draw->texture, taps->x0, taps->y0, count, texel);
    if (draw->filter == VKS_FILTER_LINEAR) {
        fetch(draw->texture, taps->x1, taps->y0, count, other);
        mix(texel, (const vks_rgba *)other, taps->fx, count);
        fetch(draw->texture, taps->x0, taps->y1, count, below);
        fetch(draw->texture, taps->x1, taps->y1, count, other);
        mix(below, (const vks_rgba *)other, taps->fx, count);
        mix(texel, (const vks_rgba *)below, taps->fy, count);
    }
    for (uint32_t i = 0; i < count; i++)
        for (int c = 0; c < 4; c++)
            colours->component[c][i] *= texel[i][c];
}

void vks_blend_any(const struct vks_draw *draw, const struct vks_colours *colours, uint32_t count, void *pixels)
{
    vks_rgba colour[VKS_CHUNK];
    for (uint32_t i = 0; i < count; i++)
        for (int c = 0; c < 4; c++)
            colour[i][c] = colours->component[c][i];
    vks_blend_pixels(draw->target->format, (const vks_rgba *)colour, pixels, count);
}
