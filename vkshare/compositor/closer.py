"""What ends windows' feeds, on a thread of its own: a client's page can make the end of each wait for half a second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from vkshare._closing import common_deadline

if TYPE_CHECKING:
    from vkshare.compositor.window import ClientWindow

_log = logging.getLogger("vkshare.compositor")


class Closer:
    """Lets go of what windows had that are off the screen. Thread-safe. Its thread is there while there is such a one.

    All windows that wait when it begins share one deadline: a client has one wait, however many windows it had.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._windows: list[ClientWindow] = []
        self._thread: threading.Thread | None = None

    def add(self, window: ClientWindow) -> None:
        """Returns at once. Where no thread can be started it closes the window itself, in half a second at most."""
        with self._lock:
            self._windows.append(window)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                _log.warning("%s for %r: windows are closed without it", error, self._name)
                windows, self._windows = self._windows, []
            else:
                self._thread = thread
                return
        self._close_all(windows)

    def join(self) -> None:
        """Waits until everything is closed that was added before."""
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
        for window in windows:  # first all of them: what the clients get back moves on meanwhile
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
