/* cuda_timeline.h: a timeline semaphore that CUDA imported, with waits and signals on a stream.
 *
 * Reason for C: it is called twice a frame, and four driver calls take less time than one through
 * an object of parameters. CUDA is not linked: the entry points come from the driver's library,
 * which is loaded already. Thread-safe, but for create(): one thread at a time calls it. */
#ifndef VKS_CUDA_TIMELINE_H
#define VKS_CUDA_TIMELINE_H

#include "vkshare.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

typedef struct vks_cuda_timeline vks_cuda_timeline;

/* `semaphore`: a CUexternalSemaphore of the type timeline, of the CUcontext `context`. The caller
 * destroys it after a detach. VKS_UNSUPPORTED: the driver lacks a function. */
vks_status vks_cuda_timeline_create(uint64_t semaphore, uint64_t context, vks_cuda_timeline **out);
void vks_cuda_timeline_destroy(vks_cuda_timeline *timeline);

/* Each returns a CUresult. The CUstream's work from now on waits for the value (0: only the stream
 * is checked), or the stream signals the value after its work so far. A full stream blocks until
 * one of its host functions has run. */
int vks_cuda_timeline_wait(vks_cuda_timeline *timeline, uint64_t value, uint64_t stream);
int vks_cuda_timeline_signal(vks_cuda_timeline *timeline, uint64_t value, uint64_t stream);
/* Returns the last value that a stream was given to signal. */
uint64_t vks_cuda_timeline_given(const vks_cuda_timeline *timeline);
/* Blocks until no call uses the semaphore any more, and returns it; 0: it was detached before.
 * Later waits and signals return CUDA_ERROR_INVALID_VALUE. */
uint64_t vks_cuda_timeline_detach(vks_cuda_timeline *timeline);

#pragma GCC visibility pop

#endif
