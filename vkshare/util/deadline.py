"""The time left to a call that waits more than once."""

from __future__ import annotations

import time

from vkshare.util import arguments


class Deadline:
    """Start a deadline of `timeout` seconds; None means no limit."""

    __slots__ = ("_end", "timeout")

    def __init__(self, timeout: float | None) -> None:
        self.timeout = arguments.timeout(timeout)
        self._end = 0.0 if self.timeout is None else time.monotonic() + self.timeout

    def left(self) -> float | None:
        """Return the seconds left, 0 once the deadline has passed, or None for no limit."""
        return None if self.timeout is None else max(0.0, self._end - time.monotonic())
