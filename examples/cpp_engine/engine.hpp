// engine.hpp: the engine that a reader has already: an instance, a device, a queue, command buffers. Nothing of vkshare
// is in it, but for the extensions and features that its device enables.
#pragma once

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "vkshare.hpp"

// clang-format off
#define FUNCTIONS(X) \
    X(EnumeratePhysicalDevices) X(CreateDevice) X(DestroyInstance) X(DestroyDevice) X(GetDeviceQueue) \
    X(GetPhysicalDeviceProperties2) X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers) \
    X(BeginCommandBuffer) X(EndCommandBuffer) X(QueueSubmit2) X(CreateImageView) X(DestroyImageView) \
    X(CmdBeginRendering) X(CmdEndRendering) X(CmdClearAttachments)
// clang-format on

struct engine {
    PFN_vkGetInstanceProcAddr get = nullptr;
#define DECLARE(name) PFN_vk##name vk##name = nullptr;
    FUNCTIONS(DECLARE)
#undef DECLARE
    VkInstance instance{};
    VkPhysicalDevice physical{};
    VkDevice device{};
    VkQueue queue{};
    VkCommandPool pool{};
    VkImageView view{};
    const uint32_t family = 0; // draws, on the drivers known
    VkPhysicalDeviceVulkan13Features newer{};
    VkPhysicalDeviceVulkan12Features older{};
    vks_requirements needs{};
    VkDeviceCreateInfo created_with{};

    // The first physical device that `is_wanted`.
    explicit engine(const std::function<bool(const VkPhysicalDeviceIDProperties &)> &is_wanted)
    {
        load();
        uint32_t count = 16;
        std::vector<VkPhysicalDevice> all(count);
        vkEnumeratePhysicalDevices(instance, &count, all.data());
        for (uint32_t i = 0; i < count && !physical; i++) {
            VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, {}, {}, {}, {}, {}, {}};
            VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &id, {}};
            vkGetPhysicalDeviceProperties2(all[i], &properties);
            if (is_wanted(id))
                physical = all[i];
        }
        if (!physical)
            throw std::runtime_error("no device here made the surface");
        create_device();
    }
    engine(const engine &) = delete;
    ~engine()
    {
        vkDestroyImageView(device, view, nullptr);
        vkDestroyCommandPool(device, pool, nullptr);
        vkDestroyDevice(device, nullptr);
        vkDestroyInstance(instance, nullptr);
    }

    VkCommandBuffer begin()
    {
        VkCommandBuffer commands;
        VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool,
                                         VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        VkCommandBufferBeginInfo once{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                      VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, nullptr};
        check(vkAllocateCommandBuffers(device, &info, &commands));
        check(vkBeginCommandBuffer(commands, &once));
        return commands;
    }
    void submit(VkCommandBuffer commands, const VkSemaphoreSubmitInfo &wait, const VkSemaphoreSubmitInfo &signal)
    {
        check(vkEndCommandBuffer(commands));
        VkCommandBufferSubmitInfo buffer{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, nullptr, commands, 0};
        VkSubmitInfo2 info{VK_STRUCTURE_TYPE_SUBMIT_INFO_2, nullptr, 0, 1, &wait, 1, &buffer, 1, &signal};
        check(vkQueueSubmit2(queue, 1, &info, VK_NULL_HANDLE));
    }
    // A background and a rectangle in the middle of half its size.
    void draw(VkCommandBuffer commands, VkImage image, VkFormat format, VkExtent2D extent)
    {
        VkImageViewCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO;
        info.image = image;
        info.viewType = VK_IMAGE_VIEW_TYPE_2D;
        info.format = format;
        info.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
        check(vkCreateImageView(device, &info, nullptr, &view));
        VkRenderingAttachmentInfo target{};
        target.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO;
        target.imageView = view;
        target.imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
        target.loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR;
        target.clearValue.color = {{0.25f, 0.5f, 0.75f, 1}};
        VkRenderingInfo rendering{};
        rendering.sType = VK_STRUCTURE_TYPE_RENDERING_INFO;
        rendering.renderArea.extent = extent;
        rendering.layerCount = rendering.colorAttachmentCount = 1;
        rendering.pColorAttachments = &target;
        vkCmdBeginRendering(commands, &rendering);
        VkClearAttachment red{VK_IMAGE_ASPECT_COLOR_BIT, 0, {{{1, 0, 0, 1}}}};
        VkClearRect middle{{{static_cast<int32_t>(extent.width / 4), static_cast<int32_t>(extent.height / 4)},
                            {extent.width / 2, extent.height / 2}},
                           0,
                           1};
        vkCmdClearAttachments(commands, 1, &red, 1, &middle);
        vkCmdEndRendering(commands);
    }

  private:
    static void check(VkResult result)
    {
        if (result != VK_SUCCESS)
            throw std::runtime_error("VkResult " + std::to_string(result));
    }

    void load()
    {
        void *library = dlopen("libvulkan.so.1", RTLD_NOW),
             *found = library ? dlsym(library, "vkGetInstanceProcAddr") : nullptr;
        if (!found)
            throw std::runtime_error("Vulkan: libvulkan.so.1 was not found");
        std::memcpy(&get, &found, sizeof found);
        VkApplicationInfo application{
            VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "engine", 0, "engine", 0, VK_API_VERSION_1_3};
        VkInstanceCreateInfo info{
            VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, nullptr, 0, &application, 0, nullptr, 0, nullptr};
        check(reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"))(&info, nullptr, &instance));
#define LOAD(name) vk##name = reinterpret_cast<PFN_vk##name>(get(instance, "vk" #name));
        FUNCTIONS(LOAD)
#undef LOAD
    }

    void create_device()
    {
        vks::require(vks_vulkan_requirements(get, instance, physical, &needs)); // and the engine's own dynamicRendering
        newer.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
        newer.synchronization2 = newer.dynamicRendering = VK_TRUE;
        older.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
        older.pNext = &newer;
        older.timelineSemaphore = VK_TRUE;
        float priority = 1;
        VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, family, 1, &priority};
        created_with.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        created_with.pNext = &older;
        created_with.queueCreateInfoCount = 1;
        created_with.pQueueCreateInfos = &queues;
        created_with.enabledExtensionCount = needs.n_extensions;
        created_with.ppEnabledExtensionNames = needs.extensions;
        check(vkCreateDevice(physical, &created_with, nullptr, &device));
        created_with.pQueueCreateInfos = nullptr;
        vkGetDeviceQueue(device, family, 0, &queue);
        VkCommandPoolCreateInfo of{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
        check(vkCreateCommandPool(device, &of, nullptr, &pool));
    }
};

// A connection to the Unix socket at that path.
inline int connect_to(const std::string &path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, reinterpret_cast<sockaddr *>(&address), sizeof address) < 0)
        throw std::runtime_error(path + ": " + std::strerror(errno));
    return sock;
}
