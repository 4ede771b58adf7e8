/* queue_page.h: one queue of a network of surfaces as transitions of a shared page (rules Q): a
 * ring of (surface, metadata) pairs from one producer to one consumer, and the words of its two
 * ends.
 *
 * This file uses no surfaces, devices or threads, and never sleeps. Only the producer moves
 * `written` and `committed`, only the consumer moves `taken`; taken <= committed <= written <=
 * taken + capacity. A surface is in one place at a time and the ring has a place for each, so a
 * producer that keeps the rules never finds it full. Another process may have overwritten the page,
 * so every read value is checked against this process's own copy of the constants.
 */
#ifndef VKS_QUEUE_PAGE_H
#define VKS_QUEUE_PAGE_H

#include "shm/page.h"

/* An end's holder is one word, so that a death and the next opening cannot be confused: {state 2,
 * openings 14, identity 48}. */
enum { VKS_END_NEVER = 0, VKS_END_OPEN = 1, VKS_END_CLOSED = 2 };

static inline uint32_t vks_end_state(uint64_t word) { return (uint32_t)(word >> 62); }
static inline uint64_t vks_end_process(uint64_t word) { return word & VKS_IDENTITY_MASK; }

typedef struct vks_queue_entry {
    uint32_t surface; /* its index in the network */
    uint32_t length;  /* of the metadata, bytes */
    uint64_t epoch;   /* the epoch of the surface's word after the release for this entry */
    uint64_t value;   /* value of the surface's timeline that must complete before a flush commits the entry; 0: none */
    uint8_t metadata[];
} vks_queue_entry;

typedef struct vks_queue_page {
    vks_page_header header;
    uint64_t network; /* random; the same in all queues over the same surfaces */
    uint32_t count;   /* surfaces in the network */
    uint32_t metadata_size;
    uint32_t single_threaded;
    uint32_t early; /* each end may be used before the other end was first opened */
    uint64_t reserved0[5];
    /* written by the producer */
    _Atomic uint64_t written, committed;
    _Atomic uint32_t seq;  /* the futex: grows with each opening and closing, and with commits that find `want` set */
    _Atomic uint32_t want; /* a thread sleeps on seq */
    _Atomic uint64_t committed_at;
    uint64_t reserved1[4];
    /* written by the consumer */
    _Atomic uint64_t taken;
    _Atomic uint64_t taken_at;
    _Atomic uint64_t waiting_since; /* since when a thread sleeps in dequeue; 0: none */
    uint64_t reserved2[5];
    _Atomic uint64_t ends[2]; /* by vks_end */
    /* times (above, too) and names are for vkshare ps only */
    char names[2][VKS_NAME_SIZE];
    _Atomic uint64_t ends_since[2];
    uint64_t reserved3[6];
    /* The ring of vks_queue_entry, each rounded up to 16 bytes; their number is a power of two, at
     * least twice the surfaces. */
    uint8_t entries[];
} vks_queue_page;

/* A queue's constants, copied from the page once, when it was checked. */
typedef struct vks_queue_ring {
    vks_queue_page *page;
    size_t size; /* of the mapping */
    uint64_t network;
    uint32_t count, capacity, metadata_size, stride;
    bool single_threaded, early;
} vks_queue_ring;

/* Returns the size of a queue's page. */
size_t vks_queue_page_size(uint32_t count, uint32_t metadata_size);
/* Creates a page in a new memfd. Checks its arguments (VKS_BAD_CALL). */
vks_status vks_queue_page_create(const vks_queue_info *info, int *fd, vks_queue_ring *out);
/* Maps another process's page after every check. The fd stays the caller's. */
vks_status vks_queue_page_open(int fd, vks_queue_ring *out);
void vks_queue_page_close(vks_queue_ring *ring);

/* VKS_BAD_CALL: the end is open already. *word identifies this opening for the close. */
vks_status vks_queue_end_open(vks_queue_ring *ring, vks_end end, const char *name, uint64_t *word);
void vks_queue_end_close(vks_queue_ring *ring, vks_end end, uint64_t word);
/* Handles the death of a process; idempotent. */
void vks_queue_on_death(vks_queue_page *page, uint64_t process);

/* Functions of the producer. A pair is first written and later committed, so that a pair which was
 * written by a process that died in between is not lost. VKS_BAD_PAGE: the page's contents are
 * invalid; VKS_BAD_CALL: the ring is full. */
vks_status vks_queue_put(vks_queue_ring *ring, uint32_t surface, uint64_t epoch, const void *metadata, size_t length);
void vks_queue_undo_put(vks_queue_ring *ring);                  /* removes the last written, uncommitted pair */
void vks_queue_set_value(vks_queue_ring *ring, uint64_t value); /* of the last written pair */
vks_status vks_queue_pending(const vks_queue_ring *ring, uint32_t *count);
/* Returns the first uncommitted pair; VKS_TIMEOUT if there is none. */
vks_status vks_queue_first_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *value);
void vks_queue_commit(vks_queue_ring *ring, uint32_t count); /* commits `count` more pairs and wakes the consumer */
/* For a producer that died with uncommitted pairs. last_pending returns the last of them,
 * VKS_TIMEOUT if there is none. adopt commits them; `is_whole` says whether the producer had
 * released the surface of the last one. The consumer or (`producer`) the next producer calls it,
 * whichever comes first. */
vks_status vks_queue_last_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch);
void vks_queue_adopt(vks_queue_ring *ring, bool is_whole, bool producer);

/* Functions of the consumer. VKS_TIMEOUT: the queue is empty. `metadata` has room for metadata_size
 * bytes. */
vks_status vks_queue_peek(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch, void *metadata,
                          size_t *length);
void vks_queue_pop(vks_queue_ring *ring);
/* For vkshare ps: a thread begins to sleep, or none does any more. */
void vks_queue_set_waiting(vks_queue_ring *ring, bool waits);

/* To sleep on seq: call this, then check the page, then sleep on the returned value. */
uint32_t vks_queue_prepare_wait(vks_queue_page *page);
/* Wakes each sleeper and leaves `want` to commits, because sleepers must watch any process that
 * clears it. */
void vks_queue_wake(vks_queue_page *page);

#endif
