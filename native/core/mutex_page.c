#include "mutex_page.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#define CONTROL_BIT (UINT32_C(1) << 31) /* deaths, joins, recoveries: every sleeper listens to it */

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

/* ---- sleeping on debts ---- */

uint32_t vks_mutex_want_value(vks_mutex_page *page)
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
        vks_atomic_max(&page->announced,
                       atomic_load(&slot->pending_value)); /* of a dead tenant, whose signal may be with a driver */
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
        wake_value_waiters(page); /* recover() may have seen what the slot's last tenant owed */
        return VKS_OK;
    }
    return vks_fail(VKS_FULL, 0, "all %u slots of the surface are taken: close handles that are not needed", VKS_SLOTS);
}

static void free_slot(vks_slot *slot, uint64_t identity)
{
    uint64_t free_identity =
        identity & ~VKS_IDENTITY_MASK; /* keeps the incarnation, so that the next taker's differs */
    atomic_compare_exchange_strong(&slot->identity, &identity, free_identity);
}

void vks_mutex_leave(vks_mutex_handle *handle)
{
    free_slot(&handle->page->slots[handle->slot], handle->identity);
    /* Somebody may sleep until this slot's debt is settled or its owner is gone. */
    wake(handle->page, CONTROL_BIT);
    atomic_fetch_add(&handle->page->value_seq, 1);
    vks_futex_wake(&handle->page->value_seq, VKS_ANY_BIT);
}

/* ---- acquire ---- */

static inline vks_status try_in(vks_mutex_handle *handle, uint64_t key, const uint64_t *epoch,
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
        /* Read before the swap, valid if it succeeds: only an owner writes them, and then the epoch grows. */
        wait_point->value = atomic_load_explicit(&page->value, memory_order_relaxed);
        wait_point->signaller = atomic_load_explicit(&page->signaller, memory_order_relaxed);
        wait_point->signaller_slot = atomic_load_explicit(&page->signaller_slot, memory_order_relaxed);
        uint64_t mine = vks_word(vks_word_epoch(word), handle->slot, VKS_OWNED);
        VKS_KILL_POINT(2);
        if (atomic_compare_exchange_strong(&page->word, &word, mine)) {
            VKS_KILL_POINT(3);
            VKS_TSAN_ACQUIRE(page->header.id);
            if (!wait_point->signaller ||
                atomic_load(&page->completed) >= wait_point->value) /* another cache line, so second */
                wait_point->value = 0;
            return VKS_OK;
        }
    }
}

vks_status vks_mutex_try(vks_mutex_handle *handle, uint64_t key, vks_wait_point *wait_point, uint64_t *seen)
{
    return try_in(handle, key, NULL, wait_point, seen);
}

vks_status vks_mutex_try_epoch(vks_mutex_handle *handle, uint64_t key, uint64_t epoch, vks_wait_point *wait_point,
                               uint64_t *seen)
{
    return try_in(handle, key, &epoch, wait_point, seen);
}

uint32_t vks_mutex_want(vks_mutex_page *page, uint64_t key)
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

/* Whether a try is worth while after the one that saw `seen`. That somebody owns now is no reason, and to fetch the
 * line for the swap then would take it from him; once it is free, fetching it at once runs beside what comes before the
 * swap. */
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

/* Pauses, mostly 40, then sched_yield until `until`: 1.2 us on the same core, 0.11 us across
 * (docs/spec/drivers.md). True if the word changed. */
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

/* The spinning is bounded as a whole: where others keep the word busy, a waiter on another key must come to sleep and
 * hear signals. */
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

/* An interrupted caller comes again with the same deadline: it is one wait still, and need not spin. */
static _Thread_local struct {
    const vks_slot *slot;
    uint64_t key, deadline, since;
} interrupted;

static vks_status wait_after(int pauses, vks_mutex_handle *handle, uint64_t key, uint64_t deadline,
                             vks_mutex_watch watch, void *user, vks_wait_point *wait_point)
{
    vks_mutex_page *page = handle->page;
    vks_slot *slot = &page->slots[handle->slot];
    uint64_t seen;
    bool again = interrupted.slot == slot && interrupted.key == key && interrupted.deadline == deadline;
    interrupted.slot = NULL;
    vks_status status = deadline && !again ? spin_and_try(handle, key, pauses, wait_point)
                                           : vks_mutex_try(handle, key, wait_point, &seen);
    if (status != VKS_TIMEOUT)
        return status;
    if (deadline == 0) { /* a test: but an owner that died unseen must be seen now (K7) */
        status = watch(user);
        return status ? status : vks_mutex_try(handle, key, wait_point, &seen);
    }
    uint64_t since = again ? interrupted.since : vks_now();
    atomic_store(&slot->waiting_key, key);
    atomic_store(&slot->waiting_since, since);
    for (;;) {
        uint32_t seq = vks_mutex_want(page, key);
        if ((status = watch(user)) || (status = vks_mutex_try(handle, key, wait_point, &seen)) != VKS_TIMEOUT)
            break;
        VKS_KILL_POINT(4);
        status = vks_now() < deadline ? vks_futex_wait(&page->seq, seq, bucket(key) | CONTROL_BIT, deadline)
                                      : VKS_TIMEOUT; /* seq may never stand still */
        if (status != VKS_OK) {
            /* K15: a release may have come at that very moment; take it, since its wake was spent on us. */
            vks_status last = vks_mutex_try(handle, key, wait_point, &seen);
            if (last != VKS_TIMEOUT)
                status = last;
            break;
        }
    }
    atomic_store(&slot->waiting_since, 0);
    if (status == VKS_INTERRUPTED) {
        interrupted.slot = slot;
        interrupted.key = key;
        interrupted.deadline = deadline;
        interrupted.since = since;
    }
    return status;
}

vks_status vks_mutex_wait(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch, void *user,
                          vks_wait_point *wait_point)
{
    return wait_after(PAUSES, handle, key, deadline, watch, user, wait_point);
}

vks_status vks_mutex_wait_on(vks_mutex_handle *handle, uint64_t key, uint64_t deadline, vks_mutex_watch watch,
                             void *user, vks_wait_point *wait_point)
{
    return wait_after(0, handle, key, deadline, watch, user, wait_point);
}

/* ---- release, and the ways in which a chain ends ---- */

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
    do { /* only the BROKEN bit can change under an owner; anything else was written by a party that does not keep the
            protocol */
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
        wake(page, bit); /* all of the bucket: one woken alone may want another key, or be dying */
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

/* ---- debts ---- */

bool vks_mutex_announce(vks_mutex_handle *handle, uint64_t value)
{
    vks_mutex_page *page = handle->page;
    uint64_t nothing = 0;
    if (atomic_compare_exchange_strong(&page->slots[handle->slot].pending_value, &nothing, value))
        return true;
    vks_atomic_max(&page->announced, value);
    return false;
}

void vks_mutex_queued(vks_mutex_page *page, uint64_t value)
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
    uint64_t owed = atomic_load(&page->slots[handle->slot].pending_value);
    if (owed && owed <= value && vks_mutex_slot_is(page, handle->slot, handle->identity))
        atomic_compare_exchange_strong(&page->slots[handle->slot].pending_value, &owed, next);
    wake_value_waiters(page);
}

/* ---- death ---- */

/* The word of a dead slot: OWNED by it, or FREE with a value that only its work could bring. */
static void end_dead_word(vks_mutex_page *page, uint32_t dead_slot, uint64_t identity)
{
    for (;;) {
        uint64_t word = atomic_load(&page->word);
        bool owned = vks_word_state(word) == VKS_OWNED && vks_word_slot(word) == dead_slot;
        bool owing = vks_word_state(word) == VKS_FREE && atomic_load(&page->signaller) == identity &&
                     atomic_load(&page->signaller_slot) == dead_slot &&
                     atomic_load(&page->completed) < atomic_load(&page->value);
        /* Read after the word: a slot that was reclaimed and taken again belongs to a living party. */
        if ((!owned && !owing) || atomic_load(&page->slots[dead_slot].identity) != identity)
            return;
        if (atomic_compare_exchange_strong(&page->word, &word,
                                           vks_word(vks_word_epoch(word) + 1, 0, VKS_ABANDONED_STATE)))
            return;
    }
}

void vks_mutex_death(vks_mutex_page *page, uint64_t process)
{
    for (uint32_t i = 0; i < VKS_SLOTS; i++) {
        uint64_t identity = atomic_load(&page->slots[i].identity);
        if ((identity & VKS_IDENTITY_MASK) != process)
            continue;
        end_dead_word(page, i, identity);
        VKS_KILL_POINT(10);
        /* Whatever came of it: the dead one may have died between its swap and its wake, or have swallowed a wake. */
        wake(page, VKS_ANY_BIT);
        atomic_fetch_add(&page->value_seq, 1);
        vks_futex_wake(&page->value_seq, VKS_ANY_BIT);
        free_slot(&page->slots[i], identity); /* last: who dies before leaves the slot for others to find; those who
                                                 sleep on debts ask who lives */
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

void vks_mutex_unqueue(vks_mutex_page *page, uint64_t announced)
{
    uint64_t queued = announced, last = announced; /* else another party's work came behind it */
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
    /* Read last: a value leaves its slot (vks_mutex_join, vks_mutex_complete) only after one of these has it. */
    uint64_t queued = atomic_load(&page->queued), announced = atomic_load(&page->announced);
    last = last > queued ? last : queued;
    return last > announced ? last : announced;
}

uint64_t vks_mutex_recover_finish(vks_mutex_handle *handle)
{
    vks_mutex_page *page = handle->page;
    uint64_t value = atomic_load(&page->value), completed = atomic_load(&page->completed);
    uint64_t last = vks_mutex_last_announced(page); /* a dead owner's queue may have it, though `value` is behind */
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
