"""Compares pictures of a viewer with those of a local run, by SHA-256.

Eight clients and a compositor draw pictures that depend on the frame's number alone, at the viewer and on a
device of this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

import vkshare
from vkshare.demos import marks
from vkshare.demos.desktop import pictures
from vkshare.demos.desktop.pictures import canvas, number_on
from vkshare.demos.desktop.places import NAMES, Picture
from vkshare.demos.painter import Painter

TITLE = "pictures by number"
FRAMES = 24
SIZE = (640, 360)  # pixels of the whole picture: 4 by 2 clients
_EACH = (160, 180)
_UPLOADED = 8  # pixels are sent with each eighth frame, since three are on their way at most
_RATE = 60.0  # frames a second that the pictures move for
_PATIENCE = 60.0  # seconds
_SLICE = 0.2  # seconds between looks whether the compositor has stopped

_Draw = Callable[[vkshare.View, int], None]  # its arguments: where, number
_Open = Callable[[str], vkshare.Device]


@dataclass(frozen=True, slots=True)
class Equality:
    """The result.

    Attributes
    ----------
    frames, shown, equal
        Frames that were presented, pictures that the viewer showed, and those of them that are a local run's, in order.
    """

    frames: int
    shown: int
    equal: int

    @property
    def fault(self) -> str:
        """A sentence; empty: there is none."""
        if not self.shown:
            return "the viewer showed none of the pictures by number"
        if self.equal < self.shown:
            return f"{self.shown - self.equal} of {self.shown} pictures of the viewer differ from a local run's"
        return ""


def compared(local: list[str], shown: list[str]) -> Equality:
    """Compares the digests of all frames of a local run with those of the pictures that a viewer showed."""
    equal, last = 0, -1
    for digest in shown:
        try:
            last = local.index(digest, last + 1)  # a frame is shown once, after the frames before it
        except ValueError:
            continue
        equal += 1
    return Equality(len(local), len(shown), equal)


def run(open_device: _Open, target: Any, frames: int, each: Callable[[vkshare.Swapchain], object]) -> None:
    """Draws the frames with devices of the function's, at that target. Calls each(swapchain) after each frame."""
    with ExitStack() as opened:
        device = opened.enter_context(open_device("pictures by number"))
        swapchain = opened.enter_context(device.create_swapchain(target, present_mode="fifo"))
        clients = [_Client(opened, open_device(name), index) for index, name in enumerate(NAMES)]
        sources = [opened.enter_context(client.opened_by(device)) for client in clients]
        threads = [threading.Thread(target=client.run, args=(frames,)) for client in clients]
        for thread in threads:
            thread.start()
        try:
            for number in range(frames):
                _compose(device, swapchain, sources, number)
                each(swapchain)
        finally:
            for client in clients:
                client.stop()
            for thread in threads:
                thread.join()
            for client in clients:
                client.check()


def _compose(device: vkshare.Device, swapchain: vkshare.Swapchain, sources: list[vkshare.Surface], number: int) -> None:
    with ExitStack() as held, swapchain.frame(timeout=_PATIENCE) as frame:
        commands = device.record().clear(frame.view, pictures.NIGHT)
        for index, source in enumerate(sources):
            view = held.enter_context(source.access(2 * number + 1, 2 * number + 2, timeout=_PATIENCE))
            at = index % 4 * _EACH[0], index // 4 * _EACH[1]
            commands.composite(view, frame.view, at, opacity=1 - index / 32)
        device.submit(commands)


class _Client:
    """One client: a device, and a surface that it draws with the key 2n and hands on with 2n + 1."""

    def __init__(self, opened: ExitStack, device: vkshare.Device, index: int) -> None:
        self._device = opened.enter_context(device)
        self._index = index
        self._surface = opened.enter_context(device.create_surface(*_EACH))
        self._is_stopping = False
        self._error: Exception | None = None
        layout = Picture(*_EACH)
        self._draw: _Draw
        if index == 0:
            painter = opened.enter_context(Painter(device, layout))
            scene = opened.enter_context(device.create_surface(*_EACH))
            scene.acquire()
            self._draw = lambda view, number: self._paint(painter, scene, view, number)
        else:
            self._draw = {1: self._ribbons, 4: self._bars}.get(index, self._pillow)
        self._waves = pictures.Waves(np, *_EACH) if index == 3 else None
        self._layout = layout

    def opened_by(self, device: vkshare.Device) -> vkshare.Surface:
        """The compositor's handle of the surface."""
        with self._surface.export() as descriptor:
            return device.open_surface(descriptor)

    def run(self, frames: int) -> None:
        """All frames. On a thread of its own; check() raises what it raised."""
        try:
            for number in range(frames):
                with ExitStack() as held:
                    view = self._entered(held, 2 * number)
                    if view is None:
                        return
                    self._draw(view, number)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        """Raises the error of run()."""
        if self._error is not None:
            raise self._error

    def _entered(self, held: ExitStack, key: int) -> vkshare.View | None:
        """The surface, owned; None: the compositor has stopped."""
        while not self._is_stopping:
            with contextlib.suppress(vkshare.AcquireTimeout):
                return held.enter_context(self._surface.access(key, key + 1, timeout=_SLICE))
        return None

    def stop(self) -> None:
        self._is_stopping = True

    # ---- what they draw ------------------------------------------------------------------------------------------

    def _paint(self, painter: Painter, scene: vkshare.Surface, view: vkshare.View, number: int) -> None:
        self._device.submit(painter.record(scene, number, number / 240).copy(scene, view))

    def _ribbons(self, view: vkshare.View, number: int) -> None:
        commands = self._device.record().clear(view, pictures.NIGHT)
        commands.draw_triangles(view, pictures.ribbons(number / _RATE))
        self._device.submit(marks.fill(commands, view, self._layout, marks.code(number, self._index)))

    def _bars(self, view: vkshare.View, number: int) -> None:
        commands = self._device.record().clear(view, pictures.NIGHT)
        for rect, colour in pictures.bars(*_EACH, number / _RATE):
            commands.fill_rect(view, rect, colour)
        self._device.submit(marks.fill(commands, view, self._layout, marks.code(number, self._index)))

    def _pillow(self, view: vkshare.View, number: int) -> None:
        if number % _UPLOADED:
            return
        with canvas(view) as image:
            if self._waves is not None:
                image.paste(Image.fromarray(self._waves.at(number / _RATE)))
            elif self._index == len(NAMES) - 1:
                pictures.card(image, number, number / _RATE)
            elif self._index % 2:
                pictures.slow(image, number)
            else:
                pictures.countdown(image, FRAMES - number, FRAMES)
            number_on(image, self._layout, number, self._index)


# ---- the two runs --------------------------------------------------------------------------------------------------


def local_digests(open_device: _Open, frames: int = FRAMES) -> list[str]:
    """The SHA-256 of each frame, drawn with devices of this machine."""
    found: list[str] = []
    run(
        open_device,
        vkshare.Headless(*SIZE),
        frames,
        lambda swapchain: found.append(hashlib.sha256(swapchain.capture().tobytes()).hexdigest()),
    )
    return found


def show(host: vkshare.remote.Host, frames: int = FRAMES, *, settle: float) -> None:
    """Presents the frames at the host's viewer, and waits until it has shown them, and `settle` seconds more."""
    left = frames

    def last(swapchain: vkshare.Swapchain) -> None:
        nonlocal left
        left -= 1
        if not left:
            swapchain.capture()  # a round trip, on the way of the presents
            time.sleep(settle)

    run(lambda name: host.open(name=name), host.window(*SIZE, TITLE), frames, last)
