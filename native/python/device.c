/* Device: one queue. Device.submit is in submit.c; vkshare/core/device_core.py has what is cold, through cffi. */
#include "vkpy.h"

vkpy_device *vkpy_device_argument(PyObject *object, const char *name)
{
    if (!PyObject_TypeCheck(object, vkpy_device_type))
        return vkpy_type_error(object, name, "a Device"), NULL;
    vkpy_device *device = (vkpy_device *)object;
    return device->core != NULL ? device : (vkpy_device *)vkpy_raise_uninitialised(object);
}

/* vkshare/core/device_core.py creates the object of the core. `queue_lock`: None, or what the
 * functions and the user pointer of its lock need alive, because the lock is a pair of Python
 * callables. */
static int device_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_device *self = (vkpy_device *)object;
    PyObject *cell, *queue_lock = Py_None;
    if (!PyArg_ParseTuple(arguments, "O|O:Device", &cell, &queue_lock))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Device");
    self->core = vkpy_take(cell, "vks_device **");
    if (self->core == NULL)
        return -1;
    self->queue_lock = queue_lock == Py_None ? NULL : Py_NewRef(queue_lock);
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
    vkpy_dealloc_begin(object);
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

static PyObject *device_shutdown(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_device);
    vks_status status = VKPY_BLOCKING(vks_device_try_shutdown(self->core));
    if (status != VKS_OK)
        return vkpy_raise(status, "Device.close");
    vkpy_held_arguments_clear(self);
    return PyBool_FromLong(!vks_device_leaks(self->core));
}

static PyObject *device_reap(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    bool all = false;
    VKPY_SELF(vkpy_device);
    VKPY_BIND("Device._reap", 1, 0, 1, "all");
    if (!vkpy_bool(values[0], &all))
        return NULL;
    size_t reaped = vks_device_reap(self->core, all); /* calls Python functions, so it keeps the GIL */
    vkpy_held_arguments_release_all(self);
    vkpy_pixels_reap(self, false);
    return PyErr_Occurred() ? NULL : PyLong_FromSize_t(reaped);
}

static PyObject *device_check(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_device);
    return vkpy_none_or_raise(vks_device_state(self->core), "Device");
}

static PyObject *device_set_recorder(PyObject *object, PyObject *arguments)
{
    PyObject *recorder;
    unsigned subpixel_bits;
    VKPY_SELF(vkpy_device);
    if (!PyArg_ParseTuple(arguments, "OI:Device._set_recorder", &recorder, &subpixel_bits))
        return NULL;
    if (recorder != Py_None && !PyCapsule_IsValid(recorder, "vks_recorder"))
        return vkpy_type_error(recorder, "recorder", "the capsule of a vks_recorder"), NULL;
    if (subpixel_bits < 4 || subpixel_bits > 8)
        return PyErr_Format(PyExc_ValueError, "subpixel_bits is %u, allowed is 4 to 8", subpixel_bits);
    if (self->subpixel_bits != 0) /* two threads made the first list at once */
        Py_RETURN_NONE;
    if (recorder != Py_None) {
        self->recorder = PyCapsule_GetPointer(recorder, "vks_recorder");
        vks_recorder_ref(self->recorder);
    }
    self->subpixel_bits = subpixel_bits;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"submit", VKPY_FASTCALL(vkpy_submit), VKPY_FAST,
     "submit($self, *commands, waits=(), signals=())\n--\n\nHands work to the queue, or holds it until its waits are "
     "certain."},
    {"_check", device_check, METH_NOARGS, "Raises if the device is closed, lost or inherited through fork."},
    {"_reap", VKPY_FASTCALL(device_reap), VKPY_FAST, "Calls the retire functions of dead lists whose work is done."},
    {"_set_recorder", device_set_recorder, METH_VARARGS, "How its lists are compiled. A second call does nothing."},
    {"_shutdown", device_shutdown, METH_NOARGS, "Ends everything; idempotent. False: the driver hangs."},
    {NULL, NULL, 0, NULL},
};

VKPY_GETTER(device_is_closed, vkpy_device, PyBool_FromLong(vks_device_state(self->core) == VKS_CLOSED))
VKPY_ADDRESS_GETTER(device_address, vkpy_device)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(device_address),
    {"is_closed", device_is_closed, NULL, "Whether the device was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

VKPY_SLOTS(device, device, device_traverse, "One queue of an adapter: the base of vkshare.Device.", vkpy_weaklist,
           {Py_tp_methods, methods}, {Py_tp_clear, (void *)device_clear});
