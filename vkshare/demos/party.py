"""One of the shared demo's three processes: started by shared.py, with what it needs on its command line."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from vkshare.demos import process
from vkshare.demos.options import Options, Wiring
from vkshare.demos.stamps import ACQUIRED, ASKED, PARTIES, RELEASED, Stamps

if TYPE_CHECKING:
    from vkshare import Surface, View

PATIENCE = 30.0  # seconds: the limit of each wait for another process


class Stop(BaseException):
    """SIGTERM came: everything is closed on the way out. No Exception, so that no handler of errors takes it."""


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """SIGTERM stops the process inside this block, and is kept for the next one elsewhere.

    Everything that may wait for another party stands in one. Elsewhere the exception could come up
    in the middle of anything, also where Python only prints it and goes on: in a callback from C,
    in a __del__.
    """
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


@contextlib.contextmanager
def owned(surface: Surface, acquire: int, release: int, *, writable: bool = True) -> Iterator[View]:
    """surface.access(), listening while it waits."""
    with contextlib.ExitStack() as stack:
        with listening():
            view = stack.enter_context(surface.access(acquire, release, PATIENCE, writable=writable))
        yield view


class Party:
    """The context of a role's run(party)."""

    def __init__(self, options: Options, wiring: Wiring, status: int) -> None:
        self.options = options
        self.index = wiring.party
        self.links = [socket.socket(fileno=fd) for fd in wiring.links]
        for link in self.links:
            link.settimeout(PATIENCE)
        self.stamps = Stamps(wiring.stamps, options.frames)
        os.close(wiring.stamps)
        self._status = status

    def tell(self, **message: Any) -> None:
        """A line to the parent."""
        process.tell(self._status, **message)

    @contextlib.contextmanager
    def turn(self, surface: Surface, frame: int, *, writable: bool = True) -> Iterator[View]:
        """Takes this party's turn in a frame: owns the surface by its key, and hands it to the next party's."""
        party = self.index
        self.stamps.mark(frame, party, ASKED)
        with owned(surface, party, (party + 1) % len(PARTIES), writable=writable) as view:
            self.stamps.mark(frame, party, ACQUIRED)
            yield view
            self.stamps.mark(frame, party, RELEASED)  # just before release() is called


def main() -> NoReturn:
    """The process: exit status 0, 1 after an error that was reported to the parent, 143 after SIGTERM.

    It is started with SIGTERM blocked, and so are all threads that drivers start in it: see
    listening().
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent decides
    options, wiring, parent, status = process.arguments(Options, Wiring)
    try:
        signal.signal(signal.SIGTERM, _stop)
        process.end_with_parent(parent)
        party = Party(options, wiring, status)
        role = importlib.import_module(f"vkshare.demos.{PARTIES[party.index]}_role")
        sys.exit(process.run(status, lambda: party.tell(done=role.run(party))))
    except Stop:
        sys.exit(128 + signal.SIGTERM)


def _stop(*_: object) -> NoReturn:
    raise Stop
