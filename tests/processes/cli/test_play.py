"""`vkshare play`: a video in a window, and headless."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL", reason="pictures of what is shown need Pillow")

from support import video_files
from support.demo_runs import on, picture
from support.private_displays import XDisplay, wait_for, without_displays
from support.video_files import FRAMES, KINDS

import vkshare as vks
from vkshare.cli import main

pytest_plugins = ["support.private_displays"]
pytestmark = [pytest.mark.program, pytest.mark.slow, pytest.mark.rule("Y6")]


def play(*arguments: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, without a display."""
    command = [sys.executable, "-m", "vkshare", "play", *arguments]
    environment = without_displays(dict(os.environ))
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """Twelve frames of 64x48, at 25 a second."""
    path = tmp_path / "clip.mkv"
    video_files.make(path, KINDS["ffv1-rgb"])
    return path


@pytest.mark.every_driver
def test_the_last_picture_is_that_of_the_file(vks_adapter: vks.Adapter, clip: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.png"
    done = play(str(clip), "--headless", *on(vks_adapter), "--size", "64x48", "--output", str(output))
    assert f"{clip}: 64x48 ffv1, 25 frames a second, 0.5 s; rgba8unorm" in done.stdout
    assert "frames shown" in done.stdout
    bgra = video_files.decoded(clip)[-1][0].reshape(48, 64, 4)
    assert np.array_equal(picture(output)[..., :3], bgra[..., [2, 1, 0]])


@pytest.mark.every_driver
@pytest.mark.parametrize(("rotation", "turned"), [(90, 1), (180, 2), (-90, 3)])
def test_a_picture_is_turned_as_the_file_says(
    vks_adapter: vks.Adapter, tmp_path: Path, rotation: int, turned: int
) -> None:
    path, output = tmp_path / "turned.mov", tmp_path / "out.png"
    frames = _rotated(path, rotation)
    play(str(path), "--headless", *on(vks_adapter), "--seconds", "60", "--output", str(output))
    shown = picture(output)[..., :3].astype(int)
    expected = np.rot90(frames[-1], turned).astype(int)
    times = shown.shape[0] // expected.shape[0]
    assert times >= 1
    inside = shown.shape[1] // times * times
    assert (
        np.abs(shown[::times, :inside:times][: expected.shape[0], : expected.shape[1]] - expected) <= 2
    ).mean() > 0.95


def _rotated(path: Path, rotation: int) -> list[np.ndarray[Any, Any]]:
    """Writes a lossless file of RGB that is to be turned, and returns its pictures."""
    import av

    frames = []
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "rgb24"
        stream.set_display_rotation(rotation)
        for number in range(3):
            pixels = np.zeros((48, 64, 3), np.uint8)
            pixels[:24, :32] = (250, 20 * number, 0)
            pixels[24:, 32:] = (0, 0, 250)
            pixels[:24, 32:] = (0, 200, 0)
            frames.append(pixels)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return frames


def test_the_counters_are_printed_as_json(clip: Path) -> None:
    report = json.loads(play(str(clip), "--headless", "--backend", "cpu", "--json", "--rate", "0.5").stdout)
    assert report["shown"] + report["dropped"] == FRAMES
    assert report["damaged"] == 0


def test_it_ends_so_long_after_its_first_picture(clip: Path, tmp_path: Path) -> None:
    for seconds in ("0.001", "0.3"):
        picture = tmp_path / f"{seconds}.png"
        play(str(clip), "--headless", "--backend", "cpu", "--loop", "--seconds", seconds, "--output", str(picture))
        assert picture.exists()


def test_wrong_arguments_are_named(clip: Path, tmp_path: Path) -> None:
    assert "No such file" in play(str(tmp_path / "none.mp4"), "--headless", expected=2).stderr
    (tmp_path / "text.mp4").write_text("no video")
    refused = play(str(tmp_path / "text.mp4"), "--headless", expected=1).stderr
    assert "text.mp4: it cannot be read as a video or a picture: allowed are mp4" in refused
    assert "Traceback" not in refused
    assert "no display" in play(str(clip), expected=2).stderr
    assert "--start: '-1' is not a number of seconds" in play(str(clip), "--start=-1", expected=2).stderr
    assert "rate is 0" in play(str(clip), "--headless", "--rate", "0", expected=2).stderr


def start(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "vkshare", "play", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_window_shows_the_video_until_ctrl_c(x11: XDisplay, clip: Path) -> None:
    with start([str(clip), "--backend", "cpu", "--loop"], x11.environment) as program:
        window = wait_for(lambda: next((each for each in x11.windows() if x11.title(each) == "clip.mkv"), 0), "it", 60)
        wait_for(lambda: len(np.unique(x11.picture(window)[::4, ::4, 0])) > 5, "a picture", 60)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=30)
    assert (program.returncode, err) == (0, "")
    assert "frames shown" in out


def test_help_names_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["play", "--help"])
    assert "Space pauses" in " ".join(capsys.readouterr().out.split())
