// clear, fill_rect, copy, blit and composite against naive references in double, pixel by pixel.
#include "test_raster.h"

static struct vks_pool *pool;

static void clear_sets_every_pixel_of_every_format(void)
{
    for (size_t f = 0; f < FORMATS; f++) {
        struct vks_image image = new_image(67, 41, all_formats[f], 13);
        const float colour[4] = {0.25f, 0.5f, 0.75f, 0.3f};
        uint8_t expected[16];
        vks_pack_colour(image.format, colour, expected);
        CHECK(vks_raster_clear(&image, colour, NULL) == VKS_RASTER_OK, "format %u", image.format);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width; x++)
                CHECK(memcmp(pixel_at(&image, x, y), expected, vks_format_bytes(image.format)) == 0, "pixel %u, %u", x, y);
        CHECK(guards_are_whole(&image), "format %u wrote outside", image.format);
        free_image(&image);
    }
}

static void fill_rect_touches_just_the_clipped_rectangle(void)
{
    for (int round = 0; round < 3000; round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        struct vks_image image = new_image((uint32_t)random_between(1, 40), (uint32_t)random_between(1, 40), format, 5);
        int x = random_between(-50, 50), y = random_between(-50, 50), w = random_between(-5, 60), h = random_between(-5, 60);
        const float black[4] = {0, 0, 0, 0}, colour[4] = {1, 0.5f, 0.25f, 1};
        uint8_t inside[16], outside[16];
        vks_pack_colour(format, colour, inside);
        vks_pack_colour(format, black, outside);
        vks_raster_clear(&image, black, NULL);
        CHECK(vks_raster_fill_rect(&image, x, y, w, h, colour, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int py = 0; py < (int)image.height; py++)
            for (int px = 0; px < (int)image.width; px++) {
                int in = px >= x && px < x + w && py >= y && py < y + h;
                CHECK(memcmp(pixel_at(&image, (uint32_t)px, (uint32_t)py), in ? inside : outside, vks_format_bytes(format)) == 0,
                      "pixel %d, %d of rectangle %d, %d, %d x %d", px, py, x, y, w, h);
            }
        CHECK(guards_are_whole(&image), "round %d wrote outside", round);
        free_image(&image);
    }
}

static void rectangles_at_the_ends_of_int32_are_clipped(void)
{
    struct vks_image image = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0), other = new_image(8, 8, VKS_FORMAT_RGBA8_UNORM, 0);
    const int32_t ends[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
    const float colour[4] = {0};
    vks_raster_clear(&other, colour, NULL);
    for (int i = 0; i < 7 * 7 * 7; i++) {
        int32_t a = ends[i % 7], b = ends[i / 7 % 7], c = ends[i / 49];
        CHECK(vks_raster_fill_rect(&image, a, b, c, c, colour, NULL) == VKS_RASTER_OK, "fill");
        CHECK(vks_raster_copy(&other, a, b, c, c, &image, b, a, NULL) == VKS_RASTER_OK, "copy");
        CHECK(vks_raster_composite(&other, &image, a, b, 0.5f, NULL) == VKS_RASTER_OK, "composite");
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

static void copy_moves_bytes_where_both_images_have_pixels(void)
{
    for (int round = 0; round < 3000; round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        struct vks_image from = new_image((uint32_t)random_between(1, 30), (uint32_t)random_between(1, 30), format, 3);
        struct vks_image to = new_image((uint32_t)random_between(1, 30), (uint32_t)random_between(1, 30), format, round % 2 ? 0 : 9);
        fill_with_noise(&from);
        fill_with_noise(&to);
        struct vks_image before = clone_image(&to);
        int sx = random_between(-35, 35), sy = random_between(-35, 35), w = random_between(-3, 50), h = random_between(-3, 50);
        int dx = random_between(-35, 35), dy = random_between(-35, 35);
        CHECK(vks_raster_copy(&from, sx, sy, w, h, &to, dx, dy, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int y = 0; y < (int)to.height; y++)
            for (int x = 0; x < (int)to.width; x++) {
                int u = x - dx + sx, v = y - dy + sy;
                int in = x >= dx && x < dx + w && y >= dy && y < dy + h && u >= 0 && v >= 0 && u < (int)from.width && v < (int)from.height;
                const uint8_t *expected = in ? pixel_at(&from, (uint32_t)u, (uint32_t)v) : pixel_at(&before, (uint32_t)x, (uint32_t)y);
                CHECK(memcmp(pixel_at(&to, (uint32_t)x, (uint32_t)y), expected, vks_format_bytes(format)) == 0, "pixel %d, %d", x, y);
            }
        CHECK(guards_are_whole(&to), "round %d wrote outside", round);
        free_image(&from);
        free_image(&to);
        free_image(&before);
    }
}

static int clamp_to(int v, int limit)
{
    return v < 0 ? 0 : v < limit ? v : limit - 1;
}

// floor(a / b) for any signs
static long long floor_div(long long a, long long b)
{
    long long q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

struct blit_case {
    struct vks_image from, to, before;
    struct vks_blit_rect source, target;
};

static struct blit_case random_blit(uint32_t from_format, uint32_t to_format)
{
    struct blit_case c;
    c.from = new_image((uint32_t)random_between(1, 40), (uint32_t)random_between(1, 40), from_format, 4);
    c.to = new_image((uint32_t)random_between(1, 100), (uint32_t)random_between(1, 40), to_format, 8);
    fill_with_noise(&c.from);
    fill_with_noise(&c.to);
    c.before = clone_image(&c.to);
    c.source = (struct vks_blit_rect){random_between(-4, 44), random_between(-4, 44), random_between(-4, 44), random_between(-4, 44)};
    c.target = (struct vks_blit_rect){random_between(-20, 120), random_between(-20, 60), random_between(-20, 120), random_between(-20, 60)};
    return c;
}

static void free_blit(struct blit_case *c)
{
    free_image(&c->from);
    free_image(&c->to);
    free_image(&c->before);
}

static int is_inside(int x, int a, int b)
{
    return a < b ? x >= a && x < b : x >= b && x < a;
}

static int blit_covers(const struct blit_case *c, int x, int y)
{
    return is_inside(x, c->target.x0, c->target.x1) && is_inside(y, c->target.y0, c->target.y1) &&
           c->source.x0 != c->source.x1 && c->source.y0 != c->source.y1;
}

static int nearest_index(int x, int d0, int d1, int s0, int s1, int limit)
{
    return clamp_to((int)(floor_div((2LL * (x - d0) + 1) * (s1 - s0), 2LL * (d1 - d0)) + s0), limit);
}

static void nearest_blit_reads_the_pixel_that_vulkan_names(void)
{
    for (int round = 0; round < 6000; round++) {
        uint32_t format = all_formats[random_u32() % FORMATS];
        uint32_t other = round % 2 ? format : all_formats[random_u32() % FORMATS];
        struct blit_case c = random_blit(format, other);
        CHECK(vks_raster_blit(&c.from, c.source, &c.to, c.target, VKS_FILTER_NEAREST, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int y = 0; y < (int)c.to.height; y++)
            for (int x = 0; x < (int)c.to.width; x++) {
                uint8_t expected[16];
                memcpy(expected, pixel_at(&c.before, (uint32_t)x, (uint32_t)y), vks_format_bytes(other));
                if (blit_covers(&c, x, y)) {
                    int u = nearest_index(x, c.target.x0, c.target.x1, c.source.x0, c.source.x1, (int)c.from.width);
                    int v = nearest_index(y, c.target.y0, c.target.y1, c.source.y0, c.source.y1, (int)c.from.height);
                    float rgba[4];
                    get_pixel(&c.from, (uint32_t)u, (uint32_t)v, rgba);
                    vks_pack_colour(other, rgba, expected);
                }
                CHECK(memcmp(pixel_at(&c.to, (uint32_t)x, (uint32_t)y), expected, vks_format_bytes(other)) == 0,
                      "round %d, formats %u to %u, pixel %d, %d", round, format, other, x, y);
            }
        CHECK(guards_are_whole(&c.to), "round %d wrote outside", round);
        free_blit(&c);
    }
}

static void linear_pixel(const struct vks_image *image, double u, double v, double out[4])
{
    int x = (int)floor(u - 0.5), y = (int)floor(v - 0.5);
    double fx = u - 0.5 - x, fy = v - 0.5 - y;
    float p[4][4];
    for (int i = 0; i < 4; i++)
        get_pixel(image, (uint32_t)clamp_to(x + (i & 1), (int)image->width), (uint32_t)clamp_to(y + (i >> 1), (int)image->height), p[i]);
    for (int c = 0; c < 4; c++) {
        double top = p[0][c] * (1 - fx) + p[1][c] * fx, bottom = p[2][c] * (1 - fx) + p[3][c] * fx;
        out[c] = top * (1 - fy) + bottom * fy;
    }
}


static double encode_srgb(double v)
{
    return v <= 0.0031308 ? v * 12.92 : 1.055 * pow(v, 1 / 2.4) - 0.055;
}

// Distance of a stored component from a real number, in steps of the format.
static double steps_off(const struct vks_image *image, uint32_t x, uint32_t y, int c, double exact)
{
    float rgba[4];
    get_pixel(image, x, y, rgba);
    double stored = rgba[c];
    if (image->format == VKS_FORMAT_RGBA8_UNORM_SRGB && c < 3) {
        stored = encode_srgb(stored);
        exact = encode_srgb(exact);
    }
    double step = image->format == VKS_FORMAT_RGB10A2_UNORM && c == 3 ? 1.0 / 3 : format_step(image->format);
    return fabs(stored - exact) / step;
}

static void linear_blit_is_within_a_rounding_of_the_real_number(void)
{
    for (int round = 0; round < 3000; round++) {
        uint32_t format = all_formats[random_u32() % FORMATS], other = all_formats[random_u32() % FORMATS];
        struct blit_case c = random_blit(format, other);
        CHECK(vks_raster_blit(&c.from, c.source, &c.to, c.target, VKS_FILTER_LINEAR, NULL) == VKS_RASTER_OK, "round %d", round);
        for (int y = 0; y < (int)c.to.height; y++)
            for (int x = 0; x < (int)c.to.width; x++) {
                if (!blit_covers(&c, x, y))
                    continue;
                double exact[4];
                double u = (x + 0.5 - c.target.x0) * (c.source.x1 - c.source.x0) / (c.target.x1 - c.target.x0) + c.source.x0;
                double v = (y + 0.5 - c.target.y0) * (c.source.y1 - c.source.y0) / (c.target.y1 - c.target.y0) + c.source.y0;
                linear_pixel(&c.from, u, v, exact);
                for (int k = 0; k < format_components(other); k++)
                    CHECK(steps_off(&c.to, (uint32_t)x, (uint32_t)y, k, exact[k]) <= 0.52, "round %d, formats %u to %u, pixel %d, %d, component %d",
                          round, format, other, x, y, k);
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
            struct vks_blit_rect whole = {0, 0, 130, 9};
            fill_with_noise(&from);
            vks_raster_blit(&from, whole, &to, whole, (enum vks_filter)filter, NULL);
            CHECK(same_pixels(&from, &to), "format %u, filter %d", all_formats[f], filter);
            free_image(&from);
            free_image(&to);
        }
}

static double clamp01(double v)
{
    return v < 0 ? 0 : v < 1 ? v : 1;
}

static void composite_is_within_a_rounding_of_the_real_number(void)
{
    for (int round = 0; round < 4000; round++) {
        uint32_t format = all_formats[random_u32() % FORMATS], other = all_formats[random_u32() % FORMATS];
        if (round % 3 == 0) {
            format = round % 2 ? VKS_FORMAT_RGBA8_UNORM : VKS_FORMAT_BGRA8_UNORM;
            other = round % 4 < 2 ? VKS_FORMAT_RGBA8_UNORM : VKS_FORMAT_BGRA8_UNORM;
        }
        struct vks_image from = new_image((uint32_t)random_between(1, 150), (uint32_t)random_between(1, 8), format, 4);
        struct vks_image to = new_image((uint32_t)random_between(1, 150), (uint32_t)random_between(1, 8), other, 8);
        fill_with_noise(&from);
        fill_with_noise(&to);
        struct vks_image before = clone_image(&to);
        int dx = random_between(-20, 20), dy = random_between(-3, 3);
        float opacity = round % 2 ? 1.0f : random_unit();
        CHECK(vks_raster_composite(&from, &to, dx, dy, opacity, NULL) == VKS_RASTER_OK, "round %d", round);
        int clamped = other != VKS_FORMAT_R32_FLOAT && other != VKS_FORMAT_RGBA16_FLOAT && other != VKS_FORMAT_RGBA32_FLOAT;
        for (int y = 0; y < (int)to.height; y++)
            for (int x = 0; x < (int)to.width; x++) {
                int u = x - dx, v = y - dy;
                float s[4] = {0}, d[4];
                get_pixel(&before, (uint32_t)x, (uint32_t)y, d);
                if (u >= 0 && v >= 0 && u < (int)from.width && v < (int)from.height)
                    get_pixel(&from, (uint32_t)u, (uint32_t)v, s);
                for (int k = 0; k < format_components(other); k++) {
                    double exact = (double)s[k] * opacity + d[k] * (1 - (double)s[3] * opacity);
                    exact = clamped ? clamp01(exact) : exact;
                    CHECK(steps_off(&to, (uint32_t)x, (uint32_t)y, k, exact) <= 0.52, "round %d, formats %u over %u, opacity %g, pixel %d, %d, component %d",
                          round, format, other, (double)opacity, x, y, k);
                }
            }
        CHECK(guards_are_whole(&to), "round %d wrote outside", round);
        free_image(&from);
        free_image(&to);
        free_image(&before);
    }
}

// All 2^24 cases of (s, d, a) for one component, alpha included: exact rounding, and saturation when s exceeds a.
static void composite_of_8_bits_is_exactly_rounded_for_every_value(void)
{
    struct vks_image from = new_image(256, 1, VKS_FORMAT_RGBA8_UNORM, 0), to = new_image(256, 1, VKS_FORMAT_RGBA8_UNORM, 0);
    for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
        vks_cpu_limit_isa((enum vks_isa)isa);
        for (int a = 0; a < 256; a++)
            for (int d = 0; d < 256; d++) {
                for (int s = 0; s < 256; s++) {
                    memcpy(pixel_at(&from, (uint32_t)s, 0), (uint8_t[4]){(uint8_t)s, (uint8_t)(255 - s), (uint8_t)a, (uint8_t)a}, 4);
                    memset(pixel_at(&to, (uint32_t)s, 0), d, 4);
                }
                vks_raster_composite(&from, &to, 0, 0, 1.0f, NULL);
                int kept = (2 * d * (255 - a) + 255) / 510;
                for (int s = 0; s < 256; s++) {
                    const uint8_t *p = pixel_at(&to, (uint32_t)s, 0);
                    int expected[4] = {s + kept, 255 - s + kept, a + kept, a + kept};
                    for (int c = 0; c < 4; c++)
                        CHECK(p[c] == (expected[c] < 255 ? expected[c] : 255), "instruction set %d: s %d, d %d, a %d gave %d", isa, s, d, a, p[c]);
                }
            }
    }
    free_image(&from);
    free_image(&to);
}

static void draw_everything(const struct vks_image *to, const struct vks_image *from, struct vks_pool *threads)
{
    int w = (int)to->width, h = (int)to->height;
    vks_raster_clear(to, (float[4]){0.1f, 0.2f, 0.3f, 1}, threads);
    vks_raster_fill_rect(to, 5, 7, w - 20, h - 30, (float[4]){0.7f, 0.1f, 0.3f, 0.5f}, threads);
    vks_raster_composite(from, to, 3, -5, 1.0f, threads);
    vks_raster_composite(from, to, -40, 11, 0.37f, threads);
    vks_raster_blit(from, (struct vks_blit_rect){w, 0, 0, h / 2}, to, (struct vks_blit_rect){10, 10, w / 2, h}, VKS_FILTER_LINEAR, threads);
    vks_raster_blit(from, (struct vks_blit_rect){0, 0, w, h}, to, (struct vks_blit_rect){w, 0, w / 2, h}, VKS_FILTER_NEAREST, threads);
    if (from->format == to->format)
        vks_raster_copy(from, 0, 0, w / 3, h, to, w / 3, 0, threads);
}

static void results_are_the_same_for_every_instruction_set_and_thread_count(void)
{
    const uint32_t formats[][2] = {
        {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM}, {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM},
        {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB}, {VKS_FORMAT_RGBA16_FLOAT, VKS_FORMAT_RGBA16_FLOAT},
        {VKS_FORMAT_R8_UNORM, VKS_FORMAT_RGBA32_FLOAT},
    };
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct vks_image from = new_image(517, 403, formats[f][0], 4);
        fill_with_noise(&from);
        struct vks_image expected = new_image(517, 403, formats[f][1], 4), got = new_image(517, 403, formats[f][1], 4);
        vks_cpu_limit_isa(VKS_ISA_PORTABLE);
        draw_everything(&expected, &from, NULL);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
            vks_cpu_limit_isa((enum vks_isa)isa);
            draw_everything(&got, &from, NULL);
            CHECK(same_pixels(&expected, &got), "formats %u to %u, instruction set %d", formats[f][0], formats[f][1], isa);
            draw_everything(&got, &from, pool);
            CHECK(same_pixels(&expected, &got), "formats %u to %u, instruction set %d, threads", formats[f][0], formats[f][1], isa);
        }
        CHECK(guards_are_whole(&got), "wrote outside");
        free_image(&from);
        free_image(&expected);
        free_image(&got);
    }
}

static void images_that_do_not_fit_their_memory_are_refused(void)
{
    struct vks_image good = new_image(16, 16, VKS_FORMAT_RGBA8_UNORM, 0);
    struct vks_image bad[10];
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
    const float colour[4] = {0};
    for (int i = 0; i < 10; i++) {
        int expected = i == 9 ? VKS_RASTER_BAD_FORMAT : VKS_RASTER_BAD_IMAGE;
        CHECK(vks_image_check(&bad[i]) == expected, "image %d passes", i);
        CHECK(vks_raster_clear(&bad[i], colour, NULL) == expected, "clear takes image %d", i);
        CHECK(vks_raster_copy(&bad[i], 0, 0, 1, 1, &good, 0, 0, NULL) == expected, "copy takes source %d", i);
        CHECK(vks_raster_copy(&good, 0, 0, 1, 1, &bad[i], 0, 0, NULL) == expected, "copy takes target %d", i);
        CHECK(vks_raster_composite(&good, &bad[i], 0, 0, 1, NULL) == expected, "composite takes target %d", i);
        CHECK(vks_raster_blit(&bad[i], (struct vks_blit_rect){0, 0, 1, 1}, &good, (struct vks_blit_rect){0, 0, 1, 1}, VKS_FILTER_NEAREST, NULL) == expected,
              "blit takes source %d", i);
    }
    CHECK(vks_raster_clear(NULL, colour, NULL) == VKS_RASTER_BAD_IMAGE, "NULL image");
    CHECK(vks_raster_clear(&good, NULL, NULL) == VKS_RASTER_BAD_ARGUMENT, "NULL colour");
    good.size = 15 * 64 + 64;  // the last row needs no padding after it
    CHECK(vks_image_check(&good) == VKS_RASTER_OK, "a tight size is refused");
    free_image(&good);
}

static void wrong_arguments_are_refused_and_write_nothing(void)
{
    struct vks_image a = new_image(16, 16, VKS_FORMAT_RGBA8_UNORM, 0), b = new_image(16, 16, VKS_FORMAT_R8_UNORM, 0);
    struct vks_image before = clone_image(&a), part = a;
    part.height = 4;
    part.size = 4 * part.stride;
    struct vks_blit_rect r = {0, 0, 4, 4};
    const float opacities[] = {NAN, -0.01f, 1.01f, INFINITY};
    for (int i = 0; i < 4; i++)
        CHECK(vks_raster_composite(&b, &a, 0, 0, opacities[i], NULL) == VKS_RASTER_BAD_ARGUMENT, "opacity %g", (double)opacities[i]);
    CHECK(vks_raster_copy(&b, 0, 0, 4, 4, &a, 0, 0, NULL) == VKS_RASTER_FORMAT_MISMATCH, "formats differ");
    CHECK(vks_raster_copy(&part, 0, 0, 4, 4, &a, 0, 8, NULL) == VKS_RASTER_OVERLAP, "copy within an image");
    CHECK(vks_raster_composite(&a, &a, 0, 0, 1, NULL) == VKS_RASTER_OVERLAP, "composite onto itself");
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
        TEST(rectangles_at_the_ends_of_int32_are_clipped),
        TEST(copy_moves_bytes_where_both_images_have_pixels),
        TEST(nearest_blit_reads_the_pixel_that_vulkan_names),
        TEST(linear_blit_is_within_a_rounding_of_the_real_number),
        TEST(a_blit_of_equal_extents_is_a_copy_with_either_filter),
        TEST(composite_is_within_a_rounding_of_the_real_number),
        TEST(composite_of_8_bits_is_exactly_rounded_for_every_value),
        TEST(results_are_the_same_for_every_instruction_set_and_thread_count),
        TEST(images_that_do_not_fit_their_memory_are_refused),
        TEST(wrong_arguments_are_refused_and_write_nothing),
    };
    int failed = run_tests(tests, sizeof tests / sizeof tests[0]);
    vks_pool_destroy(pool);
    return failed;
}
