/* Ticks for another process. rules: V18, V19 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_macros.h"
#include "shm/page.h"
#include "os/platform.h"
#include "os/watcher.h"
#include "vsync/bridge.h"

static const vks_interval MS_5 = {5000000, 1}, MS_6 = {6000000, 1}, MS_7 = {7000000, 1};
#define MS UINT64_C(1000000)
#define TEST_TIMEOUT_NS (20000 * MS) /* a test that waits longer has failed */

typedef struct side {
    vks_display *display;
    vks_dispatcher *window;
    vks_observer *observer;
} side;

static side side_of(vks_interval interval)
{
    side s = {0};
    CHECK(vks_display_create(interval, false, &s.display) == VKS_OK, "no display");
    CHECK(vks_dispatcher_create(s.display, &s.window) == VKS_OK, "no dispatcher");
    CHECK(vks_observer_create(s.window, NULL, &s.observer) == VKS_OK, "no observer");
    return s;
}

static void end_side(side *s)
{
    vks_observer_destroy(s->observer);
    vks_dispatcher_close(s->window);
    vks_dispatcher_unref(s->window);
    vks_display_shutdown(s->display);
    vks_display_unref(s->display);
}

static vks_tick next(side *s)
{
    vks_tick tick = {0};
    uint64_t missed;
    CHECK(vks_observer_wait(s->observer, vks_now() + TEST_TIMEOUT_NS, &tick, &missed) == VKS_OK, "no tick");
    return tick;
}

static uint32_t observing(const side *s)
{
    vks_display_statistics out;
    vks_display_get_statistics(s->display, &out);
    return out.observing;
}

static bool comes_true(bool (*is_so)(void *), void *user)
{
    for (int i = 0; i < 20000; i++) {
        if (is_so(user))
            return true;
        usleep(1000);
    }
    return false;
}

static bool is_attending(void *bridge) { return vks_bridge_is_attending(bridge); }
static bool rests(void *bridge) { return !vks_bridge_is_attending(bridge); }
static bool is_unobserved(void *s) { return observing(s) == 0; }

/* Ticks of the reader's side until one is of the writer's interval; all of them are half an
 * interval apart. */
static bool ticks_at_interval(side *s, vks_interval interval)
{
    vks_tick last = {0};
    for (int i = 0; i < 2000; i++) {
        vks_tick tick = next(s);
        CHECK(!last.id || (tick.id > last.id && tick.time >= last.time + 5 * MS / 2), "doubled, or too soon");
        last = tick;
        if (tick.interval.numerator == interval.numerator)
            return true;
    }
    return false;
}

static void a_display_adopts_interval_and_phase_of_its_bridge_and_observes_only_while_needed(void)
{
    side here = side_of(MS_5), there = side_of(MS_7); /* one process stands for two */
    vks_bridge *bridge;
    vks_bridge_end *end;
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    vks_observer_attend(there.observer);
    next(&there); /* without the bridge it ticks by its timer (V19) */
    CHECK(vks_bridge_open(there.display, vks_bridge_fd(bridge), &end) == VKS_OK, "no end");
    CHECK(ticks_at_interval(&there, MS_5), "it never took over the interval");
    CHECK(observing(&here) == 1 && vks_bridge_has_reader(bridge), "the bridge observes");
    vks_observer_rest(there.observer);
    CHECK(comes_true(rests, bridge) && comes_true(is_unobserved, &here), "no observer is left");
    vks_observer_attend(there.observer);
    CHECK(comes_true(is_attending, bridge), "there is an observer again");
    next(&there);
    vks_bridge_close(bridge);
    CHECK(observing(&here) == 0, "the bridge was closed");
    next(&there);
    vks_bridge_leave(end);
    vks_bridge_destroy(bridge);
    next(&there);
    end_side(&there);
    end_side(&here);
}

typedef struct child {
    pid_t pid;
    int out; /* a pipe: a byte a tick of the writer's interval */
} child;

enum { PAGE_FD = 100, TICKS_FD }; /* of the child */

/* The child executes the program again, because the sanitizers support no threads in a forked
 * one. */
static int be_the_child(void)
{
    side there = side_of(MS_7);
    vks_bridge_end *end;
    if (vks_bridge_open(there.display, PAGE_FD, &end))
        return 1;
    vks_observer_attend(there.observer);
    for (;;)
        if (next(&there).interval.numerator == MS_5.numerator && write(TICKS_FD, "t", 1) < 0)
            return 2;
}

static child start_child(const vks_bridge *bridge)
{
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    child c = {.pid = fork(), .out = ends[0]};
    if (c.pid == 0) {
        dup2(vks_bridge_fd(bridge), PAGE_FD);
        dup2(ends[1], TICKS_FD);
        close(ends[0]);
        execl("/proc/self/exe", "test_bridge", "child", (char *)NULL);
        _exit(3);
    }
    close(ends[1]);
    return c;
}

static void end_child(child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->out);
}

static void read_ticks(const child *c, int n)
{
    char byte;
    for (int i = 0; i < n; i++)
        CHECK(read(c->out, &byte, 1) == 1, "the child is gone");
}

static void a_killed_reader_is_dropped_and_a_stopped_one_continues(void)
{
    side here = side_of(MS_5);
    vks_bridge *bridge;
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    child c = start_child(bridge);
    read_ticks(&c, 5);
    kill(c.pid, SIGSTOP);
    usleep(30000);
    CHECK(vks_bridge_has_reader(bridge), "it lives");
    kill(c.pid, SIGCONT);
    read_ticks(&c, 5);
    end_child(&c);
    CHECK(comes_true(is_unobserved, &here) && !vks_bridge_has_reader(bridge), "it is observed for a dead process");
    vks_bridge_destroy(bridge);
    end_side(&here);
}

static void an_invalid_page_is_refused_and_one_of_garbage_harms_neither_side(void)
{
    side here = side_of(MS_5), there = side_of(MS_7);
    vks_bridge *bridge;
    vks_bridge_end *end;
    CHECK(vks_bridge_open(there.display, STDIN_FILENO, &end) == VKS_BAD_PAGE, "no memfd");
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, vks_bridge_fd(bridge), 0);
    ((vks_page_header *)page)->version++;
    CHECK(vks_bridge_open(there.display, vks_bridge_fd(bridge), &end) == VKS_BAD_PAGE, "another version");
    ((vks_page_header *)page)->version--;
    CHECK(vks_bridge_open(there.display, vks_bridge_fd(bridge), &end) == VKS_OK, "no end");
    vks_observer_attend(there.observer);
    vks_observer_attend(here.observer);
    unsigned seed = 11;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        page[sizeof(vks_page_header) + seed / 65536 % sizeof(vks_mailbox)] = (unsigned char)(seed >> 8);
        if (i % 300 == 0) {
            next(&here);
            next(&there);
        }
    }
    vks_bridge_leave(end);
    memset(page + sizeof(vks_page_header), 0xff, sizeof(vks_mailbox));
    next(&here);
    next(&there);
    vks_bridge_destroy(bridge);
    munmap(page, 4096);
    end_side(&there);
    end_side(&here);
}

static bool is_not_estimated(void *s)
{
    vks_display_statistics out;
    vks_display_get_statistics(((side *)s)->display, &out);
    return !out.is_estimated;
}

static void a_known_interval_replaces_an_estimated_one(void)
{
    side here = side_of(MS_5), there = {0};
    CHECK(vks_display_create(MS_5, true, &there.display) == VKS_OK, "no display");
    CHECK(vks_dispatcher_create(there.display, &there.window) == VKS_OK, "no dispatcher");
    CHECK(vks_observer_create(there.window, NULL, &there.observer) == VKS_OK, "no observer");
    vks_bridge *bridge;
    vks_bridge_end *end;
    vks_observer_attend(there.observer);
    CHECK(next(&there).flags & VKS_TICK_IS_ESTIMATED, "no interval is set yet");
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    CHECK(vks_bridge_open(there.display, vks_bridge_fd(bridge), &end) == VKS_OK, "no end");
    CHECK(comes_true(is_not_estimated, &there), "the same interval, which the other side knows");
    vks_bridge_leave(end);
    vks_bridge_destroy(bridge);
    end_side(&there);
    end_side(&here);
}

static void a_window_that_moves_from_a_closed_display_keeps_its_bridge(void)
{
    side here = side_of(MS_5), there = side_of(MS_7);
    vks_bridge *bridge;
    vks_bridge_end *end;
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    CHECK(vks_bridge_open(there.display, vks_bridge_fd(bridge), &end) == VKS_OK, "no end");
    vks_observer_attend(there.observer);
    CHECK(ticks_at_interval(&there, MS_5), "it never took over the interval");
    vks_display_shutdown(here.display);
    for (int i = 0; i < 5; i++)
        next(&there); /* by itself */
    vks_display *gone = here.display;
    CHECK(vks_display_create(MS_6, false, &here.display) == VKS_OK, "no display");
    CHECK(vks_dispatcher_move(here.window, here.display) == VKS_OK, "it does not move");
    CHECK(ticks_at_interval(&there, MS_6), "it gets no ticks of the other display");
    vks_display_unref(gone);
    vks_bridge_leave(end);
    vks_bridge_destroy(bridge);
    end_side(&there);
    end_side(&here);
}

/* ---- a reader that lies ---- */

static vks_mailbox *mail_of(const vks_bridge *bridge)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, vks_bridge_fd(bridge), 0);
    CHECK(page != MAP_FAILED, "no page");
    return (vks_mailbox *)((char *)page + sizeof(vks_page_header));
}

static void unmap_mailbox(vks_mailbox *mailbox) { munmap((char *)mailbox - sizeof(vks_page_header), 4096); }

/* Fires the watch again at once, as a reader does that changes its page constantly. */
typedef struct restless {
    _Atomic uint32_t state, fired;
    _Atomic bool is_over;
} restless;

static void fire_again(void *pointer)
{
    restless *r = pointer;
    atomic_fetch_add(&r->fired, 1);
    if (!atomic_load(&r->is_over))
        vks_watcher_set(r, fire_again, &(vks_watch){&r->state, 1}, 1);
}

static void a_page_that_changes_constantly_does_not_starve_other_pages(void)
{
    side here = side_of(MS_5);
    vks_bridge *bridge;
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    restless r = {0};
    CHECK(vks_watcher_set(&r, fire_again, &(vks_watch){&r.state, 1}, 1) == VKS_OK, "no watcher");
    vks_mailbox *mailbox = mail_of(bridge);
    atomic_store(&mailbox->reader, vks_self());
    vks_mailbox_set_wanted(mailbox, true);
    CHECK(comes_true(is_attending, bridge), "the page was never checked, the other one %u times",
          atomic_load(&r.fired));
    atomic_store(&r.is_over, true);
    vks_watcher_remove(&r);
    unmap_mailbox(mailbox);
    vks_bridge_destroy(bridge);
    end_side(&here);
}

static void a_reader_without_a_process_gets_no_ticks(void)
{
    side here = side_of(MS_5);
    vks_bridge *bridge;
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_OK, "no bridge");
    vks_mailbox *mailbox = mail_of(bridge);
    atomic_store(&mailbox->reader, UINT64_C(1) << 22); /* of pid 0 */
    vks_mailbox_set_wanted(mailbox, true);
    usleep(50000);
    CHECK(!vks_bridge_is_attending(bridge) && !vks_bridge_has_reader(bridge), "it is observed without a reader");
    unmap_mailbox(mailbox);
    vks_bridge_destroy(bridge);
    vks_display_shutdown(here.display);
    CHECK(vks_bridge_create(here.window, &bridge) == VKS_CLOSED, "the display was shut down");
    end_side(&here);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        return be_the_child();
    RUN(a_display_adopts_interval_and_phase_of_its_bridge_and_observes_only_while_needed);
    RUN(a_killed_reader_is_dropped_and_a_stopped_one_continues);
    RUN(a_known_interval_replaces_an_estimated_one);
    RUN(a_window_that_moves_from_a_closed_display_keeps_its_bridge);
    RUN(a_page_that_changes_constantly_does_not_starve_other_pages);
    RUN(a_reader_without_a_process_gets_no_ticks);
    RUN(an_invalid_page_is_refused_and_one_of_garbage_harms_neither_side);
    return check_result();
}
