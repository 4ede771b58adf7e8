/* A C program that clears a surface of another process with a command buffer of its own, on a VkDevice of the
 * library's.
 *
 *     ./vulkan_client /path/of/socket 1 2
 *
 * The process that listens there sends a SurfaceDescriptor. docs/guide.md has the other side, and how to build it.
 * examples/cpp_engine has the same for an engine with a VkDevice and submissions of its own. */
#define VK_NO_PROTOTYPES
#include "vkshare_vulkan.h"

#include "client.h"

static void vk(VkResult result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s: VkResult %d\n", what, result);
    exit(EXIT_FAILURE);
}

static vks_device *open_device(const vks_surface_body *body)
{
    if (body->memory_kind != VKS_OPAQUE_FD) {
        fprintf(stderr, "memory: it is of the CPU backend: use cpu_client\n");
        exit(EXIT_FAILURE);
    }
    vks_device *device;
    vks_open_info info = {.name = "c client", .device_uuid = body->device_uuid, .driver_uuid = body->driver_uuid};
    check(vks_device_open_vulkan(&info, &device), "device");
    return device;
}

/* ---- its commands ---- */

static PFN_vkVoidFunction load(const vks_vulkan_device *gpu, const char *name)
{
    return gpu->get_instance_proc_addr(gpu->instance, name);
}

/* A command buffer that clears the image, from a new pool. Between turns the image is in layout
 * GENERAL. */
static VkCommandBuffer record_clear(const vks_vulkan_device *gpu, VkImage image, VkCommandPool *pool)
{
    PFN_vkCreateCommandPool create = (PFN_vkCreateCommandPool)load(gpu, "vkCreateCommandPool");
    PFN_vkAllocateCommandBuffers allocate = (PFN_vkAllocateCommandBuffers)load(gpu, "vkAllocateCommandBuffers");
    PFN_vkBeginCommandBuffer begin = (PFN_vkBeginCommandBuffer)load(gpu, "vkBeginCommandBuffer");
    PFN_vkCmdClearColorImage clear = (PFN_vkCmdClearColorImage)load(gpu, "vkCmdClearColorImage");
    PFN_vkEndCommandBuffer end = (PFN_vkEndCommandBuffer)load(gpu, "vkEndCommandBuffer");
    VkCommandPoolCreateInfo family = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                      .queueFamilyIndex = gpu->queue_family};
    vk(create(gpu->device, &family, NULL, pool), "vkCreateCommandPool");
    VkCommandBuffer commands;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = *pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBufferBeginInfo how = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkClearColorValue colour = {.float32 = {64 / 255.f, 128 / 255.f, 192 / 255.f, 1}};
    VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vk(allocate(gpu->device, &info, &commands), "vkAllocateCommandBuffers");
    vk(begin(commands, &how), "vkBeginCommandBuffer");
    clear(commands, image, VK_IMAGE_LAYOUT_GENERAL, &colour, 1, &whole);
    vk(end(commands), "vkEndCommandBuffer");
    return commands;
}

static void submit(vks_device *device, vks_surface *surface, VkCommandBuffer buffer)
{
    vks_use use = {surface, true};
    vks_commands *commands;
    check(vks_commands_create_vulkan(device, (uintptr_t)buffer, &use, 1, NULL, NULL, &commands), "commands");
    vks_submission submission = {0};
    vks_submit_info info = {.commands = &commands, .n_commands = 1};
    check(vks_submit(device, &info, vks_now() + PATIENCE, &submission), "submit");
    if (submission.op)
        vks_work_unref(submission.op);
    vks_commands_unref(commands);
}

int main(int count, char **words)
{
    arguments given = read_arguments(count, words);
    vks_surface_descriptor descriptor = receive(given.path);
    vks_device *device = open_device(&descriptor.body);
    vks_vulkan_device gpu;
    vks_vulkan_image image;
    vks_surface *surface;
    VkCommandPool pool;
    check(vks_device_get_vulkan(device, &gpu), "handles");
    check(vks_surface_open_image(device, &descriptor, &surface), "surface");
    check(vks_surface_get_vulkan(surface, &image), "image");
    VkCommandBuffer commands = record_clear(&gpu, image.image, &pool);

    uint64_t deadline = vks_now() + PATIENCE;
    check(PATIENTLY(vks_surface_acquire(surface, given.acquire, deadline)), "acquire");
    submit(device, surface, commands); /* runs behind the previous owner's work */
    tell_and_hold(&given);
    check(vks_surface_release(surface, given.release), "release"); /* and the next owner's runs behind this */
    check(PATIENTLY(vks_device_wait_idle(device, vks_now() + PATIENCE)), "wait");

    ((PFN_vkDestroyCommandPool)load(&gpu, "vkDestroyCommandPool"))(gpu.device, pool, NULL);
    close_all(device, surface, &descriptor);
    return EXIT_SUCCESS;
}
