/* display_state.h: what display.c and dispatcher.c know of each other. */
#ifndef VKS_DISPLAY_STATE_H
#define VKS_DISPLAY_STATE_H

#include <pthread.h>

#include "core/platform.h"
#include "vsync/display.h"

struct vks_display {
    _Atomic uint32_t references; /* of its owner, of its dispatchers */
    uint32_t process, number;
    _Atomic uint32_t changes; /* the thread is to look again; a futex */
    _Atomic uint32_t wants;   /* the source is to look again; a futex */
    pthread_mutex_t lock;     /* of all that follows */
    vks_tick_clock clock;
    vks_mailbox own;                 /* where vks_display_hardware_tick() tells */
    vks_mailbox *inbox;              /* that one, or another process's */
    vks_mailbox *sleeping;           /* the thread sleeps on it now; NULL: on `changes`, or it runs */
    vks_dispatcher *first, *last; /* bound to it; who was told goes to the end */
    size_t n;                     /* of these */
    uint32_t observing;           /* of these, with an observer that does not rest */
    uintptr_t thread;             /* 0: none yet, or somebody joins it */
    uint32_t lead;                /* ns that the thread has itself woken early */
    pthread_cond_t left;          /* the thread has left its loop, or `sleeping` */
    bool is_looping, is_closed;
    uint32_t source; /* the number of the one that it listens to */
    vks_display_statistics counts;
};

struct vks_dispatcher {
    _Atomic uint32_t references; /* of its owner, of its observers, of who tells it of a tick */
    uint32_t process;
    vks_dispatcher *before, *after; /* of its display's, under that one's lock */
    pthread_mutex_t lock;           /* of all that follows */
    vks_display *display;
    vks_observer *observers;
    uint32_t observing; /* of these, that do not rest */
    vks_tick last;      /* that it told */
    uint64_t source_id; /* the display's id of that one; 0: it was another display's */
    bool is_closed;
};

struct vks_observer { /* under its dispatcher's lock, but for the mail, `taken` and `event_fd` */
    vks_observer *next;
    vks_dispatcher *dispatcher;
    vks_mailbox own, *mailbox;
    _Atomic uint64_t taken; /* the id of the tick that was taken last; of the last before it began, at first */
    _Atomic int event_fd;   /* -1: nobody polls */
    bool attends, is_closed;
};

/* VKS_OK: under the display's lock. VKS_FORKED, VKS_CLOSED. */
vks_status vks_display_enter(vks_display *display);
/* A dispatcher is to observe it. `missed`: the last tick, where this is the first and the tick is young; id 0 else. */
vks_status vks_display_begin(vks_display *display, vks_tick *missed);
void vks_display_end(vks_display *display);
/* Under the display's lock. */
void vks_display_link(vks_display *display, vks_dispatcher *dispatcher);
void vks_display_unlink(vks_display *display, vks_dispatcher *dispatcher);

/* Of the display's thread; under the dispatcher's lock. */
void vks_dispatcher_deliver(vks_dispatcher *dispatcher, const vks_display *from, const vks_tick *tick);
/* The display was shut down; under the dispatcher's lock. */
void vks_dispatcher_close_mailboxes(vks_dispatcher *dispatcher, const vks_display *display, const vks_tick *unused);

#endif
