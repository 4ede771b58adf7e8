// over.h's kernel for SSE2 (over_kernel.h has the loops).
#if defined(__x86_64__)
#include "raster/sse2.h"

#define ALL_ZERO(v) (_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128())) == 0xffff)
#define ALL_OPAQUE(v) ((_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(-1))) & 0x8888) == 0x8888)
#define KERNEL vks_over_sse2
#include "raster/over_kernel.h"
#endif
