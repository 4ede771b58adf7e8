"""One run of a source, from start() to stop(): its thread, and the ways to end it."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable
from typing import NamedTuple

_log = logging.getLogger("vkshare.vsync")


class Blank(NamedTuple):
    """A vertical blank that a source has observed."""

    time_ns: int  # of CLOCK_MONOTONIC
    # the display's own count of blanks, if it has one (OML's and X11's media stream counter)
    msc: int | None = None


TickCallback = Callable[[Blank], object]
LossCallback = Callable[[Exception], object]


class Run:
    """Any thread can end a run, also its own callback. `changed` is its source's condition, and guards all fields."""

    def __init__(
        self, heard: TickCallback, lost: LossCallback | None, before: Run | None, changed: threading.Condition
    ) -> None:
        self.thread: threading.Thread | None = None
        self.is_over = False  # no tick is delivered any more
        self.is_done = False  # its thread does not use the source any more
        self._on_tick = heard
        self._on_loss = lost
        self._before = before
        self._changed = changed
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # ---- from any thread

    def end(self) -> None:
        """Ends the run, and wakes its thread. Idempotent."""
        with self._changed:
            self.is_over = True
            if not self.is_done:
                os.eventfd_write(self._wake, 1)
            self._changed.notify_all()

    def finish(self) -> None:
        """Notes that its thread has ended, or was never started. Idempotent."""
        with self._changed:
            if not self.is_done:
                os.close(self._wake)
            self.is_over = self.is_done = True
            self._before = None
            self._changed.notify_all()

    # ---- on its own thread

    def await_previous(self) -> bool:
        """Waits until the previous run, if it was stopped within its own callback, has left that.

        False: this run is over.

        The callback may stop this run, and wait for it, so the wait ends with either event.
        """
        with self._changed:
            before = self._before
            self._changed.wait_for(lambda: self.is_over or before is None or before.is_done)
            self._before = None
            return not self.is_over

    def wait(self, seconds: float | None, fd: int = -1) -> bool:
        """Waits until `fd` is readable (True), or until the timeout or the end of the run (False)."""
        waiter = select.poll()
        waiter.register(self._wake, select.POLLIN)
        if fd >= 0:
            waiter.register(fd, select.POLLIN)
        found = waiter.poll(None if seconds is None else seconds * 1000)
        return not self.is_over and any(each == fd for each, _ in found)

    def deliver(self, blank: Blank) -> bool:
        """Delivers a tick; returns False, without delivering, once the run is over."""
        if self.is_over:
            return False
        try:
            self._on_tick(blank)
        except Exception:
            _log.exception("a tick callback of a vsync source raised")
        return True

    def deliver_loss(self, error: Exception) -> None:
        """Delivers the loss; call it once, as the last delivery."""
        if self._on_loss is not None:
            try:
                self._on_loss(error)
            except Exception:
                _log.exception("a loss callback of a vsync source raised")
