/* PendingAcquire: an acquire that waits for ownership without a thread. */
#include "vkpy.h"

PyObject *vkpy_pending_acquire_new(vkpy_surface *surface, vks_work *op)
{
    vkpy_pending_acquire *self = PyObject_New(vkpy_pending_acquire, vkpy_pending_acquire_type);
    if (self == NULL) {
        VKPY_SHORT(surface->device, vks_work_cancel(op); vks_work_unref(op));
        return NULL;
    }
    self->surface = (vkpy_surface *)Py_NewRef((PyObject *)surface);
    self->core = op;
    self->weakrefs = NULL;
    return (PyObject *)self;
}

static void pending_acquire_dealloc(PyObject *object)
{
    vkpy_pending_acquire *self = (vkpy_pending_acquire *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    VKPY_SHORT(self->surface->device, vks_work_unref(self->core));
    Py_DECREF(self->surface);
    vkpy_dealloc_free(object);
}

static PyObject *pending_acquire_is_done(PyObject *object, PyObject *ignored)
{
    vkpy_pending_acquire *self = (vkpy_pending_acquire *)object;
    vks_status status;
    (void)ignored;
    VKPY_SHORT(self->surface->device, status = vks_work_poll(self->core));
    return vkpy_done_or_raise(status, "Surface.acquire_async");
}

static PyObject *pending_acquire_cancel(PyObject *object, PyObject *ignored)
{
    vkpy_pending_acquire *self = (vkpy_pending_acquire *)object;
    vks_status status;
    (void)ignored;
    VKPY_SHORT(self->surface->device, status = vks_work_cancel(self->core));
    if (status == VKS_FORKED)
        return vkpy_raise(status, "Surface.acquire_async");
    return PyBool_FromLong(status != VKS_OK); /* VKS_OK: the surface was acquired before the cancel */
}

static PyObject *pending_acquire_notify(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                        PyObject *keywords)
{
    static vkpy_signature signature = {"PendingAcquire._notify", 2, 2, 2, {"event_queue", "token"}, {NULL}};
    vkpy_pending_acquire *self = (vkpy_pending_acquire *)object;
    PyObject *values[2];
    uint64_t token;
    vks_event_queue *event_queue;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_event_queue_and_token(values[0], values[1], &event_queue, &token))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->surface->device, status = vks_work_notify(self->core, event_queue, token));
    return vkpy_none_or_raise(status, "PendingAcquire._notify");
}

static PyMethodDef methods[] = {
    {"is_done", pending_acquire_is_done, METH_NOARGS,
     "is_done($self)\n--\n\nReturns whether the surface is owned now; raises if it never can be."},
    {"cancel", pending_acquire_cancel, METH_NOARGS,
     "cancel($self)\n--\n\nTrue: cancelled. False: the surface was acquired already."},
    {"_notify", VKPY_FASTCALL(pending_acquire_notify), VKPY_FAST,
     "_notify($self, event_queue, token)\n--\n\nPuts the token into the event queue when the acquire is complete or "
     "has "
     "failed."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_pending_acquire), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"An acquire that waits for ownership. Surface.acquire_async() creates it."},
    {Py_tp_dealloc, (void *)pending_acquire_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_pending_acquire_spec = {
    "vkshare._native.PendingAcquire",
    sizeof(vkpy_pending_acquire),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots,
};
