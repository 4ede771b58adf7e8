/* The module vkshare._native: its types, constants and free functions. */
#include "vkpy.h"
#include "vkpy_present.h"
#include "vkpy_queue.h"

#include "backend/messages.h"
#include "os/platform.h"

PyTypeObject *vkpy_producer_type, *vkpy_consumer_type;
PyTypeObject *vkpy_swapchain_type, *vkpy_frame_type;
PyTypeObject *vkpy_device_type, *vkpy_submission_type, *vkpy_commands_type, *vkpy_fence_type, *vkpy_surface_type,
    *vkpy_array_buffer_type, *vkpy_recording_type;

static const struct {
    const char *name;
    PyTypeObject **type;
    PyType_Spec *spec;
    PyTypeObject **base; /* an earlier one; NULL: object */
} types[] = {
    {"Device", &vkpy_device_type, &vkpy_device_spec, NULL},
    {"Submission", &vkpy_submission_type, &vkpy_submission_spec, NULL},
    {"CommandList", &vkpy_commands_type, &vkpy_commands_spec, NULL},
    {"Recording", &vkpy_recording_type, &vkpy_recording_spec, &vkpy_commands_type},
    {"Fence", &vkpy_fence_type, &vkpy_fence_spec, NULL},
    {"Surface", &vkpy_surface_type, &vkpy_surface_spec, NULL},
    {"ArrayBuffer", &vkpy_array_buffer_type, &vkpy_array_buffer_spec, NULL},
    {"Swapchain", &vkpy_swapchain_type, &vkpy_swapchain_spec, NULL},
    {"Frame", &vkpy_frame_type, &vkpy_frame_spec, NULL},
    {"Producer", &vkpy_producer_type, &vkpy_producer_spec, NULL},
    {"Consumer", &vkpy_consumer_type, &vkpy_consumer_spec, NULL},
};

/* ---- shared by all types ----------------------------------------------------------------------------------------- */

void vkpy_dealloc_begin(PyObject *self, PyObject **weakrefs, bool collected)
{
    if (collected)
        PyObject_GC_UnTrack(self);
    if (*weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
}

void vkpy_dealloc_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

void *vkpy_take(PyObject *device, PyObject *cell, const char *kind, vkpy_device **owner)
{
    vkpy_device *found = vkpy_device_argument(device, "device");
    void **place = found != NULL ? PyCapsule_GetPointer(cell, kind) : NULL;
    void *object = place != NULL ? *place : NULL;
    if (object != NULL) {
        *place = NULL;
        *owner = (vkpy_device *)Py_NewRef(device);
    } else if (place != NULL) {
        vkpy_raise_named("InvalidCallError", "this %s is empty", kind);
    }
    return object;
}

/* ---- for calls through cffi: vkshare/util/library_calls.py ------------------------------------------------------- */

static PyObject *deadline(PyObject *module, PyObject *timeout_object)
{
    uint64_t timeout;
    (void)module;
    return vkpy_timeout(timeout_object, &timeout) ? PyLong_FromUnsignedLongLong(vkpy_deadline(timeout)) : NULL;
}

/* The capsule of an object has no reference: its receiver takes one in the call for which it is made. "vks_fence **" is
 * a cell with an object, which its receiver takes out. */
static PyObject *capsule(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"capsule", 2, 2, 2, {"address", "kind"}, {NULL}};
    static const char *const kinds[] = {"vks_device_info",    "vks_drawable", "vks_event_queue", "vks_recorder",
                                        "vks_swapchain_info", "vks_fence **", "vks_surface **",  "vks_queue **"};
    PyObject *values[2];
    uint64_t address;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "address", &address))
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && PyUnicode_Check(values[1]); ++i)
        if (PyUnicode_CompareWithASCIIString(values[1], kinds[i]) == 0)
            return PyCapsule_New((void *)(uintptr_t)address, kinds[i], NULL);
    PyErr_Format(PyExc_ValueError, "kind is %R, which no method of this module takes", values[1]);
    return NULL;
}

static PyObject *address(PyObject *module, PyObject *capsule)
{
    (void)module;
    void *found = PyCapsule_GetPointer(capsule, "vks_work");
    return found != NULL ? PyLong_FromVoidPtr(found) : NULL;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"address", address, METH_O, "address($module, capsule)\n--\n\nThe address of the vks_work that a capsule owns."},
    {"capsule", VKPY_FASTCALL(capsule), VKPY_FAST,
     "capsule($module, address, kind)\n--\n\nAn object of the C library as an argument of this module's methods."},
    {"deadline", deadline, METH_O,
     "deadline($module, timeout)\n--\n\nThe deadline of a timeout that begins now; 0: test and return."},
    {"dlpack", vkpy_dlpack, METH_VARARGS,
     "dlpack($module, keep, address, device_type, device_id, code, bits, shape, strides, read_only, /)\n--\n\nA DLPack "
     "capsule over memory that `keep` keeps alive; shape and strides are 3 numbers of elements. read_only None: for a "
     "consumer that knows DLPack before 1.0."},
    {NULL, NULL, 0, NULL},
};

/* The static types belong to the first interpreter. */
static bool only_interpreter(void)
{
    static PyInterpreterState *first;
    if (first == NULL)
        first = PyInterpreterState_Get();
    if (first == PyInterpreterState_Get())
        return true;
    PyErr_SetString(PyExc_ImportError, "vkshare._native can be used by one interpreter of a process only");
    return false;
}

static int execute(PyObject *module)
{
    if (!only_interpreter())
        return -1;
    vks_platform_init(); /* trace marks may precede any object */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        if (*types[i].type == NULL)
            *types[i].type = (PyTypeObject *)PyType_FromSpecWithBases(
                types[i].spec, types[i].base != NULL ? (PyObject *)*types[i].base : NULL);
        if (*types[i].type == NULL || PyModule_AddObjectRef(module, types[i].name, (PyObject *)*types[i].type) < 0)
            return -1;
    }
    if (PyModule_AddIntConstant(module, "LAYOUT_VERSION", VKS_LAYOUT_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "SLOTS", VKS_SLOTS) < 0 ||
        PyModule_AddIntConstant(module, "MAX_QUEUE_SURFACES", VKS_MAX_QUEUE_SURFACES) < 0 ||
        PyModule_AddIntConstant(module, "MAX_METADATA", VKS_MAX_METADATA) < 0)
        return -1;
    PyObject *callback = PyLong_FromVoidPtr((void *)(uintptr_t)vks_message_callback);
    int added = PyModule_AddObjectRef(module, "MESSAGE_CALLBACK", callback);
    Py_XDECREF(callback);
    return added;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "vkshare._native",
    "The C core's objects, as thin as they can be.",
    0,
    functions,
    slots,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
