/* vkpy.h: what the files of the extension share.
 *
 * The extension is thin: it reads arguments, keeps references, decides when the GIL is given away, and turns a
 * vks_status into an exception. What the calls mean stands in vkshare.h, what Python sees in vkshare/_native.pyi.
 *
 * Conventions
 *  - The GIL protects every field here. References are owned unless a comment says borrowed.
 *  - A call that may sleep is first tried with deadline 0 and the GIL held; only if it would sleep is the GIL released
 *    (rule X8: a short call must not give the GIL away for a switch interval).
 *  - Only the limited API of CPython 3.11. One interpreter a process, so types and interned names are static.
 *  - An engine's queue lock given as a C address may be taken with the GIL held: it must never be held while waiting
 * for it.
 */
#ifndef VKPY_H
#define VKPY_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vkshare.h"

#define VKPY_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define VKPY_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* ---- objects --------------------------------------------------------------------------------------------------- */

typedef struct vkpy_locks vkpy_locks;
typedef struct vkpy_pixels vkpy_pixels;
typedef struct vkpy_kept vkpy_kept;

typedef struct vkpy_device {
    PyObject_HEAD
    vks_device *core;                  /* NULL until __init__ has succeeded */
    PyObject *name;                    /* str */
    vkpy_locks *locks;                 /* the queue lock, where it is a pair of Python callables; else NULL */
    vkpy_pixels *pixels;               /* of surfaces that are gone, with work that may still use them */
    vkpy_kept *kept_first, *kept_last; /* what held submissions need */
    bool initialised;
    PyObject *weakrefs;
} vkpy_device;

typedef struct vkpy_submission {
    PyObject_HEAD
    vkpy_device *device;
    vks_submission core;
    PyObject *weakrefs;
} vkpy_submission;

typedef struct vkpy_commands {
    PyObject_HEAD
    vkpy_device *device;
    vks_commands *core; /* NULL until compiled */
    PyObject *surfaces; /* tuple: what `core` touches */
    PyObject *weakrefs;
} vkpy_commands;

typedef struct vkpy_program {
    PyObject_HEAD
    vks_program *core; /* NULL once taken over by a CommandList */
    PyObject *weakrefs;
} vkpy_program;

typedef struct vkpy_fence {
    PyObject_HEAD
    vkpy_device *device;
    vks_fence *core;
    PyObject *weakrefs;
} vkpy_fence;

typedef struct vkpy_surface {
    PyObject_HEAD
    vkpy_device *device;
    vks_surface *core;
    vkpy_pixels *pixels; /* CPU backend; NULL elsewhere */
    bool initialised;
    PyObject *weakrefs;
} vkpy_surface;

typedef struct vkpy_pending {
    PyObject_HEAD
    vkpy_surface *surface;
    vks_work *core;
    PyObject *weakrefs;
} vkpy_pending;

typedef struct vkpy_event_queue {
    PyObject_HEAD
    vks_event_queue *core;
    PyObject *weakrefs;
} vkpy_event_queue;

/* Made once by vkpy_add_types(), never freed. */
extern PyTypeObject *vkpy_device_type, *vkpy_submission_type, *vkpy_commands_type, *vkpy_program_type, *vkpy_fence_type,
    *vkpy_surface_type, *vkpy_pending_type, *vkpy_event_queue_type, *vkpy_array_buffer_type, *vkpy_history_type,
    *vkpy_cuda_timeline_type;

extern PyType_Spec vkpy_device_spec, vkpy_submission_spec, vkpy_commands_spec, vkpy_program_spec, vkpy_fence_spec,
    vkpy_surface_spec, vkpy_pending_spec, vkpy_event_queue_spec, vkpy_array_buffer_spec, vkpy_history_spec,
    vkpy_cuda_timeline_spec;

#define VKPY_WEAKLIST(type) {"__weaklistoffset__", T_PYSSIZET, offsetof(type, weakrefs), READONLY, NULL}
#define VKPY_FASTCALL(function) ((PyCFunction)(void (*)(void))(function))
#define VKPY_FAST (METH_FASTCALL | METH_KEYWORDS) /* the flags of such a function */

/* Every call on an object begins with one of these: `field` is NULL until its __init__ has succeeded. */
#define VKPY_LIVE_BY(self, field)                                                                                      \
    if (VKPY_UNLIKELY((self)->field == NULL))                                                                          \
    return vkpy_raise_uninitialised((PyObject *)(self))
#define VKPY_LIVE(self) VKPY_LIVE_BY(self, core)

/* The getter of a property: `value`, an expression of a `self` that is live. For what needs no VKPY_SHORT(). */
#define VKPY_GETTER(function, type, value)                                                                             \
    static PyObject *function(PyObject *object, void *ignored)                                                         \
    {                                                                                                                  \
        type *self = (type *)object;                                                                                   \
        (void)ignored;                                                                                                 \
        VKPY_LIVE(self);                                                                                               \
        return value;                                                                                                  \
    }

/* What every dealloc begins and ends with. `free` also drops the instance's reference to its type. */
void vkpy_dealloc_begin(PyObject *self, PyObject **weakrefs, bool collected);
void vkpy_dealloc_free(PyObject *self);

/* Raises InvalidCallError: the object was made without its __init__, or that failed. Returns NULL. */
PyObject *vkpy_raise_uninitialised(PyObject *object);
/* Raises InvalidCallError: __init__ was called on an object that has gone through it. Returns -1, as that one does. */
int vkpy_raise_initialised(const char *type);
/* Checks that an argument is a live object of ours; else TypeError or InvalidCallError, and NULL. Borrowed. */
vkpy_device *vkpy_device_argument(PyObject *object, const char *name);
vkpy_event_queue *vkpy_event_queue_argument(PyObject *object, const char *name);
/* An empty one; its `core` is filled in by the caller. */
vkpy_submission *vkpy_submission_new(vkpy_device *device);
PyObject *vkpy_pending_new(vkpy_surface *surface, vks_work *op); /* takes over `op`, also when it fails */
/* Device.submit and _native.page_inspect. */
PyObject *vkpy_submit(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_page_inspect(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_memfd_create(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_memfd_check(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_memory_check(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_memory_replace(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_memory_reserve(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_queue_page_inspect(PyObject *module, PyObject *fd);
/* _native.trace_is_on, trace_problem, trace_mark and their constants (0, or -1 with an exception). */
PyObject *vkpy_trace_is_on(PyObject *module, PyObject *ignored);
PyObject *vkpy_trace_problem(PyObject *module, PyObject *ignored);
PyObject *vkpy_trace_mark(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
int vkpy_add_trace_constants(PyObject *module);

/* The pixels of a CPU surface: a buffer that Python lent. */
struct vkpy_pixels {
    Py_buffer buffer;
    uint64_t last_use; /* serial after which nothing touches the buffer; UINT64_MAX while the surface is open */
    vkpy_pixels *next; /* in vkpy_device.pixels */
};
/* Borrows a writable buffer for `info`, whose size, format and stride are set; *out is NULL where `object` is None.
 * Raises if the rows do not fit. */
bool vkpy_pixels_export(PyObject *object, vks_surface_info *info, vkpy_pixels **out);
/* Releases the buffer now if its last use is over, else when the device is next reaped. Takes over `pixels` (may be
 * NULL). */
void vkpy_pixels_retire(vkpy_device *device, vkpy_pixels *pixels);
void vkpy_pixels_reap(vkpy_device *device, bool all);

/* Keeps `objects` (a tuple, stolen, NULL if it could not be made) until the held `submission` is held no more. */
bool vkpy_keep(vkpy_device *device, const vks_submission *submission, PyObject *objects);
void vkpy_kept_look(vkpy_device *device, size_t most); /* lets go of what is held no more, among the `most` oldest */
void vkpy_kept_look_all(vkpy_device *device);
void vkpy_kept_clear(vkpy_device *device);
int vkpy_kept_traverse(const vkpy_device *device, visitproc visit, void *arg);

/* The `lock_queue`, `unlock_queue` and `lock_user` of a device's `vulkan` argument (borrowed, NULL where not given). */
bool vkpy_locks_parse(PyObject *lock, PyObject *unlock, PyObject *user, vks_vulkan_info *info, vkpy_locks **out);
void vkpy_locks_free(vkpy_locks *locks);
int vkpy_locks_traverse(vkpy_locks *locks, visitproc visit, void *arg);

/* ---- calls into the core --------------------------------------------------------------------------------------- */

/* A call that does not sleep: the GIL is kept. But where the queue lock is a Python callable its holder may wait for
 * the GIL, and any of the core's locks may be held by a thread that waits for that holder. */
#define VKPY_SHORT(owner, call)                                                                                        \
    do {                                                                                                               \
        PyThreadState *vkpy_thread = VKPY_UNLIKELY((owner)->locks != NULL) ? PyEval_SaveThread() : NULL;               \
        call;                                                                                                          \
        if (VKPY_UNLIKELY(vkpy_thread != NULL))                                                                        \
            PyEval_RestoreThread(vkpy_thread);                                                                         \
    } while (0)

/* To be called before a sleep. A signal that comes just before it does not end it, and Ctrl-C must be answered within
 * 100 ms (X8, K28): the main thread, which runs the handlers, looks up every 50 ms. */
static inline void vkpy_prepare_to_sleep(void)
{
    vks_set_interrupt_interval(getpid() == (pid_t)syscall(SYS_gettid) ? UINT64_C(50000000) : 0);
}

/* A call that may sleep: without the GIL, again after each signal. Ends with VKS_INTERRUPTED when a signal handler
 * raised. */
#define VKPY_BLOCKING(status, call)                                                                                    \
    do {                                                                                                               \
        vkpy_prepare_to_sleep();                                                                                       \
        PyThreadState *vkpy_thread = PyEval_SaveThread();                                                              \
        (status) = (call);                                                                                             \
        PyEval_RestoreThread(vkpy_thread);                                                                             \
    } while ((status) == VKS_INTERRUPTED && PyErr_CheckSignals() == 0)

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Each raises what `status` stands for and returns NULL. `what` names the thing, e.g. "Fence.signal"; the core's own
 * words for the calling thread's last error are used where they belong to `status`. VKS_INTERRUPTED: the handler's
 * exception is set already. */
PyObject *vkpy_raise(vks_status status, const char *what);
PyObject *vkpy_raise_timeout(const char *what, uint64_t timeout);             /* TimeoutError */
PyObject *vkpy_raise_acquire_timeout(uint64_t key, uint64_t timeout);         /* AcquireTimeout */
PyObject *vkpy_raise_named(const char *error_class, const char *format, ...); /* of vkshare.errors */
PyObject *vkpy_exception(vks_status status, const char *what); /* the instance, not raised; NULL if that failed */
PyObject *vkpy_none_or_raise(vks_status status, const char *what);

/* What a wait returns: None, or TimeoutError raised for VKS_TIMEOUT. */
static inline PyObject *vkpy_waited(vks_status status, const char *what, uint64_t timeout)
{
    return status == VKS_TIMEOUT ? vkpy_raise_timeout(what, timeout) : vkpy_none_or_raise(status, what);
}

/* What is_done() returns: True, False for VKS_TIMEOUT, or raised what made it fail. */
static inline PyObject *vkpy_done_or_raise(vks_status status, const char *what)
{
    if (status == VKS_OK || status == VKS_TIMEOUT)
        return PyBool_FromLong(status == VKS_OK);
    return vkpy_raise(status, what);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

#define VKPY_MAX_PARAMETERS 9

/* A method's parameters: the first `positional` may be given by position, the first `required` must be given. */
typedef struct vkpy_signature {
    const char *function;
    int positional, required, total;
    const char *names[VKPY_MAX_PARAMETERS];
    PyObject *interned[VKPY_MAX_PARAMETERS]; /* filled in when keywords are first used */
} vkpy_signature;

/* Binds a fast call's arguments; values[i] is borrowed, NULL where not given. TypeError on a mismatch. */
bool vkpy_bind_slow(vkpy_signature *signature, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                    PyObject **values);

static inline bool vkpy_bind(vkpy_signature *signature, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *keywords, PyObject **values)
{
    if (VKPY_UNLIKELY(keywords != NULL || count > signature->positional || count < signature->required))
        return vkpy_bind_slow(signature, arguments, count, keywords, values);
    for (int i = 0; i < signature->total; ++i)
        values[i] = i < count ? arguments[i] : NULL;
    return true;
}

/* Any Python int in [0, 2**64) (anything with __index__); else TypeError, or ValueError with name, value and range. */
bool vkpy_u64_slow(PyObject *object, const char *name, uint64_t *out);
bool vkpy_integer(PyObject *object, const char *name, long long least, long long most, long long *out);

static inline bool vkpy_u64(PyObject *object, const char *name, uint64_t *out)
{
    if (VKPY_LIKELY(Py_IS_TYPE(object, &PyLong_Type))) {
        *out = PyLong_AsUnsignedLongLong(object);
        if (VKPY_LIKELY(*out != UINT64_MAX))
            return true;
    }
    return vkpy_u64_slow(object, name, out);
}

/* A fence's value in [least, 2**64 - 2], `least` being 0 or 1; ValueError ends with `hint`. */
bool vkpy_fence_value_slow(PyObject *object, const char *name, unsigned least, const char *hint, uint64_t *out);

static inline bool vkpy_fence_value(PyObject *object, const char *name, unsigned least, const char *hint, uint64_t *out)
{
    if (VKPY_LIKELY(Py_IS_TYPE(object, &PyLong_Type))) {
        *out = PyLong_AsUnsignedLongLong(object);
        if (VKPY_LIKELY(*out - least <= VKS_MAX_FENCE_VALUE - least)) /* not below `least` either: that wraps */
            return true;
    }
    return vkpy_fence_value_slow(object, name, least, hint, out);
}

/* Relative nanoseconds from float seconds; NULL and None: VKS_FOREVER. */
bool vkpy_timeout_slow(PyObject *object, uint64_t *out);

static inline bool vkpy_timeout(PyObject *object, uint64_t *out)
{
    *out = VKS_FOREVER;
    return object == NULL || object == Py_None || vkpy_timeout_slow(object, out);
}

/* The absolute deadline of a relative timeout that starts now. */
static inline uint64_t vkpy_deadline(uint64_t timeout)
{
    return timeout == VKS_FOREVER || timeout == 0 ? timeout : vks_now() + timeout;
}

/* The last two arguments of notify(): a hub, which stays the Python object's, and the token to put into it. */
static inline bool vkpy_event_queue_and_token(PyObject *event_queue_object, PyObject *token_object,
                                              vks_event_queue **event_queue, uint64_t *token)
{
    vkpy_event_queue *found =
        vkpy_u64(token_object, "token", token) ? vkpy_event_queue_argument(event_queue_object, "hub") : NULL;
    *event_queue = found != NULL ? found->core : NULL;
    return found != NULL;
}

bool vkpy_fd(PyObject *object, const char *name, bool may_be_none, int *out);  /* none: -1, given as None or -1 */
bool vkpy_bool(PyObject *object, bool *out);                                   /* truth value; NULL leaves *out */
bool vkpy_type_error(PyObject *object, const char *name, const char *allowed); /* raises; false */

#endif
