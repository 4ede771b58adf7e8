/* trace.h: what happened when, in files that outlive the process that wrote them (vkshare trace).
 *
 * Where the environment variable VKSHARE_TRACE names a directory, each process keeps one file in it, mapped for
 * writing. A thread takes a chunk of the file for itself and writes its records there, without a lock; a record's kind
 * is stored last, so that a process that is killed leaves all that it wrote and at most half a record a thread. A
 * forked child has a file of its own. What does not fit any more (VKSHARE_TRACE_SIZE bytes a process) is counted and
 * dropped. Without the variable, a trace point is one branch. trace_points.h has those of the core;
 * vkshare/cli/trace_files.py reads.
 */
#ifndef VKS_TRACE_H
#define VKS_TRACE_H

#include "platform.h"

#define VKS_TRACE_MAGIC UINT64_C(0x6563617274736b76) /* "vkstrace" */
#define VKS_TRACE_CHUNK_MAGIC UINT32_C(0x6b6e6863)   /* "chnk" */
#define VKS_TRACE_VERSION 1u

/* What a record is about. `device` is its number in the process, `object` the id of a page, as vkshare ps shows it;
 * "order" is what joins two records. A kind that is added goes last, and raises nothing. */
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
    KIND(HEARD, "heard")             /* hardware told a display; value: of which time */                               \
    KIND(REQUEST, "request")         /* a step of one; text; object: requester (server/trace_points.py); value: sequence */

#define VKS_TRACE_ENUM(name, text) VKS_TRACE_##name,
typedef enum vks_trace_kind { VKS_TRACE_KINDS(VKS_TRACE_ENUM) VKS_TRACE_KIND_COUNT } vks_trace_kind;
#undef VKS_TRACE_ENUM
extern const char *const vks_trace_kind_names[VKS_TRACE_KIND_COUNT];

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
    uint64_t process; /* vks_self(): tells processes apart that had one pid */
    uint64_t began;   /* CLOCK_MONOTONIC ns */
    uint64_t most;    /* chunks */
    _Atomic uint64_t chunks, dropped;
    char command[1024]; /* the start of the command line, the arguments ended by 0 */
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
/* Why VKSHARE_TRACE is set and nothing is traced, as an errno: its directory is none, or cannot be written. Else 0. */
int vks_trace_problem(void);
/* When something begins; 0: nobody traces. */
static inline uint64_t vks_trace_begin(void) { return vks_tracing() ? vks_now() : 0; }
/* The hot paths' line: `call` writes what began then. */
#define VKS_TRACE(began, call)                                                                                         \
    do {                                                                                                               \
        if (__builtin_expect((began) != 0, 0))                                                                         \
            call;                                                                                                      \
    } while (0)

/* Of a call that is to cost no more than the branch: what is called then, and never inlined. */
#define VKS_TRACED __attribute__((noinline, cold))

/* For marks of any thread, from C or Python; nothing where nobody traces. `name` and `display` are cut to 23 bytes. */
void vks_trace_tick(const char *display, uint64_t began, uint64_t id, uint64_t time);   /* told since `began`; 0: now */
void vks_trace_span(const char *name, uint64_t began, uint64_t object, uint64_t value); /* ends now; began 0: nothing */
void vks_trace_mark(vks_trace_kind kind, const char *name, uint64_t began, uint64_t object, uint64_t value);

/* ---- for trace_points.c ---- */
/* Takes over nothing. Keeps errno and the thread's vks_error. */
void vks_trace_write(const vks_trace_record *record);
void vks_trace_set_text(vks_trace_record *record, const char *text);
/* A call that a signal interrupted is made again: what it is about, and when it began, stay with the thread until then.
 * resume() gives that time, or `began`. */
void vks_trace_interrupted(uint64_t object, uint64_t began);
uint64_t vks_trace_resume(uint64_t object, uint64_t began);
uint64_t vks_trace_next(void); /* numbers for what has no id: 1, 2, ... */

/* ---- for platform.c ---- */
void vks_trace_init(void);
void vks_trace_after_fork(void); /* in the child */

#endif
