// How fast is the rasterizer, against plain C doing the same work? Ours and theirs take turns in one run; the table and
// --json give medians and ratios. One thread is pinned to a core; "2 threads" runs unpinned.
//
//   cc -O2 -Inative -c native/raster/*.c
//   cc -O3 -DSUFFIX=baseline -c benchmarks/c/raster_reference.c -o reference_baseline.o
//   cc -O3 -march=native -DSUFFIX=native -c benchmarks/c/raster_reference.c -o reference_native.o
//   cc -O2 -Inative -Ibenchmarks/c native/bench/raster_bench.c *.o -lm -pthread -o raster_bench && ./raster_bench
//   [--json] [ROUNDS]
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "raster/cpu.h"
#include "raster/program.h"
#include "raster_reference.h"

#define WIDTH 1920
#define HEIGHT 1080
#define PIXELS (WIDTH * HEIGHT)
#define TRIANGLES 10000

static struct vks_image source, target, other, srgb;
static struct vks_pool *two_threads;
static struct reference_triangle reference[TRIANGLES];
static float flat_vertices[TRIANGLES * 3][8];
static float smooth_vertices[TRIANGLES * 3][10];

static uint32_t random_state = 1;

static uint32_t random_u32(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static float unit(void) { return (float)(random_u32() & 0xffff) / 65536.0f; }

static struct vks_image new_image(uint32_t format)
{
    struct vks_image image = {.width = WIDTH, .height = HEIGHT, .format = format};
    image.stride = WIDTH * vks_format_bytes(format);
    image.size = image.stride * HEIGHT;
    image.pixels = aligned_alloc(64, image.size);
    memset(image.pixels, 1, image.size);
    return image;
}

static void make_source(void)
{
    uint8_t *p = source.pixels;
    for (size_t i = 0; i < PIXELS; i++, p += 4) {
        uint32_t a = random_u32() & 255;
        p[3] = (uint8_t)a;
        for (int c = 0; c < 3; c++)
            p[c] = (uint8_t)(random_u32() % (a + 1));
    }
}

// Triangles of 12 pixels a side, half transparent.
static void make_triangles(void)
{
    for (size_t t = 0; t < TRIANGLES; t++) {
        float x = 16 + unit() * (WIDTH - 32), y = 16 + unit() * (HEIGHT - 32), colour[4];
        const float corner[3][2] = {{0, 0}, {12, 0}, {6, 10.4f}};
        float turn = unit() * 4 - 2;
        for (int c = 0; c < 3; c++)
            colour[c] = (float)(random_u32() & 127) / 255.0f;
        colour[3] = 128 / 255.0f;
        vks_pack_colour(VKS_FORMAT_RGBA8_UNORM, colour, &reference[t].colour);
        for (int i = 0; i < 3; i++) {
            float px = x + corner[i][0] + turn * corner[i][1] * 0.3f;
            float py = y + corner[i][1] - turn * corner[i][0] * 0.3f;
            reference[t].x[i] = px;
            reference[t].y[i] = py;
            const float position[4] = {px * 2 / WIDTH - 1, py * 2 / HEIGHT - 1, 0.5f, 1};
            memcpy(flat_vertices[3 * t + (size_t)i], position, sizeof position);
            memcpy(flat_vertices[3 * t + (size_t)i] + 4, colour, sizeof colour);
            float *smooth = smooth_vertices[3 * t + (size_t)i];
            memcpy(smooth, position, sizeof position);
            for (int c = 0; c < 4; c++)
                smooth[4 + c] = colour[c] * (i == c ? 1.0f : 0.5f);
            smooth[8] = px / WIDTH;
            smooth[9] = py / HEIGHT;
        }
    }
}

static void draw(const void *vertices, uint32_t floats, const struct vks_image *texture, enum vks_filter filter,
                 struct vks_pool *pool)
{
    struct vks_vertex_layout layout = {vertices, floats, 0, 4, floats > 8 ? 8 : -1};
    vks_raster_draw_triangles(&target, &layout, TRIANGLES * 3, texture, filter, 8, NULL, pool);
}

static const float colour[4] = {0.1f, 0.2f, 0.3f, 1};
static const struct vks_blit_rect whole = {0, 0, WIDTH, HEIGHT}, half = {0, 0, WIDTH / 2, HEIGHT / 2};

static void over_ours(void) { vks_raster_composite(&source, &target, 0, 0, 1, VKS_PREMULTIPLIED, NULL); }
static void over_two(void) { vks_raster_composite(&source, &target, 0, 0, 1, VKS_PREMULTIPLIED, two_threads); }
static void over_baseline(void) { reference_over_baseline(target.pixels, source.pixels, PIXELS); }
static void over_native(void) { reference_over_native(target.pixels, source.pixels, PIXELS); }
static void over_faded(void) { vks_raster_composite(&source, &target, 0, 0, 0.5f, VKS_PREMULTIPLIED, NULL); }
static void over_srgb(void) { vks_raster_composite(&source, &srgb, 0, 0, 1, VKS_PREMULTIPLIED, NULL); }
static void flat_ours(void) { draw(flat_vertices, 8, NULL, VKS_FILTER_NEAREST, NULL); }
static void flat_two(void) { draw(flat_vertices, 8, NULL, VKS_FILTER_NEAREST, two_threads); }
static void flat_baseline(void) { reference_triangles_baseline(target.pixels, WIDTH, HEIGHT, reference, TRIANGLES); }
static void flat_native(void) { reference_triangles_native(target.pixels, WIDTH, HEIGHT, reference, TRIANGLES); }
static void smooth_ours(void) { draw(smooth_vertices, 10, NULL, VKS_FILTER_NEAREST, NULL); }
static void smooth_two(void) { draw(smooth_vertices, 10, NULL, VKS_FILTER_NEAREST, two_threads); }
static void textured_ours(void) { draw(smooth_vertices, 10, &source, VKS_FILTER_LINEAR, NULL); }
static void clear_ours(void) { vks_raster_clear(&target, colour, NULL); }
static void clear_two(void) { vks_raster_clear(&target, colour, two_threads); }
static void clear_memset(void) { memset(target.pixels, 7, target.size); }
static void copy_ours(void) { vks_raster_copy(&source, 0, 0, WIDTH, HEIGHT, &target, 0, 0, NULL); }
static void copy_two(void) { vks_raster_copy(&source, 0, 0, WIDTH, HEIGHT, &target, 0, 0, two_threads); }
static void copy_memcpy(void) { memcpy(target.pixels, source.pixels, target.size); }
static void blit_nearest(void) { vks_raster_blit(&source, half, &target, whole, VKS_FILTER_NEAREST, NULL); }
static void blit_linear(void) { vks_raster_blit(&source, half, &target, whole, VKS_FILTER_LINEAR, NULL); }
static void blit_linear_down(void) { vks_raster_blit(&source, whole, &target, half, VKS_FILTER_LINEAR, NULL); }
static void blit_convert(void) { vks_raster_blit(&source, whole, &other, whole, VKS_FILTER_NEAREST, NULL); }

struct subject {
    const char *name;
    void (*run)(void);
    const char *against; // name of what the ratio is to, or NULL
    bool threads;        // not pinned
    double *times;
};

static struct subject subjects[] = {
    {"over 1080p, packed words, -O3", over_baseline, NULL, false, NULL},
    {"over 1080p, packed words, -O3 native", over_native, NULL, false, NULL},
    {"over 1080p", over_ours, "over 1080p, packed words, -O3", false, NULL},
    {"over 1080p, 2 threads", over_two, "over 1080p", true, NULL},
    {"over 1080p, opacity 0.5", over_faded, "over 1080p, packed words, -O3", false, NULL},
    {"over 1080p onto srgb", over_srgb, NULL, false, NULL},
    {"10,000 triangles, bounding boxes, -O3", flat_baseline, NULL, false, NULL},
    {"10,000 triangles, bounding boxes, -O3 native", flat_native, NULL, false, NULL},
    {"10,000 triangles", flat_ours, "10,000 triangles, bounding boxes, -O3", false, NULL},
    {"10,000 triangles, 2 threads", flat_two, "10,000 triangles", true, NULL},
    {"10,000 triangles, a colour a vertex", smooth_ours, "10,000 triangles, bounding boxes, -O3", false, NULL},
    {"10,000 triangles, a colour a vertex, 2 threads", smooth_two, "10,000 triangles, a colour a vertex", true, NULL},
    {"10,000 triangles, linear texture", textured_ours, NULL, false, NULL},
    {"memset 1080p", clear_memset, NULL, false, NULL},
    {"clear 1080p", clear_ours, "memset 1080p", false, NULL},
    {"clear 1080p, 2 threads", clear_two, "clear 1080p", true, NULL},
    {"memcpy 1080p", copy_memcpy, NULL, false, NULL},
    {"copy 1080p", copy_ours, "memcpy 1080p", false, NULL},
    {"copy 1080p, 2 threads", copy_two, "copy 1080p", true, NULL},
    {"blit 540p to 1080p, nearest", blit_nearest, NULL, false, NULL},
    {"blit 540p to 1080p, linear", blit_linear, NULL, false, NULL},
    {"blit 1080p to 540p, linear", blit_linear_down, NULL, false, NULL},
    {"blit 1080p rgba8 to rgba16float", blit_convert, NULL, false, NULL},
};
#define SUBJECTS (sizeof subjects / sizeof subjects[0])

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const char *name, int rounds)
{
    for (size_t i = 0; i < SUBJECTS; i++)
        if (strcmp(subjects[i].name, name) == 0)
            return subjects[i].times[rounds / 2];
    return 0;
}

static void report(bool json, int rounds)
{
    static const char *const sets[] = {"portable", "sse2", "avx2", "avx512"};
    printf(json ? "{\"instructions\": \"%s\", \"results\": [\n" : "instructions: %s\n", sets[vks_cpu_isa()]);
    if (!json)
        printf("%-50s %9s %9s %7s\n", "", "median ms", "best ms", "ratio");
    for (size_t i = 0; i < SUBJECTS; i++) {
        struct subject *s = &subjects[i];
        double ms = s->times[rounds / 2], ratio = s->against ? ms / median(s->against, rounds) : 0;
        if (json) {
            printf("  {\"name\": \"%s\", \"median_ms\": %.4f, \"best_ms\": %.4f, ", s->name, ms, s->times[0]);
            printf("\"ratio\": %.3f, \"against\": \"%s\"}", ratio, s->against ? s->against : "");
            printf(i + 1 < SUBJECTS ? ",\n" : "\n");
        } else if (s->against)
            printf("%-50s %9.3f %9.3f %7.2f to %s\n", s->name, ms, s->times[0], ratio, s->against);
        else
            printf("%-50s %9.3f %9.3f\n", s->name, ms, s->times[0]);
    }
    if (json)
        printf("]}\n");
}

int main(int argc, char **argv)
{
    bool json = false;
    int rounds = 41;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strncmp(argv[i], "--isa=", 6) == 0)
            vks_cpu_limit_isa((enum vks_isa)atoi(argv[i] + 6));
        else if (atoi(argv[i]) > 0)
            rounds = atoi(argv[i]);
    }
    source = new_image(VKS_FORMAT_RGBA8_UNORM);
    target = new_image(VKS_FORMAT_RGBA8_UNORM);
    other = new_image(VKS_FORMAT_RGBA16_FLOAT);
    srgb = new_image(VKS_FORMAT_RGBA8_UNORM_SRGB);
    make_source();
    make_triangles();
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    if (vks_pool_create(2, &two_threads) != 0)
        return 1;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    for (size_t i = 0; i < SUBJECTS; i++)
        subjects[i].times = calloc((size_t)rounds, sizeof(double));
    for (int round = -2; round < rounds; round++) // two to warm up
        for (size_t i = 0; i < SUBJECTS; i++) {
            sched_setaffinity(0, sizeof all, subjects[i].threads ? &all : &one);
            double start = milliseconds();
            subjects[i].run();
            if (round >= 0)
                subjects[i].times[round] = milliseconds() - start;
        }
    for (size_t i = 0; i < SUBJECTS; i++)
        qsort(subjects[i].times, (size_t)rounds, sizeof(double), compare);
    report(json, rounds);
    vks_pool_destroy(two_threads);
    return 0;
}
