/* tick_clock.h: computes the ticks of a display. A pure state machine without threads or a clock of
 * its own. Events go in (the timer fired, the hardware ticked, observers came or went); ticks and
 * the next deadline come out.
 *
 * Software ticks lie on a grid, anchor + floor(n * interval) with a rational interval, so that they
 * never drift, however late they are delivered (V9; the arithmetic of Chromium's
 * DelayBasedTimeSource, made exact). Hardware ticks move the anchor: when the hardware stops,
 * software ticks continue in its phase (V14).
 *
 * Times are nanoseconds of one clock, the owner's (CLOCK_MONOTONIC). Not thread-safe: the owner
 * holds a lock. */
#ifndef VKS_TICK_CLOCK_H
#define VKS_TICK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare_present.h"

/* The owner reads `interval`, `kind`, `last` and `by_hardware`; other fields are internal. */
typedef struct vks_tick_clock {
    vks_interval interval;
    vks_interval next_interval; /* used from the tick after the next one on; numerator 0: no change (V11) */
    vks_tick last;              /* id 0: none yet */
    uint64_t anchor;            /* time of tick 0 of the grid */
    uint64_t target;            /* timer deadline on the grid, while running by software */
    uint64_t hardware_times[4]; /* the newest hardware ticks, delivered or not, the newest first; 0: none yet */
    uint64_t hardware_deadline; /* while running by hardware: the timer takes over at this time */
    uint32_t kind;              /* of the hardware; VKS_TICK_SOFTWARE: there is none */
    uint32_t flags;             /* of each tick: VKS_TICK_IS_ESTIMATED, or none */
    bool next_is_estimated;
    bool by_hardware; /* hardware ticks are delivered, and the timer only watches them */
    bool is_running;  /* there are observers */
    bool is_fresh;    /* no tick since it started */
} vks_tick_clock;

#define VKS_TICK_GAP 8u /* intervals without a tick that make a discontinuity (V20) */
#define VKS_HARDWARE_TIMEOUT_NS                                                                                        \
    250000000u /* minimum ns without a hardware tick before the timer takes over; at least three intervals (V14) */

/* Checks 1 us <= interval <= 100 s; else VKS_BAD_VALUE, with vks_fail's text. Python calls it. */
__attribute__((visibility("default"))) vks_status vks_interval_check(vks_interval interval);
/* Returns the interval in ns, rounded down. */
uint64_t vks_interval_ns(vks_interval interval);

/* `interval` was checked. `now` is the phase until a hardware tick sets another. */
void vks_tick_clock_init(vks_tick_clock *clock, vks_interval interval, bool is_estimated, uint64_t now);

/* Start at the first observer; stop after the last. */
void vks_tick_clock_start(vks_tick_clock *clock, uint64_t now);
void vks_tick_clock_stop(vks_tick_clock *clock);

/* Returns the newest tick, flagged missed, for a new observer (V6). False: there is none, or it is
 * an interval old. */
bool vks_tick_clock_missed(const vks_tick_clock *clock, uint64_t now, vks_tick *out);

/* Returns the time of the next vks_tick_clock_advance(); VKS_FOREVER without observers. */
uint64_t vks_tick_clock_deadline(const vks_tick_clock *clock);
/* Advances to `now`. True: a tick is due, the newest one. An early call has no effect. */
bool vks_tick_clock_advance(vks_tick_clock *clock, uint64_t now, vks_tick *out);

/* Reports a hardware tick at `time`. A later time than now counts as now; a tick as old as the
 * hardware timeout is ignored, because it was delayed or has another clock. True: *out is a tick to
 * deliver. Hardware ticks count once three intervals together are within 5 % of the expected time,
 * and none is off by a quarter (V14): some servers' timers have whole milliseconds, so that at 144
 * Hz no single interval is within 5 %. */
bool vks_tick_clock_hardware_tick(vks_tick_clock *clock, uint64_t time, uint64_t now, vks_tick *out);

/* Sets the interval from the tick after the next one on (V11). */
void vks_tick_clock_set_interval(vks_tick_clock *clock, vks_interval interval, bool is_estimated);

/* Sets the hardware source, or with VKS_TICK_SOFTWARE the timer alone. The timer ticks until the
 * hardware is steady. */
void vks_tick_clock_set_hardware(vks_tick_clock *clock, vks_tick_kind kind, uint64_t now);

#endif
