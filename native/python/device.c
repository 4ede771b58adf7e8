/* Device: one queue. Device.submit is in submit.c. */
#include "vkpy.h"

#include <string.h>

vkpy_device *vkpy_device_argument(PyObject *object, const char *name)
{
    if (!PyObject_TypeCheck(object, vkpy_device_type)) {
        vkpy_type_error(object, name, "a Device");
        return NULL;
    }
    vkpy_device *device = (vkpy_device *)object;
    return device->core != NULL ? device : (vkpy_device *)vkpy_raise_uninitialised(object);
}

/* ---- making one -------------------------------------------------------------------------------------------------- */

enum {
    PROC_ADDR,
    DEVICE,
    QUEUE,
    TRANSFER_QUEUE,
    EXPORT_TIMELINES,
    MAX_DIFFERENCE,
    LOCK,
    UNLOCK,
    LOCK_USER,
    IS_ADOPTED,
    N_VULKAN_KEYS
};

static const char *const vulkan_keys[N_VULKAN_KEYS] = {
    "get_device_proc_addr",    "device",     "queue",        "transfer_queue", "export_timelines",
    "max_timeline_difference", "lock_queue", "unlock_queue", "lock_user",      "is_adopted",
};

/* Reads the dict's values in the order of vulkan_keys, without references. An unknown key is a
 * TypeError. */
static bool read_vulkan_dict(PyObject *dict, PyObject **values)
{
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) {
        int i = 0;
        while (i < N_VULKAN_KEYS &&
               !(PyUnicode_Check(key) && PyUnicode_CompareWithASCIIString(key, vulkan_keys[i]) == 0))
            ++i;
        if (i == N_VULKAN_KEYS) {
            PyErr_Format(PyExc_TypeError, "vulkan has an unknown key %R", key);
            return false;
        }
        values[i] = value;
    }
    return true;
}

static bool vulkan_handle(PyObject *const *values, int key, uint64_t *out)
{
    if (values[key] == NULL || values[key] == Py_None) {
        PyErr_Format(PyExc_TypeError, "vulkan lacks the key '%s'", vulkan_keys[key]);
        return false;
    }
    if (!vkpy_u64(values[key], vulkan_keys[key], out))
        return false;
    if (*out == 0)
        PyErr_Format(PyExc_ValueError, "vulkan['%s'] is 0, allowed is a valid handle", vulkan_keys[key]);
    return *out != 0;
}

static bool parse_vulkan(PyObject *dict, vks_vulkan_info *info, vkpy_queue_lock **queue_lock)
{
    PyObject *values[N_VULKAN_KEYS] = {NULL};
    uint64_t proc_addr;
    if (!PyDict_Check(dict))
        return vkpy_type_error(dict, "vulkan", "a dict or None");
    if (!read_vulkan_dict(dict, values) || !vulkan_handle(values, PROC_ADDR, &proc_addr) ||
        !vulkan_handle(values, DEVICE, &info->device) || !vulkan_handle(values, QUEUE, &info->queue) ||
        !vkpy_bool(values[EXPORT_TIMELINES], &info->export_timelines) ||
        !vkpy_bool(values[IS_ADOPTED], &info->is_adopted))
        return false;
    if (values[TRANSFER_QUEUE] != NULL && !vkpy_u64(values[TRANSFER_QUEUE], "transfer_queue", &info->transfer_queue))
        return false;
    if (values[MAX_DIFFERENCE] != NULL &&
        !vkpy_u64(values[MAX_DIFFERENCE], "max_timeline_difference", &info->max_timeline_difference))
        return false;
    info->get_device_proc_addr = (void *)(uintptr_t)proc_addr;
    return vkpy_queue_lock_parse(values[LOCK], values[UNLOCK], values[LOCK_USER], info, queue_lock);
}

/* Reads `name`, `held_limit`, `raster_threads` into `info`, which points to the UTF-8 inside
 * `name`. */
static bool parse_options(PyObject *name, PyObject *held_limit, PyObject *raster_threads, vks_device_info *info)
{
    long long limit = 0, threads = 0;
    if (!PyUnicode_Check(name))
        return vkpy_type_error(name, "name", "a str");
    info->name = PyUnicode_AsUTF8AndSize(name, NULL);
    if (info->name == NULL || (held_limit != NULL && !vkpy_integer(held_limit, "held_limit", 0, UINT32_MAX, &limit)) ||
        (raster_threads != NULL && !vkpy_integer(raster_threads, "raster_threads", 0, 1024, &threads)))
        return false;
    info->held_limit = (uint32_t)limit;
    info->raster_threads = (uint32_t)threads;
    return true;
}

static bool create(vkpy_device *self, PyObject *name, PyObject *held_limit, PyObject *raster_threads, PyObject *vulkan)
{
    vks_vulkan_info vulkan_info = {0};
    vks_device_info info = {0};
    vkpy_queue_lock *queue_lock = NULL;
    if (!parse_options(name, held_limit, raster_threads, &info))
        return false;
    if (vulkan != NULL && vulkan != Py_None) {
        if (!parse_vulkan(vulkan, &vulkan_info, &queue_lock))
            return false;
        info.vulkan = &vulkan_info;
    }
    vks_device *core = NULL;
    vks_status status;
    Py_BEGIN_ALLOW_THREADS /* starts threads, and creates semaphores in the driver */
    status = vks_device_create(&info, &core);
    Py_END_ALLOW_THREADS
    if (status != VKS_OK) {
        vkpy_queue_lock_free(queue_lock);
        vkpy_raise(status, "Device");
        return false;
    }
    self->queue_lock = queue_lock;
    self->name = Py_NewRef(name);
    self->core = core;
    return true;
}

static int device_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "held_limit", "raster_threads", "vulkan", NULL};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *name = NULL, *held_limit = NULL, *raster_threads = NULL, *vulkan = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:Device", names, &name, &held_limit, &raster_threads,
                                     &vulkan))
        return -1;
    if (self->initialised)
        return vkpy_raise_initialised("Device");
    name = name == NULL ? PyUnicode_FromString("") : Py_NewRef(name);
    self->initialised = true; /* before the GIL is released in create() */
    self->initialised = name != NULL && create(self, name, held_limit, raster_threads, vulkan);
    Py_XDECREF(name);
    return self->initialised ? 0 : -1;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static int device_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_device *self = (vkpy_device *)object;
    Py_VISIT(Py_TYPE(object));
    int stopped = vkpy_held_arguments_traverse(self, visit, arg);
    return stopped ? stopped : vkpy_queue_lock_traverse(self->queue_lock, visit, arg);
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
    vkpy_queue_lock_free(self->queue_lock);
    if (self->recorder != NULL)
        vks_recorder_unref(self->recorder);
    Py_XDECREF(self->name);
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

/* ---- state ------------------------------------------------------------------------------------------------------- */

static PyObject *device_wait_idle(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Device.wait_idle", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self, status = vks_device_wait_idle(self->core, 0));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_device_wait_idle(self->core, deadline));
    }
    return vkpy_waited(status, "Device.wait_idle", timeout);
}

static PyObject *device_check(PyObject *object, PyObject *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    (void)ignored;
    VKPY_LIVE(self);
    return vkpy_none_or_raise(vks_device_state(self->core), "Device");
}

static PyObject *device_mark_lost(PyObject *object, PyObject *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self, vks_device_mark_lost(self->core));
    Py_RETURN_NONE;
}

static PyObject *device_count_copy(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Device._count_copy", 1, 1, 1, {"nbytes"}, {NULL}};
    vkpy_device *self = (vkpy_device *)object;
    PyObject *values[1];
    uint64_t bytes;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "nbytes", &bytes))
        return NULL;
    VKPY_SHORT(self, vks_device_count_copy(self->core, bytes));
    Py_RETURN_NONE;
}

static PyObject *device_counters(PyObject *object, PyObject *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    vks_device_statistics s;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self, vks_device_get_statistics(self->core, &s));
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "submitted", s.submitted, "completed",
                         s.completed, "transfers", s.transfers, "submissions", s.submissions, "held", s.held,
                         "held_limit", s.held_limit, "held_total", s.held_total, "failed", s.failed,
                         "backpressure_waits", s.backpressure_waits, "copied_bytes", s.copied_bytes, "fences", s.fences,
                         "surfaces", s.surfaces);
}

VKPY_GETTER(device_get_name, vkpy_device, Py_NewRef(self->name))
VKPY_GETTER(device_is_closed, vkpy_device, PyBool_FromLong(vks_device_state(self->core) == VKS_CLOSED))
VKPY_GETTER(device_is_lost, vkpy_device, PyBool_FromLong(vks_device_state(self->core) == VKS_DEVICE_LOST))

static PyObject *device_submitted(PyObject *object, void *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    uint64_t submitted;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self, submitted = vks_device_submitted(self->core));
    return PyLong_FromUnsignedLongLong(submitted);
}

static PyObject *device_completed(PyObject *object, void *ignored)
{
    vkpy_device *self = (vkpy_device *)object;
    uint64_t serial = 0;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self, serial = vks_device_completed(self->core));
    return PyLong_FromUnsignedLongLong(serial);
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

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
    {"wait_idle", VKPY_FASTCALL(device_wait_idle), VKPY_FAST,
     "wait_idle($self, timeout=None)\n--\n\nWaits until everything submitted before the call has run."},
    {"_check", device_check, METH_NOARGS,
     "_check($self)\n--\n\nRaises if the device is closed, lost or inherited through fork."},
    {"_mark_lost", device_mark_lost, METH_NOARGS, "_mark_lost($self)\n--\n\nTreats the device as lost from now on."},
    {"_counters", device_counters, METH_NOARGS, "_counters($self)\n--\n\nThe core's statistics, as a dict."},
    {"_count_copy", VKPY_FASTCALL(device_count_copy), VKPY_FAST,
     "_count_copy($self, nbytes)\n--\n\nAdds to copied_bytes."},
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

VKPY_ADDRESS_GETTER(device_address, vkpy_device)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(device_address),
    {"name", device_get_name, NULL, "The name that shared pages show.", NULL},
    {"is_closed", device_is_closed, NULL, "Whether the device was closed.", NULL},
    {"is_lost", device_is_lost, NULL, "Whether the driver has reported the loss of the device.", NULL},
    {"_submitted", device_submitted, NULL, "Serial of the last batch that the driver was given.", NULL},
    {"_completed", device_completed, NULL, "Serial of the last batch that has run.", NULL},
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
