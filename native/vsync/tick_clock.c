/* tick_clock.c: the arithmetic of ticks. See tick_clock.h. */
#include "vsync/tick_clock.h"

#include <string.h>

#include "os/platform.h"

typedef unsigned __int128 wide;

vks_status vks_interval_check(vks_interval interval)
{
    if (interval.denominator && interval.numerator / interval.denominator >= 1000 &&
        (wide)interval.numerator <= (wide)interval.denominator * UINT64_C(100000000000))
        return VKS_OK;
    return vks_fail(VKS_BAD_VALUE, 0, "interval is %llu/%u ns; allowed is 1 us to 100 s",
                    (unsigned long long)interval.numerator, interval.denominator);
}

uint64_t vks_interval_ns(vks_interval interval) { return interval.numerator / interval.denominator; }

/* ---- the grid ---- */

static uint64_t grid_time(const vks_tick_clock *t, uint64_t n)
{
    return t->anchor + (uint64_t)((wide)n * t->interval.numerator / t->interval.denominator);
}

/* Returns the index of the last point that is not after `time`. */
static uint64_t grid_index(const vks_tick_clock *t, uint64_t time)
{
    if (time <= t->anchor)
        return 0;
    return (uint64_t)((((wide)(time - t->anchor) + 1) * t->interval.denominator - 1) / t->interval.numerator);
}

static bool is_too_close(const vks_tick_clock *t, uint64_t time)
{
    return t->last.id && (time <= t->last.time || 2 * (time - t->last.time) < vks_interval_ns(t->interval));
}

/* Returns the first point after `time` at least half an interval from the last tick. */
static uint64_t point_after(const vks_tick_clock *t, uint64_t time)
{
    uint64_t from = t->last.id && t->last.time > time ? t->last.time : time;
    uint64_t n = grid_time(t, 0) > from ? 0 : grid_index(t, from) + 1;
    while (is_too_close(t, grid_time(t, n)))
        n++;
    return grid_time(t, n);
}

/* Continues the grid from the last tick, at the next interval. */
static void take_next_interval(vks_tick_clock *t)
{
    if (!t->next_interval.numerator)
        return;
    t->anchor = t->last.id ? t->last.time : t->anchor;
    t->interval = t->next_interval;
    t->flags = t->next_is_estimated ? VKS_TICK_IS_ESTIMATED : 0;
    t->next_interval.numerator = 0;
}

/* ---- ticks ---- */

/* Returns the intervals from the last tick to this one, rounded to the nearest. */
static uint64_t steps(const vks_tick_clock *t, uint64_t time)
{
    wide twice = (wide)(time - t->last.time) * 2 * t->interval.denominator + t->interval.numerator;
    return (uint64_t)(twice / (2 * (wide)t->interval.numerator));
}

static void emit(vks_tick_clock *t, uint64_t time, uint32_t kind, vks_tick *out)
{
    uint64_t elapsed = t->last.id && !t->is_fresh ? steps(t, time) : 1;
    bool is_broken = elapsed > VKS_TICK_GAP;
    t->last = (vks_tick){
        .id = t->last.id + (is_broken || !elapsed ? 1 : elapsed),
        .time = time,
        .output = time + vks_interval_ns(t->interval),
        .interval = t->interval,
        .kind = kind,
        .flags = t->flags | (is_broken ? VKS_TICK_IS_BROKEN : 0),
    };
    t->is_fresh = false;
    *out = t->last;
    take_next_interval(t);
}

/* ---- events ---- */

void vks_tick_clock_init(vks_tick_clock *t, vks_interval interval, bool is_estimated, uint64_t now)
{
    *t = (vks_tick_clock){
        .interval = interval, .anchor = now, .target = now, .flags = is_estimated ? VKS_TICK_IS_ESTIMATED : 0};
}

/* The hardware must be steady again before its ticks count. */
static void reset_hardware(vks_tick_clock *t)
{
    t->by_hardware = false;
    memset(t->hardware_times, 0, sizeof t->hardware_times);
}

static uint64_t hardware_timeout(const vks_tick_clock *t)
{
    uint64_t three = 3 * vks_interval_ns(t->interval);
    return three > VKS_HARDWARE_TIMEOUT_NS ? three : VKS_HARDWARE_TIMEOUT_NS;
}

void vks_tick_clock_start(vks_tick_clock *t, uint64_t now)
{
    t->is_running = t->is_fresh = true;
    take_next_interval(t); /* there is no next tick to wait for */
    t->target = point_after(t, now);
    /* The first tick comes within two intervals, by hardware or by the timer (V6). */
    t->hardware_deadline = t->target + vks_interval_ns(t->interval) / 2;
}

void vks_tick_clock_stop(vks_tick_clock *t) { t->is_running = false; }

bool vks_tick_clock_missed(const vks_tick_clock *t, uint64_t now, vks_tick *out)
{
    if (!t->last.id || now - t->last.time >= vks_interval_ns(t->last.interval))
        return false;
    *out = t->last;
    out->flags |= VKS_TICK_IS_MISSED;
    return true;
}

uint64_t vks_tick_clock_deadline(const vks_tick_clock *t)
{
    if (!t->is_running)
        return VKS_FOREVER;
    return t->by_hardware ? t->hardware_deadline : t->target;
}

bool vks_tick_clock_advance(vks_tick_clock *t, uint64_t now, vks_tick *out)
{
    if (!t->is_running || now < vks_tick_clock_deadline(t))
        return false;
    if (t->by_hardware)
        reset_hardware(t);
    uint64_t time = grid_time(t, grid_index(t, now));
    bool is_emitted = !is_too_close(t, time);
    if (is_emitted)
        emit(t, time, VKS_TICK_SOFTWARE, out);
    t->target = point_after(t, now);
    return is_emitted;
}

static uint64_t apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

static bool hardware_is_steady(const vks_tick_clock *t)
{
    const uint64_t *hardware_times = t->hardware_times, interval = vks_interval_ns(t->interval);
    for (int i = 0; i < 3; i++)
        if (!hardware_times[i + 1] || apart(hardware_times[i] - hardware_times[i + 1], interval) > interval / 4)
            return false;
    return apart(hardware_times[0] - hardware_times[3], 3 * interval) <= 3 * interval / 20;
}

bool vks_tick_clock_hardware_tick(vks_tick_clock *t, uint64_t time, uint64_t now, vks_tick *out)
{
    time = time < now ? time : now;
    if (time <= t->hardware_times[0] ||
        now - time >= hardware_timeout(t)) /* so old a tick must not stop the timer either */
        return false;
    memmove(t->hardware_times + 1, t->hardware_times, 3 * sizeof *t->hardware_times);
    t->hardware_times[0] = time;
    if (!t->by_hardware && !hardware_is_steady(t))
        return false;
    t->by_hardware = true;
    t->hardware_deadline = now + hardware_timeout(t);
    if (!t->is_running || is_too_close(t, time))
        return false;
    t->anchor = time;
    emit(t, time, t->kind, out);
    return true;
}

void vks_tick_clock_set_interval(vks_tick_clock *t, vks_interval interval, bool is_estimated)
{
    t->next_interval = interval;
    t->next_is_estimated = is_estimated;
    if (!t->is_running)
        take_next_interval(t);
}

void vks_tick_clock_set_hardware(vks_tick_clock *t, vks_tick_kind kind, uint64_t now)
{
    t->kind = kind;
    reset_hardware(t);
    t->target = point_after(t, now);
}
