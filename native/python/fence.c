/* Fence: a timeline. */
#include "vkpy.h"

/* ---- its beginning and its end ----------------------------------------------------------------------------------- */

/* vkshare/core/fence_core.py creates the object of the core. */
static int fence_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *device, *cell;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OO:Fence", &device, &cell))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Fence");
    self->core = vkpy_take(device, cell, "vks_fence **", &self->device);
    return self->core != NULL ? 0 : -1;
}

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

/* ---- use --------------------------------------------------------------------------------------------------------- */

static PyObject *fence_signal(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Fence.signal", 1, 1, 1, {"value"}, {NULL}};
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *values[1];
    uint64_t value;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_fence_value(values[0], "value", 1, ", above the fence's queued_value", &value))
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
    PyObject *values[1];
    uint64_t value;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_fence_value(values[0], "value", 0, "", &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_fence_poll(self->core, value));
    return vkpy_done_or_raise(status, "Fence.is_done");
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
VKPY_ADDRESS_GETTER(fence_address, vkpy_fence)
VKPY_GETTER(fence_is_closed, vkpy_fence, PyBool_FromLong(vks_fence_is_closed(self->core)))

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"signal", VKPY_FASTCALL(fence_signal), VKPY_FAST,
     "signal($self, value)\n--\n\nSignals the value from the host, immediately."},
    {"wait", VKPY_FASTCALL(fence_wait), VKPY_FAST,
     "wait($self, value, timeout=None)\n--\n\nWaits until the value is reached; TimeoutError."},
    {"is_done", VKPY_FASTCALL(fence_is_done), VKPY_FAST,
     "is_done($self, value)\n--\n\nReturns whether the value is reached; raises if it never can be."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(fence_address),
    {"value", fence_value, NULL, "What has completed.", NULL},
    {"queued_value", fence_queued_value, NULL, "What will have completed once all submitted work has run.", NULL},
    {"device", fence_device, NULL, "The device that it belongs to.", NULL},
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
