/* create.c: a fence of this device, an engine's, or a follower of another party's; and its
 * export. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fence/fence.h"

static void lost_child(vks_child *child) { vks_fence_fail(VKS_CONTAINER(child, vks_fence, child)); }
static void poll_child(vks_child *child) { vks_fence_poll_untracked(VKS_CONTAINER(child, vks_fence, child)); }
static void close_child(vks_child *child) { vks_fence_close(VKS_CONTAINER(child, vks_fence, child)); }
static void ref_child(vks_child *child) { vks_fence_ref(VKS_CONTAINER(child, vks_fence, child)); }
static void unref_child(vks_child *child) { vks_fence_unref(VKS_CONTAINER(child, vks_fence, child)); }

static const vks_child_class fence_child = {
    .lost = lost_child, .poll = poll_child, .close = close_child, .ref = ref_child, .unref = unref_child};

static vks_fence *new_fence(vks_device *device)
{
    vks_fence *fence = calloc(1, sizeof *fence);
    if (!fence)
        return NULL;
    fence->child.class = &fence_child;
    fence->device = device;
    vks_device_ref(device);
    fence->references = 1;
    fence->process = vks_process;
    fence->page_fd = -1;
    fence->last_valid = UINT64_MAX;
    fence->mapping.on_death = vks_fence_on_death;
    fence->mapping.user = fence;
    return fence;
}

static void destroy_memory(vks_fence *fence)
{
    vks_fence_page *page = fence->page;
    if (page && page != fence->private_page)
        munmap(page, VKS_FENCE_PAGE_SIZE);
    if (fence->page_fd >= 0)
        close(fence->page_fd);
    free(fence->private_page);
    free(fence->events);
    vks_device_unref(fence->device);
    free(fence);
}

/* Adds the fence to the device, unless that was shut down meanwhile. */
static vks_status link_fence(vks_fence *fence, uint64_t semaphore)
{
    vks_device *device = fence->device;
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_device_adopt(device, VKS_FENCES, &fence->child);
    if (!status)
        fence->semaphore = semaphore;
    pthread_mutex_unlock(&device->lock);
    return status;
}

static vks_status make_private_page(vks_fence *fence, uint64_t initial)
{
    vks_fence_page *page = aligned_alloc(64, sizeof *page);
    if (!page)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    memset(page, 0, sizeof *page);
    vks_page_init(&page->header, VKS_PAGE_FENCE, VKS_FENCE_PAGE_SIZE);
    page->owner = vks_self();
    memcpy(page->name, fence->device->name, VKS_NAME_SIZE);
    page->queued = page->completed = initial;
    fence->private_page = page;
    fence->page = page;
    fence->announced = initial;
    return VKS_OK;
}

vks_status vks_fence_create(vks_device *device, uint64_t initial, vks_fence **out)
{
    VKS_NEEDS(device, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (initial > VKS_MAX_FENCE_VALUE)
        return vks_fail(VKS_BAD_VALUE, (int64_t)initial, "a fence starts between 0 and 2**64 - 2");
    vks_fence *fence = new_fence(device);
    if (!fence)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    if (!vks_device_enter(device)) {
        destroy_memory(fence);
        return VKS_CLOSED;
    }
    uint64_t semaphore = 0;
    if (!(status = make_private_page(fence, initial)) &&
        !(status = device->backend->create_timeline(device, initial, &semaphore)) &&
        (status = link_fence(fence, semaphore)) && semaphore)
        device->backend->destroy_timeline(device, semaphore);
    if (status)
        destroy_memory(fence);
    else
        *out = fence;
    vks_device_leave(device);
    return status;
}

vks_status vks_fence_adopt(vks_device *device, uint64_t vk_semaphore, vks_fence **out)
{
    VKS_NEEDS(device, out);
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    if (!device->timeline || !vk_semaphore)
        return vks_fail(VKS_UNSUPPORTED, 0,
                        "only a Vulkan device can adopt a timeline semaphore, and it must not be null");
    uint64_t value;
    if (!vks_device_enter(device))
        return VKS_CLOSED;
    status = device->backend->counter(device, vk_semaphore, &value);
    vks_device_leave(device);
    if (status)
        return status;
    vks_fence *fence = new_fence(device);
    if (!fence)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    fence->adopted = true;
    if ((status = make_private_page(fence, value)) || (status = link_fence(fence, vk_semaphore))) {
        destroy_memory(fence);
        return status;
    }
    *out = fence;
    return VKS_OK;
}

static vks_status follow(vks_fence *fence, uint64_t semaphore)
{
    fence->follower = true;
    fence->mapping.fence = fence->page;
    vks_peers_add(&fence->mapping);
    vks_status status = link_fence(fence, semaphore);
    if (status) {
        vks_peers_remove(&fence->mapping);
        if (semaphore)
            fence->device->backend->destroy_timeline(fence->device, semaphore);
    }
    return status;
}

vks_status vks_fence_open(vks_device *device, int page_fd, int semaphore_fd, vks_fence **out)
{
    if (vks_any_null(device, out, "", "")) {
        close(page_fd);
        close(semaphore_fd);
    }
    VKS_NEEDS(device, out);
    vks_status status = vks_device_check(device);
    bool entered = !status && vks_device_enter(device);
    if (!status && !entered)
        status = VKS_CLOSED;
    vks_fence *fence = status ? NULL : new_fence(device);
    if (!status && !fence)
        status = vks_fail(VKS_NO_MEMORY, 0, "no memory for a fence");
    void *page = NULL;
    uint64_t semaphore = 0;
    if (!status && (status = vks_page_open(page_fd, VKS_PAGE_FENCE, false, &page)) == VKS_OK) {
        fence->page = page;
        fence->page_fd = page_fd;
        page_fd = -1;
        if (semaphore_fd >= 0 && device->native_timelines) {
            status = device->backend->import_timeline(device, semaphore_fd, &semaphore);
            semaphore_fd = -1;
        }
    }
    if (page_fd >= 0)
        close(page_fd);
    if (semaphore_fd >= 0)
        close(semaphore_fd);
    if (!status)
        status = follow(fence, semaphore);
    if (!status)
        *out = fence;
    else if (fence)
        destroy_memory(fence);
    if (entered)
        vks_device_leave(device);
    return status;
}

/* ---- export: the page moves into shared memory ---- */

static vks_status share_page(vks_fence *fence)
{
    if (fence->page_fd >= 0)
        return VKS_OK;
    void *map;
    int fd;
    vks_status status = vks_memfd_create("vkshare:fence", VKS_FENCE_PAGE_SIZE, true, &fd, &map);
    if (status)
        return status;
    vks_fence_page *shared = map, *old = fence->page;
    memcpy(shared, old, sizeof *shared);
    shared->header.native = fence->device->native_timelines;
    fence->page_fd = fd;
    fence->page = shared;
    atomic_fetch_add(&old->seq, 1); /* sleepers on the private page check again and find the shared one */
    vks_futex_wake(&old->seq, VKS_ANY_BIT);
    return VKS_OK;
}

vks_status vks_fence_export(vks_fence *fence, int *page_fd, int *semaphore_fd)
{
    VKS_NEEDS(fence, page_fd, semaphore_fd);
    vks_device *device = fence->device;
    *page_fd = *semaphore_fd = -1;
    vks_status status = vks_fence_check(fence);
    if (status)
        return status;
    if (fence->adopted)
        return vks_fail(
            VKS_UNSUPPORTED, 0,
            "an adopted semaphore is the engine's: no process announces its values, so it cannot be followed");
    pthread_mutex_lock(&device->lock);
    if ((status = vks_fence_check(fence)) == VKS_OK && (status = share_page(fence)) == VKS_OK) {
        fence->published = true;
        status = vks_fence_start_publishing(fence);
    }
    if (!status)
        status = vks_duplicate_fd(fence->page_fd, "the fence's page", page_fd);
    if (!status && device->native_timelines && fence->semaphore &&
        (status = device->backend->export_timeline(device, fence->semaphore, semaphore_fd))) {
        close(*page_fd);
        *page_fd = -1;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- properties ---- */

void vks_fence_ref(vks_fence *fence)
{
    VKS_NEEDS_OR(, fence);
    atomic_fetch_add_explicit(&fence->references, 1, memory_order_relaxed);
}

void vks_fence_unref(vks_fence *fence)
{
    VKS_NEEDS_OR(, fence);
    if (atomic_fetch_sub(&fence->references, 1) == 1)
        destroy_memory(fence);
}

bool vks_fence_is_closed(const vks_fence *fence)
{
    VKS_NEEDS_OR(true, fence);
    return fence->closed;
}
bool vks_fence_is_follower(const vks_fence *fence)
{
    VKS_NEEDS_OR(false, fence);
    return fence->follower;
}
bool vks_fence_is_native(const vks_fence *fence)
{
    VKS_NEEDS_OR(false, fence);
    return fence->semaphore && (fence->follower || fence->device->native_timelines);
}

uint64_t vks_fence_semaphore(const vks_fence *fence)
{
    VKS_NEEDS_OR(0, fence);
    return fence->semaphore;
}
vks_device *vks_fence_device(const vks_fence *fence)
{
    VKS_NEEDS_OR(NULL, fence);
    return fence->device;
}
