/* vkpy_present.h: what the files of the extension that present share. */
#ifndef VKPY_PRESENT_H
#define VKPY_PRESENT_H

#include "present/swapchain.h"
#include "vkpy.h"

typedef struct vkpy_swapchain {
    PyObject_HEAD
    vkpy_device *device;
    vks_swapchain *core;
    PyTypeObject *frame_type;        /* vkshare.present.frame.Frame */
    PyObject *acquired, *presenting; /* called with each frame, after acquire and before present; NULL: nothing */
    PyObject *check_window;                  /* called while an acquire waits; NULL: nothing */
    uint64_t adopted_generation;     /* of which the images in `adopted` have their surface */
    uint32_t adopted;                /* a bit an image */
    bool initialised, is_closed;
    bool asks_server; /* a window's: the driver may make a round trip in any call, also where it need not wait */
    PyObject *weakrefs;
} vkpy_swapchain;

typedef struct vkpy_frame {
    PyObject_HEAD
    vkpy_swapchain *swapchain;
    vks_frame core;
    bool is_over;   /* presented or closed */
    bool is_hidden; /* of a window without pixels */
} vkpy_frame;

/* One command list an image, recorded when the image first comes. */
typedef struct vkpy_prepared {
    PyObject_HEAD
    uint64_t generation;
    PyObject *lists[VKS_SWAPCHAIN_IMAGES];
    PyObject *weakrefs;
} vkpy_prepared;

extern PyTypeObject *vkpy_swapchain_type, *vkpy_frame_type, *vkpy_prepared_type;
extern PyType_Spec vkpy_swapchain_spec, vkpy_frame_spec, vkpy_prepared_spec;

PyObject *vkpy_frame_new(vkpy_swapchain *swapchain, const vks_frame *frame);
/* Of this swapchain, and neither presented nor closed; else raises and returns NULL. Borrowed. */
vkpy_frame *vkpy_frame_argument(vkpy_swapchain *swapchain, PyObject *object);
/* Whether the image has its Surface; giving it one, by Swapchain._adopt(index, generation): 1 done, 0 it is of before a
 * resize, -1 raised. */
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
/* The list for the frame's image, recorded by Prepared._record(index) where it is missing. A new reference: another
 * thread may reset() it meanwhile. NULL: raised. */
PyObject *vkpy_prepared_commands(PyObject *prepared, const vks_frame *frame);

#endif
