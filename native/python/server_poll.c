/* ServerPoll: the part of a render server's loop without Python, over native/server/poll.h. */
#include "vkpy_server.h"

enum { MAX_EVENTS = 64 };

static int server_poll_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":ServerPoll", names))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("ServerPoll");
    vks_status status = vks_server_poll_create(&self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "ServerPoll");
    return status == VKS_OK ? 0 : -1;
}

static void server_poll_dealloc(PyObject *object)
{
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    vks_server_poll_destroy(self->core);
    vkpy_dealloc_free(object);
}

static PyObject *server_poll_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"ServerPoll.add", 3, 3, 3, {"fd", "token", "interest"}, {NULL}};
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    PyObject *values[3];
    uint64_t token;
    long long interest;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd) ||
        !vkpy_u64(values[1], "token", &token) || !vkpy_integer(values[2], "interest", 0, 3, &interest))
        return NULL;
    return vkpy_none_or_raise(vks_server_poll_add(self->core, fd, token, (uint32_t)interest), "ServerPoll.add");
}

static PyObject *server_poll_watch(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"ServerPoll.watch", 3, 3, 3, {"fd", "interest", "answers_no_ops"}, {NULL}};
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    PyObject *values[3];
    long long interest;
    bool answers_no_ops;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd) ||
        !vkpy_integer(values[1], "interest", 0, 3, &interest) || !vkpy_bool(values[2], &answers_no_ops))
        return NULL;
    return vkpy_none_or_raise(vks_server_poll_watch(self->core, fd, (uint32_t)interest, answers_no_ops),
                              "ServerPoll.watch");
}

static PyObject *server_poll_remove(PyObject *object, PyObject *fd_object)
{
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_fd(fd_object, "fd", false, &fd))
        return NULL;
    vks_server_poll_remove(self->core, fd);
    Py_RETURN_NONE;
}

static PyObject *server_poll_set_generation(PyObject *object, PyObject *value)
{
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    long long generation;
    VKPY_LIVE(self);
    if (!vkpy_integer(value, "generation", 0, UINT32_MAX, &generation))
        return NULL;
    vks_server_poll_set_generation(self->core, (uint32_t)generation);
    Py_RETURN_NONE;
}

/* Returns (token, events, sequence numbers of no-ops whose replies are unsent). */
static PyObject *event_tuple(const vks_server_poll_event *event)
{
    PyObject *unsent = PyTuple_New(event->n_unsent);
    for (uint32_t i = 0; unsent != NULL && i < event->n_unsent; ++i) {
        PyObject *sequence = PyLong_FromUnsignedLong(event->unsent[i]);
        if (sequence == NULL || PyTuple_SetItem(unsent, i, sequence) < 0)
            Py_CLEAR(unsent);
    }
    return unsent == NULL ? NULL : Py_BuildValue("(KIN)", (unsigned long long)event->token, event->events, unsent);
}

static PyObject *server_poll_wait(PyObject *object, PyObject *timeout_object)
{
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    vks_server_poll_event events[MAX_EVENTS];
    uint64_t timeout;
    uint32_t count = 0;
    vks_status status;
    VKPY_LIVE(self);
    if (!vkpy_timeout(timeout_object, &timeout))
        return NULL;
    uint64_t deadline = vkpy_deadline(timeout);
    /* No interrupt interval, because an idle server sleeps (R17); the loop watches a wake-up fd for
     * signals. */
    PyThreadState *thread = PyEval_SaveThread();
    status = vks_server_poll_wait(self->core, events, MAX_EVENTS, &count, deadline);
    PyEval_RestoreThread(thread);
    if (status != VKS_OK && status != VKS_TIMEOUT && status != VKS_INTERRUPTED)
        return vkpy_raise(status, "ServerPoll.wait");
    if (PyErr_CheckSignals() < 0)
        return NULL;
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; ++i) {
        PyObject *event = event_tuple(&events[i]);
        if (event == NULL || PyList_SetItem(list, i, event) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *server_poll_answered(PyObject *object, void *ignored)
{
    vkpy_server_poll *self = (vkpy_server_poll *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyLong_FromUnsignedLongLong(vks_server_poll_answered(self->core));
}

static PyMethodDef methods[] = {
    {"add", VKPY_FASTCALL(server_poll_add), VKPY_FAST,
     "add($self, fd, token, interest)\n--\n\nWatches the fd, which the caller owns; interest: 1 read, 2 write."},
    {"watch", VKPY_FASTCALL(server_poll_watch), VKPY_FAST,
     "watch($self, fd, interest, answers_no_ops)\n--\n\nSets the interest. answers_no_ops: no-ops are answered here "
     "and not "
     "returned."},
    {"remove", server_poll_remove, METH_O,
     "remove($self, fd, /)\n--\n\nStops watching the fd. Call it before the fd is closed."},
    {"set_generation", server_poll_set_generation, METH_O,
     "set_generation($self, generation, /)\n--\n\nSets the device generation that a no-op must name to be answered "
     "here."},
    {"wait", server_poll_wait, METH_O,
     "wait($self, timeout, /)\n--\n\nReturns [(token, events, unsent), ...]; events: 1 read, 2 write, 4 closed, 8 "
     "protocol "
     "error; unsent: sequence numbers of no-ops that the caller must answer. Releases the GIL."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"answered", server_poll_answered, NULL, "No-ops answered here, in total.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_server_poll), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Waits for events on a server's connections, and answers no-ops. For one thread."},
    {Py_tp_init, (void *)server_poll_init},
    {Py_tp_dealloc, (void *)server_poll_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_server_poll_spec = {
    "vkshare._native.ServerPoll", sizeof(vkpy_server_poll), 0, Py_TPFLAGS_DEFAULT, slots,
};
