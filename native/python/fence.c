/* Fence: a timeline. */
#include "vkpy.h"

#include <unistd.h>

/* ---- making one -------------------------------------------------------------------------------------------------- */

static bool set_core(vkpy_fence *self, vkpy_device *device, vks_status status, vks_fence *core, const char *what)
{
    if (status != VKS_OK)
        return vkpy_raise(status, what) != NULL;
    if (self->core != NULL) { /* another thread, or an argument's __index__, called __init__ meanwhile */
        VKPY_SHORT(device, vks_fence_close(core); vks_fence_unref(core));
        return vkpy_raise_initialised("Fence") == 0;
    }
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    self->core = core;
    return true;
}

static int fence_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"device", "initial", NULL};
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *device_object, *initial_object = NULL;
    uint64_t initial = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:Fence", names, &device_object, &initial_object))
        return -1;
    vkpy_device *device = vkpy_device_argument(device_object, "device");
    if (device == NULL || (initial_object != NULL && !vkpy_fence_value(initial_object, "initial", 0, "", &initial)))
        return -1;
    vks_fence *core = NULL;
    vks_status status;
    VKPY_SHORT(device, status = vks_fence_create(device->core, initial, &core));
    return set_core(self, device, status, core, "Device.create_fence") ? 0 : -1;
}

/* Returns an instance of `type` without a call of its __init__. */
static vkpy_fence *bare_fence(PyObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
    return (vkpy_fence *)allocate((PyTypeObject *)type, 0);
}

static PyObject *wrap(PyObject *type, vkpy_device *device, vks_status status, vks_fence *core, const char *what)
{
    vkpy_fence *self = bare_fence(type);
    if (self == NULL && status == VKS_OK)
        VKPY_SHORT(device, vks_fence_close(core); vks_fence_unref(core));
    if (self != NULL && !set_core(self, device, status, core, what))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static PyObject *fence_open(PyObject *type, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence._open", 3, 3, 3, {"device", "page_fd", "semaphore_fd"}, {NULL}};
    PyObject *values[3];
    int page_fd, semaphore_fd;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[1], "page_fd", false, &page_fd) ||
        !vkpy_fd(values[2], "semaphore_fd", true, &semaphore_fd))
        return NULL;
    vkpy_device *device = vkpy_device_argument(values[0], "device");
    if (device == NULL) { /* taken over from here on */
        close_fd(page_fd);
        close_fd(semaphore_fd);
        return NULL;
    }
    vks_fence *core = NULL;
    vks_status status;
    VKPY_SHORT(device, status = vks_fence_open(device->core, page_fd, semaphore_fd, &core));
    return wrap(type, device, status, core, "Device.open_fence");
}

static PyObject *fence_adopt(PyObject *type, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence._adopt", 2, 2, 2, {"device", "semaphore"}, {NULL}};
    PyObject *values[2];
    uint64_t semaphore;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[1], "semaphore", &semaphore))
        return NULL;
    vkpy_device *device = vkpy_device_argument(values[0], "device");
    if (device == NULL)
        return NULL;
    if (semaphore == 0) {
        PyErr_SetString(PyExc_ValueError, "semaphore is VK_NULL_HANDLE, allowed is a timeline semaphore of the device");
        return NULL;
    }
    vks_fence *core = NULL;
    vks_status status;
    VKPY_SHORT(device, status = vks_fence_adopt(device->core, semaphore, &core));
    return wrap(type, device, status, core, "Device.adopt_fence");
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static int fence_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((vkpy_fence *)object)->device);
    return 0;
}

static void fence_dealloc(PyObject *object)
{
    vkpy_fence *self = (vkpy_fence *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    if (self->core != NULL) {
        VKPY_SHORT(self->device, vks_fence_close(self->core); vks_fence_unref(self->core));
        Py_DECREF(self->device);
    }
    vkpy_dealloc_free(object);
}

static PyObject *fence_close(PyObject *object, PyObject *ignored)
{
    vkpy_fence *self = (vkpy_fence *)object;
    (void)ignored;
    VKPY_LIVE(self);
    /* The close waits for submissions to another API's queue, where a host function may need the
     * GIL. */
    Py_BEGIN_ALLOW_THREADS
    vks_fence_close(self->core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

/* Reads the only argument of signal(), where 0 is not allowed, is_done() and event_fd(). */
static bool read_value(vkpy_signature *signature, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                       unsigned least, uint64_t *value)
{
    PyObject *values[1];
    return vkpy_bind(signature, arguments, count, keywords, values) &&
           vkpy_fence_value(values[0], "value", least, least != 0 ? ", above the fence's queued_value" : "", value);
}

static PyObject *fence_signal(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence.signal", 1, 1, 1, {"value"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    VKPY_LIVE(self);
    if (!read_value(&signature, arguments, count, keywords, 1, &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_signal(self->core, value));
    return vkpy_none_or_raise(status, "Fence.signal");
}

static PyObject *fence_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence.wait", 2, 1, 2, {"value", "timeout"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *values[2];
    uint64_t value, timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_fence_value(values[0], "value", 0, "", &value) || !vkpy_timeout(values[1], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_poll(self->core, value));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_fence_wait(self->core, value, deadline));
    }
    return vkpy_waited(status, "Fence.wait", timeout);
}

static PyObject *fence_is_done(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence.is_done", 1, 1, 1, {"value"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    VKPY_LIVE(self);
    if (!read_value(&signature, arguments, count, keywords, 0, &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_poll(self->core, value));
    return vkpy_done_or_raise(status, "Fence.is_done");
}

static PyObject *fence_event_fd(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence.event_fd", 1, 1, 1, {"value"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    int fd = -1;
    VKPY_LIVE(self);
    if (!read_value(&signature, arguments, count, keywords, 0, &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_event_fd(self->core, value, &fd));
    return status == VKS_OK ? PyLong_FromLong(fd) : vkpy_raise(status, "Fence.event_fd");
}

static PyObject *fence_notify(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence._notify", 3, 3, 3, {"value", "event_queue", "token"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *values[3];
    uint64_t value, token;
    vks_event_queue *event_queue;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_fence_value(values[0], "value", 0, "", &value) ||
        !vkpy_event_queue_and_token(values[1], values[2], &event_queue, &token))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_notify(self->core, value, event_queue, token));
    return vkpy_none_or_raise(status, "Fence._notify");
}

static PyObject *fence_export(PyObject *object, PyObject *ignored)
{
    vkpy_fence *self = (vkpy_fence *)object;
    int page_fd = -1, semaphore_fd = -1;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_export(self->core, &page_fd, &semaphore_fd));
    return status == VKS_OK ? Py_BuildValue("(ii)", page_fd, semaphore_fd) : vkpy_raise(status, "Fence.export");
}

/* ---- another API's queue ----------------------------------------------------------------------------------------- */

static PyObject *fence_external_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence._external_wait", 2, 1, 2, {"value", "timeout"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *values[2];
    uint64_t value, timeout, wait = 0;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_fence_value(values[0], "value", 0, "", &value) || !vkpy_timeout(values[1], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_external_wait(self->core, value, 0, &wait));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_fence_external_wait(self->core, value, deadline, &wait));
    }
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(wait) : vkpy_waited(status, "CUDAFence.wait", timeout);
}

static PyObject *fence_external_begin(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                      PyObject *keywords)
{
    static vkpy_signature signature = {"Fence._external_begin", 1, 1, 1, {"value"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value, wait = 0;
    VKPY_LIVE(self);
    if (!read_value(&signature, arguments, count, keywords, 1, &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_external_begin(self->core, value, &wait));
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(wait) : vkpy_raise(status, "CUDAFence.signal");
}

static PyObject *fence_external_end(PyObject *object, PyObject *number)
{
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    VKPY_LIVE(self);
    if (!vkpy_u64(number, "value", &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_external_end(self->core, value));
    return vkpy_none_or_raise(status, "CUDAFence.signal");
}

static PyObject *fence_external_lost(PyObject *object, PyObject *ignored)
{
    vkpy_fence *self = (vkpy_fence *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_external_lost(self->core));
    return vkpy_none_or_raise(status, "CUDAFence");
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

static PyObject *fence_value(PyObject *object, void *ignored)
{
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_value(self->core, &value));
    return VKPY_LIKELY(status == VKS_OK) ? PyLong_FromUnsignedLongLong(value) : vkpy_raise(status, "Fence.value");
}

static PyObject *fence_queued_value(PyObject *object, void *ignored)
{
    vkpy_fence *self = (vkpy_fence *)object;
    uint64_t value;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_queued(self->core, &value));
    return VKPY_LIKELY(status == VKS_OK) ? PyLong_FromUnsignedLongLong(value)
                                         : vkpy_raise(status, "Fence.queued_value");
}

VKPY_GETTER(fence_device, vkpy_fence, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(fence_handle, vkpy_fence, PyLong_FromUnsignedLongLong(vks_fence_semaphore(self->core)))
VKPY_GETTER(fence_is_follower, vkpy_fence, PyBool_FromLong(vks_fence_is_follower(self->core)))
VKPY_GETTER(fence_is_native, vkpy_fence, PyBool_FromLong(vks_fence_is_native(self->core)))
VKPY_GETTER(fence_is_closed, vkpy_fence, PyBool_FromLong(vks_fence_is_closed(self->core)))

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"signal", VKPY_FASTCALL(fence_signal), VKPY_FAST,
     "signal($self, value)\n--\n\nSignals the value from the host, immediately."},
    {"wait", VKPY_FASTCALL(fence_wait), VKPY_FAST,
     "wait($self, value, timeout=None)\n--\n\nWaits until the value is reached; TimeoutError."},
    {"is_done", VKPY_FASTCALL(fence_is_done), VKPY_FAST,
     "is_done($self, value)\n--\n\nReturns whether the value is reached; raises if it never can be."},
    {"event_fd", VKPY_FASTCALL(fence_event_fd), VKPY_FAST,
     "event_fd($self, value)\n--\n\nAn eventfd, the caller's to close, readable once the value is reached or never can "
     "be."},
    {"_notify", VKPY_FASTCALL(fence_notify), VKPY_FAST,
     "_notify($self, value, event_queue, token)\n--\n\nPuts the token into the event queue at that value."},
    {"close", fence_close, METH_NOARGS,
     "close($self)\n--\n\nCloses the fence: waits for values that can no longer be reached fail. Idempotent."},
    {"_export", fence_export, METH_NOARGS,
     "_export($self)\n--\n\n(page fd, semaphore fd or -1), the caller's to close."},
    {"_open", VKPY_FASTCALL(fence_open), VKPY_FAST | METH_CLASS,
     "_open($type, device, page_fd, semaphore_fd)\n--\n\nA follower; takes over the fds."},
    {"_external_wait", VKPY_FASTCALL(fence_external_wait), VKPY_FAST,
     "_external_wait($self, value, timeout=None)\n--\n\nWhat another API's queue must wait for so that the value is "
     "reached (0: it is); waits until that is certain to come."},
    {"_external_begin", VKPY_FASTCALL(fence_external_begin), VKPY_FAST,
     "_external_begin($self, value)\n--\n\nWhat such a queue must wait for (0: nothing) before it signals the value."},
    {"_external_end", fence_external_end, METH_O,
     "_external_end($self, value)\n--\n\nThe queue has the signal of the value (0: it has not, and will not)."},
    {"_external_lost", fence_external_lost, METH_NOARGS,
     "_external_lost($self)\n--\n\nThe other API died: what it was to signal never comes."},
    {"_adopt", VKPY_FASTCALL(fence_adopt), VKPY_FAST | METH_CLASS,
     "_adopt($type, device, semaphore)\n--\n\nAn engine's own timeline semaphore."},
    {NULL, NULL, 0, NULL},
};

VKPY_ADDRESS_GETTER(fence_address, vkpy_fence)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(fence_address),
    {"value", fence_value, NULL, "What has completed.", NULL},
    {"queued_value", fence_queued_value, NULL, "What will have completed once all submitted work has run.", NULL},
    {"device", fence_device, NULL, "The device that it belongs to.", NULL},
    {"handle", fence_handle, NULL, "VkSemaphore; 0 on the CPU backend.", NULL},
    {"is_follower", fence_is_follower, NULL, "Whether another party signals it.", NULL},
    {"is_native", fence_is_native, NULL, "A follower whose semaphore the GPU itself can wait for.", NULL},
    {"is_closed", fence_is_closed, NULL, "Whether close() ran.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_fence), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A 64-bit counter that only grows: the base of vkshare.Fence."},
    {Py_tp_init, (void *)fence_init},
    {Py_tp_dealloc, (void *)fence_dealloc},
    {Py_tp_traverse, (void *)fence_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_fence_spec = {
    "vkshare._native.Fence",
    sizeof(vkpy_fence),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
