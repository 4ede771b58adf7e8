/* vkpy.h: declarations that the extension's files share.
 *
 * The extension is thin: it reads arguments, keeps references, decides when to release the GIL, and
 * turns a vks_status into an exception. vkshare.h documents the calls, vkshare/_native.pyi the
 * Python API.
 *
 * Conventions
 *
 * - The GIL protects every field here. References are owned unless a comment says "no reference".
 * - A call that may sleep is first tried with deadline 0 and the GIL held. The GIL is released only
 *   if the call would sleep (rule X8: a short call must not release the GIL, because another thread
 *   would keep it for a switch interval).
 * - The extension uses only the limited API of CPython 3.11. There is one interpreter a process, so
 *   types and interned names are static.
 * - A C function for an engine's queue lock may be called with the GIL held, so no thread may wait
 *   for the GIL while it holds that lock. */
#ifndef VKPY_H
#define VKPY_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>

#include "present/swapchain.h"
#include "record/record.h"
#include "vkpy_sleep.h"
#include "vkshare.h"

#define VKPY_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define VKPY_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* ---- objects --------------------------------------------------------------------------------------------------- */

typedef struct vkpy_pixels vkpy_pixels;
typedef struct vkpy_held_arguments vkpy_held_arguments;

/* Objects of a device begin as this one does. */
#define VKPY_HEAD                                                                                                      \
    PyObject_HEAD                                                                                                      \
    PyObject *weakrefs;                                                                                                \
    struct vkpy_device *device

typedef struct vkpy_object {
    VKPY_HEAD;
} vkpy_object;

typedef struct vkpy_device {
    PyObject_HEAD
    PyObject *weakrefs;                          /* as in VKPY_HEAD */
    vks_device *core;                            /* NULL until __init__ has succeeded */
    PyObject *queue_lock;                        /* the queue lock, if it is a pair of Python callables; else NULL */
    vkpy_pixels *pixels;                         /* of destroyed surfaces whose work may still use them */
    vkpy_held_arguments *held_first, *held_last; /* arguments of held submissions */
    vks_recorder *recorder;                      /* a reference; NULL: lists become programs of the rasteriser */
    uint32_t subpixel_bits;                      /* of these; 0: _set_recorder() was not called */
} vkpy_device;

typedef struct vkpy_submission {
    VKPY_HEAD;
    vks_submission core;
} vkpy_submission;

typedef struct vkpy_commands {
    VKPY_HEAD;
    vks_commands *core; /* NULL until compiled */
    PyObject *surface;  /* that _set_vulkan() was given, or NULL */
} vkpy_commands;

/* A CommandList that records. */
typedef struct vkpy_recording {
    vkpy_commands base;
    vks_recording *core; /* what was recorded; NULL until __init__ has succeeded */
    PyObject *used;      /* list: the surface of each use of `core`; NULL: closed */
} vkpy_recording;

typedef struct vkpy_fence {
    VKPY_HEAD;
    vks_fence *core;
} vkpy_fence;

typedef struct vkpy_surface {
    VKPY_HEAD;
    vks_surface *core;
    vkpy_pixels *pixels;    /* CPU backend only; else NULL */
    vks_drawable *drawable; /* a reference: its image, as commands use it; NULL: none was set */
    bool is_read_only;      /* commands may not write to it */
    PyObject *swapchain;    /* weak reference to the Swapchain whose image it is; NULL: none */
    uint64_t generation;    /* in that swapchain */
} vkpy_surface;

/* One end of a surface queue. */
typedef struct vkpy_queue {
    VKPY_HEAD;
    vks_queue *core;
    PyObject *surfaces; /* tuple: the device's handles, in the network's order */
} vkpy_queue;

typedef struct vkpy_swapchain {
    VKPY_HEAD;
    vks_swapchain *core;
    PyTypeObject *frame_type;        /* vkshare.present.frame.Frame */
    PyObject *acquired, *presenting; /* called with each frame, after acquire and before present; NULL, None: none */
    PyObject *check_window;          /* called at intervals while an acquire waits; NULL, None: none */
    uint64_t adopted_generation;     /* generation of the images in `adopted` */
    uint32_t adopted;                /* a bit for each image that has its Surface */
    bool asks_server;                /* true for windows: any driver call may make a round trip to the server */
} vkpy_swapchain;

typedef struct vkpy_frame {
    PyObject_HEAD
    vkpy_swapchain *swapchain;
    vks_frame core; /* generation 0: it has no image; hidden, because the window has no pixels */
    bool is_over;   /* presented or closed */
} vkpy_frame;

/* Created once by module.c, never freed. */
extern PyTypeObject *vkpy_device_type, *vkpy_submission_type, *vkpy_commands_type, *vkpy_fence_type, *vkpy_surface_type,
    *vkpy_array_buffer_type, *vkpy_recording_type, *vkpy_producer_type, *vkpy_consumer_type, *vkpy_swapchain_type,
    *vkpy_frame_type;
extern PyType_Slot vkpy_device_slots[], vkpy_submission_slots[], vkpy_commands_slots[], vkpy_fence_slots[],
    vkpy_surface_slots[], vkpy_array_buffer_slots[], vkpy_recording_slots[], vkpy_producer_slots[],
    vkpy_consumer_slots[], vkpy_swapchain_slots[], vkpy_frame_slots[];

/* Defines the slots of a type: functions of one prefix, the table `properties`, further slots. */
#define VKPY_SLOTS(name, prefix, traverse, doc, members, ...)                                                          \
    PyType_Slot vkpy_##name##_slots[] = {{Py_tp_doc, (void *)(doc)},                                                   \
                                         {Py_tp_init, (void *)prefix##_init},                                          \
                                         {Py_tp_dealloc, (void *)prefix##_dealloc},                                    \
                                         {Py_tp_traverse, (void *)(traverse)},                                         \
                                         {Py_tp_getset, properties},                                                   \
                                         {Py_tp_members, members},                                                     \
                                         __VA_ARGS__,                                                                  \
                                         {0, NULL}}

#define VKPY_WEAKLIST {"__weaklistoffset__", T_PYSSIZET, offsetof(vkpy_object, weakrefs), READONLY, NULL}
extern PyMemberDef vkpy_weaklist[]; /* the members of a type without others */
#define VKPY_FASTCALL(function) ((PyCFunction)(void (*)(void))(function))
#define VKPY_FAST (METH_FASTCALL | METH_KEYWORDS) /* the flags of such a function */

/* Every method begins with one of these: `field` is NULL until __init__ has succeeded. */
#define VKPY_LIVE_BY(self, field)                                                                                      \
    if (VKPY_UNLIKELY((self)->field == NULL))                                                                          \
    return vkpy_raise_uninitialised((PyObject *)(self))
#define VKPY_LIVE(self) VKPY_LIVE_BY(self, core)
/* The same of `object`, with a declaration of `self`. */
#define VKPY_SELF(type)                                                                                                \
    type *self = (type *)object;                                                                                       \
    VKPY_LIVE(self)

/* Defines a property's getter, which returns `value`, an expression of a live `self`. */
#define VKPY_GETTER(function, type, value) VKPY_GETTER_BY(function, type, core, value)
#define VKPY_GETTER_BY(function, type, field, value)                                                                   \
    static PyObject *function(PyObject *object, void *Py_UNUSED(ignored))                                              \
    {                                                                                                                  \
        type *self = (type *)object;                                                                                   \
        VKPY_LIVE_BY(self, field);                                                                                     \
        return value;                                                                                                  \
    }

/* Defines the getter of `_address`, the object of the core as an int: for
 * vkshare.util.library_calls.pointer(). */
#define VKPY_ADDRESS_GETTER(function, type) VKPY_GETTER(function, type, PyLong_FromVoidPtr((void *)self->core))
#define VKPY_ADDRESS(function) {"_address", function, NULL, "The address of its object of the C library.", NULL}

/* Visits the type and the device of an object. */
int vkpy_traverse(PyObject *object, visitproc visit, void *arg);
/* Called first and last in every dealloc. `free` also drops the reference to the type. */
void vkpy_dealloc_begin(PyObject *self);
void vkpy_dealloc_free(PyObject *self);

/* Raises InvalidCallError, because __init__ was not called or failed. Returns NULL. */
PyObject *vkpy_raise_uninitialised(PyObject *object);
/* Raises InvalidCallError, because __init__ was called again. Returns -1, as __init__ does. */
int vkpy_raise_initialised(const char *type);
/* Returns the argument without a new reference if it is a live object of that type; else raises
 * TypeError or InvalidCallError, and returns NULL. */
vkpy_device *vkpy_device_argument(PyObject *object, const char *name);
/* Returns the object in the cell of that kind ("vks_fence **"), which then is empty; else raises,
 * and returns NULL. */
void *vkpy_take(PyObject *cell, const char *kind);
/* The same of an object of a device, of which *owner gets a reference. */
void *vkpy_take_of(PyObject *device, PyObject *cell, const char *kind, vkpy_device **owner);
/* Returns a Submission whose `core` the caller fills in. */
vkpy_submission *vkpy_submission_new(vkpy_device *device);
/* Device.submit, _native.dlpack and _native.dlpack_fields. */
PyObject *vkpy_submit(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_dlpack(PyObject *module, PyObject *arguments);
PyObject *vkpy_dlpack_fields(PyObject *module, PyObject *capsule);

/* Returns the frame, without a new reference, if it is of this swapchain, and neither presented nor
 * closed; else raises and returns NULL. */
vkpy_frame *vkpy_frame_argument(const vkpy_swapchain *swapchain, PyObject *object);

/* commands.c: drops the compiled commands. Work in flight has its own reference. */
void vkpy_commands_forget(vkpy_commands *self);
int vkpy_commands_init(PyObject *object, PyObject *arguments, PyObject *keywords);
int vkpy_commands_traverse(PyObject *object, visitproc visit, void *arg);
/* compile.c: Recording._compile(). */
PyObject *vkpy_compile(PyObject *self, PyObject *ignored);
/* record.c: raises ClosedError if close() ran; arguments may have run any Python code. */
bool vkpy_recording_is_open(const vkpy_recording *self);

/* surface.c: drops the memory of destroyed CPU surfaces that no work uses any more, or all. */
void vkpy_pixels_reap(vkpy_device *device, bool all);

/* Keeps a tuple, which it takes over (NULL: it was not made), while `submission` is held. */
bool vkpy_hold_arguments(vkpy_device *device, const vks_submission *submission, PyObject *objects);
void vkpy_held_arguments_release(
    vkpy_device *device,
    size_t most); /* drops arguments of submissions that are no longer held, among the `most` oldest */
void vkpy_held_arguments_release_all(vkpy_device *device);
void vkpy_held_arguments_clear(vkpy_device *device);
int vkpy_held_arguments_traverse(const vkpy_device *device, visitproc visit, void *arg);

/* ---- calls into the core --------------------------------------------------------------------------------------- */

/* The value of a call that does not sleep, which keeps the GIL. If the queue lock is a Python
 * callable, the GIL is released: the lock's holder may wait for the GIL, and a thread that waits
 * for that holder may hold any lock of the core. */
#define VKPY_SHORT(owner, call)                                                                                        \
    __extension__({                                                                                                    \
        PyThreadState *vkpy_thread = vkpy_let_holder_run(owner);                                                       \
        __auto_type vkpy_value = (call);                                                                               \
        vkpy_restore(vkpy_thread);                                                                                     \
        vkpy_value;                                                                                                    \
    })
#define VKPY_SHORT_VOID(owner, calls)                                                                                  \
    do {                                                                                                               \
        PyThreadState *vkpy_thread = vkpy_let_holder_run(owner);                                                       \
        calls;                                                                                                         \
        vkpy_restore(vkpy_thread);                                                                                     \
    } while (0)

static inline PyThreadState *vkpy_let_holder_run(const vkpy_device *owner)
{
    return VKPY_UNLIKELY(owner->queue_lock != NULL) ? PyEval_SaveThread() : NULL;
}

/* The status of a call that may sleep: releases the GIL, and calls again after each signal. It is
 * VKS_INTERRUPTED if a signal handler raised. */
#define VKPY_BLOCKING(call)                                                                                            \
    __extension__({                                                                                                    \
        vks_status vkpy_status;                                                                                        \
        do {                                                                                                           \
            vkpy_prepare_to_sleep();                                                                                   \
            PyThreadState *vkpy_thread = PyEval_SaveThread();                                                          \
            vkpy_status = (call);                                                                                      \
            PyEval_RestoreThread(vkpy_thread);                                                                         \
        } while (vkpy_status == VKS_INTERRUPTED && PyErr_CheckSignals() == 0);                                         \
        vkpy_status;                                                                                                   \
    })

/* The status of `poll`, a short call, or of `wait`, a call with `deadline`, if it must sleep. */
#define VKPY_POLL_THEN_WAIT(owner, timeout, poll, wait)                                                                \
    __extension__({                                                                                                    \
        vks_status vkpy_polled = VKPY_SHORT(owner, poll);                                                              \
        if (vkpy_polled == VKS_TIMEOUT && (timeout) != 0) {                                                            \
            uint64_t deadline = vkpy_deadline(timeout);                                                                \
            vkpy_polled = VKPY_BLOCKING(wait);                                                                         \
        }                                                                                                              \
        vkpy_polled;                                                                                                   \
    })

/* ---- errors ---------------------------------------------------------------------------------------------------- */

/* Each raises the exception of `status` and returns NULL. `what` names the call, e.g.
 * "Fence.signal"; the text is the calling thread's last error of the core, if that has the same
 * status. VKS_INTERRUPTED: the handler's exception is set already. */
PyObject *vkpy_raise(vks_status status, const char *what);
/* The text ends with the timeout; `error_class` NULL: TimeoutError. */
PyObject *vkpy_raise_timeout(const char *error_class, uint64_t timeout, const char *format, ...);
PyObject *vkpy_raise_named(const char *error_class, const char *format, ...); /* a class of vkshare.errors */
PyObject *vkpy_none_or_raise(vks_status status, const char *what);

/* Returns None, or raises TimeoutError for VKS_TIMEOUT. */
static inline PyObject *vkpy_waited(vks_status status, const char *what, uint64_t timeout)
{
    return status == VKS_TIMEOUT ? vkpy_raise_timeout(NULL, timeout, "%s: not done", what)
                                 : vkpy_none_or_raise(status, what);
}

/* Returns the value, or raises. */
static inline PyObject *vkpy_u64_or_raise(vks_status status, uint64_t value, const char *what)
{
    return VKPY_LIKELY(status == VKS_OK) ? PyLong_FromUnsignedLongLong(value) : vkpy_raise(status, what);
}

/* Returns True, or False for VKS_TIMEOUT, or raises the cause of the failure. */
static inline PyObject *vkpy_done_or_raise(vks_status status, const char *what)
{
    if (status == VKS_OK || status == VKS_TIMEOUT)
        return PyBool_FromLong(status == VKS_OK);
    return vkpy_raise(status, what);
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

/* A function of a module of vkshare, imported when it is first called. */
typedef struct vkpy_function {
    const char *module, *name;
    PyObject *found; /* initially NULL */
} vkpy_function;

/* `format`: of Py_BuildValue(), a tuple. Returns a new reference, or NULL with an exception. */
PyObject *vkpy_call(vkpy_function *function, const char *format, ...);

#define VKPY_MAX_PARAMETERS 9

/* A method's parameters: the first `positional` go by position, the first `required` are needed. */
typedef struct vkpy_signature {
    const char *function;
    int positional, required, total;
    const char *names[VKPY_MAX_PARAMETERS];
    PyObject *interned[VKPY_MAX_PARAMETERS]; /* set when keywords are first used */
} vkpy_signature;

/* Binds a fast call's arguments. values[i] is no reference, NULL if not given. TypeError on a
 * mismatch. */
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

/* Declares values[] and binds a fast call's arguments to it, or returns NULL: the fields of a
 * vkpy_signature, the names last. */
#define VKPY_BIND(function, positional, required, total, ...)                                                          \
    static vkpy_signature signature = {function, positional, required, total, {__VA_ARGS__}, {NULL}};                  \
    PyObject *values[total];                                                                                           \
    if (!vkpy_bind(&signature, arguments, count, keywords, values))                                                    \
    return NULL

/* Reads a Python int (any object with __index__) in [least, most]; else TypeError, or ValueError
 * with name, value, range and `hint`. `most` is UINT64_MAX or VKS_MAX_FENCE_VALUE. */
bool vkpy_u64_slow(PyObject *object, const char *name, unsigned least, uint64_t most, const char *hint, uint64_t *out);
/* Reads an exact float, or an exact int that fits; false without an exception: it is something
 * else, or NULL. Runs no Python code. */
bool vkpy_quick_double(PyObject *object, double *out);

static inline bool vkpy_u64(PyObject *object, const char *name, uint64_t *out)
{
    if (VKPY_LIKELY(Py_IS_TYPE(object, &PyLong_Type))) {
        *out = PyLong_AsUnsignedLongLong(object);
        if (VKPY_LIKELY(*out != UINT64_MAX))
            return true;
    }
    return vkpy_u64_slow(object, name, 0, UINT64_MAX, "", out);
}

/* Reads a fence's value in [least, 2**64 - 2]; a ValueError ends with `hint`. */
static inline bool vkpy_fence_value(PyObject *object, const char *name, unsigned least, const char *hint, uint64_t *out)
{
    if (VKPY_LIKELY(Py_IS_TYPE(object, &PyLong_Type))) {
        *out = PyLong_AsUnsignedLongLong(object);
        if (VKPY_LIKELY(*out - least <= VKS_MAX_FENCE_VALUE - least)) /* a value below `least` wraps */
            return true;
    }
    return vkpy_u64_slow(object, name, least, VKS_MAX_FENCE_VALUE, hint, out);
}

/* Converts float seconds to relative nanoseconds; NULL and None: VKS_FOREVER. */
bool vkpy_timeout_slow(PyObject *object, uint64_t *out);

static inline bool vkpy_timeout(PyObject *object, uint64_t *out)
{
    *out = VKS_FOREVER;
    return object == NULL || object == Py_None || vkpy_timeout_slow(object, out);
}

/* Returns the absolute deadline of a relative timeout that starts now. */
static inline uint64_t vkpy_deadline(uint64_t timeout)
{
    return timeout == VKS_FOREVER || timeout == 0 ? timeout : vks_now() + timeout;
}

bool vkpy_bool(PyObject *object, bool *out); /* truth value; NULL leaves *out unchanged */
bool vkpy_type_error(PyObject *object, const char *name, const char *allowed); /* raises; false */

#endif
