/* Reads arguments by hand, because PyArg_Parse costs more than most of the calls. */
#include "vkpy.h"

#include <math.h>

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

static bool bind_keywords(vkpy_signature *signature, PyObject *const *given, PyObject *keywords, PyObject **values)
{
    Py_ssize_t count = PyTuple_Size(keywords);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject *keyword = PyTuple_GetItem(keywords, i);
        int index = parameter_index(signature, keyword);
        if (index < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", signature->function, keyword);
            return false;
        }
        if (values[index] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", signature->function, keyword);
            return false;
        }
        values[index] = given[i];
    }
    return true;
}

bool vkpy_bind_slow(vkpy_signature *signature, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords,
                    PyObject **values)
{
    if (count > signature->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments but %zd were given",
                     signature->function, signature->positional, count);
        return false;
    }
    for (int i = 0; i < signature->total; ++i)
        values[i] = i < count ? arguments[i] : NULL;
    if (keywords != NULL && !bind_keywords(signature, arguments + count, keywords, values))
        return false;
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

/* Returns a new reference to a Python int, or raises TypeError with the argument's name. */
static PyObject *as_index(PyObject *object, const char *name)
{
    PyObject *index = PyNumber_Index(object);
    if (index == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        vkpy_type_error(object, name, "an integer");
    }
    return index;
}

bool vkpy_u64_slow(PyObject *object, const char *name, uint64_t *out)
{
    PyObject *index = as_index(object, name);
    if (index == NULL)
        return false;
    *out = PyLong_AsUnsignedLongLong(index);
    bool bad = *out == UINT64_MAX && PyErr_Occurred() != NULL;
    if (bad && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s is %S, allowed is 0 to 2**64 - 1", name, index);
    }
    Py_DECREF(index);
    return !bad;
}

bool vkpy_fence_value_slow(PyObject *object, const char *name, unsigned least, const char *hint, uint64_t *out)
{
    PyErr_Clear(); /* clear the error of the fast path */
    PyObject *index = as_index(object, name);
    if (index == NULL)
        return false;
    *out = PyLong_AsUnsignedLongLong(index);
    PyErr_Clear(); /* a value out of range has become 2**64 - 1 */
    bool bad = *out < least || *out > VKS_MAX_FENCE_VALUE;
    if (bad)
        PyErr_Format(PyExc_ValueError, "%s is %S, allowed is %u to 2**64 - 2%s", name, index, least, hint);
    Py_DECREF(index);
    return !bad;
}

bool vkpy_integer(PyObject *object, const char *name, long long least, long long most, long long *out)
{
    PyObject *index = as_index(object, name);
    if (index == NULL)
        return false;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    bool bad = overflow != 0 || *out < least || *out > most;
    if (bad)
        PyErr_Format(PyExc_ValueError, "%s is %S, allowed is %lld to %lld", name, index, least, most);
    Py_DECREF(index);
    return !bad;
}

bool vkpy_timeout_slow(PyObject *object, uint64_t *out)
{
    static const double longest = 9e9; /* seconds, about 285 years: 2**63 ns */
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) { /* an int beyond any double: only its sign matters */
            PyErr_Clear();
            PyObject *zero = PyLong_FromLong(0);
            int negative = zero == NULL ? -1 : PyObject_RichCompareBool(object, zero, Py_LT);
            Py_XDECREF(zero);
            if (negative < 0)
                return false;
            seconds = negative ? -INFINITY : INFINITY;
        } else if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            return vkpy_type_error(object, "timeout", "float seconds or None");
        } else {
            return false;
        }
    }
    if (!(seconds >= 0.0)) { /* NaN too */
        PyErr_Format(PyExc_ValueError, "timeout is %R, allowed is a number of seconds >= 0, or None to wait for ever",
                     object);
        return false;
    }
    /* Rounded up, because a timeout of 0 would not wait at all. */
    *out = seconds > longest ? VKS_FOREVER : (uint64_t)ceil(seconds * 1e9);
    return true;
}

bool vkpy_event_queue_and_token(PyObject *event_queue_object, PyObject *token_object, vks_event_queue **event_queue,
                                uint64_t *token)
{
    PyObject *capsule = PyObject_GetAttrString(event_queue_object, "_handle");
    *event_queue = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "vks_event_queue");
    Py_XDECREF(capsule);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        return vkpy_type_error(event_queue_object, "event_queue", "a EventQueue");
    return *event_queue != NULL && vkpy_u64(token_object, "token", token);
}

bool vkpy_bool(PyObject *object, bool *out)
{
    int truth = object == NULL ? *out : PyObject_IsTrue(object);
    *out = truth > 0;
    return truth >= 0;
}
