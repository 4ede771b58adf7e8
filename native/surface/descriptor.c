/* descriptor.c: checks descriptors of other processes, sends and opens them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raster/planar.h"
#include "shm/memory.h"
#include "surface/message.h"
#include "surface/surface.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "descriptors are little-endian, and read as they lie");
_Static_assert(sizeof(vks_surface_body) == 120, "layout");
_Static_assert(sizeof(vks_fence_body) == 56, "layout");

#define BUFFER_USAGES (2 * VKS_BUFFER_INDIRECT - 1)
#define USAGES (VKS_USAGE_RENDER | VKS_USAGE_SAMPLE | VKS_USAGE_COPY | VKS_USAGE_STORAGE)

/* ---- the body ---- */

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
static bool is_utf8(const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned char first = (unsigned char)text[i++];
        int more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
        unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80; /* of the second byte */
        unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (more < 0)
            return false;
        for (; more; more--, i++, least = 0x80, most = 0xbf)
            if (i == size || (unsigned char)text[i] < least || (unsigned char)text[i] > most)
                return false;
    }
    return true;
}

void vks_descriptor_name(const char *text, char name[VKS_NAME_SIZE])
{
    size_t size = strnlen(text, VKS_NAME_SIZE - 1);
    memset(name, 0, VKS_NAME_SIZE);
    memcpy(name, text, size);
    while (size && !is_utf8(name, size))
        name[--size] = 0;
}

static vks_status check_name(const char *name)
{
    return is_utf8(name, VKS_NAME_SIZE) ? VKS_OK : vks_fail(VKS_BAD_PAGE, 0, "the device's name is not UTF-8");
}

static vks_status check_memory(const vks_surface_body *b, uint64_t needed)
{
    if (b->memory_size > VKS_LARGEST_MEMORY || b->memory_offset > b->memory_size ||
        b->memory_size - b->memory_offset < needed)
        return vks_fail(VKS_BAD_PAGE, 0, "%llu bytes at offset %llu do not fit a memory of %llu bytes",
                        (unsigned long long)needed, (unsigned long long)b->memory_offset,
                        (unsigned long long)b->memory_size);
    return VKS_OK;
}

/* Bytes of a pixel, of planes of one of luma; 0: no such format. */
static uint64_t pixel_bytes(const vks_surface_body *b) { return vks_format_bytes(vks_plane_format(b->format, 0)); }

/* Recomputes the sizes. Sides are below 2^20 and a pixel has at most 16 bytes, so nothing
 * overflows. Drivers have planes in their own order, so that the luma's rows alone are known. */
static vks_status check_sizes(const vks_surface_body *b)
{
    uint64_t pixel = pixel_bytes(b), row = b->width * pixel, needed = row * b->height;
    if (b->tiling != VKS_OPTIMAL) {
        if (b->stride < row || b->stride % pixel || b->stride > VKS_LARGEST_MEMORY)
            return vks_fail(VKS_BAD_PAGE, 0, "a row is %llu bytes and cannot have a stride of %llu",
                            (unsigned long long)row, (unsigned long long)b->stride);
        if (b->height > 1 && b->stride > VKS_LARGEST_MEMORY / (b->height - 1))
            needed = UINT64_MAX;
        else
            needed = b->stride * (b->height - 1) + row;
    } else if (b->stride) {
        return vks_fail(VKS_BAD_PAGE, 0, "optimal tiling has no stride, and it says %llu",
                        (unsigned long long)b->stride);
    }
    return check_memory(b, needed);
}

static vks_status check_memfd_of_buffer(const vks_surface_body *b)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = vks_buffer_size(b);
    uint64_t needed = (size + page - 1) / page * page;
    return size && size <= VKS_LARGEST_MEMORY && b->memory_size == needed && !b->memory_offset && !b->stride
               ? VKS_OK
               : vks_fail(VKS_BAD_PAGE, 0,
                          "the memory has %llu bytes at offset %llu; a buffer of %llu needs exactly %llu at offset 0",
                          (unsigned long long)b->memory_size, (unsigned long long)b->memory_offset,
                          (unsigned long long)size, (unsigned long long)needed);
}

vks_status vks_surface_check_memfd(const vks_surface_body *b)
{
    if (b->tiling == VKS_BUFFER)
        return check_memfd_of_buffer(b);
    uint64_t row = b->width * pixel_bytes(b), page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t planes = vks_format_planes(b->format);
    uint64_t padded = (row + VKS_ROW_ALIGNMENT - 1) / VKS_ROW_ALIGNMENT * VKS_ROW_ALIGNMENT;
    if (b->tiling != VKS_LINEAR || b->memory_offset)
        return vks_fail(VKS_BAD_PAGE, 0, "memory of the CPU backend is linear host memory at offset 0");
    if (b->stride < row || b->stride > padded)
        return vks_fail(VKS_BAD_PAGE, 0, "a row is %llu bytes and has a stride of %llu; allowed is %llu to %llu",
                        (unsigned long long)row, (unsigned long long)b->stride, (unsigned long long)row,
                        (unsigned long long)padded);
    if (planes > 1 && b->stride % 4)
        return vks_fail(VKS_BAD_PAGE, 0, "a row of luma has a stride of %llu; allowed are multiples of 4",
                        (unsigned long long)b->stride);
    uint64_t needed = (vks_planes_bytes(b->format, planes, b->height, b->stride) + page - 1) / page * page;
    if (b->memory_size != needed)
        return vks_fail(VKS_BAD_PAGE, 0, "the memory has %llu bytes; %u rows of %llu need exactly %llu",
                        (unsigned long long)b->memory_size, b->height, (unsigned long long)b->stride,
                        (unsigned long long)needed);
    return VKS_OK;
}

static vks_status check_side(const char *what, uint32_t side)
{
    return side >= 1 && side <= VKS_LARGEST_SIDE
               ? VKS_OK
               : vks_fail(VKS_BAD_PAGE, 0, "%s is %u; allowed is 1 to %u", what, side, VKS_LARGEST_SIDE);
}

static vks_status check_color(const vks_surface_body *b)
{
    static const uint8_t zeros[sizeof b->reserved];
    return memcmp(b->reserved, zeros, sizeof zeros) ? vks_fail(VKS_BAD_PAGE, 0, "unknown reserved bytes")
                                                    : vks_color_check(VKS_BAD_PAGE, b->format, &b->color);
}

static vks_status check_body(const vks_surface_body *b)
{
    vks_status status = check_side("width", b->width);
    if (status || (status = check_side("height", b->height)))
        return status;
    if (!vks_planes_fit(b->format, b->width, b->height))
        return vks_fail(VKS_BAD_PAGE, 0, "%ux%u pixels of %s, whose chroma has half as many columns or rows", b->width,
                        b->height, vks_format_name(b->format));
    const char *unknown = !vks_format_planes(b->format)             ? "format"
                          : b->tiling > VKS_LINEAR_IN_DEVICE_MEMORY ? "tiling"
                          : b->usage < 1 || b->usage > USAGES       ? "usage"
                          : b->memory_kind > VKS_MEMFD              ? "memory kind"
                          : b->dedicated > 1                        ? "dedicated flag"
                                                                    : NULL;
    if (unknown)
        return vks_fail(VKS_BAD_PAGE, 0, "unknown %s", unknown);
    status = check_sizes(b);
    if (!status && b->memory_kind == VKS_MEMFD)
        status = vks_surface_check_memfd(b);
    if (!status)
        status = check_color(b);
    return status ? status : check_name(b->name);
}

static vks_status check_buffer_body(const vks_surface_body *b)
{
    uint64_t size = vks_buffer_size(b);
    if (size < 1 || size > VKS_LARGEST_MEMORY)
        return vks_fail(VKS_BAD_PAGE, 0, "a buffer of %llu bytes; allowed is 1 to %llu", (unsigned long long)size,
                        (unsigned long long)VKS_LARGEST_MEMORY);
    const char *unknown = b->format || b->stride                     ? "format or stride of a buffer"
                          : b->tiling != VKS_BUFFER                  ? "tiling of a buffer"
                          : b->usage < 1 || b->usage > BUFFER_USAGES ? "usage of a buffer"
                          : b->memory_kind > VKS_MEMFD               ? "memory kind"
                          : b->dedicated > 1                         ? "dedicated flag"
                                                                     : NULL;
    if (unknown)
        return vks_fail(VKS_BAD_PAGE, 0, "unknown %s", unknown);
    vks_status status = check_memory(b, size);
    if (!status && b->memory_kind == VKS_MEMFD)
        status = check_memfd_of_buffer(b);
    return status ? status : check_name(b->name);
}

/* ---- messages ---- */

static vks_status check_page(int fd, vks_memfd_use use) { return vks_memfd_check(fd, "shared page", use, 0); }

static vks_status check_semaphores(const int *fds, size_t n_fds)
{
    return n_fds && fcntl(fds[0], F_GETFD) < 0
               ? vks_fail(VKS_BAD_PAGE, 0, "the semaphore's fd cannot be used: %s", strerror(errno))
               : VKS_OK;
}

static vks_status check_fds(const vks_surface_body *b, const char *what, const int *fds, size_t n_fds)
{
    vks_status status = VKS_OK;
    if (n_fds != 2 && n_fds != 3)
        status = vks_fail(VKS_BAD_PAGE, 0, "a %s's descriptor carries 2 or 3 fds, and %zu came", what, n_fds);
    if (status || (status = vks_memory_check(fds[0], b->memory_kind == VKS_MEMFD, b->memory_size)) ||
        (status = check_page(fds[1], VKS_MEMFD_WRITE)))
        return status;
    return check_semaphores(fds + 2, n_fds - 2);
}

static vks_status check_surface(const void *body, size_t size, const int *fds, size_t n_fds)
{
    vks_surface_body b;
    (void)size; /* one size is valid, and the header has it */
    memcpy(&b, body, sizeof b);
    vks_status status = check_body(&b);
    return status ? status : check_fds(&b, "surface", fds, n_fds);
}

static vks_status check_buffer(const void *body, size_t size, const int *fds, size_t n_fds)
{
    vks_surface_body b;
    (void)size;
    memcpy(&b, body, sizeof b);
    vks_status status = check_buffer_body(&b);
    return status ? status : check_fds(&b, "buffer", fds, n_fds);
}

static vks_status check_fence(const void *body, size_t size, const int *fds, size_t n_fds)
{
    vks_fence_body b;
    (void)size;
    memcpy(&b, body, sizeof b);
    vks_status status = check_name(b.name);
    if (!status && n_fds != 1 && n_fds != 2)
        status = vks_fail(VKS_BAD_PAGE, 0, "a fence's descriptor carries 1 or 2 fds, and %zu came", n_fds);
    if (status || (status = check_page(fds[0], VKS_MEMFD_READ)))
        return status;
    return check_semaphores(fds + 1, n_fds - 1);
}

const vks_message_form *vks_surface_form(void)
{
    static const vks_message_form form = {.name = "SurfaceDescriptor",
                                          .kind = VKS_DESCRIPTOR_SURFACE,
                                          .most_fds = VKS_DESCRIPTOR_MAX_FDS,
                                          .body_size = sizeof(vks_surface_body),
                                          .check = check_surface};
    return &form;
}

const vks_message_form *vks_buffer_form(void)
{
    static const vks_message_form form = {.name = "BufferDescriptor",
                                          .kind = VKS_DESCRIPTOR_BUFFER,
                                          .most_fds = VKS_DESCRIPTOR_MAX_FDS,
                                          .body_size = sizeof(vks_surface_body),
                                          .check = check_buffer};
    return &form;
}

const vks_message_form *vks_fence_form(void)
{
    static const vks_message_form form = {.name = "FenceDescriptor",
                                          .kind = VKS_DESCRIPTOR_FENCE,
                                          .most_fds = VKS_DESCRIPTOR_MAX_FDS,
                                          .body_size = sizeof(vks_fence_body),
                                          .check = check_fence};
    return &form;
}

void vks_surface_descriptor_fill(const void *body, const int *fds, size_t n_fds, vks_surface_descriptor *out)
{
    memcpy(&out->body, body, sizeof out->body);
    out->memory_fd = fds[0];
    out->page_fd = fds[1];
    out->semaphore_fd = n_fds == 3 ? fds[2] : -1;
}

static vks_status receive(int sock, uint64_t deadline, const vks_message_form *form, vks_surface_descriptor *out)
{
    vks_message in;
    *out = (vks_surface_descriptor){.memory_fd = -1, .page_fd = -1, .semaphore_fd = -1};
    vks_status status = vks_message_receive(sock, deadline, form, &in);
    if (!status)
        vks_surface_descriptor_fill(vks_message_part(&in, 0), in.fds, in.n_fds, out);
    return status;
}

vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out)
{
    VKS_NEEDS(out);
    return receive(sock, deadline, vks_surface_form(), out);
}

vks_status vks_buffer_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out)
{
    VKS_NEEDS(out);
    return receive(sock, deadline, vks_buffer_form(), out);
}

vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out)
{
    VKS_NEEDS(out);
    vks_message in;
    *out = (vks_fence_descriptor){.page_fd = -1, .semaphore_fd = -1};
    vks_status status = vks_message_receive(sock, deadline, vks_fence_form(), &in);
    if (status)
        return status;
    memcpy(&out->body, vks_message_part(&in, 0), sizeof out->body);
    out->page_fd = in.fds[0];
    out->semaphore_fd = in.n_fds == 2 ? in.fds[1] : -1;
    return VKS_OK;
}

vks_status vks_surface_descriptor_send(int sock, uint64_t deadline, const vks_surface_descriptor *descriptor)
{
    VKS_NEEDS(descriptor);
    vks_message out;
    bool is_buffer = descriptor->body.tiling == VKS_BUFFER;
    vks_message_begin(&out, is_buffer ? vks_buffer_form() : vks_surface_form(), &descriptor->body);
    vks_message_add_fds(&out, (int[]){descriptor->memory_fd, descriptor->page_fd, descriptor->semaphore_fd}, 3);
    return vks_message_send(sock, deadline, &out);
}

vks_status vks_fence_descriptor_send(int sock, uint64_t deadline, const vks_fence_descriptor *descriptor)
{
    VKS_NEEDS(descriptor);
    vks_message out;
    vks_message_begin(&out, vks_fence_form(), &descriptor->body);
    vks_message_add_fds(&out, (int[]){descriptor->page_fd, descriptor->semaphore_fd}, 2);
    return vks_message_send(sock, deadline, &out);
}

void vks_surface_descriptor_close(vks_surface_descriptor *descriptor)
{
    VKS_NEEDS_OR(, descriptor);
    vks_close_all((int[]){descriptor->memory_fd, descriptor->page_fd, descriptor->semaphore_fd}, 3);
    descriptor->memory_fd = descriptor->page_fd = descriptor->semaphore_fd = -1;
}

void vks_fence_descriptor_close(vks_fence_descriptor *descriptor)
{
    VKS_NEEDS_OR(, descriptor);
    vks_close_all((int[]){descriptor->page_fd, descriptor->semaphore_fd}, 2);
    descriptor->page_fd = descriptor->semaphore_fd = -1;
}

/* ---- opening ---- */

vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *descriptor, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16])
{
    VKS_NEEDS(descriptor, device_uuid, driver_uuid);
    if (memcmp(descriptor->body.device_uuid, device_uuid, 16) != 0 ||
        memcmp(descriptor->body.driver_uuid, driver_uuid, 16) != 0)
        return vks_fail(VKS_FOREIGN_DEVICE, 0,
                        "the surface was made on another device or driver: open it on the adapter that made it");
    return VKS_OK;
}

vks_status vks_surface_descriptor_map(const vks_surface_descriptor *descriptor, void **pixels)
{
    VKS_NEEDS(descriptor, pixels);
    const vks_surface_body *b = &descriptor->body;
    if (b->memory_kind != VKS_MEMFD)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "its memory belongs to a Vulkan driver: open it on a device of the same adapter, or create the "
                        "surface on the CPU backend");
    vks_status status = vks_surface_check_memfd(b);
    if (status || (status = vks_memory_check(descriptor->memory_fd, true, b->memory_size)))
        return status;
    *pixels = mmap(NULL, b->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor->memory_fd, 0);
    return *pixels != MAP_FAILED ? VKS_OK
                                 : vks_fail(VKS_OS_ERROR, errno, "mmap() of a surface of %llu bytes failed",
                                            (unsigned long long)b->memory_size);
}

vks_status vks_surface_open_descriptor(vks_device *device, const vks_surface_descriptor *descriptor, void *pixels,
                                       vks_surface **out)
{
    VKS_NEEDS(device, descriptor, out);
    vks_surface_info info = {.width = descriptor->body.width,
                             .height = descriptor->body.height,
                             .format = descriptor->body.format,
                             .color = descriptor->body.color,
                             .pixels = pixels,
                             .size = pixels ? descriptor->body.memory_size : 0,
                             .stride = descriptor->body.stride};
    int page = vks_dup(descriptor->page_fd),
        semaphore = descriptor->semaphore_fd < 0 ? -1 : vks_dup(descriptor->semaphore_fd);
    if (page < 0 || (descriptor->semaphore_fd >= 0 && semaphore < 0)) {
        int code = errno;
        vks_close_all((int[]){page, semaphore}, 2);
        return vks_fail(VKS_OS_ERROR, code, "the descriptor's fds could not be duplicated");
    }
    return vks_surface_open(device, &info, page, semaphore, out);
}
