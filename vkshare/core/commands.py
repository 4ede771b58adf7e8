"""Command lists: recorded once, checked when recorded, submitted any number of times."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NoReturn, Self

from vkshare import _native
from vkshare.backends import vertex_layout
from vkshare.backends.base import Blit, Clear, Composite, Copy, DrawTriangles, FillRect, Operation
from vkshare.core.surface import Surface
from vkshare.core.view import View
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError
from vkshare.util import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vkshare.core.device import Device

__all__ = ["CommandList", "Submission"]

Submission = _native.Submission

_FILTERS = ("linear", "nearest")
_ALPHAS = ("premultiplied", "straight")


class CommandList(_native.CommandList):
    """Commands that a device executes in order. Made by ``device.record()``; ``device.submit(commands)`` runs it.

    Targets and sources are Surfaces or Views; source comes before target. Colours are (red, green, blue, alpha)
    floats: linear for -srgb targets, which encode them. Rectangles are (x, y, width, height) in pixels, row 0 on top.
    Each method checks its arguments and returns the list itself. Owning the surfaces is checked when it is submitted.
    May be submitted many times, and from any thread, also while it is recorded; record from one thread at a time.

    All methods raise
        ValueError, TypeError naming the argument (numbers must be finite); DeviceMismatchError for a surface of
        another device; ClosedError for a closed one; InvalidCallError for a surface that was created without the usage.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._operations: list[Operation] = []
        self._closed = False
        self._lock = threading.RLock()  # a list grows, is compiled or is closed, on whichever threads

    # ---- what can be recorded -------------------------------------------------------------------------------------

    def clear(self, target: Surface | View, colour: Sequence[float]) -> Self:
        """Sets every pixel."""
        surface = self._surface("target", target, "copy")
        return self._append(Clear(surface, arguments.colour("colour", colour)))

    def fill_rect(self, target: Surface | View, rect: Sequence[int], colour: Sequence[float]) -> Self:
        """Sets the pixels of a rectangle; what is outside the target is clipped. Nothing is blended."""
        surface = self._surface("target", target, "render")
        x, y, width, height = arguments.rect("rect", rect)
        if width < 0 or height < 0:
            raise ValueError(f"rect is {(x, y, width, height)}; width and height must not be negative")
        rgba = arguments.colour("colour", colour)
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + width, surface.width), min(y + height, surface.height)
        if left >= right or top >= bottom:
            return self
        return self._append(FillRect(surface, (left, top, right - left, bottom - top), rgba))

    def copy(
        self,
        source: Surface | View,
        target: Surface | View,
        source_rect: Sequence[int] | None = None,
        at: Sequence[int] = (0, 0),
    ) -> Self:
        """Copies pixels between surfaces of one format, bit for bit.

        Parameters
        ----------
        source_rect
            Inside the source; None: all of it.
        at
            (x, y) in the target of the region's top left; the region must be inside the target.
        """
        from_surface, to_surface = self._pair(source, target, "copy", "copy")
        if from_surface.format != to_surface.format:
            raise ValueError(f"source has format {from_surface.format}, target {to_surface.format}; use blit()")
        x, y, width, height = (
            _whole(from_surface) if source_rect is None else arguments.rect("source_rect", source_rect)
        )
        at_x, at_y = arguments.point("at", at)
        if width < 0 or height < 0:
            raise ValueError(f"source_rect is {(x, y, width, height)}; width and height must not be negative")
        _check_inside("source_rect", (x, y, x + width, y + height), "source", from_surface)
        _check_inside("at", (at_x, at_y, at_x + width, at_y + height), "target", to_surface)
        if not width or not height:
            return self
        return self._append(Copy(from_surface, to_surface, (x, y, width, height), (at_x, at_y)))

    def blit(
        self,
        source: Surface | View,
        target: Surface | View,
        source_rect: Sequence[int] | None = None,
        target_rect: Sequence[int] | None = None,
        filter: str = "linear",
    ) -> Self:
        """Copies with scaling, mirroring and format conversion, as vkCmdBlitImage does.

        Parameters
        ----------
        source_rect, target_rect
            None: all of it. A negative width or height mirrors: (x, y) is then the right or bottom edge. Each must be
            inside its surface.
        filter
            ``"linear"`` or ``"nearest"``.
        """
        from_surface, to_surface = self._pair(source, target, "copy", "copy")
        arguments.choice("filter", filter, _FILTERS)
        edges = []
        for name, rect, what, surface in (
            ("source_rect", source_rect, "source", from_surface),
            ("target_rect", target_rect, "target", to_surface),
        ):
            x, y, width, height = _whole(surface) if rect is None else arguments.rect(name, rect)
            edges.append((x, y, x + width, y + height))
            _check_inside(name, edges[-1], what, surface)
        if any(x0 == x1 or y0 == y1 for x0, y0, x1, y1 in edges):
            return self
        return self._append(Blit(from_surface, to_surface, edges[0], edges[1], filter == "linear"))

    def composite(
        self,
        source: Surface | View,
        target: Surface | View,
        at: Sequence[int] = (0, 0),
        opacity: float = 1.0,
        alpha: str = "premultiplied",
    ) -> Self:
        """Blends the source over the target: source·opacity + target·(1 - alpha·opacity).

        -srgb targets blend in linear space, others on the stored values; -srgb sources are decoded first.

        Parameters
        ----------
        at
            (x, y) in the target of the source's top left; what is outside is clipped.
        opacity
            0 to 1.
        alpha
            ``"premultiplied"``: the source's colours are multiplied by its alpha already, as cairo's and Skia's are.
            ``"straight"``: they are not, as Pillow's are; they are multiplied before they are blended.
        """
        arguments.choice("alpha", alpha, _ALPHAS)
        from_surface, to_surface = self._pair(source, target, "sample", "render")
        at_x, at_y = arguments.point("at", at)
        if isinstance(opacity, bool) or not isinstance(opacity, (int, float)):
            raise TypeError(f"opacity must be a number, not {type(opacity).__name__}")
        if not 0 <= opacity <= 1:
            raise ValueError(f"opacity is {opacity}; allowed is 0 to 1")
        outside_x = at_x >= to_surface.width or at_x + from_surface.width <= 0
        outside_y = at_y >= to_surface.height or at_y + from_surface.height <= 0
        if outside_x or outside_y or opacity == 0:
            return self
        return self._append(Composite(from_surface, to_surface, (at_x, at_y), float(opacity), alpha == "straight"))

    def draw_triangles(
        self,
        target: Surface | View,
        vertices: Any,
        texture: Surface | View | None = None,
        filter: str = "linear",
    ) -> Self:
        """Blends triangles over the target, later ones over earlier ones; both sides show.

        Parameters
        ----------
        vertices
            float32 of shape (N, K), N a multiple of 3, or (T, 3, K). A row is, without a texture, ``x y r g b a`` or
            ``x y z w r g b a``; with one, ``x y u v``, ``x y z w u v`` or ``x y z w r g b a u v`` (texture times
            colour). Positions are Vulkan's clip space: x to the right and y down, -1 to 1 over the target, z within 0
            to w. Colours are premultiplied by alpha. u and v run from 0 to 1 over the texture. The values are copied.
        texture
            A surface to sample, clamped to its edges.
        filter
            ``"linear"`` or ``"nearest"``: how the texture is sampled.
        """
        to_surface = self._surface("target", target, "render")
        image = None
        if texture is not None:
            image, to_surface = self._pair(texture, target, "sample", "render", source_name="texture")
        arguments.choice("filter", filter, _FILTERS)
        data, count = vertex_layout.pack(vertices, textured=image is not None)
        if not count:
            return self
        return self._append(DrawTriangles(to_surface, data, count, image, filter == "linear"))

    # ---- the list itself ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._operations)

    def __bool__(self) -> bool:
        return True  # an empty list is still a list to submit

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Forgets what was recorded; work that was submitted still runs. Idempotent, and never needed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._operations = []
                self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self)} operations{', compiled' if self._is_compiled else ''}"
        return f"<vkshare.CommandList {state}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a CommandList cannot be pickled: record it in the other process, on surfaces opened from export()"
        )

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    # ---- within the package -----------------------------------------------------------------------------------------

    def _compile(self) -> None:
        """Called by submit() where it is not compiled."""
        self.device._check()  # in a forked child the driver must not even be asked
        with self._lock:
            if self._closed:
                raise ClosedError("this CommandList was closed; record another with device.record()")
            if not self._is_compiled:  # by another thread's submit(), meanwhile
                self.device._compile(self, self._operations)

    def _append(self, operation: Operation) -> Self:
        with self._lock:
            if self._closed:
                raise ClosedError("this CommandList was closed; record another with device.record()")
            self._operations.append(operation)
            if self._is_compiled:
                self._reset()
        return self

    def _surface(self, name: str, value: Any, usage: str) -> Surface:
        surface = value.surface if isinstance(value, View) else value
        if not isinstance(surface, Surface):
            raise TypeError(f"{name} must be a Surface or a View, not {type(value).__name__}")
        if surface.device is not self.device:
            raise DeviceMismatchError(
                f"{name} belongs to {surface.device!r}, the commands to {self.device!r}: open it here with "
                "device.open_surface(surface.export())"
            )
        if surface.is_closed:
            raise ClosedError(f"{name} is closed: {surface!r}")
        if usage not in surface.usage:
            raise InvalidCallError(
                f"{name} was created with usage {sorted(surface.usage)}; this command needs {usage!r}: "
                f"create_surface(..., usage=(..., {usage!r}))"
            )
        return surface

    def _pair(
        self, source: Any, target: Any, source_usage: str, target_usage: str, source_name: str = "source"
    ) -> tuple[Surface, Surface]:
        pair = self._surface(source_name, source, source_usage), self._surface("target", target, target_usage)
        if pair[0] is pair[1]:
            raise ValueError(f"{source_name} and target are the same surface; go through a third one")
        return pair


def _whole(surface: Surface) -> arguments.Rect:
    return 0, 0, surface.width, surface.height


def _check_inside(name: str, edges: tuple[int, int, int, int], what: str, surface: Surface) -> None:
    x0, y0, x1, y1 = edges
    if min(x0, x1) < 0 or min(y0, y1) < 0 or max(x0, x1) > surface.width or max(y0, y1) > surface.height:
        raise ValueError(
            f"{name} covers x {min(x0, x1)} to {max(x0, x1)}, y {min(y0, y1)} to {max(y0, y1)}, "
            f"which is not inside the {what} of {surface.width}x{surface.height}"
        )
