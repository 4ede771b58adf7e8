/* The two ends of a surface queue. */
#include "vkpy.h"

enum { SMALL_METADATA = 512 };

static vkpy_surface *surface_argument(PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_surface_type))
        return vkpy_type_error(object, "surface", "a Surface"), NULL;
    vkpy_surface *surface = (vkpy_surface *)object;
    return surface->core != NULL ? surface : (vkpy_surface *)vkpy_raise_uninitialised(object);
}

/* vkshare/core/queue_ends.py opens the end. */
static int queue_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *device, *cell, *surfaces;
    if (!PyArg_ParseTuple(arguments, "OOO!:QueueEnd", &device, &cell, &PyTuple_Type, &surfaces))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised(PyObject_TypeCheck(object, vkpy_producer_type) ? "Producer" : "Consumer");
    self->core = vkpy_take_of(device, cell, "vks_queue **", &self->device);
    self->surfaces = self->core != NULL ? Py_NewRef(surfaces) : NULL;
    return self->core != NULL ? 0 : -1;
}

static int queue_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((vkpy_queue *)object)->surfaces);
    return vkpy_traverse(object, visit, arg);
}

static void queue_dealloc(PyObject *object)
{
    vkpy_queue *self = (vkpy_queue *)object;
    vkpy_dealloc_begin(object);
    if (self->core != NULL) {
        VKPY_SHORT_VOID(self->device, vks_queue_close(self->core); vks_queue_unref(self->core));
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
    size_t size = (size_t)length;
    vks_status status = VKPY_POLL_THEN_WAIT(
        self->device, VKS_FOREVER, vks_queue_enqueue(self->core, surface->core, metadata, size, mode, 0, &committed),
        vks_queue_enqueue(self->core, surface->core, metadata, size, mode, deadline, &committed));
    return status == VKS_OK ? PyBool_FromLong(committed) : vkpy_raise(status, "Producer.enqueue");
}

static PyObject *producer_enqueue(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    vks_enqueue_mode mode;
    VKPY_SELF(vkpy_queue);
    VKPY_BIND("Producer.enqueue", 3, 1, 3, "surface", "metadata", "wait");
    if (!read_mode(values[2], &mode))
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
    bool wait = true;
    uint32_t committed, pending;
    VKPY_SELF(vkpy_queue);
    VKPY_BIND("Producer.flush", 1, 0, 1, "wait");
    if (!vkpy_bool(values[0], &wait))
        return NULL;
    vks_status status =
        VKPY_POLL_THEN_WAIT(/* also: another thread has the end */
                            self->device, VKS_FOREVER, vks_queue_flush(self->core, wait, 0, &committed, &pending),
                            vks_queue_flush(self->core, wait, deadline, &committed, &pending));
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

static PyObject *dequeue(vkpy_queue *self, uint64_t timeout, void *metadata)
{
    uint32_t index;
    size_t length;
    vks_status status =
        VKPY_POLL_THEN_WAIT(self->device, timeout, vks_queue_dequeue(self->core, 0, &index, metadata, &length),
                            vks_queue_dequeue(self->core, deadline, &index, metadata, &length));
    if (status == VKS_TIMEOUT)
        return vkpy_raise_timeout("AcquireTimeout", timeout, "Consumer.dequeue: no surface was committed");
    if (VKPY_UNLIKELY(status != VKS_OK))
        return vkpy_raise(status, "Consumer.dequeue");
    PyObject *bytes = PyBytes_FromStringAndSize(metadata, (Py_ssize_t)length);
    PyObject *pair = bytes == NULL ? NULL : PyTuple_Pack(2, PyTuple_GetItem(self->surfaces, (Py_ssize_t)index), bytes);
    Py_XDECREF(bytes);
    return pair;
}

static PyObject *consumer_dequeue(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t timeout;
    char small[SMALL_METADATA];
    VKPY_SELF(vkpy_queue);
    VKPY_BIND("Consumer.dequeue", 1, 0, 1, "timeout");
    if (!vkpy_timeout(values[0], &timeout))
        return NULL;
    uint32_t size = vks_queue_metadata_size(self->core);
    char *large = size > sizeof small ? PyMem_Malloc(size) : NULL;
    if (size > sizeof small && large == NULL)
        return PyErr_NoMemory();
    PyObject *result = dequeue(self, timeout, large != NULL ? large : small);
    PyMem_Free(large);
    return result;
}

VKPY_GETTER(queue_device, vkpy_queue, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(queue_surfaces, vkpy_queue, Py_NewRef(self->surfaces))
VKPY_GETTER(queue_is_closed, vkpy_queue, PyBool_FromLong(vks_queue_is_closed(self->core)))
VKPY_ADDRESS_GETTER(queue_address, vkpy_queue)

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

VKPY_SLOTS(producer, queue, queue_traverse, "The end of a queue that surfaces go into: the base of vkshare.Producer.",
           vkpy_weaklist, {Py_tp_methods, producer_methods});
VKPY_SLOTS(consumer, queue, queue_traverse,
           "The end of a queue that surfaces come out of: the base of vkshare.Consumer.", vkpy_weaklist,
           {Py_tp_methods, consumer_methods});
