"""Small video files of many kinds, with the pictures that they were made of."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from support.recorded_files import need_av

WIDTH, HEIGHT, FRAMES, RATE = 64, 48, 12, 25


class Kind(NamedTuple):
    """A kind of file."""

    suffix: str
    encoder: str
    pixel_format: str
    options: tuple[tuple[str, str], ...] = ()


_X264 = (("preset", "veryfast"), ("g", "6"))
_FFV1 = (("level", "3"), ("slicecrc", "1"), ("g", "1"))
KINDS = {
    "h264-mp4": Kind(".mp4", "libx264", "yuv420p", _X264),
    "h264-mkv": Kind(".mkv", "libx264", "yuv420p", (*_X264, ("bf", "2"))),
    "h264-10bit": Kind(".mp4", "libx264", "yuv420p10le", _X264),
    "h264-444": Kind(".mkv", "libx264", "yuv444p", _X264),
    "hevc-mp4": Kind(".mp4", "libx265", "yuv420p", (("x265-params", "log-level=none"), ("preset", "ultrafast"))),
    "vp9-webm": Kind(".webm", "libvpx-vp9", "yuv420p", (("deadline", "realtime"), ("cpu-used", "8"))),
    "ffv1-422": Kind(".mkv", "ffv1", "yuv422p", _FFV1),
    "ffv1-rgb": Kind(".mkv", "ffv1", "bgra", _FFV1),
    "mpeg2-ts": Kind(".ts", "mpeg2video", "yuv420p"),
    "mjpeg-avi": Kind(".avi", "mjpeg", "yuvj420p"),
    "h264-bare": Kind(".h264", "libx264", "yuv420p", _X264),
    "gif": Kind(".gif", "gif", "rgb8"),
}
TEN = [name for name in KINDS if name not in ("h264-bare", "ffv1-422")]  # those whose mutations are tried


def planes_of(frame: Any) -> list[np.ndarray[Any, Any]]:
    """Writable arrays (rows, samples) over a frame's planes."""
    dtype = "<u2" if "10le" in frame.format.name else "u1"
    itemsize = np.dtype(dtype).itemsize
    found = []
    for plane in frame.planes:
        memory = np.frombuffer(plane, np.uint8, plane.height * plane.line_size)
        channels = 4 if frame.format.name in ("bgra", "rgba") else 1
        row = plane.width * channels * itemsize
        found.append(memory.reshape(plane.height, plane.line_size)[:, :row].view(dtype))
    return found


def picture(number: int, pixel_format: str, width: int = WIDTH, height: int = HEIGHT) -> Any:
    """PyAV's frame of that number: soft gradients, whose luma says the number."""
    av = need_av()
    frame = av.VideoFrame(width, height, pixel_format)
    shift = 2 if "10le" in pixel_format else 0
    for index, plane in enumerate(planes_of(frame)):
        rows, columns = np.mgrid[: plane.shape[0], : plane.shape[1]]
        plane[...] = (40 + 12 * number + (rows + columns * (index + 1)) // 4 % 40).astype(plane.dtype) << shift
    return frame


def make(
    path: Path,
    kind: Kind,
    frames: int = FRAMES,
    *,
    change: Callable[[Any], None] = lambda context: None,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> list[Any]:
    """Writes a file with that many frames, and returns them; `change` sets more of the encoder."""
    av = need_av()
    made = [picture(number, kind.pixel_format, *size) for number in range(frames)]
    with av.open(str(path), "w") as container:
        stream = container.add_stream(kind.encoder, rate=RATE, options=dict(kind.options))
        stream.width, stream.height = size
        stream.pix_fmt = kind.pixel_format
        change(stream.codec_context)
        for number, frame in enumerate(made):
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return made


def decoded(path: Path) -> list[list[np.ndarray[Any, Any]]]:
    """The planes of each frame, as PyAV alone decodes the file."""
    with need_av().open(str(path)) as container:
        return [[plane.copy() for plane in planes_of(frame)] for frame in container.decode(video=0)]
