/* display.c: see display.h. */
#include "vsync/display_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "os/trace.h"

typedef void visitor(vks_dispatcher *dispatcher, const vks_display *display, const vks_tick *tick);

/* ---- the display's dispatchers ---- */

void vks_display_link(vks_display *display, vks_dispatcher *d)
{
    d->before = display->last;
    d->after = NULL;
    *(display->last ? &display->last->after : &display->first) = d;
    display->last = d;
    display->n++;
}

void vks_display_unlink(vks_display *display, vks_dispatcher *d)
{
    *(d->before ? &d->before->after : &display->first) = d->after;
    *(d->after ? &d->after->before : &display->last) = d->before;
    display->n--;
}

/* Calls `visit` for each dispatcher, with that dispatcher's lock held. Caller holds display->lock,
 * which is released during a visit: dispatchers may come and go, and one may be visited twice. */
static void for_each(vks_display *display, visitor *visit, const vks_tick *tick)
{
    for (size_t left = display->n; left && display->first; left--) {
        vks_dispatcher *d = display->first;
        vks_display_unlink(display, d);
        vks_display_link(display, d);
        atomic_fetch_add(&d->references, 1);
        pthread_mutex_unlock(&display->lock);
        pthread_mutex_lock(&d->lock);
        visit(d, display, tick);
        pthread_mutex_unlock(&d->lock);
        vks_dispatcher_unref(d);
        pthread_mutex_lock(&display->lock);
    }
}

/* ---- the thread; caller holds display->lock ---- */

static void wake_thread(vks_display *display)
{
    atomic_fetch_add(&display->changes, 1);
    if (display->sleeping)
        vks_mailbox_wake(display->sleeping);
    else
        vks_futex_wake(&display->changes, VKS_ANY_BIT);
}

/* Notifies the source of ticks when observers come or go. */
static void notify_source(vks_display *display)
{
    vks_mailbox_set_wanted(display->inbox, display->observing && !display->is_closed);
    atomic_fetch_add(&display->wants, 1);
    vks_futex_wake(&display->wants, VKS_ANY_BIT);
}

static bool is_foreign(const vks_display *display) { return display->inbox != &display->own; }

static void drop_inbox(vks_display *display)
{
    vks_mailbox_set_wanted(display->inbox, false);
    display->inbox = &display->own;
}

/* Adopts the kind and interval of another process's tick. False: they are invalid. */
static bool adopt_interval(vks_tick_clock *clock, const vks_tick *tick)
{
    if (tick->kind > VKS_TICK_PRESENT_TIMING || vks_interval_check(tick->interval))
        return false;
    bool changes = clock->next_interval.numerator, is_estimated = tick->flags & VKS_TICK_IS_ESTIMATED;
    vks_interval known = changes ? clock->next_interval : clock->interval;
    bool was_estimated = changes ? clock->next_is_estimated : clock->flags & VKS_TICK_IS_ESTIMATED;
    if (known.numerator != tick->interval.numerator || known.denominator != tick->interval.denominator ||
        was_estimated != is_estimated)
        vks_tick_clock_set_interval(clock, tick->interval, is_estimated);
    clock->kind = tick->kind;
    return true;
}

static bool next_tick(vks_display *display, uint64_t now, vks_tick *out)
{
    vks_tick heard;
    vks_status status = vks_mailbox_take(display->inbox, &heard);
    if (status == VKS_OK && (!is_foreign(display) || adopt_interval(&display->clock, &heard)) &&
        vks_tick_clock_hardware_tick(&display->clock, heard.time, now, out))
        return true;
    if (status == VKS_CLOSED && display->clock.by_hardware) /* the other process has shut down its display */
        vks_tick_clock_set_hardware(&display->clock, VKS_TICK_SOFTWARE, now);
    return vks_tick_clock_advance(&display->clock, now, out);
}

static void count(vks_display_statistics *counts, const vks_tick *tick, uint64_t before, uint64_t now)
{
    bool is_broken = tick->flags & VKS_TICK_IS_BROKEN;
    counts->ticks++;
    counts->breaks += is_broken;
    counts->skipped += before && !is_broken ? tick->id - before - 1 : 0;
    if (tick->kind != VKS_TICK_SOFTWARE) {
        counts->hardware++;
        return;
    }
    counts->late = now - tick->time;
    counts->latest = counts->latest > counts->late ? counts->latest : counts->late;
}

/* Returns whether a tick may come to the inbox. A closed one is checked when the timer ticks,
 * because its writer may move to another display and reopen it. */
static bool is_open(const vks_display *display)
{
    return is_foreign(display) ? atomic_load(&display->inbox->state) != VKS_MAILBOX_CLOSED
                               : display->clock.kind != VKS_TICK_SOFTWARE;
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* An idle processor takes about 100 us to wake, a virtual one at least. The thread therefore sets
 * its timer earlier by its recent lateness, and spins for the remaining time. */
#define MAX_LEAD_NS 100000

static void spin_until(vks_display *display, uint64_t woken_at, uint64_t deadline)
{
    uint64_t late = earlier(vks_now() - woken_at, MAX_LEAD_NS);
    display->lead = (uint32_t)((7 * (uint64_t)display->lead + late) / 8);
    while (vks_now() < deadline)
        vks_pause();
}

/* Releases display->lock during the sleep. */
static void sleep_until(vks_display *display, uint64_t deadline)
{
    uint32_t changes = atomic_load(&display->changes);
    bool listens = display->clock.is_running && is_open(display);
    vks_mailbox *inbox = display->sleeping = listens ? display->inbox : NULL;
    pthread_mutex_unlock(&display->lock);
    if (inbox && inbox != &display->own) /* a process that overwrites the mailbox must not block a shutdown */
        deadline = earlier(deadline, vks_now() + VKS_HARDWARE_TIMEOUT_NS);
    uint64_t wake = deadline == VKS_FOREVER ? deadline : deadline - display->lead;
    bool sleeps = vks_now() < wake;
    vks_status status = inbox ? vks_mailbox_sleep(inbox, &display->changes, changes, wake)
                              : vks_futex_wait(&display->changes, changes, VKS_ANY_BIT, wake);
    if (sleeps && status == VKS_TIMEOUT)
        spin_until(display, wake, deadline);
    pthread_mutex_lock(&display->lock);
    display->counts.wakeups++;
    display->sleeping = NULL;
    if (inbox)
        pthread_cond_broadcast(&display->left);
}

static void trace_tick(const vks_tick *tick, uint64_t began)
{
    char name[VKS_TRACE_TEXT];
    snprintf(name, sizeof name, "display %u", tick->display);
    vks_trace_tick(name, began, tick->id, tick->time);
}

static void *run(void *pointer)
{
    vks_display *display = pointer;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* ns; the default lets the kernel add 50 us */
    pthread_mutex_lock(&display->lock);
    while (!display->is_closed) {
        uint64_t before = display->clock.last.id, now = vks_now();
        vks_tick tick;
        if (next_tick(display, now, &tick)) {
            tick.display = display->number;
            count(&display->counts, &tick, before, now);
            uint64_t began = vks_trace_begin();
            for_each(display, vks_dispatcher_deliver, &tick);
            VKS_TRACE(began, trace_tick(&tick, began));
        } else {
            sleep_until(display, vks_tick_clock_deadline(&display->clock));
        }
    }
    display->is_looping = false;
    pthread_cond_broadcast(&display->left);
    pthread_mutex_unlock(&display->lock);
    return NULL;
}

/* ---- creation and shutdown ---- */

vks_status vks_display_create(vks_interval interval, bool is_estimated, vks_display **out)
{
    VKS_NEEDS(out);
    static _Atomic uint32_t numbers;
    vks_status status = vks_interval_check(interval);
    if (status)
        return status;
    vks_display *display = calloc(1, sizeof *display);
    if (!display)
        return vks_fail(VKS_NO_MEMORY, 0, "no memory for a display");
    vks_platform_init();
    display->references = 1;
    display->process = vks_process;
    display->number = atomic_fetch_add(&numbers, 1) + 1;
    display->inbox = &display->own;
    pthread_mutex_init(&display->lock, NULL);
    pthread_cond_init(&display->left, NULL);
    vks_tick_clock_init(&display->clock, interval, is_estimated, vks_now());
    *out = display;
    return VKS_OK;
}

void vks_display_unref(vks_display *display)
{
    VKS_NEEDS_OR(, display);
    if (display->process != vks_process || atomic_fetch_sub(&display->references, 1) != 1)
        return;
    pthread_cond_destroy(&display->left);
    pthread_mutex_destroy(&display->lock);
    free(display);
}

uint32_t vks_display_number(const vks_display *display)
{
    VKS_NEEDS_OR(0, display);
    return display->number;
}

vks_status vks_display_enter(vks_display *display)
{
    if (display->process != vks_process) /* a thread of the parent may hold the lock forever */
        return vks_fail(VKS_FORKED, 0, "the display belongs to the process before fork()");
    pthread_mutex_lock(&display->lock);
    if (!display->is_closed)
        return VKS_OK;
    pthread_mutex_unlock(&display->lock);
    return vks_fail(VKS_CLOSED, 0, "the display was shut down");
}

void vks_display_shutdown(vks_display *display)
{
    VKS_NEEDS_OR(, display);
    if (display->process != vks_process)
        return;
    pthread_mutex_lock(&display->lock);
    display->is_closed = true;
    vks_tick_clock_stop(&display->clock);
    wake_thread(display);
    uintptr_t thread = display->thread;
    display->thread = 0;
    while (display->is_looping)
        pthread_cond_wait(&display->left, &display->lock);
    drop_inbox(display);
    notify_source(display);
    for_each(display, vks_dispatcher_close_mailboxes, NULL);
    pthread_mutex_unlock(&display->lock);
    if (thread)
        vks_thread_join(thread);
}

/* ---- sources ---- */

vks_status vks_display_set_interval(vks_display *display, vks_interval interval, bool is_estimated)
{
    VKS_NEEDS(display);
    vks_status status = vks_interval_check(interval);
    if (status || (status = vks_display_enter(display)))
        return status;
    vks_tick_clock_set_interval(&display->clock, interval, is_estimated);
    pthread_mutex_unlock(&display->lock);
    return VKS_OK;
}

static void wait_until_left(vks_display *display, const vks_mailbox *inbox)
{
    while (display->sleeping == inbox)
        pthread_cond_wait(&display->left, &display->lock);
}

/* Caller holds display->lock, which is released during a wait. */
static void change_inbox(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox)
{
    vks_mailbox *old = display->inbox;
    vks_mailbox_set_wanted(old, false);
    vks_mailbox_retract(&display->own); /* a tick of the old source */
    display->inbox = inbox;
    display->source++;
    vks_tick_clock_set_hardware(&display->clock, kind, vks_now());
    notify_source(display);
    wake_thread(display);
    if (old != &display->own && old != inbox)
        wait_until_left(display, old);
}

vks_status vks_display_set_source(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox, uint32_t *source)
{
    VKS_NEEDS(display, source);
    vks_status status = vks_display_enter(display);
    if (status)
        return status;
    change_inbox(display, kind, inbox ? inbox : &display->own);
    *source = display->source;
    pthread_mutex_unlock(&display->lock);
    return VKS_OK;
}

void vks_display_drop_mailbox(vks_display *display, vks_mailbox *inbox)
{
    if (display->process != vks_process)
        return;
    pthread_mutex_lock(&display->lock);
    if (display->inbox == inbox)
        change_inbox(display, VKS_TICK_SOFTWARE, &display->own);
    wait_until_left(display, inbox);
    pthread_mutex_unlock(&display->lock);
}

vks_status vks_display_hardware_tick(vks_display *display, uint32_t source, uint64_t time)
{
    VKS_NEEDS(display);
    vks_status status = vks_display_enter(display);
    if (status)
        return status;
    uint64_t began = 0;
    if (display->source == source && display->clock.kind != VKS_TICK_SOFTWARE && display->clock.is_running) {
        began = vks_trace_begin();
        vks_mailbox_post(&display->own, &(vks_tick){.time = time});
    }
    pthread_mutex_unlock(&display->lock);
    VKS_TRACE(began, vks_trace_mark(VKS_TRACE_HEARD, "", began, display->number, time));
    return VKS_OK;
}

vks_status vks_display_wait_wanted(vks_display *display, uint32_t source, bool is_wanted, uint64_t deadline)
{
    VKS_NEEDS(display);
    for (;;) {
        uint32_t wants = atomic_load(&display->wants);
        vks_status status = vks_display_enter(display);
        if (status)
            return status;
        bool is_current = display->source == source, is_so = is_wanted == (display->observing > 0);
        pthread_mutex_unlock(&display->lock);
        if (!is_current)
            return vks_fail(VKS_CLOSED, 0, "the display has another source");
        if (is_so)
            return VKS_OK;
        if (!deadline)
            return VKS_TIMEOUT;
        status = vks_futex_wait(&display->wants, wants, VKS_ANY_BIT, deadline);
        if (status)
            return status;
    }
}

void vks_display_get_statistics(vks_display *display, vks_display_statistics *out)
{
    VKS_NEEDS_OR(, display, out);
    *out = (vks_display_statistics){.interval = {1, 1}};
    if (display->process != vks_process)
        return;
    pthread_mutex_lock(&display->lock);
    const vks_tick_clock *t = &display->clock;
    *out = display->counts;
    out->observing = display->observing;
    out->kind = t->by_hardware ? t->kind : VKS_TICK_SOFTWARE;
    out->interval = t->interval;
    out->is_estimated = t->flags & VKS_TICK_IS_ESTIMATED;
    pthread_mutex_unlock(&display->lock);
}

/* ---- observers ---- */

static vks_status start_thread(vks_display *display)
{
    if (display->is_looping)
        return VKS_OK;
    vks_status status = vks_thread_start("vkshare-vsync", run, display, &display->thread);
    display->is_looping = !status; /* the new thread waits for the lock */
    return status;
}

vks_status vks_display_begin(vks_display *display, vks_tick *missed)
{
    missed->id = 0;
    vks_status status = vks_display_enter(display);
    if (status)
        return status;
    if (!(status = start_thread(display)) && !display->observing++) {
        uint64_t now = vks_now();
        if (vks_tick_clock_missed(&display->clock, now, missed))
            missed->display = display->number;
        else
            missed->id = 0;
        vks_tick_clock_start(&display->clock, now);
        notify_source(display);
        wake_thread(display);
    }
    pthread_mutex_unlock(&display->lock);
    return status;
}

/* The thread sees the change at its deadline, and then sleeps without one. */
void vks_display_end(vks_display *display)
{
    pthread_mutex_lock(&display->lock);
    if (!--display->observing && !display->is_closed) {
        vks_tick_clock_stop(&display->clock);
        notify_source(display);
    }
    pthread_mutex_unlock(&display->lock);
}
