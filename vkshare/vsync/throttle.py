"""When drivers of what nobody sees are called: ever more rarely, and in the end not at all. A pure state machine."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from vkshare import _arguments

# Nanoseconds; Firefox's throttled rate of one a second, and the 600 s after which its inactive timer is quiet.
FIRST_INTERVAL = 1_000_000_000
LONGEST_INTERVAL = 600_000_000_000

K = TypeVar("K", bound=Hashable)


class ThrottleSchedule(Generic[K]):
    """Tells which of its keys are due. Times are ns of one clock, the caller's. Not thread-safe.

    Each key is due `first` after it was added, and then after twice as long as the time before, until that would be
    more than `longest`: from then on never, until it is added anew. What is late is due once, and counts from then.
    (Firefox has one interval for all, which begins anew for all with each that is added.)

    Parameters
    ----------
    first, longest
        Nanoseconds, 1 <= first <= longest.
    """

    def __init__(self, first: int = FIRST_INTERVAL, longest: int = LONGEST_INTERVAL) -> None:
        self._first = _arguments.integer("first", first, 1)
        self._longest = _arguments.integer("longest", longest, self._first)
        self._due: dict[K, tuple[int, int]] = {}  # key -> when it is due next, and after how long
        self._stopped: set[K] = set()

    @property
    def deadline(self) -> int | None:
        """When the next one is due; None: never."""
        return min((when for when, _ in self._due.values()), default=None)

    @property
    def stopped(self) -> int:
        """How many are due no more."""
        return len(self._stopped)

    def add(self, key: K, now: int) -> None:
        """It is inactive from now on; one that was already begins anew."""
        self._stopped.discard(key)
        self._due[key] = now + self._first, self._first

    def remove(self, key: K) -> None:
        """It is active, or gone. Idempotent."""
        self._stopped.discard(key)
        self._due.pop(key, None)

    def take(self, now: int) -> set[K]:
        """Those that are due by now, each of which is due again after twice as long."""
        taken = {key for key, (when, _) in self._due.items() if when <= now}
        for key in taken:
            interval = 2 * self._due.pop(key)[1]
            if interval > self._longest:
                self._stopped.add(key)
            else:
                self._due[key] = now + interval, interval
        return taken

    def __repr__(self) -> str:
        return f"<vkshare.ThrottleSchedule of {len(self._due)}, {len(self._stopped)} stopped>"
