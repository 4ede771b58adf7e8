/* layer.h: what the layer's files share. faults.h is for its users.
 *
 * layer.c      negotiation, the chain, who has which functions       rules.c, control.c   what is to fail, the language
 * objects.c    what is alive                                          events.c             what happened
 * counted.c    entry points that are only counted and can fail        fences.c, semaphores.c, submits.c
 * surfaces.c, swapchains.c, presents.c                                proofs.c             what may still be in use
 *
 * One lock, `vks_lock`, guards objects, events, rules and proofs. It is never held while a call goes down that may
 * block; only fence states and counters are read from the driver under it.
 */
#ifndef VKS_FAULTS_LAYER_H
#define VKS_FAULTS_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vulkan/vulkan_core.h"
#include "entries.h"
#include "faults.h"
#include "layer/loader.h"

#define LAYER_NAME "VK_LAYER_VKSHARE_faults"
#define HANDLE(handle) ((uint64_t)(uintptr_t)(handle))
#define FOR_EVER UINT64_MAX

/* Window systems' headers are not ours to need: only the shape of these functions is. */
typedef VkResult (*create_surface)(VkInstance, const void *, const VkAllocationCallbacks *, VkSurfaceKHR *);
typedef create_surface PFN_vkCreateXcbSurfaceKHR;
typedef create_surface PFN_vkCreateXlibSurfaceKHR;
typedef create_surface PFN_vkCreateWaylandSurfaceKHR;

/* ---- layer.c --------------------------------------------------------------------------------------------------- */

/* A VkInstance or a VkDevice, and the next layer's functions: of a device those of DEVICE_ENTRIES. */
struct context {
    void *key; /* what the loader puts at the start of every dispatchable handle that belongs to it */
    uint64_t handle;
    struct context *instance; /* of a device */
    instance_lookup next_instance;
    device_lookup next_device;
    VkPhysicalDevice physical; /* of a device */
    atomic_bool lost;          /* of a device: a rule said DEVICE_LOST */
#define X(name, alias, lose) PFN_vk##name name;
    INSTANCE_ENTRIES(X) DEVICE_ENTRIES(X)
#undef X
};

struct context *vks_context(const void *dispatchable); /* of any dispatchable handle */
struct context *vks_context_add(struct context context);
void vks_context_remove(struct context *context);
void vks_resolve(struct context *context); /* fills in the next layer's functions */

/* ---- rules.c --------------------------------------------------------------------------------------------------- */

enum verdict { PASS, INSTEAD, AFTER };

/* Counts a call and says whether it is to fail: INSTEAD of the driver's, or AFTER it, with *result. */
enum verdict vks_fault(enum entry entry, struct context *context, VkResult *result);
bool vks_sticky(void); /* whether the rule that this thread's last vks_fault() applied was sticky */
const char *vks_entry_name(enum entry entry);
int vks_entry_find(const char *name); /* an alias too; -1: there is none */

struct rule {
    enum entry entry;
    VkResult result;
    uint64_t nth, count, every; /* count 0: for ever */
    int after;                  /* -1: as the specification has it */
    bool sticky, idle;
    uint64_t seen; /* calls since the rule was made */
};
int vks_rule_add(struct rule rule); /* -1: there is no more room */
void vks_rules_reset(void);

enum hold_kind { HOLD_SUBMIT, HOLD_PRESENT, HOLD_ACQUIRE, HOLD_KINDS };
struct hold {       /* of fences that operations of one kind signal */
    uint64_t delay; /* ns; FOR_EVER: withheld */
    uint64_t nth, count, seen;
};
/* What the layer reports instead of what the driver says. Guarded by vks_lock; zero: nothing. */
struct forced {
    bool has_current, has_min, has_max, has_modes, hold_semaphores;
    VkExtent2D current, min, max;
    uint32_t images, min_images, max_images; /* max_images: UINT32_MAX is "no limit" (0 to the application) */
    VkPresentModeKHR modes[8];
    uint32_t mode_count;
    char hidden[16][VK_MAX_EXTENSION_NAME_SIZE];
    uint32_t hidden_count;
    struct hold holds[HOLD_KINDS];
};
extern struct forced vks_forced;
bool vks_hidden(const char *extension);       /* under vks_lock */
uint64_t vks_not_before(enum hold_kind kind); /* for a fence that is now submitted; under vks_lock */
int vks_control_from_environment(void);

/* Starts a wrapper that returns a VkResult. `failure` names the variable with the injected result. */
#define FAULT(entry, context)                                                                                          \
    VkResult failure = VK_SUCCESS;                                                                                     \
    const enum verdict verdict = vks_fault(ENTRY_##entry, context, &failure);                                          \
    if (verdict == INSTEAD)                                                                                            \
    return failure
/* ... and ends it: what the application is told when the next layer said `actual`. A driver's error goes first. */
#define TELL(actual) ((actual) < 0 || verdict == PASS ? (actual) : failure)

/* ---- objects.c ------------------------------------------------------------------------------------------------- */

enum object_type {
#define O(name, type, X) TYPE_##type,
    OBJECT_ENTRIES(O, X)
#undef O
        TYPE_INSTANCE,
    TYPE_DEVICE,
    TYPE_QUEUE,
    TYPE_SURFACE,
    TYPE_SWAPCHAIN,
    TYPE_FENCE,
    TYPE_SEMAPHORE,
    TYPE_MEMORY,
    TYPE_COMMAND_POOL,
    TYPE_COMMAND_BUFFER,
    TYPE_PIPELINE,
    TYPE_COUNT
};

struct object {
    struct object *next; /* in its bucket */
    uint64_t handle, serial, created;
    uint64_t parent; /* handle of what takes it along when it goes: a pool, a device, an instance */
    struct context *context;
    enum object_type type;
    char name[VKS_FAULTS_NAME];
};

extern pthread_mutex_t vks_lock;
extern const char *const vks_type_names[TYPE_COUNT];

/* All of these under vks_lock. */
void *vks_add(enum object_type type, uint64_t handle, uint64_t parent, struct context *context);
void *vks_find(enum object_type type, uint64_t handle); /* NULL: unknown, or 0 */
void *vks_find_serial(enum object_type type, uint64_t handle, uint64_t serial);
void vks_remove(enum object_type type, uint64_t handle);
void vks_remove_children(enum object_type type, uint64_t parent);
void vks_each(enum object_type type, void (*visit)(struct object *object, void *argument), void *argument);
void vks_objects_reset(void);

/* The same in one locked step: one object was made, or is about to go. */
void vks_created(enum object_type type, uint64_t handle, uint64_t parent, struct context *context);
void vks_destroyed(enum object_type type, uint64_t handle);

/* ---- events.c -------------------------------------------------------------------------------------------------- */

enum event_kind {
    EVENT_CREATE,
    EVENT_DESTROY,
    EVENT_NAME,
    EVENT_SUBMIT,
    EVENT_WAIT,
    EVENT_SIGNAL,
    EVENT_FENCE,
    EVENT_PRESENT,
    EVENT_ACQUIRE,
    EVENT_RELEASE,
    EVENT_READY,
    EVENT_RESET,
    EVENT_RETIRE,
    EVENT_IDLE,
    EVENT_FAULT,
    EVENT_LOST,
    EVENT_VIOLATION,
    EVENT_KINDS
};

uint64_t vks_now(void); /* CLOCK_MONOTONIC ns */
uint64_t vks_group(void);
extern atomic_bool vks_logging;
/* Under vks_lock. `object` may be NULL. */
void vks_event(enum event_kind kind, const struct object *object, uint64_t value, VkResult result, uint64_t group);
void vks_fault_event(enum entry entry, VkResult result);  /* under vks_lock */
enum excuse { NO_EXCUSE = 0, BY_IDLE = 1, BY_ORDER = 2 }; /* see vks_faults_violation */
void vks_violation(const struct object *object, unsigned excuses, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void vks_events_reset(void);

/* ---- proofs.c: its own header ---------------------------------------------------------------------------------- */

#endif
