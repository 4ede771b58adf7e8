#include "raster/over.h"

#include <string.h>

#define EVEN_BYTES 0x00ff00ffu

static inline uint32_t load(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Two components a word: v[i] * factor / 255, rounded.
static inline uint32_t scale_pair(uint32_t pair, uint32_t factor)
{
    uint32_t t = pair * factor + 0x00800080u;
    return (t + (t >> 8 & EVEN_BYTES)) >> 8 & EVEN_BYTES;
}

// Sum of bytes, each at most 255.
static inline uint32_t add_pair(uint32_t a, uint32_t b)
{
    uint32_t sum = a + b;
    uint32_t carry = sum & 0x01000100u;
    return (sum | (carry - (carry >> 8))) & EVEN_BYTES;
}

static inline uint32_t over(uint32_t d, uint32_t s)
{
    uint32_t keep = 255 - (s >> 24);
    uint32_t even = add_pair(scale_pair(d & EVEN_BYTES, keep), s & EVEN_BYTES);
    uint32_t odd = add_pair(scale_pair(d >> 8 & EVEN_BYTES, keep), s >> 8 & EVEN_BYTES);
    return even | odd << 8;
}

#define OPAQUE 0xff000000u

// Two components a word: (s * alpha + d * (255 - alpha)) / 255, rounded.
static inline uint32_t mix_pair(uint32_t d, uint32_t s, uint32_t alpha)
{
    uint32_t t = s * alpha + d * (255 - alpha) + 0x00800080u;
    return (t + (t >> 8 & EVEN_BYTES)) >> 8 & EVEN_BYTES;
}

static inline uint32_t over_straight(uint32_t d, uint32_t s)
{
    uint32_t alpha = s >> 24;
    uint32_t even = mix_pair(d & EVEN_BYTES, s & EVEN_BYTES, alpha);
    uint32_t odd = mix_pair(d >> 8 & EVEN_BYTES, (s | OPAQUE) >> 8 & EVEN_BYTES, alpha);
    return even | odd << 8;
}

static inline uint32_t over_faded(uint32_t d, uint32_t s, uint32_t opacity, int straight)
{
    uint32_t alpha = (s >> 24) * 257 * opacity >> 16;
    uint32_t factor = straight ? alpha : opacity, keep = 65535 - alpha;
    uint32_t out = 0;
    s = straight ? s | OPAQUE : s;
    for (int shift = 0; shift < 32; shift += 8) {
        uint32_t sum = ((s >> shift & 255) * 257 * factor >> 16) + ((d >> shift & 255) * 257 * keep >> 16);
        sum = sum < 65535 ? sum : 65535;
        out |= ((sum - (sum >> 8) + 128) >> 8) << shift;
    }
    return out;
}

static inline uint32_t swap_red_blue(uint32_t v) { return (v & 0xff00ff00u) | (v >> 16 & 255) | (v & 255) << 16; }

void vks_over_pixels(uint8_t *target, const uint8_t *source, size_t pixels, uint32_t opacity, int straight, int swap,
                     int fade)
{
    for (size_t i = 0; i < pixels; i++) {
        uint32_t s = load(source + 4 * i);
        uint32_t d = load(target + 4 * i);
        s = swap ? swap_red_blue(s) : s;
        d = fade ? over_faded(d, s, opacity, straight) : straight ? over_straight(d, s) : over(d, s);
        memcpy(target + 4 * i, &d, sizeof d);
    }
}

#define ROW vks_over_pixels
VKS_OVER_VARIANTS(vks_over_portable)

const struct vks_over_kernel *vks_over_kernel(enum vks_isa isa)
{
#if defined(__x86_64__)
    switch (isa) {
    case VKS_ISA_AVX512:
        return &vks_over_avx512;
    case VKS_ISA_AVX2:
        return &vks_over_avx2;
    case VKS_ISA_SSE2:
        return &vks_over_sse2;
    case VKS_ISA_PORTABLE:
        break;
    }
#endif
    (void)isa;
    return &vks_over_portable;
}
