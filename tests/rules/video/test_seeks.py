"""Seeks in files whose containers mislead: no keyframe where they jump to, and durations that are a guess. Rule Y4."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import video_files
from support.recorded_files import need_av
from support.video_files import RATE, Kind

import vkshare as vks
from vkshare.errors import VideoError

pytestmark = [pytest.mark.rule("Y4"), pytest.mark.no_driver]

FRAMES = 60
B_FRAMES = (("preset", "veryfast"), ("bf", "3"), ("g", "25"))
OPEN_GOP = (*B_FRAMES, ("x264-params", "open-gop=1"))
HEVC = (("preset", "ultrafast"), ("x265-params", "log-level=none:keyint=25:bframes=3"))
KINDS = {
    "transport stream": Kind(".ts", "libx264", "yuv420p", B_FRAMES),
    "open GOPs": Kind(".mp4", "libx264", "yuv420p", OPEN_GOP),
    "open GOPs, transport stream": Kind(".ts", "libx264", "yuv420p", OPEN_GOP),
    "HEVC, transport stream": Kind(".ts", "libx265", "yuv420p", HEVC),
    "MPEG-2, program stream": Kind(".mpg", "mpeg2video", "yuv420p", (("bf", "2"), ("g", "12"))),
    "AVI": Kind(".avi", "libx264", "yuv420p", (*B_FRAMES[:1], ("bf", "0"), ("g", "25"))),
}


def lumas(reader: vks.video.Reader) -> dict[Fraction, np.ndarray[Any, Any]]:
    return {frame.pts: frame.surface.read_planes()[0] for frame in reader}


@pytest.mark.parametrize("name", KINDS)
def test_each_seek_gives_the_frame_that_is_shown_then(vks_device: vks.Device, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"clip{KINDS[name].suffix}"
    video_files.make(path, KINDS[name], FRAMES)
    with vks.video.open(path, vks_device) as reader:
        frames = lumas(reader)
        assert len(frames) == FRAMES
        for number in (0, 1, 13, 26, 49, 55, 59):
            pts = sorted(frames)[number]
            reader.seek(pts + Fraction(1, 3 * RATE))
            with reader.frame(60) as frame:
                assert frame.pts == pts
                assert np.array_equal(frame.surface.read_planes()[0], frames[pts])
        assert reader.damaged == 0


TIMES = [0, 50, 100, 3000, 3010, 3020, 10_000, 10_030, 20_000, 20_040]  # milliseconds


def uneven(path: Path, encoder: str, options: dict[str, str]) -> None:
    """A file whose frames are shown from TIMES on."""
    with need_av().open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = video_files.WIDTH, video_files.HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(TIMES):
            frame = video_files.picture(number, "yuv420p")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
@pytest.mark.parametrize("b_frames", ["0", "3"])
def test_frames_that_are_not_evenly_spaced_are_shown_until_the_next_one(
    vks_device: vks.Device, tmp_path: Path, suffix: str, b_frames: str
) -> None:
    path = tmp_path / f"uneven{suffix}"
    uneven(path, "libx264", {"preset": "veryfast", "bf": b_frames})
    times = [Fraction(time, 1000) for time in TIMES]
    with vks.video.open(path, vks_device) as reader:
        spans = [(frame.pts, frame.duration) for frame in reader]
        assert [pts for pts, _ in spans] == times
        assert [pts + length for pts, length in spans[:-1]] == times[1:]
        for number, pts in enumerate(times[:-1]):
            for position in (pts, float(pts), (pts + times[number + 1]) / 2):
                reader.seek(position)
                with reader.frame(60) as frame:
                    assert frame.pts == pts


def test_a_recording_that_begins_between_keyframes_opens_at_the_first_picture(
    vks_device: vks.Device, tmp_path: Path
) -> None:
    path = tmp_path / "broadcast.ts"
    video_files.make(path, KINDS["transport stream"], FRAMES)
    packets = [path.read_bytes()[at : at + 188] for at in range(0, path.stat().st_size, 188)]
    starts = [
        number for number, packet in enumerate(packets) if packet[1] & 0x40 and packet[2] == 0x00 and packet[1] & 1
    ]
    path.write_bytes(b"".join(packets[:3] + packets[starts[5] :]))
    with vks.video.open(path, vks_device) as reader:
        with contextlib.suppress(VideoError), reader.frame(60):  # it is said once, if at all
            pass
        assert len(list(reader)) >= 30
        assert reader.damaged <= 1


def test_an_edit_list_that_leaves_frames_out_is_no_damage(vks_device: vks.Device, tmp_path: Path) -> None:
    path = tmp_path / "trimmed.mp4"
    video_files.make(path, KINDS["open GOPs"], FRAMES)
    data = bytearray(path.read_bytes())
    at = data.index(b"elst")
    assert data[at + 4] == 0  # version 0: a count, then durations of 32 bits
    length = int.from_bytes(data[at + 12 : at + 16], "big")
    data[at + 12 : at + 16] = (length // 2).to_bytes(4, "big")
    path.write_bytes(data)
    with vks.video.open(path, vks_device) as reader:
        assert FRAMES // 2 - 4 <= len(list(reader)) <= FRAMES // 2 + 4
        assert reader.damaged == 0
