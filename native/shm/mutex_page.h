/* mutex_page.h: the keyed mutex as transitions of a shared page (docs/spec/protocol.md,
 * "Keyed-mutex page").
 *
 * This file uses no devices, threads or Vulkan, so a forked C program can drive it alone. All
 * functions are lock-free except vks_mutex_wait, which sleeps.
 *
 * The word is {epoch 52, slot 8, poisoned 1 (bit 2), state 2}. The epoch grows with every
 * transition that ends an ownership, so a compare-and-swap with a stale word cannot succeed under
 * another key. All swaps, and the loads that pair with `want`, are sequentially consistent: a
 * releaser swaps the word and then reads `want`, a waiter sets `want` and then reads the word, so
 * one of the two sees the other.
 */
#ifndef VKS_MUTEX_PAGE_H
#define VKS_MUTEX_PAGE_H

#include "shm/page.h"

enum { VKS_FREE = 0, VKS_OWNED = 1, VKS_ABANDONED_STATE = 2, VKS_STATE_MASK = 3, VKS_POISONED = 4 };

static inline uint32_t vks_word_state(uint64_t word) { return (uint32_t)(word & VKS_STATE_MASK); }
static inline uint32_t vks_word_slot(uint64_t word) { return (uint32_t)(word >> 4 & 0xff); }
static inline uint64_t vks_word_epoch(uint64_t word) { return word >> 12; }
static inline uint64_t vks_word(uint64_t epoch, uint32_t slot, uint32_t state)
{
    return epoch << 12 | (uint64_t)slot << 4 | state;
}

/* One party's slot in a page. This struct is process memory; threads that share a handle share
 * it. */
typedef struct vks_mutex_handle {
    vks_mutex_page *page;
    uint32_t slot;
    uint64_t identity;           /* of the slot: process and incarnation */
    _Atomic uint32_t generation; /* the last generation that this handle saw */
} vks_mutex_handle;

/* The point at which the previous owner's work completes. */
typedef struct vks_wait_point {
    uint64_t value;     /* 0: nothing to wait for */
    uint64_t signaller; /* identity of the slot whose work signals it; 0: no work does */
    uint32_t signaller_slot;
} vks_wait_point;

/* Initializes a page: free, key 0, no pending value. */
void vks_mutex_init(vks_mutex_page *page);
/* Takes a slot and wakes every sleeper, so that each watches the new party too. VKS_FULL. */
vks_status vks_mutex_join(vks_mutex_page *page, const char *name, vks_mutex_handle *out);
/* Frees the slot. The caller does not own the surface and has no pending value. */
void vks_mutex_leave(vks_mutex_handle *handle);

/* VKS_OK: owned, and *wait_point is filled. VKS_TIMEOUT: not free under that key; *seen is the word
 * that was read. VKS_ABANDONED: abandoned, or recovered by another handle; the latter is reported
 * once, and the next call works. */
vks_status vks_mutex_try(vks_mutex_handle *handle, uint64_t key, vks_wait_point *wait_point, uint64_t *seen);

/* The same, but VKS_TIMEOUT also if the word is free in another epoch. */
vks_status vks_mutex_try_epoch(vks_mutex_handle *handle, uint64_t key, uint64_t epoch, vks_wait_point *wait_point,
                               uint64_t *seen);

/* Spins on the word for `pauses` pauses after a try that read `seen`; never sleeps. Most hand-overs
 * between cores take less than 40 pauses (some 2 us). True: another try can succeed. */
#define VKS_MUTEX_PAUSES 40
bool vks_mutex_spin(vks_mutex_page *page, uint64_t seen, int pauses);

/* Starts to watch the page's parties for deaths, and handles deaths that already happened. Called
 * before each sleep; any status but VKS_OK ends the wait. */
typedef vks_status (*vks_mutex_watch)(void *user);
/* Blocks: spins, yields, then sleeps on the page (docs/spec/drivers.md). */
vks_status vks_mutex_wait(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch, void *user,
                          vks_wait_point *wait_point);
/* The same for callers that have spun already: the first pauses are left out. */
vks_status vks_mutex_wait_after_spin(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch,
                                     void *user, vks_wait_point *wait_point);
/* Fetches the word's cache line for writing, while the caller prepares the swap. The waiters' reads
 * have made the line shared, which costs a quarter of a hand-over between two cores (260 ns against
 * 200, from Python). */
static inline void vks_mutex_will_swap(const vks_mutex_page *page)
{
#ifdef __x86_64__
    /* __builtin_prefetch() emits prefetchw for newer baselines only; older processors ignore it. */
    __asm__ volatile("prefetchw %0" : : "m"(page->word));
#else
    __builtin_prefetch((const void *)&page->word, 1);
#endif
}
/* Caller owns the surface. VKS_OK: free under `key`. VKS_ABANDONED: the chain was poisoned, and the
 * surface is abandoned now. VKS_NOT_OWNER: the page has another owner, because a party that breaks
 * the protocol wrote to it. */
vks_status vks_mutex_release(vks_mutex_handle *handle, uint64_t key, const vks_wait_point *wait_point);
/* Ends an ownership without a release (K7). */
void vks_mutex_abandon(vks_mutex_handle *handle);
/* Returns whether the chain is poisoned: the current or next frame is incomplete. */
static inline bool vks_mutex_is_poisoned(const vks_mutex_page *page)
{
    uint64_t word = atomic_load(&page->word);
    return word & VKS_POISONED || vks_word_state(word) == VKS_ABANDONED_STATE;
}
/* Marks that work of the chain will never run: FREE becomes ABANDONED, and an owner's release will
 * abandon. */
void vks_mutex_poison(vks_mutex_page *page);
/* Announces a value, before a driver gets its signal and before the word is free. A slot holds one
 * value, the first pending one. False: the slot holds an earlier value, and page->announced keeps
 * this one for recover(). */
bool vks_mutex_announce(vks_mutex_handle *handle, uint64_t value);
/* Completes all values up to `value`. For failed work, call vks_mutex_poison first. `next` is the
 * handle's first value that is still pending, 0 if none is. */
void vks_mutex_complete(vks_mutex_handle *handle, uint64_t value, uint64_t next);
/* Publishes that a driver has the signal of `value`. */
void vks_mutex_publish_queued(vks_mutex_page *page, uint64_t value);
/* Handles the death of a process; idempotent, and any number of processes may do it at once. */
void vks_mutex_on_death(vks_mutex_page *page, uint64_t process);
/* ABANDONED becomes owned by the caller, still poisoned. VKS_NOT_ABANDONED. */
vks_status vks_mutex_recover_begin(vks_mutex_handle *handle);
/* Returns whether a slot other than the caller's has a pending value, and that slot's identity. */
bool vks_mutex_has_pending_values(const vks_mutex_handle *handle, uint64_t *signaller);
/* Withdraws the values of a lost device's handle above `completed`, up to `announced`, which never
 * come. */
void vks_mutex_retract_queued(vks_mutex_page *page, uint64_t announced);
/* Returns the highest value that any party, also one that has died, may have submitted to a driver;
 * 0: none. */
uint64_t vks_mutex_last_announced(const vks_mutex_page *page);
/* Completes all values, starts a new generation and wakes all sleepers. Returns the value that a
 * native timeline must be signalled to. */
uint64_t vks_mutex_recover_finish(vks_mutex_handle *handle);

/* Returns whether the slot still has this identity. If not, its handle was closed or its process
 * has died. */
static inline bool vks_mutex_slot_is(const vks_mutex_page *page, uint32_t slot, uint64_t identity)
{
    return slot < VKS_SLOTS && atomic_load(&page->slots[slot].identity) == identity;
}

/* To sleep on value_seq: call this, then read the counters, then sleep on the returned value. */
uint32_t vks_mutex_prepare_value_wait(vks_mutex_page *page);
/* The same for the word, under one key. */
uint32_t vks_mutex_prepare_wait(vks_mutex_page *page, uint64_t key);
void vks_mutex_wake_all(vks_mutex_page *page);

#endif
