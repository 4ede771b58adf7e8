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

static bool read_dimensions(PyObject *tuple, const char *name, int64_t *out)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != DIMENSIONS) {
        PyErr_Format(PyExc_TypeError, "%s must be a tuple of %d integers", name, DIMENSIONS);
        return false;
    }
    for (Py_ssize_t i = 0; i < DIMENSIONS; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

PyObject *vkpy_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {
        "dlpack",
        9,
        9,
        9,
        {"keep", "address", "device_type", "device_id", "code", "bits", "shape", "strides", "read_only"},
        {NULL}};
    PyObject *values[9];
    uint64_t address;
    long long type, id, code, bits;
    (void)module;
    /* read_only None: the consumer supports no versions */
    bool versioned, read_only = false;
    tensor_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return PyErr_NoMemory();
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[1], "address", &address) ||
        !vkpy_integer(values[2], "device_type", 1, INT32_MAX, &type) ||
        !vkpy_integer(values[3], "device_id", 0, INT32_MAX, &id) || !vkpy_integer(values[4], "code", 0, 255, &code) ||
        !vkpy_integer(values[5], "bits", 1, 255, &bits) || !read_dimensions(values[6], "shape", block->shape) ||
        !read_dimensions(values[7], "strides", block->strides) ||
        ((versioned = values[8] != Py_None) && !vkpy_bool(values[8], &read_only))) {
        free(block);
        return NULL;
    }
    dl_tensor tensor = {
        .data = (void *)(uintptr_t)address,
        .device_type = (int32_t)type,
        .device_id = (int32_t)id,
        .n_dimensions = DIMENSIONS,
        .code = (uint8_t)code,
        .bits = (uint8_t)bits,
        .lanes = 1,
        .shape = block->shape,
        .strides = block->strides,
    };
    if (versioned)
        block->as.versioned = (versioned_tensor){.major = 1,
                                                 .context = block,
                                                 .deleter = delete_versioned,
                                                 .flags = read_only ? READ_ONLY : 0,
                                                 .tensor = tensor};
    else
        block->as.managed = (managed_tensor){.tensor = tensor, .context = block, .deleter = delete_managed};
    PyObject *capsule = PyCapsule_New(block, name_of(versioned), delete_capsule);
    if (capsule == NULL)
        free(block);
    else
        block->keep = Py_NewRef(values[0]);
    return capsule;
}
