// ycbcr_kernel.h's kernel for AVX512 (ycbcr_vector.h has the loops).
#if defined(__x86_64__)
#include "raster/avx512.h"

#define WIDEN(p) _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(p)))
#define BYTES(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p)))
#define WORDS(p) _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p)))
#define INTERLEAVE(a, b, low, high)                                                                                    \
    do {                                                                                                               \
        V first = (a), second = (b);                                                                                   \
        V lows = _mm512_unpacklo_epi32(first, second), highs = _mm512_unpackhi_epi32(first, second);                   \
        low = _mm512_permutex2var_epi64(lows, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), highs);                     \
        high = _mm512_permutex2var_epi64(lows, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), highs);                  \
    } while (0)
#define KERNEL vks_ycbcr_avx512
#include "raster/ycbcr_vector.h"
#endif
