#define _GNU_SOURCE
#include "argument_pools.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "present/swapchain.h"
#include "stub_driver.h"
#include "stub_presents.h"

enum { SOCKETS = 8 };
uint64_t argument_window;

/* ---- numbers ---- */

static uint64_t state;

uint64_t argument_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

bool argument_chance(uint32_t one_in) { return argument_random() % one_in == 0; }

uint64_t argument_number(void)
{
    static const uint64_t edges[] = {0,         1,         2,          3,          7,
                                     8,         63,        64,         120,        4096,
                                     65535,     65536,     1 << 20,    INT32_MAX,  UINT64_C(1) << 31,
                                     INT64_MAX, INT64_MIN, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
    uint64_t number = argument_chance(8) ? argument_random() : edges[argument_random() % LENGTH(edges)];
    return argument_chance(3) ? number % 16 : number;
}

uint64_t argument_deadline(void)
{
    switch (argument_random() % 4) {
    case 0:
        return 0;
    case 1:
        return argument_random() % 1000;
    case 2:
        return vks_now();
    default:
        return vks_now() + argument_random() % 100000;
    }
}

uint32_t argument_count(void) { return (uint32_t)(argument_random() % (ARGUMENT_ELEMENTS + 1)); }

/* ---- files ---- */

static int files[24], partners[24]; /* the timeline that belongs to a page, or -1 */
static size_t opened;               /* the file whose partner is drawn next */

int argument_fd(void)
{
    static const int wrong[] = {-1, -2, 1 << 20, INT32_MAX, INT32_MIN};
    return argument_chance(6) ? wrong[argument_random() % LENGTH(wrong)] : files[argument_random() % LENGTH(files)];
}

/* None, or not of vkshare: the first files are sockets. */
int argument_wrong_fd(void) { return argument_chance(2) ? -1 : files[argument_random() % SOCKETS]; }

int argument_duplicate(int fd) { return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0); }

int argument_owned_fd(void)
{
    opened = argument_random() % LENGTH(files);
    return argument_duplicate(files[opened]);
}

/* A driver cannot notice that a timeline is another page's, and waits for it without an end. */
int argument_owned_partner(void)
{
    return argument_duplicate(argument_chance(4) ? argument_wrong_fd() : partners[opened]);
}

void argument_keep_fds(int fd, int partner)
{
    size_t place = SOCKETS + argument_random() % (LENGTH(files) - SOCKETS);
    close(files[place]);
    close(partners[place]);
    files[place] = fd;
    partners[place] = partner;
}

static int empty_memfd(size_t size)
{
    int fd = memfd_create("argument", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return ftruncate(fd, (off_t)size) ? -1 : fd;
}

static void open_files(void)
{
    memset(partners, 0xff, sizeof partners);
    for (size_t i = 0; i < LENGTH(files); i += 2) {
        int pair[2] = {empty_memfd(4096 * (i + 1)), open("/dev/null", O_RDWR | O_CLOEXEC)};
        if (i < SOCKETS &&
            socketpair(AF_UNIX, i < SOCKETS / 2 ? SOCK_STREAM | SOCK_CLOEXEC : SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
                       (close(pair[0]), close(pair[1]), pair)))
            pair[0] = pair[1] = -1;
        memcpy(&files[i], pair, sizeof pair);
    }
}

/* Receiving without room for files closes them. Sockets that lie in each other's queues in a large enough tangle are
 * never collected by Linux 6.18, and count against the user's files in flight until the machine restarts. */
static void close_files(void)
{
    char bytes[4096];
    for (size_t i = 0; i < SOCKETS; i++)
        while (recv(files[i], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            continue;
    for (size_t i = 0; i < LENGTH(files); i++) {
        close(files[i]);
        close(partners[i]);
    }
}

/* ---- objects ---- */

static void drop_vks_device(vks_device *device)
{
    vks_device_shutdown(device);
    vks_device_reap(device, true);
    vks_device_unref(device);
}

#define DROP(type, first, second)                                                                                      \
    static void drop_##type(type *object)                                                                              \
    {                                                                                                                  \
        first(object);                                                                                                 \
        second(object);                                                                                                \
    }
DROP(vks_surface, vks_surface_close, vks_surface_unref)
DROP(vks_fence, vks_fence_close, vks_fence_unref)
DROP(vks_commands, (void), vks_commands_unref)
DROP(vks_work, (void), vks_work_unref)
DROP(vks_event_queue, vks_event_queue_close, vks_event_queue_unref)
DROP(vks_queue, vks_queue_close, vks_queue_unref)
DROP(vks_mirror, vks_mirror_close, vks_mirror_unref)
DROP(vks_swapchain, vks_swapchain_close, vks_swapchain_unref)
DROP(vks_display, vks_display_shutdown, vks_display_unref)
DROP(vks_dispatcher, vks_dispatcher_close, vks_dispatcher_unref)
DROP(vks_observer, (void), vks_observer_destroy)

/* The first `kept` members are never replaced. */
#define POOL(type, size, kept)                                                                                         \
    static type *pool_##type[size];                                                                                    \
    type *draw_##type(void) { return argument_chance(12) ? NULL : pool_##type[argument_random() % (size)]; }           \
    static void put_##type(size_t i, type *made)                                                                       \
    {                                                                                                                  \
        if (pool_##type[i])                                                                                            \
            drop_##type(pool_##type[i]);                                                                               \
        pool_##type[i] = made;                                                                                         \
    }                                                                                                                  \
    void keep_##type(type *made)                                                                                       \
    {                                                                                                                  \
        if (made)                                                                                                      \
            put_##type((kept) + argument_random() % ((size) - (kept)), made);                                          \
    }                                                                                                                  \
    type *take_##type(void)                                                                                            \
    {                                                                                                                  \
        type **place = &pool_##type[argument_random() % (size)], *taken = *place;                                      \
        *place = NULL;                                                                                                 \
        return taken;                                                                                                  \
    }                                                                                                                  \
    static void empty_##type(void)                                                                                     \
    {                                                                                                                  \
        for (size_t i = 0; i < (size); i++)                                                                            \
            put_##type(i, NULL);                                                                                       \
    }
enum { CPU, OTHER_CPU, STUB, ADOPTED_STUB, PRESENTS, CLOSED, KEPT_DEVICES };
POOL(vks_device, 8, KEPT_DEVICES)
POOL(vks_surface, 24, 0)
POOL(vks_fence, 16, 0)
POOL(vks_commands, 8, 0)
POOL(vks_work, 6, 0)
POOL(vks_event_queue, 4, 0)
POOL(vks_queue, 6, 0)
POOL(vks_mirror, 4, 0)
POOL(vks_swapchain, 2, 0)
POOL(vks_display, 4, 0)
POOL(vks_dispatcher, 4, 0)
POOL(vks_observer, 4, 0)

vks_device *draw_mortal_device(void)
{
    return argument_chance(8) ? NULL : pool_vks_device[CLOSED + argument_random() % (LENGTH(pool_vks_device) - CLOSED)];
}

/* ---- what no public function makes ---- */

vks_surface *argument_of_stub(vks_surface *surface)
{
    const vks_device *device = vks_surface_device(surface);
    return device == pool_vks_device[STUB] || device == pool_vks_device[ADOPTED_STUB] ? surface : NULL;
}

vks_semaphore_point argument_point(const VkSemaphoreSubmitInfo *info)
{
    return (vks_semaphore_point){(uintptr_t)info->semaphore, info->value};
}

void argument_submit(vks_surface *surface, vks_semaphore_point wait, vks_semaphore_point signal)
{
    stub_submit(vks_surface_device(surface), wait, signal);
}

static void add_stub_surface(void)
{
    vks_device *device = pool_vks_device[argument_chance(2) ? STUB : ADOPTED_STUB];
    vks_surface *surface = stub_surface(device, NULL), *other;
    vks_commands *commands;
    if (surface && stub_commands(surface, STUB_VARIED, &commands) == VKS_OK)
        keep_vks_commands(commands);
    if (surface && argument_chance(2) && (other = stub_alias(surface)))
        keep_vks_surface(other);
    keep_vks_surface(surface);
}

/* A network of two surfaces of a device, and both ends of its queue. */
static void add_queue(void)
{
    vks_device *device = pool_vks_device[argument_chance(2) ? CPU : OTHER_CPU];
    vks_queue_info made;
    vks_surface *surfaces[2] = {NULL, NULL};
    vks_image_info image = {.width = 16, .height = 16, .format = VKS_FORMAT_RGBA8_UNORM};
    int page = -1;
    vks_queue_info info = {16, 16, VKS_FORMAT_RGBA8_UNORM, 2, 8, 0, argument_chance(2), true, argument_chance(2)};
    bool is_good = vks_queue_page_make(&info, &page) == VKS_OK && vks_queue_page_read(page, &made) == VKS_OK;
    for (uint32_t i = 0; i < 2; i++)
        is_good = is_good && vks_surface_create_image(device, &image, &surfaces[i]) == VKS_OK &&
                  vks_surface_join(surfaces[i], made.network, i) == VKS_OK;
    for (vks_end end = VKS_PRODUCER; is_good && end <= VKS_CONSUMER; end++) {
        vks_queue *queue;
        if (vks_queue_open(device, page, end, surfaces, 2, &queue) == VKS_OK)
            keep_vks_queue(queue);
    }
    for (uint32_t i = 0; i < 2; i++)
        keep_vks_surface(surfaces[i]);
    vks_queue_descriptor described;
    if (is_good && vks_queue_export_descriptor(&page, 1, surfaces, 2, &described) == VKS_OK)
        keep_vks_queue_descriptor(&described);
    argument_keep_fds(page, -1);
}

static void add_swapchain(void)
{
    vks_present_info vulkan = {.physical_device = 1,
                               .surface = argument_window,
                               .get_capabilities = presents_get_capabilities(),
                               .format = VK_FORMAT_B8G8R8A8_UNORM,
                               .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
                               .composite_alpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
                               .present_mode = VK_PRESENT_MODE_FIFO_KHR,
                               .has_views = true};
    vks_swapchain_info info = {.device = pool_vks_device[PRESENTS],
                               .vulkan = &vulkan,
                               .width = 64,
                               .height = 64,
                               .image_count = 3,
                               .frames_in_flight = 2,
                               .retired_limit = 4,
                               .proof_deadline = 1000000,
                               .fence_deadline = 1000000};
    vks_swapchain *swapchain;
    for (size_t i = 0; i < LENGTH(pool_vks_swapchain); i++)
        put_vks_swapchain(i, NULL); /* one on a window at a time */
    if (vks_swapchain_create(&info, &swapchain) == VKS_OK)
        keep_vks_swapchain(swapchain);
}

static void add_fence(void)
{
    vks_fence *fence;
    if (vks_fence_create(pool_vks_device[argument_chance(3) ? ADOPTED_STUB : STUB], 0, &fence) == VKS_OK)
        keep_vks_fence(fence);
}

static void add_observer(void)
{
    vks_display *display = NULL;
    vks_dispatcher *dispatcher = NULL;
    vks_observer *observer = NULL;
    if (vks_display_create((vks_interval){1000000, 1}, false, &display) == VKS_OK &&
        vks_dispatcher_create(display, &dispatcher) == VKS_OK)
        vks_observer_create(dispatcher, NULL, &observer);
    keep_vks_observer(observer);
    keep_vks_dispatcher(dispatcher);
    keep_vks_display(display);
}

void arguments_refresh(void)
{
    switch (argument_random() % 8) {
    case 0:
        add_queue();
        break;
    case 1:
        add_swapchain();
        break;
    case 2:
        add_fence();
        break;
    case 3:
        add_observer();
        break;
    default:
        add_stub_surface();
    }
}

void arguments_open(uint64_t seed)
{
    state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    open_files();
    argument_no_descriptors();
    vks_device **devices = pool_vks_device;
    devices[STUB] = stub_open("stub", true);
    devices[ADOPTED_STUB] = stub_adopt("adopted", false);
    devices[PRESENTS] = presents_open(PRESENTS_EAGER, seed);
    argument_window = presents_surface();
    vks_device_create(&(vks_device_info){.raster_threads = 1}, &devices[CPU]);
    vks_device_create(&(vks_device_info){.raster_threads = 1, .held_limit = 4}, &devices[OTHER_CPU]);
    vks_device_create(&(vks_device_info){.raster_threads = 1}, &devices[CLOSED]);
    vks_surface *closed = NULL;
    vks_surface_create_image(devices[CLOSED], &(vks_image_info){.width = 8, .height = 8, .format = 3}, &closed);
    keep_vks_surface(closed);
    vks_device_shutdown(devices[CLOSED]);
    for (int i = 0; i < 64; i++)
        arguments_refresh();
}

void arguments_close(void)
{
    empty_vks_observer();
    empty_vks_dispatcher();
    empty_vks_display();
    empty_vks_queue();
    empty_vks_mirror();
    empty_vks_work();
    argument_no_submissions();
    empty_vks_commands();
    empty_vks_swapchain();
    empty_vks_surface();
    empty_vks_fence();
    empty_vks_event_queue();
    for (size_t i = STUB; i <= PRESENTS; i++) {
        vks_device *device = pool_vks_device[i];
        vks_device_shutdown(device);
        vks_device_reap(device, true);
        pool_vks_device[i] = NULL;
        i == PRESENTS ? presents_close(device) : stub_close(device);
    }
    empty_vks_device();
    close_files();
    argument_no_descriptors();
}
