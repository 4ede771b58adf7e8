#include "shm/mutex_page.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define CONTROL_BIT (UINT32_C(1) << 31) /* deaths, joins, recoveries: in every sleeper's mask */

static uint32_t bucket(uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return UINT32_C(1) << ((key >> 32) * 31 >> 32);
}

static void wake(vks_mutex_page *page, uint32_t bits)
{
    atomic_fetch_add(&page->seq, 1);
    vks_futex_wake(&page->seq, bits);
}

void vks_mutex_wake_all(vks_mutex_page *page) { wake(page, VKS_ANY_BIT); }

void vks_mutex_init(vks_mutex_page *page)
{
    memset((char *)page + sizeof page->header, 0, sizeof *page - sizeof page->header);
    atomic_store(&page->generation, 1);
}

/* ---- sleeping on values ---- */

uint32_t vks_mutex_prepare_value_wait(vks_mutex_page *page)
{
    uint32_t seq = atomic_load(&page->value_seq);
    atomic_exchange(&page->value_want, 1);
    return seq;
}

static void wake_value_waiters(vks_mutex_page *page)
{
    if (!atomic_load(&page->value_want))
        return;
    atomic_exchange(&page->value_want, 0);
    atomic_fetch_add(&page->value_seq, 1);
    vks_futex_wake(&page->value_seq, VKS_ANY_BIT);
}

/* ---- slots ---- */

vks_status vks_mutex_join(vks_mutex_page *page, const char *name, vks_mutex_handle *out)
{
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        vks_slot *slot = &page->slots[i];
        uint64_t free_identity = atomic_load(&slot->identity);
        if (vks_identity_pid(free_identity))
            continue;
        uint64_t incarnation = (free_identity >> VKS_IDENTITY_BITS) + 1;
        uint64_t mine = incarnation << VKS_IDENTITY_BITS | vks_self();
        if (!atomic_compare_exchange_strong(&slot->identity, &free_identity, mine))
            continue;
        /* The slot's last party died, and a driver may have its signal. */
        vks_atomic_max(&page->announced, atomic_load(&slot->pending_value));
        atomic_store(&slot->pending_value, 0);
        atomic_store(&slot->waiting_since, 0);
        snprintf(slot->name, VKS_NAME_SIZE, "%s", name);
        out->page = page;
        out->slot = i;
        out->identity = mine;
        atomic_store(&out->generation, atomic_load(&page->generation));
        VKS_KILL_POINT(1);
        atomic_fetch_add(&page->join_count, 1);
        wake(page, CONTROL_BIT);
        wake_value_waiters(page); /* recover() may wait for the pending value of the slot's last party */
        return VKS_OK;
    }
    return vks_fail(VKS_FULL, 0, "all %u slots of the surface are taken: close handles that are not needed", VKS_SLOTS);
}

static void free_slot(vks_slot *slot, uint64_t identity)
{
    /* Keeps the incarnation, so that the next party's differs. */
    uint64_t free_identity = identity & ~VKS_IDENTITY_MASK;
    atomic_compare_exchange_strong(&slot->identity, &identity, free_identity);
}

void vks_mutex_leave(vks_mutex_handle *handle)
{
    free_slot(&handle->page->slots[handle->slot], handle->identity);
    /* A thread may sleep until this slot's value completes or its party is gone. */
    wake(handle->page, CONTROL_BIT);
    atomic_fetch_add(&handle->page->value_seq, 1);
    vks_futex_wake(&handle->page->value_seq, VKS_ANY_BIT);
}

/* ---- acquire ---- */

static inline vks_status try_acquire(vks_mutex_handle *handle, uint64_t key, const uint64_t *epoch,
                                     vks_wait_point *wait_point, uint64_t *seen)
{
    vks_mutex_page *page = handle->page;
    for (;;) {
        uint64_t word = atomic_load(&page->word);
        *seen = word;
        if (vks_word_state(word) == VKS_ABANDONED_STATE)
            return VKS_ABANDONED;
        uint32_t generation = atomic_load_explicit(&page->generation, memory_order_relaxed);
        if (generation != atomic_load_explicit(&handle->generation, memory_order_relaxed)) {
            atomic_store(&handle->generation, generation);
            return VKS_ABANDONED;
        }
        if (vks_word_state(word) != VKS_FREE || atomic_load_explicit(&page->key, memory_order_relaxed) != key ||
            (epoch && vks_word_epoch(word) != *epoch))
            return VKS_TIMEOUT;
        /* Read before the swap and valid if it succeeds, because only an owner writes them, and
         * then the epoch grows. */
        wait_point->value = atomic_load_explicit(&page->value, memory_order_relaxed);
        wait_point->signaller = atomic_load_explicit(&page->signaller, memory_order_relaxed);
        wait_point->signaller_slot = atomic_load_explicit(&page->signaller_slot, memory_order_relaxed);
        uint64_t mine = vks_word(vks_word_epoch(word), handle->slot, VKS_OWNED);
        VKS_KILL_POINT(2);
        if (atomic_compare_exchange_strong(&page->word, &word, mine)) {
            VKS_KILL_POINT(3);
            VKS_TSAN_ACQUIRE(page->header.id);
            /* `completed` is read second, because it is in another cache line. */
            if (!wait_point->signaller || atomic_load(&page->completed) >= wait_point->value)
                wait_point->value = 0;
            return VKS_OK;
        }
    }
}

vks_status vks_mutex_try(vks_mutex_handle *handle, uint64_t key, vks_wait_point *wait_point, uint64_t *seen)
{
    return try_acquire(handle, key, NULL, wait_point, seen);
}

vks_status vks_mutex_try_epoch(vks_mutex_handle *handle, uint64_t key, uint64_t epoch, vks_wait_point *wait_point,
                               uint64_t *seen)
{
    return try_acquire(handle, key, &epoch, wait_point, seen);
}

uint32_t vks_mutex_prepare_wait(vks_mutex_page *page, uint64_t key)
{
    uint32_t seq = atomic_load(&page->seq);
    uint32_t bits = bucket(key) | CONTROL_BIT;
    if ((atomic_load_explicit(&page->want, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or(&page->want, bits);
    else
        atomic_thread_fence(memory_order_seq_cst);
    return seq;
}

#define PAUSES VKS_MUTEX_PAUSES
#define SPIN_NS 50000

/* Returns whether another try can succeed after the one that read `seen`. An owned word gives no
 * reason to try, and prefetching its line would take it from the owner. Once the word is free, the
 * prefetch overlaps with the work before the swap. */
static inline bool changed(vks_mutex_page *page, uint64_t seen)
{
    uint64_t word = atomic_load_explicit(&page->word, memory_order_relaxed);
    if (word == seen || vks_word_state(word) == VKS_OWNED)
        return false;
    vks_mutex_will_swap(page);
    return true;
}

bool vks_mutex_spin(vks_mutex_page *page, uint64_t seen, int pauses)
{
    for (int i = 0; i < pauses; i++) {
        if (changed(page, seen))
            return true;
        vks_pause();
    }
    return false;
}

/* Pauses, usually 40, then calls sched_yield until `until`. With it a hand-over takes 1.2 us between
 * two threads of one core, and 0.11 us between two cores (docs/spec/drivers.md). Returns whether the
 * word changed. */
static bool spin(vks_mutex_page *page, uint64_t seen, int pauses, uint64_t *until)
{
    if (vks_mutex_spin(page, seen, pauses))
        return true;
    if (!*until)
        *until = vks_now() + SPIN_NS;
    do {
        sched_yield();
        if (changed(page, seen))
            return true;
    } while (vks_now() < *until);
    return false;
}

/* Spins and tries for a bounded time. Where other parties keep the word busy, a waiter on another
 * key must reach its sleep and notice signals. */
static vks_status spin_and_try(vks_mutex_handle *handle, uint64_t key, int pauses, vks_wait_point *wait_point)
{
    uint64_t seen, until = 0;
    vks_status status = vks_mutex_try(handle, key, wait_point, &seen);
    while (status == VKS_TIMEOUT && (!until || vks_now() < until) && spin(handle->page, seen, pauses, &until)) {
        status = vks_mutex_try(handle, key, wait_point, &seen);
        pauses = PAUSES;
    }
    return status;
}

/* An interrupted caller calls again with the same deadline; the repeated call continues the same
 * wait, and does not spin again. */
static _Thread_local struct {
    const vks_slot *slot; /* NULL: no wait was interrupted */
    uint64_t key, deadline, since;
} interrupted;

/* The number of threads whose `interrupted` is set. A shared library reads thread-local data by a call, which a
 * hand-over can do without. */
static _Atomic uint32_t n_interrupted;

static void keep_interrupted(const vks_slot *slot, uint64_t key, uint64_t deadline, uint64_t since)
{
    atomic_fetch_add_explicit(&n_interrupted, 1, memory_order_relaxed);
    interrupted.slot = slot;
    interrupted.key = key;
    interrupted.deadline = deadline;
    interrupted.since = since;
}

/* Returns since when this thread has waited, if the last wait was this one and was interrupted; else
 * 0. */
static uint64_t take_interrupted(const vks_slot *slot, uint64_t key, uint64_t deadline)
{
    if (__builtin_expect(!atomic_load_explicit(&n_interrupted, memory_order_relaxed), 1) || !interrupted.slot)
        return 0;
    bool is_this = interrupted.slot == slot && interrupted.key == key && interrupted.deadline == deadline;
    atomic_fetch_sub_explicit(&n_interrupted, 1, memory_order_relaxed);
    interrupted.slot = NULL;
    return is_this ? interrupted.since : 0;
}

static vks_status wait_after(int pauses, vks_mutex_handle *handle, uint64_t key, uint64_t deadline,
                             vks_mutex_watch watch, void *user, vks_wait_point *wait_point)
{
    vks_mutex_page *page = handle->page;
    vks_slot *slot = &page->slots[handle->slot];
    uint64_t seen;
    uint64_t since = take_interrupted(slot, key, deadline);
    vks_status status = deadline && !since ? spin_and_try(handle, key, pauses, wait_point)
                                           : vks_mutex_try(handle, key, wait_point, &seen);
    if (status != VKS_TIMEOUT)
        return status;
    if (deadline == 0) { /* a test, which must still detect an owner that died (K9) */
        status = watch(user);
        return status ? status : vks_mutex_try(handle, key, wait_point, &seen);
    }
    since = since ? since : vks_now();
    atomic_store(&slot->waiting_key, key);
    atomic_store(&slot->waiting_since, since);
    for (;;) {
        uint32_t seq = vks_mutex_prepare_wait(page, key);
        if ((status = watch(user)) || (status = vks_mutex_try(handle, key, wait_point, &seen)) != VKS_TIMEOUT)
            break;
        VKS_KILL_POINT(4);
        status = vks_now() < deadline ? vks_futex_wait(&page->seq, seq, bucket(key) | CONTROL_BIT, deadline)
                                      : VKS_TIMEOUT; /* checked here, because seq may change all the time */
        if (status != VKS_OK) {
            /* K15: a release may have come just now; take it, because its wake was spent on this
             * thread. */
            vks_status last = vks_mutex_try(handle, key, wait_point, &seen);
            if (last != VKS_TIMEOUT)
                status = last;
            break;
        }
    }
    atomic_store(&slot->waiting_since, 0);
    if (status == VKS_INTERRUPTED)
        keep_interrupted(slot, key, deadline, since);
    return status;
}

vks_status vks_mutex_wait(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch, void *user,
                          vks_wait_point *wait_point)
{
    return wait_after(PAUSES, handle, key, deadline, watch, user, wait_point);
}

vks_status vks_mutex_wait_after_spin(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch,
                                     void *user, vks_wait_point *wait_point)
{
    return wait_after(0, handle, key, deadline, watch, user, wait_point);
}

/* ---- release, abandon, poison ---- */

vks_status vks_mutex_release(vks_mutex_handle *handle, uint64_t key, const vks_wait_point *wait_point)
{
    vks_mutex_page *page = handle->page;
    uint64_t word = atomic_load_explicit(&page->word, memory_order_relaxed);
    if (vks_word_state(word) != VKS_OWNED || vks_word_slot(word) != handle->slot)
        return VKS_NOT_OWNER;
    VKS_TSAN_RELEASE(page->header.id);
    atomic_store_explicit(&page->key, key, memory_order_relaxed);
    VKS_KILL_POINT(5);
    atomic_store_explicit(&page->signaller, wait_point->signaller, memory_order_relaxed);
    atomic_store_explicit(&page->signaller_slot, wait_point->signaller_slot, memory_order_relaxed);
    atomic_store_explicit(&page->value, wait_point->value, memory_order_relaxed);
    VKS_KILL_POINT(6);
    uint64_t next;
    /* Only the POISONED bit can change under an owner; any other change comes from a party that
     * breaks the protocol. */
    do {
        if (vks_word_state(word) != VKS_OWNED || vks_word_slot(word) != handle->slot)
            return VKS_NOT_OWNER;
        next = vks_word(vks_word_epoch(word) + 1, 0, word & VKS_POISONED ? VKS_ABANDONED_STATE : VKS_FREE);
    } while (!atomic_compare_exchange_weak(&page->word, &word, next));
    VKS_KILL_POINT(7);
    if (vks_word_state(next) == VKS_ABANDONED_STATE) {
        wake(page, CONTROL_BIT);
        return VKS_ABANDONED;
    }
    uint32_t bit = bucket(key);
    if (atomic_load(&page->want) & bit) {
        atomic_fetch_and(&page->want, ~bit);
        VKS_KILL_POINT(8);
        wake(page, bit); /* wake the whole bucket, because a single thread might wait for another key or be dying */
    }
    return VKS_OK;
}

void vks_mutex_abandon(vks_mutex_handle *handle)
{
    vks_mutex_page *page = handle->page;
    uint64_t word = atomic_load(&page->word);
    while (vks_word_state(word) == VKS_OWNED && vks_word_slot(word) == handle->slot)
        if (atomic_compare_exchange_weak(&page->word, &word,
                                         vks_word(vks_word_epoch(word) + 1, 0, VKS_ABANDONED_STATE)))
            break;
    wake(page, CONTROL_BIT);
}

void vks_mutex_poison(vks_mutex_page *page)
{
    uint64_t word = atomic_load(&page->word), next;
    do {
        if (vks_word_state(word) == VKS_ABANDONED_STATE)
            break;
        next = vks_word_state(word) == VKS_FREE ? vks_word(vks_word_epoch(word) + 1, 0, VKS_ABANDONED_STATE)
                                                : word | VKS_POISONED;
    } while (!atomic_compare_exchange_weak(&page->word, &word, next));
    wake(page, CONTROL_BIT);
}

/* ---- pending values ---- */

bool vks_mutex_announce(vks_mutex_handle *handle, uint64_t value)
{
    vks_mutex_page *page = handle->page;
    uint64_t nothing = 0;
    if (atomic_compare_exchange_strong(&page->slots[handle->slot].pending_value, &nothing, value))
        return true;
    vks_atomic_max(&page->announced, value);
    return false;
}

void vks_mutex_publish_queued(vks_mutex_page *page, uint64_t value)
{
    if (vks_atomic_max(&page->queued, value))
        wake_value_waiters(page);
}

void vks_mutex_complete(vks_mutex_handle *handle, uint64_t value, uint64_t next)
{
    vks_mutex_page *page = handle->page;
    VKS_TSAN_RELEASE(page->header.id);
    vks_atomic_max(&page->queued, value);
    VKS_KILL_POINT(9);
    vks_atomic_max(&page->completed, value);
    uint64_t pending = atomic_load(&page->slots[handle->slot].pending_value);
    if (pending && pending <= value && vks_mutex_slot_is(page, handle->slot, handle->identity))
        atomic_compare_exchange_strong(&page->slots[handle->slot].pending_value, &pending, next);
    wake_value_waiters(page);
}

/* ---- death ---- */

/* Abandons a word that belongs to a dead slot: OWNED by it (K9), or FREE with a value that only its
 * work could signal. */
static void abandon_dead_word(vks_mutex_page *page, uint32_t dead_slot, uint64_t identity)
{
    for (;;) {
        uint64_t word = atomic_load(&page->word);
        bool owned = vks_word_state(word) == VKS_OWNED && vks_word_slot(word) == dead_slot;
        bool is_pending = vks_word_state(word) == VKS_FREE && atomic_load(&page->signaller) == identity &&
                          atomic_load(&page->signaller_slot) == dead_slot &&
                          atomic_load(&page->completed) < atomic_load(&page->value);
        /* Read after the word: a reclaimed slot may belong to a live party again. */
        if ((!owned && !is_pending) || atomic_load(&page->slots[dead_slot].identity) != identity)
            return;
        if (atomic_compare_exchange_strong(&page->word, &word,
                                           vks_word(vks_word_epoch(word) + 1, 0, VKS_ABANDONED_STATE)))
            return;
    }
}

void vks_mutex_on_death(vks_mutex_page *page, uint64_t process)
{
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t identity = atomic_load(&page->slots[i].identity);
        if ((identity & VKS_IDENTITY_MASK) != process)
            continue;
        abandon_dead_word(page, i, identity);
        VKS_KILL_POINT(10);
        /* Wake in any case, because the process may have died between its swap and its wake, or
         * have consumed a wake. */
        wake(page, VKS_ANY_BIT);
        atomic_fetch_add(&page->value_seq, 1);
        vks_futex_wake(&page->value_seq, VKS_ANY_BIT);
        /* Free the slot last: if this process dies before, another finds the slot; sleepers on
         * values check that parties are alive. */
        free_slot(&page->slots[i], identity);
    }
}

/* ---- recover ---- */

vks_status vks_mutex_recover_begin(vks_mutex_handle *handle)
{
    uint64_t word = atomic_load(&handle->page->word);
    do {
        if (vks_word_state(word) != VKS_ABANDONED_STATE)
            return VKS_NOT_ABANDONED;
    } while (!atomic_compare_exchange_weak(&handle->page->word, &word,
                                           vks_word(vks_word_epoch(word) + 1, handle->slot, VKS_OWNED) | VKS_POISONED));
    return VKS_OK;
}

bool vks_mutex_has_pending_values(const vks_mutex_handle *handle, uint64_t *signaller)
{
    const vks_mutex_page *page = handle->page;
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t identity = atomic_load(&page->slots[i].identity);
        if (i == handle->slot || !vks_identity_pid(identity) || !atomic_load(&page->slots[i].pending_value))
            continue;
        *signaller = identity;
        return true;
    }
    return false;
}

void vks_mutex_retract_queued(vks_mutex_page *page, uint64_t announced)
{
    uint64_t queued = announced, last = announced; /* no match: another party's work follows */
    atomic_compare_exchange_strong(&page->queued, &queued, atomic_load(&page->completed));
    atomic_compare_exchange_strong(&page->announced, &last, atomic_load(&page->completed));
}

uint64_t vks_mutex_last_announced(const vks_mutex_page *page)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t pending_value = atomic_load(&page->slots[i].pending_value);
        last = last > pending_value ? last : pending_value;
    }
    /* Read last, because a value leaves its slot (vks_mutex_join, vks_mutex_complete) only after
     * one of these holds it. */
    uint64_t queued = atomic_load(&page->queued), announced = atomic_load(&page->announced);
    last = last > queued ? last : queued;
    return last > announced ? last : announced;
}

uint64_t vks_mutex_recover_finish(vks_mutex_handle *handle)
{
    vks_mutex_page *page = handle->page;
    uint64_t value = atomic_load(&page->value), completed = atomic_load(&page->completed);
    uint64_t last = vks_mutex_last_announced(page); /* a dead owner's queue may have it, although `value` is lower */
    value = value > completed ? value : completed;
    value = 1 + (value > last ? value : last);
    atomic_store(&page->value, value);
    atomic_store(&page->signaller, 0);
    vks_mutex_complete(handle, value, 0);
    uint32_t generation = atomic_fetch_add(&page->generation, 1) + 1;
    atomic_store(&handle->generation, generation);
    VKS_KILL_POINT(11);
    atomic_fetch_and(&page->word, ~(uint64_t)VKS_POISONED);
    wake(page, VKS_ANY_BIT);
    return value;
}
