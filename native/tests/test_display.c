/* Displays, dispatchers and observers, with real threads. rules: V3, V4, V5, V6, V8, V10, V12, V13,
 * V17 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "os/platform.h"
#include "vsync/display.h"

static const vks_interval MS_2 = {2000000, 1}, MS_20 = {20000000, 1}, S_100 = {100000000000, 1};
#define MS UINT64_C(1000000)
#define TEST_TIMEOUT_NS (20000 * MS) /* a test that waits longer has failed */

static vks_display *display_of(vks_interval interval)
{
    vks_display *display = NULL;
    CHECK(vks_display_create(interval, false, &display) == VKS_OK, "no display");
    return display;
}

static vks_dispatcher *dispatcher_of(vks_display *display)
{
    vks_dispatcher *dispatcher = NULL;
    CHECK(vks_dispatcher_create(display, &dispatcher) == VKS_OK, "no dispatcher");
    return dispatcher;
}

static vks_observer *observer_of(vks_dispatcher *dispatcher)
{
    vks_observer *observer = NULL;
    CHECK(vks_observer_create(dispatcher, NULL, &observer) == VKS_OK, "no observer");
    CHECK(vks_observer_attend(observer) == VKS_OK, "it does not attend");
    return observer;
}

static vks_tick next(vks_observer *observer, uint64_t *missed)
{
    vks_tick tick = {0};
    uint64_t ignored;
    vks_status status = vks_observer_wait(observer, vks_now() + TEST_TIMEOUT_NS, &tick, missed ? missed : &ignored);
    CHECK(status == VKS_OK, "no tick: status %d", status);
    CHECK(tick.time <= vks_now() && tick.output > tick.time, "a tick of the future, or shown before it");
    return tick;
}

static vks_status poll_observer(vks_observer *observer)
{
    vks_tick tick;
    uint64_t missed;
    return vks_observer_wait(observer, 0, &tick, &missed);
}

static vks_display_statistics display_statistics(vks_display *display)
{
    vks_display_statistics statistics;
    vks_display_get_statistics(display, &statistics);
    return statistics;
}

static uint32_t listen_to(vks_display *display, vks_tick_kind kind, vks_mailbox *inbox)
{
    uint32_t source = 0;
    CHECK(vks_display_set_source(display, kind, inbox, &source) == VKS_OK, "it does not listen");
    return source;
}

static void end_display(vks_display *display)
{
    vks_display_shutdown(display);
    vks_display_unref(display);
}

static void end_dispatcher(vks_dispatcher *dispatcher)
{
    vks_dispatcher_close(dispatcher);
    vks_dispatcher_unref(dispatcher);
}

/* ---- ticks ---- */

static void every_observer_of_every_window_gets_every_tick_and_ids_and_times_grow(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *windows[3];
    vks_observer *observers[6];
    vks_tick last[6] = {0};
    for (int i = 0; i < 6; i++)
        observers[i] = observer_of(i % 2 ? windows[i / 2] : (windows[i / 2] = dispatcher_of(display)));
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 6; i++) {
            uint64_t missed;
            vks_tick tick = next(observers[i], &missed);
            CHECK(tick.display == vks_display_number(display), "of another display");
            CHECK(tick.id > last[i].id && tick.time >= last[i].time + MS, "two ticks closer than half an interval");
            CHECK(!last[i].id || tick.id - last[i].id == missed + 1, "%llu missed", (unsigned long long)missed);
            last[i] = tick;
        }
    CHECK(display_statistics(display).observing == 3 && display_statistics(display).ticks >= 20,
          "three windows observe");
    for (int i = 0; i < 6; i++)
        vks_observer_destroy(observers[i]);
    for (int i = 0; i < 3; i++)
        end_dispatcher(windows[i]);
    end_display(display);
}

static void a_blocked_consumer_gets_only_the_newest_tick_and_the_number_missed(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *other = observer_of(window),
                 *observer = observer_of(window); /* the newest observer gets ticks first */
    vks_tick first = next(observer, NULL), newest;
    uint64_t missed;
    do
        newest = next(other, NULL);
    while (newest.id < first.id + 10);
    vks_tick tick = next(observer, &missed);
    CHECK(tick.id >= newest.id && missed == tick.id - first.id - 1, "%llu missed", (unsigned long long)missed);
    vks_observer_rest(other);
    vks_observer_destroy(observer);
    vks_observer_destroy(other);
    end_dispatcher(window);
    end_display(display);
}

static void an_observers_fd_is_readable_just_while_there_is_a_tick_to_take(void)
{
    vks_display *display = display_of(MS_20);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    vks_observer *early = observer_of(window);
    next(observer, NULL);
    struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
    CHECK(vks_observer_fd(early, &fds[1].fd) == VKS_OK && poll(&fds[1], 1, 0) == 1, "a tick was posted already");
    CHECK(vks_observer_fd(observer, &fds[0].fd) == VKS_OK && poll(fds, 1, 20000) == 1, "no tick");
    vks_observer_rest(early);
    next(observer, NULL);
    vks_observer_rest(observer);
    poll_observer(observer);
    CHECK(poll(fds, 1, 60) == 0, "it rests");
    vks_observer_close(observer);
    CHECK(poll_observer(observer) == VKS_CLOSED && poll(fds, 1, 0) == 1, "it was closed, for every poller");
    vks_observer_destroy(early);
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(display);
}

/* ---- coming and going ---- */

static void the_first_observer_gets_the_last_tick_at_once_and_none_gets_one_twice(void)
{
    vks_display *display = display_of(S_100);
    vks_dispatcher *window = dispatcher_of(display), *other = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    listen_to(display, VKS_TICK_X11_PRESENT, NULL);
    CHECK(poll_observer(observer) == VKS_TIMEOUT, "there was none before");
    vks_display_set_interval(display, MS_20, false);
    vks_observer_rest(observer);
    vks_observer_attend(observer); /* the interval is taken over by a start */
    vks_tick tick = next(observer, NULL);
    CHECK(!(tick.flags & VKS_TICK_IS_MISSED), "a real one");
    vks_observer_rest(observer);
    vks_display_set_interval(display, S_100, false);
    vks_observer_attend(observer); /* of 20 ms still, its last tick is; so it may be too old by now */
    vks_observer *late = observer_of(window);
    CHECK(poll_observer(observer) == VKS_TIMEOUT, "it has that tick");
    CHECK(poll_observer(late) == VKS_TIMEOUT, "it is not the first");
    vks_observer_destroy(late);
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_dispatcher(other);
    end_display(display);
}

static void a_missed_tick_goes_to_the_first_window(void)
{
    int seen = 0;
    for (int i = 0; i < 50 && !seen; i++) { /* a slow machine may be too late for it */
        vks_display *display = display_of(MS_20);
        vks_dispatcher *window = dispatcher_of(display), *other = dispatcher_of(display);
        vks_observer *observer = observer_of(window);
        vks_tick tick = next(observer, NULL);
        vks_observer_rest(observer);
        vks_observer *first = observer_of(other);
        uint64_t missed;
        vks_tick again = next(first, &missed);
        CHECK(missed == 0, "%llu missed by one that has just come", (unsigned long long)missed);
        if (again.flags & VKS_TICK_IS_MISSED) {
            seen++;
            CHECK(again.time == tick.time, "another tick");
            CHECK(next(first, NULL).time > again.time, "the next one is news");
        }
        vks_observer_destroy(first);
        vks_observer_destroy(observer);
        end_dispatcher(window);
        end_dispatcher(other);
        end_display(display);
    }
    CHECK(seen, "no tick was flagged missed");
}

static void without_observers_no_thread_wakes_up(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    listen_to(display, VKS_TICK_PRESENT_WAIT, NULL);
    vks_observer *observer = observer_of(window);
    next(observer, NULL);
    vks_observer_rest(observer);
    usleep(20000); /* the thread sees the change at its deadline */
    uint64_t before = display_statistics(display).wakeups;
    usleep(200000);
    CHECK(display_statistics(display).wakeups == before, "%llu wakeups",
          (unsigned long long)(display_statistics(display).wakeups - before));
    CHECK(poll_observer(observer) == VKS_TIMEOUT, "it rests");
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(display);
}

typedef struct wait_result {
    vks_observer *observer;
    vks_status status;
} wait_result;

static void *wait_for_ever(void *pointer)
{
    wait_result *result = pointer;
    vks_tick tick;
    uint64_t missed;
    result->status = vks_observer_wait(result->observer, VKS_FOREVER, &tick, &missed);
    return NULL;
}

static void closing_the_observer_the_dispatcher_or_the_display_ends_a_wait(void)
{
    for (int end = 0; end < 3; end++) {
        vks_display *display = display_of(S_100);
        vks_dispatcher *window = dispatcher_of(display);
        wait_result result = {.observer = observer_of(window)};
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, &result);
        usleep(1000 * (useconds_t)end);
        if (end == 0)
            vks_observer_close(result.observer);
        else if (end == 1)
            vks_dispatcher_close(window);
        else
            vks_display_shutdown(display);
        pthread_join(thread, NULL);
        CHECK(result.status == VKS_CLOSED, "status %d", result.status);
        CHECK(vks_observer_attend(result.observer) == VKS_CLOSED, "for ever");
        vks_observer_destroy(result.observer);
        end_dispatcher(window);
        end_display(display);
    }
}

static void a_shut_down_display_refuses_and_a_second_shutdown_does_nothing(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display), *late;
    vks_observer *observer = observer_of(window);
    next(observer, NULL);
    vks_display_shutdown(display);
    uint64_t ticks = display_statistics(display).ticks;
    vks_display_shutdown(display);
    CHECK(vks_dispatcher_create(display, &late) == VKS_CLOSED, "a window");
    CHECK(vks_display_set_interval(display, MS_20, false) == VKS_CLOSED, "an interval");
    uint32_t source;
    CHECK(vks_display_set_source(display, VKS_TICK_SOFTWARE, NULL, &source) == VKS_CLOSED, "a source");
    CHECK(vks_display_hardware_tick(display, 0, vks_now()) == VKS_CLOSED, "a tick");
    CHECK(vks_display_wait_wanted(display, 0, true, VKS_FOREVER) == VKS_CLOSED, "a closed display has no observer");
    usleep(6000);
    CHECK(display_statistics(display).ticks == ticks, "it ticks on");
    vks_observer_destroy(observer);
    end_dispatcher(window);
    vks_display_unref(display);
}

/* ---- many threads ---- */

typedef struct crowd {
    vks_display *displays[2];
    vks_dispatcher *window;
    _Atomic bool is_over;
    _Atomic uint64_t ticks, bad;
} crowd;

static void *come_and_go(void *pointer)
{
    crowd *c = pointer;
    while (!atomic_load(&c->is_over)) {
        vks_observer *observer;
        if (vks_observer_create(c->window, NULL, &observer))
            break;
        vks_tick tick, last = {0};
        uint64_t missed;
        for (int i = 0; i < 3 && vks_observer_attend(observer) == VKS_OK; i++)
            if (vks_observer_wait(observer, vks_now() + 5 * MS, &tick, &missed) == VKS_OK) {
                atomic_fetch_add(&c->ticks, 1);
                if (last.id && (tick.id <= last.id || tick.time < last.time + MS))
                    atomic_fetch_add(&c->bad, 1);
                last = tick;
            }
        vks_observer_rest(observer);
        if (poll_observer(observer) == VKS_OK)
            atomic_fetch_add(&c->bad, 1);
        vks_observer_destroy(observer);
    }
    return NULL;
}

static void a_window_that_moves_under_ticks_gets_ticks_of_one_display_and_leaves_no_observer_behind(void)
{
    crowd c = {.displays = {display_of(MS_2), display_of((vks_interval){3000000, 1})}};
    c.window = dispatcher_of(c.displays[0]);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, come_and_go, &c);
    vks_observer *observer = observer_of(c.window);
    vks_tick last = next(observer, NULL);
    for (int i = 1; i <= 1000; i++) {
        vks_display *display = c.displays[i % 2];
        CHECK(vks_dispatcher_move(c.window, display) == VKS_OK, "it stays");
        if (i % 50 == 0) {
            vks_tick tick = next(observer, NULL);
            CHECK(tick.display == vks_display_number(display), "a tick of the display that it has left");
            CHECK(tick.id > last.id && tick.time >= last.time + MS, "older, or too soon");
            last = tick;
        }
    }
    CHECK(display_statistics(c.displays[0]).observing == 1 && display_statistics(c.displays[1]).observing == 0,
          "it is on the first again");
    atomic_store(&c.is_over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(c.ticks > 0 && c.bad == 0, "of %llu ticks %llu were wrong", (unsigned long long)c.ticks,
          (unsigned long long)c.bad);
    vks_observer_destroy(observer);
    CHECK(display_statistics(c.displays[0]).observing == 0 && display_statistics(c.displays[1]).observing == 0,
          "there is no observer");
    end_dispatcher(c.window);
    end_display(c.displays[0]);
    end_display(c.displays[1]);
}

static void a_move_to_a_display_that_was_shut_down_fails_and_one_away_from_it_brings_the_window_back(void)
{
    vks_display *gone = display_of(MS_2), *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    vks_display_shutdown(gone);
    CHECK(vks_dispatcher_move(window, gone) == VKS_CLOSED, "it has moved");
    CHECK(next(observer, NULL).display == vks_display_number(display), "it is where it was");
    vks_display *third = display_of(MS_2);
    vks_display_shutdown(display);
    CHECK(poll_observer(observer) == VKS_CLOSED, "its display is gone");
    CHECK(vks_dispatcher_move(window, third) == VKS_OK, "it stays");
    CHECK(next(observer, NULL).display == vks_display_number(third), "it ticks again");
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(third);
    vks_display_unref(display);
    vks_display_unref(gone);
}

static void *shut_down_soon(void *pointer)
{
    crowd *c = pointer;
    usleep(5000);
    vks_display_shutdown(c->displays[0]);
    return NULL;
}

static void displays_that_are_shut_down_under_changing_observers_leave_no_waiter(void)
{
    long rounds = check_scale("VKS_SHUTDOWNS", 20);
    for (long round = 0; round < rounds; round++) {
        crowd c = {.displays = {display_of(MS_2)}};
        c.window = dispatcher_of(c.displays[0]);
        pthread_t threads[3], enders[2];
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, come_and_go, &c);
        for (int i = 0; i < 2; i++)
            pthread_create(&enders[i], NULL, shut_down_soon, &c);
        for (int i = 0; i < 2; i++)
            pthread_join(enders[i], NULL);
        atomic_store(&c.is_over, true);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
        CHECK(c.bad == 0, "%llu wrong ticks", (unsigned long long)c.bad);
        end_dispatcher(c.window);
        vks_display_unref(c.displays[0]);
    }
}

/* ---- hardware ---- */

/* Reports `n` hardware ticks, 2 ms apart in real time; returns the number that the observer got. */
static int hardware_ticks(vks_display *display, uint32_t source, vks_observer *observer, int n, vks_tick_kind kind,
                          vks_tick *last)
{
    int got = 0;
    for (int i = 0; i < n; i++) {
        vks_tick tick;
        uint64_t missed, now = vks_now();
        vks_display_hardware_tick(display, source, now - now % (2 * MS));
        while (vks_observer_wait(observer, now + 2 * MS - now % (2 * MS), &tick, &missed) == VKS_OK) {
            got += tick.kind == kind;
            CHECK(tick.kind == kind || tick.kind == VKS_TICK_SOFTWARE, "kind %u", tick.kind);
            CHECK(!last->id || (tick.id > last->id && tick.time >= last->time + MS), "doubled, or too soon");
            *last = tick;
        }
    }
    return got;
}

static void sources_are_swapped_under_ticks_and_no_software_tick_is_marked_as_hardware(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    vks_tick last = {0};
    const vks_tick_kind kinds[] = {VKS_TICK_X11_PRESENT, VKS_TICK_PRESENT_WAIT};
    for (int i = 0; i < 2; i++) {
        uint32_t source = listen_to(display, kinds[i], NULL);
        int got = 0;
        for (int tries = 0; tries < 100 && got < 10; tries++)
            got += hardware_ticks(display, source, observer, 10, kinds[i], &last);
        CHECK(got >= 10, "%d ticks of kind %u", got, kinds[i]);
        listen_to(display, VKS_TICK_SOFTWARE, NULL);
        vks_display_hardware_tick(display, source, vks_now()); /* too late */
        for (int n = 0; n < 3; n++) {
            vks_tick tick = next(observer, NULL);
            CHECK(tick.kind == VKS_TICK_SOFTWARE || tick.id == last.id + 1, "no hardware source is set");
            CHECK(tick.id > last.id && tick.time >= last.time + MS, "doubled, or too soon");
            last = tick;
        }
        CHECK(last.kind == VKS_TICK_SOFTWARE, "kind %u", last.kind);
    }
    CHECK(display_statistics(display).hardware >= 20, "%llu", (unsigned long long)display_statistics(display).hardware);
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(display);
}

static void a_source_is_notified_when_it_is_needed_and_when_it_is_replaced(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    uint32_t source = listen_to(display, VKS_TICK_X11_PRESENT, NULL);
    CHECK(vks_display_wait_wanted(display, source, true, 0) == VKS_TIMEOUT, "there is no observer");
    CHECK(vks_display_wait_wanted(display, source, false, VKS_FOREVER) == VKS_OK, "there is no observer");
    vks_observer *observer = observer_of(window);
    CHECK(vks_display_wait_wanted(display, source, true, VKS_FOREVER) == VKS_OK, "there is an observer");
    vks_observer_destroy(observer);
    CHECK(vks_display_wait_wanted(display, source, false, VKS_FOREVER) == VKS_OK, "there is no observer");
    uint32_t other = listen_to(display, VKS_TICK_PRESENT_WAIT, NULL);
    CHECK(vks_display_wait_wanted(display, source, true, VKS_FOREVER) == VKS_CLOSED, "it was replaced");
    CHECK(vks_display_wait_wanted(display, other, false, VKS_FOREVER) == VKS_OK, "there is no observer");
    end_dispatcher(window);
    end_display(display);
}

/* ---- another process's ticks ---- */

static void post(vks_mailbox *mailbox, uint64_t time, vks_interval interval, uint32_t kind)
{
    vks_mailbox_post(mailbox,
                     &(vks_tick){.id = 1, .time = time, .output = time + 1, .interval = interval, .kind = kind});
}

static void another_displays_ticks_come_by_mailbox_with_their_kind_and_interval_until_it_is_closed(void)
{
    vks_display *display = display_of(MS_20);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    vks_mailbox mailbox = {0};
    listen_to(display, VKS_TICK_SOFTWARE, &mailbox);
    CHECK(mailbox.wanted == 1, "there is an observer");
    bool arrived = false;
    for (int i = 0; i < 4000 && !arrived; i++) {
        uint64_t now = vks_now(), step = 2 * MS;
        post(&mailbox, now - now % step, MS_2, VKS_TICK_PRESENT_WAIT);
        vks_tick tick;
        uint64_t missed;
        while (vks_observer_wait(observer, now + step - now % step, &tick, &missed) == VKS_OK)
            arrived |= tick.kind == VKS_TICK_PRESENT_WAIT && tick.interval.numerator == MS_2.numerator;
    }
    CHECK(arrived, "no tick of the other process's came through");
    post(&mailbox, vks_now(), (vks_interval){1, 0}, VKS_TICK_PRESENT_WAIT); /* an invalid interval */
    while (mailbox.state == VKS_MAILBOX_FULL)
        next(observer, NULL);
    next(observer, NULL);
    post(&mailbox, UINT64_MAX, MS_2, 999);
    next(observer, NULL);
    vks_mailbox_close(&mailbox);
    for (vks_tick tick = next(observer, NULL); tick.kind != VKS_TICK_SOFTWARE;)
        tick = next(observer, NULL);
    CHECK(mailbox.wanted == 1, "it may be opened again");
    vks_mailbox_reopen(&mailbox);
    listen_to(display, VKS_TICK_SOFTWARE, &mailbox);
    vks_observer_rest(observer);
    CHECK(mailbox.wanted == 0, "there is no observer");
    vks_observer_attend(observer);
    usleep(1000);
    listen_to(display, VKS_TICK_SOFTWARE, NULL); /* the memory may be unmapped from now on */
    memset(&mailbox, 0xff, sizeof mailbox);
    next(observer, NULL);
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(display);
}

static void a_display_with_a_page_of_garbage_as_source_ticks_and_shuts_down(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    vks_mailbox mailbox;
    listen_to(display, VKS_TICK_SOFTWARE, (memset(&mailbox, 0, sizeof mailbox), &mailbox));
    unsigned seed = 7;
    for (int i = 0; i < 2000; i++) {
        _Atomic uint32_t *words = (_Atomic uint32_t *)&mailbox;
        seed = seed * 1103515245 + 12345;
        atomic_store(&words[seed / 65536 % (sizeof mailbox / 4)], seed % 3 ? seed : seed / 65536 % 5);
        vks_futex_wake(&mailbox.state, VKS_ANY_BIT);
    }
    next(observer, NULL);
    end_display(display);
    vks_observer_destroy(observer);
    end_dispatcher(window);
}

static void a_child_of_fork_is_refused_and_ends_nothing(void)
{
    vks_display *display = display_of(MS_2);
    vks_dispatcher *window = dispatcher_of(display);
    vks_observer *observer = observer_of(window);
    pid_t child = fork();
    if (child == 0) {
        vks_dispatcher *late;
        bool ok = vks_dispatcher_create(display, &late) == VKS_FORKED && poll_observer(observer) == VKS_FORKED &&
                  vks_dispatcher_move(window, display) == VKS_FORKED && vks_observer_attend(observer) == VKS_FORKED &&
                  vks_display_wait_wanted(display, 0, true, 0) == VKS_FORKED;
        vks_observer_destroy(observer);
        end_dispatcher(window);
        end_display(display);
        _exit(ok ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    next(observer, NULL);
    vks_observer_destroy(observer);
    end_dispatcher(window);
    end_display(display);
}

int main(void)
{
    RUN(every_observer_of_every_window_gets_every_tick_and_ids_and_times_grow);
    RUN(a_blocked_consumer_gets_only_the_newest_tick_and_the_number_missed);
    RUN(an_observers_fd_is_readable_just_while_there_is_a_tick_to_take);
    RUN(the_first_observer_gets_the_last_tick_at_once_and_none_gets_one_twice);
    RUN(a_missed_tick_goes_to_the_first_window);
    RUN(without_observers_no_thread_wakes_up);
    RUN(closing_the_observer_the_dispatcher_or_the_display_ends_a_wait);
    RUN(a_shut_down_display_refuses_and_a_second_shutdown_does_nothing);
    RUN(a_window_that_moves_under_ticks_gets_ticks_of_one_display_and_leaves_no_observer_behind);
    RUN(a_move_to_a_display_that_was_shut_down_fails_and_one_away_from_it_brings_the_window_back);
    RUN(displays_that_are_shut_down_under_changing_observers_leave_no_waiter);
    RUN(sources_are_swapped_under_ticks_and_no_software_tick_is_marked_as_hardware);
    RUN(a_source_is_notified_when_it_is_needed_and_when_it_is_replaced);
    RUN(another_displays_ticks_come_by_mailbox_with_their_kind_and_interval_until_it_is_closed);
    RUN(a_display_with_a_page_of_garbage_as_source_ticks_and_shuts_down);
    RUN(a_child_of_fork_is_refused_and_ends_nothing);
    return check_result();
}
