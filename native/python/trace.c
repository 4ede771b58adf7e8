/* Trace marks of Python code, and the constants that `vkshare trace` uses to read the files. */
#include "os/trace.h"
#include "vkpy.h"

/* Indexed by vks_status. */
static const char *const statuses[] = {
    "ok",       "timeout",     "interrupted",  "abandoned",   "not owner", "already owner",  "not abandoned",
    "closed",   "device lost", "forked",       "read only",   "bad value", "foreign device", "full",
    "bad page", "os error",    "vulkan error", "unsupported", "no memory", "bad call",       "surface lost",
    "hidden",   "outdated",
};
_Static_assert(sizeof statuses / sizeof *statuses == VKS_OUTDATED + 1, "a name for each vks_status");

PyObject *vkpy_trace_is_on(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(vks_trace_enabled());
}

PyObject *vkpy_trace_problem(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromLong(vks_trace_problem());
}

PyObject *vkpy_trace_mark(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"trace_mark", 5, 2, 5, {"kind", "name", "began", "object", "value"}, {NULL}};
    PyObject *values[5];
    long long kind;
    uint64_t began = 0, object = 0, value = 0;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[0], "kind", 1, VKS_TRACE_KIND_COUNT - 1, &kind) ||
        (values[2] != NULL && !vkpy_u64(values[2], "began", &began)) ||
        (values[3] != NULL && !vkpy_u64(values[3], "object", &object)) ||
        (values[4] != NULL && !vkpy_u64(values[4], "value", &value)))
        return NULL;
    const char *name = PyUnicode_AsUTF8AndSize(values[1], NULL);
    if (name == NULL)
        return NULL;
    vks_trace_mark((vks_trace_kind)kind, name, began, object, value);
    Py_RETURN_NONE;
}

static bool add_names(PyObject *module, const char *name, const char *const *texts, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; ++i) {
        PyObject *text = PyUnicode_FromString(texts[i]);
        if (text == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, text) < 0) /* takes over the text */
            Py_CLEAR(tuple);
    }
    int added = tuple == NULL ? -1 : PyModule_AddObjectRef(module, name, tuple);
    Py_XDECREF(tuple);
    return added == 0;
}

int vkpy_add_trace_constants(PyObject *module)
{
    return add_names(module, "TRACE_KINDS", vks_trace_kind_names, VKS_TRACE_KIND_COUNT) &&
                   add_names(module, "TRACE_STATUSES", statuses, sizeof statuses / sizeof *statuses) &&
                   PyModule_AddIntConstant(module, "TRACE_VERSION", VKS_TRACE_VERSION) == 0
               ? 0
               : -1;
}
