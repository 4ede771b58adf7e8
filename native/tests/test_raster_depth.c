// Depth tests of the rasterizer: against a per-pixel reference, for every comparison, thread count and instruction set.
// rules: E6
#include "raster/program.h"
#include "test_raster_mesh.h"

static struct vks_pool *pool;
static const uint32_t depth_formats[] = {VKS_FORMAT_D16_UNORM, VKS_FORMAT_D32_FLOAT};

static int draw_deep(const struct vks_image *target, const struct vertex *v, uint32_t count,
                     const struct vks_depth *depth, struct vks_pool *threads)
{
    const struct vks_vertex_layout layout = {.data = v->position, .stride = 10, .position = 0, .colour = 4, .uv = 8};
    return vks_raster_draw_triangles(target, &layout, count, NULL, VKS_FILTER_NEAREST, 8, depth, threads);
}

// The number that is compared: a float, or a code of d16unorm.
static double stored_at(const struct vks_image *depth, uint32_t x, uint32_t y)
{
    float real;
    uint16_t code;
    if (depth->format == VKS_FORMAT_D32_FLOAT) {
        memcpy(&real, pixel_at(depth, x, y), sizeof real);
        return real;
    }
    memcpy(&code, pixel_at(depth, x, y), sizeof code);
    return code;
}

static int passes(enum vks_depth_test test, double depth, double stored)
{
    switch (test) {
    case VKS_DEPTH_NEVER:
        return 0;
    case VKS_DEPTH_LESS:
        return depth < stored;
    case VKS_DEPTH_EQUAL:
        return depth == stored;
    case VKS_DEPTH_LESS_EQUAL:
        return depth <= stored;
    case VKS_DEPTH_GREATER:
        return depth > stored;
    case VKS_DEPTH_NOT_EQUAL:
        return depth != stored;
    case VKS_DEPTH_GREATER_EQUAL:
        return depth >= stored;
    default:
        return 1;
    }
}

// Depths of a few values all over, a NaN among those of d32float, so that runs of every length pass.
static void fill_with_depths(const struct vks_image *depth)
{
    for (uint32_t y = 0; y < depth->height; y++)
        for (uint32_t x = 0; x < depth->width; x++) {
            float z = (float)random_between(0, 4) / 4;
            if (depth->format == VKS_FORMAT_D32_FLOAT && random_between(0, 30) == 0)
                z = NAN;
            set_pixel(depth, x, y, (float[4]){z, 0, 0, 0});
        }
}

static void check_comparison(uint32_t format, enum vks_depth_test test, bool writes, float z)
{
    struct vks_image target = new_counter(150, 40), image = new_image(150, 40, format, 6);
    fill_with_depths(&image);
    struct vks_image before = clone_image(&image);
    struct vertex v[6];
    quad(v, -0.9f, -0.9f, 0.9f, 0.9f, count_one);
    for (int i = 0; i < 6; i++)
        v[i].position[2] = z;
    struct vks_depth depth = {&image, test, writes};
    CHECK(draw_deep(&target, v, 6, &depth, pool) == VKS_RASTER_OK, "draw");
    struct vks_image one = new_image(1, 1, format, 0);
    set_pixel(&one, 0, 0, (float[4]){z, 0, 0, 0});
    double new = stored_at(&one, 0, 0);
    long passed = 0;
    for (uint32_t y = 0; y < 40; y++)
        for (uint32_t x = 0; x < 150; x++) {
            bool covered = x >= 8 && x < 142 && y >= 2 && y < 38; // [7.5, 142.5) and [2, 38)
            covered |= x == 7 && y >= 2 && y < 38;                // the centre is on the left edge
            int drawn = covered && passes(test, new, stored_at(&before, x, y));
            CHECK(count_at(&target, x, y) == (float)drawn, "test %d at %u, %u", test, x, y);
            const struct vks_image *wanted = drawn && writes ? &one : &before;
            CHECK(is_pixel(&image, (int)x, (int)y, wanted == &one ? pixel_at(&one, 0, 0) : pixel_at(&before, x, y)),
                  "depth at %u, %u", x, y);
            passed += drawn;
        }
    CHECK(guards_are_whole(&image) && guards_are_whole(&target), "written outside");
    CHECK((passed > 0) == (test != VKS_DEPTH_NEVER), "%ld pixels passed test %d", passed, test);
    free_image(&target);
    free_image(&image);
    free_image(&before);
    free_image(&one);
}

static void each_comparison_passes_and_writes_the_pixels_that_it_names(void)
{
    for (int f = 0; f < 2; f++)
        for (int test = VKS_DEPTH_NEVER; test <= VKS_DEPTH_ALWAYS; test++)
            for (int writes = 0; writes < 2; writes++)
                check_comparison(depth_formats[f], (enum vks_depth_test)test, writes, 0.5f);
}

static void depth_is_affine_over_the_target_and_rounded_to_nearest(void)
{
    for (int f = 0; f < 2; f++) {
        struct vks_image target = new_counter(64, 64), image = new_image(64, 64, depth_formats[f], 0);
        struct vertex v[3] = {vertex_at(&target, -64, -64, count_one), vertex_at(&target, 192, -64, count_one),
                              vertex_at(&target, -64, 192, count_one)};
        const double z[3] = {0.125, 0.875, 0.375};
        const float w[3] = {1, 4, 0.5f};
        for (int i = 0; i < 3; i++) {
            v[i].position[2] = (float)z[i];
            for (int k = 0; k < 4; k++)
                v[i].position[k] *= w[i];
        }
        struct vks_depth depth = {&image, VKS_DEPTH_ALWAYS, true};
        CHECK(draw_deep(&target, v, 3, &depth, NULL) == VKS_RASTER_OK, "draw");
        for (uint32_t y = 0; y < 64; y++)
            for (uint32_t x = 0; x < 64; x++) {
                double exact = z[0] + (z[1] - z[0]) * (x + 64.5) / 256 + (z[2] - z[0]) * (y + 64.5) / 256;
                double off = depth_formats[f] == VKS_FORMAT_D32_FLOAT
                                 ? fabs(stored_at(&image, x, y) - exact) / 1e-7
                                 : fabs(stored_at(&image, x, y) - exact * 65535) - 0.5 - 4e-3;
                CHECK(off <= 1, "%g at %u, %u", stored_at(&image, x, y), x, y);
            }
        free_image(&target);
        free_image(&image);
    }
}

// Draws a mesh of random depths with one instruction set.
static void draw_mesh(const struct vks_image *target, const struct vks_image *image, enum vks_isa isa,
                      struct vks_pool *threads)
{
    enum { TRIANGLES = 300 };
    static struct vertex v[3 * TRIANGLES];
    random_state = 77;
    for (int i = 0; i < 3 * TRIANGLES; i++) {
        float w = random_unit() + 0.5f;
        v[i] = (struct vertex){.position = {(random_unit() * 2.4f - 1.2f) * w, (random_unit() * 2.4f - 1.2f) * w,
                                            (random_unit() * 1.2f - 0.1f) * w, w},
                               .colour = {random_unit(), random_unit(), random_unit(), 1}};
    }
    memset(target->pixels, 0, target->size);
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            set_pixel(image, x, y, (float[4]){1, 0, 0, 0});
    struct vks_depth depth = {image, VKS_DEPTH_LESS, true};
    vks_cpu_limit_isa(isa);
    CHECK(draw_deep(target, v, 3 * TRIANGLES, &depth, threads) == VKS_RASTER_OK, "draw");
    vks_cpu_limit_isa(VKS_ISA_AVX512);
}

static void pictures_are_the_same_for_every_instruction_set_and_thread_count(void)
{
    static const uint32_t targets[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA16_FLOAT};
    for (int f = 0; f < 4; f++) {
        struct vks_image target = new_image(203, 97, targets[f / 2], 0), other = new_image(203, 97, targets[f / 2], 0);
        struct vks_image image = new_image(203, 97, depth_formats[f % 2], 0), depth = clone_image(&image);
        draw_mesh(&target, &image, VKS_ISA_PORTABLE, NULL);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
            draw_mesh(&other, &depth, (enum vks_isa)isa, isa % 2 ? pool : NULL);
            CHECK(same_pixels(&target, &other) && same_pixels(&image, &depth), "instruction set %d", isa);
        }
        draw_mesh(&other, &depth, VKS_ISA_PORTABLE, pool);
        CHECK(same_pixels(&target, &other) && same_pixels(&image, &depth), "three threads");
        free_image(&target);
        free_image(&other);
        free_image(&image);
        free_image(&depth);
    }
}

static void depth_that_does_not_fit_is_refused_and_nothing_is_written(void)
{
    struct vks_image target = new_counter(16, 16), image = new_image(16, 16, VKS_FORMAT_D32_FLOAT, 0);
    struct vks_image small = new_image(16, 8, VKS_FORMAT_D16_UNORM, 0), same = target, untouched = clone_image(&image);
    same.format = VKS_FORMAT_D32_FLOAT;
    struct vertex v[6];
    quad(v, -1, -1, 1, 1, count_one);
    const struct {
        struct vks_depth depth;
        int status;
    } cases[] = {
        {{NULL, VKS_DEPTH_LESS, true}, VKS_RASTER_BAD_IMAGE},
        {{&target, VKS_DEPTH_LESS, true}, VKS_RASTER_BAD_FORMAT},
        {{&small, VKS_DEPTH_LESS, true}, VKS_RASTER_IMAGE_MISMATCH},
        {{&same, VKS_DEPTH_LESS, true}, VKS_RASTER_OVERLAP},
        {{&image, (enum vks_depth_test)8, true}, VKS_RASTER_BAD_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = draw_deep(&target, v, 6, &cases[i].depth, NULL);
        CHECK(status == cases[i].status, "case %zu gives %d", i, status);
    }
    struct vks_depth depth = {&target, VKS_DEPTH_LESS, true};
    CHECK(draw_deep(&image, v, 6, &depth, NULL) == VKS_RASTER_BAD_FORMAT, "depth is no target");
    CHECK(count_at(&target, 8, 8) == 0 && same_pixels(&image, &untouched), "something was written");
    free_image(&target);
    free_image(&image);
    free_image(&small);
    free_image(&untouched);
}

#define GIVES(wanted, call)                                                                                            \
    do {                                                                                                               \
        int status = call;                                                                                             \
        CHECK(status == VKS_RASTER_##wanted, "%s gives %d", #call, status);                                            \
    } while (0)

static void a_program_checks_the_depth_when_it_records_and_when_it_runs(void)
{
    struct vks_image target = new_counter(16, 16), image = new_image(16, 16, VKS_FORMAT_D16_UNORM, 0);
    struct vertex v[6];
    quad(v, -1, -1, 1, 1, count_one);
    const struct vks_vertex_layout layout = {.data = v->position, .stride = 10, .position = 0, .colour = 4, .uv = 8};
    struct vks_program *p = vks_program_create();
    vks_program_image(p, 16, 16, VKS_FORMAT_R32_FLOAT);
    vks_program_image(p, 16, 16, VKS_FORMAT_D16_UNORM);
    vks_program_image(p, 8, 16, VKS_FORMAT_D16_UNORM);
#define RECORD(slot, test)                                                                                             \
    vks_program_draw_triangles(p, 0, &layout, 6, VKS_NO_SLOT, VKS_FILTER_NEAREST, 8,                                   \
                               &(struct vks_depth_slot){slot, test, true})
    GIVES(BAD_SLOT, RECORD(9, VKS_DEPTH_LESS));
    GIVES(OVERLAP, RECORD(0, VKS_DEPTH_LESS));
    GIVES(IMAGE_MISMATCH, RECORD(2, VKS_DEPTH_LESS));
    GIVES(BAD_ARGUMENT, RECORD(1, (enum vks_depth_test)9));
    GIVES(OK, vks_program_clear(p, 1, (float[4]){1, 0, 0, 0}));
    GIVES(OK, RECORD(1, VKS_DEPTH_LESS)); // z is 0
    GIVES(OK, RECORD(1, VKS_DEPTH_LESS));
    GIVES(OK, RECORD(1, VKS_DEPTH_EQUAL));
    struct vks_image small = new_image(8, 16, VKS_FORMAT_D16_UNORM, 0), images[3] = {target, image, small};
    GIVES(OK, vks_program_run(p, images, 3, pool));
    CHECK(count_at(&target, 3, 3) == 2, "%g draws passed", (double)count_at(&target, 3, 3));
    images[1].pixels = target.pixels; // 16 * 16 floats have room for as many codes
    GIVES(OVERLAP, vks_program_run(p, images, 3, pool));
    vks_program_destroy(p);
    free_image(&target);
    free_image(&image);
    free_image(&small);
}

int main(void)
{
    if (vks_pool_create(3, &pool) != 0)
        return 1;
    const struct test tests[] = {
        TEST(each_comparison_passes_and_writes_the_pixels_that_it_names),
        TEST(depth_is_affine_over_the_target_and_rounded_to_nearest),
        TEST(pictures_are_the_same_for_every_instruction_set_and_thread_count),
        TEST(depth_that_does_not_fit_is_refused_and_nothing_is_written),
        TEST(a_program_checks_the_depth_when_it_records_and_when_it_runs),
    };
    int failed = run_tests(tests, sizeof tests / sizeof tests[0]);
    vks_pool_destroy(pool);
    return failed;
}
