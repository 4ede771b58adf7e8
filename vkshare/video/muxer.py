"""One video stream into a file: frames are encoded, and their packets written, each with its time. For one thread."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from vkshare.errors import UnsupportedError
from vkshare.util.closing import on_error
from vkshare.video.decoder import load_av
from vkshare.video.kinds import Destination, EncoderChoice, FileKind

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SECOND = 1_000_000_000  # nanoseconds
_KEYFRAME_INTERVAL = 2 * SECOND  # players seek to keyframes
_LAST = Fraction(1, 30)  # seconds: how long the last frame is shown at least, where the rate is not higher
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
        self._file = _made(self._path, is_new=not destination.force)
        # "file:", because FFmpeg takes a name with a colon for an address.
        path, options = f"file:{os.fspath(self._path)}", _container_options(destination.kind)
        self._container = load_av().open(path, "w", format=destination.kind.muxer, options=options)
        with on_error(self.remove):
            self._stream = self._open_stream(destination.crf, width, height, pixel_format, tags, rate)
        self._least = _LAST if rate is None else min(_LAST, 1 / Fraction(rate))
        self._last_pts = -1
        self._next_keyframe = 0
        self._waiting: Packet[VideoStream] | None = None  # the newest: it lasts until the next one
        self._failure: OSError | None = None  # of a packet: FFmpeg crashes where it goes on behind a failed header

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
        try:
            packets = self._stream.encode(frame)
        except NotImplementedError as error:
            raise _refused(self._encoder, frame.width, frame.height, f"{frame.format.name} ({error})") from error
        for packet in packets:
            self._mux(packet)

    def finish(self, length_ns: int) -> None:
        """Completes the file, whose last frame is shown up to `length_ns`. Nothing is written after that.

        FileNotFoundError: the file was removed meanwhile, or another one has its name.
        """
        try:
            for packet in self._stream.encode(None):
                self._mux(packet)
            last = self._waiting
            if last is not None and last.pts is not None:
                shown = self._ticks(length_ns) - last.pts
                last.duration = max(shown, round(self._least / self.time_base), 1)
                self._put(last)
        except BaseException:
            self.abandon()
            raise
        self._container.close()
        if not (self._path.exists() and os.path.samestat(self._path.stat(), self._file)):
            raise FileNotFoundError(f"{str(self._path)!r} was removed or replaced while it was written, and is lost")

    def abandon(self) -> None:
        """Leaves the file as it is on the disk."""
        with contextlib.suppress(Exception):
            self._container.close()

    def remove(self) -> None:
        """Removes the file."""
        self.abandon()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _mux(self, packet: Packet[VideoStream]) -> None:
        before, self._waiting = self._waiting, packet
        if before is not None and before.pts is not None and packet.pts is not None:
            before.duration = packet.pts - before.pts
            self._put(before)

    def _put(self, packet: Packet[VideoStream]) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            self._container.mux(packet)
        except OSError as error:
            self._failure = error
            raise

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
        if min(width, height) < encoder.least_side:  # it would wait for ever
            raise _refused(encoder, width, height, f"{pixel_format}: sides are {encoder.least_side} or more")
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
        except (OSError, ValueError, NotImplementedError) as error:
            raise _refused(encoder, width, height, f"{pixel_format} ({error})") from error
        return stream


def _refused(encoder: EncoderChoice, width: int, height: int, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"a video in {encoder.codec}",
        f"{encoder.name} refuses {width}x{height} pixels of {why}",
        "take another size" if encoder.codec == "ffv1" else "write an .mkv file with its ffv1, or take another size",
    )


def _made(path: Path, is_new: bool) -> os.stat_result:
    """The identity of the file, which is made unless it is there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if is_new else 0), 0o666)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _container_options(kind: FileKind) -> dict[str, str]:
    options = dict(kind.options)
    if kind.suffix == ".mp4" and load_av().library_versions["libavformat"] < _HYBRID:
        options["movflags"] = "empty_moov+default_base_moof+frag_keyframe"  # fragments for good
    return options
