"""Closes windows' frame sources on a thread of its own, because a client can delay each close by half a second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from vkshare.util.closing import common_deadline

if TYPE_CHECKING:
    from vkshare.compositor.window import ClientWindow

_log = logging.getLogger("vkshare.compositor")


class Closer:
    """Closes the frame sources of windows that were removed. Thread-safe. Its thread runs only while it has windows.

    Windows that are closed together share one deadline: a client causes one wait, however many
    windows it had.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._windows: list[ClientWindow] = []
        self._thread: threading.Thread | None = None

    def add(self, window: ClientWindow) -> None:
        """Queues a window; returns at once.

        If no thread can be started, closes the window here, within half a second.
        """
        with self._lock:
            self._windows.append(window)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                _log.warning("%s for %r: windows are closed on the calling thread", error, self._name)
                windows, self._windows = self._windows, []
            else:
                self._thread = thread
                return
        self._close_all(windows)

    def join(self) -> None:
        """Waits until all windows added before are closed."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                windows, self._windows = self._windows, []
                if not windows:
                    self._thread = None
                    return
            self._close_all(windows)

    def _close_all(self, windows: list[ClientWindow]) -> None:
        for window in windows:  # first for all: the clients go on with these surfaces meanwhile
            self._perform(window, window._release_to_client)
        with common_deadline():
            for window in windows:
                self._perform(window, window._close_source)

    @staticmethod
    def _perform(window: ClientWindow, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            _log.exception("%r could not be closed", window)
