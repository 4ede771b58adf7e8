"""`vkshare demo video`: three processes, and each frame of the video with the number that came beside it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the demo needs Pillow")

from support.demo_runs import demo, on, picture
from support.recorded_files import need_av

import vkshare as vks
from vkshare.demos import video, video_parts
from vkshare.demos.video_parts import CLIP_FRAMES, CLIP_SIZE

pytestmark = [pytest.mark.program, pytest.mark.slow, pytest.mark.rule("Y6", "Y8")]


@pytest.mark.every_driver
def test_both_are_shown_in_order(vks_adapter: vks.Adapter, tmp_path: Path) -> None:
    need_av()
    if "i420" not in vks_adapter.capabilities.formats:
        pytest.skip(f"no i420: {vks_adapter.capabilities.reasons['format i420']}")
    output = tmp_path / "out.png"
    size = ("--size", "480x270", "--headless", "--frames", "60")
    done = demo("video", *on(vks_adapter), *size, "--json", "--output", str(output))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["checked"] >= 2
    assert report["video_format"] == "i420"
    where = video.places(480, 270)
    pixels = picture(output)
    for x, y, width, height in (where.scene, where.video):
        part = pixels[y : y + height, x : x + width]
        assert len(np.unique(part.reshape(-1, 4), axis=0)) > 100


def test_each_frame_of_the_clip_has_its_number(vks_device: vks.Device) -> None:
    with vks_device.create_surface(*CLIP_SIZE) as surface, surface.access():
        for number in (0, 1, 77, CLIP_FRAMES - 1):
            vks_device.submit(video_parts.picture(vks_device, surface, number))
            assert video.read_squares(surface.read()) == number


@pytest.mark.no_driver
def test_a_decoder_that_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    need_av()
    from vkshare.demos.process import DemoError
    from vkshare.demos.stage import StageOptions, opened

    options = StageOptions(320, 180, None, headless=True, backend="cpu")
    seen = []

    def draw(self: video._Showing, frame: vks.Frame, number: int, seconds: float) -> None:
        if not seen:
            seen.append(self._video.child.process.pid)
            os.kill(seen[0], signal.SIGKILL)
        self._video.take()

    monkeypatch.setattr(video._Showing, "draw", draw)
    with (
        opened(options, "a video") as stage,
        pytest.raises(DemoError, match=r"decoder process .* was killed by SIGKILL"),
    ):
        video.run(stage, options)


@pytest.mark.parametrize("size", [(1280, 720), (640, 640), (300, 900), (200, 100)])
def test_nothing_overlaps_at_any_size(size: tuple[int, int]) -> None:
    where = video.places(*size)
    assert where.scene[0] + where.scene[2] <= where.video[0]
    for x, y, width, height in where:
        assert x >= 0
        assert y >= 0
        assert x + width <= size[0]
        assert y + height <= size[1]
        assert min(width, height) > 0
