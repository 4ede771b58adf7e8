"""Pictures as arrays and as files: PNG for 8-bit pictures of 1, 3 and 4 channels, .npy for all others.

A .npy file keeps floats, 10-bit pixels and two channels as they are, which no PNG does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vkshare.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from vkshare import Adapter

    Array = np.ndarray[Any, Any]

SUFFIXES = (".png", ".npy")
# The heat map: from black over blue and red to yellow and white, by the size of the difference.
_HEAT = ((0, 0, 0), (40, 20, 120), (170, 30, 110), (240, 100, 40), (250, 210, 60), (255, 255, 255))


def pixels_of(picture: Any) -> tuple[Array, Adapter | None]:
    """Return the pixels of a Surface, a View or an array as (H, W, C), and the adapter that drew them.

    A surface of bgra8unorm is returned in the order RGBA, as files have it. A surface must be owned
    (NotOwnerError).
    """
    import numpy as np

    surface = getattr(picture, "surface", picture)
    adapter = None
    if hasattr(surface, "read") and hasattr(surface, "device"):
        pixels, adapter = surface.read(), surface.device.adapter
        if surface.format == "bgra8unorm":
            pixels = pixels[:, :, [2, 1, 0, 3]]
    else:
        pixels = np.asarray(picture)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or not pixels.size or pixels.dtype.kind not in "uif":
        raise ValueError(f"a picture is (H, W, C) or (H, W) numbers, not {pixels.shape} of {pixels.dtype}")
    return pixels, adapter


def suffix_of(pixels: Array) -> str:
    """Return ".png" where a PNG keeps the pixels as they are, else ".npy"."""
    return ".png" if pixels.dtype == "uint8" and pixels.shape[2] in (1, 3, 4) else ".npy"


def save(path: Path, pixels: Array) -> None:
    """Write the pixels to a .png or .npy file.

    UnsupportedError: a PNG needs Pillow, and it is not installed.
    """
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, pixels, allow_pickle=False)
    else:
        _pillow().fromarray(as_bytes(pixels)).save(path)


def load(path: Path) -> Array:
    """Return the pixels of a .png or .npy file, (H, W, C). UnsupportedError as save()."""
    import numpy as np

    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    with _pillow().open(path) as image:
        pixels = np.asarray(image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGBA"))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        hint = "pip install 'vkshare[testing]'"
        raise UnsupportedError("a picture as a PNG file", "Pillow is not installed", hint) from error
    return Image


def as_bytes(pixels: Array) -> Array:
    """Convert to the pixels of a PNG: grey, RGB or RGBA bytes.

    Floats are taken as 0 to 1; two channels become red and green.
    """
    import numpy as np

    if pixels.dtype == np.uint32:
        pixels = (pixels >> np.array([2, 12, 22], np.uint32)) & 255
    elif pixels.dtype == np.uint16:
        pixels = pixels >> 8
    elif pixels.dtype != np.uint8:
        pixels = np.nan_to_num(np.clip(pixels.astype(np.float64), 0, 1)) * 255 + 0.5
    data = np.asarray(pixels, np.uint8)
    if data.ndim == 3 and data.shape[2] == 1:
        return data[:, :, 0]
    if data.ndim == 3 and data.shape[2] == 2:
        return np.dstack([data, np.zeros_like(data[:, :, 0])])
    return data


def heat_map(sizes: Array) -> Array:
    """Return the RGB picture of an (H, W) array of differences; the largest one is white."""
    import numpy as np

    sizes = np.nan_to_num(np.asarray(sizes, np.float64), nan=np.inf)
    finite = sizes[np.isfinite(sizes)]
    largest = float(finite.max()) if finite.size else 0.0
    scaled = np.where(np.isfinite(sizes), sizes / largest if largest > 0 else 0.0, 1.0)
    stops = np.linspace(0, 1, len(_HEAT))
    channels = [np.interp(np.sqrt(scaled), stops, [colour[n] for colour in _HEAT]) for n in range(3)]
    return np.stack(channels, axis=2).astype(np.uint8)
