// Triangles: coverage against exact integer edge functions, attributes against the homogeneous equations in double.
#include "test_raster.h"

static struct vks_pool *pool;

struct vertex {
    float position[4], colour[4], uv[2];
};

static struct vks_vertex_layout layout_of(const struct vertex *v)
{
    return (struct vks_vertex_layout){.data = v->position, .stride = 10, .position = 0, .colour = 4, .uv = 8};
}

static int draw(const struct vks_image *target, const struct vertex *v, uint32_t count, const struct vks_image *texture,
                enum vks_filter filter, uint32_t bits, struct vks_pool *threads)
{
    struct vks_vertex_layout layout = layout_of(v);
    return vks_raster_draw_triangles(target, &layout, count, texture, filter, bits, threads);
}

// At pixel coordinates x, y of a power-of-two target, exactly.
static struct vertex vertex_at(const struct vks_image *target, double x, double y, const float colour[4])
{
    struct vertex v = {.position = {(float)(x * 2 / target->width - 1), (float)(y * 2 / target->height - 1), 0.5f, 1}};
    memcpy(v.colour, colour, sizeof v.colour);
    return v;
}

// Alpha 0 adds: each pixel of a float target counts how often it was covered.
static const float count_one[4] = {1, 0, 0, 0};

static struct vks_image new_counter(uint32_t width, uint32_t height)
{
    struct vks_image image = new_image(width, height, VKS_FORMAT_R32_FLOAT, 0);
    vks_raster_clear(&image, (float[4]){0}, NULL);
    return image;
}

static float count_at(const struct vks_image *image, uint32_t x, uint32_t y)
{
    float v;
    memcpy(&v, pixel_at(image, x, y), sizeof v);
    return v;
}

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

static void coverage_equals_the_edge_functions_for_every_precision(void)
{
    struct vks_image image = new_counter(64, 32);
    for (int round = 0; round < 20000; round++) {
        uint32_t bits = (uint32_t)random_between(4, 8);
        long long one = 1 << bits, p[3][2];
        struct vertex v[3];
        int reach = round % 4 == 0 ? 200 : 0, coarse = round % 3 == 0;  // coarse: many vertices on pixel centres
        for (int i = 0; i < 3; i++) {
            p[i][0] = coarse ? random_between(-2 * reach, 128 + 2 * reach) * one / 2 : random_between((int)(-reach * one), (int)((64 + reach) * one));
            p[i][1] = coarse ? random_between(-2 * reach, 64 + 2 * reach) * one / 2 : random_between((int)(-reach * one), (int)((32 + reach) * one));
            v[i] = vertex_at(&image, (double)p[i][0] / (double)one, (double)p[i][1] / (double)one, count_one);
        }
        memset(image.pixels, 0, image.size);
        CHECK(draw(&image, v, 3, NULL, VKS_FILTER_NEAREST, bits, NULL) == VKS_RASTER_OK, "round %d", round);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++) {
                int expected = is_covered((const long long(*)[2])p, x * one + one / 2, y * one + one / 2);
                CHECK(count_at(&image, x, y) == (float)expected, "round %d, %u bits, pixel %u, %u: %g, not %d", round, bits, x, y,
                      (double)count_at(&image, x, y), expected);
            }
    }
    CHECK(guards_are_whole(&image), "wrote outside");
    free_image(&image);
}

static void vertices_snap_to_the_nearest_subpixel(void)
{
    for (uint32_t bits = 4; bits <= 8; bits += 4) {
        struct vks_image image = new_counter(16, 16);
        double half_step = 0.5 / (1 << bits);
        for (int above = 0; above < 2; above++) {
            double left = 4.5 + half_step * (above ? 1.01 : 0.99);  // snaps past the centre of column 4, or onto it
            struct vertex v[6];
            const double corners[6][2] = {{left, 2}, {9, 2}, {9, 9}, {left, 2}, {9, 9}, {left, 9}};
            for (int i = 0; i < 6; i++)
                v[i] = vertex_at(&image, corners[i][0], corners[i][1], count_one);
            memset(image.pixels, 0, image.size);
            draw(&image, v, 6, NULL, VKS_FILTER_NEAREST, bits, NULL);
            CHECK(count_at(&image, 4, 5) == (above ? 0.0f : 1.0f), "%u bits, above %d: column 4 has %g", bits, above, (double)count_at(&image, 4, 5));
            CHECK(count_at(&image, 5, 5) == 1.0f && count_at(&image, 9, 5) == 0.0f, "%u bits: wrong columns", bits);
        }
        free_image(&image);
    }
}

#define CELLS 5

// A grid of CELLS x CELLS quads with moved corners, each split along a random diagonal, wound at random.
static uint32_t random_mesh(const struct vks_image *image, int style, double margin, struct vertex *out)
{
    struct vertex corner[CELLS + 1][CELLS + 1];
    double w = (image->width + 2 * margin) / CELLS, h = (image->height + 2 * margin) / CELLS;
    for (int j = 0; j <= CELLS; j++)
        for (int i = 0; i <= CELLS; i++) {
            int edge = i == 0 || j == 0 || i == CELLS || j == CELLS;
            double x = i * w - margin, y = j * h - margin;
            if (!edge) {  // by less than a quarter of a cell: quads stay convex
                x += (random_unit() - 0.5) * 0.4 * w;
                y += (random_unit() - 0.5) * 0.4 * h;
            }
            if (style == 1) {  // onto pixel centres and corners
                x = floor(x * 2 + 0.5) / 2;
                y = floor(y * 2 + 0.5) / 2;
            }
            corner[j][i] = vertex_at(image, x, y, count_one);
            if (style == 2) {  // any w: the same place on the target, up to the projection's rounding
                float s = 0.1f + 10 * random_unit();
                for (int k = 0; k < 4; k++)
                    corner[j][i].position[k] *= s;
            }
        }
    uint32_t n = 0;
    for (int j = 0; j < CELLS; j++)
        for (int i = 0; i < CELLS; i++) {
            struct vertex q[4] = {corner[j][i], corner[j][i + 1], corner[j + 1][i + 1], corner[j + 1][i]};
            int d = random_between(0, 1);
            for (int t = 0; t < 2; t++) {
                int flip = random_between(0, 1), first = random_between(0, 2);
                int index[3] = {d, (d + 1 + t) % 4, (d + 2 + t) % 4};
                for (int k = 0; k < 3; k++)
                    out[n++] = q[index[((flip ? 3 - k : k) + first) % 3]];
            }
        }
    return n;
}

static void meshes_cover_every_pixel_exactly_once(void)
{
    struct vks_image image = new_counter(32, 32);
    struct vertex v[CELLS * CELLS * 6];
    for (int round = 0; round < 10000; round++) {
        const double margins[] = {0.5, 3, 70, 40000, 3e6, 1e9};
        double margin = margins[round / 3 % 6];
        uint32_t n = random_mesh(&image, round % 3, margin, v);
        memset(image.pixels, 0, image.size);
        draw(&image, v, n, NULL, VKS_FILTER_NEAREST, round % 2 ? 4 : 8, NULL);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++)
                CHECK(count_at(&image, x, y) == 1.0f, "round %d, margin %g: pixel %u, %u was covered %g times", round, margin, x, y,
                      (double)count_at(&image, x, y));
    }
    free_image(&image);
}

static double determinant(const double a[3], const double b[3], const double c[3])
{
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0]);
}

// Weights of the corners at a point of NDC, before projection (Olano and Greer's 2DH), and the smallest distance to an
// edge in pixels, roughly. Nothing is clipped: w may have any sign.
static int homogeneous_weights(const struct vertex v[3], double x, double y, double weight[3])
{
    double p[3][3], point[3] = {x, y, 1};
    for (int i = 0; i < 3; i++) {
        p[i][0] = v[i].position[0];
        p[i][1] = v[i].position[1];
        p[i][2] = v[i].position[3];
    }
    double whole = determinant(p[0], p[1], p[2]);
    weight[0] = determinant(point, p[1], p[2]) / whole;
    weight[1] = determinant(p[0], point, p[2]) / whole;
    weight[2] = determinant(p[0], p[1], point) / whole;
    double sum = weight[0] + weight[1] + weight[2];
    for (int i = 0; i < 3; i++)
        weight[i] /= sum;  // now attributes are the weighted means; 1 / sum is w
    return isfinite(whole) && fabs(whole) > 1e-9 && isfinite(sum) && sum > 0;
}

static struct vertex random_vertex(double spread)
{
    struct vertex v;
    float w = random_unit() * 4 - 1;  // some behind the eye
    for (int k = 0; k < 2; k++)
        v.position[k] = (float)((random_unit() * 2 - 1) * spread);
    v.position[2] = (random_unit() * 1.6f - 0.3f) * fabsf(w);
    v.position[3] = w;
    for (int k = 0; k < 4; k++)
        v.colour[k] = random_unit();
    v.uv[0] = random_unit();
    v.uv[1] = random_unit();
    return v;
}

// Where a point is well inside or well outside, and by how much: min of the weights and of the z range.
static double insideness(const struct vertex v[3], const double weight[3])
{
    double least = 1e9, z = 0, w = 0;
    for (int i = 0; i < 3; i++) {
        least = fmin(least, weight[i]);
        z += weight[i] * v[i].position[2];
        w += weight[i] * v[i].position[3];
    }
    return fmin(least, fmin(z, w - z) / fabs(w));
}

static void clipped_triangles_have_perspective_correct_colours_where_they_should_be(void)
{
    struct vks_image image = new_image(64, 64, VKS_FORMAT_RGBA32_FLOAT, 0);
    long inside = 0, doubtful = 0;
    for (int round = 0; round < 4000; round++) {
        struct vertex v[3];
        for (int i = 0; i < 3; i++)
            v[i] = random_vertex(round % 5 == 0 ? 1e5 : 2);
        memset(image.pixels, 0, image.size);
        draw(&image, v, 3, NULL, VKS_FILTER_NEAREST, 8, NULL);
        for (uint32_t y = 0; y < 64; y++)
            for (uint32_t x = 0; x < 64; x++) {
                double weight[3], least = INFINITY;
                if (!homogeneous_weights(v, (x + 0.5) / 32 - 1, (y + 0.5) / 32 - 1, weight)) {
                    float p[4];
                    get_pixel(&image, x, y, p);
                    continue;
                }
                // Snapping moves edges by up to 1/256 pixel: only what is as clear at the pixel's neighbours is judged.
                least = insideness(v, weight);
                int clear = fabs(least) > 1e-4;
                for (int k = 0; k < 4 && clear; k++) {
                    double other[3];
                    clear = homogeneous_weights(v, (x + 0.5 + (k & 1 ? 0.25 : -0.25)) / 32 - 1, (y + 0.5 + (k & 2 ? 0.25 : -0.25)) / 32 - 1, other);
                    double there = insideness(v, other);
                    clear = clear && (there > 0) == (least > 0) && fabs(there) > 1e-4 && fabs(least) > 0.03 * fabs(there - least);
                }
                if (!clear) {
                    doubtful++;
                    continue;
                }
                float p[4];
                get_pixel(&image, x, y, p);
                if (least < 0) {
                    CHECK(p[0] == 0 && p[1] == 0 && p[2] == 0 && p[3] == 0, "round %d: pixel %u, %u is outside by %g", round, x, y, least);
                    continue;
                }
                inside++;
                for (int c = 0; c < 4; c++) {
                    double low = INFINITY, high = -INFINITY, exact = 0;
                    for (int i = 0; i < 3; i++)
                        exact += weight[i] * v[i].colour[c];
                    for (int k = 0; k < 4; k++) {  // the colour may move as far as it does within a fortieth of a pixel
                        double other[3], value = 0;
                        homogeneous_weights(v, (x + 0.5 + (k & 1 ? 0.025 : -0.025)) / 32 - 1, (y + 0.5 + (k & 2 ? 0.025 : -0.025)) / 32 - 1, other);
                        for (int i = 0; i < 3; i++)
                            value += other[i] * v[i].colour[c];
                        low = fmin(low, value);
                        high = fmax(high, value);
                    }
                    CHECK(p[c] >= fmin(low, exact) - 2e-3 && p[c] <= fmax(high, exact) + 2e-3, "round %d: pixel %u, %u, component %d is %g, not %g",
                          round, x, y, c, (double)p[c], exact);
                }
            }
    }
    CHECK(inside > 200000 && doubtful < inside, "only %ld pixels were judged, %ld not", inside, doubtful);
    free_image(&image);
}

static void quad(struct vertex out[6], float x0, float y0, float x1, float y1, const float colour[4])
{
    const float corner[4][4] = {{x0, y0, 0, 0}, {x1, y0, 1, 0}, {x1, y1, 1, 1}, {x0, y1, 0, 1}};
    const int index[6] = {0, 1, 2, 0, 2, 3};
    for (int i = 0; i < 6; i++) {
        const float *c = corner[index[i]];
        out[i] = (struct vertex){.position = {c[0], c[1], 0, 1}, .uv = {c[2], c[3]}};
        memcpy(out[i].colour, colour, sizeof out[i].colour);
    }
}

static const float white[4] = {1, 1, 1, 1};

static void a_texture_on_a_quad_of_its_size_reproduces_every_texel(void)
{
    for (size_t f = 0; f < FORMATS; f++)
        for (size_t g = 0; g < FORMATS; g++)
            for (int filter = 0; filter < 2; filter++) {
                struct vks_image texture = new_image(64, 32, all_formats[f], 4), image = new_image(64, 32, all_formats[g], 8);
                fill_with_noise(&texture);
                struct vertex v[6];
                quad(v, -1, -1, 1, 1, white);
                vks_raster_clear(&image, (float[4]){0}, NULL);
                draw(&image, v, 6, &texture, (enum vks_filter)filter, 8, NULL);
                for (uint32_t y = 0; y < 32; y++)
                    for (uint32_t x = 0; x < 64; x++) {
                        float s[4];
                        get_pixel(&texture, x, y, s);
                        uint8_t expected[16];
                        vks_pack_colour(all_formats[g], s, expected);
                        float got[4], want[4];
                        get_pixel(&image, x, y, got);
                        vks_unpack_colour(all_formats[g], expected, want);
                        for (int c = 0; c < format_components(all_formats[g]); c++)
                            CHECK(fabs((double)got[c] - want[c]) <= (filter ? 1.01 * format_step(all_formats[g]) + 1e-5 : 1e-6) || (filter && c == 3),
                                  "formats %u to %u, filter %d, pixel %u, %u, component %d: %g, not %g", all_formats[f], all_formats[g], filter, x, y, c,
                                  (double)got[c], (double)want[c]);
                    }
                CHECK(guards_are_whole(&image), "wrote outside");
                free_image(&texture);
                free_image(&image);
            }
}

static int clamp_to(int v, int limit)
{
    return v < 0 ? 0 : v < limit ? v : limit - 1;
}

// A quad in perspective with uv beyond the texture on purpose.
static void perspective_quad(struct vertex v[6], const float colour[4])
{
    quad(v, -0.9f, -0.8f, 0.9f, 0.8f, colour);
    for (int i = 0; i < 6; i++) {
        float w = v[i].position[1] < 0 ? 3.0f : 1.0f;
        for (int k = 0; k < 4; k++)
            v[i].position[k] *= w;
        v[i].uv[0] = v[i].uv[0] * 1.4f - 0.2f;
    }
}

static void textures_are_sampled_filtered_and_modulated_in_perspective(void)
{
    for (int round = 0; round < 24; round++) {
        uint32_t format = all_formats[round % FORMATS];
        enum vks_filter filter = round / 9 % 2 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
        struct vks_image texture = new_image(21, 13, format, 0), image = new_image(64, 64, VKS_FORMAT_RGBA8_UNORM, 0);
        fill_with_noise(&texture);
        struct vertex v[6];
        const float tint[4] = {0.5f, 0.7f, 1, 0.8f};
        perspective_quad(v, tint);
        vks_raster_clear(&image, (float[4]){0.2f, 0.2f, 0.2f, 1}, NULL);
        draw(&image, v, 6, &texture, filter, 8, NULL);
        long judged = 0;
        for (uint32_t y = 0; y < 64; y++)
            for (uint32_t x = 0; x < 64; x++) {
                double weight[3], u = 0, t = 0;
                int found = 0;
                for (int k = 0; k < 2 && !found; k++)
                    if (homogeneous_weights(v + 3 * k, (x + 0.5) / 32 - 1, (y + 0.5) / 32 - 1, weight)) {
                        found = fmin(weight[0], fmin(weight[1], weight[2])) > 0.01;
                        for (int i = 0; i < 3 && found; i++) {
                            u += weight[i] * v[3 * k + i].uv[0];
                            t += weight[i] * v[3 * k + i].uv[1];
                        }
                    }
                if (!found)
                    continue;
                u *= 21;
                t *= 13;
                double exact[4] = {0};
                if (filter == VKS_FILTER_NEAREST) {
                    if (fabs(u - rint(u)) < 0.02 || fabs(t - rint(t)) < 0.02)
                        continue;
                    float p[4];
                    get_pixel(&texture, (uint32_t)clamp_to((int)floor(u), 21), (uint32_t)clamp_to((int)floor(t), 13), p);
                    for (int c = 0; c < 4; c++)
                        exact[c] = p[c];
                } else {
                    int x0 = (int)floor(u - 0.5), y0 = (int)floor(t - 0.5);
                    for (int k = 0; k < 4; k++) {
                        float p[4];
                        get_pixel(&texture, (uint32_t)clamp_to(x0 + (k & 1), 21), (uint32_t)clamp_to(y0 + (k >> 1), 13), p);
                        double wx = k & 1 ? u - 0.5 - x0 : 1 - (u - 0.5 - x0), wy = k >> 1 ? t - 0.5 - y0 : 1 - (t - 0.5 - y0);
                        for (int c = 0; c < 4; c++)
                            exact[c] += p[c] * wx * wy;
                    }
                }
                float got[4];
                get_pixel(&image, x, y, got);
                judged++;
                for (int c = 0; c < 4; c++) {
                    double below = c == 3 ? 1 : 0.2;
                    double value = exact[c] * tint[c] + below * (1 - exact[3] * tint[3]);
                    CHECK(fabs(got[c] - fmin(1, value)) < (filter == VKS_FILTER_LINEAR ? 2.0 : 0.51) / 255, "format %u, filter %d, pixel %u, %u, component %d: %g, not %g",
                          format, (int)filter, x, y, c, got[c] * 255.0, value * 255);
                }
            }
        CHECK(judged > 500, "only %ld pixels were judged", judged);
        free_image(&texture);
        free_image(&image);
    }
}

static void later_triangles_lie_on_earlier_ones_as_source_over(void)
{
    struct vks_image image = new_image(64, 64, VKS_FORMAT_RGBA8_UNORM, 0);
    vks_raster_clear(&image, (float[4]){0, 0, 0, 1}, NULL);
    double expected[4] = {0, 0, 0, 255};
    for (int i = 0; i < 200; i++) {
        struct vertex v[6];
        float a = random_unit();
        const float colour[4] = {a * random_unit(), a * random_unit(), a * random_unit(), a};
        quad(v, -1, -1, 1, 1, colour);
        draw(&image, v, 6, NULL, VKS_FILTER_NEAREST, 8, i % 2 ? pool : NULL);
        for (int c = 0; c < 4; c++) {
            double sum = colour[c] * 255.0 + expected[c] * (1 - (double)a);
            int got = pixel_at(&image, 17, 40)[c];
            CHECK(fabs(got - sum) <= 0.51, "layer %d, component %d: %d, not %g", i, c, got, sum);
            expected[c] = got;
        }
    }
    free_image(&image);
}

static void results_are_the_same_for_every_instruction_set_and_thread_count(void)
{
    const uint32_t formats[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB, VKS_FORMAT_RGBA16_FLOAT};
    enum { COUNT = 3000 };
    struct vertex *v = malloc(COUNT * 3 * sizeof *v);
    struct vks_image texture = new_image(61, 47, VKS_FORMAT_BGRA8_UNORM, 0);
    fill_with_noise(&texture);
    for (int round = 0; round < 12; round++) {
        uint32_t format = formats[round % 4];
        for (int i = 0; i < COUNT * 3; i++) {
            v[i] = random_vertex(1.5);
            if (i % 3 != 0 && round % 2)
                memcpy(v[i].colour, v[i - 1].colour, sizeof v[i].colour);  // flat ones
            if (i % 3 != 0 && i % 5)
                for (int k = 0; k < 4; k++)
                    v[i].position[k] = v[i - 1].position[k] + (k < 2 ? (random_unit() - 0.5f) * 0.2f : 0);
        }
        struct vks_image expected = new_image(300, 211, format, 0), got = new_image(300, 211, format, 0);
        const struct vks_image *with = round / 4 ? &texture : NULL;
        vks_cpu_limit_isa(VKS_ISA_PORTABLE);
        vks_raster_clear(&expected, white, NULL);
        draw(&expected, v, COUNT * 3, with, round / 8 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST, 8, NULL);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++)
            for (int threads = 0; threads < 2; threads++) {
                vks_cpu_limit_isa((enum vks_isa)isa);
                vks_raster_clear(&got, white, NULL);
                draw(&got, v, COUNT * 3, with, round / 8 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST, 8, threads ? pool : NULL);
                CHECK(same_pixels(&expected, &got), "round %d, instruction set %d, threads %d", round, isa, threads);
            }
        free_image(&expected);
        free_image(&got);
    }
    free_image(&texture);
    free(v);
}

static void no_bits_in_the_vertices_do_harm(void)
{
    struct vks_image image = new_image(40, 30, VKS_FORMAT_RGBA8_UNORM, 4), other = new_image(7, 5, VKS_FORMAT_RGBA16_FLOAT, 0);
    fill_with_noise(&other);
    static const float odd[] = {0, -0.0f, 1, -1, 1e-45f, 1e-38f, 1e-30f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY, NAN, 1e9f, 65536, -65537, 0.5f};
    for (int round = 0; round < 60000; round++) {
        struct vertex v[6];
        float *f = (float *)v;
        for (size_t i = 0; i < 6 * 10; i++) {
            uint32_t bits = random_u32();
            if (round % 3 == 0)
                memcpy(&f[i], &bits, sizeof bits);
            else
                f[i] = round % 3 == 1 && bits % 4 ? random_unit() * 2 - 1 : odd[bits % 16];
        }
        enum vks_filter filter = round % 2 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
        int status = draw(round % 7 ? &image : &other, v, 6, round % 7 && round % 4 ? &other : NULL, filter, 4 + (uint32_t)round % 5, NULL);
        CHECK(status == VKS_RASTER_OK, "round %d gave %d", round, status);
    }
    CHECK(guards_are_whole(&image) && guards_are_whole(&other), "wrote outside");
    free_image(&image);
    free_image(&other);
}

static void triangles_with_nan_infinity_or_no_area_draw_nothing(void)
{
    struct vks_image image = new_counter(32, 32);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        for (int corner = 0; corner < 3; corner++)
            for (int k = 0; k < 4; k++) {
                struct vertex v[6];
                quad(v, -1, -1, 1, 1, count_one);
                v[corner].position[k] = bad[i];
                draw(&image, v, 3, NULL, VKS_FILTER_NEAREST, 8, NULL);
                CHECK(count_at(&image, 16, 12) == 0, "%g in component %d of corner %d", (double)bad[i], k, corner);
            }
    struct vertex line[3] = {vertex_at(&image, 1, 1, count_one), vertex_at(&image, 9, 9, count_one), vertex_at(&image, 30, 30, count_one)};
    draw(&image, line, 3, NULL, VKS_FILTER_NEAREST, 8, NULL);
    line[2] = line[1];
    draw(&image, line, 3, NULL, VKS_FILTER_NEAREST, 8, NULL);
    for (uint32_t i = 0; i < 32; i++)
        CHECK(count_at(&image, i, i) == 0, "a line covered pixel %u", i);
    free_image(&image);
}

static void depth_outside_zero_to_w_is_clipped(void)
{
    struct vks_image image = new_counter(32, 32);
    const struct { float z; float expected; } cases[] = {{-0.01f, 0}, {0, 1}, {0.5f, 1}, {1, 1}, {1.01f, 0}};
    for (int i = 0; i < 5; i++) {
        struct vertex v[6];
        quad(v, -1, -1, 1, 1, count_one);
        for (int k = 0; k < 6; k++)
            v[k].position[2] = cases[i].z;
        memset(image.pixels, 0, image.size);
        draw(&image, v, 6, NULL, VKS_FILTER_NEAREST, 8, NULL);
        CHECK(count_at(&image, 5, 5) == cases[i].expected, "z %g covered %g times", (double)cases[i].z, (double)count_at(&image, 5, 5));
    }
    struct vertex v[6];
    quad(v, -1, -1, 1, 1, count_one);
    for (int k = 0; k < 6; k++)
        v[k].position[2] = v[k].position[0];  // visible from x = 0 on
    memset(image.pixels, 0, image.size);
    draw(&image, v, 6, NULL, VKS_FILTER_NEAREST, 8, NULL);
    for (uint32_t x = 0; x < 32; x++)
        CHECK(count_at(&image, x, 9) == (x < 16 ? 0.0f : 1.0f), "column %u", x);
    free_image(&image);
}

static void layouts_choose_where_a_vertex_keeps_its_fields(void)
{
    struct vks_image image = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    float data[3][13];
    const float position[3][4] = {{-1, -1, 0, 1}, {3, -1, 0, 1}, {-1, 3, 0, 1}};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 13; k++)
            data[i][k] = NAN;
        memcpy(&data[i][7], position[i], sizeof position[i]);
        memcpy(&data[i][2], (float[4]){0, 1, 0, 1}, 4 * sizeof(float));
    }
    struct vks_vertex_layout layout = {.data = data[0], .stride = 13, .position = 7, .colour = 2, .uv = -1};
    CHECK(vks_raster_draw_triangles(&image, &layout, 3, NULL, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_OK, "refused");
    CHECK(memcmp(pixel_at(&image, 3, 3), (uint8_t[4]){0, 255, 0, 255}, 4) == 0, "not green");
    layout.colour = -1;
    vks_raster_draw_triangles(&image, &layout, 3, NULL, VKS_FILTER_NEAREST, 8, NULL);
    CHECK(memcmp(pixel_at(&image, 3, 3), (uint8_t[4]){255, 255, 255, 255}, 4) == 0, "no colour is not white");
    const struct vks_vertex_layout wrong[] = {
        {data[0], 3, 0, -1, -1}, {data[0], 13, 10, -1, -1}, {data[0], 13, -1, -1, -1}, {data[0], 13, 0, 10, -1},
        {data[0], 13, 0, -2, -1}, {data[0], 13, 0, -1, 12}, {data[0], 13, INT32_MAX, -1, -1}, {NULL, 13, 0, -1, -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(vks_raster_draw_triangles(&image, &wrong[i], 3, NULL, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_BAD_ARGUMENT, "layout %zu", i);
    layout.uv = -1;
    struct vks_image texture = new_image(4, 4, VKS_FORMAT_R8_UNORM, 0);
    CHECK(vks_raster_draw_triangles(&image, &layout, 3, &texture, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_BAD_ARGUMENT, "texture without uv");
    layout.uv = 0;
    CHECK(vks_raster_draw_triangles(&image, &layout, 3, &image, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_OVERLAP, "target as texture");
    CHECK(vks_raster_draw_triangles(&image, &layout, 3, NULL, VKS_FILTER_NEAREST, 9, NULL) == VKS_RASTER_BAD_ARGUMENT, "9 bits");
    CHECK(vks_raster_draw_triangles(&image, &layout, 3, NULL, VKS_FILTER_NEAREST, 3, NULL) == VKS_RASTER_BAD_ARGUMENT, "3 bits");
    CHECK(vks_raster_draw_triangles(&image, NULL, 3, NULL, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_BAD_ARGUMENT, "no layout");
    CHECK(vks_raster_draw_triangles(&image, &layout, 2, NULL, VKS_FILTER_NEAREST, 8, NULL) == VKS_RASTER_OK, "two vertices");
    free_image(&texture);
    free_image(&image);
}

int main(void)
{
    if (vks_pool_create(3, &pool) != 0)
        return 1;
    const struct test tests[] = {
        TEST(coverage_equals_the_edge_functions_for_every_precision),
        TEST(vertices_snap_to_the_nearest_subpixel),
        TEST(meshes_cover_every_pixel_exactly_once),
        TEST(clipped_triangles_have_perspective_correct_colours_where_they_should_be),
        TEST(a_texture_on_a_quad_of_its_size_reproduces_every_texel),
        TEST(textures_are_sampled_filtered_and_modulated_in_perspective),
        TEST(later_triangles_lie_on_earlier_ones_as_source_over),
        TEST(results_are_the_same_for_every_instruction_set_and_thread_count),
        TEST(no_bits_in_the_vertices_do_harm),
        TEST(triangles_with_nan_infinity_or_no_area_draw_nothing),
        TEST(depth_outside_zero_to_w_is_clipped),
        TEST(layouts_choose_where_a_vertex_keeps_its_fields),
    };
    int failed = run_tests(tests, sizeof tests / sizeof tests[0]);
    vks_pool_destroy(pool);
    return failed;
}
