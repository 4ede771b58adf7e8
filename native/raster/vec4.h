// Four floats, a pixel's components, in one register.
#pragma once

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef float vks_f4 __attribute__((vector_size(16)));

static inline vks_f4 vks_f4_load(const float *p)
{
    vks_f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vks_f4_store(float *p, vks_f4 v)
{
    memcpy(p, &v, sizeof v);
}

static inline vks_f4 vks_f4_all(float v)
{
    return (vks_f4){v, v, v, v};
}

// To 0..1; NaN to 0.
static inline vks_f4 vks_f4_clamp01(vks_f4 v)
{
#if defined(__SSE2__)
    return _mm_min_ps(_mm_max_ps(v, _mm_setzero_ps()), _mm_set1_ps(1.0f));
#else
    for (int i = 0; i < 4; i++) {
        v[i] = v[i] > 0.0f ? v[i] : 0.0f;
        v[i] = v[i] < 1.0f ? v[i] : 1.0f;
    }
    return v;
#endif
}
