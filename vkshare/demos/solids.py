"""Convex solids as triangle meshes: rounded cubes, and the spheres that they become."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_FACES = (  # outward normal, direction of u, direction of v (v runs downwards, as pictures do)
    ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
)


@dataclass(frozen=True)
class Solid:
    """A closed convex mesh. Triangles are counter-clockwise seen from outside, y up."""

    positions: Array  # (V, 3)
    normals: Array  # (V, 3), unit length
    uv: Array  # (V, 2), 0 to 1 over each face of the cube
    triangles: Array  # (T, 3) vertex indices

    @cached_property
    def edges(self) -> Array:
        """(E, 2, 3): the two half-edges that meet at each edge, as (triangle, from, to).

        Faces meet in different vertices of one position (their u, v differ), so edges are matched
        by position.
        """
        _, place = np.unique(np.round(self.positions, 4), axis=0, return_inverse=True)
        place = place.reshape(-1)
        halves: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for index, corners in enumerate(self.triangles):
            for a, b in zip(corners, np.roll(corners, -1), strict=True):
                ends = sorted((int(place[a]), int(place[b])))
                halves.setdefault((ends[0], ends[1]), []).append((index, int(a), int(b)))
        return np.array([pair for pair in halves.values() if len(pair) == 2])


@lru_cache(maxsize=4)  # finding the edges takes time, and every size of the frame has the same solids
def rounded_cube(half: float, radius: float, flat: int, round_: int) -> Solid:
    """A cube of edge 2 * half whose edges have that radius; radius == half makes a sphere.

    Parameters
    ----------
    flat, round_
        Mesh steps over the flat middle of a face, and over each rounded edge's half.
    """
    inner = half - radius
    # Steps of equal angle over the rounding: a cube's edge shows 45 degrees of it to each face.
    bend = radius * np.tan(np.linspace(0, np.pi / 4, round_ + 1))
    middle = np.linspace(-inner, inner, flat + 1) if inner > 0 else np.zeros(1)
    steps = np.concatenate([-inner - bend[:0:-1], middle, inner + bend[1:]])
    count = len(steps)
    column, row = np.meshgrid(steps, steps)
    corner = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).reshape(-1, 1)
    quads = corner + np.array([0, count, count + 1, 0, count + 1, 1])

    positions, uv, triangles = [], [], []
    for index, (normal, u, v) in enumerate(_FACES):
        on_cube = half * np.array(normal) + column[..., None] * np.array(u) + row[..., None] * np.array(v)
        positions.append(on_cube.reshape(-1, 3))
        uv.append(np.stack([column, row], -1).reshape(-1, 2) / (2 * half) + 0.5)
        triangles.append(quads.reshape(-1, 3) + index * count * count)
    flat_positions = np.concatenate(positions)
    core = np.clip(flat_positions, -inner, inner)
    normals = flat_positions - core
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Solid(
        positions=(core + radius * normals).astype(np.float32),
        normals=normals.astype(np.float32),
        uv=np.concatenate(uv).astype(np.float32),
        triangles=np.concatenate(triangles),
    )


def mesh(points: Array) -> Array:
    """Two triangles for each cell of a grid of points (rows, columns, K), as rows for draw_triangles()."""
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    return np.stack([a, b, c, a, c, d], 2).reshape(-1, points.shape[-1])
