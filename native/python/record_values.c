/* The arguments of commands. Values of the usual types are read here, without Python code; any
 * other is given to vkshare.util.arguments, which converts it or refuses it by name. */
#include <math.h>

#include "vkpy_record.h"

/* Reads `count` numbers of the usual types; false: it is another object. */
typedef bool quick(PyObject *object, Py_ssize_t count, void *out);

/* Reads what Python makes of an object of another type. */
static bool convert(vkpy_function *function, const char *name, PyObject *object, quick *read, int count, void *out)
{
    PyObject *made = vkpy_call(function, "(sO)", name, object);
    bool good = made != NULL && read(made, count, out);
    Py_XDECREF(made);
    return good || PyErr_Occurred() != NULL ? good : vkpy_type_error(object, name, "numbers of the usual types");
}

PyObject *vkpy_item_of(PyObject *object, Py_ssize_t count, Py_ssize_t i)
{
    if (VKPY_LIKELY(PyTuple_CheckExact(object)))
        return PyTuple_Size(object) == count ? PyTuple_GetItem(object, i) : NULL;
    return PyList_CheckExact(object) && PyList_Size(object) == count ? PyList_GetItem(object, i) : NULL;
}

/* A number that is finite as a float, in the precision of Python's. */
static bool quick_number(PyObject *item, double *out)
{
    static const double largest = 3.4028234663852886e38; /* of vkshare.util.arguments */
    return vkpy_quick_double(item, out) && fabs(*out) <= largest;
}

bool vkpy_quick_floats(PyObject *object, Py_ssize_t count, void *out)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        double value;
        if (!quick_number(vkpy_item_of(object, count, i), &value))
            return false;
        ((float *)out)[i] = (float)value;
    }
    return true;
}

static bool quick_doubles(PyObject *object, Py_ssize_t count, void *out)
{
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!quick_number(vkpy_item_of(object, count, i), (double *)out + i))
            return false;
    return true;
}

static bool quick_integers(PyObject *object, Py_ssize_t count, void *out)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *item = vkpy_item_of(object, count, i);
        int overflow = 0;
        if (item == NULL || !PyLong_CheckExact(item))
            return false;
        long value = PyLong_AsLongAndOverflow(item, &overflow);
        if (overflow != 0 || value < INT32_MIN || value > INT32_MAX)
            return false;
        ((int32_t *)out)[i] = (int32_t)value;
    }
    return true;
}

bool vkpy_read_colour(PyObject *object, const vks_drawable *of, double out[4])
{
    static vkpy_function colour = {"vkshare.util.arguments", "colour", NULL};
    static vkpy_function depth = {"vkshare.util.arguments", "depth", NULL};
    if (VKPY_LIKELY(quick_doubles(object, 4, out)))
        return true;
    uint32_t format = vks_drawable_get_info(of)->format;
    bool is_depth = format == VKS_FORMAT_D16_UNORM || format == VKS_FORMAT_D32_FLOAT;
    return convert(is_depth ? &depth : &colour, "colour", object, quick_doubles, 4, out);
}

bool vkpy_read_point(const char *name, PyObject *object, int32_t out[2])
{
    static vkpy_function point = {"vkshare.util.arguments", "point", NULL};
    return VKPY_LIKELY(quick_integers(object, 2, out)) || convert(&point, name, object, quick_integers, 2, out);
}

bool vkpy_read_rect(const char *name, PyObject *object, const vks_drawable *of, vks_rect *out)
{
    static vkpy_function rect = {"vkshare.util.arguments", "rect", NULL};
    if (object == Py_None && of != NULL) {
        const vks_drawable_info *image = vks_drawable_get_info(of);
        *out = (vks_rect){0, 0, (int32_t)image->width, (int32_t)image->height};
        return true;
    }
    _Static_assert(sizeof *out == 4 * sizeof(int32_t), "x, y, width and height alone");
    return quick_integers(object, 4, out) || convert(&rect, name, object, quick_integers, 4, out);
}

bool vkpy_read_opacity(PyObject *object, float *out)
{
    static vkpy_function opacity = {"vkshare.util.arguments", "opacity", NULL};
    double value = -1;
    if (VKPY_UNLIKELY(!vkpy_quick_double(object, &value) || !(value >= 0 && value <= 1))) {
        PyObject *made = vkpy_call(&opacity, "(O)", object);
        value = made == NULL || !vkpy_quick_double(made, &value) ? -1 : value;
        Py_XDECREF(made);
    }
    *out = (float)value;
    return value >= 0;
}

bool vkpy_read_word(const char *name, PyObject *object, const char *first, const char *second, bool *is_first)
{
    static vkpy_function choice = {"vkshare.util.arguments", "choice", NULL};
    if (VKPY_LIKELY(PyUnicode_Check(object))) {
        *is_first = PyUnicode_CompareWithASCIIString(object, first) == 0;
        if (*is_first || PyUnicode_CompareWithASCIIString(object, second) == 0)
            return true;
    }
    PyObject *result = vkpy_call(&choice, "(sO(ss))", name, object, first, second);
    if (result != NULL) /* it found what the comparison did not: never */
        vkpy_type_error(object, name, "one of the words that its documentation lists");
    Py_XDECREF(result);
    return false;
}
