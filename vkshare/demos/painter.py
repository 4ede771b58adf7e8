"""Records frames of the demo's scene, for whatever surface they are drawn into.

The background is a smooth dusk, drawn once in 16-bit floats and dithered down to 8 bits.
"""

from __future__ import annotations

import numpy as np

from vkshare import CommandList, Device, Surface, View
from vkshare.demos import marks, pictures
from vkshare.demos.layout import Layout
from vkshare.demos.scene import Scene
from vkshare.demos.solids import Array, mesh
from vkshare.util.closing import Scoped

# Height in the frame (0 top, 1 bottom) -> colour, as stored (sRGB), 0 to 255.
_HEIGHTS = np.array([0.0, 0.28, 0.52, 0.66, 0.74, 0.86, 1.0])
_COLOURS = np.array(
    [(9, 11, 30), (20, 18, 54), (52, 34, 98), (98, 52, 124), (64, 36, 96), (26, 18, 56), (9, 8, 26)], float
)
_GLOW = np.array([64, 88, 190], float)  # behind the object
_EMBER = np.array([84, 34, 18], float)  # low, to its right
_NOISE = 128  # pixels a side of the dither tile
_CELLS = (96, 54)  # of the mesh: fine enough that straight lines between its points do not show


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
        self.backdrop = backdrop(device, layout, format)  # what is the same in each frame may be drawn on it

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


def colour_at(layout: Layout, x: Array, y: Array) -> Array:
    """Colours (…, 3), 0 to 255, at pixel positions. The checker knows the backdrop by this."""
    down = y / layout.height
    colour = np.stack([np.interp(down, _HEIGHTS, channel) for channel in _COLOURS.T], -1)
    centre_x, centre_y = layout.object_centre
    reach = layout.object_scale
    away = ((x - centre_x) / (2.6 * reach)) ** 2 + ((y - centre_y) / (2.1 * reach)) ** 2
    colour = colour + np.exp(-2.2 * away)[..., None] * _GLOW
    ember = ((x - centre_x - 1.6 * reach) / (2.4 * reach)) ** 2 + ((y - centre_y - 1.0 * reach) / (0.8 * reach)) ** 2
    colour = colour + np.exp(-1.5 * ember)[..., None] * _EMBER
    vignette = 1 - 0.35 * (((x / layout.width - 0.5) * 1.3) ** 2 + ((down - 0.5) * 1.1) ** 2)
    clipped: Array = np.clip(colour * vignette[..., None], 0, 255)
    return clipped


def backdrop(device: Device, layout: Layout, format: str = "rgba8unorm") -> Surface:
    """A surface that holds the backdrop, owned: the source of each frame's copy()."""
    surface = device.create_surface(layout.width, layout.height, format)
    surface.acquire(0)
    tiling = "optimal" if "optimal" in device.capabilities.tilings else "auto"
    with (
        device.create_surface(layout.width, layout.height, "rgba16float", tiling=tiling) as fine,
        device.create_surface(_NOISE, _NOISE, "rgba8unorm") as noise,
    ):
        fine.acquire(0)
        noise.acquire(0)
        tile = np.zeros((_NOISE, _NOISE, 4), np.uint8)
        tile[..., :3] = np.random.default_rng(7).integers(0, 256, (_NOISE, _NOISE, 1), np.uint8)
        noise.write(tile)
        commands = device.record().draw_triangles(fine, _mesh(layout))
        for left in range(0, layout.width, _NOISE):
            for top in range(0, layout.height, _NOISE):
                # The noise has alpha 0, so it is added: up to one step of 8 bits, before they are
                # rounded.
                commands.composite(noise, fine, at=(left, top), opacity=1 / 255)
        device.submit(commands.blit(fine, surface, filter="nearest")).wait()
    return surface


def _mesh(layout: Layout) -> Array:
    columns, rows = _CELLS
    x, y = np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1))
    points = np.ones((rows + 1, columns + 1, 6))
    points[..., 0], points[..., 1] = 2 * x - 1, 2 * y - 1
    # Half a step darker, which the noise makes up for on average.
    points[..., 2:5] = np.clip(colour_at(layout, x * layout.width, y * layout.height) - 0.5, 0, None) / 255
    return mesh(points)
