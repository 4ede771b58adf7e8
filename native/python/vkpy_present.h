/* vkpy_present.h: declarations of the extension's files about presentation. */
#ifndef VKPY_PRESENT_H
#define VKPY_PRESENT_H

#include "present/swapchain.h"
#include "vkpy.h"

typedef struct vkpy_swapchain {
    PyObject_HEAD
    vkpy_device *device;
    vks_swapchain *core;
    PyTypeObject *frame_type;        /* vkshare.present.frame.Frame */
    PyObject *acquired, *presenting; /* called with each frame, after acquire and before present; NULL, None: none */
    PyObject *check_window;          /* called at intervals while an acquire waits; NULL, None: none */
    uint64_t adopted_generation;     /* generation of the images in `adopted` */
    uint32_t adopted;                /* a bit for each image that has its Surface */
    bool initialised;
    bool asks_server; /* true for windows: any driver call may make a round trip to the server */
    PyObject *weakrefs;
} vkpy_swapchain;

typedef struct vkpy_frame {
    PyObject_HEAD
    vkpy_swapchain *swapchain;
    vks_frame core; /* generation 0: it has no image; hidden, because the window has no pixels */
    bool is_over;   /* presented or closed */
} vkpy_frame;

extern PyTypeObject *vkpy_swapchain_type, *vkpy_frame_type;
extern PyType_Spec vkpy_swapchain_spec, vkpy_frame_spec;

vkpy_frame *vkpy_frame_new(vkpy_swapchain *swapchain); /* without an image */
/* Returns the frame, without a new reference, if it is of this swapchain, and neither presented nor
 * closed; else raises and returns NULL. */
vkpy_frame *vkpy_frame_argument(const vkpy_swapchain *swapchain, PyObject *object);

#endif
