// shade.h for AVX-512 (shade_kernel.h has the loops).
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl")
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
#define MASK(n) ((__mmask16)((1u << (n)) - 1))

#define MAX(a, b) ((F)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define MIN(a, b) ((F)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define LOAD(p, n) _mm512_maskz_loadu_epi32(MASK(n), p)
#define STORE(p, v, n) _mm512_mask_storeu_epi32(p, MASK(n), (__m512i)(v))
#define GATHER(p, i) ((U)_mm512_i32gather_epi32((__m512i)(i), (const void *)(p), 4))
#define MULTIPLY_HIGH(a, b) ((H)_mm512_mulhi_epu16((__m512i)(a), (__m512i)(b)))
#define ADD_SATURATED(a, b) ((H)_mm512_adds_epu16((__m512i)(a), (__m512i)(b)))
#define KERNEL vks_shade_rows_avx512
#include "raster/shade_kernel.h"
#endif
