"""Fds as an event loop sees them."""

from __future__ import annotations

import select


def is_readable(fd: int, seconds: float = 0) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(1000 * seconds))


def await_readable(fd: int) -> None:
    """Sleeps as a loop does: an fd that is not made readable is a hang."""
    assert is_readable(fd, 30), "the fd was not readable within 30 s"
