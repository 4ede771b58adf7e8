// Planar images in the rasteriser's commands: rules Y3 and Y7.
#include "raster/convert.h"
#include "raster/program.h"
#include "test_raster.h"

static const uint32_t planar_formats[] = {VKS_FORMAT_NV12, VKS_FORMAT_P010, VKS_FORMAT_I420, VKS_FORMAT_NV16,
                                          VKS_FORMAT_YUV444P};

static struct vks_image new_planar(uint32_t format, uint32_t width, uint32_t height)
{
    static const uint8_t matrices[] = {VKS_MATRIX_BT709, VKS_MATRIX_BT601, VKS_MATRIX_BT2020};
    size_t stride = (width * vks_format_bytes(vks_plane_format(format, 0)) + 63) / 64 * 64;
    size_t size = (size_t)vks_planes_bytes(format, vks_format_planes(format), height, stride);
    struct vks_image image = {malloc(size), size, width, height, stride, format, {0}};
    image.color.matrix = matrices[random_u32() % 3];
    image.color.range = (uint8_t)random_between(0, 1);
    image.color.siting = (uint8_t)random_between(0, 2);
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)image.pixels)[i] = (uint8_t)random_u32();
    return image;
}

static struct vks_image any_planar(void)
{
    return new_planar(planar_formats[random_u32() % 5], 2 * (uint32_t)random_between(1, 70),
                      2 * (uint32_t)random_between(1, 20));
}

static struct vks_image new_colours(uint32_t format, uint32_t width, uint32_t height)
{
    size_t stride = width * vks_format_bytes(format) + 16;
    struct vks_image image = {malloc(stride * height), stride * height, width, height, stride, format, {0}};
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            float rgba[4] = {random_unit(), random_unit(), random_unit(), random_unit()};
            vks_pack_colour(format, rgba, vks_pixel_at(&image, x, y));
        }
    return image;
}

static struct vks_image copy_of(const struct vks_image *image)
{
    struct vks_image copy = *image;
    copy.pixels = memcpy(malloc(image->size), image->pixels, image->size);
    return copy;
}

static void read_colour(const struct vks_image *image, uint32_t x, uint32_t y, float rgba[4])
{
    struct vks_ycbcr reader;
    vks_rgba one[1];
    vks_ycbcr_begin(image, &reader);
    vks_ycbcr_read(&reader, x, y, 1, one);
    memcpy(rgba, one[0], sizeof one[0]);
}

static float code_size(uint32_t format)
{
    return format == VKS_FORMAT_RGB10A2_UNORM                                 ? 1 / 1023.0f
           : vks_format_is_float(format) || format == VKS_FORMAT_RGBA16_UNORM ? 1 / 1000.0f
                                                                              : 1 / 255.0f;
}

static const uint32_t targets[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA16_UNORM,
                                   VKS_FORMAT_RGBA32_FLOAT, VKS_FORMAT_RGBA16_FLOAT};

static void a_composite_has_the_converted_colours(void)
{
    for (int round = 0; round < ROUNDS(300); round++) {
        struct vks_image source = any_planar();
        struct vks_image target = new_colours(targets[random_u32() % 5], (uint32_t)random_between(1, 150), 30);
        struct vks_image before = copy_of(&target);
        int32_t at_x = random_between(-40, 40), at_y = random_between(-10, 20);
        float opacity = random_between(0, 1) ? 1.0f : random_unit();
        struct vks_pool *pool = NULL;
        CHECK(vks_raster_composite(&source, &target, at_x, at_y, opacity, VKS_PREMULTIPLIED, pool) == VKS_RASTER_OK,
              "round %d", round);
        for (uint32_t y = 0; y < target.height; y++)
            for (uint32_t x = 0; x < target.width; x++) {
                int64_t sx = (int64_t)x - at_x, sy = (int64_t)y - at_y;
                float old[4], now[4], colour[4];
                vks_unpack_colour(before.format, vks_pixel_at(&before, x, y), old);
                vks_unpack_colour(target.format, vks_pixel_at(&target, x, y), now);
                bool inside = sx >= 0 && sy >= 0 && sx < source.width && sy < source.height;
                if (inside)
                    read_colour(&source, (uint32_t)sx, (uint32_t)sy, colour);
                for (int i = 0; i < 4; i++) {
                    float wanted = inside ? colour[i] * opacity + old[i] * (1 - opacity) : old[i];
                    CHECK(fabsf(now[i] - wanted) <= 1.05f * code_size(target.format),
                          "round %d, %s on %s at %u, %u: %g for %g", round, vks_format_name(source.format),
                          vks_format_name(target.format), x, y, (double)now[i], (double)wanted);
                }
            }
        free(source.pixels), free(target.pixels), free(before.pixels);
        if (checks_failed)
            return;
    }
}

static void a_composite_on_srgb_blends_in_linear_light(void)
{
    struct vks_image source = new_planar(VKS_FORMAT_NV12, 16, 16),
                     target = new_colours(VKS_FORMAT_RGBA8_UNORM_SRGB, 16, 16);
    struct vks_image codes = target, colours;
    struct vks_area all = {0, 0, 16, 16};
    codes.format = VKS_FORMAT_RGBA8_UNORM;
    CHECK(vks_planar_colours(&source, &all, false, NULL, &colours) == VKS_RASTER_OK, "colours");
    CHECK(vks_raster_composite(&source, &target, 0, 0, 1, VKS_PREMULTIPLIED, NULL) == VKS_RASTER_OK, "composite");
    for (uint32_t y = 0; y < 16; y++)
        CHECK(!memcmp(vks_pixel_at(&codes, 0, y), vks_pixel_at(&colours, 0, y), 64), "row %u: codes are as they were",
              y);
    free(source.pixels), free(target.pixels), free(colours.pixels);
}

// As if the source were an image of its colours.
static void blits_and_draws_have_the_converted_colours(void)
{
    for (int round = 0; round < ROUNDS(300); round++) {
        struct vks_image source = any_planar(), expected_source;
        struct vks_image target = new_colours(targets[random_u32() % 5], 90, 40), expected = copy_of(&target);
        struct vks_area all = {0, 0, source.width, source.height};
        CHECK(vks_planar_colours(&source, &all, false, NULL, &expected_source) == VKS_RASTER_OK, "colours");
        enum vks_filter filter = random_between(0, 1) ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
        bool draws = random_between(0, 3) == 0;
        if (draws) {
            static const float corners[] = {-1, -1, 0, 1, 0, 0, 1, -1, 0, 1, 1, 0, -1, 1, 0, 1, 0, 1};
            struct vks_vertex_layout layout = {corners, 6, 0, -1, 4};
            CHECK(vks_raster_draw_triangles(&target, &layout, 3, &source, filter, 8, NULL, NULL) == VKS_RASTER_OK,
                  "draw");
            vks_raster_draw_triangles(&expected, &layout, 3, &expected_source, filter, 8, NULL, NULL);
        } else {
            struct vks_blit_rect from = {random_between(-5, 60), random_between(-5, 20), random_between(0, 140),
                                         random_between(0, 40)};
            struct vks_blit_rect to = {random_between(-10, 40), random_between(-10, 20), random_between(0, 100),
                                       random_between(0, 60)};
            if (random_between(0, 1))
                to = (struct vks_blit_rect){to.x0, to.y0, to.x0 + from.x1 - from.x0, to.y0 + from.y1 - from.y0};
            CHECK(vks_raster_blit(&source, from, &target, to, filter, NULL) == VKS_RASTER_OK, "blit");
            vks_raster_blit(&expected_source, from, &expected, to, filter, NULL);
        }
        for (uint32_t y = 0; y < target.height; y++)
            for (uint32_t x = 0; x < target.width; x++) {
                float now[4], wanted[4];
                vks_unpack_colour(target.format, vks_pixel_at(&target, x, y), now);
                vks_unpack_colour(target.format, vks_pixel_at(&expected, x, y), wanted);
                for (int i = 0; i < 4; i++)
                    CHECK(fabsf(now[i] - wanted[i]) < 1.1f / 255, "round %d, %s on %s at %u, %u: %g for %g", round,
                          vks_format_name(source.format), vks_format_name(target.format), x, y, (double)now[i],
                          (double)wanted[i]);
            }
        free(source.pixels), free(target.pixels), free(expected.pixels), free(expected_source.pixels);
        if (checks_failed)
            return;
    }
}

// ---- to planes ------------------------------------------------------------------------------------------------------

static double mean_at(const struct vks_image *colours, int component, int64_t x, int64_t y)
{
    float rgba[4];
    x = x < 0 ? 0 : x < colours->width ? x : colours->width - 1;
    y = y < 0 ? 0 : y < colours->height ? y : colours->height - 1;
    vks_unpack_colour(colours->format, vks_pixel_at(colours, (uint32_t)x, (uint32_t)y), rgba);
    return rgba[component];
}

static double filtered(const struct vks_image *colours, const struct vks_image *target, int component, int64_t x,
                       int64_t y)
{
    const struct vks_planar_format *planar = vks_planar_format(target->format);
    bool across = planar->x_shift && target->color.siting != VKS_SITING_CENTER;
    bool down = planar->y_shift && target->color.siting == VKS_SITING_TOP_LEFT;
    double sum = 0, total = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            double wx = !planar->x_shift ? dx == 0 : across ? (dx ? 1 : 2) : dx >= 0;
            double wy = !planar->y_shift ? dy == 0 : down ? (dy ? 1 : 2) : dy >= 0;
            sum += wx * wy * mean_at(colours, component, (x << planar->x_shift) + dx, (y << planar->y_shift) + dy);
            total += wx * wy;
        }
    return sum / total;
}

static void judge_planes(const struct vks_image *colours, const struct vks_image *target, int round)
{
    const struct vks_planar_format *planar = vks_planar_format(target->format);
    double kr = target->color.matrix == VKS_MATRIX_BT709   ? 0.2126
                : target->color.matrix == VKS_MATRIX_BT601 ? 0.299
                                                           : 0.2627;
    double kb = target->color.matrix == VKS_MATRIX_BT709   ? 0.0722
                : target->color.matrix == VKS_MATRIX_BT601 ? 0.114
                                                           : 0.0593;
    double step = 1 << (planar->bits - 8), most = (1 << planar->bits) - 1;
    bool is_full = target->color.range == VKS_RANGE_FULL;
    for (uint32_t plane = 0; plane < planar->planes; plane++) {
        struct vks_image image = vks_plane_of(target, plane);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++) {
                double rgb[3];
                for (int i = 0; i < 3; i++)
                    rgb[i] = plane ? filtered(colours, target, i, x, y) : mean_at(colours, i, x, y);
                double luma = kr * rgb[0] + (1 - kr - kb) * rgb[1] + kb * rgb[2];
                double cb = (rgb[2] - luma) / (2 * (1 - kb)), cr = (rgb[0] - luma) / (2 * (1 - kr));
                double wanted[2] = {plane == 0 ? luma : plane == 1 ? cb : cr, cr};
                for (int i = 0; i < (plane == 1 && planar->planes == 2 ? 2 : 1); i++) {
                    double code = plane == 0 ? (is_full ? wanted[0] * most : 16 * step + 219 * step * wanted[0])
                                             : 128 * step + (is_full ? most : 224 * step) * wanted[i];
                    code = code < 0 ? 0 : code > most ? most : code;
                    const uint8_t *p = vks_pixel_at(&image, x, y);
                    int got = planar->bits == 8 ? p[i] : (p[2 * i] | p[2 * i + 1] << 8) >> 6;
                    CHECK(fabs(got - code) <= 0.52, "round %d, %s, plane %u at %u, %u: %d for %g", round,
                          vks_format_name(target->format), plane, x, y, got, code);
                    CHECK(planar->bits == 8 || (p[2 * i] & 63) == 0, "the unused bits are 0");
                }
            }
    }
}

static void colours_become_planes(void)
{
    for (int round = 0; round < ROUNDS(200); round++) {
        struct vks_image target = any_planar();
        struct vks_image source =
            new_colours(round % 2 ? VKS_FORMAT_RGBA8_UNORM : VKS_FORMAT_RGBA16_UNORM, target.width, target.height);
        struct vks_blit_rect all = {0, 0, (int32_t)target.width, (int32_t)target.height};
        CHECK(vks_raster_blit(&source, all, &target, all, VKS_FILTER_NEAREST, NULL) == VKS_RASTER_OK, "blit");
        judge_planes(&source, &target, round);
        free(source.pixels), free(target.pixels);
        if (checks_failed)
            return;
    }
}

static void a_clear_fills_each_plane_and_a_copy_copies_each(void)
{
    for (int round = 0; round < ROUNDS(100); round++) {
        struct vks_image target = any_planar(), other = copy_of(&target);
        struct vks_image colours = new_colours(VKS_FORMAT_RGBA32_FLOAT, target.width, target.height);
        float rgba[4] = {random_unit(), random_unit(), random_unit(), 1};
        for (uint32_t y = 0; y < colours.height; y++)
            for (uint32_t x = 0; x < colours.width; x++)
                memcpy(vks_pixel_at(&colours, x, y), rgba, sizeof rgba);
        CHECK(vks_raster_clear(&target, rgba, NULL) == VKS_RASTER_OK, "clear");
        judge_planes(&colours, &target, round);
        CHECK(vks_raster_copy(&target, 0, 0, (int32_t)target.width, (int32_t)target.height, &other, 0, 0, NULL) ==
                  VKS_RASTER_OK,
              "copy");
        judge_planes(&colours, &other, round);
        free(target.pixels), free(other.pixels), free(colours.pixels);
        if (checks_failed)
            return;
    }
}

static void a_program_has_the_same_pixels(void)
{
    struct vks_image video = new_planar(VKS_FORMAT_NV12, 64, 32), other = new_planar(VKS_FORMAT_I420, 64, 32);
    struct vks_image target = new_colours(VKS_FORMAT_RGBA8_UNORM, 80, 40), expected = copy_of(&target);
    struct vks_program *program = vks_program_create();
    const float grey[4] = {0.5f, 0.5f, 0.5f, 1};
    struct vks_blit_rect all = {0, 0, 64, 32};
    CHECK(vks_program_image(program, 64, 32, VKS_FORMAT_NV12) == 0 &&
              vks_program_image(program, 64, 32, VKS_FORMAT_I420) == 1 &&
              vks_program_image(program, 80, 40, VKS_FORMAT_RGBA8_UNORM) == 2,
          "slots");
    CHECK(vks_program_clear(program, 2, grey) == 0 &&
              vks_program_composite(program, 0, 2, 3, 5, 0.5f, VKS_PREMULTIPLIED, false) == 0 &&
              vks_program_fill_rect(program, 1, 2, 4, 8, 8, grey) == 0 &&
              vks_program_blit(program, 0, all, 1, all, VKS_FILTER_NEAREST) == 0 &&
              vks_program_composite(program, 1, 2, 20, 10, 1, VKS_PREMULTIPLIED, false) == 0,
          "operations");
    CHECK(vks_program_composite(program, 2, 1, 0, 0, 1, VKS_PREMULTIPLIED, false) == VKS_RASTER_BAD_FORMAT,
          "nothing is blended into planes");
    struct vks_image images[] = {video, copy_of(&other), target};
    CHECK(vks_program_run(program, images, 3, NULL) == VKS_RASTER_OK, "run");
    vks_raster_clear(&expected, grey, NULL);
    vks_raster_composite(&video, &expected, 3, 5, 0.5f, VKS_PREMULTIPLIED, NULL);
    vks_raster_fill_rect(&other, 2, 4, 8, 8, grey, NULL);
    vks_raster_blit(&video, all, &other, all, VKS_FILTER_NEAREST, NULL);
    vks_raster_composite(&other, &expected, 20, 10, 1, VKS_PREMULTIPLIED, NULL);
    CHECK(!memcmp(target.pixels, expected.pixels, target.size), "pixels");
    CHECK(!memcmp(images[1].pixels, other.pixels, other.size), "planes");
    vks_program_destroy(program);
    free(video.pixels), free(other.pixels), free(target.pixels), free(expected.pixels), free(images[1].pixels);
}

static void what_does_not_fit_is_refused(void)
{
    const float grey[4] = {0.5f, 0.5f, 0.5f, 1};
    struct vks_image nv12 = new_planar(VKS_FORMAT_NV12, 16, 16), other = copy_of(&nv12), small = nv12;
    struct vks_image colours = new_colours(VKS_FORMAT_RGBA8_UNORM, 16, 16);
    struct vks_blit_rect odd = {1, 0, 9, 8}, even = {0, 0, 8, 8};
    CHECK(vks_raster_copy(&nv12, 1, 0, 4, 4, &other, 0, 0, NULL) == VKS_RASTER_BAD_ARGUMENT, "an odd column");
    CHECK(vks_raster_copy(&nv12, 0, 0, 4, 4, &other, 0, -1, NULL) == VKS_RASTER_BAD_ARGUMENT, "an odd row");
    CHECK(vks_raster_copy(&nv12, 0, 0, 3, 4, &other, 0, 0, NULL) == VKS_RASTER_BAD_ARGUMENT, "an odd width");
    CHECK(vks_raster_copy(&nv12, 2, 2, 400, 400, &other, -4, 0, NULL) == VKS_RASTER_OK, "it is clipped");
    CHECK(vks_raster_fill_rect(&nv12, 0, 1, 2, 2, grey, NULL) == VKS_RASTER_BAD_ARGUMENT, "an odd fill");
    CHECK(vks_raster_blit(&colours, even, &nv12, odd, VKS_FILTER_LINEAR, NULL) == VKS_RASTER_BAD_ARGUMENT,
          "an odd blit");
    CHECK(vks_raster_blit(&nv12, odd, &colours, odd, VKS_FILTER_LINEAR, NULL) == VKS_RASTER_OK, "from odd places");
    CHECK(vks_raster_composite(&colours, &nv12, 0, 0, 1, VKS_STRAIGHT, NULL) == VKS_RASTER_BAD_FORMAT, "a target");
    other.color.range = !nv12.color.range;
    CHECK(vks_raster_copy(&nv12, 0, 0, 4, 4, &other, 0, 0, NULL) == VKS_RASTER_FORMAT_MISMATCH, "another range");
    small.size -= 1;
    CHECK(vks_image_check(&small) == VKS_RASTER_BAD_IMAGE, "a byte is missing");
    small = nv12, small.width = 15;
    CHECK(vks_image_check(&small) == VKS_RASTER_BAD_IMAGE, "an odd width");
    small = nv12, small.height = 15;
    CHECK(vks_image_check(&small) == VKS_RASTER_BAD_IMAGE, "an odd height");
    small = nv12, small.stride = SIZE_MAX / 4 * 4;
    CHECK(vks_image_check(&small) == VKS_RASTER_BAD_IMAGE, "a huge stride");
    small = nv12, small.color.matrix = VKS_MATRIX_RGB;
    CHECK(vks_raster_composite(&small, &colours, 0, 0, 1, VKS_STRAIGHT, NULL) == VKS_RASTER_BAD_ARGUMENT, "no matrix");
    free(nv12.pixels), free(other.pixels), free(colours.pixels);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_composite_has_the_converted_colours),
        TEST(a_composite_on_srgb_blends_in_linear_light),
        TEST(blits_and_draws_have_the_converted_colours),
        TEST(colours_become_planes),
        TEST(a_clear_fills_each_plane_and_a_copy_copies_each),
        TEST(a_program_has_the_same_pixels),
        TEST(what_does_not_fit_is_refused),
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
