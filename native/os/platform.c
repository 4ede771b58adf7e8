#define _GNU_SOURCE
#include "os/platform.h"

#include "os/decimal.h"
#include "os/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* ---- errors ---- */

static _Thread_local vks_error last_error;

uint32_t vks_version(void) { return VKS_VERSION; }

const vks_error *vks_last_error(void) { return &last_error; }

void vks_clear_error(void) { last_error.status = VKS_OK; }

vks_status vks_fail(vks_status status, int64_t code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    last_error.status = status;
    last_error.code = code;
    vsnprintf(last_error.text, sizeof last_error.text, format, arguments);
    va_end(arguments);
    return status;
}

vks_status vks_refuse_null(const char *function, const char *names, const void *const pointers[4])
{
    int i = 0;
    for (; pointers[i]; i++)
        names += strcspn(names, ",") + 2;
    return vks_fail(VKS_BAD_VALUE, 0, "%s() needs the argument %.*s, which is NULL", function, (int)strcspn(names, ","),
                    names);
}

#ifdef __SANITIZE_THREAD__
char vks_tsan_cells[4096];
#endif

/* ---- clock and futex ---- */

uint64_t vks_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static _Thread_local uint64_t interrupt_interval;

void vks_set_interrupt_interval(uint64_t ns) { interrupt_interval = ns; }

uint64_t vks_interrupt_interval(void) { return interrupt_interval; }

vks_status vks_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t bits, uint64_t deadline)
{
    uint64_t now = interrupt_interval ? vks_now() : 0;
    bool slice = interrupt_interval && now < deadline && deadline - now > interrupt_interval;
    if (slice)
        deadline = now + interrupt_interval;
    struct timespec until, *limit = NULL;
    if (deadline != VKS_FOREVER) {
        until.tv_sec = (time_t)(deadline / UINT64_C(1000000000));
        until.tv_nsec = (long)(deadline % UINT64_C(1000000000));
        limit = &until;
    }
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, limit, NULL, bits);
    if (result == 0 || errno == EAGAIN)
        return VKS_OK;
    return errno == ETIMEDOUT && !slice ? VKS_TIMEOUT : VKS_INTERRUPTED;
}

void vks_futex_wake(_Atomic uint32_t *word, uint32_t bits)
{
    syscall(SYS_futex, word, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL, bits);
}

/* ---- fork ---- */

uint32_t vks_process = 1;
static _Atomic uint64_t self_identity;
static _Atomic uint32_t thread_count;
static void (*resets[8])(void);
static _Atomic size_t n_resets;

static void after_fork_in_child(void)
{
    vks_process++;
    atomic_store(&self_identity, 0);
    atomic_store(&thread_count, 0);
    for (size_t i = 0; i < n_resets && i < sizeof resets / sizeof *resets; i++)
        resets[i]();
    vks_trace_after_fork();
}

static void start(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
    vks_trace_init();
}

void vks_platform_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
}

void vks_at_fork_child(void (*reset)(void))
{
    vks_platform_init();
    size_t i = atomic_fetch_add(&n_resets, 1);
    if (i < sizeof resets / sizeof *resets)
        resets[i] = reset;
}

/* ---- identity ---- */

/* Returns field 22 of /proc/PID/stat; 0 and errno if there is none. The name in parentheses may
 * contain spaces and parentheses, so count from the last ')'. *is_zombie: the main thread has ended
 * (field 3). */
static uint64_t start_time(uint32_t pid, bool *is_zombie)
{
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    int code = errno;
    close(fd);
    errno = n < 0 ? code : EIO;
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *p = strrchr(text, ')');
    if (!p)
        return 0;
    *is_zombie = p[1] == ' ' && (p[2] == 'Z' || p[2] == 'X');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? vks_decimal(p + 1) : 0;
}

static uint64_t identity_of(uint32_t pid, bool *is_zombie)
{
    *is_zombie = false;
    uint64_t start = start_time(pid, is_zombie);
    return start ? (start & 0x3ffffff) << 22 | (pid & 0x3fffff) : 0;
}

uint64_t vks_identity_of(uint32_t pid)
{
    bool is_zombie;
    return identity_of(pid, &is_zombie);
}

int vks_pidfd_open(uint32_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

bool vks_pidfd_exited(int pidfd)
{
    struct pollfd one = {.fd = pidfd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

/* Returns whether a process whose main thread has ended has no threads left. Without a pidfd it
 * counts as alive, until its parent has waited for it. */
static bool has_exited(uint32_t pid)
{
    int pidfd = vks_pidfd_open(pid);
    if (pidfd < 0)
        return errno == ESRCH;
    bool exited = vks_pidfd_exited(pidfd);
    close(pidfd);
    return exited;
}

bool vks_identity_gone(uint64_t process)
{
    uint32_t pid = vks_identity_pid(process);
    if (!pid) /* no process; kill(0) would address this process group */
        return true;
    bool is_zombie;
    uint64_t now = identity_of(pid, &is_zombie);
    if (now)
        return now != process || (is_zombie && has_exited(pid));
    return kill((pid_t)pid, 0) < 0 && errno == ESRCH; /* with hidepid, /proc hides other users' processes */
}

uint64_t vks_self(void)
{
    uint64_t identity = atomic_load_explicit(&self_identity, memory_order_relaxed);
    if (!identity) {
        vks_platform_init();
        identity = vks_identity_of((uint32_t)getpid());
        atomic_store_explicit(&self_identity, identity, memory_order_relaxed);
    }
    return identity;
}

/* A process stays in its first pid namespace; unshare() changes only its children's. */
uint64_t vks_pid_namespace(void)
{
    static _Atomic uint64_t known;
    static _Atomic uint32_t known_in; /* a vks_process */
    struct stat info;
    if (atomic_load(&known_in) != vks_process) {
        atomic_store(&known, stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0);
        atomic_store(&known_in, vks_process);
    }
    return atomic_load(&known);
}

int vks_dup(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

vks_status vks_duplicate_fd(int fd, const char *what, int *out)
{
    *out = vks_dup(fd);
    return *out < 0 ? vks_fail(VKS_OS_ERROR, errno, "%s could not be duplicated", what) : VKS_OK;
}

/* ---- threads ---- */

uint32_t vks_thread_count(void) { return atomic_load(&thread_count); }

struct start {
    void *(*run)(void *);
    void *argument;
    char name[16];
};

static void *run_thread(void *pointer)
{
    struct start start = *(struct start *)pointer;
    free(pointer);
    pthread_setname_np(pthread_self(), start.name);
    void *result = start.run(start.argument);
    atomic_fetch_sub(&thread_count, 1);
    return result;
}

/* Signals of the thread's own faults, which must reach the process's handlers (faulthandler, crash
 * reporters). */
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

vks_status vks_thread_start(const char *name, void *(*run)(void *), void *argument, uintptr_t *thread)
{
    struct start *start = calloc(1, sizeof *start);
    if (!start)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a thread");
    start->run = run;
    start->argument = argument;
    snprintf(start->name, sizeof start->name, "%s", name);
    sigset_t all, old;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigdelset(&all, crashes[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t id;
    atomic_fetch_add(&thread_count, 1);
    int code = pthread_create(&id, NULL, run_thread, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code) {
        atomic_fetch_sub(&thread_count, 1);
        free(start);
        return vks_fail(VKS_OS_ERROR, code, "the thread %s could not be started", name);
    }
    *thread = (uintptr_t)id;
    return VKS_OK;
}

void vks_thread_join(uintptr_t thread) { pthread_join((pthread_t)thread, NULL); }

#ifdef VKS_KILL_POINTS
static int kill_number = -1;
static _Atomic int kills_left;

void vks_kill_arm(int number, int after)
{
    kill_number = number;
    atomic_store(&kills_left, after);
}

/* Ends the process as SIGKILL would. VKS_KILL=n and VKS_KILL_AFTER=m arm a process that does not
 * call vks_kill_arm(). */
void vks_kill_point(int number)
{
    if (kill_number < 0) {
        const char *text = getenv("VKS_KILL"), *after = getenv("VKS_KILL_AFTER");
        vks_kill_arm(text ? (int)vks_decimal(text) : 0, after ? (int)vks_decimal(after) : 1);
    }
    if (number == kill_number && atomic_fetch_sub(&kills_left, 1) == 1)
        kill(getpid(), SIGKILL);
}
#endif
