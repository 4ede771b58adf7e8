// Programs: what they record is what the direct calls do; what is wrong is refused when it is recorded.
#include "test_raster.h"

#include "raster/program.h"

static const float red[4] = {1, 0, 0, 1}, half_green[4] = {0, 0.5f, 0, 0.5f};
static const float triangle[3][10] = {
    {-0.9f, -0.9f, 0, 1, 1, 1, 1, 1, 0, 0}, {2.7f, -0.9f, 0, 3, 0.5f, 0.5f, 1, 1, 1, 0}, {-0.9f, 0.9f, 0, 1, 1, 0, 0, 1, 0, 1}};

static struct vks_vertex_layout layout_of(const float (*data)[10])
{
    return (struct vks_vertex_layout){.data = data[0], .stride = 10, .position = 0, .colour = 4, .uv = 8};
}

static void a_program_draws_what_the_direct_calls_draw_each_time_it_runs(void)
{
    struct vks_image from = new_image(50, 40, VKS_FORMAT_RGBA8_UNORM, 0), direct = new_image(64, 48, VKS_FORMAT_RGBA8_UNORM, 4);
    struct vks_image recorded = new_image(64, 48, VKS_FORMAT_RGBA8_UNORM, 12);
    fill_with_noise(&from);
    float vertices[3][10];
    memcpy(vertices, triangle, sizeof vertices);
    struct vks_vertex_layout layout = layout_of((const float(*)[10])vertices);
    struct vks_blit_rect a = {50, 0, 0, 40}, b = {5, 6, 40, 47};

    vks_raster_clear(&direct, red, NULL);
    vks_raster_fill_rect(&direct, 10, -5, 30, 30, half_green, NULL);
    vks_raster_copy(&from, 1, 2, 20, 20, &direct, 30, 25, NULL);
    vks_raster_blit(&from, a, &direct, b, VKS_FILTER_LINEAR, NULL);
    vks_raster_composite(&from, &direct, 20, -3, 0.7f, NULL);
    vks_raster_draw_triangles(&direct, &layout, 3, &from, VKS_FILTER_LINEAR, 8, NULL);
    vks_raster_draw_triangles(&direct, &layout, 3, NULL, VKS_FILTER_NEAREST, 4, NULL);

    struct vks_program *program = vks_program_create();
    CHECK(vks_program_image(program, 50, 40, VKS_FORMAT_RGBA8_UNORM) == 0, "slot 0");
    CHECK(vks_program_image(program, 64, 48, VKS_FORMAT_RGBA8_UNORM) == 1, "slot 1");
    int status = vks_program_clear(program, 1, red) | vks_program_fill_rect(program, 1, 10, -5, 30, 30, half_green) |
                 vks_program_copy(program, 0, 1, 2, 20, 20, 1, 30, 25) | vks_program_blit(program, 0, a, 1, b, VKS_FILTER_LINEAR) |
                 vks_program_composite(program, 0, 1, 20, -3, 0.7f) |
                 vks_program_draw_triangles(program, 1, &layout, 3, 0, VKS_FILTER_LINEAR, 8) |
                 vks_program_draw_triangles(program, 1, &layout, 3, VKS_NO_SLOT, VKS_FILTER_NEAREST, 4);
    CHECK(status == VKS_RASTER_OK, "recording gave %d", status);
    CHECK(vks_program_length(program) == 7 && vks_program_images(program) == 2, "%u operations", vks_program_length(program));
    memset(vertices, 0xff, sizeof vertices);  // the program has its own copy
    for (int run = 0; run < 3; run++) {
        const struct vks_image images[2] = {from, recorded};
        memset(pixel_at(&recorded, 0, 0), run, 64);
        CHECK(vks_program_run(program, images, 2, NULL) == VKS_RASTER_OK, "run %d", run);
        CHECK(same_pixels(&direct, &recorded), "run %d differs", run);
    }
    CHECK(guards_are_whole(&recorded), "wrote outside");
    vks_program_destroy(program);
    free_image(&from);
    free_image(&direct);
    free_image(&recorded);
}

static void operations_of_no_area_are_left_out(void)
{
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 8, 8, VKS_FORMAT_RGBA8_UNORM);
    vks_program_image(program, 8, 8, VKS_FORMAT_RGBA8_UNORM);
    struct vks_vertex_layout layout = layout_of(triangle);
    struct vks_blit_rect some = {0, 0, 4, 4}, none = {3, 0, 3, 4};
    int status = vks_program_fill_rect(program, 0, 0, 0, 0, 5, red) | vks_program_fill_rect(program, 0, 0, 0, 5, -1, red) |
                 vks_program_copy(program, 0, 0, 0, 4, 0, 1, 0, 0) | vks_program_blit(program, 0, none, 1, some, VKS_FILTER_NEAREST) |
                 vks_program_blit(program, 0, some, 1, none, VKS_FILTER_NEAREST) | vks_program_composite(program, 0, 1, 0, 0, 0) |
                 vks_program_draw_triangles(program, 0, &layout, 2, VKS_NO_SLOT, VKS_FILTER_NEAREST, 8);
    CHECK(status == VKS_RASTER_OK && vks_program_length(program) == 0, "status %d, %u operations", status, vks_program_length(program));
    vks_program_destroy(program);
}

static void wrong_operations_are_refused_when_they_are_recorded(void)
{
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 8, 8, VKS_FORMAT_RGBA8_UNORM);
    vks_program_image(program, 8, 8, VKS_FORMAT_R8_UNORM);
    struct vks_vertex_layout layout = layout_of(triangle);
    struct vks_blit_rect r = {0, 0, 4, 4}, far = {0, 0, INT32_MAX, 4};
    CHECK(vks_program_image(program, 0, 8, VKS_FORMAT_R8_UNORM) == VKS_RASTER_BAD_IMAGE, "width 0");
    CHECK(vks_program_image(program, 8, 32769, VKS_FORMAT_R8_UNORM) == VKS_RASTER_BAD_IMAGE, "height 32769");
    CHECK(vks_program_image(program, 8, 8, 99) == VKS_RASTER_BAD_FORMAT, "format 99");
    CHECK(vks_program_clear(program, 2, red) == VKS_RASTER_BAD_SLOT, "slot 2");
    CHECK(vks_program_clear(program, VKS_NO_SLOT, red) == VKS_RASTER_BAD_SLOT, "no slot");
    CHECK(vks_program_clear(program, 0, NULL) == VKS_RASTER_BAD_ARGUMENT, "no colour");
    CHECK(vks_program_copy(program, 0, 0, 0, 4, 4, 1, 0, 0) == VKS_RASTER_FORMAT_MISMATCH, "formats differ");
    CHECK(vks_program_copy(program, 0, 0, 0, 4, 4, 0, 0, 0) == VKS_RASTER_OVERLAP, "copy onto itself");
    CHECK(vks_program_blit(program, 1, r, 1, r, VKS_FILTER_NEAREST) == VKS_RASTER_OVERLAP, "blit onto itself");
    CHECK(vks_program_blit(program, 0, r, 7, r, VKS_FILTER_NEAREST) == VKS_RASTER_BAD_SLOT, "slot 7");
    CHECK(vks_program_blit(program, 0, far, 1, r, VKS_FILTER_NEAREST) == VKS_RASTER_BAD_ARGUMENT, "coordinates");
    CHECK(vks_program_blit(program, 0, r, 1, r, (enum vks_filter)2) == VKS_RASTER_BAD_ARGUMENT, "filter 2");
    CHECK(vks_program_composite(program, 0, 0, 0, 0, 1) == VKS_RASTER_OVERLAP, "composite onto itself");
    CHECK(vks_program_composite(program, 1, 0, 0, 0, NAN) == VKS_RASTER_BAD_ARGUMENT, "opacity NaN");
    CHECK(vks_program_draw_triangles(program, 0, &layout, 3, 0, VKS_FILTER_NEAREST, 8) == VKS_RASTER_OVERLAP, "target as texture");
    CHECK(vks_program_draw_triangles(program, 0, &layout, 3, 5, VKS_FILTER_NEAREST, 8) == VKS_RASTER_BAD_SLOT, "texture slot 5");
    CHECK(vks_program_draw_triangles(program, 0, &layout, 3, 1, VKS_FILTER_NEAREST, 12) == VKS_RASTER_BAD_ARGUMENT, "12 bits");
    layout.uv = -1;
    CHECK(vks_program_draw_triangles(program, 0, &layout, 3, 1, VKS_FILTER_NEAREST, 8) == VKS_RASTER_BAD_ARGUMENT, "texture without uv");
    CHECK(vks_program_length(program) == 0, "%u operations were kept", vks_program_length(program));
    vks_program_destroy(program);
    vks_program_destroy(NULL);
}

static void images_that_differ_from_their_declaration_stop_a_run_before_it_writes(void)
{
    struct vks_image good = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0), source = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image other = new_image(8, 9, VKS_FORMAT_RGBA8_UNORM, 0), bgra = good, tiny = good, before = clone_image(&good);
    bgra.format = VKS_FORMAT_BGRA8_UNORM;
    tiny.size -= 1;
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 8, 8, VKS_FORMAT_RGBA8_UNORM);
    vks_program_image(program, 8, 8, VKS_FORMAT_RGBA8_UNORM);
    vks_program_clear(program, 0, red);
    vks_program_composite(program, 1, 0, 0, 0, 1);
    const struct { struct vks_image images[2]; uint32_t count; int expected; } cases[] = {
        {{good, other}, 2, VKS_RASTER_IMAGE_MISMATCH}, {{bgra, source}, 2, VKS_RASTER_IMAGE_MISMATCH},
        {{good, source}, 1, VKS_RASTER_IMAGE_MISMATCH}, {{tiny, source}, 2, VKS_RASTER_BAD_IMAGE},
        {{good, good}, 2, VKS_RASTER_OVERLAP},
    };
    for (int i = 0; i < 5; i++) {
        int status = vks_program_run(program, cases[i].images, cases[i].count, NULL);
        CHECK(status == cases[i].expected, "case %d gave %d", i, status);
        CHECK(same_pixels(&good, &before), "case %d wrote", i);
    }
    CHECK(vks_program_run(program, NULL, 2, NULL) == VKS_RASTER_IMAGE_MISMATCH, "no images");
    vks_program_destroy(program);
    free_image(&good);
    free_image(&source);
    free_image(&other);
    free_image(&before);
}

static void a_program_may_hold_thousands_of_operations(void)
{
    struct vks_image image = new_image(100, 100, VKS_FORMAT_R32_FLOAT, 0);
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 100, 100, VKS_FORMAT_R32_FLOAT);
    for (int i = 0; i < 10000; i++)
        CHECK(vks_program_fill_rect(program, 0, i % 100, i / 100, 1, 1, (float[4]){(float)i, 0, 0, 1}) == VKS_RASTER_OK, "operation %d", i);
    CHECK(vks_program_run(program, &image, 1, NULL) == VKS_RASTER_OK, "run");
    for (uint32_t i = 0; i < 10000; i++) {
        float v;
        memcpy(&v, pixel_at(&image, i % 100, i / 100), sizeof v);
        CHECK(v == (float)i, "pixel %u is %g", i, (double)v);
    }
    vks_program_destroy(program);
    free_image(&image);
}

int main(void)
{
    const struct test tests[] = {
        TEST(a_program_draws_what_the_direct_calls_draw_each_time_it_runs),
        TEST(operations_of_no_area_are_left_out),
        TEST(wrong_operations_are_refused_when_they_are_recorded),
        TEST(images_that_differ_from_their_declaration_stop_a_run_before_it_writes),
        TEST(a_program_may_hold_thousands_of_operations),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
