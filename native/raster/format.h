// Pixels of any format to and from rows of linear float RGBA.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pixels are taken apart as little-endian words"
#endif

// Pixels that the general paths convert at a time: small enough for the stack and the first-level cache.
#define VKS_CHUNK 64

typedef float vks_rgba[4];

// Formats must be valid here. The float of an integer is its bits, which are stored and loaded as they are. -srgb
// decodes on load and encodes on store; components that a format lacks load as 0, alpha as 1.
void vks_load_pixels(uint32_t format, const void *pixels, vks_rgba *out, size_t count);
void vks_store_pixels(uint32_t format, const vks_rgba *in, void *pixels, size_t count);

// dst = src + dst * (1 - src.a), in float. Sources of UNORM targets are clamped to 0..1 first (Vulkan 29.1).
void vks_blend_pixels(uint32_t format, const vks_rgba *source, void *pixels, size_t count);

bool vks_format_is_float(uint32_t format);

// Whole numbers: fills and copies take them, and everything that computes with colours refuses them.
bool vks_format_is_integer(uint32_t format);

// Depth: fills and copies take it, and draws as their depth alone.
bool vks_format_is_depth(uint32_t format);

// Neither of these.
bool vks_format_has_colours(uint32_t format);

// Colours in one plane, with which draws and composites can blend.
bool vks_format_is_drawable(uint32_t format);

// 8-bit components that are stored and blended as they are: the formats of the integer kernels.
bool vks_format_is_8888(uint32_t format);

// 0..levels, round to nearest even, NaN to 0, as conversion instructions and drivers do.
static inline uint32_t vks_to_unorm(float value, float levels)
{
    value = value > 0.0f ? value : 0.0f;
    value = value < 1.0f ? value : 1.0f;
    float shifted = value * levels + 8388608.0f; // 2^23: the mantissa's low bits are now the integer
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits & 0x7fffff;
}
