/* Device.submit, the most frequent call. Arguments are read into arrays on the stack; only the
 * Submission is allocated. */
#include "vkpy.h"

enum {
    ON_STACK = 8,        /* items of each kind; more are allocated on the heap */
    RELEASE_CHECKS = 3,  /* held submissions to check in each call; more than one, so that their number falls */
    COMPILE_ROUNDS = 64, /* limit of attempts to compile lists that another thread extends meanwhile */
};

/* The items of `waits` or `signals`: a single one, or those of a tuple. */
typedef struct items {
    PyObject *single; /* no reference; or NULL */
    PyObject *tuple;  /* owned, or NULL */
    Py_ssize_t count;
} items;

typedef struct batch {
    vkpy_device *device; /* no reference; the call's self */
    vks_submit_info info;
    vks_commands **commands;
    uint64_t *raw;
    vks_wait *waits;
    vks_signal *signals;
    items wait_items, signal_items; /* keep the fences alive while the GIL is released */
    vks_commands *commands_on_stack[ON_STACK];
    uint64_t raw_on_stack[ON_STACK];
    vks_wait waits_on_stack[ON_STACK];
    vks_signal signals_on_stack[ON_STACK];
} batch;

/* The kinds of items of `waits` and `signals`, for reading them and for error messages. */
typedef struct item_kind {
    const char *name, *forms;
    const char *value, *value_hint;
    unsigned least; /* value */
} item_kind;

static const item_kind wait_kind = {
    .name = "waits",
    .forms = "a (fence, value) pair, a Submission, or a sequence of these",
    .value = "waits: a fence's value",
    .value_hint = "",
};

static const item_kind signal_kind = {
    .name = "signals",
    .forms = "a (fence, value) pair, a Fence (its next value), or a sequence of these",
    .value = "signals: a fence's value",
    .value_hint = ", above the fence's queued_value; a bare fence stands for its next value",
    .least = 1,
};

static const char command_forms[] = "CommandLists or VkCommandBuffers (ints, cffi or ctypes pointers), "
                                    "each an argument of its own as in submit(*commands)";

/* Caches the public subclass that is seen first, so that it is recognised without a walk along its
 * bases. The cache has a reference, so that no other type gets its address. */
static inline bool is_a(PyObject *object, PyTypeObject *type, PyTypeObject **cached)
{
    if (VKPY_LIKELY(Py_IS_TYPE(object, *cached)))
        return true;
    if (!PyObject_TypeCheck(object, type))
        return false;
    if (*cached == NULL)
        *cached = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(object));
    return true;
}

static inline bool is_fence(PyObject *object)
{
    static PyTypeObject *cached;
    return is_a(object, vkpy_fence_type, &cached);
}

static inline bool is_submission(PyObject *object) { return Py_IS_TYPE(object, vkpy_submission_type); /* final */ }

static inline bool is_commands(PyObject *object)
{
    static PyTypeObject *cached;
    return is_a(object, vkpy_commands_type, &cached);
}

/* Returns `on_stack`, or heap memory when that is too small; NULL with MemoryError. */
static inline void *storage(void *on_stack, Py_ssize_t count, size_t size)
{
    if (VKPY_LIKELY(count <= ON_STACK))
        return on_stack;
    void *memory = PyMem_Calloc((size_t)count, size);
    return memory != NULL ? memory : PyErr_NoMemory();
}

static inline void discard(void *memory, const void *on_stack)
{
    if (VKPY_UNLIKELY(memory != on_stack))
        PyMem_Free(memory);
}

/* ---- waits and signals ------------------------------------------------------------------------------------------- */

/* Returns whether it is a (fence, value) pair, and not a sequence of two items: its second item is
 * neither fence, submission nor pair. */
static bool is_pair(PyObject *tuple)
{
    if (!is_fence(PyTuple_GetItem(tuple, 0)))
        return false;
    PyObject *second = PyTuple_GetItem(tuple, 1);
    return Py_IS_TYPE(second, &PyLong_Type) || !(is_fence(second) || is_submission(second) || PyTuple_Check(second));
}

static bool open_items(PyObject *argument, const item_kind *kind, items *list)
{
    if (Py_IS_TYPE(argument, &PyTuple_Type)) {
        list->tuple = Py_NewRef(argument);
    } else if (is_fence(argument) || is_submission(argument)) {
        list->single = argument;
        list->count = 1;
        return true;
    } else {
        list->tuple = PySequence_Tuple(argument);
        if (list->tuple == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            vkpy_type_error(argument, kind->name, kind->forms);
        }
        if (list->tuple == NULL)
            return false;
    }
    list->count = PyTuple_Size(list->tuple);
    if (list->count == 2 && is_pair(list->tuple)) {
        list->single = list->tuple;
        list->count = 1;
    }
    return true;
}

static inline PyObject *item_at(const items *list, Py_ssize_t i)
{
    return list->single != NULL ? list->single : PyTuple_GetItem(list->tuple, i);
}

static inline bool read_fence(PyObject *object, vks_fence **fence)
{
    *fence = ((vkpy_fence *)object)->core;
    return VKPY_LIKELY(*fence != NULL) || vkpy_raise_uninitialised(object) != NULL;
}

/* Reads a pair. *fence is no new reference. */
static bool read_pair(PyObject *item, const item_kind *kind, vks_fence **fence, uint64_t *value)
{
    if (!(Py_IS_TYPE(item, &PyTuple_Type) || PyTuple_Check(item)) || PyTuple_Size(item) != 2)
        return vkpy_type_error(item, kind->name, kind->forms);
    PyObject *first = PyTuple_GetItem(item, 0);
    if (!is_fence(first))
        return vkpy_type_error(item, kind->name, kind->forms);
    return read_fence(first, fence) &&
           vkpy_fence_value(PyTuple_GetItem(item, 1), kind->value, kind->least, kind->value_hint, value);
}

static bool read_wait(const batch *work, PyObject *item, vks_wait *wait)
{
    *wait = (vks_wait){.fence = NULL};
    if (Py_IS_TYPE(item, &PyTuple_Type) || !is_submission(item))
        return read_pair(item, &wait_kind, &wait->fence, &wait->value);
    const vkpy_submission *submission = (const vkpy_submission *)item;
    wait->submission = submission->core;
    return submission->device == work->device ||
           vkpy_raise_named("DeviceMismatchError",
                            "waits: %R belongs to another device; wait for a fence that it signals, shared by "
                            "export() and open_fence()",
                            item) != NULL;
}

static bool read_signal(PyObject *item, vks_signal *signal)
{
    if (!Py_IS_TYPE(item, &PyTuple_Type) && is_fence(item)) {
        signal->value = 0; /* 0: the core chooses the next value */
        return read_fence(item, &signal->fence);
    }
    return read_pair(item, &signal_kind, &signal->fence, &signal->value);
}

static bool read_waits(batch *work, PyObject *argument)
{
    if (!open_items(argument, &wait_kind, &work->wait_items))
        return false;
    Py_ssize_t count = work->wait_items.count;
    work->waits = storage(work->waits_on_stack, count, sizeof *work->waits);
    if (work->waits == NULL)
        return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!read_wait(work, item_at(&work->wait_items, i), &work->waits[i]))
            return false;
    work->info.waits = work->waits;
    work->info.n_waits = (uint32_t)count;
    return true;
}

/* Reads a single fence with its next value, the most frequent case. */
static inline bool read_next_value(batch *work, PyObject *fence)
{
    work->signal_items = (items){.single = fence, .count = 1};
    work->signals_on_stack[0].value = 0;
    work->info.signals = work->signals_on_stack;
    work->info.n_signals = 1;
    return read_fence(fence, &work->signals_on_stack[0].fence);
}

static bool read_signals(batch *work, PyObject *argument)
{
    if (is_fence(argument))
        return read_next_value(work, argument);
    if (!open_items(argument, &signal_kind, &work->signal_items))
        return false;
    Py_ssize_t count = work->signal_items.count;
    work->signals = storage(work->signals_on_stack, count, sizeof *work->signals);
    if (work->signals == NULL)
        return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!read_signal(item_at(&work->signal_items, i), &work->signals[i]))
            return false;
    work->info.signals = work->signals;
    work->info.n_signals = (uint32_t)count;
    return true;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static bool compile(PyObject *list)
{
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("_compile")) == NULL)
        return false;
    PyObject *result = PyObject_CallMethodObjArgs(list, name, NULL);
    Py_XDECREF(result);
    return result != NULL;
}

/* Reads an engine's VkCommandBuffer: an int, or an object that vkshare.util.handles.as_int() reads,
 * such as a cffi pointer. */
static bool read_raw(PyObject *object, uint64_t *out)
{
    static PyObject *as_int;
    if (!Py_IS_TYPE(object, &PyLong_Type)) {
        if (Py_IS_TYPE(object, &PyBool_Type) || object == Py_None)
            return vkpy_type_error(object, "commands", command_forms);
        PyObject *handles = as_int != NULL ? NULL : PyImport_ImportModule("vkshare.util.handles");
        if (handles != NULL)
            as_int = PyObject_GetAttrString(handles, "as_int");
        Py_XDECREF(handles);
        PyObject *value = as_int == NULL ? NULL : PyObject_CallFunction(as_int, "Os", object, "commands");
        if (value == NULL && as_int != NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear(); /* its text is about handles, not about submit()'s arguments */
            return vkpy_type_error(object, "commands", command_forms);
        }
        bool good = value != NULL && vkpy_u64(value, "commands", out);
        Py_XDECREF(value);
        if (!good)
            return false;
    } else if (!vkpy_u64(object, "commands", out)) {
        return false;
    }
    if (*out == 0)
        PyErr_SetString(PyExc_ValueError, "commands: a VkCommandBuffer is NULL, allowed is a recorded one");
    return *out != 0;
}

/* Runs all Python code first, so that the lists' core objects can then be taken. */
static bool prepare_commands(batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (VKPY_LIKELY(is_commands(arguments[i]))) {
            if (VKPY_UNLIKELY(work->info.n_raw != 0)) { /* the core would run the list first */
                PyErr_SetString(PyExc_ValueError, "commands: a CommandList stands after a raw VkCommandBuffer; "
                                                  "give the raw ones last, or submit twice");
                return false;
            }
            if (((vkpy_commands *)arguments[i])->core == NULL && !compile(arguments[i]))
                return false;
        } else if (!read_raw(arguments[i], &work->raw[work->info.n_raw++])) {
            return false;
        }
    }
    return true;
}

static bool read_commands(batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    work->commands = storage(work->commands_on_stack, count, sizeof *work->commands);
    work->raw = storage(work->raw_on_stack, count, sizeof *work->raw);
    if (work->commands == NULL || work->raw == NULL || !prepare_commands(work, arguments, count))
        return false;
    Py_ssize_t lists = count - work->info.n_raw;
    int rounds = 0;
    for (Py_ssize_t i = 0; i < lists; ++i) {
        work->commands[i] = ((vkpy_commands *)arguments[i])->core;
        if (VKPY_LIKELY(work->commands[i] != NULL))
            continue;
        if (rounds++ == COMPILE_ROUNDS) {
            vkpy_raise_named("InvalidCallError",
                             "commands: %R is not compiled: its _compile() set nothing, or it was reset meanwhile",
                             arguments[i]);
            return false;
        }
        if (!compile(arguments[i])) /* another thread has extended it since */
            return false;
        i = -1; /* compile() ran Python code too, which may have reset any list */
    }
    work->info.commands = work->commands;
    work->info.n_commands = (uint32_t)lists;
    work->info.raw = work->raw;
    return true;
}

/* ---- what was refused -------------------------------------------------------------------------------------------- */

static bool is_fence_at_fault(const batch *work, vks_status status, const vks_fence *fence, bool signalled)
{
    return (status == VKS_CLOSED && vks_fence_is_closed(fence)) ||
           (status == VKS_FOREIGN_DEVICE && vks_fence_device(fence) != work->device->core) ||
           (status == VKS_READ_ONLY && signalled && vks_fence_is_follower(fence));
}

static bool is_surface_at_fault(vks_status status, const vks_surface *surface)
{
    return (status == VKS_CLOSED && vks_surface_is_closed(surface)) ||
           (status == VKS_NOT_OWNER && !vks_surface_may_submit(surface) && !vks_surface_discards(surface));
}

/* Returns "Device.submit: signals[1], <vkshare.Fence closed>"; `index` -1: there is only one.
 * `object` is no new reference, and its repr() may run any code. */
static PyObject *named_item(const char *name, Py_ssize_t index, const char *relation, PyObject *object)
{
    Py_INCREF(object);
    PyObject *text = index < 0 ? PyUnicode_FromFormat("Device.submit: %s%s %R", name, relation, object)
                               : PyUnicode_FromFormat("Device.submit: %s[%zd]%s %R", name, index, relation, object);
    Py_DECREF(object);
    return text;
}

/* Returns a new str; NULL: nothing found, or raised. */
static PyObject *command_at_fault(const batch *work, vks_status status, PyObject *const *arguments)
{
    for (uint32_t i = 0; i < work->info.n_commands; ++i) {
        const vkpy_commands *list = (const vkpy_commands *)arguments[i];
        if (status == VKS_FOREIGN_DEVICE && list->device != work->device)
            return vkpy_raise_named("DeviceMismatchError",
                                    "Device.submit: commands[%u] is of %R; record them with this device's record(), on "
                                    "surfaces opened here by open_surface(surface.export())",
                                    i, (PyObject *)list->device);
        size_t count = 0;
        const vks_use *uses = list->core == NULL ? NULL : vks_commands_uses(list->core, &count);
        for (size_t use = 0; use < count; ++use)
            if (is_surface_at_fault(status, uses[use].surface))
                return named_item("commands", i, " uses", PyTuple_GetItem(list->surfaces, (Py_ssize_t)use));
    }
    return NULL;
}

static PyObject *item_at_fault(const batch *work, vks_status status, const items *list, bool signals)
{
    for (Py_ssize_t i = 0; i < list->count; ++i) {
        PyObject *item = item_at(list, i);
        PyObject *fence = PyTuple_Check(item) ? PyTuple_GetItem(item, 0) : item;
        if (is_fence(fence) && is_fence_at_fault(work, status, ((vkpy_fence *)fence)->core, signals))
            return named_item(signals ? "signals" : "waits", list->single != NULL ? -1 : i, ",", fence);
    }
    return NULL;
}

/* Names the surface, list or fence that the core refused. It is searched here, because the core
 * does not record it. */
static PyObject *raise_refused(const batch *work, vks_status status, PyObject *const *arguments)
{
    PyObject *what = NULL;
    if (vks_device_state(work->device->core) == VKS_OK) {
        what = command_at_fault(work, status, arguments);
        if (what == NULL && PyErr_Occurred() == NULL)
            what = item_at_fault(work, status, &work->wait_items, false);
        if (what == NULL && PyErr_Occurred() == NULL)
            what = item_at_fault(work, status, &work->signal_items, true);
    }
    const char *text = what != NULL ? PyUnicode_AsUTF8AndSize(what, NULL) : "Device.submit";
    if (text != NULL && PyErr_Occurred() == NULL)
        vkpy_raise(status, text);
    Py_XDECREF(what);
    return NULL;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Another thread may reset() a list while the GIL is released. */
static vks_status submit_without_gil(const batch *work, uint64_t deadline, vks_submission *out)
{
    vks_status status;
    for (uint32_t i = 0; i < work->info.n_commands; ++i)
        vks_commands_ref(work->commands[i]);
    VKPY_BLOCKING(status, vks_submit(work->device->core, &work->info, deadline, out));
    for (uint32_t i = 0; i < work->info.n_commands; ++i)
        vks_commands_unref(work->commands[i]);
    return status;
}

/* Returns whether there is a surface that `commands` may not use, and unowned use of every such
 * surface is discarded (K21). */
static bool only_discards(const batch *work, PyObject *const *arguments)
{
    bool found = false;
    for (uint32_t i = 0; i < work->info.n_commands; ++i) {
        const vks_commands *commands = ((const vkpy_commands *)arguments[i])->core; /* NULL if it was reset meanwhile */
        if (commands == NULL)
            return false;
        size_t count;
        const vks_use *uses = vks_commands_uses(commands, &count);
        for (size_t use = 0; use < count; ++use) {
            if (vks_surface_may_submit(uses[use].surface))
                continue;
            if (!vks_surface_discards(uses[use].surface))
                return false;
            found = true;
        }
    }
    return found;
}

/* Returns a new reference to the caller's argument; for an iterator, to its items. */
static PyObject *items_object(const items *list)
{
    PyObject *object = list->tuple != NULL ? list->tuple : list->single;
    return object != NULL ? Py_NewRef(object) : PyTuple_New(0);
}

/* Returns a new tuple of all objects that a held submission needs, or NULL. */
static PyObject *argument_tuple(const batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *all = PyTuple_New(count + 2);
    for (Py_ssize_t i = 0; all != NULL && i < count; ++i)
        PyTuple_SetItem(all, i, Py_NewRef(arguments[i]));
    if (all != NULL) {
        PyTuple_SetItem(all, count, items_object(&work->wait_items));
        PyTuple_SetItem(all, count + 1, items_object(&work->signal_items));
    }
    return all;
}

static PyObject *submit_discarding(const batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *result = NULL;
    PyObject *waits = items_object(&work->wait_items), *signals = items_object(&work->signal_items);
    PyObject *commands = PyTuple_New(count);
    for (Py_ssize_t i = 0; commands != NULL && i < count; ++i)
        PyTuple_SetItem(commands, i, Py_NewRef(arguments[i]));
    if (waits != NULL && signals != NULL && commands != NULL)
        result = PyObject_CallMethod((PyObject *)work->device, "_submit_discarding", "OOO", commands, waits, signals);
    Py_XDECREF(waits);
    Py_XDECREF(signals);
    Py_XDECREF(commands);
    return result;
}

/* Reads the `waits` and `signals` keywords only, without new references. */
static bool read_keywords(PyObject *const *given, PyObject *keywords, PyObject **waits, PyObject **signals)
{
    static vkpy_signature signature = {"Device.submit", 0, 0, 2, {"waits", "signals"}, {NULL}};
    static PyObject *cached; /* keyword names of the last call with `signals` alone; with a reference, so that no other
                                tuple gets its address */
    PyObject *values[2];
    if (VKPY_LIKELY(keywords == cached)) {
        *signals = given[0];
        return true;
    }
    if (!vkpy_bind(&signature, given, 0, keywords, values))
        return false;
    *waits = values[0];
    *signals = values[1];
    if (*waits == NULL && *signals != NULL) {
        Py_XDECREF(cached);
        cached = Py_NewRef(keywords);
    }
    return true;
}

static void close_batch(batch *work)
{
    discard(work->commands, work->commands_on_stack);
    discard(work->raw, work->raw_on_stack);
    discard(work->waits, work->waits_on_stack);
    discard(work->signals, work->signals_on_stack);
    Py_XDECREF(work->wait_items.tuple);
    Py_XDECREF(work->signal_items.tuple);
}

static PyObject *run_batch(batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    vks_device *core = work->device->core;
    /* Created first, because nothing may fail after the work is submitted. */
    vkpy_submission *submission = vkpy_submission_new(work->device);
    if (VKPY_UNLIKELY(submission == NULL))
        return NULL;
    vks_status status;
    if (VKPY_LIKELY(work->device->queue_lock == NULL)) {
        status = vks_submit(core, &work->info, 0, &submission->core);
        if (VKPY_UNLIKELY(status == VKS_TIMEOUT)) /* the limit of held submissions is reached */
            status = submit_without_gil(work, VKS_FOREVER, &submission->core);
    } else {
        status = submit_without_gil(work, VKS_FOREVER, &submission->core);
    }
    if (VKPY_LIKELY(status == VKS_OK)) {
        if (VKPY_UNLIKELY(submission->core.op != NULL))
            vkpy_hold_arguments(work->device, &submission->core, argument_tuple(work, arguments, count));
        if (VKPY_UNLIKELY(work->device->held_first != NULL))
            vkpy_held_arguments_release(work->device, RELEASE_CHECKS);
        return (PyObject *)submission;
    }
    submission->core = (vks_submission){.serial = 0};
    Py_DECREF(submission);
    if (status == VKS_NOT_OWNER && work->info.n_raw == 0 && only_discards(work, arguments))
        return submit_discarding(work, arguments, count);
    return raise_refused(work, status, arguments);
}

PyObject *vkpy_submit(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    batch work;
    PyObject *waits = NULL, *signals = NULL, *result = NULL;
    work.device = (vkpy_device *)self;
    work.info = (vks_submit_info){.n_commands = 0};
    work.wait_items = work.signal_items = (items){.count = 0};
    work.commands = work.commands_on_stack;
    work.raw = work.raw_on_stack;
    work.waits = work.waits_on_stack;
    work.signals = work.signals_on_stack;
    VKPY_LIVE(work.device);
    if (keywords != NULL && !read_keywords(arguments + count, keywords, &waits, &signals))
        return NULL;
    /* Read last: reading values may run Python code, which may reset a list. */
    if ((waits == NULL || read_waits(&work, waits)) && (signals == NULL || read_signals(&work, signals)) &&
        read_commands(&work, arguments, count))
        result = run_batch(&work, arguments, count);
    close_batch(&work);
    return result;
}
