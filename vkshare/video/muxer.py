"""One video stream into a file: frames are encoded, and their packets written, each with its time. For one thread."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from vkshare.errors import UnsupportedError
from vkshare.util.closing import on_error
from vkshare.video.decoder import load_av
from vkshare.video.kinds import Destination, FileKind

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SECOND = 1_000_000_000  # nanoseconds
_KEYFRAME_INTERVAL = 2 * SECOND  # players seek to keyframes
_LAST = SECOND // 30  # how long the last frame is shown at least
_HYBRID = (62, 0, 0)  # of libavformat: .mp4 files that are fragmented until they are complete


class Muxer:
    """A video file, made now. Frames keep their times: each is shown until the next one's.

    Parameters
    ----------
    destination
        The file, and its encoder.
    width, height, pixel_format
        Of the frames.
    tags
        Their colour, by the names of PyAV's attributes.
    rate
        Frames a second, more or less; None: unknown.

    Raises
    ------
    OSError
        The file cannot be made, or has come into being meanwhile.
    UnsupportedError
        The encoder refuses the size.
    """

    def __init__(
        self,
        destination: Destination,
        width: int,
        height: int,
        pixel_format: str,
        tags: Mapping[str, int],
        rate: float | Fraction | None,
    ) -> None:
        self._encoder = destination.encoder
        self.time_base = Fraction(1, destination.kind.time_base)
        self._path = destination.path
        if not destination.force:
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        self._container = load_av().open(os.fspath(self._path), "w", options=_container_options(destination.kind))
        with on_error(self._remove):
            self._stream = self._open_stream(destination.crf, width, height, pixel_format, tags, rate)
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

    def next_pts(self, time_ns: int) -> int:
        """The pts of a frame that is shown at that time: later than the one before."""
        self._last_pts = max(self._last_pts + 1, self._ticks(time_ns))
        return self._last_pts

    def write(self, frame: VideoFrame) -> None:
        """Adds a frame, whose `pts` is that of next_pts(). OSError: the disk is full, or the like."""
        assert frame.pts is not None
        time_ns = round(frame.pts * self.time_base * SECOND)
        if time_ns >= self._next_keyframe:
            frame.pict_type = load_av().video.frame.PictureType.I
            self._next_keyframe = time_ns + _KEYFRAME_INTERVAL
        for packet in self._stream.encode(frame):
            self._mux(packet)

    def finish(self, length_ns: int) -> None:
        """Completes the file, whose last frame is shown up to `length_ns`. Nothing is written after that."""
        try:
            for packet in self._stream.encode(None):
                self._mux(packet)
            last = self._waiting
            if last is not None and last.pts is not None:
                shown = self._ticks(length_ns) - last.pts
                last.duration = max(shown, self._ticks(_LAST), 1)
                self._container.mux(last)
        except BaseException:
            self.abandon()
            raise
        self._container.close()

    def abandon(self) -> None:
        """Leaves the file as it is on the disk."""
        with contextlib.suppress(Exception):
            self._container.close()

    def _remove(self) -> None:
        self.abandon()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _mux(self, packet: Packet[VideoStream]) -> None:
        before, self._waiting = self._waiting, packet
        if before is not None and before.pts is not None and packet.pts is not None:
            before.duration = packet.pts - before.pts
            self._container.mux(before)

    def _ticks(self, time_ns: int) -> int:
        return round(Fraction(time_ns, SECOND) / self.time_base)

    def _open_stream(
        self,
        crf: int | None,
        width: int,
        height: int,
        pixel_format: str,
        tags: Mapping[str, int],
        rate: float | Fraction | None,
    ) -> VideoStream:
        encoder = self._encoder
        if encoder.name == "libsvtav1":
            os.environ.setdefault("SVT_LOG", "1")  # it prints its settings to standard error otherwise
        options = dict(encoder.options)
        if crf is not None:
            options["crf"] = str(crf)
        frame_rate = None if rate is None else Fraction(rate).limit_denominator(1001)
        stream: VideoStream = self._container.add_stream(encoder.name, rate=frame_rate or 60, options=options)
        codec = stream.codec_context
        codec.width, codec.height, codec.pix_fmt = width, height, pixel_format
        codec.time_base = stream.time_base = self.time_base
        codec.thread_type = "SLICE"  # threads by frames would hold frames back
        for name, value in tags.items():
            setattr(codec, name, value)
        try:
            codec.open()
        except (OSError, ValueError) as error:
            raise UnsupportedError(
                f"a video in {encoder.codec}",
                f"{encoder.name} refuses {width}x{height} pixels of {pixel_format} ({error})",
                "write an .mkv file, or take another codec",
            ) from error
        return stream


def _container_options(kind: FileKind) -> dict[str, str]:
    options = dict(kind.options)
    if kind.suffix == ".mp4" and load_av().library_versions["libavformat"] < _HYBRID:
        options["movflags"] = "empty_moov+default_base_moof+frag_keyframe"  # fragments for good
    return options
