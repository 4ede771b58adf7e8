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
    PyObject *acquired, *presenting; /* called with each frame, after acquire and before present; NULL: none */
    PyObject *check_window;          /* called at intervals while an acquire waits; NULL: none */
    uint64_t adopted_generation;     /* generation of the images in `adopted` */
    uint32_t adopted;                /* a bit for each image that has its Surface */
    bool initialised, is_closed;
    bool asks_server; /* true for windows: any driver call may make a round trip to the server */
    PyObject *weakrefs;
} vkpy_swapchain;

typedef struct vkpy_frame {
    PyObject_HEAD
    vkpy_swapchain *swapchain;
    vks_frame core;
    bool is_over;   /* presented or closed */
    bool is_hidden; /* the window has no pixels */
} vkpy_frame;

/* One command list for each image, recorded when the image is first acquired. */
typedef struct vkpy_prepared {
    PyObject_HEAD
    uint64_t generation;
    PyObject *lists[VKS_SWAPCHAIN_IMAGES];
    PyObject *weakrefs;
} vkpy_prepared;

extern PyTypeObject *vkpy_swapchain_type, *vkpy_frame_type, *vkpy_prepared_type;
extern PyType_Spec vkpy_swapchain_spec, vkpy_frame_spec, vkpy_prepared_spec;

PyObject *vkpy_frame_new(vkpy_swapchain *swapchain, const vks_frame *frame);
/* Returns the frame, without a new reference, if it is of this swapchain, and neither presented nor
 * closed; else raises and returns NULL. */
vkpy_frame *vkpy_frame_argument(vkpy_swapchain *swapchain, PyObject *object);
/* vkpy_frame_is_adopted() returns whether the image has its Surface. vkpy_frame_adopt() gives it
 * one, by Swapchain._adopt(index, generation). Returns 1; 0: the image is from before a resize; -1:
 * raised. */
static inline bool vkpy_frame_is_adopted(const vkpy_swapchain *swapchain, const vks_frame *frame)
{
    return swapchain->adopted_generation == frame->generation && (swapchain->adopted >> frame->index & 1);
}
int vkpy_frame_adopt(vkpy_swapchain *swapchain, const vks_frame *frame);
static inline void vkpy_frame_note_adopted(vkpy_swapchain *swapchain, uint32_t index, uint64_t generation)
{
    if (swapchain->adopted_generation != generation)
        swapchain->adopted = 0;
    swapchain->adopted_generation = generation;
    swapchain->adopted |= 1u << index;
}
/* Returns a new reference to the list for the frame's image, recorded by Prepared._record(index) if
 * it is missing. The reference is new because another thread may call reset(). NULL: raised. */
PyObject *vkpy_prepared_commands(PyObject *prepared, const vks_frame *frame);

#endif
