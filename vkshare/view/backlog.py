"""Pictures between a thread that reads them and one that encodes them: a bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """A queue of at most `most` entries, from one thread to another. Thread-safe.

    Parameters
    ----------
    most
        Entries, at least 1.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.longest = 0  # entries that ever waited at once
        self._entries: deque[T] = deque()
        self._is_over = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._entries)

    def has_room(self, timeout: float = 0) -> bool:
        """Whether put() may be called; waits for so many seconds until it may. True too once nothing is taken more."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._entries) < self.most or self._is_over, timeout)

    def put(self, entry: T) -> None:
        """Adds an entry. The caller has seen has_room()."""
        with self._changed:
            if self._is_over:
                return
            self._entries.append(entry)
            self.longest = max(self.longest, len(self._entries))
            self._changed.notify_all()

    def end(self) -> None:
        """Says that nothing is put any more. Entries that wait are still taken."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def discard(self) -> int:
        """Ends it, and drops what waits; returns how many."""
        with self._changed:
            count = len(self._entries)
            self._entries.clear()
            self._is_over = True
            self._changed.notify_all()
            return count

    def take(self) -> T | None:
        """Waits for the next entry; None: there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._is_over)
            entry = self._entries.popleft() if self._entries else None
            self._changed.notify_all()
            return entry
