/* Recording: a CommandList that records. */
#include "vkpy_record.h"

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void drop(vkpy_recording *self)
{
    vks_recording *core = self->core;
    self->core = NULL;
    if (core != NULL)
        VKPY_SHORT(self->base.device, vks_recording_destroy(core)); /* before the surfaces, which own more */
    Py_CLEAR(self->used);
}

static int recording_traverse(PyObject *object, visitproc visit, void *arg)
{
    vkpy_recording *self = (vkpy_recording *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT((PyObject *)self->base.device);
    Py_VISIT(self->base.surfaces);
    Py_VISIT(self->used);
    return 0;
}

static void recording_dealloc(PyObject *object)
{
    vkpy_recording *self = (vkpy_recording *)object;
    vkpy_dealloc_begin(object, &self->base.weakrefs, true);
    vkpy_commands_forget(&self->base);
    drop(self);
    Py_XDECREF((PyObject *)self->base.device);
    vkpy_dealloc_free(object);
}

static Py_ssize_t recording_length(PyObject *object)
{
    const vkpy_recording *self = (const vkpy_recording *)object;
    return self->core == NULL ? 0 : (Py_ssize_t)vks_recording_length(self->core);
}

static int recording_is_true(PyObject *object)
{
    (void)object;
    return 1; /* an empty list is still a list to submit */
}

/* Before a command is appended; arguments may have run any Python code. */
static bool open_list(vkpy_recording *self)
{
    if (self->is_closed)
        return vkpy_raise_named("ClosedError", "this CommandList was closed; record another with device.record()") !=
               NULL;
    if (self->core != NULL)
        return true;
    PyObject *used = PyList_New(0);
    self->core = used == NULL ? NULL : vks_recording_create();
    if (self->core == NULL) {
        Py_XDECREF(used);
        return PyErr_Occurred() != NULL ? false : PyErr_NoMemory() != NULL;
    }
    self->used = used;
    return true;
}

static PyObject *refused(vks_status status)
{
    if (status != VKS_BAD_VALUE)
        return vkpy_raise(status, "CommandList");
    PyErr_SetString(PyExc_ValueError, vks_last_error()->text);
    vks_clear_error();
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

typedef struct operand {
    PyObject *surface; /* owned */
    vks_operand core;
} operand;

typedef struct usage {
    const char *name;
    uint32_t bit;
} usage;

static const usage render = {"render", VKS_USE_RENDER}, sample = {"sample", VKS_USE_SAMPLE},
                   copy = {"copy", VKS_USE_COPY};

static bool is_usable(const vkpy_recording *self, PyObject *object, const usage *needed)
{
    const vkpy_surface *surface = (const vkpy_surface *)object;
    return PyObject_TypeCheck(object, vkpy_surface_type) && surface->core != NULL && surface->drawable != NULL &&
           surface->device == self->base.device && !vks_surface_is_closed(surface->core) &&
           (vks_drawable_get_info(surface->drawable)->usage & needed->bit);
}

/* Reads a Surface or a View. True: the caller has a reference. */
static bool read_operand(vkpy_recording *self, const char *name, PyObject *object, const usage *needed, operand *out)
{
    static PyObject *surface_name;
    if (surface_name == NULL && (surface_name = PyUnicode_InternFromString("surface")) == NULL)
        return false;
    PyObject *surface =
        PyObject_TypeCheck(object, vkpy_array_buffer_type) ? PyObject_GetAttr(object, surface_name) : Py_NewRef(object);
    if (surface != NULL && VKPY_UNLIKELY(!is_usable(self, surface, needed))) {
        Py_DECREF(surface);
        surface = PyObject_CallMethod((PyObject *)self, "_surface", "sOs", name, object, needed->name);
        if (surface != NULL && !is_usable(self, surface, needed)) {
            vkpy_raise_named("InvalidCallError", "%s has no image that commands can use: %R", name, surface);
            Py_CLEAR(surface);
        }
    }
    if (surface == NULL)
        return false;
    *out = (operand){surface, {((vkpy_surface *)surface)->core, ((vkpy_surface *)surface)->drawable}};
    return true;
}

static bool read_pair(vkpy_recording *self, const char *name, PyObject *source_object, const usage *source_needs,
                      PyObject *target_object, const usage *target_needs, operand *source, operand *target)
{
    if (!read_operand(self, name, source_object, source_needs, source) ||
        !read_operand(self, "target", target_object, target_needs, target))
        return false;
    if (source->core.surface != target->core.surface)
        return true;
    PyErr_Format(PyExc_ValueError, "%s and target are the same surface; go through a third one", name);
    return false;
}

static void drop_operands(operand *source, operand *target)
{
    if (source != NULL)
        Py_XDECREF(source->surface);
    Py_XDECREF(target->surface);
}

/* Keeps the surfaces that the recording uses since the last command. `source` may be NULL. */
static bool keep_used(vkpy_recording *self, const operand *source, const operand *target)
{
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(self->core, &n_uses);
    for (size_t i = (size_t)PyList_Size(self->used); i < n_uses; ++i) {
        const operand *found = uses[i].surface == target->core.surface ? target : source;
        if (PyList_Append(self->used, found->surface) < 0)
            return false;
    }
    return true;
}

/* The end of each method: what was compiled is out of date. */
static PyObject *appended(vkpy_recording *self, vks_status status, const operand *source, const operand *target)
{
    if (VKPY_UNLIKELY(status != VKS_OK))
        return refused(status);
    if (VKPY_UNLIKELY(!keep_used(self, source, target))) {
        self->is_closed = true; /* without memory for its surfaces it cannot be used */
        return NULL;
    }
    if (VKPY_UNLIKELY(self->base.core != NULL))
        vkpy_commands_forget(&self->base);
    return Py_NewRef((PyObject *)self);
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

#define ARGUMENTS PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords

static PyObject *record_clear(ARGUMENTS)
{
    static vkpy_signature signature = {"CommandList._clear", 2, 2, 2, {"target", "colour"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[2], *result = NULL;
    operand target = {NULL};
    float colour[4];
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (read_operand(self, "target", values[0], &copy, &target) && vkpy_read_colour(values[1], colour) &&
        open_list(self))
        result = appended(self, vks_recording_clear(self->core, target.core, colour), NULL, &target);
    drop_operands(NULL, &target);
    return result;
}

static PyObject *record_fill_rect(ARGUMENTS)
{
    static vkpy_signature signature = {"CommandList._fill_rect", 3, 3, 3, {"target", "rect", "colour"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[3], *result = NULL;
    operand target = {NULL};
    vks_rect rect;
    float colour[4];
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (read_operand(self, "target", values[0], &render, &target) && vkpy_read_rect("rect", values[1], NULL, &rect) &&
        vkpy_read_colour(values[2], colour) && open_list(self))
        result = appended(self, vks_recording_fill_rect(self->core, target.core, rect, colour), NULL, &target);
    drop_operands(NULL, &target);
    return result;
}

static bool have_one_format(const operand *source, const operand *target)
{
    if (vks_drawable_get_info(source->core.drawable)->format == vks_drawable_get_info(target->core.drawable)->format)
        return true;
    PyObject *from = PyObject_GetAttrString(source->surface, "format");
    PyObject *to = from == NULL ? NULL : PyObject_GetAttrString(target->surface, "format");
    if (to != NULL)
        PyErr_Format(PyExc_ValueError, "source has format %S, target %S; use blit()", from, to);
    Py_XDECREF(from);
    Py_XDECREF(to);
    return false;
}

static PyObject *record_copy(ARGUMENTS)
{
    static vkpy_signature signature = {"CommandList._copy", 4, 4, 4, {"source", "target", "source_rect", "at"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[4], *result = NULL;
    operand source = {NULL}, target = {NULL};
    vks_rect from;
    int32_t at[2];
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (read_pair(self, "source", values[0], &copy, values[1], &copy, &source, &target) &&
        have_one_format(&source, &target) && vkpy_read_rect("source_rect", values[2], source.core.drawable, &from) &&
        vkpy_read_integers("point", "at", values[3], 2, at) && open_list(self))
        result = appended(self, vks_recording_copy(self->core, source.core, target.core, from, at[0], at[1]), &source,
                          &target);
    drop_operands(&source, &target);
    return result;
}

static PyObject *record_blit(ARGUMENTS)
{
    static vkpy_signature signature = {
        "CommandList._blit", 5, 5, 5, {"source", "target", "source_rect", "target_rect", "filter"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[5], *result = NULL;
    operand source = {NULL}, target = {NULL};
    vks_rect from, to;
    bool linear;
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (read_pair(self, "source", values[0], &copy, values[1], &copy, &source, &target) &&
        vkpy_read_word("filter", values[4], "linear", "nearest", &linear) &&
        vkpy_read_rect("source_rect", values[2], source.core.drawable, &from) &&
        vkpy_read_rect("target_rect", values[3], target.core.drawable, &to) && open_list(self))
        result = appended(self, vks_recording_blit(self->core, source.core, target.core, from, to, linear), &source,
                          &target);
    drop_operands(&source, &target);
    return result;
}

static PyObject *record_composite(ARGUMENTS)
{
    static vkpy_signature signature = {
        "CommandList._composite", 5, 5, 5, {"source", "target", "at", "opacity", "alpha"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[5], *result = NULL;
    operand source = {NULL}, target = {NULL};
    int32_t at[2];
    float opacity;
    bool is_premultiplied;
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (vkpy_read_word("alpha", values[4], "premultiplied", "straight", &is_premultiplied) &&
        read_pair(self, "source", values[0], &sample, values[1], &render, &source, &target) &&
        vkpy_read_integers("point", "at", values[2], 2, at) && vkpy_read_opacity(values[3], &opacity) &&
        open_list(self))
        result = appended(
            self,
            vks_recording_composite(self->core, source.core, target.core, at[0], at[1], opacity, !is_premultiplied),
            &source, &target);
    drop_operands(&source, &target);
    return result;
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */

static PyObject *draw(vkpy_recording *self, PyObject *const *values, const operand *texture, const operand *target)
{
    vkpy_rows in;
    PyObject *result = NULL;
    bool linear;
    if (!vkpy_read_word("filter", values[3], "linear", "nearest", &linear))
        return NULL;
    if (vkpy_open_rows(values[1], texture->surface != NULL, &in) && open_list(self))
        result = appended(
            self,
            vks_recording_draw_triangles(self->core, target->core, in.data, in.count, in.floats, texture->core, linear),
            texture, target);
    vkpy_close_rows(&in);
    return result;
}

static PyObject *record_draw_triangles(ARGUMENTS)
{
    static vkpy_signature signature = {
        "CommandList._draw_triangles", 4, 4, 4, {"target", "vertices", "texture", "filter"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object;
    PyObject *values[4], *result = NULL;
    operand target = {NULL}, texture = {NULL};
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    bool good = values[2] == Py_None
                    ? read_operand(self, "target", values[0], &render, &target)
                    : read_pair(self, "texture", values[2], &sample, values[0], &render, &texture, &target);
    if (good)
        result = draw(self, values, &texture, &target);
    drop_operands(&texture, &target);
    return result;
}

/* ---- within the package ------------------------------------------------------------------------------------------ */

static PyObject *record_close(PyObject *object, PyObject *ignored)
{
    vkpy_recording *self = (vkpy_recording *)object;
    (void)ignored;
    VKPY_LIVE_BY(&self->base, device);
    self->is_closed = true;
    vkpy_commands_forget(&self->base);
    drop(self);
    Py_RETURN_NONE;
}

static PyObject *record_used(PyObject *object, PyObject *ignored)
{
    const vkpy_recording *self = (const vkpy_recording *)object;
    (void)ignored;
    return self->used == NULL ? PyTuple_New(0) : PyList_AsTuple(self->used);
}

typedef struct replacements {
    bool *keep;
    vks_operand *sources;
    PyObject **surfaces; /* of `sources`, without references */
} replacements;

/* Reads (keep, source) for each use. */
static bool read_replacements(vkpy_recording *self, const vkpy_recording *from, PyObject *uses, replacements *out)
{
    size_t n_uses = 0;
    const vks_use *used = from->core == NULL ? NULL : vks_recording_uses(from->core, &n_uses);
    (void)used;
    if (!PyTuple_Check(uses) || (size_t)PyTuple_Size(uses) != n_uses)
        return vkpy_type_error(uses, "uses", "a tuple of a (keep, source) pair for each use");
    for (size_t i = 0; i < n_uses; ++i) {
        PyObject *pair = PyTuple_GetItem(uses, (Py_ssize_t)i);
        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 ||
            !is_usable(self, PyTuple_GetItem(pair, 1),
                       &(usage){"any", vks_drawable_get_info(vks_recording_drawable(from->core, i))->usage}))
            return vkpy_type_error(pair, "uses", "a tuple of a (keep, source) pair for each use");
        const vkpy_surface *source = (const vkpy_surface *)PyTuple_GetItem(pair, 1);
        out->keep[i] = PyTuple_GetItem(pair, 0) == Py_True;
        out->sources[i] = (vks_operand){source->core, source->drawable};
        out->surfaces[i] = (PyObject *)source;
    }
    return true;
}

/* Finds the surface of each new use among the list's own and its replacements. */
static bool keep_replaced(vkpy_recording *self, const vkpy_recording *from, const replacements *made)
{
    size_t n_uses, n_from;
    const vks_use *uses = vks_recording_uses(self->core, &n_uses);
    const vks_use *theirs = vks_recording_uses(from->core, &n_from);
    for (size_t i = (size_t)PyList_Size(self->used); i < n_uses; ++i) {
        PyObject *found = NULL;
        for (size_t j = 0; j < n_from && found == NULL; ++j)
            found = made->sources[j].surface == uses[i].surface ? made->surfaces[j]
                    : theirs[j].surface == uses[i].surface      ? PyList_GetItem(from->used, (Py_ssize_t)j)
                                                                : NULL;
        if (found == NULL || PyList_Append(self->used, found) < 0)
            return false;
    }
    return true;
}

static PyObject *record_append(ARGUMENTS)
{
    static vkpy_signature signature = {"CommandList._append", 2, 2, 2, {"commands", "uses"}, {NULL}};
    vkpy_recording *self = (vkpy_recording *)object, *from;
    PyObject *values[2], *result = NULL;
    VKPY_LIVE_BY(&self->base, device);
    if (!vkpy_bind(&signature, arguments, count, keywords, values))
        return NULL;
    if (!PyObject_TypeCheck(values[0], vkpy_recording_type) || values[0] == object) {
        vkpy_type_error(values[0], "commands", "another list that records");
        return NULL;
    }
    from = (vkpy_recording *)values[0];
    size_t n_uses = from->used == NULL ? 0 : (size_t)PyList_Size(from->used);
    replacements made = {PyMem_Calloc(n_uses + 1, sizeof(bool)), PyMem_Calloc(n_uses + 1, sizeof(vks_operand)),
                         PyMem_Calloc(n_uses + 1, sizeof(PyObject *))};
    if (made.keep == NULL || made.sources == NULL || made.surfaces == NULL)
        PyErr_NoMemory();
    else if (read_replacements(self, from, values[1], &made) && open_list(self)) {
        vks_status status =
            from->core == NULL ? VKS_OK : vks_recording_append(self->core, from->core, made.keep, made.sources);
        if (status != VKS_OK)
            refused(status);
        else if (from->core == NULL || keep_replaced(self, from, &made))
            result = Py_NewRef(object);
        vkpy_commands_forget(&self->base);
    }
    PyMem_Free(made.keep);
    PyMem_Free(made.sources);
    PyMem_Free(made.surfaces);
    return result;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyObject *recording_is_closed(PyObject *object, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((vkpy_recording *)object)->is_closed);
}

static PyMethodDef methods[] = {
    {"_clear", VKPY_FASTCALL(record_clear), VKPY_FAST, "_clear($self, target, colour)\n--\n\n"},
    {"_fill_rect", VKPY_FASTCALL(record_fill_rect), VKPY_FAST, "_fill_rect($self, target, rect, colour)\n--\n\n"},
    {"_copy", VKPY_FASTCALL(record_copy), VKPY_FAST, "_copy($self, source, target, source_rect, at)\n--\n\n"},
    {"_blit", VKPY_FASTCALL(record_blit), VKPY_FAST,
     "_blit($self, source, target, source_rect, target_rect, filter)\n--\n\n"},
    {"_composite", VKPY_FASTCALL(record_composite), VKPY_FAST,
     "_composite($self, source, target, at, opacity, alpha)\n--\n\n"},
    {"_draw_triangles", VKPY_FASTCALL(record_draw_triangles), VKPY_FAST,
     "_draw_triangles($self, target, vertices, texture, filter)\n--\n\n"},
    {"_close", record_close, METH_NOARGS, "_close($self)\n--\n\nForgets what was recorded. Idempotent."},
    {"_used", record_used, METH_NOARGS, "_used($self)\n--\n\nThe surfaces that the commands use, each once."},
    {"_append", VKPY_FASTCALL(record_append), VKPY_FAST,
     "_append($self, commands, uses)\n--\n\nAppends another list's commands. `uses` has a pair for each of its "
     "surfaces: whether commands that write to it are kept, and the surface that is read in its place."},
    {"_compile", vkpy_compile, METH_NOARGS, "_compile($self)\n--\n\nCalled by submit() where it is not compiled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_closed", recording_is_closed, NULL, "Whether close() ran.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A CommandList that records: the base of vkshare.CommandList."},
    {Py_tp_dealloc, (void *)recording_dealloc},
    {Py_tp_traverse, (void *)recording_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_sq_length, (void *)recording_length},
    {Py_nb_bool, (void *)recording_is_true},
    {0, NULL},
};

PyType_Spec vkpy_recording_spec = {
    "vkshare._native.Recording",
    sizeof(vkpy_recording),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    slots,
};
