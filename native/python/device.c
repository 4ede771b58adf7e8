/* Device: one queue. Device.submit is in submit.c; vkshare/core/device_core.py has what is cold, through cffi. */
#include "vkpy.h"

vkpy_device *vkpy_device_argument(PyObject *object, const char *name)
{
    if (!PyObject_TypeCheck(object, vkpy_device_type)) {
        vkpy_type_error(object, name, "a Device");
        return NULL;
    }
    vkpy_device *device = (vkpy_device *)object;
    return device->core != NULL ? device : (vkpy_device *)vkpy_raise_uninitialised(object);
}

/* ---- its life ---------------------------------------------------------------------------------------------------- */

/* `info`: a capsule of a vks_device_info. `queue_lock`: None, or what the functions and the user
 * pointer of the lock in it need alive, because the lock is a pair of Python callables. */
static int device_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"info", "queue_lock", NULL};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *capsule, *queue_lock = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:Device", names, &capsule, &queue_lock))
        return -1;
    if (self->initialised)
        return vkpy_raise_initialised("Device");
    const vks_device_info *info = PyCapsule_GetPointer(capsule, "vks_device_info");
    if (info == NULL)
        return -1;
    vks_device *core = NULL;
    vks_status status;
    self->initialised = true; /* before the GIL is released */
    Py_BEGIN_ALLOW_THREADS    /* starts threads, and creates semaphores in the driver */
    status = vks_device_create(info, &core);
    Py_END_ALLOW_THREADS
    if (status != VKS_OK) {
        self->initialised = false;
        vkpy_raise(status, "Device");
        return -1;
    }
    self->queue_lock = queue_lock == Py_None ? NULL : Py_NewRef(queue_lock);
    self->core = core;
    return 0;
}

static int device_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_device *self = (vkpy_device *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->queue_lock);
    return vkpy_held_arguments_traverse(self, visit, arg);
}

/* Objects refer to their device, and the device keeps objects for held submissions: the only cycle
 * of references here. */
static int device_clear(PyObject *object)
{
    vkpy_held_arguments_clear((vkpy_device *)object);
    return 0;
}

static void device_dealloc(PyObject *object)
{
    vkpy_device *self = (vkpy_device *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    if (self->core != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_BEGIN_ALLOW_THREADS
        vks_device_shutdown(self->core);
        Py_END_ALLOW_THREADS
        vkpy_held_arguments_clear(self);
        vks_device_reap(self->core, true);
        vkpy_pixels_reap(self, true);
        vks_device_unref(self->core);
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(self->queue_lock);
    if (self->recorder != NULL)
        vks_recorder_unref(self->recorder);
    vkpy_dealloc_free(object);
}

static PyObject *device_shutdown(PyObject *object, PyObject *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    vks_status status;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_BLOCKING(status, vks_device_try_shutdown(self->core));
    if (status != VKS_OK)
        return vkpy_raise(status, "Device.close");
    vkpy_held_arguments_clear(self);
    return PyBool_FromLong(!vks_device_leaks(self->core));
}

static PyObject *device_reap(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Device._reap", 1, 0, 1, {"all"}, {NULL}};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *values[1];
    bool all = false;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_bool(values[0], &all))
        return NULL;
    size_t reaped = vks_device_reap(self->core, all); /* calls Python functions, so it keeps the GIL */
    vkpy_held_arguments_release_all(self);
    vkpy_pixels_reap(self, false);
    return PyErr_Occurred() ? NULL : PyLong_FromSize_t(reaped);
}

static PyObject *device_check(PyObject *object, PyObject *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_device_state(self->core), "Device");
}

static PyObject *device_set_recorder(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Device._set_recorder", 2, 2, 2, {"recorder", "subpixel_bits"}, {NULL}};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *values[2];
    long long subpixel_bits;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[1], "subpixel_bits", 4, 8, &subpixel_bits))
        return NULL;
    if (values[0] != Py_None && !PyCapsule_IsValid(values[0], "vks_recorder")) {
        vkpy_type_error(values[0], "recorder", "the capsule of a vks_recorder");
        return NULL;
    }
    if (self->subpixel_bits != 0) /* two threads made the first list at once */
        Py_RETURN_NONE;
    if (values[0] != Py_None) {
        self->recorder = PyCapsule_GetPointer(values[0], "vks_recorder");
        vks_recorder_ref(self->recorder);
    }
    self->subpixel_bits = (uint32_t)subpixel_bits;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"submit", VKPY_FASTCALL(vkpy_submit), VKPY_FAST,
     "submit($self, *commands, waits=(), signals=())\n--\n\nHands work to the queue, or holds it until its waits are "
     "certain."},
    {"_check", device_check, METH_NOARGS,
     "_check($self)\n--\n\nRaises if the device is closed, lost or inherited through fork."},
    {"_reap", VKPY_FASTCALL(device_reap), VKPY_FAST,
     "_reap($self, all=False)\n--\n\nCalls the retire functions of dead command lists whose work is done; how many."},
    {"_set_recorder", VKPY_FASTCALL(device_set_recorder), VKPY_FAST,
     "_set_recorder($self, recorder, subpixel_bits)\n--\n\nThe capsule of the vks_recorder with which its lists are "
     "compiled, or None: the rasteriser. A second one is left out."},
    {"_shutdown", device_shutdown, METH_NOARGS,
     "_shutdown($self)\n--\n\nEnds everything; idempotent. False: the driver hangs, and may use what it was given for "
     "ever."},
    {NULL, NULL, 0, NULL},
};

VKPY_GETTER(device_is_closed, vkpy_device, PyBool_FromLong(vks_device_state(self->core) == VKS_CLOSED))
VKPY_ADDRESS_GETTER(device_address, vkpy_device)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(device_address),
    {"is_closed", device_is_closed, NULL, "Whether the device was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_device), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"One queue of an adapter: the base of vkshare.Device."},
    {Py_tp_init, (void *)device_init},
    {Py_tp_dealloc, (void *)device_dealloc},
    {Py_tp_traverse, (void *)device_traverse},
    {Py_tp_clear, (void *)device_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_device_spec = {
    "vkshare._native.Device",
    sizeof(vkpy_device),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
