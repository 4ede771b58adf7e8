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
    items wait_items, signal_items; /* keep the fences alive while the GIL is released */
    void *heap[4];                  /* arrays that are too long for these: */
    int n_heap;
    vks_commands *commands_on_stack[ON_STACK];
    uint64_t raw_on_stack[ON_STACK];
    vks_wait waits_on_stack[ON_STACK];
    vks_signal signals_on_stack[ON_STACK];
} batch;

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
static inline void *storage(batch *work, void *on_stack, Py_ssize_t count, size_t size)
{
    if (VKPY_LIKELY(count <= ON_STACK))
        return on_stack;
    void *memory = work->heap[work->n_heap++] = PyMem_Calloc((size_t)count, size);
    return memory != NULL ? memory : PyErr_NoMemory();
}

/* ---- waits and signals ------------------------------------------------------------------------------------------- */

/* The kinds of items, for reading them and for error messages. */
typedef struct item_kind {
    const char *name, *forms;
    const char *value, *value_hint;
    unsigned least; /* value */
    size_t size;    /* of a vks_wait or vks_signal */
    bool (*read)(const batch *work, PyObject *item, void *out);
} item_kind;

static const item_kind wait_kind, signal_kind;

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

static bool read_wait(const batch *work, PyObject *item, void *out)
{
    vks_wait *wait = out;
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

static bool read_signal(const batch *work, PyObject *item, void *out)
{
    vks_signal *signal = out;
    (void)work;
    signal->value = 0; /* the core chooses the next value */
    if (!Py_IS_TYPE(item, &PyTuple_Type) && is_fence(item))
        return read_fence(item, &signal->fence);
    return read_pair(item, &signal_kind, &signal->fence, &signal->value);
}

static const item_kind wait_kind = {
    .name = "waits",
    .forms = "a (fence, value) pair, a Submission, or a sequence of these",
    .value = "waits: a fence's value",
    .value_hint = "",
    .size = sizeof(vks_wait),
    .read = read_wait,
};

static const item_kind signal_kind = {
    .name = "signals",
    .forms = "a (fence, value) pair, a Fence (its next value), or a sequence of these",
    .value = "signals: a fence's value",
    .value_hint = ", above the fence's queued_value; a bare fence stands for its next value",
    .least = 1,
    .size = sizeof(vks_signal),
    .read = read_signal,
};

/* Returns an array of what was read, with its length; NULL: raised. */
static inline void *read_items(batch *work, PyObject *argument, const item_kind *kind, items *list, void *on_stack,
                               uint32_t *count)
{
    if (!open_items(argument, kind, list))
        return NULL;
    char *array = storage(work, on_stack, list->count, kind->size);
    *count = (uint32_t)list->count;
    for (Py_ssize_t i = 0; i < list->count && array != NULL; ++i) {
        PyObject *item = list->single != NULL ? list->single : PyTuple_GetItem(list->tuple, i);
        if (!kind->read(work, item, array + (size_t)i * kind->size))
            return NULL;
    }
    return array;
}

static bool read_waits(batch *work, PyObject *argument)
{
    work->info.waits =
        read_items(work, argument, &wait_kind, &work->wait_items, work->waits_on_stack, &work->info.n_waits);
    return work->info.waits != NULL;
}

static bool read_signals(batch *work, PyObject *argument)
{
    work->info.signals =
        read_items(work, argument, &signal_kind, &work->signal_items, work->signals_on_stack, &work->info.n_signals);
    return work->info.signals != NULL;
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
    static vkpy_function as_int = {"vkshare.util.handles", "as_int", NULL};
    bool is_handle = !Py_IS_TYPE(object, &PyBool_Type) && object != Py_None;
    PyObject *value = Py_IS_TYPE(object, &PyLong_Type) ? Py_NewRef(object)
                      : is_handle                      ? vkpy_call(&as_int, "(Os)", object, "commands")
                                                       : NULL;
    if (value == NULL && (!is_handle || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear(); /* its text is about handles, not about submit()'s arguments */
        return vkpy_type_error(object, "commands", command_forms);
    }
    bool good = value != NULL && vkpy_u64(value, "commands", out);
    Py_XDECREF(value);
    if (good && *out == 0)
        PyErr_SetString(PyExc_ValueError, "commands: a VkCommandBuffer is NULL, allowed is a recorded one");
    return good && *out != 0;
}

/* Runs all Python code first, so that the lists' core objects can then be taken. */
static bool prepare_commands(batch *work, PyObject *const *arguments, Py_ssize_t count, uint64_t *raw)
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
        } else if (!read_raw(arguments[i], &raw[work->info.n_raw++])) {
            return false;
        }
    }
    return true;
}

static bool read_commands(batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    vks_commands **commands = storage(work, work->commands_on_stack, count, sizeof *commands);
    uint64_t *raw = storage(work, work->raw_on_stack, count, sizeof *raw);
    if (commands == NULL || raw == NULL || !prepare_commands(work, arguments, count, raw))
        return false;
    Py_ssize_t lists = count - work->info.n_raw;
    int rounds = 0;
    for (Py_ssize_t i = 0; i < lists; ++i) {
        commands[i] = ((vkpy_commands *)arguments[i])->core;
        if (VKPY_LIKELY(commands[i] != NULL))
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
    work->info.commands = commands;
    work->info.n_commands = (uint32_t)lists;
    work->info.raw = raw;
    return true;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Another thread may reset() a list while the GIL is released. */
static vks_status submit_without_gil(const batch *work, vks_submission *out)
{
    for (uint32_t i = 0; i < work->info.n_commands; ++i)
        vks_commands_ref(work->info.commands[i]);
    vks_status status = VKPY_BLOCKING(vks_submit(work->device->core, &work->info, VKS_FOREVER, out));
    for (uint32_t i = 0; i < work->info.n_commands; ++i)
        vks_commands_unref(work->info.commands[i]);
    return status;
}

/* Returns a new tuple of all objects of the call: waits, signals, commands. An iterator's items
 * stand for it. */
static PyObject *argument_tuple(const batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *all = PyTuple_New(count + 2);
    for (Py_ssize_t i = 0; i < count + 2 && all != NULL; ++i) {
        const items *list = i == 0 ? &work->wait_items : &work->signal_items;
        PyObject *given = i >= 2 ? arguments[i - 2] : list->tuple != NULL ? list->tuple : list->single;
        PyTuple_SetItem(all, i, given != NULL ? Py_NewRef(given) : PyTuple_New(0));
    }
    return all;
}

/* Has Python name the list, surface or fence that the core refused, because the core does not
 * record it, or discard what is not owned (K21). */
static PyObject *refused(const batch *work, vks_status status, PyObject *const *arguments, Py_ssize_t count)
{
    static vkpy_function function = {"vkshare.core.submissions", "refused", NULL};
    if (status == VKS_INTERRUPTED) /* a signal handler raised */
        return NULL;
    PyObject *all = argument_tuple(work, arguments, count);
    return all == NULL ? NULL : vkpy_call(&function, "(OiN)", (PyObject *)work->device, (int)status, all);
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
    while (VKPY_UNLIKELY(work->n_heap > 0))
        PyMem_Free(work->heap[--work->n_heap]);
    Py_XDECREF(work->wait_items.tuple);
    Py_XDECREF(work->signal_items.tuple);
}

static PyObject *run_batch(batch *work, PyObject *const *arguments, Py_ssize_t count)
{
    /* Created first, because nothing may fail after the work is submitted. */
    vkpy_submission *submission = vkpy_submission_new(work->device);
    if (VKPY_UNLIKELY(submission == NULL))
        return NULL;
    vks_status status = VKS_TIMEOUT;
    if (VKPY_LIKELY(work->device->queue_lock == NULL))
        status = vks_submit(work->device->core, &work->info, 0, &submission->core);
    if (VKPY_UNLIKELY(status == VKS_TIMEOUT)) /* also: the limit of held submissions is reached */
        status = submit_without_gil(work, &submission->core);
    if (VKPY_LIKELY(status == VKS_OK)) {
        if (VKPY_UNLIKELY(submission->core.op != NULL))
            vkpy_hold_arguments(work->device, &submission->core, argument_tuple(work, arguments, count));
        if (VKPY_UNLIKELY(work->device->held_first != NULL))
            vkpy_held_arguments_release(work->device, RELEASE_CHECKS);
        return (PyObject *)submission;
    }
    submission->core = (vks_submission){.serial = 0};
    Py_DECREF(submission);
    return refused(work, status, arguments, count);
}

PyObject *vkpy_submit(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    batch work;
    PyObject *waits = NULL, *signals = NULL, *result = NULL;
    work.device = (vkpy_device *)self;
    work.info = (vks_submit_info){.n_commands = 0};
    work.wait_items = work.signal_items = (items){.count = 0};
    work.n_heap = 0;
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
