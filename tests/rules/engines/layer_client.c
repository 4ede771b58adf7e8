/* layer_client.c: an engine in C, with a VkDevice and images of its own, that shares one by the engines layer.
 *
 * usage: layer_client LAYER_LIBRARY. Exit status 0: the surface has the colour of the engine's clear.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vkshare_layer.h"
#include "vkshare_vulkan.h"

enum { WIDTH = 64, HEIGHT = 16 };

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, vks_last_error()->text);                        \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static PFN_vkGetInstanceProcAddr get;
static VkInstance instance;
static VkDevice device;
static VkQueue queue;
#define I(name) ((PFN_##name)get(instance, #name))
#define D(name) ((PFN_##name)I(vkGetDeviceProcAddr)(device, #name))

static void open_engine(void)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                                .pApplicationInfo = &application};
    CHECK(((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(&instance_info, NULL, &instance) == VK_SUCCESS);
    VkPhysicalDevice physical_device;
    uint32_t n = 1;
    CHECK(I(vkEnumeratePhysicalDevices)(instance, &n, &physical_device) >= VK_SUCCESS && n == 1);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue_info};
    CHECK(I(vkCreateDevice)(physical_device, &info, NULL, &device) == VK_SUCCESS);
    D(vkGetDeviceQueue)(device, 0, 0, &queue);
}

static VkImage make_image(uint32_t width, uint32_t height)
{
    const VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                                    .imageType = VK_IMAGE_TYPE_2D,
                                    .format = VK_FORMAT_R8G8B8A8_UNORM,
                                    .extent = {width, height, 1},
                                    .mipLevels = 1,
                                    .arrayLayers = 1,
                                    .samples = VK_SAMPLE_COUNT_1_BIT,
                                    .usage = VK_IMAGE_USAGE_TRANSFER_DST_BIT};
    VkImage image;
    CHECK(D(vkCreateImage)(device, &info, NULL, &image) == VK_SUCCESS);
    return image;
}

static vks_layer_device found;
static VkDeviceMemory memory; /* of the engine for the image, which does not use it */

static vks_device *adopt(void *layer)
{
    ((void (*)(void))dlsym(layer, "vks_layer_begin"))();
    CHECK(!((bool (*)(vks_layer_device *))dlsym(layer, "vks_layer_thread_device"))(&found));
    D(vkDestroyImage)(device, make_image(1, 1), NULL);
    CHECK(((bool (*)(vks_layer_device *))dlsym(layer, "vks_layer_thread_device"))(&found));
    CHECK(found.device == device && found.queue == queue && found.api_version >= VK_API_VERSION_1_3);
    const vks_adopt_info info = {.name = "engine",
                                 .get_instance_proc_addr = found.get_instance_proc_addr,
                                 .instance = found.instance,
                                 .physical_device = found.physical_device,
                                 .device = found.device,
                                 .queue = found.queue,
                                 .queue_family = found.queue_family,
                                 .created_with = found.created_with,
                                 .lock_queue = found.lock_queue,
                                 .unlock_queue = found.unlock_queue,
                                 .lock_user = found.lock_user};
    vks_device *adopted;
    CHECK(vks_device_adopt_vulkan(&info, &adopted) == VKS_OK);
    return adopted;
}

static VkImage take(void *layer, vks_surface *surface)
{
    vks_vulkan_image of;
    CHECK(vks_surface_get_vulkan(surface, &of) == VKS_OK);
    const vks_layer_offer offer = {.device = device,
                                   .image = of.image,
                                   .memory = of.memory,
                                   .width = WIDTH,
                                   .height = HEIGHT,
                                   .format = of.format,
                                   .usage = of.usage,
                                   .surface = surface,
                                   .calls = {vks_surface_sync, vks_surface_ref, vks_surface_unref}};
    CHECK(((bool (*)(const vks_layer_offer *))dlsym(layer, "vks_layer_make_offer"))(&offer));
    VkImage image = make_image(WIDTH, HEIGHT);
    CHECK(((bool (*)(void))dlsym(layer, "vks_layer_end_offer"))()); /* a layer above may give it another handle */
    VkMemoryRequirements needs;
    D(vkGetImageMemoryRequirements)(device, image, &needs);
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = (uint32_t)__builtin_ctz(needs.memoryTypeBits)};
    CHECK(D(vkAllocateMemory)(device, &info, NULL, &memory) == VK_SUCCESS);
    CHECK(D(vkBindImageMemory)(device, image, memory, 0) == VK_SUCCESS);
    return image;
}

/* The engine's device orders its turns as a device of the same adapter does that goes past the layer. */
static void check_timelines(vks_device *adopted)
{
    vks_vulkan_device of_engine, of_ours;
    CHECK(vks_device_get_vulkan(adopted, &of_engine) == VKS_OK);
    const vks_open_info same = {.device_uuid = of_engine.device_uuid, .driver_uuid = of_engine.driver_uuid};
    vks_device *ours;
    CHECK(vks_device_open_vulkan(&same, &ours) == VKS_OK);
    CHECK(vks_device_get_vulkan(ours, &of_ours) == VKS_OK);
    CHECK(of_engine.export_timelines == of_ours.export_timelines);
    vks_device_shutdown(ours);
    vks_device_unref(ours);
}

/* As an engine that takes the image for a new one. */
static void clear(VkImage image)
{
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandPool pool;
    VkCommandBuffer commands;
    CHECK(D(vkCreateCommandPool)(device, &pool_info, NULL, &pool) == VK_SUCCESS);
    const VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
    CHECK(D(vkAllocateCommandBuffers)(device, &allocate, &commands) == VK_SUCCESS);
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkImageSubresourceRange whole = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    const VkImageMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                          .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                          .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
                                          .newLayout = VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
                                          .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                          .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                          .image = image,
                                          .subresourceRange = whole};
    const VkClearColorValue red = {{1, 0, 0, 1}};
    D(vkBeginCommandBuffer)(commands, &begin);
    D(vkCmdPipelineBarrier)(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL, 0,
                            NULL, 1, &barrier);
    D(vkCmdClearColorImage)(commands, image, VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, &red, 1, &whole);
    CHECK(D(vkEndCommandBuffer)(commands) == VK_SUCCESS);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    CHECK(D(vkQueueSubmit)(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
    CHECK(D(vkQueueWaitIdle)(queue) == VK_SUCCESS);
    D(vkDestroyCommandPool)(device, pool, NULL);
}

int main(int argc, char **argv)
{
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW), *layer = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    get = loader ? (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr") : NULL;
    CHECK(get && layer);
    CHECK(((uint32_t (*)(void))dlsym(layer, "vks_layer_version"))() == VKS_LAYER_VERSION);
    open_engine();
    vks_device *adopted = adopt(layer);
    check_timelines(adopted);
    const vks_image_info info = {.width = WIDTH,
                                 .height = HEIGHT,
                                 .format = VKS_FORMAT_RGBA8_UNORM,
                                 .tiling = VKS_LINEAR,
                                 .usage = VKS_USAGE_COPY};
    vks_surface *surface;
    CHECK(vks_surface_create_image(adopted, &info, &surface) == VKS_OK);
    VkImage image = take(layer, surface);
    CHECK(vks_surface_acquire(surface, 0, VKS_FOREVER) == VKS_OK);
    clear(image);
    CHECK(vks_surface_release(surface, 1) == VKS_OK && vks_surface_acquire(surface, 1, VKS_FOREVER) == VKS_OK);
    unsigned char *pixels;
    size_t stride;
    const unsigned char red[4] = {255, 0, 0, 255};
    CHECK(vks_surface_cpu_access(surface, VKS_FOREVER) == VKS_OK);
    CHECK(vks_surface_pixels(surface, (void **)&pixels, &stride) == VKS_OK);
    CHECK(!memcmp(pixels, red, 4) && !memcmp(pixels + (HEIGHT - 1) * stride + 4 * (WIDTH - 1), red, 4));
    CHECK(vks_surface_release(surface, 0) == VKS_OK);
    CHECK(((uint64_t (*)(void))dlsym(layer, "vks_layer_misuses"))() == 0);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    clear(image); /* it is still the engine's, and not in a turn */
    CHECK(((uint64_t (*)(void))dlsym(layer, "vks_layer_misuses"))() == 1);
    vks_device_shutdown(adopted);
    vks_device_unref(adopted);
    D(vkDestroyImage)(device, image, NULL);
    D(vkFreeMemory)(device, memory, NULL);
    D(vkDestroyDevice)(device, NULL);
    I(vkDestroyInstance)(instance, NULL);
    printf("red\n");
    return 0;
}
