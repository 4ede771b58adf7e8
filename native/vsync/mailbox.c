/* mailbox.c: see mailbox.h. */
#include "vsync/mailbox.h"

#include "os/platform.h"

#define WORDS 6
#define TRIES 1000 /* a writer takes some ten nanoseconds, unless its process has died */

/* ---- the writer ---- */

bool vks_mailbox_post(vks_mailbox *mailbox, const vks_tick *tick)
{
    const uint64_t words[WORDS] = {tick->id,
                                   tick->time,
                                   tick->output,
                                   tick->interval.numerator,
                                   (uint64_t)tick->interval.denominator << 32 | tick->flags,
                                   (uint64_t)tick->display << 32 | tick->kind};
    uint32_t sequence = atomic_load_explicit(&mailbox->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&mailbox->sequence, sequence, memory_order_relaxed);
    for (int i = 0; i < WORDS; i++) /* release: a reader that sees one of them sees the odd number too */
        atomic_store_explicit(&mailbox->tick[i], words[i], memory_order_release);
    atomic_store_explicit(&mailbox->sequence, sequence + 1, memory_order_release);
    uint32_t before = atomic_exchange(&mailbox->state, VKS_MAILBOX_FULL);
    if (before == VKS_MAILBOX_AWAITED)
        vks_futex_wake(&mailbox->state, VKS_ANY_BIT);
    return before != VKS_MAILBOX_FULL;
}

void vks_mailbox_retract(vks_mailbox *mailbox)
{
    uint32_t full = VKS_MAILBOX_FULL;
    atomic_compare_exchange_strong(&mailbox->state, &full, VKS_MAILBOX_EMPTY);
}

void vks_mailbox_close(vks_mailbox *mailbox)
{
    atomic_store(&mailbox->state, VKS_MAILBOX_CLOSED);
    vks_futex_wake(&mailbox->state, VKS_ANY_BIT);
}

void vks_mailbox_reopen(vks_mailbox *mailbox)
{
    uint32_t closed = VKS_MAILBOX_CLOSED;
    atomic_compare_exchange_strong(&mailbox->state, &closed, VKS_MAILBOX_EMPTY);
}

/* ---- the reader ---- */

static bool read_tick(const vks_mailbox *mailbox, vks_tick *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t words[WORDS];
        uint32_t sequence = atomic_load_explicit(&mailbox->sequence, memory_order_acquire);
        for (int w = 0; w < WORDS; w++)
            words[w] = atomic_load_explicit(&mailbox->tick[w], memory_order_acquire);
        if (sequence & 1 || atomic_load_explicit(&mailbox->sequence, memory_order_relaxed) != sequence) {
            vks_pause();
            continue;
        }
        *out = (vks_tick){.id = words[0],
                          .time = words[1],
                          .output = words[2],
                          .interval = {words[3], (uint32_t)(words[4] >> 32)},
                          .flags = (uint32_t)words[4],
                          .kind = (uint32_t)words[5],
                          .display = (uint32_t)(words[5] >> 32)};
        return true;
    }
    return false;
}

vks_status vks_mailbox_take(vks_mailbox *mailbox, vks_tick *out)
{
    uint32_t full = VKS_MAILBOX_FULL;
    if (!atomic_compare_exchange_strong(&mailbox->state, &full, VKS_MAILBOX_EMPTY))
        return full == VKS_MAILBOX_CLOSED ? VKS_CLOSED : VKS_TIMEOUT;
    return read_tick(mailbox, out) ? VKS_OK : VKS_TIMEOUT;
}

/* Marks the mailbox as slept on. False: there is a tick or a close to see. An invalid state, from
 * another process, counts as empty; otherwise the reader would poll it forever. */
static bool await(vks_mailbox *mailbox)
{
    uint32_t state = atomic_load(&mailbox->state);
    if (state == VKS_MAILBOX_FULL || state == VKS_MAILBOX_CLOSED)
        return false;
    return state == VKS_MAILBOX_AWAITED || atomic_compare_exchange_strong(&mailbox->state, &state, VKS_MAILBOX_AWAITED);
}

vks_status vks_mailbox_sleep(vks_mailbox *mailbox, const _Atomic uint32_t *changes, uint32_t expected,
                             uint64_t deadline)
{
    if (!await(mailbox))
        return VKS_OK;
    if (changes && atomic_load(changes) != expected)
        return VKS_OK;
    return vks_futex_wait(&mailbox->state, VKS_MAILBOX_AWAITED, VKS_ANY_BIT, deadline);
}

void vks_mailbox_wake(vks_mailbox *mailbox)
{
    uint32_t awaited = VKS_MAILBOX_AWAITED;
    atomic_compare_exchange_strong(&mailbox->state, &awaited, VKS_MAILBOX_EMPTY);
    vks_futex_wake(&mailbox->state, VKS_ANY_BIT); /* also if another process has changed the state */
}

void vks_mailbox_set_wanted(vks_mailbox *mailbox, bool wanted)
{
    if (atomic_exchange(&mailbox->wanted, wanted) != wanted)
        vks_futex_wake(&mailbox->wanted, VKS_ANY_BIT);
}
