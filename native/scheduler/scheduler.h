/* scheduler.h: operations that are held until their waits are certain to end
 * (docs/spec/protocol.md, "Held submissions"), and the batches that they become. Internal. Caller
 * of every function holds device->lock, unless its comment says otherwise.
 *
 * An operation (vks_work) consists of accesses: each is one fence or surface, and what the
 * operation does with it. The scheduler knows an access by its class alone, and asks it, in this
 * order: may the operation run (ready), what does it need (prepare), what goes into the batch
 * (before, after); then it reports the end (submitted, refused or failed).
 */
#ifndef VKS_SCHEDULER_H
#define VKS_SCHEDULER_H

#include "device/device.h"
#include "os/event_queue.h"
#include "os/watcher.h"
#include "shm/mutex_page.h"

typedef enum vks_readiness { VKS_READY, VKS_HOLD, VKS_FAIL } vks_readiness;
static inline vks_readiness vks_never_ready(vks_status *why, vks_status status)
{
    *why = status;
    return VKS_FAIL;
}

typedef struct vks_access vks_access;
typedef struct vks_access_class vks_access_class;

/* ---- operations ---- */

typedef enum vks_work_kind { VKS_WORK_SUBMIT, VKS_WORK_ACQUIRE, VKS_WORK_RELEASE } vks_work_kind; /* for traces */
/* An operation leaves VKS_WORK_HELD once. VKS_WORK_SUBMITTED also means a granted acquire. */
typedef enum vks_work_state { VKS_WORK_HELD, VKS_WORK_SUBMITTED, VKS_WORK_FAILED } vks_work_state;

/* One ownership of a surface by a handle. */
typedef struct vks_ownership {
    uint64_t id;               /* counts the ownerships of this handle; 0: none */
    vks_wait_point wait_point; /* the wait of the ownership's first work */
} vks_ownership;

struct vks_access {
    const vks_access_class *class;
    void *object; /* a reference, unless the operation is a draft */
    uint64_t
        *mark; /* of the object: the pass in which an earlier held operation has it; NULL: order is not observable */
    uint64_t value; /* fences: to wait for or to signal; surfaces: the release value that the batch signals, 0: none */
    bool waits;     /* surfaces: the batch waits for the ownership's wait point on the GPU */
    bool granted;   /* surfaces: false: the acquire was pending (mode="gpu"), and the surface has the wait point */
    uint64_t key;   /* acquires and releases */
    vks_ownership ownership; /* surfaces: the one that the operation belongs to */
};

typedef struct vks_work_event {
    vks_event_queue *event_queue; /* a reference */
    uint64_t token;
} vks_work_event;

struct vks_work {
    vks_work *next, *previous;
    vks_device *device;
    _Atomic uint32_t references;
    vks_work_kind kind;
    bool has_grace;                    /* a close waits for it for a while (vks_scheduler_finish) */
    bool may_signal_release;           /* its batch may also signal the release of its surfaces */
    bool is_barrier;                   /* what follows it in the queue relies on its acquires as barriers */
    _Atomic uint32_t state;            /* a vks_work_state */
    vks_status failure;                /* with VKS_WORK_FAILED: the reason; written before `state` */
    _Atomic uint64_t serial;           /* of the batch, once submitted */
    uint64_t number, since;            /* for traces; 0: none, or it was never held */
    vks_status (*run)(vks_work *work); /* called when it is ready; VKS_TIMEOUT: it is not yet */
    vks_access *accesses;
    vks_commands **commands;
    uint64_t *raw;
    uint32_t n_accesses, n_commands, n_raw;
    vks_work_event *events;
    size_t n_events;
};

static inline bool vks_work_is_held(const vks_work *work) { return atomic_load(&work->state) == VKS_WORK_HELD; }
/* VKS_TIMEOUT: held. VKS_OK: submitted or granted. Another status: the reason why it failed. */
static inline vks_status vks_work_status(const vks_work *work)
{
    uint32_t state = atomic_load(&work->state);
    return state == VKS_WORK_HELD ? VKS_TIMEOUT : state == VKS_WORK_SUBMITTED ? VKS_OK : work->failure;
}

/* Makes a draft, an operation on the stack. Sets the fields that a draft has one by one, because
 * zeroing the whole struct takes longer than the driver's entry. */
static inline void vks_work_draft(vks_work *draft, vks_device *device, vks_work_kind kind,
                                  vks_status (*run)(vks_work *work), vks_access *accesses, uint32_t n_accesses)
{
    draft->device = device;
    draft->kind = kind;
    draft->run = run;
    draft->accesses = accesses;
    draft->n_accesses = n_accesses;
    draft->n_commands = draft->n_raw = 0;
    draft->n_events = 0;
    draft->has_grace = draft->may_signal_release = draft->is_barrier = false;
    draft->number = 0;
    atomic_init(&draft->serial, 0);
}

/* ---- accesses ---- */

/* Fills in the fields that every class has. */
static inline void vks_access_init(vks_access *access, const vks_access_class *class, void *object, uint64_t *mark,
                                   uint64_t value)
{
    access->class = class;
    access->object = object;
    access->mark = mark;
    access->value = value;
    access->granted = false;
    access->ownership.id = 0;
}

/* A batch under construction. An access adds at most so many of each: */
#define VKS_ACCESS_WAITS 4u
#define VKS_ACCESS_SIGNALS 2u
#define VKS_ACCESS_BUFFERS 4u
typedef struct vks_batch_draft {
    vks_batch batch;
    vks_point *waits, *signals;
    uint64_t *buffers;
    size_t completions; /* that submitted() will add */
} vks_batch_draft;

static inline void vks_draft_wait(vks_batch_draft *draft, uint64_t semaphore, uint64_t value)
{
    draft->waits[draft->batch.n_waits++] = (vks_point){semaphore, value};
}
static inline void vks_draft_signal(vks_batch_draft *draft, uint64_t semaphore, uint64_t value)
{
    draft->signals[draft->batch.n_signals++] = (vks_point){semaphore, value};
}
static inline void vks_draft_buffer(vks_batch_draft *draft, uint64_t buffer)
{
    draft->buffers[draft->batch.n_buffers++] = buffer;
}

/* An access's needs of the queue. */
enum {
    VKS_GRAPHICS_ONLY = 1,    /* the transfer queue cannot do it */
    VKS_GRAPHICS_LIKELY = 2,  /* the handle used graphics before, and is expected to do so again */
    VKS_BEGINS_OWNERSHIP = 4, /* the first work of an ownership: the queue may change here */
};

typedef struct vks_watch_list vks_watch_list;

/* A member may be NULL: then the access has nothing to do there, and is ready. */
struct vks_access_class {
    /* Returns whether the operation may run now, for all that concerns the object. On VKS_FAIL,
     * *why is the reason why it never may. */
    vks_readiness (*ready)(vks_access *access, const vks_work *work, vks_status *why);
    /* Adds the words of shared pages whose change can make it ready. Called before ready(), so that
     * a change in between fires the watcher at once. */
    void (*watch)(const vks_access *access, vks_watch_list *list);
    bool (*is_watched)(const vks_access *access); /* watch() adds a word */
    unsigned (*queue_needs)(const vks_access *access);
    /* Does what may fail, and what other parties must see before the work can run. On a failure it
     * has no effect. */
    vks_status (*prepare)(vks_access *access, const vks_work *work);
    void (*refused)(vks_access *access);                                              /* undoes prepare() */
    void (*before)(vks_access *access, const vks_work *work, vks_batch_draft *draft); /* before the commands */
    void (*after)(const vks_access *access, const vks_work *work, vks_batch_draft *draft);
    void (*submitted)(vks_access *access, const vks_work *work, uint64_t serial); /* the driver has the batch */
    /* The operation failed while it was held, and is no longer held. It may fail other
     * operations. */
    void (*failed)(const vks_access *access, const vks_work *work, vks_status why);
    void (*held)(const vks_access *access, int by); /* 1: the operation is held from now on; -1: no longer */
    uint64_t (*id)(const vks_access *access);       /* of the object's page, for traces */
    bool unblocks; /* earlier held operations may wait for what the operation does with the object */
    void (*ref)(void *object);
    void (*unref)(void *object);
};

/* ---- work.c ---- */

vks_readiness vks_work_ready(const vks_work *work, vks_status *why);
/* Holds a copy of a draft, unless it can run at once; *out is a reference of it (out NULL: none).
 * VKS_OS_ERROR: no thread could be started to watch for other parties. */
vks_status vks_work_hold_copy(const vks_work *draft, vks_work **out);
/* Submits a draft if it is ready, else holds a copy: *held is a reference of it, or NULL. `behind`:
 * held operations come first. VKS_TIMEOUT: it is not ready, and not `may_hold`. Another error than
 * the driver's: the reason why it never can run. */
vks_status vks_work_submit_or_hold(vks_work *draft, bool behind, bool may_hold, vks_work **held);
/* Fails a held operation: breaks the chains of its surfaces and fences. */
void vks_work_fail(vks_work *work, vks_status why);
/* Finishes a held operation that was submitted or granted. Returns whether earlier held operations
 * may have waited for it. */
bool vks_work_complete(vks_work *work);
vks_status vks_work_add_event(vks_work *work, vks_event_queue *event_queue, uint64_t token);

/* ---- batch.c ---- */

/* Submits the work of a ready operation to the driver as one batch. Sets work->serial. */
vks_status vks_work_submit(vks_work *work);
extern const vks_completion_class vks_event_completion; /* pushes its value, a token, into an event queue */
extern const vks_access_class vks_submission_access; /* object: the vks_work that is waited for; or value: its serial */

/* ---- scheduler.c ---- */

typedef struct vks_scheduler {
    vks_work *first, *last; /* held operations, in order of submission */
    uint64_t round;         /* number of the pass; marks what the pass found blocked */
    bool running, run_again, watching;
} vks_scheduler;

vks_status vks_scheduler_attach(vks_device *device);
static inline vks_work *vks_scheduler_first(const vks_device *device) { return device->scheduler->first; }
void vks_scheduler_add(vks_work *work);     /* to the list */
void vks_scheduler_remove(vks_work *work);  /* from the list */
void vks_scheduler_run(vks_device *device); /* submits, grants or fails every operation that it can; sets the watcher */
void vks_scheduler_run_unlocked(void *device); /* takes the lock itself; a callback of the watcher and the peers */
void vks_scheduler_fail_all(vks_device *device, vks_status why);
void vks_watch_word(vks_watch_list *list, _Atomic uint32_t *word, uint32_t expected);
/* Both block, and take the lock themselves. wait: until *count, of held operations, is below `below`.
 * finish: until no operation is held that has_grace and accesses `object` (NULL: any). */
vks_status vks_scheduler_wait(vks_device *device, const _Atomic uint32_t *count, uint32_t below, uint64_t deadline);
/* Before a close: waits until `limit` for the held batches of releases whose page was released
 * already. Such a batch normally waits only for the previous owner's work, and cancelling it would
 * abandon a surface that was released correctly. VKS_OK or VKS_INTERRUPTED. */
#define VKS_RELEASE_GRACE_NS UINT64_C(500000000)
vks_status vks_scheduler_finish(vks_device *device, const void *object, uint64_t limit);

#endif
