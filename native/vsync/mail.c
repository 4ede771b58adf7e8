/* mail.c: see mail.h. */
#include "vsync/mail.h"

#include "core/platform.h"

#define WORDS 6
#define TRIES 1000 /* a writer is done in some ten nanoseconds, unless it has died */

/* ---- of the one who tells ---- */

bool vks_mail_post(vks_mail *mail, const vks_tick *tick)
{
    const uint64_t words[WORDS] = {tick->id,
                                   tick->time,
                                   tick->output,
                                   tick->interval.numerator,
                                   (uint64_t)tick->interval.denominator << 32 | tick->flags,
                                   (uint64_t)tick->display << 32 | tick->kind};
    uint32_t sequence = atomic_load_explicit(&mail->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&mail->sequence, sequence, memory_order_relaxed);
    for (int i = 0; i < WORDS; i++) /* release: who sees one of them sees the odd number too */
        atomic_store_explicit(&mail->tick[i], words[i], memory_order_release);
    atomic_store_explicit(&mail->sequence, sequence + 1, memory_order_release);
    uint32_t before = atomic_exchange(&mail->word, VKS_MAIL_TOLD);
    if (before == VKS_MAIL_AWAITED)
        vks_futex_wake(&mail->word, VKS_ANY_BIT);
    return before != VKS_MAIL_TOLD;
}

void vks_mail_retract(vks_mail *mail)
{
    uint32_t told = VKS_MAIL_TOLD;
    atomic_compare_exchange_strong(&mail->word, &told, VKS_MAIL_NONE);
}

void vks_mail_close(vks_mail *mail)
{
    atomic_store(&mail->word, VKS_MAIL_CLOSED);
    vks_futex_wake(&mail->word, VKS_ANY_BIT);
}

void vks_mail_reopen(vks_mail *mail)
{
    uint32_t closed = VKS_MAIL_CLOSED;
    atomic_compare_exchange_strong(&mail->word, &closed, VKS_MAIL_NONE);
}

/* ---- of the one who is told ---- */

static bool read_tick(const vks_mail *mail, vks_tick *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t words[WORDS];
        uint32_t sequence = atomic_load_explicit(&mail->sequence, memory_order_acquire);
        for (int w = 0; w < WORDS; w++)
            words[w] = atomic_load_explicit(&mail->tick[w], memory_order_acquire);
        if (sequence & 1 || atomic_load_explicit(&mail->sequence, memory_order_relaxed) != sequence) {
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

vks_status vks_mail_take(vks_mail *mail, vks_tick *out)
{
    uint32_t told = VKS_MAIL_TOLD;
    if (!atomic_compare_exchange_strong(&mail->word, &told, VKS_MAIL_NONE))
        return told == VKS_MAIL_CLOSED ? VKS_CLOSED : VKS_TIMEOUT;
    return read_tick(mail, out) ? VKS_OK : VKS_TIMEOUT;
}

/* Tells that somebody sleeps. False: there is something to look at. A word that is none, of another process, is as good
 * as nothing: who went on looking at it would do so without end. */
static bool await(vks_mail *mail)
{
    uint32_t word = atomic_load(&mail->word);
    if (word == VKS_MAIL_TOLD || word == VKS_MAIL_CLOSED)
        return false;
    return word == VKS_MAIL_AWAITED || atomic_compare_exchange_strong(&mail->word, &word, VKS_MAIL_AWAITED);
}

vks_status vks_mail_sleep(vks_mail *mail, const _Atomic uint32_t *changes, uint32_t expected, uint64_t deadline)
{
    if (!await(mail))
        return VKS_OK;
    if (changes && atomic_load(changes) != expected)
        return VKS_OK;
    return vks_futex_wait(&mail->word, VKS_MAIL_AWAITED, VKS_ANY_BIT, deadline);
}

void vks_mail_rouse(vks_mail *mail)
{
    uint32_t awaited = VKS_MAIL_AWAITED;
    atomic_compare_exchange_strong(&mail->word, &awaited, VKS_MAIL_NONE);
    vks_futex_wake(&mail->word, VKS_ANY_BIT); /* whatever another process has made of the word */
}

void vks_mail_want(vks_mail *mail, bool wanted)
{
    if (atomic_exchange(&mail->wanted, wanted) != wanted)
        vks_futex_wake(&mail->wanted, VKS_ANY_BIT);
}
