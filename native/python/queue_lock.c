/* An engine's queue lock. Two C addresses go to the core unchanged, two Python callables get
 * trampolines. */
#include "vkpy.h"

struct vkpy_queue_lock {
    PyObject *lock, *unlock; /* callables of no arguments */
};

/* The core calls it from its own threads too, with or without the GIL. */
static void call_back(PyObject *callable)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = PyObject_CallNoArgs(callable);
    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}

static void call_lock(void *user) { call_back(((vkpy_queue_lock *)user)->lock); }

static void call_unlock(void *user) { call_back(((vkpy_queue_lock *)user)->unlock); }

static bool parse_addresses(PyObject *lock, PyObject *unlock, PyObject *user, vks_vulkan_info *info)
{
    uint64_t lock_address, unlock_address, user_address = 0;
    if (!vkpy_u64(lock, "lock_queue", &lock_address) || !vkpy_u64(unlock, "unlock_queue", &unlock_address) ||
        (user != NULL && user != Py_None && !vkpy_u64(user, "lock_user", &user_address)))
        return false;
    if (lock_address == 0 || unlock_address == 0) {
        PyErr_SetString(PyExc_ValueError,
                        "lock_queue and unlock_queue must not be the address 0: leave both out for no lock");
        return false;
    }
    info->lock_queue = (void (*)(void *))(uintptr_t)lock_address;
    info->unlock_queue = (void (*)(void *))(uintptr_t)unlock_address;
    info->lock_user = (void *)(uintptr_t)user_address;
    return true;
}

bool vkpy_queue_lock_parse(PyObject *lock, PyObject *unlock, PyObject *user, vks_vulkan_info *info,
                           vkpy_queue_lock **out)
{
    bool no_lock = lock == NULL || lock == Py_None, no_unlock = unlock == NULL || unlock == Py_None;
    *out = NULL;
    if (no_lock && no_unlock)
        return true;
    if (no_lock || no_unlock) {
        PyErr_SetString(PyExc_ValueError, "lock_queue and unlock_queue come together: give both or neither");
        return false;
    }
    if (!PyCallable_Check(lock) && !PyCallable_Check(unlock))
        return parse_addresses(lock, unlock, user, info);
    if (!PyCallable_Check(lock))
        return vkpy_type_error(lock, "lock_queue", "a callable, as unlock_queue is one");
    if (!PyCallable_Check(unlock))
        return vkpy_type_error(unlock, "unlock_queue", "a callable, as lock_queue is one");
    vkpy_queue_lock *queue_lock = PyMem_Malloc(sizeof *queue_lock);
    if (queue_lock == NULL) {
        PyErr_NoMemory();
        return false;
    }
    *queue_lock = (vkpy_queue_lock){.lock = Py_NewRef(lock), .unlock = Py_NewRef(unlock)};
    info->lock_queue = call_lock;
    info->unlock_queue = call_unlock;
    info->lock_user = *out = queue_lock;
    return true;
}

void vkpy_queue_lock_free(vkpy_queue_lock *queue_lock)
{
    if (queue_lock == NULL)
        return;
    Py_DECREF(queue_lock->lock);
    Py_DECREF(queue_lock->unlock);
    PyMem_Free(queue_lock);
}

int vkpy_queue_lock_traverse(vkpy_queue_lock *queue_lock, visitproc visit, void *arg)
{
    if (queue_lock != NULL) {
        Py_VISIT(queue_lock->lock);
        Py_VISIT(queue_lock->unlock);
    }
    return 0;
}
