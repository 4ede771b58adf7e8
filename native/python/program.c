/* Program: a recorded list of raster operations (native/raster/program.h). */
#include "vkpy.h"

#include <limits.h>
#include <string.h>

#include "raster/program.h"

/* Call after the arguments are read, because their __index__ may have given the program away. */
#define LIVE(self)                                                                                                     \
    if (VKPY_UNLIKELY((self)->core == NULL))                                                                           \
    return vkpy_raise_named("InvalidCallError", "the Program was never initialised, or was taken over by a "           \
                                                "CommandList")

static int program_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {NULL};
    vkpy_program *self = (vkpy_program *)object;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, ":Program", names))
        return -1;
    if (self->core != NULL)
        return vkpy_raise_initialised("Program");
    self->core = vks_program_create();
    if (self->core == NULL)
        PyErr_NoMemory();
    return self->core == NULL ? -1 : 0;
}

static void program_dealloc(PyObject *object)
{
    vkpy_program *self = (vkpy_program *)object;
    vkpy_dealloc_begin(object, &self->weakrefs, false);
    vks_program_destroy(self->core);
    vkpy_dealloc_free(object);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Converts a raster status to an exception or None. */
static PyObject *recorded(int status, const char *what)
{
    if (status >= 0)
        Py_RETURN_NONE;
    if (status == VKS_RASTER_NO_MEMORY)
        return PyErr_NoMemory();
    PyErr_Format(PyExc_ValueError, "%s: %s", what, vks_raster_status_text(status));
    return NULL;
}

static bool read_slot(PyObject *object, const char *name, uint32_t *out)
{
    long long value;
    bool good = vkpy_integer(object, name, 0, UINT32_MAX - 1ll, &value);
    *out = good ? (uint32_t)value : 0;
    return good;
}

static bool read_coordinate(PyObject *object, const char *name, int32_t *out)
{
    long long value;
    bool good = vkpy_integer(object, name, INT32_MIN, INT32_MAX, &value);
    *out = good ? (int32_t)value : 0;
    return good;
}

static bool read_float(PyObject *object, const char *name, float *out)
{
    double value = PyFloat_AsDouble(object);
    *out = (float)value;
    if (value != -1.0 || !PyErr_Occurred())
        return true;
    PyErr_Clear();
    return vkpy_type_error(object, name, "a number");
}

/* Reads `count` items of a sequence into `out` by `read`. */
#define DEFINE_READ_ITEMS(function, type, read, kind)                                                                  \
    static bool function(PyObject *object, const char *name, type *out)                                                \
    {                                                                                                                  \
        PyObject *items = PySequence_Tuple(object);                                                                    \
        bool good = items != NULL && PyTuple_Size(items) == 4;                                                         \
        if (!good) {                                                                                                   \
            PyErr_Clear();                                                                                             \
            vkpy_type_error(object, name, "a sequence of four " kind);                                                 \
        }                                                                                                              \
        for (Py_ssize_t i = 0; good && i < 4; ++i)                                                                     \
            good = read(PyTuple_GetItem(items, i), name, &out[i]);                                                     \
        Py_XDECREF(items);                                                                                             \
        return good;                                                                                                   \
    }

DEFINE_READ_ITEMS(read_colour, float, read_float, "numbers: r, g, b, a")
DEFINE_READ_ITEMS(read_corners, int32_t, read_coordinate, "integers: x0, y0, x1, y1")

static bool read_rect(PyObject *object, const char *name, struct vks_blit_rect *out)
{
    int32_t corners[4];
    bool good = read_corners(object, name, corners);
    if (good)
        *out = (struct vks_blit_rect){corners[0], corners[1], corners[2], corners[3]};
    return good;
}

/* Reads values[i] of the signature into out[i], for `count` coordinates from `first` on. */
static bool read_coordinates(const vkpy_signature *signature, PyObject **values, int first, int count, int32_t *out)
{
    for (int i = 0; i < count; ++i)
        if (!read_coordinate(values[first + i], signature->names[first + i], &out[i]))
            return false;
    return true;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

#define ARGUMENTS PyObject *object, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords

static PyObject *program_image(ARGUMENTS)
{
    static vkpy_signature signature = {"Program.image", 3, 3, 3, {"width", "height", "format"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[3];
    uint32_t width, height, format;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "width", &width) ||
        !read_slot(values[1], "height", &height) || !read_slot(values[2], "format", &format))
        return NULL;
    LIVE(self);
    int slot = vks_program_image(self->core, width, height, format);
    return slot >= 0 ? PyLong_FromLong(slot) : recorded(slot, "Program.image");
}

static PyObject *program_clear(ARGUMENTS)
{
    static vkpy_signature signature = {"Program.clear", 2, 2, 2, {"slot", "colour"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[2];
    uint32_t slot;
    float colour[4];
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "slot", &slot) ||
        !read_colour(values[1], "colour", colour))
        return NULL;
    LIVE(self);
    return recorded(vks_program_clear(self->core, slot, colour), "Program.clear");
}

static PyObject *program_fill_rect(ARGUMENTS)
{
    static vkpy_signature signature = {
        "Program.fill_rect", 6, 6, 6, {"slot", "x", "y", "width", "height", "colour"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[6];
    uint32_t slot;
    int32_t at[4];
    float colour[4];
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "slot", &slot) ||
        !read_coordinates(&signature, values, 1, 4, at) || !read_colour(values[5], "colour", colour))
        return NULL;
    LIVE(self);
    return recorded(vks_program_fill_rect(self->core, slot, at[0], at[1], at[2], at[3], colour), "Program.fill_rect");
}

static PyObject *program_copy(ARGUMENTS)
{
    static vkpy_signature signature = {
        "Program.copy", 8, 8, 8, {"source", "sx", "sy", "width", "height", "target", "x", "y"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[8];
    uint32_t source, target;
    int32_t from[4], to[2];
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "source", &source) ||
        !read_coordinates(&signature, values, 1, 4, from) || !read_slot(values[5], "target", &target) ||
        !read_coordinates(&signature, values, 6, 2, to))
        return NULL;
    LIVE(self);
    int status = vks_program_copy(self->core, source, from[0], from[1], from[2], from[3], target, to[0], to[1]);
    return recorded(status, "Program.copy");
}

static PyObject *program_blit(ARGUMENTS)
{
    static vkpy_signature signature = {
        "Program.blit", 5, 5, 5, {"source", "source_rect", "target", "target_rect", "linear"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[5];
    uint32_t source, target;
    struct vks_blit_rect from, to;
    bool linear = false;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "source", &source) ||
        !read_rect(values[1], "source_rect", &from) || !read_slot(values[2], "target", &target) ||
        !read_rect(values[3], "target_rect", &to) || !vkpy_bool(values[4], &linear))
        return NULL;
    LIVE(self);
    enum vks_filter filter = linear ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST;
    return recorded(vks_program_blit(self->core, source, from, target, to, filter), "Program.blit");
}

static PyObject *program_composite(ARGUMENTS)
{
    static vkpy_signature signature = {
        "Program.composite", 6, 5, 6, {"source", "target", "x", "y", "opacity", "is_straight"}, {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[6];
    bool is_straight = false;
    uint32_t source, target;
    int32_t at[2];
    float opacity;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !read_slot(values[0], "source", &source) ||
        !read_slot(values[1], "target", &target) || !read_coordinates(&signature, values, 2, 2, at) ||
        !read_float(values[4], "opacity", &opacity) || !vkpy_bool(values[5], &is_straight))
        return NULL;
    LIVE(self);
    enum vks_alpha alpha = is_straight ? VKS_STRAIGHT : VKS_PREMULTIPLIED;
    return recorded(vks_program_composite(self->core, source, target, at[0], at[1], opacity, alpha),
                    "Program.composite");
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */

static bool is_native_float(const Py_buffer *buffer)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    if (format[0] == '@' || format[0] == '=' || (PY_LITTLE_ENDIAN && format[0] == '<'))
        ++format;
    return buffer->itemsize == sizeof(float) && strcmp(format, "f") == 0;
}

/* True: the caller has a reference to a C-contiguous float32 array (N, K), K >= 4. */
static bool open_vertices(PyObject *object, Py_buffer *buffer)
{
    static const char allowed[] = "a C-contiguous float32 array of shape (N, K), K >= 4";
    if (PyObject_GetBuffer(object, buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return vkpy_type_error(object, "vertices", allowed);
    }
    if (is_native_float(buffer) && buffer->ndim == 2 && buffer->shape[1] >= 4 && buffer->shape[1] <= 64 &&
        buffer->shape[0] <= INT32_MAX && (uintptr_t)buffer->buf % sizeof(float) == 0)
        return true;
    PyBuffer_Release(buffer);
    PyErr_Format(PyExc_ValueError, "vertices must be %s, aligned to 4 bytes, K <= 64", allowed);
    return false;
}

/* Reads an offset in floats from a vertex's start, with `size` floats in the vertex; None is -1. */
static bool read_offset(PyObject *object, const char *name, Py_ssize_t floats, int size, int32_t *out)
{
    long long value;
    bool good = vkpy_integer(object, name, -1, floats - size, &value);
    *out = good ? (int32_t)value : -1;
    return good;
}

static PyObject *draw(vkpy_program *self, PyObject *const *values, const Py_buffer *buffer)
{
    uint32_t target, floats = (uint32_t)buffer->shape[1];
    struct vks_vertex_layout layout = {.data = buffer->buf, .stride = floats, .position = 0};
    long long texture, subpixel_bits;
    bool linear = false;
    if (!read_slot(values[0], "target", &target) ||
        !read_offset(values[2], "colour_offset", floats, 4, &layout.colour) ||
        !read_offset(values[3], "uv_offset", floats, 2, &layout.uv) ||
        !vkpy_integer(values[4], "texture", -1, UINT32_MAX - 1ll, &texture) || !vkpy_bool(values[5], &linear) ||
        !vkpy_integer(values[6], "subpixel_bits", 4, 8, &subpixel_bits))
        return NULL;
    LIVE(self);
    int status = vks_program_draw_triangles(self->core, target, &layout, (uint32_t)buffer->shape[0],
                                            texture < 0 ? VKS_NO_SLOT : (uint32_t)texture,
                                            linear ? VKS_FILTER_LINEAR : VKS_FILTER_NEAREST, (uint32_t)subpixel_bits);
    return recorded(status, "Program.draw_triangles");
}

static PyObject *program_draw_triangles(ARGUMENTS)
{
    static vkpy_signature signature = {
        "Program.draw_triangles",
        7,
        7,
        7,
        {"target", "vertices", "colour_offset", "uv_offset", "texture", "linear", "subpixel_bits"},
        {NULL}};
    vkpy_program *self = (vkpy_program *)object;
    PyObject *values[7];
    Py_buffer buffer;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !open_vertices(values[1], &buffer))
        return NULL;
    PyObject *result = draw(self, values, &buffer);
    PyBuffer_Release(&buffer);
    return result;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"image", VKPY_FASTCALL(program_image), VKPY_FAST,
     "image($self, width, height, format)\n--\n\nDeclares the next slot, and gives its number."},
    {"clear", VKPY_FASTCALL(program_clear), VKPY_FAST, "clear($self, slot, colour)\n--\n\nFills the whole image."},
    {"fill_rect", VKPY_FASTCALL(program_fill_rect), VKPY_FAST,
     "fill_rect($self, slot, x, y, width, height, colour)\n--\n\nFills a rectangle, clipped to the image."},
    {"copy", VKPY_FASTCALL(program_copy), VKPY_FAST,
     "copy($self, source, sx, sy, width, height, target, x, y)\n--\n\nCopies pixels of one format."},
    {"blit", VKPY_FASTCALL(program_blit), VKPY_FAST,
     "blit($self, source, source_rect, target, target_rect, linear)\n--\n\nScales and mirrors; rects are x0, y0, x1, "
     "y1."},
    {"composite", VKPY_FASTCALL(program_composite), VKPY_FAST,
     "composite($self, source, target, x, y, opacity, is_straight=False)\n--\n\nSource-over, of colours that are "
     "premultiplied or straight."},
    {"draw_triangles", VKPY_FASTCALL(program_draw_triangles), VKPY_FAST,
     "draw_triangles($self, target, vertices, colour_offset, uv_offset, texture, linear, subpixel_bits)\n--\n\n"
     "Draws a triangle list in painter's order; -1: no such offset, no texture."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {VKPY_WEAKLIST(vkpy_program), {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A recorded list of raster operations; not thread-safe."},
    {Py_tp_init, (void *)program_init},
    {Py_tp_dealloc, (void *)program_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec vkpy_program_spec = {
    "vkshare._native.Program", sizeof(vkpy_program), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots,
};
