"""Files that recordings write: videos, and PNG pictures. For one thread."""

from __future__ import annotations

import contextlib
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vkshare.errors import UnsupportedError
from vkshare.util.closing import on_error
from vkshare.view import recording_pixels
from vkshare.view.frame_selection import SECOND, Chosen
from vkshare.view.recording_kinds import Destination, FileKind, load_av

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_KEYFRAME_INTERVAL = 2 * SECOND  # players seek to keyframes
_LAST = SECOND // 30  # how long the last frame is shown at least
_BT709 = 1  # FFmpeg's number for the matrix, the primaries and the transfer function
_LIMITED = 1  # FFmpeg's number for the range 16 to 235
_HYBRID = (62, 0, 0)  # of libavformat: .mp4 files that are fragmented until they are complete
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
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
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
        self._destination = destination
        self._codec = destination.encoder.codec
        self._time_base = Fraction(1, destination.kind.time_base)
        self._path = destination.path
        if not destination.force:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        self._container = load_av().open(os.fspath(self._path), "w", options=_container_options(destination.kind))
        with on_error(self._remove):
            self._stream = self._open_stream(width, height, format, rate)
        self._convert = _Converter(self._codec, width, height, self._time_base)
        self._last_pts = -1
        self._next_keyframe = 0
        self._waiting: Packet[VideoStream] | None = None  # the newest, whose duration the next one tells

    @property
    def nbytes(self) -> int:
        """Bytes of the file so far."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def write(self, array: np.ndarray[Any, Any], format: str, chosen: Chosen) -> None:
        self._last_pts = max(self._last_pts + 1, self._ticks(chosen.time_ns))
        for frame in self._convert(_frame(self._codec, array, format), self._last_pts):
            if chosen.time_ns >= self._next_keyframe:
                frame.pict_type = load_av().video.frame.PictureType.I
                self._next_keyframe = chosen.time_ns + _KEYFRAME_INTERVAL
            for packet in self._stream.encode(frame):
                self._mux(packet)

    def finish(self, length_ns: int) -> None:
        try:
            for packet in self._stream.encode(None):
                self._mux(packet)
            last = self._waiting
            if last is not None and last.pts is not None:
                shown = self._ticks(length_ns) - last.pts
                last.duration = max(shown, self._ticks(_LAST), 1)
                self._container.mux(last)
        except BaseException:
            self._abandon()
            raise
        self._container.close()

    def _abandon(self) -> None:
        """Leaves the file as it is on the disk."""
        with contextlib.suppress(Exception):
            self._container.close()

    def _remove(self) -> None:
        self._abandon()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _mux(self, packet: Packet[VideoStream]) -> None:
        before, self._waiting = self._waiting, packet
        if before is not None and before.pts is not None and packet.pts is not None:
            before.duration = packet.pts - before.pts
            self._container.mux(before)

    def _ticks(self, time_ns: int) -> int:
        return round(Fraction(time_ns, SECOND) / self._time_base)

    def _open_stream(self, width: int, height: int, format: str, rate: float | None) -> VideoStream:
        encoder = self._destination.encoder
        if encoder.name == "libsvtav1":
            os.environ.setdefault("SVT_LOG", "1")  # it prints its settings to standard error otherwise
        options = dict(encoder.options)
        if self._destination.crf is not None:
            options["crf"] = str(self._destination.crf)
        frame_rate = None if rate is None else Fraction(rate).limit_denominator(1001)
        stream: VideoStream = self._container.add_stream(encoder.name, rate=frame_rate or 60, options=options)
        codec = stream.codec_context
        is_padded = self._codec in _PADDED
        codec.width, codec.height = (width + width % 2, height + height % 2) if is_padded else (width, height)
        codec.time_base = stream.time_base = self._time_base
        codec.thread_type = "SLICE"  # threads by frames would hold frames back
        _tag(codec, self._codec, format)
        try:
            codec.open()
        except (OSError, ValueError) as error:
            text = f"{encoder.name} refuses {width}x{height} pixels ({error})"
            raise UnsupportedError(
                f"a recording in {self._codec}", text, "record to .mkv, or to another codec"
            ) from error
        return stream


def _container_options(kind: FileKind) -> dict[str, str]:
    options = dict(kind.options)
    if kind.suffix == ".mp4" and load_av().library_versions["libavformat"] < _HYBRID:
        options["movflags"] = "empty_moov+default_base_moof+frag_keyframe"  # fragments for good
    return options


def _tag(codec: VideoCodecContext, name: str, format: str) -> None:
    """Set the encoder's pixel format, and how its numbers are colours."""
    if name in ("h264", "vp9", "av1"):
        codec.pix_fmt = "yuv420p"
        codec.colorspace = codec.color_primaries = codec.color_trc = _BT709
        codec.color_range = _LIMITED
    else:
        codec.pix_fmt = {"gif": "pal8"}.get(name) or recording_pixels.pixel_format(name, format)


class _Converter:
    """From the frames of _frame() to those that an encoder takes, with their times."""

    def __init__(self, codec: str, width: int, height: int, time_base: Fraction) -> None:
        self._codec = codec
        self._time_base = time_base
        self._graph = _palette_graph(width, height, time_base) if codec == "gif" else None
        self._reformatter: Any = None

    def __call__(self, frame: VideoFrame, pts: int) -> list[VideoFrame]:
        frame.pts, frame.time_base = pts, self._time_base
        if self._graph is not None:
            self._graph.push(frame)
            return [self._graph.vpull()]
        return [self._to_yuv(frame) if self._codec in ("h264", "vp9", "av1") else frame]

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
        converted.colorspace = converted.color_primaries = converted.color_trc = _BT709
        converted.color_range = _LIMITED
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
