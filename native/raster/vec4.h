// Four floats, a pixel's components, in one register.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef float vks_f4 __attribute__((vector_size(16)));
typedef uint32_t vks_u4 __attribute__((vector_size(16)));

static inline vks_f4 vks_f4_load(const float *p)
{
    vks_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vks_f4_store(float *p, vks_f4 v) { memcpy(p, &v, sizeof v); }

static inline vks_f4 vks_f4_all(float v) { return (vks_f4){v, v, v, v}; }

// To low..high; NaN to low.
static inline vks_f4 vks_f4_clamp(vks_f4 v, float low, float high)
{
#if defined(__SSE2__)
    return _mm_min_ps(_mm_max_ps(v, _mm_set1_ps(low)), _mm_set1_ps(high));
#else
    for (int i = 0; i < 4; i++) {
        v[i] = v[i] > low ? v[i] : low;
        v[i] = v[i] < high ? v[i] : high;
    }
    return v;
#endif
}

// 0..levels, as vks_to_unorm.
static inline vks_u4 vks_f4_to_unorm(vks_f4 v, vks_f4 levels)
{
    return (vks_u4)(vks_f4_clamp(v, 0.0f, 1.0f) * levels + vks_f4_all(8388608.0f)) & 0x7fffff;
}
