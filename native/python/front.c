/* ServerPoll: the part of a render server's loop that needs no Python, over native/server/front.h. */
#include "vkpy_server.h"

enum { TOLD_AT_ONCE = 64 };

static int front_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    vkpy_front *self = (vkpy_front *)object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":ServerPoll", names))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("ServerPoll");
    vks_status status = vks_front_create(&self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "ServerPoll");
    return status == VKS_OK ? 0 : -1;
}

static void front_dealloc(PyObject *object)
{
    vkpy_front *self = (vkpy_front *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    vks_front_destroy(self->core);
    vkpy_dealloc_free(object);
}

static PyObject *front_add(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"ServerPoll.add", 3, 3, 3, {"fd", "token", "interest"}, {NULL}};
    vkpy_front *self = (vkpy_front *)object;
    PyObject *values[3];
    uint64_t token;
    long long interest;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd) ||
        !vkpy_u64(values[1], "token", &token) || !vkpy_integer(values[2], "interest", 0, 3, &interest))
        return NULL;
    return vkpy_none_or_raise(vks_front_add(self->core, fd, token, (uint32_t)interest), "ServerPoll.add");
}

static PyObject *front_watch(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"ServerPoll.watch", 3, 3, 3, {"fd", "interest", "answers_no_ops"}, {NULL}};
    vkpy_front *self = (vkpy_front *)object;
    PyObject *values[3];
    long long interest;
    bool answers_no_ops;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd) ||
        !vkpy_integer(values[1], "interest", 0, 3, &interest) || !vkpy_bool(values[2], &answers_no_ops))
        return NULL;
    return vkpy_none_or_raise(vks_front_watch(self->core, fd, (uint32_t)interest, answers_no_ops), "ServerPoll.watch");
}

static PyObject *front_remove(PyObject *object, PyObject *fd_object)
{
    vkpy_front *self = (vkpy_front *)object;
    int fd;
    VKPY_LIVE(self);
    if (!vkpy_fd(fd_object, "fd", false, &fd))
        return NULL;
    vks_front_remove(self->core, fd);
    Py_RETURN_NONE;
}

static PyObject *front_set_generation(PyObject *object, PyObject *value)
{
    vkpy_front *self = (vkpy_front *)object;
    long long generation;
    VKPY_LIVE(self);
    if (!vkpy_integer(value, "generation", 0, UINT32_MAX, &generation))
        return NULL;
    vks_front_set_generation(self->core, (uint32_t)generation);
    Py_RETURN_NONE;
}

/* (token, what, sequences of no-ops whose replies found no room) */
static PyObject *told(const vks_front_event *event)
{
    PyObject *owed = PyTuple_New(event->n_owed);
    for (uint32_t i = 0; owed != NULL && i < event->n_owed; ++i) {
        PyObject *sequence = PyLong_FromUnsignedLong(event->owed[i]);
        if (sequence == NULL || PyTuple_SetItem(owed, i, sequence) < 0)
            Py_CLEAR(owed);
    }
    return owed == NULL ? NULL : Py_BuildValue("(KIN)", (unsigned long long)event->token, event->what, owed);
}

static PyObject *front_wait(PyObject *object, PyObject *timeout_object)
{
    vkpy_front *self = (vkpy_front *)object;
    vks_front_event events[TOLD_AT_ONCE];
    uint64_t timeout;
    uint32_t count = 0;
    vks_status status;
    VKPY_LIVE(self);
    if (!vkpy_timeout(timeout_object, &timeout))
        return NULL;
    uint64_t deadline = vkpy_deadline(timeout);
    /* No patience: an idle server sleeps (R17). The loop has a wake-up fd for signals among what is watched. */
    PyThreadState *thread = PyEval_SaveThread();
    status = vks_front_wait(self->core, events, TOLD_AT_ONCE, &count, deadline);
    PyEval_RestoreThread(thread);
    if (status != VKS_OK && status != VKS_TIMEOUT && status != VKS_INTERRUPTED)
        return vkpy_raise(status, "ServerPoll.wait");
    if (PyErr_CheckSignals() < 0)
        return NULL;
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; ++i) {
        PyObject *event = told(&events[i]);
        if (event == NULL || PyList_SetItem(list, i, event) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *front_answered(PyObject *object, void *ignored)
{
    vkpy_front *self = (vkpy_front *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyLong_FromUnsignedLongLong(vks_front_answered(self->core));
}

static PyMethodDef methods[] = {
    {"add", VKPY_FASTCALL(front_add), VKPY_FAST,
     "add($self, fd, token, interest)\n--\n\nWatches it; interest: 1 read, 2 write. The fd stays the caller's."},
    {"watch", VKPY_FASTCALL(front_watch), VKPY_FAST,
     "watch($self, fd, interest, answers_no_ops)\n--\n\nis_quick: no-ops are answered here, without a word."},
    {"remove", front_remove, METH_O, "remove($self, fd, /)\n--\n\nBefore it is closed."},
    {"set_generation", front_set_generation, METH_O,
     "set_generation($self, generation, /)\n--\n\nWhich device generation a no-op must name to be answered here."},
    {"wait", front_wait, METH_O,
     "wait($self, timeout, /)\n--\n\n[(token, what, owed), ...]; what: 1 read, 2 write, 4 gone, 8 garbage; owed: "
     "sequences of no-ops that are to be answered still. Sleeps without the GIL."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"answered", front_answered, NULL, "No-ops that were answered here, ever.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_front), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     (void *)"Sleeps until something happens on a server's connections, and answers no-ops. For one thread."},
    {Py_tp_init, (void *)front_init},
    {Py_tp_dealloc, (void *)front_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_front_spec = {
    "vkshare._native.ServerPoll", sizeof(vkpy_front), 0, Py_TPFLAGS_DEFAULT, slots,
};
