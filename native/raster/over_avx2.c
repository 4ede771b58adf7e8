// over.h's kernel for AVX2 (over_kernel.h has the loops).
#if defined(__x86_64__)
#include "raster/avx2.h"

#define ALL_ZERO(v) _mm256_testz_si256(v, v)
#define ALL_OPAQUE(v) _mm256_testc_si256(v, _mm256_set1_epi32((int)0xff000000u))
#define KERNEL vks_over_avx2
#include "raster/over_kernel.h"
#endif
