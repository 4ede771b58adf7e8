/* cuda_timeline.c: see cuda_timeline.h. */
#define _GNU_SOURCE
#include "interop/cuda_timeline.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "os/platform.h"

typedef int (*get_pointer)(void **out);
typedef int (*take_pointer)(void *in);
typedef int (*stream_pointer)(void *stream, void **out);
typedef int (*stream_number)(void *stream, int *out);
typedef int (*on_semaphores)(void *const *semaphores, const void *parameters, unsigned count, void *stream);

static struct {
    get_pointer CtxGetCurrent, CtxPopCurrent;
    take_pointer CtxPushCurrent;
    stream_pointer StreamGetCtx;
    stream_number StreamIsCapturing;
    on_semaphores WaitExternalSemaphoresAsync, SignalExternalSemaphoresAsync;
    _Atomic bool is_loaded;
} cu;

/* CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS and ..._SIGNAL_PARAMS: params.fence.value comes first in
 * both. The other fields are for other kinds of semaphores, or reserved, and 0. Both have 144
 * bytes, and room for fields that a later CUDA adds. */
typedef union semaphore_parameters {
    uint64_t value;
    uint8_t bytes[192];
} semaphore_parameters;

#define CUDA_ERROR_INVALID_VALUE 1
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED 900

struct vks_cuda_timeline {
    uint64_t context;
    _Atomic uint64_t semaphore; /* 0: detached */
    _Atomic uint64_t given;
    _Atomic uint32_t calls; /* in progress; counted before `semaphore` is read */
};

static const char *load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        return "libcuda.so.1";
    const struct {
        void *where;
        const char *name;
    } entries[] = {
        {&cu.CtxGetCurrent, "cuCtxGetCurrent"},
        {&cu.CtxPopCurrent, "cuCtxPopCurrent_v2"},
        {&cu.CtxPushCurrent, "cuCtxPushCurrent_v2"},
        {&cu.StreamGetCtx, "cuStreamGetCtx"},
        {&cu.StreamIsCapturing, "cuStreamIsCapturing"},
        {&cu.WaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync"},
        {&cu.SignalExternalSemaphoresAsync, "cuSignalExternalSemaphoresAsync"},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *address = dlsym(library, entries[i].name);
        if (address == NULL)
            return entries[i].name; /* the library stays loaded, because CUDA does not support unloading it */
        memcpy(entries[i].where, &address, sizeof address);
    }
    atomic_store(&cu.is_loaded, true);
    return NULL;
}

vks_status vks_cuda_timeline_create(uint64_t semaphore, uint64_t context, vks_cuda_timeline **out)
{
    const char *missing = atomic_load(&cu.is_loaded) ? NULL : load();
    if (missing != NULL)
        return vks_fail(VKS_UNSUPPORTED, 0, "CUDA's driver has no %s; install a newer driver", missing);
    vks_cuda_timeline *timeline = calloc(1, sizeof *timeline);
    if (timeline == NULL)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a timeline of CUDA");
    timeline->context = context;
    atomic_store(&timeline->semaphore, semaphore);
    *out = timeline;
    return VKS_OK;
}

void vks_cuda_timeline_destroy(vks_cuda_timeline *timeline) { free(timeline); }

static int check_stream(const vks_cuda_timeline *timeline, void *stream)
{
    void *context = NULL;
    int capturing = 0, code = cu.StreamGetCtx(stream, &context);
    if (!code && context != (void *)(uintptr_t)timeline->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!code)
        code = cu.StreamIsCapturing(stream, &capturing);
    return !code && capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : code;
}

/* Streams without a handle of their own (NULL, 1, 2) belong to the current context. */
static int call(const vks_cuda_timeline *timeline, on_semaphores function, void *semaphore, uint64_t value,
                void *stream)
{
    semaphore_parameters parameters = {.bytes = {0}};
    parameters.value = value;
    void *current = NULL, *ignored;
    int code = cu.CtxGetCurrent(&current);
    bool is_pushed = !code && current != (void *)(uintptr_t)timeline->context;
    if (is_pushed)
        code = cu.CtxPushCurrent((void *)(uintptr_t)timeline->context);
    if (code)
        return code;
    if (!(code = check_stream(timeline, stream)) && value)
        code = function(&semaphore, &parameters, 1, stream);
    if (is_pushed)
        cu.CtxPopCurrent(&ignored);
    return code;
}

/* `function` is one of the driver's, which are known once there is a timeline. */
static int on_stream(vks_cuda_timeline *timeline, on_semaphores function, uint64_t value, uint64_t stream)
{
    atomic_fetch_add(&timeline->calls, 1);
    void *semaphore = (void *)(uintptr_t)atomic_load(&timeline->semaphore);
    int code = semaphore == NULL ? CUDA_ERROR_INVALID_VALUE
                                 : call(timeline, function, semaphore, value, (void *)(uintptr_t)stream);
    if (code == 0 && value && function == cu.SignalExternalSemaphoresAsync)
        atomic_store(&timeline->given, value); /* the caller may be interrupted before it has the result */
    atomic_fetch_sub(&timeline->calls, 1);
    return code;
}

int vks_cuda_timeline_wait(vks_cuda_timeline *timeline, uint64_t value, uint64_t stream)
{
    return on_stream(timeline, cu.WaitExternalSemaphoresAsync, value, stream);
}

int vks_cuda_timeline_signal(vks_cuda_timeline *timeline, uint64_t value, uint64_t stream)
{
    return on_stream(timeline, cu.SignalExternalSemaphoresAsync, value, stream);
}

uint64_t vks_cuda_timeline_given(const vks_cuda_timeline *timeline) { return atomic_load(&timeline->given); }

uint64_t vks_cuda_timeline_detach(vks_cuda_timeline *timeline)
{
    uint64_t semaphore = atomic_exchange(&timeline->semaphore, 0);
    while (atomic_load(&timeline->calls)) /* calls of other threads, which have read it */
        sched_yield();
    return semaphore;
}
