/* Submission: the progress of a batch. */
#include "vkpy.h"

/* A cache of freed objects: most are dropped at once, and the next call creates another. */
#define SPARES 16
static vkpy_submission *spares[SPARES];
static int n_spares;

static vkpy_submission *allocate(void)
{
    if (VKPY_LIKELY(n_spares > 0))
        return (vkpy_submission *)PyObject_Init((PyObject *)spares[--n_spares], vkpy_submission_type);
    return PyObject_New(vkpy_submission, vkpy_submission_type);
}

/* Not tracked by the garbage collector: it refers to its device only, and most live for less than a frame. */
vkpy_submission *vkpy_submission_new(vkpy_device *device)
{
    vkpy_submission *self = allocate();
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

/* VKS_TIMEOUT while it has not run. */
static vks_status poll(vkpy_submission *self)
{
    vks_status status;
    VKPY_SHORT(self->device, status = vks_submission_poll(self->device->core, &self->core));
    return status;
}

static PyObject *submission_is_done(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    return vkpy_done_or_raise(poll((vkpy_submission *)object), "Submission");
}

static PyObject *submission_wait(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Submission.wait", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_submission *self = (vkpy_submission *)object;
    PyObject *values[1];
    uint64_t timeout;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status = poll(self);
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_submission_wait(self->device->core, &self->core, deadline));
    }
    return vkpy_waited(status, "Submission.wait", timeout);
}

static PyObject *submission_notify(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Submission._notify", 2, 2, 2, {"event_queue", "token"}, {NULL}};
    vkpy_submission *self = (vkpy_submission *)object;
    PyObject *values[2];
    uint64_t token;
    vks_event_queue *event_queue;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_event_queue_and_token(values[0], values[1], &event_queue, &token))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_submission_notify(self->device->core, &self->core, event_queue, token));
    return vkpy_none_or_raise(status, "Submission._notify");
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

static PyObject *submission_reduce(PyObject *object, PyObject *protocol)
{
    (void)object, (void)protocol;
    return PyErr_Format(PyExc_TypeError, "a Submission cannot be pickled: let it signal a fence (submit(..., "
                                         "signals=fence)) and send fence.export()");
}

static PyObject *submission_is_held(PyObject *object, void *ignored)
{
    vkpy_submission *self = (vkpy_submission *)object;
    bool held;
    (void)ignored;
    VKPY_SHORT(self->device, held = vks_submission_is_held(self->device->core, &self->core));
    return PyBool_FromLong(held);
}

static PyMethodDef methods[] = {
    {"is_done", submission_is_done, METH_NOARGS,
     "is_done($self)\n--\n\nReturns whether it has run; raises the cause if it failed."},
    {"wait", VKPY_FASTCALL(submission_wait), VKPY_FAST,
     "wait($self, timeout=None)\n--\n\nWaits until it has run; TimeoutError."},
    {"_notify", VKPY_FASTCALL(submission_notify), VKPY_FAST,
     "_notify($self, event_queue, token)\n--\n\nPuts the token into the event queue once it has run or failed."},
    {"__reduce_ex__", submission_reduce, METH_O,
     "__reduce_ex__($self, protocol)\n--\n\nTypeError: it cannot be pickled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_held", submission_is_held, NULL, "Whether it is kept back until its waits are certain to end.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    VKPY_WEAKLIST(vkpy_submission),
    {"serial", T_ULONGLONG, offsetof(vkpy_submission, core.serial), READONLY,
     "Its number in the queue's order; 0 if it was held."},
    {"device", T_OBJECT, offsetof(vkpy_submission, device), READONLY, "The device that it was given to."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Work that was handed to a device; awaitable. Device.submit() makes it."},
    {Py_tp_dealloc, (void *)submission_dealloc},
    {Py_tp_repr, (void *)submission_repr},
    {Py_am_await, (void *)submission_await},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

/* Final: submit() creates exactly this type. */
PyType_Spec vkpy_submission_spec = {"vkshare._native.Submission", sizeof(vkpy_submission), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
