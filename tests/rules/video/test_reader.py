"""Video files as surfaces: the frames, their times and colours, seeks, loops, and ends at any time. Rule Y4."""

from __future__ import annotations

import gzip
import io
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import video_files
from support.shared_handles import wait_until
from support.video_files import FRAMES, HEIGHT, KINDS, RATE, WIDTH

import vkshare as vks
from vkshare.video import pixels

pytestmark = pytest.mark.rule("Y4")

STEP = Fraction(1, RATE)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of each kind, named after it."""
    folder = tmp_path_factory.mktemp("clips")
    for name, kind in KINDS.items():
        video_files.make(folder / (name + kind.suffix), kind)
    return folder


@pytest.fixture
def clip(clips: Path) -> Path:
    """A file of H.264."""
    return clips / "h264-mp4.mp4"


def path_of(clips: Path, name: str) -> Path:
    return clips / (name + KINDS[name].suffix)


def has(device: vks.Device, name: str) -> None:
    """Skip where the driver has no such surfaces."""
    if name not in device.capabilities.formats:
        pytest.skip(f"no {name}: {device.capabilities.reasons[f'format {name}']}")


FORMATS = {
    "h264-mp4": "i420",
    "h264-10bit": "p010",
    "h264-444": "yuv444p",
    "vp9-webm": "i420",
    "ffv1-422": "nv16",
    "mpeg2-ts": "i420",
    "mjpeg-avi": "i420",
    "h264-bare": "i420",
    "ffv1-rgb": "rgba8unorm",
    "gif": "rgba8unorm",
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_frame_has_the_samples_of_the_decoder(vks_device: vks.Device, clips: Path, name: str) -> None:
    has(vks_device, FORMATS[name])
    path = path_of(clips, name)
    expected = video_files.decoded(path)
    with vks.video.open(path, vks_device, hardware=False) as clip:
        assert clip.format == FORMATS[name]
        assert (clip.width, clip.height) == (WIDTH, HEIGHT)
        found = [frame.surface.read_planes() for frame in clip]
    assert len(found) == len(expected) == FRAMES
    for planes, samples in zip(found, expected, strict=True):
        for plane, wanted in zip(planes, as_surface(samples, name), strict=True):
            assert np.array_equal(plane.reshape(plane.shape[0], -1), wanted)


def as_surface(samples: list[np.ndarray[Any, Any]], name: str) -> list[np.ndarray[Any, Any]]:
    """The decoder's planes, as surfaces of FORMATS have them."""
    form = FORMATS[name]
    if form in ("p010", "nv16"):
        chroma = np.stack(samples[1:], axis=2).reshape(samples[1].shape[0], -1)
        return [samples[0] << 6, chroma << 6] if form == "p010" else [samples[0], chroma]
    if form == "rgba8unorm" and name == "ffv1-rgb":
        bgra = samples[0].reshape(HEIGHT, WIDTH, 4)
        return [bgra[..., [2, 1, 0, 3]].reshape(HEIGHT, -1)]
    if name == "gif":
        return [gif_pixels(samples)]
    return samples


def gif_pixels(samples: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    bgra = samples[0].reshape(HEIGHT, WIDTH, 4)
    return bgra[..., [2, 1, 0, 3]].reshape(HEIGHT, -1)


def test_times_are_those_of_the_file(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device) as reader:
        assert reader.frame_rate == RATE
        assert reader.duration == FRAMES * STEP
        frames = [(frame.pts, frame.duration, frame.time, frame.until, frame.index) for frame in reader]
    assert frames == [(i * STEP, STEP, i * STEP, (i + 1) * STEP, i) for i in range(FRAMES)]


@pytest.mark.parametrize("name", ["h264-mp4", "h264-mkv", "hevc-mp4", "vp9-webm", "mpeg2-ts", "h264-bare", "gif"])
@pytest.mark.parametrize("number", [0, 1, 5, 7, FRAMES - 1])
def test_a_seek_gives_the_frame_that_is_shown_then(vks_device: vks.Device, clips: Path, name: str, number: int) -> None:
    has(vks_device, "i420")
    with vks.video.open(path_of(clips, name), vks_device) as clip:
        frames = [(frame.pts, frame.surface.read_planes()[0]) for frame in clip]
        pts, luma = frames[number]
        for position in (pts, pts + STEP / 3):
            clip.seek(position)
            with clip.frame(30) as frame:
                assert abs(frame.pts - pts) < Fraction(1, 500)
                assert np.array_equal(frame.surface.read_planes()[0], luma)
        assert len(list(clip)) == FRAMES - number - 1


def test_a_seek_beyond_the_end_gives_no_frame_and_one_back_goes_on(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device) as reader:
        reader.seek(1000)
        with pytest.raises(EOFError, match="seek"), reader.frame(30):
            pass
        reader.seek(0)
        assert len(list(reader)) == FRAMES


def test_frames_that_were_decoded_before_a_seek_are_not_shown(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device) as reader:
        for number in (8, 2, 9, 0, 4):
            reader.seek(number * STEP)
            with reader.frame(30) as frame:
                assert frame.pts == number * STEP


def test_a_loop_goes_on_in_time(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device, loop=True) as reader:
        for number in range(3 * FRAMES):
            with reader.frame(30) as frame:
                assert (frame.pts, frame.time) == (number % FRAMES * STEP, number * STEP)
        reader.loop = False
        assert len(list(reader)) % FRAMES == 0


def test_the_rate_divides_the_times(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device, rate=2) as reader:
        frames = [(frame.pts, frame.time, frame.until) for frame in reader]
    assert frames == [(i * STEP, i * STEP / 2, (i + 1) * STEP / 2) for i in range(FRAMES)]


def test_no_more_frames_are_decoded_ahead_than_asked_for(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device, read_ahead=3) as reader, reader.frame(30):
        wait_until(lambda: reader._receiver.statistics().committed == 4)
        time.sleep(0.2)
        assert reader._receiver.statistics().committed == 4


@pytest.mark.parametrize("form", ["nv12", "i420", "rgba8unorm", "bgra8unorm"])
def test_another_format_is_converted_to_on_the_device(vks_device: vks.Device, clip: Path, form: str) -> None:
    has(vks_device, "i420")
    has(vks_device, "nv12")
    with vks.video.open(clip, vks_device, form, hardware=False) as reader, reader.frame(30) as frame:
        assert reader.format == frame.surface.format == form
        if form == "nv12":
            luma, chroma = frame.surface.read_planes()
            expected = video_files.decoded(clip)[0]
            assert np.array_equal(luma[..., 0], expected[0])
            assert np.array_equal(chroma, np.stack(expected[1:], axis=2))
        elif form != "i420":
            found = frame.surface.read()
            with vks_device.create_surface(WIDTH, HEIGHT, form) as target, target.access():
                with vks.video.open(clip, vks_device, hardware=False) as natural, natural.frame(30) as planes:
                    vks_device.submit(vks_device.record().blit(planes.surface, target))
                assert np.array_equal(target.read(), found)
            assert reader.color.matrix == "rgb"


def test_the_files_colours_are_the_surfaces(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "p010")

    def change(context: Any) -> None:
        context.color_primaries, context.color_trc, context.colorspace, context.color_range = 9, 16, 9, 1

    video_files.make(tmp_path / "hdr.mp4", KINDS["h264-10bit"], change=change)
    with vks.video.open(tmp_path / "hdr.mp4", vks_device) as clip, clip.frame(30) as frame:
        assert frame.color == clip.color == vks.Color("bt2020", "pq", "bt2020", "limited", "left")
    given = vks.Color("bt2020", "hlg", "bt2020", "full", "top-left")
    with vks.video.open(tmp_path / "hdr.mp4", vks_device, color=given) as clip:
        assert clip.color == given


@pytest.mark.parametrize(("height", "matrix"), [(576, "bt601"), (578, "bt709")])
def test_video_that_names_no_colours_has_those_of_its_size(height: int, matrix: str) -> None:
    frame = video_files.picture(0, "yuv420p", 64, height)
    assert pixels.color_of(frame, "h264") == vks.Color(matrix, "bt709", matrix, "limited", "left")


def test_a_frame_of_another_size_is_scaled_to_the_first_ones(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "i420")
    parts = []
    for number, size in enumerate(((64, 48), (128, 96))):
        video_files.make(tmp_path / f"{number}.h264", KINDS["h264-bare"], 3, size=size)
        parts.append((tmp_path / f"{number}.h264").read_bytes())
    (tmp_path / "both.h264").write_bytes(b"".join(parts))
    with vks.video.open(tmp_path / "both.h264", vks_device) as clip:
        shapes = [frame.surface.shape[:2] for frame in clip]
    assert shapes == [(48, 64)] * 6


def test_a_colour_that_changes_in_the_middle_is_converted_to_the_first_one(
    vks_device: vks.Device, tmp_path: Path
) -> None:
    has(vks_device, "i420")
    parts = []
    for number, codes in enumerate(((16 + 219 // 2, 1), (127, 2))):  # grey in limited and in full range

        def tag(context: Any, color_range: int = codes[1]) -> None:
            context.color_range = color_range

        path = tmp_path / f"{number}.h264"
        video_files.make(path, KINDS["h264-bare"], 3, change=tag)
        parts.append(path.read_bytes())
    (tmp_path / "both.h264").write_bytes(b"".join(parts))
    with vks.video.open(tmp_path / "both.h264", vks_device, hardware=False) as clip:
        assert clip.color.range == "limited"
        first, *_, last = [frame.surface.read_planes()[0].astype(int) for frame in clip]
    wanted = 16 + (first + 24) * 219 / 255  # two frames on in the second file: the same codes and 24, in full range
    assert np.abs(last - wanted).max() <= 2


class Broken(io.BytesIO):
    """A file object that fails after a while."""

    def __init__(self, data: bytes, failure: Callable[[int], bytes]) -> None:
        super().__init__(data)
        self._failure = failure
        self.is_broken = False

    def read(self, size: int | None = -1) -> bytes:
        return self._failure(size or 0) if self.is_broken else super().read(size)


def fails(size: int) -> bytes:
    raise RuntimeError("the network is down")


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (fails, "RuntimeError: the network is down"),
        (lambda size: bytes(size + 100_000), r"ValueError: read\(\d+\) returned"),
        (lambda size: "text", "TypeError: .* returned str"),
    ],
    ids=["raises", "too much", "text"],
)
def test_a_file_object_that_fails_is_an_error_and_no_crash(
    vks_device: vks.Device, clips: Path, failure: Any, words: str
) -> None:
    has(vks_device, "i420")
    data = path_of(clips, "mpeg2-ts").read_bytes() * 300
    file = Broken(data, failure)
    file.is_broken = True
    with pytest.raises(vks.VideoError, match=words):
        vks.video.open(file, vks_device, hardware=False)
    file = Broken(data, failure)
    with vks.video.open(file, vks_device, hardware=False) as clip:
        file.is_broken = True
        with pytest.raises(vks.VideoError, match=words):
            take_for_ever(clip)


def test_ctrl_c_in_a_file_object_is_passed_on(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")

    def interrupt(size: int) -> bytes:
        raise KeyboardInterrupt

    file = Broken(clip.read_bytes(), interrupt)
    file.is_broken = True
    with pytest.raises(KeyboardInterrupt):
        vks.video.open(file, vks_device, hardware=False)


def test_compressed_and_temporary_files_are_file_objects(vks_device: vks.Device, clip: Path, tmp_path: Path) -> None:
    has(vks_device, "i420")
    with gzip.open(tmp_path / "clip.gz", "wb") as packed:
        packed.write(clip.read_bytes())
    with gzip.open(tmp_path / "clip.gz") as packed, vks.video.open(packed, vks_device, hardware=False) as reader:
        assert len(list(reader)) == FRAMES
    with tempfile.SpooledTemporaryFile(1 << 20) as file:
        file.write(clip.read_bytes())
        with vks.video.open(file, vks_device, hardware=False) as reader:
            assert len(list(reader)) == FRAMES


def test_after_an_error_of_the_device_no_frame_is_waited_for(
    vks_device: vks.Device, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(vks_device, "i420")

    def write(*_: object) -> None:
        raise vks.UnsupportedError("the test", "it says so")

    with vks.video.open(clip, vks_device, read_ahead=1, hardware=False) as reader:
        monkeypatch.setattr(reader._decoding, "_write", write)
        with pytest.raises(vks.UnsupportedError):
            take_for_ever(reader)
        with pytest.raises(vks.UnsupportedError), reader.frame(30):
            pass
        monkeypatch.undo()
        reader.seek(0)
        with reader.frame(30) as frame:
            assert frame.pts == 0


@pytest.mark.parametrize("name", ["h264-mp4", "h264-mkv", "h264-bare"])
def test_a_file_object_is_read_as_its_file(vks_device: vks.Device, clips: Path, name: str) -> None:
    has(vks_device, "i420")
    data = io.BytesIO(path_of(clips, name).read_bytes())
    with vks.video.open(data, vks_device) as clip:
        assert len(list(clip)) == FRAMES
        clip.seek(5 * STEP)
        with clip.frame(30) as frame:
            assert abs(frame.pts - 5 * STEP) < Fraction(1, 500)


def test_a_reader_is_closed_at_any_time_by_any_thread(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    before = threading.active_count()
    for number in range(20):
        reader = vks.video.open(clip, vks_device, loop=True, read_ahead=1 + number % 4)
        closer = threading.Timer(0.002 * number, reader.close)
        closer.start()
        with pytest.raises(vks.ClosedError):
            take_for_ever(reader)
        closer.join()
        reader.close()
        with pytest.raises(vks.ClosedError, match="closed"):
            reader.seek(0)
    assert threading.active_count() == before


def test_more_open_frames_than_surfaces_are_refused(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device, read_ahead=2) as reader:
        with reader.frame(30), reader.frame(30), reader.frame(30) as third:
            with pytest.raises(vks.InvalidCallError, match=r"3 frames of .* are held.* read_ahead above 2"):
                reader.frame(30).__enter__()
            assert third.index == 2
        with reader.frame(30) as fourth:
            assert fourth.index == 3


def take_for_ever(reader: vks.video.Reader) -> None:
    while True:
        with reader.frame(30):
            pass


def test_frames_come_in_order_while_the_device_still_draws_with_them(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    expected = [samples[0] for samples in video_files.decoded(clip)]
    with (
        vks.video.open(clip, vks_device, read_ahead=1, hardware=False) as reader,
        vks_device.create_surface(WIDTH, HEIGHT * FRAMES, "i420", color=reader.color) as wall,
        wall.access(),
    ):
        for frame in reader:
            vks_device.submit(vks_device.record().copy(frame.surface, wall, at=(0, HEIGHT * frame.index)))
        luma = wall.read_planes()[0][..., 0]
    assert np.array_equal(luma, np.concatenate(expected))


def test_wrong_arguments_are_named(vks_device: vks.Device, clip: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="source"):
        vks.video.open(5, vks_device)
    with pytest.raises(FileNotFoundError):
        vks.video.open(tmp_path / "none.mp4", vks_device)
    with pytest.raises(OSError, match="regular file"):
        vks.video.open("/dev/null", vks_device)
    with pytest.raises(ValueError, match="read_ahead is 0"):
        vks.video.open(clip, vks_device, read_ahead=0)
    with pytest.raises(ValueError, match="rate is 0"):
        vks.video.open(clip, vks_device, rate=0)
    with pytest.raises(ValueError, match="format is 'nv13'"):
        vks.video.open(clip, vks_device, "nv13")
    with pytest.raises(vks.UnsupportedError, match="it is one of depths"):
        vks.video.open(clip, vks_device, "d16unorm")
    with pytest.raises(TypeError, match="device must be a Device, not NoneType"):
        vks.video.open(clip, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"io.BytesIO"):
        vks.video.open(b"\0\0\0 ftyp", vks_device)
    with pytest.raises(TypeError, match="binary file object, not StringIO"):
        vks.video.open(io.StringIO("text"), vks_device)


def test_a_float_seeks_to_the_frame_whose_time_it_is(vks_device: vks.Device, clips: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(path_of(clips, "vp9-webm"), vks_device, hardware=False) as clip:
        for pts in [frame.pts for frame in clip]:
            for position in (float(pts), np.float64(pts), round(float(pts), 6)):
                clip.seek(position)
                with clip.frame(30) as frame:
                    assert frame.pts == pts


def test_a_loop_goes_on_after_a_seek_beyond_the_end(vks_device: vks.Device, clip: Path) -> None:
    has(vks_device, "i420")
    with vks.video.open(clip, vks_device, loop=True, hardware=False) as reader:
        reader.seek(99)
        with reader.frame(30) as frame:
            assert frame.pts == 0
        reader.close()
        with pytest.raises(vks.ClosedError):
            reader.loop = False


@pytest.mark.parametrize("size", [(64, 48), (640, 480)])
def test_a_picture_is_a_video_of_one_frame(vks_device: vks.Device, tmp_path: Path, size: tuple[int, int]) -> None:
    pictures = pytest.importorskip("PIL.Image")
    for suffix in (".png", ".jpg", ".gif"):
        pictures.new("RGB", size, (200, 40, 40)).save(tmp_path / f"one{suffix}")
        with vks.video.open(tmp_path / f"one{suffix}", vks_device, "rgba8unorm", hardware=False) as clip:
            assert [abs(int(frame.surface.read()[0, 0, 0]) - 200) < 4 for frame in clip] == [True]
