/* library.h: the preamble of vkshare._library, which cmake/emit_library.py writes.
 *
 * cffi releases the GIL around each call. A short call must keep it, because another thread would
 * keep it for a switch interval (X8). So the calls keep it, except those that the emitter wraps in
 * the macros below: functions with a deadline, unless it is 0, functions that wait for another
 * thread or for the kernel, and, in a process with a queue lock that is a Python callable,
 * functions of a device or of an object of one: the lock's holder may wait for the GIL, and a
 * thread that waits for that holder may hold any lock of the core. */
#ifndef VKPY_LIBRARY_H
#define VKPY_LIBRARY_H

#include <Python.h>

#include "vkpy_sleep.h"

#undef Py_BEGIN_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#undef Py_END_ALLOW_THREADS
#define Py_END_ALLOW_THREADS }

/* A macro of a function's own name evaluates to one of these; its call inside is the function's. */
#define VKPY_WAIT(release, call)                                                                                       \
    __extension__({                                                                                                    \
        PyThreadState *vkpy_thread = (release);                                                                        \
        __auto_type vkpy_result = (call);                                                                              \
        vkpy_restore(vkpy_thread);                                                                                     \
        vkpy_result;                                                                                                   \
    })
#define VKPY_WAIT_VOID(release, call)                                                                                  \
    __extension__({                                                                                                    \
        PyThreadState *vkpy_thread = (release);                                                                        \
        (call);                                                                                                        \
        vkpy_restore(vkpy_thread);                                                                                     \
    })

static int vkpy_queue_locks; /* that are Python callables, of living devices; guarded by the GIL */

static inline PyThreadState *vkpy_let_holder_run(void) { return vkpy_queue_locks != 0 ? PyEval_SaveThread() : NULL; }

static inline PyThreadState *vkpy_sleep_until(uint64_t deadline)
{
    if (deadline == 0)
        return vkpy_let_holder_run();
    vkpy_prepare_to_sleep();
    return PyEval_SaveThread();
}

/* A queue lock that is a tuple, of Python callables at first. The core calls them from its own
 * threads too, with or without the GIL. */
static inline void vkpy_call_back(PyObject *callables, Py_ssize_t which)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *traceback, *callable = PyTuple_GetItem(callables, which);
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallNoArgs(callable);
    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}

#endif
