"""The desktop demo's parent: starts the compositor and its clients, again those that crash, and ends them all."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vkshare.compositor.window_host import Signals
from vkshare.demos.child import Child
from vkshare.demos.desktop.clients import Invitation
from vkshare.demos.desktop.options import Options
from vkshare.demos.desktop.places import NAMES, SEATS, Desk
from vkshare.demos.desktop.report import Report
from vkshare.demos.desktop.screen import Screen
from vkshare.demos.shared import DemoError
from vkshare.util.closing import Scoped

_LOOK = 0.05  # seconds between looks at the processes
_PAUSE = 0.5  # seconds until the one that crashed is started again
_ENDING = 5.0  # seconds that a process has to end


def run(options: Options, signals: Signals) -> Report | None:
    """Runs the demo until its number of frames, Esc or the close button ends it; None: a signal did.

    Raises
    ------
    DemoError
        The compositor's process failed or died; the text says how.
    VkshareError, ValueError
        With is_one_process, as the compositor raises them.
    """
    with tempfile.TemporaryDirectory(prefix="vkshare-desktop-") as folder:
        path = str(Path(folder) / "socket")
        with Clients(options, path) as clients:
            reported = (_together if options.is_one_process else _apart)(options, path, clients, signals)
        return None if signals.came else Report.of(options, reported, clients)


def _together(options: Options, path: str, clients: Clients, signals: Signals) -> dict[str, Any]:
    """The compositor is in this process."""
    with Screen(options, path) as screen:
        clients.start(screen.adapter.uuid.hex())
        screen.run(signals, clients.look)
        return screen.report()


def _apart(options: Options, path: str, clients: Clients, signals: Signals) -> dict[str, Any]:
    """The compositor has a process of its own."""
    with _ending(Child.start("compositor", "vkshare.demos.desktop.screen", options, path)) as screen:
        while not (signals.came or screen.done):
            if signals.wait(_LOOK, screen.fileno()) and not screen.read():
                screen.wait(_ENDING)
                break
            if clients.are_invited:
                clients.look()
            elif "ready" in screen.reported:
                clients.start(screen.reported["ready"])
    if not screen.done and not signals.came:
        raise DemoError(screen.obituary())
    return screen.done


class Clients(Scoped):
    """The eight processes."""

    def __init__(self, options: Options, path: str) -> None:
        self.are_invited = False
        self.restarts = 0  # of the one that crashes
        self.faults: list[str] = []
        self._options = options
        self._path = path
        self._adapter = ""
        self._processes: dict[str, Child] = {}
        self._due: dict[str, float] = {}  # when one is started again

    def start(self, adapter: str) -> None:
        """All of them. `adapter`: the compositor's UUID in hex."""
        self.are_invited = True
        self._adapter = adapter
        for seat in SEATS:
            self._start(seat.name)

    def look(self) -> None:
        """Restarts the client that crashes by design, and records clients that ended otherwise."""
        now = time.monotonic()
        for name, child in list(self._processes.items()):
            if child.has_ended:
                self._ended(name, child, now)
        for name in [name for name, due in self._due.items() if now >= due]:
            del self._due[name]
            self.restarts += 1
            self._start(name)

    def _start(self, name: str) -> None:
        options = self._options
        desk = Desk(options.width, options.height)
        place = desk.rect(SEATS[NAMES.index(name)].place)
        size = desk.width, desk.height
        invitation = Invitation(name, self._path, self._adapter, place, size, options.crash_after)
        self._processes[name] = Child.start(name, "vkshare.demos.desktop.clients", invitation)

    def _ended(self, name: str, child: Child, now: float) -> None:
        while child.read():
            pass
        del self._processes[name]
        child.close()
        if name == "crash" and child.was_killed:
            self._due[name] = now + _PAUSE
        elif child.has_failed:
            self.faults.append(child.obituary())
        else:
            self.faults.append(f"the {name} process ended: the compositor closed its window")

    def close(self) -> None:
        """Ends them all."""
        for child in self._processes.values():
            child.terminate()
        for child in self._processes.values():
            child.wait(_ENDING)
            child.close()
        self._processes.clear()


@contextmanager
def _ending(child: Child) -> Iterator[Child]:
    """It does not outlive the block."""
    try:
        yield child
    finally:
        child.terminate()
        child.wait(_ENDING)
        child.close()
