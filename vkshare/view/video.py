"""Video for browsers: one access unit a picture, by PyAV, in the form that WebCodecs takes. For one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vkshare.errors import UnsupportedError
from vkshare.util import arguments
from vkshare.view.display_pixels import AS_STORED, to_rgba8

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame

Array = np.ndarray[Any, Any]

SMALLEST_SIDE = 16  # pixels; browsers' decoders refuse less
LARGEST_SIDE = 8192
_KEYFRAMES = 1 << 16  # pictures between keyframes, without a wish for one
_BT709 = 1  # FFmpeg's number for the matrix, the primaries and the transfer function
_LIMITED = 1  # FFmpeg's number for the range 16 to 235
_CLOCK = 1_000_000  # ticks a second


@dataclass(frozen=True)
class Codec:
    """An encoder of PyAV's, with options for the least delay: each picture is one access unit, at once."""

    name: str
    encoder: str
    options: tuple[tuple[str, str], ...]


# libx264's ultrafast preset is the one that has 1080p60 on less than one core. A quantiser that does not change spares
# the encoder an estimate of each picture's cost, a third of its work. No encoder reorders or looks ahead.
_X264 = (("preset", "ultrafast"), ("tune", "zerolatency"), ("profile", "baseline"), ("qp", "26"), ("forced-idr", "1"))
_VP9 = (("deadline", "realtime"), ("cpu-used", "8"), ("lag-in-frames", "0"), ("row-mt", "1"), ("crf", "34"))
_AV1 = (("preset", "11"), ("crf", "40"), ("svtav1-params", "pred-struct=1:lookahead=0"))

CODECS = {
    each.name: each
    for each in (
        Codec("h264", "libx264", _X264),
        Codec("vp9", "libvpx-vp9", _VP9),
        Codec("av1", "libsvtav1", _AV1),
    )
}


class _Level(NamedTuple):
    """A level of a codec: its number, and the most pixels a picture and a second."""

    number: int
    picture: int
    second: int


_H264 = [  # H.264, table A-1, in macroblocks
    *(_Level(30, 1620, 40500), _Level(31, 3600, 108000), _Level(32, 5120, 216000), _Level(40, 8192, 245760)),
    *(_Level(42, 8704, 522240), _Level(50, 22080, 589824), _Level(51, 36864, 983040), _Level(52, 36864, 2073600)),
    *(_Level(60, 139264, 4177920), _Level(61, 139264, 8355840), _Level(62, 139264, 16711680)),
]
_VP9_LEVELS = [  # webmproject.org/vp9/levels
    *(_Level(30, 552960, 20736000), _Level(31, 983040, 36864000), _Level(40, 2228224, 83558400)),
    *(_Level(41, 2228224, 160432128), _Level(50, 8912896, 311951360), _Level(51, 8912896, 588251136)),
    *(_Level(52, 8912896, 1176502272), _Level(60, 35651584, 1176502272), _Level(61, 35651584, 2353004544)),
    _Level(62, 35651584, 4706009088),
]
_AV1_LEVELS = [  # AV1, annex A.3; the number is seq_level_idx
    *(_Level(4, 665856, 24969600), _Level(5, 1065024, 39938400), _Level(8, 2359296, 77856768)),
    *(_Level(9, 2359296, 155713536), _Level(12, 8912896, 273715200), _Level(13, 8912896, 547430400)),
    *(_Level(14, 8912896, 1094860800), _Level(16, 35651584, 1176502272), _Level(18, 35651584, 4379443200)),
]


def available() -> tuple[str, ...]:
    """Return the codecs whose encoders PyAV's build has; none where PyAV is missing."""
    try:
        av = _load()
    except UnsupportedError:
        return ()
    found = []
    for codec in CODECS.values():
        try:
            av.codec.Codec(codec.encoder, "w")
        except ValueError:  # av.codec.codec.UnknownCodecError
            continue
        found.append(codec.name)
    return tuple(found)


def choose(width: int, height: int, codecs: Sequence[str] = ("h264", "vp9", "av1")) -> str:
    """Return the first codec that PyAV's build has and that can have this size; ``""``: none."""
    if min(width, height) < SMALLEST_SIDE or max(width, height) > LARGEST_SIDE:
        return ""
    there = available()
    return next((each for each in codecs if each in there and _fits(each, width, height)), "")


def codec_string(codec: str, width: int, height: int, rate: float = 60.0) -> str:
    """Return the codec as WebCodecs has it, e.g. ``"avc1.42c02a"``: the profile, and the level for this size and rate.

    Parameters
    ----------
    codec
        "h264", "vp9" or "av1".
    width, height
        Pixels.
    rate
        Pictures a second.
    """
    level = _level(codec, width, height, rate).number
    if codec == "h264":
        return f"avc1.42c0{level:02x}"
    if codec == "vp9":
        return f"vp09.00.{level}.08"
    return f"av01.0.{level:02d}M.08"


class AccessUnit(NamedTuple):
    """One picture of a video."""

    data: bytes
    is_key: bool  # decoding can begin with it


class VideoEncoder:
    """Encodes pictures: colours of BT.709 with limited range, two pixels by two share a colour.

    Sides that are odd are padded by the last column or row once more. For one thread.

    Parameters
    ----------
    width, height
        Pixels, 16 to 8192.
    rate
        Pictures a second, more or less: it decides the level, and what the encoder spends.
    codec
        "h264", "vp9" or "av1".

    Raises
    ------
    ValueError
        An argument is not as above.
    UnsupportedError
        PyAV is missing, has no such encoder, or the encoder refuses the size.
    """

    def __init__(self, width: int, height: int, rate: float = 60.0, codec: str = "h264") -> None:
        self.width = arguments.integer("width", width, SMALLEST_SIDE, LARGEST_SIDE)
        self.height = arguments.integer("height", height, SMALLEST_SIDE, LARGEST_SIDE)
        self.rate = arguments.number("rate", rate, 1, 1000)
        self._codec = CODECS[arguments.choice("codec", codec, tuple(CODECS))]
        self._av = _load()
        from av.video import reformatter

        self._to: Any = reformatter
        self._reformatter: Any = reformatter.VideoReformatter()
        self._last_tick = -1
        self._context = self._open()

    @property
    def codec(self) -> str:
        """The codec's name: "h264", "vp9" or "av1"."""
        return self._codec.name

    @property
    def codec_string(self) -> str:
        """The codec as WebCodecs has it."""
        return codec_string(self.codec, self.width, self.height, self.rate)

    def encode(self, array: Array, format: str, time_ns: int, *, is_key: bool = False) -> AccessUnit:
        """Encode a picture, as the one that follows the picture before.

        Parameters
        ----------
        array
            (height, width, C) as ``Surface.read()`` returns it.
        format
            The surface's.
        time_ns
            When it is shown, in nanoseconds; later than the picture before.
        is_key
            Whether decoding must be able to begin with it.

        Raises
        ------
        ValueError
            The array has another shape or type.
        UnsupportedError
            The encoder failed.
        """
        frame = self._frame(array, format)
        self._last_tick = max(self._last_tick + 1, time_ns // 1000)
        frame.pts, frame.time_base = self._last_tick, Fraction(1, _CLOCK)
        unit = self._encode(frame, is_key)
        if is_key and not unit.is_key:  # an encoder that takes no such wish; a new one begins with a keyframe
            self._context = self._open()
            unit = self._encode(frame, is_key)
        return unit

    def _encode(self, frame: VideoFrame, is_key: bool) -> AccessUnit:
        kinds = self._av.video.frame.PictureType
        frame.pict_type = kinds.I if is_key else kinds.NONE
        try:
            packets = self._context.encode(frame)
        except (OSError, ValueError) as error:  # av.error.FFmpegError is one of these
            raise UnsupportedError(
                f"a video in {self.codec}", f"the encoder failed: {error}", "show it lossless"
            ) from None
        if len(packets) != 1:
            raise UnsupportedError(
                f"a video in {self.codec}", f"{self._codec.encoder} gave {len(packets)} access units for a picture"
            )
        return AccessUnit(bytes(packets[0]), packets[0].is_keyframe)

    def _frame(self, array: Array, format: str) -> VideoFrame:
        if array.shape[:2] != (self.height, self.width):
            raise ValueError(
                f"the picture is {array.shape[1]}x{array.shape[0]}; the video is {self.width}x{self.height}"
            )
        is_bgra = format == "bgra8unorm"
        pixels = array if is_bgra or format in AS_STORED else to_rgba8(array, format)
        if self.width % 2 or self.height % 2:
            pixels = np.pad(pixels, ((0, self.height % 2), (0, self.width % 2), (0, 0)), mode="edge")
        to = self._to
        source = self._av.VideoFrame.from_numpy_buffer(
            np.ascontiguousarray(pixels), format="bgra" if is_bgra else "rgba"
        )
        frame: VideoFrame = self._reformatter.reformat(
            source,
            format="yuv420p",
            src_colorspace=to.Colorspace.ITU709,
            dst_colorspace=to.Colorspace.ITU709,
            src_color_range=to.ColorRange.JPEG,
            dst_color_range=to.ColorRange.MPEG,
            # FULL_CHR_H_INP: swscale has faster code for the colours of each pixel, which it averages afterwards.
            interpolation=to.Interpolation.BILINEAR | to.Interpolation.FULL_CHR_H_INP,
            threads=1,
        )
        frame.colorspace = frame.color_primaries = frame.color_trc = _BT709
        frame.color_range = _LIMITED
        return frame

    def _open(self) -> VideoCodecContext:
        context: VideoCodecContext = self._av.codec.CodecContext.create(self._codec.encoder, "w")
        context.width, context.height = self.width + self.width % 2, self.height + self.height % 2
        context.pix_fmt = "yuv420p"
        context.time_base = Fraction(1, _CLOCK)
        context.framerate = Fraction(self.rate).limit_denominator(1000)
        context.gop_size = _KEYFRAMES
        context.max_b_frames = 0
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        context.thread_count = 2  # more take longer to meet than they save
        options = dict(self._codec.options)
        if self.codec == "h264":
            options["level"] = f"{_level('h264', self.width, self.height, self.rate).number / 10:.1f}"
        context.options = options
        try:
            context.open()
        except (OSError, ValueError) as error:
            raise UnsupportedError(
                f"a video of {self.width}x{self.height} in {self.codec}",
                f"{self._codec.encoder} refuses it: {error}",
                "show it lossless",
            ) from None
        return context

    def __repr__(self) -> str:
        return f"<vkshare.view.VideoEncoder {self.width}x{self.height} {self.codec} ({self._codec.encoder})>"


def _load() -> Any:
    try:
        import av
    except ImportError as error:
        raise UnsupportedError("video", f"PyAV is not there ({error})", "pip install 'vkshare[view]'") from None
    return av


def _size(codec: str, width: int, height: int) -> int:
    """A picture's size in the unit of the codec's levels."""
    return -(-width // 16) * -(-height // 16) if codec == "h264" else width * height


def _levels(codec: str) -> Sequence[_Level]:
    return {"h264": _H264, "vp9": _VP9_LEVELS, "av1": _AV1_LEVELS}[codec]


def _fits(codec: str, width: int, height: int) -> bool:
    return _size(codec, width, height) <= _levels(codec)[-1].picture


def _level(codec: str, width: int, height: int, rate: float) -> _Level:
    """The lowest level for a size and rate; the highest one, if none is high enough."""
    size = _size(codec, width, height)
    fitting = (each for each in _levels(codec) if size <= each.picture and size * rate <= each.second)
    return next(fitting, _levels(codec)[-1])
