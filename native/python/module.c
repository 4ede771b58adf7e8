/* The module vkshare._native: its types, constants and free functions. */
#include "vkpy.h"
#include "vkpy_present.h"
#include "vkpy_queue.h"
#include "vkpy_server.h"
#include "vkpy_vsync.h"

#include "backend/messages.h"
#include "os/platform.h"

PyTypeObject *vkpy_producer_type, *vkpy_consumer_type;
PyTypeObject *vkpy_work_ring_type, *vkpy_server_poll_type;
PyTypeObject *vkpy_swapchain_type, *vkpy_frame_type, *vkpy_prepared_type;
PyTypeObject *vkpy_device_type, *vkpy_submission_type, *vkpy_commands_type, *vkpy_program_type, *vkpy_fence_type,
    *vkpy_surface_type, *vkpy_pending_acquire_type, *vkpy_event_queue_type, *vkpy_array_buffer_type, *vkpy_tracker_type,
    *vkpy_cuda_timeline_type, *vkpy_recording_type, *vkpy_drawable_type, *vkpy_recorder_type;

static const struct {
    const char *name;
    PyTypeObject **type;
    PyType_Spec *spec;
    PyTypeObject **base; /* an earlier one; NULL: object */
} types[] = {
    {"Device", &vkpy_device_type, &vkpy_device_spec, NULL},
    {"Submission", &vkpy_submission_type, &vkpy_submission_spec, NULL},
    {"CommandList", &vkpy_commands_type, &vkpy_commands_spec, NULL},
    {"Recording", &vkpy_recording_type, &vkpy_recording_spec, &vkpy_commands_type},
    {"Program", &vkpy_program_type, &vkpy_program_spec, NULL},
    {"Drawable", &vkpy_drawable_type, &vkpy_drawable_spec, NULL},
    {"Recorder", &vkpy_recorder_type, &vkpy_recorder_spec, NULL},
    {"Fence", &vkpy_fence_type, &vkpy_fence_spec, NULL},
    {"Surface", &vkpy_surface_type, &vkpy_surface_spec, NULL},
    {"PendingAcquire", &vkpy_pending_acquire_type, &vkpy_pending_acquire_spec, NULL},
    {"EventQueue", &vkpy_event_queue_type, &vkpy_event_queue_spec, NULL},
    {"ArrayBuffer", &vkpy_array_buffer_type, &vkpy_array_buffer_spec, NULL},
    {"CudaTimeline", &vkpy_cuda_timeline_type, &vkpy_cuda_timeline_spec, NULL},
    {"Swapchain", &vkpy_swapchain_type, &vkpy_swapchain_spec, NULL},
    {"Frame", &vkpy_frame_type, &vkpy_frame_spec, NULL},
    {"Prepared", &vkpy_prepared_type, &vkpy_prepared_spec, NULL},
    {"PresentTracker", &vkpy_tracker_type, &vkpy_tracker_spec, NULL},
    {"Producer", &vkpy_producer_type, &vkpy_producer_spec, NULL},
    {"Consumer", &vkpy_consumer_type, &vkpy_consumer_spec, NULL},
    {"WorkRing", &vkpy_work_ring_type, &vkpy_work_ring_spec, NULL},
    {"ServerPoll", &vkpy_server_poll_type, &vkpy_server_poll_spec, NULL},
    {"Display", &vkpy_display_type, &vkpy_display_spec, NULL},
    {"Dispatcher", &vkpy_dispatcher_type, &vkpy_dispatcher_spec, NULL},
    {"Observer", &vkpy_observer_type, &vkpy_observer_spec, NULL},
    {"Bridge", &vkpy_bridge_type, &vkpy_bridge_spec, NULL},
    {"BridgeEnd", &vkpy_bridge_end_type, &vkpy_bridge_end_spec, NULL},
};

/* ---- shared by all types
 * -------------------------------------------------------------------------- */

void vkpy_dealloc_begin(PyObject *self, PyObject **weakrefs, bool collected)
{
    if (collected)
        PyObject_GC_UnTrack(self);
    if (*weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
}

void vkpy_dealloc_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static PyObject *have_futex_waitv(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(vks_have_futex_waitv());
}

static PyObject *thread_count(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromUnsignedLong(vks_thread_count());
}

static PyMethodDef functions[] = {
    {"page_inspect", VKPY_FASTCALL(vkpy_page_inspect), METH_FASTCALL | METH_KEYWORDS,
     "page_inspect($module, fd)\n--\n\nReturns the contents of a shared page, as a dict. The caller keeps the fd."},
    {"memfd_create", VKPY_FASTCALL(vkpy_memfd_create), VKPY_FAST,
     "memfd_create($module, name, size)\n--\n\nThe fd of a new memfd whose size and seals are final, the caller's."},
    {"memfd_check", VKPY_FASTCALL(vkpy_memfd_check), VKPY_FAST,
     "memfd_check($module, fd, what, writable, size)\n--\n\nDescriptorError unless the fd of another process is a "
     "memfd of at least `size` bytes that can be mapped safely."},
    {"memory_check", VKPY_FASTCALL(vkpy_memory_check), VKPY_FAST,
     "memory_check($module, fd, is_memfd, size)\n--\n\nDescriptorError unless the fd can be an image's memory."},
    {"memory_replace", VKPY_FASTCALL(vkpy_memory_replace), VKPY_FAST,
     "memory_replace($module, own, fd, address, offset)\n--\n\nMaps `fd` over a driver's mapping of its file `own`, "
     "from `address` (0: from the file offset `offset`) to its end. The file offset of the first page replaced."},
    {"memory_reserve", VKPY_FASTCALL(vkpy_memory_reserve), VKPY_FAST,
     "memory_reserve($module, mapping, fd)\n--\n\nAllocates all pages of a mapping of `fd` now."},
    {"have_futex_waitv", have_futex_waitv, METH_NOARGS,
     "have_futex_waitv($module)\n--\n\nWhether the kernel can wait for many futexes at once."},
    {"queue_page_inspect", vkpy_queue_page_inspect, METH_O,
     "queue_page_inspect($module, fd)\n--\n\nReturns the contents of a queue's page, as a dict. The caller keeps the "
     "fd."},
    {"queue_page_make", VKPY_FASTCALL(vkpy_queue_page_make), METH_FASTCALL | METH_KEYWORDS,
     "queue_page_make($module, width, height, format, count, metadata_size, network, single_threaded, kind)\n--\n\nThe "
     "fd of a new queue's page, the caller's; kind: 1 starts full, 2 lets each end begin alone."},
    {"queue_page_read", vkpy_queue_page_read, METH_O,
     "queue_page_read($module, fd)\n--\n\n(width, height, format, count, metadata_size, network, single_threaded, "
     "early) of a queue's page."},
    {"queue_page_counts", vkpy_queue_page_counts, METH_O,
     "queue_page_counts($module, fd)\n--\n\n(enqueued, committed, dequeued, producer's pid, consumer's pid)."},
    {"dlpack", VKPY_FASTCALL(vkpy_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "dlpack($module, keep, address, device_type, device_id, code, bits, shape, strides, read_only)\n--\n\nA DLPack "
     "capsule over memory that `keep` keeps alive; shape and strides are 3 numbers of elements. read_only None: for a "
     "consumer that knows DLPack before 1.0."},
    {"trace_is_on", vkpy_trace_is_on, METH_NOARGS,
     "trace_is_on($module)\n--\n\nWhether VKSHARE_TRACE named a directory when the process began."},
    {"trace_problem", vkpy_trace_problem, METH_NOARGS,
     "trace_problem($module)\n--\n\nReturns the errno for which tracing failed although VKSHARE_TRACE is set; else 0."},
    {"trace_mark", VKPY_FASTCALL(vkpy_trace_mark), METH_FASTCALL | METH_KEYWORDS,
     "trace_mark($module, kind, name, began=0, object=0, value=0)\n--\n\nWrites a record of kind TRACE_KINDS[kind] "
     "that ends now and began at `began` (time.monotonic_ns(); 0: now); no effect without tracing."},
    {"thread_count", thread_count, METH_NOARGS, "thread_count($module)\n--\n\nThreads that the core runs now."},
    {NULL, NULL, 0, NULL},
};

/* The static types belong to the first interpreter. */
static bool only_interpreter(void)
{
    static PyInterpreterState *first;
    if (first == NULL)
        first = PyInterpreterState_Get();
    if (first == PyInterpreterState_Get())
        return true;
    PyErr_SetString(PyExc_ImportError, "vkshare._native can be used by one interpreter of a process only");
    return false;
}

static int execute(PyObject *module)
{
    if (!only_interpreter())
        return -1;
    vks_platform_init(); /* trace marks may precede any object */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        if (*types[i].type == NULL)
            *types[i].type = (PyTypeObject *)PyType_FromSpecWithBases(
                types[i].spec, types[i].base != NULL ? (PyObject *)*types[i].base : NULL);
        if (*types[i].type == NULL || PyModule_AddObjectRef(module, types[i].name, (PyObject *)*types[i].type) < 0)
            return -1;
    }
    if (PyModule_AddIntConstant(module, "LAYOUT_VERSION", VKS_LAYOUT_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "SLOTS", VKS_SLOTS) < 0 ||
        PyModule_AddIntConstant(module, "MAX_QUEUE_SURFACES", VKS_MAX_QUEUE_SURFACES) < 0 ||
        PyModule_AddIntConstant(module, "MAX_METADATA", VKS_MAX_METADATA) < 0)
        return -1;
    if (vkpy_add_trace_constants(module) < 0)
        return -1;
    PyObject *callback = PyLong_FromVoidPtr((void *)(uintptr_t)vks_message_callback);
    int added = PyModule_AddObjectRef(module, "MESSAGE_CALLBACK", callback);
    Py_XDECREF(callback);
    return added;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "vkshare._native",
    "The C core's objects, as thin as they can be.",
    0,
    functions,
    slots,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
