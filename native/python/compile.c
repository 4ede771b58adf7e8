/* Recording._compile: has the core compile what was recorded, with the GIL held. Python code runs
 * only where something must be made first: the recorder, or a pipeline.
 *
 * An image is closed before it is destroyed, and that needs the GIL. So no image is destroyed while
 * it is recorded. A swapchain's images are destroyed by the core: these are pinned. */
#include "submit/compile.h"
#include "vkpy.h"

/* Limit of attempts: each makes a recorder or a pipeline that was missing. */
enum { ROUNDS = VKS_PIPELINES * VKS_PIPELINE_FORMATS + 8 };

typedef enum outcome { DONE, RAISED, AGAIN } outcome;

/* ---- pins -------------------------------------------------------------------------------------------------------- */

typedef struct pins {
    vkpy_swapchain **swapchains; /* owned, or NULL */
    size_t count;
} pins;

static void unpin(pins *held)
{
    for (size_t i = 0; i < held->count; ++i) {
        VKPY_SHORT_VOID(held->swapchains[i]->device, vks_swapchain_unpin(held->swapchains[i]->core));
        Py_DECREF((PyObject *)held->swapchains[i]);
    }
    PyMem_Free(held->swapchains);
}

static bool pin(pins *held, const vkpy_surface *surface)
{
    PyObject *object = surface->swapchain == NULL ? Py_None : PyWeakref_GetObject(surface->swapchain);
    if (object == NULL || object == Py_None)
        return vkpy_raise_named("ClosedError", "the swapchain of this frame is gone") != NULL;
    vkpy_swapchain *swapchain = (vkpy_swapchain *)Py_NewRef(object);
    vks_status status = VKS_CLOSED;
    if (swapchain->core != NULL)
        status = VKPY_SHORT(swapchain->device, vks_swapchain_pin(swapchain->core, surface->generation));
    if (status == VKS_OK) {
        held->swapchains[held->count++] = swapchain;
        return true;
    }
    Py_DECREF((PyObject *)swapchain);
    return vkpy_raise(status, "Frame") != NULL;
}

/* Pins the generations of all images of swapchains among the first `count` surfaces. A pin may
 * release the GIL; the list has the surfaces until it is closed, and then it is not compiled. */
static bool pin_all(PyObject *surfaces, Py_ssize_t count, pins *held)
{
    held->swapchains = PyMem_Calloc((size_t)count + 1, sizeof *held->swapchains);
    if (held->swapchains == NULL)
        return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count; ++i) {
        const vkpy_surface *surface = (const vkpy_surface *)PyList_GetItem(surfaces, i);
        if (vks_drawable_get_info(surface->drawable)->is_presentable && !pin(held, surface))
            return false;
    }
    return true;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* Has Python raise the reason, if it is about a surface. */
static outcome refuse(vkpy_recording *self, vks_status status, const vks_record_problem *problem)
{
    bool names_surface = problem->kind == VKS_PROBLEM_CLOSED || problem->kind == VKS_PROBLEM_FEATURE;
    PyObject *result = names_surface
                           ? PyObject_CallMethod((PyObject *)self->base.device, "_refuse_surface", "OIN",
                                                 PyList_GetItem(self->used, (Py_ssize_t)problem->use),
                                                 (unsigned)problem->feature, PyBool_FromLong(problem->is_blit))
                           : Py_NewRef(Py_None);
    if (result != NULL) /* it did not raise */
        vkpy_raise(status, "Device.submit");
    Py_XDECREF(result);
    return RAISED;
}

/* From the test for changes on, no Python code runs until the list has its commands. */
static outcome compile_pinned(vkpy_recording *self, PyObject *surfaces, Py_ssize_t count, vks_record_problem *problem)
{
    const vkpy_device *device = self->base.device;
    size_t n_uses;
    vks_recording_uses(self->core, &n_uses);
    if (self->used != surfaces || (size_t)count != n_uses || self->base.core != NULL)
        return AGAIN; /* it was closed, extended or compiled meanwhile */
    vks_status status = vks_commands_compile(device->core, self->core, device->recorder, device->subpixel_bits, problem,
                                             &self->base.core);
    if (status == VKS_OK)
        return DONE;
    return problem->kind == VKS_PROBLEM_PIPELINE ? AGAIN : refuse(self, status, problem);
}

static outcome compile_now(vkpy_recording *self, vks_record_problem *problem)
{
    PyObject *surfaces = Py_NewRef(self->used);
    Py_ssize_t count = PyList_Size(surfaces);
    pins held = {NULL};
    outcome how = RAISED;
    if (self->base.device->recorder == NULL || pin_all(surfaces, count, &held))
        how = compile_pinned(self, surfaces, count, problem);
    unpin(&held);
    Py_DECREF(surfaces);
    return how;
}

/* Has Python make what is missing, or set the commands; `problem` NULL: the recorder is missing. */
static bool prepare(vkpy_recording *self, const vks_record_problem *problem)
{
    PyObject *device = (PyObject *)self->base.device;
    PyObject *result = problem == NULL ? PyObject_CallMethod(device, "_compile", "OO", (PyObject *)self, Py_None)
                                       : PyObject_CallMethod(device, "_compile", "O(II)", (PyObject *)self,
                                                             problem->pipeline, problem->format);
    Py_XDECREF(result);
    return result != NULL;
}

/* Gives back the command buffers of lists whose work has run, for programs that record one list
 * again and again. */
static bool reap(vkpy_recording *self, vks_recorder *recorder)
{
    if (recorder == NULL || vks_recorder_has_unused(recorder))
        return true;
    vks_device_reap(self->base.device->core, false); /* calls Python functions, too */
    return PyErr_Occurred() == NULL;
}

static outcome compile_once(vkpy_recording *self)
{
    vks_status status = vks_device_state(self->base.device->core);
    if (status != VKS_OK) { /* a forked child may not even take the recorder's lock */
        vkpy_raise(status, "Device");
        return RAISED;
    }
    if (!vkpy_recording_is_open(self))
        return RAISED;
    if (self->base.core != NULL) /* by another thread's submit(), or by the backend itself */
        return DONE;
    if (self->base.device->subpixel_bits == 0)
        return prepare(self, NULL) ? AGAIN : RAISED;
    if (!reap(self, self->base.device->recorder))
        return RAISED;
    if (self->used == NULL)
        return AGAIN; /* reap() ran Python code */
    vks_record_problem problem = {.kind = VKS_PROBLEM_NONE};
    outcome how = compile_now(self, &problem);
    if (how == AGAIN && problem.kind == VKS_PROBLEM_PIPELINE && !prepare(self, &problem))
        return RAISED;
    return how;
}

PyObject *vkpy_compile(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    VKPY_SELF(vkpy_recording);
    for (int round = 0; round < ROUNDS; ++round) {
        outcome how = compile_once(self);
        if (how == DONE)
            Py_RETURN_NONE;
        if (how == RAISED)
            return NULL;
    }
    return vkpy_raise_named("InvalidCallError", "the list was not compiled: its backend made nothing of what it lacks");
}
