/* Recording._compile: from what was recorded to the core's commands, with the GIL held. Python code
 * runs only where something must be made first: the recorder, or a pipeline.
 *
 * An image is closed before it is destroyed, and that needs the GIL. So no image is destroyed while
 * it is recorded. A swapchain's images are destroyed by the core: these are pinned. */
#include "raster/program.h"
#include "vkpy_present.h"

/* Limit of attempts: each makes a recorder or a pipeline that was missing. */
enum { ROUNDS = VKS_PIPELINES * VKS_PIPELINE_FORMATS + 8 };

typedef enum outcome { DONE, RAISED, AGAIN } outcome;

/* ---- pins -------------------------------------------------------------------------------------------------------- */

typedef struct pins {
    vkpy_swapchain **swapchains; /* owned */
    size_t count;
    vkpy_swapchain *few[4];
} pins;

static void unpin(pins *held)
{
    for (size_t i = 0; i < held->count; ++i) {
        VKPY_SHORT(held->swapchains[i]->device, vks_swapchain_unpin(held->swapchains[i]->core));
        Py_DECREF((PyObject *)held->swapchains[i]);
    }
    if (held->swapchains != held->few)
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
        VKPY_SHORT(swapchain->device, status = vks_swapchain_pin(swapchain->core, surface->generation));
    if (status == VKS_OK) {
        held->swapchains[held->count++] = swapchain;
        return true;
    }
    Py_DECREF((PyObject *)swapchain);
    return vkpy_raise(status, "Frame") != NULL;
}

/* Pins the generations of all images of swapchains among the surfaces. A pin may release the GIL. */
static bool pin_all(PyObject *surfaces, pins *held)
{
    Py_ssize_t count = PyTuple_Size(surfaces);
    *held = (pins){.swapchains = held->few};
    if ((size_t)count > sizeof held->few / sizeof held->few[0])
        held->swapchains = PyMem_Calloc((size_t)count, sizeof *held->swapchains);
    if (held->swapchains == NULL) {
        held->swapchains = held->few;
        return PyErr_NoMemory() != NULL;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        const vkpy_surface *surface = (const vkpy_surface *)PyTuple_GetItem(surfaces, i);
        if (vks_drawable_get_info(surface->drawable)->is_presentable && !pin(held, surface))
            return false;
    }
    return true;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static outcome refuse(vkpy_recording *self, vks_status status, const vks_record_problem *problem)
{
    bool names_surface = problem->kind == VKS_PROBLEM_CLOSED || problem->kind == VKS_PROBLEM_FEATURE;
    PyObject *surface = names_surface ? PyList_GetItem(self->used, (Py_ssize_t)problem->use) : NULL;
    if (names_surface && surface == NULL)
        return RAISED;
    if (problem->kind == VKS_PROBLEM_CLOSED) {
        vkpy_raise_named("ClosedError", "a surface that the list uses is closed: %R", surface);
    } else if (problem->kind == VKS_PROBLEM_FEATURE) {
        PyObject *result = PyObject_CallMethod((PyObject *)self->base.device, "_refuse_feature", "OIN", surface,
                                               (unsigned)problem->feature, PyBool_FromLong(problem->is_blit));
        if (result != NULL) /* it did not raise */
            vkpy_raise(status, "Device.submit");
        Py_XDECREF(result);
    } else {
        vkpy_raise(status, "Device.submit");
    }
    return RAISED;
}

/* Takes over what was recorded or made, also on failure. Runs no Python code, so that no command is
 * recorded since. */
static outcome keep(vkpy_recording *self, PyObject *surfaces, vks_status status, vks_commands *core)
{
    if (status != VKS_OK) {
        vkpy_raise(status, "Device.submit");
        return RAISED;
    }
    self->base.core = core;
    self->base.surfaces = Py_NewRef(surfaces);
    return DONE;
}

static outcome compile_vulkan(vkpy_recording *self, PyObject *surfaces, vks_record_problem *problem)
{
    vks_recorded *recorded = NULL;
    vks_commands *core = NULL;
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(self->core, &n_uses);
    vks_status status = vks_recorder_record(self->base.device->recorder, self->core, problem, &recorded);
    if (status != VKS_OK)
        return problem->kind == VKS_PROBLEM_PIPELINE ? AGAIN : refuse(self, status, problem);
    status = vks_commands_create_vulkan(self->base.device->core, vks_recorded_graphics(recorded), uses, n_uses,
                                        vks_recorded_retire, recorded, &core);
    if (status != VKS_OK)
        vks_recorded_retire(recorded);
    else
        vks_commands_set_transfer(core, vks_recorded_transfer(recorded));
    return keep(self, surfaces, status, core);
}

static outcome compile_program(vkpy_recording *self, PyObject *surfaces)
{
    vks_program *program = NULL;
    vks_commands *core = NULL;
    size_t n_uses;
    const vks_use *uses = vks_recording_uses(self->core, &n_uses);
    vks_status status = vks_recording_program(self->core, self->base.device->subpixel_bits, &program);
    uint32_t *slots = status == VKS_OK ? PyMem_Calloc(n_uses + 1, sizeof *slots) : NULL;
    for (size_t i = 0; i < n_uses && slots != NULL; ++i)
        slots[i] = (uint32_t)i;
    if (status == VKS_OK)
        status = slots == NULL
                     ? VKS_NO_MEMORY
                     : vks_commands_create_cpu(self->base.device->core, program, uses, n_uses, slots, n_uses, &core);
    PyMem_Free(slots);
    if (status != VKS_OK && program != NULL)
        vks_program_destroy(program);
    return keep(self, surfaces, status, core);
}

/* Whether the list has these surfaces and was neither closed nor compiled meanwhile. */
static bool is_unchanged(const vkpy_recording *self, PyObject *surfaces)
{
    size_t n_uses = 0;
    if (self->core == NULL || self->base.core != NULL)
        return false;
    vks_recording_uses(self->core, &n_uses);
    return (size_t)PyTuple_Size(surfaces) == n_uses;
}

/* The tuple may start a garbage collection, and a pin may release the GIL: both come before the test
 * for changes. */
static outcome compile_now(vkpy_recording *self, vks_record_problem *problem)
{
    bool is_vulkan = self->base.device->recorder != NULL;
    PyObject *surfaces = PyList_AsTuple(self->used);
    pins held = {.count = 0};
    outcome how = RAISED;
    if (surfaces != NULL && (!is_vulkan || pin_all(surfaces, &held)))
        how = !is_unchanged(self, surfaces) ? AGAIN
              : is_vulkan                   ? compile_vulkan(self, surfaces, problem)
                                            : compile_program(self, surfaces);
    unpin(&held);
    Py_XDECREF(surfaces);
    return how;
}

/* Has Python make what is missing: `problem` NULL: the recorder. A backend without one sets the
 * commands itself. */
static bool prepare(vkpy_recording *self, const vks_record_problem *problem)
{
    PyObject *missing =
        problem == NULL ? Py_NewRef(Py_None) : Py_BuildValue("(II)", problem->pipeline, problem->format);
    PyObject *result = missing == NULL ? NULL
                                       : PyObject_CallMethod((PyObject *)self->base.device, "_compile", "OO",
                                                             (PyObject *)self, missing);
    Py_XDECREF(missing);
    Py_XDECREF(result);
    return result != NULL;
}

/* Gives back the command buffers of lists whose work has run, for programs that record one list again
 * and again. */
static bool reap(vkpy_recording *self, vks_recorder *recorder)
{
    if (recorder == NULL || vks_recorder_has_unused(recorder))
        return true;
    vks_device_reap(self->base.device->core, false); /* calls Python functions, too */
    return PyErr_Occurred() == NULL;
}

/* An empty list has neither data nor uses yet. */
static bool have_recording(vkpy_recording *self)
{
    if (self->core != NULL)
        return true;
    self->used = PyList_New(0);
    self->core = self->used == NULL ? NULL : vks_recording_create();
    if (self->core != NULL)
        return true;
    Py_CLEAR(self->used);
    return PyErr_Occurred() == NULL ? PyErr_NoMemory() != NULL : false;
}

static outcome compile_once(vkpy_recording *self)
{
    vks_status status = vks_device_state(self->base.device->core);
    if (status != VKS_OK) { /* in a forked child the driver must not even be asked */
        vkpy_raise(status, "Device");
        return RAISED;
    }
    if (self->is_closed) {
        vkpy_raise_named("ClosedError", "this CommandList was closed; record another with device.record()");
        return RAISED;
    }
    if (self->base.core != NULL) /* by another thread's submit(), or by the backend itself */
        return DONE;
    if (self->base.device->subpixel_bits == 0)
        return prepare(self, NULL) ? AGAIN : RAISED;
    if (!reap(self, self->base.device->recorder))
        return RAISED;
    if (self->is_closed || self->base.core != NULL)
        return AGAIN; /* reap() ran Python code */
    if (!have_recording(self))
        return RAISED;
    vks_record_problem problem = {.kind = VKS_PROBLEM_NONE};
    outcome how = compile_now(self, &problem);
    if (how == AGAIN && problem.kind == VKS_PROBLEM_PIPELINE && !prepare(self, &problem))
        return RAISED;
    return how;
}

PyObject *vkpy_compile(PyObject *object, PyObject *ignored)
{
    vkpy_recording *self = (vkpy_recording *)object;
    (void)ignored;
    VKPY_LIVE_BY(&self->base, device);
    for (int round = 0; round < ROUNDS; ++round) {
        outcome how = compile_once(self);
        if (how == DONE)
            Py_RETURN_NONE;
        if (how == RAISED)
            return NULL;
    }
    return vkpy_raise_named("InvalidCallError", "the list was not compiled: its backend made nothing of what it lacks");
}
