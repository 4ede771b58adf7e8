"""The second process: writes live text over each frame with Pillow, into the surface's own memory where it can."""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack
from typing import Any

import numpy as np
from PIL import Image

import vkshare
from vkshare.demos import peers
from vkshare.demos.canvas import image_over
from vkshare.demos.layout import Layout
from vkshare.demos.lettering import Facts, Lettering
from vkshare.demos.party import PATIENCE, Party, listening

_RATE_OVER = 30  # frames


def run(party: Party) -> dict[str, Any]:
    """Writes all frames; returns what the report tells of this process."""
    options = party.options
    layout = Layout(options.width, options.height)
    with ExitStack() as stack:
        device, surface = stack.enter_context(peers.opened(party.links[0], "demo text"))
        copies = options.force_copy or not surface.is_host_visible
        lettering = Lettering(layout, Facts(device.adapter.name, options.frames, copies))
        layer = stack.enter_context(Layer(device, layout)) if copies else None
        clock = Clock()
        for frame in range(options.frames):
            with party.turn(surface, frame) as view:
                seconds, rate = clock.tick()
                if layer is None:
                    lettering.draw(image_over(view), frame, seconds, rate)
                else:
                    layer.draw(view, lettering, frame, seconds, rate)
        with listening():
            device.wait_idle(PATIENCE)  # closing the layer would cancel what still waits for the renderer's work
        return {"copied": device.statistics().copied_bytes, "copies": copies}


class Layer:
    """Where the surface's memory cannot be mapped: text on a transparent image, uploaded and composited."""

    def __init__(self, device: vkshare.Device, layout: Layout) -> None:
        _, _, width, height = layout.text_area
        self._device = device
        self._size = width, height
        self._surface = device.create_surface(width, height, "rgba8unorm")
        self._surface.acquire(0)

    def draw(self, view: vkshare.View, lettering: Lettering, frame: int, seconds: float, rate: float) -> None:
        """Over the view's frame."""
        image = Image.new("RGBA", self._size)
        lettering.draw(image, frame, seconds, rate)
        self._surface.write(np.asarray(image.convert("RGBa")))  # premultiplied, as composite() wants it
        self._device.submit(self._device.record().composite(self._surface, view))

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *exc_info: object) -> None:
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
