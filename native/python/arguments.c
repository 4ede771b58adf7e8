/* Reads arguments by hand, because PyArg_Parse costs more than most of the calls. */
#include "vkpy.h"

#include <math.h>
#include <stdarg.h>

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static int parameter_index(vkpy_signature *signature, PyObject *keyword)
{
    for (int i = 0; i < signature->total; ++i) {
        if (signature->interned[i] == NULL)
            signature->interned[i] = PyUnicode_InternFromString(signature->names[i]);
        if (signature->interned[i] == keyword)
            return i;
    }
    for (int i = 0; i < signature->total; ++i) /* a keyword string created at run time is not interned */
        if (PyUnicode_CompareWithASCIIString(keyword, signature->names[i]) == 0)
            return i;
    return -1;
}

bool vkpy_bind_slow(vkpy_signature *signature, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                    PyObject **values)
{
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_Size(keywords);
    if (count > signature->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments but %zd were given",
                     signature->function, signature->positional, count);
        return false;
    }
    for (int i = 0; i < signature->total; ++i)
        values[i] = i < count ? arguments[i] : NULL;
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject *keyword = PyTuple_GetItem(keywords, i);
        int index = parameter_index(signature, keyword);
        if (index < 0 || values[index] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got %s argument '%U'", signature->function,
                         index < 0 ? "an unexpected keyword" : "multiple values for", keyword);
            return false;
        }
        values[index] = arguments[count + i];
    }
    for (int i = 0; i < signature->required; ++i)
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() is missing the required argument '%s'", signature->function,
                         signature->names[i]);
            return false;
        }
    return true;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool vkpy_type_error(PyObject *object, const char *name, const char *allowed)
{
    PyObject *type_name = PyType_GetName(Py_TYPE(object));
    if (type_name != NULL)
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %U (%R)", name, allowed, type_name, object);
    Py_XDECREF(type_name);
    return false;
}

PyObject *vkpy_call(vkpy_function *function, const char *format, ...)
{
    if (function->found == NULL) {
        PyObject *module = PyImport_ImportModule(function->module);
        function->found = module == NULL ? NULL : PyObject_GetAttrString(module, function->name);
        Py_XDECREF(module);
    }
    va_list values;
    va_start(values, format);
    PyObject *arguments = Py_VaBuildValue(format, values);
    va_end(values);
    bool good = arguments != NULL && function->found != NULL;
    PyObject *result = good ? PyObject_CallObject(function->found, arguments) : NULL;
    Py_XDECREF(arguments);
    return result;
}

/* Has Python read what is no int, or refuse what is out of range. Returns an int within it. */
static vkpy_function integer = {"vkshare.util.arguments", "exact_integer", NULL};

bool vkpy_u64_slow(PyObject *object, const char *name, unsigned least, uint64_t most, const char *hint, uint64_t *out)
{
    PyErr_Clear(); /* the error of the fast path */
    PyObject *index = vkpy_call(&integer, "(sOIKs)", name, object, least, (unsigned long long)most, hint);
    *out = index == NULL ? 0 : PyLong_AsUnsignedLongLong(index);
    Py_XDECREF(index);
    return index != NULL;
}

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

bool vkpy_timeout_slow(PyObject *object, uint64_t *out)
{
    static vkpy_function function = {"vkshare.util.arguments", "seconds", NULL};
    static const double longest = 9e9; /* seconds, about 285 years: 2**63 ns */
    double seconds = 0;
    if (!vkpy_quick_double(object, &seconds) || !(seconds >= 0.0)) { /* NaN too */
        PyObject *read = vkpy_call(&function, "(O)", object);
        bool good = read != NULL && vkpy_quick_double(read, &seconds);
        Py_XDECREF(read);
        if (!good)
            return false;
    }
    /* Rounded up, because a timeout of 0 would not wait at all. */
    *out = seconds > longest ? VKS_FOREVER : (uint64_t)ceil(seconds * 1e9);
    return true;
}

bool vkpy_bool(PyObject *object, bool *out)
{
    int truth = object == NULL ? *out : PyObject_IsTrue(object);
    *out = truth > 0;
    return truth >= 0;
}
