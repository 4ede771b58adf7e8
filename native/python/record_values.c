/* The arguments of commands. Values of the usual types are read here, without Python code; any other
 * is given to vkshare.util.arguments, which converts it or refuses it by name. */
#include <math.h>

#include "vkpy_record.h"

/* Calls vkshare.util.arguments.FUNCTION(name, value). Returns a tuple, a new reference. */
static PyObject *by_python(const char *function, const char *name, PyObject *value)
{
    static PyObject *module;
    if (module == NULL && (module = PyImport_ImportModule("vkshare.util.arguments")) == NULL)
        return NULL;
    return PyObject_CallMethod(module, function, "sO", name, value);
}

/* The items of an exact tuple or list of `count` items, without a reference; NULL: it is another object. */
PyObject *vkpy_item_of(PyObject *object, Py_ssize_t count, Py_ssize_t i)
{
    if (VKPY_LIKELY(PyTuple_CheckExact(object)))
        return PyTuple_Size(object) == count ? PyTuple_GetItem(object, i) : NULL;
    return PyList_CheckExact(object) && PyList_Size(object) == count ? PyList_GetItem(object, i) : NULL;
}

/* Reads a float or an int that fits; neither runs Python code. */
bool vkpy_quick_double(PyObject *object, double *out)
{
    if (object == NULL || !(PyFloat_CheckExact(object) || PyLong_CheckExact(object)))
        return false;
    *out = PyFloat_AsDouble(object);
    if (VKPY_LIKELY(*out != -1.0 || PyErr_Occurred() == NULL))
        return true;
    PyErr_Clear();
    return false;
}

static bool quick_colour(PyObject *object, float out[4])
{
    for (int i = 0; i < 4; ++i) {
        double value;
        if (!vkpy_quick_double(vkpy_item_of(object, 4, i), &value) || !(fabs(value) <= VKPY_LARGEST_FLOAT))
            return false;
        out[i] = (float)value;
    }
    return true;
}

bool vkpy_read_colour(PyObject *object, float out[4])
{
    if (VKPY_LIKELY(quick_colour(object, out)))
        return true;
    PyObject *read = by_python("colour", "colour", object);
    bool good = read != NULL && quick_colour(read, out);
    Py_XDECREF(read);
    return good || PyErr_Occurred() != NULL ? good : vkpy_type_error(object, "colour", "four floats");
}

static bool quick_integers(PyObject *object, int count, int32_t *out)
{
    for (int i = 0; i < count; ++i) {
        PyObject *item = vkpy_item_of(object, count, i);
        int overflow = 0;
        if (item == NULL || !PyLong_CheckExact(item))
            return false;
        long value = PyLong_AsLongAndOverflow(item, &overflow);
        if (overflow != 0 || value < INT32_MIN || value > INT32_MAX)
            return false;
        out[i] = (int32_t)value;
    }
    return true;
}

/* `function` is "rect" (4 integers) or "point" (2). */
bool vkpy_read_integers(const char *function, const char *name, PyObject *object, int count, int32_t *out)
{
    if (VKPY_LIKELY(quick_integers(object, count, out)))
        return true;
    PyObject *read = by_python(function, name, object);
    bool good = read != NULL && quick_integers(read, count, out);
    Py_XDECREF(read);
    return good || PyErr_Occurred() != NULL ? good : vkpy_type_error(object, name, "integers");
}

/* None: the whole image. */
bool vkpy_read_rect(const char *name, PyObject *object, const vks_drawable *of, vks_rect *out)
{
    int32_t values[4] = {0};
    if (object == Py_None && of != NULL) {
        const vks_drawable_info *image = vks_drawable_get_info(of);
        *out = (vks_rect){0, 0, (int32_t)image->width, (int32_t)image->height};
        return true;
    }
    if (!vkpy_read_integers("rect", name, object, 4, values))
        return false;
    *out = (vks_rect){values[0], values[1], values[2], values[3]};
    return true;
}

/* Reads one of two words: *is_first. */
bool vkpy_read_word(const char *name, PyObject *object, const char *first, const char *second, bool *is_first)
{
    if (VKPY_LIKELY(PyUnicode_Check(object))) {
        *is_first = PyUnicode_CompareWithASCIIString(object, first) == 0;
        if (*is_first || PyUnicode_CompareWithASCIIString(object, second) == 0)
            return true;
    }
    static PyObject *module;
    if (module == NULL && (module = PyImport_ImportModule("vkshare.util.arguments")) == NULL)
        return false;
    PyObject *result = PyObject_CallMethod(module, "choice", "sO(ss)", name, object, first, second);
    if (result != NULL) /* it found what the comparison did not: never */
        vkpy_type_error(object, name, "one of the words that its documentation lists");
    Py_XDECREF(result);
    return false;
}

bool vkpy_read_opacity(PyObject *object, float *out)
{
    if (PyBool_Check(object) || !(PyFloat_Check(object) || PyLong_Check(object))) {
        PyObject *type = PyType_GetName(Py_TYPE(object));
        if (type != NULL)
            PyErr_Format(PyExc_TypeError, "opacity must be a number, not %U", type);
        Py_XDECREF(type);
        return false;
    }
    double value = PyFloat_AsDouble(object);
    PyErr_Clear(); /* an int that is beyond any float: -1, which is refused */
    if (!(value >= 0 && value <= 1)) {
        PyErr_Format(PyExc_ValueError, "opacity is %S; allowed is 0 to 1", object);
        return false;
    }
    *out = (float)value;
    return true;
}
