/* argument_structures.c: structures with random fields, and the descriptors that were exported or
 * received. */
#include <string.h>

#include "argument_pools.h"
#include "stub_presents.h"

#define MAYBE(pointer) (argument_chance(12) ? NULL : (pointer))

/* Fills a structure with numbers of 32 bits. */
static void scramble(void *structure, size_t size)
{
    uint32_t words[512];
    for (size_t i = 0; i < LENGTH(words); i++)
        words[i] = (uint32_t)argument_number();
    for (size_t at = 0; at < size; at += sizeof words)
        memcpy((char *)structure + at, words, size - at < sizeof words ? size - at : sizeof words);
}

static vks_submission submissions[4];
static vks_frame frame;
static char memory[1 << 20];

void *argument_memory(void) { return memory; }

vks_surface *const *draw_surfaces(void)
{
    static vks_surface *surfaces[ARGUMENT_ELEMENTS];
    for (size_t i = 0; i < LENGTH(surfaces); i++)
        surfaces[i] = draw_vks_surface();
    return MAYBE(surfaces);
}

const vks_use *draw_vks_use(void)
{
    static vks_use uses[ARGUMENT_ELEMENTS];
    for (size_t i = 0; i < LENGTH(uses); i++)
        uses[i] = (vks_use){draw_vks_surface(), argument_chance(2)};
    return MAYBE(uses);
}

const uint32_t *draw_uint32_t(void)
{
    static uint32_t numbers[ARGUMENT_ELEMENTS];
    scramble(numbers, sizeof numbers);
    return MAYBE(numbers);
}

const uint8_t *draw_uint8_t(void) { return MAYBE((const uint8_t *)memory); }

const int *draw_fds(void)
{
    static int fds[ARGUMENT_ELEMENTS];
    for (size_t i = 0; i < LENGTH(fds); i++)
        fds[i] = argument_fd();
    return MAYBE(fds);
}

static vks_submission some_submission(void)
{
    vks_submission random = {argument_number(), argument_chance(2) ? draw_vks_work() : NULL};
    return argument_chance(3) ? random : submissions[argument_random() % LENGTH(submissions)];
}

const vks_box *draw_vks_box(void)
{
    static vks_box drawn;
    scramble(&drawn, sizeof drawn);
    if (argument_chance(2))
        drawn = (vks_box){drawn.x % 8, drawn.y % 8, drawn.width % 8, drawn.height % 8};
    return MAYBE(&drawn);
}

const vks_submission *draw_vks_submission(void)
{
    static vks_submission drawn;
    drawn = some_submission();
    return MAYBE(&drawn);
}

void keep_vks_submission(const vks_submission *made)
{
    vks_submission *place = &submissions[argument_random() % LENGTH(submissions)];
    vks_work_unref(place->op);
    *place = *made;
}

void argument_no_submissions(void)
{
    for (size_t i = 0; i < LENGTH(submissions); i++) {
        vks_work_unref(submissions[i].op);
        submissions[i] = (vks_submission){0};
    }
}

const vks_submit_info *draw_vks_submit_info(void)
{
    static vks_commands *commands[ARGUMENT_ELEMENTS];
    static vks_wait waits[ARGUMENT_ELEMENTS];
    static vks_signal signals[ARGUMENT_ELEMENTS];
    static const uint64_t raw[ARGUMENT_ELEMENTS] = {3, 3, 3, 3, 3, 3, 3, 3}; /* the stub's DRAW */
    static vks_submit_info info;
    for (size_t i = 0; i < ARGUMENT_ELEMENTS; i++) {
        commands[i] = draw_vks_commands();
        waits[i] = (vks_wait){draw_vks_fence(), argument_number(), some_submission()};
        signals[i] = (vks_signal){draw_vks_fence(), argument_number()};
    }
#define SOMETIMES(one_in) (argument_chance(one_in) ? argument_count() : argument_chance(2))
    info = (vks_submit_info){MAYBE(commands), SOMETIMES(6), MAYBE(raw),     argument_chance(5),
                             MAYBE(waits),    SOMETIMES(6), MAYBE(signals), SOMETIMES(6)};
    return MAYBE(&info);
}

const vks_device_info *draw_vks_device_info(void)
{
    static vks_device_info info;
    static const vks_vulkan_info vulkan; /* of a VkDevice 0, without its functions */
    info = (vks_device_info){MAYBE("a device"), (uint32_t)argument_number(), (uint32_t)(argument_random() % 4),
                             argument_chance(4) ? &vulkan : NULL};
    return MAYBE(&info);
}

/* Mostly none; else BT.709's of limited range, or any numbers. */
static vks_color some_color(void)
{
    vks_color made = {0};
    if (argument_chance(3))
        made = (vks_color){1, 1, 1, 0, 0};
    uint8_t *const fields[] = {&made.primaries, &made.transfer, &made.matrix, &made.range, &made.siting};
    if (argument_chance(6))
        *fields[argument_random() % LENGTH(fields)] = (uint8_t)argument_random();
    return made;
}

const vks_surface_info *draw_vks_surface_info(void)
{
    static vks_surface_info info;
    info = (vks_surface_info){.width = (uint32_t)argument_number(),
                              .height = (uint32_t)argument_number(),
                              .format = (uint32_t)argument_number(),
                              .color = some_color(),
                              .discard_unowned = argument_chance(2),
                              .is_presentable = argument_chance(8)};
    if (!argument_chance(4)) {
        info.pixels = memory;
        info.size = sizeof memory;
        info.stride = argument_number();
    }
    return MAYBE(&info);
}

const vks_queue_info *draw_vks_queue_info(void)
{
    static vks_queue_info info;
    info = (vks_queue_info){.width = (uint32_t)argument_number(),
                            .height = (uint32_t)argument_number(),
                            .format = (uint32_t)argument_number(),
                            .count = (uint32_t)argument_number(),
                            .metadata_size = (uint32_t)argument_number(),
                            .network = argument_number(),
                            .single_threaded = argument_chance(2),
                            .early = argument_chance(2),
                            .full = argument_chance(2),
                            .color = some_color()};
    return MAYBE(&info);
}

/* A possible size, or a side that is too long. */
const vks_image_info *draw_vks_image_info(void)
{
    static vks_image_info info;
    uint32_t side = 1 + (uint32_t)(argument_random() % 64);
    info =
        (vks_image_info){side, side, 1 + (uint32_t)(argument_random() % VKS_FORMAT_YUV444P), 0, 0, argument_chance(2)};
    info.color = some_color();
    uint32_t *const fields[] = {&info.width, &info.height, &info.format, &info.tiling, &info.usage};
    if (argument_chance(3))
        *fields[argument_random() % LENGTH(fields)] = (uint32_t)argument_number();
    return MAYBE(&info);
}

/* Half of them may be memory of the CPU backend. */
const vks_import_info *draw_vks_import_info(void)
{
    static vks_import_info info;
    const vks_image_info *image = draw_vks_image_info();
    info = (vks_import_info){.image = image ? *image : (vks_image_info){0},
                             .size = argument_chance(2) ? 4096 : argument_number(),
                             .offset = argument_chance(2) ? 0 : argument_number(),
                             .stride = argument_chance(2) ? 0 : argument_number(),
                             .is_dedicated = argument_chance(2),
                             .device_uuid = argument_chance(2) ? NULL : draw_uint8_t(),
                             .driver_uuid = argument_chance(2) ? NULL : draw_uint8_t()};
    return MAYBE(&info);
}

/* The memory outlives all surfaces. */
const vks_array_info *draw_vks_array_info(void)
{
    static vks_array_info info;
    static uint64_t pixels[1 << 16];
    const vks_image_info *image = draw_vks_image_info();
    info = (vks_array_info){.image = image ? *image : (vks_image_info){0},
                            .pixels = MAYBE(pixels),
                            .stride = argument_chance(2) ? 1024 : argument_number(),
                            .size = argument_chance(2) ? sizeof pixels : argument_number() % sizeof pixels};
    return MAYBE(&info);
}

/* A device of the CPU backend refuses each, and the stub driver has no engine. */
const vks_adopt_image_info *draw_vks_adopt_image_info(void)
{
    static vks_adopt_image_info info;
    const vks_image_info *image = draw_vks_image_info();
    info = (vks_adopt_image_info){.image = image ? *image : (vks_image_info){0},
                                  .handle = (VkImage)(uintptr_t)argument_number(),
                                  .layout = (VkImageLayout)(argument_random() % 9),
                                  .memory = (VkDeviceMemory)(uintptr_t)argument_number()};
    return MAYBE(&info);
}

const vks_buffer_info *draw_vks_buffer_info(void)
{
    static vks_buffer_info info;
    info = (vks_buffer_info){argument_chance(3) ? argument_number() : 1 + argument_random() % 9999,
                             argument_chance(3) ? (uint32_t)argument_number() : VKS_BUFFER_COPY};
    return MAYBE(&info);
}

const vks_open_info *draw_vks_open_info(void)
{
    static vks_open_info info;
    info = (vks_open_info){MAYBE("a device"), (uint32_t)argument_number(), draw_uint8_t(), draw_uint8_t(),
                           (uint32_t)argument_number()};
    return MAYBE(&info);
}

static PFN_vkVoidFunction no_function(VkInstance instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}

const vks_adopt_info *draw_vks_adopt_info(void)
{
    static vks_adopt_info info;
    static VkDeviceCreateInfo created;
    created = (VkDeviceCreateInfo){.flags = (uint32_t)argument_number(), .queueCreateInfoCount = argument_count()};
    info = (vks_adopt_info){.name = MAYBE("a device"),
                            .held_limit = (uint32_t)argument_number(),
                            .get_instance_proc_addr = no_function,
                            .instance = MAYBE((VkInstance)memory),
                            .physical_device = MAYBE((VkPhysicalDevice)memory),
                            .device = MAYBE((VkDevice)memory),
                            .queue = MAYBE((VkQueue)memory),
                            .queue_family = (uint32_t)argument_number(),
                            .created_with = MAYBE(&created)};
    return MAYBE(&info);
}

const vks_window_info *draw_vks_window_info(void)
{
    static vks_window_info info;
    scramble(&info, sizeof info);
    info.surface = argument_chance(2) ? argument_window : 0;
    info.sizes_itself = argument_chance(2);
    return MAYBE(&info);
}

const vks_frame *draw_vks_frame(void)
{
    static vks_frame drawn;
    drawn = frame;
    if (argument_chance(4))
        scramble(&drawn, sizeof drawn);
    return MAYBE(&drawn);
}

static bool is_drawn[VKS_SWAPCHAIN_IMAGES]; /* since the frame was acquired */

void keep_vks_frame(const vks_frame *made)
{
    frame = *made;
    is_drawn[made->index] = false;
}

void argument_draw(vks_swapchain *swapchain, const vks_frame *drawn, uint64_t acquired, uint64_t rendered)
{
    vks_frame_image image;
    if (is_drawn[drawn->index] || vks_swapchain_image(swapchain, drawn->index, drawn->generation, &image) != VKS_OK)
        return; /* binary semaphores are waited for and signalled once */
    is_drawn[drawn->index] = true;
    presents_submit(acquired, rendered, image.image);
}

vks_interval draw_vks_interval(void)
{
    vks_interval interval = {16666667, 1};
    if (argument_chance(2))
        interval = (vks_interval){argument_number(), (uint32_t)argument_number()};
    return interval;
}

/* ---- descriptors: those that were exported or received, often with one number or file changed ---- */

static const vks_surface_descriptor no_surface = {.memory_fd = -1, .page_fd = -1, .semaphore_fd = -1};
static const vks_fence_descriptor no_fence = {.page_fd = -1, .semaphore_fd = -1};
static vks_surface_descriptor surface_descriptors[3], drawn_surface;
static vks_fence_descriptor fence_descriptor, drawn_fence;
static vks_queue_descriptor queue_descriptor, drawn_queue;

#define CHANGE(descriptor)                                                                                             \
    do {                                                                                                               \
        char *bytes = (char *)&(descriptor)->body;                                                                     \
        uint32_t word = (uint32_t)argument_number();                                                                   \
        if (argument_chance(2))                                                                                        \
            memcpy(bytes + argument_random() % (sizeof(descriptor)->body / 4) * 4, &word, sizeof word);                \
    } while (0)

static void own(int *fd) { *fd = argument_duplicate(argument_chance(8) ? argument_wrong_fd() : *fd); }

static void own_surface(vks_surface_descriptor *descriptor)
{
    own(&descriptor->memory_fd);
    own(&descriptor->page_fd);
    own(&descriptor->semaphore_fd);
}

const vks_surface_descriptor *draw_vks_surface_descriptor(void)
{
    vks_surface_descriptor_close(&drawn_surface);
    drawn_surface = surface_descriptors[argument_random() % LENGTH(surface_descriptors)];
    CHANGE(&drawn_surface);
    own_surface(&drawn_surface);
    return MAYBE(&drawn_surface);
}

const vks_fence_descriptor *draw_vks_fence_descriptor(void)
{
    vks_fence_descriptor_close(&drawn_fence);
    drawn_fence = fence_descriptor;
    CHANGE(&drawn_fence);
    own(&drawn_fence.page_fd);
    own(&drawn_fence.semaphore_fd);
    return MAYBE(&drawn_fence);
}

const vks_queue_descriptor *draw_vks_queue_descriptor(void)
{
    vks_queue_descriptor_close(&drawn_queue);
    drawn_queue = queue_descriptor;
    own(&drawn_queue.page_fds[0]);
    own(&drawn_queue.page_fds[1]);
    for (uint32_t i = 0; i < queue_descriptor.n_surfaces; i++) {
        CHANGE(&drawn_queue.surfaces[i]);
        own_surface(&drawn_queue.surfaces[i]);
    }
    if (argument_chance(4))
        drawn_queue.n_queues = (uint32_t)argument_number();
    if (argument_chance(4))
        drawn_queue.n_surfaces = (uint32_t)argument_number();
    return MAYBE(&drawn_queue);
}

void keep_vks_surface_descriptor(vks_surface_descriptor *made)
{
    vks_surface_descriptor *place = &surface_descriptors[argument_random() % LENGTH(surface_descriptors)];
    vks_surface_descriptor_close(place);
    *place = *made;
}

void keep_vks_fence_descriptor(vks_fence_descriptor *made)
{
    vks_fence_descriptor_close(&fence_descriptor);
    fence_descriptor = *made;
}

void keep_vks_queue_descriptor(vks_queue_descriptor *made)
{
    vks_queue_descriptor_close(&queue_descriptor);
    queue_descriptor = *made;
}

void argument_no_descriptors(void)
{
    static bool is_open; /* 0 is a file */
    for (uint32_t i = 0; i < LENGTH(surface_descriptors) && is_open; i++)
        vks_surface_descriptor_close(&surface_descriptors[i]);
    if (is_open) {
        vks_surface_descriptor_close(&drawn_surface);
        vks_fence_descriptor_close(&fence_descriptor);
        vks_fence_descriptor_close(&drawn_fence);
        vks_queue_descriptor_close(&queue_descriptor);
        vks_queue_descriptor_close(&drawn_queue);
    }
    is_open = true;
    surface_descriptors[0] = surface_descriptors[1] = surface_descriptors[2] = drawn_surface = no_surface;
    fence_descriptor = drawn_fence = no_fence;
    memset(&queue_descriptor, 0xff, sizeof queue_descriptor);
    queue_descriptor.n_queues = queue_descriptor.n_surfaces = 0;
    drawn_queue = queue_descriptor;
}
