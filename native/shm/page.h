/* page.h: the layout of the shared pages (docs/spec/protocol.md, "Pages"). Every field that another
 * process may write is atomic.
 *
 * A layout change must raise VKS_LAYOUT_VERSION. The static asserts in page.c pin the offsets.
 */
#ifndef VKS_PAGE_H
#define VKS_PAGE_H

#include "shm/memory.h"

#define VKS_PAGE_MAGIC UINT64_C(0x65676170736b76) /* "vkspage" */
enum { VKS_PAGE_FENCE = 1, VKS_PAGE_MUTEX = 2, VKS_PAGE_QUEUE = 3, VKS_PAGE_VSYNC = 4 };

typedef struct vks_page_header {
    uint64_t magic;
    uint32_t version, kind;
    uint64_t size;
    uint64_t id;            /* random; vkshare ps groups parties by it */
    uint64_t pid_namespace; /* pids in the page are valid in this namespace only */
    uint32_t width, height, format;
    uint32_t native; /* the timeline is also shared as an opaque fd */
    vks_color color; /* of a surface; all 0: not said */
    uint8_t reserved[3];
} vks_page_header;

/* BROKEN: an announced signal will never come. Signals that the signaller's queues already have
 * still come, and the signaller resolves orphaned waits for them itself. */
typedef enum vks_fence_status {
    VKS_FENCE_LIVE = 0,
    VKS_FENCE_LOST,
    VKS_FENCE_CLOSED,
    VKS_FENCE_BROKEN
} vks_fence_status;

/* One signaller writes the page; every other process maps it read-only (X20). */
typedef struct vks_fence_page {
    vks_page_header header;
    uint64_t owner; /* identity */
    char name[VKS_NAME_SIZE];
    uint64_t reserved[4];
    _Atomic uint64_t queued; /* the driver has the signal of this value */
    _Atomic uint64_t completed;
    _Atomic uint32_t seq; /* the futex: grows after every change of the others */
    _Atomic uint32_t status;
    uint64_t reserved1[5];
} vks_fence_page;

typedef struct vks_slot {
    _Atomic uint64_t identity; /* {incarnation 16, start 26, pid 22}; pid 0: free */
    /* The first pending value of this handle: announced and not completed; 0: none. Only its own
     * process clears it, because a poisoned chain may raise `completed` past it while the work
     * still runs. */
    _Atomic uint64_t pending_value;
    _Atomic uint64_t waiting_since; /* ns; 0: it does not wait */
    _Atomic uint64_t waiting_key;
    char name[VKS_NAME_SIZE];
    uint64_t reserved;
} vks_slot;

/* The pixels that one turn may have changed, as its owner says. Written by the owner before its
 * release, and read by later owners, which check it: another process has written it. */
typedef struct vks_damage {
    _Atomic uint64_t epoch;         /* of the word after that release; 0: none */
    _Atomic uint64_t place, extent; /* x | y << 32, width | height << 32 */
} vks_damage;

#define VKS_DAMAGES 8u /* the last turns whose damage a page keeps */

typedef struct vks_mutex_page {
    vks_page_header header;
    /* the state, and the last owner's wait point */
    _Atomic uint64_t word;
    _Atomic uint64_t key;
    _Atomic uint64_t value;     /* the next owner's work waits for it */
    _Atomic uint64_t signaller; /* identity, with incarnation, of the handle whose work signals `value` */
    _Atomic uint32_t signaller_slot;
    _Atomic uint32_t generation;
    _Atomic uint64_t next_key; /* K30 */
    /* The last announced value that no slot holds; a driver may have its signal. Only raised,
     * except by a lost device (vks_mutex_retract_queued). */
    _Atomic uint64_t announced;
    uint64_t reserved0;
    /* the timeline of the surface */
    _Atomic uint64_t queued, completed; /* only raised, except `queued` by a lost device */
    _Atomic uint32_t value_seq;         /* the futex of `queued` and `completed` */
    _Atomic uint32_t value_want;        /* a thread sleeps on value_seq */
    uint64_t reserved1[5];
    /* sleepers */
    _Atomic uint32_t seq;        /* the futex of the word */
    _Atomic uint32_t want;       /* bit set of the key buckets that threads sleep on */
    _Atomic uint32_t join_count; /* grows with every join */
    uint32_t reserved2[13];
    vks_slot slots[VKS_SLOTS];
    vks_damage damage[VKS_DAMAGES]; /* of the turn with epoch e: entry e % VKS_DAMAGES */
} vks_mutex_page;

#define VKS_FENCE_PAGE_SIZE 4096u
#define VKS_MUTEX_PAGE_SIZE 8192u

/* Fills a header; the id is random. */
void vks_page_init(vks_page_header *header, uint32_t kind, uint64_t size);
/* Checks that a header, which may be a copy, has that kind and size and this version. */
vks_status vks_page_check(const vks_page_header *header, uint32_t kind, size_t size);
/* Maps another process's page after every check of X15 and K32. The fd stays the caller's. */
vks_status vks_page_open(int fd, uint32_t kind, bool writable, void **page);
/* The same, for writing, for a kind whose size varies. */
vks_status vks_page_open_sized(int fd, uint32_t kind, size_t size, void **page);

#endif
