"""Commands on a server's surfaces: recorded here, checked and run there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vkshare import formats
from vkshare.server import messages as m
from vkshare.server.handles import ServedSurface
from vkshare.util import arguments

if TYPE_CHECKING:
    from vkshare.server.client import Client

_FILTERS = ("linear", "nearest")
_ALPHAS = ("premultiplied", "straight")


class Recorder:
    """Commands for a server, in order. Created by ``client.record()``, run by ``client.submit(recorded)``.

    Methods and arguments are those of vkshare.CommandList, on ServedSurfaces. The types of
    arguments are checked here; the server checks that they fit the surfaces.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ops: list[m.Drawn] = []

    def clear(self, target: ServedSurface, colour: Sequence[float] | float) -> Self:
        """Sets every pixel."""
        number = self._id("target", target)
        read = arguments.depth if formats.get(target.format).is_depth else arguments.colour
        return self._append(m.ClearOp(number, read("colour", colour)))

    def fill_rect(self, target: ServedSurface, rect: Sequence[int], colour: Sequence[float]) -> Self:
        """Sets the pixels of a rectangle."""
        rgba = arguments.colour("colour", colour)
        return self._append(m.FillRectOp(self._id("target", target), arguments.rect("rect", rect), rgba))

    def copy(
        self,
        source: ServedSurface,
        target: ServedSurface,
        source_rect: Sequence[int] | None = None,
        at: Sequence[int] = (0, 0),
    ) -> Self:
        """Copies pixels between surfaces of one format."""
        pair = self._id("source", source), self._id("target", target)
        return self._append(m.CopyOp(*pair, _rect("source_rect", source_rect), arguments.point("at", at)))

    def blit(
        self,
        source: ServedSurface,
        target: ServedSurface,
        source_rect: Sequence[int] | None = None,
        target_rect: Sequence[int] | None = None,
        filter: str = "linear",
    ) -> Self:
        """Copies with scaling, mirroring and format conversion."""
        pair = self._id("source", source), self._id("target", target)
        rects = _rect("source_rect", source_rect), _rect("target_rect", target_rect)
        return self._append(m.BlitOp(*pair, *rects, _filter(filter)))

    def composite(
        self,
        source: ServedSurface,
        target: ServedSurface,
        at: Sequence[int] = (0, 0),
        opacity: float = 1.0,
        alpha: str = "premultiplied",
    ) -> Self:
        """Blends the source over the target."""
        pair = self._id("source", source), self._id("target", target)
        return self._append(m.CompositeOp(*pair, arguments.point("at", at), float(opacity), _alpha(alpha)))

    def draw_triangles(
        self,
        target: ServedSurface,
        vertices: Any,
        texture: ServedSurface | None = None,
        filter: str = "linear",
        depth: ServedSurface | None = None,
        depth_test: str = "less",
        depth_write: bool = True,
    ) -> Self:
        """Blends triangles over the target."""
        rows = np.ascontiguousarray(vertices, np.float32)
        if rows.ndim not in (2, 3):
            raise ValueError(f"vertices have shape {rows.shape}; allowed are (N, K) and (T, 3, K)")
        image = None if texture is None else self._id("texture", texture)
        stored = None if depth is None else self._id("depth", depth)
        number = self._id("target", target)
        arguments.depth_state(depth_test, depth_write)
        test: Any = depth_test
        how = image, _filter(filter), stored, test, depth_write
        return self._append(m.DrawTrianglesOp(number, rows.tobytes(), rows.shape[-1], *how))

    def __len__(self) -> int:
        return len(self._ops)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<vkshare.Recorder {len(self)} operations>"

    def _operations(self, client: Client) -> list[m.Drawn]:
        if client is not self._client:
            raise ValueError("commands were recorded for another client")
        return self._ops

    def _append(self, op: m.Drawn) -> Self:
        self._ops.append(op)
        return self

    def _id(self, name: str, surface: Any) -> int:
        arguments.instance(name, surface, ServedSurface)
        return int(surface._checked_id(self._client))


def _rect(name: str, value: Sequence[int] | None) -> arguments.Rect | None:
    return None if value is None else arguments.rect(name, value)


def _filter(value: str) -> Any:
    return arguments.choice("filter", value, _FILTERS)


def _alpha(value: str) -> Any:
    return arguments.choice("alpha", value, _ALPHAS)
