/* A C program that clears a surface of another process with a command buffer of its own, on its own VkDevice.
 *
 *     ./vulkan_client /path/of/socket 1 2
 *
 * The process that listens there sends a SurfaceDescriptor. docs/guide.md has the other side, and how to build it.
 * Vulkan 1.3, loaded when it runs. The image is imported as native/vkshare.h says under vks_surface_body. */
#include <dlfcn.h>

#include "client.h"

#define VK_NO_PROTOTYPES
#include "vulkan/vulkan_core.h"

/* clang-format off */
#define INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(CreateDevice) \
    X(GetPhysicalDeviceMemoryProperties) X(GetDeviceProcAddr)
#define DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) X(GetDeviceQueue) X(CreateImage) X(DestroyImage) X(GetImageMemoryRequirements) X(AllocateMemory) \
    X(FreeMemory) X(BindImageMemory) X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) \
    X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdPipelineBarrier2) X(CmdClearColorImage)
/* clang-format on */
#define DECLARE(name) static PFN_vk##name vk##name;
INSTANCE_FUNCTIONS(DECLARE)
DEVICE_FUNCTIONS(DECLARE)

static void vk(VkResult result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s: VkResult %d\n", what, result);
    exit(EXIT_FAILURE);
}

typedef struct gpu {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkCommandPool pool;
    VkImage image;
    VkDeviceMemory memory;
} gpu;

static const VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};

/* ---- the device whose memory it is ---- */

static bool made_it(VkPhysicalDevice physical, const vks_surface_descriptor *descriptor)
{
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    vkGetPhysicalDeviceProperties2(physical, &properties);
    return vks_surface_descriptor_check_device(descriptor, id.deviceUUID, id.driverUUID) == VKS_OK;
}

static void open_instance(gpu *g, const vks_surface_descriptor *descriptor)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    PFN_vkGetInstanceProcAddr get = NULL;
    if (library)
        *(void **)&get = dlsym(library, "vkGetInstanceProcAddr");
    if (!get) {
        fprintf(stderr, "Vulkan: %s\n", dlerror());
        exit(77); /* there is none here */
    }
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    vk(((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(&info, NULL, &g->instance), "vkCreateInstance");
#define LOAD(name) vk##name = (PFN_vk##name)get(g->instance, "vk" #name);
    INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    VkPhysicalDevice all[16];
    uint32_t n = 16;
    VkResult result = vkEnumeratePhysicalDevices(g->instance, &n, all);
    vk(result == VK_INCOMPLETE ? VK_SUCCESS : result, "vkEnumeratePhysicalDevices");
    for (uint32_t i = 0; i < n && !g->physical; i++)
        if (made_it(all[i], descriptor))
            g->physical = all[i];
    if (!g->physical)
        fail("no device here made the surface");
}

static void open_device(gpu *g, bool with_semaphores)
{
    const char *extensions[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
    float priority = 1;
    VkPhysicalDeviceVulkan13Features sync = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                             .synchronization2 = VK_TRUE};
    VkPhysicalDeviceVulkan12Features timelines = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &sync, .timelineSemaphore = VK_TRUE};
    VkDeviceQueueCreateInfo queue = {/* family 0: of graphics on the drivers known */
                                     .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &timelines,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = with_semaphores ? 2 : 1,
                               .ppEnabledExtensionNames = extensions};
    vk(vkCreateDevice(g->physical, &info, NULL, &g->device), "vkCreateDevice");
#define LOAD(name) vk##name = (PFN_vk##name)vkGetDeviceProcAddr(g->device, "vk" #name);
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    vkGetDeviceQueue(g->device, 0, 0, &g->queue);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    vk(vkCreateCommandPool(g->device, &pool, NULL, &g->pool), "vkCreateCommandPool");
}

/* ---- its image ---- */

static void create_image(gpu *g, const vks_surface_body *b)
{
    static const VkFormat formats[] = {0,
                                       VK_FORMAT_R8_UNORM,
                                       VK_FORMAT_R8G8_UNORM,
                                       VK_FORMAT_R8G8B8A8_UNORM,
                                       VK_FORMAT_R8G8B8A8_SRGB,
                                       VK_FORMAT_B8G8R8A8_UNORM,
                                       VK_FORMAT_A2B10G10R10_UNORM_PACK32,
                                       VK_FORMAT_R32_SFLOAT,
                                       VK_FORMAT_R16G16B16A16_SFLOAT,
                                       VK_FORMAT_R32G32B32A32_SFLOAT};
    VkExternalMemoryImageCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
                                                .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkImageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .pNext = &external,
        .flags = formats[b->format] == VK_FORMAT_R8G8B8A8_SRGB ? VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT : 0,
        .imageType = VK_IMAGE_TYPE_2D,
        .format = formats[b->format],
        .extent = {b->width, b->height, 1},
        .mipLevels = 1,
        .arrayLayers = 1,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .tiling = b->tiling == VKS_OPTIMAL ? VK_IMAGE_TILING_OPTIMAL : VK_IMAGE_TILING_LINEAR,
        .usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                 (b->usage & VKS_USAGE_RENDER ? VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT : 0) |
                 (b->usage & VKS_USAGE_SAMPLE ? VK_IMAGE_USAGE_SAMPLED_BIT : 0) |
                 (b->usage & VKS_USAGE_STORAGE ? VK_IMAGE_USAGE_STORAGE_BIT : 0),
    };
    vk(vkCreateImage(g->device, &info, NULL, &g->image), "vkCreateImage");
}

/* As the exporter chose it: the first type that the image can have and that is visible, coherent and cached, or visible
 * and coherent (linear), or device-local (optimal). */
static uint32_t memory_type(const gpu *g, const vks_surface_body *b, uint32_t allowed)
{
    const VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags linear[] = {coherent | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, coherent, 0};
    const VkMemoryPropertyFlags optimal[] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    VkPhysicalDeviceMemoryProperties has;
    vkGetPhysicalDeviceMemoryProperties(g->physical, &has);
    for (const VkMemoryPropertyFlags *wanted = b->tiling == VKS_LINEAR ? linear : optimal;; wanted++) {
        for (uint32_t i = 0; i < has.memoryTypeCount; i++)
            if (allowed & 1u << i && (has.memoryTypes[i].propertyFlags & *wanted) == *wanted)
                return i;
        if (!*wanted)
            fail("no memory type for the image");
    }
}

static void import_memory(gpu *g, const vks_surface_descriptor *descriptor)
{
    const vks_surface_body *b = &descriptor->body;
    if (b->memory_kind != VKS_OPAQUE_FD) {
        fprintf(stderr, "memory: it is of the CPU backend: use cpu_client\n");
        exit(EXIT_FAILURE);
    }
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(g->device, g->image, &needs);
    if (needs.size != b->memory_size) { /* some drivers take an import that is too small */
        fprintf(stderr, "memory: this driver needs %llu bytes, and it has %llu\n", (unsigned long long)needs.size,
                (unsigned long long)b->memory_size);
        exit(EXIT_FAILURE);
    }
    VkMemoryDedicatedAllocateInfo dedicated = {.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO,
                                               .image = g->image};
    VkImportMemoryFdInfoKHR import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
                                      .pNext = b->dedicated ? &dedicated : NULL,
                                      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
                                      .fd = dup(descriptor->memory_fd)}; /* the driver's, once it succeeds */
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .pNext = &import,
                                 .allocationSize = needs.size,
                                 .memoryTypeIndex = memory_type(g, b, needs.memoryTypeBits)};
    vk(vkAllocateMemory(g->device, &info, NULL, &g->memory), "vkAllocateMemory");
    vk(vkBindImageMemory(g->device, g->image, g->memory, 0), "vkBindImageMemory");
}

/* ---- its commands ---- */

static VkCommandBuffer begin(const gpu *g)
{
    VkCommandBuffer commands;
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = g->pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBufferBeginInfo how = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    vk(vkAllocateCommandBuffers(g->device, &info, &commands), "vkAllocateCommandBuffers");
    vk(vkBeginCommandBuffer(commands, &how), "vkBeginCommandBuffer");
    return commands;
}

static VkCommandBuffer end(VkCommandBuffer commands)
{
    vk(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    return commands;
}

/* Between parties the image is in layout GENERAL and belongs to VK_QUEUE_FAMILY_EXTERNAL. A release of memory that the
 * CPU sees makes what was written visible to it too. */
static VkCommandBuffer transfer(const gpu *g, bool takes, bool to_host)
{
    const VkAccessFlags2 all = VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT;
    VkMemoryBarrier2 host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                             .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                             .srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT,
                             .dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT,
                             .dstAccessMask = VK_ACCESS_2_HOST_READ_BIT | VK_ACCESS_2_HOST_WRITE_BIT};
    VkImageMemoryBarrier2 barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2,
                                     .srcStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                     .srcAccessMask = takes ? 0 : VK_ACCESS_2_MEMORY_WRITE_BIT,
                                     .dstStageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
                                     .dstAccessMask = takes ? all : 0,
                                     .oldLayout = VK_IMAGE_LAYOUT_GENERAL,
                                     .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                     .srcQueueFamilyIndex = takes ? VK_QUEUE_FAMILY_EXTERNAL : 0,
                                     .dstQueueFamilyIndex = takes ? 0 : VK_QUEUE_FAMILY_EXTERNAL,
                                     .image = g->image,
                                     .subresourceRange = whole};
    VkDependencyInfo info = {.sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO,
                             .memoryBarrierCount = !takes && to_host,
                             .pMemoryBarriers = &host,
                             .imageMemoryBarrierCount = 1,
                             .pImageMemoryBarriers = &barrier};
    VkCommandBuffer commands = begin(g);
    vkCmdPipelineBarrier2(commands, &info);
    return end(commands);
}

static VkCommandBuffer clear(const gpu *g)
{
    VkClearColorValue colour = {.float32 = {64 / 255.f, 128 / 255.f, 192 / 255.f, 1}};
    VkCommandBuffer commands = begin(g);
    vkCmdClearColorImage(commands, g->image, VK_IMAGE_LAYOUT_GENERAL, &colour, 1, &whole);
    return end(commands);
}

/* ---- the whole ---- */

static void draw(vks_device *device, vks_surface *surface, VkCommandBuffer buffer)
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
    bool with_semaphores = descriptor.semaphore_fd >= 0, to_host = descriptor.body.tiling == VKS_LINEAR;
    gpu g = {0};
    open_instance(&g, &descriptor);
    open_device(&g, with_semaphores);
    create_image(&g, &descriptor.body);
    import_memory(&g, &descriptor);

    vks_vulkan_info vulkan = {.get_device_proc_addr = *(void **)&vkGetDeviceProcAddr,
                              .device = (uintptr_t)g.device,
                              .queue = (uintptr_t)g.queue,
                              .export_timelines = with_semaphores};
    vks_device *device;
    vks_surface *surface;
    check(vks_device_create(&(vks_device_info){.name = "c client", .vulkan = &vulkan}, &device), "device");
    check(vks_surface_open_descriptor(device, &descriptor, NULL, &surface), "surface");
    vks_surface_set_commands(surface, (uintptr_t)transfer(&g, true, false), (uintptr_t)transfer(&g, false, to_host));

    uint64_t deadline = vks_now() + PATIENCE;
    check(PATIENTLY(vks_surface_acquire(surface, given.acquire, deadline)), "acquire");
    draw(device, surface, clear(&g)); /* runs behind the previous owner's work */
    tell_and_hold(&given);
    check(vks_surface_release(surface, given.release), "release"); /* and the next owner's runs behind this */
    check(PATIENTLY(vks_device_wait_idle(device, vks_now() + PATIENCE)), "wait");

    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_surface_descriptor_close(&descriptor);
    vks_device_shutdown(device);
    vks_device_reap(device, true);
    vks_device_unref(device);
    vkDestroyCommandPool(g.device, g.pool, NULL);
    vkDestroyImage(g.device, g.image, NULL);
    vkFreeMemory(g.device, g.memory, NULL);
    vkDestroyDevice(g.device, NULL);
    vkDestroyInstance(g.instance, NULL);
    return EXIT_SUCCESS;
}
