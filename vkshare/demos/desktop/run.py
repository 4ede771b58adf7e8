"""The desktop demo's parent: starts the compositor and its clients, again those that crash, and ends them all."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.compositor.window_host import Signals
from vkshare.demos import process
from vkshare.demos.desktop.clients import Guest
from vkshare.demos.desktop.places import NAMES, SEATS, Desk
from vkshare.demos.desktop.screen import Screen
from vkshare.demos.options import DesktopOptions
from vkshare.demos.process import Child, DemoError
from vkshare.util.closing import Scoped

if TYPE_CHECKING:
    from vkshare.demos.desktop.remote import Remote

_LOOK = 0.05  # seconds between looks at the processes
_PAUSE = 0.5  # seconds until the one that crashed is started again
_LOOKED_AT = 30  # frames, of which one must have been seen by a look at the picture: there are ten looks a second
_FASTER = 3  # composites for each frame of the slow client: a compositor that waited for it would make one


def run(options: DesktopOptions, signals: Signals) -> dict[str, Any] | None:
    """Runs the demo until its number of frames, Esc or the close button ends it.

    Returns the contents of `vkshare demo desktop --json`; None: a signal ended it.

    Raises
    ------
    DemoError
        The compositor's process failed or died; the text says how.
    VkshareError, ValueError
        With is_one_process, as the compositor raises them.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vkshare-desktop-") as folder, _network(options) as remote:
        path = str(Path(folder) / "socket")
        with Clients(options, path) as clients:
            reported = (_together if options.is_one_process else _apart)(options, path, clients, signals)
        if signals.came:
            return None
        if remote is not None:
            reported |= {"remote": remote.report(), "seconds": time.monotonic() - began}
            pictures = remote.compare()
            reported["remote"]["pictures"] = dataclasses.asdict(pictures)
            reported["faults"] += [pictures.fault] if pictures.fault else []
    restarts = clients.restarts
    least = math.inf if options.is_remote else _LOOKED_AT
    found = [*reported.pop("faults"), *clients.faults]
    found += faults(reported["clients"], reported["steady"], restarts, least)
    return {**reported, "restarts": restarts, "faults": found, "output": options.output, "ok": not found}


@contextlib.contextmanager
def _network(options: DesktopOptions) -> Iterator[Remote | None]:
    """The viewer and its network, with --remote."""
    if not options.is_remote:
        yield None
        return
    from vkshare.demos.desktop.remote import Network, Remote

    network = Network(options.delay, options.rate * 125e3, options.loss)
    with Remote(network, options.backend, headless=options.headless) as remote:
        yield remote


def _together(options: DesktopOptions, path: str, clients: Clients, signals: Signals) -> dict[str, Any]:
    """The compositor is in this process."""
    with Screen(options, path) as screen:
        clients.start(screen.adapter.uuid.hex())
        screen.run(signals, clients.look)
        return screen.report()


def _apart(options: DesktopOptions, path: str, clients: Clients, signals: Signals) -> dict[str, Any]:
    """The compositor has a process of its own."""
    screen = Child.start("compositor", "vkshare.demos.desktop.screen", options, path)
    try:
        while not (signals.came or screen.done):
            if signals.wait(_LOOK, screen.fileno()) and not screen.read():
                screen.wait()
                break
            if clients.adapter:
                clients.look()
            elif "ready" in screen.reported:
                clients.start(screen.reported["ready"])
    finally:
        process.end([screen])
    if not screen.done and not signals.came:
        raise DemoError(screen.obituary())
    return screen.done


class Clients(Scoped):
    """The eight processes."""

    def __init__(self, options: DesktopOptions, path: str) -> None:
        self.adapter = ""  # the compositor's UUID in hex; "": they are not started
        self.restarts = 0  # of the one that crashes
        self.faults: list[str] = []
        self._options = options
        self._path = path
        self._processes: dict[str, Child] = {}
        self._due: dict[str, float] = {}  # when one is started again

    def start(self, adapter: str) -> None:
        """All of them."""
        self.adapter = adapter
        for name in NAMES:
            self._start(name)

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
        size = options.width, options.height
        place = Desk(*size).rect(SEATS[NAMES.index(name)].place)
        guest = Guest(name, self._path, self.adapter, place, size, options.crash_after)
        self._processes[name] = Child.start(name, "vkshare.demos.desktop.clients", guest)

    def _ended(self, name: str, child: Child, now: float) -> None:
        while child.read():
            pass
        del self._processes[name]
        child.close()
        if name == "crash" and child.process.returncode == -signal.SIGKILL:
            self._due[name] = now + _PAUSE
        elif child.has_failed:
            self.faults.append(child.obituary())
        else:
            self.faults.append(f"the {name} process ended: the compositor closed its window")

    def close(self) -> None:
        """Ends them all."""
        process.end(list(self._processes.values()))
        self._processes.clear()


def faults(
    clients: list[dict[str, Any]], steady: dict[str, float], restarts: int, least: float = _LOOKED_AT
) -> list[str]:
    """The list of faults. `clients`: see census.Count; `restarts`: of the one that crashes."""
    found = []
    for client in clients:
        name = client["name"]
        if not client["shown"]:
            found.append(f"{name} was never shown")
        elif not client["looks"] and client["shown"] >= least:
            found.append(f"no frame number of {name} could be read in the picture")
        found += [f"{name}: {fault}" for fault in client["faults"][:3]]
        if name == "crash" and restarts > 1 and client["windows"] < 2:
            found.append(f"the client that crashes was started again {restarts} times, and never seen again")
    if steady["composites"] < _FASTER * steady["slow"]:
        found.append(
            f"{steady['composites']} composites for {steady['slow']} frames of the slow client: it was waited for"
        )
    return found
