/* tick_clock.h: when a display ticks. A pure state machine: no thread and no clock. What happens goes in (a timer fired,
 * the hardware was heard, observers came or went), ticks and the next deadline come out.
 *
 * Software ticks lie on a grid, anchor + floor(n * interval) with a rational interval, so that they never drift,
 * however late they are told (V9; the arithmetic is that of Chromium's DelayBasedTimeSource, made exact). Hardware
 * ticks move the anchor: when the hardware falls silent, the software's go on in its phase (V14).
 *
 * Times are nanoseconds of one clock, the owner's (CLOCK_MONOTONIC). Not thread-safe: the owner locks.
 */
#ifndef VKS_TICK_CLOCK_H
#define VKS_TICK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "vkshare.h"

/* numerator / denominator nanoseconds: 60000/1001 Hz is 1001e9 / 60000. */
typedef struct vks_interval {
    uint64_t numerator;
    uint32_t denominator;
} vks_interval;

typedef enum vks_tick_kind {
    VKS_TICK_SOFTWARE, /* made up */
    VKS_TICK_X11_PRESENT,
    VKS_TICK_PRESENT_WAIT,
    VKS_TICK_DISPLAY_CONTROL,
    VKS_TICK_PRESENT_TIMING,
} vks_tick_kind;

enum {
    VKS_TICK_IS_MISSED = 1,    /* it came before its observer did */
    VKS_TICK_IS_ESTIMATED = 2, /* nobody knows the interval: it is taken to be 1/60 s */
    VKS_TICK_IS_BROKEN = 4     /* a discontinuity: much time went by without a tick */
};

typedef struct vks_tick {
    uint64_t id;     /* grows; where it grows by more than one, ticks were due that nobody was told of */
    uint64_t time;   /* of the vsync; never later than now */
    uint64_t output; /* when a frame that begins now is seen, at the earliest; after `time` */
    vks_interval interval;
    uint32_t kind;    /* vks_tick_kind */
    uint32_t flags;   /* VKS_TICK_IS_* */
    uint32_t display; /* whose; the ticker leaves it 0 */
} vks_tick;

/* The owner reads `interval`, `kind`, `last` and `by_hardware`; the rest is the ticker's. */
typedef struct vks_tick_clock {
    vks_interval interval;
    vks_interval next_interval; /* from the tick after the one in flight on; numerator 0: no change (V11) */
    vks_tick last;              /* id 0: there was none */
    uint64_t anchor;            /* the time of tick 0 of the grid */
    uint64_t target;            /* of the timer, on the grid; while running by software */
    uint64_t hardware_times[4];          /* the hardware's newest ticks, told or not, the newest first; 0: none yet */
    uint64_t hardware_deadline;     /* while running by hardware: the timer takes over then */
    uint32_t kind;              /* the hardware's; VKS_TICK_SOFTWARE: there is none */
    uint32_t flags;             /* of the ticks: VKS_TICK_IS_ESTIMATED, or none */
    bool next_is_estimated;
    bool by_hardware; /* its ticks count, and the timer only watches */
    bool is_running;  /* there are observers */
    bool is_fresh;    /* no tick since it began to run */
} vks_tick_clock;

#define VKS_TICK_GAP 8u          /* intervals without a tick that are a discontinuity (V20) */
#define VKS_HARDWARE_TIMEOUT_NS 250000000u /* ns without a hardware tick, and at least three intervals (V14) */

/* 0 < interval <= 100 s, at least 1 us; else VKS_BAD_VALUE, with vks_fail's text. */
vks_status vks_interval_check(vks_interval interval);
/* Rounded down. */
uint64_t vks_interval_ns(vks_interval interval);

/* `interval` was checked. `now` is the phase until the hardware tells another. */
void vks_tick_clock_init(vks_tick_clock *clock, vks_interval interval, bool is_estimated, uint64_t now);

/* The first observer came, the last one went. */
void vks_tick_clock_start(vks_tick_clock *clock, uint64_t now);
void vks_tick_clock_stop(vks_tick_clock *clock);

/* The newest tick, flagged missed, for an observer that comes now (V6). False: it is an interval old, or there is none.
 */
bool vks_tick_clock_missed(const vks_tick_clock *clock, uint64_t now, vks_tick *out);

/* When vks_tick_clock_advance() is to be called; VKS_FOREVER while nobody observes. */
uint64_t vks_tick_clock_deadline(const vks_tick_clock *clock);
/* It is `now`. True: there is a tick, the newest of those that are due. Early calls do nothing. */
bool vks_tick_clock_advance(vks_tick_clock *clock, uint64_t now, vks_tick *out);

/* The hardware ticked at `time` (later than now counts as now; one as old as its silence may be is not heard: it lay
 * somewhere, or has another clock). False: this tick is not to be told. It counts once
 * three intervals together are within 5 % of what they should be, and none is off by a quarter (V14): the timers of
 * some servers have whole milliseconds, so that at 144 Hz no single interval is within 5 %. */
bool vks_tick_clock_hardware_tick(vks_tick_clock *clock, uint64_t time, uint64_t now, vks_tick *out);

/* The tick in flight is left alone; the one after it is at the new interval (V11). */
void vks_tick_clock_set_interval(vks_tick_clock *clock, vks_interval interval, bool is_estimated);

/* Another source, or with VKS_TICK_SOFTWARE none but the timer. The timer ticks until a hardware has proven itself. */
void vks_tick_clock_set_hardware(vks_tick_clock *clock, vks_tick_kind kind, uint64_t now);

#endif
