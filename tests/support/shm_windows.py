"""A pytest plugin for CPU surfaces on X11 windows: a server, its windows' owner, and memory as surfaces have it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from support import private_displays
from support.private_displays import XDisplay
from vkshare.window.shm_segment import Segment, Token
from vkshare.window.shm_window import ShmWindow

only_on_cpu = pytest.mark.skipif(
    os.environ.get("VKSHARE_TEST_DRIVER", "cpu") != "cpu", reason="only the CPU backend shows surfaces this way"
)
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
BACKGROUND = (0x33, 0x22, 0x11, 255)  # of the windows made here, as RGBA


@pytest.fixture(scope="module")
def server() -> Iterator[XDisplay]:
    """Without a window manager: a window is where and as large as it was made."""
    with private_displays.xvfb(400, 300, window_manager=False) as display:
        display.screen()  # keeps an fd from then on, which tests that count must have seen
        yield display


class Client:
    """The party that owns the windows."""

    def __init__(self, display: XDisplay) -> None:
        import xcffib.xproto

        self.display = display
        connection: Any = xcffib.connect(display=display.name)
        self.connection = connection
        self.core: Any = connection.core
        self.screen: Any = connection.setup.roots[0]

    def window(self, width: int = 120, height: int = 80, *, mapped: bool = True, kind: int = 1) -> int:
        """Its XID; mapped at the screen's top left corner."""
        mask, values = (2, [0x332211]) if kind == 1 else (0, [])
        depth, visual = (24, self.screen.root_visual) if kind == 1 else (0, 0)
        window: int = self.connection.generate_id()
        self.core.CreateWindow(
            depth, window, self.screen.root, 0, 0, width, height, 0, kind, visual, mask, values, is_checked=True
        ).check()
        if mapped:
            self.core.MapWindow(window, is_checked=True).check()
        return window

    def send(self, window: int, event: Any) -> None:
        self.core.SendEvent(False, window, 1 << 17, event.pack(), is_checked=True).check()


@pytest.fixture
def client(server: XDisplay) -> Iterator[Client]:
    """A client whose windows go with the test."""
    made = Client(server)
    yield made
    made.connection.disconnect()


class Memory:
    """A sealed memfd with a random picture in it, as a surface's is."""

    def __init__(self, width: int, height: int, stride: int | None = None) -> None:
        self.width, self.height, self.stride = width, height, stride or width * 4
        self.size = self.stride * height
        self.fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
        with os.fdopen(os.dup(self.fd), "r+b") as file:
            self.pixels = np.memmap(file, np.uint8, "r+", shape=(height, self.stride))
        self.pixels[...] = np.random.default_rng(width).integers(0, 256, self.pixels.shape, np.uint8)

    def rgba(self, width: int, height: int, format: str = "bgra8unorm") -> np.ndarray:
        """The picture as the screen must show it."""
        picture = np.array(self.pixels[:height, : width * 4]).reshape(height, width, 4)
        if format == "bgra8unorm":
            picture = picture[..., [2, 1, 0, 3]]
        picture[..., 3] = 255
        return picture

    def show(self, window: ShmWindow, segment: Segment, format: str = "bgra8unorm") -> Token:
        return window.show(segment, self.width, self.height, self.stride, format)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@pytest.fixture
def memory() -> Iterator[Callable[..., Memory]]:
    made: list[Memory] = []

    def make(*arguments: int) -> Memory:
        made.append(Memory(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=[None, False], ids=["shared", "copied"])
def shared(request: pytest.FixtureRequest) -> bool | None:
    """Whether the server reads the memory, or is sent the pixels as a remote one would be."""
    return request.param


def settle(window: ShmWindow, token: Token) -> None:
    """Until the picture is on the screen: pixels that are sent are read before they are drawn."""
    window.wait(token, 5)
    window.geometry()


@contextlib.contextmanager
def stopped(display: XDisplay) -> Iterator[None]:
    """The X server answers nothing meanwhile."""
    os.kill(display.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(display.pid, signal.SIGCONT)
