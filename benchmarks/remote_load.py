"""Contents that remoting is measured with, and processes at a link."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import vkshare
from vkshare.demos.desktop.pictures import bars
from vkshare.testing.link import LinkProxy
from vkshare.util.closing import Scoped

TOKEN = "a token of the benchmark"
SIZE = (1280, 720)  # pixels
RATE = 60  # frames a second
_SPRITES, _SPRITE = 20, 64  # number, and pixels a side
_NIGHT = (0.063, 0.055, 0.157, 1.0)
_PAGE = os.sysconf("SC_PAGE_SIZE")

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


# ---- contents --------------------------------------------------------------------------------------------------------


class Sprites(Scoped):
    """Soft discs that move over a gradient, as a user interface or a game has them: composites of surfaces."""

    name = f"{_SPRITES} composites"

    def __init__(self, device: vkshare.Device) -> None:
        self._device = device
        self._behind = device.create_surface(*SIZE)
        self._behind.acquire()
        self._behind.write(_gradient())
        self._sprite = device.create_surface(_SPRITE, _SPRITE)
        self._sprite.acquire()
        self._sprite.write(_disc())

    def record(self, target: vkshare.View, number: int) -> vkshare.CommandList:
        """The commands of a frame."""
        commands = self._device.record().composite(self._behind, target)
        for sprite in range(_SPRITES):
            turn = number / 90 + sprite
            x = (SIZE[0] - _SPRITE) * (0.5 + 0.5 * math.sin(turn * (1 + sprite / 40)))
            y = (SIZE[1] - _SPRITE) * (0.5 + 0.5 * math.cos(turn * (1.3 - sprite / 50)))
            commands.composite(self._sprite, target, (round(x), round(y)))
        return commands

    def close(self) -> None:
        """Idempotent."""
        self._behind.close()
        self._sprite.close()


class Bars(Scoped):
    """Rectangles of one colour each that grow and shrink."""

    name = "24 rectangles"

    def __init__(self, device: vkshare.Device) -> None:
        self._device = device

    def record(self, target: vkshare.View, number: int) -> vkshare.CommandList:
        """The commands of a frame."""
        commands = self._device.record().clear(target, _NIGHT)
        for rect, colour in bars(*SIZE, number / RATE):
            commands.fill_rect(target, rect, colour)
        return commands

    def close(self) -> None:
        """Does nothing."""


CONTENTS: tuple[Callable[[vkshare.Device], Sprites | Bars], ...] = (Sprites, Bars)


def _gradient() -> Pixels:
    y, x = np.mgrid[0 : SIZE[1], 0 : SIZE[0]].astype(np.float32)
    picture = np.empty((SIZE[1], SIZE[0], 4), np.uint8)
    picture[..., 0], picture[..., 1], picture[..., 2] = 40 + x / 20, 30 + y / 10, 90 + (x + y) / 20
    picture[..., 3] = 255
    return picture


def _disc() -> Pixels:
    y, x = np.mgrid[0:_SPRITE, 0:_SPRITE].astype(np.float32) - (_SPRITE - 1) / 2
    away = np.hypot(x, y)
    alpha = np.clip(_SPRITE / 2 - 1 - away, 0, 1)
    shine = 255 - 4 * away
    colours = np.stack([shine, 0.7 * shine, 0.4 * shine, np.full_like(shine, 255)], axis=-1)
    disc: Pixels = (colours * alpha[..., None]).clip(0, 255).astype(np.uint8)
    return disc


def photo(width: int, height: int, seed: int) -> Pixels:
    """Something like a photograph: smooth shapes and a sensor's noise, (H, W, 4) uint8."""
    random = np.random.default_rng(seed)
    coarse = random.random((height // 32 + 2, width // 32 + 2, 3)) * 220
    rows, columns = (
        np.linspace(0, each - 1.001, size) for each, size in zip(coarse.shape, (height, width), strict=False)
    )
    top, left = rows.astype(int), columns.astype(int)
    down, right = (rows - top)[:, None, None], (columns - left)[None, :, None]
    upper = coarse[top][:, left] * (1 - right) + coarse[top][:, left + 1] * right
    lower = coarse[top + 1][:, left] * (1 - right) + coarse[top + 1][:, left + 1] * right
    smooth = upper * (1 - down) + lower * down + random.normal(0, 2, (height, width, 3))
    picture = np.full((height, width, 4), 255, np.uint8)
    picture[..., :3] = smooth.clip(0, 255)
    return picture


def show(device: vkshare.Device, target: Any, content: Any, is_over: Callable[[], bool]) -> int:
    """Presents the content's frames at 60 Hz until it is over; returns their number."""
    number, start = 0, time.monotonic()
    with device.create_swapchain(target, present_mode="fifo") as swapchain:
        while not is_over():
            with swapchain.frame(timeout=30) as frame:
                device.submit(content.record(frame.view, number))
            number += 1
            time.sleep(max(0.0, start + number / RATE - time.monotonic()))
    return number


def after(seconds: float) -> Callable[[], bool]:
    """Returns a function that says whether so much time has passed since this call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def window_main(pipe: Connection, display: str, content: int) -> None:
    """A process that shows a content in a window of an X server until the pipe ends. It says when it begins."""
    os.environ["DISPLAY"] = display
    with (
        vkshare.open(backend="cpu", name="bench") as device,
        vkshare.Window(*SIZE, "bench") as window,
        CONTENTS[content](device) as drawn,
    ):
        pipe.send("ready")
        show(device, window, drawn, pipe.poll)


# ---- ends ------------------------------------------------------------------------------------------------------------


class Ends(Scoped):
    """A host and a viewer in this process, behind a network if `link` describes one."""

    def __init__(self, **link: Any) -> None:
        with contextlib.ExitStack() as made:
            self.host = made.enter_context(vkshare.remote.Host("127.0.0.1:0", token=TOKEN))
            address = self.host.address
            if link:
                address = made.enter_context(LinkProxy(address, seed=1, **link)).address
            device = made.enter_context(vkshare.open(backend="cpu", name="viewer", held_limit=1 << 20))
            viewer = vkshare.remote.Viewer(address, token=TOKEN, device=device, headless=True)
            self.viewer = made.enter_context(viewer)
            showing = threading.Thread(target=viewer.run)
            showing.start()
            made.callback(showing.join)
            made.callback(viewer.stop)
            self._made = made.pop_all()

    def sent(self, device: vkshare.Device) -> int:
        """Bytes to the viewer, once it has all that the device has submitted."""
        device.wait_idle(60)
        self.host._listener.link.flush(60)
        time.sleep(0.1)  # the last frame's bytes are counted in the link's next turn
        return self.host.statistics().bytes_sent

    def close(self) -> None:
        """Idempotent."""
        self._made.close()


def host_main(pipe: Connection) -> None:
    """A process with a host. It says the address and the path, and ends with the pipe."""
    with vkshare.remote.Host("127.0.0.1:0", token=TOKEN) as host:
        pipe.send((host.address, os.fspath(host.path)))
        pipe.recv()


def viewer_main(pipe: Connection, address: str) -> None:
    """A process with a viewer."""
    with (
        vkshare.open(backend="cpu", name="viewer", held_limit=1 << 20) as device,
        vkshare.remote.Viewer(address, token=TOKEN, device=device, headless=True) as viewer,
    ):
        showing = threading.Thread(target=viewer.run, daemon=True)
        showing.start()
        pipe.send("ready")
        with contextlib.suppress(EOFError):
            pipe.recv()
        viewer.stop()
        showing.join()


def program_main(pipe: Connection, path: str) -> None:
    """A process that draws at 60 Hz, and writes more pixels than a slow link carries. It says both counts."""
    os.environ["VKSHARE_REMOTE"] = path
    with (
        vkshare.open(name="bench") as device,
        Bars(device) as drawn,
        vkshare.open(name="pictures") as writer,
        writer.create_surface(256, 256) as surface,
    ):
        target = vkshare.Window(*SIZE, "bench")
        stopping = threading.Event()
        counts = [0, 0]

        def write() -> None:
            while not stopping.is_set():
                with surface.access() as _:
                    surface.write(photo(256, 256, counts[1]))
                writer.wait_idle(60)
                counts[1] += 1

        writing = threading.Thread(target=write)
        writing.start()
        counts[0] = show(device, target, drawn, pipe.poll)
        stopping.set()
        writing.join()
        pipe.send(tuple(counts))


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


@contextlib.contextmanager
def quiet_environment() -> Iterator[None]:
    """Without the host of a program that has started this one, and without a device that was chosen for it."""
    names = ("VKSHARE_REMOTE", "VKSHARE_BACKEND", "VKSHARE_ADAPTER")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
