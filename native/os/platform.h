/* platform.h: the core's Linux interface: clock, futexes, process identities, fork. */
#ifndef VKS_PLATFORM_H
#define VKS_PLATFORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vkshare.h"

/* Fills the thread's vks_error and returns `status`. */
vks_status vks_fail(vks_status status, int64_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- arguments ---- The public functions refuse NULL: one branch a call, however many pointers.
 * VKS_NEEDS(a, b) returns VKS_BAD_VALUE, VKS_NEEDS_OR(result, a, b) returns `result`, which a void
 * function leaves empty. Up to four pointers. */
vks_status vks_refuse_null(const char *function, const char *names, const void *const pointers[4])
    __attribute__((cold));
static inline bool vks_any_null(const void *a, const void *b, const void *c, const void *d)
{
    return __builtin_expect((a == NULL) | (b == NULL) | (c == NULL) | (d == NULL), 0);
}
#define VKS_FOUR(a, b, c, d, ...) (a), (b), (c), (d)
#define VKS_IF_NULL(action, ...)                                                                                       \
    do {                                                                                                               \
        if (vks_any_null(VKS_FOUR(__VA_ARGS__, "", "", "", "")))                                                       \
            action;                                                                                                    \
    } while (0)
#define VKS_NEEDS_OR(result, ...) VKS_IF_NULL(return result, __VA_ARGS__)
#define VKS_NEEDS(...)                                                                                                 \
    VKS_IF_NULL(                                                                                                       \
        return vks_refuse_null(__func__, #__VA_ARGS__, (const void *const[4]){VKS_FOUR(__VA_ARGS__, "", "", "", "")}), \
               __VA_ARGS__)

/* ---- fork ---- Every object remembers vks_process. After fork() the child has another one, so the
 * object returns VKS_FORKED (X11). */
extern uint32_t vks_process;
/* Idempotent; installs the fork handler, enables tracing if configured. native/python calls it. */
__attribute__((visibility("default"))) void vks_platform_init(void);
void vks_at_fork_child(void (*reset)(void)); /* a module with global state registers its reset; at most 8 */

/* ---- futexes, shared between processes; the deadline is absolute CLOCK_MONOTONIC ns ---- */
#define VKS_ANY_BIT UINT32_MAX
uint64_t vks_interrupt_interval(void); /* of the calling thread; 0: none */
/* VKS_OK: woken, or *word was not `expected`; VKS_TIMEOUT; VKS_INTERRUPTED. */
vks_status vks_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, uint64_t deadline);
void vks_futex_wake(_Atomic uint32_t *word, uint32_t bits); /* wakes all sleepers that share a bit */

static inline void vks_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Raises *counter to at least `value`; true if this call raised it. */
static inline bool vks_atomic_max(_Atomic uint64_t *counter, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(counter, memory_order_relaxed);
    while (seen < value)
        if (atomic_compare_exchange_weak(counter, &seen, value))
            return true;
    return false;
}

/* Two mappings of one page have two addresses, so TSAN cannot see that they synchronize. In TSAN
 * builds the page's id stands for both. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
extern char vks_tsan_cells[4096];
#define VKS_TSAN_ACQUIRE(id) __tsan_acquire(&vks_tsan_cells[(id) % sizeof vks_tsan_cells])
#define VKS_TSAN_RELEASE(id) __tsan_release(&vks_tsan_cells[(id) % sizeof vks_tsan_cells])
#else
#define VKS_TSAN_ACQUIRE(id) ((void)0)
#define VKS_TSAN_RELEASE(id) ((void)0)
#endif

/* ---- identity ---- 22 bits of pid and 26 bits of start time (ticks since boot) identify a process
 * in one word, which can be compared and swapped. The top 16 bits are left to the slot that holds
 * it (its incarnation). 0: no process. */
#define VKS_IDENTITY_BITS 48
#define VKS_IDENTITY_MASK ((UINT64_C(1) << VKS_IDENTITY_BITS) - 1)
static inline uint32_t vks_identity_pid(uint64_t identity) { return (uint32_t)(identity & 0x3fffff); }
uint64_t vks_self(void); /* this process; 0 and errno if /proc cannot be read, and then no device is created */
uint64_t vks_identity_of(uint32_t pid); /* 0 and errno when there is no such process or /proc cannot be read */
/* Returns whether this process (an identity without incarnation) has certainly ended. Uncertain
 * cases return false, because a dead process loses its surfaces, and a process without free file
 * descriptors cannot check. A process is alive until its last thread has ended; the state in /proc
 * is only the main thread's. */
bool vks_identity_gone(uint64_t process);
int vks_pidfd_open(uint32_t pid); /* CLOEXEC; -1 and errno */
bool vks_pidfd_exited(int pidfd); /* every thread has ended; false if a signal interrupts the check */
uint64_t vks_pid_namespace(void); /* inode of /proc/self/ns/pid, 0 when unknown */

int vks_dup(int fd); /* CLOEXEC; -1 and errno */
/* The same with a status; `what` names the fd in the error. *out is -1 after a failure. */
vks_status vks_duplicate_fd(int fd, const char *what, int *out);

/* Starts a named thread that blocks every signal except its own faults. vks_thread_count() counts
 * it. */
vks_status vks_thread_start(const char *name, void *(*run)(void *), void *argument, uintptr_t *thread);
void vks_thread_join(uintptr_t thread);

/* Numbered kill points of a debug build: a test kills the process at the n-th (X9). */
#ifdef VKS_KILL_POINTS
void vks_kill_point(int number);
void vks_kill_arm(int number, int after); /* the process dies when it passes point `number` for the `after`-th time */
#define VKS_KILL_POINT(n) vks_kill_point(n)
#else
#define VKS_KILL_POINT(n) ((void)0)
#endif

#endif
