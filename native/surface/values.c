/* values.c: the values of a surface's timeline that this handle signals: announced, submitted,
 * complete. */
#include "surface/surface.h"

/* The slot holds the first of several pending values, because a waiter must know whether a lower
 * signal may still come (device/completions.h). */
bool vks_surface_announce(vks_surface *surface, uint64_t value) { return vks_mutex_announce(&surface->handle, value); }

void vks_surface_retract(vks_surface *surface, uint64_t value)
{
    atomic_compare_exchange_strong(&surface->handle.page->slots[surface->handle.slot].pending_value, &value, 0);
}

/* Returns the first pending value of this handle except `value`; 0: none. */
static uint64_t first_announced(const vks_surface *surface, uint64_t value)
{
    const vks_device *device = surface->device;
    uint64_t first = vks_device_first_value(device, &vks_surface_signal, surface, value);
    for (const vks_work *work = vks_scheduler_first(device); work; work = work->next) {
        const vks_access *access = &work->accesses[0];
        if (access->class == &vks_surface_release_batch && access->object == surface && access->value != value &&
            access->value < first)
            first = access->value;
    }
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

bool vks_surface_may_signal(const vks_surface *surface, uint64_t value, uint64_t counter)
{
    return !surface->semaphore ||
           (value > counter && value > surface->announced && value - counter <= surface->device->max_difference);
}

vks_status vks_surface_check_value(vks_surface *surface, uint64_t value)
{
    vks_device *device = surface->device;
    uint64_t counter = 0;
    vks_status status = surface->semaphore ? device->backend->counter(device, surface->semaphore, &counter) : VKS_OK;
    if (status || vks_surface_may_signal(surface, value, counter))
        return status;
    vks_mutex_poison(surface->handle.page);
    return vks_fail(VKS_ABANDONED, 0, "the surface's page asks for the value %llu where its semaphore is at %llu",
                    (unsigned long long)value, (unsigned long long)counter);
}

void vks_surface_continue_after(vks_surface *surface, uint64_t value)
{
    surface->last_value = value;
    surface->ownership.wait_point = (vks_wait_point){value, surface->handle.identity, surface->handle.slot};
    surface->acquire_submitted = surface->ownership.id - 1;
}

/* ---- completions ---- */

static void complete_value(const vks_completion *completion, bool ran)
{
    vks_surface *surface = completion->object;
    if (!ran)
        vks_mutex_poison(surface->handle.page);
    vks_surface_complete(surface, completion->value);
}

static void resolve_wait(vks_device *device, const vks_completion *completion)
{
    vks_surface *surface = completion->object;
    uint64_t counter;
    /* A pending value may still come, and a lower one would lower the counter. */
    if (!surface->semaphore || vks_surface_is_pending(surface, completion->value))
        return;
    /* Read the counter after the slots: a party clears its pending value only after the semaphore
     * has it. */
    if (device->backend->counter(device, surface->semaphore, &counter) != VKS_OK || counter >= completion->value)
        return;
    vks_mutex_poison(surface->handle.page); /* first, so that no party takes the result for a complete frame */
    vks_device_signal_orphaned(device, surface->semaphore, completion->value);
}

const vks_completion_class vks_surface_signal = {
    .run = complete_value, .ref = vks_surface_ref_object, .unref = vks_surface_unref_object};
const vks_completion_class vks_surface_gpu_wait = {
    .resolve = resolve_wait, .ref = vks_surface_ref_object, .unref = vks_surface_unref_object};

void vks_surface_value_submitted(vks_surface *surface, uint64_t value, uint64_t serial)
{
    surface->announced = value;
    vks_mutex_publish_queued(surface->handle.page, value);
    vks_device_add_completion(surface->device, serial, &vks_surface_signal, surface, value);
}
