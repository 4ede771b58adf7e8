/* page.h: the layout of the shared pages (docs/spec/protocol.md, "Pages"). Every field that another process
 * may write is atomic.
 *
 * A layout change must raise VKS_LAYOUT_VERSION; the static asserts in page.c pin the offsets.
 */
#ifndef VKS_PAGE_H
#define VKS_PAGE_H

#include "memory.h"

#define VKS_PAGE_MAGIC UINT64_C(0x65676170736b76) /* "vkspage" */
enum { VKS_PAGE_FENCE = 1, VKS_PAGE_MUTEX = 2, VKS_PAGE_QUEUE = 3, VKS_PAGE_VSYNC = 4 };

typedef struct vks_page_header {
    uint64_t magic;
    uint32_t version, kind;
    uint64_t size;
    uint64_t id;            /* random: what vkshare ps joins the parties by */
    uint64_t pid_namespace; /* pids in the page mean nothing elsewhere */
    uint32_t width, height, format;
    uint32_t native; /* the timeline also travels as an opaque fd */
    uint64_t reserved;
} vks_page_header;

/* BROKEN: a promise is, and what the signaller's queues have still comes; it helps those that are stuck itself. */
typedef enum vks_fence_status {
    VKS_FENCE_LIVE = 0,
    VKS_FENCE_LOST,
    VKS_FENCE_CLOSED,
    VKS_FENCE_BROKEN
} vks_fence_status;

/* One signaller writes, everybody else maps it read-only (X20). */
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
    _Atomic uint64_t
        pending_value; /* the first value that this handle promised and has not settled yet; 0: nothing. Cleared by its
                 own process only: `completed` may be raised past it by a chain that broke, while the work still runs */
    _Atomic uint64_t waiting_since; /* ns, 0: does not wait */
    _Atomic uint64_t waiting_key;
    char name[VKS_NAME_SIZE];
    uint64_t reserved;
} vks_slot;

typedef struct vks_mutex_page {
    vks_page_header header;
    /* the state, and what its owner leaves beside it for the next one */
    _Atomic uint64_t word;
    _Atomic uint64_t key;
    _Atomic uint64_t value;     /* what the next owner's work waits for */
    _Atomic uint64_t signaller; /* identity with incarnation of the handle whose work brings `value` */
    _Atomic uint32_t signaller_slot;
    _Atomic uint32_t generation;
    _Atomic uint64_t next_key;  /* K30 */
    _Atomic uint64_t announced; /* a driver may be given the signal of this value: of the promises that no slot tells
                                  of, the last. Raised only, but for a lost device's (vks_mutex_unqueue) */
    uint64_t reserved0;
    /* the timeline of the surface */
    _Atomic uint64_t queued, completed; /* raised only, `queued` but for a lost device's */
    _Atomic uint32_t value_seq;         /* the futex of `queued` and `completed` */
    _Atomic uint32_t value_want;        /* somebody sleeps on it */
    uint64_t reserved1[5];
    /* sleepers */
    _Atomic uint32_t seq;        /* the futex of the word */
    _Atomic uint32_t want;       /* buckets of keys that somebody sleeps on */
    _Atomic uint32_t join_count; /* grows with every join */
    uint32_t reserved2[13];
    vks_slot slots[VKS_SLOTS];
} vks_mutex_page;

#define VKS_FENCE_PAGE_SIZE 4096u
#define VKS_MUTEX_PAGE_SIZE 8192u

/* Fills a header; the id is random. */
void vks_page_init(vks_page_header *header, uint32_t kind, uint64_t size);
/* Whether a header, which may be a copy, is of that kind and size and of this version. */
vks_status vks_page_check(const vks_page_header *header, uint32_t kind, size_t size);
/* Maps a foreign page after every check of X15 and K32. Takes over nothing. */
vks_status vks_page_open(int fd, uint32_t kind, bool writable, void **page);
/* For writing, one whose kind has no size of its own. */
vks_status vks_page_open_sized(int fd, uint32_t kind, size_t size, void **page);

#endif
