"""What programs of window tests begin with, each run in a process of its own: a device, and the layer's verdict.

PROGRAM = START + '''
    with opened() as device, vks.Window(64, 48, "mine") as window:
        ...
'''
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import vkshare as vks
from support.random_pictures import as_rgba, assert_on_screen, paint, show
from support.time_limits import HANG
from support.tree_paths import TESTS
from support.wayland_display import WaylandScreen
from vkshare.testing.validation import Collector

__all__ = [
    "WaylandScreen", "as_rgba", "assert_on_screen", "fences", "opened", "os", "paint", "seen", "show", "sys",
    "tell", "time", "until_lost", "vks", "wait_until",
]  # fmt: skip

# The tests' folder is where `support` is.
START = f"""
    import sys
    sys.path.insert(0, {str(TESTS)!r})
    from support.window_child import *
"""
fences = None if os.environ.get("VKSHARE_TEST_POLICY", "best") == "best" else False  # the argument present_fences


@contextlib.contextmanager
def opened(**options: Any) -> Iterator[vks.Device]:
    """A device of this run's driver; AssertionError if the validation layer said anything."""
    collector = None
    if os.environ.get("VKSHARE_BACKEND") != "cpu":
        from vkshare.backends import vulkan

        collector = Collector(vulkan.validation_layer_version() or "")
        vulkan.add_message_sink(collector)
    with vks.open(**options) as device:
        yield device
    messages = collector.take() if collector is not None else []
    assert not messages, "\n".join(map(str, messages[:20]))


def tell(*words: object) -> None:
    print(*words, flush=True)


def wait_until(condition: Callable[[], object], what: str, timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(0.005)


def seen(display: str, window: int, picture: np.ndarray, timeout: float = 20) -> None:
    """The X window shows the picture, as another client of its server sees it. AssertionError: not within `timeout`."""
    import xcffib
    import xcffib.xproto as x

    client: Any = xcffib.connect(display=display)
    height, width = picture.shape[:2]

    def read() -> np.ndarray:
        try:
            got = client.core.GetImage(x.ImageFormat.ZPixmap, window, 0, 0, width, height, 0xFFFFFFFF).reply()
        except x.MatchError:  # the window is not mapped yet
            return np.zeros_like(picture)
        rgba = np.frombuffer(got.data.buf(), np.uint8).reshape(height, width, 4)[:, :, [2, 1, 0, 3]]
        rgba[:, :, 3] = 255
        return rgba

    try:
        assert_on_screen(read, picture, timeout)
    finally:
        client.disconnect()


def until_lost(call: Callable[[], object]) -> None:
    """Calls until SurfaceLostError, and nothing else, is raised."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        try:
            call()
        except vks.SurfaceLostError:
            return
        time.sleep(0.002)
    raise AssertionError("the loss was not noticed")
