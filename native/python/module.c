/* The module vkshare._native: its types, constants and free functions. */
#include "vkpy.h"

#include "backend/messages.h"
#include "os/platform.h"

PyTypeObject *vkpy_device_type, *vkpy_submission_type, *vkpy_commands_type, *vkpy_fence_type, *vkpy_surface_type,
    *vkpy_array_buffer_type, *vkpy_recording_type, *vkpy_swapchain_type, *vkpy_frame_type, *vkpy_producer_type,
    *vkpy_consumer_type;

#define BASE (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE)
#define COLLECTED (BASE | Py_TPFLAGS_HAVE_GC)
#define FINAL (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION) /* submit() creates exactly this type */

/* The type and the slots of that name; `base`: an earlier type, or NULL: object. */
#define TYPE(public_name, name, structure, flags, base)                                                                \
    {                                                                                                                  \
        &vkpy_##name##_type, base,                                                                                     \
        {                                                                                                              \
            "vkshare._native." public_name, sizeof(structure), 0, flags, vkpy_##name##_slots                           \
        }                                                                                                              \
    }

static struct {
    PyTypeObject **type, **base;
    PyType_Spec spec;
} types[] = {
    TYPE("Device", device, vkpy_device, COLLECTED, NULL),
    TYPE("Submission", submission, vkpy_submission, FINAL, NULL),
    TYPE("CommandList", commands, vkpy_commands, COLLECTED, NULL),
    TYPE("Recording", recording, vkpy_recording, COLLECTED, &vkpy_commands_type),
    TYPE("Fence", fence, vkpy_fence, COLLECTED, NULL),
    TYPE("Surface", surface, vkpy_surface, COLLECTED, NULL),
    TYPE("ArrayBuffer", array_buffer, PyObject, BASE, NULL),
    TYPE("Swapchain", swapchain, vkpy_swapchain, COLLECTED, NULL),
    TYPE("Frame", frame, vkpy_frame, COLLECTED, NULL),
    TYPE("Producer", producer, vkpy_queue, COLLECTED, NULL),
    TYPE("Consumer", consumer, vkpy_queue, COLLECTED, NULL),
};

/* ---- shared by all types ----------------------------------------------------------------------------------------- */

PyMemberDef vkpy_weaklist[] = {VKPY_WEAKLIST, {NULL, 0, 0, 0, NULL}};

int vkpy_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((vkpy_object *)object)->device);
    return 0;
}

void vkpy_dealloc_begin(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((vkpy_object *)self)->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
}

void vkpy_dealloc_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

void *vkpy_take(PyObject *cell, const char *kind)
{
    void **place = PyCapsule_GetPointer(cell, kind);
    void *object = place != NULL ? *place : NULL;
    if (object != NULL)
        *place = NULL;
    else if (place != NULL)
        vkpy_raise_named("InvalidCallError", "this %s is empty", kind);
    return object;
}

void *vkpy_take_of(PyObject *device, PyObject *cell, const char *kind, vkpy_device **owner)
{
    void *object = vkpy_device_argument(device, "device") != NULL ? vkpy_take(cell, kind) : NULL;
    if (object != NULL)
        *owner = (vkpy_device *)Py_NewRef(device);
    return object;
}

/* ---- for calls through cffi: vkshare/util/library_calls.py ------------------------------------------------------- */

static PyObject *deadline(PyObject *Py_UNUSED(module), PyObject *timeout_object)
{
    uint64_t timeout;
    return vkpy_timeout(timeout_object, &timeout) ? PyLong_FromUnsignedLongLong(vkpy_deadline(timeout)) : NULL;
}

/* The capsule of an object has no reference: its receiver takes one in the call for which it is
 * made. "vks_fence **" is a cell with an object, which its receiver takes out. */
static PyObject *capsule(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static const char *const kinds[] = {"vks_device **",  "vks_drawable", "vks_recorder",    "vks_fence **",
                                        "vks_surface **", "vks_queue **", "vks_swapchain **"};
    uint64_t address;
    VKPY_BIND("capsule", 2, 2, 2, "address", "kind");
    if (!vkpy_u64(values[0], "address", &address))
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && PyUnicode_Check(values[1]); ++i)
        if (PyUnicode_CompareWithASCIIString(values[1], kinds[i]) == 0)
            return PyCapsule_New((void *)(uintptr_t)address, kinds[i], NULL);
    return PyErr_Format(PyExc_ValueError, "kind is %R, which no method of this module takes", values[1]);
}

static void drop_reference(PyObject *hidden) { Py_DECREF((PyObject *)PyCapsule_GetPointer(hidden, NULL)); }

static PyObject *hide(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject *hidden = PyCapsule_New(object, NULL, drop_reference);
    return hidden != NULL ? Py_NewRef(object), hidden : NULL;
}

static PyMethodDef functions[] = {
    {"hide", hide, METH_O, "hide($module, object)\n--\n\nA reference that the garbage collector does not see."},
    {"capsule", VKPY_FASTCALL(capsule), VKPY_FAST,
     "capsule($module, address, kind)\n--\n\nAn object of the C library as an argument of this module's methods."},
    {"deadline", deadline, METH_O,
     "deadline($module, timeout)\n--\n\nThe deadline of a timeout that begins now; 0: test and return."},
    {"dlpack", vkpy_dlpack, METH_VARARGS,
     "dlpack($module, keep, address, device_type, device_id, code, bits, shape, strides, read_only, /)\n--\n\nA DLPack "
     "capsule over memory that `keep` keeps alive; shape and strides are 3 numbers of elements. read_only None: for a "
     "consumer that knows DLPack before 1.0."},
    {"dlpack_fields", vkpy_dlpack_fields, METH_O,
     "dlpack_fields($module, capsule, /)\n--\n\nThe fields of a capsule of DLPack before 1.0, which keeps its memory "
     "for as long as it lives."},
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
                &types[i].spec, types[i].base != NULL ? (PyObject *)*types[i].base : NULL);
        if (*types[i].type == NULL || PyModule_AddType(module, *types[i].type) < 0)
            return -1;
    }
    return PyModule_AddIntConstant(module, "MESSAGE_CALLBACK", (long)(uintptr_t)vks_message_callback);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "vkshare._native",
    .m_doc = "The C core's objects, as thin as they can be.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
