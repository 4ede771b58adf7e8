/* physical.c: properties of a VkPhysicalDevice, and what the library needs of it. */
#include "engine/instance.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* By VkPhysicalDeviceType: other, integrated, discrete, virtual, CPU. */
static const uint32_t ranks[] = {15, 30, 40, 25, 20};

bool vks_has_name(const char *const *names, size_t n, const char *wanted)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], wanted))
            return true;
    return false;
}

/* ---- extensions and features ---- */

static bool has_extension(const VkExtensionProperties *all, uint32_t n, const char *wanted)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(all[i].extensionName, wanted))
            return true;
    return false;
}

static vks_status check_extensions(const vks_instance *instance, vks_physical *out)
{
    uint32_t n = 0;
    VkResult code = instance->EnumerateDeviceExtensionProperties(out->handle, NULL, &n, NULL);
    VkExtensionProperties *all = calloc(n ? n : 1, sizeof *all);
    if (!all)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for %u extensions", n);
    if (code == VK_SUCCESS)
        code = instance->EnumerateDeviceExtensionProperties(out->handle, NULL, &n, all);
    bool has_memory_fd = code == VK_SUCCESS && has_extension(all, n, VKS_NEEDED_EXTENSION);
    out->has_semaphore_fd = has_extension(all, n, VKS_SEMAPHORE_EXTENSION);
    out->has_host_memory = has_extension(all, n, VKS_HOST_EXTENSION);
    out->has_linear_rendering = has_extension(all, n, VKS_LINEAR_EXTENSION);
    out->has_swapchain = has_extension(all, n, VKS_SWAPCHAIN_EXTENSION);
    free(all);
    if (code)
        return vks_vulkan_result(code, "vkEnumerateDeviceExtensionProperties");
    return has_memory_fd ? VKS_OK : vks_fail(VKS_UNSUPPORTED, 0, "%s has no " VKS_NEEDED_EXTENSION, out->adapter.name);
}

static vks_status check_features(const vks_instance *instance, vks_physical *physical)
{
    VkPhysicalDeviceLinearColorAttachmentFeaturesNV linear = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_LINEAR_COLOR_ATTACHMENT_FEATURES_NV};
    VkPhysicalDeviceVulkan13Features newer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                              .pNext = physical->has_linear_rendering ? &linear : NULL};
    VkPhysicalDeviceVulkan12Features older = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                              .pNext = &newer};
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &older};
    instance->GetPhysicalDeviceFeatures2(physical->handle, &all);
    physical->has_linear_rendering = linear.linearColorAttachment;
    const char *lacking = !older.timelineSemaphore  ? "timelineSemaphore"
                          : !newer.synchronization2 ? "synchronization2"
                                                    : NULL;
    return lacking ? vks_fail(VKS_UNSUPPORTED, 0, "%s has no feature %s", physical->adapter.name, lacking) : VKS_OK;
}

/* ---- properties ---- */

static vks_status read_properties(const vks_instance *instance, vks_physical *out, bool *may_transfer)
{
    VkPhysicalDeviceTimelineSemaphoreProperties timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = &timeline};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, .pNext = &driver};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    instance->GetPhysicalDeviceProperties2(out->handle, &all);
    const VkPhysicalDeviceProperties *core = &all.properties;
    vks_adapter *adapter = &out->adapter;
    memcpy(adapter->name, core->deviceName, sizeof adapter->name);
    memcpy(adapter->device_uuid, id.deviceUUID, VK_UUID_SIZE);
    memcpy(adapter->driver_uuid, id.driverUUID, VK_UUID_SIZE);
    adapter->api_version = core->apiVersion;
    adapter->is_software = core->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    out->rank = ranks[(size_t)core->deviceType < sizeof ranks / sizeof *ranks ? core->deviceType : 0];
    out->max_timeline_difference = timeline.maxTimelineSemaphoreValueDifference;
    /* NVIDIA's alone were tried. Mesa uses semaphores for longer than native/backend keeps them. */
    *may_transfer = driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    out->skips_outer_barriers = driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
    if (core->apiVersion < VK_API_VERSION_1_3)
        return vks_fail(VKS_UNSUPPORTED, 0, "%s has Vulkan %u.%u: 1.3 is needed", adapter->name,
                        VK_API_VERSION_MAJOR(core->apiVersion), VK_API_VERSION_MINOR(core->apiVersion));
    return VKS_OK;
}

static void read_host_alignment(const vks_instance *instance, vks_physical *out)
{
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
    if (out->has_host_memory)
        instance->GetPhysicalDeviceProperties2(out->handle, &all);
    out->host_alignment = host.minImportedHostPointerAlignment;
}

static bool only_copies(const VkQueueFamilyProperties *family)
{
    const VkExtent3D *grain = &family->minImageTransferGranularity;
    VkQueueFlags kind = family->queueFlags & ~(VkQueueFlags)(VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT);
    return kind == VK_QUEUE_TRANSFER_BIT && grain->width == 1 && grain->height == 1 && grain->depth == 1;
}

static vks_status read_families(const vks_instance *instance, vks_physical *out, bool may_transfer)
{
    VkQueueFamilyProperties families[VKS_MOST_FAMILIES];
    uint32_t n = VKS_MOST_FAMILIES;
    instance->GetPhysicalDeviceQueueFamilyProperties(out->handle, &n, families);
    out->graphics_family = out->transfer_family = VK_QUEUE_FAMILY_IGNORED;
    for (uint32_t i = n; i-- > 0;) {
        if (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)
            out->graphics_family = i;
        if (may_transfer && only_copies(&families[i]))
            out->transfer_family = i;
    }
    return out->graphics_family != VK_QUEUE_FAMILY_IGNORED
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, 0, "%s has no queue family that draws", out->adapter.name);
}

vks_status vks_physical_read(const vks_instance *instance, VkPhysicalDevice handle, vks_physical *out)
{
    bool may_transfer;
    *out = (vks_physical){.handle = handle};
    vks_status status = read_properties(instance, out, &may_transfer);
    if (status || (status = check_extensions(instance, out)) || (status = check_features(instance, out)) ||
        (status = read_families(instance, out, may_transfer)))
        return status;
    read_host_alignment(instance, out);
    instance->GetPhysicalDeviceMemoryProperties(handle, &out->memory);
    return VKS_OK;
}

uint32_t vks_physical_memory_type(const vks_physical *physical, uint32_t allowed, const VkMemoryPropertyFlags *wanted)
{
    for (;; wanted++)
        for (uint32_t i = 0; i < physical->memory.memoryTypeCount; i++)
            if (allowed >> i & 1 && (physical->memory.memoryTypes[i].propertyFlags & *wanted) == *wanted)
                return i;
}

/* ---- what an engine enables ---- */

vks_status vks_vulkan_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                   VkPhysicalDevice physical_device, vks_requirements *out)
{
    VKS_NEEDS(instance, physical_device, out);
    vks_instance loaded;
    vks_physical physical;
    vks_status status = vks_instance_load(get_instance_proc_addr, instance, &loaded);
    if (status || (status = vks_physical_read(&loaded, physical_device, &physical)))
        return status;
    *out = (vks_requirements){.api_version = VK_API_VERSION_1_3,
                              .extensions = {VKS_NEEDED_EXTENSION},
                              .n_extensions = 1,
                              .n_needed = 1,
                              .features = {"timelineSemaphore", "synchronization2"},
                              .n_features = 2,
                              .n_needed_features = 2};
    if (physical.has_semaphore_fd)
        out->extensions[out->n_extensions++] = VKS_SEMAPHORE_EXTENSION;
    if (physical.has_host_memory)
        out->extensions[out->n_extensions++] = VKS_HOST_EXTENSION;
    if (physical.has_linear_rendering) {
        out->extensions[out->n_extensions++] = VKS_LINEAR_EXTENSION;
        out->features[out->n_features++] = "linearColorAttachment";
    }
    return VKS_OK;
}
