/* display.h: who is told of ticks, and on which thread. The model is Firefox's Silk: one source and one thread a
 * display, a dispatcher for each window, observers that are told on that thread and only post.
 *
 *     hardware, or another process --mail--> display (tick_clock.h, one C thread)
 *         display --> dispatchers, one a window: ids of their own, half an interval between any two ticks
 *             dispatcher --mail--> observers: the thread that asked takes the newest tick
 *
 * No code of a user runs on a display's thread, and none of ours waits there, so a stalled consumer delays nobody (V4).
 * A display without observers sleeps without a deadline (V6).
 *
 * Any thread may call any of these. Locks: a dispatcher's, then a display's; none is held while a thread is joined or
 * waited for. After fork() a call answers VKS_FORKED; the ends (close, shutdown, unref) do nothing.
 */
#ifndef VKS_DISPLAY_H
#define VKS_DISPLAY_H

#include "vsync/mailbox.h"

typedef struct vks_display vks_display;
typedef struct vks_dispatcher vks_dispatcher;
typedef struct vks_observer vks_observer;

/* ---- displays: counted by their owner, and by the dispatchers that are bound to them -------------------------- */

/* `interval` was checked. The thread begins with the first observer. */
vks_status vks_display_create(vks_interval interval, bool is_estimated, vks_display **out);
void vks_display_unref(vks_display *display);            /* of the owner: after the shutdown */
uint32_t vks_display_number(const vks_display *display); /* no other of this process has it; not 0 */

/* Ends the thread, and closes the mails of all observers: who waits gets VKS_CLOSED. Idempotent; when it returns nobody
 * is told of a tick of this display any more (V17). What follows answers VKS_CLOSED after it. */
void vks_display_shutdown(vks_display *display);

vks_status vks_display_set_interval(vks_display *display, vks_interval interval, bool is_estimated);

/* Where ticks come from: a hardware of that kind, which vks_display_hardware_tick() tells of (VKS_TICK_SOFTWARE: none), or,
 * with `inbox`, another process's display, whose kinds and intervals are taken over. The timer ticks until either has
 * proven itself. `source` is the number of this one: when this returns the thread looks at no inbox that it was given
 * before, and those that spoke under another number are not heard any more. An inbox that was closed is looked at now
 * and then: it may be opened again. */
vks_status vks_display_set_source(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox, uint32_t *source);
/* It looks at that inbox no more when this returns, also where it was shut down. */
void vks_display_drop_mailbox(vks_display *display, vks_mailbox *inbox);
/* Of the hardware: it ticked at `time`. */
vks_status vks_display_hardware_tick(vks_display *display, uint32_t source, uint64_t time);
/* Sleeps until somebody observes, or nobody does: a hardware is to be asked only then. VKS_TIMEOUT, VKS_INTERRUPTED;
 * VKS_CLOSED: the display listens to another source. */
vks_status vks_display_wait_wanted(vks_display *display, uint32_t source, bool is_wanted, uint64_t deadline);

typedef struct vks_display_statistics {
    uint64_t ticks;     /* told */
    uint64_t hardware;  /* of these by hardware */
    uint64_t skipped;   /* that were due, and too late to be told */
    uint64_t breaks;    /* discontinuities */
    uint64_t wakeups;   /* of the thread */
    uint64_t late;      /* ns: from the newest software tick's time to its being told */
    uint64_t latest;    /* ns: the most of these */
    uint32_t observing; /* dispatchers, now */
    uint32_t kind;      /* what ticks now: vks_tick_kind */
    vks_interval interval;
    bool is_estimated;
} vks_display_statistics;
void vks_display_get_statistics(vks_display *display, vks_display_statistics *out);

/* ---- dispatchers: counted by their owner, and by their observers ---------------------------------------------- */

vks_status vks_dispatcher_create(vks_display *display, vks_dispatcher **out);
/* Its observers' waits answer VKS_CLOSED. Idempotent. */
void vks_dispatcher_close(vks_dispatcher *dispatcher);
void vks_dispatcher_unref(vks_dispatcher *dispatcher); /* of the owner: after the close */

/* The window is on that display now: serialised, and after it returns no tick of the old one arrives (V12). Ids go on
 * growing. When it fails the dispatcher is where it was. */
vks_status vks_dispatcher_move(vks_dispatcher *dispatcher, vks_display *display);

/* ---- observers ------------------------------------------------------------------------------------------------ */

/* It rests at first. `mail`: it is told there, as a bridge to another process needs it; the caller's, to outlive it.
 * NULL: in a mail of its own. */
vks_status vks_observer_create(vks_dispatcher *dispatcher, vks_mailbox *mailbox, vks_observer **out);
/* From now on it is told. The first one of a display gets the last tick at once if that is younger than an interval,
 * flagged VKS_TICK_IS_MISSED (V6). */
vks_status vks_observer_attend(vks_observer *observer);
/* When it returns no tick arrives, also none that was told and not taken (V5). Idempotent, like attend. */
vks_status vks_observer_rest(vks_observer *observer);
/* It rests for ever, and who waits gets VKS_CLOSED. Idempotent. */
void vks_observer_close(vks_observer *observer);
void vks_observer_destroy(vks_observer *observer); /* closes; nobody may be in a call of it */

/* Takes the newest tick, and sleeps for one until `deadline`. `missed`: the ticks between the one that was taken before
 * and this. VKS_TIMEOUT, VKS_INTERRUPTED, VKS_CLOSED. */
vks_status vks_observer_wait(vks_observer *observer, uint64_t deadline, vks_tick *out, uint64_t *missed);
/* An eventfd that is readable while there is a tick to take: the observer's, to be polled only. */
vks_status vks_observer_fd(vks_observer *observer, int *fd);

#endif
