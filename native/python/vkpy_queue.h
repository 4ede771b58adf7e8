/* vkpy_queue.h: types and functions of native/python/queue.c. */
#ifndef VKPY_QUEUE_H
#define VKPY_QUEUE_H

#include "vkpy.h"

extern PyTypeObject *vkpy_producer_type, *vkpy_consumer_type;
extern PyType_Spec vkpy_producer_spec, vkpy_consumer_spec;

#endif
