// over.h's kernel for AVX512 (over_kernel.h has the loops).
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl")
#include <immintrin.h>

#define V __m512i
#define OP(name) _mm512_##name
#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define ALL_ZERO(v) (_mm512_test_epi32_mask(v, v) == 0)
#define ALL_OPAQUE(v) (_mm512_cmpge_epu32_mask(v, _mm512_set1_epi32((int)0xff000000u)) == 0xffff)
#define KERNEL vks_over_avx512
#include "raster/over_kernel.h"
#endif
