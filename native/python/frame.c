/* Frame: an acquired image. */
#include "vkpy.h"

static void drop(vkpy_frame *self)
{
    if (self->is_over || self->core.generation == 0)
        return;
    self->is_over = true;
    PyThreadState *thread = PyEval_SaveThread(); /* another thread may be waiting for an image */
    vks_swapchain_drop(self->swapchain->core, &self->core);
    PyEval_RestoreThread(thread);
}

static int frame_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)((vkpy_frame *)object)->swapchain);
    return 0;
}

/* Breaks a cycle through the swapchain's attributes; the frame is returned first. */
static int frame_clear(PyObject *object)
{
    vkpy_frame *self = (vkpy_frame *)object;
    drop(self);
    Py_CLEAR(self->swapchain);
    return 0;
}

static void frame_dealloc(PyObject *object)
{
    vkpy_frame *self = (vkpy_frame *)object;
    PyObject_GC_UnTrack(object);
    if (VKPY_UNLIKELY(!self->is_over)) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        drop(self); /* A20 */
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF((PyObject *)self->swapchain);
    vkpy_dealloc_free(object);
}

vkpy_frame *vkpy_frame_argument(const vkpy_swapchain *swapchain, PyObject *object)
{
    vkpy_frame *frame = (vkpy_frame *)object;
    if (!PyObject_TypeCheck(object, vkpy_frame_type))
        vkpy_type_error(object, "frame", "a Frame that acquire() gave");
    else if (frame->swapchain != swapchain)
        vkpy_raise_named("InvalidCallError", "the frame is of another swapchain: present it there");
    else if (frame->is_over)
        vkpy_raise_named("InvalidCallError", "the frame was presented or closed already: acquire() another");
    else
        return frame;
    return NULL;
}

static int frame_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_frame *self = (vkpy_frame *)object;
    PyObject *swapchain;
    unsigned width, height;
    if (!PyArg_ParseTuple(arguments, "O!II:Frame", vkpy_swapchain_type, &swapchain, &width, &height))
        return -1;
    if (self->swapchain != NULL) {
        vkpy_raise_named("InvalidCallError", "a Frame comes from Swapchain.acquire()");
        return -1;
    }
    self->swapchain = (vkpy_swapchain *)Py_NewRef(swapchain);
    self->core = (vks_frame){.width = width, .height = height};
    return 0;
}

static PyObject *frame_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    drop((vkpy_frame *)object);
    ((vkpy_frame *)object)->is_over = true;
    Py_RETURN_NONE;
}

static PyObject *frame_is_hidden(PyObject *object, void *Py_UNUSED(ignored))
{
    return PyBool_FromLong(((vkpy_frame *)object)->core.generation == 0);
}

VKPY_GETTER_BY(frame_swapchain, vkpy_frame, swapchain, Py_NewRef((PyObject *)self->swapchain))
VKPY_GETTER_BY(frame_address, vkpy_frame, swapchain, PyLong_FromVoidPtr(&self->core))

static PyMethodDef methods[] = {
    {"close", frame_close, METH_NOARGS,
     "close($self)\n--\n\nReturns the frame without a present: the next acquire() hands the image out again. "
     "Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(frame_address),
    {"swapchain", frame_swapchain, NULL, "Where it came from.", NULL},
    {"is_hidden", frame_is_hidden, NULL, "Whether the window has no pixels now: presenting it shows nothing.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"index", T_UINT, offsetof(vkpy_frame, core.index), READONLY, "Of the image, from 0."},
    {"width", T_UINT, offsetof(vkpy_frame, core.width), READONLY, "Pixels."},
    {"height", T_UINT, offsetof(vkpy_frame, core.height), READONLY, "Pixels."},
    {"generation", T_ULONGLONG, offsetof(vkpy_frame, core.generation), READONLY,
     "Counts the VkSwapchainKHRs, or rings, that followed each other."},
    {"is_closed", T_BOOL, offsetof(vkpy_frame, is_over), READONLY, "Whether it was presented or given back."},
    {NULL, 0, 0, 0, NULL},
};

VKPY_SLOTS(frame, frame, frame_traverse, "An image that was acquired: the base of vkshare.Frame.", members,
           {Py_tp_methods, methods}, {Py_tp_clear, (void *)frame_clear});
