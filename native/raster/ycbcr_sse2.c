// ycbcr_kernel.h's kernel for SSE2 (ycbcr_vector.h has the loops).
#if defined(__x86_64__)
#include "raster/sse2.h"

#define WIDEN(p) _mm_unpacklo_epi8(_mm_loadl_epi64((const void *)(p)), _mm_setzero_si128())
#define BYTES(p) _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_loadu_si32(p), _mm_setzero_si128()), _mm_setzero_si128())
#define WORDS(p) _mm_unpacklo_epi16(_mm_loadl_epi64((const void *)(p)), _mm_setzero_si128())
#define INTERLEAVE(a, b, low, high)                                                                                    \
    do {                                                                                                               \
        V first = (a), second = (b);                                                                                   \
        low = _mm_unpacklo_epi32(first, second);                                                                       \
        high = _mm_unpackhi_epi32(first, second);                                                                      \
    } while (0)
#define KERNEL vks_ycbcr_sse2
#include "raster/ycbcr_vector.h"
#endif
