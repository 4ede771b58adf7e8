/* The memory of a CPU surface: the buffer of a Python object, released when no work can use it any
 * more. */
#include "vkpy.h"

#include "raster/raster.h"

/* Returns whether all rows lie within the pixels. Divides where a product could overflow. */
static bool fits(const vks_surface_info *info)
{
    size_t row = info->width * vks_format_bytes(info->format); /* 0 for an unknown format */
    return row != 0 && row <= info->stride && row <= info->size &&
           info->height - 1 <= (info->size - row) / info->stride;
}

bool vkpy_pixels_export(PyObject *object, vks_surface_info *info, vkpy_pixels **out)
{
    *out = NULL;
    if (object == NULL || object == Py_None)
        return true;
    vkpy_pixels *pixels = PyMem_Calloc(1, sizeof *pixels);
    if (pixels == NULL)
        return PyErr_NoMemory() != NULL;
    if (PyObject_GetBuffer(object, &pixels->buffer, PyBUF_WRITABLE) < 0) {
        PyMem_Free(pixels);
        PyErr_Clear();
        return vkpy_type_error(object, "pixels", "a writable, contiguous buffer or None");
    }
    info->pixels = pixels->buffer.buf;
    info->size = (size_t)pixels->buffer.len;
    if (!fits(info)) {
        PyErr_Format(
            PyExc_ValueError,
            "pixels holds %zu bytes, too few for height %u rows of width %u in format %u, stride %zu bytes apart",
            info->size, info->height, info->width, info->format, info->stride);
        PyBuffer_Release(&pixels->buffer);
        PyMem_Free(pixels);
        return false;
    }
    pixels->last_use = UINT64_MAX;
    *out = pixels;
    return true;
}

static void give_back(vkpy_pixels *pixels)
{
    PyBuffer_Release(&pixels->buffer);
    PyMem_Free(pixels);
}

void vkpy_pixels_retire(vkpy_device *device, vkpy_pixels *pixels)
{
    if (pixels == NULL)
        return;
    uint64_t completed = 0;
    VKPY_SHORT(device, completed = vks_device_completed(device->core));
    if (completed >= pixels->last_use || vks_device_state(device->core) == VKS_FORKED) {
        give_back(pixels); /* a forked child has no worker that could write to it */
        return;
    }
    pixels->next = device->pixels;
    device->pixels = pixels;
}

void vkpy_pixels_reap(vkpy_device *device, bool all)
{
    uint64_t completed = 0;
    VKPY_SHORT(device, completed = vks_device_completed(device->core));
    /* Unlinked first, because the release runs Python code, which may call this function again. */
    vkpy_pixels *waiting = device->pixels;
    device->pixels = NULL;
    while (waiting != NULL) {
        vkpy_pixels *pixels = waiting;
        waiting = pixels->next;
        if (all || completed >= pixels->last_use) {
            give_back(pixels);
        } else {
            pixels->next = device->pixels;
            device->pixels = pixels;
        }
    }
}
