/* trace.h: a log of timed events in files that outlive the process that wrote them (vkshare trace).
 *
 * If the environment variable VKSHARE_TRACE names a directory, each process keeps one file in it,
 * mapped for writing. A thread takes a chunk of the file for itself and writes its records there
 * without a lock. A record's kind is stored last, so a killed process leaves all its records and at
 * most one partial record per thread. A forked child has its own file. Records beyond
 * VKSHARE_TRACE_SIZE bytes per process are counted and dropped. Without the variable, a trace point
 * is one branch. The trace_points.h of the layers have the core's trace points;
 * vkshare/cli/trace_files.py reads the files.
 */
#ifndef VKS_TRACE_H
#define VKS_TRACE_H

#include "os/platform.h"

#define VKS_TRACE_MAGIC UINT64_C(0x6563617274736b76) /* "vkstrace" */
#define VKS_TRACE_CHUNK_MAGIC UINT32_C(0x6b6e6863)   /* "chnk" */
#define VKS_TRACE_VERSION 1u

/* The kinds of records. `device` is a number in the process, `object` the id of a page as vkshare
 * ps shows it; "order" joins two records. A new kind goes last, and does not raise the version. */
#define VKS_TRACE_KINDS(KIND)                                                                                          \
    KIND(NOTHING, "")                                                                                                  \
    KIND(PROCESS, "process") /* text: a name for it */                                                                 \
    KIND(THREAD, "thread")   /* text: a name for the thread `object` */                                                \
    KIND(DEVICE, "device")   /* text: its name */                                                                      \
    KIND(ACQUIRE, "acquire") /* object: surface; value: its work to come; key; order: epoch */                         \
    KIND(GRANT, "grant")     /* the same, of a mode="gpu" acquire; work: the operation */                              \
    KIND(RELEASE, "release") /* object: surface; value: that its work brings; key; order: epoch */                     \
    KIND(RECOVER, "recover") /* object: surface */                                                                     \
    KIND(ACCESS, "access")   /* object: surface; the CPU waited for its work */                                        \
    KIND(HOLD, "hold")       /* object: surface or fence; value: held now; key: vks_work_kind; work: the operation */  \
    KIND(LET_GO, "let go")   /* the same, since when; order: serial of the batch, 0 if it never ran */                 \
    KIND(SUBMIT, "submit")   /* object, value: the first signal; key: command lists; order: serial; work: if held */   \
    KIND(BATCH, "batch")     /* the driver's call; order: serial; key: queue family; work: if it was held */           \
    KIND(RUN, "run")         /* from there until it was seen to have run; order: serial */                             \
    KIND(FENCE_WAIT, "fence wait")   /* object: fence; value */                                                        \
    KIND(SIGNAL, "signal")           /* by the host; object: fence; value */                                           \
    KIND(ENQUEUE, "enqueue")         /* object: queue; value: ready pairs now; key: surface; order: its epoch */       \
    KIND(DEQUEUE, "dequeue")         /* the same */                                                                    \
    KIND(FRAME, "swapchain acquire") /* object: number of the swapchain; value: image; key: generation */              \
    KIND(PRESENT, "present")         /* the same */                                                                    \
    KIND(TICK, "tick")               /* object: its id; value: its time, ns; text: the display */                      \
    KIND(SPAN, "span")               /* text: its name; object, value: the caller's */                                 \
    KIND(INSTANT, "instant")         /* likewise */                                                                    \
    KIND(COUNTER, "counter")         /* text: its name; value */                                                       \
    KIND(TAKE, "tick taken")         /* by an observer that waited for it; object, value: as of the tick */            \
    KIND(HEARD, "heard")             /* hardware reported a time to a display; value: that time */                     \
    KIND(REQUEST,                                                                                                      \
         "request") /* a step of a request; text; object: its client (server/trace_points.py); value: sequence */

#define VKS_TRACE_ENUM(name, text) VKS_TRACE_##name,
typedef enum vks_trace_kind { VKS_TRACE_KINDS(VKS_TRACE_ENUM) VKS_TRACE_KIND_COUNT } vks_trace_kind;
#undef VKS_TRACE_ENUM

#define VKS_TRACE_TEXT 24u

typedef struct vks_trace_record {
    _Atomic uint16_t kind; /* stored last: 0 means that nothing is here yet */
    uint16_t status;       /* a vks_status */
    uint32_t device;
    uint64_t begin, end; /* CLOCK_MONOTONIC ns; the same for what takes no time */
    uint64_t object, value;
    union {
        struct {
            uint64_t key, order, work;
        };
        char text[VKS_TRACE_TEXT]; /* UTF-8, cut, filled up with 0 */
    };
} vks_trace_record;

/* At the start of the file. */
typedef struct vks_trace_header {
    uint64_t magic;
    uint32_t version, header_size, chunk_size, record_size;
    uint32_t pid;
    uint32_t is_forked;
    uint64_t process; /* vks_self(): distinguishes processes that had the same pid */
    uint64_t began;   /* CLOCK_MONOTONIC ns */
    uint64_t most;    /* chunks */
    _Atomic uint64_t chunks, dropped;
    char command[1024]; /* the start of the command line; each argument ends with 0 */
} vks_trace_header;

/* At the start of each chunk; has the size of a record. */
typedef struct vks_trace_chunk {
    uint32_t magic, thread; /* the kernel's id */
    char name[16];
    uint64_t reserved[5];
} vks_trace_chunk;

/* Set before the process has its first object, never unset. */
extern _Atomic bool vks_trace_is_on;
static inline bool vks_tracing(void)
{
    return __builtin_expect(atomic_load_explicit(&vks_trace_is_on, memory_order_relaxed), 0);
}
/* Returns the start time of an event; 0: tracing is off. */
static inline uint64_t vks_trace_begin(void) { return vks_tracing() ? vks_now() : 0; }
/* Runs `call`, which writes the record of an event that began at `began`. */
#define VKS_TRACE(began, call)                                                                                         \
    do {                                                                                                               \
        if (__builtin_expect((began) != 0, 0))                                                                         \
            call;                                                                                                      \
    } while (0)

/* For functions called behind the branch: never inlined, so that the branch is the only cost. */
#define VKS_TRACED __attribute__((noinline, cold))

/* For marks of any thread, from C or Python; no-ops if tracing is off. `name` and `display` are cut
 * to 23 bytes. */
/* Reported since `began`; 0: now. */
void vks_trace_tick(const char *display, uint64_t began, uint64_t id, uint64_t time);
void vks_trace_span(const char *name, uint64_t began, uint64_t object, uint64_t value); /* ends now; began 0: nothing */

/* Python uses these: native/vkshare.map.in. */
#pragma GCC visibility push(default)
extern const char *const vks_trace_kind_names[VKS_TRACE_KIND_COUNT];
bool vks_trace_enabled(void); /* vks_tracing(), for code outside of the library */
/* Returns the errno for which nothing is traced although VKSHARE_TRACE is set: it names no
 * directory, or an unwritable one. Else 0. */
int vks_trace_problem(void);
void vks_trace_mark(vks_trace_kind kind, const char *name, uint64_t began, uint64_t object, uint64_t value);
#pragma GCC visibility pop

/* ---- for the layers' trace_points.c ---- */
/* Copies the record. Preserves errno and the thread's vks_error. */
void vks_trace_write(const vks_trace_record *record);
/* Writes the record of an event that began then and ends now. */
void vks_trace_write_event(vks_trace_record *record, uint64_t began);
/* The same for a call that may have been interrupted before; it then began with the first call. */
void vks_trace_write_wait(vks_trace_record *record, uint64_t began);
void vks_trace_set_text(vks_trace_record *record, const char *text);
/* For a call that was interrupted and is made again: the thread keeps its object and start time
 * until then. resume() returns that time, or `began`. */
void vks_trace_interrupted(uint64_t object, uint64_t began);
uint64_t vks_trace_resume(uint64_t object, uint64_t began);
uint64_t vks_trace_next(void); /* numbers for what has no id: 1, 2, ... */

/* ---- for platform.c ---- */
void vks_trace_init(void);
void vks_trace_after_fork(void); /* in the child */

#endif
