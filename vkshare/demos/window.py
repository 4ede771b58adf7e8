"""The scene of the shared demo in a window: it is laid out anew for each size that the window keeps."""

from __future__ import annotations

import time

import vkshare
from vkshare.demos.frame_times import FrameTimes, Graph
from vkshare.demos.layout import SMALLEST, Layout
from vkshare.demos.lettering import Clock, Facts, Layer, Lettering
from vkshare.demos.painter import Painter
from vkshare.demos.stage import Stage
from vkshare.util.closing import Scoped

_TURN = 8.0  # seconds of the cube's revolution
_SETTLED = 0.1  # seconds that a size must stay: laying out takes several frames' time, so until then it is stretched
_LAYERS = 2  # of the live text: one is written while a frame still reads the other


class Show(Scoped):
    """Draws frames of whatever size comes. Owns surfaces: close() it before the device."""

    def __init__(self, stage: Stage, frames: int | None) -> None:
        self._device = stage.device
        self._format = stage.swapchain.format
        self._facts = facts(stage, frames)
        self._clock = Clock()
        self._times = FrameTimes()
        self._picture: Picture | None = None
        self._size = (0, 0)  # the last frame's
        self._since = 0.0  # seconds of time.monotonic() when it came

    def draw(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """One frame of it: for Stage.play()."""
        if frame.is_hidden:
            return
        self._times.tick()
        _, rate = self._clock.tick()
        size = max(frame.width, SMALLEST[0]), max(frame.height, SMALLEST[1])
        self._picture_of(size).draw(frame, number, seconds, rate, self._times)

    def _picture_of(self, size: tuple[int, int]) -> Picture:
        """The one for that size, or while sizes come and go, the one that there is."""
        now = time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        if self._picture is not None and self._picture.size != size and now - self._since >= _SETTLED:
            self.close()
        if self._picture is None:
            self._picture = Picture(self._device, size, self._format, self._facts)
        return self._picture

    def close(self) -> None:
        """Idempotent."""
        if self._picture is not None:
            self._picture.close()
        self._picture = None


class Picture:
    """The scene, its text and the graph, laid out for one size. Frames of another one are scaled."""

    def __init__(self, device: vkshare.Device, size: tuple[int, int], format: str, facts: Facts) -> None:
        self.size = size
        self._device = device
        self._format = format
        layout = Layout(*size)
        self._painter = Painter(device, layout, format=format)
        with Layer(device, layout.text_area) as fixed:
            fixed.draw(self._painter.backdrop, Lettering(layout, facts).draw_fixed)
        self._lettering = Lettering(layout, facts, layout.live_area[:2])
        self._live = [Layer(device, layout.live_area) for _ in range(_LAYERS)]
        self._graph = Graph(device, layout)
        self._apart: vkshare.Surface | None = None  # what is scaled is drawn there first

    def draw(self, frame: vkshare.Frame, number: int, seconds: float, rate: float, times: FrameTimes) -> None:
        """All of a frame, submitted."""
        live = self._live[number % _LAYERS]
        live.upload(self._lettering.draw_live, number, seconds, rate)
        is_apart = (frame.width, frame.height) != self.size
        target = self._surface_apart() if is_apart else frame.view
        commands = self._painter.record(target, number, seconds / _TURN % 1)
        live.record(commands, target)
        self._graph.record(commands, target, times)
        if is_apart:
            commands.blit(target, frame.view)
        self._device.submit(commands)

    def _surface_apart(self) -> vkshare.Surface:
        if self._apart is None:
            self._apart = self._device.create_surface(*self.size, self._format)
            self._apart.acquire(0)
        return self._apart

    def close(self) -> None:
        """Idempotent."""
        for each in (self._painter, *self._live, self._graph, self._apart):
            if each is not None:
                each.close()


def facts(stage: Stage, frames: int | None) -> Facts:
    """Return the caption about the presentation."""
    swapchain = stage.swapchain
    by = "present fences" if swapchain.statistics().by_fences else "the acquire history"
    proof = f"retired by {by}" if stage.device.backend == "vulkan" else "no Vulkan below"
    mine = f"{swapchain.present_mode}, {swapchain.image_count} images, {proof}"
    ending = ("Esc", "ends it") if stage.window is not None else ("end", f"after {frames} frames")
    where = "in a window" if stage.window is not None else "not shown"
    return Facts(
        stage.device.adapter.name,
        frames,
        f"One scene, {where}.",
        (("draw", "the device's own commands"), ("show", mine), ending),
    )
