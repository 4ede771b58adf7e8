"""The drivers of a refresh timer, and whether any of them needs a tick."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from vkshare.errors import ClosedError, InvalidCallError
from vkshare.util.closing import on_error
from vkshare.vsync.throttle import ThrottleSchedule
from vkshare.vsync.tick import Tick

Driver = Callable[[Tick], object]


class Observer(Protocol):
    """The part of Observer that a refresh timer uses.

    Thread-safe; rest() and attend() are idempotent and never wait.
    """

    @property
    def is_closed(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> Tick:
        """Returns the newest tick since attend(), once; none while resting.

        TimeoutError; ClosedError once it is closed.
        """
        ...

    def rest(self) -> None: ...

    def attend(self) -> None: ...

    def fileno(self) -> int:
        """Returns an fd that is readable while wait(0) would return a tick."""
        ...

    def close(self) -> None: ...


@dataclass(eq=False, slots=True)
class Entry:
    """One registration of a driver: a driver that is removed and added again has a new one."""

    call: Driver
    is_active: bool
    is_removed: bool = False


_inside = threading.local()  # .depth: how many drivers, of any timer, are on this thread's stack


class Drivers:
    """The registered drivers, for the thread that waits for ticks and calls them. Thread-safe.

    The observer attends while a driver needs a tick, else it rests: the first active driver starts
    it, the removal of the last one stops it. An inactive driver that is due needs one tick.
    """

    def __init__(self, observer: Observer, schedule: ThrottleSchedule[Entry], clock: Callable[[], int]) -> None:
        self._observer = observer
        self._schedule = schedule
        self._clock = clock
        # Reentrant, because a finalizer of a driver's owner may call remove() during any allocation
        # here.
        # guards the attributes below; notified when a driver returns
        self.changed = threading.Condition(threading.RLock())
        self.is_closed = False
        self._entries: dict[Driver, Entry] = {}
        self._running: Entry | None = None
        self._is_waiting = False  # a thread waits for a tick
        self._wake_requested = False  # the waiter's timeout has changed: the next tick wakes it
        self._is_due = False  # an inactive driver needs the next tick
        self.is_observing = False  # a driver needs a tick
        observer.rest()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def active(self) -> int:
        """The number of drivers that are called at every tick."""
        return sum(entry.is_active for entry in [*self._entries.values()])

    @property
    def stopped(self) -> int:
        """The number of drivers that have been inactive for so long that they are not called any more."""
        return self._schedule.stopped

    # ---- from any thread

    def check(self) -> None:
        if self.is_closed:
            raise ClosedError("this RefreshTimer was closed")

    def add(self, driver: Driver, is_active: bool) -> None:
        with self.changed:
            self.check()
            if driver in self._entries:
                raise InvalidCallError(f"{driver!r} is in this RefreshTimer already: set_active() changes it")
            entry = self._entries[driver] = Entry(driver, is_active)
            with on_error(lambda: self._drop(entry)):
                self._reschedule(entry)

    def remove(self, driver: Driver) -> None:
        """Removes a driver; returns once no call of it runs any more, unless called within a driver."""
        with self.changed:
            if driver in self._entries:
                self._drop(self._entries[driver])
                if not self._entries:
                    self._wake_waiter()  # a wait without a timeout must end
            running = self._running  # may be an earlier registration of this driver
            if running is not None and running.call == driver:
                self._wait_for(running)

    def set_active(self, driver: Driver, is_active: bool) -> None:
        with self.changed:
            self.check()
            entry = self._entries.get(driver)
            if entry is None:
                raise InvalidCallError(f"{driver!r} is not in this RefreshTimer: add() it")
            entry.is_active = is_active
            self._reschedule(entry)

    def close(self) -> None:
        """Removes all drivers. No call begins any more."""
        with self.changed:
            self.is_closed = True
            for entry in [*self._entries.values()]:
                self._drop(entry)

    def wait_for_running(self) -> None:
        """Waits until no driver runs, unless called within one. For use after close()."""
        with self.changed:
            if self._running is not None:
                self._wait_for(self._running)

    # ---- from the thread that turns the timer

    @contextlib.contextmanager
    def waiting(self, end: int | None) -> Iterator[float | None]:
        """A wait; yields its timeout in seconds, at most until `end` (ns); None: no timeout."""
        with self.changed:
            self.check()
            now, deadline = self._clock(), self._schedule.deadline
            self._is_due = deadline is not None and deadline <= now
            self.update_observing()
            self._is_waiting = True
            if not self.is_observing and deadline is not None:
                end = deadline if end is None else min(end, deadline)
        try:
            yield None if end is None else max(0, end - now) / 1e9
        finally:
            with self.changed:
                self._is_waiting = self._wake_requested = False

    def take(self) -> tuple[list[Entry], set[Entry]]:
        """Returns the drivers that need this tick, in the order of add(), and the inactive ones."""
        with self.changed:
            due = self._schedule.take(self._clock())
            self._is_due = False
            return [entry for entry in self._entries.values() if entry.is_active or entry in due], due

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Marks this thread as inside drivers.

        After the block no driver counts as running, even after Ctrl-C between lines.
        """
        depth = getattr(_inside, "depth", 0)
        _inside.depth = depth + 1
        try:
            yield
        finally:
            _inside.depth = depth
            self.leave()

    def enter(self, entry: Entry, due: set[Entry]) -> bool:
        """Notes that a driver's call begins; False: it was removed, or made inactive, since take()."""
        with self.changed:
            if entry.is_removed or not (entry.is_active or entry in due):
                return False
            self._running = entry
            return True

    def leave(self) -> None:
        """Notes that the call has ended."""
        with self.changed:
            self._running = None
            self.changed.notify_all()

    # ---- under the lock

    def _reschedule(self, entry: Entry) -> None:
        """Updates the schedule of a driver that was added, or became active or inactive."""
        if entry.is_active:
            self._schedule.remove(entry)
        else:
            self._schedule.add(entry, self._clock())
            self._wake_waiter()
        self.update_observing()

    def _drop(self, entry: Entry) -> None:
        entry.is_removed = True
        del self._entries[entry.call]
        self._schedule.remove(entry)
        self.update_observing()

    def _wake_waiter(self) -> None:
        """Has the next tick wake the waiting thread, so that it computes its timeout again."""
        if self._is_waiting:
            self._wake_requested = True
            self.update_observing()

    def update_observing(self) -> None:
        """Starts or stops the observer as needed."""
        with self.changed:
            wants = not self.is_closed and (self._wake_requested or self._is_due or self.active > 0)
            if wants and not self.is_observing:
                self._observer.attend()
            elif self.is_observing and not wants:
                with contextlib.suppress(ClosedError):
                    self._observer.rest()
            self.is_observing = wants

    def _wait_for(self, entry: Entry) -> None:
        # Not within a driver, because two drivers that wait for each other would deadlock.
        if not getattr(_inside, "depth", 0):
            self.changed.wait_for(lambda: self._running is not entry)
