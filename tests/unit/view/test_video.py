"""Video: access units that a decoder shows near the pictures, each at once (rule W3)."""

from __future__ import annotations

import importlib.util
import math
import sys
from typing import Any

import numpy as np
import pytest
from support.required_parts import need

from vkshare.errors import UnsupportedError
from vkshare.view import video
from vkshare.view.video import VideoEncoder

pytestmark = pytest.mark.no_driver

DECODERS = {"h264": "h264", "vp9": "vp9", "av1": "libdav1d"}


def need_codec(codec: str) -> Any:
    need("PyAV", importlib.util.find_spec("av") is not None, "PyAV is missing: pip install vkshare[view]")
    import av

    if codec not in video.available():
        pytest.skip(f"this PyAV has no encoder of {codec}")
    return av


def gradient(width: int, height: int, step: int) -> np.ndarray[Any, Any]:
    y, x = np.mgrid[0:height, 0:width]
    planes = (x * 255 // width, y * 255 // height, (x + y + 4 * step) * 255 // (width + height + 400), 0 * x + 255)
    return np.stack(planes, -1).astype(np.uint8)


def decode(av: Any, codec: str, units: list[bytes], width: int, height: int) -> list[np.ndarray[Any, Any]]:
    """The pictures of access units, by a decoder of FFmpeg's."""
    decoder = av.codec.CodecContext.create(DECODERS[codec], "r")
    frames = [frame for unit in units for frame in decoder.decode(av.packet.Packet(unit))] + decoder.decode(None)
    for frame in frames:
        assert (int(frame.colorspace), int(frame.color_range)) == (1, 1)  # BT.709, limited
    to = {"src_colorspace": "itu709", "dst_colorspace": "itu709", "src_color_range": "MPEG", "dst_color_range": "JPEG"}
    return [frame.reformat(format="rgb24", **to).to_ndarray()[:height, :width] for frame in frames]


def likeness(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """PSNR in dB."""
    error = float(np.mean((found.astype(float) - wanted.astype(float)) ** 2))
    return 99.0 if error == 0 else 10 * math.log10(255**2 / error)


@pytest.mark.parametrize("codec", ["h264", "vp9", "av1"])
@pytest.mark.parametrize("size", [(160, 96), (163, 91)])
def test_each_picture_is_one_access_unit_near_it(codec: str, size: tuple[int, int]) -> None:
    av = need_codec(codec)
    encoder = VideoEncoder(*size, codec=codec)
    pictures = [gradient(*size, step) for step in range(5)]
    units = [encoder.encode(each, "rgba8unorm", at * 16_000_000) for at, each in enumerate(pictures)]
    assert [unit.is_key for unit in units] == [True, False, False, False, False]
    found = decode(av, codec, [unit.data for unit in units], *size)
    assert len(found) == len(pictures)
    for decoded, picture in zip(found, pictures, strict=True):
        assert likeness(decoded, picture[..., :3]) > 36


@pytest.mark.parametrize("codec", ["h264", "vp9", "av1"])
def test_decoding_begins_at_a_keyframe_that_was_asked_for(codec: str) -> None:
    av = need_codec(codec)
    encoder = VideoEncoder(64, 64, codec=codec)
    units = [encoder.encode(gradient(64, 64, step), "rgba8unorm", 0, is_key=step == 3) for step in range(5)]
    assert [unit.is_key for unit in units] == [True, False, False, True, False]
    found = decode(av, codec, [unit.data for unit in units[3:]], 64, 64)
    assert likeness(found[-1], gradient(64, 64, 4)[..., :3]) > 33


@pytest.mark.parametrize("format", ["bgra8unorm", "r8unorm", "rgba16float"])
def test_other_formats_are_shown_in_their_colours(format: str) -> None:
    av = need_codec("h264")
    wanted = gradient(64, 64, 0)
    if format == "bgra8unorm":
        stored: np.ndarray[Any, Any] = wanted[..., [2, 1, 0, 3]]
    elif format == "r8unorm":
        stored, wanted = wanted[..., :1], np.repeat(wanted[..., :1], 4, axis=2)
    else:
        stored = (wanted / 255).astype(np.float16)
    unit = VideoEncoder(64, 64).encode(stored, format, 0)
    found = decode(av, "h264", [unit.data], 64, 64)
    assert likeness(found[0], wanted[..., :3]) > 34


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        ((640, 480), "avc1.42c01f"),
        ((1920, 1080), "avc1.42c02a"),
        ((3840, 2160), "avc1.42c034"),
        ((8192, 4096), "avc1.42c03d"),
    ],
)
def test_the_codec_of_webcodecs_is_that_in_the_stream(size: tuple[int, int], wanted: str) -> None:
    assert video.codec_string("h264", *size) == wanted
    need_codec("h264")
    if size[0] < 2000:
        encoder = VideoEncoder(*size)
        data = encoder.encode(np.zeros((size[1], size[0], 4), np.uint8), "rgba8unorm", 0).data
        start = data.index(b"\0\0\1\x67") + 4  # Annex B: a sequence parameter set
        assert encoder.codec_string == f"avc1.{data[start : start + 3].hex()}"


def test_the_codec_names_of_vp9_and_av1_have_their_levels() -> None:
    assert video.codec_string("vp9", 1920, 1080) == "vp09.00.41.08"
    assert video.codec_string("av1", 1920, 1080) == "av01.0.09M.08"


def test_sizes_that_no_codec_has_get_no_video() -> None:
    assert video.choose(15, 600) == video.choose(600, 9000) == video.choose(64, 64, ()) == ""
    assert video.choose(64, 64) == next(iter(video.available()), "")


def test_without_pyav_there_is_no_video_and_the_error_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    assert video.available() == ()
    with pytest.raises(UnsupportedError, match=r"vkshare\[view\]"):
        VideoEncoder(64, 64)


def test_pictures_of_another_size_and_codecs_that_there_are_not_are_refused() -> None:
    need_codec("h264")
    with pytest.raises(ValueError, match="the video is 64x64"):
        VideoEncoder(64, 64).encode(np.zeros((64, 65, 4), np.uint8), "rgba8unorm", 0)
    with pytest.raises(ValueError, match="allowed are 'h264', 'vp9', 'av1'"):
        VideoEncoder(64, 64, codec="mpeg2")
