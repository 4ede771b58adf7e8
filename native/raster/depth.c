#include "raster/depth.h"

#include "raster/format.h"
#include "raster/image.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MOST (2 * VKS_MOST_RUNS) // pixels that are tested at a time: the bits of a mask

// Codes of d16unorm are floats here, too: both formats are compared and stored as these. Loops go over all MOST pixels,
// also where a row ends before, so that the compiler makes vectors of them.
struct row {
    uint8_t *pixels;
    uint32_t count;
    bool is_unorm;
    _Alignas(16) float z[MOST];      // of the triangle
    _Alignas(16) float stored[MOST]; // of the image; 0 after the end
};

bool vks_depth_test_is_valid(enum vks_depth_test test) { return test >= VKS_DEPTH_NEVER && test <= VKS_DEPTH_ALWAYS; }

static void load(struct row *row)
{
    if (!row->is_unorm) {
        memset(row->stored, 0, sizeof row->stored);
        memcpy(row->stored, row->pixels, row->count * sizeof *row->stored);
        return;
    }
    uint16_t codes[MOST] = {0};
    memcpy(codes, row->pixels, row->count * sizeof *codes);
    for (int i = 0; i < MOST; i++)
        row->stored[i] = codes[i];
}

// Vulkan 1.3, 27.11 and 28.10: z / w is affine over the target; a depth of fixed point is rounded before the test.
static void evaluate(struct row *row, const struct vks_triangle *t, int32_t x, int32_t y)
{
    const double dx = t->z.dx, at = t->z.at + t->z.dy * (y - t->y0) + dx * (x - t->x0);
    float *z = row->z;
    for (int i = 0; i < MOST; i++)
        z[i] = (float)(at + dx * i);
    for (int i = 0; i < MOST; i++) { // clipped already: this is against rounding
        float above = z[i] > 0.0f ? z[i] : 0.0f;
        z[i] = above < 1.0f ? above : 1.0f;
    }
    for (int i = 0; i < MOST && row->is_unorm; i++)
        z[i] = (float)(int32_t)vks_to_unorm(z[i], 65535.0f);
}

// Bit i: pixel i passes. A NaN that was stored is neither less nor equal nor greater.
struct relations {
    uint64_t less, equal, greater;
};

#if defined(__SSE2__)
static struct relations relate(const struct row *row)
{
    struct relations r = {0};
    for (int i = 0; i < MOST; i += 4) {
        __m128 z = _mm_load_ps(row->z + i), stored = _mm_load_ps(row->stored + i);
        r.less |= (uint64_t)_mm_movemask_ps(_mm_cmplt_ps(z, stored)) << i;
        r.equal |= (uint64_t)_mm_movemask_ps(_mm_cmpeq_ps(z, stored)) << i;
        r.greater |= (uint64_t)_mm_movemask_ps(_mm_cmpgt_ps(z, stored)) << i;
    }
    return r;
}
#else
static struct relations relate(const struct row *row)
{
    struct relations r = {0};
    for (int i = 0; i < MOST; i++) {
        r.less |= (uint64_t)(row->z[i] < row->stored[i]) << i;
        r.equal |= (uint64_t)(row->z[i] == row->stored[i]) << i;
        r.greater |= (uint64_t)(row->z[i] > row->stored[i]) << i;
    }
    return r;
}
#endif

static uint64_t passing(struct relations r, enum vks_depth_test test)
{
    switch (test) {
    case VKS_DEPTH_NEVER:
        return 0;
    case VKS_DEPTH_LESS:
        return r.less;
    case VKS_DEPTH_EQUAL:
        return r.equal;
    case VKS_DEPTH_LESS_EQUAL:
        return r.less | r.equal;
    case VKS_DEPTH_GREATER:
        return r.greater;
    case VKS_DEPTH_NOT_EQUAL:
        return ~r.equal;
    case VKS_DEPTH_GREATER_EQUAL:
        return r.greater | r.equal;
    case VKS_DEPTH_ALWAYS:
        break;
    }
    return UINT64_MAX;
}

static void store(const struct row *row, uint32_t first, uint32_t count)
{
    if (!row->is_unorm) {
        memcpy(row->pixels + first * sizeof *row->z, row->z + first, count * sizeof *row->z);
        return;
    }
    uint16_t codes[MOST];
    for (int i = 0; i < MOST; i++)
        codes[i] = (uint16_t)(int32_t)row->z[i];
    memcpy(row->pixels + first * sizeof *codes, codes + first, count * sizeof *codes);
}

uint32_t vks_depth_runs(const struct vks_depth *depth, const struct vks_triangle *triangle, int32_t y,
                        struct vks_span *left, struct vks_span runs[VKS_MOST_RUNS])
{
    struct row row; // without initialising its arrays
    row.count = left->count < MOST ? (uint32_t)left->count : MOST;
    row.pixels = vks_pixel_at(depth->image, (uint32_t)left->x, (uint32_t)y);
    row.is_unorm = depth->image->format == VKS_FORMAT_D16_UNORM;
    load(&row);
    evaluate(&row, triangle, left->x, y);
    uint64_t passed = passing(relate(&row), depth->test);
    passed &= row.count < MOST ? (UINT64_C(1) << row.count) - 1 : UINT64_MAX;
    uint32_t found = 0;
    while (passed) {
        uint32_t first = (uint32_t)__builtin_ctzll(passed);
        uint64_t ended = ~(passed >> first);
        uint32_t count = ended ? (uint32_t)__builtin_ctzll(ended) : MOST;
        if (depth->writes)
            store(&row, first, count);
        runs[found++] = (struct vks_span){left->x + (int32_t)first, (int32_t)count};
        passed &= first + count < MOST ? UINT64_MAX << (first + count) : 0;
    }
    left->x += (int32_t)row.count;
    left->count -= (int32_t)row.count;
    return found;
}
