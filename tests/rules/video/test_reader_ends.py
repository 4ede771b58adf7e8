"""Readers that Ctrl-C ends between any two steps, and processes of readers that are killed. Rule Y4."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import video_files
from support.ctrl_c import CtrlC, at_any_place
from support.fd_counts import open_fds
from support.peer_processes import Peer
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import wait_until
from support.video_files import KINDS

import vkshare as vks

pytest_plugins = ["support.peer_processes"]

pytestmark = [
    pytest.mark.rule("Y4"),
    unhurried,
    pytest.mark.program,
    pytest.mark.every_driver,  # in `make test-full`
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # it came in a destructor
]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    video_files.make(path, KINDS["h264-mp4"])
    return path


def _threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "vkshare video"]


def _open(device: vks.Device, clip: Path, form: str) -> vks.video.Reader:
    return vks.video.open(clip, device, form, read_ahead=2, hardware=False)


def _watch(reader: vks.video.Reader) -> None:
    """Frames as they come, and after a seek."""
    with reader:
        for _ in range(3):
            with reader.frame(30) as frame:
                assert frame.surface.width == video_files.WIDTH
        reader.seek(0.2)
        with reader.frame(30), reader.frame(30):
            pass


@at_any_place
@pytest.mark.parametrize("form", ["auto", "rgba8unorm"])
def test_whenever_ctrl_c_comes_the_thread_ends_and_nothing_is_left(
    vks_open: Callable[[], vks.Device], clip: Path, form: str
) -> None:
    def watched_at(device: vks.Device, place: int) -> CtrlC:
        reader = _open(device, clip, form)
        with contextlib.suppress(KeyboardInterrupt), CtrlC(place) as ctrl_c:
            _watch(reader)
        reader.close()
        assert not _threads(), f"place {place}"
        return ctrl_c

    with vks_open() as device:
        places = watched_at(device, 0).places
    assert places > 200
    gc.collect()
    before = len(open_fds())
    with vks_open() as device:
        times = rounds(places, 15, full=200)
        for place in range(1, places + 1, max(1, places // times)):
            watched_at(device, place)
            gc.collect()
            device.record()  # what was destroyed is freed
            assert device.statistics().surfaces == 0, f"place {place}"
    gc.collect()
    wait_until(lambda: len(open_fds()) <= before)  # on Vulkan what was interrupted is destroyed with the device


@at_any_place
def test_after_ctrl_c_in_open_no_thread_and_no_surface_is_left(vks_device: vks.Device, clip: Path) -> None:
    with CtrlC(0) as counted:
        _open(vks_device, clip, "rgba8unorm").close()
    times = rounds(counted.places, 10, full=200)
    for n in range(times):
        place = 1 + n * counted.places // times
        with contextlib.suppress(KeyboardInterrupt), CtrlC(place):
            _open(vks_device, clip, "rgba8unorm").close()
        gc.collect()
        wait_until(lambda: not _threads())
        vks_device.record()
        assert vks_device.statistics().surfaces == 0, f"place {place}"


def test_a_signal_ends_the_wait_for_a_frame_and_the_reader_goes_on(vks_device: vks.Device, clip: Path) -> None:
    with vks.video.open(clip, vks_device) as reader:
        frames = len(list(reader))
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            with pytest.raises(KeyboardInterrupt):
                _seek_for_ever(reader)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        reader.seek(0)
        assert len(list(reader)) == frames


def _seek_for_ever(reader: vks.video.Reader) -> None:
    while True:
        reader.seek(0)
        with reader.frame(30):
            pass


# ---- processes of readers -------------------------------------------------------------------------------------------

_WATCH = 2  # fds of the thread that waits for owners to die, which begins with the first wait


def _play_into(surface: vks.Surface, path: str) -> None:
    """In another process: each frame of the clip, for ever."""
    device = surface.device
    with vks.video.open(path, device, "rgba8unorm", loop=True, hardware=False) as clip:
        for frame in clip:
            with surface.access(0, 0, 30):
                device.submit(device.record().copy(frame.surface, surface))


def test_a_process_that_is_killed_while_it_decodes_leaves_a_whole_frame_or_an_abandoned_surface(
    vks_device: vks.Device, peers: Callable[..., Peer], clip: Path
) -> None:
    with vks.video.open(clip, vks_device, "rgba8unorm", hardware=False) as reader:
        frames = [frame.surface.read() for frame in reader]
    size = video_files.WIDTH, video_files.HEIGHT
    dice, seen, before = seeded(), Counter[str](), 0
    with vks_device.create_surface(*size) as surface:
        for _ in range(rounds(1500, 6, full=60)):
            with surface.access():
                vks_device.submit(vks_device.record().clear(surface, (0, 0, 0, 0)))
            peer = peers(validation=False)
            with surface.export() as descriptor:
                theirs = peer.open(vks_device.adapter, validation=False).open_surface(descriptor)
            peer.later(_play_into, theirs, str(clip))
            wait_until(partial(_is_drawn, surface))
            time.sleep(dice.uniform(0, 0.05))
            peer.kill()
            seen[_look(surface, frames)] += 1
            peer.end()
            before = before or len(open_fds()) + _WATCH
            wait_until(partial(_has_at_most, before))
    print(dict(seen))


def _has_at_most(fds: int) -> bool:
    return len(open_fds()) <= fds


def _is_drawn(surface: vks.Surface) -> bool:
    with surface.access(0, 0, 30):
        return bool(surface.read().any())


def _look(surface: vks.Surface, frames: list[np.ndarray[Any, Any]]) -> str:
    try:
        with surface.access(0, 0, 30):
            pixels = surface.read()
    except vks.AbandonedError:
        surface.recover(30)
        surface.release(0)
        return "abandoned"
    assert any(np.array_equal(pixels, each) for each in frames), "a torn frame"
    return "whole"
