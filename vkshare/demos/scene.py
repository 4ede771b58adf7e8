"""The demo's 3D scene: a turning cube that bears the picture, three moons, and their reflections in the floor.

Everything is NumPy: a frame's triangles in clip space, far to near (painter's order), ready for
draw_triangles().
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vkshare.demos.layout import Layout
from vkshare.demos.lighting import EYE
from vkshare.demos.placed import FLOOR, Lens, Placed, Seen
from vkshare.demos.solids import Array, mesh, rounded_cube

# One moon a process: renderer, text, checker. Colours as stored, 0 to 1.
MOONS = np.array([(0.27, 0.84, 0.93), (1.00, 0.72, 0.30), (0.98, 0.38, 0.58)], np.float32)
_NEAR, _FAR = 1.0, 20.0
_SHADOW_RADII = np.array([0.0, 0.7, 1.2, 1.7, 2.4])
_SHADOW_ALPHAS = np.array([0.62, 0.50, 0.25, 0.08, 0.0])


@dataclass(frozen=True, slots=True)
class Batch:
    """The vertices of one draw_triangles()."""

    vertices: Array  # (N, 10) with the picture as texture, else (N, 8); float32
    is_textured: bool


class Scene:
    """A frame at a time: ``batches(turn)``; `turn` runs from 0 to 1 over one revolution."""

    def __init__(self, layout: Layout) -> None:
        matrix = _camera(layout)
        # Edges end in a rim of this many pixels that fades out: the triangles themselves are not
        # smoothed.
        rim = max(1.0, layout.unit)
        self._lens = Lens(matrix, np.array([2 * rim / layout.width, 2 * rim / layout.height], np.float32))
        self._cube = rounded_cube(1.0, 0.16, flat=4, round_=3)
        self._moon = rounded_cube(0.17, 0.17, flat=0, round_=3)
        self._shadow = _shadow(self._lens)

    def batches(self, turn: float) -> list[Batch]:
        """Reflections before what they reflect, far solids before near ones.

        A convex solid without its back faces covers no part of itself, so its own triangles need no
        order.
        """
        cube = Placed(self._cube, _cube_rotation(turn), np.zeros(3, np.float32))
        moons = [Placed(self._moon, None, _moon_position(turn, index)) for index in range(len(MOONS))]
        behind = [index for index, moon in enumerate(moons) if moon.position[2] < 0]
        before = [index for index, moon in enumerate(moons) if moon.position[2] >= 0]
        parts = [Batch(self._shadow, False)]
        for mirrored in (True, False):
            seen = Seen(cube, self._lens, mirrored)
            parts += [Batch(Seen(moons[i], self._lens, mirrored).coloured(MOONS[i]), False) for i in behind]
            parts += [Batch(seen.textured(), True)]
            parts += [] if mirrored else [Batch(seen.gloss(), False)]
            parts += [Batch(Seen(moons[i], self._lens, mirrored).coloured(MOONS[i]), False) for i in before]
        return _merged(parts)


def _cube_rotation(turn: float) -> Array:
    """A full turn about the vertical, leaning."""
    angle = 2 * math.pi * turn + math.radians(36)
    lean = math.radians(21 + 6 * math.sin(2 * math.pi * turn))
    roll = math.radians(-9)
    about_y = [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
    about_x = [[1, 0, 0], [0, math.cos(lean), -math.sin(lean)], [0, math.sin(lean), math.cos(lean)]]
    about_z = [[math.cos(roll), -math.sin(roll), 0], [math.sin(roll), math.cos(roll), 0], [0, 0, 1]]
    rotation: Array = (np.array(about_z) @ about_x @ about_y).astype(np.float32)
    return rotation


def _moon_position(turn: float, index: int) -> Array:
    """Two revolutions a turn, a third of a circle apart, on a leaning orbit."""
    angle = 4 * math.pi * turn + index * 2 * math.pi / 3 + math.radians(200)
    x, z = 2.2 * math.cos(angle), 2.2 * math.sin(angle)
    return np.array([x, 0.25 * x - 0.42 * z + 0.05, z], np.float32)


def _camera(layout: Layout) -> Array:
    """World to Vulkan's clip space (y down, z 0 to w), as (4, 4); shifted to put the object where the layout says."""
    ahead = -EYE / np.linalg.norm(EYE)
    right = np.cross(ahead, [0, 1, 0])
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = right, np.cross(right, ahead), -ahead
    view[:3, 3] = -view[:3, :3] @ EYE
    scale = layout.object_scale * float(np.linalg.norm(EYE))
    x, y = layout.object_centre
    projection = np.zeros((4, 4))
    projection[0] = 2 * scale / layout.width, 0, 1 - 2 * x / layout.width, 0
    projection[1] = 0, -2 * scale / layout.height, 1 - 2 * y / layout.height, 0
    projection[2] = 0, 0, -_FAR / (_FAR - _NEAR), -_FAR * _NEAR / (_FAR - _NEAR)
    projection[3] = 0, 0, -1, 0
    matrix: Array = (projection @ view).astype(np.float32)
    return matrix


def _shadow(lens: Lens) -> Array:
    """A soft dark disc on the floor below the cube, as (N, 8) rows."""
    angles = np.linspace(0, 2 * math.pi, 49)
    x, z = _SHADOW_RADII[:, None] * np.cos(angles), _SHADOW_RADII[:, None] * np.sin(angles)
    world = np.stack([x, np.full_like(x, FLOOR), z], -1).astype(np.float32)
    rows = np.zeros((*x.shape, 8), np.float32)
    rows[..., :4] = lens.project(world.reshape(-1, 3)).reshape(*x.shape, 4)
    rows[..., 7] = _SHADOW_ALPHAS[:, None]
    return mesh(rows)


def _merged(parts: list[Batch]) -> list[Batch]:
    """Neighbours that can share a draw call do."""
    groups: list[list[Batch]] = []
    for part in parts:
        if groups and groups[-1][0].is_textured == part.is_textured:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [Batch(np.concatenate([part.vertices for part in group]), group[0].is_textured) for group in groups]
