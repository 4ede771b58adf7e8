/* dispatcher.c: see display.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/trace.h"
#include "vsync/display_state.h"

/* ---- delivery; caller holds dispatcher->lock ---- */

static void wake(const vks_observer *observer)
{
    int fd = atomic_load(&observer->event_fd);
    if (fd >= 0)
        eventfd_write(fd, 1);
}

static void post(const vks_observer *observer, const vks_tick *tick)
{
    if (vks_mailbox_post(observer->mailbox, tick))
        wake(observer);
}

static void close_mailbox(const vks_observer *observer)
{
    vks_mailbox_close(observer->mailbox);
    wake(observer);
}

/* Returns whether the tick is newer than the last one by at least half an interval, also across
 * displays. */
static bool is_new(const vks_dispatcher *d, const vks_tick *tick)
{
    return !d->last.id ||
           (tick->time > d->last.time && 2 * (tick->time - d->last.time) >= vks_interval_ns(tick->interval));
}

/* Gives the tick the dispatcher's next id. */
static void renumber(vks_dispatcher *d, const vks_tick *tick)
{
    uint64_t elapsed = d->source_id && tick->id > d->source_id ? tick->id - d->source_id : 1;
    uint64_t id = d->last.id + elapsed;
    d->source_id = tick->id;
    d->last = *tick;
    d->last.id = id;
}

void vks_dispatcher_deliver(vks_dispatcher *d, const vks_display *from, const vks_tick *tick)
{
    if (d->display != from || d->is_closed || !is_new(d, tick)) /* moved, closed, or a duplicate */
        return;
    renumber(d, tick);
    for (vks_observer *o = d->observers; o; o = o->next)
        if (o->attends)
            post(o, &d->last);
}

void vks_dispatcher_close_mailboxes(vks_dispatcher *d, const vks_display *display, const vks_tick *unused)
{
    (void)unused;
    if (d->display != display)
        return;
    for (vks_observer *o = d->observers; o; o = o->next)
        close_mailbox(o);
}

/* ---- dispatchers ---- */

static vks_status enter(vks_dispatcher *d)
{
    if (d->process != vks_process)
        return vks_fail(VKS_FORKED, 0, "the dispatcher belongs to the process before fork()");
    pthread_mutex_lock(&d->lock);
    if (!d->is_closed)
        return VKS_OK;
    pthread_mutex_unlock(&d->lock);
    return vks_fail(VKS_CLOSED, 0, "the dispatcher was closed");
}

vks_status vks_dispatcher_create(vks_display *display, vks_dispatcher **out)
{
    VKS_NEEDS(display, out);
    vks_dispatcher *d = calloc(1, sizeof *d);
    if (!d)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a dispatcher");
    vks_status status = vks_display_enter(display);
    if (status) {
        free(d);
        return status;
    }
    d->references = 1;
    d->process = vks_process;
    d->display = display;
    pthread_mutex_init(&d->lock, NULL);
    atomic_fetch_add(&display->references, 1);
    vks_display_link(display, d);
    pthread_mutex_unlock(&display->lock);
    *out = d;
    return VKS_OK;
}

void vks_dispatcher_unref(vks_dispatcher *dispatcher)
{
    VKS_NEEDS_OR(, dispatcher);
    if (dispatcher->process != vks_process || atomic_fetch_sub(&dispatcher->references, 1) != 1)
        return;
    vks_display_unref(dispatcher->display);
    pthread_mutex_destroy(&dispatcher->lock);
    free(dispatcher);
}

/* Detaches the dispatcher from its display. Caller holds dispatcher->lock. */
static void detach(vks_dispatcher *d)
{
    if (d->observing)
        vks_display_end(d->display);
    pthread_mutex_lock(&d->display->lock);
    vks_display_unlink(d->display, d);
    pthread_mutex_unlock(&d->display->lock);
}

void vks_dispatcher_close(vks_dispatcher *dispatcher)
{
    VKS_NEEDS_OR(, dispatcher);
    if (enter(dispatcher))
        return;
    detach(dispatcher);
    dispatcher->is_closed = true;
    for (vks_observer *o = dispatcher->observers; o; o = o->next) {
        o->attends = false;
        close_mailbox(o);
    }
    pthread_mutex_unlock(&dispatcher->lock);
}

/* Attaches the dispatcher to `display`, which counts it already. Caller holds dispatcher->lock. */
static void attach(vks_dispatcher *d, vks_display *display)
{
    vks_display *old = d->display;
    atomic_fetch_add(&display->references, 1);
    d->display = display;
    d->source_id = 0;
    pthread_mutex_lock(&display->lock);
    vks_display_link(display, d);
    bool is_closed = display->is_closed; /* it closed just now, before the dispatcher was in its list */
    pthread_mutex_unlock(&display->lock);
    for (vks_observer *o = d->observers; o; o = o->next) {
        vks_mailbox_retract(o->mailbox);
        if (is_closed)
            close_mailbox(o);
        else if (!o->is_closed)
            vks_mailbox_reopen(o->mailbox);
    }
    vks_display_unref(old);
}

static vks_status is_open(vks_display *display)
{
    vks_status status = vks_display_enter(display);
    if (!status)
        pthread_mutex_unlock(&display->lock);
    return status;
}

vks_status vks_dispatcher_move(vks_dispatcher *dispatcher, vks_display *display)
{
    VKS_NEEDS(dispatcher, display);
    vks_status status = enter(dispatcher);
    if (status)
        return status;
    if (dispatcher->display != display) {
        vks_tick missed; /* not delivered, because it may be older than the old display's last tick */
        status = dispatcher->observing ? vks_display_begin(display, &missed) : is_open(display);
        if (!status) {
            detach(dispatcher);
            attach(dispatcher, display);
        }
    }
    pthread_mutex_unlock(&dispatcher->lock);
    return status;
}

/* ---- observers ---- */

vks_status vks_observer_create(vks_dispatcher *dispatcher, vks_mailbox *mailbox, vks_observer **out)
{
    VKS_NEEDS(dispatcher, out);
    vks_observer *o = calloc(1, sizeof *o);
    if (!o)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for an observer");
    vks_status status = enter(dispatcher);
    if (!status && (status = is_open(dispatcher->display)))
        pthread_mutex_unlock(&dispatcher->lock);
    if (status) {
        free(o);
        return status;
    }
    o->dispatcher = dispatcher;
    o->mailbox = mailbox ? mailbox : &o->own;
    o->event_fd = -1;
    o->next = dispatcher->observers;
    dispatcher->observers = o;
    atomic_fetch_add(&dispatcher->references, 1);
    pthread_mutex_unlock(&dispatcher->lock);
    *out = o;
    return VKS_OK;
}

/* Counts ticks up to this id as taken. */
static void skip_to(vks_observer *o, uint64_t id) { vks_atomic_max(&o->taken, id); }

/* Catches up an observer that begins. `missed` is the display's last tick before its first
 * observer; id 0: too long ago. */
static void catch_up(vks_dispatcher *d, vks_observer *o, const vks_tick *missed)
{
    bool is_known = d->last.id && d->last.display == missed->display && d->last.time == missed->time;
    if (!missed->id || (!is_known && !is_new(d, missed))) {
        skip_to(o, d->last.id);
        return;
    }
    if (!is_known)
        renumber(d, missed);
    vks_tick tick = d->last;
    tick.flags |= VKS_TICK_IS_MISSED;
    skip_to(o, tick.id - 1); /* the observer gets no tick twice */
    post(o, &tick);
}

vks_status vks_observer_attend(vks_observer *observer)
{
    VKS_NEEDS(observer);
    vks_dispatcher *d = observer->dispatcher;
    vks_status status = enter(d);
    if (status)
        return status;
    vks_tick missed = {0};
    if (observer->is_closed)
        status = vks_fail(VKS_CLOSED, 0, "the observer was closed");
    else
        status = observer->attends || d->observing ? is_open(d->display) : vks_display_begin(d->display, &missed);
    if (!status && !observer->attends) {
        observer->attends = true;
        d->observing++;
        catch_up(d, observer, &missed);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Caller holds dispatcher->lock. */
static void rest(vks_dispatcher *d, vks_observer *o)
{
    if (!o->attends)
        return;
    o->attends = false;
    vks_mailbox_retract(o->mailbox);
    if (!--d->observing)
        vks_display_end(d->display);
}

vks_status vks_observer_rest(vks_observer *observer)
{
    VKS_NEEDS(observer);
    vks_status status = enter(observer->dispatcher);
    if (status)
        return status == VKS_CLOSED ? VKS_OK : status; /* a closed dispatcher delivers nothing */
    rest(observer->dispatcher, observer);
    pthread_mutex_unlock(&observer->dispatcher->lock);
    return VKS_OK;
}

void vks_observer_close(vks_observer *observer)
{
    VKS_NEEDS_OR(, observer);
    vks_dispatcher *d = observer->dispatcher;
    if (d->process != vks_process)
        return;
    pthread_mutex_lock(&d->lock);
    if (!d->is_closed)
        rest(d, observer);
    if (!observer->is_closed) {
        observer->is_closed = true;
        close_mailbox(observer);
    }
    pthread_mutex_unlock(&d->lock);
}

void vks_observer_destroy(vks_observer *observer)
{
    VKS_NEEDS_OR(, observer);
    vks_dispatcher *d = observer->dispatcher;
    vks_observer_close(observer);
    if (d->process != vks_process)
        return;
    pthread_mutex_lock(&d->lock);
    vks_observer **link = &d->observers;
    while (*link != observer)
        link = &(*link)->next;
    *link = observer->next;
    pthread_mutex_unlock(&d->lock);
    if (observer->event_fd >= 0)
        close(observer->event_fd);
    free(observer);
    vks_dispatcher_unref(d);
}

/* ---- taking ticks ---- */

static vks_status take(vks_observer *o, vks_tick *out, uint64_t *missed)
{
    int fd = atomic_load(&o->event_fd);
    uint64_t ignored;
    if (fd >= 0) /* cleared before the mailbox is read, so that a later tick is seen or sets it again */
        eventfd_read(fd, &ignored);
    vks_status status = vks_mailbox_take(o->mailbox, out);
    if (status == VKS_CLOSED) /* the eventfd stays readable for every poller */
        wake(o);
    if (status)
        return status;
    uint64_t taken = atomic_load(&o->taken);
    if (!vks_atomic_max(&o->taken, out->id)) /* taken before, or posted before the observer rested */
        return VKS_TIMEOUT;
    *missed = out->id - taken - 1;
    return VKS_OK;
}

static vks_status wait(vks_observer *o, uint64_t deadline, vks_tick *out, uint64_t *missed)
{
    for (;;) {
        if (o->dispatcher->process != vks_process)
            return vks_fail(VKS_FORKED, 0, "the observer belongs to the process before fork()");
        vks_status status = take(o, out, missed);
        if (status == VKS_CLOSED)
            return vks_fail(VKS_CLOSED, 0, "the observer, its dispatcher or its display was closed");
        if (status == VKS_OK || !deadline)
            return status;
        status = vks_mailbox_sleep(o->mailbox, NULL, 0, deadline);
        if (status) /* a tick may have come at the last moment */
            return take(o, out, missed) == VKS_OK ? VKS_OK : status;
    }
}

/* An interrupted wait is called again, and traced as one. */
static void trace_taken(const vks_observer *o, const vks_tick *tick, uint64_t began, vks_status status)
{
    if (status == VKS_INTERRUPTED)
        vks_trace_interrupted((uintptr_t)o, began);
    else if (status == VKS_OK)
        vks_trace_mark(VKS_TRACE_TAKE, "", vks_trace_resume((uintptr_t)o, began), tick->id, tick->time);
}

vks_status vks_observer_wait(vks_observer *observer, uint64_t deadline, vks_tick *out, uint64_t *missed)
{
    VKS_NEEDS(observer, out, missed);
    uint64_t began = vks_trace_begin();
    vks_status status = wait(observer, deadline, out, missed);
    VKS_TRACE(began, trace_taken(observer, out, began, status));
    return status;
}

vks_status vks_observer_fd(vks_observer *observer, int *fd)
{
    VKS_NEEDS(observer, fd);
    vks_status status = enter(observer->dispatcher);
    if (status)
        return status;
    if (observer->event_fd < 0) {
        atomic_store(&observer->event_fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (observer->event_fd < 0)
            status = vks_fail(VKS_OS_ERROR, errno, "eventfd");
        else if (atomic_load(&observer->mailbox->state) >= VKS_MAILBOX_FULL)
            wake(observer);
    }
    *fd = observer->event_fd;
    pthread_mutex_unlock(&observer->dispatcher->lock);
    return status;
}
