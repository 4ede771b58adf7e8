// The vector loops of over.h, included once for each instruction set (over_sse2.c and its neighbours), which define:
//   V            the vector type            OP(name)      the intrinsic of that name and width
//   LOAD, STORE  unaligned, of a byte pointer
//   ALL_ZERO(v)  every bit 0                ALL_OPAQUE(v) every pixel's top byte 255
//   KERNEL       the table to define
//
// Bytes are taken as two vectors of 16-bit lanes, the even bytes (components 0 and 2) and the odd ones (1 and 3), so
// that nothing crosses a lane and alpha is spread by shifts.

#include <string.h>

#include "raster/over.h"

#define VECTOR_PIXELS (sizeof(V) / 4)

static inline V even_bytes(V v) { return v & OP(set1_epi16)(0x00ff); }

static inline V odd_bytes(V v) { return OP(srli_epi16)(v, 8); }

static inline V swap_red_blue(V v)
{
    V even = even_bytes(v);
    return (v ^ even) | OP(slli_epi32)(even, 16) | OP(srli_epi32)(even, 16);
}

// round(v * keep / 255) in 16-bit lanes: (x + 128) * 257 >> 16 is exact for x <= 255 * 255.
static inline V scale(V v, V keep)
{
    V x = OP(add_epi16)(OP(mullo_epi16)(v, keep), OP(set1_epi16)(128));
    return OP(mulhi_epu16)(x, OP(set1_epi16)(257));
}

static inline V over(V d, V s)
{
    V alpha = OP(srli_epi32)(s, 24);
    V keep = (alpha | OP(slli_epi32)(alpha, 16)) ^ OP(set1_epi16)(0x00ff);
    V kept = scale(even_bytes(d), keep) | OP(slli_epi16)(scale(odd_bytes(d), keep), 8);
    return OP(adds_epu8)(kept, s);
}

// v * 257: 8 bits to 16.
static inline V widen(V v) { return v | OP(slli_epi16)(v, 8); }

// round(v / 257), off by one only within 0.003 of a half.
static inline V narrow(V v)
{
    V t = OP(sub_epi16)(v, OP(srli_epi16)(v, 8));
    return OP(srli_epi16)(OP(add_epi16)(t, OP(set1_epi16)(128)), 8);
}

// The source's alpha as a component: 255.
static inline V opaque(V s) { return s | OP(set1_epi32)((int)0xff000000u); }

// round((s * alpha + d * (255 - alpha)) / 255) in 16-bit lanes, as scale().
static inline V mix(V d, V s, V alpha, V keep)
{
    V x = OP(add_epi16)(OP(mullo_epi16)(s, alpha), OP(mullo_epi16)(d, keep));
    return OP(mulhi_epu16)(OP(add_epi16)(x, OP(set1_epi16)(128)), OP(set1_epi16)(257));
}

static inline V over_straight(V d, V s)
{
    V alpha = OP(srli_epi32)(s, 24);
    alpha |= OP(slli_epi32)(alpha, 16);
    V keep = alpha ^ OP(set1_epi16)(0x00ff);
    V even = mix(even_bytes(d), even_bytes(s), alpha, keep);
    return even | OP(slli_epi16)(mix(odd_bytes(d), odd_bytes(opaque(s)), alpha, keep), 8);
}

static inline __attribute__((always_inline)) V over_faded(V d, V s, V opacity, int straight)
{
    V alpha = OP(srli_epi32)(OP(mulhi_epu16)(widen(odd_bytes(s)), opacity), 16);
    alpha |= OP(slli_epi32)(alpha, 16);
    V factor = straight ? alpha : opacity, keep = alpha ^ OP(set1_epi16)(-1);
    s = straight ? opaque(s) : s;
    V s_even = OP(mulhi_epu16)(widen(even_bytes(s)), factor);
    V s_odd = OP(mulhi_epu16)(widen(odd_bytes(s)), factor);
    V even = OP(adds_epu16)(s_even, OP(mulhi_epu16)(widen(even_bytes(d)), keep));
    V odd = OP(adds_epu16)(s_odd, OP(mulhi_epu16)(widen(odd_bytes(d)), keep));
    return narrow(even) | OP(slli_epi16)(narrow(odd), 8);
}

static inline __attribute__((always_inline)) void row(uint8_t *target, const uint8_t *source, size_t pixels,
                                                      uint32_t opacity, int straight, int swap, int fade)
{
    V factor = OP(set1_epi16)((short)opacity);
    for (; pixels >= VECTOR_PIXELS; pixels -= VECTOR_PIXELS, target += sizeof(V), source += sizeof(V)) {
        V s = LOAD(source);
        if (ALL_ZERO(s))
            continue;
        s = swap ? swap_red_blue(s) : s;
        if (fade)
            STORE(target, over_faded(LOAD(target), s, factor, straight));
        else if (ALL_OPAQUE(s))
            STORE(target, s);
        else
            STORE(target, straight ? over_straight(LOAD(target), s) : over(LOAD(target), s));
    }
    vks_over_pixels(target, source, pixels, opacity, straight, swap, fade);
}

#define ROW row
VKS_OVER_VARIANTS(KERNEL)
