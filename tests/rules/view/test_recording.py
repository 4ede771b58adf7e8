"""Recordings as their program sees them: pixels, times, counts, errors (rule W8)."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.child_processes import in_child
from support.fd_counts import open_fds
from support.recorded_files import boxes, colours_of, need_av, pixels_of, shown_at
from support.run_volumes import rounds

import vkshare as vks
from vkshare import view
from vkshare.errors import UnsupportedError
from vkshare.view import recording_threads, sources

pytestmark = [pytest.mark.no_driver, pytest.mark.rule("W8")]

HANG = 60.0  # seconds: only ends hangs
SHAPE = (47, 65)  # height and width: odd


@pytest.fixture(autouse=True)
def av() -> Any:
    return need_av()


class Source:
    """A pipe whose frames a recording takes."""

    def __init__(self, device: vks.Device, form: str = "rgba8unorm", shape: tuple[int, int] = SHAPE) -> None:
        self._ending = contextlib.ExitStack()
        self.sender, descriptor = vks.pipe(device, shape[1], shape[0], form)
        self._ending.enter_context(self.sender)
        with descriptor:
            self.receiver = self._ending.enter_context(vks.open_receiver(device, descriptor))

    def send(self, *pictures: Any) -> None:
        for picture in pictures:
            with self.sender.frame(timeout=HANG) as frame:
                frame.surface.write(picture)

    def close(self) -> None:
        self._ending.close()


@pytest.fixture
def pipe(device: vks.Device) -> Iterator[Any]:
    """pipe(format, shape): a Source of the test's device."""
    made: list[Source] = []

    def begin(*arguments: Any) -> Source:
        made.append(Source(device, *arguments))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def noise(count: int, channels: int = 4, kind: Any = np.uint8, shape: tuple[int, int] = SHAPE) -> list[Any]:
    generator = np.random.default_rng(count)
    return [generator.integers(0, np.iinfo(kind).max, (*shape, channels), kind, endpoint=True) for _ in range(count)]


def plain(*colours: tuple[int, int, int]) -> list[Any]:
    return [np.broadcast_to(np.array([*each, 255], np.uint8), (*SHAPE, 4)).copy() for each in colours]


def recorded(source: Source, path: Path, pictures: list[Any], **options: Any) -> view.RecordingStatistics:
    """Record these pictures, each of them."""
    with view.record(source.receiver, path, drop=False, frames=len(pictures), **options) as recorder:
        source.send(*pictures)
        assert recorder.wait(HANG)
    return recorder.statistics()


# ---- pixels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "channels", "kind"),
    [
        ("rgba8unorm", 4, np.uint8),
        ("bgra8unorm", 4, np.uint8),
        ("r8unorm", 1, np.uint8),
        ("rg8unorm", 2, np.uint8),
        ("r16unorm", 1, np.uint16),
        ("rgba16unorm", 4, np.uint16),
    ],
)
@pytest.mark.parametrize("name", ["out.mkv", "out-%03d.png"])
def test_a_lossless_file_has_each_pixel_of_each_frame(
    pipe: Any, tmp_path: Path, form: str, channels: int, kind: Any, name: str
) -> None:
    pictures = noise(4, channels, kind)
    counts = recorded(pipe(form), tmp_path / name, pictures)
    assert (counts.frames, counts.is_lossless, counts.format) == (4, True, form)
    found = pixels_of(tmp_path / name, form)
    assert len(found) == len(pictures)
    for wanted, got in zip(pictures, found, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_one_png_is_the_first_frame(pipe: Any, tmp_path: Path) -> None:
    source, pictures = pipe(), noise(2)
    with view.record(source.receiver, tmp_path / "out.png") as recorder:
        source.send(*pictures)
        assert recorder.wait(HANG)
    (found,) = pixels_of(tmp_path / "out.png", "rgba8unorm")
    np.testing.assert_array_equal(found, pictures[0])
    assert [each.name for each in tmp_path.iterdir()] == ["out.png"]


@pytest.mark.parametrize(
    ("name", "codec"),
    [("o.mp4", None), ("o.mp4", "vp9"), ("o.webm", None), ("o.mkv", "h264"), ("o.gif", None)],
)
def test_a_video_has_the_colours_of_its_frames_and_says_by_which_matrix(
    pipe: Any, tmp_path: Path, av: Any, name: str, codec: str | None
) -> None:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (30, 30, 30)]
    counts = recorded(pipe(), tmp_path / name, plain(*colours), codec=codec)
    assert (counts.frames, counts.is_lossless) == (5, False)
    for colour, got in zip(colours, colours_of(tmp_path / name), strict=True):
        assert np.abs(got.astype(int) - colour).max() <= 6, colour
    with av.open(str(tmp_path / name)) as file:
        first = next(file.decode(video=0))
        if not name.endswith(".gif"):
            assert (first.colorspace, first.color_range) == (1, 1)  # FFmpeg's numbers of BT.709 and limited range
            assert (first.color_primaries, first.color_trc) == (1, 1)


@pytest.mark.parametrize("name", ["o.mp4", "o.webm", "o.mkv", "o.gif"])
def test_a_size_that_is_odd_keeps_its_pixels(pipe: Any, tmp_path: Path, av: Any, name: str) -> None:
    recorded(pipe(), tmp_path / name, plain((9, 90, 200)))
    with av.open(str(tmp_path / name)) as file:
        stream = file.streams.video[0]
        size = stream.codec_context.height, stream.codec_context.width
    assert size == ((48, 66) if name == "o.mp4" else SHAPE)  # h264 with 4:2:0 has even sizes only


# ---- times and counts --------------------------------------------------------------------------------------------


def stamped(*stamps: tuple[int, int]) -> Any:
    """Return a stand-in for Source.stamp(), which gives these (serial, nanoseconds) one by one."""
    left = iter(stamps)
    return lambda self, metadata: next(left)


@pytest.mark.parametrize(("name", "tick"), [("o.mp4", 1e-4), ("o.webm", 1e-3), ("o.mkv", 1e-3), ("o.gif", 1e-2)])
def test_frames_keep_their_times_and_gaps_in_their_numbers_are_counted(
    pipe: Any, tmp_path: Path, monkeypatch: Any, name: str, tick: float
) -> None:
    start = time.monotonic_ns() - 4_000_000_000
    times = [0.0, 0.1, 0.15, 1.0, 1.02, 3.0]
    serials = [5, 6, 8, 9, 12, 13]
    stamps = [(serial, start + round(at * 1e9)) for serial, at in zip(serials, times, strict=True)]
    monkeypatch.setattr(sources.Source, "stamp", stamped(*stamps))
    counts = recorded(pipe(), tmp_path / name, noise(len(times)))
    assert (counts.frames, counts.missing, counts.dropped, counts.skipped) == (6, 3, 0, 0)
    assert shown_at(tmp_path / name) == pytest.approx(times, abs=tick)


def test_a_rate_keeps_to_its_grid_and_counts_what_it_skips(pipe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    start = time.monotonic_ns() - 4_000_000_000
    stamps = [(number, start + number * 10_000_000) for number in range(1, 41)]  # 100 frames a second
    monkeypatch.setattr(sources.Source, "stamp", stamped(*stamps))
    source = pipe()
    with view.record(source.receiver, tmp_path / "o.mkv", rate=25, drop=False, frames=10) as recorder:
        for picture in noise(1) * 37:
            source.send(picture)
        assert recorder.wait(HANG)
    counts = recorder.statistics()
    assert (counts.frames, counts.skipped, counts.missing) == (10, 27, 0)
    assert shown_at(tmp_path / "o.mkv") == pytest.approx([number * 0.04 for number in range(10)], abs=1e-3)


def test_an_encoder_that_is_behind_drops_frames_which_are_counted_and_holds_up_no_sender(
    pipe: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    import threading

    may_write = threading.Event()
    write = recording_threads.Recording._write

    def slow(self: Any, picture: Any) -> None:
        assert may_write.wait(HANG)
        write(self, picture)

    monkeypatch.setattr(recording_threads.Recording, "_write", slow)
    monkeypatch.setattr(recording_threads, "_BACKLOG_PICTURES", 4)
    source, pictures = pipe(), noise(30)
    with view.record(source.receiver, tmp_path / "o.mkv") as recorder:
        source.send(*pictures)  # none of them waits for the encoder
        source.sender.close()
        deadline = time.monotonic() + HANG
        while recorder._recording._threads[0].is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        may_write.set()
        assert recorder.wait(HANG)
    counts = recorder.statistics()
    assert counts.frames + counts.dropped == len(pictures)
    assert counts.dropped >= 30 - 4 - 1
    assert counts.most_waiting <= 4
    assert counts.end == "the source ended"
    np.testing.assert_array_equal(pixels_of(tmp_path / "o.mkv", "rgba8unorm")[0], pictures[0])


def test_without_dropping_each_frame_is_recorded(pipe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(recording_threads, "_BACKLOG_PICTURES", 2)
    pictures = noise(rounds(500, 30))
    assert recorded(pipe(), tmp_path / "o.mkv", pictures).frames == len(pictures)


def test_a_surface_is_watched_and_its_owner_goes_on(device: vks.Device, tmp_path: Path) -> None:
    pictures = noise(3)
    with (
        device.create_surface(SHAPE[1], SHAPE[0]) as surface,
        view.record(surface, tmp_path / "o.mkv", seconds=HANG) as recorder,
    ):
        for number, picture in enumerate(pictures, 1):
            with surface.access(acquire=0, release=0):
                surface.write(picture)
            deadline = time.monotonic() + HANG
            while recorder.statistics().frames < number:
                assert time.monotonic() < deadline
                time.sleep(0.005)
    np.testing.assert_array_equal(pixels_of(tmp_path / "o.mkv", "rgba8unorm")[-1], pictures[-1])


def test_a_source_that_changes_its_size_is_recorded_as_pngs_and_ends_a_video(
    device: vks.Device, tmp_path: Path
) -> None:
    def frames(recorder: view.Recorder, swapchain: Any, until: int) -> None:
        deadline = time.monotonic() + HANG
        while recorder.statistics().frames < until and not recorder._recording.over.is_set():
            assert time.monotonic() < deadline
            with swapchain.frame() as frame:
                device.submit(device.record().clear(frame.view, (1, 0, 0, 1)))
            time.sleep(0.005)

    for name in ("o-%d.png", "o.mkv"):
        with device.create_swapchain(vks.Headless(40, 30)) as swapchain:
            recorder = view.record(swapchain, tmp_path / name)
            frames(recorder, swapchain, 2)
            swapchain.retarget(vks.Headless(24, 20))
            frames(recorder, swapchain, 6)
            if name.endswith("png"):
                recorder.close()
                sizes = [each.shape[:2] for each in pixels_of(tmp_path / name, "rgba8unorm")]
                assert [size for size, _ in itertools.groupby(sizes)] == [(30, 40), (20, 24)]
            else:
                assert recorder._recording.over.wait(HANG)
                with pytest.raises(UnsupportedError, match=r"became 24x20 .* frames of 40x30"):
                    recorder.close()
                assert len(pixels_of(tmp_path / name, "rgba8unorm")) >= 2


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["o.mp4", "o.webm", "o.mkv", "o.gif"])
def test_close_completes_the_file_and_is_idempotent(pipe: Any, tmp_path: Path, name: str) -> None:
    source, before = pipe(), open_fds()
    recorder = view.record(source.receiver, tmp_path / name, drop=False)
    source.send(*noise(7))
    while recorder.statistics().frames < 7:
        time.sleep(0.005)
    recorder.close()
    recorder.close()
    assert recorder.is_closed
    assert recorder.wait(0)
    assert recorder.statistics().end == "it was closed"
    assert "7 frames, it was closed" in repr(recorder)
    assert len(pixels_of(tmp_path / name, "rgba8unorm")) == 7
    if name == "o.mp4":
        found = boxes(tmp_path / name)
        assert "moov" in found
        assert "moof" not in found  # it has one index, and is no longer in fragments
    assert open_fds() == before


def test_seconds_end_it_without_a_frame_and_there_is_no_file(pipe: Any, tmp_path: Path) -> None:
    with view.record(pipe().receiver, tmp_path / "o.mp4", seconds=0.05) as recorder:
        assert recorder.wait(HANG)
    assert recorder.statistics().end == "its seconds are over"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_oserror_that_comes_once(pipe: Any, tmp_path: Path) -> None:
    (tmp_path / "o.mkv").symlink_to("/dev/full")
    source = pipe()
    recorder = view.record(source.receiver, tmp_path / "o.mkv", force=True)
    deadline = time.monotonic() + HANG
    for picture in itertools.cycle(noise(3)):
        if recorder._recording.over.is_set():
            break
        assert time.monotonic() < deadline
        with contextlib.suppress(TimeoutError), source.sender.frame(timeout=0.05) as frame:
            frame.surface.write(picture)
    with pytest.raises(OSError, match="No space left"):
        recorder.wait(0)
    recorder.close()
    assert "No space left" in recorder.statistics().end


@pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")
def test_a_recorder_that_is_dropped_completes_its_file(pipe: Any, tmp_path: Path) -> None:
    source = pipe()
    recorder = view.record(source.receiver, tmp_path / "o.mp4", drop=False)
    source.send(*noise(5))
    while recorder.statistics().frames < 5:
        time.sleep(0.005)
    del recorder
    gc.collect()
    assert "moof" not in boxes(tmp_path / "o.mp4")
    assert len(colours_of(tmp_path / "o.mp4")) == 5


def test_a_program_that_ends_without_close_completes_its_file(device: vks.Device, tmp_path: Path) -> None:
    program = """
        import sys, numpy, vkshare
        device = vkshare.open(backend=sys.argv[1])
        sender, descriptor = vkshare.pipe(device, 64, 48)
        receiver = vkshare.open_receiver(device, descriptor)
        recorder = vkshare.view.record(receiver, sys.argv[2], drop=False)
        for number in range(5):
            with sender.frame() as frame:
                frame.surface.write(numpy.full((48, 64, 4), 40 * number, numpy.uint8))
        while recorder.statistics().frames < 5:
            pass
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), device.backend, str(tmp_path / "o.mp4")]
    subprocess.run(command, check=True, timeout=HANG)
    assert "moof" not in boxes(tmp_path / "o.mp4")
    assert len(colours_of(tmp_path / "o.mp4")) == 5


def test_a_forked_child_neither_ends_nor_waits_for_the_recording(pipe: Any, tmp_path: Path) -> None:
    source = pipe()
    with view.record(source.receiver, tmp_path / "o.mkv", drop=False, frames=6) as recorder:
        source.send(*noise(3))

        def child() -> None:
            with pytest.raises(vks.InvalidCallError):
                recorder.wait(0)

        in_child(child)
        source.send(*noise(3))
        assert recorder.wait(HANG)
    assert len(pixels_of(tmp_path / "o.mkv", "rgba8unorm")) == 6


# ---- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "kind", "words"),
    [
        ("o.avi", {}, ValueError, r"\.mp4, \.webm, \.mkv, \.gif, \.png"),
        ("o", {}, ValueError, r"\.mp4"),
        ("o-%d-%d.png", {}, ValueError, "one number"),
        ("o-%s.png", {}, ValueError, "one number"),
        ("o.mp4", {"codec": "ffv1"}, ValueError, "may have h264"),
        ("o.mp4", {"codec": "x"}, ValueError, "codec"),
        ("o.mp4", {"crf": 52}, ValueError, "crf"),
        ("o.mkv", {"crf": 1}, ValueError, "no such setting"),
        ("o.mp4", {"rate": 0}, ValueError, "rate"),
        ("o.mp4", {"seconds": -1}, ValueError, "seconds"),
        ("o.mp4", {"frames": 0}, ValueError, "frames"),
        ("missing/o.mp4", {}, FileNotFoundError, "make it first"),
        ("there.mp4", {}, FileExistsError, "force=True"),
        ("folder.mp4", {"force": True}, IsADirectoryError, "is a folder"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_made(
    pipe: Any, tmp_path: Path, name: str, options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    (tmp_path / "there.mp4").write_text("mine")
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(kind, match=words):
        view.record(pipe().receiver, tmp_path / name, **options)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder.mp4", "there.mp4"]
    assert (tmp_path / "there.mp4").read_text() == "mine"


@pytest.mark.parametrize("name", ["o.mkv", "o.mp4", "o.gif", "o.png"])
def test_a_fifo_is_refused_because_a_recording_would_wait_for_its_reader(pipe: Any, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileExistsError, match="is a FIFO"):
        view.record(pipe().receiver, tmp_path / name, force=True)


def test_a_size_that_the_codec_refuses_is_not_answered_by_the_ending_that_it_has(pipe: Any, tmp_path: Path) -> None:
    shape = (300, 1)
    source = pipe("rgba8unorm", shape)
    with view.record(source.receiver, tmp_path / "o.mkv", drop=False, frames=1) as recorder:
        source.send(*noise(1, shape=shape))
        with pytest.raises(UnsupportedError, match="take another size"):
            recorder.wait(HANG)


def test_a_picture_may_have_the_longest_name_that_there_is(pipe: Any, tmp_path: Path) -> None:
    path = tmp_path / ("o" * 246 + ".png")
    recorded(pipe(), path, noise(1))
    assert path.is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(pipe: Any, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="may not be written"):
        view.record(pipe().receiver, tmp_path / "o.mp4")


def test_force_replaces_a_file(pipe: Any, tmp_path: Path) -> None:
    (tmp_path / "o.mkv").write_bytes(b"x" * 1_000_000)
    pictures = noise(2)
    recorded(pipe(), tmp_path / "o.mkv", pictures, force=True)
    np.testing.assert_array_equal(pixels_of(tmp_path / "o.mkv", "rgba8unorm"), pictures)


def test_a_source_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        view.record(7, tmp_path / "o.mp4")
    with pytest.raises(FileNotFoundError, match="no process of this user has published"):
        view.record("no name at all", tmp_path / "o.mp4")
