/* layer.c: the layer in the loader's chain: negotiation, instances, devices, and who has which functions. */
#include <stdlib.h>
#include <string.h>

#include "wrappers.h"

enum { CONTEXTS = 256 };

/* ---- contexts: found by the loader's key, which every dispatchable handle starts with, without a lock ---------- */

static _Atomic(struct context *) contexts[CONTEXTS];

struct context *vks_context(const void *dispatchable)
{
    if (dispatchable == NULL)
        return NULL;
    void *key = *(void *const *)dispatchable;
    for (size_t i = 0; i < CONTEXTS; i++) {
        struct context *context = atomic_load_explicit(&contexts[i], memory_order_acquire);
        if (context != NULL && context->key == key)
            return context;
    }
    return NULL;
}

struct context *vks_context_add(struct context context)
{
    struct context *added = malloc(sizeof *added);
    if (added == NULL)
        return NULL;
    memcpy(added, &context, sizeof *added);
    for (size_t i = 0; i < CONTEXTS; i++) {
        struct context *none = NULL;
        if (atomic_compare_exchange_strong(&contexts[i], &none, added))
            return added;
    }
    free(added);
    return NULL;
}

/* It is not freed: what an application has leaked still points to it, and handle 0 tells that it is gone. */
void vks_context_remove(struct context *context)
{
    for (size_t i = 0; i < CONTEXTS; i++) {
        struct context *expected = context;
        atomic_compare_exchange_strong(&contexts[i], &expected, NULL);
    }
    pthread_mutex_lock(&vks_lock);
    context->handle = 0;
    pthread_mutex_unlock(&vks_lock);
}

static PFN_vkVoidFunction next_function(const struct context *context, const char *name)
{
    if (name[0] == '\0')
        return NULL;
    if (context->next_device != NULL)
        return context->next_device((VkDevice)(uintptr_t)context->handle, name);
    return context->next_instance((VkInstance)(uintptr_t)context->handle, name);
}

void vks_resolve(struct context *context)
{
#define X(name, alias, lose)                                                                                           \
    context->name = (PFN_vk##name)next_function(context, "vk" #name);                                                  \
    if (context->name == NULL)                                                                                         \
        context->name = (PFN_vk##name)next_function(context, alias);
    if (context->next_device != NULL) {
        DEVICE_ENTRIES(X)
    } else {
        INSTANCE_ENTRIES(X)
    }
#undef X
}

/* ---- who has which functions ----------------------------------------------------------------------------------- */

static PFN_vkVoidFunction wrapper(const char *name, bool of_devices_only)
{
    static const struct {
        const char *name, *alias;
        PFN_vkVoidFunction function;
        bool is_device;
    } wrappers[] = {
#define X(name, alias, lose) {"vk" #name, alias, (PFN_vkVoidFunction)layer_##name, IS_DEVICE},
#define IS_DEVICE false
        INSTANCE_ENTRIES(X)
#undef IS_DEVICE
#define IS_DEVICE true
            DEVICE_ENTRIES(X)
#undef IS_DEVICE
#undef X
    };
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        if (of_devices_only && !wrappers[i].is_device)
            continue;
        if (strcmp(name, wrappers[i].name) == 0 || strcmp(name, wrappers[i].alias) == 0)
            return wrappers[i].function;
    }
    return NULL;
}

/* What the next layer has not is not there, whatever we could wrap. */
static PFN_vkVoidFunction layer_GetDeviceProcAddr(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    const struct context *context = vks_context(device);
    PFN_vkVoidFunction next = context == NULL ? NULL : context->next_device(device, name);
    PFN_vkVoidFunction ours = next == NULL ? NULL : wrapper(name, true);
    return ours != NULL ? ours : next;
}

static PFN_vkVoidFunction layer_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (strcmp(name, "vkGetInstanceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetInstanceProcAddr;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    if (strcmp(name, "vkCreateInstance") == 0)
        return (PFN_vkVoidFunction)layer_CreateInstance;
    const struct context *context = vks_context(instance);
    if (context == NULL)
        return NULL;
    PFN_vkVoidFunction next = context->next_instance(instance, name);
    PFN_vkVoidFunction ours = next == NULL ? NULL : wrapper(name, false);
    return ours != NULL ? ours : next;
}

VKS_FAULTS_API VkResult vkNegotiateLoaderLayerInterfaceVersion(struct negotiation *negotiation);
VkResult vkNegotiateLoaderLayerInterfaceVersion(struct negotiation *negotiation)
{
    if (negotiation->struct_type != 1 || negotiation->version < 2 || vks_control_from_environment() != 0)
        return VK_ERROR_INITIALIZATION_FAILED;
    negotiation->version = 2;
    negotiation->get_instance_proc_addr = layer_GetInstanceProcAddr;
    negotiation->get_device_proc_addr = layer_GetDeviceProcAddr;
    negotiation->get_physical_device_proc_addr = NULL;
    return VK_SUCCESS;
}

/* ---- instances and devices ------------------------------------------------------------------------------------- */

static void *find_link(const void *chain, VkStructureType type)
{
    for (const struct instance_chain *info = chain; info != NULL; info = info->pNext) {
        if (info->sType == type && info->function == LOADER_LINK)
            return (void *)info;
    }
    return NULL;
}

VkResult layer_CreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *out)
{
    FAULT(CreateInstance, NULL);
    struct instance_chain *chain = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (chain == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    instance_lookup next = chain->link->next_instance_lookup;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(NULL, "vkCreateInstance");
    if (create == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    chain->link = chain->link->next;
    VkResult result = create(info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    struct context *context =
        vks_context_add((struct context){.key = *(void **)*out, .handle = HANDLE(*out), .next_instance = next});
    if (context == NULL)
        abort();
    vks_resolve(context);
    vks_created(TYPE_INSTANCE, HANDLE(*out), 0, context);
    return TELL(result);
}

void layer_DestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(instance);
    if (context == NULL)
        return;
    vks_fault(ENTRY_DestroyInstance, context, &(VkResult){VK_SUCCESS});
    vks_destroyed(TYPE_INSTANCE, HANDLE(instance));
    PFN_vkDestroyInstance next = context->DestroyInstance;
    vks_context_remove(context);
    next(instance, allocator);
}

static bool wants_hidden(const VkDeviceCreateInfo *info)
{
    bool found = false;
    pthread_mutex_lock(&vks_lock);
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        found |= vks_hidden(info->ppEnabledExtensionNames[i]);
    pthread_mutex_unlock(&vks_lock);
    return found;
}

VkResult layer_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                            const VkAllocationCallbacks *allocator, VkDevice *out)
{
    struct context *instance = vks_context(physical);
    FAULT(CreateDevice, instance);
    struct device_chain *chain = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (chain == NULL || wants_hidden(info))
        return chain == NULL ? VK_ERROR_INITIALIZATION_FAILED : VK_ERROR_EXTENSION_NOT_PRESENT;
    const struct device_link link = *chain->link;
    PFN_vkCreateDevice create =
        (PFN_vkCreateDevice)link.next_instance_lookup((VkInstance)(uintptr_t)instance->handle, "vkCreateDevice");
    if (create == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    chain->link = chain->link->next;
    VkResult result = create(physical, info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    struct context *context = vks_context_add((struct context){.key = *(void **)*out,
                                                               .handle = HANDLE(*out),
                                                               .instance = instance,
                                                               .next_device = link.next_device_lookup,
                                                               .physical = physical});
    if (context == NULL)
        abort();
    vks_resolve(context);
    vks_created(TYPE_DEVICE, HANDLE(*out), 0, context);
    return TELL(result);
}

void layer_DestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    if (context == NULL)
        return;
    vks_fault(ENTRY_DestroyDevice, context, &(VkResult){VK_SUCCESS});
    pthread_mutex_lock(&vks_lock);
    vks_remove_children(TYPE_QUEUE, HANDLE(device)); /* whatever else is still there is a leak, and stays counted */
    pthread_mutex_unlock(&vks_lock);
    vks_destroyed(TYPE_DEVICE, HANDLE(device));
    PFN_vkDestroyDevice next = context->DestroyDevice;
    vks_context_remove(context);
    next(device, allocator);
}
