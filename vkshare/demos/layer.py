"""Text that is drawn on an image of its own, uploaded and composited: for surfaces that Pillow cannot draw on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from vkshare import CommandList, Device, Surface, View
from vkshare.demos.layout import Rect
from vkshare.util.closing import Scoped

_RATE_OVER = 30  # frames


class Layer(Scoped):
    """A transparent image for one rectangle of the frame."""

    def __init__(self, device: Device, area: Rect) -> None:
        self._device = device
        self._at = area[:2]
        self._surface = device.create_surface(*area[2:], "rgba8unorm")
        self._surface.acquire(0)

    def upload(self, draw: Callable[..., None], *arguments: Any) -> None:
        """Call ``draw(image, *arguments)`` on an image of the rectangle's size. Waits for work that reads the layer."""
        image = Image.new("RGBA", (self._surface.width, self._surface.height))
        draw(image, *arguments)
        self._surface.write(np.asarray(image))

    def record(self, commands: CommandList, target: Surface | View) -> None:
        """Puts it over the target."""
        commands.composite(self._surface, target, at=self._at, alpha="straight")

    def draw(self, target: Surface | View, draw: Callable[..., None], *arguments: Any) -> None:
        """Both at once."""
        self.upload(draw, *arguments)
        commands = self._device.record()
        self.record(commands, target)
        self._device.submit(commands)

    def close(self) -> None:
        """Idempotent."""
        self._surface.close()


class Clock:
    """Seconds since the first tick, and ticks a second lately."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._recent: deque[float] = deque(maxlen=_RATE_OVER + 1)

    def tick(self) -> tuple[float, float]:
        now = time.monotonic()
        self._start = now if self._start is None else self._start
        self._recent.append(now)
        span = now - self._recent[0]
        return now - self._start, (len(self._recent) - 1) / span if span > 0 else 0.0
