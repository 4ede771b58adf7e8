/* descriptor.c: checks descriptors of other processes, sends and opens them. It follows
 * vkshare/ipc/descriptors.py, and tests/processes/native/test_c_client.py compares the two. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raster/raster.h"
#include "shm/memory.h"
#include "surface/message.h"
#include "surface/surface.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "descriptors are little-endian, and read as they lie");
_Static_assert(sizeof(vks_surface_body) == 112, "layout");
_Static_assert(sizeof(vks_fence_body) == 56, "layout");

#define LARGEST_MEMORY (UINT64_C(1) << 48)

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

/* A name is cut to a number of bytes, and not within a character. */
void vks_descriptor_name(const vks_device *device, char name[VKS_NAME_SIZE])
{
    size_t size = strlen(device->name);
    memset(name, 0, VKS_NAME_SIZE);
    memcpy(name, device->name, size);
    while (size && !is_utf8(name, size))
        name[--size] = 0;
}

static vks_status check_name(const char *name)
{
    return is_utf8(name, VKS_NAME_SIZE) ? VKS_OK
                                        : vks_fail(VKS_BAD_PAGE, 0, "descriptor: the device's name is not UTF-8");
}

/* Recomputes the sizes. Sides are below 2^20 and a pixel has at most 16 bytes, so nothing
 * overflows. */
static vks_status check_sizes(const vks_surface_body *b)
{
    uint64_t pixel = vks_format_bytes(b->format), row = b->width * pixel, needed = row * b->height;
    if (b->tiling != VKS_OPTIMAL) {
        if (b->stride < row || b->stride % pixel || b->stride > LARGEST_MEMORY)
            return vks_fail(VKS_BAD_PAGE, 0, "descriptor: a row is %llu bytes and cannot have a stride of %llu",
                            (unsigned long long)row, (unsigned long long)b->stride);
        if (b->height > 1 && b->stride > LARGEST_MEMORY / (b->height - 1))
            needed = UINT64_MAX;
        else
            needed = b->stride * (b->height - 1) + row;
    } else if (b->stride) {
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: optimal tiling has no stride, and it says %llu",
                        (unsigned long long)b->stride);
    }
    if (b->memory_size > LARGEST_MEMORY || b->memory_offset > b->memory_size ||
        b->memory_size - b->memory_offset < needed)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: %llu bytes at offset %llu do not fit a memory of %llu bytes",
                        (unsigned long long)needed, (unsigned long long)b->memory_offset,
                        (unsigned long long)b->memory_size);
    return VKS_OK;
}

/* A surface of the CPU backend has the size of its rows, in whole pages. Rows are tight or padded. */
static vks_status check_memfd_sizes(const vks_surface_body *b)
{
    uint64_t row = b->width * (uint64_t)vks_format_bytes(b->format), page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t padded = (row + VKS_ROW_ALIGNMENT - 1) / VKS_ROW_ALIGNMENT * VKS_ROW_ALIGNMENT;
    if (b->tiling != VKS_LINEAR || b->memory_offset)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: memory of the CPU backend is linear host memory at offset 0");
    if (b->stride > padded)
        return vks_fail(VKS_BAD_PAGE, 0,
                        "descriptor: a row is %llu bytes and has a stride of %llu; allowed is at most %llu",
                        (unsigned long long)row, (unsigned long long)b->stride, (unsigned long long)padded);
    uint64_t needed = (b->stride * b->height + page - 1) / page * page;
    if (b->memory_size != needed)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: the memory has %llu bytes; %u rows of %llu need exactly %llu",
                        (unsigned long long)b->memory_size, b->height, (unsigned long long)b->stride,
                        (unsigned long long)needed);
    return VKS_OK;
}

static vks_status check_body(const vks_surface_body *b)
{
    if (b->width < 1 || b->width > VKS_LARGEST_SIDE || b->height < 1 || b->height > VKS_LARGEST_SIDE)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: the size is %ux%u; allowed is 1 to %u", b->width, b->height,
                        VKS_LARGEST_SIDE);
    if (!vks_format_bytes(b->format))
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: unknown format %u", b->format);
    if (b->tiling > VKS_LINEAR_IN_DEVICE_MEMORY || b->usage < 1 || b->usage > 15 || b->memory_kind > VKS_MEMFD ||
        b->dedicated > 1)
        return vks_fail(VKS_BAD_PAGE, 0, "descriptor: unknown tiling %u, usage %u, memory kind %u or dedicated flag %u",
                        b->tiling, b->usage, b->memory_kind, b->dedicated);
    vks_status status = check_sizes(b);
    if (!status && b->memory_kind == VKS_MEMFD)
        status = check_memfd_sizes(b);
    return status ? status : check_name(b->name);
}

/* ---- receiving and sending ---- */

const vks_message_form vks_surface_form = {
    .kind = VKS_DESCRIPTOR_SURFACE, .most_fds = VKS_DESCRIPTOR_MAX_FDS, .body_size = sizeof(vks_surface_body)};
const vks_message_form vks_fence_form = {
    .kind = VKS_DESCRIPTOR_FENCE, .most_fds = VKS_DESCRIPTOR_MAX_FDS, .body_size = sizeof(vks_fence_body)};

vks_status vks_surface_descriptor_take(const void *body, const int *fds, size_t n_fds, vks_surface_descriptor *out)
{
    *out = (vks_surface_descriptor){.memory_fd = -1, .page_fd = -1, .semaphore_fd = -1};
    memcpy(&out->body, body, sizeof out->body);
    vks_status status = check_body(&out->body);
    if (!status && n_fds != 2 && n_fds != 3)
        status = vks_fail(VKS_BAD_PAGE, 0, "a surface's descriptor carries 2 or 3 fds, and %zu came", n_fds);
    if (status || (status = vks_memory_check(fds[0], out->body.memory_kind == VKS_MEMFD, out->body.memory_size)) ||
        (status = vks_memfd_check(fds[1], "shared page", VKS_MEMFD_WRITE, 0)))
        return status;
    out->memory_fd = fds[0];
    out->page_fd = fds[1];
    out->semaphore_fd = n_fds == 3 ? fds[2] : -1;
    return VKS_OK;
}

vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out)
{
    VKS_NEEDS(out);
    vks_message in;
    *out = (vks_surface_descriptor){.memory_fd = -1, .page_fd = -1, .semaphore_fd = -1};
    vks_status status = vks_message_receive(sock, deadline, &vks_surface_form, &in);
    if (!status && (status = vks_surface_descriptor_take(vks_message_part(&in, 0), in.fds, in.n_fds, out)))
        vks_close_all(in.fds, in.n_fds);
    return status;
}

vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out)
{
    VKS_NEEDS(out);
    vks_message in;
    *out = (vks_fence_descriptor){.page_fd = -1, .semaphore_fd = -1};
    vks_status status = vks_message_receive(sock, deadline, &vks_fence_form, &in);
    if (status)
        return status;
    memcpy(&out->body, vks_message_part(&in, 0), sizeof out->body);
    if ((status = check_name(out->body.name)) == VKS_OK && in.n_fds != 1 && in.n_fds != 2)
        status = vks_fail(VKS_BAD_PAGE, 0, "a fence's descriptor carries 1 or 2 fds, and %zu came", in.n_fds);
    if (!status)
        status = vks_memfd_check(in.fds[0], "shared page", VKS_MEMFD_READ, 0);
    if (status) {
        vks_close_all(in.fds, in.n_fds);
        return status;
    }
    out->page_fd = in.fds[0];
    out->semaphore_fd = in.n_fds == 2 ? in.fds[1] : -1;
    return VKS_OK;
}

vks_status vks_surface_descriptor_send(int sock, uint64_t deadline, const vks_surface_descriptor *d)
{
    VKS_NEEDS(d);
    vks_message out;
    vks_message_begin(&out, &vks_surface_form, &d->body);
    vks_message_add_fds(&out, (int[]){d->memory_fd, d->page_fd, d->semaphore_fd}, 3);
    return vks_message_send(sock, deadline, &out);
}

vks_status vks_fence_descriptor_send(int sock, uint64_t deadline, const vks_fence_descriptor *d)
{
    VKS_NEEDS(d);
    vks_message out;
    vks_message_begin(&out, &vks_fence_form, &d->body);
    vks_message_add_fds(&out, (int[]){d->page_fd, d->semaphore_fd}, 2);
    return vks_message_send(sock, deadline, &out);
}

void vks_surface_descriptor_close(vks_surface_descriptor *d)
{
    VKS_NEEDS_OR(, d);
    vks_close_all((int[]){d->memory_fd, d->page_fd, d->semaphore_fd}, 3);
    d->memory_fd = d->page_fd = d->semaphore_fd = -1;
}

void vks_fence_descriptor_close(vks_fence_descriptor *d)
{
    VKS_NEEDS_OR(, d);
    vks_close_all((int[]){d->page_fd, d->semaphore_fd}, 2);
    d->page_fd = d->semaphore_fd = -1;
}

/* ---- opening ---- */

vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *d, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16])
{
    VKS_NEEDS(d, device_uuid, driver_uuid);
    if (memcmp(d->body.device_uuid, device_uuid, 16) != 0 || memcmp(d->body.driver_uuid, driver_uuid, 16) != 0)
        return vks_fail(VKS_FOREIGN_DEVICE, 0,
                        "the surface was made on another device or driver: open it on the adapter that made it");
    return VKS_OK;
}

vks_status vks_surface_descriptor_map(const vks_surface_descriptor *d, void **pixels)
{
    VKS_NEEDS(d, pixels);
    const vks_surface_body *b = &d->body;
    if (b->memory_kind != VKS_MEMFD)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "its memory belongs to a Vulkan driver: open it on a device of the same adapter, or create the "
                        "surface on the CPU backend");
    vks_status status = check_memfd_sizes(b);
    if (status || (status = vks_memory_check(d->memory_fd, true, b->memory_size)))
        return status;
    *pixels = mmap(NULL, b->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, d->memory_fd, 0);
    return *pixels != MAP_FAILED ? VKS_OK
                                 : vks_fail(VKS_OS_ERROR, errno, "mmap() of a surface of %llu bytes failed",
                                            (unsigned long long)b->memory_size);
}

vks_status vks_surface_open_descriptor(vks_device *device, const vks_surface_descriptor *d, void *pixels,
                                       vks_surface **out)
{
    VKS_NEEDS(device, d, out);
    vks_surface_info info = {.width = d->body.width,
                             .height = d->body.height,
                             .format = d->body.format,
                             .pixels = pixels,
                             .size = pixels ? d->body.memory_size : 0,
                             .stride = d->body.stride};
    int page = vks_dup(d->page_fd), semaphore = d->semaphore_fd < 0 ? -1 : vks_dup(d->semaphore_fd);
    if (page < 0 || (d->semaphore_fd >= 0 && semaphore < 0)) {
        int code = errno;
        vks_close_all((int[]){page, semaphore}, 2);
        return vks_fail(VKS_OS_ERROR, code, "the descriptor's fds could not be duplicated");
    }
    return vks_surface_open(device, &info, page, semaphore, out);
}
