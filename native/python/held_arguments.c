/* The arguments of held submissions. Python may drop a fence or surface that a held submission
 * needs, which would close it and cancel the submission. The device therefore keeps the arguments
 * of each held submission, and checks from time to time whether it is still held. */
#include "vkpy.h"

struct vkpy_held_arguments {
    vkpy_held_arguments *next;
    vks_submission submission; /* with a reference to its op */
    PyObject *objects;         /* tuple */
};

static void drop(vkpy_held_arguments *entry)
{
    vks_work_unref(entry->submission.op);
    Py_DECREF(entry->objects);
    PyMem_Free(entry);
}

static void append(vkpy_device *device, vkpy_held_arguments *entry)
{
    entry->next = NULL;
    *(device->held_last != NULL ? &device->held_last->next : &device->held_first) = entry;
    device->held_last = entry;
}

static vkpy_held_arguments *pop(vkpy_device *device)
{
    vkpy_held_arguments *entry = device->held_first;
    if (entry != NULL)
        device->held_first = entry->next;
    if (device->held_first == NULL)
        device->held_last = NULL;
    return entry;
}

bool vkpy_hold_arguments(vkpy_device *device, const vks_submission *submission, PyObject *objects)
{
    vkpy_held_arguments *entry = objects == NULL ? NULL : PyMem_Malloc(sizeof *entry);
    if (entry == NULL) {
        Py_XDECREF(objects);
        PyErr_Clear(); /* the work is submitted already and cannot fail any more */
        return false;
    }
    *entry = (vkpy_held_arguments){.submission = *submission, .objects = objects};
    vks_work_ref(submission->op);
    append(device, entry);
    return true;
}

void vkpy_held_arguments_release(vkpy_device *device, size_t most)
{
    while (most-- > 0 && device->held_first != NULL) {
        vkpy_held_arguments *entry = pop(device);
        if (VKPY_SHORT(device, vks_submission_is_held(device->core, &entry->submission)))
            append(device, entry); /* to the end, so that a submission that stays held hides none behind it */
        else
            drop(entry);
    }
}

void vkpy_held_arguments_release_all(vkpy_device *device)
{
    size_t count = 0;
    for (const vkpy_held_arguments *entry = device->held_first; entry != NULL; entry = entry->next)
        ++count;
    vkpy_held_arguments_release(device, count);
}

void vkpy_held_arguments_clear(vkpy_device *device)
{
    for (vkpy_held_arguments *entry = pop(device); entry != NULL; entry = pop(device))
        drop(entry);
}

int vkpy_held_arguments_traverse(const vkpy_device *device, visitproc visit, void *arg)
{
    for (const vkpy_held_arguments *entry = device->held_first; entry != NULL; entry = entry->next)
        Py_VISIT(entry->objects);
    return 0;
}
