/* Swapchain: acquire() and present(). vkshare/present/swapchain_core.py has the rest, through cffi. */
#include "vkpy.h"

/* vkshare/present/swapchain_core.py creates the object of the core. */
static int swapchain_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *device, *cell, *frame_type;
    int asks_server = 0;
    if (!PyArg_ParseTuple(arguments, "OOO|p:Swapchain", &device, &cell, &frame_type, &asks_server))
        return -1;
    if (!PyType_Check(frame_type) || !PyType_IsSubtype((PyTypeObject *)frame_type, vkpy_frame_type)) {
        vkpy_type_error(frame_type, "frame_type", "a subclass of _native.Frame");
        return -1;
    }
    if (self->core != NULL)
        return vkpy_raise_initialised("Swapchain");
    self->core = vkpy_take_of(device, cell, "vks_swapchain **", &self->device);
    if (self->core == NULL)
        return -1;
    self->frame_type = (PyTypeObject *)Py_NewRef(frame_type);
    self->asks_server = asks_server;
    return 0;
}

static int swapchain_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    Py_VISIT((PyObject *)self->frame_type);
    Py_VISIT(self->acquired);
    Py_VISIT(self->presenting);
    Py_VISIT(self->check_window);
    return vkpy_traverse(object, visit, arg);
}

static int swapchain_clear(PyObject *object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    Py_CLEAR(self->acquired);
    Py_CLEAR(self->presenting);
    Py_CLEAR(self->check_window);
    return 0;
}

static void swapchain_dealloc(PyObject *object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    vkpy_dealloc_begin(object);
    if (self->core != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_BEGIN_ALLOW_THREADS
        vks_swapchain_unref(self->core);
        Py_END_ALLOW_THREADS
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF((PyObject *)self->device);
    Py_XDECREF((PyObject *)self->frame_type);
    swapchain_clear(object);
    vkpy_dealloc_free(object);
}

/* ---- hooks and surfaces ------------------------------------------------------------------------------------------ */

/* `frame` NULL: without an argument. False: it raised. */
static bool call_hook(PyObject *hook, vkpy_frame *frame)
{
    if (VKPY_LIKELY(hook == NULL || hook == Py_None))
        return true;
    Py_INCREF(hook); /* it may replace itself */
    PyObject *result = PyObject_CallFunctionObjArgs(hook, (PyObject *)frame, NULL);
    Py_DECREF(hook);
    Py_XDECREF(result);
    return result != NULL;
}

/* Called when the surface was attached to the image: acquire() need not ask for it again, and
 * CommandList._compile() pins the image's generation. */
static PyObject *swapchain_note_surface(PyObject *object, PyObject *arguments)
{
    unsigned index;
    unsigned long long generation;
    vkpy_surface *surface;
    VKPY_SELF(vkpy_swapchain);
    if (!PyArg_ParseTuple(arguments, "IKO!:_note_surface", &index, &generation, vkpy_surface_type, &surface))
        return NULL;
    PyObject *before = surface->swapchain, *reference = PyWeakref_NewRef(object, NULL);
    if (reference == NULL)
        return NULL;
    surface->swapchain = reference;
    surface->generation = generation;
    Py_XDECREF(before);
    if (self->adopted_generation != generation)
        self->adopted = 0;
    self->adopted_generation = generation;
    self->adopted |= 1u << index % VKS_SWAPCHAIN_IMAGES;
    Py_RETURN_NONE;
}

/* Makes the image's Surface, unless it has one. Returns 1; 0: the image is from before a resize by
 * another thread; -1: raised. */
static int adopt(vkpy_swapchain *self, const vks_frame *frame)
{
    if (VKPY_LIKELY(self->adopted_generation == frame->generation && (self->adopted >> frame->index & 1)))
        return 1;
    PyObject *result = PyObject_CallMethod((PyObject *)self, "_adopt", "IK", (unsigned)frame->index,
                                           (unsigned long long)frame->generation);
    int adopted = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return adopted;
}

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

/* A long wait checks at intervals that the window still exists, because not every driver does. */
#define CHECK_INTERVAL_NS UINT64_C(200000000)

static vks_status wait_for_frame(vkpy_swapchain *self, uint64_t timeout, vks_frame *frame)
{
    uint64_t deadline = vkpy_deadline(timeout), checked = vks_now();
    vks_status status;
    do {
        vkpy_prepare_to_sleep();
        PyThreadState *thread = PyEval_SaveThread();
        status = vks_swapchain_acquire(self->core, deadline, frame);
        PyEval_RestoreThread(thread);
        if (status == VKS_INTERRUPTED && vks_now() - checked > CHECK_INTERVAL_NS) {
            if (!call_hook(self->check_window, NULL))
                return VKS_INTERRUPTED;
            checked = vks_now();
        }
    } while (status == VKS_INTERRUPTED && PyErr_CheckSignals() == 0);
    return status;
}

/* Frequent calls keep the GIL if they do not wait. They may wait for an engine's lock that is a
 * Python callable, and for a window system that does not reply (Mesa 22 asks X11 in each
 * vkAcquireNextImageKHR). */
static vks_status acquire_image(vkpy_swapchain *self, uint64_t timeout, vks_frame *frame)
{
    bool may_wait = self->device->queue_lock != NULL || self->asks_server;
    vks_status status = may_wait ? VKS_TIMEOUT : vks_swapchain_try_acquire(self->core, frame);
    return VKPY_UNLIKELY(status == VKS_TIMEOUT) ? wait_for_frame(self, timeout, frame) : status;
}

/* `timeout_object` is None or the source of `timeout`. */
static PyObject *acquire(vkpy_swapchain *self, PyObject *timeout_object, uint64_t timeout)
{
    vkpy_frame *frame = (vkpy_frame *)PyType_GenericAlloc(self->frame_type, 0);
    if (VKPY_UNLIKELY(frame == NULL))
        return NULL;
    frame->swapchain = (vkpy_swapchain *)Py_NewRef((PyObject *)self);
    vks_clear_error();
    vks_status status = acquire_image(self, timeout, &frame->core);
    if (VKPY_UNLIKELY(status != VKS_OK)) {
        unsigned width = frame->core.width, height = frame->core.height;
        frame->core.generation = 0;
        Py_DECREF(frame);
        return status == VKS_INTERRUPTED ? NULL
                                         : PyObject_CallMethod((PyObject *)self, "_not_acquired", "iIIO", (int)status,
                                                               width, height, timeout_object);
    }
    int adopted = adopt(self, &frame->core);
    if (VKPY_LIKELY(adopted > 0 && call_hook(self->acquired, frame)))
        return (PyObject *)frame;
    Py_DECREF(frame); /* which returns the image */
    return adopted == 0 ? acquire(self, timeout_object, timeout) : NULL;
}

static PyObject *swapchain_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t timeout;
    VKPY_SELF(vkpy_swapchain);
    VKPY_BIND("Swapchain.acquire", 1, 0, 1, "timeout");
    if (!vkpy_timeout(values[0], &timeout))
        return NULL;
    return acquire(self, values[0] == NULL ? Py_None : values[0], timeout);
}

/* ---- present ----------------------------------------------------------------------------------------------------- */

static PyObject *present(vkpy_swapchain *self, vkpy_frame *frame)
{
    if (VKPY_UNLIKELY(!call_hook(self->presenting, frame)))
        return NULL;
    uint64_t deadline = vks_now() + VKS_HELD_FRAME_NS;
    /* without the GIL, because some drivers wait for the rendering, or for the display */
    vks_status status = VKPY_BLOCKING(vks_swapchain_present(self->core, &frame->core, deadline));
    frame->is_over = status == VKS_OK || status == VKS_SURFACE_LOST;
    return vkpy_none_or_raise(status, "Swapchain.present");
}

static PyObject *swapchain_present(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    VKPY_SELF(vkpy_swapchain);
    VKPY_BIND("Swapchain.present", 1, 1, 1, "frame");
    vkpy_frame *frame = vkpy_frame_argument(self, values[0]);
    if (frame == NULL)
        return NULL;
    if (VKPY_LIKELY(frame->core.generation != 0))
        return present(self, frame);
    frame->is_over = true;
    Py_RETURN_NONE;
}

/* ---- a whole frame in one call ----------------------------------------------------------------------------------- */

/* Looks in the dict first, because the subscript of its subclass is a call of Python. */
static PyObject *commands_for(PyObject *lists, const vkpy_frame *frame)
{
    PyObject *key = PyLong_FromUnsignedLongLong(frame->core.generation * VKS_SWAPCHAIN_IMAGES + frame->core.index);
    PyObject *commands = key != NULL && PyDict_Check(lists) ? Py_XNewRef(PyDict_GetItemWithError(lists, key)) : NULL;
    if (VKPY_UNLIKELY(commands == NULL) && key != NULL && !PyErr_Occurred())
        commands = PyObject_GetItem(lists, key);
    Py_XDECREF(key);
    return commands;
}

static PyObject *submit_and_present(vkpy_swapchain *self, PyObject *lists, vkpy_frame *frame)
{
    if (VKPY_UNLIKELY(frame->core.generation == 0)) /* a hidden frame has no pixels to draw */
        Py_RETURN_NONE;
    PyObject *commands = commands_for(lists, frame);
    PyObject *submission = commands == NULL ? NULL : vkpy_submit((PyObject *)self->device, &commands, 1, NULL);
    Py_XDECREF(commands);
    if (submission == NULL)
        return NULL;
    Py_DECREF(submission);
    return present(self, frame);
}

static PyObject *swapchain_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t timeout;
    VKPY_SELF(vkpy_swapchain);
    VKPY_BIND("Swapchain._run", 2, 1, 2, "lists", "timeout");
    if (!vkpy_timeout(values[1], &timeout))
        return NULL;
    PyObject *frame = acquire(self, values[1] == NULL ? Py_None : values[1], timeout);
    if (frame == NULL)
        return NULL;
    PyObject *result = submit_and_present(self, values[0], (vkpy_frame *)frame);
    Py_DECREF(frame); /* a frame that was not presented is returned */
    return result;
}

static PyMethodDef methods[] = {
    {"acquire", VKPY_FASTCALL(swapchain_acquire), VKPY_FAST,
     "acquire($self, timeout=None)\n--\n\nThe next frame to draw."},
    {"present", VKPY_FASTCALL(swapchain_present), VKPY_FAST,
     "present($self, frame)\n--\n\nShows the frame, behind all that was submitted to it."},
    {"_run", VKPY_FASTCALL(swapchain_run), VKPY_FAST, "Acquires, submits and presents one frame."},
    {"_note_surface", swapchain_note_surface, METH_VARARGS, "The surface was attached to the image."},
    {NULL, NULL, 0, NULL},
};

VKPY_GETTER(swapchain_get_device, vkpy_swapchain, Py_NewRef((PyObject *)self->device))
VKPY_ADDRESS_GETTER(swapchain_address, vkpy_swapchain)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(swapchain_address),
    {"device", swapchain_get_device, NULL, "The device whose queue presents.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    VKPY_WEAKLIST,
    {"_acquired_hook", T_OBJECT, offsetof(vkpy_swapchain, acquired), 0, "Called with each frame that was acquired."},
    {"_presenting_hook", T_OBJECT, offsetof(vkpy_swapchain, presenting), 0, "Called with each frame, before present."},
    {"_window_check", T_OBJECT, offsetof(vkpy_swapchain, check_window), 0, "Called now and then in a long wait."},
    {NULL, 0, 0, 0, NULL},
};

VKPY_SLOTS(swapchain, swapchain, swapchain_traverse,
           "The frames of a window or of a headless target: the base of vkshare.Swapchain.", members,
           {Py_tp_methods, methods}, {Py_tp_clear, (void *)swapchain_clear});
