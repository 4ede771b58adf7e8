/* Swapchain: the frames of a window or of a headless target. Frame and Prepared stand in frame.c. */
#include "present/swapchain.h"
#include "vkpy_present.h"

#include <limits.h>

/* ---- creation ---------------------------------------------------------------------------------
 */

/* Reads a required int of the dict `from`, in [least, most]. */
static bool read_field(PyObject *from, const char *name, uint64_t least, uint64_t most, uint64_t *out)
{
    PyObject *value = PyDict_GetItemString(from, name);
    if (value == NULL) {
        PyErr_Format(PyExc_TypeError, "Swapchain() lacks '%s'", name);
        return false;
    }
    if (!vkpy_u64(value, name, out))
        return false;
    if (*out < least || *out > most) {
        PyErr_Format(PyExc_ValueError, "%s is %llu, allowed is %llu to %llu", name, (unsigned long long)*out,
                     (unsigned long long)least, (unsigned long long)most);
        return false;
    }
    return true;
}

static bool read_u32(PyObject *from, const char *name, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t value;
    bool good = read_field(from, name, least, most, &value);
    if (good)
        *out = (uint32_t)value;
    return good;
}

static bool read_modes(PyObject *from, vks_present_info *info)
{
    PyObject *modes = PyDict_GetItemString(from, "modes");
    if (modes == NULL || !PyTuple_Check(modes) || PyTuple_Size(modes) > VKS_SWAPCHAIN_MODES)
        return vkpy_type_error(modes == NULL ? Py_None : modes, "modes", "a tuple of at most 6 ints");
    info->n_modes = (uint32_t)PyTuple_Size(modes);
    for (uint32_t i = 0; i < info->n_modes; ++i) {
        uint64_t mode;
        if (!vkpy_u64(PyTuple_GetItem(modes, i), "modes", &mode))
            return false;
        info->modes[i] = (uint32_t)mode;
    }
    return true;
}

static bool read_vulkan(PyObject *from, vks_present_info *info)
{
    uint64_t get_capabilities, by_fences, has_views, sizes_itself, can_name;
    if (!PyDict_Check(from))
        return vkpy_type_error(from, "vulkan", "a dict or None");
    if (!read_field(from, "physical_device", 1, UINT64_MAX, &info->physical_device) ||
        !read_field(from, "surface", 1, UINT64_MAX, &info->surface) ||
        !read_field(from, "get_capabilities", 1, UINT64_MAX, &get_capabilities) ||
        !read_u32(from, "queue_family", 0, UINT32_MAX, &info->queue_family) ||
        !read_u32(from, "format", 1, UINT32_MAX, &info->format) ||
        !read_u32(from, "color_space", 0, UINT32_MAX, &info->color_space) ||
        !read_u32(from, "usage", 1, UINT32_MAX, &info->usage) ||
        !read_u32(from, "composite_alpha", 1, UINT32_MAX, &info->composite_alpha) ||
        !read_u32(from, "present_mode", 0, UINT32_MAX, &info->present_mode) ||
        !read_field(from, "by_fences", 0, 1, &by_fences) || !read_field(from, "has_views", 0, 1, &has_views) ||
        !read_field(from, "sizes_itself", 0, 1, &sizes_itself) || !read_field(from, "can_name", 0, 1, &can_name) ||
        !read_modes(from, info))
        return false;
    info->get_capabilities = (void *)(uintptr_t)get_capabilities;
    info->policy = by_fences ? VKS_PRESENTS_BY_FENCES : VKS_PRESENTS_BY_ACQUIRES;
    info->has_views = has_views != 0;
    info->sizes_itself = sizes_itself != 0;
    info->can_name = can_name != 0;
    return true;
}

static bool create(vkpy_swapchain *self, vkpy_device *device, PyObject *frame_type, PyObject *options, PyObject *vulkan)
{
    vks_present_info vulkan_info = {0};
    vks_swapchain_info info = {.device = device->core};
    if (!read_u32(options, "width", 0, INT32_MAX, &info.width) ||
        !read_u32(options, "height", 0, INT32_MAX, &info.height) ||
        !read_u32(options, "image_count", 1, VKS_SWAPCHAIN_IMAGES, &info.image_count) ||
        !read_u32(options, "frames_in_flight", 1, 16, &info.frames_in_flight) ||
        !read_u32(options, "retired_limit", 1, 1024, &info.retired_limit) ||
        !read_field(options, "proof_deadline", 0, UINT64_MAX / 4, &info.proof_deadline) ||
        !read_field(options, "fence_deadline", 0, UINT64_MAX / 4, &info.fence_deadline))
        return false;
    if (vulkan != NULL && vulkan != Py_None) {
        if (!read_vulkan(vulkan, &vulkan_info))
            return false;
        info.vulkan = &vulkan_info;
        self->asks_server = !vulkan_info.sizes_itself;
    }
    vks_swapchain *core;
    vks_status status;
    Py_BEGIN_ALLOW_THREADS
    status = vks_swapchain_create(&info, &core);
    Py_END_ALLOW_THREADS
    if (status != VKS_OK) {
        vkpy_raise(status, "Device.create_swapchain");
        return false;
    }
    self->device = (vkpy_device *)Py_NewRef((PyObject *)device);
    self->frame_type = (PyTypeObject *)Py_NewRef(frame_type);
    self->core = core; /* last, because other threads may call it from here on */
    return true;
}

static int swapchain_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"device", "frame_type", "options", "vulkan", NULL};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *device_object, *frame_type, *options, *vulkan = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO!|O:Swapchain", names, &device_object, &frame_type,
                                     &PyDict_Type, &options, &vulkan))
        return -1;
    vkpy_device *device = vkpy_device_argument(device_object, "device");
    if (device == NULL)
        return -1;
    if (!PyType_Check(frame_type) || !PyType_IsSubtype((PyTypeObject *)frame_type, vkpy_frame_type)) {
        vkpy_type_error(frame_type, "frame_type", "a subclass of _native.Frame");
        return -1;
    }
    if (self->initialised)
        return vkpy_raise_initialised("Swapchain");
    self->initialised = true; /* before the GIL is released in create() */
    self->initialised = create(self, device, frame_type, options, vulkan);
    return self->initialised ? 0 : -1;
}

/* ---- destruction ------------------------------------------------------------------------------
 */

static int swapchain_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->device);
    Py_VISIT((PyObject *)self->frame_type);
    Py_VISIT(self->acquired);
    Py_VISIT(self->presenting);
    Py_VISIT(self->check_window);
    return 0;
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
    vkpy_dealloc_begin(object, &self->weakrefs, true);
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

static PyObject *swapchain_close(PyObject *object, PyObject *ignored)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    (void)ignored;
    vks_status status;
    VKPY_LIVE(self);
    self->is_closed = true;
    VKPY_BLOCKING(status, vks_swapchain_try_close(self->core));
    if (status != VKS_OK)
        return vkpy_raise(status, "Swapchain.close");
    swapchain_clear(object);
    Py_RETURN_NONE;
}

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

/* Frequent calls keep the GIL if they do not wait. They may wait for an engine's lock that is a
 * Python callable, and for a window system that does not reply (Mesa 22 asks X11 in each
 * vkAcquireNextImageKHR). */
static vks_status try_acquire(vkpy_swapchain *self, vks_frame *frame)
{
    bool may_wait = self->device->queue_lock != NULL || self->asks_server;
    return may_wait ? VKS_TIMEOUT : vks_swapchain_try_acquire(self->core, frame);
}

/* A long wait checks at intervals whether the window still exists, because not every driver reports
 * it. */
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
        if (status == VKS_INTERRUPTED && self->check_window != NULL && vks_now() - checked > CHECK_INTERVAL_NS) {
            PyObject *result = PyObject_CallNoArgs(self->check_window);
            if (result == NULL)
                return VKS_INTERRUPTED;
            Py_DECREF(result);
            checked = vks_now();
        }
    } while (status == VKS_INTERRUPTED && PyErr_CheckSignals() == 0);
    return status;
}

static vks_status acquire_frame(vkpy_swapchain *self, uint64_t timeout, vks_frame *frame)
{
    vks_status status = try_acquire(self, frame);
    return VKPY_UNLIKELY(status == VKS_TIMEOUT) ? wait_for_frame(self, timeout, frame) : status;
}

/* Raises with the core's text, or, if that only repeats the timeout, with the call's name. */
static PyObject *raise_not_acquired(vks_status status, const char *call, uint64_t timeout)
{
    const vks_error *error = vks_last_error();
    if (status == VKS_TIMEOUT && (error->status != VKS_TIMEOUT || !error->text[0]))
        return vkpy_raise_timeout(call, timeout);
    return vkpy_raise(status, call);
}

/* Returns a new Frame whose image has its Surface. NULL: raised. None: another thread resized the
 * swapchain meanwhile. `acquired` is called with the frame, unless it is NULL. */
static PyObject *wrap_frame(vkpy_swapchain *self, const vks_frame *frame, PyObject *acquired)
{
    PyObject *made = vkpy_frame_new(self, frame);
    if (made == NULL) {
        vks_swapchain_drop(self->core, frame);
        return NULL;
    }
    if (VKPY_UNLIKELY(!vkpy_frame_is_adopted(self, frame))) {
        int adopted = vkpy_frame_adopt(self, frame);
        if (adopted <= 0)
            Py_CLEAR(made); /* which drops the frame */
        if (adopted == 0)
            return Py_NewRef(Py_None);
    }
    if (made != NULL && VKPY_UNLIKELY(acquired != NULL)) {
        PyObject *result = PyObject_CallFunctionObjArgs(acquired, made, NULL);
        if (result == NULL)
            Py_CLEAR(made);
        Py_XDECREF(result);
    }
    return made;
}

static bool renew_offscreen(vkpy_swapchain *self, const vks_frame *wanted)
{
    PyObject *made = PyObject_CallMethod((PyObject *)self, "_renew_offscreen", "II", (unsigned)wanted->width,
                                         (unsigned)wanted->height);
    Py_XDECREF(made);
    return made != NULL;
}

/* `timeout_object` is None or the source of `timeout`. */
static PyObject *acquire(vkpy_swapchain *self, PyObject *timeout_object, uint64_t timeout)
{
    vks_frame frame;
    vks_clear_error();
    vks_status status = acquire_frame(self, timeout, &frame);
    while (VKPY_UNLIKELY(status == VKS_OUTDATED)) {
        if (!renew_offscreen(self, &frame))
            return NULL;
        status = acquire_frame(self, timeout, &frame);
    }
    if (VKPY_UNLIKELY(status == VKS_HIDDEN))
        return PyObject_CallMethod((PyObject *)self, "_hidden_frame", "O", timeout_object);
    if (VKPY_UNLIKELY(status != VKS_OK))
        return raise_not_acquired(status, "Swapchain.acquire", timeout);
    PyObject *made = wrap_frame(self, &frame, self->acquired);
    if (VKPY_UNLIKELY(made == Py_None)) {
        Py_DECREF(made);
        return acquire(self, timeout_object, timeout);
    }
    return made;
}

static PyObject *swapchain_acquire(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain.acquire", 1, 0, 1, {"timeout"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[1];
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[0], &timeout))
        return NULL;
    return acquire(self, values[0] == NULL ? Py_None : values[0], timeout);
}

/* Returns a Frame for capture() to read and close. None: the swapchain was resized meanwhile. */
static PyObject *swapchain_acquire_shown(PyObject *object, PyObject *timeout_object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    uint64_t timeout;
    vks_frame frame;
    VKPY_LIVE(self);
    if (!vkpy_timeout(timeout_object, &timeout))
        return NULL;
    vks_clear_error();
    uint64_t deadline = vkpy_deadline(timeout);
    vks_status status;
    VKPY_BLOCKING(status, vks_swapchain_acquire_shown(self->core, deadline, &frame));
    return status == VKS_OK ? wrap_frame(self, &frame, NULL) : raise_not_acquired(status, "Swapchain.capture", timeout);
}

/* ---- present ----------------------------------------------------------------------------------------------------- */

static PyObject *present_frame(vkpy_swapchain *self, vkpy_frame *frame)
{
    vks_status status;
    if (VKPY_UNLIKELY(self->presenting != NULL)) {
        PyObject *result = PyObject_CallFunctionObjArgs(self->presenting, (PyObject *)frame, NULL);
        if (result == NULL)
            return NULL;
        Py_DECREF(result);
    }
    uint64_t deadline = vks_now() + VKS_HELD_FRAME_NS;
    /* without the GIL, because some drivers wait for the rendering, or for the display */
    VKPY_BLOCKING(status, vks_swapchain_present(self->core, &frame->core, deadline));
    frame->is_over = status == VKS_OK || status == VKS_SURFACE_LOST;
    return vkpy_none_or_raise(status, "Swapchain.present");
}

static PyObject *swapchain_present(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain.present", 1, 1, 1, {"frame"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[1];
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    vkpy_frame *frame = vkpy_frame_argument(self, values[0]);
    if (frame == NULL)
        return NULL;
    if (VKPY_UNLIKELY(frame->is_hidden)) {
        frame->is_over = true;
        Py_RETURN_NONE;
    }
    return present_frame(self, frame);
}

/* ---- a whole frame in one call ----------------------------------------------------------------------------------- */

static PyObject *run(vkpy_swapchain *self, PyObject *prepared, vkpy_frame *frame)
{
    PyObject *commands = vkpy_prepared_commands(prepared, &frame->core);
    PyObject *submission = commands == NULL ? NULL : vkpy_submit((PyObject *)self->device, &commands, 1, NULL);
    Py_XDECREF(commands);
    if (submission == NULL)
        return NULL;
    Py_DECREF(submission);
    return present_frame(self, frame);
}

static PyObject *swapchain_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._run", 2, 1, 2, {"prepared", "timeout"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[2], *prepared;
    uint64_t timeout;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_timeout(values[1], &timeout))
        return NULL;
    prepared = values[0];
    if (!PyObject_TypeCheck(prepared, vkpy_prepared_type)) {
        vkpy_type_error(prepared, "prepared", "the result of swapchain.prepare()");
        return NULL;
    }
    PyObject *frame = acquire(self, values[1] == NULL ? Py_None : values[1], timeout);
    if (frame == NULL)
        return NULL;
    PyObject *result;
    if (VKPY_UNLIKELY(((vkpy_frame *)frame)->is_hidden))
        result = Py_NewRef(Py_None); /* a hidden frame has no pixels to draw */
    else
        result = run(self, prepared, (vkpy_frame *)frame);
    Py_DECREF(frame); /* a frame that was not presented is returned */
    return result;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static PyObject *swapchain_resize(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._resize", 2, 2, 2, {"width", "height"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[2];
    long long width, height;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "width", 0, INT32_MAX, &width) ||
        !vkpy_integer(values[1], "height", 0, INT32_MAX, &height))
        return NULL;
    return vkpy_none_or_raise(vks_swapchain_resize(self->core, (uint32_t)width, (uint32_t)height), "Swapchain.resize");
}

static PyObject *swapchain_set_mode(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._set_mode", 2, 2, 2, {"present_mode", "pace"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[2];
    long long mode;
    uint64_t pace;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "present_mode", 0, UINT32_MAX, &mode) || !vkpy_u64(values[1], "pace", &pace))
        return NULL;
    vks_swapchain_set_pace(self->core, pace);
    return vkpy_none_or_raise(vks_swapchain_set_mode(self->core, (uint32_t)mode), "Swapchain.present_mode");
}

static PyObject *swapchain_retarget(PyObject *object, PyObject *surface_object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    uint64_t surface;
    VKPY_LIVE(self);
    if (!vkpy_u64(surface_object, "surface", &surface))
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status, vks_swapchain_retarget(self->core, surface));
    return vkpy_none_or_raise(status, "Swapchain.retarget");
}

static PyObject *swapchain_lose(PyObject *object, PyObject *ignored)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_swapchain_lose(self->core);
    Py_RETURN_NONE;
}

/* Returns whether there is a current swapchain. False: the window has no pixels now. */
static PyObject *swapchain_prepare(PyObject *object, PyObject *ignored)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    vks_status status;
    (void)ignored;
    VKPY_LIVE(self);
    vks_clear_error();
    VKPY_BLOCKING(status, vks_swapchain_prepare(self->core, VKS_FOREVER));
    if (status == VKS_OK || status == VKS_HIDDEN)
        return PyBool_FromLong(status == VKS_OK);
    return vkpy_raise(status, "Device.create_swapchain");
}

static bool read_place(PyObject *const *values, long long *index, uint64_t *generation)
{
    return vkpy_integer(values[0], "index", 0, VKS_SWAPCHAIN_IMAGES - 1, index) &&
           vkpy_u64(values[1], "generation", generation);
}

static PyObject *swapchain_image(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._image", 2, 2, 2, {"index", "generation"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[2];
    long long index;
    uint64_t generation;
    vks_frame_image image = {0};
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_place(values, &index, &generation))
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status, vks_swapchain_image(self->core, (uint32_t)index, generation, &image));
    if (status != VKS_OK)
        return vkpy_raise(status, "Swapchain");
    return Py_BuildValue("(KKII)", (unsigned long long)image.image, (unsigned long long)image.view,
                         (unsigned)image.width, (unsigned)image.height);
}

/* For CommandList._compile(), which pins the image's generation. */
static bool note_swapchain(vkpy_surface *surface, PyObject *swapchain, uint64_t generation)
{
    PyObject *reference = PyWeakref_NewRef(swapchain, NULL);
    if (reference == NULL)
        return false;
    Py_XDECREF(surface->swapchain);
    surface->swapchain = reference;
    surface->generation = generation;
    return true;
}

static PyObject *swapchain_attach(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._attach", 3, 3, 3, {"index", "generation", "surface"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[3];
    long long index;
    uint64_t generation;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_place(values, &index, &generation))
        return NULL;
    if (!PyObject_TypeCheck(values[2], vkpy_surface_type) || ((vkpy_surface *)values[2])->core == NULL) {
        vkpy_type_error(values[2], "surface", "a Surface");
        return NULL;
    }
    vks_status status;
    VKPY_BLOCKING(status,
                  vks_swapchain_attach(self->core, (uint32_t)index, generation, ((vkpy_surface *)values[2])->core));
    if (status == VKS_OK && !note_swapchain((vkpy_surface *)values[2], object, generation))
        return NULL;
    if (status == VKS_OK)
        vkpy_frame_note_adopted(self, (uint32_t)index, generation);
    return vkpy_none_or_raise(status, "Swapchain");
}

static PyObject *swapchain_new_offscreen(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                         PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._new_offscreen", 3, 3, 3, {"width", "height", "image_count"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[3];
    long long width, height, n;
    uint64_t generation = 0;
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "width", 1, INT32_MAX, &width) ||
        !vkpy_integer(values[1], "height", 1, INT32_MAX, &height) ||
        !vkpy_integer(values[2], "image_count", 1, VKS_SWAPCHAIN_IMAGES, &n))
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status,
                  vks_swapchain_new_offscreen(self->core, (uint32_t)width, (uint32_t)height, (uint32_t)n, &generation));
    return status != VKS_OK ? vkpy_raise(status, "Swapchain") : PyLong_FromUnsignedLongLong(generation);
}

static PyObject *swapchain_take_semaphores(PyObject *object, PyObject *frame_object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    uint64_t acquired, rendered;
    VKPY_LIVE(self);
    vkpy_frame *frame = vkpy_frame_argument(self, frame_object);
    if (frame == NULL)
        return NULL;
    vks_status status;
    VKPY_BLOCKING(status, vks_swapchain_take_semaphores(self->core, &frame->core, &acquired, &rendered));
    if (status != VKS_OK)
        return vkpy_raise(status, "Frame");
    return Py_BuildValue("(KK)", (unsigned long long)acquired, (unsigned long long)rendered);
}

static bool read_hook(PyObject *value, const char *name, PyObject **out)
{
    if (value == NULL)
        return true;
    if (value != Py_None && !PyCallable_Check(value))
        return vkpy_type_error(value, name, "a callable or None");
    PyObject *old = *out;
    *out = value == Py_None ? NULL : Py_NewRef(value);
    Py_XDECREF(old);
    return true;
}

static PyObject *swapchain_set_hooks(PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"Swapchain._set_hooks", 0, 0, 3, {"acquired", "presenting", "look"}, {NULL}};
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    PyObject *values[3];
    VKPY_LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !read_hook(values[0], "acquired", &self->acquired) || !read_hook(values[1], "presenting", &self->presenting) ||
        !read_hook(values[2], "look", &self->check_window))
        return NULL;
    Py_RETURN_NONE;
}

static const char PIN[] = "vkshare pin";

static void unpin(PyObject *pin)
{
    PyObject *swapchain = PyCapsule_GetContext(pin);
    VKPY_SHORT(((vkpy_swapchain *)swapchain)->device, vks_swapchain_unpin(PyCapsule_GetPointer(pin, PIN)));
    Py_DECREF(swapchain);
}

/* A pin is an object, so that Ctrl-C between this call and the next leaves none behind. */
static PyObject *swapchain_pin(PyObject *object, PyObject *generation_object)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    uint64_t generation;
    VKPY_LIVE(self);
    if (!vkpy_u64(generation_object, "generation", &generation))
        return NULL;
    PyObject *pin = PyCapsule_New(self->core, PIN, NULL);
    if (pin == NULL)
        return NULL;
    vks_status status;
    VKPY_SHORT(self->device, status = vks_swapchain_pin(self->core, generation));
    if (status != VKS_OK) {
        Py_DECREF(pin);
        return vkpy_raise(status, "Frame");
    }
    PyCapsule_SetContext(pin, Py_NewRef(object));
    PyCapsule_SetDestructor(pin, unpin);
    return pin;
}

static PyObject *swapchain_counters(PyObject *object, PyObject *ignored)
{
    vkpy_swapchain *self = (vkpy_swapchain *)object;
    vks_swapchain_statistics s;
    (void)ignored;
    VKPY_LIVE(self);
    Py_BEGIN_ALLOW_THREADS
    vks_swapchain_get_statistics(self->core, &s);
    Py_END_ALLOW_THREADS
#define COUNTERS(X)                                                                                                    \
    X(generation)                                                                                                      \
    X(frames)                                                                                                          \
    X(lost_frames)                                                                                                     \
    X(swapchains)                                                                                                      \
    X(retired)                                                                                                         \
    X(most_alive)                                                                                                      \
    X(recreated)                                                                                                       \
    X(resize_waits)                                                                                                    \
    X(given_up)                                                                                                        \
    X(semaphores)                                                                                                      \
    X(pooled_semaphores)                                                                                               \
    X(fences)                                                                                                          \
    X(pooled_fences)                                                                                                   \
    X(history)                                                                                                         \
    X(quarantined)                                                                                                     \
    X(moved) X(acquire_waits) X(image_count) X(acquired) X(width) X(height) X(present_mode) X(shown) X(is_current)
    PyObject *counters = PyDict_New();
#define PUT(name)                                                                                                      \
    if (counters != NULL) {                                                                                            \
        PyObject *value = PyLong_FromUnsignedLongLong(s.name);                                                         \
        if (value == NULL || PyDict_SetItemString(counters, #name, value) < 0)                                         \
            Py_CLEAR(counters);                                                                                        \
        Py_XDECREF(value);                                                                                             \
    }
    COUNTERS(PUT)
#undef PUT
#undef COUNTERS
    return counters;
}

VKPY_GETTER(swapchain_get_device, vkpy_swapchain, Py_NewRef((PyObject *)self->device))
VKPY_GETTER(swapchain_is_closed, vkpy_swapchain, PyBool_FromLong(self->is_closed))

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"acquire", VKPY_FASTCALL(swapchain_acquire), VKPY_FAST,
     "acquire($self, timeout=None)\n--\n\nThe next frame to draw."},
    {"present", VKPY_FASTCALL(swapchain_present), VKPY_FAST,
     "present($self, frame)\n--\n\nShows the frame, behind all that was submitted to it."},
    {"_run", VKPY_FASTCALL(swapchain_run), VKPY_FAST,
     "_run($self, prepared, timeout=None)\n--\n\nAcquires, submits and presents one frame."},
    {"_acquire_shown", swapchain_acquire_shown, METH_O, NULL},
    {"_pin", swapchain_pin, METH_O, NULL},
    {"_resize", VKPY_FASTCALL(swapchain_resize), VKPY_FAST, NULL},
    {"_set_mode", VKPY_FASTCALL(swapchain_set_mode), VKPY_FAST, NULL},
    {"_retarget", swapchain_retarget, METH_O, NULL},
    {"_lose", swapchain_lose, METH_NOARGS, NULL},
    {"_prepare", swapchain_prepare, METH_NOARGS, NULL},
    {"_image", VKPY_FASTCALL(swapchain_image), VKPY_FAST, NULL},
    {"_attach", VKPY_FASTCALL(swapchain_attach), VKPY_FAST, NULL},
    {"_new_offscreen", VKPY_FASTCALL(swapchain_new_offscreen), VKPY_FAST, NULL},
    {"_take_semaphores", swapchain_take_semaphores, METH_O, NULL},
    {"_set_hooks", VKPY_FASTCALL(swapchain_set_hooks), VKPY_FAST, NULL},
    {"_close", swapchain_close, METH_NOARGS, NULL},
    {"_counters", swapchain_counters, METH_NOARGS, "_counters($self)\n--\n\nThe core's statistics, as a dict."},
    {NULL, NULL, 0, NULL},
};

VKPY_ADDRESS_GETTER(swapchain_address, vkpy_swapchain)

static PyGetSetDef properties[] = {
    VKPY_ADDRESS(swapchain_address),
    {"device", swapchain_get_device, NULL, "The device whose queue presents.", NULL},
    {"is_closed", swapchain_is_closed, NULL, "Whether close() ran.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_swapchain), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"The frames of a window or of a headless target: the base of vkshare.Swapchain."},
    {Py_tp_init, (void *)swapchain_init},
    {Py_tp_dealloc, (void *)swapchain_dealloc},
    {Py_tp_traverse, (void *)swapchain_traverse},
    {Py_tp_clear, (void *)swapchain_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_swapchain_spec = {
    "vkshare._native.Swapchain",
    sizeof(vkpy_swapchain),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
