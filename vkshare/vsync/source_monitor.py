"""What keeps a display and its source together: the source listens while somebody observes the display."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

from vkshare import _native
from vkshare.errors import ClosedError
from vkshare.vsync.sources import VsyncSource

_log = logging.getLogger("vkshare.vsync")


class SourceMonitor:
    """A display's use of one source, until the display takes another or ends. Holds no Display: who loses one hears so.

    Its thread sleeps in C until somebody observes, or nobody does.
    """

    def __init__(self, display: _native.Display, source: VsyncSource) -> None:
        self.source = source
        self.error: Exception | None = None  # why it is not asked any more
        self._display = display
        self._number = display._listen(source.kind)  # whoever told the display before is not heard any more
        self._thread = threading.Thread(target=self._run, name="vkshare-source", daemon=True)

    def start(self) -> None:
        """After the one before has ended: both may use the same source. RuntimeError: there is no thread to be had."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._lost(error)
            raise

    def join(self) -> None:
        """After the display took another source, or ended: the source is stopped when this returns.

        One that has not begun yet will not use its source. Called on the source's own thread it waits for nothing, nor
        when the interpreter ends: no other thread of Python's runs any more.
        """
        if sys.is_finalizing():
            return
        is_begun = self._thread.ident is not None
        if is_begun and self._thread is not threading.current_thread() and not self.source._is_own_thread():
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(ClosedError):
            while self.error is None:
                self._display._wait_wanted(self._number, True)
                self._listen()

    def _listen(self) -> None:
        """While somebody observes."""
        try:
            self.source.start(self._report, self._lost)
        except Exception as error:  # the display ticks by its timer; the source may be another one's, who goes on
            _log.warning("%r could not be started: %s", self.source, error)
            self._lost(error)
            return
        try:
            self._display._wait_wanted(self._number, False)
        finally:
            self.source.stop()

    def _report(self, time: int) -> None:
        with contextlib.suppress(ClosedError):
            self._display._heard(self._number, time)

    def _lost(self, error: Exception) -> None:
        self.error = error
