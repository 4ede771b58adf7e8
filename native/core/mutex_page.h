/* mutex_page.h: the keyed mutex as transitions of a shared page (docs/spec/protocol.md,
 * "Keyed-mutex page").
 *
 * Nothing here knows devices, threads of ours or Vulkan: a page, a slot, and what may happen to them. A forked C
 * program can drive it with nothing else. All functions are lock-free but vks_mutex_wait, which sleeps.
 *
 * The word is {epoch 52, slot 8, broken 1 (bit 2), state 2}. The epoch grows with every transition that ends an
 * ownership, so that a swap on a word that was read before cannot succeed under another key. All swaps and the loads
 * that pair with `want` are sequentially consistent: a releaser swaps the word and then reads `want`, a waiter sets
 * `want` and then reads the word; one of the two sees the other.
 */
#ifndef VKS_MUTEX_PAGE_H
#define VKS_MUTEX_PAGE_H

#include "page.h"

enum { VKS_FREE = 0, VKS_OWNED = 1, VKS_ABANDONED_STATE = 2, VKS_STATE_MASK = 3, VKS_POISONED = 4 };

static inline uint32_t vks_word_state(uint64_t word) { return (uint32_t)(word & VKS_STATE_MASK); }
static inline uint32_t vks_word_slot(uint64_t word) { return (uint32_t)(word >> 4 & 0xff); }
static inline uint64_t vks_word_epoch(uint64_t word) { return word >> 12; }
static inline uint64_t vks_word(uint64_t epoch, uint32_t slot, uint32_t state)
{
    return epoch << 12 | (uint64_t)slot << 4 | state;
}

/* One party's place in a page. The memory is its own; threads that share a handle share it. */
typedef struct vks_mutex_handle {
    vks_mutex_page *page;
    uint32_t slot;
    uint64_t identity;           /* of the slot: process and incarnation */
    _Atomic uint32_t generation; /* the last one seen */
} vks_mutex_handle;

/* What the previous owner left. */
typedef struct vks_wait_point {
    uint64_t value;     /* 0: nothing to wait for */
    uint64_t signaller; /* identity of the slot whose work brings it; 0: no work does, nothing is left to come */
    uint32_t signaller_slot;
} vks_wait_point;

/* A fresh page: free, key 0, nothing owed. */
void vks_mutex_init(vks_mutex_page *page);
/* Takes a slot and wakes every sleeper, so that each watches the newcomer too. VKS_FULL. */
vks_status vks_mutex_join(vks_mutex_page *page, const char *name, vks_mutex_handle *out);
/* Gives the slot back. The caller does not own and owes nothing. */
void vks_mutex_leave(vks_mutex_handle *handle);

/* VKS_OK: owned, *debt filled. VKS_TIMEOUT: not free under that key; *seen is the word that said so. VKS_ABANDONED:
 * abandoned, or a new generation (then adopted: the next call works). */
vks_status vks_mutex_try(vks_mutex_handle *handle, uint64_t key, vks_wait_point *wait_point, uint64_t *seen);

/* The same, but VKS_TIMEOUT also where the word is free in another epoch. */
vks_status vks_mutex_try_epoch(vks_mutex_handle *handle, uint64_t key, uint64_t epoch, vks_wait_point *wait_point,
                               uint64_t *seen);

/* After a try that saw `seen`: looks for as long as so many pauses take and never sleeps; most hand-overs between cores
 * come within 40 (some 2 us). True if another try is worth while. */
#define VKS_MUTEX_PAUSES 40
bool vks_mutex_spin(vks_mutex_page *page, uint64_t seen, int pauses);

/* Makes sure that the deaths of the page's parties will be heard, and handles those that died already. Called before
 * each sleep; anything but VKS_OK ends the wait. */
typedef vks_status (*vks_mutex_watch)(void *user);
/* Blocks. Spins, yields, then sleeps on the page: the waiting strategy of docs/spec/drivers.md. */
vks_status vks_mutex_wait(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch, void *user,
                          vks_wait_point *wait_point);
/* The rest of it, for those who have looked for so long already: without the pauses. */
vks_status vks_mutex_wait_on(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch,
                             void *user, vks_wait_point *wait_point);
/* Before a swap of the word: fetches its cache line for writing while the caller prepares the rest. The waiters' looks
 * have made it a shared one, and between two cores that is a quarter of the hand-over (260 ns to 200, from Python). */
static inline void vks_mutex_will_swap(const vks_mutex_page *page)
{
#ifdef __x86_64__
    /* __builtin_prefetch() gives it to newer baselines only; older processors do nothing. */
    __asm__ volatile("prefetchw %0" : : "m"(page->word));
#else
    __builtin_prefetch((const void *)&page->word, 1);
#endif
}
/* The caller owns. VKS_OK: free under `key`. VKS_ABANDONED: the chain was broken meanwhile, the surface is abandoned
 * now. VKS_NOT_OWNER: the page says otherwise (a party that does not keep the protocol wrote to it). */
vks_status vks_mutex_release(vks_mutex_handle *handle, uint64_t key, const vks_wait_point *wait_point);
/* An owner goes without having released (K7). */
void vks_mutex_abandon(vks_mutex_handle *handle);
/* Somebody marked the chain: what is there, or will be, is not a whole frame. */
static inline bool vks_mutex_is_poisoned(const vks_mutex_page *page)
{
    uint64_t word = atomic_load(&page->word);
    return word & VKS_POISONED || vks_word_state(word) == VKS_ABANDONED_STATE;
}
/* Work that the chain depends on will never run: FREE becomes ABANDONED, an owner's release will abandon. */
void vks_mutex_poison(vks_mutex_page *page);
/* Before a driver is given the signal of `value`, and before the word is free. A slot has room for one promise, the
 * first that is open; false: there is one, and the page itself keeps the new one for recover(). */
bool vks_mutex_announce(vks_mutex_handle *handle, uint64_t value);
/* The work that was promised up to `value` is done (or will never be: then after vks_mutex_poison). `next` is what the
 * handle owes from then on: the first of its promises that are still open, 0 if none is. */
void vks_mutex_complete(vks_mutex_handle *handle, uint64_t value, uint64_t next);
/* The driver has the signal of `value`. */
void vks_mutex_queued(vks_mutex_page *page, uint64_t value);
/* What every process does when it hears that the process died; idempotent, any number may do it at once. */
void vks_mutex_death(vks_mutex_page *page, uint64_t process);
/* ABANDONED -> owned by the caller, still broken; VKS_NOT_ABANDONED. */
vks_status vks_mutex_recover_begin(vks_mutex_handle *handle);
/* True while a live slot other than the caller's owes a value. */
bool vks_mutex_has_pending_values(const vks_mutex_handle *handle, uint64_t *signaller);
/* The values of a lost device's handle above `completed`, up to `promised`, never come. */
void vks_mutex_unqueue(vks_mutex_page *page, uint64_t announced);
/* The highest value that any party, living or dead, may have given a driver to signal; 0: none. */
uint64_t vks_mutex_last_announced(const vks_mutex_page *page);
/* Settles everything, starts a new generation, wakes all. Returns the value that a native timeline must be brought to.
 */
uint64_t vks_mutex_recover_finish(vks_mutex_handle *handle);

/* True if the slot's identity is still `identity`: a debtor whose slot was reclaimed is dead or gone. */
static inline bool vks_mutex_slot_is(const vks_mutex_page *page, uint32_t slot, uint64_t identity)
{
    return slot < VKS_SLOTS && atomic_load(&page->slots[slot].identity) == identity;
}

/* To sleep on value_seq: call want first, then read the counters, then sleep on the value that want returned. */
uint32_t vks_mutex_want_value(vks_mutex_page *page);
/* Likewise for the word, under one key or (watchers) every key. */
uint32_t vks_mutex_want(vks_mutex_page *page, uint64_t key);
void vks_mutex_wake_all(vks_mutex_page *page);

#endif
