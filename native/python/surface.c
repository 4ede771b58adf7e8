/* Surface: one handle of a keyed mutex. */
#include "vkpy.h"

/* The memory of a CPU surface, which is kept until no work can use it any more. */
struct vkpy_pixels {
    PyObject *memory;  /* has the buffer */
    uint64_t last_use; /* the memory is unused after this serial; UINT64_MAX while the surface is open */
    vkpy_pixels *next; /* in vkpy_device.pixels */
};

static vkpy_pixels *pixels_new(PyObject *memory)
{
    vkpy_pixels *pixels = PyMem_Calloc(1, sizeof *pixels);
    if (pixels == NULL)
        return (vkpy_pixels *)PyErr_NoMemory();
    pixels->memory = Py_NewRef(memory);
    pixels->last_use = UINT64_MAX;
    return pixels;
}

static void pixels_free(vkpy_pixels *pixels)
{
    if (pixels != NULL)
        Py_DECREF(pixels->memory);
    PyMem_Free(pixels);
}

/* Drops the memory now if its last use is over, else at the next reap of the device. Takes over
 * `pixels` (may be NULL). */
static void retire(vkpy_device *device, vkpy_pixels *pixels)
{
    if (pixels == NULL)
        return;
    uint64_t completed = VKPY_SHORT(device, vks_device_completed(device->core));
    if (completed >= pixels->last_use || vks_device_state(device->core) == VKS_FORKED) {
        pixels_free(pixels); /* a forked child has no worker that could write to it */
        return;
    }
    pixels->next = device->pixels;
    device->pixels = pixels;
}

void vkpy_pixels_reap(vkpy_device *device, bool all)
{
    uint64_t completed = VKPY_SHORT(device, vks_device_completed(device->core));
    /* Unlinked first, because the end of the memory runs Python code, which may call this function
     * again. */
    vkpy_pixels *waiting = device->pixels;
    device->pixels = NULL;
    while (waiting != NULL) {
        vkpy_pixels *pixels = waiting;
        waiting = pixels->next;
        if (all || completed >= pixels->last_use) {
            pixels_free(pixels);
        } else {
            pixels->next = device->pixels;
            device->pixels = pixels;
        }
    }
}

/* vkshare/core/surface_core.py creates the object of the core. */
static int surface_init(PyObject *object, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    vkpy_surface *self = (vkpy_surface *)object;
    PyObject *device, *cell, *memory = Py_None;
    if (!PyArg_ParseTuple(arguments, "OO|O:Surface", &device, &cell, &memory))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Surface");
    vkpy_pixels *pixels = NULL;
    if (memory != Py_None && (pixels = pixels_new(memory)) == NULL)
        return -1;
    self->core = vkpy_take_of(device, cell, "vks_surface **", &self->device);
    if (self->core == NULL) {
        pixels_free(pixels);
        return -1;
    }
    self->pixels = pixels;
    return 0;
}

static PyObject *surface_set_drawable(PyObject *object, PyObject *drawable)
{
    VKPY_SELF(vkpy_surface);
    if (!PyCapsule_IsValid(drawable, "vks_drawable"))
        return vkpy_type_error(drawable, "drawable", "the capsule of a vks_drawable"), NULL;
    if (self->drawable != NULL)
        return vkpy_raise_named("InvalidCallError", "the Surface has a Drawable already");
    self->drawable = PyCapsule_GetPointer(drawable, "vks_drawable");
    vks_drawable_ref(self->drawable);
    Py_RETURN_NONE;
}

static PyObject *surface_set_read_only(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_surface);
    self->is_read_only = true;
    Py_RETURN_NONE;
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
    vkpy_dealloc_begin(object);
    if (self->core != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        close_surface(self, vks_surface_close);
        VKPY_SHORT_VOID(self->device, vks_surface_unref(self->core));
        if (self->drawable != NULL)
            vks_drawable_unref(self->drawable);
        Py_XDECREF(self->swapchain);
        retire(self->device, self->pixels);
        Py_DECREF(self->device);
        PyErr_Restore(type, value, traceback);
    }
    vkpy_dealloc_free(object);
}

static PyObject *surface_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_surface);
    uint64_t serial = close_surface(self, vks_surface_close_now);
    vkpy_pixels *pixels = self->pixels;
    self->pixels = NULL; /* a closed surface with a reference left must not keep its memory */
    retire(self->device, pixels);
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
    vks_status status = VKPY_SHORT(self->device, vks_surface_acquire_gpu(self->core, key, &op));
    if (op != NULL)
        vks_work_unref(op);
    return vkpy_none_or_raise(status, "Surface.acquire");
}

static PyObject *surface_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t key = 0, timeout;
    bool gpu;
    VKPY_SELF(vkpy_surface);
    VKPY_BIND("Surface.acquire", 2, 0, 3, "key", "timeout", "mode");
    if ((values[0] != NULL && !vkpy_u64(values[0], "key", &key)) || !vkpy_timeout(values[1], &timeout) ||
        !read_mode(values[2], &gpu))
        return NULL;
    if (gpu)
        return acquire_gpu(self, key);
    vks_status status = VKPY_POLL_THEN_WAIT(self->device, timeout,
                                            timeout == 0 ? vks_surface_acquire(self->core, key, 0)
                                                         : vks_surface_try_acquire(self->core, key),
                                            vks_surface_acquire_blocking(self->core, key, deadline));
    if (status == VKS_TIMEOUT)
        return vkpy_raise_timeout("AcquireTimeout", timeout,
                                  "Surface.acquire: the surface was not released with key %llu",
                                  (unsigned long long)key);
    return vkpy_none_or_raise(status, "Surface.acquire");
}

static PyObject *surface_release(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t key = 0;
    VKPY_SELF(vkpy_surface);
    VKPY_BIND("Surface.release", 1, 0, 1, "key");
    if (values[0] != NULL && !vkpy_u64(values[0], "key", &key))
        return NULL;
    vks_status status = VKPY_SHORT(self->device, vks_surface_release(self->core, key));
    return vkpy_none_or_raise(status, "Surface.release");
}

static PyObject *surface_cpu_access(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    uint64_t timeout;
    VKPY_SELF(vkpy_surface);
    VKPY_BIND("Surface._cpu_access", 1, 0, 1, "timeout");
    if (!vkpy_timeout(values[0], &timeout))
        return NULL;
    vks_status status = VKPY_POLL_THEN_WAIT(self->device, timeout, vks_surface_cpu_access(self->core, 0),
                                            vks_surface_cpu_access(self->core, deadline));
    return vkpy_waited(status, "Surface", timeout);
}

VKPY_GETTER(surface_device, vkpy_surface, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(surface_is_owned, vkpy_surface, PyBool_FromLong(VKPY_SHORT(self->device, vks_surface_is_owned(self->core))))
VKPY_GETTER(surface_is_read_only, vkpy_surface, PyBool_FromLong(self->is_read_only))
VKPY_GETTER(surface_may_submit, vkpy_surface, PyBool_FromLong(vks_surface_may_submit(self->core)))
VKPY_GETTER(surface_is_closed, vkpy_surface, PyBool_FromLong(vks_surface_is_closed(self->core)))
VKPY_ADDRESS_GETTER(surface_address, vkpy_surface)

static PyMethodDef methods[] = {
    {"acquire", VKPY_FASTCALL(surface_acquire), VKPY_FAST,
     "acquire($self, key=0, timeout=None, *, mode='cpu+gpu')\n--\n\n"
     "Waits until the owner released with that key; AcquireTimeout, AbandonedError."},
    {"release", VKPY_FASTCALL(surface_release), VKPY_FAST,
     "release($self, key=0)\n--\n\nGives the surface to a waiter with that key; NotOwnerError."},
    {"_cpu_access", VKPY_FASTCALL(surface_cpu_access), VKPY_FAST, "Waits until the CPU may touch the pixels."},
    {"_set_drawable", surface_set_drawable, METH_O, "The image as commands use it, once: a capsule."},
    {"_set_read_only", surface_set_read_only, METH_NOARGS, "Has commands that write to it refused from now on."},
    {"_close", surface_close, METH_NOARGS, "Closes the handle; the serial after which the image may be destroyed."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(surface_address),
    {"device", surface_device, NULL, "The device that it belongs to.", NULL},
    {"is_owned", surface_is_owned, NULL, "Whether this handle owns the surface.", NULL},
    {"_may_submit", surface_may_submit, NULL, "Whether it is owned, or an ownership with mode=\"gpu\" is open.", NULL},
    {"is_closed", surface_is_closed, NULL, "Whether this handle was closed.", NULL},
    {"is_read_only", surface_is_read_only, NULL, "Whether this handle refuses to write.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* vkpy_traverse: the memory of the pixels is not visited, because a garbage collection would release its
 * buffer while work still draws there. It never refers back to the surface, so no cycle is missed. */
VKPY_SLOTS(surface, surface, vkpy_traverse, "One handle of a keyed mutex: the base of vkshare.Surface.", vkpy_weaklist,
           {Py_tp_methods, methods});
