/* Frame: an acquired image. Prepared: a command list for each image. */
#include "vkpy_present.h"

/* ---- Frame ------------------------------------------------------------------------------------------------------- */

PyObject *vkpy_frame_new(vkpy_swapchain *swapchain, const vks_frame *frame)
{
    vkpy_frame *self = (vkpy_frame *)PyType_GenericAlloc(swapchain->frame_type, 0);
    if (VKPY_UNLIKELY(self == NULL))
        return NULL;
    self->swapchain = (vkpy_swapchain *)Py_NewRef((PyObject *)swapchain);
    self->core = *frame;
    return (PyObject *)self;
}

static void drop(vkpy_frame *self)
{
    if (self->is_over || self->is_hidden || self->swapchain == NULL)
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

vkpy_frame *vkpy_frame_argument(vkpy_swapchain *swapchain, PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_frame_type)) {
        vkpy_type_error(object, "frame", "a Frame that acquire() gave");
        return NULL;
    }
    vkpy_frame *frame = (vkpy_frame *)object;
    if (frame->swapchain != swapchain) {
        vkpy_raise_named("InvalidCallError", "the frame is of another swapchain: present it there");
        return NULL;
    }
    if (frame->is_over) {
        vkpy_raise_named("InvalidCallError", "the frame was presented or closed already: acquire() another");
        return NULL;
    }
    return frame;
}

int vkpy_frame_adopt(vkpy_swapchain *swapchain, const vks_frame *frame)
{
    PyObject *result = PyObject_CallMethod((PyObject *)swapchain, "_adopt", "IK", (unsigned)frame->index,
                                           (unsigned long long)frame->generation);
    int adopted = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return adopted;
}

static int frame_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"swapchain", "width", "height", NULL};
    vkpy_frame *self = (vkpy_frame *)object;
    PyObject *swapchain;
    unsigned width, height;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!II:Frame", names, vkpy_swapchain_type, &swapchain, &width,
                                     &height))
        return -1;
    if (self->swapchain != NULL) {
        vkpy_raise_named("InvalidCallError", "a Frame comes from Swapchain.acquire()");
        return -1;
    }
    self->swapchain = (vkpy_swapchain *)Py_NewRef(swapchain);
    self->is_hidden = true; /* the only kind that Python code creates */
    self->core = (vks_frame){.width = width, .height = height};
    return 0;
}

static PyObject *frame_close(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    drop((vkpy_frame *)object);
    ((vkpy_frame *)object)->is_over = true;
    Py_RETURN_NONE;
}

static PyObject *frame_swapchain(PyObject *object, void *ignored)
{
    vkpy_frame *self = (vkpy_frame *)object;
    (void)ignored;
    return self->swapchain == NULL ? vkpy_raise_uninitialised(object) : Py_NewRef((PyObject *)self->swapchain);
}

#define FRAME_GETTER(name, value)                                                                                      \
    static PyObject *frame_##name(PyObject *object, void *ignored)                                                     \
    {                                                                                                                  \
        const vkpy_frame *self = (const vkpy_frame *)object;                                                           \
        (void)ignored;                                                                                                 \
        return value;                                                                                                  \
    }
FRAME_GETTER(index, PyLong_FromUnsignedLong(self->core.index))
FRAME_GETTER(width, PyLong_FromUnsignedLong(self->core.width))
FRAME_GETTER(height, PyLong_FromUnsignedLong(self->core.height))
FRAME_GETTER(generation, PyLong_FromUnsignedLongLong(self->core.generation))
FRAME_GETTER(is_over, PyBool_FromLong(self->is_over))
FRAME_GETTER(is_hidden, PyBool_FromLong(self->is_hidden))

static PyMethodDef frame_methods[] = {
    {"close", frame_close, METH_NOARGS,
     "close($self)\n--\n\nReturns the frame without a present: the next acquire() hands the image out again. "
     "Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef frame_properties[] = {
    {"swapchain", frame_swapchain, NULL, "Where it came from.", NULL},
    {"index", frame_index, NULL, "Of the image, from 0.", NULL},
    {"width", frame_width, NULL, "Pixels.", NULL},
    {"height", frame_height, NULL, "Pixels.", NULL},
    {"generation", frame_generation, NULL, "Counts the VkSwapchainKHRs, or rings, that followed each other.", NULL},
    {"is_closed", frame_is_over, NULL, "Whether it was presented or given back.", NULL},
    {"is_hidden", frame_is_hidden, NULL, "Whether the window has no pixels now: presenting it shows nothing.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot frame_slots[] = {
    {Py_tp_doc, (void *)"An image that was acquired: the base of vkshare.Frame."},
    {Py_tp_init, (void *)frame_init},
    {Py_tp_dealloc, (void *)frame_dealloc},
    {Py_tp_traverse, (void *)frame_traverse},
    {Py_tp_clear, (void *)frame_clear},
    {Py_tp_methods, frame_methods},
    {Py_tp_getset, frame_properties},
    {0, NULL},
};

PyType_Spec vkpy_frame_spec = {
    "vkshare._native.Frame",
    sizeof(vkpy_frame),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    frame_slots,
};

/* ---- Prepared ---------------------------------------------------------------------------------------------------- */

static int prepared_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_prepared *self = (vkpy_prepared *)object;
    Py_VISIT(Py_TYPE(object));
    for (uint32_t i = 0; i < VKS_SWAPCHAIN_IMAGES; ++i)
        Py_VISIT(self->lists[i]);
    return 0;
}

static int prepared_clear(PyObject *object)
{
    vkpy_prepared *self = (vkpy_prepared *)object;
    for (uint32_t i = 0; i < VKS_SWAPCHAIN_IMAGES; ++i)
        Py_CLEAR(self->lists[i]);
    return 0;
}

static void prepared_dealloc(PyObject *object)
{
    vkpy_dealloc_begin(object, &((vkpy_prepared *)object)->weakrefs, true);
    prepared_clear(object);
    vkpy_dealloc_free(object);
}

PyObject *vkpy_prepared_commands(PyObject *prepared, const vks_frame *frame)
{
    vkpy_prepared *self = (vkpy_prepared *)prepared;
    if (VKPY_UNLIKELY(self->generation != frame->generation)) {
        prepared_clear(prepared); /* lists for destroyed images */
        self->generation = frame->generation;
    }
    if (VKPY_LIKELY(self->lists[frame->index] != NULL))
        return Py_NewRef(self->lists[frame->index]);
    PyObject *list = PyObject_CallMethod(prepared, "_record", "I", (unsigned)frame->index);
    if (list == NULL)
        return NULL;
    if (!PyObject_TypeCheck(list, vkpy_commands_type) || self->generation != frame->generation) {
        vkpy_raise_named("InvalidCallError", "recording for image %u gave %R, or the swapchain was resized meanwhile",
                         (unsigned)frame->index, list);
        Py_DECREF(list);
        return NULL;
    }
    PyObject *old = self->lists[frame->index];
    self->lists[frame->index] = Py_NewRef(list);
    Py_XDECREF(old);
    return list;
}

static PyObject *prepared_reset(PyObject *object, PyObject *ignored)
{
    (void)ignored;
    prepared_clear(object);
    Py_RETURN_NONE;
}

static PyMethodDef prepared_methods[] = {
    {"reset", prepared_reset, METH_NOARGS, "reset($self)\n--\n\nDrops all lists, so that each is recorded again."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef prepared_members[] = {VKPY_WEAKLIST(vkpy_prepared), {NULL, 0, 0, 0, NULL}};

static PyType_Slot prepared_slots[] = {
    {Py_tp_doc, (void *)"A command list for each image: the base of vkshare's Prepared."},
    {Py_tp_dealloc, (void *)prepared_dealloc},
    {Py_tp_traverse, (void *)prepared_traverse},
    {Py_tp_clear, (void *)prepared_clear},
    {Py_tp_methods, prepared_methods},
    {Py_tp_members, prepared_members},
    {0, NULL},
};

PyType_Spec vkpy_prepared_spec = {
    "vkshare._native.Prepared",
    sizeof(vkpy_prepared),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    prepared_slots,
};
