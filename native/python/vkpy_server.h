/* vkpy_server.h: types of the render server. */
#ifndef VKPY_SERVER_H
#define VKPY_SERVER_H

#include "server/poll.h"
#include "server/work_ring.h"
#include "vkpy.h"

typedef struct vkpy_work_ring {
    PyObject_HEAD
    vks_work_ring *core;
    PyObject *weakrefs;
} vkpy_work_ring;

typedef struct vkpy_server_poll {
    PyObject_HEAD
    vks_server_poll *core;
    PyObject *weakrefs;
} vkpy_server_poll;

extern PyTypeObject *vkpy_work_ring_type, *vkpy_server_poll_type;
extern PyType_Spec vkpy_work_ring_spec, vkpy_server_poll_spec;

#endif
