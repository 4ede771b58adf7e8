/* instance.c: libvulkan, an instance of the process's own, and the adapters below it. */
#include "engine/instance.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static vks_status find_loader(PFN_vkGetInstanceProcAddr *get)
{
    static _Atomic(void *) library; /* kept: drivers keep threads below it. Two racing threads open it twice. */
    if (!library)
        library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
    memcpy(get, &found, sizeof found);
    return found ? VKS_OK : vks_fail(VKS_UNSUPPORTED, 0, "no Vulkan: libvulkan.so.1 cannot be loaded (%s)", dlerror());
}

vks_status vks_instance_load(PFN_vkGetInstanceProcAddr get, VkInstance handle, vks_instance *out)
{
    vks_status status = get ? VKS_OK : find_loader(&get);
    if (status)
        return status;
    *out = (vks_instance){.get = get, .handle = handle};
#define LOAD(name)                                                                                                     \
    if (!(out->name = (PFN_vk##name)get(handle, "vk" #name)))                                                          \
        return vks_fail(VKS_UNSUPPORTED, 0, "the VkInstance has no vk" #name ": Vulkan 1.3 is needed");
    VKS_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    return VKS_OK;
}

/* ---- the process's own instance ---- */

/* Enabled where the loader has them, so that a program can make a VkSurfaceKHR. */
static const char *const surface_extensions[] = {"VK_KHR_surface", "VK_KHR_xcb_surface", "VK_KHR_xlib_surface",
                                                 "VK_KHR_wayland_surface", "VK_EXT_headless_surface"};
enum { SURFACE_EXTENSIONS = sizeof surface_extensions / sizeof *surface_extensions };

static struct {
    pthread_mutex_t lock;
    VkInstance handle; /* a forked child makes its own, because the threads of the parent's are gone */
    bool has_surfaces;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void forget_parent(void)
{
    pthread_mutex_init(&own.lock, NULL);
    own.handle = VK_NULL_HANDLE;
}

static void register_reset(void) { vks_at_fork_child(forget_parent); }

/* Writes the names of those that the loader has, and returns their number. */
static uint32_t list_surface_extensions(PFN_vkGetInstanceProcAddr get, const char **out)
{
    enum { MOST = 256 };
    PFN_vkEnumerateInstanceExtensionProperties enumerate =
        (PFN_vkEnumerateInstanceExtensionProperties)get(NULL, "vkEnumerateInstanceExtensionProperties");
    VkExtensionProperties *all = calloc(MOST, sizeof *all);
    uint32_t n = MOST, found = 0;
    if (!enumerate || !all || enumerate(NULL, &n, all) < 0)
        n = 0;
    for (int i = 0; i < SURFACE_EXTENSIONS; i++)
        for (uint32_t j = 0; j < n; j++)
            if (!strcmp(surface_extensions[i], all[j].extensionName)) {
                out[found++] = surface_extensions[i];
                break;
            }
    free(all);
    return found && out[0] == surface_extensions[0] ? found : 0; /* the others need the first */
}

static vks_status create_instance(PFN_vkGetInstanceProcAddr get, VkInstance *out, bool *has_surfaces)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    PFN_vkEnumerateInstanceVersion ask = (PFN_vkEnumerateInstanceVersion)get(NULL, "vkEnumerateInstanceVersion");
    uint32_t version = VK_API_VERSION_1_0;
    if (!create || (ask && ask(&version)) || version < VK_API_VERSION_1_3)
        return vks_fail(VKS_UNSUPPORTED, 0, "the Vulkan loader is of version %u.%u: 1.3 is needed",
                        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "vkshare",
                                     .pEngineName = "vkshare",
                                     .apiVersion = VK_API_VERSION_1_3};
    const char *names[SURFACE_EXTENSIONS];
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application,
                                 .enabledExtensionCount = list_surface_extensions(get, names),
                                 .ppEnabledExtensionNames = names};
    *has_surfaces = info.enabledExtensionCount > 0;
    VkResult code = create(&info, NULL, out);
    return code == VK_ERROR_INCOMPATIBLE_DRIVER ? vks_fail(VKS_UNSUPPORTED, code, "there is no Vulkan driver here")
                                                : vks_vulkan_result(code, "vkCreateInstance");
}

vks_status vks_instance_own(vks_instance *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_reset);
    PFN_vkGetInstanceProcAddr get;
    vks_status status = find_loader(&get);
    if (status)
        return status;
    pthread_mutex_lock(&own.lock);
    if (!own.handle)
        status = create_instance(get, &own.handle, &own.has_surfaces);
    pthread_mutex_unlock(&own.lock);
    if (!status)
        status = vks_instance_load(get, own.handle, out);
    out->has_surfaces = own.has_surfaces;
    return status;
}

/* ---- adapters ---- */

static int by_rank(const void *one, const void *two)
{
    const vks_physical *a = one, *b = two;
    return (a->rank < b->rank) - (a->rank > b->rank);
}

/* The usable physical devices, sorted; the caller frees *out. The instance's order decides between
 * equal ones. With none, the thread's error says why the last was refused. */
static vks_status list(const vks_instance *instance, vks_physical **out, uint32_t *count)
{
    enum { MOST = 64 };
    VkPhysicalDevice handles[MOST];
    uint32_t n = MOST;
    *count = 0;
    VkResult code = instance->EnumeratePhysicalDevices(instance->handle, &n, handles);
    if (code != VK_SUCCESS && code != VK_INCOMPLETE)
        return vks_vulkan_result(code, "vkEnumeratePhysicalDevices");
    if (!(*out = calloc(n ? n : 1, sizeof **out)))
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for %u physical devices", n);
    for (uint32_t i = 0; i < n; i++) {
        vks_physical *next = *out + *count;
        if (vks_physical_read(instance, handles[i], next) == VKS_OK) {
            next->rank = next->rank * MOST + (MOST - 1 - i);
            (*count)++;
        }
    }
    qsort(*out, *count, sizeof **out, by_rank);
    return VKS_OK;
}

vks_status vks_adapters(vks_adapter *out, uint32_t capacity, uint32_t *count)
{
    VKS_NEEDS(count);
    if (capacity)
        VKS_NEEDS(out);
    vks_instance instance;
    vks_physical *found;
    *count = 0;
    vks_status status = vks_instance_own(&instance);
    if (status || (status = list(&instance, &found, count)))
        return status;
    for (uint32_t i = 0; i < *count && i < capacity; i++)
        out[i] = found[i].adapter;
    free(found);
    return VKS_OK;
}

static bool is_wanted(const vks_adapter *adapter, const vks_open_info *info)
{
    return (!info->device_uuid || !memcmp(adapter->device_uuid, info->device_uuid, VK_UUID_SIZE)) &&
           (!info->driver_uuid || !memcmp(adapter->driver_uuid, info->driver_uuid, VK_UUID_SIZE));
}

vks_status vks_physical_find(const vks_instance *instance, const vks_open_info *info, vks_physical *out)
{
    vks_physical *found;
    uint32_t count, fitting = 0;
    vks_clear_error();
    vks_status status = list(instance, &found, &count);
    if (status)
        return status;
    for (uint32_t i = 0; i < count; i++)
        if (is_wanted(&found[i].adapter, info) && fitting++ == info->index)
            *out = found[i];
    free(found);
    if (info->index < fitting)
        return VKS_OK;
    if (!count && *vks_last_error()->text) /* why the last one cannot be used */
        return VKS_UNSUPPORTED;
    return vks_fail(VKS_UNSUPPORTED, 0, "there is no adapter %u%s here: %u of %u adapters fit", info->index,
                    info->device_uuid || info->driver_uuid ? " with these UUIDs" : "", fitting, count);
}
