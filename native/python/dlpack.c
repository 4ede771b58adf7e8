/* DLPack capsules over memory that a Python object keeps alive. The layouts are those of dlpack.h
 * 1.0. */
#include "vkpy.h"

#include <stdlib.h>

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t n_dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements */
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
#define DIMENSIONS 3

/* One block for either version that the consumer requests. */
typedef struct tensor_block {
    union {
        managed_tensor managed;
        versioned_tensor versioned;
    } as;
    PyObject *keep;
    int64_t shape[DIMENSIONS], strides[DIMENSIONS];
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

PyObject *vkpy_dlpack(PyObject *module, PyObject *arguments)
{
    PyObject *keep, *read_only; /* read_only None: the consumer supports no versions */
    unsigned long long address;
    long long shape[DIMENSIONS], strides[DIMENSIONS];
    int device_type, device_id;
    unsigned char code, bits;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OKiibb(LLL)(LLL)O:dlpack", &keep, &address, &device_type, &device_id, &code,
                          &bits, &shape[0], &shape[1], &shape[2], &strides[0], &strides[1], &strides[2], &read_only))
        return NULL;
    tensor_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return PyErr_NoMemory();
    for (int i = 0; i < DIMENSIONS; i++) {
        block->shape[i] = shape[i];
        block->strides[i] = strides[i];
    }
    dl_tensor tensor = {
        .data = (void *)(uintptr_t)address,
        .device_type = device_type,
        .device_id = device_id,
        .n_dimensions = DIMENSIONS,
        .code = code,
        .bits = bits,
        .lanes = 1,
        .shape = block->shape,
        .strides = block->strides,
    };
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
        free(block);
    else
        block->keep = Py_NewRef(keep);
    return capsule;
}
