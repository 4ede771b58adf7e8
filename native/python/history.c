/* PresentTracker: the pure state machine of native/present/history.h, for tests and tools. */
#include "vkpy.h"

#include "present/history.h"

typedef struct vkpy_history {
    PyObject_HEAD
    vks_history *core;
    bool is_looking; /* in collect(): the fence probe is Python, and must not change what is being looked through */
    PyObject *weakrefs;
} vkpy_history;

#define LIVE(self)                                                                                                     \
    if (VKPY_UNLIKELY((self)->core == NULL || (self)->is_looking))                                                     \
    return raise_not_live(self)

static PyObject *raise_not_live(vkpy_history *self)
{
    if (self->core == NULL)
        return vkpy_raise_uninitialised((PyObject *)self);
    return vkpy_raise_named("InvalidCallError", "the PresentTracker is in collect(): call it when that has returned");
}

/* Leaves *out where the argument was not given. */
static bool optional_u64(PyObject *object, const char *name, uint64_t *out)
{
    return object == NULL || vkpy_u64(object, name, out);
}

/* ---- its beginning and its end ----------------------------------------------------------------------------------- */

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

static int history_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"policy", "fence_deadline", NULL};
    vkpy_history *self = (vkpy_history *)object;
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
    vks_status status = vks_history_create(policy, deadline, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "PresentTracker");
    return status == VKS_OK ? 0 : -1;
}

static void history_dealloc(PyObject *object)
{
    vkpy_history *self = (vkpy_history *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    vks_history_destroy(self->core);
    vkpy_dealloc_free(object);
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

static PyObject *pair(const char *const *kinds, int kind, uint64_t value)
{
    return Py_BuildValue("(sK)", kinds[kind], (unsigned long long)value);
}

/* [(kind, handle), ...]: all that were not taken yet. */
static PyObject *take_decisions(vkpy_history *self)
{
    static const char *const kinds[] = {
        [VKS_RECYCLE_SEMAPHORE] = "recycle_semaphore", [VKS_RESET_FENCE] = "reset_fence",
        [VKS_DESTROY_SEMAPHORE] = "destroy_semaphore", [VKS_DESTROY_FENCE] = "destroy_fence",
        [VKS_DESTROY_SWAPCHAIN] = "destroy_swapchain",
    };
    vks_decision decision;
    PyObject *list = PyList_New(0);
    while (list != NULL && vks_history_next(self->core, &decision)) {
        PyObject *item = pair(kinds, decision.kind, decision.handle);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *wanted(vks_wanted told)
{
    static const char *const kinds[] = {
        [VKS_WANTS_NOTHING] = "nothing", [VKS_WANTS_IMAGE] = "image",     [VKS_WANTS_SERIAL] = "serial",
        [VKS_WANTS_FENCE] = "fence",     [VKS_WANTS_PRESENT] = "present",
    };
    return pair(kinds, told.kind, told.value);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static PyObject *history_swapchain(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "PresentTracker.swapchain", 4, 2, 4, {"handle", "image_count", "shared", "last_use"}, {NULL}};
    vkpy_history *self = (vkpy_history *)object;
    PyObject *values[4];
    uint64_t handle, last_use = 0;
    long long image_count;
    bool is_shared = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "handle", &handle) ||
        !vkpy_integer(values[1], "image_count", 0, UINT32_MAX, &image_count) || !vkpy_bool(values[2], &is_shared) ||
        !optional_u64(values[3], "last_use", &last_use))
        return NULL;
    LIVE(self);
    vks_status status = vks_history_swapchain(self->core, handle, (uint32_t)image_count, is_shared, last_use);
    return vkpy_none_or_raise(status, "PresentTracker.swapchain");
}

static PyObject *history_waited(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.waited", 2, 2, 2, {"image", "serial"}, {NULL}};
    vkpy_history *self = (vkpy_history *)object;
    PyObject *values[2];
    long long image;
    uint64_t serial;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "image", 0, UINT32_MAX, &image) || !vkpy_u64(values[1], "serial", &serial))
        return NULL;
    LIVE(self);
    return vkpy_none_or_raise(vks_history_waited(self->core, (uint32_t)image, serial), "PresentTracker.waited");
}

/* How many there are, or -1. */
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

static PyObject *history_presented(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "PresentTracker.presented", 4, 2, 4, {"image", "semaphores", "fence", "now"}, {NULL}};
    vkpy_history *self = (vkpy_history *)object;
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
    vks_status status = vks_history_presented(self->core, (uint32_t)image, semaphores, (uint32_t)n, fence, now);
    return vkpy_none_or_raise(status, "PresentTracker.presented");
}

static PyObject *history_semaphore(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.semaphore", 3, 2, 3, {"handle", "serial", "spoiled"}, {NULL}};
    vkpy_history *self = (vkpy_history *)object;
    PyObject *values[3];
    uint64_t handle, serial;
    bool is_spoiled = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "handle", &handle) ||
        !vkpy_u64(values[1], "serial", &serial) || !vkpy_bool(values[2], &is_spoiled))
        return NULL;
    LIVE(self);
    return vkpy_none_or_raise(vks_history_semaphore(self->core, handle, serial, is_spoiled),
                              "PresentTracker.semaphore");
}

/* A vks_fence_probe. Once the callable has raised, it is not asked again: nothing counts as signalled. */
static bool ask(void *callable, uint64_t fence)
{
    if (PyErr_Occurred() != NULL)
        return false;
    PyObject *answer = PyObject_CallFunction(callable, "K", (unsigned long long)fence);
    int truth = answer != NULL ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(answer);
    return truth > 0;
}

static PyObject *history_collect(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"PresentTracker.collect", 3, 1, 3, {"completed", "now", "is_signalled"}, {NULL}};
    vkpy_history *self = (vkpy_history *)object;
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
    self->is_looking = true;
    vks_status status = vks_history_collect(self->core, completed, now, probe != NULL ? ask : NULL, probe);
    self->is_looking = false;
    if (PyErr_Occurred() != NULL) /* what was decided is told by the next call */
        return NULL;
    return status == VKS_OK ? take_decisions(self) : vkpy_raise(status, "PresentTracker.collect");
}

static PyObject *history_close(PyObject *object, PyObject *ignored)
{
    vkpy_history *self = (vkpy_history *)object;
    (void)ignored;
    LIVE(self);
    unsigned long long unproven = vks_history_close(self->core);
    PyObject *decisions = take_decisions(self);
    return decisions == NULL ? NULL : Py_BuildValue("(KN)", unproven, decisions);
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

static PyObject *history_wanted(PyObject *object, PyObject *ignored)
{
    vkpy_history *self = (vkpy_history *)object;
    (void)ignored;
    LIVE(self);
    return wanted(vks_history_wanted(self->core));
}

static PyObject *history_unproven(PyObject *object, PyObject *ignored)
{
    vkpy_history *self = (vkpy_history *)object;
    (void)ignored;
    LIVE(self);
    return wanted(vks_history_unproven(self->core));
}

static PyObject *history_statistics(PyObject *object, PyObject *ignored)
{
    vkpy_history *self = (vkpy_history *)object;
    vks_history_statistics told;
    (void)ignored;
    LIVE(self);
    vks_history_get_statistics(self->core, &told);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "presents", told.presents, "semaphores", told.semaphores,
                         "fences", told.fences, "retired", told.retired, "quarantined", told.quarantined, "moved",
                         told.moved);
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"swapchain", VKPY_FASTCALL(history_swapchain), VKPY_FAST,
     "swapchain($self, handle, image_count, shared=False, last_use=0)\n--\n\n"
     "It is current from now on (0: none is); the one before is retired, last used by the submission `last_use`."},
    {"waited", VKPY_FASTCALL(history_waited), VKPY_FAST,
     "waited($self, image, serial)\n--\n\nThat submission waited for the latest acquire of the image."},
    {"presented", VKPY_FASTCALL(history_presented), VKPY_FAST,
     "presented($self, image, semaphores, fence=0, now=0)\n--\n\nA present of the image waits for the semaphores."},
    {"semaphore", VKPY_FASTCALL(history_semaphore), VKPY_FAST,
     "semaphore($self, handle, serial, spoiled=False)\n--\n\nThe submission `serial` was the last to use it."},
    {"collect", VKPY_FASTCALL(history_collect), VKPY_FAST,
     "collect($self, completed, now=0, is_signalled=None)\n--\n\n[(kind, handle), ...]: what was decided."},
    {"close", history_close, METH_NOARGS,
     "close($self)\n--\n\n(presents without a proof, [(kind, handle), ...]): everything that is left."},
    {"wanted", history_wanted, METH_NOARGS,
     "wanted($self)\n--\n\n(kind, value): what the oldest retired swapchain waits for."},
    {"unproven", history_unproven, METH_NOARGS,
     "unproven($self)\n--\n\n(kind, value): what the current swapchain's presents wait for."},
    {"statistics", history_statistics, METH_NOARGS, "statistics($self)\n--\n\nWhat it keeps, as a dict."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_history), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Which semaphores, fences and swapchains a presentation engine may still be using."},
    {Py_tp_init, (void *)history_init},
    {Py_tp_dealloc, (void *)history_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_history_spec = {
    "vkshare._native.PresentTracker", sizeof(vkpy_history), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots,
};
