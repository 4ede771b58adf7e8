#include "raster/half.h"

#include <string.h>

#include "raster/cpu.h"

float vks_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7fff;
    uint32_t bits;
    if (magnitude > 0x7c00) {
        bits = 0x7fc00000 | (magnitude & 0x3ff) << 13;
    } else if (magnitude == 0x7c00) {
        bits = 0x7f800000;
    } else if (magnitude >= 0x400) {
        bits = (magnitude << 13) + ((127 - 15) << 23);
    } else { // subnormal: an integer count of 2^-24
        float value = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

uint16_t vks_float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) // 65520: halfway from the largest half to the next step
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
        float shifted;
        memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((magnitude - ((127 - 15) << 23)) >> 13));
}

#if defined(__x86_64__)
#include <immintrin.h>

static int has_f16c(void) { return vks_cpu_isa() >= VKS_ISA_AVX2 && __builtin_cpu_supports("f16c"); }

// Both convert the multiple of four and return it.
__attribute__((target("avx,f16c"))) static size_t widen_fours(const uint8_t *p, float *out, size_t count)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        _mm_storeu_ps(out + i, _mm_cvtph_ps(_mm_loadl_epi64((const void *)(p + 2 * i))));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t narrow_fours(const float *in, uint8_t *p, size_t count)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        _mm_storel_epi64((void *)(p + 2 * i), _mm_cvtps_ph(_mm_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}
#else
static int has_f16c(void) { return 0; }
static size_t widen_fours(const uint8_t *p, float *out, size_t count) { return (void)p, (void)out, (void)count, 0; }
static size_t narrow_fours(const float *in, uint8_t *p, size_t count) { return (void)in, (void)p, (void)count, 0; }
#endif

void vks_halves_to_floats(const void *halves, float *out, size_t count)
{
    const uint8_t *p = halves;
    for (size_t i = has_f16c() ? widen_fours(p, out, count) : 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, p + 2 * i, sizeof half);
        out[i] = vks_half_to_float(half);
    }
}

void vks_floats_to_halves(const float *in, void *halves, size_t count)
{
    uint8_t *p = halves;
    for (size_t i = has_f16c() ? narrow_fours(in, p, count) : 0; i < count; i++) {
        uint16_t half = vks_float_to_half(in[i]);
        memcpy(p + 2 * i, &half, sizeof half);
    }
}
