"""A file's video stream: demultiplexed and decoded by PyAV, frame after frame. For one thread."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from vkshare.errors import UnsupportedError, VideoError
from vkshare.util.closing import on_error
from vkshare.video.completeness import missing_bytes
from vkshare.video.file_object import FileObject

if TYPE_CHECKING:
    from vkshare.video.nvdec import Acceleration

# Demultiplexers that open no other file: a playlist could name any file of this machine, or a device that never ends.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,ogg,flv,ivf,h264,hevc,av1,obu,m4v,mpegvideo,mjpeg,"
    "yuv4mpegpipe,gif,apng,asf,nut,mxf,dv,rm,wtv,png_pipe,jpeg_pipe,webp_pipe,bmp_pipe,tiff_pipe"
)
MOST_PIXELS = 1 << 26  # 8K has half of them; a header that declares more is refused before memory is taken
_LONGEST_SIDE = 1 << 14
_OTHER_ERRORS = (OSError, ValueError, ArithmeticError, LookupError, MemoryError)  # of PyAV, by damaged headers
_MOST_ERRORS = 100  # in a row, without a frame
# Decoders of FFmpeg 8 whose threads by frames wait for each other for ever, in some damaged files.
_HANGING = ("hevc", "vvc")
_INEXACT = ("mpeg",)  # containers in which FFmpeg takes frames for others after a jump
_REPLACES = 19  # PyAV's version from which on it takes metadata in other encodings than UTF-8
_NO_VIDEO = (
    "it cannot be read as a video or a picture: allowed are mp4, mov, mkv, webm, avi, ts, ogg, gif, png, jpeg and "
    "their like, and not sound alone or a playlist"
)
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
    """A path as a string, or a file object as PyAV may use it.

    Raises
    ------
    TypeError
        It is neither.
    ValueError
        The path has a zero byte.
    OSError
        There is no such file, or it may not be read, or is no regular file.
    """
    if hasattr(source, "read"):
        if isinstance(source, io.TextIOBase):
            raise TypeError(f"source must be a path or a binary file object, not {type(source).__name__}")
        if not hasattr(source, "seek"):
            raise TypeError(f"source must be a path or a binary file object that can seek, not {type(source).__name__}")
        return FileObject(source)
    try:
        path = os.fsdecode(os.fspath(source))
        if "\0" in path:
            raise ValueError("source is no path: it has a zero byte; give the contents of a file as io.BytesIO(...)")
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
        self.name = source if isinstance(source, str) else source.name
        self.position: Fraction | None = None  # of the newest frame
        self._container: Any = None
        with on_error(self.close):
            self._begin()

    def _begin(self) -> None:
        """Opens the file, at its start."""
        self.close()
        with self._errors(_NO_VIDEO):
            self._container = self._open()
            streams = self._container.streams.video
            if not streams:
                raise self.error("it has no video stream")
            self._stream = stream = streams[0]
            codec = stream.codec_context
            if codec is None:
                raise self.error("FFmpeg has no decoder for its codec")
            codec.thread_type = "SLICE" if codec.codec.name in _HANGING else "AUTO"
            codec.thread_count = self._threads
            # A damaged picture is an error: without "explode" FFmpeg makes up what is missing.
            codec.options = {"max_pixels": str(MOST_PIXELS), "err_detect": "explode"}
            self.width, self.height = codec.width, codec.height
            self._check_size()
            self.time_base = Fraction(stream.time_base or 0) or Fraction(1, 90_000)
            self._rate = stream.average_rate or stream.guessed_rate
            self._origin = Fraction(stream.start_time or 0) * self.time_base
        self._rewound()

    def _check_size(self) -> None:
        width, height = self.width, self.height
        if min(width, height) <= 0 or max(width, height) > _LONGEST_SIDE or width * height > MOST_PIXELS:
            size = f"its size is {width}x{height}" if width else "its size is not known, or too large"
            raise self.error(f"{size}; allowed are sides up to {_LONGEST_SIDE}, and {MOST_PIXELS:,} pixels")

    def _open(self) -> Any:
        options = {"format_whitelist": _CONTAINERS, "protocol_whitelist": "file", "probesize": _PROBED}
        if not isinstance(self._source, str):
            self._source.seek(0)
            options["protocol_whitelist"] = "none"
        path = f"file:{self._source}" if isinstance(self._source, str) else self._source
        opens = self._av.open if self._hardware is None else self._hardware.open
        # FFmpeg would take the name for the pattern of a sequence of pictures.
        kind = "jpeg_pipe" if str(path).lower().endswith((".jpg", ".jpeg")) else None
        if int(self._av.__version__.split(".")[0]) < _REPLACES:
            return opens(path, format=kind, container_options=options, metadata_errors="replace")
        return opens(path, format=kind, container_options=options)

    def _rewound(self) -> None:
        self._packets: Iterator[Any] = self._container.demux(self._stream)
        self._waiting: deque[Any] = deque()
        self._is_checked = False  # whether the end is the file's own
        self._errors_in_row = 0
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
        if not self._container.duration:
            return None
        length = Fraction(self._container.duration, 1_000_000)
        is_from_zero = "matroska" in self._container.format.name  # and not from the first frame
        return max(Fraction(0), length - self._origin) if is_from_zero else length

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec, e.g. "h264"."""
        return str(self._stream.codec_context.codec.name)

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a pixel by its height."""
        return Fraction(self._stream.sample_aspect_ratio or 1)

    # ---- frames --------------------------------------------------------------------------------------------------

    def decoded(self) -> Picture | None:
        """Return the next picture, with the duration that the container gives it; None after the last.

        Raises
        ------
        VideoError
            The file is damaged here; the next call goes on behind it.
        """
        while not self._waiting:
            if self._errors_in_row >= _MOST_ERRORS:
                return None
            try:
                with self._errors("the decoder failed"):
                    packet = next(self._packets, None)
                    if packet is None:
                        self._check_complete()
                        return None
                    self._waiting.extend(packet.decode())
            except VideoError:
                self._errors_in_row += 1
                raise
        self._errors_in_row = 0
        frame = self._waiting.popleft()
        picture = self._timed(frame)
        self.position, self._last = picture.pts, picture
        if frame.is_corrupt:
            raise self.error("the picture is damaged")
        return picture

    def _check_complete(self) -> None:
        """Refuse an end before the one that the file declares."""
        if not self._is_checked and (lacking := missing_bytes(self._source)):
            self._is_checked = True
            raise self.error(f"the file ends {lacking:,} bytes before its own end")

    def _timed(self, frame: Any) -> Picture:
        base = Fraction(frame.time_base or 0) or self.time_base
        usual = 1 / self.frame_rate if self.frame_rate else Fraction(1, 25)
        duration = Fraction(frame.duration or 0) * base or usual
        if frame.pts is not None:
            return Picture(frame, Fraction(frame.pts) * base - self._origin, duration)
        last = self._last
        return Picture(frame, last.pts + last.duration if last else Fraction(0), duration)

    def go(self, position: Fraction, back: Fraction | None) -> None:
        """Continue at a keyframe that much before a position, in seconds after the first picture; None: at the start.

        Raises
        ------
        VideoError
            The file is damaged.
        UnsupportedError
            The file object cannot seek.
        """
        before = Fraction(0) if back is None else max(Fraction(0), position - back)
        try:
            if back is None or self._container.format.name in _INEXACT:
                raise ValueError
            ticks = int((before + self._origin) / self.time_base)
            self._container.seek(ticks, stream=self._stream, backward=True)
            self._rewound()
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

    def error(self, why: str) -> VideoError:
        """An error at the newest picture."""
        return VideoError(self.name, None if self.position is None else float(self.position), why)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """VideoError for what PyAV raises in the block."""
        try:
            yield
            self._raise_failure()
        except (VideoError, UnsupportedError):
            raise
        except (self._av.error.FFmpegError, *_OTHER_ERRORS) as error:
            self._raise_failure()
            words = getattr(error, "strerror", "") or str(error) or type(error).__name__
            raise self.error(f"{what} ({words})") from error

    def _raise_failure(self) -> None:
        """VideoError for what the file object raised; Ctrl-C as it is."""
        failure = self._source.take_failure() if isinstance(self._source, FileObject) else None
        if isinstance(failure, Exception):
            raise self.error(f"the file object failed ({type(failure).__name__}: {failure})") from failure
        if failure is not None:
            raise failure
