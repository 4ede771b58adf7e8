/* Surfaces in memory of another allocator: a memfd on the CPU backend. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check_macros.h"
#include "vkshare_ipc.h"

enum { WIDTH = 10, HEIGHT = 7, SIZE = 4 * 4096 };

static int memfd(int seals)
{
    int fd = memfd_create("another allocator's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0, "a memfd");
    return fd;
}

static const int final = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;

static vks_import_info info_of(uint64_t offset, uint64_t stride)
{
    return (vks_import_info){
        .image = {.width = WIDTH, .height = HEIGHT, .format = 3}, .size = SIZE, .offset = offset, .stride = stride};
}

static vks_device *open_device(void)
{
    vks_device *device = NULL;
    CHECK(vks_device_create(&(vks_device_info){.name = "imports"}, &device) == VKS_OK, "a device");
    return device;
}

static void end(vks_device *device, vks_surface *surface)
{
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static void the_pixels_of_a_memfd_are_those_of_the_surface(void) /* rules: E3 */
{
    vks_device *device = open_device();
    vks_surface *surface;
    size_t stride;
    void *pixels;
    int fd = memfd(final), kept = dup(fd);
    vks_import_info info = info_of(4096, 1000);
    CHECK(pwrite(kept, "\1\2\3\4", 4, 4096 + 2 * 1000 + 3 * 4) == 4, "a pixel");
    CHECK(vks_surface_import_memory(device, &info, fd, &surface) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(fcntl(fd, F_GETFD) < 0, "the fd is the library's");
    CHECK(vks_surface_acquire(surface, 0, 0) == VKS_OK, "free under key 0");
    CHECK(vks_surface_pixels(surface, &pixels, &stride) == VKS_OK && stride == 1000, "the pixels");
    CHECK(!memcmp((char *)pixels + 2 * 1000 + 3 * 4, "\1\2\3\4", 4), "row 2, column 3");
    memset(pixels, 9, 4);
    char seen[4];
    CHECK(pread(kept, seen, 4, 4096) == 4 && !memcmp(seen, "\11\11\11\11", 4), "the same memory");
    vks_surface_descriptor descriptor;
    CHECK(vks_surface_export_descriptor(surface, &descriptor) == VKS_UNSUPPORTED, "not at offset 4096");
    end(device, surface);
    close(kept);
}

static void memory_as_the_backend_has_it_is_exported(void)
{
    vks_device *device = open_device(), *other = open_device();
    vks_surface *surface, *opened;
    vks_surface_descriptor descriptor;
    vks_import_info info = info_of(0, 0);
    info.image.height = SIZE / VKS_ROW_ALIGNMENT;
    int fd = memfd(final);
    CHECK(vks_surface_import_memory(device, &info, fd, &surface) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_export_descriptor(surface, &descriptor) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_open_image(other, &descriptor, &opened) == VKS_OK, "%s", vks_last_error()->text);
    vks_surface_descriptor_close(&descriptor);
    end(other, opened);
    end(device, surface);
}

static void wrong_memory_is_refused_and_the_fd_stays_the_callers(void) /* rules: E3 */
{
    vks_device *device = open_device();
    vks_surface *surface = NULL;
    static const uint8_t other[16] = {1};
    int fd = memfd(final), unsealed = memfd(0), read_only = memfd(final | F_SEAL_WRITE);
    vks_import_info good = info_of(0, 0), infos[9];
    for (size_t i = 0; i < 9; i++)
        infos[i] = good;
    infos[0].stride = 36;
    infos[1].stride = 42;
    infos[2].offset = 2;
    infos[3].offset = SIZE - 4;
    infos[4].offset = UINT64_MAX - 3;
    infos[5].size = SIZE + 1;
    infos[6].size = 40;
    infos[7].stride = UINT64_MAX - 3;
    infos[8].size = UINT64_MAX;
    for (size_t i = 0; i < 9; i++)
        CHECK(vks_surface_import_memory(device, &infos[i], fd, &surface) == VKS_BAD_PAGE, "case %zu: %s", i,
              vks_last_error()->text);
    int wrong[] = {-1, unsealed, read_only, STDERR_FILENO, INT32_MAX};
    for (size_t i = 0; i < 5; i++)
        CHECK(vks_surface_import_memory(device, &good, wrong[i], &surface) == VKS_BAD_PAGE, "fd %zu", i);
    good.device_uuid = other;
    CHECK(vks_surface_import_memory(device, &good, fd, &surface) == VKS_FOREIGN_DEVICE, "another device");
    good.image.tiling = VKS_OPTIMAL;
    good.device_uuid = NULL;
    CHECK(vks_surface_import_memory(device, &good, fd, &surface) == VKS_UNSUPPORTED, "no tiling");
    good.image.tiling = 9;
    CHECK(vks_surface_import_memory(device, &good, fd, &surface) == VKS_BAD_VALUE, "no such tiling");
    CHECK(fcntl(fd, F_GETFD) >= 0 && fcntl(unsealed, F_GETFD) >= 0 && !surface, "they are open");
    close(fd);
    close(unsealed);
    close(read_only);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

int main(void)
{
    RUN(the_pixels_of_a_memfd_are_those_of_the_surface);
    RUN(memory_as_the_backend_has_it_is_exported);
    RUN(wrong_memory_is_refused_and_the_fd_stays_the_callers);
    return check_result();
}
