#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.h"
#include "scheduler/trace_points.h"
#include "os/watcher.h"

/* ---- creating and opening ---- */

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
    if (surface->original) {
        vks_surface_unref(surface->original);
    } else {
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

/* Drops this handle's use of the semaphore; the last user destroys it. Caller holds device->lock. */
static void drop_semaphore(vks_surface *surface)
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
    if (!(status = vks_device_check(device))) { /* the device may have been shut down meanwhile */
        surface->next = device->surfaces;
        if (surface->next)
            surface->next->previous = surface;
        device->surfaces = surface;
    }
    pthread_mutex_unlock(&device->lock);
    if (status) {
        vks_peers_remove(&surface->mapping);
        vks_mutex_leave(&surface->handle);
    }
    return status;
}

vks_status vks_surface_create(vks_device *device, const vks_surface_info *info, vks_surface **out)
{
    vks_status status = vks_device_check(device);
    if (status)
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
        return vks_fail(VKS_NOT_OWNER, 0, "the surface is in a queue; dequeue() it, or take it by frame()");
    vks_clear_error();
    return VKS_NOT_OWNER;
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
        drop_semaphore(surface);
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

/* Releases the image for the first export and waits for that batch, because another device's work
 * must come after it and no wait point covers it. */
static vks_status transfer_for_export(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_surface *original = vks_surface_original(surface);
    vks_status status = VKS_OK;
    pthread_mutex_lock(&device->lock);
    original->is_shared = true;
    if (vks_surface_needs_release_barrier(surface)) {
        /* not a present, but the queue must be free in the same way */
        if ((status = vks_device_begin_present(device, VKS_FOREVER))) {
            pthread_mutex_unlock(&device->lock);
            return status;
        }
        if (!(status = vks_surface_check(surface)))
            status = vks_surface_release_for_export(surface);
        vks_device_end_present(device);
    }
    uint64_t serial = original->exported_at;
    pthread_mutex_unlock(&device->lock);
    return status || !serial ? status : vks_device_wait_serial(device, serial, VKS_FOREVER);
}

static vks_status check_shared(const vks_surface *surface)
{
    vks_status status = vks_surface_check(surface);
    return !status && surface->is_presentable
               ? vks_fail(VKS_UNSUPPORTED, 0, "a swapchain's image has no memory of its own to export")
               : status;
}

/* Caller holds device->lock. */
static vks_status duplicate_page(const vks_surface *surface, int *page_fd)
{
    vks_status status = check_shared(surface);
    if (!status && (*page_fd = vks_dup(surface->page_fd)) < 0)
        status = vks_fail(VKS_OS_ERROR, errno, "the surface's page could not be duplicated");
    return status;
}

vks_status vks_surface_page(const vks_surface *surface, int *page_fd)
{
    *page_fd = -1;
    vks_status status = check_shared(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&surface->device->lock);
    status = duplicate_page(surface, page_fd);
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

vks_status vks_surface_export(vks_surface *surface, int *page_fd, int *semaphore_fd)
{
    *page_fd = *semaphore_fd = -1;
    vks_device *device = surface->device;
    vks_status status = check_shared(surface);
    if (status || (status = transfer_for_export(surface)))
        return status;
    pthread_mutex_lock(&device->lock); /* prevents close() from destroying the semaphore */
    if (!(status = duplicate_page(surface, page_fd)) && surface->semaphore &&
        (status = device->backend->export_timeline(device, surface->semaphore, semaphore_fd))) {
        close(*page_fd);
        *page_fd = -1;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

void vks_surface_set_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands)
{
    surface->acquire_commands[VKS_GRAPHICS] = acquire_commands;
    surface->release_commands[VKS_GRAPHICS] = release_commands;
}

void vks_surface_set_transfer_commands(vks_surface *surface, uint64_t acquire_commands, uint64_t release_commands)
{
    surface->acquire_commands[VKS_TRANSFER] = acquire_commands;
    surface->release_commands[VKS_TRANSFER] = release_commands;
}

void vks_surface_ref(vks_surface *surface) { atomic_fetch_add_explicit(&surface->references, 1, memory_order_relaxed); }

void vks_surface_unref(vks_surface *surface)
{
    if (atomic_fetch_sub(&surface->references, 1) == 1)
        destroy_memory(surface);
}

vks_device *vks_surface_device(const vks_surface *surface) { return surface->device; }
bool vks_surface_is_closed(const vks_surface *surface) { return surface->closed; }
bool vks_surface_is_owned(const vks_surface *surface)
{
    return (surface->owned || surface->is_external) && surface->process == vks_process;
}
bool vks_surface_discards(const vks_surface *surface) { return surface->discard_unowned; }
bool vks_surface_may_submit(const vks_surface *surface) { return surface->owned || surface->pending; }
uint32_t vks_surface_generation(const vks_surface *surface) { return atomic_load(&surface->handle.generation); }

uint64_t vks_surface_next_key(vks_surface *surface) { return atomic_fetch_add(&surface->handle.page->next_key, 1) + 1; }

/* ---- a swapchain's images ---- */

vks_status vks_surface_present_from(vks_surface *surface, vks_presentable *presentable)
{
    vks_wait_point wait_point;
    uint64_t seen;
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && (surface->has_page || surface->pending || vks_mutex_try(&surface->handle, 0, &wait_point, &seen)))
        status = vks_fail(VKS_BAD_CALL, 0, "a swapchain's surface must be new and unowned");
    if (!status) {
        vks_surface_begin_ownership(surface, ++surface->next_ownership, &wait_point);
        surface->is_presentable = true;
        surface->presentable = presentable;
        vks_surface_set_accessible(surface, false);
    }
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

static vks_status refuse_presentable(const vks_surface *surface)
{
    return surface->is_presentable
               ? vks_fail(VKS_BAD_CALL, 0, "the surface is a swapchain's: it is owned from acquire() to present()")
               : VKS_OK;
}

/* Refuses surfaces whose ownership a queue or a swapchain controls. */
static vks_status refuse_managed(const vks_surface *surface)
{
    return surface->network
               ? vks_fail(VKS_BAD_CALL, 0, "the surface is a queue's: it is owned from dequeue() to enqueue()")
               : refuse_presentable(surface);
}

/* ---- acquire ---- */

/* Returns whether this handle has an ownership, or an acquire in progress. */
static bool is_owned_or_pending(const vks_surface *surface)
{
    return surface->owned || surface->pending || surface->recovering || surface->is_external;
}

void vks_surface_begin_ownership(vks_surface *surface, uint64_t ownership, const vks_wait_point *wait_point)
{
    surface->ownership = (vks_ownership){ownership, *wait_point};
    surface->last_value = 0;
    atomic_store_explicit(&surface->has_page, true, memory_order_release);
    if (surface->pending && surface->next_ownership == ownership)
        surface->pending = false;
    if (ownership > surface->released)
        atomic_store_explicit(&surface->owned, 1, memory_order_release);
}

/* Undoes an acquire of this instant. The page still holds the same key, value and signaller. */
static void undo_acquire(vks_surface *surface)
{
    vks_mutex_page *page = surface->handle.page;
    vks_wait_point wait_point = {atomic_load(&page->value), atomic_load(&page->signaller),
                                 atomic_load(&page->signaller_slot)};
    vks_mutex_release(&surface->handle, atomic_load(&page->key), &wait_point);
}

/* Confirms an acquire that succeeded in the page. Another thread may have closed the handle
 * meanwhile, or started a mode="gpu" acquire. */
static vks_status confirm_acquire(vks_surface *surface, const vks_wait_point *wait_point)
{
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && is_owned_or_pending(surface))
        status = VKS_ALREADY_OWNER;
    else if (!status && surface->held_acquires)
        status = VKS_INTERRUPTED; /* acquires that were queued and released come first */
    if (status)
        undo_acquire(surface);
    else
        vks_surface_begin_ownership(surface, ++surface->next_ownership, wait_point);
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

static vks_status watch(void *user)
{
    vks_surface *surface = user;
    vks_status status = vks_peers_watch_page(&surface->mapping);
    return status ? status : vks_surface_check(surface);
}

typedef vks_status (*mutex_wait)(vks_mutex_handle *, uint64_t key, uint64_t deadline, vks_mutex_watch, void *user,
                                 vks_wait_point *);

static vks_status wait_and_acquire(vks_surface *surface, uint64_t key, uint64_t deadline, mutex_wait wait)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status || (status = refuse_managed(surface)))
        return status;
    if (is_owned_or_pending(surface))
        return VKS_ALREADY_OWNER;
    /* Acquires that were queued and released come first. */
    if (__builtin_expect(surface->held_acquires || surface->has_page, 0) &&
        (status = vks_device_wait_held(device, 0, surface, deadline)))
        return status;
    vks_wait_point wait_point;
    atomic_fetch_add(&surface->waiting, 1);
    status = wait(&surface->handle, key, deadline, watch, surface, &wait_point);
    if (status == VKS_OK)
        status = confirm_acquire(surface, &wait_point);
    atomic_fetch_sub(&surface->waiting, 1);
    return status == VKS_INTERRUPTED && !deadline ? VKS_TIMEOUT : status;
}

static vks_status acquire(vks_surface *surface, uint64_t key, uint64_t deadline, mutex_wait wait)
{
    uint64_t began = vks_trace_begin();
    vks_status status = wait_and_acquire(surface, key, deadline, wait);
    VKS_TRACE(began, vks_traced_acquire(surface, key, began, deadline, status));
    return status;
}

vks_status vks_surface_acquire(vks_surface *surface, uint64_t key, uint64_t deadline)
{
    return acquire(surface, key, deadline, vks_mutex_wait);
}

vks_status vks_surface_acquire_blocking(vks_surface *surface, uint64_t key, uint64_t deadline)
{
    return acquire(surface, key, deadline, vks_mutex_wait_no_spin);
}

static vks_status try_once(vks_surface *surface, uint64_t key, const uint64_t *epoch, vks_wait_point *wait_point,
                           uint64_t *seen)
{
    return epoch ? vks_mutex_try_epoch(&surface->handle, key, *epoch, wait_point, seen)
                 : vks_mutex_try(&surface->handle, key, wait_point, seen);
}

/* Tries once under the lock, so that no other thread can close the handle or acquire between the
 * swap and its record. `epoch`: for a queue, the epoch that the pair names; else NULL. Returns
 * false if no further try can change the result. */
static bool try_now(vks_surface *surface, uint64_t key, const uint64_t *epoch, uint64_t *seen, vks_status *status)
{
    vks_wait_point wait_point;
    pthread_mutex_lock(&surface->device->lock);
    bool may = !(*status = vks_surface_check(surface)) && !is_owned_or_pending(surface) && !surface->held_acquires &&
               !surface->has_page && (epoch || !surface->network);
    if (may && (*status = try_once(surface, key, epoch, &wait_point, seen)) == VKS_OK)
        vks_surface_begin_ownership(surface, ++surface->next_ownership, &wait_point);
    else if (!may && !*status && (epoch || !(*status = refuse_managed(surface))))
        *status =
            is_owned_or_pending(surface) ? VKS_ALREADY_OWNER : VKS_TIMEOUT; /* acquires that were queued come first */
    pthread_mutex_unlock(&surface->device->lock);
    return may;
}

static vks_status try_acquire(vks_surface *surface, uint64_t key, const uint64_t *epoch)
{
    vks_status status = vks_surface_check(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    uint64_t seen;
    /* It may have been released under another key, or be about to be released. */
    for (int tries = 0; try_now(surface, key, epoch, &seen, &status) && status == VKS_TIMEOUT && tries < 4; tries++)
        if (!vks_mutex_spin(surface->handle.page, seen, VKS_MUTEX_PAUSES))
            break;
    return status;
}

VKS_TRACED static vks_status traced_try_acquire(vks_surface *surface, uint64_t key, const uint64_t *epoch)
{
    uint64_t began = vks_now();
    vks_status status = try_acquire(surface, key, epoch);
    vks_traced_acquire(surface, key, began, 0, status);
    return status;
}

vks_status vks_surface_try_acquire(vks_surface *surface, uint64_t key)
{
    return vks_tracing() ? traced_try_acquire(surface, key, NULL) : try_acquire(surface, key, NULL);
}

vks_status vks_surface_acquire_gpu(vks_surface *surface, uint64_t key, vks_work **out)
{
    vks_device *device = surface->device;
    *out = NULL;
    vks_status status = vks_surface_check(surface); /* first, because after fork() the lock may be held forever */
    if (status)
        return status;
    pthread_mutex_lock(&device->lock);
    if (!(status = vks_surface_check(surface)))
        status = refuse_managed(surface);
    if (!status && is_owned_or_pending(surface))
        status = VKS_ALREADY_OWNER;
    if (!status && !(status = vks_watcher_start()))
        status = vks_peers_watch_page(&surface->mapping);
    vks_work *op = status ? NULL : vks_work_create(device, VKS_WORK_ACQUIRE, 1, 0, 0, 0, 0);
    if (!status && !op)
        status = vks_fail(VKS_NO_MEMORY, 0, "no memory for a held acquire");
    if (!status) {
        op->key = key;
        op->touches[0] = (vks_touch){.surface = surface, .ownership = {.id = ++surface->next_ownership}};
        vks_surface_ref(surface);
        surface->pending = true;
        vks_work_ref(op); /* for this function, because the scheduler may end it */
        vks_work_hold(device, op);
        status = vks_work_status(op);
        if (vks_work_is_held(op)) {
            vks_work_ref(op);
            *out = op;
            status = VKS_OK;
        }
        vks_work_unref(op);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- release ---- */

/* The slot holds the first of several pending values, because a waiter must know whether a lower
 * signal may still come (orphaned_waits.c). */
bool vks_surface_announce(vks_surface *surface, uint64_t value) { return vks_mutex_announce(&surface->handle, value); }

void vks_surface_retract(vks_surface *surface, uint64_t value)
{
    atomic_compare_exchange_strong(&surface->handle.page->slots[surface->handle.slot].pending_value, &value, 0);
}

/* Returns the first pending value of this handle except `value`; 0: none. */
static uint64_t first_announced(const vks_surface *surface, uint64_t value)
{
    const vks_device *device = surface->device;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < device->ring_count; i++) {
        const vks_completion *completion = &device->ring[(device->ring_first + i) & (device->ring_capacity - 1)];
        if (completion->kind == VKS_COMPLETION_SURFACE && completion->object == surface && completion->value != value &&
            completion->value < first)
            first = completion->value;
    }
    for (size_t i = 0; i < device->n_external; i++) {
        const vks_completion *completion = &device->external[i];
        if (completion->kind == VKS_COMPLETION_SURFACE && completion->object == surface && completion->value != value &&
            completion->value < first)
            first = completion->value;
    }
    for (const vks_work *op = device->held_first; op; op = op->next)
        if (op->kind == VKS_WORK_RELEASE && op->page_released && op->touches[0].surface == surface &&
            op->value != value && op->value < first)
            first = op->value;
    return first == UINT64_MAX ? 0 : first;
}

bool vks_surface_has_announced(const vks_surface *surface, uint64_t value)
{
    uint64_t first = first_announced(surface, 0);
    return first && first <= value;
}

void vks_surface_complete(vks_surface *surface, uint64_t value)
{
    vks_mutex_complete(&surface->handle, value, first_announced(surface, value));
}

bool vks_surface_is_pending(const vks_surface *surface, uint64_t value)
{
    const vks_mutex_page *page = surface->handle.page;
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t identity = atomic_load(&page->slots[i].identity),
                 pending_value = atomic_load(&page->slots[i].pending_value);
        if (vks_identity_pid(identity) && pending_value && pending_value <= value && vks_peer_alive(identity))
            return true;
    }
    return false;
}

uint64_t vks_surface_next_value(const vks_surface *surface)
{
    return 1 + (surface->last_value ? surface->last_value
                                    : atomic_load_explicit(&surface->handle.page->value, memory_order_relaxed));
}

vks_status vks_surface_submit_release(vks_surface *surface, uint64_t value, bool behind)
{
    vks_device *device = surface->device;
    vks_touch touch = {.surface = surface, .ownership = surface->ownership, .granted = true};
    vks_work draft = {.kind = VKS_WORK_RELEASE,
                      .device = device,
                      .touches = &touch,
                      .n_touches = 1,
                      .value = value,
                      .page_released = true};
    vks_status why = VKS_OK;
    vks_readiness ready = behind ? VKS_HOLD : vks_work_ready(device, &draft, &why);
    if (ready == VKS_READY) {
        bool first = vks_surface_announce(surface, value); /* before the work can run and complete it */
        vks_status status = vks_work_submit(device, &draft);
        if (status && first) /* K24: nothing was signalled, so the release can be tried again */
            vks_surface_retract(surface, value);
        return status == VKS_ABANDONED ? VKS_OK : status; /* the chain is poisoned, so the release abandons */
    }
    if (ready == VKS_FAIL) { /* the ownership's wait point will never complete */
        vks_mutex_poison(surface->handle.page);
        return VKS_OK;
    }
    vks_status status = vks_watcher_start();
    if (status)
        return status;
    vks_work *op = vks_work_create(device, VKS_WORK_RELEASE, 1, 0, 0, 0, 0);
    if (!op)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a held release");
    op->touches[0] = touch;
    vks_surface_ref(surface);
    op->value = value;
    op->page_released = true;
    vks_surface_announce(surface, value);
    vks_work_hold(device, op);
    return VKS_OK;
}

void vks_surface_continue_after(vks_surface *surface, uint64_t value)
{
    surface->last_value = value;
    surface->ownership.wait_point = (vks_wait_point){value, surface->handle.identity, surface->handle.slot};
    surface->acquire_submitted = surface->ownership.id - 1;
}

/* Records this ownership's pattern, which the next one is expected to have. */
static void record_pattern(vks_surface *surface)
{
    surface->last_used_graphics = surface->uses_graphics;
    surface->had_one_submission = surface->submissions == 1;
    surface->uses_graphics = false;
    surface->submissions = 0;
}

/* Returns whether the release's value was already submitted (batch.c, engine.c), with nothing after
 * it. */
static bool is_value_submitted(const vks_surface *surface)
{
    return surface->last_value && surface->acquire_submitted < surface->ownership.id && !surface->held;
}

static vks_status release_now(vks_surface *surface, uint64_t key, bool behind)
{
    const vks_ownership *ownership = &surface->ownership;
    uint64_t value = vks_surface_next_value(surface);
    vks_wait_point wait_point = {.value = value};
    /* Without submitted work the hand-over is complete. With no signaller no party reads
     * `completed`, so its cache line stays shared. */
    if (is_value_submitted(surface)) {
        wait_point = ownership->wait_point;
    } else if (behind || surface->acquire_submitted >= ownership->id ||
               !vks_wait_point_is_complete(surface, &ownership->wait_point) ||
               vks_surface_needs_release_barrier(surface)) {
        wait_point.signaller = surface->handle.identity;
        wait_point.signaller_slot = surface->handle.slot;
        vks_status status = vks_surface_submit_release(surface, value, behind);
        if (status)
            return status;
    }
    record_pattern(surface);
    if (!surface->has_page) /* the device was lost during the submission */
        return VKS_ABANDONED;
    if (surface->released < ownership->id) /* later ownerships may have been queued and released already */
        surface->released = ownership->id;
    atomic_store_explicit(&surface->has_page, false, memory_order_release);
    atomic_store_explicit(&surface->owned, 0, memory_order_release);
    return vks_mutex_release(&surface->handle, key, &wait_point);
}

VKS_TRACED static vks_status traced_release_now(vks_surface *surface, uint64_t key, bool behind)
{
    uint64_t began = vks_now(), epoch = vks_surface_epoch_after_release(surface),
             value = vks_surface_next_value(surface);
    vks_status status = release_now(surface, key, behind);
    vks_traced_release(surface, key, surface->announced == value ? value : 0, epoch, began, status);
    return status;
}

vks_status vks_surface_release_now(vks_surface *surface, uint64_t key, bool behind)
{
    return vks_tracing() ? traced_release_now(surface, key, behind) : release_now(surface, key, behind);
}

/* Holds the release of an acquire that is not granted yet. Caller holds device->lock. */
static vks_status queue_release(vks_surface *surface, uint64_t key)
{
    vks_work *op = vks_work_create(surface->device, VKS_WORK_RELEASE, 1, 0, 0, 0, 0);
    if (!op)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a held release");
    op->touches[0] = (vks_touch){.surface = surface, .ownership = {.id = surface->next_ownership}};
    vks_surface_ref(surface);
    op->key = key;
    surface->pending = false;
    surface->released = surface->next_ownership;
    vks_work_hold(surface->device, op);
    return VKS_OK;
}

static vks_status release(vks_surface *surface, uint64_t key, bool by_queue)
{
    vks_device *device = surface->device;
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    vks_mutex_will_swap(surface->handle.page);
    pthread_mutex_lock(&device->lock);
    if (surface->closed)
        status = VKS_CLOSED;
    else if (__builtin_expect(surface->is_presentable || (surface->network && !by_queue), 0))
        status = refuse_managed(surface);
    else if (surface->owned)
        status = vks_surface_release_now(surface, key, surface->held > 0 || device->presenting);
    else if (surface->is_external)
        status = vks_fail(VKS_BAD_CALL, 0, "another API has the surface: end its block first");
    else
        status = surface->pending ? queue_release(surface, key) : vks_surface_not_owned(surface);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_release(vks_surface *surface, uint64_t key) { return release(surface, key, false); }

/* ---- CPU access ---- */

/* The deadline is checked here too, because value_seq may change all the time. */
static vks_status sleep_on_values(vks_mutex_page *page, uint32_t seq, uint64_t deadline)
{
    return vks_now() < deadline ? vks_futex_wait(&page->value_seq, seq, VKS_ANY_BIT, deadline) : VKS_TIMEOUT;
}

/* Blocks until the previous owner's work has run, or can never run. */
static vks_status wait_complete(vks_surface *surface, const vks_wait_point *wait_point, uint64_t deadline)
{
    vks_mutex_page *page = surface->handle.page;
    while (!vks_wait_point_is_complete(surface, wait_point)) {
        uint32_t seq = vks_mutex_prepare_value_wait(page);
        vks_status status = watch(surface);
        pthread_mutex_lock(&surface->device->lock);
        bool alive = vks_wait_point_is_alive(surface, wait_point);
        pthread_mutex_unlock(&surface->device->lock);
        if (vks_wait_point_is_complete(surface, wait_point))
            break;
        if (!alive) {
            vks_mutex_poison(page);
            return VKS_ABANDONED;
        }
        if (status || (status = sleep_on_values(page, seq, deadline)))
            return status;
    }
    /* A failed value was completed too, after the chain was poisoned: the frame is incomplete. */
    return atomic_load(&page->word) & VKS_POISONED ? VKS_ABANDONED : VKS_OK;
}

/* Returns whether the ownership's wait point is work of this handle (vks_surface_continue_after) in
 * this device's queue. Caller holds device->lock. */
static bool is_own_work(const vks_surface *surface)
{
    const vks_wait_point *wait_point = &surface->ownership.wait_point;
    return surface->last_value && wait_point->signaller == surface->handle.identity &&
           wait_point->signaller_slot == surface->handle.slot &&
           !vks_device_awaits_external(surface->device, VKS_COMPLETION_SURFACE, surface, wait_point->value);
}

/* Waits, then publishes the completions itself, which is faster than waking the publisher. */
static vks_status wait_own_work(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vks_status status = vks_device_wait_serial(device, serial, deadline);
    pthread_mutex_lock(&device->lock);
    if (!status)
        vks_device_publish(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static vks_status cpu_access(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    vks_status status;
    pthread_mutex_lock(&device->lock);
    bool owned = surface->owned, held = surface->held > 0, ours = is_own_work(surface);
    vks_wait_point wait_point = surface->ownership.wait_point;
    uint64_t serial = surface->last_serial;
    pthread_mutex_unlock(&device->lock);
    if (!owned)
        return vks_surface_not_owned(surface);
    if ((ours && (status = wait_own_work(device, serial, deadline))) ||
        (status = wait_complete(surface, &wait_point, deadline)))
        return status;
    if (held) {
        if ((status = vks_device_wait_held(device, 0, surface, deadline)))
            return status;
        pthread_mutex_lock(&device->lock);
        serial = surface->last_serial;
        pthread_mutex_unlock(&device->lock);
    }
    /* A device that was lost meanwhile has completed its pending values itself. */
    return serial ? vks_device_wait_serial(device, serial, deadline) : vks_surface_check(surface);
}

/* Runs one of the calls below and counts it in `waiting`: close() wakes such calls and lets them
 * return before it frees the slot and the semaphore. */
static vks_status as_waiter(vks_surface *surface, vks_status (*call)(vks_surface *surface, uint64_t deadline),
                            uint64_t deadline)
{
    vks_status status = vks_surface_check(surface);
    if (status)
        return status;
    atomic_fetch_add(&surface->waiting, 1);
    if (!(status = vks_surface_check(surface)))
        status = call(surface, deadline);
    atomic_fetch_sub(&surface->waiting, 1);
    return status;
}

vks_status vks_surface_cpu_access(vks_surface *surface, uint64_t deadline)
{
    uint64_t began = vks_trace_begin();
    vks_status status = as_waiter(surface, cpu_access, deadline);
    VKS_TRACE(began, vks_traced_surface(VKS_TRACE_ACCESS, surface, began, deadline, status));
    return status;
}

/* ---- a queue's surfaces ---- */

vks_status vks_surface_join(vks_surface *surface, uint64_t network, uint32_t index)
{
    pthread_mutex_lock(&surface->device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status && (surface->network || is_owned_or_pending(surface) || surface->has_page || surface->is_presentable))
        status = vks_fail(VKS_BAD_CALL, 0, "a queue's surface must be new and unowned");
    if (!status) {
        surface->network = network;
        surface->index = index;
    }
    pthread_mutex_unlock(&surface->device->lock);
    return status;
}

/* The ring orders the owners, so one key is enough. */
#define QUEUE_KEY 0

static vks_status acquire_once(vks_surface *surface, uint64_t epoch)
{
    return vks_tracing() ? traced_try_acquire(surface, QUEUE_KEY, &epoch) : try_acquire(surface, QUEUE_KEY, &epoch);
}

vks_status vks_surface_acquire_epoch(vks_surface *surface, uint64_t epoch)
{
    vks_status status = acquire_once(surface, epoch);
    if (status != VKS_TIMEOUT || vks_surface_was_reacquired(surface, epoch))
        return status;
    vks_peers_watch_page(&surface->mapping); /* an earlier consumer may just have died as its owner */
    return acquire_once(surface, epoch);
}

vks_status vks_surface_release_epoch(vks_surface *surface, uint64_t *value)
{
    const vks_mutex_page *page = surface->handle.page;
    vks_status status = release(surface, QUEUE_KEY, true);
    /* No party acquires it before the commit, so the page still has this release's values. */
    *value = atomic_load_explicit(&page->signaller, memory_order_relaxed)
                 ? atomic_load_explicit(&page->value, memory_order_relaxed)
                 : 0;
    return status;
}

uint64_t vks_surface_epoch_after_release(const vks_surface *surface)
{
    return vks_word_epoch(atomic_load(&surface->handle.page->word)) + 1;
}

bool vks_surface_was_released(const vks_surface *surface, uint64_t epoch)
{
    uint64_t word = atomic_load(&surface->handle.page->word);
    return vks_word_state(word) == VKS_FREE && vks_word_epoch(word) == epoch;
}

bool vks_surface_was_reacquired(const vks_surface *surface, uint64_t epoch)
{
    uint64_t word = atomic_load(&surface->handle.page->word);
    return vks_word_epoch(word) > epoch + (vks_word_state(word) == VKS_ABANDONED_STATE);
}

bool vks_surface_is_abandoned(const vks_surface *surface)
{
    return vks_word_state(atomic_load(&surface->handle.page->word)) == VKS_ABANDONED_STATE;
}

vks_status vks_surface_wait_released(vks_surface *surface, uint64_t value, uint64_t deadline)
{
    vks_wait_point wait_point = {value, surface->handle.identity, surface->handle.slot};
    vks_status status = vks_surface_check(surface);
    if (status || vks_wait_point_is_complete(surface, &wait_point))
        return status;
    uint64_t newest = atomic_load(&surface->handle.page->value); /* the highest value announced by any party */
    if (value > newest)
        return vks_fail(VKS_BAD_PAGE, 0, "the surface is to come with the value %llu, and %llu is its newest",
                        (unsigned long long)value, (unsigned long long)newest);
    atomic_fetch_add(&surface->waiting, 1);
    pthread_mutex_lock(&surface->device->lock);
    vks_device_publish(surface->device);
    pthread_mutex_unlock(&surface->device->lock);
    status = wait_complete(surface, &wait_point, deadline);
    atomic_fetch_sub(&surface->waiting, 1);
    return status == VKS_ABANDONED ? VKS_OK : status; /* the next owner's acquire reports it */
}

/* ---- recover ---- */

static vks_status wait_for_pending_values(vks_surface *surface, uint64_t deadline)
{
    vks_mutex_page *page = surface->handle.page;
    uint64_t signaller;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(page);
        if (!vks_mutex_has_pending_values(&surface->handle, &signaller))
            return VKS_OK;
        if (!vks_peer_alive(signaller)) {
            vks_peers_mark_dead(&surface->mapping, signaller & VKS_IDENTITY_MASK);
            continue;
        }
        vks_status status = watch(surface);
        if (status || (status = sleep_on_values(page, seq, deadline)))
            return status;
    }
}

/* Signals the semaphore up to the page's value, which ends the GPU waits that dead processes left.
 * Caller holds device->lock. */
static vks_status signal_up_to(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    uint64_t counter;
    vks_status status = device->backend->counter(device, surface->semaphore, &counter);
    if (status || counter >= value)
        return status;
    if (value - counter > device->max_difference)
        return vks_fail(VKS_ABANDONED, 0,
                        "the surface's page says %llu where its semaphore is at %llu: make another surface",
                        (unsigned long long)value, (unsigned long long)counter);
    return device->backend->host_signal(device, surface->semaphore, value);
}

/* Caller holds device->lock. */
static void fail_held(vks_surface *surface, bool acquires_only, vks_status why)
{
    vks_device *device = surface->device;
    for (vks_work *op = device->held_first; op;) {
        bool ours = false;
        for (uint32_t i = 0; i < op->n_touches; i++)
            ours |= op->touches[i].surface == surface;
        vks_work *next = op->next;
        if (ours && (op->kind == VKS_WORK_ACQUIRE || !acquires_only)) {
            vks_work_fail(device, op, why);
            next = device->held_first; /* others may have gone with it */
        }
        op = next;
    }
}

/* If the ownership's wait point will never be signalled, gives the ownership up as abandoned.
 * Submissions fail in that state, and their error advises recover(). Caller holds device->lock. */
static void abandon_if_orphaned(vks_surface *surface)
{
    vks_status why = VKS_OK;
    if (!surface->owned)
        return;
    if (vks_ownership_ready(surface, &why) == VKS_FAIL && why == VKS_ABANDONED)
        vks_mutex_poison(surface->handle.page);
    if (vks_mutex_is_poisoned(surface->handle.page))
        vks_surface_release_now(surface, 0, surface->held > 0 || surface->device->presenting);
}

static vks_status recover_begin(vks_surface *surface)
{
    vks_device *device = surface->device;
    vks_peers_watch_page(&surface->mapping); /* detects an owner that has died */
    pthread_mutex_lock(&device->lock);
    vks_status status = vks_surface_check(surface);
    if (!status)
        status = refuse_presentable(surface);
    if (!status)
        abandon_if_orphaned(surface);
    if (!status && surface->recovering)
        status = VKS_ALREADY_OWNER;
    if (!status && !(status = vks_mutex_recover_begin(&surface->handle))) {
        surface->recovering = true;
        fail_held(surface, true, VKS_ABANDONED); /* they and this call would wait for each other */
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Waits for external signals of this handle, because they would lower the semaphore under the new
 * generation's value. */
static vks_status wait_for_external(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(surface->handle.page);
        vks_status status = watch(surface);
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
        bool awaits = vks_device_awaits_external(device, VKS_COMPLETION_SURFACE, surface, 0);
        pthread_mutex_unlock(&device->lock);
        if (!awaits)
            return VKS_OK;
        if (status || (status = sleep_on_values(surface->handle.page, seq, deadline)))
            return status;
    }
}

#define DEAD_OWNER_NS UINT64_C(1000000000)

/* Waits for the work that a dead owner's queue already has. It still runs and its signal still
 * comes, although no wait counts on it (K7), and would lower a higher value that this process
 * signalled before. The owner may have died before it could publish that its queue has the signal,
 * or before its queue had it. If that queue waits for a value that never comes, orphaned_waits.c
 * ends the wait. The second that this may take begins with the first recover() that finds the value:
 * many recover() calls with short timeouts get as far as one long call. */
static vks_status wait_for_dead_owner(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    uint64_t last = vks_mutex_last_announced(surface->handle.page);
    uint64_t completed = atomic_load(&surface->handle.page->completed);
    /* Otherwise the value came, was lost, or is one that no driver accepts. */
    if (!surface->semaphore || last <= completed || last - completed > device->max_difference)
        return VKS_OK;
    if (surface->dead_value != last) {
        surface->dead_value = last;
        surface->dead_since = vks_now();
    }
    uint64_t end = surface->dead_since + DEAD_OWNER_NS, limit = end < deadline ? end : deadline;
    vks_status status;
    do
        status = device->backend->wait_timeline(device, surface->semaphore, last, limit);
    while (status == VKS_INTERRUPTED);
    return status == VKS_TIMEOUT && vks_now() >= end ? VKS_OK : status;
}

static vks_status recover(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    vks_status status = recover_begin(surface);
    if (status)
        return status;
    status = wait_for_pending_values(surface, deadline);
    if (!status)
        status = vks_device_wait_held(device, 0, surface, deadline);
    if (!status)
        status = vks_device_wait_serial(device, surface->last_serial, deadline);
    if (!status)
        status = wait_for_external(surface, deadline);
    if (!status)
        status = wait_for_dead_owner(surface, deadline);
    pthread_mutex_lock(&device->lock);
    vks_device_publish(device); /* completes this device's own values */
    if (!status)
        status = vks_surface_check(surface);
    if (status) {
        vks_mutex_abandon(&surface->handle);
    } else {
        uint64_t value = vks_mutex_recover_finish(&surface->handle);
        if (surface->semaphore && (status = signal_up_to(surface, value)))
            vks_mutex_abandon(&surface->handle);
        else
            vks_surface_begin_ownership(surface, ++surface->next_ownership, &(vks_wait_point){0});
    }
    surface->recovering = false;
    if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

vks_status vks_surface_recover(vks_surface *surface, uint64_t deadline)
{
    uint64_t began = vks_trace_begin();
    vks_status status = as_waiter(surface, recover, deadline);
    VKS_TRACE(began, vks_traced_surface(VKS_TRACE_RECOVER, surface, began, deadline, status));
    return status;
}

/* ---- waits for submissions of others (engine.c) ---- */

static vks_status wait_ownership_complete(vks_surface *surface, uint64_t deadline)
{
    pthread_mutex_lock(&surface->device->lock);
    vks_wait_point wait_point = surface->ownership.wait_point;
    pthread_mutex_unlock(&surface->device->lock);
    return wait_complete(surface, &wait_point, deadline);
}

vks_status vks_surface_wait_complete(vks_surface *surface, uint64_t deadline)
{
    return as_waiter(surface, wait_ownership_complete, deadline);
}

static vks_status wait_ownership_submittable(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    for (;;) {
        uint32_t seq = vks_mutex_prepare_value_wait(surface->handle.page);
        vks_status status = watch(surface), why;
        pthread_mutex_lock(&device->lock);
        if (!(why = vks_surface_check(surface)) && !surface->owned)
            why = vks_surface_not_owned(surface);
        vks_readiness ready = why ? VKS_FAIL : vks_ownership_ready(surface, &why);
        pthread_mutex_unlock(&device->lock);
        if (ready != VKS_HOLD)
            return ready == VKS_READY ? VKS_OK : why;
        if (status || (status = sleep_on_values(surface->handle.page, seq, deadline)))
            return status;
    }
}

vks_status vks_surface_wait_submittable(vks_surface *surface, uint64_t deadline)
{
    return as_waiter(surface, wait_ownership_submittable, deadline);
}

/* ---- closing ---- */

void vks_surface_finish_releases(vks_surface *surface, uint64_t deadline)
{
    vks_device *device = surface->device;
    if (surface->process != vks_process || !vks_device_enter(device)) /* already closed */
        return;
    if (!surface->closed && surface->held && !surface->has_page)
        while (vks_device_finish_releases(device, surface, deadline))
            ;
    vks_device_leave(device);
}

uint64_t vks_surface_close(vks_surface *surface)
{
    vks_surface_finish_releases(surface, vks_now() + VKS_RELEASE_GRACE_NS);
    return vks_surface_close_now(surface);
}

uint64_t vks_surface_close_now(vks_surface *surface)
{
    vks_device *device = surface->device;
    if (surface->process != vks_process || !vks_device_enter(device)) /* already closed */
        return surface->last_serial;
    pthread_mutex_lock(&device->lock);
    if (surface->closed) {
        pthread_mutex_unlock(&device->lock);
        vks_device_leave(device);
        return surface->last_serial;
    }
    fail_held(surface, false, VKS_CLOSED);
    surface->closed = true;
    vks_scheduler_run(device); /* the watcher drops this page */
    bool had = surface->has_page;
    surface->has_page = surface->pending = false;
    surface->is_external = false;
    atomic_store(&surface->owned, 0);
    *(surface->previous ? &surface->previous->next : &device->surfaces) = surface->next;
    if (surface->next)
        surface->next->previous = surface->previous;
    uint64_t serial = atomic_load(&surface->handle.page->slots[surface->handle.slot].pending_value)
                          ? device->submitted
                          : surface->last_serial;
    pthread_mutex_unlock(&device->lock);

    /* No party may acquire the surface while this handle's work still runs. A driver's work ends;
     * that of a lost device needs no wait. */
    uint64_t limit = vks_now() + UINT64_C(10000000000);
    while (vks_device_wait_serial(device, serial, limit) == VKS_INTERRUPTED)
        ;
    pthread_mutex_lock(&device->lock);
    vks_device_publish(device); /* completes this handle's values */
    while ((vks_device_awaits_external(device, VKS_COMPLETION_SURFACE, surface, 0) ||
            vks_device_awaits_external(device, VKS_COMPLETION_SURFACE_WAIT, surface, 0)) &&
           vks_now() < limit) {
        pthread_mutex_unlock(&device->lock);
        usleep(200); /* external signals are polled, and their API may wait for a dead process's value */
        pthread_mutex_lock(&device->lock);
        vks_device_publish(device);
    }
    vks_device_drop_external_completions(device, surface, 0);
    pthread_mutex_unlock(&device->lock);
    if (had)
        vks_mutex_abandon(&surface->handle);
    while (atomic_load(&surface->waiting)) {
        vks_mutex_wake_all(surface->handle.page);
        vks_mutex_complete(&surface->handle, 0, 0); /* wakes the threads that wait for values */
        sched_yield();
    }
    vks_peers_remove(&surface->mapping);
    vks_mutex_leave(&surface->handle);
    pthread_mutex_lock(&device->lock);
    drop_semaphore(surface);
    if (surface->engine_semaphore)
        device->backend->destroy_timeline(device, surface->engine_semaphore);
    surface->engine_semaphore = 0;
    pthread_mutex_unlock(&device->lock);
    vks_device_leave(device);
    return serial;
}
