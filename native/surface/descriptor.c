/* descriptor.c: receives and checks descriptors of other processes, for C programs. It follows
 * vkshare/ipc/descriptors.py and transport.py, and tests/test_c_client.py compares the two. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/memory.h"
#include "raster/raster.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "descriptors are little-endian, and read as they lie");
_Static_assert(sizeof(vks_descriptor_header) == 28, "layout");
_Static_assert(sizeof(vks_surface_body) == 112, "layout");
_Static_assert(sizeof(vks_fence_body) == 56, "layout");
_Static_assert(sizeof VKS_DESCRIPTOR_MAGIC == sizeof((vks_descriptor_header *)0)->magic, "layout");

#define MAX_MESSAGE 4096
#define LARGEST_MEMORY (UINT64_C(1) << 48)

/* One message while it is received. */
typedef struct message {
    unsigned char data[MAX_MESSAGE];
    size_t size;
    int fds[VKS_DESCRIPTOR_MAX_FDS];
    size_t n_fds;
} message;

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- the socket ---- */

static vks_status check_peer(int sock)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0)
        return vks_fail(VKS_OS_ERROR, errno, "fd %d is no connected Unix socket", sock);
    if (type != SOCK_STREAM && type != SOCK_SEQPACKET)
        return vks_fail(VKS_UNSUPPORTED, 0, "descriptors come over SOCK_STREAM or SOCK_SEQPACKET, not type %d", type);
    if (peer.uid != geteuid())
        return vks_fail(VKS_BAD_PAGE, 0, "the peer is user %u, this process user %u", peer.uid, geteuid());
    return VKS_OK;
}

static vks_status wait_for_bytes(int sock, uint64_t deadline)
{
    for (;;) {
        uint64_t now = vks_now();
        uint64_t left = deadline == VKS_FOREVER ? INT_MAX : deadline > now ? (deadline - now + 999999) / 1000000 : 0;
        struct pollfd what = {.fd = sock, .events = POLLIN};
        int n = poll(&what, 1, left < INT_MAX ? (int)left : INT_MAX);
        if (n > 0)
            return VKS_OK;
        if (n < 0)
            return errno == EINTR ? VKS_INTERRUPTED : vks_fail(VKS_OS_ERROR, errno, "poll");
        if (left < INT_MAX)
            return VKS_TIMEOUT;
    }
}

static void take_fds(message *in, struct msghdr *from)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(from); c; c = CMSG_NXTHDR(from, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0, n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (in->n_fds < VKS_DESCRIPTOR_MAX_FDS)
                in->fds[in->n_fds++] = fd;
            else /* fds of a second message in the stream */
                close(fd);
        }
    }
}

/* Receives up to `size` more bytes, and the fds that come with them. */
static vks_status receive_some(int sock, uint64_t deadline, message *in, size_t size)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(VKS_DESCRIPTOR_MAX_FDS * sizeof(int))];
    struct iovec part = {in->data + in->size, size};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    do {
        vks_status status = wait_for_bytes(sock, deadline);
        if (status)
            return status;
        header.msg_controllen = sizeof control;
        n = recvmsg(sock, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n < 0)
        return vks_fail(VKS_OS_ERROR, errno, "recvmsg");
    take_fds(in, &header);
    if (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
        return vks_fail(VKS_BAD_PAGE, 0, "the message was truncated (too long, or with more fds than fit)");
    if (n == 0)
        return in->size ? vks_fail(VKS_BAD_PAGE, 0, "the peer closed the connection after %zu bytes of a descriptor",
                                   in->size)
                        : vks_fail(VKS_CLOSED, 0, "the peer closed the connection");
    in->size += (size_t)n;
    return VKS_OK;
}

static vks_status receive_exactly(int sock, uint64_t deadline, message *in, size_t size)
{
    vks_status status = VKS_OK;
    while (!status && in->size < size)
        status = receive_some(sock, deadline, in, size - in->size);
    return status;
}

/* ---- the bytes ---- */

static vks_status check_header(const message *in, uint32_t kind, size_t body_size)
{
    vks_descriptor_header h;
    if (in->size < sizeof h)
        return vks_fail(VKS_BAD_PAGE, 0, "a descriptor has at least %zu bytes; %zu came", sizeof h, in->size);
    memcpy(&h, in->data, sizeof h);
    if (memcmp(h.magic, VKS_DESCRIPTOR_MAGIC, sizeof h.magic) != 0)
        return vks_fail(VKS_BAD_PAGE, 0, "this is not a descriptor of vkshare");
    if (h.version != VKS_DESCRIPTOR_VERSION)
        return vks_fail(VKS_BAD_PAGE, 0,
                        "the sender's descriptors have layout version %u, this vkshare's have %u: run the same version "
                        "of vkshare on both sides",
                        h.version, VKS_DESCRIPTOR_VERSION);
    if (h.page_version != VKS_LAYOUT_VERSION)
        return vks_fail(
            VKS_BAD_PAGE, 0,
            "the sender's shared pages have layout version %u, this vkshare's have %u: run the same version "
            "of vkshare on both sides",
            h.page_version, VKS_LAYOUT_VERSION);
    if (h.kind != kind)
        return vks_fail(VKS_BAD_PAGE, 0, "the descriptor's kind is %u, expected is %u", h.kind, kind);
    if (h.size != sizeof h + body_size)
        return vks_fail(VKS_BAD_PAGE, 0, "the descriptor says %u bytes; expected are %zu", h.size,
                        sizeof h + body_size);
    return VKS_OK;
}

/* Checks that the whole message and as many fds as it declares have arrived. */
static vks_status check_whole(const message *in)
{
    vks_descriptor_header h;
    memcpy(&h, in->data, sizeof h);
    if (in->size != h.size)
        return vks_fail(VKS_BAD_PAGE, 0, "the descriptor says %u bytes and has %zu", h.size, in->size);
    if (in->n_fds != h.n_fds)
        return vks_fail(VKS_BAD_PAGE, 0, "the descriptor says it carries %u fds, and %zu came", h.n_fds, in->n_fds);
    return VKS_OK;
}

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

/* ---- receiving ---- */

/* Receives one message with a valid header and fd count. On success the caller owns the fds. */
static vks_status receive(int sock, uint64_t deadline, uint32_t kind, size_t body_size, message *in)
{
    in->size = in->n_fds = 0;
    int type = 0;
    socklen_t type_size = sizeof type;
    vks_status status = check_peer(sock);
    if (status)
        return status;
    getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &type_size);
    if (type == SOCK_STREAM) { /* other messages may follow, so read no more than the header declares */
        status = receive_exactly(sock, deadline, in, sizeof(vks_descriptor_header));
        if (!status && !(status = check_header(in, kind, body_size)))
            status = receive_exactly(sock, deadline, in, sizeof(vks_descriptor_header) + body_size);
    } else {
        status = receive_some(sock, deadline, in, MAX_MESSAGE);
        if (!status)
            status = check_header(in, kind, body_size);
    }
    if (!status)
        status = check_whole(in);
    if (status == VKS_TIMEOUT && in->size)
        status = vks_fail(VKS_BAD_PAGE, 0, "the descriptor stopped after %zu bytes", in->size);
    if (status == VKS_INTERRUPTED && in->size)
        status = vks_fail(VKS_BAD_PAGE, EINTR, "a signal came after %zu bytes of the descriptor", in->size);
    if (status)
        close_all(in->fds, in->n_fds);
    return status;
}

vks_status vks_surface_descriptor_recv(int sock, uint64_t deadline, vks_surface_descriptor *out)
{
    message in;
    memset(out, 0, sizeof *out);
    out->memory_fd = out->page_fd = out->semaphore_fd = -1;
    vks_status status = receive(sock, deadline, VKS_DESCRIPTOR_SURFACE, sizeof out->body, &in);
    if (status)
        return status;
    memcpy(&out->body, in.data + sizeof(vks_descriptor_header), sizeof out->body);
    if ((status = check_body(&out->body)) == VKS_OK && in.n_fds != 2 && in.n_fds != 3)
        status = vks_fail(VKS_BAD_PAGE, 0, "a surface's descriptor carries 2 or 3 fds, and %zu came", in.n_fds);
    if (!status && !(status = vks_memory_check(in.fds[0], out->body.memory_kind == VKS_MEMFD, out->body.memory_size)))
        status = vks_memfd_check(in.fds[1], "shared page", VKS_MEMFD_WRITE, 0);
    if (status) {
        close_all(in.fds, in.n_fds);
        return status;
    }
    out->memory_fd = in.fds[0];
    out->page_fd = in.fds[1];
    out->semaphore_fd = in.n_fds == 3 ? in.fds[2] : -1;
    return VKS_OK;
}

vks_status vks_fence_descriptor_recv(int sock, uint64_t deadline, vks_fence_descriptor *out)
{
    message in;
    memset(out, 0, sizeof *out);
    out->page_fd = out->semaphore_fd = -1;
    vks_status status = receive(sock, deadline, VKS_DESCRIPTOR_FENCE, sizeof out->body, &in);
    if (status)
        return status;
    memcpy(&out->body, in.data + sizeof(vks_descriptor_header), sizeof out->body);
    if ((status = check_name(out->body.name)) == VKS_OK && in.n_fds != 1 && in.n_fds != 2)
        status = vks_fail(VKS_BAD_PAGE, 0, "a fence's descriptor carries 1 or 2 fds, and %zu came", in.n_fds);
    if (!status)
        status = vks_memfd_check(in.fds[0], "shared page", VKS_MEMFD_READ, 0);
    if (status) {
        close_all(in.fds, in.n_fds);
        return status;
    }
    out->page_fd = in.fds[0];
    out->semaphore_fd = in.n_fds == 2 ? in.fds[1] : -1;
    return VKS_OK;
}

void vks_surface_descriptor_close(vks_surface_descriptor *d)
{
    close_all((int[]){d->memory_fd, d->page_fd, d->semaphore_fd}, 3);
    d->memory_fd = d->page_fd = d->semaphore_fd = -1;
}

void vks_fence_descriptor_close(vks_fence_descriptor *d)
{
    close_all((int[]){d->page_fd, d->semaphore_fd}, 2);
    d->page_fd = d->semaphore_fd = -1;
}

/* ---- opening ---- */

vks_status vks_surface_descriptor_check_device(const vks_surface_descriptor *d, const uint8_t device_uuid[16],
                                               const uint8_t driver_uuid[16])
{
    if (memcmp(d->body.device_uuid, device_uuid, 16) != 0 || memcmp(d->body.driver_uuid, driver_uuid, 16) != 0)
        return vks_fail(VKS_FOREIGN_DEVICE, 0,
                        "the surface was made on another device or driver: open it on the adapter that made it");
    return VKS_OK;
}

vks_status vks_surface_descriptor_map(const vks_surface_descriptor *d, void **pixels)
{
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
    vks_surface_info info = {.width = d->body.width,
                             .height = d->body.height,
                             .format = d->body.format,
                             .pixels = pixels,
                             .size = pixels ? d->body.memory_size : 0,
                             .stride = d->body.stride};
    int page = vks_dup(d->page_fd), semaphore = d->semaphore_fd < 0 ? -1 : vks_dup(d->semaphore_fd);
    if (page < 0 || (d->semaphore_fd >= 0 && semaphore < 0)) {
        int code = errno;
        close_all((int[]){page, semaphore}, 2);
        return vks_fail(VKS_OS_ERROR, code, "the descriptor's fds could not be duplicated");
    }
    return vks_surface_open(device, &info, page, semaphore, out);
}
