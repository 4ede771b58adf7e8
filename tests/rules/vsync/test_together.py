"""The parts of vks.vsync with each other: real displays, the timers and the scheduler that stand on them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction

import pytest
from support.display_fixtures import SOON

from vkshare.errors import ClosedError
from vkshare.vsync import (
    Action,
    CompositorScheduler,
    Decision,
    Display,
    InputQueue,
    Observer,
    RefreshTimer,
    Tick,
    VsyncDispatcher,
)
from vkshare.window.events import Event

pytest_plugins = ["support.display_fixtures"]

pytestmark = pytest.mark.no_driver


@pytest.fixture
def window(display_of: Callable[[Fraction | float], Display], stack: ExitStack) -> VsyncDispatcher:
    """On a display of 250 Hz."""
    return stack.enter_context(VsyncDispatcher(display_of(Fraction(1, 250))))


@pytest.mark.rule("V3")
def test_one_refresh_timer_serves_drivers_of_a_real_display_and_lets_it_sleep_without_any(
    window: VsyncDispatcher,
) -> None:
    reported: dict[str, list[int]] = {"a": [], "b": []}
    drivers = {name: lambda tick, ids=ids: ids.append(tick.id) for name, ids in reported.items()}
    with RefreshTimer(window.observe()) as timer:
        assert window.display.statistics().observing == 0
        for driver in drivers.values():
            timer.add(driver)
        timer.run(lambda: len(reported["a"]) >= 10)
        assert reported["a"] == reported["b"] == sorted(set(reported["a"]))
        timer.remove(drivers["a"])
        assert timer.turn(SOON) is not None
        assert len(reported["b"]) == len(reported["a"]) + 1
        timer.remove(drivers["b"])
        assert window.display.statistics().observing == 0
        assert timer.turn(0) is None


@pytest.mark.rule("V4")
def test_a_driver_runs_on_the_thread_that_turns_the_timer_and_a_slow_one_misses_ticks_alone(
    window: VsyncDispatcher,
) -> None:
    threads: set[int] = set()
    ticks: list[Tick] = []

    def slow(tick: Tick) -> None:
        threads.add(threading.get_ident())
        ticks.append(tick)
        time.sleep(0.02)

    with RefreshTimer(window.observe()) as timer, window.observe() as other:
        timer.add(slow)
        turning = threading.Thread(target=timer.run, args=(lambda: len(ticks) >= 3,))
        turning.start()
        last = other.wait(SOON)
        while turning.is_alive():
            tick = other.wait(SOON)
            assert tick.id > last.id
            last = tick
        assert threads == {turning.ident}
        assert sum(tick.missed for tick in ticks) >= 4


def test_a_refresh_timer_turns_in_asyncio_over_a_real_display_until_that_is_closed(window: VsyncDispatcher) -> None:
    ticks: list[Tick] = []

    async def turn() -> None:
        with RefreshTimer(window.observe()) as timer:
            timer.add(ticks.append)
            await asyncio.wait_for(timer.run_async(lambda: len(ticks) >= 10), SOON)
            closing = threading.Timer(0.05, window.display.close)
            closing.start()
            with pytest.raises(ClosedError):
                await asyncio.wait_for(timer.run_async(), SOON)
            closing.join()

    asyncio.run(turn())
    assert [tick.id for tick in ticks] == sorted({tick.id for tick in ticks})


class Compositor:
    """The few lines that the scheduler's documentation asks for."""

    def __init__(self, observer: Observer) -> None:
        self.observer, self.scheduler, self.inputs = observer, CompositorScheduler(), InputQueue()
        self.done: list[tuple[str, int]] = []  # what was done, and at which vsync time

    def obey(self, decision: Decision) -> Decision:
        if decision.observe is not None:
            (self.observer.attend if decision.observe else self.observer.rest)()
        return decision

    def tick(self, tick: Tick) -> None:
        decision = self.obey(self.scheduler.tick(tick, time.monotonic_ns()))
        if decision.action is Action.INPUT:
            self.done += [(event.event_type, tick.vsync_time) for event in self.inputs.take(tick.vsync_time)]
            self.scheduler.request()
            decision = self.obey(self.scheduler.input_handled(time.monotonic_ns(), is_idle=self.inputs.is_idle))
        if decision.action is Action.COMPOSITE:
            self.done.append(("composite", tick.vsync_time))
            self.scheduler.finished()


@pytest.mark.rule("V7", "V15")
def test_a_compositor_handles_input_before_its_composite_and_lets_the_display_sleep_when_nothing_changes(
    window: VsyncDispatcher,
) -> None:
    with window.observe() as observer:
        observer.rest()
        compositor = Compositor(observer)
        for key in "ab":
            posted = time.monotonic_ns()
            compositor.inputs.post(Event("key_down", posted / 1e9, key=key), posted)
            compositor.obey(compositor.scheduler.input_arrived())
            assert window.display.statistics().observing == 1, "input while idle forces observation"
            deadline = time.monotonic() + SOON
            while window.display.statistics().observing:
                assert time.monotonic() < deadline
                compositor.tick(observer.wait(SOON))
            (key_down, at), (composite, then) = compositor.done
            assert (key_down, composite) == ("key_down", "composite")
            assert posted <= at == then
            compositor.done.clear()
        reported = compositor.scheduler.statistics()
        assert (reported.composites, reported.unused_in_a_row, reported.observations) == (2, 10, 2)
