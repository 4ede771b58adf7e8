// The bytes of every command, on whatever processor: test_raster_pictures.h has the digests of the pictures.
//
//     test_raster_pictures --print     the digests as that header has them, after a change of the rasteriser is wanted
#include <inttypes.h>

#include "test_raster_mesh.h"

struct digest {
    const char *name; // the command, and the format of its target
    uint64_t fnv1a;
};

static const struct digest expected_digests[] = {
#include "test_raster_pictures.h"
};

enum { WIDTH = 131, HEIGHT = 67, TRIANGLES = 150 };

static const uint64_t NO_BYTES = 0xcbf29ce484222325u; // FNV-1a's offset basis

static void add_rows(uint64_t *digest, const struct vks_image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = pixel_at(image, 0, y);
        for (size_t i = 0; i < image->width * vks_format_bytes(image->format); i++)
            *digest = (*digest ^ row[i]) * 0x100000001b3u;
    }
}

// Compilers may choose the order of arguments and initialisers: the numbers are drawn one a statement.
static void random_colour(float rgba[4])
{
    for (int c = 0; c < 4; c++)
        rgba[c] = random_unit() * 1.5f - 0.25f; // outside of what UNORM has, too
}

static void random_ints(int *out, int count, int low, int high)
{
    for (int i = 0; i < count; i++)
        out[i] = random_between(low, high);
}

static void fill_with_colours(const struct vks_image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++) {
            float rgba[4];
            random_colour(rgba);
            if (x / 16 % 3 != 0)
                rgba[3] = (float)(x / 16 % 3 - 1); // stretches of the opaque and the empty
            set_pixel(image, x, y, rgba);
        }
}

typedef void command(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool);

static void clear(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    float rgba[4];
    (void)variant;
    for (int i = 0; i < 40; i++) {
        random_colour(rgba);
        vks_raster_clear(target, rgba, pool);
        add_rows(digest, target);
    }
}

static void fill_rect(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    float rgba[4];
    (void)variant;
    for (int i = 0; i < 200; i++) {
        int r[4];
        random_colour(rgba);
        random_ints(r, 4, -20, WIDTH);
        vks_raster_fill_rect(target, r[0], r[1], r[2], r[3], rgba, pool);
    }
    add_rows(digest, target);
}

static void copy(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    struct vks_image source = new_image(97, 71, target->format, 12);
    (void)variant;
    for (int i = 0; i < 10; i++) {
        int r[6];
        fill_with_colours(&source);
        random_ints(r, 6, -9, 90);
        vks_raster_copy(&source, r[0], r[1], r[2], r[3], target, r[4], r[5], pool);
    }
    add_rows(digest, target);
    free_image(&source);
}

// From each format; the variant is the filter.
static void blit(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    for (size_t f = 0; f < FORMATS; f++) {
        struct vks_image source = new_image(59, 83, all_formats[f], 4);
        fill_with_colours(&source);
        for (int i = 0; i < 6; i++) {
            int r[8];
            random_ints(r, 4, -5, 88);
            random_ints(r + 4, 4, -9, WIDTH + 9);
            const struct vks_blit_rect from = {r[0], r[1], r[2], r[3]}, to = {r[4], r[5], r[6], r[7]};
            vks_raster_blit(&source, from, target, to, (enum vks_filter)variant, pool);
        }
        add_rows(digest, target);
        free_image(&source);
    }
}

// From each format; the variant is the source's alpha.
static void composite(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    for (size_t f = 0; f < FORMATS; f++) {
        struct vks_image source = new_image(113, 59, all_formats[f], 0);
        for (int i = 0; i < 4; i++) {
            int at[2];
            fill_with_colours(&source);
            random_ints(at, 2, -30, 60);
            float opacity = i == 0 ? 1.0f : random_unit();
            vks_raster_composite(&source, target, at[0], at[1], opacity, (enum vks_alpha)variant, pool);
        }
        add_rows(digest, target);
        free_image(&source);
    }
}

// Variants: colours of one triangle, of each vertex, and the two filters of a texture of each format.
static void draw_triangles(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    static struct vertex v[TRIANGLES * 3];
    for (size_t f = 0; f < (variant < 2 ? 1 : FORMATS); f++) {
        struct vks_image texture = new_image(61, 47, all_formats[f], 0);
        fill_with_colours(&texture);
        for (int i = 0; i < TRIANGLES * 3; i++) {
            v[i] = random_vertex(1.5);
            if (variant == 0 && i % 3 != 0)
                memcpy(v[i].colour, v[i - 1].colour, sizeof v[i].colour);
        }
        draw(target, v, TRIANGLES * 3, variant < 2 ? NULL : &texture, (enum vks_filter)(variant == 3), 8, pool);
        add_rows(digest, target);
        free_image(&texture);
    }
}

// The pictures and the depth that stays, by every comparison; the variant is the format of the depth.
static void draw_tested(const struct vks_image *target, uint64_t *digest, int variant, struct vks_pool *pool)
{
    static struct vertex v[TRIANGLES * 3];
    const struct vks_vertex_layout layout = {.data = v->position, .stride = 10, .position = 0, .colour = 4, .uv = 8};
    struct vks_image kept = new_image(WIDTH, HEIGHT, (uint32_t)variant, 4);
    const struct vks_depth depth = {.image = &kept, .writes = true};
    for (int test = VKS_DEPTH_NEVER; test <= VKS_DEPTH_ALWAYS; test++) {
        struct vks_depth with = depth;
        with.test = (enum vks_depth_test)test;
        vks_raster_clear(&kept, (float[4]){test % 2 ? 0.75f : 0.25f}, pool);
        for (int i = 0; i < TRIANGLES * 3; i++)
            v[i] = random_vertex(1.5);
        vks_raster_draw_triangles(target, &layout, TRIANGLES * 3, NULL, VKS_FILTER_NEAREST, 8, &with, pool);
        add_rows(digest, target);
        add_rows(digest, &kept);
    }
    free_image(&kept);
}

enum { COLOURS = 0, INTEGERS = 1, DEPTH = 2 }; // what a target may have beside colours

static const struct {
    const char *name;
    command *run;
    int variant;
    int takes;
} commands[] = {
    {"clear", clear, 0, INTEGERS | DEPTH},
    {"fill_rect", fill_rect, 0, INTEGERS},
    {"copy", copy, 0, INTEGERS | DEPTH},
    {"blit nearest", blit, VKS_FILTER_NEAREST, COLOURS},
    {"blit linear", blit, VKS_FILTER_LINEAR, COLOURS},
    {"composite premultiplied", composite, VKS_PREMULTIPLIED, COLOURS},
    {"composite straight", composite, VKS_STRAIGHT, COLOURS},
    {"draw_triangles flat", draw_triangles, 0, COLOURS},
    {"draw_triangles shaded", draw_triangles, 1, COLOURS},
    {"draw_triangles nearest", draw_triangles, 2, COLOURS},
    {"draw_triangles linear", draw_triangles, 3, COLOURS},
    {"draw_triangles d16unorm", draw_tested, VKS_FORMAT_D16_UNORM, COLOURS},
    {"draw_triangles d32float", draw_tested, VKS_FORMAT_D32_FLOAT, COLOURS},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

// The picture of a command in a format starts from noise of its own, so that each can be looked at alone.
static uint64_t digest_of(size_t which, uint32_t format, struct vks_pool *pool)
{
    uint64_t digest = NO_BYTES;
    random_state = 0x9e3779b97f4a7c15u + which * 64 + format;
    struct vks_image target = new_image(WIDTH, HEIGHT, format, 20);
    fill_with_colours(&target);
    commands[which].run(&target, &digest, commands[which].variant, pool);
    free_image(&target);
    return digest;
}

static void name_of(char name[64], size_t which, uint32_t format)
{
    snprintf(name, 64, "%s, %s", commands[which].name, vks_format_name(format));
}

#define TARGETS (FORMATS + 3)

static size_t formats_of(size_t which, uint32_t formats[TARGETS])
{
    size_t count = FORMATS;
    memcpy(formats, all_formats, sizeof all_formats);
    if (commands[which].takes & INTEGERS)
        formats[count++] = VKS_FORMAT_R32_UINT;
    if (commands[which].takes & DEPTH) {
        formats[count++] = VKS_FORMAT_D16_UNORM;
        formats[count++] = VKS_FORMAT_D32_FLOAT;
    }
    return count;
}

static uint64_t expected_digest(const char *name)
{
    for (size_t i = 0; i < sizeof expected_digests / sizeof expected_digests[0]; i++)
        if (strcmp(expected_digests[i].name, name) == 0)
            return expected_digests[i].fnv1a;
    return 0;
}

/* rules: E21 */
static void pictures_are_the_same_bytes_on_each_processor_and_instruction_set(void)
{
    struct vks_pool *pool;
    CHECK(vks_pool_create(3, &pool) == VKS_RASTER_OK, "no threads");
    for (int isa = VKS_ISA_PORTABLE; isa <= VKS_ISA_AVX512; isa++) {
        vks_cpu_limit_isa((enum vks_isa)isa);
        for (size_t which = 0; which < COMMANDS; which++) {
            uint32_t formats[TARGETS];
            size_t count = formats_of(which, formats);
            for (size_t f = 0; f < count; f++) {
                char name[64];
                name_of(name, which, formats[f]);
                uint64_t digest = digest_of(which, formats[f], isa % 2 ? pool : NULL);
                CHECK(digest == expected_digest(name), "%s with instruction set %d: %016" PRIx64 ", not %016" PRIx64,
                      name, isa, digest, expected_digest(name));
            }
        }
        if ((enum vks_isa)isa != vks_cpu_isa())
            break; // this processor has no more of them
    }
    vks_cpu_limit_isa(VKS_ISA_AVX512);
    vks_pool_destroy(pool);
}

static void print_digests(void)
{
    for (size_t which = 0; which < COMMANDS; which++) {
        uint32_t formats[TARGETS];
        size_t count = formats_of(which, formats);
        for (size_t f = 0; f < count; f++) {
            char name[64];
            name_of(name, which, formats[f]);
            printf("{\"%s\", 0x%016" PRIx64 "u},\n", name, digest_of(which, formats[f], NULL));
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        print_digests();
        return 0;
    }
#ifdef __SANITIZE_THREAD__
    printf("skipped: its digests need four minutes under TSAN, and the other tests have the pool's threads\n");
    return 77;
#endif
    const struct test tests[] = {TEST(pictures_are_the_same_bytes_on_each_processor_and_instruction_set)};
    return run_tests(tests, 1);
}
