/* The mailbox between threads, and with any state that another process may write. rules: V8, V18 */
#include <pthread.h>
#include <string.h>

#include "check_macros.h"
#include "os/platform.h"
#include "vsync/mailbox.h"

/* Every word depends on the id, so that a mixture of two ticks is detected. */
static vks_tick numbered(uint64_t id)
{
    return (vks_tick){.id = id,
                      .time = id * 1000,
                      .output = id * 1000 + 17,
                      .interval = {id + 1000000, (uint32_t)id | 1},
                      .kind = (uint32_t)(id % 5),
                      .flags = (uint32_t)(id % 8),
                      .display = (uint32_t)(id * 7)};
}

static bool is_whole(const vks_tick *tick)
{
    vks_tick expected = numbered(tick->id);
    return tick->time == expected.time && tick->output == expected.output &&
           tick->interval.numerator == expected.interval.numerator &&
           tick->interval.denominator == expected.interval.denominator && tick->kind == expected.kind &&
           tick->flags == expected.flags && tick->display == expected.display;
}

static void the_newest_tick_is_taken_once_and_whole(void)
{
    vks_mailbox mailbox = {0};
    vks_tick tick;
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "an empty mail");
    CHECK(vks_mailbox_post(&mailbox, &(vks_tick){.id = 1}), "its reader has nothing yet");
    for (uint64_t id = 2; id < 12; id++) {
        vks_tick posted = numbered(id);
        CHECK(!vks_mailbox_post(&mailbox, &posted), "the reader is behind and needs no other wake");
    }
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_OK && tick.id == 11 && is_whole(&tick), "id %llu",
          (unsigned long long)tick.id);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "twice");
    CHECK(vks_mailbox_post(&mailbox, &tick), "it was taken");
    vks_mailbox_retract(&mailbox);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "it was taken back");
}

static void a_closed_mailbox_reports_it_until_it_is_reopened(void)
{
    vks_mailbox mailbox = {0};
    vks_tick tick = numbered(3);
    vks_mailbox_post(&mailbox, &tick);
    vks_mailbox_close(&mailbox);
    vks_mailbox_retract(&mailbox);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_CLOSED, "an earlier tick does not matter");
    CHECK(vks_mailbox_sleep(&mailbox, NULL, 0, VKS_FOREVER) == VKS_OK, "a closed mailbox does not block");
    vks_mailbox_reopen(&mailbox);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "open, and empty");
}

static void a_writer_that_died_within_a_tick_leaves_nothing_to_take(void)
{
    vks_mailbox mailbox = {0};
    vks_tick tick = numbered(4);
    vks_mailbox_post(&mailbox, &tick);
    atomic_fetch_add(&mailbox.sequence, 1);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "half a tick");
    tick = numbered(5);
    vks_mailbox_post(&mailbox, &tick); /* another one goes on */
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_OK && tick.id == 5 && is_whole(&tick), "the next one is whole");
}

static void a_sleeper_is_woken_or_does_not_sleep_after_a_change(void)
{
    vks_mailbox mailbox = {0};
    _Atomic uint32_t changes = 1;
    CHECK(vks_mailbox_sleep(&mailbox, &changes, 0, VKS_FOREVER) == VKS_OK, "it had changed");
    vks_mailbox_wake(&mailbox);
    CHECK(mailbox.state == VKS_MAILBOX_EMPTY, "no reader sleeps");
    CHECK(vks_mailbox_sleep(&mailbox, &changes, 1, vks_now() + 1000000) == VKS_TIMEOUT, "nothing came");
}

static void an_invalid_state_is_slept_on_and_not_polled(void)
{
    vks_mailbox mailbox = {.state = 17};
    vks_tick tick = numbered(6);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_TIMEOUT, "no tick");
    CHECK(vks_mailbox_sleep(&mailbox, NULL, 0, vks_now() + 1000000) == VKS_TIMEOUT, "nothing came");
    mailbox.state = 17;
    vks_mailbox_post(&mailbox, &tick);
    CHECK(vks_mailbox_take(&mailbox, &tick) == VKS_OK && is_whole(&tick), "a tick after it");
}

typedef struct exchange {
    vks_mailbox mailbox;
    uint64_t n;
} exchange;

static void *write_all(void *pointer)
{
    exchange *e = pointer;
    for (uint64_t id = 1; id <= e->n; id++) {
        vks_tick tick = numbered(id);
        vks_mailbox_post(&e->mailbox, &tick);
    }
    return NULL;
}

static void each_tick_taken_from_a_posting_thread_is_whole_and_newer_and_the_last_arrives(void)
{
    exchange e = {.n = (uint64_t)check_scale("VKS_TICKS", 200000)};
    pthread_t writer;
    pthread_create(&writer, NULL, write_all, &e);
    uint64_t last = 0, torn = 0, old = 0;
    while (last < e.n) {
        vks_tick tick;
        vks_status status = vks_mailbox_take(&e.mailbox, &tick);
        if (status == VKS_OK) {
            torn += !is_whole(&tick);
            old += tick.id < last; /* the same tick may come twice: posted while the previous one was taken */
            last = tick.id;
        } else if (vks_mailbox_sleep(&e.mailbox, NULL, 0, vks_now() + UINT64_C(20000000000)) == VKS_TIMEOUT) {
            CHECK(false, "no tick after number %llu", (unsigned long long)last);
            break;
        }
    }
    pthread_join(writer, NULL);
    CHECK(torn == 0 && old == 0, "%llu torn, %llu old", (unsigned long long)torn, (unsigned long long)old);
}

int main(void)
{
    RUN(the_newest_tick_is_taken_once_and_whole);
    RUN(a_closed_mailbox_reports_it_until_it_is_reopened);
    RUN(a_writer_that_died_within_a_tick_leaves_nothing_to_take);
    RUN(a_sleeper_is_woken_or_does_not_sleep_after_a_change);
    RUN(an_invalid_state_is_slept_on_and_not_polled);
    RUN(each_tick_taken_from_a_posting_thread_is_whole_and_newer_and_the_last_arrives);
    return check_result();
}
