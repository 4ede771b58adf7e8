"""The throttle of inactive drivers (of hidden windows): they are called ever more rarely, and finally not at all.

Pure.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from vkshare.util import arguments

# Nanoseconds; Firefox's throttled rate of one a second, and the 600 s after which its inactive
# timer is quiet.
FIRST_INTERVAL = 1_000_000_000
LONGEST_INTERVAL = 600_000_000_000

K = TypeVar("K", bound=Hashable)


class ThrottleSchedule(Generic[K]):
    """Schedules keys at growing intervals. Times are ns of the caller's clock. Not thread-safe.

    Each key is due `first` after it was added. Each next interval is twice the previous one; a key
    whose interval would exceed `longest` is never due again, until it is added again. A late key is
    due once, and its next interval begins then. (Firefox has one interval for all, which starts
    again for all with each driver that is added.)

    Parameters
    ----------
    first, longest
        Nanoseconds, 1 <= first <= longest.
    """

    def __init__(self, first: int = FIRST_INTERVAL, longest: int = LONGEST_INTERVAL) -> None:
        self._first = arguments.integer("first", first, 1)
        self._longest = arguments.integer("longest", longest, self._first)
        self._due: dict[K, tuple[int, int]] = {}  # key -> when it is due next, and after how long
        self._stopped: set[K] = set()

    @property
    def deadline(self) -> int | None:
        """When the next key is due; None: never."""
        return min((when for when, _ in self._due.values()), default=None)

    @property
    def stopped(self) -> int:
        """The number of keys that are not due any more."""
        return len(self._stopped)

    def add(self, key: K, now: int) -> None:
        """Adds a key at `now`; a key that is here already starts again."""
        self._stopped.discard(key)
        self._due[key] = now + self._first, self._first

    def remove(self, key: K) -> None:
        """Removes a key. Idempotent."""
        self._stopped.discard(key)
        self._due.pop(key, None)

    def take(self, now: int) -> set[K]:
        """Returns the keys that are due, and schedules each again after twice its interval."""
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
