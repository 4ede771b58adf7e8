"""Vsync sources that tick on command, and a listener that records their ticks."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from fractions import Fraction

from support.display_servers import wait_for
from vkshare.vsync.sources.base import Blank, Run, VsyncSource


class StubSource(VsyncSource):
    """A source whose ticks are given to tick()."""

    kind = "stub"

    def __init__(self, interval: Fraction | None = None) -> None:
        super().__init__(interval)
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._script: deque[Blank | Exception] = deque()
        self.begun = self.released = 0

    def tick(self, time_ns: int, msc: int | None = None) -> None:
        """The display ticks."""
        self._script.append(Blank(time_ns, msc))
        os.write(self._write, b".")

    def fail(self, error: Exception) -> None:
        """Makes the source fail: no tick will follow."""
        self._script.append(error)
        os.write(self._write, b".")

    def _begin(self) -> None:
        self.begun += 1

    def _next(self, run: Run) -> Blank | None:
        if not run.wait(None, self._read):
            return None
        os.read(self._read, 1)
        found = self._script.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def _release(self) -> None:
        self.released += 1
        os.close(self._read)
        os.close(self._write)

    def _where(self) -> str:
        return "of a test"


class Listener:
    """Records a source's ticks; `then` is called with each tick, on the source's thread."""

    def __init__(self, then: Callable[[int], object] | None = None) -> None:
        self.times: list[int] = []
        self.losses: list[Exception] = []
        self.errors: list[BaseException] = []  # of `then`
        self.threads: set[threading.Thread] = set()
        self._then = then

    def heard(self, time_ns: int) -> None:
        self.times.append(time_ns)
        self.threads.add(threading.current_thread())
        try:
            if self._then is not None:
                self._then(time_ns)
        except BaseException as error:
            self.errors.append(error)
            raise

    def lost(self, error: Exception) -> None:
        self.losses.append(error)

    def wait(self, count: int = 1) -> list[int]:
        """Waits for that many ticks."""
        wait_for(lambda: len(self.times) >= count, f"{count} ticks, {len(self.times)} came", 30)
        return self.times

    def wait_lost(self) -> Exception:
        """Waits until the source is lost."""
        return wait_for(lambda: self.losses, "the source is lost", 30)[0]


def listening() -> list[str]:
    """Returns the names of the running threads of sources."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vkshare ")]
