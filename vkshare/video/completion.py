"""Work that a KeyboardInterrupt does not cut short: it runs on a thread, and the caller waits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


class Completion:
    """One call, which begins with the first wait(). Only the main thread gets a KeyboardInterrupt.

    Parameters
    ----------
    call
        The work.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vkshare completion")
        self.error: BaseException | None = None  # that it raised

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error
        finally:
            self._is_done.set()

    def wait(self) -> None:
        """Waits until the work is done. After a KeyboardInterrupt the next call waits on."""
        if self._thread.ident is None:
            with contextlib.suppress(RuntimeError):  # at the interpreter's exit no thread starts
                self._thread.start()
        if self._thread.ident is None:
            self._run()
        self._is_done.wait()
