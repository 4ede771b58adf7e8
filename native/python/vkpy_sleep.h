/* vkpy_sleep.h: what a thread with the GIL does before it sleeps. */
#ifndef VKPY_SLEEP_H
#define VKPY_SLEEP_H

#include <Python.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vkshare.h"

/* Takes the GIL again; NULL: it was not released. */
static inline void vkpy_restore(PyThreadState *thread)
{
    if (__builtin_expect(thread != NULL, 0))
        PyEval_RestoreThread(thread);
}

/* Call before a sleep. A signal just before the sleep does not end it, and Ctrl-C must be handled
 * within 100 ms (X8, K28), so the main thread, which runs the handlers, wakes every 50 ms. */
static inline void vkpy_prepare_to_sleep(void)
{
    vks_set_interrupt_interval(getpid() == (pid_t)syscall(SYS_gettid) ? UINT64_C(50000000) : 0);
}

#endif
