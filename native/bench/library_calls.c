/* library_calls.c: what calls of the library cost, as one line of nanoseconds for each line of its
 * input.
 *
 * The build links it twice, with libvkshare.so and with the archive: the difference is the cost of
 * the shared library (C7). tests/rules/native/test_library_cost.py has both take turns. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "vkshare.h"

enum { CALLS = 20000 };

static uint32_t pixels[16 * 16];
static vks_device *device;
static vks_surface *surface;
static vks_fence *fence;
static uint64_t value;

static void check(vks_status status)
{
    if (status) {
        fprintf(stderr, "status %d: %s\n", (int)status, vks_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

static void acquire_and_release(void)
{
    check(vks_surface_acquire(surface, 0, VKS_FOREVER));
    check(vks_surface_release(surface, 0));
}

static void signal_fence(void) { check(vks_fence_signal(fence, ++value)); }

static void submit(void)
{
    vks_submission submission = {0};
    vks_submit_info info = {0};
    check(vks_submit(device, &info, VKS_FOREVER, &submission));
}

static double nanoseconds(void (*call)(void))
{
    uint64_t start = vks_now();
    for (int i = 0; i < CALLS; i++)
        call();
    return (double)(vks_now() - start) / CALLS;
}

int main(void)
{
    vks_device_info device_info = {.name = "cost"};
    vks_surface_info info = {.width = 16,
                             .height = 16,
                             .format = VKS_FORMAT_RGBA8_UNORM,
                             .pixels = pixels,
                             .size = sizeof pixels,
                             .stride = 64};
    check(vks_device_create(&device_info, &device));
    check(vks_surface_create(device, &info, &surface));
    check(vks_fence_create(device, 0, &fence));
    while (getchar() == '\n') {
        printf("%f %f %f\n", nanoseconds(acquire_and_release), nanoseconds(signal_fence), nanoseconds(submit));
        fflush(stdout);
    }
    vks_fence_close(fence);
    vks_fence_unref(fence);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_device_unref(device);
    return EXIT_SUCCESS;
}
