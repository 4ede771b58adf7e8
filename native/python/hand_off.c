/* WorkRing: requests on their way to a rendering thread and back, over native/server/hand_off.h. */
#include "vkpy_server.h"

static int hand_off_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"hub", "token", NULL};
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    PyObject *event_queue_object, *token_object;
    vks_event_queue *event_queue;
    uint64_t token;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO:WorkRing", names, &event_queue_object, &token_object) ||
        !vkpy_event_queue_and_token(event_queue_object, token_object, &event_queue, &token))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("WorkRing");
    vks_status status = vks_hand_off_create(event_queue, token, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "WorkRing");
    return status == VKS_OK ? 0 : -1;
}

/* Lets go of everything that is in it. The rendering thread has a reference of its own while it is there. */
static void hand_off_dealloc(PyObject *object)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL) {
        vks_command command;
        void *request;
        vks_hand_off_close(self->core);
        while (vks_hand_off_collect(self->core, &command)) {
            Py_DECREF((PyObject *)command.request);
            Py_DECREF((PyObject *)command.result);
        }
        while (vks_hand_off_drop(self->core, &request))
            Py_DECREF((PyObject *)request);
        vks_hand_off_destroy(self->core);
    }
    vkpy_dealloc_free(object);
}

static PyObject *hand_off_give(PyObject *object, PyObject *request)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    VKPY_LIVE(self);
    vks_status status = vks_hand_off_give(self->core, Py_NewRef(request));
    if (status != VKS_OK)
        Py_DECREF(request);
    return vkpy_none_or_raise(status, "WorkRing.give");
}

static PyObject *hand_off_take(PyObject *object, PyObject *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    void *request = NULL;
    vks_status status;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_BLOCKING(status, vks_hand_off_take(self->core, &request));
    if (status == VKS_CLOSED)
        Py_RETURN_NONE;
    /* The command's own reference stays with it until it is collected. */
    return status == VKS_OK ? Py_NewRef((PyObject *)request) : vkpy_raise(status, "WorkRing.take");
}

static PyObject *hand_off_done(PyObject *object, PyObject *result)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    VKPY_LIVE(self);
    vks_hand_off_done(self->core, Py_NewRef(result));
    Py_RETURN_NONE;
}

static PyObject *hand_off_collect(PyObject *object, PyObject *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    vks_command command;
    (void)ignored;
    VKPY_LIVE(self);
    if (!vks_hand_off_collect(self->core, &command))
        Py_RETURN_NONE;
    return Py_BuildValue("(NN)", (PyObject *)command.request, (PyObject *)command.result);
}

static PyObject *hand_off_drop(PyObject *object, PyObject *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    void *request;
    (void)ignored;
    VKPY_LIVE(self);
    if (!vks_hand_off_drop(self->core, &request))
        Py_RETURN_NONE;
    return (PyObject *)request;
}

static PyObject *hand_off_close(PyObject *object, PyObject *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_hand_off_close(self->core);
    Py_RETURN_NONE;
}

static PyObject *hand_off_leave(PyObject *object, PyObject *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_hand_off_leave(self->core);
    Py_RETURN_NONE;
}

static PyObject *hand_off_has_left(PyObject *object, void *ignored)
{
    vkpy_hand_off *self = (vkpy_hand_off *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyBool_FromLong(vks_hand_off_has_left(self->core));
}

static PyMethodDef methods[] = {
    {"give", hand_off_give, METH_O,
     "give($self, request, /)\n--\n\nLoop: one more command for the rendering thread. VkshareError: too many are out."},
    {"take", hand_off_take, METH_NOARGS,
     "take($self)\n--\n\nRendering thread: the next request; sleeps, without the GIL. None: it is closed."},
    {"done", hand_off_done, METH_O,
     "done($self, result, /)\n--\n\nRendering thread: what was taken is done; puts the token into the hub."},
    {"leave", hand_off_leave, METH_NOARGS,
     "leave($self)\n--\n\nRendering thread: it ends; puts the token into the hub."},
    {"collect", hand_off_collect, METH_NOARGS,
     "collect($self)\n--\n\nLoop: (request, result) of the next command that is done, or None."},
    {"drop", hand_off_drop, METH_NOARGS,
     "drop($self)\n--\n\nLoop, once it is closed and the thread has left: the next request that nobody took, or None."},
    {"close", hand_off_close, METH_NOARGS, "close($self)\n--\n\nLoop: the rendering thread takes no more. Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"has_left", hand_off_has_left, NULL, "Whether the rendering thread has called leave().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_hand_off), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A client's requests on their way to its rendering thread and back."},
    {Py_tp_init, (void *)hand_off_init},
    {Py_tp_dealloc, (void *)hand_off_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_hand_off_spec = {
    "vkshare._native.WorkRing", sizeof(vkpy_hand_off), 0, Py_TPFLAGS_DEFAULT, slots,
};
