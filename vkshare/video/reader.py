"""Reading video: the frames of a file as surfaces, decoded ahead on a thread of their own."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any

from vkshare import formats
from vkshare.core.device import Device
from vkshare.core.pipe import open_receiver, pipe
from vkshare.errors import ClosedError, InvalidCallError, UnsupportedError, VideoError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.deadline import Deadline
from vkshare.util.forks import OwnLock
from vkshare.video import nvdec, times
from vkshare.video.decoder import Decoder, check_source
from vkshare.video.decoding import Decoding
from vkshare.video.intake import Intake
from vkshare.video.pictures import Pictures

if TYPE_CHECKING:
    from vkshare.color import Color
    from vkshare.core.pipe_ends import Receiver
    from vkshare.core.surface import Surface
    from vkshare.core.view import View

_MOST_AHEAD = 32
_LONGEST = 10.0**9  # seconds
_ROUNDED = Fraction(1, 10**6)  # seconds that a float may lie before the time that it stands for
_SLOWEST, _FASTEST = 0.01, 100.0


@dataclass(frozen=True, slots=True)
class VideoFrame:
    """A frame of a video, for the time of its ``with`` block.

    Attributes
    ----------
    surface
        The pixels; the reader's device owns it.
    view
        Its view, as that of ``surface.access()``.
    pts
        Seconds after the file's first frame.
    duration
        Seconds that it is shown.
    time
        When it is shown, in seconds after the first frame that the reader gave: it goes on over loops and seeks, and is
        divided by the rate.
    until
        When its duration is over, on the scale of `time`.
    index
        Frames that the reader decoded before it.
    generation
        Number of seeks before it.
    """

    surface: Surface
    view: View
    pts: Fraction
    duration: Fraction
    time: Fraction
    until: Fraction
    index: int
    generation: int

    @property
    def color(self) -> Color:
        """The meaning of the codes."""
        return self.surface.color


def open(
    source: Any,
    device: Device,
    format: str = "auto",
    *,
    color: Color | None = None,
    loop: bool = False,
    rate: float = 1.0,
    read_ahead: int = 4,
    threads: int = 0,
    hardware: bool | None = None,
) -> Reader:
    """Opens the first video stream of a file. Its frames are surfaces of the device.

    A thread decodes them ahead, and copies each plane once into the surface's own memory. Sound is left out.

    Parameters
    ----------
    source
        A path, or a binary file object that can seek. A file that names others (a playlist) is refused.
    device
        The device that gets the surfaces.
    format
        Of the surfaces. "auto": the file's own where vkshare has it: nv12, i420, p010, nv16 or yuv444p; else
        rgba8unorm, or rgba16unorm where the file has more than 8 bits. Another format is converted to on the device.
    color
        What the file's codes mean, where the file says nothing or something wrong; None: as it says. PyAV gives no
        siting of chroma, which is taken to be "left".
    loop
        Whether the first frame follows the last one.
    rate
        Speed, 0.01 to 100: the time of the frames is divided by it.
    read_ahead
        Frames that may be decoded before they are asked for, 1 to 32.
    threads
        Of the decoder; 0: as FFmpeg finds best.
    hardware
        None: NVIDIA's decoder (NVDEC) where the device is such a GPU, CUDA is there and PyAV has it, else the CPU. Its
        frames are copied once, on the GPU, and none of their bytes through the host. True: nothing else will do.
        False: the CPU.

    Returns
    -------
    Reader
        Close it, or use it in a ``with`` block.

    Raises
    ------
    VideoError
        The file is no video, or is damaged at its start.
    OSError
        There is no such file, or it may not be read, or is no regular file.
    ValueError, TypeError
        An argument is not as above.
    UnsupportedError
        PyAV is not installed (``vkshare[video]``); or the device has no surfaces of the format.

    Examples
    --------
    >>> with vks.video.Writer(folder / "clip.mp4", 64, 48, rate=30) as writer, surface.access():
    ...     for red in (0.2, 0.8):
    ...         submission = device.submit(device.record().clear(surface, (red, 0, 0, 1)))
    ...         writer.write(surface)
    >>> with vks.video.open(folder / "clip.mp4", device) as clip:
    ...     for frame in clip:
    ...         print(frame.surface.format, float(round(frame.pts, 3)))
    i420 0.0
    i420 0.033
    """
    arguments.instance("device", device, Device)
    if format != "auto" and formats.get(format).is_depth:
        raise UnsupportedError(
            f"format {format!r} for video", "it is one of depths", 'use "auto" or a format of colours'
        )
    arguments.flag("loop", loop)
    speed = _speed(rate)
    ahead = arguments.integer("read_ahead", read_ahead, 1, _MOST_AHEAD)
    if hardware is not None:
        arguments.flag("hardware", hardware)
    path, count = check_source(source), arguments.integer("threads", threads, 0, 64)
    begin = functools.partial(_begun, path, count, device, format, color)
    acceleration = nvdec.acceleration(device, hardware)
    try:
        decoder, pictures, intake = begin(acceleration, may_begin_damaged=acceleration is None or hardware is True)
    except VideoError:
        if hardware or acceleration is None:
            raise
        decoder, pictures, intake = begin(None, may_begin_damaged=True)  # the failure may be that of the GPU's decoder
    with on_error(decoder.close), on_error(intake.close):
        if hardware and not intake.is_hardware:
            raise UnsupportedError(f"{decoder.codec} by NVDEC", "this GPU has no decoder for it", "use hardware=False")
        return Reader(decoder, pictures, device, intake, ahead, loop, speed)


def _begun(
    path: Any,
    threads: int,
    device: Device,
    format: str,
    color: Color | None,
    acceleration: nvdec.Acceleration | None,
    *,
    may_begin_damaged: bool,
) -> tuple[Decoder, Pictures, Intake]:
    """A decoder at its first frame, which decides on the surfaces."""
    decoder = Decoder(path, threads, acceleration)
    with on_error(decoder.close):
        pictures = Pictures(decoder, may_begin_damaged=may_begin_damaged)
        return decoder, pictures, Intake.of_first(decoder, pictures, device, format, color)


def _speed(rate: float) -> Fraction:
    return Fraction(arguments.number("rate", rate, _SLOWEST, _FASTEST)).limit_denominator(10**6)


class Reader(FlagClosing):
    """The frames of a video file. Made by ``vks.video.open()``.

    Frames are for one thread; seek(), the statistics and close() may be called by any.
    """

    _unpicklable = "open the file in the other process, or send it the frames through vks.pipe()"

    def __init__(
        self,
        decoder: Decoder,
        pictures: Pictures,
        device: Device,
        intake: Intake,
        read_ahead: int,
        loop: bool,
        rate: Fraction,
    ) -> None:
        self._own = OwnLock(self)
        self._decoder, self._device, self._intake = decoder, device, intake
        self._length, self._frame_rate = decoder.duration, decoder.frame_rate
        self._codec, self._pixel_aspect = decoder.codec, decoder.pixel_aspect
        self._position = Fraction(0)
        self._damaged = 0
        self._read_ahead = read_ahead
        self._held = 0  # frames whose blocks are not over
        self._ended_in = -1  # the generation whose last frame was taken
        self._failure: BaseException | None = None  # why it ended before
        self._generation = 0
        # One surface more than may be ahead: that of the frame which is looked at.
        size, form = (intake.width, intake.height), intake.format
        sender, descriptor = pipe(device, *size, form, read_ahead + 1, 8, color=intake.color)
        with on_error(sender.close), descriptor:
            self._receiver = open_receiver(device, descriptor)
        self._decoding = Decoding(decoder, pictures, sender, intake.write, loop=loop, rate=rate)
        # At exit, too: the thread is a daemon, and uses the device.
        self._finalizer = weakref.finalize(self, _end, os.getpid(), self._receiver, self._decoding, intake)
        self._closed = False
        self._decoding.start()

    # ---- what the file says --------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file's name."""
        return self._decoder.name

    @property
    def device(self) -> Device:
        """The device that gets the surfaces."""
        return self._device

    @property
    def width(self) -> int:
        """Pixels. Frames of another size are scaled to that of the first one."""
        return self._intake.width

    @property
    def height(self) -> int:
        """Pixels."""
        return self._intake.height

    @property
    def format(self) -> str:
        """The surfaces' format."""
        return self._intake.format

    @property
    def color(self) -> Color:
        """The meaning of the surfaces' codes."""
        return self._intake.color

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec, e.g. "h264"."""
        return self._codec

    @property
    def is_hardware(self) -> bool:
        """Whether NVIDIA's decoder leaves the frames on the GPU."""
        return self._intake.is_hardware

    @property
    def duration(self) -> Fraction | None:
        """Seconds; None: the file does not say it."""
        return self._length

    @property
    def frame_rate(self) -> Fraction | None:
        """Frames a second, on average; None: the file does not say it."""
        return self._frame_rate

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a pixel by its height."""
        return self._pixel_aspect

    @property
    def rotation(self) -> int:
        """Degrees, counter-clockwise, by which the pictures are to be turned before they are shown."""
        return self._intake.rotation

    # ---- frames --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def frame(self, timeout: float | None = None) -> Iterator[VideoFrame]:
        """Takes the next frame for a ``with`` block. Several may be open at a time, `read_ahead` and one.

        Parameters
        ----------
        timeout
            Seconds to wait for it; None: without limit.

        Yields
        ------
        VideoFrame
            At the end of the block its surface goes back to the decoder, behind the work submitted on it.

        Raises
        ------
        VideoError
            The file is damaged here. The next call goes on behind it.
        EOFError
            The last frame was taken: seek() goes back.
        AcquireTimeout
            The frame was not decoded in time.
        InvalidCallError
            As many frames are open as there are surfaces.
        ClosedError
            The reader is closed.

        Examples
        --------
        >>> with vks.video.open(folder / "clip.mp4", device) as clip, clip.frame(timeout=30) as frame:
        ...     print(frame.surface.shape)
        (48, 64, 1)
        """
        self._own.check()
        deadline = Deadline(timeout)
        if self._held > self._read_ahead:
            raise InvalidCallError(
                f"{self._held} frames of {self.path} are held, and each of its surfaces with them: end a block of "
                f"frame(), or open it with a read_ahead above {self._read_ahead}"
            )
        while True:
            if self._ended_in == self._generation:
                raise self._failure or EOFError(f"{self.path} is at its end; seek() goes back")
            self._refuse_closed()
            with self._receiver.frame(deadline.left()) as received:
                entry = self._decoding.entry(received.metadata)
                if entry is None:
                    continue
                if entry.error is not None:
                    self._damaged += isinstance(entry.error, VideoError)
                    if not isinstance(entry.error, VideoError):  # nothing comes behind it
                        self._ended_in, self._failure = entry.generation, entry.error
                    raise entry.error
                if entry.is_end:
                    self._ended_in, self._failure = entry.generation, None
                    continue
                self._position = entry.pts
                times = entry.pts, entry.duration, entry.time, entry.until
                self._held += 1
                try:
                    yield VideoFrame(received.surface, received.view, *times, entry.index, entry.generation)
                finally:
                    self._held -= 1
                return

    def __iter__(self) -> Iterator[VideoFrame]:
        while True:
            try:
                with self.frame() as frame:
                    yield frame
            except EOFError:
                return

    def seek(self, position: float | Fraction) -> None:
        """Goes to a time: the next frame is the one that is shown then. Thread-safe.

        Parameters
        ----------
        position
            Seconds after the file's first frame; a float may lie a microsecond before it. Beyond the last one there is
            no frame, or the first one where the reader loops.

        Raises
        ------
        ValueError, TypeError
            It is negative, or no number.
        ClosedError
            The reader is closed.
        """
        self._own.check()
        self._refuse_closed()
        wanted = times.seconds("position", position, _LONGEST)
        with self._own:
            is_exact = isinstance(position, Rational)
            self._generation = self._decoding.seek(wanted if is_exact else wanted + _ROUNDED)

    @property
    def position(self) -> Fraction:
        """Seconds after the file's first frame, of the frame that was taken last."""
        return self._position

    @property
    def generation(self) -> int:
        """Number of seeks; that of the frames that are asked for."""
        return self._generation

    @property
    def loop(self) -> bool:
        """Whether the first frame follows the last one."""
        return self._decoding.loop

    @loop.setter
    def loop(self, value: bool) -> None:
        self._refuse_closed()
        self._decoding.loop = arguments.flag("loop", value)

    @property
    def rate(self) -> float:
        """Speed, 0.01 to 100. A new one holds for the frames that are decoded from now on."""
        return float(self._decoding.rate)

    @rate.setter
    def rate(self, value: float) -> None:
        self._refuse_closed()
        self._decoding.rate = _speed(value)

    @property
    def damaged(self) -> int:
        """Frames in whose place a VideoError was raised."""
        return self._damaged

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ClosedError(f"this reader of {self.path} is closed")

    def close(self) -> None:
        """Ends the decoding, and closes the file. A frame whose block is not over loses its surface. Idempotent."""
        if not self._finalizer.alive:
            return
        self._own.check()
        self._closed = True
        with self._own:
            _end(os.getpid(), self._receiver, self._decoding, self._intake)
            self._finalizer.detach()  # only here: what Ctrl-C interrupts is done by the next call, or the destructor

    def _is_lost(self) -> bool:
        return self._finalizer.alive and self._own.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at {float(self._position):.3f} s"
        return (
            f"<vkshare.video.Reader of {self.path!r}, {self.width}x{self.height} {self.format}, {self.codec}, {state}>"
        )


def _end(pid: int, receiver: Receiver[Any], decoding: Decoding, intake: Intake) -> None:
    if os.getpid() != pid:  # a forked child has no such thread
        return
    receiver.close()  # a thread that waits for a surface of the pipe ends with it
    decoding.end()
    intake.close()
