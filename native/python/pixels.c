/* The memory of CPU surfaces: objects with its buffer, dropped when no work can use it any more. */
#include "vkpy.h"

vkpy_pixels *vkpy_pixels_new(PyObject *memory)
{
    vkpy_pixels *pixels = PyMem_Calloc(1, sizeof *pixels);
    if (pixels == NULL)
        return (vkpy_pixels *)PyErr_NoMemory();
    pixels->memory = Py_NewRef(memory);
    pixels->last_use = UINT64_MAX;
    return pixels;
}

void vkpy_pixels_free(vkpy_pixels *pixels)
{
    if (pixels != NULL)
        Py_DECREF(pixels->memory);
    PyMem_Free(pixels);
}

void vkpy_pixels_retire(vkpy_device *device, vkpy_pixels *pixels)
{
    if (pixels == NULL)
        return;
    uint64_t completed = 0;
    VKPY_SHORT(device, completed = vks_device_completed(device->core));
    if (completed >= pixels->last_use || vks_device_state(device->core) == VKS_FORKED) {
        vkpy_pixels_free(pixels); /* a forked child has no worker that could write to it */
        return;
    }
    pixels->next = device->pixels;
    device->pixels = pixels;
}

void vkpy_pixels_reap(vkpy_device *device, bool all)
{
    uint64_t completed = 0;
    VKPY_SHORT(device, completed = vks_device_completed(device->core));
    /* Unlinked first, because the end of the memory runs Python code, which may call this function again. */
    vkpy_pixels *waiting = device->pixels;
    device->pixels = NULL;
    while (waiting != NULL) {
        vkpy_pixels *pixels = waiting;
        waiting = pixels->next;
        if (all || completed >= pixels->last_use) {
            vkpy_pixels_free(pixels);
        } else {
            pixels->next = device->pixels;
            device->pixels = pixels;
        }
    }
}
