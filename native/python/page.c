/* page_look: what `vkshare ps` reads of a shared page. */
#include "vkpy.h"

#include <string.h>

/* The name comes from another process: whatever is no UTF-8 is replaced. */
static PyObject *name_object(const char *name)
{
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strnlen(name, VKS_NAME_SIZE), "replace");
}

static PyObject *slot_dict(const vks_slot_view *slot)
{
    return Py_BuildValue("{s:I,s:I,s:N,s:K,s:N,s:K,s:K}", "slot", slot->slot, "pid", slot->pid, "name",
                         name_object(slot->name), "owes", (unsigned long long)slot->owes, "waiting",
                         PyBool_FromLong(slot->waiting), "waiting_key", (unsigned long long)slot->waiting_key,
                         "waiting_since", (unsigned long long)slot->waiting_since);
}

static PyObject *slot_list(const vks_page_view *view)
{
    uint32_t count = view->n_slots < VKS_SLOTS ? view->n_slots : VKS_SLOTS;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < count; ++i) {
        PyObject *slot = slot_dict(&view->slots[i]);
        if (slot == NULL || PyList_Append(list, slot) < 0)
            Py_CLEAR(list);
        Py_XDECREF(slot);
    }
    return list;
}

PyObject *vkpy_page_look(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"page_look", 1, 1, 1, {"fd"}, {NULL}};
    vks_page_view view;
    PyObject *values[1];
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd))
        return NULL;
    vks_status status = vks_page_look(fd, &view);
    if (status != VKS_OK)
        return vkpy_raise(status, "page_look");
    PyObject *slots = slot_list(&view);
    if (slots == NULL)
        return NULL;
    return Py_BuildValue("{s:I,s:I,s:K,s:I,s:I,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:K,s:I,s:N}", "kind", view.kind,
                         "version", view.version, "id", (unsigned long long)view.id, "width", view.width, "height",
                         view.height, "format", view.format, "state", view.state, "owner_slot", view.owner_slot,
                         "owner_pid", view.owner_pid, "key", (unsigned long long)view.key, "value",
                         (unsigned long long)view.value, "queued", (unsigned long long)view.queued, "completed",
                         (unsigned long long)view.completed, "epoch", (unsigned long long)view.epoch, "generation",
                         view.generation, "slots", slots);
}
