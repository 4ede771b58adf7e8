"""The scene, the same for every contender."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, HEIGHT = 1920, 1080
TRIANGLES = 10_000
_CORNERS = np.array([(0, 0), (12, 0), (6, 10.4)], np.float32)  # pixels
_ALPHA = 128


class Scene:
    """A picture of random premultiplied pixels, and random triangles, half transparent. Always the same ones."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        alpha = random.integers(0, 256, (HEIGHT, WIDTH, 1), np.int64)
        colours = random.integers(0, 256, (HEIGHT, WIDTH, 3)) * alpha // 255
        self.source = np.concatenate([colours, alpha], axis=2).astype(np.uint8)
        turn = random.uniform(-2, 2, (TRIANGLES, 1)).astype(np.float32) * 0.3
        at = random.uniform((16, 16), (WIDTH - 16, HEIGHT - 16), (TRIANGLES, 2)).astype(np.float32)
        x, y = _CORNERS[:, 0], _CORNERS[:, 1]
        self.pixels = at[:, None, :] + np.stack([x + turn * y, y - turn * x], axis=2)  # (TRIANGLES, 3, 2)
        rgb = random.integers(0, _ALPHA, (TRIANGLES, 3))
        self.colours = np.concatenate([rgb, np.full((TRIANGLES, 1), _ALPHA)], axis=1).astype(np.uint8)

    @property
    def vertices(self) -> np.ndarray[Any, Any]:
        """(TRIANGLES, 3, 6) as draw_triangles() takes them: x y in clip space, premultiplied r g b a."""
        position = self.pixels * np.array([2 / WIDTH, 2 / HEIGHT], np.float32) - 1
        colour = np.repeat(self.colours[:, None, :] / np.float32(255), 3, axis=1)
        return np.concatenate([position, colour], axis=2).astype(np.float32)

    def reference_triangles(self) -> np.ndarray[Any, Any]:
        """As `struct reference_triangle` of c/raster_reference.h."""
        rows = np.zeros(TRIANGLES, [("x", "<f4", 3), ("y", "<f4", 3), ("colour", "<u4")])
        rows["x"], rows["y"] = self.pixels[:, :, 0], self.pixels[:, :, 1]
        rows["colour"] = self.colours.view("<u4")[:, 0]
        return rows
