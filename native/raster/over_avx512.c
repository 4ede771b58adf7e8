// over.h's kernel for AVX512 (over_kernel.h has the loops).
#if defined(__x86_64__)
#include "raster/avx512.h"

#define ALL_ZERO(v) (_mm512_test_epi32_mask(v, v) == 0)
#define ALL_OPAQUE(v) (_mm512_cmpge_epu32_mask(v, _mm512_set1_epi32((int)0xff000000u)) == 0xffff)
#define KERNEL vks_over_avx512
#include "raster/over_kernel.h"
#endif
