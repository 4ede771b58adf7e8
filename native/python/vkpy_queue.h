/* vkpy_queue.h: types and functions of native/python/queue.c. */
#ifndef VKPY_QUEUE_H
#define VKPY_QUEUE_H

#include "vkpy.h"

extern PyTypeObject *vkpy_producer_type, *vkpy_consumer_type;
extern PyType_Spec vkpy_producer_spec, vkpy_consumer_spec;

PyObject *vkpy_queue_page_make(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
PyObject *vkpy_queue_page_read(PyObject *module, PyObject *fd);
PyObject *vkpy_queue_page_counts(PyObject *module, PyObject *fd);

#endif
