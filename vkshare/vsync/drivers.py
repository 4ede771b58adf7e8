"""The drivers of a refresh timer, and whether any of them wants a tick."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from vkshare.errors import ClosedError, InvalidCallError
from vkshare.vsync.throttle import ThrottleSchedule
from vkshare.vsync.tick import Tick

Driver = Callable[[Tick], object]


class Observer(Protocol):
    """What a refresh timer needs of an Observer. Thread-safe; rest() and attend() are idempotent and never wait."""

    @property
    def is_closed(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> Tick:
        """The newest tick since attend(), once; while resting none. TimeoutError; ClosedError once it is closed."""
        ...

    def rest(self) -> None: ...

    def attend(self) -> None: ...

    def fileno(self) -> int:
        """Readable while wait(0) would return a tick."""
        ...

    def close(self) -> None: ...


@dataclass(eq=False, slots=True)
class Entry:
    """One stay of a driver: one that is removed and added again has another."""

    call: Driver
    is_active: bool
    is_removed: bool = False


_inside = threading.local()  # .depth: how many drivers, of whatever timers, this thread is in


class Drivers:
    """Who is to be called, by a thread that waits for ticks and calls. Thread-safe.

    While somebody wants a tick the observer attends, else it rests: the first active driver begins that, the last
    one's going ends it. An inactive one that is due wants one tick.
    """

    def __init__(self, observer: Observer, schedule: ThrottleSchedule[Entry], clock: Callable[[], int]) -> None:
        self._observer = observer
        self._schedule = schedule
        self._clock = clock
        # Reentrant: the finalizer of something that a driver belongs to may call remove() in any allocation made here.
        self.changed = threading.Condition(threading.RLock())  # guards what follows; notified when a driver returns
        self.is_closed = False
        self._entries: dict[Driver, Entry] = {}
        self._running: Entry | None = None
        self._is_waiting = False  # somebody, for a tick
        self._wake_requested = False  # what is waited for has changed: the next tick, whomever it is for, is to tell
        self._is_due = False  # an inactive driver wants the next tick
        self._is_observing = False
        observer.rest()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def active(self) -> int:
        """How many are called at every tick."""
        return sum(entry.is_active for entry in [*self._entries.values()])

    @property
    def stopped(self) -> int:
        """How many have been inactive for so long that they are called no more."""
        return self._schedule.stopped

    @property
    def is_observing(self) -> bool:
        """Whether any of them wants a tick."""
        return self._is_observing

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
            try:
                self._reschedule(entry)
            except BaseException:
                self._drop(entry)
                raise

    def remove(self, driver: Driver) -> None:
        """Returns once no call of it runs any more, unless called within a driver."""
        with self.changed:
            if driver in self._entries:
                self._drop(self._entries[driver])
                if not self._entries:
                    self._wake_waiter()  # who waits without a timeout is to know
            running = self._running  # of this driver it may be an earlier stay
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
        """Forgets all. No driver begins any more."""
        with self.changed:
            self.is_closed = True
            for entry in [*self._entries.values()]:
                self._drop(entry)

    def wait_for_running(self) -> None:
        """Returns once no driver runs, unless called within one. After close()."""
        with self.changed:
            if self._running is not None:
                self._wait_for(self._running)

    # ---- from the thread that turns the timer

    def begin_wait(self, end: int | None) -> float | None:
        """For how many seconds to wait for a tick, at most until `end` (ns); None: for ever."""
        with self.changed:
            self.check()
            now, deadline = self._clock(), self._schedule.deadline
            self._is_due = deadline is not None and deadline <= now
            self._update_observing()
            self._is_waiting = True
            if not self._is_observing and deadline is not None:
                end = deadline if end is None else min(end, deadline)
            return None if end is None else max(0, end - now) / 1e9

    def end_wait(self) -> None:
        with self.changed:
            self._is_waiting = self._wake_requested = False

    def take(self) -> tuple[list[Entry], set[Entry]]:
        """Those that want the tick which has come, in the order in which they were added; and the inactive of them."""
        with self.changed:
            due = self._schedule.take(self._clock())
            self._is_due = False
            return [entry for entry in self._entries.values() if entry.is_active or entry in due], due

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Drivers are called. Whatever ends that, Ctrl-C between two lines too, none is taken to run afterwards."""
        depth = getattr(_inside, "depth", 0)
        _inside.depth = depth + 1
        try:
            yield
        finally:
            _inside.depth = depth
            self.leave()

    def enter(self, entry: Entry, due: set[Entry]) -> bool:
        """Its call begins; False: it was removed, or made inactive, since it was taken."""
        with self.changed:
            if entry.is_removed or not (entry.is_active or entry in due):
                return False
            self._running = entry
            return True

    def leave(self) -> None:
        """Its call has ended."""
        with self.changed:
            self._running = None
            self.changed.notify_all()

    def update_observing(self) -> None:
        """The turn has ended: nobody waits for what it waited for."""
        with self.changed:
            self._update_observing()

    # ---- under the lock

    def _reschedule(self, entry: Entry) -> None:
        """It came, or is another kind of driver now."""
        if entry.is_active:
            self._schedule.remove(entry)
        else:
            self._schedule.add(entry, self._clock())
            self._wake_waiter()
        self._update_observing()

    def _drop(self, entry: Entry) -> None:
        entry.is_removed = True
        del self._entries[entry.call]
        self._schedule.remove(entry)
        self._update_observing()

    def _wake_waiter(self) -> None:
        """Wakes who waits, by the next tick, to think again about how long."""
        if self._is_waiting:
            self._wake_requested = True
            self._update_observing()

    def _update_observing(self) -> None:
        wants = not self.is_closed and (self._wake_requested or self._is_due or self.active > 0)
        if wants and not self._is_observing:
            self._observer.attend()
        elif self._is_observing and not wants:
            with contextlib.suppress(ClosedError):
                self._observer.rest()
        self._is_observing = wants

    def _wait_for(self, entry: Entry) -> None:
        # Not within a driver: two that waited for each other would do so for ever.
        if not getattr(_inside, "depth", 0):
            self.changed.wait_for(lambda: self._running is not entry)
