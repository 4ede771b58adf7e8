/* EventQueue: one eventfd for any number of outstanding events. */
#include "vkpy.h"

enum { DRAINED_AT_ONCE = 64 };

vkpy_event_queue *vkpy_event_queue_argument(PyObject *object, const char *name)
{
    if (!PyObject_TypeCheck(object, vkpy_event_queue_type)) {
        vkpy_type_error(object, name, "a EventQueue");
        return NULL;
    }
    vkpy_event_queue *event_queue = (vkpy_event_queue *)object;
    return event_queue->core != NULL ? event_queue : (vkpy_event_queue *)vkpy_raise_uninitialised(object);
}

static int event_queue_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    vkpy_event_queue *self = (vkpy_event_queue *)object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":EventQueue", names))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("EventQueue");
    vks_status status = vks_event_queue_create(&self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "EventQueue");
    return status == VKS_OK ? 0 : -1;
}

static void event_queue_dealloc(PyObject *object)
{
    vkpy_event_queue *self = (vkpy_event_queue *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL) {
        vks_event_queue_close(self->core); /* fences may still refer to it for events that have no receiver any more */
        vks_event_queue_unref(self->core);
    }
    vkpy_dealloc_free(object);
}

static PyObject *event_queue_fileno(PyObject *object, PyObject *ignored)
{
    vkpy_event_queue *self = (vkpy_event_queue *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyLong_FromLong(vks_event_queue_fd(self->core));
}

/* Returns (token, None), or (token, the reason why the event can never happen). */
static PyObject *event(uint64_t token, vks_status status)
{
    PyObject *error = status == VKS_OK ? Py_NewRef(Py_None) : vkpy_exception(status, "event");
    return error == NULL ? NULL : Py_BuildValue("(KN)", (unsigned long long)token, error);
}

static bool append_events(PyObject *list, const uint64_t *tokens, const vks_status *results, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        PyObject *pair = event(tokens[i], results[i]);
        if (pair == NULL || PyList_Append(list, pair) < 0) {
            Py_XDECREF(pair);
            return false;
        }
        Py_DECREF(pair);
    }
    return true;
}

static PyObject *event_queue_drain(PyObject *object, PyObject *ignored)
{
    vkpy_event_queue *self = (vkpy_event_queue *)object;
    uint64_t tokens[DRAINED_AT_ONCE];
    vks_status results[DRAINED_AT_ONCE];
    size_t count;
    (void)ignored;
    VKPY_LIVE(self);
    PyObject *list = PyList_New(0);
    if (list == NULL)
        return NULL;
    do {
        count = vks_event_queue_drain(self->core, tokens, results, DRAINED_AT_ONCE);
        if (!append_events(list, tokens, results, count)) {
            Py_DECREF(list);
            return NULL;
        }
    } while (count == DRAINED_AT_ONCE);
    return list;
}

static PyMethodDef methods[] = {
    {"fileno", event_queue_fileno, METH_NOARGS,
     "fileno($self)\n--\n\nReturns the eventfd, readable while there are events. The event queue owns it."},
    {"drain", event_queue_drain, METH_NOARGS,
     "drain($self)\n--\n\nReturns [(token, None or the exception), ...]: the events since the last call."},
    {NULL, NULL, 0, NULL},
};

VKPY_GETTER(event_queue_address, vkpy_event_queue, PyLong_FromVoidPtr(self->core))

static PyGetSetDef getters[] = {
    {"_address", event_queue_address, NULL, "The address of the vks_event_queue.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_event_queue), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"One eventfd for any number of outstanding events."},
    {Py_tp_init, (void *)event_queue_init},
    {Py_tp_dealloc, (void *)event_queue_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_event_queue_spec = {
    "vkshare._native.EventQueue", sizeof(vkpy_event_queue), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots,
};
