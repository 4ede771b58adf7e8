/* CudaTimeline: a timeline semaphore that CUDA imported, with waits and signals on a stream.
 * Written in C for speed, because it is called twice a frame: four driver calls take less time than
 * one through an object of parameters.
 *
 * CUDA is not linked: the entry points come from the driver's library, which is loaded already. */
#define _GNU_SOURCE
#include "vkpy.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

typedef int (*get_pointer)(void **out);
typedef int (*take_pointer)(void *in);
typedef int (*stream_pointer)(void *stream, void **out);
typedef int (*stream_number)(void *stream, int *out);
typedef int (*on_semaphores)(void *const *semaphores, const void *parameters, unsigned count, void *stream);

static struct {
    get_pointer CtxGetCurrent, CtxPopCurrent;
    take_pointer CtxPushCurrent;
    stream_pointer StreamGetCtx;
    stream_number StreamIsCapturing;
    on_semaphores WaitExternalSemaphoresAsync, SignalExternalSemaphoresAsync;
    bool is_loaded;
} cu;

/* CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS and ..._SIGNAL_PARAMS: params.fence.value comes first in
 * both. The other fields are for other kinds of semaphores, or reserved, and 0. Both have 144
 * bytes. */
typedef union semaphore_parameters {
    uint64_t value;
    uint8_t bytes[192];
} semaphore_parameters;

#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED 900

typedef struct cuda_timeline {
    PyObject_HEAD
    void *semaphore, *context; /* CUexternalSemaphore; the CUcontext that imported it */
    unsigned calls;            /* calls in progress; protected by the GIL, as every field */
    unsigned long long given;  /* the last value that a stream was given to signal */
} cuda_timeline;

static const char *load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        return "libcuda.so.1";
    const struct {
        void *where;
        const char *name;
    } entries[] = {
        {&cu.CtxGetCurrent, "cuCtxGetCurrent"},
        {&cu.CtxPopCurrent, "cuCtxPopCurrent_v2"},
        {&cu.CtxPushCurrent, "cuCtxPushCurrent_v2"},
        {&cu.StreamGetCtx, "cuStreamGetCtx"},
        {&cu.StreamIsCapturing, "cuStreamIsCapturing"},
        {&cu.WaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync"},
        {&cu.SignalExternalSemaphoresAsync, "cuSignalExternalSemaphoresAsync"},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *address = dlsym(library, entries[i].name);
        if (address == NULL)
            return entries[i].name; /* the library stays loaded, because CUDA does not support unloading it */
        memcpy(entries[i].where, &address, sizeof address);
    }
    cu.is_loaded = true;
    return NULL;
}

static int timeline_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"semaphore", "context", NULL};
    cuda_timeline *self = (cuda_timeline *)object;
    unsigned long long semaphore, context;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "KK", names, &semaphore, &context))
        return -1;
    if (self->semaphore != NULL)
        return vkpy_raise_initialised("CudaTimeline");
    const char *missing = cu.is_loaded ? NULL : load();
    if (missing != NULL) {
        PyErr_Format(PyExc_OSError, "CUDA's driver has no %s", missing);
        return -1;
    }
    self->semaphore = (void *)(uintptr_t)semaphore;
    self->context = (void *)(uintptr_t)context;
    return 0;
}

static int check_stream(const cuda_timeline *self, void *stream)
{
    void *context = NULL;
    int capturing = 0, code = cu.StreamGetCtx(stream, &context);
    if (!code && context != self->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!code)
        code = cu.StreamIsCapturing(stream, &capturing);
    return !code && capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : code;
}

/* Streams without a handle of their own (1, 2) belong to the current context. */
static int call(const cuda_timeline *self, on_semaphores function, void *semaphore, uint64_t value, void *stream)
{
    semaphore_parameters parameters = {.bytes = {0}};
    parameters.value = value;
    void *current = NULL, *ignored;
    int code = cu.CtxGetCurrent(&current);
    bool is_pushed = !code && current != self->context;
    if (is_pushed)
        code = cu.CtxPushCurrent(self->context);
    if (code)
        return code;
    if (!(code = check_stream(self, stream)) && value)
        code = function(&semaphore, &parameters, 1, stream);
    if (is_pushed)
        cu.CtxPopCurrent(&ignored);
    return code;
}

static PyObject *on_stream(PyObject *object, PyObject *const *arguments, Py_ssize_t count, on_semaphores function)
{
    cuda_timeline *self = (cuda_timeline *)object;
    uint64_t value, stream;
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "a value and a stream are needed, and %zd arguments came", count);
        return NULL;
    }
    if (!vkpy_u64(arguments[0], "value", &value) || !vkpy_u64(arguments[1], "stream", &stream))
        return NULL;
    void *semaphore = self->semaphore;
    if (semaphore == NULL)
        return PyLong_FromLong(CUDA_ERROR_INVALID_VALUE);
    /* A full stream blocks until one of its host functions has run, which may need the GIL. */
    self->calls++;
    PyThreadState *thread = PyEval_SaveThread();
    int code = call(self, function, semaphore, value, (void *)(uintptr_t)stream);
    PyEval_RestoreThread(thread);
    self->calls--;
    if (code == 0 && function == cu.SignalExternalSemaphoresAsync)
        self->given = value; /* Ctrl-C may be raised before the caller has the result */
    return PyLong_FromLong(code);
}

static PyObject *timeline_wait(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    return on_stream(self, arguments, count, cu.WaitExternalSemaphoresAsync);
}

static PyObject *timeline_signal(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    return on_stream(self, arguments, count, cu.SignalExternalSemaphoresAsync);
}

static PyObject *timeline_detach(PyObject *object, PyObject *ignored)
{
    cuda_timeline *self = (cuda_timeline *)object;
    (void)ignored;
    void *semaphore = self->semaphore;
    self->semaphore = NULL;
    while (self->calls) { /* calls of other threads, which have read it */
        PyThreadState *thread = PyEval_SaveThread();
        sched_yield();
        PyEval_RestoreThread(thread);
    }
    return PyLong_FromVoidPtr(semaphore);
}

static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void (*)(void))timeline_wait, METH_FASTCALL,
     "wait($self, value, stream)\n--\n\nThe stream's work from now on waits for the value (0: only the stream is "
     "checked). The CUresult."},
    {"signal", (PyCFunction)(void (*)(void))timeline_signal, METH_FASTCALL,
     "signal($self, value, stream)\n--\n\nThe stream signals the value after its work so far. The CUresult."},
    {"detach", timeline_detach, METH_NOARGS,
     "detach($self)\n--\n\nThe CUexternalSemaphore (0: it was detached), the caller's to destroy: no call uses it any "
     "more."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"given", T_ULONGLONG, offsetof(cuda_timeline, given), READONLY,
     "The last value that a stream was given to signal."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_members, members},
    {Py_tp_doc, (void *)"CudaTimeline(semaphore, context): a CUexternalSemaphore of the type timeline."},
    {Py_tp_init, (void *)timeline_init},
    {Py_tp_dealloc, (void *)vkpy_dealloc_free},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec vkpy_cuda_timeline_spec = {
    "vkshare._native.CudaTimeline", sizeof(cuda_timeline), 0, Py_TPFLAGS_DEFAULT, slots,
};
