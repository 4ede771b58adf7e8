/* DLPack capsules over memory that a Python object keeps alive, in the layouts of dlpack.h 1.0, and
 * the fields of other libraries' capsules. */
#include "vkpy.h"

#include <stdlib.h>

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t n_dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    long long *shape, *strides; /* int64_t; in elements */
    uint64_t byte_offset;
} dl_tensor;

typedef struct managed_tensor {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct managed_tensor *itself);
} managed_tensor;

typedef struct versioned_tensor {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct versioned_tensor *itself);
    uint64_t flags;
    dl_tensor tensor;
} versioned_tensor;

#define READ_ONLY UINT64_C(1) /* DLPACK_FLAG_BITMASK_READ_ONLY */
#define DIMENSIONS 3          /* at most; the shape and strides of fewer end with 1 and 0 */

/* One block for either version that the consumer requests. */
typedef struct tensor_block {
    union {
        managed_tensor managed;
        versioned_tensor versioned;
    } as;
    PyObject *keep;
    long long shape[DIMENSIONS], strides[DIMENSIONS];
} tensor_block;

static const char *name_of(bool versioned) { return versioned ? "dltensor_versioned" : "dltensor"; }

/* A consumer calls it on any thread, perhaps after the interpreter has ended; the kept object then
 * ends with the process. */
static void forget(tensor_block *block)
{
    if (Py_IsInitialized()) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(block->keep);
        PyGILState_Release(state);
    }
    free(block);
}

static void delete_managed(managed_tensor *tensor) { forget(tensor->context); }
static void delete_versioned(versioned_tensor *tensor) { forget(tensor->context); }

/* A consumer that has taken the tensor has renamed the capsule. */
static void delete_capsule(PyObject *capsule)
{
    for (int versioned = 0; versioned < 2; versioned++)
        if (PyCapsule_IsValid(capsule, name_of(versioned))) {
            tensor_block *block = PyCapsule_GetPointer(capsule, name_of(versioned));
            Py_DECREF(block->keep);
            free(block);
            return;
        }
}

PyObject *vkpy_dlpack(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *keep, *read_only; /* read_only None: the consumer supports no versions */
    dl_tensor tensor = {.lanes = 1};
    unsigned long long address;
    tensor_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return PyErr_NoMemory();
    if (!PyArg_ParseTuple(arguments, "OKiiibb(LLL)(LLL)O:dlpack", &keep, &address, &tensor.device_type,
                          &tensor.device_id, &tensor.n_dimensions, &tensor.code, &tensor.bits, &block->shape[0],
                          &block->shape[1], &block->shape[2], &block->strides[0], &block->strides[1],
                          &block->strides[2], &read_only)) {
        free(block);
        return NULL;
    }
    tensor.data = (void *)(uintptr_t)address;
    tensor.shape = block->shape;
    tensor.strides = block->strides;
    bool versioned = read_only != Py_None;
    if (versioned)
        block->as.versioned = (versioned_tensor){.major = 1,
                                                 .context = block,
                                                 .deleter = delete_versioned,
                                                 .flags = read_only == Py_True ? READ_ONLY : 0,
                                                 .tensor = tensor};
    else
        block->as.managed = (managed_tensor){.tensor = tensor, .context = block, .deleter = delete_managed};
    PyObject *capsule = PyCapsule_New(block, name_of(versioned), delete_capsule);
    if (capsule == NULL)
        return free(block), NULL;
    block->keep = Py_NewRef(keep);
    return capsule;
}

static PyObject *numbers(const long long *found, int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(found[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *vkpy_dlpack_fields(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const managed_tensor *managed = PyCapsule_GetPointer(capsule, name_of(false));
    if (managed == NULL)
        return NULL;
    const dl_tensor *tensor = &managed->tensor;
    PyObject *shape = numbers(tensor->shape, tensor->n_dimensions);
    PyObject *strides = tensor->strides != NULL ? numbers(tensor->strides, tensor->n_dimensions) : Py_NewRef(Py_None);
    if (shape == NULL || strides == NULL) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    unsigned long long address = (unsigned long long)(uintptr_t)tensor->data + tensor->byte_offset;
    return Py_BuildValue("KiiiiiNN", address, tensor->device_type, tensor->device_id, (int)tensor->code,
                         (int)tensor->bits, (int)tensor->lanes, shape, strides);
}
