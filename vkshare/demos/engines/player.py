"""An engine's process: draws its tile of the wall and its cell of the shared picture, in turns, until it is ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, NoReturn

import vkshare
from vkshare.demos import process
from vkshare.demos.engines import artists, layered
from vkshare.demos.engines.artists import Artist
from vkshare.errors import AbandonedError, AcquireTimeout, UnsupportedError, VkshareError

# The engine of each process, and the package that it needs.
ARTISTS: dict[str, type[Artist]] = {
    "moderngl": artists.ModernGL,
    "pyglet": artists.Pyglet,
    "wgpu": layered.Wgpu,
    "pygfx": layered.Pygfx,
    "slangpy": layered.Slangpy,
    "Panda3D": artists.Panda3D,
    "PyVista": artists.VTK,
    "Matplotlib": artists.Matplotlib,
}
DIE = b"!"  # from the parent: be killed inside the next turn on the picture
PATIENCE = 0.25  # seconds of a wait for a turn, between two looks at whether the demo is over
_RECOVERING = 0.01  # seconds between two attempts while the parent recovers the picture
_REPORT_INTERVAL = 0.2  # seconds between two reports
_MEASURING = 0.005  # seconds a frame that are measured
_SAMPLES = 4000
_QUARTERS, _FEWEST = 4, 8  # parts of the samples, and how many are in one
_TILE = 0, 1  # keys: to draw, to be shown


@dataclass(frozen=True)
class Part:
    """The arguments of a process."""

    name: str
    adapter: str  # the parent's, its UUID in hex
    key: int  # of its turns on the picture; the next key follows
    cell: tuple[int, int, int, int]  # of the picture, in pixels
    size: tuple[int, int]  # of the tile and the picture
    link: int  # the fd of a socket: both descriptors come by it, and its end is the demo's


def main() -> NoReturn:
    """The process."""
    process.serve(Part, _work)


def _work(part: Part, status: int) -> None:
    adapter, (width, height) = bytes.fromhex(part.adapter), part.size
    with socket.socket(fileno=part.link) as link, _start(part.name, adapter, (width, height)) as artist:
        _Play(part, artist, link).run(status)
    process.tell(status, done={"ended": True})


def _start(name: str, adapter: bytes, size: tuple[int, int]) -> Artist:
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):  # engines draw without one: a display's OpenGL may be another GPU's
        os.environ.pop(variable, None)
    try:
        return ARTISTS[name](adapter, size)
    except VkshareError:
        raise
    except ImportError as error:
        raise UnsupportedError(name, str(error), "pip install 'vkshare[engines]'") from None
    except Exception as error:  # the engine's own
        said = " ".join(str(error).split())
        raise UnsupportedError(name, f"it does not start on this machine: {type(error).__name__}: {said}") from error


class _Play:
    def __init__(self, part: Part, artist: Artist, link: socket.socket) -> None:
        self._part = part
        self._artist = artist
        self._link = link
        self._tile, self._picture = (self._receive() for _ in range(2))
        self._tile_turns = artist.take(self._tile)
        self._picture_turns = artist.take(self._picture) if artist.draws_parts else self._picture
        self._own = artist.device.create_surface(*part.cell[2:], "rgba8unorm", usage=tuple(self._tile.usage))
        self._own_turns = artist.take(self._own)
        self._dies_in_turn = False
        self._counts: Counter[str] = Counter()
        self._in_turns: deque[float] = deque(maxlen=_SAMPLES)  # seconds of a picture
        self._in_submits: deque[float] = deque(maxlen=_SAMPLES)  # of the same by the engine's own submit

    def _receive(self) -> vkshare.Surface:
        with vkshare.SurfaceDescriptor.recv(self._link, 10.0) as descriptor:
            return self._artist.device.open_surface(descriptor)

    def run(self, status: int) -> None:
        """Draws until the parent's end of the socket is closed. Errors are for the caller."""
        self._measure(0)  # what engines compile at their first picture is compiled now
        self._in_turns.clear()
        self._in_submits.clear()
        process.tell(status, ready=True)
        number, reported = 0, 0.0
        while self._goes_on():
            number += self._attempt(self._draw_tile, number, "shown", "tile_copies")
            self._attempt(self._take_turn, number, "turns", "turn_copies")
            self._attempt(self._measure, number, "measured", "measured_copies")
            if time.monotonic() - reported >= _REPORT_INTERVAL:
                reported = time.monotonic()
                process.tell(status, counts=self._counts, extra=self._extra())

    def _goes_on(self) -> bool:
        """Whether the parent's end of the socket is open; it may have asked for a death."""
        if not select.select([self._link], [], [], 0)[0]:
            return True
        self._dies_in_turn = self._link.recv(1) == DIE
        return self._dies_in_turn

    def _die_if_asked(self) -> None:
        if self._dies_in_turn:
            os.kill(os.getpid(), signal.SIGKILL)

    def _attempt(self, draw: Any, number: int, counter: str, copies: str) -> bool:
        """Whether the surface's turn came, and was taken."""
        before = self._artist.copies
        try:
            draw(number)
        except AcquireTimeout:
            return False
        except AbandonedError:  # another process was killed inside its turn: the parent recovers the picture
            time.sleep(_RECOVERING)
            self._recover_own()
            return False
        self._counts[counter] += 1
        self._counts[copies] += self._artist.copies - before
        return True

    def _recover_own(self) -> None:
        """After a composite that waited for the picture's dead owner, and never ran."""
        if self._own.mutex.statistics().state == "abandoned":
            self._own.recover(10.0)
            self._own.release(0)

    def _draw_tile(self, number: int) -> None:
        with self._tile_turns.access(*_TILE, timeout=PATIENCE) as view:
            self._artist.draw(view, self._tile_turns, (0, 0, *self._artist.size), number)

    def _take_turn(self, number: int) -> None:
        part, artist = self._part, self._artist
        keys = part.key, part.key + 1
        if artist.draws_parts:
            with self._picture_turns.access(*keys, timeout=PATIENCE) as view:
                artist.draw(view, self._picture_turns, part.cell, number)
                self._die_if_asked()
            return
        with self._own_turns.access(0, 0) as view:
            artist.draw(view, self._own_turns, (0, 0, *part.cell[2:]), number)
        with self._own.access(0, 0), self._picture.access(*keys, timeout=PATIENCE) as view:
            artist.copies += 1
            artist.device.submit(artist.device.record().composite(self._own, view, at=part.cell[:2]))
            self._die_if_asked()

    def _measure(self, number: int) -> None:
        """A picture inside a turn, against one that the engine submits while it owns the surface all the time."""
        turns, draw, box = self._own_turns, self._artist.draw, (0, 0, self._own.width, self._own.height)

        def turn() -> float:
            begin = time.perf_counter()
            with turns.access(0, 0) as view:
                draw(view, turns, box, number)
            return time.perf_counter() - begin

        def own() -> float:
            with turns.access(0, 0) as view:
                begin = time.perf_counter()
                draw(view, turns, box, number)
                self._artist.submit(turns)
                return time.perf_counter() - begin

        end = time.perf_counter() + _MEASURING
        while True:
            for each, samples in ((turn, self._in_turns), (own, self._in_submits)):
                self._artist.device.wait_idle(10.0)
                samples.append(each())
            if time.perf_counter() >= end:
                return

    def _extra(self) -> tuple[float, float] | None:
        """Seconds that a turn takes over the engine's own submit, and how far off that may be; None: of too few."""
        samples = [*zip(self._in_turns, self._in_submits, strict=False)]  # one may be without its partner
        if len(samples) < _QUARTERS * _FEWEST:
            return None
        quarters = [_over(samples[first::_QUARTERS]) for first in range(_QUARTERS)]
        return _over(samples), (max(quarters) - min(quarters)) / 2


def _over(samples: list[tuple[float, float]]) -> float:
    """By the fastest: where processes are more than cores, the others were interrupted."""
    turns, submits = zip(*samples, strict=True)
    return float(min(turns) - min(submits))
