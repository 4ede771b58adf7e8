#include "raster/format.h"

#include "raster/half.h"
#include "raster/raster.h"
#include "raster/srgb.h"
#include "raster/vec4.h"

static const struct {
    const char *name;
    uint8_t bytes;
    bool is_float;
} formats[] = {
    [VKS_FORMAT_R8_UNORM] = {"r8unorm", 1, false},
    [VKS_FORMAT_RG8_UNORM] = {"rg8unorm", 2, false},
    [VKS_FORMAT_RGBA8_UNORM] = {"rgba8unorm", 4, false},
    [VKS_FORMAT_RGBA8_UNORM_SRGB] = {"rgba8unorm-srgb", 4, false},
    [VKS_FORMAT_BGRA8_UNORM] = {"bgra8unorm", 4, false},
    [VKS_FORMAT_RGB10A2_UNORM] = {"rgb10a2unorm", 4, false},
    [VKS_FORMAT_R32_FLOAT] = {"r32float", 4, true},
    [VKS_FORMAT_RGBA16_FLOAT] = {"rgba16float", 8, true},
    [VKS_FORMAT_RGBA32_FLOAT] = {"rgba32float", 16, true},
    [VKS_FORMAT_R16_FLOAT] = {"r16float", 2, true},
    [VKS_FORMAT_RG16_FLOAT] = {"rg16float", 4, true},
    [VKS_FORMAT_R16_UNORM] = {"r16unorm", 2, false},
    [VKS_FORMAT_RG16_UNORM] = {"rg16unorm", 4, false},
    [VKS_FORMAT_RGBA16_UNORM] = {"rgba16unorm", 8, false},
    [VKS_FORMAT_R32_UINT] = {"r32uint", 4, false},
    [VKS_FORMAT_D16_UNORM] = {"d16unorm", 2, false},
    [VKS_FORMAT_D32_FLOAT] = {"d32float", 4, true},
    [VKS_FORMAT_NV12] = {"nv12", 0, false},
    [VKS_FORMAT_P010] = {"p010", 0, false},
    [VKS_FORMAT_I420] = {"i420", 0, false},
    [VKS_FORMAT_NV16] = {"nv16", 0, false},
    [VKS_FORMAT_YUV444P] = {"yuv444p", 0, false},
};

static bool is_known(uint32_t format) { return format > 0 && format < sizeof formats / sizeof *formats; }

size_t vks_format_bytes(uint32_t format) { return is_known(format) ? formats[format].bytes : 0; }

const char *vks_format_name(uint32_t format) { return is_known(format) ? formats[format].name : "unknown"; }

bool vks_format_is_float(uint32_t format) { return is_known(format) && formats[format].is_float; }

bool vks_format_is_integer(uint32_t format) { return format == VKS_FORMAT_R32_UINT; }

bool vks_format_is_depth(uint32_t format) { return format == VKS_FORMAT_D16_UNORM || format == VKS_FORMAT_D32_FLOAT; }

bool vks_format_has_colours(uint32_t format) { return !vks_format_is_integer(format) && !vks_format_is_depth(format); }

bool vks_format_is_drawable(uint32_t format) { return vks_format_has_colours(format) && vks_format_bytes(format) != 0; }

bool vks_format_is_8888(uint32_t format)
{
    return format == VKS_FORMAT_RGBA8_UNORM || format == VKS_FORMAT_BGRA8_UNORM;
}

// The floats nearest to i / 255.
#define ROW4(i) (i) / 255.0f, ((i) + 1) / 255.0f, ((i) + 2) / 255.0f, ((i) + 3) / 255.0f
#define ROW16(i) ROW4(i), ROW4((i) + 4), ROW4((i) + 8), ROW4((i) + 12)
#define ROW64(i) ROW16(i), ROW16((i) + 16), ROW16((i) + 32), ROW16((i) + 48)
static const float from8[256] = {ROW64(0), ROW64(64), ROW64(128), ROW64(192)};

static inline void set(vks_rgba out, float r, float g, float b, float a) { vks_f4_store(out, (vks_f4){r, g, b, a}); }

static inline uint8_t to8(float v) { return (uint8_t)vks_f4_to_unorm(vks_f4_all(v), vks_f4_all(255.0f))[0]; }

// `colour` is the table for the first three components.
static inline void load_8888(const uint8_t *p, vks_rgba *out, size_t n, const float *colour, int r, int b)
{
    for (size_t i = 0; i < n; i++, p += 4)
        set(out[i], colour[p[r]], colour[p[1]], colour[p[b]], from8[p[3]]);
}

static const vks_f4 rgb10a2_levels = {1023.0f, 1023.0f, 1023.0f, 3.0f};

static void load_rgb10a2(const uint8_t *p, vks_rgba *out, size_t n)
{
    for (size_t i = 0; i < n; i++, p += 4) {
        uint32_t v;
        memcpy(&v, p, sizeof v);
        vks_f4 codes = {(float)(v & 1023), (float)(v >> 10 & 1023), (float)(v >> 20 & 1023), (float)(v >> 30)};
        vks_f4_store(out[i], codes / rgb10a2_levels);
    }
}

// Components that the format lacks are 0, alpha is 1.
static void load_16(const uint8_t *p, vks_rgba *out, size_t n, size_t components)
{
    for (size_t i = 0; i < n; i++, p += 2 * components) {
        uint16_t code[4] = {0, 0, 0, UINT16_MAX};
        memcpy(code, p, 2 * components);
        vks_f4 codes = {(float)code[0], (float)code[1], (float)code[2], (float)code[3]};
        vks_f4_store(out[i], codes / vks_f4_all(65535.0f));
    }
}

static void load_halves(const uint8_t *p, vks_rgba *out, size_t n, size_t components)
{
    for (size_t i = 0; i < n; i++, p += 2 * components) {
        set(out[i], 0, 0, 0, 1);
        vks_halves_to_floats(p, out[i], components);
    }
}

void vks_load_pixels(uint32_t format, const void *pixels, vks_rgba *out, size_t n)
{
    const uint8_t *p = pixels;
    switch (format) {
    case VKS_FORMAT_R8_UNORM:
        for (size_t i = 0; i < n; i++)
            set(out[i], from8[p[i]], 0, 0, 1);
        break;
    case VKS_FORMAT_RG8_UNORM:
        for (size_t i = 0; i < n; i++)
            set(out[i], from8[p[2 * i]], from8[p[2 * i + 1]], 0, 1);
        break;
    case VKS_FORMAT_RGBA8_UNORM:
        load_8888(p, out, n, from8, 0, 2);
        break;
    case VKS_FORMAT_BGRA8_UNORM:
        load_8888(p, out, n, from8, 2, 0);
        break;
    case VKS_FORMAT_RGBA8_UNORM_SRGB:
        load_8888(p, out, n, vks_srgb()->linear, 0, 2);
        break;
    case VKS_FORMAT_RGB10A2_UNORM:
        load_rgb10a2(p, out, n);
        break;
    case VKS_FORMAT_R32_FLOAT:
    case VKS_FORMAT_R32_UINT:
    case VKS_FORMAT_D32_FLOAT:
        for (size_t i = 0; i < n; i++) {
            float red;
            memcpy(&red, p + 4 * i, sizeof red);
            set(out[i], red, 0, 0, 1);
        }
        break;
    case VKS_FORMAT_RGBA16_FLOAT:
        vks_halves_to_floats(p, out[0], 4 * n);
        break;
    case VKS_FORMAT_RGBA32_FLOAT:
        memcpy(out, p, n * sizeof *out);
        break;
    case VKS_FORMAT_R16_FLOAT:
        load_halves(p, out, n, 1);
        break;
    case VKS_FORMAT_RG16_FLOAT:
        load_halves(p, out, n, 2);
        break;
    case VKS_FORMAT_R16_UNORM:
    case VKS_FORMAT_D16_UNORM:
        load_16(p, out, n, 1);
        break;
    case VKS_FORMAT_RG16_UNORM:
        load_16(p, out, n, 2);
        break;
    case VKS_FORMAT_RGBA16_UNORM:
        load_16(p, out, n, 4);
        break;
    }
}

#if defined(__SSE2__)
static inline __m128i to_codes(const float *rgba)
{
    return _mm_cvtps_epi32(vks_f4_clamp(vks_f4_load(rgba), 0.0f, 1.0f) * vks_f4_all(255.0f));
}

// Four pixels at a time; returns how many it stored.
static size_t store_fours(const vks_rgba *in, uint8_t *p, size_t n, bool bgra)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m128i low = _mm_packs_epi32(to_codes(in[i]), to_codes(in[i + 1]));
        __m128i high = _mm_packs_epi32(to_codes(in[i + 2]), to_codes(in[i + 3]));
        if (bgra) {
            low = _mm_shufflehi_epi16(_mm_shufflelo_epi16(low, _MM_SHUFFLE(3, 0, 1, 2)), _MM_SHUFFLE(3, 0, 1, 2));
            high = _mm_shufflehi_epi16(_mm_shufflelo_epi16(high, _MM_SHUFFLE(3, 0, 1, 2)), _MM_SHUFFLE(3, 0, 1, 2));
        }
        _mm_storeu_si128((void *)(p + 4 * i), _mm_packus_epi16(low, high));
    }
    return i;
}
#else
static size_t store_fours(const vks_rgba *in, uint8_t *p, size_t n, bool bgra)
{
    (void)in, (void)p, (void)n, (void)bgra;
    return 0;
}
#endif

static void store_8888(const vks_rgba *in, uint8_t *p, size_t n, bool bgra)
{
    for (size_t i = store_fours(in, p, n, bgra); i < n; i++) {
        p[4 * i + (bgra ? 2 : 0)] = to8(in[i][0]);
        p[4 * i + 1] = to8(in[i][1]);
        p[4 * i + (bgra ? 0 : 2)] = to8(in[i][2]);
        p[4 * i + 3] = to8(in[i][3]);
    }
}

static void store_srgb(const vks_rgba *in, uint8_t *p, size_t n)
{
    const struct vks_srgb *srgb = vks_srgb();
    for (size_t i = 0; i < n; i++, p += 4) {
        vks_f4 v = vks_srgb_clamp(vks_f4_load(in[i]));
        p[0] = vks_srgb_encode(srgb, v[0]);
        p[1] = vks_srgb_encode(srgb, v[1]);
        p[2] = vks_srgb_encode(srgb, v[2]);
        p[3] = to8(in[i][3]);
    }
}

static void store_rgb10a2(const vks_rgba *in, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++, p += 4) {
        vks_u4 codes = vks_f4_to_unorm(vks_f4_load(in[i]), rgb10a2_levels);
        uint32_t v = codes[0] | codes[1] << 10 | codes[2] << 20 | codes[3] << 30;
        memcpy(p, &v, sizeof v);
    }
}

static void store_16(const vks_rgba *in, uint8_t *p, size_t n, size_t components)
{
    for (size_t i = 0; i < n; i++, p += 2 * components) {
        vks_u4 codes = vks_f4_to_unorm(vks_f4_load(in[i]), vks_f4_all(65535.0f));
        uint16_t code[4] = {(uint16_t)codes[0], (uint16_t)codes[1], (uint16_t)codes[2], (uint16_t)codes[3]};
        memcpy(p, code, 2 * components);
    }
}

static void store_halves(const vks_rgba *in, uint8_t *p, size_t n, size_t components)
{
    for (size_t i = 0; i < n; i++, p += 2 * components)
        vks_floats_to_halves(in[i], p, components);
}

void vks_store_pixels(uint32_t format, const vks_rgba *in, void *pixels, size_t n)
{
    uint8_t *p = pixels;
    switch (format) {
    case VKS_FORMAT_R8_UNORM:
        for (size_t i = 0; i < n; i++)
            p[i] = to8(in[i][0]);
        break;
    case VKS_FORMAT_RG8_UNORM:
        for (size_t i = 0; i < n; i++) {
            p[2 * i] = to8(in[i][0]);
            p[2 * i + 1] = to8(in[i][1]);
        }
        break;
    case VKS_FORMAT_RGBA8_UNORM:
        store_8888(in, p, n, false);
        break;
    case VKS_FORMAT_BGRA8_UNORM:
        store_8888(in, p, n, true);
        break;
    case VKS_FORMAT_RGBA8_UNORM_SRGB:
        store_srgb(in, p, n);
        break;
    case VKS_FORMAT_RGB10A2_UNORM:
        store_rgb10a2(in, p, n);
        break;
    case VKS_FORMAT_R32_FLOAT:
    case VKS_FORMAT_R32_UINT:
    case VKS_FORMAT_D32_FLOAT:
        for (size_t i = 0; i < n; i++)
            memcpy(p + 4 * i, in[i], sizeof(float));
        break;
    case VKS_FORMAT_RGBA16_FLOAT:
        vks_floats_to_halves(in[0], p, 4 * n);
        break;
    case VKS_FORMAT_RGBA32_FLOAT:
        memcpy(p, in, n * sizeof *in);
        break;
    case VKS_FORMAT_R16_FLOAT:
        store_halves(in, p, n, 1);
        break;
    case VKS_FORMAT_RG16_FLOAT:
        store_halves(in, p, n, 2);
        break;
    case VKS_FORMAT_R16_UNORM:
    case VKS_FORMAT_D16_UNORM:
        store_16(in, p, n, 1);
        break;
    case VKS_FORMAT_RG16_UNORM:
        store_16(in, p, n, 2);
        break;
    case VKS_FORMAT_RGBA16_UNORM:
        store_16(in, p, n, 4);
        break;
    }
}

// A transparent pixel, as most of an overlay is: adds nothing to the target, and removes nothing.
static bool is_empty(const vks_rgba *source, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t pair[2];
        memcpy(pair, source[i], sizeof pair);
        if ((pair[0] | pair[1]) != 0)
            return false;
    }
    return true;
}

void vks_blend_pixels(uint32_t format, const vks_rgba *source, void *pixels, size_t count)
{
    bool clamped = !vks_format_is_float(format);
    size_t bytes = vks_format_bytes(format);
    vks_rgba below[VKS_CHUNK];
    for (size_t at = 0; at < count; at += VKS_CHUNK) {
        size_t n = count - at < VKS_CHUNK ? count - at : VKS_CHUNK;
        uint8_t *p = (uint8_t *)pixels + at * bytes;
        if (is_empty(source + at, n))
            continue;
        vks_load_pixels(format, p, below, n);
        for (size_t i = 0; i < n; i++) {
            vks_f4 s = vks_f4_load(source[at + i]);
            s = clamped ? vks_f4_clamp(s, 0.0f, 1.0f) : s;
            vks_f4_store(below[i], s + vks_f4_load(below[i]) * vks_f4_all(1.0f - s[3]));
        }
        vks_store_pixels(format, (const vks_rgba *)below, p, n);
    }
}

int vks_pack_colour(uint32_t format, const float rgba[4], void *pixel)
{
    if (vks_format_bytes(format) == 0)
        return VKS_RASTER_BAD_FORMAT;
    if (rgba == NULL || pixel == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    vks_rgba colour;
    memcpy(colour, rgba, sizeof colour);
    vks_store_pixels(format, (const vks_rgba *)&colour, pixel, 1);
    return VKS_RASTER_OK;
}

int vks_unpack_colour(uint32_t format, const void *pixel, float rgba[4])
{
    if (vks_format_bytes(format) == 0)
        return VKS_RASTER_BAD_FORMAT;
    if (rgba == NULL || pixel == NULL)
        return VKS_RASTER_BAD_ARGUMENT;
    vks_rgba colour;
    vks_load_pixels(format, pixel, &colour, 1);
    memcpy(rgba, colour, sizeof colour);
    return VKS_RASTER_OK;
}
