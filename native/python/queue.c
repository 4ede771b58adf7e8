/* The two ends of a surface queue. */
#include "vkpy_queue.h"

typedef struct vkpy_queue {
    PyObject_HEAD
    vkpy_device *device;
    vks_queue *core;
    PyObject *surfaces; /* tuple: the device's handles, in the network's order */
    PyObject *weakrefs;
} vkpy_queue;

enum { SMALL_METADATA = 512 };

/* ---- an end's beginning ------------------------------------------------------------------------------------------ */

static vkpy_surface *surface_argument(PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_surface_type)) {
        vkpy_type_error(object, "surface", "a Surface");
        return NULL;
    }
    vkpy_surface *surface = (vkpy_surface *)object;
    return surface->core != NULL ? surface : (vkpy_surface *)vkpy_raise_uninitialised(object);
}

/* vkshare/core/queue_ends.py opens the end. */
static int queue_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *device, *cell, *surfaces;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OOO!:QueueEnd", &device, &cell, &PyTuple_Type, &surfaces))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised(PyObject_TypeCheck(object, vkpy_producer_type) ? "Producer" : "Consumer");
    self->core = vkpy_take(device, cell, "vks_queue **", &self->device);
    self->surfaces = self->core != NULL ? Py_NewRef(surfaces) : NULL;
    return self->core != NULL ? 0 : -1;
}

/* ---- and its end ------------------------------------------------------------------------------------------------- */

static int queue_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_queue *self = (vkpy_queue *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->device);
    Py_VISIT(self->surfaces);
    return 0;
}

static void queue_dealloc(PyObject *object)
{
    vkpy_queue *self = (vkpy_queue *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    if (self->core != NULL) {
        VKPY_SHORT(self->device, vks_queue_close(self->core); vks_queue_unref(self->core));
        Py_DECREF(self->surfaces);
        Py_DECREF(self->device);
    }
    vkpy_dealloc_free(object);
}

/* ---- the producer ------------------------------------------------------------------------------------------------ */

/* Reads True, False or "gpu". */
static bool read_mode(PyObject *object, vks_enqueue_mode *mode)
{
    *mode = VKS_ENQUEUE_WAIT;
    if (object == NULL || object == Py_True)
        return true;
    *mode = object == Py_False ? VKS_ENQUEUE_TRY : VKS_ENQUEUE_GPU;
    if (object == Py_False || (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "gpu") == 0))
        return true;
    PyErr_Format(PyExc_ValueError, "wait is %R, allowed is True, False or 'gpu'", object);
    return false;
}

static PyObject *enqueue(vkpy_queue *self, vkpy_surface *surface, const void *metadata, Py_ssize_t length,
                         vks_enqueue_mode mode)
{
    bool committed;
    vks_status status;
    VKPY_SHORT(self->device,
               status = vks_queue_enqueue(self->core, surface->core, metadata, (size_t)length, mode, 0, &committed));
    if (VKPY_UNLIKELY(status == VKS_TIMEOUT))
        VKPY_BLOCKING(status, vks_queue_enqueue(self->core, surface->core, metadata, (size_t)length, mode, VKS_FOREVER,
                                                &committed));
    return status == VKS_OK ? PyBool_FromLong(committed) : vkpy_raise(status, "Producer.enqueue");
}

static PyObject *producer_enqueue(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Producer.enqueue", 3, 1, 3, {"surface", "metadata", "wait"}, {NULL}};
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *values[3];
    vks_enqueue_mode mode;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_mode(values[2], &mode))
        return NULL;
    vkpy_surface *surface = surface_argument(values[0]);
    if (surface == NULL)
        return NULL;
    if (values[1] == NULL)
        return enqueue(self, surface, NULL, 0, mode);
    Py_buffer buffer;
    if (!PyObject_CheckBuffer(values[1]))
        return vkpy_type_error(values[1], "metadata", "bytes"), NULL;
    if (PyObject_GetBuffer(values[1], &buffer, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *result = enqueue(self, surface, buffer.buf, buffer.len, mode);
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *producer_flush(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Producer.flush", 1, 0, 1, {"wait"}, {NULL}};
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *values[1];
    bool wait = true;
    uint32_t committed, pending;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_bool(values[0], &wait))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_queue_flush(self->core, wait, 0, &committed, &pending));
    if (VKPY_UNLIKELY(status == VKS_TIMEOUT)) /* the call must wait, or another thread has the end */
        VKPY_BLOCKING(status, vks_queue_flush(self->core, wait, VKS_FOREVER, &committed, &pending));
    if (status != VKS_OK)
        return vkpy_raise(status, "Producer.flush");
    if (pending != 0 && committed == 0)
        return vkpy_raise_named("StillDrawingError",
                                "Producer.flush: the GPU still draws the first of %u pending surfaces; call it later, "
                                "or with wait=True",
                                (unsigned)pending);
    return PyLong_FromUnsignedLong(pending);
}

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

static PyObject *raise_empty(uint64_t timeout)
{
    PyObject *seconds = PyFloat_FromDouble((double)timeout * 1e-9);
    PyObject *result =
        seconds == NULL
            ? NULL
            : vkpy_raise_named("AcquireTimeout", "Consumer.dequeue: no surface was committed within %R s", seconds);
    Py_XDECREF(seconds);
    return result;
}

static PyObject *dequeue(vkpy_queue *self, uint64_t timeout, void *metadata)
{
    uint32_t index;
    size_t length;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_queue_dequeue(self->core, 0, &index, metadata, &length));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_queue_dequeue(self->core, deadline, &index, metadata, &length));
    }
    if (VKPY_UNLIKELY(status != VKS_OK))
        return status == VKS_TIMEOUT ? raise_empty(timeout) : vkpy_raise(status, "Consumer.dequeue");
    PyObject *bytes = PyBytes_FromStringAndSize(metadata, (Py_ssize_t)length);
    PyObject *pair = bytes == NULL ? NULL : PyTuple_Pack(2, PyTuple_GetItem(self->surfaces, (Py_ssize_t)index), bytes);
    Py_XDECREF(bytes);
    return pair;
}

static PyObject *consumer_dequeue(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Consumer.dequeue", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *values[1];
    uint64_t timeout;
    char small[SMALL_METADATA];
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    uint32_t size = vks_queue_metadata_size(self->core);
    char *large = size > sizeof small ? PyMem_Malloc(size) : NULL;
    if (size > sizeof small && large == NULL)
        return PyErr_NoMemory();
    PyObject *result = dequeue(self, timeout, large != NULL ? large : small);
    PyMem_Free(large);
    return result;
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

VKPY_GETTER(queue_device, vkpy_queue, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(queue_surfaces, vkpy_queue, Py_NewRef(self->surfaces))
VKPY_GETTER(queue_is_closed, vkpy_queue, PyBool_FromLong(vks_queue_is_closed(self->core)))
VKPY_ADDRESS_GETTER(queue_address, vkpy_queue)

/* ---- the types --------------------------------------------------------------------------------------------------- */

static PyMethodDef producer_methods[] = {
    {"enqueue", VKPY_FASTCALL(producer_enqueue), VKPY_FAST,
     "enqueue($self, surface, metadata=b'', wait=True)\n--\n\nPuts a dequeued surface into the queue; True: it can be "
     "dequeued."},
    {"flush", VKPY_FASTCALL(producer_flush), VKPY_FAST,
     "flush($self, wait=True)\n--\n\nCommits what is pending; how many still are. StillDrawingError."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef consumer_methods[] = {
    {"dequeue", VKPY_FASTCALL(consumer_dequeue), VKPY_FAST,
     "dequeue($self, timeout=None)\n--\n\n(surface, metadata), the oldest; AcquireTimeout, ClosedError, "
     "AbandonedError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(queue_address),
    {"device", queue_device, NULL, "The device that it was opened for.", NULL},
    {"surfaces", queue_surfaces, NULL, "The device's handles of all surfaces of the network.", NULL},
    {"is_closed", queue_is_closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_queue), {NULL, 0, 0, 0, NULL}};

#define SLOTS(doc, methods)                                                                                            \
    {                                                                                                                  \
        {Py_tp_doc, (void *)(doc)}, {Py_tp_init, (void *)queue_init}, {Py_tp_dealloc, (void *)queue_dealloc},          \
            {Py_tp_methods, (methods)}, {Py_tp_getset, properties}, {Py_tp_traverse, (void *)queue_traverse},          \
            {Py_tp_members, members},                                                                                  \
        {                                                                                                              \
            0, NULL                                                                                                    \
        }                                                                                                              \
    }

static PyType_Slot producer_slots[] =
    SLOTS("The end of a queue that surfaces go into: the base of vkshare.Producer.", producer_methods);
static PyType_Slot consumer_slots[] =
    SLOTS("The end of a queue that surfaces come out of: the base of vkshare.Consumer.", consumer_methods);

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)
PyType_Spec vkpy_producer_spec = {"vkshare._native.Producer", sizeof(vkpy_queue), 0, FLAGS, producer_slots};
PyType_Spec vkpy_consumer_spec = {"vkshare._native.Consumer", sizeof(vkpy_queue), 0, FLAGS, consumer_slots};
