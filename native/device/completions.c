#include <stdlib.h>

#include "device/device.h"

/* ---- the ring ---- */

static void add_reference(const vks_completion *completion)
{
    if (completion->class->ref)
        completion->class->ref(completion->object);
}

static void drop_reference(const vks_completion *completion)
{
    if (completion->class->unref)
        completion->class->unref(completion->object);
}

static void run(const vks_completion *completion, bool ran)
{
    if (completion->class->run)
        completion->class->run(completion, ran);
    drop_reference(completion);
}

vks_status vks_device_reserve(vks_device *device, size_t n)
{
    vks_completions *all = &device->completions;
    vks_status status = n ? device->backend->start_publisher(device) : VKS_OK;
    if (status || all->ring_count + n <= all->ring_capacity)
        return status;
    size_t capacity = all->ring_capacity ? all->ring_capacity : 64;
    while (capacity < all->ring_count + n)
        capacity *= 2;
    vks_completion *ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory to remember what completions publish");
    for (size_t i = 0; i < all->ring_count; i++)
        ring[i] = all->ring[(all->ring_first + i) & (all->ring_capacity - 1)];
    free(all->ring);
    all->ring = ring;
    all->ring_first = 0;
    all->ring_capacity = capacity;
    return VKS_OK;
}

void vks_device_add_completion(vks_device *device, uint64_t serial, const vks_completion_class *class, void *object,
                               uint64_t value)
{
    vks_completions *all = &device->completions;
    vks_completion completion = {serial, class, object, value};
    add_reference(&completion);
    size_t mask = all->ring_capacity - 1, at = all->ring_first + all->ring_count++;
    for (; at != all->ring_first && all->ring[(at - 1) & mask].serial > serial; at--) /* late request */
        all->ring[at & mask] = all->ring[(at - 1) & mask];
    all->ring[at & mask] = completion;
    device->backend->wake_publisher(device);
}

/* ---- signals and waits of external APIs ---- */

vks_status vks_device_reserve_external(vks_device *device)
{
    vks_completions *all = &device->completions;
    vks_status status = device->backend->start_publisher(device);
    if (status || all->n_external < all->external_capacity)
        return status;
    size_t capacity = 2 * all->external_capacity + 1;
    vks_external_completion *more = realloc(all->external, capacity * sizeof *more);
    if (!more)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory to remember what another API is to signal");
    all->external = more;
    all->external_capacity = capacity;
    return VKS_OK;
}

void vks_device_add_external(vks_device *device, const vks_completion_class *class, void *object, uint64_t semaphore,
                             uint64_t value, uint64_t before)
{
    vks_completions *all = &device->completions;
    vks_external_completion *external = &all->external[all->n_external++];
    *external = (vks_external_completion){{before, class, object, value}, semaphore};
    add_reference(&external->completion);
    device->backend->wake_publisher(device);
}

void vks_device_drop_external(vks_device *device, const void *object, uint64_t value)
{
    vks_completions *all = &device->completions;
    size_t kept = 0;
    for (size_t i = 0; i < all->n_external; i++) {
        vks_external_completion external = all->external[i];
        if (external.completion.object == object && (!value || external.completion.value == value))
            drop_reference(&external.completion);
        else
            all->external[kept++] = external;
    }
    all->n_external = kept;
}

bool vks_device_awaits_external(const vks_device *device, const vks_completion_class *class, const void *object,
                                uint64_t value)
{
    for (size_t i = 0; i < device->completions.n_external; i++) {
        const vks_completion *completion = &device->completions.external[i].completion;
        if (completion->class == class && completion->object == object && (!value || completion->value == value))
            return true;
    }
    return false;
}

uint64_t vks_device_first_value(const vks_device *device, const vks_completion_class *class, const void *object,
                                uint64_t except)
{
    const vks_completions *all = &device->completions;
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < all->ring_count + all->n_external; i++) {
        const vks_completion *completion = i < all->ring_count
                                               ? &all->ring[(all->ring_first + i) & (all->ring_capacity - 1)]
                                               : &all->external[i - all->ring_count].completion;
        if (completion->class == class && completion->object == object && completion->value != except &&
            completion->value < first)
            first = completion->value;
    }
    return first;
}

/* The last counter that was read; most completions that are polled together share one object. */
typedef struct last_counter {
    uint64_t semaphore, counter;
} last_counter;

/* VKS_TIMEOUT: not reached yet. */
static vks_status poll_external(vks_device *device, const vks_external_completion *external, last_counter *last)
{
    if (external->semaphore != last->semaphore) {
        vks_status status = device->backend->counter(device, external->semaphore, &last->counter);
        last->semaphore = status ? 0 : external->semaphore;
        if (status)
            return status == VKS_DEVICE_LOST ? status : VKS_TIMEOUT;
    }
    return last->counter >= external->completion.value ? VKS_OK : VKS_TIMEOUT;
}

static bool publish_external(vks_device *device)
{
    vks_completions *all = &device->completions;
    bool any = false;
    last_counter last = {0};
    for (size_t i = 0; i < all->n_external;) {
        vks_external_completion external = all->external[i];
        vks_status status = device->lost ? VKS_OK : poll_external(device, &external, &last);
        if (status == VKS_DEVICE_LOST) {
            vks_device_lose(device); /* which publishes the rest */
            return true;
        }
        if (status) {
            i++;
            continue;
        }
        all->external[i] = all->external[--all->n_external];
        run(&external.completion, !device->lost);
        any = true;
    }
    return any;
}

void vks_device_publish(vks_device *device)
{
    vks_completions *all = &device->completions;
    bool any = all->n_external && publish_external(device);
    uint64_t done = all->ring_count ? device->backend->completed(device) : 0;
    while (all->ring_count && (device->lost || all->ring[all->ring_first].serial <= done)) {
        vks_completion completion = all->ring[all->ring_first];
        all->ring_first = (all->ring_first + 1) & (all->ring_capacity - 1);
        all->ring_count--;
        run(&completion, completion.serial <= done);
        any = true;
    }
    if (any && device->n_held)
        device->on_progress(device);
}

/* ---- orphaned waits ---- */

void vks_device_signal_orphaned(vks_device *device, uint64_t semaphore, uint64_t value)
{
    uint64_t counter;
    if (device->backend->counter(device, semaphore, &counter) == VKS_OK && counter < value &&
        value - counter <= device->max_difference)
        device->backend->host_signal(device, semaphore, value);
}

static void resolve(vks_device *device, const vks_completion *completion)
{
    if (completion->class->resolve)
        completion->class->resolve(device, completion);
}

void vks_device_resolve_orphaned_waits(vks_device *device)
{
    const vks_completions *all = &device->completions;
    if (device->lost || !device->native_timelines)
        return;
    for (size_t i = 0; i < all->n_external; i++)
        resolve(device, &all->external[i].completion);
    uint64_t head = device->backend->completed(device) + 1; /* later batches wait for this one anyway */
    for (size_t i = 0; i < all->ring_count; i++) {
        const vks_completion *completion = &all->ring[(all->ring_first + i) & (all->ring_capacity - 1)];
        if (completion->serial > head)
            break;
        resolve(device, completion);
    }
}
