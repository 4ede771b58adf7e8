/* Fence: a timeline. */
#include "vkpy.h"

/* vkshare/core/fence_core.py creates the object of the core. */
static int fence_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_fence *self = (vkpy_fence *)object;
    PyObject *device, *cell;
    if (!PyArg_ParseTuple(arguments, "OO:Fence", &device, &cell))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Fence");
    self->core = vkpy_take_of(device, cell, "vks_fence **", &self->device);
    return self->core != NULL ? 0 : -1;
}

static void fence_dealloc(PyObject *object)
{
    vkpy_fence *self = (vkpy_fence *)object;
    vkpy_dealloc_begin(object);
    if (self->core != NULL) {
        VKPY_SHORT_VOID(self->device, vks_fence_close(self->core); vks_fence_unref(self->core));
        Py_DECREF(self->device);
    }
    vkpy_dealloc_free(object);
}

static PyObject *fence_signal(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t value;
    VKPY_SELF(vkpy_fence);
    VKPY_BIND("Fence.signal", 1, 1, 1, "value");
    if (!vkpy_fence_value(values[0], "value", 1, ", above the fence's queued_value", &value))
        return NULL;
    vks_status status = VKPY_SHORT(self->device, vks_fence_signal(self->core, value));
    return vkpy_none_or_raise(status, "Fence.signal");
}

static PyObject *fence_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t value, timeout;
    VKPY_SELF(vkpy_fence);
    VKPY_BIND("Fence.wait", 2, 1, 2, "value", "timeout");
    if (!vkpy_fence_value(values[0], "value", 0, "", &value) || !vkpy_timeout(values[1], &timeout))
        return NULL;
    vks_status status = VKPY_POLL_THEN_WAIT(self->device, timeout, vks_fence_poll(self->core, value),
                                            vks_fence_wait(self->core, value, deadline));
    return vkpy_waited(status, "Fence.wait", timeout);
}

static PyObject *fence_is_done(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t value;
    VKPY_SELF(vkpy_fence);
    VKPY_BIND("Fence.is_done", 1, 1, 1, "value");
    if (!vkpy_fence_value(values[0], "value", 0, "", &value))
        return NULL;
    return vkpy_done_or_raise(VKPY_SHORT(self->device, vks_fence_poll(self->core, value)), "Fence.is_done");
}

static inline PyObject *read_value(vkpy_fence *self, vks_status (*read)(vks_fence *, uint64_t *), const char *what)
{
    uint64_t value = 0;
    vks_status status = VKPY_SHORT(self->device, read(self->core, &value));
    return vkpy_u64_or_raise(status, value, what);
}

VKPY_GETTER(fence_value, vkpy_fence, read_value(self, vks_fence_value, "Fence.value"))
VKPY_GETTER(fence_queued_value, vkpy_fence, read_value(self, vks_fence_queued, "Fence.queued_value"))
VKPY_GETTER(fence_device, vkpy_fence, Py_NewRef((PyObject *)self->device))
VKPY_ADDRESS_GETTER(fence_address, vkpy_fence)
VKPY_GETTER(fence_is_closed, vkpy_fence, PyBool_FromLong(vks_fence_is_closed(self->core)))

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

VKPY_SLOTS(fence, fence, vkpy_traverse, "A 64-bit counter that only grows: the base of vkshare.Fence.", vkpy_weaklist,
           {Py_tp_methods, methods});
