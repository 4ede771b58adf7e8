"""Runs a display's source while the display has an attending observer."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

from vkshare.errors import ClosedError
from vkshare.vsync.display_core import DisplayCore
from vkshare.vsync.sources import VsyncSource

_log = logging.getLogger("vkshare.vsync")


class SourceMonitor:
    """Starts and stops one source for a display, until the display takes another or closes.

    Holds no reference to the Display, so that an unclosed one warns.

    Its thread sleeps in C until observing begins or ends.
    """

    def __init__(self, display: DisplayCore, source: VsyncSource) -> None:
        self.source = source
        self.error: Exception | None = None  # why the source is not used any more
        self._display = display
        # the display ignores earlier sources from now on
        self._number = display.listen(source.kind)
        self._thread = threading.Thread(target=self._run, name="vkshare-source", daemon=True)

    def start(self) -> None:
        """Starts the thread, after the previous monitor has ended, because both may use the same source.

        RuntimeError: no thread can be started.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            self._lost(error)
            raise

    def join(self) -> None:
        """Waits for the thread, after the display took another source or closed.

        The source is stopped when this returns. A monitor that was not started will not use its
        source. Does not wait on the source's own thread, nor while the interpreter exits, because
        other Python threads do not run any more.
        """
        if sys.is_finalizing():
            return
        is_begun = self._thread.ident is not None
        if is_begun and self._thread is not threading.current_thread() and not self.source._is_own_thread():
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ClosedError):
            while self.error is None:
                self._display.wait_wanted(self._number, True)
                self._listen()

    def _listen(self) -> None:
        """Runs the source while the display is observed."""
        try:
            self.source.start(self._report, self._lost)
        except Exception as error:  # the display ticks by its timer; another display may go on using the source
            _log.warning("%r could not be started: %s", self.source, error)
            self._lost(error)
            return
        try:
            self._display.wait_wanted(self._number, False)
        finally:
            self.source.stop()

    def _report(self, time: int) -> None:
        with contextlib.suppress(ClosedError):
            self._display.report(self._number, time)

    def _lost(self, error: Exception) -> None:
        self.error = error
