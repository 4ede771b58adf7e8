"""Refresh timers: call many drivers at each tick, on the thread that turns the timer (rules V3 to V5).

The model is Firefox's RefreshDriverTimer, with its two kinds in one object: active drivers are
called at every tick, inactive ones (of hidden windows) after a second, then ever more rarely, and
finally not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vkshare.errors import ClosedError, InvalidCallError
from vkshare.util import arguments, trace
from vkshare.util.closing import Closing
from vkshare.vsync.drivers import Driver, Drivers, Observer
from vkshare.vsync.throttle import ThrottleSchedule
from vkshare.vsync.tick import Tick


@dataclass(frozen=True, slots=True)
class RefreshStatistics:
    """A snapshot of a RefreshTimer's counters."""

    drivers: int
    active: int
    stopped: int  # inactive for so long that they are not called any more
    is_observing: bool
    ticks: int  # at which drivers were called
    missed: int  # ticks before these that were not taken, because the thread was busy
    calls: int  # of drivers
    errors: int  # calls that raised


class RefreshTimer(Closing):
    """Calls refresh drivers at each tick, on the thread that turns it: ``turn()``, ``run()``, or both in asyncio.

    A driver is a callable that takes a Tick, and is compared by equality (a bound method equals
    itself). Drivers are called in the order in which they were added. A driver added within a
    driver is called from the next tick on; one removed within a driver is not called any more. The
    timer observes while it has active drivers. Inactive drivers that are due share a tick; between
    them the timer sleeps.

    ``add()``, ``remove()``, ``set_active()``, ``close()`` and ``statistics()`` may be called from
    any thread and from within drivers: no lock is held while a driver is called. One thread turns
    it at a time.

    Parameters
    ----------
    observer
        The source of ticks: ``VsyncDispatcher.observe()``. The timer takes it over, and closes it.
    schedule
        An empty schedule for inactive drivers; None: they are called after 1, 2, 4 ... 512 s, then
        never.
    clock
        The time in ns of CLOCK_MONOTONIC.

    Raises
    ------
    ClosedError
        The observer is closed.
    """

    _unpicklable = "it belongs to the process that turns it"

    def __init__(
        self,
        observer: Observer,
        *,
        schedule: ThrottleSchedule[Any] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._observer = observer
        self._clock = clock
        self._drivers = Drivers(observer, ThrottleSchedule() if schedule is None else schedule, clock)
        # at most one; a dict, because its setdefault() is atomic
        self._turns: dict[str, object] = {}
        # ends the wait while asyncio watches the observer's fd
        self._wake: Callable[[], object] | None = None
        self._ticks = self._missed = self._calls = self._errors = 0

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._drivers.is_closed

    # ---- drivers

    def add(self, driver: Driver, *, active: bool = True) -> None:
        """Calls the driver from the next tick on.

        Parameters
        ----------
        driver
            A callable that takes a Tick.
        active
            True: it is called at every tick. False: ever more rarely, as `schedule` has it.

        Raises
        ------
        TypeError
            It is not callable, or not hashable.
        InvalidCallError
            It was added already.
        ClosedError
            After close(), or after the display's shutdown.
        """
        if not callable(driver):
            raise TypeError(f"driver must be callable with a Tick, not {type(driver).__name__}")
        self._drivers.add(driver, arguments.flag("active", active))

    def remove(self, driver: Driver) -> None:
        """Removes the driver. Idempotent.

        On a thread other than the one that turns the timer, it waits for a call of this driver that
        has begun: once it has returned, none runs. Within a driver, of any timer, it does not wait.
        """
        self._drivers.remove(driver)

    def set_active(self, driver: Driver, active: bool) -> None:
        """Calls the driver at every tick, or throttled.

        A driver that is inactive already starts again at the first interval.

        Parameters
        ----------
        driver, active
            As of add().

        Raises
        ------
        InvalidCallError
            It was not added.
        ClosedError
            After close(), or after the display's shutdown.
        """
        self._drivers.set_active(driver, arguments.flag("active", active))

    # ---- turning

    def turn(self, timeout: float | None = None) -> Tick | None:
        """Waits for one tick that a driver needs, and calls the drivers.

        Parameters
        ----------
        timeout
            Seconds to wait; 0 only takes a tick that has arrived, None waits for as long as there
            are drivers.

        Returns
        -------
        Tick | None
            The tick; None: none arrived in time, or no driver is left.

        Raises
        ------
        ExceptionGroup
            Drivers raised; the group has all their errors. All drivers were called, and all stay. A
            BaseException that is not an Exception (KeyboardInterrupt) is raised at once and alone.
        ClosedError
            The timer was closed, before or during the wait, or the display was closed.
        InvalidCallError
            Called within a driver, or while another thread turns the timer.
        """
        end = self._end_of(timeout)
        with self._turning():
            while not self._cannot_wait(end):
                with self._drivers.waiting(end) as limit:
                    tick = self._take(limit)
                if self._ends_turn(tick, end):
                    return tick
            return None

    async def turn_async(self, timeout: float | None = None) -> Tick | None:
        """Does the same as turn(), without blocking the running loop.

        A wait that is cancelled takes no tick.

        Parameters
        ----------
        timeout
            As of turn().

        Returns
        -------
        Tick | None
            As of turn().

        Raises
        ------
        ExceptionGroup, ClosedError, InvalidCallError
            As turn().
        """
        end = self._end_of(timeout)
        with self._turning():
            while not self._cannot_wait(end):
                with self._drivers.waiting(end) as limit:
                    tick = await self._take_async(limit)
                if self._ends_turn(tick, end):
                    return tick
            return None

    def run(self, until: Callable[[], object] | None = None) -> None:
        """Turns until `until()`, called before each turn, is true, no driver is left, or the timer is closed.

        An error of turn() ends it; it may be called again.
        """
        try:
            while self._continues(until):
                self.turn()
        except ClosedError:
            if not self.is_closed:
                raise

    async def run_async(self, until: Callable[[], object] | None = None) -> None:
        """Does the same as run(), without blocking the running loop."""
        try:
            while self._continues(until):
                await self.turn_async()
        except ClosedError:
            if not self.is_closed:
                raise

    # ---- closing

    def close(self) -> None:
        """Closes the timer and its observer, from any thread or driver. Idempotent.

        A turn that waits raises ClosedError. Like remove() it waits for a driver's call that has
        begun, unless called within one: once it has returned, no driver is called.
        """
        drivers = self._drivers
        with drivers.changed:
            drivers.close()
            if not self._is_watched():
                self._observer.close()
        drivers.wait_for_running()

    def statistics(self) -> RefreshStatistics:
        """Returns a snapshot of the counters."""
        drivers = self._drivers
        with drivers.changed:
            counts = self._ticks, self._missed, self._calls, self._errors
            return RefreshStatistics(len(drivers), drivers.active, drivers.stopped, drivers.is_observing, *counts)

    # ---- a turn

    def _end_of(self, timeout: float | None) -> int | None:
        seconds = arguments.timeout(timeout)
        return None if seconds is None else self._clock() + round(seconds * 1e9)

    @contextlib.contextmanager
    def _turning(self) -> Iterator[None]:
        self._drivers.check()
        turn = object()
        # also around setdefault(), because Ctrl-C right after it must not leave the turn registered
        try:
            if self._turns.setdefault("now", turn) is not turn:
                raise InvalidCallError(
                    "this RefreshTimer is being turned: only one thread at a time may turn it, and no driver"
                )
            yield
        finally:
            if self._turns.get("now") is turn:
                del self._turns["now"]
                self._drivers.update_observing()

    def _cannot_wait(self, end: int | None) -> bool:
        self._drivers.check()
        return end is None and not self._drivers

    def _ends_turn(self, tick: Tick | None, end: int | None) -> bool:
        """Returns whether the turn has ended: drivers were called at the tick, or there is no tick and no time left."""
        if tick is not None:
            return self._call_drivers(tick)
        return end is not None and self._clock() >= end

    def _take(self, limit: float | None) -> Tick | None:
        with contextlib.suppress(TimeoutError):
            return self._observer.wait(limit)
        return None

    async def _take_async(self, limit: float | None) -> Tick | None:
        await asyncio.sleep(0)  # else drivers that take a whole interval would starve the loop
        tick = self._take(0)
        if tick is not None or limit == 0:
            return tick
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        # from here on this turn closes the observer, because the loop watches its fd
        with self._drivers.changed:
            self._drivers.check()
            self._wake = lambda: loop.call_soon_threadsafe(ready.set)
            fd = self._observer.fileno()
        try:
            loop.add_reader(fd, ready.set)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await ready.wait()
        finally:
            loop.remove_reader(fd)
            with self._drivers.changed:
                self._wake = None
                if self.is_closed:
                    self._observer.close()
        return self._take(0)

    def _is_watched(self) -> bool:
        """Wakes the loop that watches the observer; returns whether there is one."""
        if self._wake is None:
            return False
        try:
            self._wake()
        except RuntimeError:  # the loop was closed during the wait
            return False
        return True

    def _call_drivers(self, tick: Tick) -> bool:
        """Calls the drivers that need this tick; returns whether there were any."""
        drivers = self._drivers
        wanted, due = drivers.take()
        calls = 0
        errors: list[Exception] = []
        with trace.span("refresh", tick.display, tick.id), drivers.calling():
            for entry in wanted:
                if drivers.enter(entry, due):
                    calls += 1
                    try:
                        entry.call(tick)
                    except Exception as error:
                        errors.append(error)
                    drivers.leave()
        if calls:
            self._ticks += 1
            self._missed += tick.missed
            self._calls += calls
            self._errors += len(errors)
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {calls} refresh drivers raised at tick {tick.id}", errors)
        return calls > 0

    def _continues(self, until: Callable[[], object] | None) -> bool:
        return not self.is_closed and len(self._drivers) > 0 and not (until is not None and until())

    def _is_lost(self) -> bool:
        return not self.is_closed and not sys.is_finalizing()

    def __repr__(self) -> str:
        if self.is_closed:
            return "<vkshare.RefreshTimer closed>"
        counters = self.statistics()
        state = "observing" if counters.is_observing else "resting"
        return f"<vkshare.RefreshTimer {state}, {counters.drivers} drivers, {counters.active} active>"
