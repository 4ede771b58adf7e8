/* Maps a vks_status to an exception: vkshare/util/statuses.py has the classes and texts. Errors
 * that polling raises are made here. */
#include "vkpy.h"

#include <stdarg.h>
#include <string.h>

/* Returns a new reference; NULL: another exception is set. `reason` may be NULL. */
static PyObject *exception(vks_status status, const char *what, const vks_error *reason)
{
    static vkpy_function function = {"vkshare.util.statuses", "exception", NULL};
    PyObject *text = reason == NULL ? Py_NewRef(Py_None)
                                    : PyUnicode_DecodeUTF8(reason->text, (Py_ssize_t)strlen(reason->text), "replace");
    long long code = reason == NULL ? 0 : (long long)reason->code;
    return text == NULL ? NULL : vkpy_call(&function, "(isNL)", (int)status, what, text, code);
}

PyObject *vkpy_raise(vks_status status, const char *what)
{
    if (status == VKS_INTERRUPTED)
        return NULL;
    const vks_error *last = vks_last_error();
    bool has_text = last->status == status && last->text[0] != 0;
    PyObject *error = exception(status, what, has_text ? last : NULL);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    vks_clear_error(); /* a later failure of this status without a text must not repeat this one's */
    return NULL;
}

PyObject *vkpy_none_or_raise(vks_status status, const char *what)
{
    if (VKPY_UNLIKELY(status != VKS_OK))
        return vkpy_raise(status, what);
    Py_RETURN_NONE;
}

PyObject *vkpy_raise_named(const char *class_name, const char *format, ...)
{
    static PyObject *errors;
    va_list values;
    va_start(values, format);
    PyObject *message = PyUnicode_FromFormatV(format, values);
    va_end(values);
    if (message != NULL && errors == NULL)
        errors = PyImport_ImportModule("vkshare.errors");
    PyObject *class = message == NULL || errors == NULL ? NULL : PyObject_GetAttrString(errors, class_name);
    if (class != NULL)
        PyErr_SetObject(class, message);
    Py_XDECREF(class);
    Py_XDECREF(message);
    return NULL;
}

PyObject *vkpy_raise_timeout(const char *error_class, uint64_t timeout, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *text = PyUnicode_FromFormatV(format, values);
    va_end(values);
    PyObject *seconds = text == NULL ? NULL : PyFloat_FromDouble((double)timeout / 1e9);
    if (seconds != NULL && error_class == NULL)
        PyErr_Format(PyExc_TimeoutError, "%U within %R s", text, seconds);
    else if (seconds != NULL)
        vkpy_raise_named(error_class, "%U within %R s", text, seconds);
    Py_XDECREF(text);
    Py_XDECREF(seconds);
    return NULL;
}

PyObject *vkpy_raise_uninitialised(PyObject *object)
{
    PyObject *name = PyType_GetName(Py_TYPE(object));
    if (name != NULL)
        vkpy_raise_named("InvalidCallError", "this %U was never initialised: its __init__ did not run, or failed",
                         name);
    Py_XDECREF(name);
    return NULL;
}

int vkpy_raise_initialised(const char *type)
{
    vkpy_raise_named("InvalidCallError", "%s.__init__ ran already: make another %s", type, type);
    return -1;
}
