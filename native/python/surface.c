/* Surface: one handle of a keyed mutex. */
#include "vkpy.h"

#include <limits.h>
#include <unistd.h>

/* ---- making one -------------------------------------------------------------------------------------------------- */

typedef struct options {
    PyObject *device, *width, *height, *format, *pixels, *stride, *page_fd, *semaphore_fd, *discard_unowned,
        *presentable, *alias_of; /* no references */
} options;

static bool read_size(const options *given, vks_surface_info *info)
{
    long long width, height, format, stride = 0;
    if (!vkpy_integer(given->width, "width", 1, INT32_MAX, &width) ||
        !vkpy_integer(given->height, "height", 1, INT32_MAX, &height) ||
        !vkpy_integer(given->format, "format", 1, INT32_MAX, &format) ||
        (given->stride != NULL && !vkpy_integer(given->stride, "stride", 0, LLONG_MAX, &stride)))
        return false;
    info->width = (uint32_t)width;
    info->height = (uint32_t)height;
    info->format = (uint32_t)format;
    info->stride = (size_t)stride;
    return vkpy_bool(given->discard_unowned, &info->discard_unowned) &&
           vkpy_bool(given->presentable, &info->is_presentable);
}

/* Reads the Surface whose page the new one shares, or NULL. */
static bool read_alias_of(const options *given, const vkpy_device *device, vkpy_surface **of)
{
    *of = NULL;
    if (given->alias_of == NULL || given->alias_of == Py_None)
        return true;
    if (!PyObject_TypeCheck(given->alias_of, vkpy_surface_type))
        return vkpy_type_error(given->alias_of, "alias_of", "a Surface or None");
    vkpy_surface *other = (vkpy_surface *)given->alias_of;
    if (other->core == NULL)
        return vkpy_raise_uninitialised((PyObject *)other) != NULL;
    if (other->device != device) {
        PyErr_SetString(PyExc_ValueError,
                        "alias_of is a surface of another device: export it, and open the descriptor");
        return false;
    }
    *of = other;
    return true;
}

static vks_status make(vkpy_device *device, const vks_surface_info *info, vkpy_surface *of, int page_fd,
                       int semaphore_fd, vks_surface **core)
{
    vks_status status;
    if (of != NULL)
        VKPY_SHORT(device, status = vks_surface_alias(of->core, info, core));
    else if (page_fd >= 0)
        VKPY_SHORT(device, status = vks_surface_open(device->core, info, page_fd, semaphore_fd, core));
    else
        VKPY_SHORT(device, status = vks_surface_create(device->core, info, core));
    return status;
}

/* The core owns the fds from its call on, also if it fails. */
static bool create(vkpy_surface *self, const options *given, int *page_fd, int *semaphore_fd)
{
    vks_surface_info info = {0};
    vkpy_pixels *pixels = NULL;
    vks_surface *core = NULL;
    vkpy_surface *of;
    vkpy_device *device = vkpy_device_argument(given->device, "device");
    if (device == NULL || !read_size(given, &info) || !read_alias_of(given, device, &of) ||
        !vkpy_pixels_export(given->pixels, &info, &pixels))
        return false;
    bool opened = *page_fd >= 0 || of != NULL;
    vks_status status = make(device, &info, of, *page_fd, *semaphore_fd, &core);
    if (of == NULL)
        *page_fd = *semaphore_fd = -1;
    if (status != VKS_OK) {
        vkpy_raise(status, opened ? "Device.open_surface" : "Device.create_surface");
        if (pixels != NULL)
            pixels->last_use = 0;
        vkpy_pixels_retire(device, pixels);
        return false;
    }
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    self->pixels = pixels;
    self->core = core;
    return true;
}

static int surface_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"device",  "width",        "height",          "format",      "pixels",   "stride",
                            "page_fd", "semaphore_fd", "discard_unowned", "presentable", "alias_of", NULL};
    vkpy_surface *self = (vkpy_surface *)object;
    options given = {NULL};
    int page_fd = -1, semaphore_fd = -1;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$OOOOOOOOOO:Surface", names, &given.device, &given.width,
                                     &given.height, &given.format, &given.pixels, &given.stride, &given.page_fd,
                                     &given.semaphore_fd, &given.discard_unowned, &given.presentable, &given.alias_of))
        return -1;
    if (given.width == NULL || given.height == NULL || given.format == NULL) {
        PyErr_SetString(PyExc_TypeError, "Surface() needs the arguments width, height and format");
        return -1;
    }
    if (!vkpy_fd(given.page_fd, "page_fd", true, &page_fd) ||
        !vkpy_fd(given.semaphore_fd, "semaphore_fd", true, &semaphore_fd))
        return -1;
    if (self->initialised) {
        vkpy_raise_initialised("Surface");
    } else {
        self->initialised = true; /* before Python code or another thread can call this again */
        self->initialised = create(self, &given, &page_fd, &semaphore_fd);
    }
    /* On every failure the given fds are taken over too. */
    if (page_fd >= 0)
        close(page_fd);
    if (semaphore_fd >= 0)
        close(semaphore_fd);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *surface_set_commands(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                      PyObject *keywords)
{
    static vkpy_signature signature = {
        "Surface._set_commands", 4, 2, 4, {"acquire", "release", "transfer_acquire", "transfer_release"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[4];
    uint64_t handles[4] = {0};
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    for (int i = 0; i < 4; i++)
        if (values[i] != NULL && !vkpy_u64(values[i], signature.names[i], &handles[i]))
            return NULL;
    VKPY_SHORT(self->device, vks_surface_set_commands(self->core, handles[0], handles[1]));
    VKPY_SHORT(self->device, vks_surface_set_transfer_commands(self->core, handles[2], handles[3]));
    Py_RETURN_NONE;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static int surface_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_surface *self = (vkpy_surface *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->device);
    /* The exporter of the pixels is not visited: a garbage collection that cleared a memoryview under our Py_buffer
     * would leave PyBuffer_Release() with a NULL to follow. It never refers back to the surface, so no cycle is missed.
     */
    return 0;
}

/* Releases the GIL, because the close waits for work that still draws on the surface. */
static uint64_t close_surface(vkpy_surface *self, uint64_t (*end)(vks_surface *))
{
    PyThreadState *thread = PyEval_SaveThread();
    uint64_t serial = end(self->core);
    PyEval_RestoreThread(thread);
    if (self->pixels != NULL)
        self->pixels->last_use = serial;
    return serial;
}

static void surface_dealloc(PyObject *object)
{
    vkpy_surface *self = (vkpy_surface *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, true);
    if (self->core != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        close_surface(self, vks_surface_close);
        VKPY_SHORT(self->device, vks_surface_unref(self->core));
        if (self->drawable != NULL)
            vks_drawable_unref(self->drawable);
        Py_XDECREF(self->swapchain);
        vkpy_pixels_retire(self->device, self->pixels);
        Py_DECREF(self->device);
        PyErr_Restore(type, value, traceback);
    }
    vkpy_dealloc_free(object);
}

static PyObject *surface_finish_releases(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                         PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._finish_releases", 1, 1, 1, {"timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    uint64_t deadline = vkpy_deadline(timeout);
    Py_BEGIN_ALLOW_THREADS;
    vks_surface_finish_releases(self->core, deadline);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *surface_close(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    (void)ignored;
    VKPY_LIVE(self);
    uint64_t serial = close_surface(self, vks_surface_close_now);
    vkpy_pixels *pixels = self->pixels;
    self->pixels = NULL; /* a closed surface with a reference left must not keep its memory */
    vkpy_pixels_retire(self->device, pixels);
    return PyLong_FromUnsignedLongLong(serial);
}

/* ---- ownership --------------------------------------------------------------------------------------------------- */

/* "cpu+gpu" (or nothing) is false, "gpu" is true; anything else raises. */
static bool read_mode(PyObject *mode, bool *gpu)
{
    *gpu = false;
    if (mode == NULL)
        return true;
    if (!PyUnicode_Check(mode))
        return vkpy_type_error(mode, "mode", "a str");
    *gpu = PyUnicode_CompareWithASCIIString(mode, "gpu") == 0;
    if (*gpu || PyUnicode_CompareWithASCIIString(mode, "cpu+gpu") == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "mode is %R, allowed is 'cpu+gpu' or 'gpu'", mode);
    return false;
}

static PyObject *acquire_gpu(vkpy_surface *self, uint64_t key)
{
    vks_work *op = NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_acquire_gpu(self->core, key, &op));
    if (op != NULL)
        vks_work_unref(op);
    return vkpy_none_or_raise(status, "Surface.acquire");
}

static PyObject *surface_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface.acquire", 2, 0, 3, {"key", "timeout", "mode"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[3];
    uint64_t key = 0, timeout;
    bool gpu;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        (values[0] != NULL && !vkpy_u64(values[0], "key", &key)) || !vkpy_timeout(values[1], &timeout) ||
        !read_mode(values[2], &gpu))
        return NULL;
    if (gpu)
        return acquire_gpu(self, key);
    vks_status status;
    if (timeout == 0)
        VKPY_SHORT(self->device, status = vks_surface_acquire(self->core, key, 0));
    else
        VKPY_SHORT(self->device, status = vks_surface_try_acquire(self->core, key));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_acquire_blocking(self->core, key, deadline));
    }
    return status == VKS_TIMEOUT ? vkpy_raise_acquire_timeout(key, timeout)
                                 : vkpy_none_or_raise(status, "Surface.acquire");
}

static PyObject *surface_acquire_start(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                       PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._acquire_start", 1, 1, 1, {"key"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t key;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "key", &key))
        return NULL;
    vks_work *op = NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_acquire_gpu(self->core, key, &op));
    if (status != VKS_OK || op == NULL)
        return vkpy_none_or_raise(status, "Surface.acquire_async");
    return vkpy_pending_acquire_new(self, op);
}

static PyObject *surface_release(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface.release", 1, 0, 1, {"key"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t key = 0;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        (values[0] != NULL && !vkpy_u64(values[0], "key", &key)))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_release(self->core, key));
    return vkpy_none_or_raise(status, "Surface.release");
}

static PyObject *surface_recover(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface.recover", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    /* No first try with deadline 0: each failed attempt abandons the surface again, visibly to
     * every party. */
    uint64_t deadline = vkpy_deadline(timeout);
    vks_status status;
    VKPY_BLOCKING(status, vks_surface_recover(self->core, deadline));
    return vkpy_waited(status, "Surface.recover", timeout);
}

static PyObject *surface_cpu_access(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._cpu_access", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_cpu_access(self->core, 0));
    if (status == VKS_TIMEOUT && timeout != 0) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_cpu_access(self->core, deadline));
    }
    return vkpy_waited(status, "Surface", timeout);
}

/* ---- crossing to others ------------------------------------------------------------------------------------------ */

static PyObject *surface_export(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    int page_fd = -1, semaphore_fd = -1;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_BLOCKING(status, vks_surface_export(self->core, &page_fd, &semaphore_fd));
    return status == VKS_OK ? Py_BuildValue("(ii)", page_fd, semaphore_fd) : vkpy_raise(status, "Surface.export");
}

static PyObject *surface_page(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    int page_fd = -1;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_page(self->core, &page_fd));
    return status == VKS_OK ? PyLong_FromLong(page_fd) : vkpy_raise(status, "Surface.mutex");
}

static PyObject *surface_sync(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    vks_semaphore_point wait = {0}, signal = {0};
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_BLOCKING(status, vks_surface_sync(self->core, VKS_FOREVER, &wait, &signal));
    return status == VKS_OK
               ? Py_BuildValue("((KK)(KK))", (unsigned long long)wait.semaphore, (unsigned long long)wait.value,
                               (unsigned long long)signal.semaphore, (unsigned long long)signal.value)
               : vkpy_raise(status, "Surface.sync");
}

static PyObject *surface_join(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._join", 2, 2, 2, {"network", "index"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[2];
    uint64_t network;
    long long index;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_u64(values[0], "network", &network) ||
        !vkpy_integer(values[1], "index", 0, VKS_MAX_QUEUE_SURFACES - 1, &index))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_join(self->core, network, (uint32_t)index));
    return vkpy_none_or_raise(status, "Surface._join");
}

static bool read_semaphore(PyObject *object, uint64_t *handle)
{
    *handle = PyLong_AsUnsignedLongLong(object);
    return *handle != UINT64_MAX || !PyErr_Occurred();
}

static PyObject *surface_release_to_external(PyObject *object, PyObject *semaphore)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t handle;
    VKPY_LIVE(self);
    if (!read_semaphore(semaphore, &handle))
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status, vks_surface_release_to_external(self->core, VKS_FOREVER, handle));
    return vkpy_none_or_raise(status, "Surface._release_to_external");
}

static PyObject *surface_acquire_from_external(PyObject *object, PyObject *semaphore)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t handle;
    VKPY_LIVE(self);
    if (!read_semaphore(semaphore, &handle))
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status, vks_surface_acquire_from_external(self->core, handle));
    return vkpy_none_or_raise(status, "Surface._acquire_from_external");
}

static PyObject *surface_external_begin(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                        PyObject *keywords)
{
    static vkpy_signature signature = {"Surface._external_begin", 2, 1, 2, {"after_cpu", "timeout"}, {NULL}};
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *values[2];
    uint64_t timeout, value = 0;
    bool after_cpu = false;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_bool(values[0], &after_cpu) ||
        !vkpy_timeout(values[1], &timeout))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_begin(self->core, after_cpu, 0, &value));
    if ((status == VKS_TIMEOUT && timeout != 0) || status == VKS_INTERRUPTED) {
        uint64_t deadline = vkpy_deadline(timeout);
        VKPY_BLOCKING(status, vks_surface_external_begin(self->core, after_cpu, deadline, &value));
    }
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(value) : vkpy_waited(status, "Surface", timeout);
}

static PyObject *surface_external_signal_value(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t value = 0;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_signal_value(self->core, &value));
    return status == VKS_OK ? PyLong_FromUnsignedLongLong(value) : vkpy_raise(status, "Surface._external_signal_value");
}

static PyObject *surface_external_end(PyObject *object, PyObject *number)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t value;
    VKPY_LIVE(self);
    if (!vkpy_u64(number, "value", &value))
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_end(self->core, value));
    return vkpy_none_or_raise(status, "Surface._external_end");
}

static PyObject *surface_external_lost(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_status status;
    VKPY_SHORT(self->device, status = vks_surface_external_lost(self->core));
    return vkpy_none_or_raise(status, "Surface._external_lost");
}

static PyObject *surface_next_key(PyObject *object, PyObject *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    uint64_t key = 0;
    (void)ignored;
    VKPY_LIVE(self);
    if (vks_device_state(self->device->core) == VKS_FORKED)
        return vkpy_raise(VKS_FORKED, "Surface.mutex");
    if (vks_surface_is_closed(self->core))
        return vkpy_raise(VKS_CLOSED, "KeyedMutex.next_key");
    VKPY_SHORT(self->device, key = vks_surface_next_key(self->core));
    return PyLong_FromUnsignedLongLong(key);
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

VKPY_GETTER(surface_device, vkpy_surface, Py_NewRef((PyObject *)self->device))

static PyObject *surface_is_owned(PyObject *object, void *ignored)
{
    vkpy_surface *self = (vkpy_surface *)object;
    bool owned = false;
    (void)ignored;
    VKPY_LIVE(self);
    VKPY_SHORT(self->device, owned = vks_surface_is_owned(self->core));
    return PyBool_FromLong(owned);
}

VKPY_GETTER(surface_may_submit, vkpy_surface, PyBool_FromLong(vks_surface_may_submit(self->core)))
VKPY_GETTER(surface_is_closed, vkpy_surface, PyBool_FromLong(vks_surface_is_closed(self->core)))
VKPY_GETTER(surface_generation, vkpy_surface, PyLong_FromUnsignedLong(vks_surface_generation(self->core)))

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyObject *surface_set_drawable(PyObject *object, PyObject *drawable)
{
    vkpy_surface *self = (vkpy_surface *)object;
    VKPY_LIVE(self);
    if (!PyCapsule_IsValid(drawable, "vks_drawable")) {
        vkpy_type_error(drawable, "drawable", "the capsule of a vks_drawable");
        return NULL;
    }
    if (self->drawable != NULL)
        return vkpy_raise_named("InvalidCallError", "the Surface has a Drawable already");
    self->drawable = PyCapsule_GetPointer(drawable, "vks_drawable");
    vks_drawable_ref(self->drawable);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"acquire", VKPY_FASTCALL(surface_acquire), VKPY_FAST,
     "acquire($self, key=0, timeout=None, *, mode='cpu+gpu')\n--\n\n"
     "Waits until the owner released with that key; AcquireTimeout, AbandonedError."},
    {"release", VKPY_FASTCALL(surface_release), VKPY_FAST,
     "release($self, key=0)\n--\n\nGives the surface to a waiter with that key; NotOwnerError."},
    {"recover", VKPY_FASTCALL(surface_recover), VKPY_FAST,
     "recover($self, timeout=None)\n--\n\nTakes an abandoned surface, with a new generation."},
    {"_acquire_start", VKPY_FASTCALL(surface_acquire_start), VKPY_FAST,
     "_acquire_start($self, key)\n--\n\nReturns a PendingAcquire; None: the surface was acquired immediately."},
    {"_cpu_access", VKPY_FASTCALL(surface_cpu_access), VKPY_FAST,
     "_cpu_access($self, timeout=None)\n--\n\nWaits until the CPU may touch the pixels."},
    {"_set_commands", VKPY_FASTCALL(surface_set_commands), VKPY_FAST,
     "_set_commands($self, acquire, release, transfer_acquire=0, transfer_release=0)\n--\n\nVkCommandBuffers, set "
     "once."},
    {"_set_drawable", surface_set_drawable, METH_O,
     "_set_drawable($self, drawable)\n--\n\nThe capsule of its image's vks_drawable, once: commands can use it."},
    {"_export", surface_export, METH_NOARGS,
     "_export($self)\n--\n\n(page fd, semaphore fd or -1), the caller's to close."},
    {"_page", surface_page, METH_NOARGS, "_page($self)\n--\n\nAn fd of the shared page, the caller's to close."},
    {"_sync", surface_sync, METH_NOARGS,
     "_sync($self)\n--\n\n((VkSemaphore, value) to wait for, (VkSemaphore, value) to signal)."},
    {"_join", VKPY_FASTCALL(surface_join), VKPY_FAST,
     "_join($self, network, index)\n--\n\nMakes it a surface of queues, which alone acquire and release it."},
    {"_release_to_external", surface_release_to_external, METH_O,
     "_release_to_external($self, semaphore)\n--\n\nReleases the image to another API, and signals a binary "
     "VkSemaphore."},
    {"_acquire_from_external", surface_acquire_from_external, METH_O,
     "_acquire_from_external($self, semaphore)\n--\n\nWaits for a binary VkSemaphore on the GPU (0: none), and takes "
     "the image."},
    {"_external_begin", VKPY_FASTCALL(surface_external_begin), VKPY_FAST,
     "_external_begin($self, after_cpu, timeout=None)\n--\n\nThe value that another API must wait for, which has the "
     "semaphore; 0: none."},
    {"_external_signal_value", surface_external_signal_value, METH_NOARGS,
     "_external_signal_value($self)\n--\n\nReturns the value that the other API must signal."},
    {"_external_end", surface_external_end, METH_O,
     "_external_end($self, value)\n--\n\nReports that its queue has the signal of the value (0: it submitted "
     "nothing)."},
    {"_external_lost", surface_external_lost, METH_NOARGS,
     "_external_lost($self)\n--\n\nReports that the other API's context is lost: its signals never come."},
    {"_next_key", surface_next_key, METH_NOARGS, "_next_key($self)\n--\n\nReturns the key after the last one used."},
    {"_finish_releases", VKPY_FASTCALL(surface_finish_releases), VKPY_FAST,
     "_finish_releases($self, timeout)\n--\n\nSubmits work that announced releases depend on."},
    {"_close", surface_close, METH_NOARGS,
     "_close($self)\n--\n\nCloses the handle; returns the serial after which the image may be destroyed. Idempotent."},
    {NULL, NULL, 0, NULL},
};

VKPY_ADDRESS_GETTER(surface_address, vkpy_surface)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(surface_address),
    {"device", surface_device, NULL, "The device that it belongs to.", NULL},
    {"is_owned", surface_is_owned, NULL, "Whether this handle owns the surface.", NULL},
    {"_may_submit", surface_may_submit, NULL, "Whether it is owned, or an ownership with mode=\"gpu\" is open.", NULL},
    {"is_closed", surface_is_closed, NULL, "Whether this handle was closed.", NULL},
    {"generation", surface_generation, NULL, "Grows with each recover().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_surface), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"One handle of a keyed mutex: the base of vkshare.Surface."},
    {Py_tp_init, (void *)surface_init},
    {Py_tp_dealloc, (void *)surface_dealloc},
    {Py_tp_traverse, (void *)surface_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_surface_spec = {
    "vkshare._native.Surface",
    sizeof(vkpy_surface),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
