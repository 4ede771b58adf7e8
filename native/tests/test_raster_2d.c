// clear, fill_rect and copy, pixel by pixel; and what all operations on rectangles have in common.
#include "test_raster.h"

static struct vks_pool *pool;

static const float nothing[4] = {0, 0, 0, 0}, colour[4] = {1, 0.5f, 0.25f, 0.3f};

static void clear_sets_every_pixel_of_every_format(void)
{
    for (size_t f = 0; f < FORMATS; f++) {
        struct vks_image image = new_image(67, 41, all_formats[f], 13);
        uint8_t expected[16];
        vks_pack_colour(image.format, colour, expected);
        CHECK(vks_raster_clear(&image, colour, NULL) == VKS_RASTER_OK, "format %u", image.format);
        for (int y = 0; y < 41; y++)
            for (int x = 0; x < 67; x++)
                CHECK(is_pixel(&image, x, y, expected), "format %u, pixel %d, %d", image.format, x, y);
        CHECK(guards_are_whole(&image), "format %u wrote outside", image.format);
        free_image(&image);
    }
}

static void fill_rect_touches_just_the_clipped_rectangle(void)
{
    for (int round = 0; round < ROUNDS(3000); round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        int width = random_between(1, 40), height = random_between(1, 40);
        struct vks_image image = new_image((uint32_t)width, (uint32_t)height, format, 5);
        int x = random_between(-50, 50), y = random_between(-50, 50);
        int w = random_between(-5, 60), h = random_between(-5, 60);
        uint8_t inside[16], outside[16];
        vks_pack_colour(format, colour, inside);
        vks_pack_colour(format, nothing, outside);
        vks_raster_clear(&image, nothing, NULL);
        CHECK(vks_raster_fill_rect(&image, x, y, w, h, colour, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int py = 0; py < height; py++)
            for (int px = 0; px < width; px++) {
                int in = px >= x && px < x + w && py >= y && py < y + h;
                CHECK(is_pixel(&image, px, py, in ? inside : outside), "pixel %d, %d of rectangle %d, %d, %d x %d", px,
                      py, x, y, w, h);
            }
        CHECK(guards_are_whole(&image), "round %d wrote outside", round);
        free_image(&image);
    }
}

static void copy_moves_bytes_where_both_images_have_pixels(void)
{
    for (int round = 0; round < ROUNDS(3000); round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        int from_w = random_between(1, 30), from_h = random_between(1, 30);
        int to_w = random_between(1, 30), to_h = random_between(1, 30);
        struct vks_image from = new_image((uint32_t)from_w, (uint32_t)from_h, format, 3);
        struct vks_image to = new_image((uint32_t)to_w, (uint32_t)to_h, format, round % 2 ? 0 : 9);
        fill_with_noise(&from);
        fill_with_noise(&to);
        struct vks_image before = clone_image(&to);
        int sx = random_between(-35, 35), sy = random_between(-35, 35);
        int w = random_between(-3, 50), h = random_between(-3, 50);
        int dx = random_between(-35, 35), dy = random_between(-35, 35);
        CHECK(vks_raster_copy(&from, sx, sy, w, h, &to, dx, dy, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int y = 0; y < to_h; y++)
            for (int x = 0; x < to_w; x++) {
                int u = x - dx + sx, v = y - dy + sy;
                int in = x >= dx && x < dx + w && y >= dy && y < dy + h && u >= 0 && v >= 0 && u < from_w && v < from_h;
                const uint8_t *expected =
                    in ? pixel_at(&from, (uint32_t)u, (uint32_t)v) : pixel_at(&before, (uint32_t)x, (uint32_t)y);
                CHECK(is_pixel(&to, x, y, expected), "round %d, pixel %d, %d", round, x, y);
            }
        CHECK(guards_are_whole(&to), "round %d wrote outside", round);
        free_image(&from);
        free_image(&to);
        free_image(&before);
    }
}

static void rectangles_at_the_ends_of_int32_are_clipped(void)
{
    struct vks_image image = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image other = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    const int32_t ends[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
    vks_raster_clear(&other, nothing, NULL);
    for (int i = 0; i < 7 * 7 * 7; i++) {
        int32_t a = ends[i % 7], b = ends[i / 7 % 7], c = ends[i / 49];
        CHECK(vks_raster_fill_rect(&image, a, b, c, c, nothing, NULL) == VKS_RASTER_OK, "fill");
        CHECK(vks_raster_copy(&other, a, b, c, c, &image, b, a, NULL) == VKS_RASTER_OK, "copy");
        CHECK(vks_raster_composite(&other, &image, a, b, 0.5f, VKS_PREMULTIPLIED, NULL) == VKS_RASTER_OK, "composite");
        struct vks_blit_rect r = {a, b, c, a}, whole = {0, 0, 8, 8};
        int status = vks_raster_blit(&other, r, &image, whole, VKS_FILTER_LINEAR, NULL);
        CHECK(status == VKS_RASTER_OK || status == VKS_RASTER_BAD_ARGUMENT, "blit says %d", status);
        status = vks_raster_blit(&other, whole, &image, r, VKS_FILTER_NEAREST, NULL);
        CHECK(status == VKS_RASTER_OK || status == VKS_RASTER_BAD_ARGUMENT, "blit says %d", status);
    }
    CHECK(guards_are_whole(&image), "wrote outside");
    free_image(&image);
    free_image(&other);
}

static void draw_everything(const struct vks_image *to, const struct vks_image *from, struct vks_pool *threads)
{
    int w = (int)to->width, h = (int)to->height;
    const struct vks_blit_rect upside_down = {w, 0, 0, h / 2}, left = {10, 10, w / 2, h};
    const struct vks_blit_rect all = {0, 0, w, h}, right = {w, 0, w / 2, h};
    vks_raster_clear(to, colour, threads);
    vks_raster_fill_rect(to, 5, 7, w - 20, h - 30, (float[4]){0.7f, 0.1f, 0.3f, 0.5f}, threads);
    vks_raster_composite(from, to, 3, -5, 1.0f, VKS_PREMULTIPLIED, threads);
    vks_raster_composite(from, to, -40, 11, 0.37f, VKS_PREMULTIPLIED, threads);
    vks_raster_blit(from, upside_down, to, left, VKS_FILTER_LINEAR, threads);
    vks_raster_blit(from, all, to, right, VKS_FILTER_NEAREST, threads);
    if (from->format == to->format)
        vks_raster_copy(from, 0, 0, w / 3, h, to, w / 3, 0, threads);
}

static void results_are_the_same_for_every_instruction_set_and_thread_count(void)
{
    const uint32_t formats[][2] = {
        {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM},      {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM},
        {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB}, {VKS_FORMAT_RGBA16_FLOAT, VKS_FORMAT_RGBA16_FLOAT},
        {VKS_FORMAT_R8_UNORM, VKS_FORMAT_RGBA32_FLOAT},
    };
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct vks_image from = new_image(517, 403, formats[f][0], 4);
        struct vks_image expected = new_image(517, 403, formats[f][1], 4), got = new_image(517, 403, formats[f][1], 4);
        fill_with_noise(&from);
        vks_cpu_limit_isa(VKS_ISA_PORTABLE);
        draw_everything(&expected, &from, NULL);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++)
            for (int threads = 0; threads < 2; threads++) {
                vks_cpu_limit_isa((enum vks_isa)isa);
                draw_everything(&got, &from, threads ? pool : NULL);
                CHECK(same_pixels(&expected, &got), "formats %u to %u, instruction set %d, threads %d", from.format,
                      got.format, isa, threads);
            }
        CHECK(guards_are_whole(&got), "wrote outside");
        free_image(&from);
        free_image(&expected);
        free_image(&got);
    }
}

static void images_that_do_not_fit_their_memory_are_refused(void)
{
    struct vks_image good = new_image(16, 16, VKS_FORMAT_RGBA8_UNORM, 0), bad[10];
    const struct vks_blit_rect r = {0, 0, 1, 1};
    for (int i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].pixels = NULL;
    bad[1].width = 0;
    bad[2].height = 0;
    bad[3].stride = 63;
    bad[4].size = 16 * 64 - 1;
    bad[5].stride = SIZE_MAX / 4;
    bad[6].width = VKS_RASTER_MAX_EXTENT + 1;
    bad[7].height = UINT32_MAX;
    bad[8].size = 0;
    bad[9].format = 77;
    for (int i = 0; i < 10; i++) {
        int expected = i == 9 ? VKS_RASTER_BAD_FORMAT : VKS_RASTER_BAD_IMAGE;
        CHECK(vks_image_check(&bad[i]) == expected, "image %d passes", i);
        CHECK(vks_raster_clear(&bad[i], colour, NULL) == expected, "clear takes image %d", i);
        CHECK(vks_raster_copy(&bad[i], 0, 0, 1, 1, &good, 0, 0, NULL) == expected, "copy takes source %d", i);
        CHECK(vks_raster_copy(&good, 0, 0, 1, 1, &bad[i], 0, 0, NULL) == expected, "copy takes target %d", i);
        CHECK(vks_raster_composite(&good, &bad[i], 0, 0, 1, VKS_PREMULTIPLIED, NULL) == expected,
              "composite takes target %d", i);
        int status = vks_raster_blit(&bad[i], r, &good, r, VKS_FILTER_NEAREST, NULL);
        CHECK(status == expected, "blit takes source %d", i);
    }
    CHECK(vks_raster_clear(NULL, colour, NULL) == VKS_RASTER_BAD_IMAGE, "NULL image");
    CHECK(vks_raster_clear(&good, NULL, NULL) == VKS_RASTER_BAD_ARGUMENT, "NULL colour");
    good.size = 15 * 64 + 64; // the last row needs no padding after it
    CHECK(vks_image_check(&good) == VKS_RASTER_OK, "a tight size is refused");
    free_image(&good);
}

/* rules: E6 */
static void integers_are_filled_and_copied_and_nothing_else_takes_them(void)
{
    struct vks_image a = new_image(16, 16, VKS_FORMAT_R32_UINT, 4), b = new_image(16, 16, VKS_FORMAT_R32_UINT, 0);
    struct vks_image colours = new_image(16, 16, VKS_FORMAT_R32_FLOAT, 0);
    const struct vks_blit_rect r = {0, 0, 4, 4};
    const float corners[24] = {-1, -1, 0, 1, 0, 0, 0, 0, 1, -1, 0, 1, 1, 0, 0, 0, -1, 1, 0, 1, 0, 1, 0, 0};
    const struct vks_vertex_layout layout = {corners, 8, 0, -1, 4};
    uint32_t code = 0x7f800001u; // the bits of a signalling NaN
    float bits[4] = {0, 1, 1, 1};
    memcpy(bits, &code, sizeof code);
    CHECK(vks_raster_clear(&a, bits, NULL) == VKS_RASTER_OK, "clear");
    CHECK(vks_raster_copy(&a, 0, 0, 16, 16, &b, 0, 0, NULL) == VKS_RASTER_OK, "copy");
    CHECK(is_pixel(&b, 0, 0, &code) && is_pixel(&b, 15, 15, &code) && same_pixels(&a, &b), "the bits changed");
    struct vks_image before = clone_image(&a);
    const int refused[] = {
        vks_raster_blit(&b, r, &a, r, VKS_FILTER_NEAREST, NULL),
        vks_raster_blit(&colours, r, &a, r, VKS_FILTER_NEAREST, NULL),
        vks_raster_blit(&a, r, &colours, r, VKS_FILTER_LINEAR, NULL),
        vks_raster_composite(&colours, &a, 0, 0, 1, VKS_PREMULTIPLIED, NULL),
        vks_raster_composite(&a, &colours, 0, 0, 1, VKS_STRAIGHT, NULL),
        vks_raster_draw_triangles(&a, &layout, 3, NULL, VKS_FILTER_NEAREST, 8, NULL, NULL),
        vks_raster_draw_triangles(&colours, &layout, 3, &a, VKS_FILTER_NEAREST, 8, NULL, NULL),
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK(refused[i] == VKS_RASTER_BAD_FORMAT, "command %zu gives %d", i, refused[i]);
    CHECK(same_pixels(&a, &before), "a refused command wrote");
    free_image(&a);
    free_image(&b);
    free_image(&colours);
    free_image(&before);
}

static void wrong_arguments_are_refused_and_write_nothing(void)
{
    struct vks_image a = new_image(16, 16, VKS_FORMAT_RGBA8_UNORM, 0), b = new_image(16, 16, VKS_FORMAT_R8_UNORM, 0);
    struct vks_image before = clone_image(&a), part = a;
    part.height = 4;
    part.size = 4 * part.stride;
    const struct vks_blit_rect r = {0, 0, 4, 4};
    const float opacities[] = {NAN, -0.01f, 1.01f, INFINITY};
    for (int i = 0; i < 4; i++) {
        int status = vks_raster_composite(&b, &a, 0, 0, opacities[i], VKS_PREMULTIPLIED, NULL);
        CHECK(status == VKS_RASTER_BAD_ARGUMENT, "opacity %g", (double)opacities[i]);
    }
    CHECK(vks_raster_copy(&b, 0, 0, 4, 4, &a, 0, 0, NULL) == VKS_RASTER_FORMAT_MISMATCH, "formats differ");
    CHECK(vks_raster_copy(&part, 0, 0, 4, 4, &a, 0, 8, NULL) == VKS_RASTER_OVERLAP, "copy within an image");
    CHECK(vks_raster_composite(&a, &a, 0, 0, 1, VKS_PREMULTIPLIED, NULL) == VKS_RASTER_OVERLAP,
          "composite onto itself");
    CHECK(vks_raster_blit(&a, r, &part, r, VKS_FILTER_NEAREST, NULL) == VKS_RASTER_OVERLAP, "blit within an image");
    CHECK(vks_raster_blit(&b, r, &a, r, (enum vks_filter)7, NULL) == VKS_RASTER_BAD_ARGUMENT, "filter 7");
    CHECK(same_pixels(&a, &before), "something was written");
    for (int status = 1; status > -12; status--)
        CHECK(strlen(vks_raster_status_text(status)) > 0, "status %d has no text", status);
    free_image(&a);
    free_image(&b);
    free_image(&before);
}

int main(void)
{
    if (vks_pool_create(3, &pool) != 0)
        return 1;
    const struct test tests[] = {
        TEST(clear_sets_every_pixel_of_every_format),
        TEST(fill_rect_touches_just_the_clipped_rectangle),
        TEST(copy_moves_bytes_where_both_images_have_pixels),
        TEST(rectangles_at_the_ends_of_int32_are_clipped),
        TEST(results_are_the_same_for_every_instruction_set_and_thread_count),
        TEST(images_that_do_not_fit_their_memory_are_refused),
        TEST(integers_are_filled_and_copied_and_nothing_else_takes_them),
        TEST(wrong_arguments_are_refused_and_write_nothing),
    };
    int failed = run_tests(tests, sizeof tests / sizeof tests[0]);
    vks_pool_destroy(pool);
    return failed;
}
