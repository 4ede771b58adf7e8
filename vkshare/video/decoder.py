"""A file's video stream: demultiplexed and decoded by PyAV, frame after frame. For one thread."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from vkshare.errors import UnsupportedError, VideoError
from vkshare.util.closing import on_error

if TYPE_CHECKING:
    from vkshare.video.nvdec import Acceleration

# Demultiplexers that open no other file: a playlist could name any file of this machine, or a device that never ends.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,ogg,flv,ivf,h264,hevc,av1,obu,m4v,mpegvideo,mjpeg,"
    "yuv4mpegpipe,gif,apng,asf,nut,mxf,dv,rm,wtv,png_pipe,jpeg_pipe,webp_pipe,bmp_pipe,tiff_pipe"
)
_MOST_PIXELS = 1 << 26  # 8K has half of them; a header that declares more is refused before memory is taken
_LONGEST_SIDE = 1 << 14
_OTHER_ERRORS = (OSError, ValueError, ArithmeticError, LookupError, MemoryError)  # of PyAV, by damaged headers
_MOST_ERRORS = 100  # in a row, without a frame
_STEPS_BACK = (Fraction(1), Fraction(5), None)  # seconds; None: to the start
# Decoders of FFmpeg 8 whose threads by frames wait for each other for ever, in some damaged files.
_HANGING = ("hevc", "vvc")
_COUNTED = ("mov", "mp4")  # containers whose number of frames is that of their index
_REPLACES = 19  # PyAV's version from which on it takes metadata in other encodings than UTF-8
_PROBED = str(5 << 20)  # bytes that FFmpeg may read in search of the stream's kind


class Picture(NamedTuple):
    """A decoded frame."""

    frame: Any  # PyAV's
    pts: Fraction  # seconds after the file's first frame
    duration: Fraction


def load_av() -> Any:
    """PyAV.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise UnsupportedError("video", f"PyAV is not there ({error})", "pip install 'vkshare[video]'") from None
    return av


def check_source(source: Any) -> Any:
    """A path as a string, or the file object itself.

    Raises
    ------
    TypeError
        It is neither.
    OSError
        There is no such file, or it may not be read, or is no regular file.
    """
    if hasattr(source, "read"):
        return source
    try:
        path = os.fsdecode(os.fspath(source))
    except TypeError:
        kind = type(source).__name__
        raise TypeError(f"source must be a path or a binary file object, not {kind}") from None
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path!r} is no regular file; open it, and give the file object")
    finally:
        os.close(fd)
    return path


class Decoder:
    """The first video stream of a file.

    Parameters
    ----------
    source
        As check_source() returned it.
    threads
        Of the decoder; 0: as FFmpeg finds best.
    hardware
        Where the frames are decoded; None: by the CPU.

    Raises
    ------
    VideoError
        It is no video, or is damaged.
    """

    def __init__(self, source: Any, threads: int = 0, hardware: Acceleration | None = None) -> None:
        self._av = load_av()
        self._source, self._threads, self._hardware = source, threads, hardware
        self.name = source if isinstance(source, str) else str(getattr(source, "name", "") or "a file object")
        self.position: Fraction | None = None  # of the newest frame
        self._container: Any = None
        self._target: Fraction | None = None  # of a seek: frames that end before it are skipped
        self._steps: list[Fraction | None] = []  # of a seek: how far before the target to begin, if it goes too far
        with on_error(self.close):
            self._begin()

    def _begin(self) -> None:
        """Opens the file, at its start."""
        self.close()
        with self._errors("it cannot be read as video"):
            self._container = self._open()
            streams = self._container.streams.video
            if not streams:
                raise self._error("it has no video stream")
            self._stream = stream = streams[0]
            codec = stream.codec_context
            if codec is None:
                raise self._error("FFmpeg has no decoder for its codec")
            codec.thread_type = "SLICE" if codec.codec.name in _HANGING else "AUTO"
            codec.thread_count = self._threads
            # A damaged picture is an error: without "explode" FFmpeg makes up what is missing.
            codec.options = {"max_pixels": str(_MOST_PIXELS), "err_detect": "explode"}
            self.width, self.height = codec.width, codec.height
            self._check_size()
            self.time_base = Fraction(stream.time_base or 0) or Fraction(1, 90_000)
            self._rate = stream.average_rate or stream.guessed_rate
            self._origin = Fraction(stream.start_time or 0) * self.time_base
        self._rewound()

    def _check_size(self) -> None:
        width, height = self.width, self.height
        if min(width, height) <= 0 or max(width, height) > _LONGEST_SIDE or width * height > _MOST_PIXELS:
            size = f"its size is {width}x{height}" if width else "its size is not known, or too large"
            raise self._error(f"{size}; allowed are sides up to {_LONGEST_SIDE}, and {_MOST_PIXELS:,} pixels")

    def _open(self) -> Any:
        options = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file", "probesize": _PROBED}
        if not isinstance(self._source, str):
            self._source.seek(0)
            options["protocol_whitelist"] = "none"
        path = f"file:{self._source}" if isinstance(self._source, str) else self._source
        opens = self._av.open if self._hardware is None else self._hardware.open
        if int(self._av.__version__.split(".")[0]) < _REPLACES:
            return opens(path, container_options=options, metadata_errors="replace")
        return opens(path, container_options=options)

    def _rewound(self) -> None:
        self._packets: Iterator[Any] = self._container.demux(self._stream)
        self._waiting: deque[Any] = deque()
        self._count = 0  # packets since the start; -1 after a seek into the file
        self._errors_in_row = 0
        self._first: Picture | None = None
        self._last: Picture | None = None

    # ---- what the file says --------------------------------------------------------------------------------------

    @property
    def frame_rate(self) -> Fraction | None:
        """Frames a second, on average; None: the file does not say it."""
        return Fraction(self._rate) if self._rate else None

    @property
    def duration(self) -> Fraction | None:
        """Seconds; None: the file does not say it."""
        if self._stream.duration:
            return Fraction(self._stream.duration) * self.time_base
        length = self._container.duration
        return Fraction(length, 1_000_000) if length else None

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec, e.g. "h264"."""
        return str(self._stream.codec_context.codec.name)

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a pixel by its height."""
        return Fraction(self._stream.sample_aspect_ratio or 1)

    # ---- frames --------------------------------------------------------------------------------------------------

    def next(self) -> Picture | None:
        """Return the next frame; None after the last.

        Raises
        ------
        VideoError
            The file is damaged here; the next call goes on behind it.
        """
        first, self._first = self._first, None
        if first is not None:
            return first
        while (picture := self._decoded()) is not None:
            self.position, self._last = picture.pts, picture
            target = self._target
            if target is None:
                return picture
            if picture.pts > target and self._steps:  # the container's seek went too far
                self._go(target, self._steps.pop(0))
            elif picture.pts + picture.duration > target:
                self._target = None
                return picture
        return None

    def peek(self) -> Picture:
        """Return the first frame, which next() returns once more.

        Raises
        ------
        VideoError
            It is damaged, or there is none.
        """
        self._first = self.next()
        if self._first is None:
            raise self._error("it has no frames")
        return self._first

    def _decoded(self) -> Picture | None:
        while not self._waiting:
            if self._errors_in_row >= _MOST_ERRORS:
                return None
            try:
                with self._errors("the decoder failed"):
                    packet = next(self._packets, None)
                    if packet is None:
                        return None
                    if packet.size == 0:
                        self._check_complete()
                    elif self._count >= 0:
                        self._count += 1
                    self._waiting.extend(packet.decode())
            except VideoError:
                self._errors_in_row += 1
                raise
        self._errors_in_row = 0
        frame = self._waiting.popleft()
        picture = self._timed(frame)
        if frame.is_corrupt:
            self.position, self._last = picture.pts, picture
            raise self._error("the picture is damaged")
        return picture

    def _check_complete(self) -> None:
        """Refuse, before the decoder's last frames, an end that is not the one that the file's index has."""
        count, whole = self._count, self._stream.frames
        self._count = -1
        if 0 <= count < whole and any(name in self._container.format.name.split(",") for name in _COUNTED):
            raise self._error(f"the file ends after {count} of its {whole} frames")

    def _timed(self, frame: Any) -> Picture:
        base = Fraction(frame.time_base or 0) or self.time_base
        usual = 1 / self.frame_rate if self.frame_rate else Fraction(1, 25)
        duration = Fraction(frame.duration or 0) * base or usual
        if frame.pts is not None:
            return Picture(frame, Fraction(frame.pts) * base - self._origin, duration)
        last = self._last
        return Picture(frame, last.pts + last.duration if last else Fraction(0), duration)

    def seek(self, position: Fraction) -> None:
        """Have next() return the frame that is shown at that time, in seconds after the first frame.

        Raises
        ------
        VideoError
            The file is damaged.
        UnsupportedError
            The file object cannot seek.
        """
        self._steps = list(_STEPS_BACK) if position > 0 else [None]
        self._target = position
        self._go(position, Fraction(0))

    def _go(self, position: Fraction, back: Fraction | None) -> None:
        """Continue at a keyframe that much before the position; None: at the start."""
        before = Fraction(0) if back is None else max(Fraction(0), position - back)
        try:
            if back is None:
                raise ValueError
            ticks = int((before + self._origin) / self.time_base)
            self._container.seek(ticks, stream=self._stream, backward=True)
            self._rewound()
            self._count = 0 if before == 0 else -1
        except (self._av.error.FFmpegError, OSError, ValueError):  # a stream without an index, such as a bare .h264
            try:
                self._begin()
            except OSError as error:
                raise UnsupportedError(f"seeking in {self.name}", f"the file object cannot ({error})") from None

    def close(self) -> None:
        """Closes the file. Idempotent."""
        container, self._container = self._container, None
        if container is not None:
            self._packets, self._waiting = iter(()), deque()
            with contextlib.suppress(OSError, ValueError):
                container.close()

    # ---- errors --------------------------------------------------------------------------------------------------

    def _error(self, why: str) -> VideoError:
        return VideoError(self.name, None if self.position is None else float(self.position), why)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """VideoError for what PyAV raises in the block."""
        try:
            yield
        except (VideoError, UnsupportedError):
            raise
        except (self._av.error.FFmpegError, *_OTHER_ERRORS) as error:
            words = getattr(error, "strerror", "") or str(error) or type(error).__name__
            raise self._error(f"{what} ({words})") from error
