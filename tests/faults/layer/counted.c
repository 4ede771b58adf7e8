/* counted.c: entry points of which only calls and objects are counted, and which can fail. */
#include "wrappers.h"

/* ---- vkCreateX and vkDestroyX ---------------------------------------------------------------------------------- */

#define COUNTED(name, type, X)                                                                                         \
    VkResult layer_Create##name(VkDevice device, const Vk##name##CreateInfo *info,                                     \
                                const VkAllocationCallbacks *allocator, Vk##name *out)                                 \
    {                                                                                                                  \
        struct context *context = vks_context(device);                                                                 \
        FAULT(Create##name, context);                                                                                  \
        VkResult result = context->Create##name(device, info, allocator, out);                                         \
        if (result == VK_SUCCESS)                                                                                      \
            vks_created(TYPE_##type, HANDLE(*out), 0, context);                                                        \
        return TELL(result);                                                                                           \
    }                                                                                                                  \
    void layer_Destroy##name(VkDevice device, Vk##name object, const VkAllocationCallbacks *allocator)                 \
    {                                                                                                                  \
        struct context *context = vks_context(device);                                                                 \
        vks_fault(ENTRY_Destroy##name, context, &(VkResult){VK_SUCCESS});                                              \
        vks_destroyed(TYPE_##type, HANDLE(object));                                                                    \
        context->Destroy##name(device, object, allocator);                                                             \
    }

OBJECT_ENTRIES(COUNTED, )

VkResult layer_AllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                              VkDeviceMemory *out)
{
    struct context *context = vks_context(device);
    FAULT(AllocateMemory, context);
    VkResult result = context->AllocateMemory(device, info, allocator, out);
    if (result == VK_SUCCESS)
        vks_created(TYPE_MEMORY, HANDLE(*out), 0, context);
    return TELL(result);
}

void layer_FreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_FreeMemory, context, &(VkResult){VK_SUCCESS});
    vks_destroyed(TYPE_MEMORY, HANDLE(memory));
    context->FreeMemory(device, memory, allocator);
}

#define PIPELINES(name)                                                                                                \
    VkResult layer_Create##name##Pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,                     \
                                           const Vk##name##PipelineCreateInfo *infos,                                  \
                                           const VkAllocationCallbacks *allocator, VkPipeline *out)                    \
    {                                                                                                                  \
        struct context *context = vks_context(device);                                                                 \
        FAULT(Create##name##Pipelines, context);                                                                       \
        VkResult result = context->Create##name##Pipelines(device, cache, count, infos, allocator, out);               \
        for (uint32_t i = 0; i < count; i++) {                                                                         \
            if (out[i] != VK_NULL_HANDLE) /* those that could be made are there, even when one could not */            \
                vks_created(TYPE_PIPELINE, HANDLE(out[i]), 0, context);                                                \
        }                                                                                                              \
        return TELL(result);                                                                                           \
    }

PIPELINES(Graphics)
PIPELINES(Compute)

void layer_DestroyPipeline(VkDevice device, VkPipeline pipeline, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_DestroyPipeline, context, &(VkResult){VK_SUCCESS});
    vks_destroyed(TYPE_PIPELINE, HANDLE(pipeline));
    context->DestroyPipeline(device, pipeline, allocator);
}

/* ---- command pools and their buffers --------------------------------------------------------------------------- */

VkResult layer_CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                 const VkAllocationCallbacks *allocator, VkCommandPool *out)
{
    struct context *context = vks_context(device);
    FAULT(CreateCommandPool, context);
    VkResult result = context->CreateCommandPool(device, info, allocator, out);
    if (result == VK_SUCCESS)
        vks_created(TYPE_COMMAND_POOL, HANDLE(*out), 0, context);
    return TELL(result);
}

void layer_DestroyCommandPool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks *allocator)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_DestroyCommandPool, context, &(VkResult){VK_SUCCESS});
    if (pool != VK_NULL_HANDLE) {
        pthread_mutex_lock(&vks_lock);
        vks_remove_children(TYPE_COMMAND_BUFFER, HANDLE(pool));
        pthread_mutex_unlock(&vks_lock);
    }
    vks_destroyed(TYPE_COMMAND_POOL, HANDLE(pool));
    context->DestroyCommandPool(device, pool, allocator);
}

VkResult layer_AllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *out)
{
    struct context *context = vks_context(device);
    FAULT(AllocateCommandBuffers, context);
    VkResult result = context->AllocateCommandBuffers(device, info, out);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->commandBufferCount; i++)
        vks_created(TYPE_COMMAND_BUFFER, HANDLE(out[i]), HANDLE(info->commandPool), context);
    return TELL(result);
}

void layer_FreeCommandBuffers(VkDevice device, VkCommandPool pool, uint32_t count, const VkCommandBuffer *buffers)
{
    struct context *context = vks_context(device);
    vks_fault(ENTRY_FreeCommandBuffers, context, &(VkResult){VK_SUCCESS});
    for (uint32_t i = 0; i < count; i++)
        vks_destroyed(TYPE_COMMAND_BUFFER, HANDLE(buffers[i]));
    context->FreeCommandBuffers(device, pool, count, buffers);
}

/* ---- calls that can fail --------------------------------------------------------------------------------------- */

#define CALL(name, first, parameters, arguments)                                                                       \
    VkResult layer_##name parameters                                                                                   \
    {                                                                                                                  \
        struct context *context = vks_context(first);                                                                  \
        FAULT(name, context);                                                                                          \
        VkResult result = context->name arguments;                                                                     \
        return TELL(result);                                                                                           \
    }

CALL(ResetCommandPool, device, (VkDevice device, VkCommandPool pool, VkCommandPoolResetFlags flags),
     (device, pool, flags))
CALL(BeginCommandBuffer, commands, (VkCommandBuffer commands, const VkCommandBufferBeginInfo *info), (commands, info))
CALL(EndCommandBuffer, commands, (VkCommandBuffer commands), (commands))
CALL(ResetCommandBuffer, commands, (VkCommandBuffer commands, VkCommandBufferResetFlags flags), (commands, flags))
CALL(AllocateDescriptorSets, device, (VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *out),
     (device, info, out))
CALL(MapMemory, device,
     (VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags,
      void **out),
     (device, memory, offset, size, flags, out))
CALL(BindImageMemory, device, (VkDevice device, VkImage image, VkDeviceMemory memory, VkDeviceSize offset),
     (device, image, memory, offset))
CALL(BindImageMemory2, device, (VkDevice device, uint32_t count, const VkBindImageMemoryInfo *infos),
     (device, count, infos))
CALL(BindBufferMemory, device, (VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset),
     (device, buffer, memory, offset))
CALL(BindBufferMemory2, device, (VkDevice device, uint32_t count, const VkBindBufferMemoryInfo *infos),
     (device, count, infos))
CALL(GetMemoryFdKHR, device, (VkDevice device, const VkMemoryGetFdInfoKHR *info, int *out), (device, info, out))
CALL(GetMemoryFdPropertiesKHR, device,
     (VkDevice device, VkExternalMemoryHandleTypeFlagBits type, int fd, VkMemoryFdPropertiesKHR *out),
     (device, type, fd, out))
CALL(GetMemoryHostPointerPropertiesEXT, device,
     (VkDevice device, VkExternalMemoryHandleTypeFlagBits type, const void *pointer,
      VkMemoryHostPointerPropertiesEXT *out),
     (device, type, pointer, out))
CALL(GetFenceFdKHR, device, (VkDevice device, const VkFenceGetFdInfoKHR *info, int *out), (device, info, out))

/* ---- names ----------------------------------------------------------------------------------------------------- */

static int type_of(VkObjectType type)
{
    switch (type) {
    case VK_OBJECT_TYPE_IMAGE:
        return TYPE_IMAGE;
    case VK_OBJECT_TYPE_IMAGE_VIEW:
        return TYPE_IMAGE_VIEW;
    case VK_OBJECT_TYPE_BUFFER:
        return TYPE_BUFFER;
    case VK_OBJECT_TYPE_QUEUE:
        return TYPE_QUEUE;
    case VK_OBJECT_TYPE_DEVICE:
        return TYPE_DEVICE;
    case VK_OBJECT_TYPE_SWAPCHAIN_KHR:
        return TYPE_SWAPCHAIN;
    case VK_OBJECT_TYPE_SURFACE_KHR:
        return TYPE_SURFACE;
    case VK_OBJECT_TYPE_FENCE:
        return TYPE_FENCE;
    case VK_OBJECT_TYPE_SEMAPHORE:
        return TYPE_SEMAPHORE;
    case VK_OBJECT_TYPE_DEVICE_MEMORY:
        return TYPE_MEMORY;
    case VK_OBJECT_TYPE_COMMAND_POOL:
        return TYPE_COMMAND_POOL;
    case VK_OBJECT_TYPE_COMMAND_BUFFER:
        return TYPE_COMMAND_BUFFER;
    default:
        return TYPE_COUNT;
    }
}

VkResult layer_SetDebugUtilsObjectNameEXT(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info)
{
    struct context *context = vks_context(device);
    FAULT(SetDebugUtilsObjectNameEXT, context);
    pthread_mutex_lock(&vks_lock);
    struct object *object = vks_find(type_of(info->objectType), info->objectHandle);
    if (object != NULL) {
        const char *name = info->pObjectName == NULL ? "" : info->pObjectName;
        size_t length = 0;
        while (name[length] != '\0' && length < sizeof object->name - 1)
            length++;
        __builtin_memset(object->name, 0, sizeof object->name);
        __builtin_memcpy(object->name, name, length);
        vks_event(EVENT_NAME, object, 0, VK_SUCCESS, 0);
    }
    pthread_mutex_unlock(&vks_lock);
    VkResult result = context->SetDebugUtilsObjectNameEXT(device, info);
    return TELL(result);
}
