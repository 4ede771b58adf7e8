/* queue_page.h: one queue of a network of surfaces as transitions of a shared page (rules Q): a ring of pairs (surface,
 * metadata) from one producer to one consumer, and who holds its two ends.
 *
 * Nothing here knows surfaces, devices or threads, and nothing sleeps: a page, and what may happen to it. The producer
 * alone moves `written` and `committed`, the consumer alone `taken`; taken <= committed <= written <= taken + capacity.
 * A surface is in one place at a time and the ring has a place for each, so a producer that keeps the rules never finds
 * it full. The page may have been scribbled on by another process: what is read from it is checked, each time, against
 * what this process knows.
 */
#ifndef VKS_QUEUE_PAGE_H
#define VKS_QUEUE_PAGE_H

#include "page.h"

/* Who holds an end is one word, so that a death and the next opening cannot be mixed up: {state 2, openings 14,
 * identity 48}. */
enum { VKS_END_NEVER = 0, VKS_END_OPEN = 1, VKS_END_CLOSED = 2 };

static inline uint32_t vks_end_state(uint64_t word) { return (uint32_t)(word >> 62); }
static inline uint64_t vks_end_process(uint64_t word) { return word & VKS_IDENTITY_MASK; }

typedef struct vks_queue_entry {
    uint32_t surface; /* its number in the network */
    uint32_t length;  /* of the metadata, bytes */
    uint64_t epoch;   /* that the surface's word has once it was given up for this place */
    uint64_t value;   /* of the surface's timeline: what has to have completed before a flush commits it; 0: nothing */
    uint8_t metadata[];
} vks_queue_entry;

typedef struct vks_queue_page {
    vks_page_header header;
    uint64_t network; /* random; the same in all queues over the same surfaces */
    uint32_t count;   /* surfaces in the network */
    uint32_t metadata_size;
    uint32_t single_threaded;
    uint32_t early; /* each end may be used before the other was opened for the first time */
    uint64_t reserved0[5];
    /* the producer's */
    _Atomic uint64_t written, committed;
    _Atomic uint32_t seq;  /* the futex: grows with each opening and closing, and with commits that find `want` set */
    _Atomic uint32_t want; /* somebody sleeps on it */
    _Atomic uint64_t committed_at;
    uint64_t reserved1[4];
    /* the consumer's */
    _Atomic uint64_t taken;
    _Atomic uint64_t taken_at;
    _Atomic uint64_t waiting_since; /* somebody sleeps in dequeue since; 0: nobody */
    uint64_t reserved2[5];
    _Atomic uint64_t ends[2]; /* by vks_end */
    /* times (above, too) and names are for vkshare ps only */
    char names[2][VKS_NAME_SIZE];
    _Atomic uint64_t ends_since[2];
    uint64_t reserved3[6];
    uint8_t entries[]; /* the ring: a power of two, twice the surfaces or more, of vks_queue_entry, each rounded up to
                          16 bytes */
} vks_queue_page;

/* What this process knows of a queue, copied from the page once, when it was checked. */
typedef struct vks_queue_ring {
    vks_queue_page *page;
    size_t size; /* of the mapping */
    uint64_t network;
    uint32_t count, capacity, metadata_size, stride;
    bool single_threaded, early;
} vks_queue_ring;

/* The size of the page of such a queue. */
size_t vks_queue_page_size(uint32_t count, uint32_t metadata_size);
/* A fresh memfd. Checks its arguments (VKS_BAD_CALL). */
vks_status vks_queue_page_create(const vks_queue_info *info, int *fd, vks_queue_ring *out);
/* Maps a foreign page after every check. Takes over nothing. */
vks_status vks_queue_page_open(int fd, vks_queue_ring *out);
void vks_queue_page_close(vks_queue_ring *ring);

/* VKS_BAD_CALL: somebody has it open. *word is what close needs. */
vks_status vks_queue_end_open(vks_queue_ring *ring, vks_end end, const char *name, uint64_t *word);
void vks_queue_end_close(vks_queue_ring *ring, vks_end end, uint64_t word);
/* What every process does when it hears that the process died; idempotent. */
void vks_queue_death(vks_queue_page *page, uint64_t process);

/* The producer's, all of them. A pair is put down first and committed later: what was put down by a process that died
 * in between is not lost. VKS_BAD_PAGE: the page says nonsense; VKS_BAD_CALL: the ring is full. */
vks_status vks_queue_put(vks_queue_ring *ring, uint32_t surface, uint64_t epoch, const void *metadata, size_t length);
void vks_queue_undo_put(vks_queue_ring *ring);                  /* the last that was put down, not committed */
void vks_queue_set_value(vks_queue_ring *ring, uint64_t value); /* of the last that was put down */
vks_status vks_queue_pending(const vks_queue_ring *ring, uint32_t *count);
/* The first that is put down and not committed: VKS_TIMEOUT if there is none. */
vks_status vks_queue_first_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *value);
void vks_queue_commit(vks_queue_ring *ring, uint32_t count); /* that many more, and wakes the consumer */
/* After a producer died without having committed all that it put down: the last of it, VKS_TIMEOUT if there is none;
 * and what is done then, `is_whole` saying whether the producer had given that surface up. By the consumer, or
 * (`producer`) by the next one, whichever comes first. */
vks_status vks_queue_last_pending(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch);
void vks_queue_adopt(vks_queue_ring *ring, bool is_whole, bool producer);

/* The consumer's. VKS_TIMEOUT: nothing is there. `metadata` has room for metadata_size bytes. */
vks_status vks_queue_peek(const vks_queue_ring *ring, uint32_t *surface, uint64_t *epoch, void *metadata,
                          size_t *length);
void vks_queue_taken(vks_queue_ring *ring);
/* What vkshare ps tells of it: a thread begins to sleep, or none does any more. */
void vks_queue_waits(vks_queue_ring *ring, bool waits);

/* To sleep on seq: call this first, then look, then sleep on the value that it returned. */
uint32_t vks_queue_want(vks_queue_page *page);
/* Wakes each sleeper, and leaves `want` to commits: a process that clears it must be watched by the sleepers. */
void vks_queue_wake(vks_queue_page *page);

#endif
