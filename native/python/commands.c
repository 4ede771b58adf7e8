/* CommandList: the argument of submit(), compiled at the first submission. Recording (record.c), a
 * subclass, records. */
#include "vkpy.h"

/* ---- making one -------------------------------------------------------------------------------------------------- */

static int commands_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"device", NULL};
    vkpy_commands *self = (vkpy_commands *)object;
    PyObject *device_object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:CommandList", names, &device_object))
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
    Py_CLEAR(self->surfaces);
}

static int commands_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_commands *self = (vkpy_commands *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->device);
    Py_VISIT(self->surfaces);
    return 0;
}

static void commands_dealloc(PyObject *object)
{
    vkpy_commands *self = (vkpy_commands *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    vkpy_commands_forget(self);
    Py_XDECREF((PyObject *)self->device);
    vkpy_dealloc_free(object);
}

static PyObject *commands_reset(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    VKPY_LIVE_BY((vkpy_commands *)object, device);
    vkpy_commands_forget((vkpy_commands *)object);
    Py_RETURN_NONE;
}

/* ---- uses -------------------------------------------------------------------------------------------------------- */

typedef struct use_list {
    vks_use *uses;
    PyObject *surfaces; /* tuple */
    Py_ssize_t count;
} use_list;

static void free_uses(use_list *list)
{
    PyMem_Free(list->uses);
    Py_CLEAR(list->surfaces);
}

/* Reads a (Surface, writes) pair. *surface is no new reference. */
static bool read_use(PyObject *pair, PyObject **surface, vks_use *use)
{
    int writes = -1;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 ||
        !PyObject_TypeCheck(PyTuple_GetItem(pair, 0), vkpy_surface_type))
        return vkpy_type_error(pair, "uses", "a sequence of (Surface, writes) pairs");
    *surface = PyTuple_GetItem(pair, 0);
    use->surface = ((vkpy_surface *)*surface)->core;
    if (use->surface == NULL)
        return vkpy_raise_uninitialised(*surface) != NULL;
    writes = PyObject_IsTrue(PyTuple_GetItem(pair, 1));
    use->writes = writes > 0;
    return writes >= 0;
}

static bool is_repeated(const use_list *list, Py_ssize_t index)
{
    for (Py_ssize_t i = 0; i < index; ++i)
        if (list->uses[i].surface == list->uses[index].surface)
            return true;
    return false;
}

static bool fill_uses(use_list *list, PyObject *pairs)
{
    for (Py_ssize_t i = 0; i < list->count; ++i) {
        PyObject *surface = NULL;
        if (!read_use(PyTuple_GetItem(pairs, i), &surface, &list->uses[i]))
            return false;
        if (is_repeated(list, i)) {
            PyErr_Format(PyExc_ValueError, "uses names %R twice, allowed is each surface once", surface);
            return false;
        }
        PyTuple_SetItem(list->surfaces, i, Py_NewRef(surface));
    }
    return true;
}

static bool read_uses(PyObject *object, use_list *list)
{
    *list = (use_list){.uses = NULL};
    PyObject *pairs = PySequence_Tuple(object);
    if (pairs == NULL) {
        PyErr_Clear();
        return vkpy_type_error(object, "uses", "a sequence of (Surface, writes) pairs");
    }
    list->count = PyTuple_Size(pairs);
    list->surfaces = PyTuple_New(list->count);
    list->uses = PyMem_Calloc((size_t)list->count + 1, sizeof *list->uses);
    if (list->uses == NULL)
        PyErr_NoMemory();
    bool good = list->surfaces != NULL && list->uses != NULL && fill_uses(list, pairs);
    if (!good)
        free_uses(list);
    Py_DECREF(pairs);
    return good;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

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

static bool may_set(const vkpy_commands *self)
{
    return self->core == NULL ||
           vkpy_raise_named("InvalidCallError", "the CommandList is compiled already: _reset() it first") != NULL;
}

static void keep(vkpy_commands *self, vks_commands *core, const use_list *list)
{
    self->core = core;
    self->surfaces = Py_NewRef(list->surfaces);
}

static PyObject *commands_set_vulkan(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "CommandList._set_vulkan", 4, 3, 4, {"command_buffer", "uses", "retire", "transfer_buffer"}, {NULL}};
    vkpy_commands *self = (vkpy_commands *)object;
    PyObject *values[4];
    uint64_t command_buffer, transfer_buffer = 0;
    use_list list;
    VKPY_LIVE_BY(self, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_u64(values[0], "command_buffer", &command_buffer) ||
        (values[3] != NULL && !vkpy_u64(values[3], "transfer_buffer", &transfer_buffer)))
        return NULL;
    if (command_buffer == 0) {
        PyErr_SetString(PyExc_ValueError, "command_buffer is NULL, allowed is a recorded VkCommandBuffer");
        return NULL;
    }
    if (!PyCallable_Check(values[2])) {
        vkpy_type_error(values[2], "retire", "a callable");
        return NULL;
    }
    if (!read_uses(values[1], &list))
        return NULL;
    vks_commands *core = NULL;
    vks_status status = VKS_OK;
    bool free_to_set = may_set(self); /* after the last Python code that could have compiled the list */
    if (free_to_set)
        status = vks_commands_create_vulkan(self->device->core, command_buffer, list.uses, (size_t)list.count, retire,
                                            Py_NewRef(values[2]), &core);
    if (free_to_set && status == VKS_OK) {
        vks_commands_set_transfer(core, transfer_buffer);
        keep(self, core, &list);
    } else if (free_to_set) {
        Py_DECREF(values[2]);
    }
    free_uses(&list);
    return free_to_set ? vkpy_none_or_raise(status, "CommandList._set_vulkan") : NULL;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyObject *commands_device(PyObject *object, void *ignored)
{
    vkpy_commands *self = (vkpy_commands *)object;
    (void)ignored;
    VKPY_LIVE_BY(self, device);
    return Py_NewRef((PyObject *)self->device);
}

static PyObject *commands_is_compiled(PyObject *object, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((vkpy_commands *)object)->core != NULL);
}

static PyMethodDef methods[] = {
    {"_set_vulkan", VKPY_FASTCALL(commands_set_vulkan), METH_FASTCALL | METH_KEYWORDS,
     "_set_vulkan($self, command_buffer, uses, retire, transfer_buffer=0)\n--\n\nretire() is called from "
     "Device._reap() "
     "once the last use "
     "has run."},
    {"_reset", commands_reset, METH_NOARGS, "_reset($self)\n--\n\nDrops the compiled commands."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"device", commands_device, NULL, "The device that it is for.", NULL},
    {"_is_compiled", commands_is_compiled, NULL, "Whether it was compiled since the last _reset().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_commands), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Work that is recorded once and submitted many times: the base of vkshare.CommandList."},
    {Py_tp_init, (void *)commands_init},
    {Py_tp_dealloc, (void *)commands_dealloc},
    {Py_tp_traverse, (void *)commands_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_commands_spec = {
    "vkshare._native.CommandList",
    sizeof(vkpy_commands),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
