/* device.c: devices of vkshare_vulkan.h: the library's own, and those that it adopts. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- a VkDevice ---- */

static vks_status load(vks_engine *engine)
{
#define LOAD(name)                                                                                                     \
    if (!(engine->name = (PFN_vk##name)engine->instance.GetDeviceProcAddr(engine->handle, "vk" #name)))                \
        return vks_fail(VKS_UNSUPPORTED, 0,                                                                            \
                        "the VkDevice has no vk" #name ": it needs Vulkan 1.3 and " VKS_NEEDED_EXTENSION);
    VKS_ENGINE_FUNCTIONS(LOAD)
#undef LOAD
    return VKS_OK;
}

static void name_extensions(vks_engine *engine)
{
    const vks_physical *physical = &engine->physical;
    vks_creation *made = &engine->made_with;
    uint32_t n = 0;
    made->extensions[n++] = VKS_NEEDED_EXTENSION;
    if ((engine->has_semaphore_fd = physical->has_semaphore_fd))
        made->extensions[n++] = VKS_SEMAPHORE_EXTENSION;
    if ((engine->has_host_memory = physical->has_host_memory))
        made->extensions[n++] = VKS_HOST_EXTENSION;
    if (physical->has_linear_rendering)
        made->extensions[n++] = VKS_LINEAR_EXTENSION;
    if ((engine->has_swapchain = physical->has_swapchain && engine->instance.has_surfaces))
        made->extensions[n++] = VKS_SWAPCHAIN_EXTENSION;
    made->info.enabledExtensionCount = n;
    made->info.ppEnabledExtensionNames = made->extensions;
}

static void name_queues(vks_engine *engine)
{
    static const float priority = 1;
    vks_creation *made = &engine->made_with;
    engine->families[VKS_GRAPHICS] = engine->physical.graphics_family;
    engine->families[VKS_TRANSFER] = engine->physical.transfer_family;
    engine->n_families = engine->physical.transfer_family == VK_QUEUE_FAMILY_IGNORED ? 1 : 2;
    for (uint32_t i = 0; i < engine->n_families; i++)
        made->queues[i] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                                    .queueFamilyIndex = engine->families[i],
                                                    .queueCount = 1,
                                                    .pQueuePriorities = &priority};
    made->info.queueCreateInfoCount = engine->n_families;
    made->info.pQueueCreateInfos = made->queues;
}

static void name_features(vks_engine *engine)
{
    vks_creation *made = &engine->made_with;
    made->linear = (VkPhysicalDeviceLinearColorAttachmentFeaturesNV){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_LINEAR_COLOR_ATTACHMENT_FEATURES_NV,
        .linearColorAttachment = VK_TRUE};
    made->newer =
        (VkPhysicalDeviceVulkan13Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                           .pNext = engine->physical.has_linear_rendering ? &made->linear : NULL,
                                           .synchronization2 = VK_TRUE};
    made->older = (VkPhysicalDeviceVulkan12Features){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                     .pNext = &made->newer,
                                                     .timelineSemaphore = VK_TRUE};
    made->info.pNext = &made->older;
}

vks_status vks_engine_create_device(vks_engine *engine)
{
    const VkDeviceCreateInfo *info = &engine->made_with.info;
    engine->made_with.info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    name_extensions(engine);
    name_queues(engine);
    name_features(engine);
    vks_status status = vks_vulkan_result(
        engine->instance.CreateDevice(engine->physical.handle, info, NULL, &engine->handle), "vkCreateDevice");
    if (status || (status = load(engine)))
        return status;
    engine->GetDeviceQueue(engine->handle, engine->families[VKS_GRAPHICS], 0, &engine->queue);
    return VKS_OK;
}

static vks_status create_pools(vks_engine *engine)
{
    vks_status status = VKS_OK;
    for (uint32_t i = 0; i < engine->n_families && !status; i++) {
        VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = engine->families[i]};
        status = vks_vulkan_result(engine->CreateCommandPool(engine->handle, &info, NULL, &engine->pools[i]),
                                   "vkCreateCommandPool");
    }
    return status;
}

/* Destroys what the library made on the device, and the VkDevice if it is the library's. */
static void end(vks_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->images)
        vks_image_destroy_objects(engine->images);
    for (uint32_t i = 0; i < engine->n_families; i++)
        if (engine->pools[i])
            engine->DestroyCommandPool(engine->handle, engine->pools[i], NULL);
    if (!engine->is_adopted && engine->handle && engine->DestroyDevice)
        engine->DestroyDevice(engine->handle, NULL);
    engine->handle = VK_NULL_HANDLE;
    pthread_mutex_unlock(&engine->lock);
}

static void end_engine(vks_device *device) { end(device->engine); }

/* ---- a vks_device over it ---- */

typedef struct lock_functions {
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *user;
} lock_functions;

/* An engine's instance may make no second VkDevice: below the engines layer it makes none at all. So the process's own
 * instance tries the same adapter. */
static vks_status try_on_own_instance(const vks_engine *engine)
{
    const vks_adapter *adapter = &engine->physical.adapter;
    const vks_open_info same = {.device_uuid = adapter->device_uuid, .driver_uuid = adapter->driver_uuid};
    vks_instance instance;
    vks_physical physical;
    vks_status status = vks_instance_own(&instance);
    if (status || (status = vks_physical_find(&instance, &same, &physical)))
        return status;
    return vks_vulkan_try_timelines(instance.get, instance.handle, physical.handle);
}

/* A trial that ends for want of memory or file descriptors says nothing about the driver. */
static vks_status try_timelines(const vks_engine *engine, bool *works)
{
    vks_status status = VKS_UNSUPPORTED;
    if (engine->has_semaphore_fd)
        status = vks_vulkan_try_timelines(engine->instance.get, engine->instance.handle, engine->physical.handle);
    if (status == VKS_VULKAN_ERROR && engine->is_adopted)
        status = try_on_own_instance(engine);
    *works = !status;
    return status == VKS_UNSUPPORTED || status == VKS_VULKAN_ERROR ? VKS_OK : status;
}

/* Takes ownership of the engine, also on failure. */
static vks_status attach(vks_engine *engine, const char *name, uint32_t held_limit, lock_functions locks,
                         vks_device **out)
{
    VkQueue transfer = VK_NULL_HANDLE;
    if (engine->n_families > 1)
        engine->GetDeviceQueue(engine->handle, engine->families[VKS_TRANSFER], 0, &transfer);
    vks_vulkan_info vulkan = {.device = (uintptr_t)engine->handle,
                              .queue = (uintptr_t)engine->queue,
                              .transfer_queue = (uintptr_t)transfer,
                              .max_timeline_difference = engine->physical.max_timeline_difference,
                              .is_adopted = engine->is_adopted,
                              .lock_queue = locks.lock_queue,
                              .unlock_queue = locks.unlock_queue,
                              .lock_user = locks.user};
    memcpy(&vulkan.get_device_proc_addr, &engine->instance.GetDeviceProcAddr, sizeof vulkan.get_device_proc_addr);
    vks_device_info info = {.name = name, .held_limit = held_limit, .vulkan = &vulkan};
    vks_status status = try_timelines(engine, &vulkan.export_timelines);
    if (!status && !(status = create_pools(engine)))
        status = vks_device_create(&info, &engine->device);
    if (status) {
        end(engine);
        free(engine);
        return status;
    }
    engine->device->engine = engine;
    engine->device->end_engine = end_engine;
    *out = engine->device;
    return VKS_OK;
}

static vks_engine *new_engine(vks_status *status)
{
    vks_engine *engine = calloc(1, sizeof *engine);
    if (engine)
        pthread_mutex_init(&engine->lock, NULL);
    *status = engine ? VKS_OK : vks_fail(VKS_NO_MEMORY, 0, "no memory for a device");
    return engine;
}

vks_status vks_device_open_vulkan(const vks_open_info *info, vks_device **out)
{
    VKS_NEEDS(info, out);
    vks_platform_init();
    vks_status status;
    vks_engine *engine = new_engine(&status);
    if (!engine)
        return status;
    if ((status = vks_instance_own(&engine->instance)) ||
        (status = vks_physical_find(&engine->instance, info, &engine->physical)) ||
        (status = vks_engine_create_device(engine))) {
        end(engine);
        free(engine);
        return status;
    }
    return attach(engine, info->name, info->held_limit, (lock_functions){0}, out);
}

/* ---- an engine's device ---- */

/* Returns the first feature that the structure does not enable, or NULL. */
static const char *missing_feature(const VkDeviceCreateInfo *created_with)
{
    VkBool32 timeline = VK_FALSE, synchronization2 = VK_FALSE;
    for (const VkBaseInStructure *each = created_with->pNext; each; each = each->pNext)
        switch ((int)each->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
            timeline |= ((const VkPhysicalDeviceVulkan12Features *)each)->timelineSemaphore;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
            timeline |= ((const VkPhysicalDeviceTimelineSemaphoreFeatures *)each)->timelineSemaphore;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
            synchronization2 |= ((const VkPhysicalDeviceVulkan13Features *)each)->synchronization2;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
            synchronization2 |= ((const VkPhysicalDeviceSynchronization2Features *)each)->synchronization2;
            break;
        }
    return !timeline ? "timelineSemaphore" : !synchronization2 ? "synchronization2" : NULL;
}

static vks_status check_creation(vks_engine *engine, const VkDeviceCreateInfo *created_with)
{
    if (!created_with)
        return vks_fail(VKS_BAD_VALUE, 0, "created_with is NULL: pass the structure that made the VkDevice");
    const char *const *names = created_with->ppEnabledExtensionNames;
    uint32_t n = created_with->enabledExtensionCount;
    const char *feature = missing_feature(created_with);
    if (!vks_has_name(names, n, VKS_NEEDED_EXTENSION))
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "the VkDevice was made without " VKS_NEEDED_EXTENSION
                        ": enable what vks_vulkan_requirements() lists");
    if (feature)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "the VkDevice was made without the feature %s: enable what vks_vulkan_requirements() lists",
                        feature);
    engine->has_semaphore_fd = vks_has_name(names, n, VKS_SEMAPHORE_EXTENSION);
    engine->has_host_memory = vks_has_name(names, n, VKS_HOST_EXTENSION);
    engine->has_swapchain = vks_has_name(names, n, VKS_SWAPCHAIN_EXTENSION);
    return VKS_OK;
}

static vks_status check_family(const vks_engine *engine, uint32_t family)
{
    VkQueueFamilyProperties families[VKS_MOST_FAMILIES];
    uint32_t n = VKS_MOST_FAMILIES;
    engine->instance.GetPhysicalDeviceQueueFamilyProperties(engine->physical.handle, &n, families);
    if (family >= n)
        return vks_fail(VKS_BAD_VALUE, family, "queue_family is %u; %s has the families 0 to %u", family,
                        engine->physical.adapter.name, n - 1);
    return families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, family, "queues of family %u of %s cannot draw; family %u can", family,
                          engine->physical.adapter.name, engine->physical.graphics_family);
}

static vks_status adopt(vks_engine *engine, const vks_adopt_info *info)
{
    vks_status status = vks_instance_load(info->get_instance_proc_addr, info->instance, &engine->instance);
    if (status || (status = vks_physical_read(&engine->instance, info->physical_device, &engine->physical)) ||
        (status = check_creation(engine, info->created_with)) || (status = check_family(engine, info->queue_family)))
        return status;
    engine->is_adopted = true;
    engine->handle = info->device;
    engine->queue = info->queue;
    engine->families[VKS_GRAPHICS] = info->queue_family;
    engine->n_families = 1;
    return load(engine);
}

vks_status vks_device_adopt_vulkan(const vks_adopt_info *info, vks_device **out)
{
    VKS_NEEDS(info, out);
    vks_platform_init();
    vks_status status;
    vks_engine *engine = new_engine(&status);
    if (!engine)
        return status;
    if ((status = adopt(engine, info))) {
        free(engine);
        return status;
    }
    return attach(engine, info->name, info->held_limit,
                  (lock_functions){info->lock_queue, info->unlock_queue, info->lock_user}, out);
}

/* ---- properties ---- */

vks_status vks_engine_of(const vks_device *device, vks_engine **out)
{
    vks_status status = vks_device_check(device);
    *out = device->engine;
    return status ? status
           : device->engine
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, 0,
                          "the device was not made by vks_device_open_vulkan() or vks_device_adopt_vulkan()");
}

vks_status vks_device_get_vulkan(vks_device *device, vks_vulkan_device *out)
{
    VKS_NEEDS(device, out);
    vks_engine *engine;
    vks_status status = vks_engine_of(device, &engine);
    if (status)
        return status;
    *out = (vks_vulkan_device){.get_instance_proc_addr = engine->instance.get,
                               .instance = engine->instance.handle,
                               .physical_device = engine->physical.handle,
                               .device = engine->handle,
                               .queue = engine->queue,
                               .queue_family = engine->families[VKS_GRAPHICS],
                               .export_timelines = device->native_timelines,
                               .api_version = engine->is_adopted ? 0 : VK_API_VERSION_1_3,
                               .created_with = engine->is_adopted ? NULL : &engine->made_with.info};
    memcpy(out->device_uuid, engine->physical.adapter.device_uuid, VK_UUID_SIZE);
    memcpy(out->driver_uuid, engine->physical.adapter.driver_uuid, VK_UUID_SIZE);
    return VKS_OK;
}
