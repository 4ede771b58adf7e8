"""Files that recordings write: videos, and PNG pictures. For one thread."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vkshare.color import BT709
from vkshare.util.closing import on_error
from vkshare.video.decoder import load_av
from vkshare.video.kinds import Destination
from vkshare.video.muxer import Muxer
from vkshare.video.pixels import tags_of
from vkshare.view import recording_pixels
from vkshare.view.frame_selection import Chosen

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_LOSSY = ("h264", "vp9", "av1")
_TAGS = tags_of(BT709)
_PADDED = ("h264", "av1")  # codecs whose encoders take even sizes only


class RecordedFile(Protocol):
    """The writing end of a recording."""

    @property
    def nbytes(self) -> int:
        """Bytes on the disk."""

    def write(self, array: np.ndarray[Any, Any], format: str, chosen: Chosen) -> None:
        """Adds a frame. OSError: the disk is full, or the like."""

    def finish(self, length_ns: int) -> None:
        """Completes the file, whose last frame is shown up to `length_ns`. Nothing is written after that."""


def opened(destination: Destination, width: int, height: int, format: str, rate: float | None) -> RecordedFile:
    """The file for frames of that size, made now.

    Raises
    ------
    OSError
        It cannot be made, or has come into being meanwhile.
    UnsupportedError
        The encoder refuses the size.
    """
    if destination.kind.suffix == ".png":
        return PictureFiles(destination)
    return VideoFile(destination, width, height, format, rate)


class PictureFiles:
    """PNG files. Each takes its name when it is whole, so that none is ever half there."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all pictures so far."""
        return self._nbytes

    def write(self, array: np.ndarray[Any, Any], format: str, chosen: Chosen) -> None:
        destination = self._destination
        path = destination.numbered(chosen.number + 1) if destination.is_sequence else destination.path
        data = png(array, format, dict(destination.encoder.options))
        beside = path.with_name(f".vkshare-{os.getpid()}-{id(self):x}.part")
        with on_error(lambda: beside.unlink(missing_ok=True)):
            beside.write_bytes(data)
            if destination.force:
                beside.replace(path)
            else:
                os.link(beside, path)  # FileExistsError where another program has made it meanwhile
                beside.unlink()
        self._nbytes += len(data)

    def finish(self, length_ns: int) -> None:
        pass


def png(array: np.ndarray[Any, Any], format: str, options: dict[str, str]) -> bytes:
    """The pixels of a surface as a PNG file, bit for bit where that has them: 8 bits a channel, most formats of 16."""
    av = load_av()
    height, width = array.shape[:2]
    encoder = av.codec.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.time_base = width, height, Fraction(1, 1)
    encoder.pix_fmt = recording_pixels.pixel_format("png", format)
    encoder.options = options
    frame = _frame("png", array, format)
    frame.pts = 0
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(map(bytes, packets))


def _frame(codec: str, array: np.ndarray[Any, Any], format: str) -> VideoFrame:
    pixels = recording_pixels.given(codec, array, format)
    if codec in _PADDED:
        pixels = recording_pixels.even(pixels)
    av = load_av()
    frame: VideoFrame = av.VideoFrame.from_ndarray(
        np.ascontiguousarray(pixels), format=recording_pixels.pixel_format(codec, format)
    )
    return frame


class VideoFile:
    """A video file. Frames keep their times: each is shown until the next one's."""

    def __init__(self, destination: Destination, width: int, height: int, format: str, rate: float | None) -> None:
        codec = destination.encoder.codec
        if codec in _LOSSY:
            pixel_format, tags = "yuv420p", _TAGS
        else:
            pixel_format, tags = {"gif": "pal8"}.get(codec) or recording_pixels.pixel_format(codec, format), {}
        size = (width + width % 2, height + height % 2) if codec in _PADDED else (width, height)
        self._codec = codec
        self._muxer = Muxer(destination, *size, pixel_format, tags, rate)
        self._convert = _Converter(codec, width, height, self._muxer.time_base)

    @property
    def nbytes(self) -> int:
        """Bytes of the file so far."""
        return self._muxer.nbytes

    def write(self, array: np.ndarray[Any, Any], format: str, chosen: Chosen) -> None:
        self._muxer.write(self._convert(_frame(self._codec, array, format), self._muxer.next_pts(chosen.time_ns)))

    def finish(self, length_ns: int) -> None:
        self._muxer.finish(length_ns)


class _Converter:
    """From the frames of _frame() to those that an encoder takes, with their times."""

    def __init__(self, codec: str, width: int, height: int, time_base: Fraction) -> None:
        self._codec = codec
        self._time_base = time_base
        self._graph = _palette_graph(width, height, time_base) if codec == "gif" else None
        self._reformatter: Any = None

    def __call__(self, frame: VideoFrame, pts: int) -> VideoFrame:
        frame.pts, frame.time_base = pts, self._time_base
        if self._graph is not None:
            self._graph.push(frame)
            pulled: VideoFrame = self._graph.vpull()
            return pulled
        return self._to_yuv(frame) if self._codec in _LOSSY else frame

    def _to_yuv(self, frame: VideoFrame) -> VideoFrame:
        """BT.709, limited range."""
        from av.video import reformatter as to

        if self._reformatter is None:
            self._reformatter = to.VideoReformatter()
        converted: VideoFrame = self._reformatter.reformat(
            frame,
            format="yuv420p",
            src_colorspace=to.Colorspace.ITU709,
            dst_colorspace=to.Colorspace.ITU709,
            src_color_range=to.ColorRange.JPEG,
            dst_color_range=to.ColorRange.MPEG,
            interpolation=to.Interpolation.BICUBIC | to.Interpolation.ACCURATE_RND,
        )
        converted.pts, converted.time_base = frame.pts, frame.time_base
        for name, value in _TAGS.items():
            setattr(converted, name, value)
        return converted


def _palette_graph(width: int, height: int, time_base: Fraction) -> Any:
    """A filter that gives each frame a palette of its own 256 colours."""
    graph = load_av().filter.Graph()
    source = graph.add_buffer(width=width, height=height, format="rgba", time_base=time_base)
    split = graph.add("split")
    made = graph.add("palettegen", "stats_mode=single")
    used = graph.add("paletteuse", "new=1")
    source.link_to(split)
    split.link_to(used, 0, 0)
    split.link_to(made, 1, 0)
    made.link_to(used, 0, 1)
    used.link_to(graph.add("buffersink"))
    graph.configure()
    return graph
