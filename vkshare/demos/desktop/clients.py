"""The desktop's clients: each a process of its own, started by run.py with what it needs on its command line."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from PIL import Image

import vkshare
from vkshare.compositor import Desktop
from vkshare.demos import marks, process
from vkshare.demos.desktop import pictures
from vkshare.demos.desktop.pictures import canvas, number_on
from vkshare.demos.desktop.places import DRIFT, NAMES, Desk, Picture
from vkshare.demos.painter import Painter
from vkshare.errors import ClosedError, RemoteLostError

_TURN = 8.0  # seconds of the cube's revolution
_SLOW = 0.5  # seconds that the slow one takes for a frame
_LEG = 2.5  # seconds that the drifter takes from one place to the next


_Record = Callable[[vkshare.Surface, int, float], vkshare.CommandList]  # its arguments: where, number, seconds


@dataclass(frozen=True)
class Guest:
    """The arguments of a client process, and the common part of the programs below."""

    name: str
    path: str  # of the compositor's socket
    adapter: str  # the compositor's, its UUID in hex
    place: tuple[int, int, int, int]  # pixels
    desk: tuple[int, int]  # pixels
    crash_after: float  # seconds

    @property
    def number(self) -> int:
        return NAMES.index(self.name)

    @property
    def layout(self) -> Picture:
        return Picture(*self.place[2:])

    def device(self) -> vkshare.Device:
        """On the compositor's adapter."""
        return vkshare.open(bytes.fromhex(self.adapter), name=self.name)

    def desktop(self, device: vkshare.Device) -> Desktop:
        return Desktop(self.path, name=self.name, device=device)

    def window(self, desktop: Desktop, says: str, is_opaque: bool = True) -> Any:
        """Opens it in its place. `says`: what stands beside its name."""
        x, y, width, height = self.place
        return desktop.open_window(width, height, title=f"{self.name}: {says}"[:64], at=(x, y), is_opaque=is_opaque)

    def drawn(self, says: str, draw: Callable[[Image.Image, int, float], None], every: int = 1) -> None:
        """Draws with Pillow, in the frames' own memory, at each tick or at every second, third ... one."""
        with self.device() as device, self.desktop(device) as desktop:
            window = self.window(desktop, says)
            for number, seconds in frames(window, every):
                with window.frame() as frame, canvas(frame.view) as image:
                    draw(image, number, seconds)
                    number_on(image, self.layout, number, self.number)

    def rendered(self, device: vkshare.Device, window: Any, record: _Record) -> None:
        """Draws with the device's commands, at each tick.

        On a surface of its own first: edges are blended, which not every driver does in images that
        are shared.
        """
        with device.create_surface(*self.place[2:]) as scene:
            scene.acquire()
            for number, seconds in frames(window):
                commands = record(scene, number, seconds)
                with window.frame() as frame:
                    device.submit(commands.copy(scene, frame.surface))


def frames(window: Any, every: int = 1) -> Iterator[tuple[int, float]]:
    """(number, seconds since the first) at ticks, until the window is closed."""
    numbers, start = itertools.count(), time.monotonic()
    for count, _ in enumerate(window.ticks()):
        if count % every == 0:
            yield next(numbers), time.monotonic() - start


# ---- the eight -----------------------------------------------------------------------------------------------------


def cube(guest: Guest) -> None:
    """The demos' scene, by the commands of the compositor's own kind of device."""
    with guest.device() as device, guest.desktop(device) as desktop, Painter(device, guest.layout) as painter:
        window = guest.window(desktop, f"drawn by {device.adapter.name}")
        guest.rendered(device, window, lambda scene, number, at: painter.record(scene, number, at / _TURN % 1))


def ribbons(guest: Guest) -> None:
    """A renderer on the CPU backend, whose memory the compositor's device takes as it is; not every one does."""
    with vkshare.open(backend="cpu", name=guest.name) as device, guest.desktop(device) as desktop:
        window = guest.window(desktop, "drawn by the CPU backend")
        _ribbons(guest, device, window)
        if not window.end.startswith("it could not be opened"):
            return
    with guest.device() as device, guest.desktop(device) as desktop:
        _ribbons(guest, device, guest.window(desktop, "the compositor cannot open memory of the CPU"))


def _ribbons(guest: Guest, device: vkshare.Device, window: Any) -> None:
    def record(scene: vkshare.Surface, number: int, seconds: float) -> vkshare.CommandList:
        commands = device.record().clear(scene, pictures.NIGHT)
        commands.draw_triangles(scene, pictures.ribbons(seconds))
        return marks.fill(commands, scene, guest.layout, marks.code(number, guest.number))

    guest.rendered(device, window, record)


def clock(guest: Guest) -> None:
    """Text by a 2D library."""
    guest.drawn("text by Pillow", pictures.clock, every=2)


def tensor(guest: Guest) -> None:
    """A tensor of PyTorch's over the frame's memory; an array of NumPy's where there is no PyTorch."""
    library: Any = np
    says = "NumPy, as torch is not installed"
    with contextlib.suppress(ImportError, OSError):
        import torch

        library = torch
        says = f"PyTorch {torch.__version__}"
    waves = pictures.Waves(library, guest.layout.width, guest.layout.height)
    guest.drawn(says, lambda image, number, seconds: image.paste(Image.fromarray(waves.at(seconds))), every=2)


def bars(guest: Guest) -> None:
    """One surface, which changes hands by its keyed mutex: 0 to draw, 1 to be shown."""
    x, y, width, height = guest.place
    with guest.device() as device, device.create_surface(width, height) as surface, guest.desktop(device) as desktop:
        window = desktop.show(
            surface, acquire=1, release=0, title=f"{guest.name}: one surface, by its keys", at=(x, y), is_opaque=True
        )
        for number, seconds in frames(window, every=2):
            # A minimised window gives none back.
            with contextlib.suppress(vkshare.AcquireTimeout), surface.access(0, 1, timeout=1) as view:
                commands = device.record().clear(view, pictures.NIGHT)
                for rect, colour in pictures.bars(width, height, seconds):
                    commands.fill_rect(view, rect, colour)
                device.submit(marks.fill(commands, view, guest.layout, marks.code(number, guest.number)))


def drifter(guest: Guest) -> None:
    """Moves and fades, by the compositor's clock: it says where to, and how long that shall take."""
    desk = Desk(*guest.desk)
    places = itertools.cycle(DRIFT[1:] + DRIFT[:1])
    with guest.device() as device, guest.desktop(device) as desktop:
        window = guest.window(desktop, "moves and fades", is_opaque=False)
        leg = -1
        for number, seconds in frames(window, every=6):
            if seconds // _LEG > leg:
                leg = int(seconds // _LEG)
                window.raise_to_top()
                # It is on its way until the next leg begins: each tick has something to composite.
                window.move(*desk.point(*next(places)), seconds=_LEG * 1.4)
                window.fade(0.65 if leg % 2 else 1.0, seconds=_LEG * 0.5)
            with window.frame() as frame, canvas(frame.view) as image:
                pictures.card(image, number, seconds)
                number_on(image, guest.layout, number, guest.number)


def slow(guest: Guest) -> None:
    """Takes half a second for a frame, which it holds all that time."""

    def draw(image: Image.Image, number: int, seconds: float) -> None:
        time.sleep(_SLOW)
        pictures.slow(image, number)

    guest.drawn(f"takes {_SLOW} s for a frame", draw)


def crash(guest: Guest) -> None:
    """Is killed in the middle of a frame, some seconds after it was started."""
    after = guest.crash_after

    def draw(image: Image.Image, number: int, seconds: float) -> None:
        if seconds >= after:
            os.kill(os.getpid(), signal.SIGKILL)
        pictures.countdown(image, after - seconds, after)

    guest.drawn(f"is killed every {after:g} s", draw, every=3)


# ---- the process ---------------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """The process; exit status 0 when the compositor closed the window, or is gone."""
    process.serve(Guest, _work)


def _work(guest: Guest, status: int) -> None:
    program: Callable[[Guest], None] = globals()[guest.name]
    with contextlib.suppress(ClosedError, RemoteLostError, ConnectionError):
        program(guest)
