/* The tick clock, with time as a number. rules: V2, V6, V9, V10, V11, V13, V14, V20 */
#include <string.h>

#include "check_macros.h"
#include "vsync/tick_clock.h"

static const vks_interval HZ_60 = {1000000000, 60}, HZ_144 = {1000000000, 144};
static const vks_interval NTSC = {1001000000000, 60000}; /* 60000/1001 Hz */
#define MS UINT64_C(1000000)
#define START (7 * 1000 * MS)

static vks_tick_clock running(vks_interval interval)
{
    vks_tick_clock t;
    vks_tick_clock_init(&t, interval, false, START);
    vks_tick_clock_start(&t, START);
    return t;
}

/* Lets the timer fire, `late` ns after its deadline. */
static vks_tick fire(vks_tick_clock *t, uint64_t late)
{
    vks_tick tick = {0};
    uint64_t now = vks_tick_clock_deadline(t) + late;
    CHECK(now >= late, "there is no observer");
    CHECK(vks_tick_clock_advance(t, now, &tick), "no tick at its deadline");
    CHECK(tick.time <= now && tick.output > tick.time, "a tick of the future");
    return tick;
}

static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

/* Reports `n` hardware ticks of that interval after `time`; returns the last one's time.
 * `delivered` counts. */
static uint64_t hardware_ticks(vks_tick_clock *t, uint64_t time, uint64_t interval, int n, int *delivered,
                               vks_tick *last)
{
    for (int i = 0; i < n; i++) {
        time += interval;
        *delivered += vks_tick_clock_hardware_tick(t, time, time + 100000, last);
    }
    return time;
}

/* Starts a clock of that interval and reports `n` hardware ticks; returns the newest one's time. */
static uint64_t run_by_hardware(vks_tick_clock *t, vks_tick_kind kind, vks_interval interval, int n)
{
    int delivered = 0;
    vks_tick tick;
    *t = running(interval);
    vks_tick_clock_set_hardware(t, kind, START);
    uint64_t time = hardware_ticks(t, START, vks_interval_ns(interval), n, &delivered, &tick);
    CHECK(t->by_hardware && delivered >= n - 4, "the hardware is steady: %d of %d were delivered", delivered, n);
    return time;
}

static void an_interval_is_a_rational_number_between_a_microsecond_and_100_seconds(void)
{
    CHECK(vks_interval_check(NTSC) == VKS_OK, "60000/1001 Hz");
    CHECK(vks_interval_check((vks_interval){1000, 1}) == VKS_OK, "1 us");
    CHECK(vks_interval_check((vks_interval){100000000000, 1}) == VKS_OK, "100 s");
    const vks_interval wrong[] = {{0, 1}, {1, 0}, {999, 1}, {100000000001, 1}, {1000, 2}, {UINT64_MAX, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(vks_interval_check(wrong[i]) == VKS_BAD_VALUE, "%zu", i);
}

static void after_a_million_late_ticks_of_60000_1001_hz_the_error_is_0_ns(void)
{
    vks_tick_clock t = running(NTSC);
    uint64_t first = fire(&t, 0).time, id = 1;
    for (uint64_t n = 1; n <= 1000000; n++) {
        vks_tick tick = fire(&t, n * 7919 % 9000000); /* up to half an interval late */
        uint64_t exact = START + (uint64_t)((unsigned __int128)(n + 1) * NTSC.numerator / NTSC.denominator);
        if (tick.time != exact || tick.id != ++id) {
            CHECK(tick.time == exact, "tick %llu is off by %lld ns", (unsigned long long)n,
                  (long long)(tick.time - exact));
            CHECK(tick.id == id, "tick %llu has id %llu", (unsigned long long)n, (unsigned long long)tick.id);
            return;
        }
    }
    CHECK(t.last.time - first == UINT64_C(16683333333333), "1,000,000 intervals");
}

static void a_tick_late_by_intervals_is_the_newest_and_its_id_counts_the_skipped_ones(void)
{
    vks_tick_clock t = running(HZ_60);
    uint64_t interval = vks_interval_ns(HZ_60);
    vks_tick before = fire(&t, 0), tick = fire(&t, 3 * interval + interval / 2);
    CHECK(tick.id == before.id + 4, "%llu", (unsigned long long)(tick.id - before.id));
    CHECK(apart(tick.time, before.time + 4 * interval) <= 4, "in phase");
    CHECK(!(tick.flags & VKS_TICK_IS_BROKEN), "four intervals are late, no more");
    CHECK(apart(vks_tick_clock_deadline(&t), before.time + 5 * interval) <= 5, "in phase");
}

static void late_by_more_than_8_intervals_is_one_discontinuity_and_no_burst(void)
{
    vks_tick_clock t = running(HZ_60);
    uint64_t interval = vks_interval_ns(HZ_60);
    vks_tick before = fire(&t, 0), tick = fire(&t, 1000 * interval);
    CHECK(tick.flags & VKS_TICK_IS_BROKEN, "flagged");
    CHECK(tick.id == before.id + 1, "one");
    uint64_t now = tick.time;
    tick = fire(&t, 0);
    CHECK(!(tick.flags & VKS_TICK_IS_BROKEN) && apart(tick.time, now + interval) <= 1, "and then as ever");
    t = running(HZ_60);
    fire(&t, 0);
    CHECK(!(fire(&t, 7 * interval + 5).flags & VKS_TICK_IS_BROKEN), "8 intervals after the last one");
}

static void two_ticks_are_never_closer_than_half_an_interval(void)
{
    vks_tick_clock t = running(HZ_60);
    uint64_t seed = 1, now = START, last = 0, half = vks_interval_ns(HZ_60) / 2, least_id = 0;
    for (int i = 0; i < 2000000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t what = seed >> 60, amount = seed >> 33;
        vks_tick tick;
        bool delivered = false;
        now += amount % (3 * MS);
        switch (what) {
        case 0:
            vks_tick_clock_stop(&t);
            break;
        case 1:
            if (!t.is_running)
                vks_tick_clock_start(&t, now);
            break;
        case 2: /* jittered parameters: a little more or less than 60 Hz */
            vks_tick_clock_set_interval(&t, (vks_interval){1000000000 - amount % 10000000, 60}, false);
            break;
        case 3:
            if (amount % 64 == 0)
                vks_tick_clock_set_hardware(&t, amount % 128 ? VKS_TICK_X11_PRESENT : VKS_TICK_SOFTWARE, now);
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            if (t.kind != VKS_TICK_SOFTWARE)
                delivered = vks_tick_clock_hardware_tick(&t, now - amount % MS, now, &tick);
            break;
        case 8:
            if (t.is_running)
                now = vks_tick_clock_deadline(&t) > now ? vks_tick_clock_deadline(&t) : now; /* fall through */
        default:
            delivered = vks_tick_clock_advance(&t, now, &tick);
        }
        if (!delivered)
            continue;
        uint64_t shortest = half - half / 50; /* of the jittered intervals */
        CHECK(t.is_running, "a tick without an observer");
        CHECK(tick.time <= now && tick.output > tick.time, "V2");
        CHECK(tick.id > least_id, "ids grow");
        CHECK(tick.time >= last + shortest, "%lld ns after the last", (long long)(tick.time - last));
        CHECK(tick.kind == VKS_TICK_SOFTWARE || what < 8, "a made-up tick claims to come from hardware");
        if (check_failures)
            return;
        last = tick.time;
        least_id = tick.id;
    }
    CHECK(least_id > 100000, "%llu ticks", (unsigned long long)least_id);
}

static void the_first_observer_gets_the_last_tick_as_missed_and_a_real_one_within_two_intervals(void)
{
    vks_tick_clock t;
    vks_tick tick;
    uint64_t interval = vks_interval_ns(HZ_60);
    vks_tick_clock_init(&t, HZ_60, false, START);
    CHECK(vks_tick_clock_deadline(&t) == VKS_FOREVER, "there is no observer");
    CHECK(!vks_tick_clock_missed(&t, START, &tick), "there was none");
    for (uint64_t away = 0; away < 12 * interval; away += interval / 16) {
        vks_tick_clock_start(&t, START + away);
        vks_tick last = fire(&t, 0);
        vks_tick_clock_stop(&t);
        CHECK(vks_tick_clock_deadline(&t) == VKS_FOREVER, "stopped");
        uint64_t now = last.time + away;
        CHECK(vks_tick_clock_missed(&t, now, &tick) == (away < interval), "%llu ns after", (unsigned long long)away);
        if (away < interval)
            CHECK(tick.id == last.id && tick.flags & VKS_TICK_IS_MISSED, "the same one");
        vks_tick_clock_start(&t, now);
        CHECK(vks_tick_clock_deadline(&t) <= now + 2 * interval, "in %llu ns",
              (unsigned long long)(vks_tick_clock_deadline(&t) - now));
        CHECK(!(fire(&t, 0).flags & (VKS_TICK_IS_MISSED | VKS_TICK_IS_BROKEN)), "a rest is no discontinuity");
        vks_tick_clock_stop(&t);
        vks_tick_clock_init(&t, HZ_60, false, START);
    }
}

static void a_new_interval_leaves_the_tick_in_flight_alone(void)
{
    vks_tick_clock t = running(HZ_60);
    vks_tick first = fire(&t, 0);
    uint64_t in_flight = vks_tick_clock_deadline(&t);
    vks_tick_clock_set_interval(&t, HZ_144, true);
    CHECK(vks_tick_clock_deadline(&t) == in_flight, "it stays");
    vks_tick second = fire(&t, 0), third = fire(&t, 0);
    CHECK(second.time == in_flight && second.interval.denominator == 60 && !second.flags, "as announced");
    CHECK(apart(third.time, second.time + vks_interval_ns(HZ_144)) <= 1, "the next one uses it");
    CHECK(third.flags == VKS_TICK_IS_ESTIMATED && third.id == first.id + 2, "nothing is skipped");
    vks_tick_clock_stop(&t);
    vks_tick_clock_set_interval(&t, HZ_60, false);
    CHECK(t.interval.denominator == 60, "without observers it holds at once");
    vks_tick_clock_start(&t, third.time);
    vks_tick_clock_set_interval(&t, HZ_144, false);
    vks_tick_clock_stop(&t);
    vks_tick_clock_start(&t, third.time);
    CHECK(fire(&t, 0).interval.denominator == 144, "the one that was in flight is gone");
}

static void hardware_counts_after_three_good_ticks_and_no_tick_is_doubled_or_lost(void)
{
    vks_tick_clock t = running(HZ_60);
    uint64_t interval = vks_interval_ns(HZ_60), time = START + interval / 3;
    int delivered = 0;
    vks_tick tick, before = fire(&t, 0);
    vks_tick_clock_set_hardware(&t, VKS_TICK_X11_PRESENT, before.time);
    for (int i = 0; i < 3; i++) { /* one without a predecessor, two good ones */
        time = hardware_ticks(&t, time, interval, 1, &delivered, &tick);
        before = fire(&t, 0);
        CHECK(before.kind == VKS_TICK_SOFTWARE, "the timer goes on meanwhile");
    }
    CHECK(!delivered && !t.by_hardware, "not proven");
    time = hardware_ticks(&t, time, interval + interval / 3, 1, &delivered, &tick);
    CHECK(!t.by_hardware, "one was off by a third");
    vks_tick software = fire(&t, 0);
    for (int i = 0; i < 10; i++) {
        int had = delivered;
        time = hardware_ticks(&t, time, interval, 1, &delivered, &tick);
        if (i < 2) {
            CHECK(delivered == 0, "%d", i);
            software = fire(&t, 0);
        } else if (delivered > had) {
            CHECK(tick.kind == VKS_TICK_X11_PRESENT, "the hardware's");
            CHECK(delivered > 1 || tick.time - software.time <= 3 * interval / 2, "no gap");
            CHECK(tick.time - software.time >= interval / 2, "none doubled");
        }
    }
    CHECK(delivered >= 7, "%d", delivered);
    vks_tick_clock_set_hardware(&t, VKS_TICK_PRESENT_WAIT, time);
    delivered = 0;
    time = hardware_ticks(&t, time, interval, 3, &delivered, &tick);
    CHECK(!t.by_hardware, "ticks of another source do not count for this one");
    software = fire(&t, 2 * interval);
    hardware_ticks(&t, time, interval, 1, &delivered, &tick);
    CHECK(t.by_hardware && delivered == 1 && tick.kind == VKS_TICK_PRESENT_WAIT, "its third good one");
    vks_tick_clock_set_hardware(&t, VKS_TICK_SOFTWARE, tick.time);
    software = fire(&t, 0);
    CHECK(apart(software.time, tick.time + interval) <= 1, "the timer goes on in the hardware's phase");
    CHECK(software.id == tick.id + 1 && software.kind == VKS_TICK_SOFTWARE, "none lost");
}

static void three_intervals_together_have_to_be_within_5_percent(void)
{
    uint64_t interval = vks_interval_ns(HZ_144);
    int delivered = 0;
    vks_tick tick;
    vks_tick_clock t = running(HZ_144);
    vks_tick_clock_set_hardware(&t, VKS_TICK_X11_PRESENT, START);
    hardware_ticks(&t, START, interval + interval * 6 / 100, 40, &delivered, &tick);
    CHECK(!t.by_hardware, "of another interval");
    t = running(HZ_144);
    vks_tick_clock_set_hardware(&t, VKS_TICK_X11_PRESENT, START);
    uint64_t uneven = hardware_ticks(&t, START, interval, 1, &delivered, &tick);
    uneven = hardware_ticks(&t, uneven, interval + interval / 3, 1, &delivered, &tick);
    uneven = hardware_ticks(&t, uneven, interval - interval / 3, 1, &delivered, &tick);
    hardware_ticks(&t, uneven, interval, 1, &delivered, &tick);
    CHECK(!t.by_hardware, "even on the whole, and off by a third between");
    t = running(HZ_144);
    vks_tick_clock_set_hardware(&t, VKS_TICK_X11_PRESENT, START);
    uint64_t time = START;
    for (int i = 0; i < 4; i++) /* a server whose timer has whole milliseconds */
        time = hardware_ticks(&t, time, i % 2 ? 6430000 : 7430000, 1, &delivered, &tick);
    CHECK(t.by_hardware, "its intervals are even, on the whole");
}

static void silent_hardware_is_replaced_in_its_phase_after_250_ms(void)
{
    vks_tick_clock t;
    vks_tick tick;
    int delivered = 0;
    uint64_t interval = vks_interval_ns(HZ_60), time = run_by_hardware(&t, VKS_TICK_X11_PRESENT, HZ_60, 20);
    uint64_t deadline = vks_tick_clock_deadline(&t);
    CHECK(deadline >= time + 250 * MS && deadline <= time + 251 * MS, "patience");
    CHECK(!vks_tick_clock_advance(&t, deadline - 1, &tick), "not before");
    tick = fire(&t, 0);
    CHECK(tick.kind == VKS_TICK_SOFTWARE && tick.flags & VKS_TICK_IS_BROKEN, "made up, and after a gap");
    CHECK((tick.time - time) % interval <= 20, "in its phase: %llu",
          (unsigned long long)((tick.time - time) % interval));
    vks_tick next = fire(&t, 0);
    CHECK(apart(next.time, tick.time + interval) <= 1, "and on");
    hardware_ticks(&t, next.time + interval / 10, interval, 4, &delivered, &tick);
    CHECK(t.by_hardware && delivered == 1 && tick.kind == VKS_TICK_X11_PRESENT, "it hands back");
    time = run_by_hardware(&t, VKS_TICK_X11_PRESENT, (vks_interval){200 * MS, 1}, 5);
    CHECK(vks_tick_clock_deadline(&t) >= time + 600 * MS, "three intervals where these are longer");
}

static void hardware_that_is_silent_when_observers_come_is_not_waited_for(void)
{
    vks_tick_clock t;
    uint64_t interval = vks_interval_ns(HZ_60), time = run_by_hardware(&t, VKS_TICK_PRESENT_WAIT, HZ_60, 10);
    vks_tick_clock_stop(&t);
    uint64_t now = time + 5000 * MS;
    vks_tick_clock_start(&t, now);
    CHECK(vks_tick_clock_deadline(&t) <= now + 2 * interval, "within two intervals");
    vks_tick tick = fire(&t, 0);
    CHECK(tick.kind == VKS_TICK_SOFTWARE && tick.time >= now - interval, "a new one");
}

static void a_hardware_tick_of_the_future_counts_as_now(void)
{
    vks_tick_clock t;
    vks_tick tick;
    uint64_t time = run_by_hardware(&t, VKS_TICK_X11_PRESENT, HZ_60, 10), now = time + vks_interval_ns(HZ_60);
    CHECK(vks_tick_clock_hardware_tick(&t, now + 5 * MS, now, &tick), "a tick");
    CHECK(tick.time == now && tick.output > now, "V2");
    CHECK(!vks_tick_clock_hardware_tick(&t, now - MS, now, &tick), "nor does time go back");
}

static void hardware_ticks_of_long_ago_are_ignored(void)
{
    vks_tick_clock t = running(HZ_60);
    vks_tick tick;
    vks_tick_clock_set_hardware(&t, VKS_TICK_X11_PRESENT, START);
    int delivered = 0;
    for (uint64_t now = START, n = 0; n < 100; n++, now += vks_interval_ns(HZ_60)) { /* by a clock that is 5 s behind */
        CHECK(!vks_tick_clock_hardware_tick(&t, now - 5000 * MS, now, &tick), "it is no news");
        delivered += vks_tick_clock_advance(&t, now, &tick);
    }
    CHECK(delivered >= 98, "the timer delivered %d", delivered);
    uint64_t now = run_by_hardware(&t, VKS_TICK_X11_PRESENT, HZ_60, 10) + 3600 * 1000 * MS;
    vks_tick_clock_stop(&t);
    vks_tick_clock_start(&t, now);
    CHECK(!vks_tick_clock_hardware_tick(&t, now - 1000 * MS, now, &tick), "it lay in a bridge whose writer has died");
    CHECK(vks_tick_clock_deadline(&t) <= now + 2 * vks_interval_ns(HZ_60), "the first one within two intervals");
}

int main(void)
{
    RUN(an_interval_is_a_rational_number_between_a_microsecond_and_100_seconds);
    RUN(after_a_million_late_ticks_of_60000_1001_hz_the_error_is_0_ns);
    RUN(a_tick_late_by_intervals_is_the_newest_and_its_id_counts_the_skipped_ones);
    RUN(late_by_more_than_8_intervals_is_one_discontinuity_and_no_burst);
    RUN(two_ticks_are_never_closer_than_half_an_interval);
    RUN(the_first_observer_gets_the_last_tick_as_missed_and_a_real_one_within_two_intervals);
    RUN(a_new_interval_leaves_the_tick_in_flight_alone);
    RUN(hardware_counts_after_three_good_ticks_and_no_tick_is_doubled_or_lost);
    RUN(three_intervals_together_have_to_be_within_5_percent);
    RUN(silent_hardware_is_replaced_in_its_phase_after_250_ms);
    RUN(hardware_that_is_silent_when_observers_come_is_not_waited_for);
    RUN(a_hardware_tick_of_the_future_counts_as_now);
    RUN(hardware_ticks_of_long_ago_are_ignored);
    return check_result();
}
