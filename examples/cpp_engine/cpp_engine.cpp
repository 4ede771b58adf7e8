// An engine in C++ that draws with its own VkDevice into a surface of another process, or lets that process open its
// own.
//
//     ./cpp_engine /path/of/socket 1 2           a SurfaceDescriptor comes over the socket
//     ./cpp_engine /path/of/socket 1 2 create    one of a new surface goes there
//
// The numbers are the keys of its turn. It keeps the surface until the other process closes the connection.
// docs/c-api.md explains the steps.
#include <cstdio>
#include <unistd.h>

#include "engine.hpp"

static void run(const std::string &path, uint64_t acquire_key, uint64_t release_key, bool creates)
{
    const uint64_t deadline = vks::after(std::chrono::seconds(30));
    const int sock = connect_to(path);
    vks::surface_descriptor given;
    if (!creates)
        given = vks::receive_surface(sock, deadline);

    engine mine([&](const VkPhysicalDeviceIDProperties &id) {
        return creates || vks_surface_descriptor_check_device(given.get(), id.deviceUUID, id.driverUUID) == VKS_OK;
    });
    vks_adopt_info info{};
    info.name = "C++ engine";
    info.get_instance_proc_addr = mine.get;
    info.instance = mine.instance;
    info.physical_device = mine.physical;
    info.device = mine.device;
    info.queue = mine.queue;
    info.queue_family = mine.family;
    info.created_with = &mine.created_with;
    vks::device device = vks::adopt_vulkan(info);

    vks_image_info size{};
    size.width = size.height = 64;
    size.format = VKS_FORMAT_RGBA8_UNORM;
    size.tiling = VKS_OPTIMAL;
    vks::surface surface = creates ? vks::create_image(device, size) : vks::open_image(device, given);
    if (creates)
        vks::send(sock, vks::export_descriptor(surface), deadline);

    vks::ownership turn(surface, acquire_key, release_key, deadline);
    const auto [wait, signal] = vks::sync(surface, deadline);
    const vks_vulkan_image image = vks::vulkan_image(surface);
    const VkImageLayout layout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL;
    const VkPipelineStageFlags2 stage = VK_PIPELINE_STAGE_2_COLOR_ATTACHMENT_OUTPUT_BIT;
    VkCommandBuffer commands = mine.begin();
    vks::require(vks_surface_cmd_acquire(surface, commands, layout, stage, VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT));
    mine.draw(commands, image.image, image.format, image.extent);
    vks::require(vks_surface_cmd_release(surface, commands, layout, stage, VK_ACCESS_2_COLOR_ATTACHMENT_WRITE_BIT));
    mine.submit(commands, wait, signal);
    turn.release(); // the next owner's work comes after the engine's
    std::puts("drawn");
    std::fflush(stdout);
    for (char byte; read(sock, &byte, 1) > 0;)
        continue;
    close(sock);
}

int main(int count, char **words)
try {
    if (count < 4)
        throw std::runtime_error("usage: cpp_engine SOCKET ACQUIRE_KEY RELEASE_KEY [create]");
    run(words[1], std::stoull(words[2]), std::stoull(words[3]), count > 4);
} catch (const std::exception &error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
}
