// composite against source-over in double, and for 8 bits in integers over every value there is.
#include "test_raster.h"

static void check_pixel(const struct vks_image *to, const float s[4], const float d[4], float opacity,
                        enum vks_alpha alpha, int x, int y)
{
    for (int k = 0; k < format_components(to->format); k++) {
        double colour = alpha == VKS_STRAIGHT && k < 3 ? (double)s[k] * s[3] : s[k];
        double exact = colour * opacity + d[k] * (1 - (double)s[3] * opacity);
        exact = is_float(to->format) ? exact : clamp01(exact);
        CHECK(steps_off(to, (uint32_t)x, (uint32_t)y, k, exact) <= 0.52,
              "format %u, opacity %g, alpha %d, pixel %d, %d, component %d", to->format, (double)opacity, alpha, x, y,
              k);
    }
}

static void a_random_composite(uint32_t format, uint32_t other, float opacity, enum vks_alpha alpha)
{
    struct vks_image from = new_image((uint32_t)random_between(1, 150), (uint32_t)random_between(1, 8), format, 4);
    struct vks_image to = new_image((uint32_t)random_between(1, 150), (uint32_t)random_between(1, 8), other, 8);
    fill_with_noise(&from);
    fill_with_noise(&to);
    struct vks_image before = clone_image(&to);
    int dx = random_between(-20, 20), dy = random_between(-3, 3);
    CHECK(vks_raster_composite(&from, &to, dx, dy, opacity, alpha, NULL) == VKS_RASTER_OK, "%u over %u", format, other);
    for (int y = 0; y < (int)to.height; y++)
        for (int x = 0; x < (int)to.width; x++) {
            int u = x - dx, v = y - dy;
            float s[4] = {0}, d[4];
            get_pixel(&before, (uint32_t)x, (uint32_t)y, d);
            if (u >= 0 && v >= 0 && u < (int)from.width && v < (int)from.height)
                get_pixel(&from, (uint32_t)u, (uint32_t)v, s);
            check_pixel(&to, s, d, opacity, alpha, x, y);
        }
    CHECK(guards_are_whole(&to), "%u over %u wrote outside", format, other);
    free_image(&from);
    free_image(&to);
    free_image(&before);
}

static void composite_is_within_a_rounding_of_the_real_number_for_all_formats(void)
{
    for (int round = 0; round < ROUNDS(40) && checks_failed == 0; round++)
        for (size_t f = 0; f < FORMATS; f++)
            for (size_t g = 0; g < FORMATS; g++)
                a_random_composite(all_formats[f], all_formats[g], round % 2 ? 1.0f : random_unit(), round >> 1 & 1);
}

static void an_opacity_between_is_rounded_well_in_both_orders_of_components(void)
{
    const uint32_t formats[2] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM};
    for (int round = 0; round < ROUNDS(2000) && checks_failed == 0; round++)
        a_random_composite(formats[round & 1], formats[round >> 1 & 1], round % 10 ? random_unit() : 1e-4f,
                           round >> 2 & 1);
}

// The expected result for one s, d and a: exact rounding, saturated where s exceeds a.
static int mixed(int s, int d, int a) { return (2 * (s * a + d * (255 - a)) + 255) / 510; }

static void check_row(const struct vks_image *to, int d, int a, int isa, enum vks_alpha alpha)
{
    int kept = (2 * d * (255 - a) + 255) / 510;
    for (int s = 0; s < 256; s++) {
        const uint8_t *p = pixel_at(to, (uint32_t)s, 0);
        const int premultiplied[4] = {s + kept, 255 - s + kept, a + kept, a + kept};
        const int straight[4] = {mixed(s, d, a), mixed(255 - s, d, a), mixed(a, d, a), mixed(255, d, a)};
        const int *expected = alpha == VKS_STRAIGHT ? straight : premultiplied;
        for (int c = 0; c < 4; c++)
            CHECK(p[c] == (expected[c] < 255 ? expected[c] : 255), "instruction set %d: s %d, d %d, a %d gave %d", isa,
                  s, d, a, p[c]);
    }
}

static void every_value_of_8_bits_is_rounded_exactly_by_every_instruction_set(void)
{
    struct vks_image from = new_image(256, 1, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image to = new_image(256, 1, VKS_FORMAT_RGBA8_UNORM, 0);
    for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
        vks_cpu_limit_isa((enum vks_isa)isa);
        for (int a = 0; a < 256; a += BYTE_STEP) {
            for (int s = 0; s < 256; s++) {
                const uint8_t pixel[4] = {(uint8_t)s, (uint8_t)(255 - s), (uint8_t)a, (uint8_t)a};
                memcpy(pixel_at(&from, (uint32_t)s, 0), pixel, 4);
            }
            for (int d = 0; d < 256 && checks_failed == 0; d++) {
                for (int alpha = VKS_PREMULTIPLIED; alpha <= VKS_STRAIGHT; alpha++) {
                    memset(to.pixels, d, 256 * 4);
                    vks_raster_composite(&from, &to, 0, 0, 1.0f, (enum vks_alpha)alpha, NULL);
                    check_row(&to, d, a, isa, (enum vks_alpha)alpha);
                }
            }
        }
    }
    free_image(&from);
    free_image(&to);
}

static void an_empty_source_or_no_opacity_leaves_the_target_as_it_was(void)
{
    for (size_t f = 0; f < FORMATS; f++) {
        struct vks_image from = new_image(200, 3, VKS_FORMAT_RGBA16_FLOAT, 0);
        struct vks_image to = new_image(200, 3, all_formats[f], 0);
        fill_with_noise(&to);
        struct vks_image before = clone_image(&to);
        vks_raster_clear(&from, (float[4]){0}, NULL);
        vks_raster_composite(&from, &to, 0, 0, 1.0f, VKS_PREMULTIPLIED, NULL);
        CHECK(same_pixels(&to, &before), "an empty source changed format %u", all_formats[f]);
        fill_with_noise(&from);
        vks_raster_composite(&from, &to, 0, 0, 0.0f, VKS_PREMULTIPLIED, NULL);
        CHECK(same_pixels(&to, &before), "opacity 0 changed format %u", all_formats[f]);
        free_image(&from);
        free_image(&to);
        free_image(&before);
    }
}

int main(void)
{
    const struct test tests[] = {
        TEST(composite_is_within_a_rounding_of_the_real_number_for_all_formats),
        TEST(an_opacity_between_is_rounded_well_in_both_orders_of_components),
        TEST(every_value_of_8_bits_is_rounded_exactly_by_every_instruction_set),
        TEST(an_empty_source_or_no_opacity_leaves_the_target_as_it_was),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
