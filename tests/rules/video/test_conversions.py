"""Frames in other formats than the file's: the device's conversion against FFmpeg's swscale. Rule Y3."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import video_files
from support.recorded_files import need_av
from support.video_files import FRAMES, KINDS

import vkshare as vks

pytestmark = [pytest.mark.rule("Y3"), pytest.mark.slow]

SIZE = (320, 180)
KINDS_IN_PLANES = {  # the surfaces' format, and the siting of chroma that swscale knows or takes
    "h264-mp4": ("i420", "left"),
    "h264-10bit": ("p010", "left"),
    "h264-444": ("yuv444p", "left"),
    "vp9-webm": ("i420", "center"),
    "ffv1-422": ("nv16", "center"),
    "mjpeg-avi": ("i420", "center"),
}


def by_swscale(path: Path) -> np.ndarray[Any, Any]:
    """Each frame in R'G'B', with chroma for each pixel, as exact as swscale is."""
    av = need_av()
    from av.video import reformatter as to

    exact = to.Interpolation.BILINEAR | to.Interpolation.ACCURATE_RND | to.Interpolation.FULL_CHR_H_INT
    with av.open(str(path)) as file:
        frames = [
            frame.reformat(format="rgb24", interpolation=exact, dst_color_range=to.ColorRange.JPEG).to_ndarray()
            for frame in file.decode(video=0)
        ]
    return np.stack(frames)


@pytest.mark.parametrize("name", KINDS_IN_PLANES)
def test_a_clip_in_rgb_has_the_colours_that_swscale_makes_of_it(
    vks_device: vks.Device, tmp_path: Path, name: str
) -> None:
    form, siting = KINDS_IN_PLANES[name]
    if form not in vks_device.capabilities.formats:
        pytest.skip(f"no {form}: {vks_device.capabilities.reasons[f'format {form}']}")
    path = tmp_path / ("clip" + KINDS[name].suffix)
    video_files.make(path, KINDS[name], size=SIZE)
    with vks.video.open(path, vks_device, hardware=False) as clip:
        assert clip.format == form
        color = dataclasses.replace(clip.color, siting=siting)
    with vks.video.open(path, vks_device, "rgba8unorm", color=color, hardware=False) as clip:
        ours = np.stack([frame.surface.read() for frame in clip])
    theirs = by_swscale(path)
    assert len(ours) == len(theirs) == FRAMES
    assert np.abs(ours[..., :3].astype(int) - theirs).max() <= 1
    assert (ours[..., 3] == 255).all()
