/* display_state.h: state that display.c and dispatcher.c share. */
#ifndef VKS_DISPLAY_STATE_H
#define VKS_DISPLAY_STATE_H

#include <pthread.h>

#include "os/platform.h"
#include "vsync/display.h"

struct vks_display {
    _Atomic uint32_t references; /* its owner, its dispatchers and ends of bridges */
    uint32_t process, number;
    _Atomic uint32_t changes; /* futex: the thread checks its state again */
    _Atomic uint32_t wants;   /* futex: the source checks `observing` again */
    pthread_mutex_t lock;     /* protects the following fields */
    vks_tick_clock clock;
    vks_mailbox own;              /* vks_display_hardware_tick() posts here */
    vks_mailbox *inbox;           /* `own`, or another process's mailbox */
    vks_mailbox *sleeping;        /* mailbox that the thread sleeps on; NULL: `changes`, or it runs */
    vks_dispatcher *first, *last; /* bound to the display; a visited one moves to the end */
    size_t n;                     /* number of dispatchers */
    uint32_t observing;           /* dispatchers with an observer that does not rest */
    uintptr_t thread;             /* 0: none yet, or being joined */
    uint32_t lead;                /* ns by which the thread wakes early */
    pthread_cond_t left;          /* signalled when the thread leaves its loop or `sleeping` */
    bool is_looping, is_closed;
    uint32_t source; /* number of the current source */
    vks_display_statistics counts;
};

struct vks_dispatcher {
    _Atomic uint32_t references; /* its owner, its observers, and threads that deliver a tick */
    uint32_t process;
    vks_dispatcher *before, *after; /* in the display's list, under display->lock */
    pthread_mutex_t lock;           /* protects the following fields */
    vks_display *display;
    vks_observer *observers;
    uint32_t observing; /* observers that do not rest */
    vks_tick last;      /* the last delivered tick */
    uint64_t source_id; /* the display's id of `last`; 0: `last` is another display's */
    bool is_closed;
};

struct vks_observer { /* protected by dispatcher->lock, except the mailbox, `taken` and `event_fd` */
    vks_observer *next;
    vks_dispatcher *dispatcher;
    vks_mailbox own, *mailbox;
    _Atomic uint64_t taken; /* id of the last tick taken; at first, of the last tick before the observer began */
    _Atomic int event_fd;   /* -1: none yet */
    bool attends, is_closed;
};

/* VKS_OK: returns with display->lock held. VKS_FORKED, VKS_CLOSED. */
vks_status vks_display_enter(vks_display *display);
/* Adds an observing dispatcher. `missed`: the last tick, if this is the first such dispatcher and
 * the tick is younger than an interval; else id 0. */
vks_status vks_display_begin(vks_display *display, vks_tick *missed);
void vks_display_end(vks_display *display);
/* Caller holds display->lock. */
void vks_display_link(vks_display *display, vks_dispatcher *dispatcher);
void vks_display_unlink(vks_display *display, vks_dispatcher *dispatcher);

/* Called on the display's thread. Caller holds dispatcher->lock. */
void vks_dispatcher_deliver(vks_dispatcher *dispatcher, const vks_display *from, const vks_tick *tick);
/* Called after the display's shutdown. Caller holds dispatcher->lock. */
void vks_dispatcher_close_mailboxes(vks_dispatcher *dispatcher, const vks_display *display, const vks_tick *unused);

#endif
