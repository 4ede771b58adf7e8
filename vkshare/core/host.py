"""A surface's memory as other libraries of the CPU take it: DLPack, and the targets of 2D libraries.

Nothing here copies but dlpack(copy=True). A 2D library's target draws into the surface's own memory
until the access ends. The target keeps the memory alive: using it later is an error or has no
guaranteed effect, and never crashes. (What a library hands out by address alone, such as
cairocffi's get_data() or a skia.Pixmap, is valid as long as the target that gave it: with that
library it always is.) All functions are thread-safe; a target is as much so as its library.
"""

from __future__ import annotations

import importlib
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from vkshare.errors import InvalidCallError, UnsupportedBufferError, UnsupportedError
from vkshare.formats import get as get_format
from vkshare.util import arguments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PIL.Image import Image

    from vkshare.core.surface import Surface
    from vkshare.core.view import KeyedView, View

DL_CPU = (1, 0)  # kDLCPU, device 0
_CAN_SAY_READ_ONLY = (1, 0)  # DLPack's version
_NUMPY_HAS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

# Formats that a library draws without a conversion: name -> what the library calls that memory.
PILLOW_MODES = {"r8unorm": "L", "rgba8unorm": "RGBA", "rgba8unorm-srgb": "RGBA"}
CAIRO_FORMATS = {"r8unorm": "FORMAT_A8", "bgra8unorm": "FORMAT_ARGB32"}  # ARGB32 in the words of a little-endian CPU
SKIA_TYPES = {
    "r8unorm": "kGray_8_ColorType",
    "rg8unorm": "kR8G8_unorm_ColorType",
    "rgba8unorm": "kRGBA_8888_ColorType",
    "rgba8unorm-srgb": "kRGBA_8888_ColorType",
    "bgra8unorm": "kBGRA_8888_ColorType",
    "rgb10a2unorm": "kRGBA_1010102_ColorType",
    "rgba16float": "kRGBA_F16_ColorType",
    "rgba32float": "kRGBA_F32_ColorType",
    "rg16float": "kR16G16_float_ColorType",
    "rg16unorm": "kR16G16_unorm_ColorType",
    "rgba16unorm": "kR16G16B16A16_unorm_ColorType",
}
_LIBRARIES = {"pillow": ("Pillow", PILLOW_MODES), "cairo": ("cairo", CAIRO_FORMATS), "skia": ("Skia", SKIA_TYPES)}
_PACKAGES = {"pillow": "PIL.Image", "cairo": "cairocffi", "skia": "skia"}
_CAIRO_STRIDE = 4  # bytes: CAIRO_STRIDE_ALIGNMENT of cairoint.h


def dlpack(
    view: KeyedView,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Return a DLPack capsule of memory that the CPU sees (Python array API standard, 2023.12).

    Parameters
    ----------
    view
        The view of the pixels; View.__dlpack__() passes itself.
    stream
        None, because the CPU has no streams.
    max_version
        (major, minor): the newest version of DLPack that the consumer knows; None: before 1.0.
    dl_device
        (type, id) of the device that the consumer wants; None: the memory's own, which is (1, 0).
    copy
        True: the capsule has a copy of the pixels; False or None: the memory itself.

    Returns
    -------
    PyCapsule
        The consumer takes it over.

    Raises
    ------
    UnsupportedBufferError
        The CPU cannot see the memory, another device is asked for, or the view is read-only and the
        consumer's DLPack cannot say so (before 1.0).
    InvalidCallError
        The view is over.
    ValueError, TypeError
        `stream` is not None; `max_version` or `dl_device` is neither None nor a pair of integers.
    """
    if stream is not None:
        raise ValueError(f"stream is {stream!r}; the CPU has none: allowed is None")
    device, version = arguments.pair("dl_device", dl_device), arguments.pair("max_version", max_version)
    if device not in (None, DL_CPU):
        raise UnsupportedBufferError(
            f"DLPack on device {device}", f"the memory is the CPU's, {DL_CPU}", "copy the array there"
        )
    array = view.array
    versioned = _NUMPY_HAS_VERSIONS and version is not None and version >= _CAN_SAY_READ_ONLY
    if not (view.writable or copy or versioned):
        raise UnsupportedBufferError(
            "DLPack of a read-only view",
            "the consumer's DLPack is older than 1.0 and has no read-only flag",
            "use access(writable=True), or copy=True",
        )
    if not _NUMPY_HAS_VERSIONS:
        return (array.copy() if copy else array).__dlpack__()
    return array.__dlpack__(max_version=version, copy=copy)


def pillow(view: View) -> Image:
    """Return a PIL.Image that draws into the view's pixels; see View.pillow().

    Raises
    ------
    UnsupportedError, InvalidCallError
        As View.pillow().
    """
    package, surface, mode, memory = _target(view, "pillow")
    size = surface.width, surface.height
    image: Image = package.frombuffer(mode, size, memory, "raw", mode, surface.stride, 1)
    image.readonly = 0  # Pillow copies what it takes for read-only before it draws
    view._at_end(image.close)
    return image


def cairo(view: View) -> Any:
    """Return a cairocffi.ImageSurface that draws into the view's pixels; see View.cairo().

    Raises
    ------
    UnsupportedError, InvalidCallError
        As View.cairo().
    """
    package, surface, name, memory = _target(view, "cairo")
    if surface.stride % _CAIRO_STRIDE:
        raise UnsupportedError(
            f"view.cairo() of rows {surface.stride} bytes apart",
            f"cairo wants a multiple of {_CAIRO_STRIDE}",
            f"choose a width that is a multiple of {_CAIRO_STRIDE}",
        )
    target = package.ImageSurface.create_for_data(
        memory.data, getattr(package, name), surface.width, surface.height, surface.stride
    )
    view._at_end(lambda: _finish(package, target))
    return target


def skia(view: View) -> Any:
    """Return a skia.Surface that draws into the view's pixels; see View.skia().

    Raises
    ------
    UnsupportedError, InvalidCallError
        As View.skia().
    """
    package, surface, name, memory = _target(view, "skia")
    # Types without an alpha channel are opaque to Skia.
    has_alpha = surface.spec.format.channels == 4 or surface.format == "rgb10a2unorm"
    alpha = package.AlphaType.kPremul_AlphaType if has_alpha else package.AlphaType.kOpaque_AlphaType
    info = package.ImageInfo.Make(surface.width, surface.height, getattr(package.ColorType, name), alpha)
    target = package.Surface.MakeRasterDirect(info, memory, surface.stride)
    if target is None:
        raise UnsupportedError(
            f"view.skia() of {surface.format}", f"this Skia does not draw {name}", _hint("skia", surface.format)
        )
    # Skia only has the address. The canvas holds the surface: as long as either is there, so is the
    # memory.
    weakref.finalize(target, _let_go, memory).atexit = False
    view._at_end(lambda: _shut(package, target))
    return target


def _finish(cairo: ModuleType, target: Any) -> None:
    """Flushes; from then on cairo refuses to draw. The user may have done it already, and tried to go on."""
    try:
        target.finish()
    except cairo.CairoError as error:
        if error.status != cairo.STATUS_SURFACE_FINISHED:
            raise


def _shut(skia: ModuleType, target: Any) -> None:
    """Draws what is left in open layers; the rest is drawn already. A surface has no end: all that comes is clipped."""
    canvas = target.getCanvas()
    canvas.restoreToCount(1)
    canvas.clipRect(skia.Rect.MakeEmpty())


def _let_go(memory: Any) -> None:
    """The object that kept the memory alive was collected."""


def _target(view: View, library: str) -> tuple[ModuleType, Surface, str, np.ndarray[Any, Any]]:
    """Return what a library draws with and into. Waits for submitted work.

    The library's package, the surface, the library's name of the pixel format, and all rows as
    bytes, with padding.
    """
    surface = view.surface
    name, formats = _LIBRARIES[library]
    what = f"view.{library}() of {surface.format}"
    if surface.format not in formats:
        raise UnsupportedError(what, f"{name} has no such pixels", _hint(library, surface.format))
    if surface._is_frame:
        raise UnsupportedError(
            f"view.{library}() of a frame",
            f"nothing tells {name} when it is presented",
            "draw into a surface, and composite() that into the frame",
        )
    if not view.writable:
        raise InvalidCallError(f"view.{library}() draws, and this access is read-only: leave writable=False out of it")
    array = view.array
    size = surface.stride * surface.height
    if surface._mapped is None or len(surface._mapped) < size:
        raise UnsupportedError(
            what, f"{name} takes it for {size} bytes, and its last row is not padded", "use view.array"
        )
    # The array without its shape; it keeps the memory alive.
    memory = np.lib.stride_tricks.as_strided(array.view(np.uint8), shape=(size,), strides=(1,))
    return _package(library), surface, formats[surface.format], memory


def _hint(library: str, format: str) -> str:
    if get_format(format).is_planar:
        return "use view.planes[0].array, and those of the other planes"
    others = [f"view.{method}()" for method, (_, formats) in _LIBRARIES.items() if format in formats]
    return f"create the surface as {_either(_LIBRARIES[library][1])}, or use {_either([*others, 'view.array'])}"


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _package(library: str) -> ModuleType:
    name, what = _PACKAGES[library], f"view.{library}()"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UnsupportedError(what, f"{error.name} is not installed", f"pip install 'vkshare[{library}]'") from error
    except (ImportError, OSError) as error:  # the package is there, and a shared library of the system's is not
        raise UnsupportedError(what, f"{name} does not load: {error}", "install what it needs of the system") from error
