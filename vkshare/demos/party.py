"""One of the shared demo's three processes: started by shared.py, with what it needs on its command line.

The renderer makes the surface and sends it, the two others open it. From then on its key tells whose
turn it is.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import vkshare
from vkshare.demos import pictures, process
from vkshare.demos.inspection import Inspector
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Facts, Writer
from vkshare.demos.options import Options, choose
from vkshare.demos.painter import Painter

if TYPE_CHECKING:
    from vkshare import Device, Surface, View

PARTIES = ("renderer", "text", "checker")  # a party's index is the key that it acquires
EDGES = ((0, 1), (1, 2), (2, 0))
_ASKED, _ACQUIRED, _RELEASED = range(3)
_PATIENCE = 30.0  # seconds: the limit of each wait for another process
_READY = b"ready"
_LISTED = 5  # frames whose faults are listed; all are counted


class Stamps:
    """When each process asked for the surface, got it and gave it on: one table in memory that all of them share.

    Nanoseconds of CLOCK_MONOTONIC, [frame, party, moment]. Each process writes its own column only.
    """

    def __init__(self, fd: int) -> None:
        """Maps `fd`, which stays the caller's."""
        self._times: Any = np.frombuffer(mmap.mmap(fd, 0), np.int64).reshape(-1, len(PARTIES), 3)

    @staticmethod
    def create(frames: int) -> int:
        """A file descriptor of the right size, the caller's."""
        fd = os.memfd_create("vkshare:demo", os.MFD_CLOEXEC)
        os.ftruncate(fd, frames * len(PARTIES) * 3 * 8)
        return fd

    def mark(self, frame: int, party: int, moment: int) -> None:
        """Writes down the time."""
        self._times[frame, party, moment] = time.monotonic_ns()

    def seconds(self) -> float:
        """From the first frame's acquire to the last frame's release."""
        return float(self._times[-1, -1, _RELEASED] - self._times[0, 0, _ACQUIRED]) / 1e9

    def held(self, party: int) -> Any:
        """Seconds that the party owned the surface, one a frame."""
        return (self._times[:, party, _RELEASED] - self._times[:, party, _ACQUIRED]) / 1e9

    def handovers(self, giver: int, taker: int) -> Any:
        """Seconds, one a frame: from the release, or from the call of acquire if that came later, until it is owned."""
        given = self._times[:, giver, _RELEASED]
        asked, acquired = self._times[:, taker, _ASKED], self._times[:, taker, _ACQUIRED]
        if taker <= giver:  # the next frame's
            given, asked, acquired = given[:-1], asked[1:], acquired[1:]
        return (acquired - np.maximum(given, asked)) / 1e9


@contextlib.contextmanager
def _listening() -> Iterator[None]:
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
def _owned(surface: Surface, acquire: int, release: int, *, writable: bool = True) -> Iterator[View]:
    """surface.access(), listening while it waits."""
    with ExitStack() as stack:
        with _listening():
            view = stack.enter_context(surface.access(acquire, release, _PATIENCE, writable=writable))
        yield view


class _Party:
    """The context of a role, with a socket to each of the others: the renderer's to both, theirs to the renderer."""

    def __init__(self, options: Options, index: int, stamps: int, links: list[int], status: int) -> None:
        self.options = options
        self.layout = Layout(options.width, options.height)
        self.links = [socket.socket(fileno=fd) for fd in links]
        for link in self.links:
            link.settimeout(_PATIENCE)
        self._index = index
        self._stamps = Stamps(stamps)
        os.close(stamps)
        self._status = status

    def tell(self, **message: Any) -> None:
        """A line to the parent."""
        process.tell(self._status, **message)

    @contextlib.contextmanager
    def turn(self, surface: Surface, frame: int, *, writable: bool = True) -> Iterator[View]:
        """Takes this party's turn in a frame: owns the surface by its key, and hands it to the next party's."""
        party = self._index
        self._stamps.mark(frame, party, _ASKED)
        with _owned(surface, party, (party + 1) % len(PARTIES), writable=writable) as view:
            self._stamps.mark(frame, party, _ACQUIRED)
            yield view
            self._stamps.mark(frame, party, _RELEASED)  # just before release() is called

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[tuple[Device, Surface, bool]]:
        """The surface that the renderer sends, open on a device of one's own on the same adapter.

        Also whether its pixels are copied, in place of being used where they are.
        """
        (link,) = self.links
        uuid = _receive(link)
        if len(uuid) != 16:
            raise ConnectionError("the renderer is gone")
        with vkshare.open(uuid, name=name) as device:
            with _listening():
                descriptor = vkshare.SurfaceDescriptor.recv(link, _PATIENCE)
            with descriptor:
                surface = device.open_surface(descriptor)
            with surface:
                link.send(_READY)
                yield device, surface, self.options.force_copy or not surface.is_host_visible
        link.close()

    def expect(self, message: bytes) -> None:
        """Returns when each of the others has said that."""
        for link in self.links:
            came = _receive(link)
            if came != message:
                raise ConnectionError(f"another process of the demo said {came!r}, expected was {message!r}")


def _receive(link: socket.socket) -> bytes:
    """A short message; b"" when the other end is closed."""
    try:
        with _listening():
            return link.recv(16)
    except TimeoutError:
        raise TimeoutError(f"another process of the demo was silent for {_PATIENCE:.0f} s") from None


# ---- the roles: each returns its process's part of the report ------------------------------------------------------


def _renderer(party: _Party) -> dict[str, Any]:
    """Makes the surface, and draws the scene into it with device commands."""
    options, layout = party.options, party.layout
    adapter, why = choose(options)
    with ExitStack() as stack:
        device = stack.enter_context(vkshare.open(adapter, name="demo renderer"))
        surface = stack.enter_context(device.create_surface(layout.width, layout.height, "rgba8unorm"))
        painter = stack.enter_context(Painter(device, layout, image=options.image))
        with surface.export() as descriptor:
            for link in party.links:
                link.send(adapter.uuid)
                descriptor.send(link, _PATIENCE)
        party.expect(_READY)
        before = device.statistics().copied_bytes
        for frame in range(options.frames):
            commands = painter.record(surface, frame, frame / options.frames)  # while others own the surface
            with party.turn(surface, frame):
                device.submit(commands)
        copied = device.statistics().copied_bytes - before
        party.expect(b"")  # the others have closed the surface: its memory needs one handle that stays
        return {
            "adapter": {name: getattr(adapter, name) for name in ("name", "kind", "backend", "driver")},
            "why": why,
            "tiling": surface.tiling,
            "format": surface.format,
            "setup_copied": before,
            "copied": copied,
        }


def _text(party: _Party) -> dict[str, Any]:
    """Writes live text over each frame with Pillow, into the surface's own memory where it can."""
    options = party.options
    with party.opened("demo text") as (device, surface, copies):
        facts = Facts.of_three_processes(device.adapter.name, options.frames, copies)
        with Writer(device, party.layout, facts, copies) as writer:
            for frame in range(options.frames):
                with party.turn(surface, frame) as view:
                    writer.write(view, frame)
            with _listening():
                device.wait_idle(_PATIENCE)  # closing the layer would cancel what still waits for the renderer's work
        return {"copied": device.statistics().copied_bytes}


def _checker(party: _Party) -> dict[str, Any]:
    """Reads each frame, checks what is in it, and writes a picture of the last."""
    options = party.options
    inspector = Inspector(party.layout)
    faults: list[str] = []
    faulty = 0
    with party.opened("demo checker") as (device, surface, copies):

        def pixels(view: View) -> Any:
            """(H, W, 4) uint8: the memory itself where it can be mapped."""
            return view.surface.read() if copies else view.array

        for frame in range(options.frames):
            with party.turn(surface, frame, writable=False) as view:
                found = inspector.faults(frame, pixels(view))
            faulty += bool(found)
            if found and faulty <= _LISTED:
                faults.append(f"frame {frame}: {'; '.join(found)}")
            party.tell(frame=frame)
        copied = device.statistics().copied_bytes
        if options.output is not None:
            with _owned(surface, 0, 0, writable=False) as view:
                pictures.save(pixels(view), options.output)
        return {"copied": copied, "faulty": faulty, "faults": faults}


# ---- the process ---------------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """The process; exit status 143 after SIGTERM.

    It is started with SIGTERM blocked, and so are all threads that drivers start in it: see
    _listening().
    """
    process.serve(Options, _work)


def _work(options: Options, index: int, stamps: int, links: list[int], status: int) -> None:
    # Everything is closed on the way out. SystemExit is no Exception, so that no handler of errors takes it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    party = _Party(options, index, stamps, links, status)
    party.tell(done=(_renderer, _text, _checker)[index](party))
