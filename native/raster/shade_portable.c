// shade.h in GCC's generic vectors, for any architecture.
#include <stdint.h>
#include <string.h>

#define LANES 4
typedef float portable_f __attribute__((vector_size(16)));
typedef int32_t portable_i __attribute__((vector_size(16)));
typedef uint32_t portable_u __attribute__((vector_size(16)));

static inline portable_f choose(portable_i mask, portable_f a, portable_f b)
{
    return (portable_f)(((portable_i)a & mask) | ((portable_i)b & ~mask));
}

typedef uint16_t portable_h __attribute__((vector_size(16)));

static inline portable_h multiply_high(portable_h a, portable_h b)
{
    portable_u even = ((portable_u)a & 0xffff) * ((portable_u)b & 0xffff) >> 16;
    portable_u odd = ((portable_u)a >> 16) * ((portable_u)b >> 16) & 0xffff0000u;
    return (portable_h)(even | odd);
}

static inline portable_h add_saturated(portable_h a, portable_h b)
{
    portable_h sum = a + b;
    return sum | (portable_h)(sum < a);
}

static inline portable_u load_some(const uint8_t *p, uint32_t n)
{
    portable_u v = {0};
    if (n == LANES)
        memcpy(&v, p, sizeof v);
    else
        for (uint32_t i = 0; i < n; i++) {
            uint32_t pixel;
            memcpy(&pixel, p + 4 * i, 4);
            v[i] = pixel;
        }
    return v;
}

static inline void store_some(uint8_t *p, portable_u v, uint32_t n)
{
    if (n == LANES)
        memcpy(p, &v, sizeof v);
    else
        for (uint32_t i = 0; i < n; i++) {
            uint32_t pixel = v[i];
            memcpy(p + 4 * i, &pixel, 4);
        }
}

static inline portable_u gather(const uint8_t *p, portable_i index)
{
    portable_u v = {0};
    for (int i = 0; i < LANES; i++) {
        uint32_t pixel;
        memcpy(&pixel, p + 4 * (int64_t)index[i], sizeof pixel);
        v[i] = pixel;
    }
    return v;
}

#define MAX(a, b) choose((a) > (b), a, b)
#define MIN(a, b) choose((a) < (b), a, b)
#define LOAD(p, n) load_some(p, n)
#define STORE(p, v, n) store_some(p, v, n)
#define GATHER(p, i) gather(p, i)
#define MULTIPLY_HIGH(a, b) multiply_high(a, b)
#define ADD_SATURATED(a, b) add_saturated(a, b)
#define KERNEL vks_shade_rows_portable
#include "raster/shade_kernel.h"
