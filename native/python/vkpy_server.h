/* vkpy_server.h: the types of the render server. */
#ifndef VKPY_SERVER_H
#define VKPY_SERVER_H

#include "server/front.h"
#include "server/hand_off.h"
#include "vkpy.h"

typedef struct vkpy_hand_off {
    PyObject_HEAD
    vks_hand_off *core;
    PyObject *weakrefs;
} vkpy_hand_off;

typedef struct vkpy_front {
    PyObject_HEAD
    vks_front *core;
    PyObject *weakrefs;
} vkpy_front;

extern PyTypeObject *vkpy_hand_off_type, *vkpy_front_type;
extern PyType_Spec vkpy_hand_off_spec, vkpy_front_spec;

#endif
