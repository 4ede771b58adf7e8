#include "raster/cpu.h"

#include <stdatomic.h>

static atomic_int limit = VKS_ISA_AVX512;

static enum vks_isa best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return VKS_ISA_AVX512;
    return __builtin_cpu_supports("avx2") ? VKS_ISA_AVX2 : VKS_ISA_SSE2;
#else
    return VKS_ISA_PORTABLE;
#endif
}

enum vks_isa vks_cpu_isa(void)
{
    enum vks_isa isa = best();
    int allowed = atomic_load_explicit(&limit, memory_order_relaxed);
    return (int)isa < allowed ? isa : (enum vks_isa)allowed;
}

void vks_cpu_limit_isa(enum vks_isa highest) { atomic_store_explicit(&limit, (int)highest, memory_order_relaxed); }
