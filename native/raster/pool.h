// Threads that share the rows of one raster call.
//
// One caller at a time (the device's worker). The threads block every signal, are named "vkshare-tile", spin for some
// microseconds after a job and then sleep on a futex. A pool does not survive fork(): the child must not use it.
#pragma once

#include <stdint.h>

struct vks_pool;

// `threads` counts the caller: 1 makes no thread, 0 takes one a processor that the process may run on (at most 16).
// 0, or a negative errno; *out is NULL on failure. The caller owns the pool.
int vks_pool_create(uint32_t threads, struct vks_pool **out);

// Joins the threads. NULL is allowed.
void vks_pool_destroy(struct vks_pool *pool);

// Threads that take part, the caller included. 1 for NULL.
uint32_t vks_pool_threads(const struct vks_pool *pool);

// Calls work(context, i) once for each i in 0..count-1, in any order, on the pool's threads and on the caller's.
// Returns when all have returned; their writes are then visible to the caller.
void vks_pool_run(struct vks_pool *pool, uint32_t count, void (*work)(void *context, uint32_t index), void *context);
