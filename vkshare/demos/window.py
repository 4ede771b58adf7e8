"""The scene of the shared demo in a window: it is laid out anew for each size that the window gets."""

from __future__ import annotations

import vkshare
from vkshare.demos.frame_times import FrameTimes, Graph
from vkshare.demos.layer import Clock, Layer
from vkshare.demos.layout import SMALLEST, Layout
from vkshare.demos.lettering import Facts, Lettering
from vkshare.demos.painter import Painter
from vkshare.demos.stage import Stage

_TURN = 8.0  # seconds of the cube's revolution
_LAYERS = 2  # of the live text: one is written while a frame still reads the other


class Show:
    """Draws frames of whatever size comes. Owns surfaces: close() it before the device."""

    def __init__(self, stage: Stage, frames: int | None) -> None:
        self._device = stage.device
        self._format = stage.swapchain.format
        self._facts = facts(stage, frames)
        self._clock = Clock()
        self._times = FrameTimes()
        self._picture: Picture | None = None

    def draw(self, frame: vkshare.Frame, number: int, seconds: float) -> None:
        """One frame of it: for Stage.play()."""
        if frame.is_hidden:
            return
        self._times.tick()
        _, rate = self._clock.tick()
        self._picture_of(frame.width, frame.height).draw(frame.view, number, seconds, rate, self._times)

    def _picture_of(self, width: int, height: int) -> Picture:
        if self._picture is None or self._picture.size != (width, height):
            self.close()
            self._picture = Picture(self._device, (width, height), self._format, self._facts)
        return self._picture

    def close(self) -> None:
        """Idempotent."""
        if self._picture is not None:
            self._picture.close()
        self._picture = None

    def __enter__(self) -> Show:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Picture:
    """The scene, its text and the graph at one size."""

    def __init__(self, device: vkshare.Device, size: tuple[int, int], format: str, facts: Facts) -> None:
        self.size = size
        self._device = device
        layout = Layout(max(size[0], SMALLEST[0]), max(size[1], SMALLEST[1]))
        self._painter = Painter(device, layout, format=format)
        with Layer(device, layout.text_area) as fixed:
            fixed.draw(self._painter.backdrop, Lettering(layout, facts).draw_fixed)
        self._lettering = Lettering(layout, facts, layout.live_area[:2])
        self._live = [Layer(device, layout.live_area) for _ in range(_LAYERS)]
        self._graph = Graph(device, layout)
        self._large: vkshare.Surface | None = None
        if (layout.width, layout.height) != size:  # too small for the text: it is drawn larger, and scaled down
            self._large = device.create_surface(layout.width, layout.height, format)
            self._large.acquire(0)

    def draw(self, view: vkshare.View, number: int, seconds: float, rate: float, times: FrameTimes) -> None:
        """All of a frame, submitted."""
        live = self._live[number % _LAYERS]
        live.upload(self._lettering.draw_live, number, seconds, rate)
        target = self._large or view
        commands = self._painter.record(target, number, seconds / _TURN % 1)
        live.record(commands, target)
        self._graph.record(commands, target, times)
        if self._large is not None:
            commands.blit(self._large, view)
        self._device.submit(commands)

    def close(self) -> None:
        """Idempotent."""
        for each in (self._painter, *self._live, self._graph, self._large):
            if each is not None:
                each.close()


def facts(stage: Stage, frames: int | None) -> Facts:
    """What the picture says of how it is shown."""
    swapchain = stage.swapchain
    by = "present fences" if swapchain.statistics().by_fences else "the acquire history"
    proof = f"retired by {by}" if stage.device.backend == "vulkan" else "no Vulkan below"
    mine = f"{swapchain.present_mode}, {swapchain.image_count} images, {proof}"
    ending = ("Esc", "ends it") if stage.window is not None else ("ends", f"after {frames} frames")
    where = "in a window" if stage.window is not None else "shown to nobody"
    return Facts(
        stage.device.adapter.name,
        frames,
        f"One scene, {where}.",
        (("draws", "the device's own commands"), ("shows", mine), ending),
    )
