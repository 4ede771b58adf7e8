// blit against Vulkan's formulas, in integers for nearest and in double for linear.
#include "test_raster.h"

struct blit_case {
    struct vks_image from, to, before;
    struct vks_blit_rect source, target;
};

// Corners in any order, some outside the images.
static struct vks_blit_rect random_rect(int low, int high_x, int high_y)
{
    return (struct vks_blit_rect){random_between(low, high_x), random_between(low, high_y), random_between(low, high_x),
                                  random_between(low, high_y)};
}

static struct blit_case random_blit(uint32_t from_format, uint32_t to_format)
{
    struct blit_case c;
    c.from = new_image((uint32_t)random_between(1, 40), (uint32_t)random_between(1, 40), from_format, 4);
    c.to = new_image((uint32_t)random_between(1, 100), (uint32_t)random_between(1, 40), to_format, 8);
    fill_with_noise(&c.from);
    fill_with_noise(&c.to);
    c.before = clone_image(&c.to);
    c.source = random_rect(-4, 44, 44);
    c.target = random_rect(-20, 120, 60);
    return c;
}

static void free_blit(struct blit_case *c)
{
    free_image(&c->from);
    free_image(&c->to);
    free_image(&c->before);
}

static int is_between(int x, int a, int b) { return a < b ? x >= a && x < b : x >= b && x < a; }

static int blit_covers(const struct blit_case *c, int x, int y)
{
    return is_between(x, c->target.x0, c->target.x1) && is_between(y, c->target.y0, c->target.y1) &&
           c->source.x0 != c->source.x1 && c->source.y0 != c->source.y1;
}

// floor(a / b) for any signs
static long long floor_div(long long a, long long b)
{
    long long q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int nearest_index(int x, int d0, int d1, int s0, int s1, uint32_t limit)
{
    return clamp_to((int)(floor_div((2LL * (x - d0) + 1) * (s1 - s0), 2LL * (d1 - d0)) + s0), (int)limit);
}

static void nearest_pixel(const struct blit_case *c, int x, int y, uint8_t out[16])
{
    memcpy(out, pixel_at(&c->before, (uint32_t)x, (uint32_t)y), vks_format_bytes(c->to.format));
    if (!blit_covers(c, x, y))
        return;
    int u = nearest_index(x, c->target.x0, c->target.x1, c->source.x0, c->source.x1, c->from.width);
    int v = nearest_index(y, c->target.y0, c->target.y1, c->source.y0, c->source.y1, c->from.height);
    float rgba[4];
    get_pixel(&c->from, (uint32_t)u, (uint32_t)v, rgba);
    vks_pack_colour(c->to.format, rgba, out);
}

static void nearest_reads_the_pixel_that_vulkan_names(void)
{
    for (int round = 0; round < ROUNDS(6000); round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        uint32_t other = round % 2 ? format : all_formats[random_u32() % FORMATS];
        struct blit_case c = random_blit(format, other);
        int status = vks_raster_blit(&c.from, c.source, &c.to, c.target, VKS_FILTER_NEAREST, NULL);
        CHECK(status == VKS_RASTER_OK, "round %d gave %d", round, status);
        for (int y = 0; y < (int)c.to.height; y++)
            for (int x = 0; x < (int)c.to.width; x++) {
                uint8_t expected[16];
                nearest_pixel(&c, x, y, expected);
                CHECK(is_pixel(&c.to, x, y, expected), "round %d, formats %u to %u, pixel %d, %d", round, format, other,
                      x, y);
            }
        CHECK(guards_are_whole(&c.to), "round %d wrote outside", round);
        free_blit(&c);
    }
}

static void linear_sample(const struct vks_image *image, double u, double v, double out[4])
{
    int x = (int)floor(u - 0.5), y = (int)floor(v - 0.5);
    double fx = u - 0.5 - x, fy = v - 0.5 - y;
    float p[4][4];
    for (int i = 0; i < 4; i++) {
        int px = clamp_to(x + (i & 1), (int)image->width), py = clamp_to(y + (i >> 1), (int)image->height);
        get_pixel(image, (uint32_t)px, (uint32_t)py, p[i]);
    }
    for (int c = 0; c < 4; c++) {
        double top = p[0][c] * (1 - fx) + p[1][c] * fx, bottom = p[2][c] * (1 - fx) + p[3][c] * fx;
        out[c] = top * (1 - fy) + bottom * fy;
    }
}

static double coordinate(int x, int d0, int d1, int s0, int s1) { return (x + 0.5 - d0) * (s1 - s0) / (d1 - d0) + s0; }

static void linear_is_within_a_rounding_of_the_real_number(void)
{
    for (int round = 0; round < ROUNDS(3000); round++) {
        uint32_t format = all_formats[random_u32() % FORMATS], other = all_formats[random_u32() % FORMATS];
        struct blit_case c = random_blit(format, other);
        int status = vks_raster_blit(&c.from, c.source, &c.to, c.target, VKS_FILTER_LINEAR, NULL);
        CHECK(status == VKS_RASTER_OK, "round %d gave %d", round, status);
        for (int y = 0; y < (int)c.to.height; y++)
            for (int x = 0; x < (int)c.to.width; x++) {
                if (!blit_covers(&c, x, y))
                    continue;
                double exact[4], u = coordinate(x, c.target.x0, c.target.x1, c.source.x0, c.source.x1);
                linear_sample(&c.from, u, coordinate(y, c.target.y0, c.target.y1, c.source.y0, c.source.y1), exact);
                for (int k = 0; k < format_components(other); k++)
                    CHECK(steps_off(&c.to, (uint32_t)x, (uint32_t)y, k, exact[k]) <= 0.52,
                          "round %d, formats %u to %u, pixel %d, %d, component %d", round, format, other, x, y, k);
            }
        CHECK(guards_are_whole(&c.to), "round %d wrote outside", round);
        free_blit(&c);
    }
}

static void a_blit_of_equal_extents_is_a_copy_with_either_filter(void)
{
    for (size_t f = 0; f < FORMATS; f++)
        for (int filter = 0; filter < 2; filter++) {
            struct vks_image from = new_image(130, 9, all_formats[f], 0), to = new_image(130, 9, all_formats[f], 0);
            const struct vks_blit_rect whole = {0, 0, 130, 9};
            fill_with_noise(&from);
            vks_raster_blit(&from, whole, &to, whole, (enum vks_filter)filter, NULL);
            CHECK(same_pixels(&from, &to), "format %u, filter %d", all_formats[f], filter);
            free_image(&from);
            free_image(&to);
        }
}

static void raw_nearest_blits_keep_every_bit_of_a_float(void)
{
    struct vks_image from = new_image(64, 64, VKS_FORMAT_RGBA16_FLOAT, 0), to = from;
    struct vks_image target = new_image(64, 64, VKS_FORMAT_RGBA16_FLOAT, 0);
    for (size_t i = 0; i < from.size; i++)
        ((uint8_t *)from.pixels)[i] = (uint8_t)random_u32(); // NaNs of every kind among them
    const struct vks_blit_rect mirrored = {64, 64, 0, 0}, whole = {0, 0, 64, 64};
    vks_raster_blit(&from, mirrored, &target, whole, VKS_FILTER_NEAREST, NULL);
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 64; x++)
            CHECK(is_pixel(&target, x, y, pixel_at(&to, (uint32_t)(63 - x), (uint32_t)(63 - y))), "pixel %d, %d", x, y);
    free_image(&from);
    free_image(&target);
}

int main(void)
{
    const struct test tests[] = {
        TEST(nearest_reads_the_pixel_that_vulkan_names),
        TEST(linear_is_within_a_rounding_of_the_real_number),
        TEST(a_blit_of_equal_extents_is_a_copy_with_either_filter),
        TEST(raw_nearest_blits_keep_every_bit_of_a_float),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
