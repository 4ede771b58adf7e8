#include "raster/depth.h"

#include "raster/format.h"
#include "raster/image.h"

#define MOST (2 * VKS_MOST_RUNS) // pixels that are tested at a time: the bits of a mask

// Codes of d16unorm are floats here, too: both formats are compared and stored as these.
struct row {
    uint8_t *pixels;
    uint32_t count;
    bool is_unorm;
    float z[MOST];      // of the triangle
    float stored[MOST]; // of the image
};

bool vks_depth_test_is_valid(enum vks_depth_test test) { return test >= VKS_DEPTH_NEVER && test <= VKS_DEPTH_ALWAYS; }

static void load(struct row *row)
{
    if (!row->is_unorm) {
        memcpy(row->stored, row->pixels, row->count * sizeof *row->stored);
        return;
    }
    uint16_t codes[MOST];
    memcpy(codes, row->pixels, row->count * sizeof *codes);
    for (uint32_t i = 0; i < row->count; i++)
        row->stored[i] = codes[i];
}

// Vulkan 1.3, 27.11 and 28.10: z / w is affine over the target; a depth of fixed point is rounded before the test.
static void evaluate(struct row *row, const struct vks_triangle *t, int32_t x, int32_t y)
{
    double at = t->z.at + t->z.dy * (y - t->y0) + t->z.dx * (x - t->x0);
    for (uint32_t i = 0; i < row->count; i++) {
        float z = (float)(at + t->z.dx * (int32_t)i);
        z = z > 0.0f ? z : 0.0f; // clipped already: by rounding alone
        row->z[i] = z < 1.0f ? z : 1.0f;
    }
    for (uint32_t i = 0; i < row->count && row->is_unorm; i++)
        row->z[i] = (float)vks_to_unorm(row->z[i], 65535.0f);
}

// Bit i: pixel i passes.
static uint64_t compare(const struct row *row, enum vks_depth_test test)
{
    uint64_t less = 0, equal = 0, greater = 0, all = row->count < MOST ? (UINT64_C(1) << row->count) - 1 : UINT64_MAX;
    for (uint32_t i = 0; i < row->count; i++) {
        less |= (uint64_t)(row->z[i] < row->stored[i]) << i;
        equal |= (uint64_t)(row->z[i] == row->stored[i]) << i;
        greater |= (uint64_t)(row->z[i] > row->stored[i]) << i; // a NaN that was stored is none of the three
    }
    switch (test) {
    case VKS_DEPTH_NEVER:
        return 0;
    case VKS_DEPTH_LESS:
        return less;
    case VKS_DEPTH_EQUAL:
        return equal;
    case VKS_DEPTH_LESS_EQUAL:
        return less | equal;
    case VKS_DEPTH_GREATER:
        return greater;
    case VKS_DEPTH_NOT_EQUAL:
        return all & ~equal;
    case VKS_DEPTH_GREATER_EQUAL:
        return greater | equal;
    case VKS_DEPTH_ALWAYS:
        break;
    }
    return all;
}

static void store(const struct row *row, uint32_t first, uint32_t count)
{
    if (!row->is_unorm) {
        memcpy(row->pixels + first * sizeof *row->z, row->z + first, count * sizeof *row->z);
        return;
    }
    uint16_t codes[MOST];
    for (uint32_t i = 0; i < count; i++)
        codes[i] = (uint16_t)row->z[first + i];
    memcpy(row->pixels + first * sizeof *codes, codes, count * sizeof *codes);
}

uint32_t vks_depth_runs(const struct vks_depth *depth, const struct vks_triangle *triangle, int32_t y,
                        struct vks_span *left, struct vks_span runs[VKS_MOST_RUNS])
{
    struct row row = {.count = left->count < MOST ? (uint32_t)left->count : MOST};
    row.pixels = vks_pixel_at(depth->image, (uint32_t)left->x, (uint32_t)y);
    row.is_unorm = depth->image->format == VKS_FORMAT_D16_UNORM;
    load(&row);
    evaluate(&row, triangle, left->x, y);
    uint64_t passing = compare(&row, depth->test);
    uint32_t found = 0;
    while (passing) {
        uint32_t first = (uint32_t)__builtin_ctzll(passing);
        uint64_t ended = ~(passing >> first);
        uint32_t count = ended ? (uint32_t)__builtin_ctzll(ended) : MOST;
        if (depth->writes)
            store(&row, first, count);
        runs[found++] = (struct vks_span){left->x + (int32_t)first, (int32_t)count};
        passing &= first + count < MOST ? UINT64_MAX << (first + count) : 0;
    }
    left->x += (int32_t)row.count;
    left->count -= (int32_t)row.count;
    return found;
}
