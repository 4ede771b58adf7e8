/* vkpy_vsync.h: types of native/python/vsync.c. */
#ifndef VKPY_VSYNC_H
#define VKPY_VSYNC_H

#include "vkpy.h"

extern PyTypeObject *vkpy_display_type, *vkpy_dispatcher_type, *vkpy_observer_type, *vkpy_bridge_type,
    *vkpy_bridge_end_type;
extern PyType_Spec vkpy_display_spec, vkpy_dispatcher_spec, vkpy_observer_spec, vkpy_bridge_spec, vkpy_bridge_end_spec;

#endif
