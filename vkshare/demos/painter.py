"""Records frames of the demo's scene, for whatever surface they are drawn into."""

from __future__ import annotations

from vkshare import CommandList, Device, Surface, View
from vkshare.demos import backdrop, marks, pictures
from vkshare.demos.layout import Layout
from vkshare.demos.scene import Scene
from vkshare.util.closing import Scoped


class Painter(Scoped):
    """Owns the surfaces that a frame is drawn from: the backdrop and the picture.

    Parameters
    ----------
    format
        Of the surfaces that are drawn into; they have the layout's size.
    image
        The file of the picture on the cube; None: the one that ships.
    """

    def __init__(self, device: Device, layout: Layout, *, format: str = "rgba8unorm", image: str | None = None) -> None:
        self._device = device
        self._layout = layout
        self._scene = Scene(layout)
        self._picture = pictures.texture(device, image, round(2.2 * layout.object_scale))
        self.backdrop = backdrop.create(device, layout, format)  # what is the same in each frame may be drawn on it

    def record(self, target: Surface | View, frame: int, turn: float) -> CommandList:
        """All that the renderer draws in a frame; see Scene.batches() for `turn`."""
        commands = self._device.record().copy(self.backdrop, target)
        for vertices in self._scene.batches(turn):
            commands.draw_triangles(target, vertices, self._picture if vertices.shape[1] == 10 else None)
        return marks.fill(commands, target, self._layout, marks.code(frame, 0))

    def close(self) -> None:
        """Idempotent."""
        self._picture.close()
        self.backdrop.close()
