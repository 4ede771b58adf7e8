/* Submission: the progress of a batch. */
#include "vkpy.h"

#define SPARES 16 /* freed objects: most are dropped at once, and the next call creates another */
static vkpy_submission *spares[SPARES];
static int n_spares;

/* Not tracked by the garbage collector: it refers to its device only, and lives for a frame. */
vkpy_submission *vkpy_submission_new(vkpy_device *device)
{
    vkpy_submission *self = VKPY_LIKELY(n_spares > 0)
                                ? (vkpy_submission *)PyObject_Init((PyObject *)spares[--n_spares], vkpy_submission_type)
                                : PyObject_New(vkpy_submission, vkpy_submission_type);
    if (VKPY_UNLIKELY(self == NULL))
        return NULL;
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    self->core = (vks_submission){.serial = 0};
    self->weakrefs = NULL;
    return self;
}

static void submission_dealloc(PyObject *object)
{
    vkpy_submission *self = (vkpy_submission *)object;
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (self->core.op != NULL)
        vks_work_unref(self->core.op);
    Py_DECREF(self->device);
    if (VKPY_LIKELY(n_spares < SPARES))
        spares[n_spares++] = self;
    else
        PyObject_Free(object);
    Py_DECREF(vkpy_submission_type);
}

static PyObject *submission_is_done(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    const vkpy_submission *self = (const vkpy_submission *)object;
    vks_status status = VKPY_SHORT(self->device, vks_submission_poll(self->device->core, &self->core));
    return vkpy_done_or_raise(status, "Submission");
}

static PyObject *submission_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    const vkpy_submission *self = (const vkpy_submission *)object;
    uint64_t timeout;
    VKPY_BIND("Submission.wait", 1, 0, 1, "timeout");
    if (!vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status = VKPY_POLL_THEN_WAIT(self->device, timeout, vks_submission_poll(self->device->core, &self->core),
                                            vks_submission_wait(self->device->core, &self->core, deadline));
    bool is_held = status == VKS_TIMEOUT && vks_submission_is_held(self->device->core, &self->core);
    return vkpy_waited(status, is_held ? "Submission.wait, of work that is held" : "Submission.wait", timeout);
}

/* Defines a function that calls one of vkshare/core/submissions.py. */
#define IN_PYTHON(function, name)                                                                                      \
    static PyObject *function(PyObject *object)                                                                        \
    {                                                                                                                  \
        static vkpy_function python = {"vkshare.core.submissions", name, NULL};                                        \
        return vkpy_call(&python, "(O)", object);                                                                      \
    }

IN_PYTHON(submission_await, "wait")
IN_PYTHON(submission_repr, "text")

static PyObject *submission_reduce(PyObject *Py_UNUSED(object), PyObject *Py_UNUSED(protocol))
{
    return PyErr_Format(PyExc_TypeError, "a Submission cannot be pickled: let it signal a fence (submit(..., "
                                         "signals=fence)) and send fence.export()");
}

static PyObject *submission_is_held(PyObject *object, void *Py_UNUSED(ignored))
{
    const vkpy_submission *self = (const vkpy_submission *)object;
    return PyBool_FromLong(VKPY_SHORT(self->device, vks_submission_is_held(self->device->core, &self->core)));
}

static PyObject *submission_address(PyObject *object, void *Py_UNUSED(ignored))
{
    return PyLong_FromVoidPtr(&((vkpy_submission *)object)->core);
}

static PyMethodDef methods[] = {
    {"is_done", submission_is_done, METH_NOARGS,
     "is_done($self)\n--\n\nReturns whether it has run; raises the cause if it failed."},
    {"wait", VKPY_FASTCALL(submission_wait), VKPY_FAST,
     "wait($self, timeout=None)\n--\n\nWaits until it has run; TimeoutError."},
    {"__reduce_ex__", submission_reduce, METH_O,
     "__reduce_ex__($self, protocol)\n--\n\nTypeError: it cannot be pickled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(submission_address),
    {"is_held", submission_is_held, NULL, "Whether it is kept back until its waits are certain to end.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    VKPY_WEAKLIST,
    {"serial", T_ULONGLONG, offsetof(vkpy_submission, core.serial), READONLY,
     "Its number in the queue's order; 0 if it was held."},
    {"device", T_OBJECT, offsetof(vkpy_submission, device), READONLY, "The device that it was given to."},
    {NULL, 0, 0, 0, NULL},
};

PyType_Slot vkpy_submission_slots[] = {
    {Py_tp_doc, (void *)"Work that was handed to a device; awaitable. Device.submit() makes it."},
    {Py_tp_dealloc, (void *)submission_dealloc},
    {Py_tp_repr, (void *)submission_repr},
    {Py_am_await, (void *)submission_await},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};
