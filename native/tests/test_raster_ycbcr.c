// Y'CbCr to R'G'B' against H.273's formulas and Vulkan's chroma reconstruction in double: rule Y3.
#include "raster/ycbcr.h"
#include "raster/ycbcr_kernel.h"
#include "test_raster.h"

static const uint32_t planar_formats[] = {VKS_FORMAT_NV12, VKS_FORMAT_P010, VKS_FORMAT_I420, VKS_FORMAT_NV16,
                                          VKS_FORMAT_YUV444P};
static const uint8_t matrices[] = {VKS_MATRIX_BT709, VKS_MATRIX_BT601, VKS_MATRIX_BT2020};
static const double red_weight[] = {0.2126, 0.299, 0.2627}, blue_weight[] = {0.0722, 0.114, 0.0593};

enum { MOST_WIDTH = 600, MOST_HEIGHT = 10 };

struct source {
    struct vks_image image;
    int matrix;
    void *memory;
};

static struct source make_source(uint32_t format, uint32_t width, uint32_t height)
{
    const struct vks_planar_format *planar = vks_planar_format(format);
    size_t stride = (width * vks_format_bytes(vks_plane_format(format, 0)) + 63) / 64 * 64;
    size_t size = (size_t)vks_planes_bytes(format, planar->planes, height, stride);
    struct source s = {.memory = malloc(size)};
    s.matrix = random_between(0, 2);
    struct vks_color color = {.matrix = matrices[s.matrix]};
    color.range = (uint8_t)random_between(0, 1);
    color.siting = (uint8_t)random_between(0, 2);
    s.image = (struct vks_image){s.memory, size, width, height, stride, format, color};
    uint8_t *bytes = s.memory;
    bool is_extreme = random_between(0, 3) == 0;
    for (size_t i = 0; i < size; i++)
        bytes[i] = is_extreme ? (uint8_t)(random_between(0, 1) * 255) : (uint8_t)random_u32();
    return s;
}

// ---- the reference --------------------------------------------------------------------------------------------------

static double component_at(const struct source *s, int component, int64_t x, int64_t y)
{
    const struct vks_planar_format *planar = vks_planar_format(s->image.format);
    uint32_t plane = component == 0 ? 0 : planar->planes == 2 ? 1 : (uint32_t)component;
    struct vks_image image = vks_plane_of(&s->image, plane);
    size_t word = planar->bits > 8 ? 2 : 1, index = (size_t)(plane == 1 && planar->planes == 2 ? component - 1 : 0);
    x = x < 0 ? 0 : x < image.width ? x : image.width - 1;
    y = y < 0 ? 0 : y < image.height ? y : image.height - 1;
    size_t step = word * (plane == 1 && planar->planes == 2 ? 2 : 1);
    const uint8_t *p = (const uint8_t *)image.pixels + (size_t)y * image.stride + (size_t)x * step + index * word;
    return word == 1 ? p[0] : (p[0] | p[1] << 8) >> planar->unused;
}

// Where a pixel of luma lies between pixels of chroma.
static double place_of(uint32_t at, int shift, bool is_cosited)
{
    return shift == 0 ? at : is_cosited ? at / 2.0 : (at + 0.5) / 2 - 0.5;
}

static double chroma_at(const struct source *s, int component, uint32_t x, uint32_t y)
{
    const struct vks_planar_format *planar = vks_planar_format(s->image.format);
    double across = place_of(x, planar->x_shift, s->image.color.siting != VKS_SITING_CENTER);
    double down = place_of(y, planar->y_shift, s->image.color.siting == VKS_SITING_TOP_LEFT);
    double left = floor(across), top = floor(down), fx = across - left, fy = down - top;
    double value = 0;
    for (int i = 0; i < 4; i++)
        value += (i & 1 ? fx : 1 - fx) * (i & 2 ? fy : 1 - fy) *
                 component_at(s, component, (int64_t)left + (i & 1), (int64_t)top + (i >> 1));
    return value;
}

static void exact(const struct source *s, uint32_t x, uint32_t y, double rgb[3])
{
    int bits = vks_planar_format(s->image.format)->bits;
    double step = 1 << (bits - 8), most = (1 << bits) - 1, kr = red_weight[s->matrix], kb = blue_weight[s->matrix];
    bool is_full = s->image.color.range == VKS_RANGE_FULL;
    double luma = component_at(s, 0, x, y), c[2];
    luma = is_full ? luma / most : (luma - 16 * step) / (219 * step);
    for (int i = 0; i < 2; i++)
        c[i] = (chroma_at(s, 1 + i, x, y) - 128 * step) / (is_full ? most : 224 * step);
    rgb[0] = luma + 2 * (1 - kr) * c[1];
    rgb[2] = luma + 2 * (1 - kb) * c[0];
    rgb[1] = (luma - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
}

// ---- the tests ------------------------------------------------------------------------------------------------------

static double worst_code, worst_float;

static void judge(const struct source *s, uint32_t x, uint32_t y, const uint8_t *rgba, const float *floats)
{
    double rgb[3];
    exact(s, x, y, rgb);
    CHECK(rgba[3] == 255 && floats[3] == 1, "alpha is %d and %g", rgba[3], (double)floats[3]);
    for (int i = 0; i < 3; i++) {
        double wanted = rgb[i] < 0 ? 0 : rgb[i] > 1 ? 255 : rgb[i] * 255, error = fabs(rgba[i] - wanted);
        CHECK(error < 0.55, "%s, pixel %u, %u, component %d: %d for %g", vks_format_name(s->image.format), x, y, i,
              rgba[i], wanted);
        worst_code = fmax(worst_code, error);
        worst_float = fmax(worst_float, fabs(floats[i] - wanted / 255));
        CHECK(fabs(floats[i] - wanted / 255) < 1e-6, "%s, pixel %u, %u, component %d: %.9g for %.9g",
              vks_format_name(s->image.format), x, y, i, (double)floats[i], wanted / 255);
    }
}

static void pixels_are_those_of_the_formulas(void)
{
    static uint8_t rgba[4 * MOST_WIDTH];
    static vks_rgba floats[MOST_WIDTH];
    for (int round = 0; round < ROUNDS(400); round++) {
        uint32_t format = planar_formats[random_u32() % 5];
        struct source s = make_source(format, 2 * (uint32_t)random_between(1, MOST_WIDTH / 2),
                                      2 * (uint32_t)random_between(1, MOST_HEIGHT / 2));
        struct vks_ycbcr reader;
        CHECK(vks_ycbcr_begin(&s.image, &reader) == VKS_RASTER_OK, "round %d", round);
        for (uint32_t y = 0; y < s.image.height; y++) {
            uint32_t x = random_u32() % s.image.width, n = 1 + random_u32() % (s.image.width - x);
            vks_ycbcr_read_8888(&reader, x, y, n, false, rgba);
            vks_ycbcr_read(&reader, x, y, n, floats);
            for (uint32_t i = 0; i < n; i++)
                judge(&s, x + i, y, rgba + 4 * i, floats[i]);
        }
        free(s.memory);
        if (checks_failed)
            return;
    }
    printf("  at most %.4f codes and %.2g from the exact number\n", worst_code, worst_float);
}

// All corners, and each 5th value between: 140,608 triples a matrix and range.
static void triples_are_those_of_the_formulas(void)
{
    static uint8_t code[3][256];
    for (int matrix = 0; matrix < 3; matrix++)
        for (int range = 0; range < 2; range++)
            for (int cb = 0; cb < 256; cb += 5 * BYTE_STEP)
                for (int cr = 0; cr < 256; cr += 5 * BYTE_STEP) {
                    struct source s = {.matrix = matrix};
                    struct vks_color color = {.matrix = matrices[matrix], .range = (uint8_t)range};
                    struct vks_ycbcr reader;
                    uint8_t rgba[4 * 256];
                    vks_rgba floats[256];
                    for (int i = 0; i < 256; i++)
                        code[0][i] = (uint8_t)i, code[1][i] = (uint8_t)cb, code[2][i] = (uint8_t)cr;
                    s.image = (struct vks_image){code, sizeof code, 256, 1, 256, VKS_FORMAT_YUV444P, color};
                    CHECK(vks_ycbcr_begin(&s.image, &reader) == VKS_RASTER_OK, "begin");
                    vks_ycbcr_read_8888(&reader, 0, 0, 256, false, rgba);
                    vks_ycbcr_read(&reader, 0, 0, 256, floats);
                    for (uint32_t i = 0; i < 256; i += i % 51 ? 1 : 3)
                        judge(&s, i, 0, rgba + 4 * i, floats[i]);
                    if (checks_failed)
                        return;
                }
}

static void each_instruction_set_has_the_same_codes(void)
{
    static uint8_t expected[4 * MOST_WIDTH], got[4 * MOST_WIDTH];
    static vks_rgba wanted[MOST_WIDTH], floats[MOST_WIDTH];
    for (int round = 0; round < ROUNDS(400); round++) {
        struct source s = make_source(planar_formats[random_u32() % 5], 2 * (uint32_t)random_between(1, MOST_WIDTH / 2),
                                      2 * (uint32_t)random_between(1, MOST_HEIGHT / 2));
        struct vks_ycbcr reader;
        vks_ycbcr_begin(&s.image, &reader);
        uint32_t y = random_u32() % s.image.height, x = random_u32() % s.image.width;
        uint32_t n = 1 + random_u32() % (s.image.width - x);
        bool bgra = random_between(0, 1);
        for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
            vks_cpu_limit_isa((enum vks_isa)isa);
            memset(got, 0xa5, sizeof got);
            vks_ycbcr_read_8888(&reader, x, y, n, bgra, got);
            vks_ycbcr_read(&reader, x, y, n, floats);
            if (isa == VKS_ISA_PORTABLE) {
                memcpy(expected, got, sizeof got);
                memcpy(wanted, floats, n * sizeof *floats);
            }
            CHECK(!memcmp(expected, got, sizeof got), "round %d, instruction set %d", round, isa);
            CHECK(!memcmp(wanted, floats, n * sizeof *floats), "round %d, instruction set %d, floats", round, isa);
        }
        vks_cpu_limit_isa(VKS_ISA_AVX512);
        free(s.memory);
    }
}

static void bgra_exchanges_red_and_blue(void)
{
    struct source s = make_source(VKS_FORMAT_NV12, 64, 2);
    struct vks_ycbcr reader;
    uint8_t rgba[256], bgra[256];
    vks_ycbcr_begin(&s.image, &reader);
    vks_ycbcr_read_8888(&reader, 0, 1, 64, false, rgba);
    vks_ycbcr_read_8888(&reader, 0, 1, 64, true, bgra);
    for (int i = 0; i < 64; i++)
        CHECK(rgba[4 * i] == bgra[4 * i + 2] && rgba[4 * i + 1] == bgra[4 * i + 1] && rgba[4 * i + 2] == bgra[4 * i],
              "pixel %d", i);
    free(s.memory);
}

static void other_formats_and_colours_are_refused(void)
{
    uint8_t pixels[64] = {0};
    struct vks_image image = {pixels, sizeof pixels, 4, 4, 16, VKS_FORMAT_RGBA8_UNORM, {.matrix = VKS_MATRIX_BT709}};
    struct vks_ycbcr reader;
    CHECK(vks_ycbcr_begin(&image, &reader) == VKS_RASTER_BAD_FORMAT, "one plane");
    image.format = VKS_FORMAT_NV12, image.stride = 4;
    CHECK(vks_ycbcr_begin(&image, &reader) == VKS_RASTER_OK, "two planes");
    struct vks_color wrong[] = {{.matrix = VKS_MATRIX_RGB},
                                {.matrix = 77},
                                {.matrix = VKS_MATRIX_BT709, .range = 2},
                                {.matrix = VKS_MATRIX_BT709, .siting = 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        image.color = wrong[i];
        CHECK(vks_ycbcr_begin(&image, &reader) == VKS_RASTER_BAD_ARGUMENT, "colour %zu", i);
    }
}

static void planes_lie_one_after_the_other(void)
{
    static const struct {
        uint32_t format, plane, inner, width, height;
        size_t offset, stride;
    } expected[] = {
        {VKS_FORMAT_NV12, 0, VKS_FORMAT_R8_UNORM, 6, 4, 0, 64},
        {VKS_FORMAT_NV12, 1, VKS_FORMAT_RG8_UNORM, 3, 2, 256, 64},
        {VKS_FORMAT_P010, 0, VKS_FORMAT_R16_UNORM, 6, 4, 0, 64},
        {VKS_FORMAT_P010, 1, VKS_FORMAT_RG16_UNORM, 3, 2, 256, 64},
        {VKS_FORMAT_I420, 1, VKS_FORMAT_R8_UNORM, 3, 2, 256, 32},
        {VKS_FORMAT_I420, 2, VKS_FORMAT_R8_UNORM, 3, 2, 320, 32},
        {VKS_FORMAT_NV16, 1, VKS_FORMAT_RG8_UNORM, 3, 4, 256, 64},
        {VKS_FORMAT_YUV444P, 2, VKS_FORMAT_R8_UNORM, 6, 4, 512, 64},
        {VKS_FORMAT_RGBA8_UNORM, 0, VKS_FORMAT_RGBA8_UNORM, 6, 4, 0, 64},
    };
    uint8_t *base = calloc(1, 1024);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct vks_image image = {base, 1024, 6, 4, 64, expected[i].format, {0}};
        struct vks_image plane = vks_plane_of(&image, expected[i].plane);
        CHECK(plane.format == expected[i].inner && plane.width == expected[i].width &&
                  plane.height == expected[i].height && plane.stride == expected[i].stride &&
                  (size_t)((uint8_t *)plane.pixels - base) == expected[i].offset &&
                  plane.size == 1024 - expected[i].offset,
              "row %zu: format %u, %ux%u, stride %zu, offset %td", i, plane.format, plane.width, plane.height,
              plane.stride, (uint8_t *)plane.pixels - base);
    }
    free(base);
    CHECK(vks_format_planes(VKS_FORMAT_I420) == 3 && vks_format_planes(VKS_FORMAT_R8_UNORM) == 1 &&
              vks_format_planes(VKS_FORMAT_NONE) == 0 && vks_format_planes(999) == 0,
          "counts");
    CHECK(vks_plane_format(VKS_FORMAT_NV12, 2) == VKS_FORMAT_NONE, "a third plane");
    CHECK(vks_planes_fit(VKS_FORMAT_NV12, 2, 2) && !vks_planes_fit(VKS_FORMAT_NV12, 3, 2) &&
              !vks_planes_fit(VKS_FORMAT_NV12, 2, 3) && vks_planes_fit(VKS_FORMAT_NV16, 2, 3) &&
              vks_planes_fit(VKS_FORMAT_YUV444P, 3, 3),
          "odd sizes");
}

int main(void)
{
    static const struct test tests[] = {
        TEST(planes_lie_one_after_the_other),    TEST(pixels_are_those_of_the_formulas),
        TEST(triples_are_those_of_the_formulas), TEST(each_instruction_set_has_the_same_codes),
        TEST(bgra_exchanges_red_and_blue),       TEST(other_formats_and_colours_are_refused),
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
