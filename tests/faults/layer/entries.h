/* entries.h: the entry points that the layer stands before. X(name without vk, alias or "", can it say DEVICE_LOST). */
#ifndef VKS_FAULTS_ENTRIES_H
#define VKS_FAULTS_ENTRIES_H

#define INSTANCE_ENTRIES(X)                                                                                            \
    X(DestroyInstance, "", 0)                                                                                          \
    X(EnumerateDeviceExtensionProperties, "", 0)                                                                       \
    X(DestroySurfaceKHR, "", 0)                                                                                        \
    X(CreateHeadlessSurfaceEXT, "", 0)                                                                                 \
    X(CreateXcbSurfaceKHR, "", 0)                                                                                      \
    X(CreateXlibSurfaceKHR, "", 0)                                                                                     \
    X(CreateWaylandSurfaceKHR, "", 0)                                                                                  \
    X(GetPhysicalDeviceSurfaceSupportKHR, "", 0)                                                                       \
    X(GetPhysicalDeviceSurfaceCapabilitiesKHR, "", 0)                                                                  \
    X(GetPhysicalDeviceSurfaceCapabilities2KHR, "", 0)                                                                 \
    X(GetPhysicalDeviceSurfaceFormatsKHR, "", 0)                                                                       \
    X(GetPhysicalDeviceSurfaceFormats2KHR, "", 0)                                                                      \
    X(GetPhysicalDeviceSurfacePresentModesKHR, "", 0)                                                                  \
    X(CreateDevice, "", 0)

#define DEVICE_ENTRIES(X)                                                                                              \
    X(DestroyDevice, "", 0)                                                                                            \
    X(GetDeviceQueue, "", 0)                                                                                           \
    X(GetDeviceQueue2, "", 0)                                                                                          \
    X(QueueSubmit, "", 1)                                                                                              \
    X(QueueSubmit2, "vkQueueSubmit2KHR", 1)                                                                            \
    X(QueueWaitIdle, "", 1)                                                                                            \
    X(DeviceWaitIdle, "", 1)                                                                                           \
    X(CreateFence, "", 0)                                                                                              \
    X(DestroyFence, "", 0)                                                                                             \
    X(ResetFences, "", 0)                                                                                              \
    X(GetFenceStatus, "", 1)                                                                                           \
    X(WaitForFences, "", 1)                                                                                            \
    X(GetFenceFdKHR, "", 0)                                                                                            \
    X(ImportFenceFdKHR, "", 0)                                                                                         \
    X(CreateSemaphore, "", 0)                                                                                          \
    X(DestroySemaphore, "", 0)                                                                                         \
    X(GetSemaphoreCounterValue, "vkGetSemaphoreCounterValueKHR", 1)                                                    \
    X(WaitSemaphores, "vkWaitSemaphoresKHR", 1)                                                                        \
    X(SignalSemaphore, "vkSignalSemaphoreKHR", 0)                                                                      \
    X(GetSemaphoreFdKHR, "", 0)                                                                                        \
    X(ImportSemaphoreFdKHR, "", 0)                                                                                     \
    X(CreateSwapchainKHR, "", 1)                                                                                       \
    X(DestroySwapchainKHR, "", 0)                                                                                      \
    X(GetSwapchainImagesKHR, "", 0)                                                                                    \
    X(AcquireNextImageKHR, "", 1)                                                                                      \
    X(AcquireNextImage2KHR, "", 1)                                                                                     \
    X(QueuePresentKHR, "", 1)                                                                                          \
    X(GetSwapchainStatusKHR, "", 1)                                                                                    \
    X(ReleaseSwapchainImagesEXT, "vkReleaseSwapchainImagesKHR", 0)                                                     \
    X(WaitForPresentKHR, "", 1)                                                                                        \
    X(AllocateMemory, "", 0)                                                                                           \
    X(FreeMemory, "", 0)                                                                                               \
    X(MapMemory, "", 0)                                                                                                \
    X(BindImageMemory, "", 0)                                                                                          \
    X(BindImageMemory2, "vkBindImageMemory2KHR", 0)                                                                    \
    X(BindBufferMemory, "", 0)                                                                                         \
    X(BindBufferMemory2, "vkBindBufferMemory2KHR", 0)                                                                  \
    X(GetMemoryFdKHR, "", 0)                                                                                           \
    X(GetMemoryFdPropertiesKHR, "", 0)                                                                                 \
    X(GetMemoryHostPointerPropertiesEXT, "", 0)                                                                        \
    X(CreateCommandPool, "", 0)                                                                                        \
    X(DestroyCommandPool, "", 0)                                                                                       \
    X(ResetCommandPool, "", 0)                                                                                         \
    X(AllocateCommandBuffers, "", 0)                                                                                   \
    X(FreeCommandBuffers, "", 0)                                                                                       \
    X(BeginCommandBuffer, "", 0)                                                                                       \
    X(EndCommandBuffer, "", 0)                                                                                         \
    X(ResetCommandBuffer, "", 0)                                                                                       \
    X(AllocateDescriptorSets, "", 0)                                                                                   \
    X(CreateGraphicsPipelines, "", 0)                                                                                  \
    X(CreateComputePipelines, "", 0)                                                                                   \
    X(DestroyPipeline, "", 0)                                                                                          \
    X(SetDebugUtilsObjectNameEXT, "", 0)                                                                               \
    OBJECT_ENTRIES(OBJECT_PAIR, X)

/* Objects that are only counted: O(name, type, create-info, X). vkCreate... and vkDestroy... are made by a macro. */
#define OBJECT_ENTRIES(O, X)                                                                                           \
    O(Image, IMAGE, X)                                                                                                 \
    O(ImageView, IMAGE_VIEW, X)                                                                                        \
    O(Buffer, BUFFER, X)                                                                                               \
    O(BufferView, BUFFER_VIEW, X)                                                                                      \
    O(ShaderModule, SHADER_MODULE, X)                                                                                  \
    O(PipelineLayout, PIPELINE_LAYOUT, X)                                                                              \
    O(PipelineCache, PIPELINE_CACHE, X)                                                                                \
    O(DescriptorSetLayout, DESCRIPTOR_SET_LAYOUT, X)                                                                   \
    O(DescriptorPool, DESCRIPTOR_POOL, X)                                                                              \
    O(Sampler, SAMPLER, X)                                                                                             \
    O(QueryPool, QUERY_POOL, X)                                                                                        \
    O(RenderPass, RENDER_PASS, X)                                                                                      \
    O(Framebuffer, FRAMEBUFFER, X)                                                                                     \
    O(Event, EVENT, X)

#define OBJECT_PAIR(name, type, X) X(Create##name, "", 0) X(Destroy##name, "", 0)

enum entry {
#define X(name, alias, lose) ENTRY_##name,
    ENTRY_CreateInstance,
    INSTANCE_ENTRIES(X) DEVICE_ENTRIES(X)
#undef X
        ENTRY_COUNT
};

#endif
