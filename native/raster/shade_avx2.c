// shade.h for AVX2 (shade_kernel.h has the loops).
#if defined(__x86_64__)
#pragma GCC target("avx2")
#include <immintrin.h>
#include <stdint.h>

#define LANES 8

static inline __m256i first_lanes(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define MAX(a, b) ((F)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define MIN(a, b) ((F)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define LOAD(p, n) _mm256_maskload_epi32((const void *)(p), first_lanes(n))
#define STORE(p, v, n) _mm256_maskstore_epi32((void *)(p), first_lanes(n), (__m256i)(v))
#define GATHER(p, i) ((U)_mm256_i32gather_epi32((const void *)(p), (__m256i)(i), 4))
#define MULTIPLY_HIGH(a, b) ((H)_mm256_mulhi_epu16((__m256i)(a), (__m256i)(b)))
#define ADD_SATURATED(a, b) ((H)_mm256_adds_epu16((__m256i)(a), (__m256i)(b)))
#define KERNEL vks_shade_rows_avx2
#include "raster/shade_kernel.h"
#endif
