// shade.h for x86-64's baseline (shade_kernel.h has the loops).
#if defined(__x86_64__)
#include <emmintrin.h>
#include <stdint.h>
#include <string.h>

#define LANES 4

static inline __m128i load_some(const uint8_t *p, uint32_t n)
{
    int v[4] = {0, 0, 0, 0};
    if (n == LANES)
        return _mm_loadu_si128((const void *)p);
    memcpy(&v[0], p, 4);
    if (n > 1)
        memcpy(&v[1], p + 4, 4);
    if (n > 2)
        memcpy(&v[2], p + 8, 4);
    return _mm_setr_epi32(v[0], v[1], v[2], v[3]);
}

static inline void store_some(uint8_t *p, __m128i v, uint32_t n)
{
    if (n == LANES) {
        _mm_storeu_si128((void *)p, v);
        return;
    }
    if (n & 2) {
        _mm_storel_epi64((void *)p, v);
        v = _mm_srli_si128(v, 8);
        p += 8;
    }
    if (n & 1) {
        int pixel = _mm_cvtsi128_si32(v);
        memcpy(p, &pixel, 4);
    }
}

static inline int pixel_at(const uint8_t *p, int64_t index)
{
    int pixel;
    memcpy(&pixel, p + 4 * index, sizeof pixel);
    return pixel;
}

static inline __m128i gather(const uint8_t *p, __m128i index)
{
    int64_t low = _mm_cvtsi128_si64(index), high = _mm_cvtsi128_si64(_mm_srli_si128(index, 8));
    return _mm_setr_epi32(pixel_at(p, (int32_t)low), pixel_at(p, low >> 32), pixel_at(p, (int32_t)high),
                          pixel_at(p, high >> 32));
}

#define MAX(a, b) ((F)_mm_max_ps((__m128)(a), (__m128)(b)))
#define MIN(a, b) ((F)_mm_min_ps((__m128)(a), (__m128)(b)))
#define LOAD(p, n) load_some(p, n)
#define STORE(p, v, n) store_some(p, (__m128i)(v), n)
#define GATHER(p, i) ((U)gather(p, (__m128i)(i)))
#define MULTIPLY_HIGH(a, b) ((H)_mm_mulhi_epu16((__m128i)(a), (__m128i)(b)))
#define ADD_SATURATED(a, b) ((H)_mm_adds_epu16((__m128i)(a), (__m128i)(b)))
#define KERNEL vks_shade_rows_sse2
#include "raster/shade_kernel.h"
#endif
