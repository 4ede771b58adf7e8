"""Surfaces into video files: pixels, times and colours, and the file after a death or a full disk. Rule Y8."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.recorded_files import need_av

import vkshare as vks

pytestmark = pytest.mark.rule("Y8")

WIDTH, HEIGHT = 64, 48


def has(device: vks.Device, name: str) -> None:
    """Skip where the driver has no such surfaces."""
    if name not in device.capabilities.formats:
        pytest.skip(f"no {name}: {device.capabilities.reasons[f'format {name}']}")


def noise(surface: vks.Surface, seed: int) -> list[np.ndarray[Any, Any]]:
    """Random planes; unused bits of words are 0."""
    random, form = np.random.default_rng(seed), surface.spec.format
    found = []
    for index, plane in enumerate(form.planes):
        width, height = form.plane_size(index, surface.width, surface.height)
        codes = random.integers(0, 2 ** (8 * plane.numpy_dtype.itemsize), (height, width, plane.channels))
        codes = codes.astype(plane.numpy_dtype)
        found.append(codes & np.uint16(0xFFC0) if form.name == "p010" else codes)
    return found


@pytest.mark.parametrize("form", ["i420", "nv12", "p010", "nv16", "yuv444p"])
def test_planes_come_back_from_a_lossless_file_bit_for_bit(vks_device: vks.Device, tmp_path: Path, form: str) -> None:
    has(vks_device, form)
    color = vks.Color("bt2020", "hlg", "bt2020", "limited", "left")
    written = []
    with vks_device.create_surface(WIDTH, HEIGHT, form, color=color) as surface, surface.access():
        with vks.video.Writer(tmp_path / "noise.mkv", WIDTH, HEIGHT, rate=25) as writer:
            for seed in range(4):
                written.append(noise(surface, seed))
                surface.write_planes(written[-1])
                writer.write(surface)
        assert writer.frames == 4
    with vks.video.open(tmp_path / "noise.mkv", vks_device, form) as clip:
        assert clip.color == color
        found = [frame.surface.read_planes() for frame in clip]
    assert len(found) == 4
    for planes, expected in zip(found, written, strict=True):
        for plane, wanted in zip(planes, expected, strict=True):
            assert np.array_equal(plane, wanted)


@pytest.mark.parametrize("form", ["rgba8unorm", "bgra8unorm", "rgba8unorm-srgb"])
def test_pixels_come_back_from_a_lossless_file_bit_for_bit(vks_device: vks.Device, tmp_path: Path, form: str) -> None:
    with vks_device.create_surface(WIDTH, HEIGHT, form) as surface, surface.access():
        (pixels,) = noise(surface, 5)
        surface.write(pixels)
        with vks.video.Writer(tmp_path / "noise.mkv", WIDTH, HEIGHT) as writer:
            writer.write(surface)
    with vks.video.open(tmp_path / "noise.mkv", vks_device) as clip, clip.frame(30) as frame:
        found = frame.surface.read()
    assert np.array_equal(found, pixels[..., [2, 1, 0, 3]] if form == "bgra8unorm" else pixels)


@pytest.mark.parametrize(
    ("suffix", "form"),
    [(".mp4", "rgba8unorm"), (".webm", "rgba8unorm"), (".mp4", "rgba16float"), (".mp4", "bgra8unorm")],
)
def test_colours_come_back_from_a_lossy_file_nearly(
    vks_device: vks.Device, tmp_path: Path, suffix: str, form: str
) -> None:
    has(vks_device, "i420")
    colours = [(0.8, 0.2, 0.2, 1), (0.2, 0.6, 0.3, 1), (0.3, 0.3, 0.9, 1), (1, 1, 1, 1)]
    path = tmp_path / f"colours{suffix}"
    with (
        vks_device.create_surface(WIDTH, HEIGHT, form) as surface,
        surface.access(),
        vks.video.Writer(path, WIDTH, HEIGHT, crf=10) as writer,
    ):
        for colour in colours:
            vks_device.submit(vks_device.record().clear(surface, colour))
            writer.write(surface)
    with vks.video.open(path, vks_device, "rgba8unorm") as clip:
        found = [frame.surface.read()[HEIGHT // 2, WIDTH // 2] / 255 for frame in clip]
    assert np.allclose(found, colours, atol=0.02)


def test_the_codes_of_srgb_surfaces_are_those_of_the_video(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "i420")
    codes = np.full((HEIGHT, WIDTH, 4), (60, 120, 200, 255), np.uint8)
    with vks_device.create_surface(WIDTH, HEIGHT, "rgba8unorm-srgb") as surface, surface.access():
        surface.write(codes)
        with vks.video.Writer(tmp_path / "codes.mp4", WIDTH, HEIGHT, crf=10) as writer:
            writer.write(surface)
    with vks.video.open(tmp_path / "codes.mp4", vks_device, "rgba8unorm-srgb") as clip, clip.frame(30) as frame:
        assert np.allclose(frame.surface.read().astype(int), codes, atol=3)


def test_times_are_kept(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "i420")
    times = [Fraction(0), Fraction(1, 30), Fraction(1, 10), Fraction(3, 2), Fraction(2)]
    for suffix, step in ((".mp4", Fraction(1, 90_000)), (".mkv", Fraction(1, 1000))):
        path = tmp_path / f"times{suffix}"
        with (
            vks_device.create_surface(WIDTH, HEIGHT, "i420") as surface,
            surface.access(),
            vks.video.Writer(path, WIDTH, HEIGHT, rate=30) as writer,
        ):
            for moment in times:
                writer.write(surface, moment)
            writer.write(surface)  # a thirtieth of a second after the last one
        with vks.video.open(path, vks_device) as clip:
            found = [frame.pts for frame in clip]
        assert all(abs(a - b) <= step for a, b in zip(found, [*times, 2 + Fraction(1, 30)], strict=True))


def test_frames_that_do_not_fit_are_refused_and_the_file_goes_on(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "i420")
    with vks_device.create_surface(WIDTH, HEIGHT, "i420") as surface, surface.access():
        writer = vks.video.Writer(tmp_path / "some.mp4", WIDTH, HEIGHT)
        writer.write(surface)
        with pytest.raises(ValueError, match=r"pts is 0\.0; allowed are times after 0\.0"):
            writer.write(surface, 0)
        with (
            vks_device.create_surface(32, 32, "i420") as other,
            other.access(),
            pytest.raises(ValueError, match="is 32x32; this writer takes 64x48"),
        ):
            writer.write(other)
        with (
            vks_device.create_surface(WIDTH, HEIGHT) as other,
            other.access(),
            pytest.raises(ValueError, match=r"rgba8unorm .*; the first frame was i420"),
        ):
            writer.write(other)
        with pytest.raises(TypeError, match="surface"):
            writer.write(b"pixels")  # type: ignore[arg-type]
        surface.release(0)
        with pytest.raises(vks.NotOwnerError):
            writer.write(surface)
        surface.acquire(0)
        writer.write(surface)
        writer.close()
        with pytest.raises(vks.ClosedError):
            writer.write(surface)
    with vks.video.open(tmp_path / "some.mp4", vks_device) as clip:
        assert len(list(clip)) == writer.frames == 2


def test_wrong_arguments_are_named(vks_device: vks.Device, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must end in"):
        vks.video.Writer(tmp_path / "clip.gif", WIDTH, HEIGHT)
    with pytest.raises(ValueError, match=r"a .mp4 file may have h264, vp9, av1"):
        vks.video.Writer(tmp_path / "clip.mp4", WIDTH, HEIGHT, codec="ffv1")
    with pytest.raises(ValueError, match="width is 0"):
        vks.video.Writer(tmp_path / "clip.mp4", 0, HEIGHT)
    with pytest.raises(FileNotFoundError):
        vks.video.Writer(tmp_path / "no folder" / "clip.mp4", WIDTH, HEIGHT)
    (tmp_path / "there.mp4").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        vks.video.Writer(tmp_path / "there.mp4", WIDTH, HEIGHT)
    assert (tmp_path / "there.mp4").read_bytes() == b"mine"
    with vks.video.Writer(tmp_path / "none.mp4", WIDTH, HEIGHT):
        pass
    assert not (tmp_path / "none.mp4").exists()

    with pytest.raises(TypeError, match="path must be a path, not NoneType"):
        vks.video.Writer(None, WIDTH, HEIGHT)
    with pytest.raises(ValueError, match=r"codec is 'h265'; a \.mp4 file may have h264, vp9, av1$"):
        vks.video.Writer(tmp_path / "clip.mp4", WIDTH, HEIGHT, codec="h265")


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
@pytest.mark.parametrize("rate", [10, 50, 120])
def test_the_last_frame_is_shown_as_long_as_the_others(
    vks_device: vks.Device, tmp_path: Path, suffix: str, rate: int
) -> None:
    path = tmp_path / f"clip{suffix}"
    with vks_device.create_surface(WIDTH, HEIGHT) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (0, 0, 0, 1)))
        with vks.video.Writer(path, WIDTH, HEIGHT, rate) as writer:
            for _ in range(10):
                writer.write(surface)
    with vks.video.open(path, vks_device, hardware=False) as clip:
        assert clip.duration is not None
        assert abs(clip.duration - Fraction(10, rate)) <= Fraction(1, 500)


def test_times_that_a_container_has_no_room_for_are_refused(vks_device: vks.Device, tmp_path: Path) -> None:
    with vks_device.create_surface(WIDTH, HEIGHT) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (0, 0, 0, 1)))
        with vks.video.Writer(tmp_path / "gap.mp4", WIDTH, HEIGHT) as writer:
            writer.write(surface, np.float32(5))  # type: ignore[arg-type]
            with pytest.raises(
                ValueError, match=r"pts is 30005.0, 30000 s after the frame before; .mp4 has room for 23,860 s"
            ):
                writer.write(surface, 30005)
            writer.write(surface, 23000)
    with vks.video.open(tmp_path / "gap.mp4", vks_device, hardware=False) as clip:
        assert [frame.pts for frame in clip] == [0, 22995]


@pytest.mark.parametrize("name", ["rgb10a2unorm", "r16unorm", "rg16unorm", "rgba16float"])
def test_a_lossless_file_has_the_bits_of_deep_formats(vks_device: vks.Device, tmp_path: Path, name: str) -> None:
    with vks_device.create_surface(WIDTH, HEIGHT, name) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (0.2, 0.4, 0.6, 1)))
        with vks.video.Writer(tmp_path / "deep.mkv", WIDTH, HEIGHT) as writer:
            writer.write(surface)
    with vks.video.open(tmp_path / "deep.mkv", vks_device) as clip, clip.frame(30) as frame:
        assert frame.surface.format == "rgba16unorm"
        assert abs(int(frame.surface.read()[0, 0, 0]) - 0.2 * 65535) < 40


def test_depths_are_no_video(vks_device: vks.Device, tmp_path: Path) -> None:
    with (
        vks_device.create_surface(WIDTH, HEIGHT, "d16unorm") as surface,
        surface.access(),
        vks.video.Writer(tmp_path / "deep.mkv", WIDTH, HEIGHT) as writer,
        pytest.raises(vks.UnsupportedError, match="a video of d16unorm"),
    ):
        writer.write(surface)


def test_full_range_has_the_siting_of_its_codec(vks_device: vks.Device, tmp_path: Path) -> None:
    color = vks.Color("bt709", "srgb", "bt709", "full", "left")
    with vks_device.create_surface(WIDTH, HEIGHT, "i420", color=color) as surface, surface.access():
        surface.write_planes(noise(surface, 1))
        with vks.video.Writer(tmp_path / "full.mp4", WIDTH, HEIGHT) as writer:
            writer.write(surface)
    with vks.video.open(tmp_path / "full.mp4", vks_device, hardware=False) as clip:
        assert clip.color == color


@pytest.mark.parametrize("name", ["file:mine.mkv", "12:30.mkv", "http:x.mkv", "concat:a.mkv", "a%d.mkv"])
def test_a_name_is_a_file_whatever_characters_it_has(
    vks_device: vks.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.mkv").write_bytes(b"precious")
    with vks_device.create_surface(WIDTH, HEIGHT) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (1, 0, 0, 1)))
        with vks.video.Writer(name, WIDTH, HEIGHT) as writer:
            writer.write(surface)
    assert sorted(os.listdir()) == sorted(["mine.mkv", name])
    assert (tmp_path / "mine.mkv").read_bytes() == b"precious"
    with vks.video.open(tmp_path / name, vks_device) as clip:
        assert len(list(clip)) == 1


def test_a_size_that_an_encoder_would_wait_at_is_refused(vks_device: vks.Device, tmp_path: Path) -> None:
    with vks_device.create_surface(256, 16) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (1, 0, 0, 1)))
        with (
            vks.video.Writer(tmp_path / "thin.mp4", 256, 16, codec="av1") as writer,
            pytest.raises(vks.UnsupportedError, match="refuses 256x16 pixels of yuv420p: sides are 32 or more"),
        ):
            writer.write(surface)
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="16384x8192; allowed are 67,108,864 pixels"):
        vks.video.Writer(tmp_path / "large.mp4", 16384, 8192)


@pytest.mark.parametrize("transfer", ["pq", "hlg", "linear"])
def test_a_lossless_file_says_the_primaries_and_the_transfer_function(
    vks_device: vks.Device, tmp_path: Path, transfer: str
) -> None:
    color = vks.Color("bt2020", transfer)
    with vks_device.create_surface(WIDTH, HEIGHT, color=color) as surface, surface.access():
        vks_device.submit(vks_device.record().clear(surface, (1, 0, 0, 1)))
        with vks.video.Writer(tmp_path / "hdr.mkv", WIDTH, HEIGHT) as writer:
            writer.write(surface)
    with vks.video.open(tmp_path / "hdr.mkv", vks_device) as clip:
        assert (clip.color.primaries, clip.color.transfer) == ("bt2020", transfer)


@pytest.mark.no_driver
def test_threads_that_write_and_close_end_in_order(vks_device: vks.Device, tmp_path: Path) -> None:
    """Each thread's frames are whole, and the file plays."""
    writer = vks.video.Writer(tmp_path / "many.mp4", WIDTH, HEIGHT)
    counts: list[int] = []

    def write() -> None:
        written = 0
        with vks_device.create_surface(WIDTH, HEIGHT, "i420") as surface, surface.access():
            surface.write_planes(noise(surface, written))
            with contextlib.suppress(vks.ClosedError):
                while True:
                    writer.write(surface)
                    written += 1
        counts.append(written)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    while writer.frames < 60:
        time.sleep(0.001)
    writer.close()
    for thread in threads:
        thread.join()
    with vks.video.open(tmp_path / "many.mp4", vks_device) as clip:
        assert len(list(clip)) == sum(counts) == writer.frames


def test_an_odd_size_is_refused_where_pixels_share_a_colour(vks_device: vks.Device, tmp_path: Path) -> None:
    with vks_device.create_surface(63, 48) as surface, surface.access():
        with (
            vks.video.Writer(tmp_path / "odd.mp4", 63, 48) as writer,
            pytest.raises(vks.UnsupportedError, match=r"even size"),
        ):
            writer.write(surface)
        with vks.video.Writer(tmp_path / "odd.mkv", 63, 48) as writer:
            writer.write(surface)


PROGRAM = """
import sys, time
import vkshare as vks
with vks.open(backend="cpu") as device, device.create_surface(320, 240, "i420") as surface, surface.access():
    writer = vks.video.Writer(sys.argv[1], 320, 240, rate=30)
    for number in range(100_000):
        device.submit(device.record().clear(surface, (number % 200 / 200, 0.5, 0.5, 1)))
        writer.write(surface)
        if number % 30 == 29:
            print(number + 1, flush=True)
"""


@pytest.mark.no_driver
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
def test_a_killed_process_leaves_a_file_that_plays_up_to_there(
    vks_device: vks.Device, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"killed{suffix}"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for _ in range(4):
            written = int(program.stdout.readline())
        program.send_signal(signal.SIGKILL)
    with vks.video.open(path, vks_device) as clip:
        frames = len(list(clip))
    assert frames >= written - 60  # two seconds of the video at most: the newest group of pictures


def write_for_ever(writer: vks.video.Writer, surface: vks.Surface) -> None:
    for seed in range(1000):
        surface.write_planes(noise(surface, seed))
        writer.write(surface)


@pytest.mark.no_driver
def test_a_full_disk_is_an_error_and_the_file_plays_up_to_there(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "full.mkv"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with vks_device.create_surface(WIDTH, HEIGHT, "i420") as surface, surface.access():
        writer = vks.video.Writer(path, WIDTH, HEIGHT, rate=30)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            with pytest.raises(OSError, match="large") as caught:
                write_for_ever(writer, surface)
            with pytest.raises(OSError, match="large"):
                writer.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert caught.value.errno == errno.EFBIG
        frames = writer.frames
    assert frames > 5
    found = 0
    with vks.video.open(path, vks_device) as clip:
        while True:
            try:
                with clip.frame(30):
                    found += 1
            except EOFError:
                break
            except vks.VideoError:  # the cut frame
                continue
    assert found >= frames - 30
    assert os.path.getsize(path) <= 100_000


def test_the_file_of_a_lossy_codec_says_its_colours(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "i420")
    path = tmp_path / "tagged.mp4"
    with (
        vks_device.create_surface(WIDTH, HEIGHT) as surface,
        surface.access(),
        vks.video.Writer(path, WIDTH, HEIGHT) as writer,
    ):
        writer.write(surface)
    with need_av().open(str(path)) as container:
        (frame,) = list(container.decode(video=0))
    tags = frame.color_primaries, frame.color_trc, frame.colorspace, frame.color_range
    assert tuple(map(int, tags)) == (1, 13, 1, 1)


@pytest.mark.parametrize("name", ["clip.mp4", "clip.webm", "clip.mkv"])
def test_a_disk_that_is_full_from_the_beginning_is_an_error_and_no_crash(
    vks_device: vks.Device, tmp_path: Path, name: str
) -> None:
    """FFmpeg crashes where packets of an .mp4 follow a header that could not be written."""
    program = (
        "import sys, vkshare as vks\n"
        "with vks.open(backend='cpu') as device, device.create_surface(64, 48) as surface, surface.access():\n"
        "    writer = vks.video.Writer(sys.argv[1], 64, 48, force=True)\n"
        "    for call in (*[lambda: writer.write(surface)] * 60, writer.close):\n"
        "        try:\n"
        "            call()\n"
        "        except OSError as error:\n"
        "            print(error.errno)\n"
        "    writer.close()\n"
    )
    (tmp_path / name).symlink_to("/dev/full")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, str(tmp_path / name)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()
    assert set(done.stdout.split()) == {str(errno.ENOSPC)}


def test_a_first_frame_that_fails_leaves_no_file_and_decides_nothing(vks_device: vks.Device, tmp_path: Path) -> None:
    has(vks_device, "rgba16unorm")
    path = tmp_path / "clip.mkv"
    with (
        vks_device.create_surface(WIDTH, HEIGHT) as unowned,
        vks_device.create_surface(WIDTH, HEIGHT, "rgba16unorm") as surface,
        surface.access(),
    ):
        with vks.video.Writer(path, WIDTH, HEIGHT) as writer:
            with pytest.raises(vks.NotOwnerError):
                writer.write(unowned)
            assert not path.exists()
        assert not path.exists()
        with vks.video.Writer(path, WIDTH, HEIGHT) as writer:
            with pytest.raises(vks.NotOwnerError):
                writer.write(unowned, 7)
            writer.write(surface, 0)
        assert writer.frames == 1
    with vks.video.open(path, vks_device) as clip:
        assert sum(1 for _ in clip) == 1


def test_an_interrupt_ends_the_wait_of_close_and_the_file_is_whole(
    vks_device: vks.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vkshare.video import muxer

    has_begun, may_end = threading.Event(), threading.Event()
    finish = muxer.Muxer.finish

    def slowly(self: muxer.Muxer, length_ns: int) -> None:
        has_begun.set()
        assert may_end.wait(30)
        finish(self, length_ns)

    def interrupt() -> None:
        has_begun.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(muxer.Muxer, "finish", slowly)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with vks_device.create_surface(WIDTH, HEIGHT) as surface, surface.access():
            writer = vks.video.Writer(tmp_path / "clip.mp4", WIDTH, HEIGHT)
            for _ in range(20):
                writer.write(surface)
            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                writer.close()
            thread.join()
            assert not writer.is_closed
            with pytest.raises(vks.ClosedError):
                writer.write(surface)
            may_end.set()
            writer.close()
            assert writer.is_closed
    finally:
        signal.signal(signal.SIGINT, before)
    with vks.video.open(tmp_path / "clip.mp4", vks_device) as clip:
        assert sum(1 for _ in clip) == 20
