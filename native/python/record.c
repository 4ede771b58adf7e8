/* Recording: a CommandList that records. A table describes each command: how its arguments are read,
 * and the function of the core that appends it. */
#include <stdio.h>

#include "vkpy_record.h"

/* ---- the list ---------------------------------------------------------------------------------------------------- */

bool vkpy_recording_is_open(const vkpy_recording *self)
{
    return self->used != NULL ||
           vkpy_raise_named("ClosedError", "this CommandList was closed; record another with device.record()") != NULL;
}

/* Closes it. The surfaces go last: theirs are the last references to objects of the core. */
static void drop(vkpy_recording *self)
{
    PyObject *used = self->used;
    self->used = NULL;
    vkpy_commands_forget(&self->base);
    vks_recording_empty(self->core);
    Py_XDECREF(used);
}

static int recording_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    vkpy_recording *self = (vkpy_recording *)object;
    if (vkpy_commands_init(object, arguments, keywords) < 0)
        return -1;
    self->used = PyList_New(0);
    self->core = self->used == NULL ? NULL : vks_recording_create();
    if (self->used != NULL && self->core == NULL)
        PyErr_NoMemory();
    return self->core != NULL ? 0 : -1;
}

static int recording_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((vkpy_recording *)object)->used);
    return vkpy_commands_traverse(object, visit, arg);
}

static void recording_dealloc(PyObject *object)
{
    vkpy_recording *self = (vkpy_recording *)object;
    vkpy_dealloc_begin(object);
    vkpy_commands_forget(&self->base);
    if (self->core != NULL)
        VKPY_SHORT_VOID(self->base.device, vks_recording_destroy(self->core)); /* before the surfaces, which own more */
    Py_XDECREF(self->used);
    Py_XDECREF((PyObject *)self->base.device);
    vkpy_dealloc_free(object);
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

static bool is_usable(const vkpy_recording *self, PyObject *object, const usage *needed, bool writes)
{
    const vkpy_surface *surface = (const vkpy_surface *)object;
    return PyObject_TypeCheck(object, vkpy_surface_type) && surface->core != NULL && surface->drawable != NULL &&
           surface->device == self->base.device && !vks_surface_is_closed(surface->core) &&
           !(writes && surface->is_read_only) && (vks_drawable_get_info(surface->drawable)->usage & needed->bit);
}

/* Reads a Surface or a View, of which the caller has a reference then; Python refuses others. */
static bool read_operand(vkpy_recording *self, const char *name, PyObject *object, const usage *needed, bool writes,
                         operand *out)
{
    static PyObject *surface_name;
    if (surface_name == NULL && (surface_name = PyUnicode_InternFromString("surface")) == NULL)
        return false;
    PyObject *surface =
        PyObject_TypeCheck(object, vkpy_array_buffer_type) ? PyObject_GetAttr(object, surface_name) : Py_NewRef(object);
    if (surface == NULL)
        return false;
    if (VKPY_UNLIKELY(!is_usable(self, surface, needed, writes))) {
        Py_XDECREF(PyObject_CallMethod((PyObject *)self, "_refuse_operand", "sNs", name, surface, needed->name));
        return false;
    }
    *out = (operand){surface, {((vkpy_surface *)surface)->core, ((vkpy_surface *)surface)->drawable}};
    return true;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

enum { MOST_PARAMETERS = 6 };

enum kind { TARGET = 1, SOURCE, TEXTURE, DEPTH, TEST, RECT, FROM, TO, AT, COLOUR, OPACITY, FILTER, ALPHA, CODES, ROWS };

/* The arguments of a command. */
typedef struct call {
    operand target, source, depth; /* the source: of a draw, the texture */
    vks_depth_operand tested;
    vks_rect from, to; /* `to`: of a fill, the rectangle */
    int32_t at[2];
    double colour[4];
    float opacity;
    bool is_linear, is_premultiplied, reads_codes, has_rows;
    vkpy_rows rows;
} call;

typedef struct parameter {
    enum kind kind;
    int index;           /* among the arguments */
    const usage *needed; /* of a surface */
} parameter;

typedef struct command {
    const char *name;
    Py_ssize_t count;                          /* of the arguments */
    parameter parameters[MOST_PARAMETERS + 1]; /* in the order in which they are read, up to kind 0 */
    vks_status (*append)(vks_recording *recording, const call *given);
} command;

static bool read_one(vkpy_recording *self, const parameter *parameter, PyObject *value, call *out)
{
    switch (parameter->kind) {
    case TARGET:
        return read_operand(self, "target", value, parameter->needed, true, &out->target);
    case SOURCE:
        return read_operand(self, "source", value, parameter->needed, false, &out->source);
    case TEXTURE:
        return value == Py_None || read_operand(self, "texture", value, parameter->needed, false, &out->source);
    case DEPTH:
        return value == Py_None || read_operand(self, "depth", value, parameter->needed, true, &out->depth);
    case TEST: /* vks_depth_test, + 8: depth is written; CommandList has checked it */
        out->tested = (vks_depth_operand){out->depth.core, PyLong_AsLong(value) & 7, PyLong_AsLong(value) & 8};
        return PyErr_Occurred() == NULL;
    case RECT:
        return vkpy_read_rect("rect", value, NULL, &out->to);
    case FROM:
        return vkpy_read_rect("source_rect", value, out->source.core.drawable, &out->from);
    case TO:
        return vkpy_read_rect("target_rect", value, out->target.core.drawable, &out->to);
    case AT:
        return vkpy_read_point("at", value, out->at);
    case COLOUR:
        return vkpy_read_colour(value, out->target.core.drawable, out->colour);
    case OPACITY:
        return vkpy_read_opacity(value, &out->opacity);
    case FILTER:
        return vkpy_read_word("filter", value, "linear", "nearest", &out->is_linear);
    case ALPHA:
        return vkpy_read_word("alpha", value, "premultiplied", "straight", &out->is_premultiplied);
    case CODES:
        return vkpy_bool(value, &out->reads_codes);
    case ROWS:
        out->has_rows = true;
        return vkpy_open_rows(value, out->source.surface != NULL, &out->rows);
    default:
        return false;
    }
}

static bool read_all(vkpy_recording *self, const command *command, PyObject *const *arguments, call *out)
{
    for (const parameter *next = command->parameters; next->kind; ++next)
        if (!read_one(self, next, arguments[next->index], out))
            return false;
    return vkpy_recording_is_open(self);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static PyObject *refused(vks_status status, const command *command)
{
    if (status != VKS_BAD_VALUE) {
        char what[64];
        snprintf(what, sizeof what, "CommandList.%s()", command->name + 1); /* without the underscore */
        return vkpy_raise(status, what);
    }
    PyErr_SetString(PyExc_ValueError, vks_last_error()->text);
    vks_clear_error();
    return NULL;
}

/* Keeps the surfaces that the recording uses since the last command. */
static bool keep_used(vkpy_recording *self, const call *given)
{
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(self->core, &n_uses);
    for (size_t i = (size_t)PyList_Size(self->used); i < n_uses; ++i) {
        const operand *found = uses[i].surface == given->target.core.surface   ? &given->target
                               : uses[i].surface == given->source.core.surface ? &given->source
                                                                               : &given->depth;
        if (PyList_Append(self->used, found->surface) < 0)
            return false;
    }
    return true;
}

/* The commands that were compiled before are out of date. */
static inline PyObject *append(vkpy_recording *self, const command *command, const call *given)
{
    vks_status status = command->append(self->core, given);
    if (VKPY_UNLIKELY(status != VKS_OK))
        return refused(status, command);
    if (VKPY_UNLIKELY(!keep_used(self, given))) {
        drop(self); /* without memory for its surfaces it cannot be used */
        return NULL;
    }
    if (VKPY_UNLIKELY(self->base.core != NULL))
        vkpy_commands_forget(&self->base);
    return Py_NewRef((PyObject *)self);
}

/* Inline, so that each command has its append() in it. */
__attribute__((always_inline)) static inline PyObject *record(PyObject *object, PyObject *const *arguments,
                                                              Py_ssize_t count, const command *command)
{
    vkpy_recording *self = (vkpy_recording *)object;
    call given;
    VKPY_LIVE(self);
    if (VKPY_UNLIKELY(count != command->count))
        return PyErr_Format(PyExc_TypeError, "CommandList.%s() takes %zd arguments but %zd were given", command->name,
                            command->count, count);
    given.target = given.source = given.depth = (operand){NULL};
    given.has_rows = false;
    PyObject *result = read_all(self, command, arguments, &given) ? append(self, command, &given) : NULL;
    if (given.has_rows)
        vkpy_close_rows(&given.rows);
    Py_XDECREF(given.target.surface);
    Py_XDECREF(given.source.surface);
    Py_XDECREF(given.depth.surface);
    return result;
}

/* ---- the commands ------------------------------------------------------------------------------------------------ */

/* COMMAND(NAME, number of arguments, (call of the core), parameters...) defines record_NAME(), the
 * method of Python's _NAME. */
#define COMMAND(name, count, call_of_core, ...)                                                                        \
    static vks_status append_##name(vks_recording *recording, const call *given) { return call_of_core; }              \
    static PyObject *record_##name(PyObject *self, PyObject *const *arguments, Py_ssize_t n)                           \
    {                                                                                                                  \
        static const command described = {"_" #name, count, {__VA_ARGS__}, append_##name};                             \
        return record(self, arguments, n, &described);                                                                 \
    }

COMMAND(clear, 2, vks_recording_clear(recording, given->target.core, given->colour), {TARGET, 0, &copy}, {COLOUR, 1})
COMMAND(fill_rect, 3, vks_recording_fill_rect(recording, given->target.core, given->to, given->colour),
        {TARGET, 0, &render}, {RECT, 1}, {COLOUR, 2})
COMMAND(copy, 4,
        vks_recording_copy(recording, given->source.core, given->target.core, given->from, given->at[0], given->at[1]),
        {SOURCE, 0, &copy}, {TARGET, 1, &copy}, {FROM, 2}, {AT, 3})
COMMAND(blit, 5,
        vks_recording_blit(recording, given->source.core, given->target.core, given->from, given->to, given->is_linear),
        {SOURCE, 0, &copy}, {TARGET, 1, &copy}, {FILTER, 4}, {FROM, 2}, {TO, 3})
COMMAND(composite, 6,
        vks_recording_composite(recording, given->source.core, given->target.core, given->at[0], given->at[1],
                                given->opacity,
                                (given->is_premultiplied ? 0u : VKS_COMPOSITE_STRAIGHT) |
                                    (given->reads_codes ? VKS_COMPOSITE_CODES : 0u)),
        {ALPHA, 4}, {SOURCE, 0, &sample}, {TARGET, 1, &render}, {AT, 2}, {OPACITY, 3}, {CODES, 5})
COMMAND(draw_triangles, 6,
        vks_recording_draw_triangles(recording, given->target.core, given->rows.data, given->rows.count,
                                     given->rows.floats, given->source.core, given->is_linear,
                                     given->depth.surface != NULL ? &given->tested : NULL),
        {TEXTURE, 2, &sample}, {TARGET, 0, &render}, {FILTER, 3}, {DEPTH, 4, &render}, {TEST, 5}, {ROWS, 1})

static PyObject *record_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_recording);
    drop(self);
    Py_RETURN_NONE;
}

static PyObject *recording_is_closed(PyObject *object, void *Py_UNUSED(ignored))
{
    const vkpy_recording *self = (const vkpy_recording *)object;
    return PyBool_FromLong(self->core != NULL && self->used == NULL);
}

VKPY_GETTER(recording_surfaces, vkpy_recording, self->used == NULL ? PyList_New(0) : Py_NewRef(self->used))
VKPY_ADDRESS_GETTER(recording_address, vkpy_recording)

#define METHOD(name, signature) {"_" #name, VKPY_FASTCALL(record_##name), METH_FASTCALL, signature "\n--\n\n"}

static PyMethodDef methods[] = {
    METHOD(clear, "_clear($self, target, colour, /)"),
    METHOD(fill_rect, "_fill_rect($self, target, rect, colour, /)"),
    METHOD(copy, "_copy($self, source, target, source_rect, at, /)"),
    METHOD(blit, "_blit($self, source, target, source_rect, target_rect, filter, /)"),
    METHOD(composite, "_composite($self, source, target, at, opacity, alpha, codes, /)"),
    METHOD(draw_triangles, "_draw_triangles($self, target, vertices, texture, filter, depth, state, /)"),
    {"_close", record_close, METH_NOARGS, "Forgets what was recorded. Idempotent."},
    {"_compile", vkpy_compile, METH_NOARGS, "Called by submit() where it is not compiled."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_closed", recording_is_closed, NULL, "Whether close() ran.", NULL},
    {"_surfaces", recording_surfaces, NULL, "The list of the surfaces that the commands use; C appends to it.", NULL},
    VKPY_ADDRESS(recording_address),
    {NULL, NULL, NULL, NULL, NULL},
};

VKPY_SLOTS(recording, recording, recording_traverse, "A CommandList that records: the base of vkshare.CommandList.",
           vkpy_weaklist, {Py_tp_methods, methods});
