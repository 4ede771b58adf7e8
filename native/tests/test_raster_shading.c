// The colours of a triangle's pixels: interpolation and texturing against the homogeneous equations in double.
#include "test_raster_mesh.h"

static struct vks_pool *pool;

// Whether snapping, which moves edges by up to 1/256 pixel, cannot decide about the pixel.
static int is_clear_cut(const struct vertex v[3], const struct vks_image *image, double x, double y, double least)
{
    if (fabs(least) <= 1e-4)
        return 0;
    for (int k = 0; k < 4; k++) {
        double other[3];
        if (!weights_at(v, image, x + (k & 1 ? 0.25 : -0.25), y + (k & 2 ? 0.25 : -0.25), other))
            return 0;
        double there = insideness(v, other);
        if ((there > 0) != (least > 0) || fabs(there) <= 1e-4 || fabs(least) <= 0.03 * fabs(there - least))
            return 0;
    }
    return 1;
}

// The value of a component at the place, and the least and the greatest a fortieth of a pixel from it.
static void colour_range(const struct vertex v[3], const struct vks_image *image, double x, double y, int c,
                         double range[2])
{
    range[0] = INFINITY;
    range[1] = -INFINITY;
    for (int k = 0; k < 5; k++) {
        double reach = k < 4 ? 0.025 : 0, weight[3], value = 0;
        weights_at(v, image, x + (k & 1 ? reach : -reach), y + (k & 2 ? reach : -reach), weight);
        for (int i = 0; i < 3; i++)
            value += weight[i] * v[i].colour[c];
        range[0] = fmin(range[0], value);
        range[1] = fmax(range[1], value);
    }
}

static long judged_inside, judged_outside, doubtful;

static void judge_pixel(const struct vks_image *image, const struct vertex v[3], int round, uint32_t x, uint32_t y)
{
    double weight[3], cx = x + 0.5, cy = y + 0.5;
    float p[4];
    get_pixel(image, x, y, p);
    int in_front = weights_at(v, image, cx, cy, weight);
    double least = in_front ? insideness(v, weight) : 0;
    if (!in_front || !is_clear_cut(v, image, cx, cy, least)) {
        doubtful++;
        return;
    }
    if (least < 0) {
        judged_outside++;
        CHECK(p[0] == 0 && p[1] == 0 && p[2] == 0 && p[3] == 0, "round %d: pixel %u, %u is outside by %g", round, x, y,
              least);
        return;
    }
    judged_inside++;
    for (int c = 0; c < 4; c++) {
        double range[2];
        colour_range(v, image, cx, cy, c, range);
        CHECK(p[c] >= range[0] - 2e-3 && p[c] <= range[1] + 2e-3,
              "round %d: pixel %u, %u, component %d is %g, not %g to %g", round, x, y, c, (double)p[c], range[0],
              range[1]);
    }
}

static void clipped_triangles_have_perspective_correct_colours_where_they_should_be(void)
{
    struct vks_image image = new_image(64, 64, VKS_FORMAT_RGBA32_FLOAT, 0);
    for (int round = 0; round < ROUNDS(1600); round++) {
        struct vertex v[3];
        for (int i = 0; i < 3; i++)
            v[i] = random_vertex(round % 5 == 0 ? 1e5 : 2);
        memset(image.pixels, 0, image.size);
        draw_plain(&image, v, 3, 8);
        for (uint32_t i = 0; i < 64 * 64 && checks_failed == 0; i++)
            judge_pixel(&image, v, round, i % 64, i / 64);
    }
    CHECK(judged_inside > ROUNDS(80000) && judged_outside > ROUNDS(400000),
          "judged only %ld inside and %ld outside, %ld in doubt", judged_inside, judged_outside, doubtful);
    free_image(&image);
}

// Target equal to source, to a rounding of the filter's arithmetic.
static void check_copied(const struct vks_image *texture, const struct vks_image *image, int filter)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            float s[4], want[4], got[4];
            uint8_t expected[16];
            get_pixel(texture, x, y, s);
            vks_pack_colour(image->format, s, expected);
            vks_unpack_colour(image->format, expected, want);
            get_pixel(image, x, y, got);
            double tolerance = filter ? 1.01 * format_step(image->format) + 1e-5 : 1e-6;
            for (int c = 0; c < format_components(image->format); c++)
                CHECK(fabs((double)got[c] - want[c]) <= tolerance || (filter && c == 3),
                      "formats %u to %u, filter %d, pixel %u, %u, component %d: %g, not %g", texture->format,
                      image->format, filter, x, y, c, (double)got[c], (double)want[c]);
        }
    CHECK(guards_are_whole(image), "wrote outside");
}

static void a_texture_on_a_quad_of_its_size_reproduces_every_texel(void)
{
    for (size_t f = 0; f < FORMATS; f++)
        for (size_t g = 0; g < FORMATS; g++)
            for (int filter = 0; filter < 2; filter++) {
                struct vks_image texture = new_image(64, 32, all_formats[f], 4);
                struct vks_image image = new_image(64, 32, all_formats[g], 8);
                struct vertex v[6];
                fill_with_noise(&texture);
                quad(v, -1, -1, 1, 1, white);
                vks_raster_clear(&image, (float[4]){0}, NULL);
                draw(&image, v, 6, &texture, (enum vks_filter)filter, 8, NULL);
                check_copied(&texture, &image, filter);
                free_image(&texture);
                free_image(&image);
            }
}

#define TEXTURE_W 21
#define TEXTURE_H 13

static void sample(const struct vks_image *texture, enum vks_filter filter, double u, double v, double out[4])
{
    double shift = filter == VKS_FILTER_LINEAR ? 0.5 : 0;
    int x = (int)floor(u - shift), y = (int)floor(v - shift);
    double fx = filter == VKS_FILTER_LINEAR ? u - shift - x : 0, fy = filter == VKS_FILTER_LINEAR ? v - shift - y : 0;
    memset(out, 0, 4 * sizeof *out);
    for (int k = 0; k < 4; k++) {
        float p[4];
        get_pixel(texture, (uint32_t)clamp_to(x + (k & 1), TEXTURE_W), (uint32_t)clamp_to(y + (k >> 1), TEXTURE_H), p);
        for (int c = 0; c < 4; c++)
            out[c] += p[c] * (k & 1 ? fx : 1 - fx) * (k >> 1 ? fy : 1 - fy);
    }
}

// Texture coordinates in texels at a pixel of a quad. False on and near its edges and its diagonal.
static int texels_at(const struct vertex v[6], const struct vks_image *image, uint32_t x, uint32_t y, double *u,
                     double *t)
{
    for (int k = 0; k < 6; k += 3) {
        double weight[3];
        if (!weights_at(v + k, image, x + 0.5, y + 0.5, weight) || fmin(weight[0], fmin(weight[1], weight[2])) < 0.01)
            continue;
        *u = *t = 0;
        for (int i = 0; i < 3; i++) {
            *u += weight[i] * v[k + i].uv[0] * TEXTURE_W;
            *t += weight[i] * v[k + i].uv[1] * TEXTURE_H;
        }
        return 1;
    }
    return 0;
}

static void check_textured(const struct vks_image *image, const struct vks_image *texture, enum vks_filter filter,
                           const struct vertex v[6])
{
    long judged = 0;
    for (uint32_t y = 0; y < 64; y++)
        for (uint32_t x = 0; x < 64; x++) {
            double u, t, texel[4];
            float got[4];
            if (!texels_at(v, image, x, y, &u, &t))
                continue;
            if (filter == VKS_FILTER_NEAREST && (fabs(u - rint(u)) < 0.02 || fabs(t - rint(t)) < 0.02))
                continue;
            judged++;
            sample(texture, filter, u, t, texel);
            get_pixel(image, x, y, got);
            for (int c = 0; c < 4; c++) {
                double below = c == 3 ? 1 : 0.2, tolerance = filter == VKS_FILTER_LINEAR ? 2.0 : 0.51;
                double value = texel[c] * v[0].colour[c] + below * (1 - texel[3] * v[0].colour[3]);
                CHECK(fabs(got[c] - fmin(1, value)) < tolerance / 255,
                      "format %u, filter %d, pixel %u, %u, component %d: %g, not %g", texture->format, (int)filter, x,
                      y, c, got[c] * 255.0, value * 255);
            }
        }
    CHECK(judged > 500, "only %ld pixels were judged", judged);
}

static void textures_are_sampled_filtered_and_modulated_in_perspective(void)
{
    for (size_t round = 0; round < 2 * FORMATS; round++) {
        enum vks_filter filter = round < FORMATS ? VKS_FILTER_NEAREST : VKS_FILTER_LINEAR;
        struct vks_image texture = new_image(TEXTURE_W, TEXTURE_H, all_formats[round % FORMATS], 0);
        struct vks_image image = new_image(64, 64, VKS_FORMAT_RGBA8_UNORM, 0);
        struct vertex v[6];
        fill_with_noise(&texture);
        quad(v, -0.9f, -0.8f, 0.9f, 0.8f, (float[4]){0.5f, 0.7f, 1, 0.8f});
        for (int i = 0; i < 6; i++) {
            float w = v[i].position[1] < 0 ? 3.0f : 1.0f;
            for (int k = 0; k < 4; k++)
                v[i].position[k] *= w;
            v[i].uv[0] = v[i].uv[0] * 1.4f - 0.2f; // beyond the texture on both sides
        }
        vks_raster_clear(&image, (float[4]){0.2f, 0.2f, 0.2f, 1}, NULL);
        draw(&image, v, 6, &texture, filter, 8, NULL);
        check_textured(&image, &texture, filter, v);
        free_image(&texture);
        free_image(&image);
    }
}

static void later_triangles_lie_on_earlier_ones_as_source_over(void)
{
    struct vks_image image = new_image(64, 64, VKS_FORMAT_RGBA8_UNORM, 0);
    vks_raster_clear(&image, (float[4]){0, 0, 0, 1}, NULL);
    double before[4] = {0, 0, 0, 255};
    for (int i = 0; i < 200; i++) {
        struct vertex v[6];
        float a = random_unit();
        const float colour[4] = {a * random_unit(), a * random_unit(), a * random_unit(), a};
        quad(v, -1, -1, 1, 1, colour);
        draw(&image, v, 6, NULL, VKS_FILTER_NEAREST, 8, i % 2 ? pool : NULL);
        for (int c = 0; c < 4; c++) {
            double sum = colour[c] * 255.0 + before[c] * (1 - (double)a);
            before[c] = pixel_at(&image, 17, 40)[c];
            CHECK(fabs(before[c] - sum) <= 0.51, "layer %d, component %d: %g, not %g", i, c, before[c], sum);
        }
    }
    free_image(&image);
}

// A sanitizer looks at how each tile is drawn, which it does at a tenth of the speed: it gets fewer triangles to draw.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { COUNT = 500 };
#else
enum { COUNT = 3000 };
#endif

// Many small ones, some large; every second round with one colour a triangle.
static void random_triangles(struct vertex *v, int flat)
{
    for (int i = 0; i < COUNT * 3; i++) {
        v[i] = random_vertex(1.5);
        if (i % 3 == 0)
            continue;
        if (flat)
            memcpy(v[i].colour, v[i - 1].colour, sizeof v[i].colour);
        for (int k = 0; k < 4 && i % 5 != 0; k++)
            v[i].position[k] = v[i - 1].position[k] + (k < 2 ? (random_unit() - 0.5f) * 0.2f : 0);
    }
}

static void results_are_the_same_for_every_instruction_set_and_thread_count(void)
{
    const uint32_t formats[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB,
                                VKS_FORMAT_RGBA16_FLOAT};
    static struct vertex v[COUNT * 3];
    struct vks_image texture = new_image(61, 47, VKS_FORMAT_BGRA8_UNORM, 0);
    fill_with_noise(&texture);
    for (int round = 0; round < 24; round++) {
        struct vks_image expected = new_image(300, 211, formats[round % 4], 0), got = clone_image(&expected);
        const struct vks_image *with = round / 8 > 0 ? &texture : NULL;
        enum vks_filter filter = round / 8 == 2 ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
        random_triangles(v, round / 4 % 2);
        vks_cpu_limit_isa(VKS_ISA_PORTABLE);
        vks_raster_clear(&expected, white, NULL);
        draw(&expected, v, COUNT * 3, with, filter, 8, NULL);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++)
            for (int threads = 0; threads < 2; threads++) {
                vks_cpu_limit_isa((enum vks_isa)isa);
                vks_raster_clear(&got, white, NULL);
                draw(&got, v, COUNT * 3, with, filter, 8, threads ? pool : NULL);
                CHECK(same_pixels(&expected, &got), "round %d, instruction set %d, threads %d", round, isa, threads);
            }
        free_image(&expected);
        free_image(&got);
    }
    free_image(&texture);
}

static int draw_with(const struct vks_image *image, const struct vks_vertex_layout *layout,
                     const struct vks_image *texture, uint32_t bits)
{
    return vks_raster_draw_triangles(image, layout, 3, texture, VKS_FILTER_NEAREST, bits, NULL, NULL);
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
    CHECK(draw_with(&image, &layout, NULL, 8) == VKS_RASTER_OK, "refused");
    CHECK(is_pixel(&image, 3, 3, (uint8_t[4]){0, 255, 0, 255}), "not green");
    layout.colour = -1;
    draw_with(&image, &layout, NULL, 8);
    CHECK(is_pixel(&image, 3, 3, (uint8_t[4]){255, 255, 255, 255}), "no colour is not white");
    free_image(&image);
}

static void wrong_layouts_and_arguments_are_refused(void)
{
    struct vks_image image = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image texture = new_image(4, 4, VKS_FORMAT_R8_UNORM, 0);
    const float data[3 * 13] = {0};
    const struct vks_vertex_layout wrong[] = {
        {data, 3, 0, -1, -1},  {data, 13, 10, -1, -1}, {data, 13, -1, -1, -1},        {data, 13, 0, 10, -1},
        {data, 13, 0, -2, -1}, {data, 13, 0, -1, 12},  {data, 13, INT32_MAX, -1, -1}, {NULL, 13, 0, -1, -1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(draw_with(&image, &wrong[i], NULL, 8) == VKS_RASTER_BAD_ARGUMENT, "layout %zu", i);
    const struct vks_vertex_layout without_uv = {data, 13, 7, -1, -1}, good = {data, 13, 7, -1, 0};
    CHECK(draw_with(&image, &without_uv, &texture, 8) == VKS_RASTER_BAD_ARGUMENT, "texture without uv");
    CHECK(draw_with(&image, &good, &image, 8) == VKS_RASTER_OVERLAP, "target as texture");
    CHECK(draw_with(&image, &good, NULL, 9) == VKS_RASTER_BAD_ARGUMENT, "9 bits");
    CHECK(draw_with(&image, &good, NULL, 3) == VKS_RASTER_BAD_ARGUMENT, "3 bits");
    CHECK(draw_with(&image, NULL, NULL, 8) == VKS_RASTER_BAD_ARGUMENT, "no layout");
    int status = vks_raster_draw_triangles(&image, &good, 3, NULL, (enum vks_filter)9, 8, NULL, NULL);
    CHECK(status == VKS_RASTER_BAD_ARGUMENT, "filter 9");
    status = vks_raster_draw_triangles(&image, &good, 2, NULL, VKS_FILTER_NEAREST, 8, NULL, NULL);
    CHECK(status == VKS_RASTER_OK, "two vertices");
    free_image(&texture);
    free_image(&image);
}

int main(void)
{
    if (vks_pool_create(3, &pool) != 0)
        return 1;
    const struct test tests[] = {
        TEST(clipped_triangles_have_perspective_correct_colours_where_they_should_be),
        TEST(a_texture_on_a_quad_of_its_size_reproduces_every_texel),
        TEST(textures_are_sampled_filtered_and_modulated_in_perspective),
        TEST(later_triangles_lie_on_earlier_ones_as_source_over),
        TEST(results_are_the_same_for_every_instruction_set_and_thread_count),
        TEST(layouts_choose_where_a_vertex_keeps_its_fields),
        TEST(wrong_layouts_and_arguments_are_refused),
    };
    int failed = run_tests(tests, sizeof tests / sizeof tests[0]);
    vks_pool_destroy(pool);
    return failed;
}
