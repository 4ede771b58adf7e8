// Vectors of AVX512 for a kernel that is written once for all sizes. First in its file, because of the target.
#pragma once
#pragma GCC target("avx512f,avx512bw,avx512vl")
#include <immintrin.h>

#define V __m512i
#define OP(name) _mm512_##name
#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define STORE(p, v) _mm512_storeu_si512((void *)(p), v)
