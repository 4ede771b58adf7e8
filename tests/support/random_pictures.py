"""Random pictures drawn with vkshare, and what they look like: for tests that look at screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from support.display_servers import wait_for
from vkshare.testing import assert_images_equal

if TYPE_CHECKING:
    import vkshare as vks


def paint(frame: Any, seed: int) -> np.ndarray:
    """Draws opaque rectangles of random bytes into a frame; returns what it then looks like, as (H, W, 4) RGBA."""
    device, width, height = frame.swapchain.device, frame.width, frame.height
    random = np.random.default_rng(seed)
    picture = np.empty((height, width, 4), np.uint8)
    commands = device.record().clear(frame.view, _fill(picture, random))
    for _ in range(8):
        left, right = sorted(int(x) for x in random.integers(0, width + 1, 2))
        top, bottom = sorted(int(y) for y in random.integers(0, height + 1, 2))
        if left == right or top == bottom:
            continue
        part = picture[top:bottom, left:right]
        commands.fill_rect(frame.view, (left, top, right - left, bottom - top), _fill(part, random))
    device.submit(commands)
    return picture


def show(swapchain: vks.Swapchain, seed: int) -> np.ndarray:
    """One frame with such a picture, presented."""
    with swapchain.frame(timeout=30) as frame:
        return paint(frame, seed)


def assert_on_screen(read: Callable[[], np.ndarray], expected: np.ndarray, timeout: float = 20) -> None:
    """Waits until the screen shows the picture, bit for bit; a picture that stays another one is compared."""
    seen: list[np.ndarray] = []

    def is_there() -> bool:
        seen[:] = [read()]
        return seen[0].shape == expected.shape and bool((seen[0] == expected).all())

    try:
        wait_for(is_there, "the picture is on the screen", timeout)
    except AssertionError:
        assert_images_equal(seen[0], expected)
        raise


def as_rgba(pixels: np.ndarray, format: str) -> np.ndarray:
    """What Swapchain.capture() gives, with the channels in the order of a screen's picture."""
    assert format in ("bgra8unorm", "rgba8unorm"), format
    return pixels[:, :, [2, 1, 0, 3]] if format.startswith("bgra") else pixels


def _fill(part: np.ndarray, random: np.random.Generator) -> tuple[float, ...]:
    red, green, blue = (int(value) for value in random.integers(0, 256, 3))
    part[:] = (red, green, blue, 255)
    return red / 255, green / 255, blue / 255, 1.0
