/* Maps a vks_status to an exception. The classes are vkshare.errors' own, fetched when first needed. */
#include "vkpy.h"

#include <stdarg.h>
#include <string.h>

typedef struct translation {
    const char *error_class; /* of vkshare.errors, or of builtins */
    const char *fallback;    /* if the core gave no text */
    const char *hint;        /* what to do next */
} translation;

/* OS_ERROR, VULKAN_ERROR and UNSUPPORTED have arguments of their own; INTERRUPTED is raised by the signal handler. */
static const translation translations[] = {
    [VKS_TIMEOUT] = {"TimeoutError", "it did not happen in time", NULL},
    [VKS_ABANDONED] = {"AbandonedError", "an owner or signaller died, was closed or failed before it was done",
                       "a surface's recover() makes it usable again"},
    [VKS_NOT_OWNER] = {"NotOwnerError",
                       "this handle does not own the surface; write 'with surface.access(acquire=KEY, release=KEY) as "
                       "view:' around the work",
                       NULL},
    [VKS_ALREADY_OWNER] = {"InvalidCallError", "this handle owns the surface already", "release(key) it first"},
    [VKS_NOT_ABANDONED] = {"InvalidCallError", "the surface is not abandoned",
                           "recover() is for after an AbandonedError"},
    [VKS_CLOSED] = {"ClosedError", "the object, or its device, was closed", NULL},
    [VKS_DEVICE_LOST] = {"DeviceLostError", "the device is lost", "close it and open another"},
    [VKS_FORKED] = {"InvalidCallError", "the object was made before os.fork() and cannot be used in the child",
                    "open a device of its own there, or start the process with multiprocessing's \"spawn\""},
    [VKS_READ_ONLY] = {"InvalidCallError", "the fence was opened from a descriptor and is a read-only follower",
                       "only the party that made it may signal it: share a second fence for the other direction"},
    [VKS_BAD_VALUE] = {"ValueError", "the fence value is outside what is allowed", NULL},
    [VKS_FOREIGN_DEVICE] = {"DeviceMismatchError", "the object belongs to another device",
                            "share it: export() there, then open_fence() or open_surface() here"},
    [VKS_FULL] = {"VkshareError", "all slots of the shared page are taken", "close handles that are no longer used"},
    [VKS_BAD_PAGE] = {"DescriptorError", "the shared page was refused", NULL},
    [VKS_NO_MEMORY] = {"MemoryError", "out of memory", NULL},
    [VKS_BAD_CALL] = {"InvalidCallError", "the object is not in a state that allows this", NULL},
    [VKS_SURFACE_LOST] = {"SurfaceLostError", "the window surface is gone", "retarget() the swapchain, or close it"},
    [VKS_HIDDEN] = {"InvalidCallError", "the window has no pixels now", NULL},
};

#define TRANSLATIONS (sizeof translations / sizeof translations[0])

/* Returns a new reference. The modules are cached, because polling with timeout=0 raises
 * frequently. */
static PyObject *error_class(const char *name)
{
    static PyObject *builtins, *errors;
    bool builtin = strcmp(name, "TimeoutError") == 0 || strcmp(name, "ValueError") == 0 ||
                   strcmp(name, "MemoryError") == 0 || strcmp(name, "OSError") == 0;
    PyObject **module = builtin ? &builtins : &errors;
    if (*module == NULL)
        *module = PyImport_ImportModule(builtin ? "builtins" : "vkshare.errors");
    return *module == NULL ? NULL : PyObject_GetAttrString(*module, name);
}

/* Returns the core's text, if its last error on this thread has this status. */
static const char *core_text(vks_status status)
{
    const vks_error *error = vks_last_error();
    return error != NULL && error->status == status && error->text[0] != 0 ? error->text : NULL;
}

/* Takes over `arguments`. */
static PyObject *raise_with(const char *class_name, PyObject *arguments)
{
    PyObject *class = arguments == NULL ? NULL : error_class(class_name);
    PyObject *error = class == NULL ? NULL : PyObject_CallObject(class, arguments);
    if (error != NULL)
        PyErr_SetObject(class, error);
    Py_XDECREF(error);
    Py_XDECREF(class);
    Py_XDECREF(arguments);
    return NULL;
}

/* `text` may be NULL; `code` is an errno or a VkResult. */
static PyObject *raise_coded(vks_status status, const char *what, const char *text, int64_t code)
{
    switch (status) {
    case VKS_OS_ERROR: {
        PyObject *message =
            PyUnicode_FromFormat("%s: %s: %s", what, text ? text : "system call failed", strerror((int)code));
        return raise_with("OSError", message == NULL ? NULL : Py_BuildValue("(iN)", (int)code, message));
    }
    case VKS_VULKAN_ERROR:
        return raise_with("VulkanError", Py_BuildValue("(Ls)", (long long)code, text ? text : what));
    default:
        return raise_with("UnsupportedError", Py_BuildValue("(ss)", what, text ? text : "this device cannot do it"));
    }
}

static PyObject *raise_told(vks_status status, const char *what, const char *text, int64_t code)
{
    if (status == VKS_OS_ERROR || status == VKS_VULKAN_ERROR || status == VKS_UNSUPPORTED)
        return raise_coded(status, what, text, code);
    if ((size_t)status >= TRANSLATIONS || translations[status].error_class == NULL) {
        PyErr_Format(PyExc_SystemError, "%s: unknown status %d of the core", what, (int)status);
        return NULL;
    }
    const translation *entry = &translations[status];
    PyObject *arguments =
        Py_BuildValue("(N)", PyUnicode_FromFormat("%s: %s%s%s", what, text ? text : entry->fallback,
                                                  entry->hint ? "; " : "", entry->hint ? entry->hint : ""));
    return raise_with(entry->error_class, arguments);
}

PyObject *vkpy_raise(vks_status status, const char *what)
{
    if (status == VKS_INTERRUPTED)
        return NULL;
    const char *text = core_text(status);
    raise_told(status, what, text, text == NULL ? 0 : vks_last_error()->code);
    vks_clear_error(); /* a later failure of this status without a text must not repeat this one's */
    return NULL;
}

PyObject *vkpy_none_or_raise(vks_status status, const char *what)
{
    if (VKPY_UNLIKELY(status != VKS_OK))
        return vkpy_raise(status, what);
    Py_RETURN_NONE;
}

PyObject *vkpy_raise_named(const char *class_name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *message = PyUnicode_FromFormatV(format, values);
    va_end(values);
    return raise_with(class_name, message == NULL ? NULL : Py_BuildValue("(N)", message));
}

/* Returns "within 0.5 s" as a str, from nanoseconds. */
static PyObject *within(uint64_t timeout)
{
    PyObject *seconds = PyFloat_FromDouble((double)timeout / 1e9);
    PyObject *text = seconds == NULL ? NULL : PyUnicode_FromFormat("within %R s", seconds);
    Py_XDECREF(seconds);
    return text;
}

PyObject *vkpy_raise_timeout(const char *what, uint64_t timeout)
{
    PyObject *limit = within(timeout);
    if (limit != NULL)
        PyErr_Format(PyExc_TimeoutError, "%s: not done %U", what, limit);
    Py_XDECREF(limit);
    return NULL;
}

PyObject *vkpy_raise_acquire_timeout(uint64_t key, uint64_t timeout)
{
    PyObject *limit = within(timeout);
    if (limit != NULL)
        vkpy_raise_named("AcquireTimeout", "Surface.acquire: the surface was not released with key %llu %U",
                         (unsigned long long)key, limit);
    Py_XDECREF(limit);
    return NULL;
}

PyObject *vkpy_raise_uninitialised(PyObject *object)
{
    PyObject *name = PyType_GetName(Py_TYPE(object));
    if (name != NULL)
        vkpy_raise_named("InvalidCallError", "this %U was never initialised: its __init__ did not run, or failed",
                         name);
    Py_XDECREF(name);
    return NULL;
}

int vkpy_raise_initialised(const char *type)
{
    vkpy_raise_named("InvalidCallError", "%s.__init__ ran already: make another %s", type, type);
    return -1;
}
