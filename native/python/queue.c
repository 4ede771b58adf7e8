/* The two ends of a surface queue, and its pages. */
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

static const char *const end_names[] = {[VKS_PRODUCER] = "Producer", [VKS_CONSUMER] = "Consumer"};

static vkpy_surface *surface_argument(PyObject *object)
{
    if (!PyObject_TypeCheck(object, vkpy_surface_type)) {
        vkpy_type_error(object, "surface", "a Surface");
        return NULL;
    }
    vkpy_surface *surface = (vkpy_surface *)object;
    return surface->core != NULL ? surface : (vkpy_surface *)vkpy_raise_uninitialised(object);
}

static bool open_end(vkpy_queue *self, vkpy_device *device, int page_fd, vks_end end, PyObject *surfaces)
{
    vks_surface *cores[VKS_MAX_QUEUE_SURFACES];
    Py_ssize_t count = PyTuple_Size(surfaces);
    if (count > (Py_ssize_t)VKS_MAX_QUEUE_SURFACES) {
        PyErr_Format(PyExc_ValueError, "surfaces has %zd, allowed are up to %u", count, VKS_MAX_QUEUE_SURFACES);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        vkpy_surface *surface = surface_argument(PyTuple_GetItem(surfaces, i));
        if (surface == NULL)
            return false;
        cores[i] = surface->core;
    }
    vks_queue *core = NULL;
    vks_status status;
    VKPY_SHORT(device, status = vks_queue_open(device->core, page_fd, end, cores, (uint32_t)count, &core));
    if (status != VKS_OK)
        return vkpy_raise(status, end_names[end]) != NULL;
    if (self->core != NULL) { /* another thread called __init__ while the lock was taken */
        VKPY_SHORT(device, vks_queue_close(core); vks_queue_unref(core));
        return vkpy_raise_initialised(end_names[end]) == 0;
    }
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    self->surfaces = Py_NewRef(surfaces);
    self->core = core;
    return true;
}

static int init(PyObject *object, PyObject *arguments, PyObject *keywords, vks_end end)
{
    static char *names[] = {"device", "page_fd", "surfaces", NULL};
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *device_object, *fd_object, *surfaces;
    int page_fd;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO!:QueueEnd", names, &device_object, &fd_object,
                                     &PyTuple_Type, &surfaces) ||
        !vkpy_fd(fd_object, "page_fd", false, &page_fd))
        return -1;
    vkpy_device *device = vkpy_device_argument(device_object, "device");
    return device != NULL && open_end(self, device, page_fd, end, surfaces) ? 0 : -1;
}

static int producer_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    return init(object, arguments, keywords, VKS_PRODUCER);
}

static int consumer_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    return init(object, arguments, keywords, VKS_CONSUMER);
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

static PyObject *queue_close(PyObject *object, PyObject *ignored)
{
    vkpy_queue *self = (vkpy_queue *)object;
    (void)ignored;
    VKPY_LIVE(self);
    PyThreadState *thread = PyEval_SaveThread(); /* calls in progress on other threads end first */
    vks_queue_close(self->core);
    PyEval_RestoreThread(thread);
    Py_RETURN_NONE;
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

static PyObject *consumer_notify(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Consumer._notify", 2, 2, 2, {"event_queue", "token"}, {NULL}};
    vkpy_queue *self = (vkpy_queue *)object;
    PyObject *values[2];
    vks_event_queue *event_queue;
    uint64_t token;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_event_queue_and_token(values[0], values[1], &event_queue, &token))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_queue_notify(self->core, event_queue, token));
    return vkpy_none_or_raise(status, "Consumer.dequeue_async");
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

static PyObject *queue_counts(PyObject *object, PyObject *ignored)
{
    vkpy_queue *self = (vkpy_queue *)object;
    vks_queue_statistics told;
    (void)ignored;
    VKPY_LIVE(self);
    vks_queue_get_statistics(self->core, &told);
    return Py_BuildValue("(KKKII)", (unsigned long long)told.enqueued, (unsigned long long)told.committed,
                         (unsigned long long)told.dequeued, told.producer_pid, told.consumer_pid);
}

VKPY_GETTER(queue_device, vkpy_queue, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(queue_surfaces, vkpy_queue, Py_NewRef(self->surfaces))
VKPY_GETTER(queue_is_closed, vkpy_queue, PyBool_FromLong(vks_queue_is_closed(self->core)))
VKPY_GETTER(queue_metadata_size, vkpy_queue, PyLong_FromUnsignedLong(vks_queue_metadata_size(self->core)))

/* ---- the types --------------------------------------------------------------------------------------------------- */

#define BOTH_ENDS                                                                                                      \
    {"_close", queue_close, METH_NOARGS, "_close($self)\n--\n\nGives the end up and wakes the other. Idempotent."},    \
        {"_counts", queue_counts, METH_NOARGS,                                                                         \
         "_counts($self)\n--\n\n(enqueued, committed, dequeued, producer's pid, consumer's pid)."},                    \
        {NULL, NULL, 0, NULL},

static PyMethodDef producer_methods[] = {
    {"enqueue", VKPY_FASTCALL(producer_enqueue), VKPY_FAST,
     "enqueue($self, surface, metadata=b'', wait=True)\n--\n\nPuts a dequeued surface into the queue; True: it can be "
     "dequeued."},
    {"flush", VKPY_FASTCALL(producer_flush), VKPY_FAST,
     "flush($self, wait=True)\n--\n\nCommits what is pending; how many still are. StillDrawingError."},
    BOTH_ENDS};

static PyMethodDef consumer_methods[] = {
    {"dequeue", VKPY_FASTCALL(consumer_dequeue), VKPY_FAST,
     "dequeue($self, timeout=None)\n--\n\n(surface, metadata), the oldest; AcquireTimeout, ClosedError, "
     "AbandonedError."},
    {"_notify", VKPY_FASTCALL(consumer_notify), VKPY_FAST,
     "_notify($self, event_queue, token)\n--\n\nPuts the token into the event queue once a dequeue is worth a try."},
    BOTH_ENDS};

VKPY_ADDRESS_GETTER(queue_address, vkpy_queue)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(queue_address),
    {"device", queue_device, NULL, "The device that it was opened for.", NULL},
    {"surfaces", queue_surfaces, NULL, "The device's handles of all surfaces of the network.", NULL},
    {"is_closed", queue_is_closed, NULL, "Whether it was closed.", NULL},
    {"metadata_size", queue_metadata_size, NULL, "Bytes that a pair may carry.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_queue), {NULL, 0, 0, 0, NULL}};

#define SLOTS(doc, init, methods)                                                                                      \
    {                                                                                                                  \
        {Py_tp_doc, (void *)(doc)}, {Py_tp_init, (void *)(init)}, {Py_tp_dealloc, (void *)queue_dealloc},              \
            {Py_tp_methods, (methods)}, {Py_tp_getset, properties}, {Py_tp_traverse, (void *)queue_traverse},          \
            {Py_tp_members, members},                                                                                  \
        {                                                                                                              \
            0, NULL                                                                                                    \
        }                                                                                                              \
    }

static PyType_Slot producer_slots[] =
    SLOTS("The end of a queue that surfaces go into: the base of vkshare.Producer.", producer_init, producer_methods);
static PyType_Slot consumer_slots[] = SLOTS(
    "The end of a queue that surfaces come out of: the base of vkshare.Consumer.", consumer_init, consumer_methods);

#define FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)
PyType_Spec vkpy_producer_spec = {"vkshare._native.Producer", sizeof(vkpy_queue), 0, FLAGS, producer_slots};
PyType_Spec vkpy_consumer_spec = {"vkshare._native.Consumer", sizeof(vkpy_queue), 0, FLAGS, consumer_slots};
