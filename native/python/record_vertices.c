/* Vertices: arrays of float32, and tuples or lists of numbers, are read here. Any other object is given
 * to vkshare.backends.vertex_layout, which converts it or refuses it by name. */
#include <string.h>

#include "vkpy_record.h"

void vkpy_close_rows(vkpy_rows *in)
{
    if (in->has_view)
        PyBuffer_Release(&in->view);
    Py_XDECREF(in->bytes);
    PyMem_Free(in->numbers);
}

static bool has_floats(Py_ssize_t floats, bool has_texture)
{
    return has_texture ? floats == 4 || floats == 6 || floats == 10 : floats == 6 || floats == 8;
}

static bool is_float32(const Py_buffer *view)
{
    const char *format = view->format == NULL ? "B" : view->format;
    if (format[0] == '@' || format[0] == '=' || (PY_LITTLE_ENDIAN && format[0] == '<'))
        ++format;
    return view->itemsize == sizeof(float) && strcmp(format, "f") == 0 && (uintptr_t)view->buf % sizeof(float) == 0;
}

static bool has_rows(const Py_buffer *view, bool has_texture, vkpy_rows *out)
{
    if (!(view->ndim == 2 || (view->ndim == 3 && view->shape[1] == 3)) || !is_float32(view))
        return false;
    Py_ssize_t count = view->ndim == 2 ? view->shape[0] : 3 * view->shape[0], floats = view->shape[view->ndim - 1];
    out->data = view->buf;
    out->count = (size_t)count;
    out->floats = (uint32_t)floats;
    return count % 3 == 0 && count <= INT32_MAX && has_floats(floats, has_texture);
}

/* The length of an exact tuple or list; -1: it is another object. */
static Py_ssize_t length_of(PyObject *object)
{
    return PyTuple_CheckExact(object) ? PyTuple_Size(object) : PyList_CheckExact(object) ? PyList_Size(object) : -1;
}

/* Reads tuples or lists of rows, or of triangles of three rows, of floats and ints: no Python code runs.
 * False: they are something else, or there is no memory. */
static bool quick_rows(PyObject *object, bool has_texture, vkpy_rows *out)
{
    Py_ssize_t outer = length_of(object);
    PyObject *first = outer > 0 ? vkpy_item_of(object, outer, 0) : NULL;
    PyObject *inner = first != NULL && length_of(first) == 3 ? vkpy_item_of(first, 3, 0) : NULL;
    bool is_nested = inner != NULL && length_of(inner) >= 0;
    Py_ssize_t floats = is_nested ? length_of(inner) : first == NULL ? -1 : length_of(first);
    if (!has_floats(floats, has_texture) || outer > INT32_MAX / 3 || (!is_nested && outer % 3 != 0))
        return false;
    Py_ssize_t count = is_nested ? 3 * outer : outer;
    out->numbers = PyMem_Calloc((size_t)count, (size_t)floats * sizeof(float));
    bool good = out->numbers != NULL;
    for (Py_ssize_t i = 0; i < count && good; ++i) {
        PyObject *row = vkpy_item_of(object, outer, is_nested ? i / 3 : i);
        row = row != NULL && is_nested ? vkpy_item_of(row, 3, i % 3) : row;
        good = row != NULL && vkpy_quick_floats(row, floats, out->numbers + i * floats);
    }
    out->data = out->numbers;
    out->count = (size_t)count;
    out->floats = (uint32_t)floats;
    return good;
}

/* Any other object: vkshare.backends.vertex_layout.pack() makes full rows of it, or refuses it. */
static bool pack(PyObject *object, bool has_texture, vkpy_rows *out)
{
    static vkpy_function function = {"vkshare.backends.vertex_layout", "pack", NULL};
    PyObject *packed = vkpy_call(&function, "(OO)", object, has_texture ? Py_True : Py_False);
    char *data = NULL;
    Py_ssize_t size = 0;
    if (packed == NULL || PyBytes_AsStringAndSize(packed, &data, &size) < 0) {
        Py_XDECREF(packed);
        return false;
    }
    out->bytes = packed;
    out->data = (const float *)(const void *)data;
    out->floats = VKS_VERTEX_FLOATS;
    out->count = (size_t)size / VKS_VERTEX_BYTES;
    return true;
}

bool vkpy_open_rows(PyObject *object, bool has_texture, vkpy_rows *out)
{
    *out = (vkpy_rows){.data = NULL};
    if (quick_rows(object, has_texture, out))
        return true;
    if (PyObject_CheckBuffer(object)) {
        out->has_view = PyObject_GetBuffer(object, &out->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) == 0;
        if (out->has_view ? has_rows(&out->view, has_texture, out) : !PyErr_ExceptionMatches(PyExc_Exception))
            return out->has_view; /* Ctrl-C is no reason to try another way */
        PyErr_Clear();
    }
    return pack(object, has_texture, out);
}
