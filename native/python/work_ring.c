/* WorkRing: a ring of requests to a rendering thread and back, over native/server/work_ring.h. */
#include "vkpy_server.h"

static int work_ring_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"event_queue", "token", NULL};
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    PyObject *event_queue_object, *token_object;
    vks_event_queue *event_queue;
    uint64_t token;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO:WorkRing", names, &event_queue_object, &token_object) ||
        !vkpy_event_queue_and_token(event_queue_object, token_object, &event_queue, &token))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("WorkRing");
    vks_status status = vks_work_ring_create(event_queue, token, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "WorkRing");
    return status == VKS_OK ? 0 : -1;
}

/* Drops everything in the ring. The rendering thread has its own reference while it uses the ring.
 */
static void work_ring_dealloc(PyObject *object)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL) {
        vks_command command;
        void *request;
        vks_work_ring_close(self->core);
        while (vks_work_ring_collect(self->core, &command)) {
            Py_DECREF((PyObject *)command.request);
            Py_DECREF((PyObject *)command.result);
        }
        while (vks_work_ring_drop(self->core, &request))
            Py_DECREF((PyObject *)request);
        vks_work_ring_destroy(self->core);
    }
    vkpy_dealloc_free(object);
}

static PyObject *work_ring_give(PyObject *object, PyObject *request)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    VKPY_LIVE(self);
    vks_status status = vks_work_ring_give(self->core, Py_NewRef(request));
    if (status != VKS_OK)
        Py_DECREF(request);
    return vkpy_none_or_raise(status, "WorkRing.give");
}

static PyObject *work_ring_take(PyObject *object, PyObject *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    void *request = NULL;
    vks_status status;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_BLOCKING(status, vks_work_ring_take(self->core, &request));
    if (status == VKS_CLOSED)
        Py_RETURN_NONE;
    /* The command keeps its own reference until it is collected. */
    return status == VKS_OK ? Py_NewRef((PyObject *)request) : vkpy_raise(status, "WorkRing.take");
}

static PyObject *work_ring_done(PyObject *object, PyObject *result)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    VKPY_LIVE(self);
    vks_work_ring_done(self->core, Py_NewRef(result));
    Py_RETURN_NONE;
}

static PyObject *work_ring_collect(PyObject *object, PyObject *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    vks_command command;
    (void)ignored;
    VKPY_LIVE(self);
    if (!vks_work_ring_collect(self->core, &command))
        Py_RETURN_NONE;
    return Py_BuildValue("(NN)", (PyObject *)command.request, (PyObject *)command.result);
}

static PyObject *work_ring_drop(PyObject *object, PyObject *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    void *request;
    (void)ignored;
    VKPY_LIVE(self);
    if (!vks_work_ring_drop(self->core, &request))
        Py_RETURN_NONE;
    return (PyObject *)request;
}

static PyObject *work_ring_close(PyObject *object, PyObject *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_work_ring_close(self->core);
    Py_RETURN_NONE;
}

static PyObject *work_ring_leave(PyObject *object, PyObject *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_work_ring_leave(self->core);
    Py_RETURN_NONE;
}

static PyObject *work_ring_has_left(PyObject *object, void *ignored)
{
    vkpy_work_ring *self = (vkpy_work_ring *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyBool_FromLong(vks_work_ring_has_left(self->core));
}

static PyMethodDef methods[] = {
    {"give", work_ring_give, METH_O,
     "give($self, request, /)\n--\n\nLoop: adds a request for the rendering thread. VkshareError: the ring is full."},
    {"take", work_ring_take, METH_NOARGS,
     "take($self)\n--\n\nRendering thread: waits for the next request, without the GIL. None: the ring is closed."},
    {"done", work_ring_done, METH_O,
     "done($self, result, /)\n--\n\nRendering thread: completes the taken request; puts the token into the event "
     "queue."},
    {"leave", work_ring_leave, METH_NOARGS,
     "leave($self)\n--\n\nRendering thread: announces its exit; puts the token into the event queue."},
    {"collect", work_ring_collect, METH_NOARGS,
     "collect($self)\n--\n\nLoop: returns (request, result) of the next completed request, or None."},
    {"drop", work_ring_drop, METH_NOARGS,
     "drop($self)\n--\n\nLoop, after close() and leave(): returns the next request that is not completed, or None."},
    {"close", work_ring_close, METH_NOARGS,
     "close($self)\n--\n\nLoop: the rendering thread takes no further request. Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"has_left", work_ring_has_left, NULL, "Whether the rendering thread has called leave().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_work_ring), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A ring of a client's requests to its rendering thread and back."},
    {Py_tp_init, (void *)work_ring_init},
    {Py_tp_dealloc, (void *)work_ring_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_work_ring_spec = {
    "vkshare._native.WorkRing", sizeof(vkpy_work_ring), 0, Py_TPFLAGS_DEFAULT, slots,
};
