/* vkpy_record.h: how record.c reads the arguments of commands. Each function returns false with an
 * exception set, which names the argument. */
#ifndef VKPY_RECORD_H
#define VKPY_RECORD_H

#include "vkpy.h"

/* ---- record_values.c ---- */
/* The items of an exact tuple or list of `count` items, without a reference; NULL: it is none. */
PyObject *vkpy_item_of(PyObject *object, Py_ssize_t count, Py_ssize_t i);
/* Reads an exact tuple or list of floats, and ints that fit, into floats; false without an
 * exception: it is something else. Runs no Python code. */
bool vkpy_quick_floats(PyObject *object, Py_ssize_t count, void *out);
/* `of`: the target; of a depth surface one number is enough. */
bool vkpy_read_colour(PyObject *object, const vks_drawable *of, double out[4]);
bool vkpy_read_point(const char *name, PyObject *object, int32_t out[2]);
/* None: the whole image, unless `of` is NULL. */
bool vkpy_read_rect(const char *name, PyObject *object, const vks_drawable *of, vks_rect *out);
/* Reads one of two words: *is_first. */
bool vkpy_read_word(const char *name, PyObject *object, const char *first, const char *second, bool *is_first);
bool vkpy_read_opacity(PyObject *object, float *out);

/* ---- record_vertices.c ---- */
/* Rows of float32, which `view`, `bytes` or `numbers` has. */
typedef struct vkpy_rows {
    const float *data;
    size_t count;
    uint32_t floats;
    bool has_view;
    Py_buffer view;
    PyObject *bytes; /* owned, or NULL */
    float *numbers;  /* of PyMem_Calloc, or NULL */
} vkpy_rows;
/* The caller closes the rows, also after a failure. */
bool vkpy_open_rows(PyObject *object, bool has_texture, vkpy_rows *out);
void vkpy_close_rows(vkpy_rows *in);

#endif
