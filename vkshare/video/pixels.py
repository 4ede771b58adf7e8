"""FFmpeg's frames and the planes of surfaces: which format fits which, their colours, and the copies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vkshare import formats
from vkshare.color import BT709, SRGB, Color

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the samples of one of FFmpeg's pixel formats lie in memory."""

    planes: int
    depth: int = 8  # bits of a sample
    is_high: bool = False  # a sample of 10 bits has the upper ones of its word
    chroma: tuple[int, int] = (2, 2)


# Pixel formats whose samples a surface takes as they are.
LAYOUTS = {
    "nv12": Layout(2),
    "yuv420p": Layout(3),
    "yuvj420p": Layout(3),
    "p010le": Layout(2, 10, is_high=True),
    "yuv420p10le": Layout(3, 10),
    "nv16": Layout(2, chroma=(2, 1)),
    "yuv422p": Layout(3, chroma=(2, 1)),
    "yuvj422p": Layout(3, chroma=(2, 1)),
    "yuv444p": Layout(3, chroma=(1, 1)),
    "yuvj444p": Layout(3, chroma=(1, 1)),
    "gray": Layout(1),
}

# The layouts of surfaces in planes.
SURFACES = {
    "nv12": Layout(2),
    "i420": Layout(3),
    "p010": Layout(2, 10, is_high=True),
    "nv16": Layout(2, chroma=(2, 1)),
    "yuv444p": Layout(3, chroma=(1, 1)),
}

_NATURAL = {"p010le": "p010", "yuv420p10le": "p010", "nv12": "nv12", "nv16": "nv16"}
_BY_CHROMA = {(2, 2): "i420", (2, 1): "nv16", (1, 1): "yuv444p"}
_PACKED = {"rgba8unorm": "rgba", "bgra8unorm": "bgra", "rgba16unorm": "rgba64le"}  # by swscale

# ITU-T H.273, and FFmpeg's numbers, which are the same. Numbers without a name here are taken as the nearest.
_PRIMARIES = {1: "bt709", 4: "bt601-625", 5: "bt601-625", 6: "bt601", 7: "bt601", 9: "bt2020"}
_TRANSFERS = {1: "bt709", 6: "bt709", 8: "linear", 13: "srgb", 14: "bt709", 15: "bt709", 16: "pq", 18: "hlg"}
_MATRICES = {1: "bt709", 4: "bt601", 5: "bt601", 6: "bt601", 9: "bt2020", 10: "bt2020"}
_FULL = 2  # AVCOL_RANGE_JPEG
_LARGEST_SD = 576  # rows: video without a matrix is taken for BT.601 up to here, and for BT.709 above


class Plan(NamedTuple):
    """The surfaces that frames of one pixel format become."""

    format: str  # of the surface
    pixel_format: str  # of the frame that is copied: its own, or the one that swscale makes of it

    @property
    def is_converted(self) -> bool:
        """Whether swscale converts the frame to R, G and B first, because no surface has such planes."""
        return self.format in _PACKED


def natural(pixel_format: str, bits: int, width: int, height: int) -> Plan:
    """Return the surface format that takes frames of that pixel format sample for sample, or the nearest one.

    Parameters
    ----------
    pixel_format
        FFmpeg's name.
    bits
        Of its deepest component.
    width, height
        Pixels.
    """
    layout = LAYOUTS.get(pixel_format)
    if layout is not None:
        name = _NATURAL.get(pixel_format, _BY_CHROMA[layout.chroma])
        across, down = formats.get(name).chroma
        if width % across == 0 and height % down == 0:
            return Plan(name, pixel_format)
    return Plan("rgba8unorm", "rgba") if bits <= 8 else Plan("rgba16unorm", "rgba64le")


def direct(pixel_format: str, name: str) -> bool:
    """Whether a surface of that format takes the samples of such frames as they are."""
    source, target = LAYOUTS.get(pixel_format), SURFACES.get(name)
    return (
        source is not None
        and target is not None
        and (source.chroma == target.chroma or source.planes == 1)
        and source.depth == target.depth
    )


def packed(name: str) -> str:
    """The pixel format that swscale makes for surfaces of that format; "": none."""
    return _PACKED.get(name, "")


def color_of(frame: Any, codec: str) -> Color:
    """Return what a frame's codes mean: as it says, or as video of its size usually does.

    PyAV gives no siting of chroma: "left" is returned, as MPEG's video has it, and "center" for JPEG's codec.
    """
    if frame.format.is_rgb or frame.format.has_palette:
        return Color(
            primaries=_PRIMARIES.get(int(frame.color_primaries), SRGB.primaries),
            transfer=_TRANSFERS.get(int(frame.color_trc), SRGB.transfer),
        )
    usual = "bt601" if frame.height <= _LARGEST_SD else "bt709"
    matrix = _MATRICES.get(int(frame.colorspace), usual)
    is_full = frame.format.name.startswith("yuvj") or int(frame.color_range) == _FULL
    return Color(
        primaries=_PRIMARIES.get(int(frame.color_primaries), matrix),
        transfer=_TRANSFERS.get(int(frame.color_trc), BT709.transfer),
        matrix=matrix,
        range="full" if is_full else "limited",
        siting="center" if codec == "mjpeg" else "left",
    )


def tags_of(color: Color) -> dict[str, int]:
    """Return FFmpeg's numbers for a colour, by the names of PyAV's attributes."""
    codes = color.codes
    return {
        "color_primaries": codes["primaries"],
        "color_trc": codes["transfer"],
        "colorspace": codes["matrix"],
        "color_range": _FULL if color.range == "full" else 1,
    }


# ---- copies --------------------------------------------------------------------------------------------------------


def frame_planes(frame: Any) -> list[Array]:
    """The planes of a frame as (rows, samples) over its own memory, samples of a row in order."""
    layout = LAYOUTS[frame.format.name]
    dtype = np.dtype(np.uint8 if layout.depth == 8 else "<u2")
    found = []
    for index, plane in enumerate(frame.planes):
        across = layout.chroma[0] if index else 1
        down = layout.chroma[1] if index else 1
        samples = frame.width // across * (2 if index and layout.planes == 2 else 1)
        rows = frame.height // down
        line = plane.line_size
        memory = np.frombuffer(plane, np.uint8, rows * line).reshape(rows, line)
        found.append(memory[:, : samples * dtype.itemsize].view(dtype))
    return found


def packed_pixels(frame: Any, channels: int, dtype: str) -> Array:
    """A frame of one plane as (H, W, channels) over its own memory."""
    plane, element = frame.planes[0], np.dtype(dtype)
    line, row = plane.line_size, frame.width * channels * element.itemsize
    memory = np.frombuffer(plane, np.uint8, frame.height * line).reshape(frame.height, line)
    return memory[:, :row].view(element).reshape(frame.height, frame.width, channels)


def _flat(planes: Sequence[Array]) -> list[Array]:
    """Arrays (H, W, channels) as (rows, samples)."""
    return [plane.reshape(plane.shape[0], -1) if plane.ndim == 3 else plane for plane in planes]


def _components(planes: Sequence[Array]) -> list[Array]:
    """Y', Cb and Cr of planes, each as (rows, samples)."""
    if len(planes) == 2:
        return [planes[0], planes[1][:, 0::2], planes[1][:, 1::2]]
    return list(planes)


def copy_planes(source: Sequence[Array], origin: Layout, target: Sequence[Array], aim: Layout) -> None:
    """Copy the samples of planes into planes of the same size: each of them is written once.

    Parameters
    ----------
    source, target
        Arrays (rows, samples) or (H, W, channels).
    origin, aim
        Their layouts.
    """
    sources, targets = _flat(source), _flat(target)
    if origin.planes != aim.planes:
        sources, targets = _components(sources), _components(targets)
    for given, taken in zip(sources, targets, strict=False):
        _copy(given, origin, taken, aim)
    if origin.planes == 1:  # grey
        for chroma in targets[1:]:
            chroma[...] = 1 << 7 if aim.depth == 8 else 1 << (15 if aim.is_high else 9)


def _copy(source: Array, origin: Layout, target: Array, aim: Layout) -> None:
    if origin.is_high == aim.is_high:
        target[...] = source
    elif aim.is_high:
        np.left_shift(source, 16 - aim.depth, out=target)
    else:
        np.right_shift(source, 16 - origin.depth, out=target)
