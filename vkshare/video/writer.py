"""Writing video: surfaces, converted on their device, into a file."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vkshare import formats
from vkshare.color import BT709, Color
from vkshare.core import pixels as core_pixels
from vkshare.core import planes
from vkshare.core.surface import Surface
from vkshare.errors import ClosedError, UnsupportedError
from vkshare.util import arguments
from vkshare.util.closing import FlagClosing, on_error
from vkshare.util.forks import OwnLock
from vkshare.video import kinds, pixels, times
from vkshare.video.completion import Completion
from vkshare.video.decoder import MOST_PIXELS, load_av
from vkshare.video.muxer import SECOND, Muxer

if TYPE_CHECKING:
    from vkshare.core.device import Device

_SUFFIXES = (".mp4", ".mkv", ".webm")
_LARGEST = 1 << 14
_LONGEST = 10.0**9  # seconds
_MOST_TICKS = 2**31 - 1  # of the container's clock, between two frames
_PLANES = {"nv12": "yuv420p", "i420": "yuv420p", "p010": "yuv420p10le", "nv16": "yuv422p", "yuv444p": "yuv444p"}
# Formats that a lossless file has bit for bit.
_PACKED = {"bgra8unorm": "bgra", "rgba8unorm": "bgra", "rgba8unorm-srgb": "bgra", "rgba16unorm": "rgba64le"}


class Writer(FlagClosing):
    """Writes surfaces to a video file.

    A process that is killed leaves a file that plays up to some half a second before. Thread-safe.

    Surfaces in planes are encoded as they are. Others are converted on their device: to 4:2:0 by BT.709
    (BT.2020 where those are the surface's primaries), limited range; in FFV1 (.mkv) to R, G, B and A of 8
    or 16 bits, in which all formats but those of floats stay as they are. A frame is shown until the next
    one's time, the last one for 1/rate.

    Parameters
    ----------
    path
        The file: .mp4 (H.264), .mkv (FFV1, lossless) or .webm (VP9).
    width, height
        Of each surface, pixels; even where they are converted to 4:2:0.
    rate
        Frames a second: the times of frames that are written without one.
    codec
        "h264", "vp9", "av1" or "ffv1", where the kind of file may have it; None: its default.
    crf
        The encoder's quality: a smaller number is a larger, better file; h264 has 0 to 51 (default 20), vp9 and av1
        have 0 to 63 (default 30).
    force
        Whether an existing file is replaced.

    Raises
    ------
    ValueError, TypeError
        An argument is wrong; the text lists what is allowed.
    OSError
        The file exists, or cannot be made there.
    UnsupportedError
        PyAV is not installed (``vkshare[video]``), or its build has no such encoder.

    Examples
    --------
    >>> with vks.video.Writer(folder / "two.mkv", 64, 48, rate=25) as writer, surface.access():
    ...     for red in (0.2, 0.8):
    ...         submission = device.submit(device.record().clear(surface, (red, 0, 0, 1)))
    ...         writer.write(surface)
    >>> writer.frames
    2
    """

    _unpicklable = "it belongs to the process that writes the file"

    def __init__(
        self,
        path: Any,
        width: int,
        height: int,
        rate: float | Fraction = 30,
        *,
        codec: str | None = None,
        crf: int | None = None,
        force: bool = False,
    ) -> None:
        self._own = OwnLock(self)
        self._closed = True  # until it is made
        self._width = arguments.integer("width", width, 1, _LARGEST)
        self._height = arguments.integer("height", height, 1, _LARGEST)
        if self._width * self._height > MOST_PIXELS:
            raise ValueError(f"the size is {width}x{height}; allowed are {MOST_PIXELS:,} pixels")
        arguments.number("rate", rate, 0.001, 1000)
        self._rate = Fraction(rate).limit_denominator(1001)
        self._destination = kinds.destination(path, codec=codec, crf=crf, force=force, suffixes=_SUFFIXES)
        self._muxer: Muxer | None = None
        self._pixel_format = ""
        self._color = BT709
        self._between: Surface | None = None  # what the device converts to
        self._last: Fraction | None = None  # pts of the newest frame
        self._frames = 0
        self._completion: Completion | None = None  # of the file
        self._closed = False

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return str(self._destination.path)

    @property
    def frames(self) -> int:
        """Frames that were written."""
        return self._frames

    @property
    def nbytes(self) -> int:
        """Bytes of the file so far."""
        return 0 if self._muxer is None else self._muxer.nbytes

    def write(self, surface: Surface, pts: float | Fraction | None = None) -> None:
        """Adds a frame. Its pixels have left the surface when the call returns.

        Parameters
        ----------
        surface
            Owned by its device, of the writer's size; each of the first one's format and colour.
        pts
            Seconds, larger than that of the frame before; None: 1/rate after it, or 0. Readers count from the first
            frame's. An .mp4 file has it to 1/90,000 s, others to 1 ms.

        Raises
        ------
        ValueError, TypeError
            The surface has another size, format or colour than the first one, or the time is not later.
        OSError
            The disk is full, or the like: the file plays up to there. Close the writer.
        UnsupportedError
            The codec has no frames of that format or size.
        NotOwnerError, AbandonedError
            As of ``surface.read()``.
        ClosedError
            The writer is closed.
        """
        self._own.check()
        arguments.instance("surface", surface, Surface)
        with self._own:
            self._write(surface, pts)

    def _write(self, surface: Surface, pts: float | Fraction | None) -> None:
        if self._closed or self._completion is not None:
            raise ClosedError(f"this writer of {self.path} is closed")
        if (surface.width, surface.height) != (self._width, self._height):
            size = f"{surface.width}x{surface.height}"
            raise ValueError(f"the surface is {size}; this writer takes {self._width}x{self._height}")
        time = self._time(pts)
        with on_error(self._forget_first):
            if self._muxer is None:
                self._begin(surface)
            self._check_kind(surface)
            assert self._muxer is not None
            frame = self._frame(surface)
            frame.pts, frame.time_base = self._muxer.next_pts(round(time * SECOND)), self._muxer.time_base
            self._muxer.write(frame)
            self._last = time
            self._frames += 1

    def _time(self, pts: float | Fraction | None) -> Fraction:
        if pts is None:
            return Fraction(0) if self._last is None else self._last + 1 / self._rate
        time = times.seconds("pts", pts, _LONGEST)
        if self._last is not None and time <= self._last:
            raise ValueError(f"pts is {float(time)}; allowed are times after {float(self._last)}, the frame before")
        gap, most = time - (self._last or 0), _MOST_TICKS // self._destination.kind.time_base
        if gap > most:
            raise ValueError(
                f"pts is {float(time)}, {float(gap):g} s after {'0' if self._last is None else 'the frame before'}; "
                f"{self._destination.kind.suffix} has room for {most:,} s"
            )
        return time

    # ---- the first frame decides ---------------------------------------------------------------------------------

    def _begin(self, surface: Surface) -> None:
        codec = self._destination.encoder.codec
        between, self._pixel_format = _plan(codec, surface.format)
        self._kind = surface.format, surface.color
        self._color = surface.color if formats.get(surface.format).is_planar else _converted_color(surface.color)
        if between != surface.format:
            self._check_even(surface)
            color = self._color if formats.get(between).is_planar else None
            self._between = surface.device.create_surface(self._width, self._height, between, color=color)
        is_lossless = self._pixel_format in _PACKED.values()
        tags = pixels.tags_of(self._color)
        if is_lossless:
            tags = {name: tags[name] for name in ("color_primaries", "color_trc")}
        self._muxer = Muxer(self._destination, self._width, self._height, self._pixel_format, tags, self._rate)

    def _forget_first(self) -> None:
        """Without a frame there is no file, and the next one decides the format."""
        if self._frames:
            return
        muxer, between = self._muxer, self._between
        self._muxer = self._between = self._last = None
        if between is not None:
            between.close()
        if muxer is not None:
            muxer.remove()

    def _check_even(self, surface: Surface) -> None:
        if self._destination.encoder.codec != "ffv1" and (self._width % 2 or self._height % 2):
            raise UnsupportedError(
                f"a video of {self._width}x{self._height}",
                f"{surface.format} is converted to 4:2:0, two pixels by two",
                "take an even size, or an .mkv file (FFV1)",
            )

    def _check_kind(self, surface: Surface) -> None:
        if (surface.format, surface.color) != self._kind:
            first = f"{self._kind[0]} ({self._kind[1]})"
            raise ValueError(f"the surface is {surface.format} ({surface.color}); the first frame was {first}")
        if self._between is not None and surface.device is not self._between.device:
            raise ValueError("the surface is another device's than that of the first frame")

    # ---- pixels --------------------------------------------------------------------------------------------------

    def _frame(self, surface: Surface) -> Any:
        if self._between is None:
            return self._filled(surface)
        device: Device = surface.device
        with self._between.access():
            device.submit(device.record().blit(surface, self._between))
            return self._filled(self._between)

    def _filled(self, surface: Surface) -> Any:
        frame = load_av().VideoFrame(self._width, self._height, self._pixel_format)
        source = core_pixels.read_planes(surface, planes.of(surface))
        if self._pixel_format in _PACKED.values():
            is_swapped = surface.format.startswith("rgba8")
            target = pixels.packed_pixels(frame, source[0].shape[2], source[0].dtype.str)
            target[...] = source[0][..., [2, 1, 0, 3]] if is_swapped else source[0]
        else:
            aim = pixels.LAYOUTS[self._pixel_format]
            pixels.copy_planes(source, pixels.SURFACES[surface.format], pixels.frame_planes(frame), aim)
            for name, value in pixels.tags_of(self._color).items():
                setattr(frame, name, value)
        return frame

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Completes the file. Idempotent. A writer that got no frame makes no file.

        A KeyboardInterrupt ends the wait alone: the file is completed by a thread, and the next call waits again.

        Raises
        ------
        OSError
            The disk is full, or the like: the file plays up to there.
        """
        if self._closed:
            return
        self._own.check()
        with self._own:
            self._end()

    def _end(self) -> None:
        if self._closed:
            return
        if self._completion is None:
            self._completion = Completion(self._complete)
        self._completion.wait()
        self._closed = True
        if self._completion.error is not None:
            raise self._completion.error

    def _complete(self) -> None:
        if self._between is not None:
            self._between.close()
        if self._muxer is not None and self._last is not None:
            self._muxer.finish(round((self._last + 1 / self._rate) * SECOND))

    def _is_lost(self) -> bool:
        return not self._closed and self._own.is_here

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        size = f"{self._width}x{self._height}"
        return f"<vkshare.video.Writer of {self.path!r}, {size}, {self._frames} frames, {state}>"


def _plan(codec: str, format: str) -> tuple[str, str]:
    """The surface format that is read, and the pixel format that the encoder gets."""
    given = formats.get(format)
    if given.is_depth or given.is_integer:
        raise UnsupportedError(f"a video of {format}", "it has no colours", "write a surface of colours")
    if format in _PLANES:
        if format == "p010" and codec == "vp9":
            raise UnsupportedError("p010 in vp9", "its encoder takes 8 bits", 'take codec="av1" or "h264", or .mkv')
        if format in ("nv16", "yuv444p") and codec == "av1":
            raise UnsupportedError(f"{format} in av1", "its encoder takes 4:2:0", 'take codec="h264" or "vp9", or .mkv')
        return format, _PLANES[format]
    if codec != "ffv1":
        return "i420", "yuv420p"
    if format in _PACKED:
        return format, _PACKED[format]
    is_deep = given.bytes_per_pixel > given.channels  # packed formats have one channel
    return ("rgba16unorm", "rgba64le") if is_deep else ("bgra8unorm", "bgra")


def _converted_color(color: Color) -> Color:
    """The colour of planes that are made of R', G' and B'."""
    matrix = "bt2020" if color.primaries == "bt2020" else "bt709"
    return dataclasses.replace(color, matrix=matrix, range="limited", siting="left")
