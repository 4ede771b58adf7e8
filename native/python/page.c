/* page_inspect, queue_page_inspect: what `vkshare ps` reads of a shared page. */
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
                         name_object(slot->name), "pending_value", (unsigned long long)slot->pending_value, "waiting",
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

PyObject *vkpy_page_inspect(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"page_inspect", 1, 1, 1, {"fd"}, {NULL}};
    vks_page_view view;
    PyObject *values[1];
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", false, &fd))
        return NULL;
    vks_status status = vks_page_inspect(fd, &view);
    if (status != VKS_OK)
        return vkpy_raise(status, "page_inspect");
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

static PyObject *end_dict(const vks_end_view *end)
{
    return Py_BuildValue("{s:I,s:I,s:N,s:N,s:K}", "state", end->state, "pid", end->pid, "dead",
                         PyBool_FromLong(end->dead), "name", name_object(end->name), "since",
                         (unsigned long long)end->since);
}

PyObject *vkpy_queue_page_inspect(PyObject *module, PyObject *fd_object)
{
    vks_queue_view view;
    int fd;
    (void)module;
    if (!vkpy_fd(fd_object, "fd", false, &fd))
        return NULL;
    vks_status status = vks_queue_inspect(fd, &view);
    if (status != VKS_OK)
        return vkpy_raise(status, "queue_page_inspect");
    return Py_BuildValue("{s:I,s:K,s:K,s:I,s:I,s:I,s:I,s:I,s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:N,s:N}", "kind", 3u, "id",
                         (unsigned long long)view.id, "network", (unsigned long long)view.network, "width", view.width,
                         "height", view.height, "format", view.format, "count", view.count, "metadata_size",
                         view.metadata_size, "single_threaded", PyBool_FromLong(view.single_threaded), "written",
                         (unsigned long long)view.written, "committed", (unsigned long long)view.committed, "taken",
                         (unsigned long long)view.taken, "committed_at", (unsigned long long)view.committed_at,
                         "taken_at", (unsigned long long)view.taken_at, "waiting_since",
                         (unsigned long long)view.waiting_since, "producer", end_dict(&view.ends[VKS_PRODUCER]),
                         "consumer", end_dict(&view.ends[VKS_CONSUMER]));
}
