// Conversions between floats and pixels, against the formulas in double.
#include "test_raster.h"

#include "raster/half.h"
#include "raster/srgb.h"

static void unorm8_rounds_to_nearest_and_maps_nan_to_zero(void)
{
    uint8_t pixel;
    for (int i = 0; i <= 100000; i++) {
        float v = (float)i / 100000.0f;
        vks_pack_colour(VKS_FORMAT_R8_UNORM, (float[4]){v, 0, 0, 0}, &pixel);
        CHECK(fabs(pixel - (double)v * 255) <= 0.5 + 1e-5, "%g became %d", (double)v, pixel);
    }
    const struct {
        float value;
        uint8_t expected;
    } edges[] = {
        {NAN, 0},     {-NAN, 0},       {-1, 0},
        {-0.0f, 0},   {INFINITY, 255}, {-INFINITY, 0},
        {1e30f, 255}, {1, 255},        {0.49999997f / 255, 0},
        {1e-40f, 0},
    };
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        vks_pack_colour(VKS_FORMAT_R8_UNORM, (float[4]){edges[i].value, 0, 0, 0}, &pixel);
        CHECK(pixel == edges[i].expected, "%g became %d", (double)edges[i].value, pixel);
    }
}

static void every_code_of_every_unorm_format_survives_a_round_trip(void)
{
    for (uint32_t code = 0; code < 1024; code++) {
        uint32_t in = code | (1023 - code) << 10 | (code * 7 & 1023) << 20 | (code & 3) << 30, out = 0;
        float rgba[4];
        vks_unpack_colour(VKS_FORMAT_RGB10A2_UNORM, &in, rgba);
        CHECK(fabs(rgba[0] - code / 1023.0) < 1e-7, "red is %g", (double)rgba[0]);
        vks_pack_colour(VKS_FORMAT_RGB10A2_UNORM, rgba, &out);
        CHECK(in == out, "%08x became %08x", in, out);
    }
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t in[4] = {(uint16_t)code, (uint16_t)(65535 - code), (uint16_t)(code * 7), (uint16_t)(code ^ 0x5555)};
        uint16_t out[4] = {0}, one = 0, two[2] = {0};
        float rgba[4];
        vks_unpack_colour(VKS_FORMAT_RGBA16_UNORM, in, rgba);
        CHECK(fabs(rgba[0] - code / 65535.0) < 1e-7, "red is %g", (double)rgba[0]);
        vks_pack_colour(VKS_FORMAT_RGBA16_UNORM, rgba, out);
        vks_pack_colour(VKS_FORMAT_RG16_UNORM, rgba, two);
        vks_pack_colour(VKS_FORMAT_R16_UNORM, rgba, &one);
        CHECK(!memcmp(in, out, sizeof in) && !memcmp(in, two, sizeof two) && one == code, "code %u", code);
    }
    const uint32_t formats[] = {VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_BGRA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB};
    for (size_t f = 0; f < 3; f++) {
        for (uint32_t code = 0; code < 256; code++) {
            uint8_t in[4] = {(uint8_t)code, (uint8_t)(255 - code), (uint8_t)(code * 5), (uint8_t)(code ^ 0x55)}, out[4];
            float rgba[4];
            vks_unpack_colour(formats[f], in, rgba);
            vks_pack_colour(formats[f], rgba, out);
            CHECK(memcmp(in, out, 4) == 0, "code %u of format %u", code, formats[f]);
        }
    }
}

static void components_lie_in_the_order_of_the_vulkan_formats(void)
{
    const float rgba[4] = {1.0f, 0.4f, 0.2f, 0.6f};
    uint8_t p[4];
    uint32_t packed;
    vks_pack_colour(VKS_FORMAT_RGBA8_UNORM, rgba, p);
    CHECK(p[0] == 255 && p[1] == 102 && p[2] == 51 && p[3] == 153, "rgba8 is %d %d %d %d", p[0], p[1], p[2], p[3]);
    vks_pack_colour(VKS_FORMAT_BGRA8_UNORM, rgba, p);
    CHECK(p[2] == 255 && p[1] == 102 && p[0] == 51 && p[3] == 153, "bgra8 is %d %d %d %d", p[0], p[1], p[2], p[3]);
    vks_pack_colour(VKS_FORMAT_RGB10A2_UNORM, rgba, &packed);
    CHECK(packed == (1023u | 409u << 10 | 205u << 20 | 2u << 30), "rgb10a2 is %08x", packed);
    float back[4];
    vks_unpack_colour(VKS_FORMAT_RG8_UNORM, (uint8_t[2]){255, 0}, back);
    CHECK(back[0] == 1 && back[1] == 0 && back[2] == 0 && back[3] == 1, "missing components are not 0, 0, 1");
    uint16_t wide[4];
    vks_pack_colour(VKS_FORMAT_RGBA16_UNORM, rgba, wide);
    CHECK(wide[0] == 65535 && wide[1] == 26214 && wide[2] == 13107 && wide[3] == 39321, "rgba16 is %d %d %d %d",
          wide[0], wide[1], wide[2], wide[3]);
    vks_pack_colour(VKS_FORMAT_RG16_FLOAT, rgba, wide);
    CHECK(wide[0] == 0x3c00 && wide[1] == 0x3666, "rg16float is %04x %04x", wide[0], wide[1]);
    const uint32_t narrow[] = {VKS_FORMAT_R16_FLOAT, VKS_FORMAT_R16_UNORM, VKS_FORMAT_RG16_FLOAT,
                               VKS_FORMAT_RG16_UNORM};
    for (size_t f = 0; f < 4; f++) {
        vks_pack_colour(narrow[f], rgba, wide);
        vks_unpack_colour(narrow[f], wide, back);
        CHECK(back[0] == 1 && (f < 2 ? back[1] == 0 : fabsf(back[1] - 0.4f) < 1e-3f) && back[2] == 0 && back[3] == 1,
              "format %u loads %g %g %g %g", narrow[f], (double)back[0], (double)back[1], (double)back[2],
              (double)back[3]);
    }
}

static double srgb_encode(double x) { return x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055; }

static uint8_t encode(float linear) { return vks_srgb_encode(vks_srgb(), vks_srgb_clamp(vks_f4_all(linear))[0]); }

static void srgb_encodes_to_the_code_nearest_to_the_formula(void)
{
    for (uint32_t bits = 0; bits <= 0x3f800000u; bits += 997) {
        float x;
        memcpy(&x, &bits, sizeof x);
        double exact = srgb_encode(x) * 255;
        CHECK(fabs(encode(x) - exact) <= 0.5 + 1e-4, "%g became %d, not %g", (double)x, encode(x), exact);
    }
    CHECK(encode(NAN) == 0 && encode(-1) == 0, "NaN and -1 are not 0");
    CHECK(encode(INFINITY) == 255, "infinity is not 255");
}

static void srgb_encoding_never_falls_as_light_grows(void)
{
    uint8_t before = 0;
    for (uint32_t bits = 0x38000000u; bits <= 0x3f800000u; bits += 61) {
        float x;
        memcpy(&x, &bits, sizeof x);
        uint8_t code = encode(x);
        CHECK(code >= before, "%g became %d after %d", (double)x, code, before);
        before = code;
    }
}

static void every_half_survives_a_round_trip(void)
{
    for (uint32_t half = 0; half < 65536; half++) {
        float f = vks_half_to_float((uint16_t)half);
        uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
        if (exponent == 31 && mantissa != 0) {
            CHECK(isnan(f) && isnan(vks_half_to_float(vks_float_to_half(f))), "NaN %04x became %g", half, (double)f);
            continue;
        }
        double exact = exponent == 31  ? INFINITY
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, (int)exponent - 25);
        CHECK(fabs((double)f) == exact, "%04x became %g", half, (double)f);
        CHECK(vks_float_to_half(f) == half, "%04x came back as %04x", half, vks_float_to_half(f));
    }
}

static void floats_round_to_the_nearest_half_and_ties_to_even(void)
{
    for (uint32_t half = 0; half < 0x7bff; half++) {
        double low = vks_half_to_float((uint16_t)half), high = vks_half_to_float((uint16_t)(half + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = half & 1 ? half + 1 : half;
        CHECK(vks_float_to_half(middle) == even, "the middle above %04x became %04x", half, vks_float_to_half(middle));
        CHECK(vks_float_to_half(nextafterf(middle, 0)) == half, "below the middle of %04x", half);
        CHECK(vks_float_to_half(nextafterf(middle, 1e9f)) == half + 1, "above the middle of %04x", half);
    }
    CHECK(vks_float_to_half(65519.996f) == 0x7bff && vks_float_to_half(65520.0f) == 0x7c00, "overflow");
    CHECK(vks_float_to_half(-1e-9f) == 0x8000, "underflow keeps the sign");
}

static void rows_of_halves_convert_as_single_ones_do(void)
{
    static float floats[65536 + 3];
    static uint16_t halves[65536 + 3], back[65536 + 3];
    for (uint32_t i = 0; i < 65536 + 3; i++)
        halves[i] = (uint16_t)i;
    for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
        vks_cpu_limit_isa((enum vks_isa)isa);
        vks_halves_to_floats(halves, floats, 65536 + 3);
        for (uint32_t i = 0; i < 65536 + 3; i++) {
            float one = vks_half_to_float((uint16_t)i);
            CHECK(memcmp(&one, &floats[i], sizeof one) == 0, "instruction set %d, half %04x", isa, i);
        }
        for (uint32_t start = 0; start < 1u << 16; start += 1009) { // all exponents, odd lengths
            for (uint32_t i = 0; i < 1009; i++) {
                uint32_t bits = start << 16 | (i * 0x9e3779b9u >> 10);
                memcpy(&floats[i], &bits, sizeof bits);
            }
            vks_floats_to_halves(floats, back, 1009);
            for (uint32_t i = 0; i < 1009; i++)
                CHECK(back[i] == vks_float_to_half(floats[i]), "instruction set %d, %a: %04x, not %04x", isa,
                      (double)floats[i], back[i], vks_float_to_half(floats[i]));
        }
    }
    vks_cpu_limit_isa(VKS_ISA_AVX512);
}

/* rules: E6 */
static void the_bits_of_an_integer_are_stored_and_loaded_as_they_are(void)
{
    const uint32_t codes[] = {0, 1, 16777217, 0x7f800001u, 0x80000001u, 0xffc00000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        uint32_t stored = 0, loaded = 0;
        float rgba[4] = {0}, back[4];
        memcpy(rgba, &codes[i], sizeof codes[i]);
        vks_pack_colour(VKS_FORMAT_R32_UINT, rgba, &stored);
        vks_unpack_colour(VKS_FORMAT_R32_UINT, &stored, back);
        memcpy(&loaded, back, sizeof loaded);
        CHECK(stored == codes[i] && loaded == codes[i], "%u was stored as %u, loaded as %u", codes[i], stored, loaded);
    }
}

static void unknown_formats_are_refused(void)
{
    const uint32_t unknown[] = {0, 18, 255, UINT32_MAX};
    uint8_t pixel[16];
    float rgba[4] = {0};
    for (size_t i = 0; i < 4; i++) {
        CHECK(vks_format_bytes(unknown[i]) == 0, "format %u has bytes", unknown[i]);
        CHECK(vks_pack_colour(unknown[i], rgba, pixel) == VKS_RASTER_BAD_FORMAT, "format %u packs", unknown[i]);
        CHECK(vks_unpack_colour(unknown[i], pixel, rgba) == VKS_RASTER_BAD_FORMAT, "format %u unpacks", unknown[i]);
    }
}

int main(void)
{
    const struct test tests[] = {
        TEST(unorm8_rounds_to_nearest_and_maps_nan_to_zero),
        TEST(every_code_of_every_unorm_format_survives_a_round_trip),
        TEST(components_lie_in_the_order_of_the_vulkan_formats),
        TEST(srgb_encodes_to_the_code_nearest_to_the_formula),
        TEST(srgb_encoding_never_falls_as_light_grows),
        TEST(every_half_survives_a_round_trip),
        TEST(floats_round_to_the_nearest_half_and_ties_to_even),
        TEST(rows_of_halves_convert_as_single_ones_do),
        TEST(the_bits_of_an_integer_are_stored_and_loaded_as_they_are),
        TEST(unknown_formats_are_refused),
    };
    return run_tests(tests, sizeof tests / sizeof tests[0]);
}
