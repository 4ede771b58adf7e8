// Programs: what they record is what the direct calls do; what is wrong is refused when it is recorded.
#include "test_raster.h"

#include "raster/program.h"

static const float red[4] = {1, 0, 0, 1}, half_green[4] = {0, 0.5f, 0, 0.5f};

static const float triangle[3][10] = {
    {-0.9f, -0.9f, 0, 1, 1, 1, 1, 1, 0, 0},
    {2.7f, -0.9f, 0, 3, 0.5f, 0.5f, 1, 1, 1, 0},
    {-0.9f, 0.9f, 0, 1, 1, 0, 0, 1, 0, 1},
};

static const struct vks_vertex_layout triangle_layout = {
    .data = triangle[0], .stride = 10, .position = 0, .colour = 4, .uv = 8};

static const struct vks_blit_rect some = {0, 0, 4, 4}, none = {3, 0, 3, 4}, far_away = {0, 0, INT32_MAX, 4};
static const struct vks_blit_rect mirrored = {50, 0, 0, 40}, part = {5, 6, 40, 47};

// Fails the test unless the call gives the status.
#define GIVES(status, call)                                                                                            \
    do {                                                                                                               \
        int got = call;                                                                                                \
        CHECK(got == VKS_RASTER_##status, "%s gave %d", #call, got);                                                   \
    } while (0)

static void draw_directly(const struct vks_image *from, const struct vks_image *to)
{
    vks_raster_clear(to, red, NULL);
    vks_raster_fill_rect(to, 10, -5, 30, 30, half_green, NULL);
    vks_raster_copy(from, 1, 2, 20, 20, to, 30, 25, NULL);
    vks_raster_blit(from, mirrored, to, part, VKS_FILTER_LINEAR, NULL);
    vks_raster_composite(from, to, 20, -3, 0.7f, VKS_STRAIGHT, NULL);
    vks_raster_draw_triangles(to, &triangle_layout, 3, from, VKS_FILTER_LINEAR, 8, NULL, NULL);
    vks_raster_draw_triangles(to, &triangle_layout, 3, NULL, VKS_FILTER_NEAREST, 4, NULL, NULL);
}

static void record(struct vks_program *program, uint32_t from, uint32_t to)
{
    float vertices[3][10]; // overwritten afterwards: the program has its own copy
    memcpy(vertices, triangle, sizeof vertices);
    struct vks_vertex_layout layout = triangle_layout;
    layout.data = vertices[0];
    GIVES(OK, vks_program_clear(program, to, red));
    GIVES(OK, vks_program_fill_rect(program, to, 10, -5, 30, 30, half_green));
    GIVES(OK, vks_program_copy(program, from, 1, 2, 20, 20, to, 30, 25));
    GIVES(OK, vks_program_blit(program, from, mirrored, to, part, VKS_FILTER_LINEAR));
    GIVES(OK, vks_program_composite(program, from, to, 20, -3, 0.7f, VKS_STRAIGHT, false));
    GIVES(OK, vks_program_draw_triangles(program, to, &layout, 3, from, VKS_FILTER_LINEAR, 8, NULL));
    GIVES(OK, vks_program_draw_triangles(program, to, &layout, 3, VKS_NO_SLOT, VKS_FILTER_NEAREST, 4, NULL));
    memset(vertices, 0xff, sizeof vertices);
}

static void a_program_draws_what_the_direct_calls_draw_each_time_it_runs(void)
{
    struct vks_image from = new_image(50, 40, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image direct = new_image(64, 48, VKS_FORMAT_RGBA8_UNORM, 4);
    struct vks_image recorded = new_image(64, 48, VKS_FORMAT_RGBA8_UNORM, 12);
    fill_with_noise(&from);
    draw_directly(&from, &direct);
    struct vks_program *program = vks_program_create();
    CHECK(vks_program_image(program, 50, 40, VKS_FORMAT_RGBA8_UNORM) == 0, "slot 0");
    CHECK(vks_program_image(program, 64, 48, VKS_FORMAT_RGBA8_UNORM) == 1, "slot 1");
    record(program, 0, 1);
    CHECK(vks_program_length(program) == 7, "%u operations", vks_program_length(program));
    CHECK(vks_program_images(program) == 2, "%u images", vks_program_images(program));
    const struct vks_image images[2] = {from, recorded};
    for (int run = 0; run < 3; run++) {
        memset(pixel_at(&recorded, 0, 0), run, 64);
        GIVES(OK, vks_program_run(program, images, 2, NULL));
        CHECK(same_pixels(&direct, &recorded), "run %d differs", run);
    }
    CHECK(guards_are_whole(&recorded), "wrote outside");
    vks_program_destroy(program);
    free_image(&from);
    free_image(&direct);
    free_image(&recorded);
}

static struct vks_program *program_of(uint32_t format, uint32_t other)
{
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 8, 8, format);
    vks_program_image(program, 8, 8, other);
    return program;
}

static void operations_of_no_area_are_left_out(void)
{
    struct vks_program *p = program_of(VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM);
    GIVES(OK, vks_program_fill_rect(p, 0, 0, 0, 0, 5, red));
    GIVES(OK, vks_program_fill_rect(p, 0, 0, 0, 5, -1, red));
    GIVES(OK, vks_program_copy(p, 0, 0, 0, 4, 0, 1, 0, 0));
    GIVES(OK, vks_program_blit(p, 0, none, 1, some, VKS_FILTER_NEAREST));
    GIVES(OK, vks_program_blit(p, 0, some, 1, none, VKS_FILTER_NEAREST));
    GIVES(OK, vks_program_composite(p, 0, 1, 0, 0, 0, VKS_PREMULTIPLIED, false));
    GIVES(OK, vks_program_draw_triangles(p, 0, &triangle_layout, 2, VKS_NO_SLOT, VKS_FILTER_NEAREST, 8, NULL));
    CHECK(vks_program_length(p) == 0, "%u operations were kept", vks_program_length(p));
    vks_program_destroy(p);
}

static void wrong_operations_are_refused_when_they_are_recorded(void)
{
    struct vks_program *p = program_of(VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_R8_UNORM);
    GIVES(BAD_IMAGE, vks_program_image(p, 0, 8, VKS_FORMAT_R8_UNORM));
    GIVES(BAD_IMAGE, vks_program_image(p, 8, 32769, VKS_FORMAT_R8_UNORM));
    GIVES(BAD_FORMAT, vks_program_image(p, 8, 8, 99));
    GIVES(BAD_SLOT, vks_program_clear(p, 2, red));
    GIVES(BAD_SLOT, vks_program_clear(p, VKS_NO_SLOT, red));
    GIVES(BAD_ARGUMENT, vks_program_clear(p, 0, NULL));
    GIVES(FORMAT_MISMATCH, vks_program_copy(p, 0, 0, 0, 4, 4, 1, 0, 0));
    GIVES(OVERLAP, vks_program_copy(p, 0, 0, 0, 4, 4, 0, 0, 0));
    GIVES(OVERLAP, vks_program_blit(p, 1, some, 1, some, VKS_FILTER_NEAREST));
    GIVES(BAD_SLOT, vks_program_blit(p, 0, some, 7, some, VKS_FILTER_NEAREST));
    GIVES(BAD_ARGUMENT, vks_program_blit(p, 0, far_away, 1, some, VKS_FILTER_NEAREST));
    GIVES(BAD_ARGUMENT, vks_program_blit(p, 0, some, 1, some, (enum vks_filter)2));
    GIVES(OVERLAP, vks_program_composite(p, 0, 0, 0, 0, 1, VKS_PREMULTIPLIED, false));
    GIVES(BAD_ARGUMENT, vks_program_composite(p, 1, 0, 0, 0, NAN, VKS_PREMULTIPLIED, false));
    GIVES(BAD_ARGUMENT, vks_program_composite(p, 1, 0, 0, 0, 1, (enum vks_alpha)2, false));
    GIVES(OVERLAP, vks_program_draw_triangles(p, 0, &triangle_layout, 3, 0, VKS_FILTER_NEAREST, 8, NULL));
    GIVES(BAD_SLOT, vks_program_draw_triangles(p, 0, &triangle_layout, 3, 5, VKS_FILTER_NEAREST, 8, NULL));
    GIVES(BAD_ARGUMENT, vks_program_draw_triangles(p, 0, &triangle_layout, 3, 1, VKS_FILTER_NEAREST, 12, NULL));
    GIVES(OK, vks_program_image(p, 8, 8, VKS_FORMAT_R32_UINT) < 0);
    GIVES(BAD_FORMAT, vks_program_blit(p, 0, some, 2, some, VKS_FILTER_NEAREST));
    GIVES(BAD_FORMAT, vks_program_composite(p, 2, 0, 0, 0, 1, VKS_PREMULTIPLIED, false));
    GIVES(BAD_FORMAT, vks_program_draw_triangles(p, 2, &triangle_layout, 3, VKS_NO_SLOT, VKS_FILTER_NEAREST, 8, NULL));
    GIVES(BAD_FORMAT, vks_program_draw_triangles(p, 0, &triangle_layout, 3, 2, VKS_FILTER_NEAREST, 8, NULL));
    struct vks_vertex_layout without_uv = triangle_layout;
    without_uv.uv = -1;
    GIVES(BAD_ARGUMENT, vks_program_draw_triangles(p, 0, &without_uv, 3, 1, VKS_FILTER_NEAREST, 8, NULL));
    CHECK(vks_program_length(p) == 0, "%u operations were kept", vks_program_length(p));
    vks_program_destroy(p);
    vks_program_destroy(NULL);
}

static void images_that_differ_from_their_declaration_stop_a_run_before_it_writes(void)
{
    struct vks_image good = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0), before = clone_image(&good);
    struct vks_image source = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image taller = new_image(8, 9, VKS_FORMAT_RGBA8_UNORM, 0), bgra = good, tiny = good;
    bgra.format = VKS_FORMAT_BGRA8_UNORM;
    tiny.size -= 1;
    struct vks_program *program = program_of(VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM);
    vks_program_clear(program, 0, red);
    vks_program_composite(program, 1, 0, 0, 0, 1, VKS_PREMULTIPLIED, false);
    const struct {
        struct vks_image images[2];
        uint32_t count;
        int expected;
    } cases[] = {
        {{good, taller}, 2, VKS_RASTER_IMAGE_MISMATCH}, {{bgra, source}, 2, VKS_RASTER_IMAGE_MISMATCH},
        {{good, source}, 1, VKS_RASTER_IMAGE_MISMATCH}, {{tiny, source}, 2, VKS_RASTER_BAD_IMAGE},
        {{good, good}, 2, VKS_RASTER_OVERLAP},
    };
    for (int i = 0; i < 5; i++) {
        int status = vks_program_run(program, cases[i].images, cases[i].count, NULL);
        CHECK(status == cases[i].expected, "case %d gave %d", i, status);
        CHECK(same_pixels(&good, &before), "case %d wrote", i);
    }
    GIVES(IMAGE_MISMATCH, vks_program_run(program, NULL, 2, NULL));
    vks_program_destroy(program);
    free_image(&good);
    free_image(&source);
    free_image(&taller);
    free_image(&before);
}

static void a_program_may_hold_thousands_of_operations(void)
{
    struct vks_image image = new_image(100, 100, VKS_FORMAT_R32_FLOAT, 0);
    struct vks_program *program = vks_program_create();
    vks_program_image(program, 100, 100, VKS_FORMAT_R32_FLOAT);
    for (int i = 0; i < 10000; i++) {
        const float colour[4] = {(float)i, 0, 0, 1};
        GIVES(OK, vks_program_fill_rect(program, 0, i % 100, i / 100, 1, 1, colour));
    }
    GIVES(OK, vks_program_run(program, &image, 1, NULL));
    for (uint32_t i = 0; i < 10000; i++) {
        float v;
        memcpy(&v, pixel_at(&image, i % 100, i / 100), sizeof v);
        CHECK(v == (float)i, "pixel %u is %g", i, (double)v);
    }
    vks_program_destroy(program);
    free_image(&image);
}

#define WIDE 4000 // a band of rows.c has eight of its rows
#define TALL 61

struct window {
    int32_t x, y;
    float opacity;
};

// A clear, forty windows at random places, the extremes among them, and fills between: more than go down together.
static void random_windows(struct window *windows, int count)
{
    static const int32_t extremes[] = {INT32_MIN, INT32_MIN + 7, -30, 0, TALL - 1, INT32_MAX};
    for (int i = 0; i < count; i++) {
        windows[i].x = random_between(-200, WIDE);
        windows[i].y = i % 7 == 3 ? extremes[random_between(0, 5)] : random_between(-40, TALL);
        windows[i].opacity = i % 3 == 0 ? 1.0f : random_unit();
    }
}

static void windows_that_go_down_the_target_together_look_as_one_after_the_other(void)
{
    enum { COUNT = 40 };
    static const uint32_t targets[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB};
    struct vks_pool *pool;
    CHECK(vks_pool_create(3, &pool) == 0, "no pool");
    for (int format = 0; format < 3; format++) {
        struct vks_image from = new_image(300, 50, VKS_FORMAT_RGBA8_UNORM, 0);
        struct vks_image direct = new_image(WIDE, TALL, targets[format], 4),
                         together = new_image(WIDE, TALL, targets[format], 4);
        fill_with_noise(&from);
        struct vks_program *program = vks_program_create();
        vks_program_image(program, 300, 50, VKS_FORMAT_RGBA8_UNORM);
        vks_program_image(program, WIDE, TALL, targets[format]);
        struct window windows[COUNT];
        random_windows(windows, COUNT);
        vks_raster_clear(&direct, red, NULL);
        GIVES(OK, vks_program_clear(program, 1, red));
        for (int i = 0; i < COUNT; i++) {
            const struct window *w = &windows[i];
            vks_raster_fill_rect(&direct, w->x - 9, w->y, 99, 5, half_green, NULL);
            vks_raster_composite(&from, &direct, w->x, w->y, w->opacity, VKS_PREMULTIPLIED, NULL);
            GIVES(OK, vks_program_fill_rect(program, 1, w->x - 9, w->y, 99, 5, half_green));
            GIVES(OK, vks_program_composite(program, 0, 1, w->x, w->y, w->opacity, VKS_PREMULTIPLIED, false));
        }
        const struct vks_image images[2] = {from, together};
        for (int threads = 0; threads < 2; threads++) {
            GIVES(OK, vks_program_run(program, images, 2, threads ? pool : NULL));
            CHECK(same_pixels(&direct, &together), "format %d differs, threads %d", format, threads);
            CHECK(guards_are_whole(&together), "wrote outside");
        }
        vks_program_destroy(program);
        free_image(&from);
        free_image(&direct);
        free_image(&together);
    }
    vks_pool_destroy(pool);
}

static void codes_of_an_srgb_source_are_composited_as_those_of_any_other(void)
{
    struct vks_image codes = new_image(WIDE, TALL, VKS_FORMAT_RGBA8_UNORM_SRGB, 0), plain = codes;
    static const uint32_t formats[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA16_FLOAT};
    fill_with_noise(&codes);
    plain.format = VKS_FORMAT_RGBA8_UNORM;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct vks_image expected = new_image(WIDE, TALL, formats[i], 0), drawn = new_image(WIDE, TALL, formats[i], 0);
        memset(expected.pixels, 0, expected.size);
        memset(drawn.pixels, 0, drawn.size);
        vks_raster_composite(&plain, &expected, 3, -2, 0.6f, VKS_PREMULTIPLIED, NULL);
        struct vks_program *program = vks_program_create();
        vks_program_image(program, WIDE, TALL, VKS_FORMAT_RGBA8_UNORM_SRGB);
        vks_program_image(program, WIDE, TALL, formats[i]);
        GIVES(OK, vks_program_composite(program, 0, 1, 3, -2, 0.6f, VKS_PREMULTIPLIED, true));
        GIVES(OK, vks_program_run(program, (const struct vks_image[]){codes, drawn}, 2, NULL));
        CHECK(memcmp(drawn.pixels, expected.pixels, drawn.size) == 0, "format %u", formats[i]);
        vks_program_destroy(program);
        free_image(&drawn);
        free_image(&expected);
    }
    free_image(&codes);
}

static void what_is_drawn_into_in_between_is_read_as_it_is_then(void)
{
    struct vks_image a = new_image(WIDE, TALL, VKS_FORMAT_RGBA8_UNORM, 0), b = clone_image(&a);
    struct vks_program *program = vks_program_create();
    vks_program_image(program, WIDE, TALL, VKS_FORMAT_RGBA8_UNORM);
    vks_program_image(program, WIDE, TALL, VKS_FORMAT_RGBA8_UNORM);
    const float blue[4] = {0, 0, 1, 1};
    GIVES(OK, vks_program_clear(program, 0, red));
    GIVES(OK, vks_program_composite(program, 0, 1, 0, 0, 1, VKS_PREMULTIPLIED, false)); // red
    GIVES(OK, vks_program_clear(program, 0, blue));
    GIVES(OK, vks_program_composite(program, 1, 0, 0, TALL / 2, 1, VKS_PREMULTIPLIED,
                                    false)); // red in the lower half of what is blue
    const struct vks_image images[2] = {a, b};
    GIVES(OK, vks_program_run(program, images, 2, NULL));
    static const uint8_t bytes[2][4] = {{0, 0, 255, 255}, {255, 0, 0, 255}};
    for (uint32_t y = 0; y < TALL; y++)
        CHECK(memcmp(pixel_at(&a, 17, y), bytes[y >= TALL / 2], 4) == 0, "row %u", y);
    vks_program_destroy(program);
    free_image(&a);
    free_image(&b);
}

// A slot of bytes beside an image: rows go there and back, and between bytes, and wrong copies are refused.
static void bytes_are_copied_from_and_to_images_and_each_other(void) // rules: E5
{
    enum { SIZE = (1 << 20) + 3 };
    static uint8_t one[SIZE], two[SIZE];
    struct vks_image image = new_image(16, 8, VKS_FORMAT_RGBA8_UNORM, 12);
    struct vks_image from = {.pixels = one, .size = SIZE, .format = VKS_FORMAT_NONE};
    struct vks_image to = {.pixels = two, .size = SIZE, .format = VKS_FORMAT_NONE};
    struct vks_program *p = vks_program_create();
    for (size_t i = 0; i < SIZE; i++)
        one[i] = (uint8_t)(i * 7 + i / 256);
    GIVES(OK, vks_program_bytes(p, SIZE));
    CHECK(vks_program_image(p, 16, 8, VKS_FORMAT_RGBA8_UNORM) == 1 && vks_program_bytes(p, SIZE) == 2, "three slots");
    struct vks_byte_rows rows = {.source_offset = 5, .stride = 50, .x = 2, .y = 1, .width = 9, .height = 6};
    struct vks_byte_rows back = {.target_offset = 11, .stride = 36, .x = 2, .y = 1, .width = 9, .height = 6};
    struct vks_byte_rows plain = {.source_offset = 1, .target_offset = 300, .size = SIZE - 300};
    GIVES(OK, vks_program_copy_bytes(p, 0, 1, &rows));
    GIVES(OK, vks_program_copy_bytes(p, 0, 2, &plain));
    GIVES(OK, vks_program_copy_bytes(p, 1, 2, &back));
    struct vks_pool *pool = NULL;
    CHECK(vks_pool_create(2, &pool) == 0, "a pool");
    GIVES(OK, vks_program_run(p, (struct vks_image[]){from, image, to}, 3, pool));
    vks_pool_destroy(pool);
    for (size_t y = 0; y < 6; y++)
        CHECK(!memcmp(two + 11 + y * 36, one + 5 + y * 50, 36), "row %zu", y);
    CHECK(!memcmp(two + 300, one + 1, SIZE - 300) && !two[10] && !two[299], "the plain bytes, and no other");
    CHECK(guards_are_whole(&image), "the padding of the rows");
    struct vks_image short_of_one = {.pixels = two, .size = SIZE - 1, .format = VKS_FORMAT_NONE};
    struct vks_image same = {.pixels = one + 100, .size = SIZE, .format = VKS_FORMAT_NONE};
    GIVES(IMAGE_MISMATCH, vks_program_run(p, (struct vks_image[]){from, image, short_of_one}, 3, NULL));
    GIVES(IMAGE_MISMATCH, vks_program_run(p, (struct vks_image[]){from, image, image}, 3, NULL));
    GIVES(OVERLAP, vks_program_run(p, (struct vks_image[]){from, image, same}, 3, NULL));

    const struct vks_byte_rows wrong[] = {
        {.source_offset = SIZE - 35, .stride = 36, .width = 9, .height = 1},
        {.source_offset = UINT64_MAX, .stride = 36, .width = 9, .height = 1},
        {.source_offset = 0, .stride = UINT64_MAX / 4, .width = 9, .height = 8},
        {.source_offset = 0, .stride = 35, .width = 9, .height = 1},
        {.stride = 36, .x = 8, .width = 9, .height = 1},
        {.stride = 36, .y = -1, .width = 9, .height = 1},
        {.stride = 36, .width = 9, .height = 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        GIVES(BAD_ARGUMENT, vks_program_copy_bytes(p, 0, 1, &wrong[i]));
    GIVES(BAD_ARGUMENT, vks_program_copy_bytes(p, 0, 2, &(struct vks_byte_rows){.size = SIZE + 1}));
    GIVES(BAD_ARGUMENT, vks_program_copy_bytes(p, 0, 2, NULL));
    GIVES(BAD_SLOT, vks_program_copy_bytes(p, 0, 3, &rows));
    GIVES(OVERLAP, vks_program_copy_bytes(p, 2, 2, &plain));
    GIVES(BAD_IMAGE, vks_program_bytes(p, 0));
    GIVES(BAD_FORMAT, vks_program_clear(p, 0, red));
    GIVES(BAD_FORMAT, vks_program_copy(p, 0, 0, 0, 1, 1, 1, 0, 0));
    GIVES(BAD_FORMAT, vks_program_blit(p, 1, some, 0, some, VKS_FILTER_NEAREST));
    GIVES(BAD_FORMAT, vks_program_composite(p, 0, 1, 0, 0, 1, VKS_PREMULTIPLIED, false));
    GIVES(BAD_FORMAT, vks_program_draw_triangles(p, 1, &triangle_layout, 3, 0, VKS_FILTER_NEAREST, 8, NULL));
    CHECK(vks_program_length(p) == 3, "%u operations", vks_program_length(p));
    vks_program_destroy(p);
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
        TEST(bytes_are_copied_from_and_to_images_and_each_other),
        TEST(windows_that_go_down_the_target_together_look_as_one_after_the_other),
        TEST(codes_of_an_srgb_source_are_composited_as_those_of_any_other),
        TEST(what_is_drawn_into_in_between_is_read_as_it_is_then),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
