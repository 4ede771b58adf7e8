/* Display, Dispatcher, Observer, Bridge, BridgeEnd: delivery of ticks (native/vsync/display.h,
 * bridge.h). */
#include "vkpy_vsync.h"

#include "vsync/bridge.h"

PyTypeObject *vkpy_display_type, *vkpy_dispatcher_type, *vkpy_observer_type, *vkpy_bridge_type, *vkpy_bridge_end_type;

typedef struct vkpy_display {
    PyObject_HEAD
    vks_display *core;
    PyObject *weakrefs;
} vkpy_display;

typedef struct vkpy_dispatcher {
    PyObject_HEAD
    vks_dispatcher *core;
    PyObject *weakrefs;
} vkpy_dispatcher;

typedef struct vkpy_observer {
    PyObject_HEAD
    vks_observer *core;
    PyObject *weakrefs;
} vkpy_observer;

typedef struct vkpy_bridge {
    PyObject_HEAD
    vks_bridge *core;
    PyObject *weakrefs;
} vkpy_bridge;

typedef struct vkpy_bridge_end {
    PyObject_HEAD
    vks_bridge_end *core;
    vkpy_display *display; /* kept alive until vks_bridge_leave() */
    PyObject *weakrefs;
} vkpy_bridge_end;

static const char *const kinds[] = {
    [VKS_TICK_SOFTWARE] = "software",
    [VKS_TICK_X11_PRESENT] = "x11-present",
    [VKS_TICK_PRESENT_WAIT] = "present-wait",
    [VKS_TICK_DISPLAY_CONTROL] = "display-control",
    [VKS_TICK_PRESENT_TIMING] = "present-timing",
};

/* ---- displays ---------------------------------------------------------------------------------------------------- */

/* Reads nanoseconds as a fraction; Python code has checked its meaning. */
static bool read_interval(PyObject *numerator, PyObject *denominator, vks_interval *out)
{
    long long below;
    if (!vkpy_u64(numerator, "numerator", &out->numerator) ||
        !vkpy_integer(denominator, "denominator", 1, UINT32_MAX, &below))
        return false;
    out->denominator = (uint32_t)below;
    if (vks_interval_check(*out) == VKS_OK)
        return true;
    PyErr_SetString(PyExc_ValueError, vks_last_error()->text);
    return false;
}

static vkpy_display *display_argument(PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_display_type)) {
        vkpy_type_error(object, "display", "a Display");
        return NULL;
    }
    vkpy_display *display = (vkpy_display *)object;
    return display->core != NULL ? display : (vkpy_display *)vkpy_raise_uninitialised(object);
}

static int display_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"numerator", "denominator", "is_estimated", NULL};
    vkpy_display *self = (vkpy_display *)object;
    PyObject *numerator, *denominator;
    int is_estimated;
    vks_interval interval;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOp:Display", names, &numerator, &denominator,
                                     &is_estimated) ||
        !read_interval(numerator, denominator, &interval))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Display");
    vks_status status = vks_display_create(interval, is_estimated, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "Display");
    return status == VKS_OK ? 0 : -1;
}

static void display_dealloc(PyObject *object)
{
    vkpy_display *self = (vkpy_display *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL) {
        vks_display_shutdown(self->core);
        vks_display_unref(self->core);
    }
    vkpy_dealloc_free(object);
}

static PyObject *display_number(PyObject *object, void *ignored)
{
    vkpy_display *self = (vkpy_display *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyLong_FromUnsignedLong(vks_display_number(self->core));
}

static PyObject *display_set_interval(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                      PyObject *keywords)
{
    static vkpy_signature signature = {
        "Display._set_interval", 3, 3, 3, {"numerator", "denominator", "is_estimated"}, {NULL}};
    vkpy_display *self = (vkpy_display *)object;
    PyObject *values[3];
    vks_interval interval;
    bool is_estimated = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_interval(values[0], values[1], &interval) ||
        !vkpy_bool(values[2], &is_estimated))
        return NULL;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_display_set_interval(self->core, interval, is_estimated), "Display.set_interval");
}

static bool read_kind(PyObject *object, vks_tick_kind *out)
{
    if (!PyUnicode_Check(object))
        return vkpy_type_error(object, "kind", "a str");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (PyUnicode_CompareWithASCIIString(object, kinds[i]) == 0) {
            *out = (vks_tick_kind)i;
            return true;
        }
    PyErr_Format(PyExc_ValueError,
                 "kind is %R, allowed are 'software', 'x11-present', 'present-wait', 'display-control' and "
                 "'present-timing'",
                 object);
    return false;
}

static PyObject *display_listen(PyObject *object, PyObject *kind_object)
{
    vkpy_display *self = (vkpy_display *)object;
    vks_tick_kind kind;
    uint32_t source;
    if (!read_kind(kind_object, &kind))
        return NULL;
    VKPY_LIVE(self);
    vks_status status;
    Py_BEGIN_ALLOW_THREADS
    status = vks_display_set_source(self->core, kind, NULL, &source);
    Py_END_ALLOW_THREADS
    return status == VKS_OK ? PyLong_FromUnsignedLong(source) : vkpy_raise(status, "Display");
}

static PyObject *display_heard(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Display._heard", 2, 2, 2, {"source", "time"}, {NULL}};
    vkpy_display *self = (vkpy_display *)object;
    PyObject *values[2];
    uint64_t source, time;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "source", &source) ||
        !vkpy_u64(values[1], "time", &time))
        return NULL;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_display_hardware_tick(self->core, (uint32_t)source, time), "Display");
}

static PyObject *display_wait_wanted(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Display._wait_wanted", 3, 2, 3, {"source", "is_wanted", "timeout"}, {NULL}};
    vkpy_display *self = (vkpy_display *)object;
    PyObject *values[3];
    uint64_t source, timeout;
    bool is_wanted = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "source", &source) ||
        !vkpy_bool(values[1], &is_wanted) || !vkpy_timeout(values[2], &timeout))
        return NULL;
    VKPY_LIVE(self);
    uint64_t deadline = vkpy_deadline(timeout);
    vks_status status;
    VKPY_BLOCKING(status, vks_display_wait_wanted(self->core, (uint32_t)source, is_wanted, deadline));
    return vkpy_waited(status, "Display", timeout);
}

static PyObject *display_shutdown(PyObject *object, PyObject *ignored)
{
    vkpy_display *self = (vkpy_display *)object;
    (void)ignored;
    VKPY_LIVE(self);
    Py_BEGIN_ALLOW_THREADS
    vks_display_shutdown(self->core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *display_counters(PyObject *object, PyObject *ignored)
{
    vkpy_display *self = (vkpy_display *)object;
    vks_display_statistics out;
    (void)ignored;
    VKPY_LIVE(self);
    vks_display_get_statistics(self->core, &out);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:s,s:K,s:I,s:N}", "ticks", (unsigned long long)out.ticks,
                         "hardware", (unsigned long long)out.hardware, "skipped", (unsigned long long)out.skipped,
                         "breaks", (unsigned long long)out.breaks, "wakeups", (unsigned long long)out.wakeups, "late",
                         (unsigned long long)out.late, "latest", (unsigned long long)out.latest, "observing",
                         out.observing, "kind",
                         kinds[out.kind <= VKS_TICK_PRESENT_TIMING ? out.kind : VKS_TICK_SOFTWARE], "numerator",
                         (unsigned long long)out.interval.numerator, "denominator", out.interval.denominator,
                         "is_estimated", PyBool_FromLong(out.is_estimated));
}

static PyMethodDef display_methods[] = {
    {"_set_interval", VKPY_FASTCALL(display_set_interval), VKPY_FAST,
     "_set_interval($self, numerator, denominator, is_estimated)\n--\n\nSets the interval in nanoseconds, from the "
     "tick after the next one on."},
    {"_listen", display_listen, METH_O,
     "_listen($self, kind)\n--\n\nSets a hardware source of that kind; returns the source's number."},
    {"_heard", VKPY_FASTCALL(display_heard), VKPY_FAST,
     "_heard($self, source, time)\n--\n\nReports a hardware tick at `time`, ns of CLOCK_MONOTONIC."},
    {"_wait_wanted", VKPY_FASTCALL(display_wait_wanted), VKPY_FAST,
     "_wait_wanted($self, source, is_wanted, timeout=None)\n--\n\nWaits until the display has observers, or has none."},
    {"_shutdown", display_shutdown, METH_NOARGS, "_shutdown($self)\n--\n\nEnds the thread; idempotent."},
    {"_counters", display_counters, METH_NOARGS, "_counters($self)\n--\n\nvks_display_statistics as a dict."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef display_getters[] = {
    {"number", display_number, NULL, "The number in Tick.display, unique in this process.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef display_members[] = {VKPY_WEAKLIST(vkpy_display), {NULL, 0, 0, 0, NULL}};

static PyType_Slot display_slots[] = {
    {Py_tp_doc, (void *)"A thread that delivers ticks to its dispatchers."},
    {Py_tp_init, (void *)display_init},
    {Py_tp_dealloc, (void *)display_dealloc},
    {Py_tp_methods, display_methods},
    {Py_tp_getset, display_getters},
    {Py_tp_members, display_members},
    {0, NULL},
};

PyType_Spec vkpy_display_spec = {
    "vkshare._native.Display", sizeof(vkpy_display), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, display_slots,
};

/* ---- dispatchers ------------------------------------------------------------------------------------------------- */

static vkpy_dispatcher *dispatcher_argument(PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_dispatcher_type)) {
        vkpy_type_error(object, "dispatcher", "a VsyncDispatcher");
        return NULL;
    }
    vkpy_dispatcher *dispatcher = (vkpy_dispatcher *)object;
    return dispatcher->core != NULL ? dispatcher : (vkpy_dispatcher *)vkpy_raise_uninitialised(object);
}

static int dispatcher_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"display", NULL};
    vkpy_dispatcher *self = (vkpy_dispatcher *)object;
    PyObject *display_object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:VsyncDispatcher", names, &display_object))
        return -1;
    vkpy_display *display = display_argument(display_object);
    if (display == NULL)
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("VsyncDispatcher");
    vks_status status = vks_dispatcher_create(display->core, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "VsyncDispatcher");
    return status == VKS_OK ? 0 : -1;
}

static void dispatcher_dealloc(PyObject *object)
{
    vkpy_dispatcher *self = (vkpy_dispatcher *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL) {
        vks_dispatcher_close(self->core);
        vks_dispatcher_unref(self->core);
    }
    vkpy_dealloc_free(object);
}

static PyObject *dispatcher_move(PyObject *object, PyObject *display_object)
{
    vkpy_dispatcher *self = (vkpy_dispatcher *)object;
    vkpy_display *display = display_argument(display_object);
    if (display == NULL)
        return NULL;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_dispatcher_move(self->core, display->core), "VsyncDispatcher.move");
}

static PyObject *dispatcher_close(PyObject *object, PyObject *ignored)
{
    vkpy_dispatcher *self = (vkpy_dispatcher *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_dispatcher_close(self->core);
    Py_RETURN_NONE;
}

static PyMethodDef dispatcher_methods[] = {
    {"_move", dispatcher_move, METH_O, "_move($self, display)\n--\n\nMoves to another display."},
    {"_close", dispatcher_close, METH_NOARGS, "_close($self)\n--\n\nEnds its observers' waits; idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef dispatcher_members[] = {VKPY_WEAKLIST(vkpy_dispatcher), {NULL, 0, 0, 0, NULL}};

static PyType_Slot dispatcher_slots[] = {
    {Py_tp_doc, (void *)"Delivers a window's ticks to its observers."},
    {Py_tp_init, (void *)dispatcher_init},
    {Py_tp_dealloc, (void *)dispatcher_dealloc},
    {Py_tp_methods, dispatcher_methods},
    {Py_tp_members, dispatcher_members},
    {0, NULL},
};

PyType_Spec vkpy_dispatcher_spec = {
    "vkshare._native.Dispatcher",
    sizeof(vkpy_dispatcher),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    dispatcher_slots,
};

/* ---- observers --------------------------------------------------------------------------------------------------- */

static int observer_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"dispatcher", NULL};
    vkpy_observer *self = (vkpy_observer *)object;
    PyObject *dispatcher_object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Observer", names, &dispatcher_object))
        return -1;
    vkpy_dispatcher *dispatcher = dispatcher_argument(dispatcher_object);
    if (dispatcher == NULL)
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Observer");
    vks_status status = vks_observer_create(dispatcher->core, NULL, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "Observer");
    return status == VKS_OK ? 0 : -1;
}

static void observer_dealloc(PyObject *object)
{
    vkpy_observer *self = (vkpy_observer *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL)
        vks_observer_destroy(self->core);
    vkpy_dealloc_free(object);
}

static PyObject *observer_attend(PyObject *object, PyObject *ignored)
{
    vkpy_observer *self = (vkpy_observer *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_observer_attend(self->core), "Observer.attend");
}

static PyObject *observer_rest(PyObject *object, PyObject *ignored)
{
    vkpy_observer *self = (vkpy_observer *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_observer_rest(self->core), "Observer.rest");
}

static PyObject *observer_close(PyObject *object, PyObject *ignored)
{
    vkpy_observer *self = (vkpy_observer *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_observer_close(self->core);
    Py_RETURN_NONE;
}

/* Returns (display, id, time, output, numerator, denominator, kind, flags, missed), or None for
 * VKS_TIMEOUT. */
static PyObject *tick_or_raise(vks_status status, const vks_tick *tick, uint64_t missed, const char *what)
{
    if (status == VKS_TIMEOUT)
        Py_RETURN_NONE;
    if (status != VKS_OK)
        return vkpy_raise(status, what);
    return Py_BuildValue("(IKKKKIsIK)", tick->display, (unsigned long long)tick->id, (unsigned long long)tick->time,
                         (unsigned long long)tick->output, (unsigned long long)tick->interval.numerator,
                         tick->interval.denominator, kinds[tick->kind], tick->flags, (unsigned long long)missed);
}

static PyObject *observer_wait(PyObject *object, PyObject *timeout_object)
{
    vkpy_observer *self = (vkpy_observer *)object;
    uint64_t timeout, missed = 0;
    vks_tick tick;
    if (!vkpy_timeout(timeout_object, &timeout))
        return NULL;
    VKPY_LIVE(self);
    vks_status status = vks_observer_wait(self->core, 0, &tick, &missed);
    if (status == VKS_TIMEOUT && timeout) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_observer_wait(self->core, deadline, &tick, &missed));
    }
    return tick_or_raise(status, &tick, missed, "Observer.wait");
}

static PyObject *observer_fileno(PyObject *object, PyObject *ignored)
{
    vkpy_observer *self = (vkpy_observer *)object;
    int fd;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status = vks_observer_fd(self->core, &fd);
    return status == VKS_OK ? PyLong_FromLong(fd) : vkpy_raise(status, "Observer.fileno");
}

static PyMethodDef observer_methods[] = {
    {"_wait", observer_wait, METH_O,
     "_wait($self, timeout)\n--\n\nReturns the newest tick as a tuple; None: there is none."},
    {"attend", observer_attend, METH_NOARGS,
     "attend($self)\n--\n\nStarts or resumes delivery. Idempotent. The first observer of a display gets the last\n"
     "tick at once, flagged MISSED, if that is younger than an interval. ClosedError."},
    {"rest", observer_rest, METH_NOARGS,
     "rest($self)\n--\n\nStops delivery: after it returns no tick arrives, and a posted one that was not taken is\n"
     "removed. Idempotent, also after a close. A display without observers sleeps."},
    {"fileno", observer_fileno, METH_NOARGS,
     "fileno($self)\n--\n\nReturns an eventfd that is readable while there is a tick to take, for select and poll.\n"
     "The observer owns it. ClosedError."},
    {"_close", observer_close, METH_NOARGS,
     "_close($self)\n--\n\nCloses the observer: its waits raise ClosedError; idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef observer_members[] = {VKPY_WEAKLIST(vkpy_observer), {NULL, 0, 0, 0, NULL}};

static PyType_Slot observer_slots[] = {
    {Py_tp_doc, (void *)"Receives ticks from a dispatcher."},
    {Py_tp_init, (void *)observer_init},
    {Py_tp_dealloc, (void *)observer_dealloc},
    {Py_tp_methods, observer_methods},
    {Py_tp_members, observer_members},
    {0, NULL},
};

PyType_Spec vkpy_observer_spec = {
    "vkshare._native.Observer", sizeof(vkpy_observer), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, observer_slots,
};

/* ---- bridges ----------------------------------------------------------------------------------------------------- */

static int bridge_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"dispatcher", NULL};
    vkpy_bridge *self = (vkpy_bridge *)object;
    PyObject *dispatcher_object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:VsyncBridge", names, &dispatcher_object))
        return -1;
    vkpy_dispatcher *dispatcher = dispatcher_argument(dispatcher_object);
    if (dispatcher == NULL)
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("VsyncBridge");
    vks_status status = vks_bridge_create(dispatcher->core, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "VsyncBridge");
    return status == VKS_OK ? 0 : -1;
}

static void bridge_dealloc(PyObject *object)
{
    vkpy_bridge *self = (vkpy_bridge *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL)
        vks_bridge_destroy(self->core);
    vkpy_dealloc_free(object);
}

static PyObject *bridge_fd(PyObject *object, void *ignored)
{
    vkpy_bridge *self = (vkpy_bridge *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyLong_FromLong(vks_bridge_fd(self->core));
}

static PyObject *bridge_has_reader(PyObject *object, void *ignored)
{
    vkpy_bridge *self = (vkpy_bridge *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyBool_FromLong(vks_bridge_has_reader(self->core));
}

static PyObject *bridge_is_attending(PyObject *object, void *ignored)
{
    vkpy_bridge *self = (vkpy_bridge *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return PyBool_FromLong(vks_bridge_is_attending(self->core));
}

static PyObject *bridge_close(PyObject *object, PyObject *ignored)
{
    vkpy_bridge *self = (vkpy_bridge *)object;
    (void)ignored;
    VKPY_LIVE(self);
    Py_BEGIN_ALLOW_THREADS
    vks_bridge_close(self->core);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef bridge_methods[] = {
    {"_close", bridge_close, METH_NOARGS, "_close($self)\n--\n\nEnds delivery; idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef bridge_getters[] = {
    {"_page", bridge_fd, NULL, "The page's fd, the bridge's own.", NULL},
    {"has_reader", bridge_has_reader, NULL, "Whether a process has opened it, and lives.", NULL},
    {"is_attending", bridge_is_attending, NULL, "Whether that process wants ticks now.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef bridge_members[] = {VKPY_WEAKLIST(vkpy_bridge), {NULL, 0, 0, 0, NULL}};

static PyType_Slot bridge_slots[] = {
    {Py_tp_doc, (void *)"Ticks for another process: the end that tells."},
    {Py_tp_init, (void *)bridge_init},
    {Py_tp_dealloc, (void *)bridge_dealloc},
    {Py_tp_methods, bridge_methods},
    {Py_tp_getset, bridge_getters},
    {Py_tp_members, bridge_members},
    {0, NULL},
};

PyType_Spec vkpy_bridge_spec = {
    "vkshare._native.Bridge", sizeof(vkpy_bridge), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, bridge_slots,
};

static int end_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"display", "page", NULL};
    vkpy_bridge_end *self = (vkpy_bridge_end *)object;
    PyObject *display_object, *fd_object;
    int fd;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO:BridgeEnd", names, &display_object, &fd_object) ||
        !vkpy_fd(fd_object, "page", false, &fd))
        return -1;
    vkpy_display *display = display_argument(display_object);
    if (display == NULL)
        return -1;
    if (self->display != NULL)
        return vkpy_raise_initialised("BridgeEnd");
    vks_status status;
    vks_bridge_end *core;
    Py_BEGIN_ALLOW_THREADS
    status = vks_bridge_open(display->core, fd, &core);
    Py_END_ALLOW_THREADS
    if (status != VKS_OK) {
        vkpy_raise(status, "Display.set_source");
        return -1;
    }
    if (self->display != NULL) { /* another thread called __init__ meanwhile */
        vks_bridge_leave(core);
        return vkpy_raise_initialised("BridgeEnd");
    }
    self->core = core;
    self->display = (vkpy_display *)Py_NewRef((PyObject *)display);
    return 0;
}

static void end_dealloc(PyObject *object)
{
    vkpy_bridge_end *self = (vkpy_bridge_end *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL)
        vks_bridge_leave(self->core);
    Py_XDECREF((PyObject *)self->display);
    vkpy_dealloc_free(object);
}

static PyMemberDef end_members[] = {VKPY_WEAKLIST(vkpy_bridge_end), {NULL, 0, 0, 0, NULL}};

static PyType_Slot end_slots[] = {
    {Py_tp_doc, (void *)"Has a display listen to a bridge, until it is freed."},
    {Py_tp_init, (void *)end_init},
    {Py_tp_dealloc, (void *)end_dealloc},
    {Py_tp_members, end_members},
    {0, NULL},
};

PyType_Spec vkpy_bridge_end_spec = {
    "vkshare._native.BridgeEnd", sizeof(vkpy_bridge_end), 0, Py_TPFLAGS_DEFAULT, end_slots,
};
