/* What a held submission needs must outlive it, also when Python lets go of it: a fence or surface whose object dies is
 * closed, and closing cancels what is held. So the device keeps the arguments of each submission that was held, and
 * looks now and then. */
#include "vkpy.h"

struct vkpy_kept {
    vkpy_kept *next;
    vks_submission submission; /* a reference to its op */
    PyObject *objects;         /* tuple */
};

static void drop(vkpy_kept *kept)
{
    vks_work_unref(kept->submission.op);
    Py_DECREF(kept->objects);
    PyMem_Free(kept);
}

static void append(vkpy_device *device, vkpy_kept *kept)
{
    kept->next = NULL;
    *(device->kept_last != NULL ? &device->kept_last->next : &device->kept_first) = kept;
    device->kept_last = kept;
}

static vkpy_kept *pop(vkpy_device *device)
{
    vkpy_kept *kept = device->kept_first;
    if (kept != NULL)
        device->kept_first = kept->next;
    if (device->kept_first == NULL)
        device->kept_last = NULL;
    return kept;
}

bool vkpy_keep(vkpy_device *device, const vks_submission *submission, PyObject *objects)
{
    vkpy_kept *kept = objects == NULL ? NULL : PyMem_Malloc(sizeof *kept);
    if (kept == NULL) {
        Py_XDECREF(objects);
        PyErr_Clear(); /* the work is handed over: too late to fail */
        return false;
    }
    *kept = (vkpy_kept){.submission = *submission, .objects = objects};
    vks_work_ref(submission->op);
    append(device, kept);
    return true;
}

void vkpy_kept_look(vkpy_device *device, size_t most)
{
    while (most-- > 0 && device->kept_first != NULL) {
        vkpy_kept *kept = pop(device);
        bool held;
        VKPY_SHORT(device, held = vks_submission_is_held(device->core, &kept->submission));
        if (held)
            append(device, kept); /* round and round, so that one that stays held hides none behind it */
        else
            drop(kept);
    }
}

void vkpy_kept_look_all(vkpy_device *device)
{
    size_t count = 0;
    for (const vkpy_kept *kept = device->kept_first; kept != NULL; kept = kept->next)
        ++count;
    vkpy_kept_look(device, count);
}

void vkpy_kept_clear(vkpy_device *device)
{
    for (vkpy_kept *kept = pop(device); kept != NULL; kept = pop(device))
        drop(kept);
}

int vkpy_kept_traverse(const vkpy_device *device, visitproc visit, void *arg)
{
    for (const vkpy_kept *kept = device->kept_first; kept != NULL; kept = kept->next)
        Py_VISIT(kept->objects);
    return 0;
}
