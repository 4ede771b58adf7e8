/* timelines.c: the trial whether a timeline semaphore crosses from one VkDevice to another
 * (X22). */
#include "engine/engine.h"

#include <unistd.h>

#define TRIAL_NS UINT64_C(1000000000)
#define TRIAL_VALUE 7u

#define TRIAL_FUNCTIONS(X)                                                                                             \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(GetSemaphoreFdKHR) X(ImportSemaphoreFdKHR) X(SignalSemaphore) X(WaitSemaphores) X(GetSemaphoreCounterValue)

typedef struct side {
    vks_engine engine;
    VkSemaphore semaphore;
#define DECLARE(name) PFN_vk##name name;
    TRIAL_FUNCTIONS(DECLARE)
#undef DECLARE
} side;

static const VkExternalSemaphoreHandleTypeFlagBits opaque_fd = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;

static vks_status check_properties(const vks_instance *instance, const vks_physical *physical)
{
    if (!physical->has_semaphore_fd)
        return vks_fail(VKS_UNSUPPORTED, 0, "%s has no " VKS_SEMAPHORE_EXTENSION, physical->adapter.name);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkPhysicalDeviceExternalSemaphoreInfo asked = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO, .pNext = &type, .handleType = opaque_fd};
    VkExternalSemaphoreProperties answer = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    instance->GetPhysicalDeviceExternalSemaphoreProperties(physical->handle, &asked, &answer);
    const VkExternalSemaphoreFeatureFlags both =
        VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT;
    return (answer.externalSemaphoreFeatures & both) == both
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, 0, "%s exports no timeline semaphore as an opaque fd",
                          physical->adapter.name);
}

static vks_status make_side(side *made, const vks_instance *instance, const vks_physical *physical, bool exports)
{
    made->engine.instance = *instance;
    made->engine.physical = *physical;
    vks_status status = vks_engine_create_device(&made->engine);
    if (status)
        return status;
#define LOAD(name)                                                                                                     \
    if (!(made->name = (PFN_vk##name)instance->GetDeviceProcAddr(made->engine.handle, "vk" #name)))                    \
        return vks_fail(VKS_UNSUPPORTED, 0, "the driver has no vk" #name);
    TRIAL_FUNCTIONS(LOAD)
#undef LOAD
    VkExportSemaphoreCreateInfo export_info = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                               .handleTypes = opaque_fd};
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .pNext = exports ? &export_info : NULL,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    return vks_vulkan_result(made->CreateSemaphore(made->engine.handle, &info, NULL, &made->semaphore),
                             "vkCreateSemaphore");
}

static void end_side(side *made)
{
    if (made->semaphore)
        made->DestroySemaphore(made->engine.handle, made->semaphore, NULL);
    if (made->engine.handle && made->engine.DestroyDevice)
        made->engine.DestroyDevice(made->engine.handle, NULL);
}

static vks_status share(const side *ours, const side *theirs)
{
    int fd = -1;
    VkSemaphoreGetFdInfoKHR out = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = ours->semaphore, .handleType = opaque_fd};
    vks_status status =
        vks_vulkan_result(ours->GetSemaphoreFdKHR(ours->engine.handle, &out, &fd), "vkGetSemaphoreFdKHR");
    if (status)
        return status;
    VkImportSemaphoreFdInfoKHR in = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
                                     .semaphore = theirs->semaphore,
                                     .handleType = opaque_fd,
                                     .fd = fd};
    status = vks_vulkan_result(theirs->ImportSemaphoreFdKHR(theirs->engine.handle, &in), "vkImportSemaphoreFdKHR");
    if (status)
        close(fd); /* the driver takes it on success only */
    return status;
}

static vks_status try_signal(const side *ours, const side *theirs)
{
    uint64_t value = TRIAL_VALUE, seen = 0;
    VkSemaphoreSignalInfo signal = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = ours->semaphore, .value = value};
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &theirs->semaphore,
                                .pValues = &value};
    vks_status status = vks_vulkan_result(ours->SignalSemaphore(ours->engine.handle, &signal), "vkSignalSemaphore");
    if (status)
        return status;
    VkResult code = theirs->WaitSemaphores(theirs->engine.handle, &wait, TRIAL_NS);
    if (code == VK_SUCCESS)
        code = theirs->GetSemaphoreCounterValue(theirs->engine.handle, theirs->semaphore, &seen);
    return code == VK_SUCCESS && seen == value
               ? VKS_OK
               : vks_fail(VKS_UNSUPPORTED, code, "an imported timeline semaphore did not reach the exporter's value");
}

vks_status vks_vulkan_try_timelines(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                    VkPhysicalDevice physical_device)
{
    VKS_NEEDS(instance, physical_device);
    vks_instance loaded;
    vks_physical physical;
    side ours = {0}, theirs = {0};
    vks_status status = vks_instance_load(get_instance_proc_addr, instance, &loaded);
    if (status || (status = vks_physical_read(&loaded, physical_device, &physical)) ||
        (status = check_properties(&loaded, &physical)))
        return status;
    if (!(status = make_side(&ours, &loaded, &physical, true)) &&
        !(status = make_side(&theirs, &loaded, &physical, false)) && !(status = share(&ours, &theirs)))
        status = try_signal(&ours, &theirs);
    end_side(&theirs);
    end_side(&ours);
    return status;
}
