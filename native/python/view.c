/* ArrayBuffer: the buffer protocol of an object that has an array. In C because __buffer__ is of Python 3.12. */
#include "vkpy.h"

/* Passes the request on to the array, whose buffer then refers to the array: "redirect" in the
 * documentation of Py_buffer.obj. An exception of the property, such as the end of the access, is
 * passed on too. */
static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    view->obj = NULL; /* as it must be on failure */
    PyObject *array = PyObject_GetAttrString(object, "array");
    int result = array == NULL ? -1 : PyObject_GetBuffer(array, view, flags);
    Py_XDECREF(array);
    return result;
}

PyType_Slot vkpy_array_buffer_slots[] = {
    {Py_tp_doc, (void *)"Exports the buffer of its property `array`: the base of vkshare.View."},
    {Py_bf_getbuffer, (void *)get_buffer},
    {0, NULL},
};
