// ycbcr_kernel.h's kernel for AVX2 (ycbcr_vector.h has the loops).
#if defined(__x86_64__)
#include "raster/avx2.h"

#define WIDEN(p) _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(p)))
#define BYTES(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p)))
#define WORDS(p) _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p)))
#define INTERLEAVE(a, b, low, high)                                                                                    \
    do {                                                                                                               \
        V first = (a), second = (b);                                                                                   \
        V lows = _mm256_unpacklo_epi32(first, second), highs = _mm256_unpackhi_epi32(first, second);                   \
        low = _mm256_permute2x128_si256(lows, highs, 0x20);                                                            \
        high = _mm256_permute2x128_si256(lows, highs, 0x31);                                                           \
    } while (0)
#define KERNEL vks_ycbcr_avx2
#include "raster/ycbcr_vector.h"
#endif
