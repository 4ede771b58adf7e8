"""A solid that has its place in a frame: lit once, seen twice (itself and its reflection)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vkshare.demos.lighting import KEY_COLOUR, lit
from vkshare.demos.solids import Array, Solid

FLOOR = -1.62  # y of the mirror
_REFLECTED = 0.34  # strength of a reflection at the floor; it fades to nothing _DEPTH below it
_DEPTH = 2.6


@dataclass(frozen=True, slots=True)
class Lens:
    """The matrix from world space to clip space."""

    matrix: Array  # (4, 4)
    rim: Array  # (2,): width of the fading rim round an outline, in normalised device coordinates

    def project(self, world: Array) -> Array:
        """(V, 3) -> (V, 4)."""
        return world @ self.matrix[:, :3].T + self.matrix[:, 3]


class Placed:
    """A solid moved to its place, and lit there. `rotation` is (3, 3), or None for solids that look alike turned."""

    def __init__(self, solid: Solid, rotation: Array | None, position: Array) -> None:
        turned = (solid.positions, solid.normals) if rotation is None else solid.turned(rotation)
        self.solid = solid
        self.position = position
        self.world = turned[0] + position
        self.normals = turned[1]
        self.light, self.shine = lit(self.world, self.normals)


class Seen:
    """One image of a placed solid: in clip space, its back faces left out, a fading rim round its outline."""

    def __init__(self, placed: Placed, lens: Lens, mirrored: bool) -> None:
        self._placed = placed
        self._solid = placed.solid
        world, normals = placed.world, placed.normals
        self._strength: Array = np.ones((len(world), 1), np.float32)
        if mirrored:
            height = world[:, 1:2] - FLOOR
            self._strength = _REFLECTED * np.maximum(1 - height / _DEPTH, 0) ** 1.5
            flip = np.array([1, -1, 1], np.float32)
            world, normals = world * flip + np.array([0, 2 * FLOOR, 0], np.float32), normals * flip
        self._clip = lens.project(world)
        screen = self._clip[:, :2] / self._clip[:, 3:]
        front = _counter_clockwise(screen[self._solid.triangles]) != mirrored
        self._corners = self._solid.triangles[front].reshape(-1)
        self._outline = _outline(self._solid.edges, front)
        self._rim = _outward(self._outline, world, normals, screen, lens)

    def textured(self) -> Array:
        """(N, 10) rows: texture times light."""
        return self._with_rim(self._rows(self._placed.light, self._solid.uv))

    def coloured(self, colour: Array) -> Array:
        """(N, 8) rows in one colour and its gloss."""
        return self._with_rim(self._rows(np.minimum(self._placed.light * colour + self._placed.shine[:, None], 1)))

    def gloss(self) -> Array:
        """(N, 8) rows of light to be added to what is there: premultiplied colours with alpha 0."""
        shine = self._placed.shine
        shines = (shine[self._corners].reshape(-1, 3) > 0.004).any(1).repeat(3)
        rows = np.zeros((len(shine), 8), np.float32)
        rows[:, :4] = self._clip
        rows[:, 4:7] = shine[:, None] * KEY_COLOUR
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


def _counter_clockwise(corners: Array) -> Array:
    """(T,) bools of (T, 3, 2) points, seen with y upwards (clip space's y runs down)."""
    edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    turned: Array = edge1[:, 0] * edge2[:, 1] < edge1[:, 1] * edge2[:, 0]
    return turned


def _outline(edges: Array, front: Array) -> Array:
    """(n, 2) vertices: the edges between a front face and a back face, as the front face has them."""
    sides = front[edges[:, :, 0]]
    first = edges[sides[:, 0] & ~sides[:, 1], 0, 1:]
    second = edges[sides[:, 1] & ~sides[:, 0], 1, 1:]
    return np.concatenate([first, second])


def _outward(outline: Array, world: Array, normals: Array, screen: Array, lens: Lens) -> Array:
    """(n, 2 ends, 2): the rim's width along the normals, which at an outline lie in the screen's plane."""
    ends = outline.reshape(-1)
    beyond = lens.project(world[ends] + 1e-2 * normals[ends])
    pixels = (beyond[:, :2] / beyond[:, 3:] - screen[ends]) / lens.rim
    length = np.maximum(np.sqrt((pixels * pixels).sum(1, keepdims=True)), 1e-9)
    widths: Array = (pixels / length * lens.rim).reshape(-1, 2, 2)
    return widths
