/* PresentTracker: the pure state machine of native/present/tracker.h, for tests and tools. */
#include "vkpy.h"

#include "present/tracker.h"

typedef struct vkpy_tracker {
    PyObject_HEAD
    vks_tracker *core;
    bool is_collecting; /* in collect(): the fence probe is Python code, and must not call the tracker */
    PyObject *weakrefs;
} vkpy_tracker;

#define LIVE(self)                                                                                                     \
    if (VKPY_UNLIKELY((self)->core == NULL || (self)->is_collecting))                                                  \
    return raise_not_live(self)

static PyObject *raise_not_live(vkpy_tracker *self)
{
    if (self->core == NULL)
        return vkpy_raise_uninitialised((PyObject *)self);
    return vkpy_raise_named("InvalidCallError", "the PresentTracker is in collect(): call it when that has returned");
}

/* Leaves *out unchanged if the argument was not given. */
static bool optional_u64(PyObject *object, const char *name, uint64_t *out)
{
    return object == NULL || vkpy_u64(object, name, out);
}

/* ---- creation and destruction ------------------------------------------------------------------
 */

static bool read_policy(PyObject *object, vks_present_policy *out)
{
    if (object == NULL)
        return true;
    if (!PyUnicode_Check(object))
        return vkpy_type_error(object, "policy", "a str");
    bool by_fences = PyUnicode_CompareWithASCIIString(object, "fences") == 0;
    if (by_fences || PyUnicode_CompareWithASCIIString(object, "acquires") == 0) {
        *out = by_fences ? VKS_PRESENTS_BY_FENCES : VKS_PRESENTS_BY_ACQUIRES;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "policy is %R, allowed are 'acquires' and 'fences'", object);
    return false;
}

static int tracker_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"policy", "fence_deadline", NULL};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *policy_object = NULL, *deadline_object = NULL;
    vks_present_policy policy = VKS_PRESENTS_BY_ACQUIRES;
    uint64_t deadline = VKS_FOREVER;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO:PresentTracker", names, &policy_object,
                                     &deadline_object) ||
        !read_policy(policy_object, &policy) ||
        (deadline_object != Py_None && !optional_u64(deadline_object, "fence_deadline", &deadline)))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("PresentTracker");
    vks_status status = vks_tracker_create(policy, deadline, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "PresentTracker");
    return status == VKS_OK ? 0 : -1;
}

static void tracker_dealloc(PyObject *object)
{
    vkpy_tracker *self = (vkpy_tracker *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    vks_tracker_destroy(self->core);
    vkpy_dealloc_free(object);
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

static PyObject *pair(const char *const *kinds, int kind, uint64_t value)
{
    return Py_BuildValue("(sK)", kinds[kind], (unsigned long long)value);
}

/* Returns [(kind, handle), ...]: all decisions that were not taken yet. */
static PyObject *take_decisions(vkpy_tracker *self)
{
    static const char *const kinds[] = {
        [VKS_RECYCLE_SEMAPHORE] = "recycle_semaphore", [VKS_RESET_FENCE] = "reset_fence",
        [VKS_DESTROY_SEMAPHORE] = "destroy_semaphore", [VKS_DESTROY_FENCE] = "destroy_fence",
        [VKS_DESTROY_SWAPCHAIN] = "destroy_swapchain",
    };
    vks_decision decision;
    PyObject *list = PyList_New(0);
    while (list != NULL && vks_tracker_next(self->core, &decision)) {
        PyObject *item = pair(kinds, decision.kind, decision.handle);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *wait_tuple(vks_wanted out)
{
    static const char *const kinds[] = {
        [VKS_WANTS_NOTHING] = "nothing", [VKS_WANTS_IMAGE] = "image",     [VKS_WANTS_SERIAL] = "serial",
        [VKS_WANTS_FENCE] = "fence",     [VKS_WANTS_PRESENT] = "present",
    };
    return pair(kinds, out.kind, out.value);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static PyObject *tracker_swapchain(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "PresentTracker.swapchain", 4, 2, 4, {"handle", "image_count", "shared", "last_use"}, {NULL}};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *values[4];
    uint64_t handle, last_use = 0;
    long long image_count;
    bool is_shared = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "handle", &handle) ||
        !vkpy_integer(values[1], "image_count", 0, UINT32_MAX, &image_count) || !vkpy_bool(values[2], &is_shared) ||
        !optional_u64(values[3], "last_use", &last_use))
        return NULL;
    LIVE(self);
    vks_status status = vks_tracker_swapchain(self->core, handle, (uint32_t)image_count, is_shared, last_use);
    return vkpy_none_or_raise(status, "PresentTracker.swapchain");
}

static PyObject *tracker_waited(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.waited", 2, 2, 2, {"image", "serial"}, {NULL}};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *values[2];
    long long image;
    uint64_t serial;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "image", 0, UINT32_MAX, &image) || !vkpy_u64(values[1], "serial", &serial))
        return NULL;
    LIVE(self);
    return vkpy_none_or_raise(vks_tracker_waited(self->core, (uint32_t)image, serial), "PresentTracker.waited");
}

/* Returns the number of semaphores, or -1. */
static Py_ssize_t read_semaphores(PyObject *object, uint64_t out[VKS_FRAME_SEMAPHORES])
{
    PyObject *tuple = PySequence_Tuple(object);
    Py_ssize_t n = tuple != NULL ? PyTuple_Size(tuple) : -1;
    if (n > (Py_ssize_t)VKS_FRAME_SEMAPHORES) {
        PyErr_Format(PyExc_ValueError, "semaphores has %zd items, allowed are %u", n, VKS_FRAME_SEMAPHORES);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; ++i)
        if (!vkpy_u64(PyTuple_GetItem(tuple, i), "semaphore", &out[i]))
            n = -1;
    Py_XDECREF(tuple);
    return n;
}

static PyObject *tracker_presented(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "PresentTracker.presented", 4, 2, 4, {"image", "semaphores", "fence", "now"}, {NULL}};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *values[4];
    long long image;
    uint64_t semaphores[VKS_FRAME_SEMAPHORES], fence = 0, now = 0;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "image", 0, UINT32_MAX, &image) || !optional_u64(values[2], "fence", &fence) ||
        !optional_u64(values[3], "now", &now))
        return NULL;
    Py_ssize_t n = read_semaphores(values[1], semaphores);
    if (n < 0)
        return NULL;
    LIVE(self);
    vks_status status = vks_tracker_presented(self->core, (uint32_t)image, semaphores, (uint32_t)n, fence, now);
    return vkpy_none_or_raise(status, "PresentTracker.presented");
}

static PyObject *tracker_semaphore(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.semaphore", 3, 2, 3, {"handle", "serial", "discarded"}, {NULL}};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *values[3];
    uint64_t handle, serial;
    bool is_discarded = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "handle", &handle) ||
        !vkpy_u64(values[1], "serial", &serial) || !vkpy_bool(values[2], &is_discarded))
        return NULL;
    LIVE(self);
    return vkpy_none_or_raise(vks_tracker_semaphore(self->core, handle, serial, is_discarded),
                              "PresentTracker.semaphore");
}

/* A vks_fence_probe. After the callable has raised, it is not called again, and no fence counts as
 * signalled. */
static bool ask(void *callable, uint64_t fence)
{
    if (PyErr_Occurred() != NULL)
        return false;
    PyObject *answer = PyObject_CallFunction(callable, "K", (unsigned long long)fence);
    int truth = answer != NULL ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(answer);
    return truth > 0;
}

static PyObject *tracker_collect(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.collect", 3, 1, 3, {"completed", "now", "is_signalled"}, {NULL}};
    vkpy_tracker *self = (vkpy_tracker *)object;
    PyObject *values[3];
    uint64_t completed, now = 0;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "completed", &completed) ||
        !optional_u64(values[1], "now", &now))
        return NULL;
    PyObject *probe = values[2] != Py_None ? values[2] : NULL;
    if (probe != NULL && !PyCallable_Check(probe)) {
        vkpy_type_error(probe, "is_signalled", "a callable or None");
        return NULL;
    }
    LIVE(self);
    self->is_collecting = true;
    vks_status status = vks_tracker_collect(self->core, completed, now, probe != NULL ? ask : NULL, probe);
    self->is_collecting = false;
    if (PyErr_Occurred() != NULL) /* the next call returns the decisions */
        return NULL;
    return status == VKS_OK ? take_decisions(self) : vkpy_raise(status, "PresentTracker.collect");
}

static PyObject *tracker_close(PyObject *object, PyObject *ignored)
{
    vkpy_tracker *self = (vkpy_tracker *)object;
    (void)ignored;
    LIVE(self);
    unsigned long long unproven = vks_tracker_close(self->core);
    PyObject *decisions = take_decisions(self);
    return decisions == NULL ? NULL : Py_BuildValue("(KN)", unproven, decisions);
}

/* ---- queries ----------------------------------------------------------------------------------
 */

static PyObject *tracker_wanted(PyObject *object, PyObject *ignored)
{
    vkpy_tracker *self = (vkpy_tracker *)object;
    (void)ignored;
    LIVE(self);
    return wait_tuple(vks_tracker_wanted(self->core));
}

static PyObject *tracker_unproven(PyObject *object, PyObject *ignored)
{
    vkpy_tracker *self = (vkpy_tracker *)object;
    (void)ignored;
    LIVE(self);
    return wait_tuple(vks_tracker_unproven(self->core));
}

static PyObject *tracker_statistics(PyObject *object, PyObject *ignored)
{
    vkpy_tracker *self = (vkpy_tracker *)object;
    vks_tracker_statistics out;
    (void)ignored;
    LIVE(self);
    vks_tracker_get_statistics(self->core, &out);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "presents", out.presents, "semaphores", out.semaphores, "fences",
                         out.fences, "retired", out.retired, "quarantined", out.quarantined, "moved", out.moved);
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"swapchain", VKPY_FASTCALL(tracker_swapchain), VKPY_FAST,
     "swapchain($self, handle, image_count, shared=False, last_use=0)\n--\n\n"
     "Makes it current (0: none) and retires the previous one, last used by the submission `last_use`."},
    {"waited", VKPY_FASTCALL(tracker_waited), VKPY_FAST,
     "waited($self, image, serial)\n--\n\nReports that the submission waited for the latest acquire of the image."},
    {"presented", VKPY_FASTCALL(tracker_presented), VKPY_FAST,
     "presented($self, image, semaphores, fence=0, now=0)\n--\n\nReports a present of the image, which waits for the "
     "semaphores."},
    {"semaphore", VKPY_FASTCALL(tracker_semaphore), VKPY_FAST,
     "semaphore($self, handle, serial, discarded=False)\n--\n\nReports that the submission `serial` was the last to "
     "use "
     "the semaphore."},
    {"collect", VKPY_FASTCALL(tracker_collect), VKPY_FAST,
     "collect($self, completed, now=0, is_signalled=None)\n--\n\nReturns the decisions, [(kind, handle), ...]."},
    {"close", tracker_close, METH_NOARGS,
     "close($self)\n--\n\nReturns (presents without proof, [(kind, handle), ...]) for everything that is left."},
    {"wanted", tracker_wanted, METH_NOARGS,
     "wanted($self)\n--\n\nReturns (kind, value) of the event that the oldest retired swapchain waits for."},
    {"unproven", tracker_unproven, METH_NOARGS,
     "unproven($self)\n--\n\nReturns (kind, value) of the event that the current swapchain's presents wait for."},
    {"statistics", tracker_statistics, METH_NOARGS,
     "statistics($self)\n--\n\nReturns the counts of tracked objects, as a dict."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_tracker), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Tracks the semaphores, fences and swapchains that a presentation engine may still use."},
    {Py_tp_init, (void *)tracker_init},
    {Py_tp_dealloc, (void *)tracker_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_tracker_spec = {
    "vkshare._native.PresentTracker", sizeof(vkpy_tracker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots,
};
