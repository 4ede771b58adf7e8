/* A C program that draws into a surface of another process, on the CPU backend: no Vulkan, no Python.
 *
 *     ./cpu_client /path/of/socket 1 2
 *
 * The process that listens there sends a SurfaceDescriptor. docs/guide.md has the other side, and how to build it. */
#include "client.h"

/* Byte c of pixel (x, y) is x + 3 y + 5 c + 1, in 8 bits. */
static void draw(const vks_surface_body *picture, unsigned char *pixels, size_t stride, size_t pixel_size)
{
    for (uint32_t y = 0; y < picture->height; y++)
        for (uint32_t x = 0; x < picture->width; x++)
            for (uint32_t c = 0; c < pixel_size; c++)
                pixels[y * stride + x * pixel_size + c] = (unsigned char)(x + 3 * y + 5 * c + 1);
}

int main(int count, char **words)
{
    static const size_t pixel_sizes[] = {0,  1, 2, 4, 4, 4, 4, 4, 8,
                                         16, 2, 4, 2, 4, 8, 4, 2, 4}; /* by vks_surface_body.format */
    arguments given = read_arguments(count, words);
    vks_surface_descriptor descriptor = receive(given.path);
    vks_device *device;
    vks_surface *surface;
    void *pixels;
    size_t stride;
    check(vks_device_create(&(vks_device_info){.name = "c client"}, &device), "device");
    check(vks_surface_open_image(device, &descriptor, &surface), "surface");
    check(vks_surface_pixels(surface, &pixels, &stride), "memory");

    uint64_t deadline = vks_now() + PATIENCE;
    check(PATIENTLY(vks_surface_acquire(surface, given.acquire, deadline)), "acquire");
    check(PATIENTLY(vks_surface_cpu_access(surface, deadline)), "access"); /* earlier work on it has run */
    draw(&descriptor.body, pixels, stride, pixel_sizes[descriptor.body.format]);
    tell_and_hold(&given);
    check(vks_surface_release(surface, given.release), "release");

    close_all(device, surface, &descriptor);
    return EXIT_SUCCESS;
}
