#include "device/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/trace_points.h"

#define HELD_LIMIT 1024u

vks_status vks_device_new(const vks_device_info *info, vks_device **out)
{
    vks_platform_init();
    if (!vks_self())
        return vks_fail(VKS_OS_ERROR, errno,
                        "/proc/self/stat cannot be read: other parties could not detect the death of this process");
    vks_device *device = calloc(1, sizeof *device);
    if (!device)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a device");
    pthread_mutex_init(&device->lock, NULL);
    device->references = 1;
    device->process = vks_process;
    device->number = (uint32_t)vks_trace_next();
    device->held_limit = info->held_limit ? info->held_limit : HELD_LIMIT;
    device->max_difference = INT32_MAX; /* X1: the limit if the device reports none */
    snprintf(device->name, sizeof device->name, "%s", info->name ? info->name : "");
    *out = device;
    return VKS_OK;
}

void vks_device_ref(vks_device *device)
{
    VKS_NEEDS_OR(, device);
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
}

void vks_device_unref(vks_device *device)
{
    VKS_NEEDS_OR(, device);
    if (atomic_fetch_sub(&device->references, 1) != 1)
        return;
    if (device->gone && device->shut_down != VKS_SHUTDOWN_DONE && device->process == vks_process)
        return; /* a thread is still inside the driver */
    pthread_mutex_destroy(&device->lock);
    free(device->completions.ring);
    free(device->completions.external);
    free(device->scheduler);
    free(device->impl);
    free(device->engine);
    free(device);
}

vks_status vks_device_state(const vks_device *device)
{
    VKS_NEEDS(device);
    return vks_device_check(device);
}

uint64_t vks_device_submitted(vks_device *device)
{
    VKS_NEEDS_OR(0, device);
    if (device->process != vks_process)
        return device->submitted;
    pthread_mutex_lock(&device->lock); /* a batch may complete before its serial is counted */
    uint64_t submitted = device->submitted;
    pthread_mutex_unlock(&device->lock);
    return submitted;
}

uint64_t vks_device_completed(vks_device *device)
{
    VKS_NEEDS_OR(0, device);
    if (device->process != vks_process || !vks_device_enter(device))
        return device->submitted;
    uint64_t done = device->backend->completed(device);
    vks_device_leave(device);
    return done;
}

void vks_device_count_copy(vks_device *device, uint64_t bytes)
{
    VKS_NEEDS_OR(, device);
    if (device->process != vks_process)
        return;
    pthread_mutex_lock(&device->lock);
    device->statistics.copied_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
}

static uint64_t count(const vks_child *child)
{
    uint64_t n = 0;
    for (; child; child = child->next)
        n++;
    return n;
}

void vks_device_get_statistics(vks_device *device, vks_device_statistics *out)
{
    VKS_NEEDS_OR(, device, out);
    memset(out, 0, sizeof *out);
    if (device->process != vks_process)
        return;
    pthread_mutex_lock(&device->lock);
    *out = device->statistics;
    out->submitted = device->submitted;
    out->held = device->n_held;
    out->held_limit = device->held_limit;
    out->fences = count(device->children[VKS_FENCES]);
    out->surfaces = count(device->children[VKS_SURFACES]);
    pthread_mutex_unlock(&device->lock);
    out->completed = vks_device_completed(device);
}

/* ---- children ---- */

vks_status vks_device_adopt(vks_device *device, vks_child_kind kind, vks_child *child)
{
    vks_status status = vks_device_check(device);
    if (status)
        return status;
    child->previous = NULL;
    child->next = device->children[kind];
    if (child->next)
        child->next->previous = child;
    device->children[kind] = child;
    return VKS_OK;
}

void vks_device_disown(vks_device *device, vks_child_kind kind, vks_child *child)
{
    *(child->previous ? &child->previous->next : &device->children[kind]) = child->next;
    if (child->next)
        child->next->previous = child->previous;
}

void vks_device_poll_untracked(vks_device *device)
{
    if (!device->has_untracked_values)
        return;
    device->has_untracked_values = false; /* the children set it again */
    for (int kind = 0; kind < VKS_CHILD_KINDS; kind++)
        for (vks_child *child = device->children[kind]; child && child->class->poll && !device->lost;
             child = child->next)
            child->class->poll(child);
}

/* A close takes the child from its list. The lock is released meanwhile, because closing a mapping
 * waits for the peers' thread. Caller holds device->lock. */
static bool close_first(vks_device *device, vks_child_kind kind)
{
    vks_child *child = device->children[kind];
    if (!child)
        return false;
    child->class->ref(child);
    pthread_mutex_unlock(&device->lock);
    child->class->close(child);
    child->class->unref(child);
    pthread_mutex_lock(&device->lock);
    return true;
}

void vks_device_close_children(vks_device *device)
{
    pthread_mutex_lock(&device->lock);
    for (int kind = 0; kind < VKS_CHILD_KINDS; kind++) {
        while (close_first(device, (vks_child_kind)kind))
            ;
        vks_device_publish(device);
    }
    device->final = device->backend->completed(device);
    atomic_store(&device->gone, true);
    pthread_mutex_unlock(&device->lock);
}

/* ---- batches and serials ---- */

vks_status vks_device_submit(vks_device *device, vks_batch *batch)
{
    batch->serial = atomic_load_explicit(&device->submitted, memory_order_relaxed) + 1;
    vks_status status = device->backend->submit(device, batch);
    if (__builtin_expect(status == VKS_OK, 1))
        atomic_store_explicit(&device->submitted, batch->serial, memory_order_release);
    else if (status == VKS_DEVICE_LOST)
        vks_device_lose(device);
    return status;
}

vks_status vks_device_poll_serial(vks_device *device, uint64_t serial)
{
    if (device->process != vks_process)
        return VKS_FORKED;
    if (!vks_device_enter(device))
        return serial <= device->final ? VKS_OK : device->lost ? VKS_DEVICE_LOST : VKS_CLOSED;
    bool ran = device->backend->completed(device) >= serial;
    vks_device_leave(device);
    return ran ? VKS_OK : device->lost ? VKS_DEVICE_LOST : VKS_TIMEOUT;
}

vks_status vks_device_wait_serial(vks_device *device, uint64_t serial, uint64_t deadline)
{
    vks_status status = vks_device_poll_serial(device, serial);
    if (status != VKS_TIMEOUT || !deadline)
        return status;
    if (!vks_device_enter(device))
        return vks_device_poll_serial(device, serial);
    status = device->backend->wait(device, serial, deadline);
    vks_device_leave(device);
    if (status == VKS_DEVICE_LOST) {
        pthread_mutex_lock(&device->lock);
        vks_device_lose(device);
        pthread_mutex_unlock(&device->lock);
    }
    return status;
}

vks_status vks_device_drain(vks_device *device, uint64_t serial, uint64_t deadline)
{
    if (!vks_device_enter(device))
        return device->leaks ? VKS_TIMEOUT : VKS_OK;
    bool ran = device->backend->completed(device) >= serial;
    vks_status status = ran ? VKS_OK : device->backend->wait(device, serial, deadline);
    vks_device_leave(device);
    return status == VKS_DEVICE_LOST ? VKS_OK : status;
}

/* ---- sleeping on progress ---- */

void vks_device_progress(vks_device *device)
{
    atomic_fetch_add(&device->progress, 1);
    if (atomic_load(&device->waiters))
        vks_futex_wake(&device->progress, VKS_ANY_BIT);
}

vks_status vks_device_wait_until(vks_device *device, bool (*done)(const void *user), const void *user,
                                 uint64_t deadline)
{
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&device->progress);
        pthread_mutex_lock(&device->lock);
        bool is_done = done(user);
        pthread_mutex_unlock(&device->lock);
        if (is_done)
            status = VKS_OK;
        if (is_done || status || (status = vks_device_check(device)))
            break;
        status = deadline ? vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, deadline) : VKS_TIMEOUT;
    }
    atomic_fetch_sub(&device->waiters, 1);
    return status;
}

/* ---- the queue's exclusive use ---- */

vks_status vks_device_begin_present(vks_device *device, uint64_t deadline)
{
    vks_status status = VKS_OK;
    atomic_fetch_add(&device->waiters, 1);
    while (device->presenting && !status) {
        uint32_t seen = atomic_load(&device->progress);
        uint64_t limit = device->presenting_since + VKS_LONGEST_PRESENT_NS;
        limit = deadline < limit ? deadline : limit;
        pthread_mutex_unlock(&device->lock);
        status = vks_now() < limit ? vks_futex_wait(&device->progress, seen, VKS_ANY_BIT, limit) : VKS_TIMEOUT;
        pthread_mutex_lock(&device->lock);
    }
    atomic_fetch_sub(&device->waiters, 1);
    if (!device->presenting) {
        device->presenting = true;
        device->presenting_since = vks_now();
        return VKS_OK;
    }
    return status == VKS_TIMEOUT
               ? vks_fail(VKS_TIMEOUT, 0, "%s has the queue for %llu ms%s",
                          device->queue_is_locked ? "the engine that locked it" : "a present",
                          (unsigned long long)((vks_now() - device->presenting_since) / 1000000u),
                          device->queue_is_locked ? ""
                                                  : ": the driver waits for the window system, or for the rendering")
               : status;
}

void vks_device_end_present(vks_device *device)
{
    device->presenting = false;
    vks_device_progress(device);
    device->on_progress(device);
}

/* ---- loss ---- */

void vks_device_lose(vks_device *device)
{
    if (device->lost)
        return;
    device->lost = true;
    uint32_t open = VKS_OK;
    /* A device that is being closed stays closed. */
    atomic_compare_exchange_strong(&device->state, &open, VKS_DEVICE_LOST);
    device->on_end(device, VKS_DEVICE_LOST);
    for (int kind = 0; kind < VKS_CHILD_KINDS; kind++)
        for (vks_child *child = device->children[kind]; child; child = child->next)
            child->class->lost(child);
    vks_device_publish(device);
    vks_device_progress(device);
}

void vks_device_mark_lost(vks_device *device)
{
    VKS_NEEDS_OR(, device);
    if (vks_device_check(device))
        return;
    pthread_mutex_lock(&device->lock);
    vks_device_lose(device);
    pthread_mutex_unlock(&device->lock);
}

bool vks_device_leaks(const vks_device *device)
{
    VKS_NEEDS_OR(false, device);
    return device->process == vks_process &&
           (device->leaks || (device->shut_down == VKS_SHUTDOWN_BEGUN && device->gone) ||
            (device->shut_down == VKS_SHUTDOWN_DONE && device->swapchain_leaked));
}

/* ---- command lists ---- */

void vks_commands_ref(vks_commands *commands)
{
    VKS_NEEDS_OR(, commands);
    atomic_fetch_add_explicit(&commands->references, 1, memory_order_relaxed);
}

static void add_unused(vks_device *device, vks_commands *commands)
{
    commands->next_unused = atomic_load(&device->unused);
    while (!atomic_compare_exchange_weak(&device->unused, &commands->next_unused, commands))
        ;
}

/* Takes no lock, because held operations drop their references under device->lock. */
void vks_commands_unref(vks_commands *commands)
{
    VKS_NEEDS_OR(, commands);
    if (atomic_fetch_sub(&commands->references, 1) != 1)
        return;
    if (commands->retire && commands->device->process == vks_process)
        add_unused(commands->device, commands); /* the command buffer may still run, and its creator frees it */
    else
        commands->destroy(commands);
}

size_t vks_device_reap(vks_device *device, bool all)
{
    VKS_NEEDS_OR(0, device);
    if (device->process != vks_process || !atomic_load_explicit(&device->unused, memory_order_relaxed) ||
        vks_device_leaks(device))
        return 0;
    vks_commands *list = atomic_exchange(&device->unused, NULL);
    uint64_t done = all ? UINT64_MAX : vks_device_completed(device);
    size_t n = 0;
    while (list) {
        vks_commands *commands = list;
        list = commands->next_unused;
        if (commands->last_serial > done) {
            add_unused(device, commands);
            continue;
        }
        commands->retire(commands->user);
        commands->destroy(commands);
        n++;
    }
    return n;
}
