/* Descriptors received in C: valid ones open, others are refused, and no fd leaks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check_macros.h"
#include "vkshare.h"

enum { WIDTH = 24, HEIGHT = 10, STRIDE = 128, SIZE = 4096 };

typedef struct packet {
    struct __attribute__((packed)) {
        vks_descriptor_header header;
        vks_surface_body body;
    } bytes;
    size_t size;
    int fds[32];
    size_t n_fds;
} packet;

static int new_memfd(void)
{
    int fd = memfd_create("pixels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, SIZE) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) == 0,
          "a memfd");
    return fd;
}

/* Packs a surface of the CPU backend, as Python would send it. */
static packet pack(vks_surface *surface, int memory)
{
    packet p = {.size = sizeof p.bytes, .n_fds = 2};
    int semaphore;
    p.bytes.header = (vks_descriptor_header){VKS_DESCRIPTOR_MAGIC, VKS_DESCRIPTOR_SURFACE, VKS_DESCRIPTOR_VERSION,
                                             VKS_LAYOUT_VERSION,   sizeof p.bytes,         2};
    p.bytes.body = (vks_surface_body){.width = WIDTH,
                                      .height = HEIGHT,
                                      .format = 3,
                                      .usage = VKS_USAGE_COPY,
                                      .memory_kind = VKS_MEMFD,
                                      .memory_size = SIZE,
                                      .stride = STRIDE,
                                      .name = "sender"};
    p.fds[0] = memory;
    CHECK(vks_surface_export(surface, &p.fds[1], &semaphore) == VKS_OK, "%s", vks_last_error()->text);
    return p;
}

static vks_status cross(const packet *p, int type, vks_surface_descriptor *out)
{
    int ends[2];
    char control[CMSG_SPACE(sizeof p->fds)] = {0};
    struct iovec part = {(void *)&p->bytes, p->size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (p->n_fds) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(p->n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){CMSG_LEN(p->n_fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), p->fds, p->n_fds * sizeof(int));
    }
    CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0, "a pair");
    CHECK(sendmsg(ends[0], &message, 0) == (ssize_t)p->size, "it is sent");
    shutdown(ends[0], SHUT_WR);
    vks_status status = vks_surface_descriptor_recv(ends[1], vks_now() + HANG, out);
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* rules: I8 */
static void a_descriptor_crosses_and_opens_on_the_same_pixels(void)
{
    vks_device *one, *two;
    vks_surface *mine, *theirs;
    int memory = new_memfd();
    unsigned char *here = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    void *there;
    vks_surface_info info = {.width = WIDTH, .height = HEIGHT, .format = 3, .pixels = here, .size = SIZE};
    info.stride = STRIDE;
    CHECK(vks_device_create(&(vks_device_info){.name = "one"}, &one) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_device_create(&(vks_device_info){.name = "two"}, &two) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_create(one, &info, &mine) == VKS_OK, "%s", vks_last_error()->text);
    packet p = pack(mine, memory);
    int before = count_fds();
    for (int i = 0; i < 2; i++) {
        vks_surface_descriptor d;
        CHECK(cross(&p, i ? SOCK_STREAM : SOCK_SEQPACKET, &d) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(memcmp(&d.body, &p.bytes.body, sizeof d.body) == 0 && d.semaphore_fd == -1, "as it was sent");
        CHECK(fcntl(d.memory_fd, F_GETFD) & FD_CLOEXEC && fcntl(d.page_fd, F_GETFD) & FD_CLOEXEC, "not inherited");
        CHECK(vks_surface_descriptor_check_device(&d, (uint8_t[16]){1}, (uint8_t[16]){0}) == VKS_FOREIGN_DEVICE,
              "UUID");
        CHECK(vks_surface_descriptor_map(&d, &there) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_open_descriptor(two, &d, there, &theirs) == VKS_OK, "%s", vks_last_error()->text);
        vks_surface_descriptor_close(&d);
        CHECK(vks_surface_acquire(theirs, 0, 0) == VKS_OK && vks_surface_acquire(mine, 0, 0) == VKS_TIMEOUT, "a party");
        memset(there, 40 + i, SIZE);
        CHECK(vks_surface_release(theirs, 0) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(here[0] == 40 + i && here[SIZE - 1] == 40 + i, "%d", here[0]);
        vks_surface_close(theirs);
        vks_surface_unref(theirs);
        munmap(there, SIZE);
    }
    CHECK(count_fds() <= before + 4, "the service threads' own at most: %d of %d", count_fds(), before);
    close(p.fds[1]);
    close(memory);
    vks_surface_close(mine);
    vks_surface_unref(mine);
    vks_device_shutdown(one);
    vks_device_shutdown(two);
    vks_device_unref(one);
    vks_device_unref(two);
    munmap(here, SIZE);
}

/* rules: I8 */
static void an_invalid_descriptor_is_refused_and_leaves_no_fd(void)
{
    vks_device *device;
    vks_surface *surface;
    vks_surface_info info = {.width = WIDTH, .height = HEIGHT, .format = 3};
    int memory = new_memfd(), unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING), ends[2];
    CHECK(ftruncate(unsealed, SIZE) == 0 && pipe2(ends, O_CLOEXEC) == 0, "fds");
    CHECK(vks_device_create(&(vks_device_info){.name = "one"}, &device) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_create(device, &info, &surface) == VKS_OK, "%s", vks_last_error()->text);
    const packet good = pack(surface, memory);
    enum { CASES = 29 };
    for (int i = 0; i < 2 * CASES; i++) {
        packet p = good;
        vks_surface_body *b = &p.bytes.body;
        switch (i / 2) {
        case 0:
            p.bytes.header.magic[0] = 'V';
            break;
        case 1:
            p.bytes.header.version = VKS_DESCRIPTOR_VERSION + 1;
            break;
        case 2:
            p.bytes.header.page_version = VKS_LAYOUT_VERSION + 1;
            break;
        case 3:
            p.bytes.header.kind = VKS_DESCRIPTOR_FENCE;
            break;
        case 4:
            p.bytes.header.size--;
            break;
        case 5:
            p.size -= 1;
            break;
        case 6:
            p.size = 20;
            break;
        case 7:
            p.n_fds = 0;
            break;
        case 8:
            p.n_fds = 1;
            break;
        case 9:
            p.n_fds = 9;
            memset(p.fds + 2, 0, 7 * sizeof(int));
            break;
        case 10:
            p.bytes.header.n_fds = p.n_fds = 4;
            p.fds[2] = p.fds[3] = memory;
            break;
        case 11:
            b->width = 0;
            break;
        case 12:
            b->height = VKS_LARGEST_SIDE + 1;
            break;
        case 13:
            b->height = 32 + 1; /* one row more than the memory has */
            b->memory_kind = VKS_OPAQUE_FD;
            break;
        case 14:
            b->stride = 95;
            break;
        case 15:
            b->memory_offset = UINT64_MAX;
            break;
        case 16:
            b->memory_size = SIZE + 1;
            break;
        case 17:
            b->format = 10;
            break;
        case 18:
            b->tiling = 3;
            break;
        case 19:
            b->usage = 0;
            break;
        case 20:
            p.fds[1] = unsealed;
            break;
        case 21:
            p.fds[1] = ends[0];
            break;
        case 22:
            p.fds[0] = ends[0];
            break;
        case 23:
            memset(b->name, 0xff, sizeof b->name);
            break;
        case 24:
            b->color = (vks_color){77, 13, 0, 1, 0};
            break;
        case 25:
            b->color = (vks_color){1, 1, VKS_MATRIX_BT709, 0, 0};
            break;
        case 26:
            b->reserved[2] = 1;
            break;
        case 27:
            b->format = VKS_FORMAT_YUV444P; /* of no colour */
            break;
        case 28:
            b->format = VKS_FORMAT_YUV444P; /* whose memory is too small */
            b->color = (vks_color){1, 1, VKS_MATRIX_BT709, 0, 0};
            break;
        }
        int before = count_fds();
        vks_surface_descriptor d;
        vks_status status = cross(&p, i % 2 ? SOCK_STREAM : SOCK_SEQPACKET, &d);
        CHECK(status == VKS_BAD_PAGE, "case %d: %d %s", i / 2, status, vks_last_error()->text);
        CHECK(count_fds() == before, "case %d leaves %d fds", i / 2, count_fds() - before);
        CHECK(d.memory_fd == -1 && d.page_fd == -1 && d.semaphore_fd == -1, "case %d", i / 2);
    }
    for (int i = 0; i < 2; i++)
        close(ends[i]);
    close(unsealed);
    close(memory);
    close(good.fds[1]);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static void other_sockets_are_refused(void)
{
    int ends[2], inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    vks_surface_descriptor d;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair");
    CHECK(vks_surface_descriptor_recv(ends[0], 0, &d) == VKS_UNSUPPORTED, "%s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_recv(inet, 0, &d) != VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_recv(-1, 0, &d) == VKS_OS_ERROR, "%s", vks_last_error()->text);
    close(ends[0]);
    close(ends[1]);
    close(inet);
}

/* The library makes, sends and opens the surface itself. */
static void a_surface_of_the_library_crosses_with_its_pixels(void)
{
    int ends[2], before = count_fds();
    size_t stride;
    void *pixels, *seen;
    vks_device *devices[2];
    vks_surface *surfaces[2];
    vks_surface_descriptor sent, got;
    vks_image_info info = {.width = WIDTH, .height = HEIGHT, .format = 3};
    for (int i = 0; i < 2; i++)
        CHECK(vks_device_create(&(vks_device_info){.name = "a long name, cut h\xc3\xa9\xc3\xa9re"}, &devices[i]) ==
                  VKS_OK,
              "a device");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair");
    CHECK(vks_surface_create_image(devices[0], &info, &surfaces[0]) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_export_descriptor(surfaces[0], &sent) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_send(ends[0], vks_now() + HANG, &sent) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_recv(ends[1], vks_now() + HANG, &got) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(!memcmp(&sent.body, &got.body, sizeof got.body), "the same body");
    CHECK(vks_surface_open_image(devices[1], &got, &surfaces[1]) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_pixels(surfaces[0], &pixels, &stride) == VKS_OK && stride == STRIDE, "the pixels");
    CHECK(vks_surface_pixels(surfaces[1], &seen, &stride) == VKS_OK && seen != pixels, "another mapping");
    CHECK(vks_surface_acquire(surfaces[0], 0, 0) == VKS_OK, "an acquire");
    memset(pixels, 0x5a, STRIDE * HEIGHT);
    CHECK(vks_surface_release(surfaces[0], 1) == VKS_OK && vks_surface_acquire(surfaces[1], 1, 0) == VKS_OK, "a turn");
    CHECK(!memcmp(pixels, seen, STRIDE * HEIGHT), "the same pixels");
    vks_surface_descriptor_close(&sent);
    vks_surface_descriptor_close(&got);
    for (int i = 0; i < 2; i++) {
        vks_surface_close(surfaces[i]);
        vks_surface_unref(surfaces[i]);
        vks_device_shutdown(devices[i]);
        vks_device_unref(devices[i]);
        close(ends[i]);
    }
    CHECK(count_fds() <= before + 3, "%d fds are left, of which the core keeps 3 at most", count_fds() - before);
}

/* The same for a buffer, and each kind of descriptor is refused where the other one is expected. */
static void a_buffer_of_the_library_crosses_with_its_bytes(void) /* rules: E5, C4, X13 */
{
    enum { NBYTES = 100001 };
    int ends[2];
    size_t stride;
    void *bytes, *seen;
    vks_device *devices[2];
    vks_surface *buffers[2], *none = NULL;
    vks_surface_descriptor sent, got;
    for (int i = 0; i < 2; i++)
        CHECK(vks_device_create(&(vks_device_info){.name = "buffers"}, &devices[i]) == VKS_OK, "a device");
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair");
    CHECK(vks_buffer_create(devices[0], &(vks_buffer_info){.nbytes = NBYTES}, &buffers[0]) == VKS_OK, "%s",
          vks_last_error()->text);
    CHECK(vks_surface_export_descriptor(buffers[0], &sent) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_send(ends[0], vks_now() + HANG, &sent) == VKS_OK &&
              vks_surface_descriptor_recv(ends[1], vks_now() + HANG, &got) == VKS_BAD_PAGE,
          "a buffer's descriptor is no surface's: %s", vks_last_error()->text);
    CHECK(vks_surface_descriptor_send(ends[0], vks_now() + HANG, &sent) == VKS_OK &&
              vks_buffer_descriptor_recv(ends[1], vks_now() + HANG, &got) == VKS_OK,
          "%s", vks_last_error()->text);
    CHECK(!memcmp(&sent.body, &got.body, sizeof got.body) && got.body.tiling == VKS_BUFFER, "the same body");
    CHECK(vks_surface_open_image(devices[1], &got, &none) == VKS_BAD_PAGE && !none, "%s", vks_last_error()->text);
    CHECK(vks_buffer_open(devices[1], &got, &buffers[1]) == VKS_OK, "%s", vks_last_error()->text);
    CHECK(vks_surface_pixels(buffers[0], &bytes, &stride) == VKS_OK && stride == 0, "the bytes");
    CHECK(vks_surface_pixels(buffers[1], &seen, &stride) == VKS_OK && seen != bytes, "another mapping");
    CHECK(vks_surface_acquire(buffers[0], 0, 0) == VKS_OK, "an acquire");
    memset(bytes, 0x5a, NBYTES);
    CHECK(vks_surface_release(buffers[0], 1) == VKS_OK && vks_surface_acquire(buffers[1], 1, 0) == VKS_OK, "a turn");
    CHECK(!memcmp(bytes, seen, NBYTES), "the same bytes");
    got.body.memory_size += 4096;
    CHECK(vks_buffer_open(devices[1], &got, &none) == VKS_BAD_PAGE && !none, "%s", vks_last_error()->text);
    got.body.memory_size -= 4096;
    got.body.height = 1 << 20;
    CHECK(vks_buffer_open(devices[1], &got, &none) == VKS_BAD_PAGE && !none, "%s", vks_last_error()->text);
    vks_surface_descriptor_close(&got);
    vks_surface_descriptor_close(&sent);
    const vks_buffer_info wrong[] = {{.nbytes = 0}, {.nbytes = (UINT64_C(1) << 48) + 1}, {.nbytes = 8, .usage = 64}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(vks_buffer_create(devices[0], &wrong[i], &none) == VKS_BAD_VALUE && !none, "case %zu", i);
    for (int i = 0; i < 2; i++) {
        vks_surface_close(buffers[i]);
        vks_surface_unref(buffers[i]);
        vks_device_shutdown(devices[i]);
        vks_device_unref(devices[i]);
        close(ends[i]);
    }
}

/* The same for planes, each with its rows, and with the colour. */
static void a_surface_in_planes_crosses_with_its_colour(void) /* rules: Y1, Y2, C4 */
{
    const struct {
        uint32_t format, planes;
        size_t strides[3], offsets[3];
    } kinds[] = {{VKS_FORMAT_NV12, 2, {64, 64}, {0, 64 * 6}},
                 {VKS_FORMAT_P010, 2, {64, 64}, {0, 64 * 6}},
                 {VKS_FORMAT_I420, 3, {64, 32, 32}, {0, 64 * 6, 64 * 6 + 32 * 3}},
                 {VKS_FORMAT_NV16, 2, {64, 64}, {0, 64 * 6}},
                 {VKS_FORMAT_YUV444P, 3, {64, 64, 64}, {0, 64 * 6, 64 * 12}}};
    const vks_color hdr = {VKS_PRIMARIES_BT2020, VKS_TRANSFER_PQ, VKS_MATRIX_BT2020, VKS_RANGE_LIMITED,
                           VKS_SITING_TOP_LEFT};
    vks_device *device;
    CHECK(vks_device_create(&(vks_device_info){.name = "planes"}, &device) == VKS_OK, "a device");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        vks_image_info info = {.width = 10, .height = 6, .format = kinds[i].format, .color = hdr};
        vks_surface *made, *opened;
        vks_surface_descriptor sent;
        vks_color seen;
        vks_plane mine, theirs;
        CHECK(vks_surface_create_image(device, &info, &made) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_export_descriptor(made, &sent) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_open_image(device, &sent, &opened) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_get_color(opened, &seen) == VKS_OK && !memcmp(&seen, &hdr, sizeof hdr), "the colour");
        CHECK(vks_surface_get_plane(made, 0, &mine) == VKS_OK && mine.width == 10 && mine.height == 6, "luma");
        const char *first = mine.pixels;
        for (uint32_t plane = 0; plane < kinds[i].planes; plane++) {
            CHECK(vks_surface_get_plane(made, plane, &mine) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(vks_surface_get_plane(opened, plane, &theirs) == VKS_OK, "%s", vks_last_error()->text);
            CHECK(mine.stride == kinds[i].strides[plane] && theirs.stride == mine.stride, "plane %u of %u: rows", plane,
                  info.format);
            CHECK((const char *)mine.pixels - first == (ptrdiff_t)kinds[i].offsets[plane], "plane %u of %u: place",
                  plane, info.format);
            memset(mine.pixels, 0x40 + (int)plane, mine.stride * mine.height);
            CHECK(!memcmp(mine.pixels, theirs.pixels, mine.stride * mine.height), "the same rows");
        }
        CHECK(vks_surface_get_plane(made, kinds[i].planes, &mine) == VKS_BAD_VALUE, "no such plane");
        vks_surface_descriptor_close(&sent);
        vks_surface *const both[] = {made, opened};
        for (int j = 0; j < 2; j++) {
            vks_surface_close(both[j]);
            vks_surface_unref(both[j]);
        }
    }
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static void rows_are_tight_on_request(void) /* rules: E7 */
{
    vks_device *device;
    vks_surface *surface;
    void *pixels;
    size_t stride;
    uint32_t alignment = 0;
    CHECK(vks_device_create(&(vks_device_info){.name = "tight"}, &device) == VKS_OK, "a device");
    CHECK(vks_row_alignment(device, &alignment) == VKS_OK && alignment == VKS_ROW_ALIGNMENT, "%u", alignment);
    for (int is_tight = 0; is_tight < 2; is_tight++) {
        vks_image_info info = {.width = 5, .height = 3, .format = 3, .has_tight_rows = is_tight};
        CHECK(vks_surface_create_image(device, &info, &surface) == VKS_OK, "%s", vks_last_error()->text);
        CHECK(vks_surface_pixels(surface, &pixels, &stride) == VKS_OK, "the pixels");
        CHECK(stride == (is_tight ? 20 : VKS_ROW_ALIGNMENT), "rows are %zu bytes apart", stride);
        vks_surface_close(surface);
        vks_surface_unref(surface);
    }
    vks_device_shutdown(device);
    vks_device_unref(device);
}

static void what_the_cpu_backend_lacks_is_refused(void)
{
    vks_device *device;
    vks_surface *surface = NULL;
    vks_image_info wrong[] = {{.width = 0, .height = 1, .format = 3},
                              {.width = 1, .height = VKS_LARGEST_SIDE + 1, .format = 3},
                              {.width = 1, .height = 1, .format = 99},
                              {.width = 1, .height = 1, .format = 3, .tiling = 9},
                              {.width = 1, .height = 1, .format = 3, .usage = 32},
                              {.width = 1, .height = 1, .format = 3, .tiling = VKS_OPTIMAL, .has_tight_rows = true},
                              {.width = 3, .height = 2, .format = VKS_FORMAT_NV12},
                              {.width = 2, .height = 3, .format = VKS_FORMAT_I420},
                              {.width = 2, .height = 2, .format = VKS_FORMAT_NV12, .color = {1, 13, 0, 1, 0}},
                              {.width = 2, .height = 2, .format = 3, .color = {1, 1, 1, 0, 0}},
                              {.width = 2, .height = 2, .format = 3, .color = {1, 13, 0, 2, 0}}};
    CHECK(vks_device_create(&(vks_device_info){.name = "refuses"}, &device) == VKS_OK, "a device");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(vks_surface_create_image(device, &wrong[i], &surface) == VKS_BAD_VALUE, "case %zu", i);
    vks_image_info optimal = {.width = 1, .height = 1, .format = 3, .tiling = VKS_OPTIMAL};
    CHECK(vks_surface_create_image(device, &optimal, &surface) == VKS_UNSUPPORTED && !surface, "no tiling");
    vks_device_shutdown(device);
    CHECK(vks_surface_create_image(device, &optimal, &surface) == VKS_CLOSED, "a device that is shut down");
    vks_device_unref(device);
}

int main(void)
{
    RUN(a_surface_of_the_library_crosses_with_its_pixels);
    RUN(a_buffer_of_the_library_crosses_with_its_bytes);
    RUN(a_surface_in_planes_crosses_with_its_colour);
    RUN(rows_are_tight_on_request);
    RUN(what_the_cpu_backend_lacks_is_refused);
    RUN(a_descriptor_crosses_and_opens_on_the_same_pixels);
    RUN(an_invalid_descriptor_is_refused_and_leaves_no_fd);
    RUN(other_sockets_are_refused);
    return check_result();
}
