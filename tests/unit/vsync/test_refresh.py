"""Refresh timers on a test clock and observer: the order, threads and ends of drivers' calls."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import FrameType
from typing import Any

import pytest
from support.run_volumes import rounds, seeded, unhurried

from vkshare.errors import ClosedError, InvalidCallError
from vkshare.vsync.refresh import RefreshTimer
from vkshare.vsync.throttle import FIRST_INTERVAL, LONGEST_INTERVAL, ThrottleSchedule
from vkshare.vsync.tick import Tick

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.no_driver, unhurried, pytest.mark.usefixtures("only_on_cpu")]

T = 16_666_667  # ns
SECOND = 1_000_000_000


class Clock:
    """A clock in ns that a test advances."""

    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


class Grid:
    """An observer whose display ticks every T of a clock, which waiting moves. For one thread.

    `meanwhile` is called, once, in the middle of the next wait: what another thread would do.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last = clock.now // T  # number of the last tick taken
        self.is_attending = True
        self.is_closed = False
        self.changes: list[str] = []
        self.waits = 0
        self.meanwhile: Callable[[], object] | None = None

    def wait(self, timeout: float | None = None) -> Tick:
        self.waits += 1
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.is_closed:
            raise ClosedError("closed")
        due = max(self.last + 1, self.clock.now // T)
        end = None if timeout is None else self.clock.now + round(timeout * 1e9)
        if self.is_attending and (end is None or due * T <= end):
            self.clock.now = max(self.clock.now, due * T)
            missed, self.last = due - self.last - 1, due
            return Tick(1, due, due * T, (due + 1) * T, Fraction(T, SECOND), "software", missed=missed)
        assert end is not None, "this would wait for ever"
        self.clock.now = end
        raise TimeoutError

    def attend(self) -> None:
        if self.is_closed:
            raise ClosedError("closed")
        if not self.is_attending:
            self.changes.append("attend")
            self.last = self.clock.now // T
        self.is_attending = True

    def rest(self) -> None:
        if self.is_closed:
            raise ClosedError("closed")
        if self.is_attending:
            self.changes.append("rest")
        self.is_attending = False

    def fileno(self) -> int:
        raise AssertionError("asyncio has no business here")

    def close(self) -> None:
        self.is_closed = True


class Posted:
    """An observer that ticks when a test says so, waited for by real threads and event loops."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.newest: Tick | None = None
        self.number = 0
        self.is_attending = True
        self.is_closed = False
        self.waiting = threading.Event()
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def tick(self) -> None:
        with self.changed:
            if self.is_attending and not self.is_closed:
                self.number += 1
                self.newest = Tick(1, self.number, self.number, self.number + 1, Fraction(1, 60), "software")
                os.eventfd_write(self.fd, 1)
                self.changed.notify_all()

    def wait(self, timeout: float | None = None) -> Tick:
        with self.changed:
            self.waiting.set()
            self.changed.wait_for(lambda: self.is_closed or self.newest is not None, timeout)
            self.waiting.clear()
            if self.is_closed:
                raise ClosedError("closed")
            tick, self.newest = self.newest, None
            if tick is None:
                raise TimeoutError
            os.eventfd_read(self.fd)
            return tick

    def attend(self) -> None:
        self.is_attending = True

    def rest(self) -> None:
        self.is_attending = False

    def fileno(self) -> int:
        if self.is_closed:
            raise ClosedError("closed")
        return self.fd

    def close(self) -> None:
        with self.changed:
            if not self.is_closed:
                self.is_closed = True
                os.close(self.fd)
                self.changed.notify_all()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def grid(clock: Clock) -> Grid:
    return Grid(clock)


@pytest.fixture
def timer(grid: Grid, clock: Clock) -> Iterator[RefreshTimer]:
    with RefreshTimer(grid, clock=clock) as made:
        yield made


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
def live(posted: Posted) -> Iterator[RefreshTimer]:
    """A timer whose ticks come when the test posts them."""
    with RefreshTimer(posted) as made:
        yield made


class Log:
    """Makes drivers that note their names."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ticks: list[Tick] = []

    def driver(self, name: str, then: Callable[[], object] | None = None) -> Callable[[Tick], None]:
        def drive(tick: Tick) -> None:
            self.calls.append(name)
            self.ticks.append(tick)
            if then is not None:
                then()

        return drive

    def take(self) -> str:
        calls, self.calls = self.calls, []
        return " ".join(calls)


@pytest.fixture
def log() -> Log:
    return Log()


def run_in(thread: Callable[[], object]) -> threading.Thread:
    started = threading.Thread(target=thread, daemon=True)
    started.start()
    return started


def done(thread: threading.Thread) -> None:
    thread.join(20)
    assert not thread.is_alive(), "it waits for ever"


# ---- drivers and ticks ---------------------------------------------------------------------------------------------


@pytest.mark.rule("V3")
def test_one_timer_calls_many_drivers_with_one_tick_in_the_order_in_which_they_were_added(
    timer: RefreshTimer, log: Log
) -> None:
    for name in "abcde":
        timer.add(log.driver(name))
    tick = timer.turn()
    assert log.take() == "a b c d e"
    assert set(log.ticks) == {tick}
    assert timer.turn() is not tick
    seen = timer.statistics()
    assert (seen.drivers, seen.active, seen.ticks, seen.calls, seen.errors) == (5, 5, 2, 10, 0)


@pytest.mark.rule("V3")
def test_the_first_driver_begins_the_observing_and_the_last_ones_going_ends_it(
    timer: RefreshTimer, grid: Grid, log: Log
) -> None:
    first, second = log.driver("first"), log.driver("second")
    assert grid.changes == ["rest"]
    timer.add(first)
    timer.add(second)
    assert grid.changes == ["rest", "attend"]
    timer.turn()
    timer.remove(first)
    assert grid.is_attending
    timer.remove(second)
    assert grid.changes == ["rest", "attend", "rest"]
    assert not timer.statistics().is_observing
    timer.remove(second)  # idempotent


@pytest.mark.rule("V4")
def test_drivers_are_called_on_the_thread_that_turns_the_timer(live: RefreshTimer, posted: Posted) -> None:
    called: list[int] = []
    live.add(lambda tick: called.append(threading.get_ident()))
    turners: list[int] = []

    def turn() -> None:
        turners.append(threading.get_ident())
        live.turn()

    for _ in range(2):
        turner = run_in(turn)
        assert posted.waiting.wait(20)
        posted.tick()
        done(turner)
    assert called == turners


def test_a_turn_takes_the_newest_tick_and_returns_the_number_missed(timer: RefreshTimer, clock: Clock) -> None:
    timer.add(lambda tick: None)
    timer.turn()
    clock.now += 10 * T
    tick = timer.turn()
    assert tick is not None
    assert (tick.missed, timer.statistics().missed) == (9, 9)


def test_a_turn_that_no_tick_comes_to_in_time_returns_none(timer: RefreshTimer, clock: Clock, log: Log) -> None:
    timer.add(log.driver("a"))
    timer.turn()
    then = clock.now
    assert timer.turn(0) is None
    assert clock.now == then
    assert timer.turn(0.01) is None
    assert clock.now == then + 10_000_000
    assert timer.turn(0.01) is not None
    assert clock.now == then + T
    assert log.take() == "a a"


def test_without_drivers_a_turn_waits_its_time_but_not_for_ever(timer: RefreshTimer, clock: Clock) -> None:
    then = clock.now
    assert timer.turn(3) is None
    assert clock.now == then + 3 * SECOND
    assert timer.turn() is None
    timer.run()
    assert clock.now == then + 3 * SECOND


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timer: RefreshTimer, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        timer.turn(timeout)


def test_run_turns_until_its_condition_holds_or_no_driver_is_left(timer: RefreshTimer, log: Log) -> None:
    driver = log.driver("a")
    timer.add(driver)
    timer.run(until=lambda: len(log.calls) == 7)
    assert len(log.calls) == 7
    timer.add(lambda tick: timer.remove(driver) if len(log.calls) == 9 else None)

    def last(tick: Any) -> None:
        if driver not in timer._drivers._entries:
            timer.remove(last)

    timer.add(last)
    timer.run(until=lambda: timer.statistics().drivers == 1)
    assert log.take().count("a") == 9
    assert timer.statistics().drivers == 1


def test_millions_of_ticks_take_no_time(timer: RefreshTimer, clock: Clock) -> None:
    count = 0

    def drive(tick: Tick) -> None:
        nonlocal count
        count += 1

    timer.add(drive)
    timer.add(lambda tick: None, active=False)
    wanted, then = rounds(2_000_000, 50_000), clock.now
    timer.run(until=lambda: count == wanted)
    assert abs(clock.now - then - wanted * T) <= T
    seen = timer.statistics()
    assert (seen.ticks, seen.missed, seen.is_observing) == (wanted, 0, True)


# ---- drivers that change drivers -----------------------------------------------------------------------------------


@pytest.mark.rule("V5")
def test_a_driver_added_within_a_driver_is_called_from_the_next_tick_on(timer: RefreshTimer, log: Log) -> None:
    late = log.driver("late")
    timer.add(once := log.driver("a", lambda: (timer.remove(once), timer.add(late))))
    timer.add(log.driver("b"))
    timer.turn()
    assert log.take() == "a b"
    timer.turn()
    assert log.take() == "b late"


@pytest.mark.rule("V5")
def test_a_driver_removed_within_a_driver_is_not_called_any_more(timer: RefreshTimer, log: Log) -> None:
    victim = log.driver("victim")
    timer.add(log.driver("a", lambda: timer.remove(victim)))
    timer.add(victim)
    timer.add(log.driver("b"))
    timer.turn()
    timer.turn()
    assert log.take() == "a b a b"


@pytest.mark.rule("V5")
def test_a_driver_removed_and_added_again_within_a_turn_waits_for_the_next_one(timer: RefreshTimer, log: Log) -> None:
    other = log.driver("other")
    timer.add(log.driver("a", lambda: (timer.remove(other), timer.add(other))))
    timer.add(other)
    timer.turn()
    assert log.take() == "a"
    timer.remove(other)
    timer.add(other)
    timer.turn()
    assert log.take() == "a"


@pytest.mark.rule("V5")
def test_a_driver_may_remove_itself_and_the_last_one_ends_the_observing(
    timer: RefreshTimer, grid: Grid, log: Log
) -> None:
    timer.add(once := log.driver("once", lambda: timer.remove(once)))
    assert timer.turn() is not None
    assert not grid.is_attending
    assert timer.turn(0.1) is None
    assert log.take() == "once"


def test_a_bound_method_is_one_driver(timer: RefreshTimer) -> None:
    class Canvas:
        draws = 0

        def draw(self, tick: Tick) -> None:
            self.draws += 1

    canvas = Canvas()
    timer.add(canvas.draw)
    with pytest.raises(InvalidCallError, match="is in this RefreshTimer already"):
        timer.add(canvas.draw)
    timer.turn()
    timer.remove(canvas.draw)
    assert timer.turn(1) is None
    assert canvas.draws == 1


@pytest.mark.rule("V5")
def test_the_finalizer_of_what_a_driver_belongs_to_may_call_the_timer(timer: RefreshTimer) -> None:
    class Canvas:
        def __init__(self) -> None:
            self.cycle = self
            weakref.finalize(self, timer.statistics)

        def __call__(self, tick: Tick) -> None: ...

        def __del__(self) -> None:
            timer.remove(other)

    def other(tick: Tick) -> None: ...

    def collect() -> int:
        gc.collect()  # within a call of the timer's, under its lock
        return 0

    timer._drivers._clock = collect
    canvas = Canvas()
    timer.add(other)
    timer.add(canvas)
    timer.remove(canvas)
    del canvas
    timer.add(print, active=False)
    assert timer.statistics().drivers == 1


def test_wrong_arguments_are_refused_by_name(timer: RefreshTimer, log: Log) -> None:
    with pytest.raises(TypeError, match="driver must be callable with a Tick, not int"):
        timer.add(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="active must be True or False"):
        timer.add(print, active=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidCallError, match="add\\(\\) it"):
        timer.set_active(print, True)
    timer.add(print)
    with pytest.raises(TypeError, match="active must be True or False"):
        timer.set_active(print, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be pickled"):
        timer.__reduce_ex__(2)


# ---- drivers that raise --------------------------------------------------------------------------------------------


def boom() -> None:
    raise ValueError("boom")


@pytest.mark.rule("V4")
def test_a_driver_that_raises_keeps_no_other_from_its_tick_and_its_error_comes_out_of_the_changed(
    timer: RefreshTimer, log: Log
) -> None:
    for name, then in (("a", boom), ("b", None), ("c", boom), ("d", None)):
        timer.add(log.driver(name, then))
    for _ in range(2):
        with pytest.raises(ExceptionGroup, match="2 of 4 refresh drivers raised at tick") as caught:
            timer.turn()
        assert [str(error) for error in caught.value.exceptions] == ["boom", "boom"]
        assert log.take() == "a b c d"
    seen = timer.statistics()
    assert (seen.ticks, seen.calls, seen.errors, seen.drivers) == (2, 8, 4, 4)


def test_one_error_is_a_group_too_and_run_may_be_called_again(timer: RefreshTimer, log: Log) -> None:
    timer.add(log.driver("a", lambda: boom() if len(log.calls) == 3 else None))
    with pytest.raises(ExceptionGroup):
        timer.run()
    assert log.take() == "a a a"
    timer.run(until=lambda: len(log.calls) == 2)


def test_ctrl_c_where_a_turn_begins_leaves_none_that_does_not_end(timer: RefreshTimer, log: Log) -> None:
    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) > interrupted:
                raise KeyboardInterrupt
        return interrupt

    lines: list[int] = []
    interrupted = 0
    code = RefreshTimer._turning.__wrapped__.__code__  # type: ignore[attr-defined]
    timer.add(log.driver("a"))
    while interrupted < 5:
        lines.clear()
        tracing = sys.gettrace()
        sys.settrace(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                timer.turn()
        finally:
            sys.settrace(tracing)
        timer.turn()
        interrupted += 1


def test_ctrl_c_in_a_driver_comes_at_once_and_the_timer_goes_on_after_it(timer: RefreshTimer, log: Log) -> None:
    def interrupt() -> None:
        if len(log.calls) == 1:
            raise KeyboardInterrupt

    timer.add(log.driver("a", interrupt))
    timer.add(log.driver("b"))
    with pytest.raises(KeyboardInterrupt):
        timer.turn()
    assert log.take() == "a"
    timer.remove(print)  # no driver counts as running
    log.calls.append("before")
    timer.turn()
    assert log.take() == "before a b"


# ---- threads -------------------------------------------------------------------------------------------------------


def test_a_turn_within_a_driver_or_beside_another_is_refused(timer: RefreshTimer, log: Log) -> None:
    refused: list[BaseException] = []

    def turn() -> None:
        try:
            timer.turn(0)
        except InvalidCallError as error:
            refused.append(error)

    timer.add(log.driver("a", turn))
    timer.add(log.driver("b", lambda: done(run_in(turn))))
    timer.turn()
    assert len(refused) == 2
    assert "is being turned" in str(refused[0])
    timer.turn()


@pytest.mark.rule("V5")
def test_remove_on_another_thread_returns_when_the_call_that_runs_has_ended(live: RefreshTimer, posted: Posted) -> None:
    events: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def drive(tick: Tick) -> None:
        inside.set()
        assert go_on.wait(20)
        for _ in range(1000):
            time.sleep(0)  # gives the other thread every chance to be too early
        events.append("driver returned")

    def remove() -> None:
        live.remove(drive)
        events.append("remove returned")

    live.add(drive)
    posted.tick()
    turner = run_in(live.turn)
    assert inside.wait(20)
    removers = [run_in(remove) for _ in range(2)]  # the second finds it removed already, and still waits
    while drive in live._drivers._entries:
        time.sleep(0)
    go_on.set()
    done(turner)
    for remover in removers:
        done(remover)
    assert events == ["driver returned", "remove returned", "remove returned"]


@pytest.mark.rule("V5")
def test_no_lock_is_held_while_a_driver_is_called(live: RefreshTimer, posted: Posted) -> None:
    def others() -> None:
        live.statistics()
        live.add(print, active=False)
        live.set_active(print, True)
        live.remove(print)
        repr(live)

    live.add(lambda tick: done(run_in(others)))
    posted.tick()
    assert live.turn(20) is not None


@pytest.mark.rule("V5")
def test_once_remove_has_returned_on_another_thread_no_call_begins(live: RefreshTimer, posted: Posted) -> None:
    begun = 0
    stop = threading.Event()

    class Driver:
        is_removed = False

        def __call__(self, tick: Tick) -> None:
            nonlocal begun
            begun += 1
            assert not self.is_removed

    def turn() -> None:
        while not stop.is_set():
            posted.tick()
            live.turn(0)

    turner_errors: list[BaseException] = []

    def guarded() -> None:
        try:
            turn()
        except BaseException as error:
            turner_errors.append(error)

    turner = run_in(guarded)
    for _ in range(rounds(200_000, 2000)):
        driver = Driver()
        live.add(driver)
        for _ in range(random.randrange(3)):
            time.sleep(0)
        live.remove(driver)
        driver.is_removed = True
    stop.set()
    done(turner)
    assert not turner_errors
    assert begun > 0


@pytest.mark.timeout(40)  # where they do wait, closing the timers does so too
@pytest.mark.rule("V5")
def test_two_drivers_of_two_timers_that_remove_each_other_do_not_wait_for_each_other() -> None:
    observers = Posted(), Posted()
    with RefreshTimer(observers[0]) as first, RefreshTimer(observers[1]) as second:
        both = threading.Barrier(2)

        def one(tick: Tick) -> None:
            both.wait(20)
            second.remove(two)

        def two(tick: Tick) -> None:
            both.wait(20)
            first.remove(one)

        first.add(one)
        second.add(two)
        for observer in observers:
            observer.tick()
        turners = [run_in(first.turn), run_in(second.turn)]
        for turner in turners:
            done(turner)


@pytest.mark.rule("V5")
def test_a_waiting_turn_notices_a_driver_that_another_thread_adds(timer: RefreshTimer, grid: Grid, log: Log) -> None:
    grid.meanwhile = lambda: timer.add(log.driver("a"))
    assert timer.turn(1) is not None
    assert log.take() == "a"


def test_an_unbounded_wait_ends_when_the_last_driver_is_removed(timer: RefreshTimer, grid: Grid, log: Log) -> None:
    driver = log.driver("a")
    timer.add(driver)
    timer.turn()
    grid.meanwhile = lambda: timer.remove(driver)
    assert timer.turn() is None
    assert not grid.is_attending
    timer.add(driver)
    grid.meanwhile = lambda: timer.remove(driver)
    timer.run()
    assert log.take() == "a"


# ---- inactive ones -------------------------------------------------------------------------------------------------


@pytest.mark.rule("V3")
def test_an_inactive_key_is_due_after_1_2_4_seconds_and_after_ten_minutes_no_more() -> None:
    schedule: ThrottleSchedule[str] = ThrottleSchedule()
    schedule.add("a", 0)
    due = []
    while schedule.deadline is not None and len(due) < 20:
        assert schedule.take(schedule.deadline - 1) == set()
        due.append(schedule.deadline // SECOND)
        assert schedule.take(schedule.deadline) == {"a"}
    assert due == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023]
    assert schedule.stopped == 1
    assert schedule.take(10**30) == set()
    schedule.add("a", 5000 * SECOND)
    assert (schedule.deadline, schedule.stopped) == (5001 * SECOND, 0)
    assert (FIRST_INTERVAL, LONGEST_INTERVAL) == (SECOND, 600 * SECOND)


@pytest.mark.rule("V3")
def test_a_late_key_is_due_once_and_its_next_interval_begins_then() -> None:
    schedule: ThrottleSchedule[str] = ThrottleSchedule(10, 100)
    schedule.add("a", 0)
    assert schedule.take(1000) == {"a"}
    assert schedule.deadline == 1020


def test_an_inactive_schedule_refuses_what_is_no_interval() -> None:
    with pytest.raises(ValueError, match="first is 0"):
        ThrottleSchedule(0)
    with pytest.raises(ValueError, match="longest is 5; allowed is at least 10"):
        ThrottleSchedule(10, 5)


@pytest.mark.rule("V3")
def test_inactive_drivers_are_called_ever_more_rarely_and_between_the_calls_the_source_rests(
    timer: RefreshTimer, grid: Grid, clock: Clock, log: Log
) -> None:
    then = clock.now
    timer.add(log.driver("hidden"), active=False)
    times = []
    while timer.turn(2000) is not None and len(times) < 20:
        assert not grid.is_attending
        times.append((clock.now - then) / SECOND)
    assert [round(at) for at in times] == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023]
    assert len(grid.changes) == 1 + 2 * len(times)
    assert grid.waits == 2 * len(times) + 1
    assert timer.statistics().stopped == 1


@pytest.mark.rule("V3")
def test_a_driver_that_is_made_active_has_every_tick_at_once_and_begins_anew_when_hidden_again(
    timer: RefreshTimer, clock: Clock, log: Log
) -> None:
    driver = log.driver("a")
    timer.add(driver, active=False)
    for _ in range(5):
        timer.turn()
    timer.set_active(driver, True)
    then = clock.now
    for _ in range(60):
        timer.turn()
    assert abs(clock.now - then - 60 * T) <= T
    assert len(log.calls) == 65
    timer.set_active(driver, False)
    then = clock.now
    timer.turn()
    assert SECOND <= clock.now - then <= SECOND + 2 * T


@pytest.mark.rule("V3")
def test_inactive_drivers_share_the_ticks_of_active_ones(timer: RefreshTimer, clock: Clock, log: Log) -> None:
    timer.add(log.driver("hidden"), active=False)
    timer.add(log.driver("a"))
    for _ in range(240):  # four seconds
        timer.turn()
    calls = log.take().split()
    assert [number for number, name in enumerate(calls) if name == "hidden"] == pytest.approx([60, 181], abs=2)
    assert calls.count("a") == 240


@pytest.mark.rule("V3")
def test_a_driver_made_inactive_within_a_driver_is_not_called_at_that_tick(timer: RefreshTimer, log: Log) -> None:
    other = log.driver("other")
    timer.add(log.driver("a", lambda: timer.set_active(other, False)))
    timer.add(other)
    timer.turn()
    timer.turn()
    assert log.take() == "a a"


@pytest.mark.rule("V3")
def test_polling_also_gets_the_tick_of_an_inactive_driver(timer: RefreshTimer, clock: Clock, log: Log) -> None:
    timer.add(log.driver("hidden"), active=False)
    polls = 0
    while timer.turn(0) is None and polls < 1000:
        polls += 1
        clock.now += T // 3
    assert 179 <= polls <= 190
    assert log.take() == "hidden"


@pytest.mark.rule("V3")
def test_a_sleep_until_an_inactive_driver_ends_for_one_that_is_due_earlier(
    timer: RefreshTimer, grid: Grid, clock: Clock, log: Log
) -> None:
    timer.add(log.driver("old"), active=False)
    for _ in range(9):
        timer.turn()  # the next one is due in 512 s
    log.take()
    then = clock.now
    grid.meanwhile = lambda: timer.add(log.driver("new"), active=False)
    assert timer.turn() is not None
    assert log.take() == "new"
    assert SECOND <= clock.now - then <= SECOND + 3 * T
    assert not grid.is_attending


# ---- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.rule("V17")
def test_close_within_a_driver_ends_the_turn_and_the_run_quietly(timer: RefreshTimer, grid: Grid, log: Log) -> None:
    timer.add(log.driver("a", timer.close))
    timer.add(log.driver("b"))
    timer.run()
    assert log.take() == "a"
    assert timer.is_closed
    assert grid.is_closed
    timer.close()
    for refused in (lambda: timer.turn(0), lambda: timer.add(print), lambda: timer.set_active(print, True)):
        with pytest.raises(ClosedError, match="RefreshTimer was closed"):
            refused()
    timer.remove(print)
    assert repr(timer) == "<vkshare.RefreshTimer closed>"
    assert timer.statistics().drivers == 0


@pytest.mark.rule("V17")
def test_close_on_another_thread_wakes_a_waiting_turn(live: RefreshTimer, posted: Posted) -> None:
    live.add(print)
    ended: list[str] = []

    def turn() -> None:
        try:
            live.turn()
        except ClosedError:
            ended.append("turn")

    turner = run_in(turn)
    assert posted.waiting.wait(20)
    live.close()
    done(turner)
    assert ended == ["turn"]


@pytest.mark.rule("V17")
def test_close_on_another_thread_returns_when_the_driver_has_and_no_other_begins(
    live: RefreshTimer, posted: Posted
) -> None:
    events: list[str] = []
    inside = threading.Event()

    def drive(tick: Tick) -> None:
        inside.set()
        while not live.is_closed:
            time.sleep(0)
        for _ in range(1000):
            time.sleep(0)
        events.append("driver returned")

    def close() -> None:
        live.close()
        events.append("close returned")

    live.add(drive)
    live.add(lambda tick: events.append("another began"))
    posted.tick()
    turner = run_in(live.run)
    assert inside.wait(20)
    closer = run_in(close)
    done(closer)
    done(turner)
    assert events == ["driver returned", "close returned"]


@pytest.mark.rule("V17")
def test_a_display_that_is_shut_down_ends_the_run_with_an_error_and_refuses_drivers(
    timer: RefreshTimer, grid: Grid, log: Log
) -> None:
    timer.add(driver := log.driver("a", grid.close))
    with pytest.raises(ClosedError):
        timer.run()
    assert not timer.is_closed
    timer.remove(driver)
    with pytest.raises(ClosedError):
        timer.add(driver)
    assert timer.statistics().drivers == 0


def test_a_lost_timer_warns_and_closes_its_observer(clock: Clock) -> None:
    grid = Grid(clock)
    timers = [RefreshTimer(grid, clock=clock)]
    assert repr(timers[0]) == "<vkshare.RefreshTimer resting, 0 drivers, 0 active>"
    with pytest.warns(ResourceWarning, match="unclosed <vkshare.RefreshTimer"):
        timers.clear()
    assert grid.is_closed


def test_a_closed_observer_is_refused(grid: Grid) -> None:
    grid.close()
    with pytest.raises(ClosedError):
        RefreshTimer(grid)


# ---- asyncio -------------------------------------------------------------------------------------------------------


def test_in_asyncio_the_loop_goes_on_while_a_turn_waits(live: RefreshTimer, posted: Posted, log: Log) -> None:
    async def main() -> None:
        live.add(log.driver("a", lambda: log.calls.append(str(threading.get_ident()))))
        asyncio.get_running_loop().call_later(0.01, posted.tick)
        tick = await live.turn_async(20)
        assert tick is not None
        assert log.take() == f"a {threading.get_ident()}"
        assert await live.turn_async(0) is None
        assert await live.turn_async(0.001) is None

    asyncio.run(main())


def test_run_async_ends_as_run_does_and_leaves_nothing_in_the_loop(
    live: RefreshTimer, posted: Posted, log: Log
) -> None:
    async def main() -> None:
        driver = log.driver("a", lambda: live.remove(driver) if len(log.calls) == 5 else None)
        live.add(driver)
        running = asyncio.create_task(live.run_async())
        while not running.done():
            posted.tick()
            await asyncio.sleep(0)
        await running
        assert log.take() == "a a a a a"
        assert not asyncio.get_running_loop().remove_reader(posted.fd)

    asyncio.run(main())


def test_a_cancelled_turn_takes_no_tick_and_the_next_one_gets_it(live: RefreshTimer, posted: Posted, log: Log) -> None:
    async def main() -> None:
        live.add(log.driver("a"))
        waiting = asyncio.create_task(live.turn_async())
        for _ in range(5):
            await asyncio.sleep(0)
        posted.tick()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert log.take() == ""
        assert await live.turn_async(0) is not None
        assert log.take() == "a"

    asyncio.run(main())


def test_drivers_that_need_a_whole_interval_leave_the_loop_its_time(
    live: RefreshTimer, posted: Posted, log: Log
) -> None:
    async def main() -> None:
        live.add(log.driver("a", posted.tick))  # the next tick is there when it returns
        posted.tick()
        running = asyncio.create_task(live.run_async(until=lambda: len(log.calls) > 1000))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(log.calls) < 100
        await running

    asyncio.run(main())


@pytest.mark.rule("V17")
def test_close_on_another_thread_ends_a_wait_in_asyncio_and_the_fd_goes_last(
    live: RefreshTimer, posted: Posted, log: Log
) -> None:
    async def main() -> None:
        live.add(log.driver("a"))
        running = asyncio.create_task(live.run_async())
        for _ in range(5):
            await asyncio.sleep(0)
        closer = run_in(live.close)
        done(closer)
        assert not posted.is_closed  # the loop still watches its fd
        await asyncio.wait_for(running, 20)
        assert posted.is_closed

    asyncio.run(main())


def test_a_loop_that_was_closed_in_a_wait_does_not_keep_the_timer_open(live: RefreshTimer, posted: Posted) -> None:
    loop = asyncio.new_event_loop()
    live.add(print)
    task = loop.create_task(live.turn_async())
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    live.close()
    assert posted.is_closed
    task._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.rule("V3")
def test_inactive_drivers_are_called_in_asyncio_too(posted: Posted, log: Log) -> None:
    schedule: ThrottleSchedule[Any] = ThrottleSchedule(1_000_000, 4_000_000)

    async def main() -> None:
        with RefreshTimer(posted, schedule=schedule) as timer:
            timer.add(log.driver("hidden"), active=False)
            for _ in range(3):
                turn = asyncio.create_task(timer.turn_async(20))
                while not turn.done():
                    posted.tick()  # of which none is taken before it is wanted
                    await asyncio.sleep(0.0002)
                assert await turn is not None
                assert not posted.is_attending
            assert timer.statistics().stopped == 1

    asyncio.run(main())
    assert log.take() == "hidden hidden hidden"


# ---- everything in any order ---------------------------------------------------------------------------------------


class Chaos:
    """Drivers that add, remove, hide and show one another, and a log of it all from which the rules are checked."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.clock = Clock()
        self.grid = Grid(self.clock)
        self.timer = RefreshTimer(self.grid, clock=self.clock)
        self.log: list[tuple[str, int, int]] = []  # event, driver, time
        self.names = range(6)
        self.drivers = [self.driver(name) for name in self.names]

    def driver(self, name: int) -> Callable[[Tick], None]:
        def drive(tick: Tick) -> None:
            self.note("call", name)
            for _ in range(self.dice.choice((0, 0, 1, 2))):
                self.change()

        return drive

    def note(self, what: str, name: int = -1) -> None:
        self.log.append((what, name, self.clock.now))

    def change(self) -> None:
        name = self.dice.choice(self.names)
        driver, there = self.drivers[name], self.drivers[name] in self.timer._drivers._entries
        what = self.dice.choice(("remove", "active", "inactive"))
        if what == "remove":
            self.note("remove", name)
            self.timer.remove(driver)
        elif there:
            self.note(what, name)
            self.timer.set_active(driver, what == "active")
        else:
            self.note("add", name)
            self.note(what, name)
            self.timer.add(driver, active=what == "active")

    def turn(self) -> None:
        if self.dice.random() < 0.3:
            self.grid.meanwhile = self.change
        tick = self.timer.turn(self.dice.choice((0, 0.02, 1.0, 5.0)))
        self.note("served" if tick is not None else "nothing")
        assert self.grid.is_attending == self.timer.statistics().is_observing

    def check(self) -> None:
        """Replays the log against the rules, with the drivers that each turn must still call."""
        there: dict[int, str] = {}  # name -> "active" or "inactive", in the order of adding
        hidden: dict[int, tuple[int, int]] = {}  # due when, and after how long
        uncalled: list[int] | None = None  # within a turn: whose calls may still come
        due: list[int] = []  # the hidden ones of them
        for what, name, when in self.log:
            if what == "call":
                if uncalled is None:
                    due = [n for n, (at, _) in hidden.items() if at <= when]
                    uncalled = [n for n, kind in there.items() if kind == "active" or n in due]
                    for n in due:
                        interval = 2 * hidden.pop(n)[1]
                        if interval <= LONGEST_INTERVAL:
                            hidden[n] = when + interval, interval
                before, uncalled = uncalled[: uncalled.index(name)], uncalled[uncalled.index(name) + 1 :]
                assert not self.callable(before, there, due), f"{before} come before {name}"
                assert self.callable([name], there, due), f"{name} is hidden"
            elif what in ("served", "nothing"):
                assert (uncalled is None) == (what == "nothing")
                assert not self.callable(uncalled or [], there, due), f"{uncalled} were not called"
                uncalled = None
            elif what == "remove":
                there.pop(name, None)
                hidden.pop(name, None)
                uncalled = uncalled and [n for n in uncalled if n != name]
            else:
                there[name] = "active" if what == "add" else what
                hidden.pop(name, None)
                if what == "inactive":
                    hidden[name] = when + SECOND, SECOND

    @staticmethod
    def callable(names: list[int], there: dict[int, str], due: list[int]) -> list[int]:
        return [n for n in names if there[n] == "active" or n in due]


@pytest.mark.rule("V3", "V5")
def test_drivers_that_change_one_another_by_chance_keep_every_rule() -> None:
    dice = seeded()
    for _ in range(rounds(3000, 60)):
        chaos = Chaos(dice)
        with chaos.timer:
            for _ in range(60):
                if dice.random() < 0.5:
                    chaos.change()
                chaos.turn()
        chaos.check()
