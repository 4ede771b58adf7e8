/* device.c: an engine's VkDevice, with the extensions and features that vkshare needs added, and its queues. */
#include <stdlib.h>
#include <string.h>

#include "layer/layer.h"

_Thread_local layer_device *layer_thread_device;

static struct device_chain *link_of(const VkDeviceCreateInfo *info)
{
    const struct device_chain *each = info->pNext;
    while (each && (each->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || each->function != LOADER_LINK))
        each = each->pNext;
    return (struct device_chain *)(uintptr_t)each;
}

/* ---- extensions ---- */

static bool has_extension(const layer_instance *instance, VkPhysicalDevice physical_device, const char *name)
{
    PFN_vkEnumerateDeviceExtensionProperties list = instance->EnumerateDeviceExtensionProperties;
    uint32_t n = 0;
    bool found = false;
    if (list(physical_device, NULL, &n, NULL) != VK_SUCCESS)
        return false;
    VkExtensionProperties *all = calloc(n ? n : 1, sizeof *all);
    if (all && list(physical_device, NULL, &n, all) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            found |= !strcmp(all[i].extensionName, name);
    free(all);
    return found;
}

static bool is_among(const char *name, char *const *names, uint32_t n)
{
    while (n--)
        if (!strcmp(names[n], name))
            return true;
    return false;
}

/* Copies the engine's names and adds those of vkshare that the driver has. */
static bool name_extensions(layer_device *device, const VkDeviceCreateInfo *info)
{
    static const char *const wanted[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
    uint32_t n = 0, most = info->enabledExtensionCount + 2;
    size_t length = strlen(device->instance->extensions) + 1;
    device->names = calloc(most, sizeof *device->names);
    for (uint32_t i = 0; device->names && i < most; i++) {
        bool is_ours = i >= info->enabledExtensionCount;
        const char *name = is_ours ? wanted[i - info->enabledExtensionCount] : info->ppEnabledExtensionNames[i];
        if (is_ours &&
            (is_among(name, device->names, n) || !has_extension(device->instance, device->physical_device, name)))
            continue;
        if (!(device->names[n] = strdup(name)))
            return false;
        length += strlen(name) + 1;
        n++;
    }
    device->created_with.enabledExtensionCount = n;
    device->created_with.ppEnabledExtensionNames = (const char *const *)device->names;
    if (!device->names || !(device->extensions = calloc(1, length)))
        return false;
    strcpy(device->extensions, device->instance->extensions);
    for (uint32_t i = 0; i < n; i++)
        strcat(strcat(device->extensions, device->names[i]), " ");
    return true;
}

/* ---- features ---- */

enum { TIMELINE, SYNCHRONIZATION2, DYNAMIC_RENDERING, FEATURES };

/* Where vkCreateDevice reads a feature: in the engine's own structures, if these have it. */
typedef struct feature_chain {
    VkBool32 *at[FEATURES];
    VkBool32 before[FEATURES];
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline;
    VkPhysicalDeviceSynchronization2Features synchronization2;
    VkPhysicalDeviceDynamicRenderingFeatures dynamic_rendering;
} feature_chain;

static void find_features(const void *chain, VkBool32 **at)
{
    for (VkBaseOutStructure *each = (VkBaseOutStructure *)(uintptr_t)chain; each; each = each->pNext)
        switch ((int)each->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
            at[TIMELINE] = &((VkPhysicalDeviceVulkan12Features *)each)->timelineSemaphore;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
            at[SYNCHRONIZATION2] = &((VkPhysicalDeviceVulkan13Features *)each)->synchronization2;
            at[DYNAMIC_RENDERING] = &((VkPhysicalDeviceVulkan13Features *)each)->dynamicRendering;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
            at[TIMELINE] = &((VkPhysicalDeviceTimelineSemaphoreFeatures *)each)->timelineSemaphore;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
            at[SYNCHRONIZATION2] = &((VkPhysicalDeviceSynchronization2Features *)each)->synchronization2;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES:
            at[DYNAMIC_RENDERING] = &((VkPhysicalDeviceDynamicRenderingFeatures *)each)->dynamicRendering;
            break;
        default:
            break;
        }
}

static void chain_up(VkDeviceCreateInfo *info, feature_chain *chain)
{
    chain->timeline = (VkPhysicalDeviceTimelineSemaphoreFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    chain->synchronization2 = (VkPhysicalDeviceSynchronization2Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES};
    chain->dynamic_rendering = (VkPhysicalDeviceDynamicRenderingFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES};
    void *const structures[FEATURES] = {&chain->timeline, &chain->synchronization2, &chain->dynamic_rendering};
    VkBool32 *const fields[FEATURES] = {&chain->timeline.timelineSemaphore, &chain->synchronization2.synchronization2,
                                        &chain->dynamic_rendering.dynamicRendering};
    for (int i = 0; i < FEATURES; i++)
        if (!chain->at[i]) { /* no structure of the engine's has it, so a second one is not against the rules */
            ((VkBaseOutStructure *)structures[i])->pNext = (VkBaseOutStructure *)(uintptr_t)info->pNext;
            info->pNext = structures[i];
            chain->at[i] = fields[i];
        }
}

/* Enables those that the driver has. The engine's own structures are changed for the call. */
static void enable_features(layer_device *device, VkDeviceCreateInfo *info, feature_chain *chain)
{
    device->features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    device->features13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    device->features12.pNext = &device->features13;
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = &device->features12};
    device->instance->GetPhysicalDeviceFeatures2(device->physical_device, &all);
    const VkBool32 has[FEATURES] = {device->features12.timelineSemaphore, device->features13.synchronization2,
                                    device->features13.dynamicRendering};
    memset(chain, 0, sizeof *chain);
    find_features(info->pNext, chain->at);
    chain_up(info, chain);
    for (int i = 0; i < FEATURES; i++) {
        chain->before[i] = *chain->at[i];
        if (has[i] && !chain->before[i])
            *chain->at[i] = VK_TRUE;
    }
    /* From here on these have what is enabled. */
    device->features12 = (VkPhysicalDeviceVulkan12Features){
        .sType = device->features12.sType, .pNext = &device->features13, .timelineSemaphore = *chain->at[TIMELINE]};
    device->features13 = (VkPhysicalDeviceVulkan13Features){.sType = device->features13.sType,
                                                            .synchronization2 = *chain->at[SYNCHRONIZATION2],
                                                            .dynamicRendering = *chain->at[DYNAMIC_RENDERING]};
    device->created_with.pNext = &device->features12;
}

static void restore_features(const feature_chain *chain)
{
    for (int i = 0; i < FEATURES; i++)
        if (*chain->at[i] != chain->before[i])
            *chain->at[i] = chain->before[i];
}

/* ---- devices ---- */

static void free_device(layer_device *device)
{
    for (uint32_t i = 0; device->names && i < device->created_with.enabledExtensionCount; i++)
        free(device->names[i]);
    free(device->names);
    free(device->extensions);
    pthread_mutex_destroy(&device->lock);
    sem_destroy(&device->queue_lock);
    free(device);
}

static layer_device *new_device(const layer_instance *instance, VkPhysicalDevice physical_device)
{
    layer_device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->instance = instance;
    device->physical_device = physical_device;
    device->created_with.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    pthread_mutex_init(&device->lock, NULL);
    sem_init(&device->queue_lock, 0, 1);
    return device;
}

static bool has_young_extensions(const layer_device *device)
{
    uint32_t n = device->created_with.enabledExtensionCount;
    return is_among("VK_KHR_push_descriptor", device->names, n) || is_among("VK_KHR_maintenance6", device->names, n);
}

/* A layer below may know one name alone, the one that the engine uses: the extension's where the engine has enabled it.
 * This concerns what is younger than Vulkan 1.3, which has the extension's name in LAYER_WRAPPED. */
static PFN_vkVoidFunction find(const layer_device *device, device_lookup next, const char *name, const char *alias)
{
    bool swaps = *alias && !strcmp(name + strlen(name) - 3, "KHR") && !has_young_extensions(device);
    PFN_vkVoidFunction found = next(device->handle, swaps ? alias : name);
    return found || !*alias ? found : next(device->handle, swaps ? name : alias);
}

static void resolve(layer_device *device, device_lookup next)
{
    device->key = *(void **)device->handle;
    device->next = next;
#define X(name, alias) device->name = (PFN_vk##name)find(device, next, "vk" #name, alias);
    LAYER_WRAPPED(X)
    LAYER_CALLED(X)
#undef X
}

/* `out` is the caller's, because the loader finds something of its own in it. */
static VkResult create(layer_device *device, PFN_vkCreateDevice next, const VkDeviceCreateInfo *info,
                       const VkAllocationCallbacks *allocator, VkDevice *out)
{
    if (device->instance->is_vkshares)
        return next(device->physical_device, info, allocator, out);
    static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* an engine may share its structures among threads */
    VkDeviceCreateInfo changed = *info;
    feature_chain features;
    if (!name_extensions(device, info))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    changed.enabledExtensionCount = device->created_with.enabledExtensionCount;
    changed.ppEnabledExtensionNames = device->created_with.ppEnabledExtensionNames;
    pthread_mutex_lock(&writing);
    enable_features(device, &changed, &features);
    VkResult result = next(device->physical_device, &changed, allocator, out);
    restore_features(&features);
    pthread_mutex_unlock(&writing);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical_device, const VkDeviceCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkDevice *out)
{
    struct device_chain *chain = link_of(info);
    layer_instance *instance = layer_instance_of(physical_device);
    if (!chain || !instance)
        return VK_ERROR_INITIALIZATION_FAILED;
    device_lookup next = chain->link->next_device_lookup;
    PFN_vkCreateDevice next_create =
        (PFN_vkCreateDevice)chain->link->next_instance_lookup(instance->handle, "vkCreateDevice");
    chain->link = chain->link->next;
    layer_device *device = new_device(instance, physical_device);
    if (!device || !next_create) {
        if (device)
            free_device(device);
        return next_create ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_ERROR_INITIALIZATION_FAILED;
    }
    VkResult result = create(device, next_create, info, allocator, out);
    if (result == VK_SUCCESS) {
        device->handle = *out;
        resolve(device, next);
        if (layer_add_device(device))
            return result;
        device->DestroyDevice(device->handle, allocator);
        result = VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    free_device(device);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice handle, const VkAllocationCallbacks *allocator)
{
    layer_device *device = handle ? layer_device_of(handle) : NULL;
    if (!device)
        return;
    layer_end_images(device);
    layer_remove_device(device);
    device->DestroyDevice(handle, allocator);
    if (layer_thread_device == device)
        layer_thread_device = NULL;
    free_device(device);
}

/* ---- queues ---- */

static bool can_draw(const layer_device *device, uint32_t family)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = 32;
    device->instance->GetPhysicalDeviceQueueFamilyProperties(device->physical_device, &n, families);
    return family < n && families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT;
}

static void note_queue(layer_device *device, uint32_t family, VkQueue queue)
{
    if (!queue || atomic_load(&device->queue) || !can_draw(device, family))
        return;
    pthread_mutex_lock(&device->lock);
    if (!atomic_load(&device->queue)) {
        device->queue_family = family;
        atomic_store(&device->queue, queue);
    }
    pthread_mutex_unlock(&device->lock);
}

VKAPI_ATTR void VKAPI_CALL layer_GetDeviceQueue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *queue)
{
    layer_device *device = layer_device_of(handle);
    device->GetDeviceQueue(handle, family, index, queue);
    note_queue(device, family, *queue);
}

VKAPI_ATTR void VKAPI_CALL layer_GetDeviceQueue2(VkDevice handle, const VkDeviceQueueInfo2 *info, VkQueue *queue)
{
    layer_device *device = layer_device_of(handle);
    device->GetDeviceQueue2(handle, info, queue);
    note_queue(device, info->queueFamilyIndex, *queue);
}
