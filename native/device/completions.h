/* completions.h: what happens when a batch has run. Internal. Caller of every function holds
 * device->lock.
 *
 * Completions of this device's batches are in a ring in the order of their serials. Signals and
 * waits of external APIs have no serial, so their semaphores are polled.
 */
#ifndef VKS_COMPLETIONS_H
#define VKS_COMPLETIONS_H

#include "vkshare.h"

typedef struct vks_completion vks_completion;
typedef struct vks_completion_class {
    /* Publishes it. `ran` false: the device was lost before. NULL: the completion only records a
     * GPU wait. */
    void (*run)(const vks_completion *completion, bool ran);
    /* Signals the value from the host if no party will signal it, so that a GPU wait for it ends;
     * NULL: never. Called every 20 ms while the wait is with the driver. */
    void (*resolve)(vks_device *device, const vks_completion *completion);
    void (*ref)(void *object); /* NULL: the completion has no reference */
    void (*unref)(void *object);
} vks_completion_class;

struct vks_completion {
    uint64_t serial; /* external: the value that the semaphore must have first */
    const vks_completion_class *class;
    void *object;   /* a reference */
    uint64_t value; /* of the object's timeline; an event's token; (trace) the time of the submission */
};

typedef struct vks_external_completion {
    vks_completion completion;
    uint64_t semaphore;
} vks_external_completion;

typedef struct vks_completions {
    vks_completion *ring; /* in order of serials */
    size_t ring_first, ring_count, ring_capacity;
    vks_external_completion *external; /* unordered */
    size_t n_external, external_capacity;
} vks_completions;

/* Reserves room for n completions and starts the publisher, so that vks_device_add_completion
 * cannot fail once the driver has the work. */
vks_status vks_device_reserve(vks_device *device, size_t n);
void vks_device_add_completion(vks_device *device, uint64_t serial, const vks_completion_class *class, void *object,
                               uint64_t value);
/* The same for signals and waits of an external API. `before`: the value that the semaphore must
 * have first. */
vks_status vks_device_reserve_external(vks_device *device);
void vks_device_add_external(vks_device *device, const vks_completion_class *class, void *object, uint64_t semaphore,
                             uint64_t value, uint64_t before);
void vks_device_drop_external(vks_device *device, const void *object, uint64_t value); /* value 0: every value */
/* Returns whether such a completion of the object is outstanding. `value` 0: of any value. */
bool vks_device_awaits_external(const vks_device *device, const vks_completion_class *class, const void *object,
                                uint64_t value);
/* Returns the lowest outstanding value of the object, external ones included, except `except`;
 * UINT64_MAX: none. */
uint64_t vks_device_first_value(const vks_device *device, const vks_completion_class *class, const void *object,
                                uint64_t except);
/* Runs the completions whose serial has run, or whose semaphore has the value. On a lost device
 * all. */
void vks_device_publish(vks_device *device);

/* ---- orphaned waits ----
 *
 * A GPU wait is orphaned when its signaller died or lost its device while the signalling work was
 * still behind other work (docs/spec/protocol.md, "Host signals"). Only the process whose own queue
 * waits signals, from the host, exactly the value that its queue waits for. */
void vks_device_resolve_orphaned_waits(vks_device *device);
/* Signals the value, unless the semaphore has it or cannot take it. */
void vks_device_signal_orphaned(vks_device *device, uint64_t semaphore, uint64_t value);

#endif
