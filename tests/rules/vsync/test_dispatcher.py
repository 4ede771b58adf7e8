"""Dispatchers and observers: delivery of a window's ticks."""

from __future__ import annotations

import asyncio
import gc
import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction

import pytest
from support.display_fixtures import SOON

from vkshare.errors import ClosedError
from vkshare.vsync import Display, Observer, TickFlags, VsyncDispatcher

pytest_plugins = ["support.display_fixtures"]

pytestmark = pytest.mark.no_driver


@pytest.fixture
def display(display_of: Callable[[float], Display]) -> Display:
    """250 Hz."""
    return display_of(0.004)


@pytest.fixture
def window(display: Display, stack: ExitStack) -> VsyncDispatcher:
    """A window on it."""
    return stack.enter_context(VsyncDispatcher(display))


@pytest.mark.rule("V3")
def test_all_windows_of_a_display_get_the_same_blanks(display: Display, stack: ExitStack) -> None:
    windows = [stack.enter_context(VsyncDispatcher(display)) for _ in range(3)]
    observers = [stack.enter_context(window.observe()) for window in windows]
    reported: list[set[int]] = [set(), set(), set()]
    deadline = time.monotonic() + SOON
    while not set.intersection(*reported):
        assert time.monotonic() < deadline
        for times, observer in zip(reported, observers, strict=True):
            times.add(observer.wait(SOON).vsync_time)
    assert all(window.display is display for window in windows)


@pytest.mark.rule("V4")
def test_a_stalled_consumer_delays_no_other(display: Display, window: VsyncDispatcher, stack: ExitStack) -> None:
    before, stalled, after = (stack.enter_context(window.observe()) for _ in range(3))
    first = stalled.wait(SOON)
    for other in (before, after):
        last = other.wait(SOON)
        while last.id < first.id + 20:
            tick = other.wait(SOON)
            assert tick.id > last.id
            last = tick
    reported = display.statistics()
    assert reported.ticks + reported.skipped >= 20


@pytest.mark.rule("V8")
def test_a_consumer_blocked_for_ten_ticks_gets_the_newest_with_nine_missed(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    display = display_of(0.02)
    window = stack.enter_context(VsyncDispatcher(display))
    # the newest observer gets the tick first
    other, blocked = (stack.enter_context(window.observe()) for _ in range(2))
    first = blocked.wait(SOON)
    last = first
    while last.id < first.id + 10:
        last = other.wait(SOON)
    tick = blocked.wait(SOON)
    assert tick.id >= last.id
    assert tick.missed == tick.id - first.id - 1 >= 9
    assert blocked.take() is None or display.statistics().ticks > last.id, "one at most is ever queued"


@pytest.mark.rule("V5")
def test_a_resting_observer_gets_no_tick_not_even_an_earlier_one(window: VsyncDispatcher) -> None:
    with window.observe() as observer, window.observe() as other:
        observer.wait(SOON)
        other.wait(SOON)
        other.wait(SOON)  # there is one for the first now
        observer.rest()
        observer.rest()
        assert observer.take() is None
        other.wait(SOON)
        assert observer.take() is None
        with pytest.raises(TimeoutError, match=r"no tick within 0\.01 s"):
            observer.wait(0.01)
        rested = other.wait(SOON)
        observer.attend()
        observer.attend()
        tick = observer.wait(SOON)
        assert tick.missed < tick.id - rested.id, "it missed those alone that came after attend()"


@pytest.mark.rule("V5")
def test_observers_can_be_created_and_closed_within_a_tick(window: VsyncDispatcher) -> None:
    with window.observe() as observer:
        for _ in range(20):
            observer.wait(SOON)
            with window.observe() as another:
                observer.rest()
                another.wait(SOON)
            observer.attend()


@pytest.mark.rule("V6")
def test_the_first_observer_gets_the_last_tick_as_missed_at_once_and_a_real_one_within_two_intervals(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    display = display_of(0.25)
    with VsyncDispatcher(display) as window, window.observe() as observer:
        last = observer.wait(SOON)
    window = stack.enter_context(VsyncDispatcher(display))
    observer = stack.enter_context(window.observe())
    came = time.monotonic_ns()
    tick = observer.wait(SOON)
    if came - last.vsync_time > 250_000_000:
        pytest.skip("this machine was too slow: the last tick was older than an interval")
    assert tick.flags & TickFlags.MISSED
    assert (tick.vsync_time, tick.missed) == (last.vsync_time, 0)
    real = observer.wait(SOON)
    assert not real.flags & TickFlags.MISSED
    too_late = display.statistics().skipped  # a display whose thread had no processor leaves out what is too late
    assert 0 < real.vsync_time - tick.vsync_time <= (2 + too_late) * 250_000_000


@pytest.mark.rule("V10", "V12")
def test_after_a_move_no_tick_of_the_old_display_arrives_and_none_comes_too_soon(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    displays = [display_of(0.004), display_of(0.005)]
    window = stack.enter_context(VsyncDispatcher(displays[0]))
    observer, idle = (stack.enter_context(window.observe()) for _ in range(2))
    idle.rest()
    last = observer.wait(SOON)
    for turn in range(1, 60):
        window.move(displays[turn % 2])
        tick = observer.wait(SOON)
        assert window.display is displays[turn % 2]
        assert tick.display == window.display.number
        assert tick.id > last.id
        assert tick.vsync_time - last.vsync_time >= 2_000_000
        last = tick
    assert [display.statistics().observing for display in displays] == [0, 1]
    observer.rest()
    assert [display.statistics().observing for display in displays] == [0, 0]


@pytest.mark.rule("V12")
def test_a_tick_delivered_before_a_move_cannot_be_taken_after_it(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    quick, slow = display_of(0.002), display_of(100.0)
    window = stack.enter_context(VsyncDispatcher(quick))
    observer, other = (stack.enter_context(window.observe()) for _ in range(2))
    for _ in range(3):
        other.wait(SOON)
    window.move(slow)
    assert observer.take() is None


@pytest.mark.rule("V12")
def test_a_thousand_moves_by_several_threads_leave_each_display_with_the_observers_that_it_has(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    displays = [display_of(0.001), display_of(0.002), display_of(0.003)]
    windows = [stack.enter_context(VsyncDispatcher(displays[0])) for _ in range(4)]
    observers = [stack.enter_context(window.observe()) for window in windows]

    def move(start: int) -> None:
        for turn in range(250):
            windows[(start + turn) % 4].move(displays[(start * 7 + turn * 5) % 3])

    threads = [threading.Thread(target=move, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    for display in displays:
        assert display.statistics().observing == sum(window.display is display for window in windows)
    for window, observer in zip(windows, observers, strict=True):
        observer.take()
        assert observer.wait(SOON).display == window.display.number


@pytest.mark.rule("V12")
def test_a_move_that_fails_leaves_the_window_where_it_was(display: Display, window: VsyncDispatcher) -> None:
    closed = Display()
    closed.close()
    with window.observe() as observer:
        with pytest.raises(ClosedError, match="shut down"):
            window.move(closed)
        assert window.display is display
        assert observer.wait(SOON).display == display.number
        with pytest.raises(TypeError, match=r"display must be a vkshare\.vsync\.Display, not str"):
            window.move("left")  # type: ignore[arg-type]


@pytest.mark.rule("V17")
def test_a_window_whose_display_was_closed_goes_on_on_another(
    display_of: Callable[[float], Display], stack: ExitStack
) -> None:
    gone, other = display_of(0.004), display_of(0.004)
    window = stack.enter_context(VsyncDispatcher(gone))
    observer = stack.enter_context(window.observe())
    gone.close()
    with pytest.raises(ClosedError):
        observer.wait(SOON)
    window.move(other)
    assert observer.wait(SOON).display == other.number


def test_an_observers_fd_is_for_select_and_asyncio(window: VsyncDispatcher) -> None:
    with window.observe() as observer:
        for _ in range(3):
            assert select.select([observer], [], [], SOON)[0] == [observer]
            observer.take()

        async def ticks(count: int) -> list[int]:
            loop, reported = asyncio.get_running_loop(), asyncio.Queue[int]()
            loop.add_reader(observer, lambda: [reported.put_nowait(tick.id) for tick in [observer.take()] if tick])
            try:
                return [await asyncio.wait_for(reported.get(), SOON) for _ in range(count)]
            finally:
                loop.remove_reader(observer)

        numbers = asyncio.run(ticks(5))
        assert numbers == sorted(set(numbers))


def test_closing_an_observer_ends_its_waits_and_a_closed_window_those_of_all(window: VsyncDispatcher) -> None:
    first, second = window.observe(), window.observe()
    first.close()
    first.close()
    first.rest()
    for call in (first.wait, first.take, first.attend):
        with pytest.raises(ClosedError):
            call()
    second.wait(SOON)
    window.close()
    with pytest.raises(ClosedError):
        second.wait(SOON)
    assert first.is_closed
    assert "closed" in repr(window)
    second.close()


def test_an_unclosed_observer_warns_and_gets_no_more_ticks(display: Display, window: VsyncDispatcher) -> None:
    observer = window.observe()
    observer.wait(SOON)
    gc.collect()
    with pytest.warns(ResourceWarning, match="Observer"):
        del observer
    assert display.statistics().observing == 0


def test_ctrl_c_ends_a_wait(window: VsyncDispatcher, display_of: Callable[[Fraction], Display]) -> None:
    import signal

    display = display_of(Fraction(100))
    with VsyncDispatcher(display) as quiet, quiet.observe() as observer:
        timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            observer.wait(SOON)
        timer.join()


def test_a_dispatcher_refuses_an_object_that_is_not_a_display(observe: Callable[[Display], Observer]) -> None:
    with pytest.raises(TypeError, match=r"display must be a vkshare\.vsync\.Display, not NoneType"):
        VsyncDispatcher(None)  # type: ignore[arg-type]
