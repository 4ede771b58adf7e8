/* display.h: delivers ticks to observers, on one thread for each display. The model is Firefox's Silk:
 * one source and one thread a display, a dispatcher for each window, observers that this thread posts to.
 *
 *     hardware, or another process --mailbox--> display (tick_clock.h, one C thread)
 *         display --> dispatchers, one a window: ids of their own, half an interval between any two ticks
 *             dispatcher --mailbox--> observers: the reader's thread takes the newest tick
 *
 * A display's thread runs no user code and waits for no observer, so a stalled consumer delays no
 * other (V4). A display without observers sleeps without a deadline (V6).
 *
 * Any thread may call these functions. Lock order: dispatcher->lock, then display->lock; a thread that
 * joins another or waits for it holds neither. After fork() a call returns VKS_FORKED; close, shutdown
 * and unref have no effect. */
#ifndef VKS_DISPLAY_H
#define VKS_DISPLAY_H

#include "vsync/mailbox.h"

/* Python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

typedef struct vks_display vks_display;
typedef struct vks_dispatcher vks_dispatcher;
typedef struct vks_observer vks_observer;

/* ---- displays: reference-counted by their owner, their dispatchers and the end of a bridge ---- */

/* `interval` was checked. The thread starts with the first observer. */
vks_status vks_display_create(vks_interval interval, bool is_estimated, vks_display **out);
void vks_display_unref(vks_display *display);            /* by the owner, after the shutdown */
uint32_t vks_display_number(const vks_display *display); /* unique in this process; not 0 */

/* Ends the thread and closes the mailboxes of all observers: their waits return VKS_CLOSED.
 * Idempotent. After it returns no tick of this display is delivered (V17), and the functions below
 * return VKS_CLOSED. */
void vks_display_shutdown(vks_display *display);

vks_status vks_display_set_interval(vks_display *display, vks_interval interval, bool is_estimated);

/* Sets the source of ticks: a hardware of that kind, which calls vks_display_hardware_tick()
 * (VKS_TICK_SOFTWARE: none), or, with `inbox`, another process's display, whose kinds and intervals
 * are adopted. The timer ticks until the source is steady. *source is the number of the new source.
 * After the call returns, the thread no longer uses an earlier inbox, and ticks under another
 * source number are ignored. A closed inbox is still checked at each timer tick, because it may be
 * reopened. */
vks_status vks_display_set_source(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox, uint32_t *source);
/* Removes the inbox. After it returns the thread no longer uses it. Works after a shutdown too. */
void vks_display_drop_mailbox(vks_display *display, vks_mailbox *inbox);
/* Reports that the hardware ticked at `time`. */
vks_status vks_display_hardware_tick(vks_display *display, uint32_t source, uint64_t time);
/* Sleeps until the display has observers (is_wanted), or has none. A hardware source is needed only
 * while it has. VKS_TIMEOUT, VKS_INTERRUPTED; VKS_CLOSED: the display has another source. */
vks_status vks_display_wait_wanted(vks_display *display, uint32_t source, bool is_wanted, uint64_t deadline);

typedef struct vks_display_statistics {
    uint64_t ticks;     /* delivered */
    uint64_t hardware;  /* delivered hardware ticks */
    uint64_t skipped;   /* due ticks that a later one replaced */
    uint64_t breaks;    /* discontinuities */
    uint64_t wakeups;   /* of the thread */
    uint64_t late;      /* ns from the newest software tick's time to its delivery */
    uint64_t latest;    /* ns; maximum of `late` */
    uint32_t observing; /* dispatchers that observe now */
    uint32_t kind;      /* vks_tick_kind of the source that ticks now */
    vks_interval interval;
    bool is_estimated;
} vks_display_statistics;
void vks_display_get_statistics(vks_display *display, vks_display_statistics *out);

/* ---- dispatchers: reference-counted by their owner and their observers ---- */

vks_status vks_dispatcher_create(vks_display *display, vks_dispatcher **out);
/* Its observers' waits return VKS_CLOSED. Idempotent. */
void vks_dispatcher_close(vks_dispatcher *dispatcher);
void vks_dispatcher_unref(vks_dispatcher *dispatcher); /* by the owner, after the close */

/* Moves the window to another display. Moves are serialised; after the call returns no tick of the
 * old display arrives (V12). Ids continue to grow. On failure nothing changes. */
vks_status vks_dispatcher_move(vks_dispatcher *dispatcher, vks_display *display);

/* ---- observers ------------------------------------------------------------------------------------------------ */

/* Creates an observer, which rests at first. `mailbox`: ticks are posted there, as a bridge to
 * another process needs it; the caller owns it, and it must outlive the observer. NULL: the
 * observer's own mailbox. */
vks_status vks_observer_create(vks_dispatcher *dispatcher, vks_mailbox *mailbox, vks_observer **out);
/* Starts delivery. The first observer of a display gets the last tick at once if that is younger
 * than an interval, flagged VKS_TICK_IS_MISSED (V6). */
vks_status vks_observer_attend(vks_observer *observer);
/* Stops delivery. After it returns no tick arrives, and a posted one that was not taken is removed
 * (V5). Idempotent, like attend. */
vks_status vks_observer_rest(vks_observer *observer);
/* Closes the observer: delivery stops, and waits return VKS_CLOSED. Idempotent. */
void vks_observer_close(vks_observer *observer);
void vks_observer_destroy(vks_observer *observer); /* closes it; no thread may be in a call on it */

/* Takes the newest tick, or sleeps for one until `deadline`. `missed`: ticks between the one taken
 * before and this one. VKS_TIMEOUT, VKS_INTERRUPTED, VKS_CLOSED. */
vks_status vks_observer_wait(vks_observer *observer, uint64_t deadline, vks_tick *out, uint64_t *missed);
/* Returns an eventfd that is readable while there is a tick to take. The observer owns it; use it
 * only to poll. */
vks_status vks_observer_fd(vks_observer *observer, int *fd);

#pragma GCC visibility pop

#endif
