"""Surfaces: images that several devices and processes share, each through a handle of its own."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vkshare.backends.base import Image, ImageSpec
from vkshare.color import SRGB, Color
from vkshare.core import pixels, planes
from vkshare.core.access import Access
from vkshare.core.deletion_queue import SharedImage
from vkshare.core.keyed_memory import KeyedMemory
from vkshare.core.mirror_state import Box
from vkshare.core.view import View
from vkshare.core.watchable import Watchable, check_usage
from vkshare.core.watched_picture import Picture
from vkshare.errors import InvalidCallError, UnsupportedError
from vkshare.ipc.descriptors import SurfaceDescriptor
from vkshare.util import arguments
from vkshare.util.closing import on_error
from vkshare.util.library_calls import check, ffi, lib

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

    from vkshare.core.device import Device
    from vkshare.core.outlet import Outlet
    from vkshare.core.publication import Publication


@dataclass(frozen=True, slots=True)
class SurfaceStatistics:
    """A snapshot of one handle. ``surface.mutex.statistics()`` has the state that all handles share."""

    is_owned: bool
    generation: int
    nbytes: int  # of the pixels, rows padded as they are in memory; of planes, without padding
    stride: int  # bytes from row to row; 0 for optimal tiling
    copied_bytes: int  # by the share() or share_array() that made it; 0 where the memory is the tensor's own
    color: Color = SRGB


class Surface(KeyedMemory[Image, View], Watchable):
    """One handle of a shared image, and of the keyed mutex that orders its users.

    Made by ``device.create_surface()`` and ``device.open_surface()``. Thread-safe; ownership
    belongs to the handle, never to a thread (rule K19).
    """

    _unpicklable = "send surface.export(), and call device.open_surface() on the other side"
    _kind = "surface"
    _published_as = "surface"
    _view = View
    _zeros: Surface | None

    def __init__(self, device: Device, shared_image: SharedImage[Image], **options: Any) -> None:
        spec = shared_image.thing.spec
        self._spec: ImageSpec = spec
        self._copied = 0  # bytes, when it was made of another API's memory
        extent: dict[str, Any] = {"width": spec.width, "height": spec.height, "format": spec.format.code}
        extent["color"] = spec.color.codes
        super().__init__(device, shared_image, extent, **options)

    # ---- properties -----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> ImageSpec:
        """Size, format, tiling, usage and colour."""
        return self._spec

    @property
    def width(self) -> int:
        """Pixels."""
        return self._spec.width

    @property
    def height(self) -> int:
        """Pixels."""
        return self._spec.height

    @property
    def format(self) -> str:
        """The format's name, e.g. ``"rgba8unorm"``."""
        return self._spec.format.name

    @property
    def color(self) -> Color:
        """The meaning of the codes: the exporter's, in each process."""
        return self._spec.color

    @property
    def tiling(self) -> str:
        """``"linear"`` or ``"optimal"``."""
        return self._spec.tiling

    @property
    def usage(self) -> frozenset[str]:
        """A subset of "render", "sample", "copy", "storage"."""
        return self._spec.usage

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the arrays of read() and write(); of planes, of the first one."""
        return self._spec.height, self._spec.width, self._spec.format.channels

    @property
    def stride(self) -> int:
        """Bytes from row to row; 0 for optimal tiling."""
        return self._stride

    @property
    def discards(self) -> bool:
        """Whether use without owning is discarded in place of refused (rule K21)."""
        return self._discards

    @property
    def _strides(self) -> tuple[int, int, int] | None:
        pixel = self._spec.format
        if not self._stride:
            return None
        return self._stride, pixel.bytes_per_pixel, pixel.bytes_per_pixel // pixel.channels

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self._spec.format.numpy_dtype

    @property
    def image(self) -> int:
        """The VkImage; 0 on the CPU backend."""
        return self._open_image().image

    @property
    def image_view(self) -> int:
        """The VkImageView; 0 on the CPU backend."""
        return self._open_image().image_view

    # ---- owning ---------------------------------------------------------------------------------------------------

    def access(
        self,
        acquire: int = 0,
        release: int = 0,
        timeout: float | None = None,
        *,
        writable: bool = True,
        damage: Iterable[Sequence[int]] | None = None,
    ) -> Access[View]:
        """Owns the surface inside a ``with`` block: acquires it, hands out a view, and releases it at the end.

        Parameters
        ----------
        acquire, release
            The keys to own it by, and to hand it on with. A body that raises releases with the ACQUIRE key, so that
            no other handle gets half a frame (rule K31).
        timeout
            Seconds to wait for ownership; None: without limit.
        writable
            False: the view's array is read-only.
        damage
            Rectangles (x, y, width, height) in pixels, outside which the block changes nothing; () for a block that
            only reads. Mirrors copy the least rectangle around them in place of the whole surface
            (``device.mirror()``). None: the block may change every pixel. A body that raises may have.

        Returns
        -------
        Access
            A context manager, which gives the view.

        Raises
        ------
        ValueError, TypeError
            An argument is not as above, or a rectangle is not inside the surface.

        Examples
        --------
        >>> with surface.access(damage=[(0, 0, 8, 8)]) as view:
        ...     submission = device.submit(device.record().fill_rect(view, (0, 0, 8, 8), (0, 1, 0, 1)))
        """
        damage = () if self.is_read_only else damage
        at_end = None if damage is None else partial(self._set_damage, self._box_around(damage))
        return Access(self, self._view, acquire, release, timeout, writable, at_end)

    def _box_around(self, damage: Iterable[Sequence[int]]) -> Box:
        rects = [arguments.rect("damage", each) for each in damage]
        for x, y, width, height in rects:
            if min(x, y, width, height) < 0 or x + width > self.width or y + height > self.height:
                raise ValueError(
                    f"damage has ({x}, {y}, {width}, {height}), which is not inside the surface of "
                    f"{self.width}x{self.height}"
                )
        return Box.around(Box(*each) for each in rects)

    def _set_damage(self, box: Box) -> None:
        """Say that this turn changes nothing outside the box. The handle owns the surface."""
        struct = ffi.new("vks_box *", (box.x, box.y, box.width, box.height))
        check(lib.vks_surface_set_damage(self._pointer, struct), "Surface.access")

    # ---- pixels ---------------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Returns a copy of the pixels, (H, W, C) in memory order, row 0 on top.

        It is ordered behind the work submitted so far.

        Parameters
        ----------
        timeout
            Seconds to wait for work on the surface, this device's and the last owner's. None: without limit.

        Raises
        ------
        AcquireTimeout
            The work did not end in time; nothing was copied, and the surface stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the surface (zeros if it was made with unowned="discard").

        Examples
        --------
        >>> with surface.access():
        ...     pixels = surface.read()
        >>> pixels.shape
        (48, 64, 4)
        """
        self._refuse_planes("Surface.read()", "read_planes()")
        return self._read(timeout)

    def _refuse_planes(self, call: str, instead: str) -> None:
        if self._spec.format.is_planar:
            what = f"{call} of a surface in planes ({self.format})"
            raise UnsupportedError(what, "one array has no room for planes of several sizes", f"use {instead}")

    def read_planes(self, timeout: float | None = None) -> tuple[np.ndarray[Any, Any], ...]:
        """Returns a copy of each plane, (H, W, C) in memory order, luma first.

        Parameters, errors and order are those of read(). A format of one plane has that one.

        Examples
        --------
        >>> with device.create_surface(64, 48, "nv12") as video, video.access():
        ...     [plane.shape for plane in video.read_planes()]
        [(48, 64, 1), (24, 32, 2)]
        """
        return pixels.read_planes(self, planes.of(self), timeout)

    def write_planes(self, arrays: Sequence[Any], timeout: float | None = None) -> None:
        """Copies an array into each plane, luma first, ordered like any other work.

        Parameters
        ----------
        arrays
            One for each plane, (H, W, C) in its own size and the plane's dtype; of p010 the upper 10 bits count.
        timeout
            As of write().

        Raises
        ------
        ValueError, TypeError
            Another number, shape or dtype. The other errors are those of write().

        Examples
        --------
        >>> import numpy as np
        >>> with device.create_surface(64, 48, "nv12") as video, video.access():
        ...     video.write_planes([np.full((48, 64, 1), 128, np.uint8), np.full((24, 32, 2), 128, np.uint8)])
        """
        pixels.write_planes(self, planes.of(self), planes.checked(self, arrays), timeout)

    def write(self, array: Any, timeout: float | None = None) -> None:
        """Copies an array of shape (H, W, C) and the format's dtype into the surface, ordered like any other work.

        Parameters
        ----------
        array
            The pixels.
        timeout
            Seconds to wait for work on the surface, where the CPU writes to its memory. None: without limit. Elsewhere
            the copy is submitted, and write() does not wait.

        Raises
        ------
        ValueError, TypeError
            Another shape or dtype; nothing is converted.
        AcquireTimeout
            The work did not end in time; nothing was copied, and the surface stays owned.
        AbandonedError
            The last owner's work will never end.
        NotOwnerError
            This handle does not own the surface (no effect if it was made with unowned="discard").

        Examples
        --------
        >>> import numpy as np
        >>> with surface.access():
        ...     surface.write(np.zeros((48, 64, 4), np.uint8))
        """
        self._refuse_planes("Surface.write()", "write_planes()")
        self._write(pixels.checked(self, array), timeout)

    def to_linear(self) -> Surface:
        """Makes a linear surface of the device with this one's contents, copied on the GPU; not owned, key 0.

        Where memory of linear images is host-visible its View has an `array`. Own this surface
        first; the copy is ordered like any other work, and the new surface's next owner comes after
        it. Its usage is this one's, less "render" and "storage" where the driver has no such linear
        images.

        Returns
        -------
        Surface
            Close it, or use it in a ``with`` block.

        Raises
        ------
        UnsupportedError
            The driver has no linear images of this format.
        InvalidCallError
            This surface was made without usage "copy"; NotOwnerError: this handle does not own it.
        """
        self._open_image()
        device = self.device
        linear = _linear_like(device, self._spec)
        with on_error(linear.close):
            linear.acquire(0)
            device.submit(device.record().copy(self, linear))
            linear.release(0)
        return linear

    def export(self) -> SurfaceDescriptor:
        """Return a descriptor for another device's or process's ``open_surface()``. Close it, or send it, or open it.

        The first export may wait for work on the surface, which was not synchronized for other
        devices before.

        Raises
        ------
        InvalidCallError
            The surface is a queue's, which is exported as a whole.
        UnsupportedError
            The memory is another API's, and not as this driver would export it.
        TimeoutError
            A present has had the queue for ten seconds.

        Examples
        --------
        >>> with surface.export() as descriptor, device.open_surface(descriptor) as handle:
        ...     handle.shape == surface.shape
        True
        """
        self._refuse_if_queued("export")
        return self._exported()

    def _exported(self) -> SurfaceDescriptor:
        return SurfaceDescriptor._made(self._spec, *self._exported_parts(), name=self.device.name)

    # ---- names and watchers ---------------------------------------------------------------------------------------

    def publish(self, name: str, *, key: int = 0, wants_input: bool = False) -> Publication:
        """Publishes the surface under a name, by which any process of this user finds and opens it (rule W1).

        ``vks.open_published()`` opens it there, under the same keyed mutex. Others watch copies, which
        this process makes: a thread of it looks at the surface up to 120 times a second while there
        are watchers. Whenever the surface has changed and is free with `key`, the thread acquires it
        for the time of a submit(), and releases it with the same key.

        Parameters
        ----------
        name
            1 to 64 printable characters.
        key
            The key that a release leaves when the picture is complete, 0 to 2**64 - 1.
        wants_input
            Whether those that watch may send input events, which ``events()`` of the publication returns.

        Returns
        -------
        Publication
            Its close() ends the name, as the surface's close() does, and the process's end. It may be dropped.

        Raises
        ------
        InvalidCallError
            A living process has the name, and the text has its pid; or the surface is a queue's or a swapchain's:
            publish that.
        ValueError, TypeError
            The name or the key is not as above.
        OSError
            No socket can be made in the user's runtime folder.

        Examples
        --------
        >>> with surface.publish("example"):
        ...     print([(each.name, each.kind) for each in vks.find()])
        [('example', 'surface')]
        """
        return self._publish(name, arguments.integer("key", key, 0, 2**64 - 1), wants_input)

    def _new_outlet(self, key: int) -> Outlet:
        from vkshare.core.surface_outlet import SurfaceOutlet

        return SurfaceOutlet(self, key)

    def _picture(self) -> Picture:
        self._open_image()
        return Picture.of(self)

    def _frame_count(self) -> int:
        copies = sum(outlet.takes for outlet in dict(self._outlets or {}).values())
        return max(0, self.mutex.statistics().value - copies)

    def _check_watchable(self) -> None:
        self._open_image()
        if self._kept_by is not None:
            raise InvalidCallError(f"this surface belongs to {self._kept_by()!r}: publish or watch that")
        check_usage(self)

    def _end(self) -> None:
        self._close_outlets()
        super()._end()

    def statistics(self) -> SurfaceStatistics:
        """Returns a snapshot of this handle."""
        spec = self._spec
        row = self._stride or self.width * spec.format.bytes_per_pixel
        nbytes = spec.nbytes if spec.format.is_planar else row * self.height
        return SurfaceStatistics(self.is_owned, self.generation, nbytes, self._stride, self._copied, spec.color)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return what a notebook's cell shows."""
        # By name, because the core knows none of its viewers, and nothing is loaded before a cell shows a surface.
        return importlib.import_module("vkshare.view.notebook").surface_bundle(self)

    def __repr__(self) -> str:
        spec = self._spec
        kind = f"{spec.width}x{spec.height} {spec.format.name} {spec.tiling}{' read-only' if self.is_read_only else ''}"
        return f"<vkshare.Surface {kind}, {self._state()}>"


def _linear_like(device: Device, spec: ImageSpec) -> Surface:
    """Make a linear surface of that size and format, with as much of the usage as the driver has."""
    wanted, size = spec.usage | {"copy"}, (spec.width, spec.height)
    refused: UnsupportedError | None = None
    for usage in (wanted, wanted - {"storage"}, wanted - {"storage", "render"}, {"copy"}):
        try:
            return device.create_surface(*size, spec.format, tiling="linear", usage=usage, color=spec.color)
        except UnsupportedError as error:
            refused = refused or error
    assert refused is not None
    raise refused
