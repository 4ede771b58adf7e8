// The vector loops of ycbcr_kernel.h, included once for each instruction set (ycbcr_sse2.c and its neighbours), which
// define:
//   V             the vector type                    OP(name)     the intrinsic of that name and width
//   LOAD, STORE   unaligned                          WIDEN(p)     bytes as 16-bit lanes
//   BYTES(p)      bytes as 32-bit lanes              WORDS(p)     16-bit words as 32-bit lanes
//   INTERLEAVE(a, b, low, high)  32-bit lanes of a and b in turn
//   KERNEL        the table to define
// The portable kernel has the rest of a row.
#include "raster/ycbcr_kernel.h"

enum { LANES = sizeof(V) / 4 };

static inline __attribute__((always_inline)) V between(V near, V far, V first, V second)
{
    return OP(add_epi16)(OP(mullo_epi16)(near, first), OP(mullo_epi16)(far, second));
}

static void rows_of_bytes(const uint8_t *near, const uint8_t *far, const int weight[2], size_t n, int16_t *out)
{
    V first = OP(set1_epi16)((short)weight[0]), second = OP(set1_epi16)((short)weight[1]);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        STORE(out + i, between(WIDEN(near + i), WIDEN(far + i), first, second));
    vks_ycbcr_portable.rows[0](near + i, far + i, weight, n - i, out + i);
}

static void rows_of_words(const uint8_t *near, const uint8_t *far, const int weight[2], size_t n, int16_t *out)
{
    V first = OP(set1_epi16)((short)weight[0]), second = OP(set1_epi16)((short)weight[1]);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        V a = OP(srli_epi16)(LOAD(near + 2 * i), 6), b = OP(srli_epi16)(LOAD(far + 2 * i), 6);
        STORE(out + i, between(a, b, first, second));
    }
    vks_ycbcr_portable.rows[1](near + 2 * i, far + 2 * i, weight, n - i, out + i);
}

static void midpoint(const int32_t *chroma, size_t n, int32_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        V c = LOAD(chroma + i), thrice = OP(add_epi16)(c, OP(add_epi16)(c, c)), low, high;
        INTERLEAVE(OP(add_epi16)(thrice, LOAD(chroma + i - 1)), OP(add_epi16)(thrice, LOAD(chroma + i + 1)), low, high);
        STORE(out + 2 * i, low);
        STORE(out + 2 * i + LANES, high);
    }
    vks_ycbcr_portable.midpoint(chroma + i, n - i, out + 2 * i);
}

static void cosited(const int32_t *chroma, size_t n, int32_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        V c = LOAD(chroma + i), low, high;
        V even = OP(slli_epi16)(c, 2), odd = OP(slli_epi16)(OP(add_epi16)(c, LOAD(chroma + i + 1)), 1);
        INTERLEAVE(even, odd, low, high);
        STORE(out + 2 * i, low);
        STORE(out + 2 * i + LANES, high);
    }
    vks_ycbcr_portable.cosited(chroma + i, n - i, out + 2 * i);
}

static void same(const int32_t *chroma, size_t n, int32_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(out + i, OP(slli_epi16)(LOAD(chroma + i), 2));
    vks_ycbcr_portable.same(chroma + i, n - i, out + i);
}

// LANES pixels, of luma in the low halves of lanes and of pairs of chroma.
static inline __attribute__((always_inline)) V colours(const struct vks_ycbcr_codes *codes, V luma, V chroma)
{
    V y = OP(madd_epi16)(luma, OP(set1_epi32)(codes->luma)), sum[3];
    for (int i = 0; i < 3; i++) {
        V part = OP(madd_epi16)(chroma, OP(set1_epi32)(codes->chroma[i]));
        sum[i] = OP(srai_epi32)(OP(add_epi32)(OP(add_epi32)(y, part), OP(set1_epi32)(codes->bias[i])), 19);
    }
    V first_third = OP(packs_epi32)(sum[0], sum[2]), second = OP(packs_epi32)(sum[1], OP(set1_epi32)(255));
    V bytes = OP(packus_epi16)(first_third, second);                    // of 4 pixels: 4 R, 4 B, 4 G, 4 A
    V pairs = OP(unpacklo_epi8)(bytes, OP(shuffle_epi32)(bytes, 0x4e)); // RG of 4 pixels, BA of 4
    return OP(unpacklo_epi16)(pairs, OP(shuffle_epi32)(pairs, 0x4e));
}

static void colours_of_bytes(const struct vks_ycbcr_codes *codes, const uint8_t *luma, const int32_t *chroma, size_t n,
                             uint8_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        STORE(out + 4 * i, colours(codes, OP(slli_epi32)(BYTES(luma + i), 6), LOAD(chroma + i)));
    vks_ycbcr_portable.colours[0](codes, luma + i, chroma + i, n - i, out + 4 * i);
}

static void colours_of_words(const struct vks_ycbcr_codes *codes, const uint8_t *luma, const int32_t *chroma, size_t n,
                             uint8_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        V y = OP(slli_epi32)(OP(srli_epi32)(WORDS(luma + 2 * i), 6), 4);
        STORE(out + 4 * i, colours(codes, y, LOAD(chroma + i)));
    }
    vks_ycbcr_portable.colours[1](codes, luma + 2 * i, chroma + i, n - i, out + 4 * i);
}

const struct vks_ycbcr_kernel KERNEL = {
    .rows = {rows_of_bytes, rows_of_words},
    .midpoint = midpoint,
    .cosited = cosited,
    .same = same,
    .colours = {colours_of_bytes, colours_of_words},
};
