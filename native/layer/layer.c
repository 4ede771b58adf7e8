/* layer.c: the layer in the loader's chain: its negotiation, its instances, and which functions it wraps. */
#include <stdlib.h>
#include <string.h>

#include "layer/layer.h"

static const void *link_of(const VkInstanceCreateInfo *info)
{
    const struct instance_chain *each = info->pNext;
    while (each && (each->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || each->function != LOADER_LINK))
        each = each->pNext;
    return each;
}

static char *join(const char *const *names, uint32_t n)
{
    size_t length = 1;
    for (uint32_t i = 0; i < n; i++)
        length += strlen(names[i]) + 1;
    char *text = calloc(1, length);
    for (uint32_t i = 0; text && i < n; i++)
        strcat(strcat(text, names[i]), " ");
    return text;
}

static bool names_validation(const char *variable)
{
    const char *value = getenv(variable);
    return value && strstr(value, "validation");
}

static layer_instance *new_instance(const VkInstanceCreateInfo *info, uint32_t api_version, instance_lookup next)
{
    layer_instance *made = calloc(1, sizeof *made);
    const VkApplicationInfo *application = info->pApplicationInfo;
    if (!made)
        return NULL;
    made->api_version = api_version;
    made->next = next;
    made->is_validated = names_validation("VK_INSTANCE_LAYERS") || names_validation("VK_LOADER_LAYERS_ENABLE");
    made->is_vkshares = application && application->pEngineName && !strcmp(application->pEngineName, "vkshare");
    if ((made->extensions = join(info->ppEnabledExtensionNames, info->enabledExtensionCount)))
        return made;
    free(made);
    return NULL;
}

static bool resolve(layer_instance *instance, VkInstance handle)
{
#define RESOLVE(name) (instance->name = (PFN_vk##name)instance->next(handle, "vk" #name))
    instance->handle = handle;
    instance->key = *(void **)handle;
    return RESOLVE(DestroyInstance) && RESOLVE(EnumerateDeviceExtensionProperties) &&
           RESOLVE(GetPhysicalDeviceFeatures2) && RESOLVE(GetPhysicalDeviceQueueFamilyProperties);
#undef RESOLVE
}

static void free_instance(layer_instance *instance)
{
    free(instance->extensions);
    free(instance);
}

/* vkshare needs Vulkan 1.3 of an engine's instance; one of an older version becomes one of 1.3. */
static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator, VkInstance *out)
{
    struct instance_chain *chain = (struct instance_chain *)(uintptr_t)link_of(info);
    if (!chain)
        return VK_ERROR_INITIALIZATION_FAILED;
    instance_lookup next = chain->link->next_instance_lookup;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(NULL, "vkCreateInstance");
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO};
    VkInstanceCreateInfo changed = *info;
    if (info->pApplicationInfo)
        application = *info->pApplicationInfo;
    if (application.apiVersion < VK_API_VERSION_1_3)
        application.apiVersion = VK_API_VERSION_1_3;
    changed.pApplicationInfo = &application;
    layer_instance *made = new_instance(info, application.apiVersion, next);
    if (!create || !made) {
        if (made)
            free_instance(made);
        return create ? VK_ERROR_OUT_OF_HOST_MEMORY : VK_ERROR_INITIALIZATION_FAILED;
    }
    chain->link = chain->link->next;
    VkResult result = create(&changed, allocator, out);
    if (result == VK_SUCCESS) {
        if (resolve(made, *out) && layer_add_instance(made))
            return result;
        if (made->DestroyInstance)
            made->DestroyInstance(*out, allocator);
        result = VK_ERROR_INITIALIZATION_FAILED;
    }
    free_instance(made);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance handle, const VkAllocationCallbacks *allocator)
{
    layer_instance *instance = handle ? layer_instance_of(handle) : NULL;
    if (!instance)
        return;
    layer_remove_instance(instance);
    instance->DestroyInstance(handle, allocator);
    free_instance(instance);
}

/* ---- functions ---- */

typedef struct named_function {
    const char *name, *alias;
    PFN_vkVoidFunction function;
} named_function;

static PFN_vkVoidFunction device_wrapper(const char *name)
{
#define X(function, alias) {"vk" #function, alias, (PFN_vkVoidFunction)layer_##function},
    static const named_function wrappers[] = {LAYER_WRAPPED(X)};
#undef X
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++)
        if (!strcmp(name, wrappers[i].name) || !strcmp(name, wrappers[i].alias))
            return wrappers[i].function;
    return NULL;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice handle, const char *name)
{
    const layer_device *device = handle ? layer_device_of(handle) : NULL;
    if (!device)
        return NULL;
    if (!strcmp(name, "vkGetDeviceProcAddr") && !device->instance->is_vkshares)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    PFN_vkVoidFunction next = device->next(handle, name);
    /* A device of vkshare's own instance is wrapped for its end alone. */
    bool is_wrapped = next && (!device->instance->is_vkshares || !strcmp(name, "vkDestroyDevice"));
    PFN_vkVoidFunction wrapper = is_wrapped ? device_wrapper(name) : NULL;
    return wrapper ? wrapper : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance handle, const char *name)
{
    static const named_function ours[] = {
        {"vkGetInstanceProcAddr", "", (PFN_vkVoidFunction)layer_GetInstanceProcAddr},
        {"vkCreateInstance", "", (PFN_vkVoidFunction)layer_CreateInstance},
        {"vkDestroyInstance", "", (PFN_vkVoidFunction)layer_DestroyInstance},
        {"vkCreateDevice", "", (PFN_vkVoidFunction)layer_CreateDevice},
        {"vkGetDeviceProcAddr", "", (PFN_vkVoidFunction)layer_GetDeviceProcAddr},
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (!strcmp(name, ours[i].name))
            return ours[i].function;
    const layer_instance *instance = handle ? layer_instance_of(handle) : NULL;
    if (!instance)
        return NULL;
    PFN_vkVoidFunction next = instance->next(handle, name);
    bool is_destroy = !strcmp(name, "vkDestroyDevice");
    PFN_vkVoidFunction wrapper = next && (!instance->is_vkshares || is_destroy) ? device_wrapper(name) : NULL;
    return wrapper ? wrapper : next;
}

/* ---- the functions for vkshare: those of the layers below, but for a few of images.c ---- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL guest_device_function(VkDevice handle, const char *name)
{
    const layer_device *device = handle ? layer_device_of(handle) : NULL;
    if (!device)
        return NULL;
    PFN_vkVoidFunction function = layer_guest_function(name);
    return function ? function : device->next(handle, name);
}

/* A device is made by the loader alone, which links the layers. A trial that asks for one fails. */
static VKAPI_ATTR VkResult VKAPI_CALL guest_CreateDevice(VkPhysicalDevice physical_device,
                                                         const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkDevice *out)
{
    (void)physical_device, (void)info, (void)allocator, (void)out;
    return VK_ERROR_INITIALIZATION_FAILED;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_guest_instance_function(VkInstance handle, const char *name)
{
    const layer_instance *instance = handle ? layer_instance_of(handle) : NULL;
    if (!strcmp(name, "vkGetInstanceProcAddr"))
        return (PFN_vkVoidFunction)layer_guest_instance_function;
    if (!strcmp(name, "vkGetDeviceProcAddr"))
        return (PFN_vkVoidFunction)guest_device_function;
    if (!strcmp(name, "vkCreateDevice"))
        return (PFN_vkVoidFunction)guest_CreateDevice;
    return instance ? instance->next(handle, name) : NULL;
}

/* ---- the loader ---- */

LAYER_SHOWN VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(struct negotiation *with)
{
    if (!with || with->struct_type != 1 || with->version < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    with->version = 2;
    with->get_instance_proc_addr = (instance_lookup)layer_GetInstanceProcAddr;
    with->get_device_proc_addr = (device_lookup)layer_GetDeviceProcAddr;
    with->get_physical_device_proc_addr = NULL;
    return VK_SUCCESS;
}
