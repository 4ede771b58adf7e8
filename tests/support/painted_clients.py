"""Clients of a compositor that are painted by hand, and what is seen of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import vkshare as vks
from support.render_servers import until
from vkshare.errors import InvalidCallError


class Painter:
    """A client with one pipe."""

    def __init__(self, device: vks.Device, width: int, height: int, format: str = "rgba8unorm") -> None:
        self.device = device
        self.sender, self.descriptor = vks.pipe(device, width, height, format)

    def paint(self, colour: tuple[float, ...], waits: Any = ()) -> None:
        with self.sender.frame(timeout=20) as frame:
            self.device.submit(self.device.record().clear(frame.surface, colour), waits=waits)

    def close(self) -> None:
        self.descriptor.close()
        self.sender.close()


def pixel(compositor: vks.compositor.Compositor, x: int, y: int) -> list[int]:
    """RGBA, as it is shown."""
    shown = compositor.capture()
    found: list[int] = shown[y, x].tolist()
    return found if compositor.swapchain.format.startswith("rgba") else [found[i] for i in (2, 1, 0, 3)]


def is_shown(compositor: vks.compositor.Compositor, x: int, y: int, colour: tuple[float, ...]) -> bool:
    wanted = [round(255 * each) for each in colour]
    try:
        return bool(np.all(np.abs(np.subtract(pixel(compositor, x, y), wanted)) <= 1))
    except InvalidCallError:  # nothing was presented, or what was is acquired again
        return False


def shows(compositor: vks.compositor.Compositor, x: int, y: int, colour: tuple[float, ...]) -> None:
    """Waits until it does."""
    until(lambda: is_shown(compositor, x, y, colour))
