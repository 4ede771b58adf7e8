// Vectors of SSE2 for a kernel that is written once for all sizes.
#pragma once
#include <immintrin.h>

#define V __m128i
#define OP(name) _mm_##name
#define LOAD(p) _mm_loadu_si128((const void *)(p))
#define STORE(p, v) _mm_storeu_si128((void *)(p), v)
