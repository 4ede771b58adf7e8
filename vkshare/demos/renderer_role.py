"""The first process: makes the surface, and draws the scene into it with device commands."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import vkshare
from vkshare.demos import backdrop, choice, marks, peers, pictures
from vkshare.demos.layout import Layout
from vkshare.demos.party import Party
from vkshare.demos.scene import Scene


def run(party: Party) -> dict[str, Any]:
    """Draws all frames; returns what the report tells of this process."""
    options = party.options
    layout = Layout(options.width, options.height)
    adapter, why = choice.choose(options)
    with ExitStack() as stack:
        device = stack.enter_context(vkshare.open(adapter, name="demo renderer"))
        surface = stack.enter_context(device.create_surface(layout.width, layout.height, "rgba8unorm"))
        painter = stack.enter_context(Painter(device, surface, layout, options.image))
        party.tell(adapter=adapter.name)
        peers.introduce(surface, party.links)
        before = device.statistics().copied_bytes
        for frame in range(options.frames):
            commands = painter.record(frame, frame / options.frames)  # while others own the surface
            with party.turn(surface, frame):
                device.submit(commands)
        copied = device.statistics().copied_bytes - before
        peers.wait_until_gone(party.links)
        return {
            "adapter": {name: getattr(adapter, name) for name in ("name", "kind", "backend", "driver")},
            "why": why,
            "tiling": surface.tiling,
            "format": surface.format,
            "setup_copied": before,
            "copied": copied,
        }


class Painter:
    """Records frames of the scene; owns the surfaces that they read: the backdrop and the picture."""

    def __init__(
        self, device: vkshare.Device, surface: vkshare.Surface, layout: Layout, image: str | None = None
    ) -> None:
        self._device = device
        self._surface = surface
        self._layout = layout
        self._scene = Scene(layout)
        self._picture = pictures.texture(device, image, round(2.2 * layout.object_scale))
        self._backdrop = backdrop.create(device, layout)

    def record(self, frame: int, turn: float) -> vkshare.CommandList:
        """All that the renderer draws in a frame; see Scene.batches() for `turn`."""
        commands = self._device.record().copy(self._backdrop, self._surface)
        for batch in self._scene.batches(turn):
            commands.draw_triangles(self._surface, batch.vertices, self._picture if batch.is_textured else None)
        number = marks.code(frame, 0)
        for rect, colour in marks.squares(number, self._layout.render_mark, self._layout.mark_cell):
            commands.fill_rect(self._surface, rect, [channel / 255 for channel in colour])
        return commands

    def __enter__(self) -> Painter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._picture.close()
        self._backdrop.close()
