/* swapchain.c: frames out and back in. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/trace_points.h"
#include "present.h"

/* A thread that waits for an image lets others present now and then. */
#define SLICE_NS UINT64_C(4000000)
#define NAP_NS UINT64_C(500000)
#define PACE_SLICE_NS UINT64_C(20000000)

/* Between a status and the caller: the swapchain is out of date, recreate it. Never leaves this file. */
#define STALE ((vks_status) - 1)

/* ---- its lock ---- */

/* A frame that is dropped. Under the device's lock too. */
static void put_back(vks_swapchain *s, vks_chain_image *image)
{
    image->is_returned = image->by_engine = false;
    image->n_read = image->is_captured ? image->frame.n_rendered : image->n_read;
    image->state = s->info.vulkan ? VKS_IMAGE_SHELVED : VKS_IMAGE_AWAY;
    s->counts.acquired -= !image->is_captured;
    s->shelved += s->info.vulkan != NULL;
}

/* Frames that came back while another thread had the lock. */
static void take_returned(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    s->has_returned = false;
    for (uint32_t i = 0; s->current && i < s->current->n; i++)
        if (s->current->images[i].is_returned && s->current->images[i].state == VKS_IMAGE_ACQUIRED)
            put_back(s, &s->current->images[i]);
    pthread_mutex_unlock(&s->device->lock);
}

static vks_status wait_for_lock(vks_swapchain *s, uint64_t deadline)
{
    for (;;) {
        uint64_t now = vks_now(), locked = s->locked_since, since = locked ? locked : now;
        uint64_t limit = since + VKS_LONGEST_PRESENT_NS;
        limit = deadline < limit ? deadline : limit;
        if (now >= limit)
            return vks_fail(VKS_TIMEOUT, 0,
                            "another thread has the swapchain for %llu ms: the driver waits for the window system, or "
                            "for the rendering",
                            (unsigned long long)((now - since) / 1000000u));
        uint64_t left = limit - now, slice = vks_interrupt_interval();
        slice = slice && slice < left ? slice : left;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        uint64_t nanoseconds = (uint64_t)until.tv_nsec + slice;
        until.tv_sec += (time_t)(nanoseconds / 1000000000u);
        until.tv_nsec = (long)(nanoseconds % 1000000000u);
        if (!pthread_mutex_timedlock(&s->lock, &until))
            return VKS_OK;
        if (slice < left)
            return VKS_INTERRUPTED;
    }
}

static void note_locked(vks_swapchain *s)
{
    s->locked_since = vks_now();
    if (__builtin_expect(s->has_returned, 0))
        take_returned(s);
}

static void unlock_swapchain(vks_swapchain *s)
{
    s->locked_since = 0;
    pthread_mutex_unlock(&s->lock);
}

/* A thread that is inside the driver has it as well. */
static vks_status lock_swapchain(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = pthread_mutex_trylock(&s->lock) ? wait_for_lock(s, deadline) : VKS_OK;
    if (status)
        return status;
    note_locked(s);
    return VKS_OK;
}

/* ---- making one ---- */

static const char *load(vks_swapchain *s)
{
    vks_vulkan_handles handles = vks_vulkan_get_handles(s->device);
    s->vk_device = (VkDevice)(uintptr_t)handles.device;
    s->vk_queue = (VkQueue)(uintptr_t)handles.queue;
    PFN_vkGetDeviceProcAddr get;
    memcpy(&get, &handles.get_device_proc_addr, sizeof get);
    memcpy(&s->vk.GetCapabilities, &s->vulkan.get_capabilities, sizeof s->vk.GetCapabilities);
    if (!s->vk.GetCapabilities)
        return "vkGetPhysicalDeviceSurfaceCapabilitiesKHR";
#define LOAD(name)                                                                                                     \
    if (!(s->vk.name = (PFN_vk##name)get(s->vk_device, "vk" #name)))                                                   \
        return "vk" #name;
    VKS_PRESENT_FUNCTIONS(LOAD)
#undef LOAD
    if (s->vulkan.can_name)
        s->vk.SetName = (PFN_vkSetDebugUtilsObjectNameEXT)get(s->vk_device, "vkSetDebugUtilsObjectNameEXT");
    return NULL;
}

static vks_status open_vulkan(vks_swapchain *s)
{
    const char *missing = s->device->timeline ? load(s) : "vkCreateSwapchainKHR";
    if (missing)
        return vks_fail(VKS_UNSUPPORTED, 0, "the device has no %s: it was made without VK_KHR_swapchain", missing);
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = s->vulkan.queue_family};
    return vks_present_result(s, s->vk.CreateCommandPool(s->vk_device, &info, NULL, &s->commands),
                              "vkCreateCommandPool");
}

/* Without images, or in place of the one before: vks_swapchain_new_ring(). */
static vks_status open_ring(vks_swapchain *s, const vks_chain *like)
{
    vks_chain *ring = malloc(sizeof *ring);
    if (!ring)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    *ring = *like;
    ring->shown = UINT32_MAX;
    pthread_mutex_lock(&s->device->lock);
    s->chains = s->current = ring;
    pthread_mutex_unlock(&s->device->lock);
    return VKS_OK;
}

static void free_swapchain(vks_swapchain *s)
{
    if (s->history)
        vks_history_destroy(s->history);
    pthread_mutex_destroy(&s->lock);
    vks_device_unref(s->device);
    free(s);
}

vks_status vks_swapchain_create(const vks_swapchain_info *info, vks_swapchain **out)
{
    vks_status status = vks_device_check(info->device);
    if (status)
        return status;
    if (!info->image_count || info->image_count > VKS_SWAPCHAIN_IMAGES || !info->frames_in_flight ||
        info->frames_in_flight > VKS_MOST_IN_FLIGHT || !info->retired_limit)
        return vks_fail(
            VKS_BAD_VALUE, 0, "image_count is %u (1 to %u), frames_in_flight %u (1 to %u), retired_limit %u",
            info->image_count, VKS_SWAPCHAIN_IMAGES, info->frames_in_flight, VKS_MOST_IN_FLIGHT, info->retired_limit);
    vks_swapchain *s = calloc(1, sizeof *s);
    if (!s)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a swapchain");
    s->device = info->device;
    vks_device_ref(s->device);
    s->references = 1;
    s->process = vks_process;
    s->number = vks_trace_next();
    s->info = *info;
    pthread_mutex_init(&s->lock, NULL);
    atomic_init(&s->wanted, (uint64_t)info->width << 32 | info->height);
    if (info->vulkan) {
        s->vulkan = *info->vulkan;
        atomic_init(&s->mode, s->vulkan.present_mode);
        s->info.vulkan = &s->vulkan;
    }
    if (!vks_device_enter(s->device)) {
        free_swapchain(s);
        return VKS_CLOSED;
    }
    if (info->vulkan) {
        status = vks_history_create(s->vulkan.policy, info->fence_deadline, &s->history);
        if (!status)
            status = open_vulkan(s);
    } else {
        status = open_ring(s, &(vks_chain){0});
    }
    vks_device_leave(s->device);
    if (status)
        free_swapchain(s);
    else
        *out = s;
    return status;
}

void vks_swapchain_ref(vks_swapchain *s) { atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed); }

/* ---- the end ---- */

static void drop_ring(vks_swapchain *s)
{
    vks_chain *ring = s->current;
    pthread_mutex_lock(&s->device->lock);
    s->chains = s->current = NULL;
    for (uint32_t i = 0; ring && i < ring->n; i++)
        if (ring->images[i].surface)
            vks_surface_set_accessible(ring->images[i].surface, false);
    pthread_mutex_unlock(&s->device->lock);
    for (uint32_t i = 0; ring && i < ring->n; i++)
        if (ring->images[i].surface)
            vks_surface_unref(ring->images[i].surface);
    free(ring);
}

static vks_status drain(vks_swapchain *s)
{
    vks_status status = vks_device_drain(s->device, s->device->submitted, s->finishing.since + VKS_LONGEST_PRESENT_NS);
    return status == VKS_TIMEOUT
               ? vks_fail(VKS_TIMEOUT, 0,
                          "what was submitted to the device has not run for 10 s: the driver hangs, or waits for a "
                          "semaphore that nothing signals; close() again")
               : status;
}

#define GIVEN_UP_NS UINT64_C(1000000000)

/* A retarget that was interrupted may never go on: its deadlines are not those of frames that were presented since. */
static void begin_or_go_on(vks_swapchain *s)
{
    struct vks_finishing *f = &s->finishing;
    uint64_t now = vks_now();
    bool is_given_up = s->frames != f->frames && now - f->last >= GIVEN_UP_NS;
    if (!f->since || is_given_up)
        *f = (struct vks_finishing){
            .since = now, .frames = s->frames, .left = UINT64_MAX, .patience = now + s->info.proof_deadline};
    f->last = now;
}

/* What is left without proof waits for our own work at least. VKS_TIMEOUT: that does not end. */
static vks_status end_presents(vks_swapchain *s)
{
    vks_device *device = s->device;
    begin_or_go_on(s);
    vks_status status = device->lost ? drain(s) : VKS_OK; /* what has run proves more */
    if (status || (status = vks_finish_presents(s, s->finishing.since + s->info.proof_deadline)))
        return status;
    vks_chain *current = s->current;
    if (current) {
        pthread_mutex_lock(&device->lock);
        if ((status = vks_device_begin_present(device, VKS_FOREVER))) {
            pthread_mutex_unlock(&device->lock);
            return status;
        }
        for (uint32_t i = 0; i < current->n; i++) {
            vks_chain_image *image = &current->images[i];
            if (image->surface)
                vks_surface_set_accessible(image->surface, false);
            if ((image->frame.acquired || image->engine[0]) && vks_device_check(device) == VKS_OK)
                vks_submit_frame(s, image, 0); /* A19: an acquire's semaphore ends waited for */
        }
        vks_device_end_present(device);
        pthread_mutex_unlock(&device->lock);
    }
    return drain(s);
}

/* Of the current chain: those that no present and no submission has. What is signalled, and waited for by nobody, is
 * never used again. */
static void take_frame_semaphores(vks_swapchain *s)
{
    for (uint32_t i = 0; s->current && i < s->current->n; i++) {
        vks_chain_image *image = &s->current->images[i];
        if (!image->frame.acquired)
            vks_put_semaphore(s, image->acquire_semaphore);
        else
            vks_spoil_semaphore(s, image->acquire_semaphore);
        vks_put_semaphore(s, image->frame.spare);
        for (uint32_t n = 0; n < image->frame.n_rendered; n++)
            vks_spoil_semaphore(s, image->frame.rendered[n]);
        for (int n = 0; n < 2; n++)
            vks_spoil_semaphore(s, image->engine[n]);
        memset(image->engine, 0, sizeof image->engine);
        image->acquire_semaphore = image->frame.spare = image->frame.acquired = 0;
        image->frame.n_rendered = 0;
    }
}

/* The chains first, then what their presents used. Unless it answers VKS_OK everything is as it was, but for frames
 * that were out. */
static vks_status drop_vulkan(vks_swapchain *s)
{
    vks_device *device = s->device;
    vks_status status = end_presents(s);
    if (status)
        return status;
    s->finishing.since = 0;
    pthread_mutex_lock(&device->lock);
    s->is_ending = true;
    take_frame_semaphores(s);
    vks_history_close(s->history);
    s->current = NULL;
    s->counts.acquired = s->shelved = 0;
    vks_follow_decisions(s);
    if (!vks_wait_for_pins(s))
        s->dead = NULL; /* leaked: better than a crash in the recording */
    pthread_mutex_unlock(&device->lock);
    vks_bury_chains(s);
    pthread_mutex_lock(&device->lock);
    vks_destroy_spoiled(s);
    s->is_ending = false;
    pthread_mutex_unlock(&device->lock);
    return VKS_OK;
}

static vks_status end_vulkan(vks_swapchain *s)
{
    vks_status status = drop_vulkan(s);
    if (status)
        return status;
    pthread_mutex_lock(&s->device->lock);
    vks_destroy_pools(s);
    pthread_mutex_unlock(&s->device->lock);
    s->vk.DestroyCommandPool(s->vk_device, s->commands, NULL);
    return VKS_OK;
}

vks_status vks_swapchain_try_close(vks_swapchain *s)
{
    if (s->process != vks_process || s->is_ended)
        return VKS_OK;
    atomic_store(&s->is_closed, true);
    bool inside = vks_device_enter(s->device);
    vks_status status = lock_swapchain(s, VKS_FOREVER);
    if (!status) {
        if (!s->is_ended && !s->info.vulkan)
            drop_ring(s);
        else if (!s->is_ended && inside)
            status = end_vulkan(s);
        s->is_ended = !status;
        unlock_swapchain(s);
    }
    if (inside)
        vks_device_leave(s->device);
    return status;
}

void vks_swapchain_close(vks_swapchain *s)
{
    while (vks_swapchain_try_close(s) == VKS_INTERRUPTED)
        ;
}

void vks_swapchain_unref(vks_swapchain *s)
{
    if (atomic_fetch_sub(&s->references, 1) != 1)
        return;
    vks_swapchain_close(s);
    if (s->is_ended || s->process != vks_process)
        free_swapchain(s);
    else /* it is leaked, with what the driver has of it */
        s->device->swapchain_leaked = true;
}

/* ---- state ---- */

static vks_status check(const vks_swapchain *s)
{
    if (__builtin_expect(s->process != vks_process, 0))
        return VKS_FORKED;
    if (__builtin_expect(atomic_load_explicit(&s->is_closed, memory_order_relaxed), 0))
        return VKS_CLOSED;
    vks_status status = vks_device_check(s->device);
    if (!status && __builtin_expect(atomic_load_explicit(&s->is_lost, memory_order_relaxed), 0))
        return vks_fail(VKS_SURFACE_LOST, VK_ERROR_SURFACE_LOST_KHR, "the window is gone");
    return status;
}

/* Round every call that uses the driver. */
static vks_status enter(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = check(s);
    if (status)
        return status;
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    if (!(status = lock_swapchain(s, deadline)) && (status = check(s)))
        unlock_swapchain(s);
    if (status)
        vks_device_leave(s->device);
    return status;
}

static vks_status leave(vks_swapchain *s, vks_status status)
{
    unlock_swapchain(s);
    vks_device_leave(s->device);
    if (__builtin_expect(status == VKS_DEVICE_LOST, 0))
        vks_device_mark_lost(s->device);
    return status;
}

vks_status vks_swapchain_resize(vks_swapchain *s, uint32_t width, uint32_t height)
{
    vks_status status = check(s);
    if (!status)
        atomic_store(&s->wanted, (uint64_t)width << 32 | height);
    return status;
}

vks_status vks_swapchain_set_mode(vks_swapchain *s, uint32_t present_mode)
{
    vks_status status = check(s);
    if (!status)
        atomic_store(&s->mode, present_mode);
    return status;
}

void vks_swapchain_lose(vks_swapchain *s)
{
    if (s->process == vks_process)
        atomic_store(&s->is_lost, true);
}

vks_status vks_swapchain_retarget(vks_swapchain *s, uint64_t surface)
{
    if (s->process != vks_process)
        return VKS_FORKED;
    if (atomic_load(&s->is_closed))
        return VKS_CLOSED;
    vks_status status = vks_device_check(s->device);
    if (status)
        return status;
    if (!s->info.vulkan) { /* the frames that are out were drawn for another target */
        if ((status = lock_swapchain(s, VKS_FOREVER)))
            return status;
        drop_ring(s);
        status = open_ring(s, &(vks_chain){0});
        s->made_for = 0;
        s->counts.acquired = 0;
        atomic_store(&s->is_lost, surface == 0 || status);
        unlock_swapchain(s);
        return status;
    }
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    if ((status = lock_swapchain(s, VKS_FOREVER))) {
        vks_device_leave(s->device);
        return status;
    }
    vks_history *fresh = NULL;
    if (!(status = vks_history_create(s->vulkan.policy, s->info.fence_deadline, &fresh)) && (status = drop_vulkan(s))) {
        vks_history_destroy(fresh);
    } else if (!status) {
        vks_history_destroy(s->history);
        s->history = fresh;
        s->vulkan.surface = surface;
        s->is_stale = false;
        atomic_store(&s->is_lost, surface == 0);
    }
    return leave(s, status);
}

/* A13: whether a present of the chain can change to that mode: it was made with both. */
static bool may_change_mode(const vks_swapchain *s, const vks_chain *chain, uint32_t mode)
{
    return vks_mode_is_listed(s, chain->mode) && vks_mode_is_listed(s, mode);
}

static bool is_current(const vks_swapchain *s)
{
    const vks_chain *chain = s->current;
    uint32_t mode = atomic_load(&s->mode);
    return chain && !s->is_stale && s->made_for == atomic_load(&s->wanted) &&
           (chain->mode == mode || may_change_mode(s, chain, mode));
}

vks_status vks_swapchain_prepare(vks_swapchain *s, uint64_t deadline)
{
    vks_status status = enter(s, deadline);
    if (status)
        return status;
    if (s->info.vulkan && !is_current(s))
        status = vks_swapchain_configure(s, deadline);
    return leave(s, status);
}

/* ---- acquire ---- */

/* `to_capture`: to be read, so that it stays what is shown. */
static void hand_out(vks_swapchain *s, uint32_t index, bool to_capture, vks_frame *out)
{
    vks_chain *chain = s->current;
    vks_chain_image *image = &chain->images[index];
    pthread_mutex_lock(&s->device->lock);
    s->shelved -= image->state == VKS_IMAGE_SHELVED;
    s->counts.acquired += !to_capture;
    image->is_captured = to_capture;
    image->n_read = image->frame.n_rendered ? image->n_read : 0;
    image->state = VKS_IMAGE_ACQUIRED;
    if (chain->shown == index && !to_capture)
        chain->shown = UINT32_MAX; /* it may be drawn over, and never be presented again */
    image->is_returned = false;
    if (image->surface)
        vks_surface_set_accessible(image->surface, true);
    pthread_mutex_unlock(&s->device->lock);
    *out = (vks_frame){index, chain->width, chain->height, chain->generation};
}

/* Whether a headless target keeps the image that it shows, for capture(): unless there is nothing else to draw into. */
static bool is_kept(const vks_swapchain *s, uint32_t index)
{
    const vks_chain *chain = s->current;
    return s->info.vulkan && s->vulkan.sizes_itself && index == chain->shown && s->counts.acquired + 1 < chain->n;
}

static bool take_shelved(vks_swapchain *s, vks_frame *out)
{
    if (!s->shelved)
        return false;
    for (uint32_t i = 0; i < s->current->n; i++)
        if (s->current->images[i].state == VKS_IMAGE_SHELVED && !is_kept(s, i)) {
            hand_out(s, i, false, out);
            return true;
        }
    return false;
}

/* A10. */
static vks_status wait_in_flight(vks_swapchain *s, uint64_t deadline)
{
    uint64_t serial = s->in_flight[s->frames % s->info.frames_in_flight];
    if (!serial || s->device->backend->completed(s->device) >= serial)
        return VKS_OK;
    if (!deadline)
        return VKS_TIMEOUT;
    pthread_mutex_lock(&s->device->lock);
    s->counts.acquire_waits++;
    pthread_mutex_unlock(&s->device->lock);
    return vks_device_wait_serial(s->device, serial, deadline);
}

/* How many images can be out at a time. What a ring shows stays, unless there is nothing else. */
static uint32_t most_acquired(const vks_swapchain *s)
{
    const vks_chain *chain = s->current;
    return chain->n - (!s->info.vulkan && chain->n > 1 && chain->shown < chain->n);
}

/* Sleeps until the next frame is due, in slices. */
static vks_status wait_for_pace(vks_swapchain *s, uint64_t deadline)
{
    uint64_t due = atomic_load_explicit(&s->due, memory_order_relaxed), now;
    if (!atomic_load_explicit(&s->pace, memory_order_relaxed) || (now = vks_now()) >= due)
        return VKS_OK;
    uint64_t until = now + PACE_SLICE_NS < due ? now + PACE_SLICE_NS : due;
    until = until < deadline ? until : deadline;
    if (until <= now)
        return VKS_TIMEOUT;
    struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    if (until == due)
        return VKS_OK;
    return until == deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
}

/* A frame went out: the next is due one interval after this one was; who came late starts anew. */
static void keep_pace(vks_swapchain *s)
{
    uint64_t pace = atomic_load_explicit(&s->pace, memory_order_relaxed);
    if (!pace)
        return;
    uint64_t due = atomic_load(&s->due), now = vks_now();
    atomic_store(&s->due, (now > due + pace ? now : due) + pace);
}

void vks_swapchain_set_pace(vks_swapchain *s, uint64_t interval)
{
    atomic_store(&s->pace, interval);
    atomic_store(&s->due, vks_now());
}

static vks_status acquire_from_ring(vks_swapchain *s, vks_frame *out)
{
    vks_chain *ring = s->current;
    for (uint32_t i = 0; i < ring->n; i++) {
        uint32_t index = (ring->shown + 1 + i) % ring->n; /* UINT32_MAX + 1 is 0 */
        if (ring->images[index].state != VKS_IMAGE_AWAY || (index == ring->shown && ring->n > 1))
            continue;
        hand_out(s, index, false, out);
        return VKS_OK;
    }
    return VKS_TIMEOUT;
}

/* The driver's next image goes on the shelf. A9: suboptimal is good enough for a frame. */
static vks_status shelve_next(vks_swapchain *s, uint64_t timeout, uint32_t *index, bool *is_suboptimal)
{
    uint64_t semaphore;
    pthread_mutex_lock(&s->device->lock);
    vks_status status = vks_take_semaphore(s, &semaphore);
    pthread_mutex_unlock(&s->device->lock);
    if (status)
        return status;
    VkResult code = s->vk.AcquireNextImageKHR(s->vk_device, (VkSwapchainKHR)(uintptr_t)s->current->handle, timeout,
                                              (VkSemaphore)(uintptr_t)semaphore, VK_NULL_HANDLE, index);
    *is_suboptimal = code == VK_SUBOPTIMAL_KHR;
    pthread_mutex_lock(&s->device->lock);
    if (code == VK_SUCCESS || *is_suboptimal) {
        vks_chain_image *image = &s->current->images[*index];
        image->acquire_semaphore = image->frame.acquired = semaphore;
        image->frame.waited = 0;
        image->by_engine = false;
        image->state = VKS_IMAGE_SHELVED;
        s->shelved++;
    } else {
        vks_put_semaphore(s, semaphore);
    }
    pthread_mutex_unlock(&s->device->lock);
    switch (code) {
    case VK_SUBOPTIMAL_KHR:
        return VKS_OK;
    case VK_TIMEOUT:
    case VK_NOT_READY:
        return VKS_TIMEOUT;
    case VK_ERROR_OUT_OF_DATE_KHR:
        return STALE;
    default:
        return vks_present_result(s, code, "vkAcquireNextImageKHR");
    }
}

static vks_status acquire_from_driver(vks_swapchain *s, uint64_t timeout, vks_frame *out)
{
    uint32_t index = 0;
    bool is_suboptimal;
    vks_status status = shelve_next(s, timeout, &index, &is_suboptimal);
    if (!status && !is_suboptimal && is_kept(s, index))
        status = shelve_next(s, timeout, &index, &is_suboptimal); /* which cannot be the same */
    if (!status)
        hand_out(s, index, false, out);
    return status;
}

/* All that the driver could give are out or on the shelf, and one of them is with capture(), which soon gives it back.
 */
static bool comes_from_capture(const vks_swapchain *s)
{
    bool is_any_captured = false;
    for (uint32_t i = 0; i < s->current->n; i++) {
        const vks_chain_image *image = &s->current->images[i];
        if (image->state == VKS_IMAGE_AWAY)
            return false;
        is_any_captured |= image->state == VKS_IMAGE_ACQUIRED && image->is_captured;
    }
    return is_any_captured;
}

static vks_status acquire_once(vks_swapchain *s, uint64_t timeout, vks_frame *out)
{
    if (!s->info.vulkan)
        return acquire_from_ring(s, out);
    return comes_from_capture(s) ? VKS_TIMEOUT : acquire_from_driver(s, timeout, out);
}

static vks_status acquire_image(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    if (s->counts.acquired >= most_acquired(s) && deadline == VKS_FOREVER)
        return vks_fail(VKS_BAD_CALL, 0,
                        "all %u images are acquired: present or close a frame first, or give a timeout",
                        most_acquired(s));
    uint64_t slice = vks_slice(deadline, SLICE_NS);
    vks_status status = acquire_once(s, slice, out);
    if (status != VKS_TIMEOUT || !slice)
        return status;
    return vks_now() >= deadline ? VKS_TIMEOUT : VKS_INTERRUPTED;
}

static vks_status check_ring(const vks_swapchain *s, vks_frame *out)
{
    uint64_t wanted = atomic_load(&s->wanted);
    *out = (vks_frame){.width = (uint32_t)(wanted >> 32), .height = (uint32_t)wanted};
    if (!(wanted >> 32) || !(uint32_t)wanted)
        return VKS_HIDDEN;
    return s->made_for == wanted ? VKS_OK : VKS_OUTDATED;
}

/* A6: there is no room for another chain, and the one that there is still gives images, if of the wrong size. */
static bool may_go_on(const vks_swapchain *s, vks_status status, uint64_t deadline)
{
    return status == VKS_TIMEOUT && s->info.vulkan && s->current && !s->current->is_out_of_date && s->proof_until &&
           s->proof_until <= vks_now() && deadline > vks_now();
}

static vks_status acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    int attempts = s->has_tried ? 1 : 2; /* A9 */
    s->has_tried = false;
    while (attempts-- > 0) {
        vks_status status = s->info.vulkan ? VKS_OK : check_ring(s, out);
        if (!status && s->info.vulkan && !is_current(s))
            status = vks_swapchain_configure(s, deadline);
        if (status && !may_go_on(s, status, deadline))
            return status;
        if (take_shelved(s, out))
            return VKS_OK;
        if ((status = acquire_image(s, deadline, out)) != STALE)
            return status;
        s->is_stale = s->current->is_out_of_date = true;
    }
    return vks_fail(VKS_VULKAN_ERROR, VK_ERROR_OUT_OF_DATE_KHR, "vkAcquireNextImageKHR, on a swapchain just made");
}

static void trace_frame(vks_trace_kind kind, const vks_swapchain *s, const vks_frame *frame, uint64_t began,
                        vks_status status)
{
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted(s->number, began);
    if (status == VKS_INTERRUPTED || status == VKS_TIMEOUT)
        return;
    vks_trace_record record = {.kind = (uint16_t)kind,
                               .status = (uint16_t)status,
                               .device = s->device->number,
                               .begin = vks_trace_resume(s->number, began),
                               .end = vks_now(),
                               .object = s->number};
    if (status == VKS_OK) {
        record.value = frame->index;
        record.key = frame->generation;
    }
    vks_trace_write(&record);
}

/* Others go on meanwhile. */
static void nap(uint64_t deadline)
{
    uint64_t until = vks_now() + NAP_NS;
    usleep((useconds_t)((until < deadline ? NAP_NS : 0) / 1000));
}

static vks_status wait_and_acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_status status = check(s);
    if (status || (status = wait_for_pace(s, deadline)) ||
        (status = wait_in_flight(s, deadline))) /* without the lock: others may present meanwhile */
        return status;
    if ((status = enter(s, deadline)))
        return status;
    if (!(status = leave(s, acquire(s, deadline, out))))
        keep_pace(s);
    if (status == VKS_INTERRUPTED) /* some drivers do not wait */
        nap(deadline);
    return status;
}

vks_status vks_swapchain_acquire(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    uint64_t began = vks_trace_begin();
    vks_status status = wait_and_acquire(s, deadline, out);
    VKS_TRACE(began, trace_frame(VKS_TRACE_FRAME, s, out, began, status));
    return status;
}

/* VKS_INTERRUPTED: another thread's capture has it, or another thread presents soon, or the driver has it still. It is
 * not waited for in the driver: others would wait for the lock. */
static vks_status acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    const vks_chain *chain = s->current;
    bool is_late = vks_now() >= deadline;
    if (!chain || chain->shown >= chain->n) {
        if (chain && s->frames && !is_late)
            return VKS_INTERRUPTED;
        return vks_fail(VKS_BAD_CALL, 0,
                        "nothing was presented since the last resize, or all images are acquired, the shown one too: "
                        "present a frame first");
    }
    uint32_t shown = chain->shown, index;
    bool is_suboptimal;
    vks_status status = chain->images[shown].state == VKS_IMAGE_ACQUIRED ? VKS_TIMEOUT : VKS_OK;
    while (!status && s->info.vulkan && chain->images[shown].state == VKS_IMAGE_AWAY)
        status = shelve_next(s, 0, &index, &is_suboptimal);
    if (!status)
        hand_out(s, shown, true, out);
    if (status == STALE)
        return vks_fail(VKS_BAD_CALL, 0, "the window has changed: its images are out of date");
    return status == VKS_TIMEOUT && !is_late ? VKS_INTERRUPTED : status;
}

vks_status vks_swapchain_acquire_shown(vks_swapchain *s, uint64_t deadline, vks_frame *out)
{
    vks_status status = enter(s, deadline);
    if (status)
        return status;
    status = leave(s, acquire_shown(s, deadline, out));
    if (status == VKS_INTERRUPTED)
        nap(deadline);
    return status;
}

static vks_status acquire_soon(vks_swapchain *s, vks_frame *out)
{
    vks_status status = check(s);
    if (status || (status = wait_for_pace(s, 0)) || (status = wait_in_flight(s, 0)))
        return status;
    if (!vks_device_enter(s->device))
        return VKS_CLOSED;
    if (pthread_mutex_trylock(&s->lock)) {
        vks_device_leave(s->device);
        return VKS_TIMEOUT;
    }
    note_locked(s);
    if (!(status = check(s))) {
        if (s->info.vulkan ? !is_current(s) : check_ring(s, out))
            status = VKS_TIMEOUT;
        else if (!take_shelved(s, out))
            status = acquire_image(s, 0, out);
    }
    if (status == STALE) {
        s->is_stale = s->current->is_out_of_date = s->has_tried = true;
        status = VKS_TIMEOUT;
    } else if (!status) {
        keep_pace(s);
    }
    return leave(s, status);
}

vks_status vks_swapchain_acquire_soon(vks_swapchain *s, vks_frame *out)
{
    uint64_t began = vks_trace_begin();
    vks_status status = acquire_soon(s, out);
    VKS_TRACE(began, trace_frame(VKS_TRACE_FRAME, s, out, began, status));
    return status;
}

/* ---- frames that are out ---- */

static vks_status find(vks_swapchain *s, const vks_frame *frame, vks_chain_image **out)
{
    vks_chain *chain = s->current;
    if (!chain || frame->generation != chain->generation || frame->index >= chain->n)
        return vks_fail(VKS_BAD_CALL, 0, "the frame is of before the swapchain was resized: acquire another");
    *out = &chain->images[frame->index];
    return (*out)->state == VKS_IMAGE_ACQUIRED && !(*out)->is_returned
               ? VKS_OK
               : vks_fail(VKS_BAD_CALL, 0, "the frame was presented or closed already: acquire another");
}

vks_status vks_swapchain_drop(vks_swapchain *s, const vks_frame *frame)
{
    vks_chain_image *image;
    vks_status status = check(s);
    if (status)
        return status;
    bool locked = !pthread_mutex_trylock(&s->lock);
    if (locked)
        note_locked(s);
    pthread_mutex_lock(&s->device->lock); /* which is enough to see what is out */
    if (!(status = find(s, frame, &image))) {
        if (image->surface)
            vks_surface_set_accessible(image->surface, false);
        image->is_returned = true;
        if (locked)
            put_back(s, image);
        else
            s->has_returned = true; /* for who locks it next */
    }
    pthread_mutex_unlock(&s->device->lock);
    if (locked)
        unlock_swapchain(s);
    return status;
}

static vks_status make_view(vks_swapchain *s, vks_chain_image *image)
{
    VkImageViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = (VkImage)(uintptr_t)image->image,
        .viewType = VK_IMAGE_VIEW_TYPE_2D,
        .format = (VkFormat)s->vulkan.format,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1},
    };
    VkImageView view = VK_NULL_HANDLE;
    vks_status status =
        vks_present_result(s, s->vk.CreateImageView(s->vk_device, &info, NULL, &view), "vkCreateImageView");
    image->view = status ? 0 : (uint64_t)(uintptr_t)view;
    return status;
}

static vks_chain *chain_of(vks_swapchain *s, uint64_t generation, uint32_t index)
{
    vks_chain *chain = s->current;
    return chain && chain->generation == generation && index < chain->n ? chain : NULL;
}

vks_status vks_swapchain_image(vks_swapchain *s, uint32_t index, uint64_t generation, vks_frame_image *out)
{
    vks_status status = enter(s, VKS_FOREVER);
    if (status)
        return status;
    vks_chain *chain = chain_of(s, generation, index);
    if (!chain)
        return leave(
            s, vks_fail(VKS_BAD_CALL, 0, "the image is of before the swapchain was resized; acquire() another frame"));
    vks_chain_image *image = &chain->images[index];
    if (s->info.vulkan && s->vulkan.has_views && !image->view)
        status = make_view(s, image);
    *out = (vks_frame_image){image->image, image->view, chain->width, chain->height};
    return leave(s, status);
}

vks_status vks_swapchain_attach(vks_swapchain *s, uint32_t index, uint64_t generation, vks_surface *surface)
{
    if (surface->device != s->device)
        return VKS_FOREIGN_DEVICE;
    vks_status status = enter(s, VKS_FOREVER);
    if (status)
        return status;
    vks_chain *chain = chain_of(s, generation, index);
    if (!chain || chain->images[index].surface)
        return leave(s, vks_fail(VKS_BAD_CALL, 0, "image %u has a surface already, or is no more", index));
    vks_chain_image *image = &chain->images[index];
    if (!(status = vks_surface_present_from(surface, s->info.vulkan ? &image->frame : NULL))) {
        vks_surface_ref(surface);
        image->surface = surface;
        if (image->state == VKS_IMAGE_ACQUIRED)
            vks_surface_set_accessible(surface, true);
    }
    return leave(s, status);
}

vks_status vks_swapchain_new_ring(vks_swapchain *s, uint32_t width, uint32_t height, uint32_t image_count,
                                  uint64_t *generation)
{
    if (s->info.vulkan || !image_count || image_count > VKS_SWAPCHAIN_IMAGES)
        return vks_fail(VKS_BAD_CALL, 0, "a ring has 1 to %u images, and no window", VKS_SWAPCHAIN_IMAGES);
    vks_status status = enter(s, VKS_FOREVER);
    if (status)
        return status;
    uint64_t frames = s->generation;
    drop_ring(s);
    if (!(status = open_ring(
              s, &(vks_chain){.n = image_count, .width = width, .height = height, .generation = s->generation + 1}))) {
        s->generation++;
        s->counts.recreated += frames != 0;
        s->counts.most_alive = 1;
        s->counts.acquired = 0;
        s->made_for = (uint64_t)width << 32 | height;
        *generation = s->generation;
    }
    return leave(s, status);
}

vks_status vks_swapchain_pin(vks_swapchain *s, uint64_t generation)
{
    vks_status status = check(s);
    if (status)
        return status;
    bool found = false;
    pthread_mutex_lock(&s->device->lock);
    for (const vks_chain *chain = s->chains; chain; chain = chain->next)
        found |= chain->generation == generation;
    s->pins += found;
    pthread_mutex_unlock(&s->device->lock);
    return found
               ? VKS_OK
               : vks_fail(VKS_BAD_CALL, 0, "the image is of before the swapchain was resized; acquire() another frame");
}

void vks_swapchain_unpin(vks_swapchain *s)
{
    pthread_mutex_lock(&s->device->lock);
    s->pins--;
    pthread_mutex_unlock(&s->device->lock);
}

/* An engine may fail before its submission, and nothing tells. So it gets semaphores of its own, which nothing of ours
 * waits for: the acquire's is waited for here, and the present comes after a batch behind the engine's (close_frame).
 * With the queue. */
static vks_status give_to_engine(vks_swapchain *s, vks_chain_image *image)
{
    uint64_t given[2] = {0};
    vks_status status = vks_device_check(s->device);
    for (int i = 0; i < 2 && !status; i++)
        status = vks_take_semaphore(s, &given[i]);
    if (!status)
        status = vks_submit_frame(s, image, given[0]);
    if (status) {
        vks_put_semaphore(s, given[0]);
        vks_put_semaphore(s, given[1]);
        return status;
    }
    vks_part_with_engine(s, image, s->device->submitted); /* of a frame that came back */
    memcpy(image->engine, given, sizeof given);
    image->by_engine = true;
    return VKS_OK;
}

vks_status vks_swapchain_take_semaphores(vks_swapchain *s, const vks_frame *frame, uint64_t *acquired,
                                         uint64_t *rendered)
{
    vks_chain_image *image = NULL;
    *acquired = *rendered = 0;
    if (!s->info.vulkan)
        return vks_fail(VKS_UNSUPPORTED, 0, "an offscreen ring has no semaphores to wait for");
    vks_status status = enter(s, VKS_FOREVER);
    if (status)
        return status;
    pthread_mutex_lock(&s->device->lock);
    status = find(s, frame, &image);
    if (!status && !image->by_engine && image->frame.n_rendered > image->n_read)
        status =
            vks_fail(VKS_BAD_CALL, 0, "device.submit() has drawn into the frame: its semaphores are taken before that");
    if (!status && !image->by_engine && !(status = vks_device_begin_present(s->device, VKS_FOREVER))) {
        status = give_to_engine(s, image);
        vks_device_end_present(s->device);
    }
    if (!status) {
        *acquired = image->engine[0];
        *rendered = image->engine[1];
    }
    pthread_mutex_unlock(&s->device->lock);
    return leave(s, status);
}

/* ---- present ---- */

/* One more batch for the present to come after, whose signal it waits for. */
static vks_status submit_last(vks_swapchain *s, vks_chain_image *image)
{
    vks_presentable *frame = &image->frame;
    if (frame->n_rendered == VKS_FRAME_SEMAPHORES)
        return vks_submit_frame(s, image, frame->rendered[VKS_FRAME_SEMAPHORES - 1]);
    vks_status status = vks_refill_frame(frame);
    if (!status && !(status = vks_submit_frame(s, image, frame->spare))) {
        frame->rendered[frame->n_rendered++] = frame->spare;
        frame->spare = 0;
    }
    return status;
}

/* A batch that has what the present is to come after; its serial is the frame's. Under the device's lock. */
static vks_status close_frame(vks_swapchain *s, vks_chain_image *image, uint64_t *serial)
{
    vks_status status = VKS_OK;
    if (image->by_engine || !image->frame.n_rendered) /* behind whatever the engine submitted; nothing was drawn */
        status = submit_last(s, image);
    image->by_engine &= status != VKS_OK;
    *serial = image->surface ? image->surface->last_serial : s->device->submitted;
    return status;
}

static VkResult queue_present(vks_swapchain *s, vks_chain *chain, uint32_t index, VkFence fence, uint32_t *used_mode)
{
    const vks_presentable *frame = &chain->images[index].frame;
    VkSwapchainKHR handle = (VkSwapchainKHR)(uintptr_t)chain->handle;
    VkSemaphore semaphores[VKS_FRAME_SEMAPHORES];
    for (uint32_t i = 0; i < frame->n_rendered; i++)
        semaphores[i] = (VkSemaphore)(uintptr_t)frame->rendered[i];
    VkPresentModeKHR mode = (VkPresentModeKHR)atomic_load_explicit(&s->mode, memory_order_relaxed);
    VkSwapchainPresentModeInfoEXT mode_info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_MODE_INFO_EXT, .swapchainCount = 1, .pPresentModes = &mode};
    VkSwapchainPresentFenceInfoEXT fence_info = {
        .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT, .swapchainCount = 1, .pFences = &fence};
    VkPresentInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                             .waitSemaphoreCount = frame->n_rendered,
                             .pWaitSemaphores = semaphores,
                             .swapchainCount = 1,
                             .pSwapchains = &handle,
                             .pImageIndices = &index};
    if (fence)
        info.pNext = &fence_info;
    if (chain->mode != mode && may_change_mode(s, chain, mode)) { /* A13 */
        mode_info.pNext = info.pNext;
        info.pNext = &mode_info;
        *used_mode = mode;
    }
    vks_vulkan_lock_queue(s->device, true);
    VkResult code = s->vk.QueuePresentKHR(s->vk_queue, &info);
    vks_vulkan_lock_queue(s->device, false);
    return code;
}

/* A15: these run the present's waits and signal its fence, whatever became of the picture. */
static bool was_carried_out(VkResult code)
{
    return code == VK_SUCCESS || code == VK_SUBOPTIMAL_KHR || code == VK_ERROR_OUT_OF_DATE_KHR ||
           code == VK_ERROR_SURFACE_LOST_KHR || code == VK_ERROR_FULL_SCREEN_EXCLUSIVE_MODE_LOST_EXT;
}

static vks_status remember_present(vks_swapchain *s, vks_chain *chain, uint32_t index, uint64_t fence, uint64_t serial)
{
    vks_chain_image *image = &chain->images[index];
    vks_presentable *frame = &image->frame;
    vks_status status = vks_history_waited(s->history, index, frame->waited);
    if (!status && image->acquire_semaphore)
        status = vks_history_semaphore(s->history, image->acquire_semaphore, frame->waited, false);
    if (!status)
        status = vks_history_presented(s->history, index, frame->rendered, frame->n_rendered, fence, vks_now());
    vks_part_with_engine(s, image, serial);
    image->acquire_semaphore = 0;
    frame->n_rendered = 0;
    chain->was_presented = true;
    chain->shown = index;
    s->in_flight[s->frames++ % s->info.frames_in_flight] = serial;
    return status;
}

static void take_back(vks_swapchain *s, vks_chain_image *image)
{
    if (image->surface)
        vks_surface_set_accessible(image->surface, false);
    image->is_returned = false; /* too late: it is presented */
    image->state = VKS_IMAGE_AWAY;
    s->counts.acquired -= !image->is_captured;
}

/* A present that was carried out. */
static vks_status end_frame(vks_swapchain *s, vks_chain *chain, uint32_t index, VkResult code, uint64_t fence,
                            uint64_t serial)
{
    vks_status status = remember_present(s, chain, index, fence, serial);
    take_back(s, &chain->images[index]);
    if (code != VK_SUCCESS) {
        s->is_stale |= code != VK_SUBOPTIMAL_KHR || !chain->stays_so;
        chain->is_suboptimal |= code == VK_SUBOPTIMAL_KHR;
        chain->is_out_of_date |= code == VK_ERROR_OUT_OF_DATE_KHR;
        s->counts.lost_frames += code != VK_SUBOPTIMAL_KHR;
    }
    return code == VK_ERROR_SURFACE_LOST_KHR ? vks_present_result(s, code, "vkQueuePresentKHR") : status;
}

/* Nothing was done: the frame stays the caller's (A15). */
static vks_status keep_frame(vks_swapchain *s, vks_chain_image *image, VkResult code, uint64_t fence)
{
    if (fence)
        vks_put_fence(s, fence);
    if (image->surface)
        vks_surface_set_accessible(image->surface, true);
    if (code == VK_ERROR_DEVICE_LOST)
        vks_device_lose(s->device);
    return vks_present_result(s, code, "vkQueuePresentKHR");
}

/* Under the device's lock, which it lets go of while the driver presents: that may take as long as the rendering. */
static vks_status present_by_driver(vks_swapchain *s, vks_chain *chain, uint32_t index, uint64_t deadline)
{
    vks_device *device = s->device;
    vks_chain_image *image = &chain->images[index];
    uint64_t serial = 0, fence = 0;
    vks_status status = vks_device_begin_present(device, deadline);
    if (status)
        return status;
    if (!(status = vks_device_check(device)))
        status = close_frame(s, image, &serial);
    if (!status && s->vulkan.policy == VKS_PRESENTS_BY_FENCES)
        status = vks_take_fence(s, &fence);
    if (!status) {
        if (image->surface) /* nobody draws into it from here on */
            vks_surface_set_accessible(image->surface, false);
        pthread_mutex_unlock(&device->lock);
        uint32_t mode = chain->mode;
        VkResult code = queue_present(s, chain, index, (VkFence)(uintptr_t)fence, &mode);
        pthread_mutex_lock(&device->lock);
        if (was_carried_out(code))
            chain->mode = mode;
        status =
            was_carried_out(code) ? end_frame(s, chain, index, code, fence, serial) : keep_frame(s, image, code, fence);
    }
    vks_look_through(s);
    vks_device_end_present(device);
    return status;
}

static void present_to_ring(vks_swapchain *s, vks_chain *ring, uint32_t index)
{
    vks_chain_image *image = &ring->images[index];
    s->in_flight[s->frames++ % s->info.frames_in_flight] = image->surface ? image->surface->last_serial : 0;
    ring->shown = index;
    take_back(s, image);
}

/* Work of the frame that is held would come after the present. */
static vks_status wait_for_held(vks_swapchain *s, vks_surface *surface, uint64_t deadline)
{
    vks_status status = vks_device_wait_held(s->device, 0, surface, deadline);
    if (status == VKS_TIMEOUT)
        return vks_fail(VKS_TIMEOUT, 0, "work of the frame is held: it waits for a fence value that nobody has queued");
    return status;
}

static vks_status present(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    vks_chain_image *image;
    vks_status status = enter(s, deadline);
    if (status)
        return status;
    if (!(status = find(s, frame, &image)) && image->surface && image->surface->held) {
        vks_surface *surface = image->surface;
        vks_surface_ref(surface);
        leave(s, VKS_OK);
        status = wait_for_held(s, surface, deadline);
        vks_surface_unref(surface);
        if (status || (status = enter(s, deadline)))
            return status;
        status = find(s, frame, &image);
    }
    if (status)
        return leave(s, status);
    pthread_mutex_lock(&s->device->lock);
    if ((status = find(s, frame, &image))) /* it was dropped by another thread */
        ;
    else if (s->info.vulkan)
        status = present_by_driver(s, s->current, frame->index, deadline);
    else
        present_to_ring(s, s->current, frame->index);
    bool dead = s->dead != NULL;
    pthread_mutex_unlock(&s->device->lock);
    if (dead)
        vks_bury_chains(s);
    return leave(s, status);
}

vks_status vks_swapchain_present(vks_swapchain *s, const vks_frame *frame, uint64_t deadline)
{
    uint64_t began = vks_trace_begin();
    vks_status status = present(s, frame, deadline);
    VKS_TRACE(began, trace_frame(VKS_TRACE_PRESENT, s, frame, began, status));
    return status;
}

/* ---- statistics ---- */

void vks_swapchain_get_statistics(vks_swapchain *s, vks_swapchain_statistics *out)
{
    if (s->process != vks_process) {
        *out = (vks_swapchain_statistics){0};
        return;
    }
    vks_history_statistics history = {0};
    pthread_mutex_lock(&s->device->lock); /* alone: a present may last */
    if (s->history)
        vks_history_get_statistics(s->history, &history);
    *out = s->counts;
    out->generation = s->generation;
    out->frames = s->frames;
    for (const vks_chain *chain = s->chains; chain; chain = chain->next)
        out->swapchains++;
    out->retired = history.retired;
    out->history = history.presents;
    out->quarantined = history.quarantined;
    out->moved = history.moved;
    out->pooled_semaphores = s->semaphores.n;
    out->pooled_fences = s->fences.n;
    out->shown = UINT32_MAX;
    out->is_current = !s->info.vulkan || is_current(s);
    if (s->current) {
        out->shown = s->current->shown;
        out->image_count = s->current->n;
        out->width = s->current->width;
        out->height = s->current->height;
        out->present_mode = s->info.vulkan ? s->current->mode : 0;
    }
    pthread_mutex_unlock(&s->device->lock);
}
