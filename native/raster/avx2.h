// Vectors of AVX2 for a kernel that is written once for all sizes. First in its file, because of the target.
#pragma once
#pragma GCC target("avx2")
#include <immintrin.h>

#define V __m256i
#define OP(name) _mm256_##name
#define LOAD(p) _mm256_loadu_si256((const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((void *)(p), v)
