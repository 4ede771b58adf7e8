"""Views: the pixels of a surface, or the bytes of a buffer, for as long as an access lasts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from vkshare import _native
from vkshare.backends.base import BufferSpec
from vkshare.core import host, pixels, planes
from vkshare.errors import InvalidCallError, UnsupportedAttributeError, UnsupportedBufferError

if TYPE_CHECKING:
    from PIL.Image import Image

    from vkshare.core.buffer import Buffer
    from vkshare.core.keyed_memory import KeyedMemory
    from vkshare.core.surface import Surface


class KeyedView(_native.ArrayBuffer):
    """The base of View and BufferView: memory inside a block, for the CPU's libraries."""

    __slots__ = ("__weakref__", "_endings", "_surface", "_writable")
    _kind: ClassVar[str] = "surface"

    def __init__(self, surface: KeyedMemory[Any, Any], *, writable: bool) -> None:
        self._surface: KeyedMemory[Any, Any] | None = surface
        self._writable = writable
        self._endings: ExitStack | None = None  # of what pillow(), cairo() and skia() gave

    def _open(self) -> KeyedMemory[Any, Any]:
        if self._surface is None:
            raise InvalidCallError(
                f"this {type(self).__name__} is over: it is valid inside `with {self._kind}.access(acquire=..., "
                "release=...) as view:` only"
            )
        return self._surface

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `array`."""
        return self._open().shape

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Bytes, as NumPy has them; None for optimal tiling, which has none."""
        return self._open()._strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of one array element."""
        return self._open()._dtype

    @property
    def writable(self) -> bool:
        """Whether `array` may be written."""
        return self._writable

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """An array over the memory itself, read-only with writable=False. Waits for submitted work on it.

        (H, W, C) of a surface, (nbytes,) of a buffer.

        Raises
        ------
        UnsupportedError
            The CPU cannot see the memory (optimal tiling); a BufferError, too.
        InvalidCallError
            The view is over.
        """
        surface = self._open()
        surface._refuse_planes("View.array", "planes[0].array, and those of the other planes")
        if not surface.is_host_visible:
            raise _unmapped("View.array", surface)
        surface._cpu_access()
        array = pixels.over(surface)
        if not self._writable:
            array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.array
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"copy=False, but {array.dtype} becomes {np.dtype(dtype)} by copying only")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over the memory itself; see the array API standard. On the CPU `stream` must be None.

        Raises
        ------
        UnsupportedError
            A BufferError, too: the CPU cannot see the memory, another device is asked for, or the view is read-only and
            `max_version` is below (1, 0), which cannot say so.
        """
        return host.dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        surface = self._open()
        if not surface.is_host_visible:
            raise _unmapped("DLPack", surface)
        return host.DL_CPU

    @property
    def __cuda_array_interface__(self) -> NoReturn:
        raise UnsupportedAttributeError(
            "__cuda_array_interface__", f"this {self._open()._kind}'s memory is not open in CUDA"
        )

    def _at_end(self, call: Callable[[], object]) -> None:
        """Calls `close` when the access ends, before the surface is released."""
        if self._endings is None:
            self._endings = ExitStack()
        self._endings.callback(call)

    def _end(self) -> None:
        self._surface = None
        if self._endings is not None:
            self._endings.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<vkshare.{name} over>" if self._surface is None else f"<vkshare.{name} of {self._surface!r}>"


class View(KeyedView):
    """A surface inside a block; made by ``surface.access()``. Commands take it as they take the surface.

    On host-visible surfaces `array` is the memory itself, no copy; so are the buffer protocol
    (``memoryview(view)``), ``__array__`` and DLPack. Each of them waits until submitted work on the
    surface has run. After the block the view refuses every use. Arrays, tensors and memoryviews
    taken from it keep the memory alive, but what they show may be changed by the next owner: copy
    what is kept.

    pillow(), cairo() and skia() are 2D libraries' targets over the same memory, where a format and
    its rows are as the library has them (UnsupportedError names what would work). They draw inside
    the block only: at its end they are flushed and closed, before the next owner acquires the
    surface; an error there is raised, and the surface goes back by the key that it was acquired
    with. Each call waits until submitted work on the surface has run, so call again after
    submitting more. Row 0 is on top.
    """

    __slots__ = ("_planes",)

    def __init__(self, surface: KeyedMemory[Any, Any], *, writable: bool) -> None:
        super().__init__(surface, writable=writable)
        self._planes: tuple[PlaneView, ...] | None = None

    @property
    def surface(self) -> Surface:
        """The surface."""
        return self._open()  # type: ignore[return-value]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.surface.shape

    @property
    def format(self) -> str:
        """The format's name."""
        return self.surface.format

    @property
    def image(self) -> int:
        """The VkImage; 0 on the CPU backend."""
        return self.surface.image

    @property
    def image_view(self) -> int:
        """The VkImageView; 0 on the CPU backend."""
        return self.surface.image_view

    def _end(self) -> None:
        super()._end()
        self._planes = None  # they refer to this view, and the surface would live until a collection

    @property
    def planes(self) -> tuple[PlaneView, ...]:
        """A view of each plane, luma first, for as long as this one; a format of one plane has that one."""
        if self._planes is None:
            self._planes = tuple(PlaneView(each, self) for each in planes.of(self.surface))
        return self._planes

    @property
    def layout(self) -> str:
        """The image's layout between two submissions.

        ``"general"`` (VK_IMAGE_LAYOUT_GENERAL), or ``"present_src"``
        (VK_IMAGE_LAYOUT_PRESENT_SRC_KHR) for a swapchain's: an engine's own commands take it and
        leave it so.
        """
        return "present_src" if getattr(self.surface._open_image(), "is_presentable", False) else "general"

    def pillow(self) -> Image:
        """Returns a PIL.Image: mode RGBA for rgba8unorm (-srgb: its stored codes), L for r8unorm.

        Pillow's colours are straight, not multiplied by alpha: ``composite(..., alpha="straight")``
        puts them over a picture. After the block the image raises ValueError; an ImageDraw that was
        kept draws into memory that belongs to another party by then.

        Raises
        ------
        UnsupportedError
            Another format; the CPU cannot see the memory; Pillow is not installed (``vkshare[pillow]``).
        InvalidCallError
            The view is over, or read-only.
        """
        return host.pillow(self)

    def cairo(self) -> Any:
        """Returns a cairocffi.ImageSurface: ARGB32 (premultiplied) for bgra8unorm, A8 for r8unorm.

        After the block it is finished: drawing raises CairoError.

        Raises
        ------
        UnsupportedError
            Another format, or rows that cairo cannot take; the CPU cannot see the memory; cairocffi is not installed
            (``vkshare[cairo]``).
        InvalidCallError
            The view is over, or read-only.
        """
        return host.cairo(self)

    def skia(self) -> Any:
        """Returns a skia.Surface, premultiplied, for all formats but those of one wide channel; r8unorm is Gray_8.

        Without a colour space: the colours drawn are stored as they are, -srgb too. After the block
        its canvas draws nothing.

        Raises
        ------
        UnsupportedError
            Another format; the CPU cannot see the memory; skia-python is not installed (``vkshare[skia]``).
        InvalidCallError
            The view is over, or read-only.
        """
        return host.skia(self)


class PlaneView(KeyedView):
    """A plane of a surface inside a block; made by ``view.planes``.

    Its `array` is the memory itself where the CPU sees it, no copy, in the plane's own format
    ("r8unorm" and "rg8unorm" of "nv12"); so are the buffer protocol, ``__array__`` and DLPack. It is
    over when the surface's view is. Commands take the surface's view.
    """

    __slots__ = ("_of",)
    _kind = "plane"

    def __init__(self, plane: planes.Plane, of: View) -> None:
        super().__init__(plane, writable=of.writable)  # type: ignore[arg-type]
        self._of = of

    def _open(self) -> Any:
        self._of._open()
        return super()._open()

    @property
    def surface(self) -> Surface:
        """The surface."""
        return self._of.surface

    @property
    def format(self) -> str:
        """The format's name."""
        return str(self._open().format.name)


class BufferView(KeyedView):
    """A buffer inside a block; made by ``buffer.access()``. ``CommandList.copy()`` takes it as it takes the buffer.

    `array` is the memory itself where the CPU sees it, no copy; so are the buffer protocol
    (``memoryview(view)``), ``__array__`` and DLPack. Each of them waits until submitted work on
    the buffer has run. After the block the view refuses every use. Arrays that were taken from it
    keep the memory alive, but the next owner may change their contents: copy what is kept.
    """

    __slots__ = ()
    _kind = "buffer"

    @property
    def surface(self) -> Buffer:
        """The buffer: the handle that owns the memory."""
        return self._open()  # type: ignore[return-value]

    @property
    def nbytes(self) -> int:
        """Bytes."""
        return self.surface.nbytes

    @property
    def buffer(self) -> int:
        """The VkBuffer; 0 on the CPU backend."""
        return self.surface.buffer


def _unmapped(what: str, surface: KeyedMemory[Any, Any]) -> UnsupportedBufferError:
    surface._open_image()  # ClosedError
    spec = surface._spec
    if isinstance(spec, BufferSpec):
        hint = "use buffer.read() and write(), or vkshare.interop.cuda"
    else:
        others = ', surface.to_linear(), or create_surface(..., tiling="linear")'
        calls = "read_planes() and write_planes()" if spec.format.is_planar else "read() and write()"
        hint = f"use surface.{calls}" + ("" if spec.format.is_depth else others)
    return UnsupportedBufferError(what, f"the memory of {surface!r} cannot be mapped", hint)
