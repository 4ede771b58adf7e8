/* CommandList: the argument of submit(), compiled when first submitted. A subclass records. */
#include <stdlib.h>
#include <string.h>

#include "submit/compile.h"
#include "vkpy.h"

int vkpy_commands_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"device", NULL};
    vkpy_commands *self = (vkpy_commands *)object;
    bool is_plain = keywords == NULL && PyTuple_Size(arguments) == 1; /* saves a tenth of device.record() */
    PyObject *device_object = is_plain ? PyTuple_GetItem(arguments, 0) : NULL;
    if (!is_plain && !PyArg_ParseTupleAndKeywords(arguments, keywords, "O:CommandList", names, &device_object))
        return -1;
    vkpy_device *device = vkpy_device_argument(device_object, "device");
    if (device == NULL)
        return -1;
    if (self->device != NULL)
        return vkpy_raise_initialised("CommandList");
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    return 0;
}

void vkpy_commands_forget(vkpy_commands *self)
{
    vks_commands *core = self->core;
    self->core = NULL;
    if (core != NULL)
        vks_commands_unref(core);
    Py_CLEAR(self->surface);
}

int vkpy_commands_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_commands *self = (vkpy_commands *)object;
    Py_VISIT(self->surface);
    return vkpy_traverse(object, visit, arg);
}

static void vkpy_commands_dealloc(PyObject *object)
{
    vkpy_commands *self = (vkpy_commands *)object;
    vkpy_dealloc_begin(object);
    vkpy_commands_forget(self);
    Py_XDECREF((PyObject *)self->device);
    vkpy_dealloc_free(object);
}

static PyObject *commands_reset(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_LIVE_BY((vkpy_commands *)object, device);
    vkpy_commands_forget((vkpy_commands *)object);
    Py_RETURN_NONE;
}

/* Called from Device._reap(), on a thread that holds the GIL. `user` is an owned reference. */
static void retire(void *user)
{
    PyObject *callable = user;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallNoArgs(callable);
    bool ends_the_program =
        result == NULL &&
        !PyErr_ExceptionMatches(PyExc_Exception); /* raised by a signal handler: KeyboardInterrupt, SystemExit */
    if (result == NULL && !ends_the_program)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
    Py_DECREF(callable);
    if (!ends_the_program || type != NULL)
        PyErr_Restore(type, value, traceback); /* otherwise it stays set, and reap() raises it */
}

/* `pairs` is a tuple of no pair, or of one (Surface, writes) pair. */
static PyObject *set_vulkan(vkpy_commands *self, const uint64_t buffers[2], PyObject *pairs, PyObject *retired)
{
    PyObject *surface = NULL;
    int writes = 0;
    if (!PyArg_ParseTuple(pairs, "|(O!p);uses must be () or one (Surface, writes) pair", vkpy_surface_type, &surface,
                          &writes))
        return NULL;
    if (surface != NULL)
        VKPY_LIVE((vkpy_surface *)surface);
    if (self->core != NULL) /* tested after the last Python code that could have compiled the list */
        return vkpy_raise_named("InvalidCallError", "the CommandList is compiled already: _reset() it first");
    vks_use use = {surface != NULL ? ((vkpy_surface *)surface)->core : NULL, writes != 0};
    vks_status status = vks_commands_create_vulkan(self->device->core, buffers[0], &use, surface != NULL ? 1 : 0,
                                                   retire, Py_NewRef(retired), &self->core);
    if (status != VKS_OK) {
        Py_DECREF(retired);
        return vkpy_raise(status, "CommandList._set_vulkan");
    }
    vks_commands_set_transfer(self->core, buffers[1]);
    self->surface = Py_XNewRef(surface);
    Py_RETURN_NONE;
}

static PyObject *commands_set_vulkan(PyObject *object, PyObject *arguments)
{
    vkpy_commands *self = (vkpy_commands *)object;
    PyObject *buffer, *uses, *retired, *transfer = NULL;
    uint64_t buffers[2] = {0};
    VKPY_LIVE_BY(self, device);
    if (!PyArg_ParseTuple(arguments, "OOO|O:CommandList._set_vulkan", &buffer, &uses, &retired, &transfer) ||
        !vkpy_u64(buffer, "command_buffer", &buffers[0]) ||
        (transfer != NULL && !vkpy_u64(transfer, "transfer_buffer", &buffers[1])))
        return NULL;
    if (buffers[0] == 0)
        return PyErr_Format(PyExc_ValueError, "command_buffer is NULL, allowed is a recorded VkCommandBuffer");
    if (!PyCallable_Check(retired))
        return PyErr_Format(PyExc_TypeError, "retire must be a callable, not %R", retired);
    PyObject *pairs = PySequence_Tuple(uses);
    if (pairs == NULL)
        return PyErr_Format(PyExc_TypeError, "uses must be () or one (Surface, writes) pair, not %R", uses);
    PyObject *result = set_vulkan(self, buffers, pairs, retired);
    Py_DECREF(pairs);
    return result;
}

/* `body` of a request that the device's relay sends, with the one surface that it uses; retire() is called
 * as that of a command buffer. */
static PyObject *commands_set_relayed(PyObject *object, PyObject *arguments)
{
    vkpy_commands *self = (vkpy_commands *)object;
    PyObject *surface, *retired;
    const char *body;
    Py_ssize_t size;
    int writes;
    VKPY_LIVE_BY(self, device);
    if (!PyArg_ParseTuple(arguments, "y#O!pO:CommandList._set_relayed", &body, &size, vkpy_surface_type, &surface,
                          &writes, &retired))
        return NULL;
    if (!PyCallable_Check(retired))
        return PyErr_Format(PyExc_TypeError, "retire must be a callable, not %R", retired);
    VKPY_LIVE((vkpy_surface *)surface);
    if (self->core != NULL)
        return vkpy_raise_named("InvalidCallError", "the CommandList is compiled already: _reset() it first");
    uint8_t *copy = malloc((size_t)size + 1);
    if (copy == NULL)
        return PyErr_NoMemory();
    memcpy(copy, body, (size_t)size);
    vks_use use = {((vkpy_surface *)surface)->core, writes != 0};
    vks_status status = vks_commands_create_relayed(self->device->core, copy, (size_t)size, &use, 1, &self->core);
    if (status != VKS_OK) {
        free(copy);
        return vkpy_raise(status, "CommandList._set_relayed");
    }
    vks_commands_on_retire(self->core, retire, Py_NewRef(retired));
    self->surface = Py_NewRef(surface);
    Py_RETURN_NONE;
}

VKPY_GETTER_BY(commands_device, vkpy_commands, device, Py_NewRef((PyObject *)self->device))
VKPY_GETTER_BY(commands_surfaces, vkpy_commands, device,
               self->surface != NULL ? PyTuple_Pack(1, self->surface) : PyTuple_New(0))

static PyObject *commands_is_compiled(PyObject *object, void *Py_UNUSED(ignored))
{
    return PyBool_FromLong(((vkpy_commands *)object)->core != NULL);
}

static PyMethodDef methods[] = {
    {"_set_vulkan", commands_set_vulkan, METH_VARARGS, "Sets recorded VkCommandBuffers as what was compiled."},
    {"_set_relayed", commands_set_relayed, METH_VARARGS, "Sets a request of the device's relay as what was compiled."},
    {"_reset", commands_reset, METH_NOARGS, "Drops the compiled commands."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"device", commands_device, NULL, "The device that it is for.", NULL},
    {"_surfaces", commands_surfaces, NULL, "The surfaces that the commands use.", NULL},
    {"_is_compiled", commands_is_compiled, NULL, "Whether it was compiled since the last _reset().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

VKPY_SLOTS(commands, vkpy_commands, vkpy_commands_traverse,
           "Work that is recorded once and submitted many times: the base of vkshare.CommandList.", vkpy_weaklist,
           {Py_tp_methods, methods});
