/* create.c: a surface's handle: new, opened from another party's page, or an alias of another
 * handle. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "surface/surface.h"

static void close_child(vks_child *child) { vks_surface_close(vks_surface_of(child)); }
static void ref_child(vks_child *child) { vks_surface_ref(vks_surface_of(child)); }
static void unref_child(vks_child *child) { vks_surface_unref(vks_surface_of(child)); }

static const vks_child_class surface_child = {
    .lost = vks_surface_lost, .close = close_child, .ref = ref_child, .unref = unref_child};

/* Called under the peers' lock or by the surface's caller; the semaphore exists in both cases. */
static void refresh(vks_mapping *mapping)
{
    vks_surface *surface = VKS_CONTAINER(mapping, vks_surface, mapping);
    uint64_t counter;
    if (surface->semaphore &&
        surface->device->backend->counter(surface->device, surface->semaphore, &counter) == VKS_OK)
        vks_atomic_max(&mapping->mutex->completed, counter);
}

static vks_surface *new_surface(vks_device *device, const vks_surface_info *info)
{
    vks_surface *surface = calloc(1, sizeof *surface);
    if (!surface)
        return NULL;
    surface->child.class = &surface_child;
    surface->device = device;
    vks_device_ref(device);
    surface->references = 1;
    surface->semaphore_users = 1;
    surface->process = vks_process;
    surface->page_fd = -1;
    surface->pixels = info->pixels;
    surface->size = info->size;
    surface->stride = info->stride;
    surface->width = info->width;
    surface->height = info->height;
    surface->format = info->format;
    surface->color = vks_color_or_default(info->format, &info->color);
    surface->acquire_commands[VKS_GRAPHICS] = info->acquire_commands;
    surface->release_commands[VKS_GRAPHICS] = info->release_commands;
    surface->discard_unowned = info->discard_unowned;
    surface->is_presentable = info->is_presentable;
    surface->mapping.refresh = refresh;
    surface->mapping.on_death = vks_scheduler_run_unlocked;
    surface->mapping.user = device;
    return surface;
}

static void destroy_memory(vks_surface *surface)
{
    vks_surface_close_fds(surface);
    if (surface->original) {
        vks_surface_unref(surface->original);
    } else {
        if (surface->image)
            surface->drop_image(surface);
        if (surface->page_fd < 0)
            free(surface->handle.page); /* a private page */
        else if (surface->handle.page)
            munmap(surface->handle.page, VKS_MUTEX_PAGE_SIZE);
        if (surface->page_fd >= 0)
            close(surface->page_fd);
    }
    vks_device_unref(surface->device);
    free(surface);
}

void vks_surface_drop_semaphore(vks_surface *surface)
{
    vks_surface *original = surface->original ? surface->original : surface;
    if (--original->semaphore_users == 0 && surface->semaphore)
        surface->device->backend->destroy_timeline(surface->device, surface->semaphore);
    surface->semaphore = 0;
}

/* Page for a surface that is never exported. Heap memory, because resizes recreate these often and
 * a fresh mapping would page-fault. */
static vks_status private_page(void **map)
{
    *map = aligned_alloc(64, VKS_MUTEX_PAGE_SIZE);
    return *map ? VKS_OK : vks_fail(VKS_NO_MEMORY, 0, "no memory for a surface");
}

/* Registers the handle with the page and the device. */
static vks_status register_handle(vks_surface *surface, vks_mutex_page *page)
{
    vks_device *device = surface->device;
    surface->mapping.mutex = page;
    vks_status status = vks_mutex_join(page, device->name, &surface->handle);
    if (status == VKS_FULL) { /* dead processes keep their slots until a check */
        atomic_store(&surface->mapping.join_count, UINT32_MAX);
        vks_peers_watch_page(&surface->mapping);
        status = vks_mutex_join(page, device->name, &surface->handle);
    }
    if (status)
        return status;
    vks_peers_add(&surface->mapping);
    pthread_mutex_lock(&device->lock);
    status = vks_device_adopt(device, VKS_SURFACES, &surface->child); /* it may have been shut down meanwhile */
    pthread_mutex_unlock(&device->lock);
    if (status) {
        vks_peers_remove(&surface->mapping);
        vks_mutex_leave(&surface->handle);
    }
    return status;
}

vks_status vks_surface_create(vks_device *device, const vks_surface_info *info, vks_surface **out)
{
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    vks_color color = vks_color_or_default(info->format, &info->color);
    if (status || (status = vks_color_check(VKS_BAD_VALUE, info->format, &color)))
        return status;
    vks_surface *surface = new_surface(device, info);
    if (!surface)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a surface");
    if (!vks_device_enter(device)) {
        destroy_memory(surface);
        return VKS_CLOSED;
    }
    void *map = NULL;
    uint64_t semaphore = 0;
    bool native = device->native_timelines && !info->is_presentable;
    status = info->is_presentable
                 ? private_page(&map)
                 : vks_memfd_create("vkshare:mutex", VKS_MUTEX_PAGE_SIZE, false, &surface->page_fd, &map);
    if (!status) {
        vks_mutex_page *page = map;
        vks_page_init(&page->header, VKS_PAGE_MUTEX, VKS_MUTEX_PAGE_SIZE);
        page->header.width = info->width;
        page->header.height = info->height;
        page->header.format = info->format;
        page->header.color = surface->color;
        page->header.native = native;
        vks_mutex_init(page);
        surface->handle.page = page;
        if (!native || (status = device->backend->create_timeline(device, 0, &semaphore)) == VKS_OK) {
            surface->semaphore = semaphore;
            status = register_handle(surface, page);
        }
    }
    if (status) {
        if (surface->semaphore)
            device->backend->destroy_timeline(device, surface->semaphore);
        destroy_memory(surface);
    } else {
        *out = surface;
    }
    vks_device_leave(device);
    return status;
}

static bool has_live_handle(vks_mutex_page *page)
{
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t identity = atomic_load(&page->slots[i].identity);
        if (!vks_identity_pid(identity))
            continue;
        if (vks_peer_alive(identity))
            return true;
        vks_mutex_on_death(page, identity & VKS_IDENTITY_MASK);
    }
    return false;
}

static vks_status open_page(vks_surface *surface, int *semaphore_fd)
{
    vks_device *device = surface->device;
    void *map = NULL;
    vks_status status = vks_page_open(surface->page_fd, VKS_PAGE_MUTEX, true, &map);
    if (status)
        return status;
    surface->handle.page = map;
    if (!has_live_handle(map)) /* K20: the memory was freed with the last handle */
        return vks_fail(
            VKS_BAD_PAGE, 0,
            "every handle of the surface is gone: keep one open until the other party has opened the descriptor");
    if (((vks_mutex_page *)map)->header.native) {
        if (*semaphore_fd < 0 || !device->native_timelines)
            return vks_fail(VKS_BAD_PAGE, 0, "the surface is ordered by a timeline semaphore that %s",
                            *semaphore_fd < 0 ? "was not sent with it" : "this device cannot import");
        int fd = *semaphore_fd;
        uint64_t semaphore;
        *semaphore_fd = -1;
        if ((status = device->backend->import_timeline(device, fd, &semaphore)))
            return status;
        surface->semaphore = semaphore;
    }
    return register_handle(surface, map);
}

vks_status vks_surface_open(vks_device *device, const vks_surface_info *info, int page_fd, int semaphore_fd,
                            vks_surface **out)
{
    if (vks_any_null(device, info, out, "")) {
        close(page_fd);
        close(semaphore_fd);
    }
    VKS_NEEDS(device, info, out);
    vks_status status = vks_device_check(device);
    bool entered = !status && vks_device_enter(device);
    if (!status && !entered)
        status = VKS_CLOSED;
    vks_surface *surface = status ? NULL : new_surface(device, info);
    if (!surface) {
        close(page_fd);
        status = status ? status : vks_fail(VKS_NO_MEMORY, 0, "no memory for a surface");
    } else {
        surface->page_fd = page_fd;
        surface->is_shared = true;
        status = open_page(surface, &semaphore_fd);
    }
    if (semaphore_fd >= 0)
        close(semaphore_fd);
    if (status && surface) {
        if (surface->semaphore)
            device->backend->destroy_timeline(device, surface->semaphore);
        destroy_memory(surface);
    }
    if (!status)
        *out = surface;
    if (entered)
        vks_device_leave(device);
    return status;
}

/* Shares the page and the semaphore of `of`, which a close() of that handle then leaves alone. */
static vks_status share_original(vks_surface *surface, vks_surface *of)
{
    pthread_mutex_lock(&of->device->lock);
    vks_status status = vks_surface_check(of);
    if (!status) {
        surface->original = of->original ? of->original : of;
        vks_surface_ref(surface->original);
        surface->original->semaphore_users++;
        surface->handle.page = of->handle.page;
        surface->page_fd = of->page_fd;
        surface->semaphore = of->semaphore;
    }
    pthread_mutex_unlock(&of->device->lock);
    return status;
}

vks_status vks_surface_alias(vks_surface *of, const vks_surface_info *info, vks_surface **out)
{
    VKS_NEEDS(of, info, out);
    vks_device *device = of->device;
    vks_status status = vks_surface_check(of);
    if (status)
        return status;
    if (of->is_presentable)
        return vks_fail(VKS_UNSUPPORTED, 0, "a swapchain's image has one handle only");
    vks_surface *surface = new_surface(device, info);
    if (!surface)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a surface");
    bool entered = vks_device_enter(device);
    status = entered ? share_original(surface, of) : VKS_CLOSED;
    if (!status && (status = register_handle(surface, surface->handle.page))) {
        pthread_mutex_lock(&device->lock);
        vks_surface_drop_semaphore(surface);
        pthread_mutex_unlock(&device->lock);
    }
    if (status)
        destroy_memory(surface);
    else
        *out = surface;
    if (entered)
        vks_device_leave(device);
    return status;
}

/* ---- properties ---- */

vks_status vks_surface_check(const vks_surface *surface)
{
    if (__builtin_expect(surface->process != vks_process, 0))
        return VKS_FORKED;
    return __builtin_expect(surface->closed, 0) ? VKS_CLOSED : vks_device_check(surface->device);
}

/* Leaves no text for a surface that the caller acquires itself, because bindings have their own
 * advice for that. */
vks_status vks_surface_not_owned(const vks_surface *surface)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    if (surface->is_external)
        return vks_fail(VKS_NOT_OWNER, 0, "another API has the surface; end its block first");
    if (surface->is_presentable)
        return vks_fail(VKS_NOT_OWNER, 0,
                        "the frame of this image was presented or closed, or its swapchain was resized; acquire() "
                        "another frame");
    if (surface->network)
        return vks_fail(VKS_NOT_OWNER, 0,
                        "the surface is in a queue: the block of its frame is over, or it was not taken yet; "
                        "dequeue() it, or take it by frame()");
    vks_clear_error();
    return VKS_NOT_OWNER;
}

void vks_surface_set_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands)
{
    VKS_NEEDS_OR(, surface);
    surface->acquire_commands[VKS_GRAPHICS] = acquire_commands;
    surface->release_commands[VKS_GRAPHICS] = release_commands;
}

void vks_surface_set_transfer_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands)
{
    VKS_NEEDS_OR(, surface);
    surface->acquire_commands[VKS_TRANSFER] = acquire_commands;
    surface->release_commands[VKS_TRANSFER] = release_commands;
}

void vks_surface_set_initial_commands(vks_surface *surface, uint64_t initial_commands)
{
    VKS_NEEDS_OR(, surface);
    vks_surface *original = vks_surface_original(surface);
    original->initial_commands = initial_commands;
    original->owned_by_queue = initial_commands != 0;
}

void vks_surface_ref(vks_surface *surface)
{
    VKS_NEEDS_OR(, surface);
    atomic_fetch_add_explicit(&surface->references, 1, memory_order_relaxed);
}

void vks_surface_unref(vks_surface *surface)
{
    VKS_NEEDS_OR(, surface);
    if (atomic_fetch_sub(&surface->references, 1) == 1)
        destroy_memory(surface);
}

void vks_surface_ref_object(void *surface) { vks_surface_ref(surface); }
void vks_surface_unref_object(void *surface) { vks_surface_unref(surface); }

vks_device *vks_surface_device(const vks_surface *surface)
{
    VKS_NEEDS_OR(NULL, surface);
    return surface->device;
}
bool vks_surface_is_closed(const vks_surface *surface)
{
    VKS_NEEDS_OR(true, surface);
    return surface->closed;
}
bool vks_surface_is_owned(const vks_surface *surface)
{
    VKS_NEEDS_OR(false, surface);
    return (surface->owned || surface->is_external) && surface->process == vks_process;
}

bool vks_surface_discards(const vks_surface *surface)
{
    VKS_NEEDS_OR(false, surface);
    return surface->discard_unowned;
}
bool vks_surface_may_submit(const vks_surface *surface)
{
    VKS_NEEDS_OR(false, surface);
    return surface->owned || surface->pending;
}
uint32_t vks_surface_generation(const vks_surface *surface)
{
    VKS_NEEDS_OR(0, surface);
    return atomic_load(&surface->handle.generation);
}

uint64_t vks_surface_next_key(vks_surface *surface)
{
    VKS_NEEDS_OR(0, surface);
    return atomic_fetch_add(&surface->handle.page->next_key, 1) + 1;
}
