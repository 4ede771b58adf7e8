// Shared by the rasterizer's tests: a check that names what failed, random numbers, images with guarded edges.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raster/cpu.h"
#include "raster/raster.h"

static int checks_failed;

// Leaves the test function at the first failure.
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("  %s:%d: %s: ", __FILE__, __LINE__, #condition);                                                   \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            checks_failed++;                                                                                           \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

struct test {
    const char *name;
    void (*run)(void);
};

#define TEST(function) {#function, function}

static inline int run_tests(const struct test *tests, size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        int before = checks_failed;
        tests[i].run();
        failed += checks_failed != before;
        printf("%s %s\n", checks_failed == before ? "ok    " : "FAILED", tests[i].name);
        fflush(stdout);
    }
    printf("%zu tests, %d failed\n", count, failed);
    return failed != 0;
}

// Rounds of a random test, and the step of one through the 256 values of a byte. TSAN looks for races alone, and these
// tests have one thread: it gets a twentieth of the rounds, and each 17th value, 0 and 255 among them.
#ifdef __SANITIZE_THREAD__
#define ROUNDS(count) ((count) / 20)
#define BYTE_STEP 17
#else
#define ROUNDS(count) (count)
#define BYTE_STEP 1
#endif

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static inline uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

// low..high, both included.
static inline int random_between(int low, int high) { return low + (int)(random_u32() % (uint32_t)(high - low + 1)); }

// 0..1
static inline float random_unit(void) { return (float)(random_u32() >> 8) / 16777215.0f; }

#define GUARD_BYTES 256
#define GUARD_VALUE 0xa5

// All that have colours: blits, blends and draws take no others.
static const uint32_t all_formats[] = {
    VKS_FORMAT_R8_UNORM,     VKS_FORMAT_RG8_UNORM,     VKS_FORMAT_RGBA8_UNORM, VKS_FORMAT_RGBA8_UNORM_SRGB,
    VKS_FORMAT_BGRA8_UNORM,  VKS_FORMAT_RGB10A2_UNORM, VKS_FORMAT_R32_FLOAT,   VKS_FORMAT_RGBA16_FLOAT,
    VKS_FORMAT_RGBA32_FLOAT, VKS_FORMAT_R16_FLOAT,     VKS_FORMAT_RG16_FLOAT,  VKS_FORMAT_R16_UNORM,
    VKS_FORMAT_RG16_UNORM,   VKS_FORMAT_RGBA16_UNORM,
};
#define FORMATS (sizeof all_formats / sizeof all_formats[0])

// Memory of the image's own, with `padding` bytes after each row and guard bytes all round.
static inline struct vks_image new_image(uint32_t width, uint32_t height, uint32_t format, size_t padding)
{
    struct vks_image image = {.width = width, .height = height, .format = format};
    image.stride = width * vks_format_bytes(format) + padding;
    image.size = image.stride * height;
    uint8_t *memory = malloc(image.size + 2 * GUARD_BYTES);
    memset(memory, GUARD_VALUE, image.size + 2 * GUARD_BYTES);
    image.pixels = memory + GUARD_BYTES;
    return image;
}

static inline void free_image(struct vks_image *image)
{
    free((uint8_t *)image->pixels - GUARD_BYTES);
    image->pixels = NULL;
}

static inline uint8_t *pixel_at(const struct vks_image *image, uint32_t x, uint32_t y)
{
    return (uint8_t *)image->pixels + y * image->stride + x * vks_format_bytes(image->format);
}

// Whether the bytes before, after and between the rows are as new_image left them.
static inline int guards_are_whole(const struct vks_image *image)
{
    const uint8_t *p = image->pixels;
    for (int i = 1; i <= GUARD_BYTES; i++)
        if (p[-i] != GUARD_VALUE || p[image->size + (size_t)i - 1] != GUARD_VALUE)
            return 0;
    size_t row = image->width * vks_format_bytes(image->format);
    for (uint32_t y = 0; y < image->height; y++)
        for (size_t i = row; i < image->stride; i++)
            if (p[y * image->stride + i] != GUARD_VALUE)
                return 0;
    return 1;
}

static inline void set_pixel(const struct vks_image *image, uint32_t x, uint32_t y, const float rgba[4])
{
    vks_pack_colour(image->format, rgba, pixel_at(image, x, y));
}

static inline void get_pixel(const struct vks_image *image, uint32_t x, uint32_t y, float rgba[4])
{
    vks_unpack_colour(image->format, pixel_at(image, x, y), rgba);
}

// Premultiplied noise, with stretches of the opaque and the empty among it.
static inline void fill_with_noise(const struct vks_image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        int mode = 0;
        for (uint32_t x = 0; x < image->width; x++) {
            if (x % 37 == 0)
                mode = random_between(0, 3);
            float a = mode == 0 ? 0.0f : mode == 1 ? 1.0f : random_unit();
            float rgba[4] = {a * random_unit(), a * random_unit(), a * random_unit(), a};
            set_pixel(image, x, y, rgba);
        }
    }
}

static inline int same_pixels(const struct vks_image *a, const struct vks_image *b)
{
    for (uint32_t y = 0; y < a->height; y++)
        if (memcmp(pixel_at(a, 0, y), pixel_at(b, 0, y), a->width * vks_format_bytes(a->format)) != 0)
            return 0;
    return 1;
}

static inline struct vks_image clone_image(const struct vks_image *image)
{
    struct vks_image copy = *image;
    uint8_t *memory = malloc(image->size + 2 * GUARD_BYTES);
    memcpy(memory, (uint8_t *)image->pixels - GUARD_BYTES, image->size + 2 * GUARD_BYTES);
    copy.pixels = memory + GUARD_BYTES;
    return copy;
}

// Returns the value of one step of the format; the tolerance of a single rounding is half of it.
static inline double format_step(uint32_t format)
{
    switch (format) {
    case VKS_FORMAT_RGB10A2_UNORM:
        return 1.0 / 1023;
    case VKS_FORMAT_R32_FLOAT:
    case VKS_FORMAT_RGBA32_FLOAT:
        return 1e-6;
    case VKS_FORMAT_R16_FLOAT:
    case VKS_FORMAT_RG16_FLOAT:
    case VKS_FORMAT_RGBA16_FLOAT:
        return 1.0 / 1024;
    case VKS_FORMAT_R16_UNORM:
    case VKS_FORMAT_RG16_UNORM:
    case VKS_FORMAT_RGBA16_UNORM:
        return 1.0 / 65535;
    default:
        return 1.0 / 255;
    }
}

static inline int format_components(uint32_t format)
{
    switch (format) {
    case VKS_FORMAT_R8_UNORM:
    case VKS_FORMAT_R32_FLOAT:
    case VKS_FORMAT_R16_FLOAT:
    case VKS_FORMAT_R16_UNORM:
        return 1;
    case VKS_FORMAT_RG8_UNORM:
    case VKS_FORMAT_RG16_FLOAT:
    case VKS_FORMAT_RG16_UNORM:
        return 2;
    default:
        return 4;
    }
}

static inline double encode_srgb(double linear)
{
    return linear <= 0.0031308 ? linear * 12.92 : 1.055 * pow(linear, 1 / 2.4) - 0.055;
}

// Distance of a stored component from a real number, in steps of the format.
static inline double steps_off(const struct vks_image *image, uint32_t x, uint32_t y, int c, double exact)
{
    float rgba[4];
    get_pixel(image, x, y, rgba);
    double stored = rgba[c], step = format_step(image->format);
    if (image->format == VKS_FORMAT_RGBA8_UNORM_SRGB && c < 3) {
        stored = encode_srgb(stored);
        exact = encode_srgb(exact);
    }
    if (image->format == VKS_FORMAT_RGB10A2_UNORM && c == 3)
        step = 1.0 / 3;
    return fabs(stored - exact) / step;
}

static inline int clamp_to(int v, int limit) { return v < 0 ? 0 : v < limit ? v : limit - 1; }

static inline double clamp01(double v) { return v < 0 ? 0 : v < 1 ? v : 1; }

static inline int is_float(uint32_t format)
{
    switch (format) {
    case VKS_FORMAT_R32_FLOAT:
    case VKS_FORMAT_RGBA32_FLOAT:
    case VKS_FORMAT_R16_FLOAT:
    case VKS_FORMAT_RG16_FLOAT:
    case VKS_FORMAT_RGBA16_FLOAT:
        return 1;
    default:
        return 0;
    }
}

static inline int is_pixel(const struct vks_image *image, int x, int y, const void *bytes)
{
    return memcmp(pixel_at(image, (uint32_t)x, (uint32_t)y), bytes, vks_format_bytes(image->format)) == 0;
}
