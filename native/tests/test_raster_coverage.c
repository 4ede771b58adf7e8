// Which pixels a triangle covers, against exact integer edge functions and against counting.
#include "test_raster_mesh.h"

// The textbook's rule on 2^-bits pixels: inside all three edges, or on one that is a top or a left one.
static int is_covered(const long long p[3][2], long long x, long long y)
{
    long long area = (p[1][0] - p[0][0]) * (p[2][1] - p[0][1]) - (p[2][0] - p[0][0]) * (p[1][1] - p[0][1]);
    if (area == 0)
        return 0;
    for (int i = 0; i < 3; i++) {
        const long long *a = area > 0 ? p[i] : p[(i + 1) % 3], *b = area > 0 ? p[(i + 1) % 3] : p[i];
        long long dx = b[0] - a[0], dy = b[1] - a[1];
        long long e = dx * (y - a[1]) - dy * (x - a[0]);
        if (e < 0 || (e == 0 && !(dy < 0 || (dy == 0 && dx > 0))))
            return 0;
    }
    return 1;
}

// Up to `reach` pixels outside the target; coarse ones lie on pixel centres and corners.
static long long random_coordinate(int extent, int reach, int one, int coarse)
{
    if (coarse)
        return (long long)random_between(-2 * reach, 2 * (extent + reach)) * one / 2;
    return random_between(-reach * one, (extent + reach) * one);
}

static void coverage_equals_the_edge_functions_for_every_precision(void)
{
    struct vks_image image = new_counter(64, 32);
    for (int round = 0; round < ROUNDS(20000); round++) {
        int bits = random_between(4, 8), one = 1 << bits, reach = round % 4 == 0 ? 200 : 0;
        long long p[3][2];
        struct vertex v[3];
        for (int i = 0; i < 3; i++) {
            p[i][0] = random_coordinate(64, reach, one, round % 3 == 0);
            p[i][1] = random_coordinate(32, reach, one, round % 3 == 0);
            v[i] = vertex_at(&image, (double)p[i][0] / one, (double)p[i][1] / one, count_one);
        }
        memset(image.pixels, 0, image.size);
        CHECK(draw_plain(&image, v, 3, (uint32_t)bits) == VKS_RASTER_OK, "round %d", round);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++) {
                int expected = is_covered((const long long (*)[2])p, x * one + one / 2, y * one + one / 2);
                CHECK(count_at(&image, x, y) == (float)expected, "round %d, %d bits, pixel %u, %u: %g, not %d", round,
                      bits, x, y, (double)count_at(&image, x, y), expected);
            }
    }
    CHECK(guards_are_whole(&image), "wrote outside");
    free_image(&image);
}

static void vertices_snap_to_the_nearest_subpixel(void)
{
    struct vks_image image = new_counter(16, 16);
    for (uint32_t bits = 4; bits <= 8; bits++)
        for (int above = 0; above < 2; above++) {
            double half_step = 0.5 / (1 << bits);
            double left = 4.5 + half_step * (above ? 1.01 : 0.99); // snaps past the centre of column 4, or onto it
            const double corners[6][2] = {{left, 2}, {9, 2}, {9, 9}, {left, 2}, {9, 9}, {left, 9}};
            struct vertex v[6];
            for (int i = 0; i < 6; i++)
                v[i] = vertex_at(&image, corners[i][0], corners[i][1], count_one);
            memset(image.pixels, 0, image.size);
            draw_plain(&image, v, 6, bits);
            CHECK(count_at(&image, 4, 5) == (above ? 0.0f : 1.0f), "%u bits, above %d", bits, above);
            CHECK(count_at(&image, 5, 5) == 1.0f && count_at(&image, 9, 5) == 0.0f, "%u bits: wrong columns", bits);
        }
    free_image(&image);
}

#define CELLS 5

enum mesh_style { ANYWHERE, ON_PIXEL_CENTRES, ANY_W };

// Corners of a grid that is `margin` pixels larger than the target on each side. Inner ones are moved by less than a
// quarter of a cell, so that the quads stay convex.
static struct vertex mesh_corner(const struct vks_image *image, int i, int j, enum mesh_style style, double margin)
{
    double w = (image->width + 2 * margin) / CELLS, h = (image->height + 2 * margin) / CELLS;
    double x = i * w - margin, y = j * h - margin;
    if (i > 0 && j > 0 && i < CELLS && j < CELLS) {
        x += (random_unit() - 0.5) * 0.4 * w;
        y += (random_unit() - 0.5) * 0.4 * h;
    }
    if (style == ON_PIXEL_CENTRES) {
        x = floor(x * 2 + 0.5) / 2;
        y = floor(y * 2 + 0.5) / 2;
    }
    struct vertex v = vertex_at(image, x, y, count_one);
    float scale = style == ANY_W ? 0.1f + 10 * random_unit() : 1.0f;
    for (int k = 0; k < 4; k++)
        v.position[k] *= scale;
    return v;
}

// Each quad is split along a random diagonal, each triangle is wound at random.
static uint32_t random_mesh(const struct vks_image *image, enum mesh_style style, double margin, struct vertex *out)
{
    struct vertex corner[CELLS + 1][CELLS + 1];
    for (int j = 0; j <= CELLS; j++)
        for (int i = 0; i <= CELLS; i++)
            corner[j][i] = mesh_corner(image, i, j, style, margin);
    uint32_t n = 0;
    for (int cell = 0; cell < CELLS * CELLS; cell++) {
        int i = cell % CELLS, j = cell / CELLS, diagonal = random_between(0, 1);
        const struct vertex *q[4] = {&corner[j][i], &corner[j][i + 1], &corner[j + 1][i + 1], &corner[j + 1][i]};
        for (int t = 0; t < 2; t++) {
            const int index[3] = {diagonal, (diagonal + 1 + t) % 4, (diagonal + 2 + t) % 4};
            int flip = random_between(0, 1), first = random_between(0, 2);
            for (int k = 0; k < 3; k++)
                out[n++] = *q[index[((flip ? 3 - k : k) + first) % 3]];
        }
    }
    return n;
}

static void meshes_cover_every_pixel_exactly_once(void)
{
    struct vks_image image = new_counter(32, 32);
    struct vertex v[CELLS * CELLS * 6];
    const double margins[] = {0.5, 3, 70, 40000, 1e9, 1e14}; // the last ones reach beyond the guard band
    for (int round = 0; round < ROUNDS(10000); round++) {
        double margin = margins[round / 3 % 6];
        uint32_t n = random_mesh(&image, (enum mesh_style)(round % 3), margin, v);
        memset(image.pixels, 0, image.size);
        draw_plain(&image, v, n, round % 2 ? 4 : 8);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++)
                CHECK(count_at(&image, x, y) == 1.0f, "round %d, margin %g: pixel %u, %u was covered %g times", round,
                      margin, x, y, (double)count_at(&image, x, y));
    }
    free_image(&image);
}

static void the_widest_target_is_covered_to_its_last_column(void)
{
    struct vks_image image = new_counter(VKS_RASTER_MAX_EXTENT, 3);
    struct vertex v[6];
    quad(v, -1, -1, 1, 1, count_one);
    draw_plain(&image, v, 6, 8);
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++)
            CHECK(count_at(&image, x, y) == 1.0f, "pixel %u, %u was covered %g times", x, y,
                  (double)count_at(&image, x, y));
    free_image(&image);
}

static void depth_outside_zero_to_w_is_clipped(void)
{
    struct vks_image image = new_counter(32, 32);
    const struct {
        float z, expected;
    } cases[] = {{-0.01f, 0}, {0, 1}, {0.5f, 1}, {1, 1}, {1.01f, 0}};
    struct vertex v[6];
    for (int i = 0; i < 5; i++) {
        quad(v, -1, -1, 1, 1, count_one);
        for (int k = 0; k < 6; k++)
            v[k].position[2] = cases[i].z;
        memset(image.pixels, 0, image.size);
        draw_plain(&image, v, 6, 8);
        CHECK(count_at(&image, 5, 5) == cases[i].expected, "z %g covered %g times", (double)cases[i].z,
              (double)count_at(&image, 5, 5));
    }
    quad(v, -1, -1, 1, 1, count_one);
    for (int k = 0; k < 6; k++)
        v[k].position[2] = v[k].position[0]; // visible from x = 0 on
    memset(image.pixels, 0, image.size);
    draw_plain(&image, v, 6, 8);
    for (uint32_t x = 0; x < 32; x++)
        CHECK(count_at(&image, x, 9) == (x < 16 ? 0.0f : 1.0f), "column %u", x);
    free_image(&image);
}

static void triangles_with_nan_infinity_or_no_area_draw_nothing(void)
{
    struct vks_image image = new_counter(32, 32);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3 * 3 * 4; i++) {
        struct vertex v[6];
        quad(v, -1, -1, 1, 1, count_one);
        v[i / 3 % 3].position[i / 9] = bad[i % 3];
        draw_plain(&image, v, 3, 8);
        CHECK(count_at(&image, 16, 12) == 0, "%g in component %d of corner %d", (double)bad[i % 3], i / 9, i / 3 % 3);
    }
    struct vertex line[3] = {vertex_at(&image, 1, 1, count_one), vertex_at(&image, 9, 9, count_one),
                             vertex_at(&image, 30, 30, count_one)};
    draw_plain(&image, line, 3, 8);
    line[2] = line[1];
    draw_plain(&image, line, 3, 8);
    for (uint32_t i = 0; i < 32; i++)
        CHECK(count_at(&image, i, i) == 0, "a line covered pixel %u", i);
    free_image(&image);
}

static void no_bits_in_the_vertices_do_harm(void)
{
    struct vks_image image = new_image(40, 30, VKS_FORMAT_RGBA8_UNORM, 4);
    struct vks_image half = new_image(7, 5, VKS_FORMAT_RGBA16_FLOAT, 0);
    struct vks_image bgra = new_image(9, 3, VKS_FORMAT_BGRA8_UNORM, 0);
    const struct vks_image *const textures[] = {NULL, &half, &bgra};
    fill_with_noise(&half);
    fill_with_noise(&bgra);
    static const float odd[] = {0,        -0.0f,    1,         -1,  1e-45f, 1e-38f, 1e-30f, 3.4e38f,
                                -3.4e38f, INFINITY, -INFINITY, NAN, 1e9f,   65536,  -65537, 0.5f};
    for (int round = 0; round < ROUNDS(60000); round++) {
        struct vertex v[6];
        float *f = (float *)v;
        for (size_t i = 0; i < 6 * 10; i++) {
            uint32_t bits = random_u32();
            f[i] = round % 3 == 1 && bits % 4 ? random_unit() * 2 - 1 : odd[bits % 16];
            if (round % 3 == 0)
                memcpy(&f[i], &bits, sizeof bits);
        }
        enum vks_filter filter = round % 2 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
        const struct vks_image *target = round % 7 ? &image : &half, *texture = textures[round / 2 % 3];
        int status = draw(target, v, 6, texture == target ? NULL : texture, filter, 4 + (uint32_t)round % 5, NULL);
        CHECK(status == VKS_RASTER_OK, "round %d gave %d", round, status);
    }
    CHECK(guards_are_whole(&image) && guards_are_whole(&half) && guards_are_whole(&bgra), "wrote outside");
    free_image(&image);
    free_image(&half);
    free_image(&bgra);
}

int main(void)
{
    const struct test tests[] = {
        TEST(coverage_equals_the_edge_functions_for_every_precision),
        TEST(vertices_snap_to_the_nearest_subpixel),
        TEST(meshes_cover_every_pixel_exactly_once),
        TEST(the_widest_target_is_covered_to_its_last_column),
        TEST(depth_outside_zero_to_w_is_clipped),
        TEST(triangles_with_nan_infinity_or_no_area_draw_nothing),
        TEST(no_bits_in_the_vertices_do_harm),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
