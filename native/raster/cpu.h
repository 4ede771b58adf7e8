// Which of the compiled kernels this processor runs.
#pragma once

enum vks_isa {
    VKS_ISA_PORTABLE, // plain C, every architecture
    VKS_ISA_SSE2,     // x86-64's baseline
    VKS_ISA_AVX2,
    VKS_ISA_AVX512, // F, BW and VL
};

// The best of this processor that vks_cpu_limit_isa() allows.
enum vks_isa vks_cpu_isa(void);

// For tests and benchmarks, which compare the kernels: takes none above `highest` from now on. Any thread.
void vks_cpu_limit_isa(enum vks_isa highest);
