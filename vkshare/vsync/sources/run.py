"""One stretch of listening, from start() to stop(): its thread's, and what ends it."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import NamedTuple

_log = logging.getLogger("vkshare.vsync")


class Blank(NamedTuple):
    """A vertical blank that a source heard of."""

    time_ns: int  # of CLOCK_MONOTONIC
    msc: int | None = None  # the display's own count of them, where it has one (OML's and X11's media stream counter)


TickCallback = Callable[[Blank], object]
LossCallback = Callable[[Exception], object]


class Run:
    """Ends once, from any thread, also from within its own callback. `turn` is its source's, and guards all fields."""

    def __init__(
        self, heard: TickCallback, lost: LossCallback | None, before: Run | None, changed: threading.Condition
    ) -> None:
        self.thread: threading.Thread | None = None
        self.is_over = False  # nothing more is told
        self.is_done = False  # its thread touches nothing of the source any more
        self._on_tick = heard
        self._on_loss = lost
        self._before = before
        self._changed = changed
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # ---- from any thread

    def end(self) -> None:
        """Idempotent. Wakes its thread."""
        with self._changed:
            self.is_over = True
            if not self.is_done:
                os.eventfd_write(self._wake, 1)
            self._changed.notify_all()

    def finish(self) -> None:
        """Its thread is at its end, or was never started. Idempotent."""
        with self._changed:
            if not self.is_done:
                os.close(self._wake)
            self.is_over = self.is_done = True
            self._before = None
            self._changed.notify_all()

    # ---- on its own thread

    def await_previous(self) -> bool:
        """Until the run before it, stopped from within its own callback, has left that. False: this one is over first.

        That callback may be the very one that now stops this run, and waits for it: so the wait ends with either.
        """
        with self._changed:
            before = self._before
            self._changed.wait_for(lambda: self.is_over or before is None or before.is_done)
            self._before = None
            return not self.is_over

    def wait(self, seconds: float | None, fd: int = -1) -> bool:
        """Waits until `fd` can be read (True), or the time is up or the run over (False)."""
        waiter = select.poll()
        waiter.register(self._wake, select.POLLIN)
        if fd >= 0:
            waiter.register(fd, select.POLLIN)
        found = waiter.poll(None if seconds is None else seconds * 1000)
        return not self.is_over and any(each == fd for each, _ in found)

    def deliver(self, blank: Blank) -> bool:
        """Whether it was told: nothing is once the run is over."""
        if self.is_over:
            return False
        try:
            self._on_tick(blank)
        except Exception:
            _log.exception("what hears a vsync source raised")
        return True

    def deliver_loss(self, error: Exception) -> None:
        """Once, and after it nothing."""
        if self._on_loss is not None:
            try:
                self._on_loss(error)
            except Exception:
                _log.exception("what is told of a lost vsync source raised")
