"""Views: a surface's pixels, for as long as an access lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from vkshare import _native, _pixels
from vkshare.errors import InvalidCallError, UnsupportedAttributeError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from vkshare.surface import Surface

_CPU = (1, 0)  # DLPack: kDLCPU, device 0


class View(_native.ArrayBuffer):
    """A surface inside ``with surface.access() as view:``. Commands take it as they take the surface.

    On host-visible surfaces `array` is the memory itself, no copy; so are the buffer protocol (``memoryview(view)``),
    ``__array__`` and DLPack. Each of them waits until submitted work on the surface has run. After the block the view
    refuses every use. Arrays taken from it stay readable, but what they show may be changed by the next owner: copy
    what is kept.
    """

    __slots__ = ("__weakref__", "_surface", "_writable")

    def __init__(self, surface: Surface, *, writable: bool) -> None:
        self._surface: Surface | None = surface
        self._writable = writable

    @property
    def surface(self) -> Surface:
        """The surface."""
        if self._surface is None:
            raise InvalidCallError(
                "this View is over: it is valid inside `with surface.access(acquire=..., release=...) as view:` only"
            )
        return self._surface

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.surface.shape

    @property
    def strides(self) -> tuple[int, int, int] | None:
        """Bytes, as NumPy has them; None for optimal tiling, which has none."""
        surface = self.surface
        if not surface.stride:
            return None
        pixel = surface.spec.format
        return surface.stride, pixel.bytes_per_pixel, pixel.bytes_per_pixel // pixel.channels

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy type of one array element."""
        return self.surface.spec.format.numpy_dtype

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

    @property
    def layout(self) -> str:
        """The image's layout between two submissions: ``"general"`` (VK_IMAGE_LAYOUT_GENERAL), or ``"present_src"``
        (VK_IMAGE_LAYOUT_PRESENT_SRC_KHR) for a swapchain's: an engine's own commands take it and leave it so.
        """
        return "present_src" if getattr(self.surface._open_image(), "is_presentable", False) else "general"

    @property
    def writable(self) -> bool:
        """Whether `array` may be written."""
        return self._writable

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """(H, W, C) over the memory itself, read-only with writable=False. Waits for submitted work on the surface.

        Raises
        ------
        UnsupportedError
            The CPU cannot see the memory (optimal tiling).
        InvalidCallError
            The view is over.
        """
        surface = self.surface
        if not surface.is_host_visible:
            raise UnsupportedError(
                "View.array",
                f"the memory of {surface!r} cannot be mapped",
                'use surface.read() and write(), or create_surface(..., tiling="linear")',
            )
        surface._cpu_access()
        array = _pixels.over(surface)
        if not self._writable:
            array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy as np

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
        """A DLPack capsule over the memory itself; see the array API standard. On the CPU `stream` must be None."""
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        return self.array.__dlpack__(**{name: value for name, value in options.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        if not self.surface.is_host_visible:
            raise UnsupportedError("DLPack", f"the memory of {self.surface!r} cannot be mapped", "use surface.read()")
        return _CPU

    @property
    def __cuda_array_interface__(self) -> NoReturn:
        raise UnsupportedAttributeError("__cuda_array_interface__", "this surface's memory is not open in CUDA")

    def _end(self) -> None:
        self._surface = None

    def __repr__(self) -> str:
        return "<vkshare.View over>" if self._surface is None else f"<vkshare.View of {self._surface!r}>"
