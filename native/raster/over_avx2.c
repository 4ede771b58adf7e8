// over.h's kernel for AVX2 (over_kernel.h has the loops).
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>

#define V __m256i
#define OP(name) _mm256_##name
#define LOAD(p) _mm256_loadu_si256((const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((void *)(p), v)
#define ALL_ZERO(v) _mm256_testz_si256(v, v)
#define ALL_OPAQUE(v) _mm256_testc_si256(v, _mm256_set1_epi32((int)0xff000000u))
#define KERNEL vks_over_avx2
#include "raster/over_kernel.h"
#endif
