"""The demo's 3D scene: a turning cube that bears the picture, three moons, and their reflections in the floor.

Everything is NumPy: a frame's triangles in clip space, far to near (painter's order), ready for
draw_triangles(). A warm key light comes from the upper left, a violet fill from the right, and light
from the sky.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from vkshare.demos.layout import Layout
from vkshare.demos.solids import Array, Solid, mesh, rounded_cube

# One moon a process: renderer, text, checker. Colours as stored, 0 to 1.
_MOONS = np.array([(0.27, 0.84, 0.93), (1.00, 0.72, 0.30), (0.98, 0.38, 0.58)], np.float32)
_NEAR, _FAR = 1.0, 20.0
_SHADOW_RADII = np.array([0.0, 0.7, 1.2, 1.7, 2.4])
_SHADOW_ALPHAS = np.array([0.62, 0.50, 0.25, 0.08, 0.0])
_FLOOR = -1.62  # y of the mirror
_REFLECTED = 0.34  # strength of a reflection at the floor; it fades to nothing _DEPTH below it
_DEPTH = 2.6
_UNTURNED = np.eye(3, dtype=np.float32)

_EYE = np.array([0.0, 0.95, 7.4], np.float32)


def _direction(x: float, y: float, z: float) -> Array:
    return np.array([x, y, z], np.float32) / np.float32(np.sqrt(x * x + y * y + z * z))


_KEY = _direction(-0.46, 0.66, 0.60)
_KEY_COLOUR = np.array([1.0, 0.96, 0.90], np.float32)
_FILL = _direction(0.80, 0.05, 0.60)
_FILL_COLOUR = np.array([0.46, 0.34, 0.62], np.float32)
_AMBIENT = np.array([0.30, 0.29, 0.37], np.float32)
_GLOSS, _SHARPNESS = 0.55, 48
_SHEEN = 0.16  # what a surface mirrors of the sky where one looks along it


class Scene:
    """A frame at a time: ``batches(turn)``; `turn` runs from 0 to 1 over one revolution."""

    def __init__(self, layout: Layout) -> None:
        matrix = _camera(layout)
        # Edges end in a rim of this many pixels that fades out: the triangles themselves are not
        # smoothed.
        rim = max(1.0, layout.unit)
        self._lens = _Lens(matrix, np.array([2 * rim / layout.width, 2 * rim / layout.height], np.float32))
        self._cube = rounded_cube(1.0, 0.16, flat=4, round_=3)
        self._moon = rounded_cube(0.17, 0.17, flat=0, round_=3)
        self._shadow = _shadow(self._lens)

    def batches(self, turn: float) -> list[Array]:
        """The vertices of each draw_triangles(): (N, 10) with the picture as texture, else (N, 8); float32.

        Reflections before what they reflect, far solids before near ones. A convex solid without its
        back faces covers no part of itself, so its own triangles need no order.
        """
        cube = _Placed(self._cube, _cube_rotation(turn), np.zeros(3, np.float32))
        moons = [_Placed(self._moon, _UNTURNED, _moon_position(turn, index)) for index in range(len(_MOONS))]
        parts = [self._shadow]
        for mirrored in (True, False):
            seen = _Seen(cube, self._lens, mirrored)
            coloured = [_Seen(moon, self._lens, mirrored).coloured(c) for moon, c in zip(moons, _MOONS, strict=True)]
            parts += [rows for rows, moon in zip(coloured, moons, strict=True) if moon.position[2] < 0]
            parts += [seen.textured()] if mirrored else [seen.textured(), seen.gloss()]
            parts += [rows for rows, moon in zip(coloured, moons, strict=True) if moon.position[2] >= 0]
        # Neighbours that can share a draw call do.
        return [np.concatenate(list(group)) for _, group in groupby(parts, key=lambda rows: rows.shape[1])]


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
    ahead = -_EYE / np.linalg.norm(_EYE)
    right = np.cross(ahead, [0, 1, 0])
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = right, np.cross(right, ahead), -ahead
    view[:3, 3] = -view[:3, :3] @ _EYE
    scale = layout.object_scale * float(np.linalg.norm(_EYE))
    x, y = layout.object_centre
    projection = np.zeros((4, 4))
    projection[0] = 2 * scale / layout.width, 0, 1 - 2 * x / layout.width, 0
    projection[1] = 0, -2 * scale / layout.height, 1 - 2 * y / layout.height, 0
    projection[2] = 0, 0, -_FAR / (_FAR - _NEAR), -_FAR * _NEAR / (_FAR - _NEAR)
    projection[3] = 0, 0, -1, 0
    matrix: Array = (projection @ view).astype(np.float32)
    return matrix


def _shadow(lens: _Lens) -> Array:
    """A soft dark disc on the floor below the cube, as (N, 8) rows."""
    angles = np.linspace(0, 2 * math.pi, 49)
    x, z = _SHADOW_RADII[:, None] * np.cos(angles), _SHADOW_RADII[:, None] * np.sin(angles)
    world = np.stack([x, np.full_like(x, _FLOOR), z], -1).astype(np.float32)
    rows = np.zeros((*x.shape, 8), np.float32)
    rows[..., :4] = lens.project(world.reshape(-1, 3)).reshape(*x.shape, 4)
    rows[..., 7] = _SHADOW_ALPHAS[:, None]
    return mesh(rows)


# ---- solids that have their place in a frame: lit once, seen twice (themselves and their reflections) --------------


@dataclass(frozen=True, slots=True)
class _Lens:
    """The matrix from world space to clip space."""

    matrix: Array  # (4, 4)
    rim: Array  # (2,): width of the fading rim round an outline, in normalised device coordinates

    def project(self, world: Array) -> Array:
        """(V, 3) -> (V, 4)."""
        return world @ self.matrix[:, :3].T + self.matrix[:, 3]


class _Placed:
    """A solid moved to its place, and lit there. `rotation` is (3, 3)."""

    def __init__(self, solid: Solid, rotation: Array, position: Array) -> None:
        self.solid = solid
        self.position = position
        self.world = solid.positions @ rotation.T + position
        self.normals = solid.normals @ rotation.T
        self.light, self.shine = _lit(self.world, self.normals)


class _Seen:
    """One image of a placed solid: in clip space, its back faces left out, a fading rim round its outline."""

    def __init__(self, placed: _Placed, lens: _Lens, mirrored: bool) -> None:
        self._placed = placed
        solid = placed.solid
        world, normals = placed.world, placed.normals
        self._strength: Array = np.ones((len(world), 1), np.float32)
        if mirrored:
            height = world[:, 1:2] - _FLOOR
            self._strength = _REFLECTED * np.maximum(1 - height / _DEPTH, 0) ** 1.5
            flip = np.array([1, -1, 1], np.float32)
            world, normals = world * flip + np.array([0, 2 * _FLOOR, 0], np.float32), normals * flip
        self._clip = lens.project(world)
        screen = self._clip[:, :2] / self._clip[:, 3:]
        corners = screen[solid.triangles]
        edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        # Seen with y upwards (clip space's y runs down), front faces are counter-clockwise.
        front = (edge1[:, 0] * edge2[:, 1] < edge1[:, 1] * edge2[:, 0]) != mirrored
        self._corners = solid.triangles[front].reshape(-1)
        # (n, 2) vertices: the edges between a front face and a back face, as the front face has them.
        sides = front[solid.edges[:, :, 0]]
        first = solid.edges[sides[:, 0] & ~sides[:, 1], 0, 1:]
        second = solid.edges[sides[:, 1] & ~sides[:, 0], 1, 1:]
        self._outline = np.concatenate([first, second])
        self._rim = _outward(self._outline, world, normals, screen, lens)

    def textured(self) -> Array:
        """(N, 10) rows: texture times light."""
        return self._with_rim(self._rows(self._placed.light, self._placed.solid.uv))

    def coloured(self, colour: Array) -> Array:
        """(N, 8) rows in one colour and its gloss."""
        return self._with_rim(self._rows(np.minimum(self._placed.light * colour + self._placed.shine[:, None], 1)))

    def gloss(self) -> Array:
        """(N, 8) rows of light to be added to what is there: premultiplied colours with alpha 0."""
        shine = self._placed.shine
        shines = (shine[self._corners].reshape(-1, 3) > 0.004).any(1).repeat(3)
        rows = np.zeros((len(shine), 8), np.float32)
        rows[:, :4] = self._clip
        rows[:, 4:7] = shine[:, None] * _KEY_COLOUR
        chosen: Array = rows[self._corners[shines]]
        return chosen

    def _rows(self, colour: Array, *more: Array) -> Array:
        return np.concatenate([self._clip, colour * self._strength, self._strength, *more], 1, dtype=np.float32)

    def _with_rim(self, rows: Array) -> Array:
        """The faces, and strips along the outline that fade from the edge's colour to nothing."""
        near, far = rows[self._outline], rows[self._outline]  # (n, 2 ends, K)
        far[..., :2] += self._rim * far[..., 3:4]
        far[..., 4:8] = 0
        strips = np.stack([near[:, 0], far[:, 0], far[:, 1], near[:, 0], far[:, 1], near[:, 1]], 1)
        return np.concatenate([rows[self._corners], strips.reshape(-1, rows.shape[1])])


def _outward(outline: Array, world: Array, normals: Array, screen: Array, lens: _Lens) -> Array:
    """(n, 2 ends, 2): the rim's width along the normals, which at an outline lie in the screen's plane."""
    ends = outline.reshape(-1)
    beyond = lens.project(world[ends] + 1e-2 * normals[ends])
    pixels = (beyond[:, :2] / beyond[:, 3:] - screen[ends]) / lens.rim
    length = np.maximum(np.sqrt((pixels * pixels).sum(1, keepdims=True)), 1e-9)
    widths: Array = (pixels / length * lens.rim).reshape(-1, 2, 2)
    return widths


def _lit(world: Array, normals: Array) -> tuple[Array, Array]:
    """Blinn and Phong's model at vertices (V, 3) with unit normals.

    Returns
    -------
    The diffuse reflection of each, (V, 3), 0 to 1; and the specular one, (V,), to be added in _KEY_COLOUR.
    """
    to_eye = _EYE - world
    to_eye /= np.sqrt((to_eye * to_eye).sum(1, keepdims=True))
    key = np.maximum(normals @ _KEY, 0)
    fill = np.maximum(normals @ _FILL, 0)
    diffuse = _AMBIENT + key[:, None] * (0.80 * _KEY_COLOUR) + fill[:, None] * (0.70 * _FILL_COLOUR)
    halfway = to_eye + _KEY
    facing = (normals * halfway).sum(1) / np.sqrt((halfway * halfway).sum(1))
    shine = _GLOSS * np.maximum(facing, 0) ** _SHARPNESS
    sheen = _SHEEN * np.clip(1 - (normals * to_eye).sum(1), 0, 1) ** 4
    return np.minimum(diffuse, 1), shine + sheen
