"""Command lists: recorded once, checked when recorded, submitted any number of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from vkshare import _native
from vkshare.core import byte_copies
from vkshare.core.buffer import Buffer
from vkshare.core.surface import Surface
from vkshare.core.view import BufferView, View
from vkshare.errors import ClosedError, DeviceMismatchError, InvalidCallError
from vkshare.util import arguments
from vkshare.util.closing import Scoped
from vkshare.util.library_calls import lib, pointer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vkshare.core.device import Device

__all__ = ["CommandList", "Submission"]

_BYTES = (Buffer, BufferView)

Submission = _native.Submission


class CommandList(_native.Recording, Scoped):
    """Commands that a device executes in order. Made by ``device.record()``; ``device.submit(commands)`` runs it.

    Targets and sources are Surfaces or Views, and for copy() Buffers; source comes before target.
    Colours are (red, green, blue, alpha) floats: linear for -srgb targets, which encode them.
    Surfaces of integers (r32uint) are cleared, filled and copied; blit(), composite() and
    draw_triangles() raise UnsupportedError for them, because integers are not scaled, converted,
    sampled or blended. Surfaces of depth (d16unorm, d32float) are cleared, copied, and the `depth`
    of draw_triangles(). Rectangles are (x, y, width, height) in pixels, row 0 on top. Each method
    checks its arguments and returns the list itself. Owning the surfaces is checked when it is
    submitted. May be submitted many times, and from any thread, also while it is recorded; record
    from one thread at a time.

    All methods raise
        ValueError, TypeError naming the argument (numbers must be finite); DeviceMismatchError for a surface of
        another device; ClosedError for a closed one; InvalidCallError for a surface that was created without the usage.
    """

    _unpicklable = "record it in the other process, on surfaces opened from export()"
    # ---- what can be recorded -------------------------------------------------------------------------------------

    def clear(self, target: Surface | View, colour: Sequence[float] | float) -> Self:
        """Sets every pixel.

        Parameters
        ----------
        target
            The surface or view to draw into.
        colour
            (red, green, blue, alpha), 0 to 1 for unorm formats. Red of r32uint is the number: it is rounded, ties
            to even, and clamped to 0 to 2**32 - 1. A depth surface takes a number
            from 0 (near) to 1 (far).

        Returns
        -------
        CommandList
            This list, for further commands.
        """
        return self._clear(target, colour)

    def fill_rect(self, target: Surface | View, rect: Sequence[int], colour: Sequence[float]) -> Self:
        """Sets the pixels of a rectangle. Nothing is blended.

        Parameters
        ----------
        target
            The surface or view to draw into.
        rect
            (x, y, width, height) in pixels; what is outside the target is clipped.
        colour
            (red, green, blue, alpha), 0 to 1 for unorm formats. Red of r32uint is the number: it is rounded, ties
            to even, and clamped to 0 to 2**32 - 1.

        Returns
        -------
        CommandList
            This list, for further commands.
        """
        return self._fill_rect(target, rect, colour)

    def copy(
        self,
        source: Surface | View | Buffer | BufferView,
        target: Surface | View | Buffer | BufferView,
        source_rect: Sequence[int] | None = None,
        at: Sequence[int] = (0, 0),
        *,
        target_rect: Sequence[int] | None = None,
        source_offset: int = 0,
        target_offset: int = 0,
        nbytes: int | None = None,
        stride: int | None = None,
    ) -> Self:
        """Copies pixels between surfaces of one format, or bytes from and to a buffer, bit for bit.

        Parameters
        ----------
        source, target
            The surfaces, buffers or views to read and to write.
        source_rect
            (x, y, width, height) in pixels, inside a source that is a surface; None: all of it.
        at
            Between surfaces: (x, y) in the target of the region's top left; the region must be inside the target.
        target_rect
            (x, y, width, height) in pixels, inside a target that is a surface, where the source is a buffer; None: all
            of it.
        source_offset, target_offset
            Where the bytes begin in a buffer. With a surface: a multiple of its pixels' bytes; of 4 if it has depth,
            whose values in the buffer are from 0 to 1.
        nbytes
            Between buffers; None: the rest of the source.
        stride
            Bytes from row to row in a buffer whose other side is a surface, a multiple of the pixels' bytes; None: the
            rows are tight.

        Returns
        -------
        CommandList
            This list, for further commands.

        Raises
        ------
        ValueError
            Bytes or pixels are outside a buffer or a surface; the text has both sizes. Or an argument is of no use for
            such a pair.

        Examples
        --------
        >>> with device.create_buffer(48 * 64 * 4) as buffer, buffer.access(), surface.access() as view:
        ...     submission = device.submit(device.record().copy(view, buffer))
        """
        if isinstance(source, _BYTES) or isinstance(target, _BYTES):
            rect = byte_copies.rect_of(source, target, source_rect, target_rect, at)
            return byte_copies.append(self, source, target, rect, source_offset, target_offset, nbytes, stride)
        if target_rect is not None or source_offset or target_offset or nbytes is not None or stride is not None:
            raise ValueError(
                "target_rect, source_offset, target_offset, nbytes and stride are for copies from or to a buffer; "
                "between surfaces use source_rect and at"
            )
        return self._copy(source, target, source_rect, at)

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
        source, target
            The surfaces or views to read and to write.
        source_rect, target_rect
            (x, y, width, height) in pixels; None: all of it. A negative width or height mirrors: (x, y) is then the
            right or bottom edge. Each must be inside its surface.
        filter
            ``"linear"`` or ``"nearest"``.

        Returns
        -------
        CommandList
            This list, for further commands.

        Examples
        --------
        >>> with device.create_surface(32, 24) as small, small.access(), surface.access() as view:
        ...     submission = device.submit(device.record().blit(small, view))
        """
        return self._blit(source, target, source_rect, target_rect, filter)

    def composite(
        self,
        source: Surface | View,
        target: Surface | View,
        at: Sequence[int] = (0, 0),
        opacity: float = 1.0,
        alpha: str = "premultiplied",
    ) -> Self:
        """Blends the source over the target: source·opacity + target·(1 - alpha·opacity).

        -srgb targets blend in linear space, others on the stored values; -srgb sources are decoded
        first.

        Parameters
        ----------
        source, target
            The surfaces or views to read and to draw into.
        at
            (x, y) in the target of the source's top left; what is outside is clipped.
        opacity
            0 to 1.
        alpha
            ``"premultiplied"``: the source's colours are multiplied by its alpha already, as cairo's and Skia's are.
            ``"straight"``: they are not, as Pillow's are; they are multiplied before they are blended.

        Returns
        -------
        CommandList
            This list, for further commands.
        """
        return self._composite(source, target, at, opacity, alpha, False)

    def draw_triangles(
        self,
        target: Surface | View,
        vertices: Any,
        texture: Surface | View | None = None,
        filter: str = "linear",
        depth: Surface | View | None = None,
        depth_test: str = "less",
        depth_write: bool = True,
    ) -> Self:
        """Blends triangles over the target, later ones over earlier ones; both sides show.

        Parameters
        ----------
        target
            The surface or view to draw into.
        vertices
            float32 of shape (N, K), N a multiple of 3, or (T, 3, K). A row is, without a texture, ``x y r g b a`` or
            ``x y z w r g b a``; with one, ``x y u v``, ``x y z w u v`` or ``x y z w r g b a u v`` (texture times
            colour). Positions are Vulkan's clip space: x to the right and y down, -1 to 1 over the target, z within 0
            to w. Colours are premultiplied by alpha. u and v run from 0 to 1 over the texture. The values are copied.
        texture
            A surface to sample, clamped to its edges.
        filter
            ``"linear"`` or ``"nearest"``: how the texture is sampled.
        depth
            A surface of format d16unorm or d32float and of the target's size: a pixel is drawn if its depth, z / w,
            passes the test against the depth that is stored. z / w is affine over the triangle; for d16unorm it is
            rounded to the nearest code before the test (Vulkan 1.3, "Depth Test").
        depth_test
            ``"less"``, ``"less_equal"``, ``"greater"``, ``"greater_equal"``, ``"equal"``, ``"not_equal"``,
            ``"always"`` or ``"never"``: the pixel's depth, compared with the stored one.
        depth_write
            Whether the depth of pixels that pass is stored.

        Returns
        -------
        CommandList
            This list, for further commands.

        Examples
        --------
        >>> corners = [(0, -0.8, 1, 0, 0, 1), (0.8, 0.8, 0, 1, 0, 1), (-0.8, 0.8, 0, 0, 1, 1)]
        >>> with surface.access() as view:
        ...     submission = device.submit(device.record().draw_triangles(view, corners))
        """
        state = 0 if depth is None and depth_test == "less" else arguments.depth_state(depth_test, depth_write)
        return self._draw_triangles(target, vertices, texture, filter, depth, state)

    # ---- the list itself ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Forgets what was recorded; work that was submitted still runs. Idempotent, and never needed."""
        self._close()

    def __len__(self) -> int:
        return int(lib.vks_recording_length(pointer("vks_recording *", self)))

    def __bool__(self) -> bool:
        return True  # an empty list is still a list to submit

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self)} operations{', compiled' if self._is_compiled else ''}"
        return f"<vkshare.CommandList {state}>"

    if TYPE_CHECKING:

        @property
        def device(self) -> Device: ...

    # ---- within the package -----------------------------------------------------------------------------------------

    def _refuse_operand(self, name: str, value: Any, usage: str) -> NoReturn:
        """Called from C for an argument that cannot be used: raises the reason."""
        if not isinstance(value, Surface):
            hint = "; copy() alone takes buffers" if isinstance(value, Buffer) else ""
            raise TypeError(f"{name} must be a Surface or a View, not {type(value).__name__}{hint}")
        if value.device is not self.device:
            raise DeviceMismatchError(
                f"{name} belongs to {value.device!r}, the commands to {self.device!r}: open it here with "
                "device.open_surface(surface.export())"
            )
        if value.is_closed:
            raise ClosedError(f"{name} is closed: {value!r}")
        if usage not in value.usage:
            raise InvalidCallError(
                f"{name} was created with usage {sorted(value.usage)}; this command needs {usage!r}: "
                f"create_surface(..., usage=(..., {usage!r}))"
            )
        value._check_writable()
        raise InvalidCallError(f"{name} has no image that commands can use: {value!r}")
