/* Drawable and Recorder: what the backends give to the core, so that lists are compiled in C. */
#include "vkpy.h"

/* ---- Drawable ---------------------------------------------------------------------------------------------------- */

/* An argument that is not given (NULL) leaves *out unchanged. */
static bool read_u32(PyObject *object, const char *name, long long least, uint32_t *out)
{
    long long value;
    if (object == NULL)
        return true;
    bool good = vkpy_integer(object, name, least, UINT32_MAX, &value);
    *out = good ? (uint32_t)value : 0;
    return good;
}

static bool read_handle(PyObject *object, const char *name, uint64_t *out)
{
    return object == NULL || vkpy_u64(object, name, out);
}

static int drawable_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"width",          "height", "format", "usage",    "features", "is_mappable",
                            "is_presentable", "image",  "view",   "raw_view", NULL};
    vkpy_drawable *self = (vkpy_drawable *)object;
    vks_drawable_info info = {0};
    PyObject *v[10] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOOOOOOOO:Drawable", names, &v[0], &v[1], &v[2], &v[3],
                                     &v[4], &v[5], &v[6], &v[7], &v[8], &v[9]))
        return -1;
    if (v[0] == NULL || v[1] == NULL || v[2] == NULL || v[3] == NULL) {
        PyErr_SetString(PyExc_TypeError, "Drawable() needs the arguments width, height, format and usage");
        return -1;
    }
    if (!read_u32(v[0], names[0], 1, &info.width) || !read_u32(v[1], names[1], 1, &info.height) ||
        !read_u32(v[2], names[2], 1, &info.format) || !read_u32(v[3], names[3], 0, &info.usage) ||
        !read_u32(v[4], names[4], 0, &info.features) || !vkpy_bool(v[5], &info.is_mappable) ||
        !vkpy_bool(v[6], &info.is_presentable) || !read_handle(v[7], names[7], &info.image) ||
        !read_handle(v[8], names[8], &info.view) || !read_handle(v[9], names[9], &info.raw_view))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Drawable");
    vks_status status = vks_drawable_create(&info, &self->core);
    if (status != VKS_OK)
        vkpy_raise(status, "Drawable");
    return status == VKS_OK ? 0 : -1;
}

static void drawable_dealloc(PyObject *object)
{
    vkpy_drawable *self = (vkpy_drawable *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL)
        vks_drawable_unref(self->core);
    vkpy_dealloc_free(object);
}

static PyObject *drawable_close(PyObject *object, PyObject *ignored)
{
    vkpy_drawable *self = (vkpy_drawable *)object;
    (void)ignored;
    VKPY_LIVE(self);
    vks_drawable_close(self->core);
    Py_RETURN_NONE;
}

static PyMethodDef drawable_methods[] = {
    {"close", drawable_close, METH_NOARGS,
     "close($self)\n--\n\nCall before the image is destroyed: no further command uses it. Idempotent."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef drawable_members[] = {VKPY_WEAKLIST(vkpy_drawable), {NULL, 0, 0, 0, NULL}};

static PyType_Slot drawable_slots[] = {
    {Py_tp_doc, (void *)"The properties and Vulkan handles of an image, as commands use it."},
    {Py_tp_init, (void *)drawable_init},
    {Py_tp_dealloc, (void *)drawable_dealloc},
    {Py_tp_methods, drawable_methods},
    {Py_tp_members, drawable_members},
    {0, NULL},
};

PyType_Spec vkpy_drawable_spec = {
    "vkshare._native.Drawable", sizeof(vkpy_drawable), 0, Py_TPFLAGS_DEFAULT, drawable_slots,
};

PyObject *vkpy_surface_set_drawable(PyObject *object, PyObject *drawable)
{
    vkpy_surface *self = (vkpy_surface *)object;
    VKPY_LIVE(self);
    if (!PyObject_TypeCheck(drawable, vkpy_drawable_type)) {
        vkpy_type_error(drawable, "drawable", "a Drawable");
        return NULL;
    }
    vks_drawable *core = ((vkpy_drawable *)drawable)->core;
    if (core == NULL)
        return vkpy_raise_uninitialised(drawable);
    if (self->drawable != NULL)
        return vkpy_raise_named("InvalidCallError", "the Surface has a Drawable already");
    vks_drawable_ref(core);
    self->drawable = core;
    Py_RETURN_NONE;
}

/* ---- Recorder ---------------------------------------------------------------------------------------------------- */

static int create(vkpy_recorder *self, const vks_recorder_info *info, uint32_t subpixel_bits)
{
    if (info->device != 0) {
        vks_status status = vks_recorder_create(info, &self->core);
        if (status != VKS_OK) {
            vkpy_raise(status, "Recorder");
            return -1;
        }
    }
    self->subpixel_bits = subpixel_bits;
    return 0;
}

static bool read_host_types(PyObject *object, uint32_t out[2])
{
    if (object == NULL)
        return true;
    if (!PyTuple_Check(object) || PyTuple_Size(object) != 2)
        return vkpy_type_error(object, "host_types", "a tuple of two masks of memory types");
    return read_u32(PyTuple_GetItem(object, 0), "host_types", 0, &out[0]) &&
           read_u32(PyTuple_GetItem(object, 1), "host_types", 0, &out[1]);
}

static int recorder_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"subpixel_bits",
                            "get_device_proc_addr",
                            "device",
                            "family",
                            "transfer_family",
                            "layout",
                            "set_layout",
                            "nearest",
                            "linear",
                            "tables",
                            "host_types",
                            "has_names",
                            NULL};
    vkpy_recorder *self = (vkpy_recorder *)object;
    vks_recorder_info info = {.transfer_family = UINT32_MAX};
    long long subpixel_bits = 8;
    uint64_t proc_addr = 0;
    PyObject *v[12] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOOOOOOOOOO:Recorder", names, &v[0], &v[1], &v[2], &v[3],
                                     &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11]))
        return -1;
    if ((v[0] != NULL && !vkpy_integer(v[0], names[0], 4, 8, &subpixel_bits)) ||
        !read_handle(v[1], names[1], &proc_addr) || !read_handle(v[2], names[2], &info.device) ||
        !read_u32(v[3], names[3], 0, &info.family) || !read_u32(v[4], names[4], 0, &info.transfer_family) ||
        !read_handle(v[5], names[5], &info.layout) || !read_handle(v[6], names[6], &info.set_layout) ||
        !read_handle(v[7], names[7], &info.nearest) || !read_handle(v[8], names[8], &info.linear) ||
        !read_handle(v[9], names[9], &info.tables) || !read_host_types(v[10], info.host_types) ||
        !vkpy_bool(v[11], &info.has_names))
        return -1;
    if (self->subpixel_bits != 0)
        return vkpy_raise_initialised("Recorder");
    if (info.device != 0 && proc_addr == 0) {
        PyErr_SetString(PyExc_ValueError, "get_device_proc_addr is 0, allowed is the address of the device's function");
        return -1;
    }
    info.get_device_proc_addr = (void *)(uintptr_t)proc_addr;
    return create(self, &info, (uint32_t)subpixel_bits);
}

static void recorder_dealloc(PyObject *object)
{
    vkpy_recorder *self = (vkpy_recorder *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    if (self->core != NULL)
        vks_recorder_unref(self->core);
    vkpy_dealloc_free(object);
}

#define LIVE(self)                                                                                                     \
    if (VKPY_UNLIKELY((self)->subpixel_bits == 0))                                                                     \
    return vkpy_raise_uninitialised((PyObject *)(self))

static PyObject *recorder_set_pipeline(PyObject *object, PyObject *const *arguments, Py_ssize_t count,
                                       PyObject *keywords)
{
    static vkpy_signature signature = {"Recorder.set_pipeline", 3, 3, 3, {"number", "format", "pipeline"}, {NULL}};
    vkpy_recorder *self = (vkpy_recorder *)object;
    PyObject *values[3];
    long long number, format;
    uint64_t pipeline;
    LIVE(self);
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "number", 0, VKS_PIPELINES - 1, &number) ||
        !vkpy_integer(values[1], "format", 1, VKS_PIPELINE_FORMATS - 1, &format) ||
        !vkpy_u64(values[2], "pipeline", &pipeline))
        return NULL;
    if (self->core == NULL)
        return vkpy_raise_named("InvalidCallError", "a Recorder of the CPU backend has no pipelines");
    return vkpy_none_or_raise(vks_recorder_set_pipeline(self->core, (uint32_t)number, (uint32_t)format, pipeline),
                              "Recorder.set_pipeline");
}

static PyObject *recorder_close(PyObject *object, PyObject *ignored)
{
    vkpy_recorder *self = (vkpy_recorder *)object;
    (void)ignored;
    LIVE(self);
    if (self->core != NULL)
        vks_recorder_close(self->core);
    Py_RETURN_NONE;
}

static PyObject *recorder_statistics(PyObject *object, PyObject *ignored)
{
    vkpy_recorder *self = (vkpy_recorder *)object;
    vks_recorder_statistics s = {0};
    (void)ignored;
    LIVE(self);
    if (self->core != NULL)
        vks_recorder_get_statistics(self->core, &s);
    return Py_BuildValue("{s:I,s:I,s:I,s:K}", "made", s.made, "unused", s.unused, "sets", s.sets, "vertex_bytes",
                         (unsigned long long)s.vertex_bytes);
}

static PyMethodDef recorder_methods[] = {
    {"set_pipeline", VKPY_FASTCALL(recorder_set_pipeline), VKPY_FAST,
     "set_pipeline($self, number, format, pipeline)\n--\n\nRegisters a VkPipeline, which stays its maker's."},
    {"close", recorder_close, METH_NOARGS,
     "close($self)\n--\n\nDestroys what it made: nothing of it runs any more. Idempotent."},
    {"statistics", recorder_statistics, METH_NOARGS, "statistics($self)\n--\n\nHow much it made, as a dict."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef recorder_members[] = {VKPY_WEAKLIST(vkpy_recorder), {NULL, 0, 0, 0, NULL}};

static PyType_Slot recorder_slots[] = {
    {Py_tp_doc, (void *)"Compiles the command lists of one device."},
    {Py_tp_init, (void *)recorder_init},
    {Py_tp_dealloc, (void *)recorder_dealloc},
    {Py_tp_methods, recorder_methods},
    {Py_tp_members, recorder_members},
    {0, NULL},
};

PyType_Spec vkpy_recorder_spec = {
    "vkshare._native.Recorder", sizeof(vkpy_recorder), 0, Py_TPFLAGS_DEFAULT, recorder_slots,
};

PyObject *vkpy_device_set_recorder(PyObject *object, PyObject *recorder)
{
    vkpy_device *self = (vkpy_device *)object;
    VKPY_LIVE(self);
    if (!PyObject_TypeCheck(recorder, vkpy_recorder_type)) {
        vkpy_type_error(recorder, "recorder", "a Recorder");
        return NULL;
    }
    const vkpy_recorder *given = (const vkpy_recorder *)recorder;
    LIVE(given);
    if (self->recorder == NULL) /* else two threads made the first list at once */
        self->recorder = Py_NewRef(recorder);
    Py_RETURN_NONE;
}
