/* Surface: one handle of a keyed mutex. */
#include "vkpy.h"

/* ---- its beginning ----------------------------------------------------------------------------------------------- */

/* vkshare/core/surface_core.py creates the object of the core. */
static int surface_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *device, *cell, *memory = Py_None;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OO|O:Surface", &device, &cell, &memory))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Surface");
    vkpy_pixels *pixels = NULL;
    if (memory != Py_None && (pixels = vkpy_pixels_new(memory)) == NULL)
        return -1;
    self->core = vkpy_take(device, cell, "vks_surface **", &self->device);
    if (self->core == NULL) {
        vkpy_pixels_free(pixels);
        return -1;
    }
    self->pixels = pixels;
    return 0;
}

static PyObject *surface_set_drawable(PyObject *object, PyObject *drawable)
{
    vkpy_surface *self = (vkpy_surface *)object;
    VKPY_LIVE(self);
    if (!PyCapsule_IsValid(drawable, "vks_drawable")) {
        vkpy_type_error(drawable, "drawable", "the capsule of a vks_drawable");
        return NULL;
    }
    if (self->drawable != NULL)
        return vkpy_raise_named("InvalidCallError", "the Surface has a Drawable already");
    self->drawable = PyCapsule_GetPointer(drawable, "vks_drawable");
    vks_drawable_ref(self->drawable);
    Py_RETURN_NONE;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static int surface_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_surface *self = (vkpy_surface *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->device);
    /* The memory of the pixels is not visited: a garbage collection would release its buffer while work still draws
     * there. It never refers back to the surface, so no cycle is missed. */
    return 0;
}

/* Releases the GIL, because the close waits for work that still draws on the surface. */
static uint64_t close_surface(vkpy_surface *self, uint64_t (*end)(vks_surface *))
{
    PyThreadState *thread = PyEval_SaveThread();
    uint64_t serial = end(self->core);
    PyEval_RestoreThread(thread);
    if (self->pixels != NULL)
        self->pixels->last_use = serial;
    return serial;
}

static void surface_dealloc(PyObject *object)
{
    vkpy_surface *self = (vkpy_surface *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    if (self->core != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        close_surface(self, vks_surface_close);
        VKPY_SHORT(self->device, vks_surface_unref(self->core));
        if (self->drawable != NULL)
            vks_drawable_unref(self->drawable);
        Py_XDECREF(self->swapchain);
        vkpy_pixels_retire(self->device, self->pixels);
        Py_DECREF(self->device);
        PyErr_Restore(type, value, traceback);
    }
    vkpy_dealloc_free(object);
}

static PyObject *surface_close(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    (void)ignored;
    VKPY_LIVE(self);
    uint64_t serial = close_surface(self, vks_surface_close_now);
    vkpy_pixels *pixels = self->pixels;
    self->pixels = NULL; /* a closed surface with a reference left must not keep its memory */
    vkpy_pixels_retire(self->device, pixels);
    return PyLong_FromUnsignedLongLong(serial);
}

/* ---- ownership --------------------------------------------------------------------------------------------------- */

/* "cpu+gpu" (or nothing) is false, "gpu" is true; anything else raises. */
static bool read_mode(PyObject *mode, bool *gpu)
{
    *gpu = false;
    if (mode == NULL)
        return true;
    if (!PyUnicode_Check(mode))
        return vkpy_type_error(mode, "mode", "a str");
    *gpu = PyUnicode_CompareWithASCIIString(mode, "gpu") == 0;
    if (*gpu || PyUnicode_CompareWithASCIIString(mode, "cpu+gpu") == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "mode is %R, allowed is 'cpu+gpu' or 'gpu'", mode);
    return false;
}

static PyObject *acquire_gpu(vkpy_surface *self, uint64_t key)
{
    vks_work *op = NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_acquire_gpu(self->core, key, &op));
    if (op != NULL)
        vks_work_unref(op);
    return vkpy_none_or_raise(status, "Surface.acquire");
}

static PyObject *surface_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface.acquire", 2, 0, 3, {"key", "timeout", "mode"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[3];
    uint64_t key = 0, timeout;
    bool gpu;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        (values[0] != NULL && !vkpy_u64(values[0], "key", &key)) || !vkpy_timeout(values[1], &timeout) ||
        !read_mode(values[2], &gpu))
        return NULL;
    if (gpu)
        return acquire_gpu(self, key);
    vks_status status;
    if (timeout == 0)
        VKPY_SHORT(self->device, status = vks_surface_acquire(self->core, key, 0));
    else
        VKPY_SHORT(self->device, status = vks_surface_try_acquire(self->core, key));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_acquire_blocking(self->core, key, deadline));
    }
    return status == VKS_TIMEOUT ? vkpy_raise_acquire_timeout(key, timeout)
                                 : vkpy_none_or_raise(status, "Surface.acquire");
}

static void drop_work(PyObject *capsule)
{
    vkpy_device *device = PyCapsule_GetContext(capsule);
    VKPY_SHORT(device, vks_work_unref(PyCapsule_GetPointer(capsule, "vks_work")));
    Py_DECREF(device);
}

static PyObject *surface_hold_acquire(PyObject *object, PyObject *key_object)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t key;
    VKPY_LIVE(self);
    if (!vkpy_u64(key_object, "key", &key))
        return NULL;
    vks_work *op = NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_acquire_gpu(self->core, key, &op));
    if (status != VKS_OK || op == NULL)
        return vkpy_none_or_raise(status, "Surface.acquire_async");
    PyObject *capsule = PyCapsule_New(op, "vks_work", drop_work);
    if (capsule == NULL)
        VKPY_SHORT(self->device, vks_work_cancel(op); vks_work_unref(op));
    else
        PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self->device));
    return capsule;
}

static PyObject *surface_release(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface.release", 1, 0, 1, {"key"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t key = 0;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        (values[0] != NULL && !vkpy_u64(values[0], "key", &key)))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_release(self->core, key));
    return vkpy_none_or_raise(status, "Surface.release");
}

static PyObject *surface_cpu_access(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._cpu_access", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_cpu_access(self->core, 0));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_cpu_access(self->core, deadline));
    }
    return vkpy_waited(status, "Surface", timeout);
}

/* ---- another API's turn ----------------------------------------------------------------------------------------- */

static PyObject *surface_external_begin(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                        PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._external_begin", 2, 1, 2, {"after_cpu", "timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[2];
    uint64_t timeout, value = 0;
    bool after_cpu = false;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_bool(values[0], &after_cpu) ||
        !vkpy_timeout(values[1], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_begin(self->core, after_cpu, 0, &value));
    if ((status == VKS_TIMEOUT && timeout != 0) || status == VKS_INTERRUPTED) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_external_begin(self->core, after_cpu, deadline, &value));
    }
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(value) : vkpy_waited(status, "Surface", timeout);
}

static PyObject *surface_external_signal_value(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t value = 0;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_signal_value(self->core, &value));
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(value) : vkpy_raise(status, "Surface._external_signal_value");
}

static PyObject *surface_external_end(PyObject *object, PyObject *number)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t value;
    VKPY_LIVE(self);
    if (!vkpy_u64(number, "value", &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_end(self->core, value));
    return vkpy_none_or_raise(status, "Surface._external_end");
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

VKPY_GETTER(surface_device, vkpy_surface, Py_NewRef((PyObject *)self->device))

static PyObject *surface_is_owned(PyObject *object, void *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    bool owned = false;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self->device, owned = vks_surface_is_owned(self->core));
    return PyBool_FromLong(owned);
}

VKPY_GETTER(surface_may_submit, vkpy_surface, PyBool_FromLong(vks_surface_may_submit(self->core)))
VKPY_GETTER(surface_is_closed, vkpy_surface, PyBool_FromLong(vks_surface_is_closed(self->core)))
VKPY_ADDRESS_GETTER(surface_address, vkpy_surface)

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"acquire", VKPY_FASTCALL(surface_acquire), VKPY_FAST,
     "acquire($self, key=0, timeout=None, *, mode='cpu+gpu')\n--\n\n"
     "Waits until the owner released with that key; AcquireTimeout, AbandonedError."},
    {"release", VKPY_FASTCALL(surface_release), VKPY_FAST,
     "release($self, key=0)\n--\n\nGives the surface to a waiter with that key; NotOwnerError."},
    {"_hold_acquire", surface_hold_acquire, METH_O,
     "_hold_acquire($self, key)\n--\n\nStarts an acquire. Returns a capsule of it; None: the surface was acquired at "
     "once."},
    {"_cpu_access", VKPY_FASTCALL(surface_cpu_access), VKPY_FAST,
     "_cpu_access($self, timeout=None)\n--\n\nWaits until the CPU may touch the pixels."},
    {"_external_begin", VKPY_FASTCALL(surface_external_begin), VKPY_FAST,
     "_external_begin($self, after_cpu, timeout=None)\n--\n\nThe value that another API must wait for, which has the "
     "semaphore; 0: none."},
    {"_external_signal_value", surface_external_signal_value, METH_NOARGS,
     "_external_signal_value($self)\n--\n\nReturns the value that the other API must signal."},
    {"_external_end", surface_external_end, METH_O,
     "_external_end($self, value)\n--\n\nReports that its queue has the signal of the value (0: it submitted "
     "nothing)."},
    {"_set_drawable", surface_set_drawable, METH_O,
     "_set_drawable($self, drawable)\n--\n\nThe capsule of its image's vks_drawable, once: commands can use it."},
    {"_close", surface_close, METH_NOARGS,
     "_close($self)\n--\n\nCloses the handle; returns the serial after which the image may be destroyed. Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(surface_address),
    {"device", surface_device, NULL, "The device that it belongs to.", NULL},
    {"is_owned", surface_is_owned, NULL, "Whether this handle owns the surface.", NULL},
    {"_may_submit", surface_may_submit, NULL, "Whether it is owned, or an ownership with mode=\"gpu\" is open.", NULL},
    {"is_closed", surface_is_closed, NULL, "Whether this handle was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_surface), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"One handle of a keyed mutex: the base of vkshare.Surface."},
    {Py_tp_init, (void *)surface_init},
    {Py_tp_dealloc, (void *)surface_dealloc},
    {Py_tp_traverse, (void *)surface_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_surface_spec = {
    "vkshare._native.Surface",
    sizeof(vkpy_surface),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
