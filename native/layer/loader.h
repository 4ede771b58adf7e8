/* loader.h: the loader's side of a layer, as its documented interface (LoaderLayerInterface.md, version 2) has it.
 *
 * The structures come to a layer in the pNext chain of vkCreateInstance's and vkCreateDevice's create-infos, under the
 * sTypes VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO and ..._DEVICE_CREATE_INFO, which vulkan_core.h reserves.
 */
#ifndef VKS_LAYER_LOADER_H
#define VKS_LAYER_LOADER_H

#include "vulkan/vulkan_core.h"

/* `function` of both structures; the other values are not for us. */
enum loader_function { LOADER_LINK = 0, LOADER_SET_DATA = 1 };

typedef PFN_vkVoidFunction (*instance_lookup)(VkInstance, const char *);
typedef PFN_vkVoidFunction (*device_lookup)(VkDevice, const char *);

/* The next layer down; each layer moves the chain's pointer on before it calls down. */
struct instance_link {
    struct instance_link *next;
    instance_lookup next_instance_lookup;
    instance_lookup next_physical_device_lookup; /* vk_layerGetPhysicalDeviceProcAddr; may be NULL */
};
struct device_link {
    struct device_link *next;
    instance_lookup next_instance_lookup;
    device_lookup next_device_lookup;
};

struct instance_chain { /* VkLayerInstanceCreateInfo */
    VkStructureType sType;
    const void *pNext;
    enum loader_function function;
    union {
        struct instance_link *link;
        void *set_data;
    };
};
struct device_chain { /* VkLayerDeviceCreateInfo */
    VkStructureType sType;
    const void *pNext;
    enum loader_function function;
    union {
        struct device_link *link;
        void *set_data;
    };
};

/* The argument of vkNegotiateLoaderLayerInterfaceVersion, which fills it in. */
struct negotiation {
    uint32_t struct_type; /* 1: LAYER_NEGOTIATE_INTERFACE_STRUCT */
    void *pNext;
    uint32_t version; /* in: the loader's; out: the layer's */
    instance_lookup get_instance_proc_addr;
    device_lookup get_device_proc_addr;
    instance_lookup get_physical_device_proc_addr;
};

/* The argument of an implicit layer's pre-instance function: the rest of the chain, called with `next_chain` itself. */
struct extensions_chain {
    struct {
        int32_t type;
        uint32_t version, size;
    } header;
    VkResult (*next)(const struct extensions_chain *, const char *, uint32_t *, VkExtensionProperties *);
    const struct extensions_chain *next_chain;
};

#endif
